"""attend_dense(): a dense batch is the ragged one it stands for."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import libmla


def softmax_attention(q, k, v, visible):
    """The definition, in double; visible [B,S,N]."""
    scores = np.einsum("bhsd,bhnd->bhsn", q.astype(np.float64), k) / np.sqrt(q.shape[-1])
    scores = np.where(visible[:, None], scores, -np.inf)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    p = np.exp(scores - np.where(np.isfinite(top), top, 0))
    total = p.sum(-1, keepdims=True)
    return np.einsum("bhsn,bhnd->bhsd", p / np.where(total > 0, total, 1), v.astype(np.float64))


@st.composite
def problems(draw):
    keys = draw(st.integers(1, 30))
    queries = draw(st.integers(1, 12))
    size = draw(st.integers(1, 3))
    starts = [draw(st.integers(0, keys)) for _ in range(size)]
    counts = [draw(st.integers(0, keys - start)) for start in starts]
    offset = draw(st.integers(-2, keys))
    return keys, queries, starts, counts, max(offset, -queries), draw(st.booleans())


@given(problems(), st.integers(0, 2**32 - 1))
def test_equals_the_definition(problem, seed) -> None:
    keys, queries, starts, counts, offset, causal = problem
    rng = np.random.default_rng(seed)
    size = len(starts)
    q = rng.standard_normal((size, 2, queries, 24)).astype(np.float32)
    k = rng.standard_normal((size, 2, keys, 24)).astype(np.float32)
    v = rng.standard_normal((size, 2, keys, 40)).astype(np.float32)[..., 24:]
    out, lse = libmla.attend_dense(
        q, k, v, key_starts=starts, key_lengths=counts, query_offset=offset, causal=causal,
        return_lse=True,
    )
    places = np.arange(keys)
    visible = np.empty((size, queries, keys), bool)
    for b in range(size):
        inside = (places >= starts[b]) & (places < starts[b] + counts[b])
        reach = np.arange(queries)[:, None] + offset if causal else np.full((queries, 1), keys)
        visible[b] = inside & (places <= reach)
    assert out.shape == (size, 2, queries, 16)
    assert lse.shape == (size, 2, queries)
    np.testing.assert_allclose(out, softmax_attention(q, k, v, visible), rtol=2e-5, atol=2e-5)
    blind = ~visible.any(-1)
    assert (lse == -np.inf)[np.broadcast_to(blind[:, None], lse.shape)].all()


def test_out_is_in_memory_as_models_want_it(rng) -> None:
    q = rng.standard_normal((2, 3, 5, 8)).astype(np.float32)
    out = libmla.attend_dense(q, q, q)
    assert np.swapaxes(out, 1, 2).flags.c_contiguous
    given_out = np.empty((2, 3, 5, 8), np.float32)
    assert libmla.attend_dense(q, q, q, out=given_out) is given_out
    assert np.array_equal(out, given_out)


def test_heads_that_share_keys_through_a_stride_of_zero(rng) -> None:
    q = rng.standard_normal((2, 3, 5, 8)).astype(np.float32)
    one = rng.standard_normal((2, 1, 5, 8)).astype(np.float32)
    shared = np.broadcast_to(one, q.shape)
    out = libmla.attend_dense(q, shared, shared)
    copied = np.ascontiguousarray(shared)
    assert np.array_equal(out, libmla.attend_dense(q, copied, copied))


@pytest.mark.parametrize(
    "change, words",
    [
        ({"key_lengths": [9, 1]}, ["key_lengths", "9"]),
        ({"key_starts": [6, 0]}, ["key_starts", "6"]),
        ({"key_starts": [0]}, ["key_starts", "2"]),
        ({"query_offset": 99}, ["query_offset", "99"]),
        ({"k": np.zeros((2, 3, 5, 9), np.float32)}, ["k", "(2, 3, 5, 9)"]),
        ({"q": np.zeros((2, 3, 5), np.float32)}, ["q", "(B, H, S, Dq)"]),
    ],
)
def test_errors(change, words) -> None:
    good = {name: np.zeros((2, 3, 5, 8), np.float32) for name in ("q", "k", "v")}
    with pytest.raises(ValueError) as raised:
        libmla.attend_dense(**{**good, **change})
    for word in words:
        assert word in str(raised.value)
