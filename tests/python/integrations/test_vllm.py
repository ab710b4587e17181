"""vLLM end to end on a tiny random model: the greedy tokens of Transformers' eager attention, from
stock vLLM, with libmla, and with libmla, chunked prefill and prefix caching."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

WANTED = [name for name in ("torch", "vllm") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(WANTED), reason=f"not installed: {', '.join(WANTED)}")

CONFIG = {
    "architectures": ["DeepseekV2ForCausalLM"],
    "model_type": "deepseek_v2",
    "vocab_size": 512,
    "hidden_size": 256,
    "intermediate_size": 256,
    "moe_intermediate_size": 64,
    "num_hidden_layers": 2,
    "first_k_dense_replace": 2,
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "q_lora_rank": None,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}
SEED = 1  # of the first 60 the one with the widest least margin, 0.08
RUN = Path(__file__).with_name("vllm_run.py")


PROMPT_LENGTHS = (300, 17, 1000, 1)
STEPS = 8
MARGIN = 0.06  # of a greedy token over the second best, in every step
NOISE = 1e-4  # what log-probabilities may differ by between two ways to compute them


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights so large that attention decides the tokens; vLLM's dummy ones are so small
    that a token decides its successor. The seed is one with wide margins (checked below)."""
    import torch
    from transformers import DeepseekV2Config, DeepseekV2ForCausalLM

    path = tmp_path_factory.mktemp("model")
    torch.manual_seed(SEED)
    sizes = {key: value for key, value in CONFIG.items() if key not in ("architectures", "model_type")}
    DeepseekV2ForCausalLM(DeepseekV2Config(**sizes, initializer_range=0.15)).save_pretrained(path)
    (path / "config.json").write_text(json.dumps(CONFIG))
    numbers = random.Random(0)
    prompts = [[numbers.randrange(3, 500) for _ in range(length)] for length in PROMPT_LENGTHS]
    (path / "prompts.json").write_text(json.dumps(prompts))
    return path


@pytest.fixture(scope="module")
def expected(model: Path) -> dict[str, Any]:
    """Greedy tokens and the two best log-probabilities of each step from Transformers' eager
    attention, which shares no code with vLLM."""
    import torch
    from transformers import AutoModelForCausalLM

    eager = AutoModelForCausalLM.from_pretrained(
        model, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    tokens, best_two = [], []
    with torch.no_grad():
        for prompt in json.loads((model / "prompts.json").read_text()):
            inputs, past = torch.tensor([prompt]), None
            tokens.append([])
            best_two.append([])
            for _ in range(STEPS):
                answer = eager(inputs, past_key_values=past, use_cache=True)
                past = answer.past_key_values
                best = answer.logits[0, -1].double().log_softmax(-1).topk(2)
                tokens[-1].append(int(best.indices[0]))
                best_two[-1].append(best.values.tolist())
                inputs = best.indices[None, :1]
    assert min(first - second for steps in best_two for first, second in steps) > MARGIN
    assert len({tuple(row) for row in tokens}) == len(PROMPT_LENGTHS)
    return {"tokens": tokens, "best_two": best_two}


def generate(model: Path, tmp_path: Path, **environment: str) -> tuple[dict[str, Any], str]:
    out = tmp_path / "out.json"
    done = subprocess.run(
        [sys.executable, str(RUN), str(model), str(model / "prompts.json"), str(out)],
        capture_output=True, text=True, check=False, timeout=900,
        # The last one lets the test ask the worker, a process of its own, for libmla's calls.
        env={**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1",
             "VLLM_NO_USAGE_STATS": "1", "VLLM_ALLOW_INSECURE_SERIALIZATION": "1", **environment},
    )  # fmt: skip
    text = done.stdout + done.stderr
    assert done.returncode == 0, text[-4000:]
    return json.loads(out.read_text()), text


def check_tokens(answer: dict[str, Any], expected: dict[str, Any]) -> None:
    """Every round has the expected tokens, with margins far above what computing differently
    changes."""
    for round_ in answer["rounds"]:
        assert round_["tokens"] == expected["tokens"]
        for got, wanted in zip(round_["best_two"], expected["best_two"], strict=True):
            for step, step_wanted in zip(got, wanted, strict=True):
                assert step[0] - step[1] > MARGIN
                assert step == pytest.approx(step_wanted, abs=NOISE)


def test_stock_vllm_gives_the_tokens_of_transformers(model, expected, tmp_path) -> None:
    answer, text = generate(model, tmp_path, LIBMLA_VLLM="0")
    check_tokens(answer, expected)
    assert "Using LIBMLA MLA prefill backend" not in text
    assert answer["calls"] is None or not any(answer["calls"].values())


def test_same_tokens_and_says_that_it_is_active(model, expected, tmp_path) -> None:
    answer, text = generate(model, tmp_path)
    check_tokens(answer, expected)
    assert "is active: MLA prefill on this CPU runs on CPU:" in text
    assert "Using LIBMLA MLA prefill backend" in text
    assert not answer["chunked"] and not answer["prefix"]
    layers, rounds = CONFIG["num_hidden_layers"], len(answer["rounds"])
    assert answer["calls"]["new_tokens"] >= layers * rounds
    assert answer["calls"]["context_chunks"] == 0
    assert answer["calls"]["left_to_vllm"] == 0


def test_same_tokens_with_chunked_prefill_and_prefix_caching(model, expected, tmp_path) -> None:
    answer, text = generate(model, tmp_path, LIBMLA_VLLM_CHUNKED_PREFILL="1", TEST_MAX_TOKENS="256")
    check_tokens(answer, expected)
    assert "(chunked prefill)" in text
    assert answer["chunked"] and answer["prefix"]
    # 300, 17 and 1,000 tokens in steps of at most 256: six steps or more, at least four of them
    # with context; the second round has all whole blocks but the last from the cache.
    layers = CONFIG["num_hidden_layers"]
    assert answer["calls"]["new_tokens"] >= 6 * layers
    assert answer["calls"]["context_chunks"] >= 4 * layers
    assert answer["calls"]["left_to_vllm"] == 0
    assert answer["rounds"][0]["cached"] == [0, 0, 0, 0]
    assert answer["rounds"][1]["cached"] == [288, 16, 992, 0]


def test_why_the_rotary_embedding_runs_in_pytorch() -> None:
    """vLLM 0.32's CPU kernel takes a 3-D tensor for [tokens, width]: given MLA's [tokens, heads,
    rope] it rotates other rows, and with k_pe's view it writes into the latents beside it. So stock
    vLLM's tokens hang on which requests share a step. When this fails vLLM has mended it, and
    vllm_run.py and docs/vllm.md need no -rotary_embedding any more."""
    code = (
        "import torch\n"
        "from vllm.config import VllmConfig, set_current_vllm_config\n"
        "from vllm.model_executor.layers.rotary_embedding import get_rope\n"
        "torch.manual_seed(0)\n"
        "with set_current_vllm_config(VllmConfig()):\n"
        "    rope = get_rope(64, max_position=64, is_neox_style=False, dtype=torch.float32,\n"
        "                    rope_parameters={'rope_type': 'default', 'rope_theta': 1e4})\n"
        "positions = torch.arange(8)\n"
        "q, latents = torch.randn(8, 4, 192), torch.randn(8, 576)\n"
        "q_pe, k_pe = q[..., 128:], latents[:, 512:].unsqueeze(1)\n"
        "want_q, want_k = rope.forward_native(positions, q_pe.clone(), k_pe.clone())\n"
        "kv_c = latents[:, :512].clone()\n"
        "got_q, got_k = rope.forward_cpu(positions, q_pe, k_pe)\n"
        "assert not torch.allclose(got_q, want_q, atol=0.1), 'queries are right'\n"
        "assert not torch.allclose(got_k, want_k, atol=0.1), 'keys are right'\n"
        "assert not torch.equal(latents[:, :512], kv_c), 'the latents are left alone'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_doctor_sees_vllm() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "libmla", "doctor", "--json"],
        capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    findings = {finding["what"]: finding for finding in json.loads(done.stdout)}
    assert findings["vLLM"]["good"], findings
    assert findings["Transformers"]["good"], findings
    off = subprocess.run(
        [sys.executable, "-m", "libmla", "doctor", "--json"],
        capture_output=True, text=True, check=True, timeout=300,
        env={**os.environ, "LIBMLA_VLLM": "0"},
    )  # fmt: skip
    findings = {finding["what"]: finding for finding in json.loads(off.stdout)}
    assert not findings["vLLM"]["good"] and "LIBMLA_VLLM=0" in findings["vLLM"]["detail"]


def test_what_libmla_does_not_take_goes_to_vllm() -> None:
    code = (
        "import torch, libmla.vllm as v\n"
        "B = v.PrefillBackend\n"
        "x = torch.randn(4, 2, 24, dtype=torch.float64)\n"
        "assert not B._takes(x, x, x)\n"
        "y = x.float()\n"
        "assert B._takes(y, y, y) and not B._takes(y, y, x)\n"
        "assert not B._takes(y[..., ::2], y[..., ::2], y)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
