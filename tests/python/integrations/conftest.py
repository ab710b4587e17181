"""Tiny random models of every family, and who can be tested here at all."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
MISSING = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
# Without them the files cannot even be imported; test_installed.py says so as a skipped test.
collect_ignore = ["test_transformers.py", "test_accelerate.py", "test_torch.py"] if MISSING else []


def pytest_collection_modifyitems(items: list[Any]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.integrations)


BASE = {
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 24,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,  # logits far enough apart that greedy tokens are no coin toss
}
MOE = {
    "moe_intermediate_size": 32,
    "n_routed_experts": 4,
    "num_experts_per_tok": 4,  # all of them: no token's route hangs on the last bit
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "n_shared_experts": 1,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "original_max_position_embeddings": 64,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "beta_fast": 32,
    "beta_slow": 1,
}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "deepseek_v2": ("DeepseekV2", {**MOE, "q_lora_rank": None}),
    "deepseek_v3": ("DeepseekV3", {**MOE, "q_lora_rank": 48, "rope_parameters": YARN}),
    "glm4_moe_lite": ("Glm4MoeLite", {**MOE, "q_lora_rank": 48}),
    "minicpm3": ("MiniCPM3", {"q_lora_rank": 48}),
    "mistral4": (
        "Mistral4",
        {**MOE, "q_lora_rank": 48, "rope_parameters": {**YARN, "llama_4_scaling_beta": 0.1}},
    ),
}


def make_model(family: str, dtype: Any, seed: int = 0) -> Any:
    import torch
    import transformers

    name, more = FAMILIES[family]
    torch.manual_seed(seed)
    config = getattr(transformers, f"{name}Config")(**BASE, **more)
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    return model.to(dtype).eval()
