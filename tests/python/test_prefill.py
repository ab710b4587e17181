"""PrefillOperator: equals one causal attention over context and new tokens."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import runnable_rows
from hypothesis import given
from hypothesis import strategies as st

import libmla

H, NOPE, ROPE, DV, L = 2, 24, 8, 16, 32


def weights(rng, dtype=np.float32):
    return (rng.standard_normal((H * (NOPE + DV), L)) / np.sqrt(L)).astype(dtype)


def operator(w, **options):
    options = {"dtype": "float32", "scratch_bytes": 1 << 20, **options}
    return libmla.PrefillOperator(w, num_heads=H, dims=(NOPE, ROPE, DV), kv_lora_rank=L, **options)


def expanded(w, latents):
    """K and V of [n, L+rope] latents, by the definition."""
    n = latents.shape[0]
    kv = (latents[:, :L] @ w.T).reshape(n, H, NOPE + DV)
    pe = np.broadcast_to(latents[:, None, L:], (n, H, ROPE))
    return np.concatenate([kv[..., :NOPE], pe], -1), np.ascontiguousarray(kv[..., NOPE:])


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 40)), min_size=1, max_size=3),
    st.sampled_from([1, 4, 16]),
    st.sampled_from(["auto", "expanded", "absorbed"]),
    st.integers(0, 2**32 - 1),
)
def test_equals_one_causal_attention(pairs, block_size, form, seed) -> None:
    rng = np.random.default_rng(seed)
    w = weights(rng)
    most = max(-(-(new + context) // block_size) for new, context in pairs) or 1
    blocks = len(pairs) * most + 1
    table = rng.permutation(blocks)[: len(pairs) * most].reshape(len(pairs), most).astype(np.int32)
    cache = np.full((blocks, block_size, L + ROPE), np.nan, np.float32)
    news, slots, wanted, queries = [], [], [], []
    for r, (new, context) in enumerate(pairs):
        latents = rng.standard_normal((context + new, L + ROPE)).astype(np.float32)
        places = [(table[r, c // block_size], c % block_size) for c in range(context + new)]
        for c in range(context):
            cache[places[c]] = latents[c]
        q = rng.standard_normal((new, H, NOPE + ROPE)).astype(np.float32)
        k, v = expanded(w, latents)
        wanted.append(libmla.reference(q, k, v, [0, new], [0, context + new])[0])
        queries.append(q)
        news.append(latents[context:])
        slots += [int(b) * block_size + s for b, s in places[context:]]
    op = operator(w, form=form)
    offsets = np.cumsum([0, *(new for new, _ in pairs)])
    plan = op.plan(offsets, [context for _, context in pairs], table)
    latents = np.concatenate(news)
    out, lse = op.run(
        plan, np.concatenate(queries), latents[:, :L], latents[:, L:], cache,
        np.array(slots, np.int64), return_lse=True,
    )
    np.testing.assert_allclose(out, np.concatenate(wanted), rtol=2e-4, atol=2e-4)
    assert np.isfinite(lse).all()
    for row, slot in zip(latents, slots, strict=True):
        assert np.array_equal(cache[slot // block_size, slot % block_size], row)


@pytest.mark.parametrize("row", runnable_rows())
def test_every_row(row, rng) -> None:
    w = weights(rng)
    latents = rng.standard_normal((50, L + ROPE)).astype(np.float32)
    q = rng.standard_normal((50, H, NOPE + ROPE)).astype(np.float32)
    op = operator(w, backend=row)
    out = op.run(op.plan([0, 50]), q, latents[:, :L], latents[:, L:])
    k, v = expanded(w, latents)
    np.testing.assert_allclose(
        out, libmla.reference(q, k, v, [0, 50], [0, 50])[0], rtol=2e-4, atol=2e-4
    )


def test_split_weights_are_the_same_operator(rng) -> None:
    w = weights(rng)
    heads = w.reshape(H, NOPE + DV, L)
    split = libmla.PrefillOperator(
        w_uk=heads[:, :NOPE], w_uv=heads[:, NOPE:], num_heads=H, dims=(NOPE, ROPE, DV),
        kv_lora_rank=L, dtype="float32",
    )
    latents = rng.standard_normal((9, L + ROPE)).astype(np.float32)
    q = rng.standard_normal((9, H, NOPE + ROPE)).astype(np.float32)
    results = [
        op.run(op.plan([0, 9]), q, latents[:, :L], latents[:, L:]) for op in (split, operator(w))
    ]
    assert np.array_equal(*results)


def test_a_plan_says_what_it_will_do(rng) -> None:
    op = operator(weights(rng), form="absorbed")
    plan = op.plan([0, 1, 1])
    assert plan.total_tokens == 1
    assert plan.forms[0] == "absorbed"
    assert "absorbed" in str(plan)
    assert plan.scratch_bytes <= 1 << 20


@pytest.mark.parametrize(
    "change, error, word",
    [
        ({"q": np.zeros((3, H, 5), np.float32)}, ValueError, "q"),
        ({"kv_c": np.zeros((2, L), np.float32)}, ValueError, "kv_c"),
        ({"k_pe": np.zeros((3, ROPE), np.float16)}, TypeError, "k_pe"),
        ({"cache": np.zeros((1, 4, L), np.float32)}, ValueError, "cache"),
        ({"slot_mapping": np.zeros(3, np.int32)}, TypeError, "slot_mapping"),
        ({"out": np.zeros((3, H, DV), np.float16)}, TypeError, "out"),
    ],
)
def test_errors_name_the_argument(change, error, word, rng) -> None:
    op = operator(weights(rng))
    good = {
        "q": np.zeros((3, H, NOPE + ROPE), np.float32),
        "kv_c": np.zeros((3, L), np.float32),
        "k_pe": np.zeros((3, ROPE), np.float32),
    }
    with pytest.raises(error, match=f"^{word}: wanted"):
        op.run(op.plan([0, 3]), **{**good, **change})


def test_errors_of_making_one(rng) -> None:
    w = weights(rng)
    with pytest.raises(ValueError, match="w_kv_b"):
        libmla.PrefillOperator(num_heads=H, dims=(NOPE, ROPE, DV), kv_lora_rank=L)
    with pytest.raises(ValueError, match="form"):
        operator(w, form="folded")
    with pytest.raises(ValueError, match="w_kv_b"):
        operator(w[1:])
    with pytest.raises(libmla.SelectionError):
        operator(w, backend="FLASH_ATTN")
