"""attn_implementation="libmla" against eager: logits and greedy tokens of tiny random models."""

from __future__ import annotations

import copy

import pytest
import torch

import libmla.transformers

from .conftest import FAMILIES, make_model

TOLERANCE = {torch.float32: 2e-4, torch.bfloat16: 0.1}


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def dtype(request):
    return request.param


@pytest.fixture(scope="module", params=list(FAMILIES))
def model(request, dtype):
    return make_model(request.param, dtype)


def ids(batch=2, length=21, seed=1):
    torch.manual_seed(seed)
    return torch.randint(3, 128, (batch, length))


@torch.no_grad()
def logits(model, implementation, **inputs):
    model.set_attn_implementation(implementation)
    return model(**inputs).logits


def agree(model, inputs, rows=None):
    wanted = logits(model, "eager", **inputs)
    got = logits(model, "libmla", **inputs)
    rows = torch.ones(wanted.shape[:2], dtype=torch.bool) if rows is None else rows
    tolerance = TOLERANCE[model.dtype] * float(wanted.abs().max())
    assert torch.isfinite(got).all()
    assert float((got - wanted)[rows].abs().max()) <= tolerance


def padded(side, batch=3, length=21):
    mask = torch.ones(batch, length, dtype=torch.long)
    for row in range(batch):
        cut = 5 * row
        if side == "left":
            mask[row, :cut] = 0
        elif cut:
            mask[row, -cut:] = 0
    return mask


def test_plain(model) -> None:
    agree(model, {"input_ids": ids()})


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding(model, side) -> None:
    mask = padded(side)
    agree(model, {"input_ids": ids(3), "attention_mask": mask}, mask.bool())


def test_a_hole_in_the_mask(model) -> None:
    mask = torch.ones(2, 21, dtype=torch.long)
    mask[1, 7:9] = 0
    agree(model, {"input_ids": ids(), "attention_mask": mask}, mask.bool())


def test_a_mask_of_four_dimensions(model) -> None:
    dtype = model.dtype
    visible = torch.ones(21, 21, dtype=torch.bool).tril()
    visible[15:, 3:6] = False
    mask = torch.zeros(2, 1, 21, 21, dtype=dtype).masked_fill(~visible, torch.finfo(dtype).min)
    agree(model, {"input_ids": ids(), "attention_mask": mask})


def test_packed_sequences(model) -> None:
    positions = torch.tensor([[*range(8), *range(13)]])
    inputs = {"input_ids": ids(1), "position_ids": positions, "use_cache": False}
    agree(model, inputs)
    offsets = torch.tensor([0, 8, 21], dtype=torch.int32)
    alone = logits(model, "eager", **inputs)
    got = logits(
        model, "libmla", **inputs, cu_seq_lens_q=offsets, cu_seq_lens_k=offsets,
        max_length_q=13, max_length_k=13,
    )
    assert float((got - alone).abs().max()) <= TOLERANCE[model.dtype] * float(alone.abs().max())


@torch.no_grad()
def test_chunked_prefill_with_a_dynamic_cache(model) -> None:
    from transformers import DynamicCache

    tokens = ids(3)
    mask = padded("left")
    results = {}
    for implementation in ("eager", "libmla"):
        model.set_attn_implementation(implementation)
        cache = DynamicCache(config=model.config)
        model(tokens[:, :9], attention_mask=mask[:, :9], past_key_values=cache)
        results[implementation] = model(
            tokens[:, 9:], attention_mask=mask, past_key_values=cache
        ).logits
    rows = mask[:, 9:].bool()
    difference = (results["libmla"] - results["eager"])[rows].abs().max()
    assert float(difference) <= TOLERANCE[model.dtype] * float(results["eager"].abs().max())


# Greedy tokens in float32 only: those of random bfloat16 weights are ties.
@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("padding", [False, True])
def test_generate(family, cache, padding) -> None:
    model = make_model(family, torch.float32)
    tokens = ids(3)
    mask = padded("left") if padding else torch.ones_like(tokens)
    results = []
    for implementation in ("eager", "libmla"):
        model.set_attn_implementation(implementation)
        results.append(
            model.generate(
                tokens, attention_mask=mask, max_new_tokens=8, do_sample=False, pad_token_id=0,
                cache_implementation=cache, disable_compile=True,
            )
        )
    assert torch.equal(*results)


def test_training_takes_torchs_way(model) -> None:
    trained = copy.deepcopy(model).train()
    trained.set_attn_implementation("libmla")
    trained(ids()).logits.float().sum().backward()
    gradient = trained.model.layers[0].self_attn.kv_b_proj.weight.grad
    assert gradient is not None and float(gradient.abs().sum()) > 0


def test_rows_that_see_nothing_are_zero() -> None:
    from libmla.transformers._attention import attention
    from libmla.transformers._masks import mask

    module = torch.nn.Module()
    module.is_causal = True
    q, v = torch.randn(2, 3, 6, 24), torch.randn(2, 3, 6, 16)
    seen = torch.tensor([[1] * 6, [0, 0, 0, 1, 1, 1]], dtype=torch.bool)
    ranges = mask(2, 6, 6, attention_mask=seen)
    out, weights = attention(module, q, q, v, ranges)
    assert weights is None and out.shape == (2, 6, 3, 16)
    assert (out[1, :3] == 0).all() and torch.isfinite(out).all()


def test_a_sparse_indexer_is_refused_only_where_it_bites() -> None:
    from transformers import DeepseekV32Config, DeepseekV32ForCausalLM

    from .conftest import BASE, MOE

    torch.manual_seed(0)
    sizes = {"index_topk": 16, "index_n_heads": 2, "index_head_dim": 16, "q_lora_rank": 48}
    sparse = DeepseekV32ForCausalLM(DeepseekV32Config(**BASE, **MOE, **sizes)).eval()
    agree(sparse, {"input_ids": ids(length=12)})
    with pytest.raises(ValueError, match="the indexer chose at most 16 of 21 keys"):
        logits(sparse, "libmla", input_ids=ids(length=21))


def test_what_would_change_the_result_is_refused() -> None:
    from libmla.transformers._attention import attention

    module = torch.nn.Module()
    q, v = torch.randn(1, 2, 4, 24), torch.randn(1, 2, 4, 16)
    with pytest.raises(ValueError, match="softcap"):
        attention(module, q, q, v, None, softcap=30.0)
