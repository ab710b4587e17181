"""accelerate(): the same model from latents, with its own cache, weights and way back."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from transformers import DynamicCache

import libmla
from libmla.transformers import accelerate, restore
from libmla.transformers._cache import LatentLayer
from libmla.transformers._latents import Latents

from .conftest import FAMILIES, make_model
from .test_transformers import TOLERANCE, ids, padded


@pytest.fixture(scope="module", params=[torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def dtype(request):
    return request.param


@pytest.fixture(scope="module", params=list(FAMILIES))
def pair(request, dtype):
    """The model as it was (eager), and accelerated."""
    model = make_model(request.param, dtype)
    model.set_attn_implementation("eager")
    return model, accelerate(copy.deepcopy(model))


def close(got, wanted, dtype):
    assert torch.isfinite(got).all()
    difference = float((got - wanted).abs().max())
    assert difference <= TOLERANCE[dtype] * float(wanted.abs().max())


@torch.no_grad()
@pytest.mark.parametrize("side", [None, "left", "right"])
@pytest.mark.parametrize("use_cache", [True, False])
def test_logits(pair, side, use_cache) -> None:
    model, fast = pair
    mask = torch.ones(3, 21, dtype=torch.long) if side is None else padded(side)
    inputs = {"input_ids": ids(3), "attention_mask": mask, "use_cache": use_cache}
    rows = mask.bool()
    close(fast(**inputs).logits[rows], model(**inputs).logits[rows], model.dtype)


@torch.no_grad()
@pytest.mark.parametrize("batch", [1, 3])
def test_chunks_and_decode_steps(pair, batch) -> None:
    model, fast = pair
    tokens, mask = ids(batch, 30), padded("left", batch, 30)
    caches = {id(m): DynamicCache(config=m.config) for m in pair}
    for begin, end in ((0, 9), (9, 25), (25, 26), (26, 27), (27, 30)):
        wanted, got = (
            m(
                tokens[:, begin:end],
                attention_mask=mask[:, :end],
                past_key_values=caches[id(m)],
            ).logits
            for m in pair
        )
        rows = mask[:, begin:end].bool()
        close(got[rows], wanted[rows], model.dtype)
    layer = caches[id(fast)].layers[0]
    assert isinstance(layer, LatentLayer)
    assert torch.equal(layer.keys.contiguous(), layer.keys)
    assert layer.get_seq_length() == 30


# Greedy tokens in float32 only: those of random bfloat16 weights are ties.
@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize(
    "options",
    [{}, {"num_beams": 3}, {"cache_implementation": "static", "disable_compile": True},
     {"use_cache": False}, {"prompt_lookup_num_tokens": 3}],
    ids=["greedy", "beams", "static", "no cache", "prompt lookup"],
)  # fmt: skip
def test_generate(family, options) -> None:
    model = make_model(family, torch.float32)
    fast = accelerate(copy.deepcopy(model))
    batch = 1 if "prompt_lookup_num_tokens" in options else 3
    tokens, mask = ids(batch), padded("left", batch)
    wanted, got = (
        m.generate(
            tokens, attention_mask=mask, max_new_tokens=8, do_sample=False, pad_token_id=0, **options
        )
        for m in (model, fast)
    )
    assert torch.equal(got, wanted)


@torch.no_grad()
def test_decode_does_not_expand(pair, monkeypatch) -> None:
    _, fast = pair
    attention = type(fast.model.layers[0].self_attn)
    calls = []
    original = attention.expand_kv
    monkeypatch.setattr(attention, "expand_kv", lambda *a: calls.append(a) or original(*a))
    fast.generate(ids(1), max_new_tokens=3, do_sample=False, pad_token_id=0)
    assert calls == []


@torch.no_grad()
def test_a_hole_in_the_mask_is_expanded(pair) -> None:
    model, fast = pair
    mask = torch.ones(2, 21, dtype=torch.long)
    mask[1, 7:9] = 0
    inputs = {"input_ids": ids(), "attention_mask": mask}
    rows = mask.bool()
    close(fast(**inputs).logits[rows], model(**inputs).logits[rows], model.dtype)


def test_restore_gives_back_the_model(pair) -> None:
    model, _ = pair
    other = copy.deepcopy(model)
    before = {name: set(module.__dict__) for name, module in other.named_modules()}
    weights = {name: tensor.clone() for name, tensor in other.state_dict().items()}
    accelerate(other)
    assert set(other.state_dict()) == set(weights)
    with pytest.raises(ValueError, match="already accelerated"):
        accelerate(other)
    restore(other)
    assert {name: set(module.__dict__) for name, module in other.named_modules()} == before
    assert all(not module._forward_pre_hooks for module in other.modules())
    assert other.config._attn_implementation == "eager"
    assert all(torch.equal(tensor, weights[name]) for name, tensor in other.state_dict().items())
    with pytest.raises(ValueError, match="not accelerated"):
        restore(other)


@torch.no_grad()
def test_save_load_copy_and_pickle(pair, tmp_path) -> None:
    model, fast = pair
    wanted = fast(ids()).logits
    fast.save_pretrained(tmp_path)
    loaded = type(fast).from_pretrained(tmp_path, dtype=fast.dtype).eval()
    close(accelerate(loaded)(ids()).logits, wanted, model.dtype)
    copied = copy.deepcopy(fast)
    assert torch.equal(copied(ids()).logits, wanted)
    assert copied.model.layers[0].self_attn.expand_kv is not fast.model.layers[0].self_attn.expand_kv
    restore(copied)
    close(copied(ids()).logits, model(ids()).logits, model.dtype)
    buffer = io.BytesIO()
    torch.save(fast, buffer)
    buffer.seek(0)
    unpickled = torch.load(buffer, weights_only=False)
    assert torch.equal(unpickled(ids()).logits, wanted)


@torch.no_grad()
def test_new_weights_are_packed_again(pair) -> None:
    model, _ = pair
    other = accelerate(copy.deepcopy(model))
    other(ids())
    twin = copy.deepcopy(model)
    for m in (other, twin):
        for layer in m.model.layers:
            layer.self_attn.kv_b_proj.weight.mul_(-0.5)
    close(other(ids()).logits, twin(ids()).logits, model.dtype)


def test_gradients_take_the_models_own_way(pair) -> None:
    model, _ = pair
    gradients = []
    for m in (copy.deepcopy(model), accelerate(copy.deepcopy(model))):
        m(ids()).logits.float().square().sum().backward()
        gradients.append(m.model.layers[0].self_attn.kv_b_proj.weight.grad)
    close(gradients[1], gradients[0], model.dtype)


@pytest.mark.parametrize("form", ["expanded", "absorbed"])
@torch.no_grad()
def test_both_forms(form) -> None:
    model = make_model("deepseek_v3", torch.float32)
    wanted = model(ids()).logits
    close(accelerate(model, form=form)(ids()).logits, wanted, torch.float32)


class TestWhatDoesNotFit:
    """Refused with the reason, and left as it was."""

    def refused(self, model, reason) -> None:
        implementation = model.config._attn_implementation
        with pytest.raises(ValueError, match=reason):
            accelerate(model)
        assert model.config._attn_implementation == implementation
        assert not any("expand_kv" in module.__dict__ for module in model.modules())
        assert all(not module._forward_pre_hooks for module in model.modules())

    def test_no_mla(self) -> None:
        from transformers import LlamaConfig, LlamaForCausalLM

        small = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
                 "num_attention_heads": 2, "vocab_size": 32}  # fmt: skip
        self.refused(LlamaForCausalLM(LlamaConfig(**small)), "no MLA attention module")

    def test_a_sparse_indexer(self) -> None:
        from transformers import DeepseekV32Config, DeepseekV32ForCausalLM

        from .conftest import BASE, MOE

        config = DeepseekV32Config(**BASE, **MOE, index_topk=16, index_n_heads=2, index_head_dim=16)
        self.refused(DeepseekV32ForCausalLM(config), "sparse indexer")

    def test_another_projection(self) -> None:
        model = make_model("deepseek_v2", torch.float32)
        weight = model.model.layers[1].self_attn.kv_b_proj.weight
        model.model.layers[1].self_attn.kv_b_proj = torch.nn.Linear(*weight.T.shape, bias=True)
        self.refused(model, "layers.1.self_attn: kv_b_proj has a bias")

    def test_another_dtype(self) -> None:
        self.refused(make_model("deepseek_v2", torch.float64), "float64")

    def test_another_expansion(self, monkeypatch) -> None:
        model = make_model("deepseek_v2", torch.float32)
        attention = type(model.model.layers[0].self_attn)
        original = attention.expand_kv
        monkeypatch.setattr(attention, "expand_kv", lambda s, a, b: original(s, 2 * a, b))
        self.refused(model, "expand_kv is not kv_b_proj and a split")

    def test_an_unknown_row(self) -> None:
        model = make_model("deepseek_v2", torch.float32)
        with pytest.raises(libmla.SelectionError):
            accelerate(model, backend="NOPE")
        assert not any("expand_kv" in module.__dict__ for module in model.modules())


def test_the_cache_grows_in_place() -> None:
    layer = LatentLayer()
    kv, pe = torch.randn(2, 1, 100, 6), torch.randn(2, 1, 100, 2)
    addresses = set()
    for begin in range(0, 100, 4):
        keys, values = layer.update(kv[:, :, begin : begin + 4], pe[:, :, begin : begin + 4])
        addresses.add(keys.data_ptr())
    assert torch.equal(keys, kv) and torch.equal(values, pe)
    assert len(addresses) <= 2
    latents = Latents(None, keys, values)
    assert latents.rows().data_ptr() == keys.data_ptr()
    layer.crop(-30)
    layer.reorder_cache(torch.tensor([1, 0]))
    keys, values = layer.update(kv[:, :, :1], pe[:, :, :1])
    assert torch.equal(keys[:, :, :70], kv.flip(0)[:, :, :70])
    assert torch.equal(values[:, :, 70:], pe[:, :, :1])
    assert Latents(None, keys, values).rows().data_ptr() == keys.data_ptr()


def test_decode_is_flat_in_memory() -> None:
    """A step allocates as much after 400 tokens as after 40, and the cache is latents and room."""
    model = accelerate(make_model("deepseek_v2", torch.float32))
    config, token = model.config, torch.ones((1, 1), dtype=torch.long)
    row = (config.kv_lora_rank + config.qk_rope_head_dim) * 4
    allocated = {}
    for length in (40, 400):
        cache = DynamicCache(config=config)
        with torch.no_grad():
            model(torch.ones((1, length), dtype=torch.long), past_key_values=cache)
            model(token, past_key_values=cache)
            with torch.profiler.profile(profile_memory=True) as profiled:
                model(token, past_key_values=cache)
        bytes_of = [event.self_cpu_memory_usage for event in profiled.events()]
        allocated[length] = sum(size for size in bytes_of if size > 0)
        for layer in cache.layers:
            storage = layer.keys.untyped_storage()
            assert storage.data_ptr() == layer.values.untyped_storage().data_ptr()
            assert storage.nbytes() <= (length + length // 8 + 80) * row
    assert allocated[40] > 0
    # A key and value of every head would be 4 * 48 * 4 bytes a token and layer.
    assert allocated[400] - allocated[40] < 360 * 16
