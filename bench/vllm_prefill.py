"""Prefill end to end in vLLM on a CPU: vLLM's own backend and libmla, in processes that take turns.

docs/vllm.md has what it printed. Greedy tokens must be the same before a time counts.

    python bench/vllm_prefill.py [--row CPU:avx2] [--threads 2] [--tokens 2000,3900]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# transformers.py beside this file is not the library: this folder must not come first.
sys.path = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]

CONFIG = {
    "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "vocab_size": 1024,
    "hidden_size": 2048, "intermediate_size": 2048, "moe_intermediate_size": 64,
    "num_hidden_layers": 4, "first_k_dense_replace": 4, "n_routed_experts": 4,
    "n_shared_experts": 1, "num_experts_per_tok": 2, "num_attention_heads": 16,
    "num_key_value_heads": 16, "q_lora_rank": None, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "max_position_embeddings": 8192,
    "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
    "tie_word_embeddings": False,
}  # fmt: skip


def run(model: str, out: str, tokens: str, dtype: str, repeats: int) -> None:
    """In a process of its own: seconds of one-token generations, by prompt length."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=model, load_format="dummy", skip_tokenizer_init=True, dtype=dtype, seed=0,
        max_model_len=8192, enforce_eager=True, attention_backend="CPU_MLA", max_num_seqs=1,
        enable_prefix_caching=False,
    )  # fmt: skip
    sampling = SamplingParams(temperature=0.0, max_tokens=1, ignore_eos=True, detokenize=False)
    numbers = random.Random(0)
    answer: dict[str, Any] = {}
    for length in map(int, tokens.split(",")):
        seconds, first = [], []
        for _ in range(repeats + 1):
            prompt = {"prompt_token_ids": [numbers.randrange(3, 1000) for _ in range(length)]}
            begin = time.perf_counter()
            result = llm.generate([prompt], sampling, use_tqdm=False)
            seconds.append(time.perf_counter() - begin)
            first.append(list(result[0].outputs[0].token_ids))
        answer[str(length)] = {"seconds": seconds[1:], "tokens": first}
    Path(out).write_text(json.dumps(answer))


def measure(options: argparse.Namespace, folder: Path, libmla: bool) -> dict[str, Any]:
    out = folder / "out.json"
    environment = {
        **os.environ, "LIBMLA_VLLM": "1" if libmla else "0", "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": str(options.threads),
        "LIBMLA_VLLM_BACKEND": options.row or "",
    }  # fmt: skip
    command = [
        sys.executable, __file__, "--run", str(folder), str(out), options.tokens, options.dtype,
        str(options.repeats),
    ]  # fmt: skip
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit((done.stdout + done.stderr)[-4000:])
    used = "Using LIBMLA MLA prefill backend" in done.stdout + done.stderr
    assert used == libmla, "the other backend ran"
    answer: dict[str, Any] = json.loads(out.read_text())
    return answer


def main() -> None:
    if sys.argv[1:2] == ["--run"]:
        model, out, tokens, dtype, repeats = sys.argv[2:]
        return run(model, out, tokens, dtype, int(repeats))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--row", help="the row to run on; default: selected")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--tokens", default="2000,3900")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2, help="processes of each kind")
    options = parser.parse_args()
    seconds: dict[tuple[bool, str], list[float]] = {}
    tokens: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "config.json").write_text(json.dumps(CONFIG))
        for _ in range(options.rounds):
            for libmla in (False, True):
                for length, answer in measure(options, Path(name), libmla).items():
                    seconds.setdefault((libmla, length), []).extend(answer["seconds"])
                    same = tokens.setdefault(length, answer["tokens"]) == answer["tokens"]
                    assert same, f"other tokens after {length}"
    print(f"row {options.row or 'selected'}, {options.threads} threads, {options.dtype}\n")
    print("| prompt tokens | vLLM, ms | with libmla, ms | times faster |\n|---|---|---|---|")
    for length in options.tokens.split(","):
        stock, ours = (statistics.median(seconds[kind, length]) for kind in (False, True))
        print(f"| {length} | {stock * 1e3:.0f} | {ours * 1e3:.0f} | {stock / ours:.2f} |")


if __name__ == "__main__":
    main()
