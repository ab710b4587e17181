"""Prefill and decode of a random MLA model in Transformers: stock sdpa, libmla, accelerate().

Everything is measured in one run, interleaved; docs/transformers.md has what it printed. The answers
are compared before anything is timed.

    python bench/transformers.py [--row CPU:avx2] [--threads 2] [--what attention,prefill,decode]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# This file is named after what it measures: its folder must not come first.
sys.path = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]

# Read when torch loads libgomp. Unbound, both threads may spin on one core of a machine that others
# use: then every small product takes two time slices (7.5 ms), whatever it computes.
os.environ.setdefault("OMP_PROC_BIND", "true")

import torch
import torch.nn.functional as F
import transformers
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM, DynamicCache

import libmla
import libmla.transformers

HEADS, NOPE, ROPE, DV, RANK = 16, 128, 64, 128, 512


def model(layers: int, dtype: torch.dtype) -> Any:
    config = DeepseekV3Config(
        vocab_size=1024, hidden_size=2048, intermediate_size=2048, num_hidden_layers=layers,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, q_lora_rank=None, kv_lora_rank=RANK,
        qk_nope_head_dim=NOPE, qk_rope_head_dim=ROPE, v_head_dim=DV, first_k_dense_replace=layers,
        max_position_embeddings=16384,
    )  # fmt: skip
    torch.manual_seed(0)
    return DeepseekV3ForCausalLM(config).to(dtype).eval()


def interleaved(calls: dict[str, Callable[[], Any]], repeats: int) -> dict[str, float]:
    """Medians of the seconds of each call, taken in turns."""
    for call in calls.values():
        call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begin)
    return {name: statistics.median(times) for name, times in seconds.items()}


def report(title: str, seconds: dict[str, float], base: str) -> None:
    print(f"\n{title}\n")
    print("| | ms | times faster than " + base + " |")
    print("|---|---|---|")
    for name, value in seconds.items():
        print(f"| {name} | {value * 1e3:.1f} | {seconds[base] / value:.2f} |", flush=True)


@torch.no_grad()
def attention(tokens: int, dtype: torch.dtype, row: str | None, repeats: int) -> None:
    torch.manual_seed(0)
    q = torch.randn(1, HEADS, tokens, NOPE + ROPE).to(dtype)
    k = torch.randn(1, HEADS, tokens, NOPE + ROPE).to(dtype)
    kv = torch.randn(1, tokens, HEADS, NOPE + DV).to(dtype).transpose(1, 2)
    v = kv[..., NOPE:]

    def padded() -> torch.Tensor:
        wide = F.pad(v, (0, NOPE + ROPE - DV))
        return F.scaled_dot_product_attention(q, k, wide, is_causal=True)[..., :DV]

    calls = {
        "sdpa as called": lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        "sdpa, v padded by hand": padded,
        "libmla.attend_dense": lambda: libmla.attend_dense(q, k, v, backend=row),
    }
    wanted = calls["sdpa as called"]()
    for call in calls.values():
        torch.testing.assert_close(call(), wanted, rtol=2e-2, atol=2e-2)
    report(f"Attention alone, {tokens} tokens", interleaved(calls, repeats), "sdpa, v padded by hand")


@torch.no_grad()
def prefill(models: dict[str, Any], tokens: int, repeats: int) -> None:
    torch.manual_seed(1)
    ids = torch.randint(0, 1024, (1, tokens))
    calls = {name: (lambda m=m: m(ids, use_cache=True, logits_to_keep=1).logits) for name, m in models.items()}
    check(calls)
    report(f"Prefill end to end, {tokens} tokens", interleaved(calls, repeats), "sdpa")


def filled(m: Any, context: int) -> DynamicCache:
    """A cache of random latents: no prompt has to be run to measure a decode step."""
    torch.manual_seed(2)
    cache = DynamicCache(config=m.config)
    for layer in range(m.config.num_hidden_layers):
        cache.update(
            torch.randn(1, 1, context, RANK).to(m.dtype), torch.randn(1, 1, context, ROPE).to(m.dtype), layer
        )
    return cache


@torch.no_grad()
def decode(models: dict[str, Any], context: int, repeats: int) -> None:
    torch.manual_seed(1)
    token = torch.randint(0, 1024, (1, 1))
    caches = {name: filled(m, context) for name, m in models.items()}
    calls = {
        name: (lambda m=m, c=caches[name]: m(token, past_key_values=c).logits)
        for name, m in models.items()
    }
    check(calls)
    report(f"One decode step after {context} tokens", interleaved(calls, repeats), "sdpa")


def check(calls: dict[str, Callable[[], torch.Tensor]]) -> None:
    results = {name: call() for name, call in calls.items()}
    wanted = results["sdpa"].float()
    bound = 1e-3 if results["sdpa"].dtype == torch.float32 else 1e-1
    for name, got in results.items():
        error = float((got.float() - wanted).abs().max() / wanted.abs().max())
        assert error < bound, f"{name} differs from sdpa by {error}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", help="the row to run on; default: selected")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--tokens", type=int, default=2000)
    parser.add_argument("--contexts", default="2048,8192")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--what", default="attention,prefill,decode")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dtype = getattr(torch, options.dtype)
    row = options.row or libmla.select(dtype=options.dtype, platform="cpu").full_name
    libmla.transformers.register(backend=options.row)
    print(
        f"torch {torch.__version__}, transformers {transformers.__version__}, libmla "
        f"{libmla.__version__} on {row}, {options.threads} threads, {options.dtype}, "
        f"{options.layers} layers, hidden 2048, {HEADS} heads, {NOPE}/{ROPE}/{DV}, rank {RANK}"
    )
    what = options.what.split(",")
    if "attention" in what:
        attention(options.tokens, dtype, options.row, options.repeats)
    if "prefill" not in what and "decode" not in what:
        return
    models = {}
    for name in ("sdpa", "libmla", "accelerate"):
        models[name] = model(options.layers, dtype)
        if name == "accelerate":
            libmla.transformers.accelerate(models[name], backend=options.row)
        else:
            models[name].set_attn_implementation(name)
    if "prefill" in what:
        prefill(models, options.tokens, options.repeats)
    if "decode" in what:
        for context in options.contexts.split(","):
            decode(models, int(context), options.repeats)


if __name__ == "__main__":
    main()
