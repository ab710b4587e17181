"""merge(): the laws of two partial results."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import libmla


def partials(seed, tokens=7, keys=(11, 6)):
    """The results over two halves of the keys, and over all of them."""
    rng = np.random.default_rng(seed)
    q = rng.standard_normal((tokens, 2, 8)).astype(np.float32)
    k = rng.standard_normal((sum(keys), 2, 8)).astype(np.float32)
    v = rng.standard_normal((sum(keys), 2, 16)).astype(np.float32)

    def over(part):
        size = k[part].shape[0]
        return libmla.attend(
            q, k[part], v[part], [0, tokens], [0, size], causal=False, return_lse=True
        )

    return over(slice(0, keys[0])), over(slice(keys[0], None)), over(slice(None))


@given(st.integers(0, 2**32 - 1), st.integers(0, 9), st.integers(0, 9))
def test_merge_of_parts_is_the_whole(seed, first, second) -> None:
    a, b, whole = partials(seed, keys=(first, second))
    out, lse = libmla.merge(*a, *b)
    np.testing.assert_allclose(out, whole[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lse, whole[1], rtol=1e-5, atol=1e-5)
    swapped, swapped_lse = libmla.merge(*b, *a)
    np.testing.assert_allclose(out, swapped, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(lse, swapped_lse, rtol=1e-6, atol=1e-6)


def test_the_neutral_element_and_nan() -> None:
    a, _, _ = partials(1)
    nothing = np.zeros_like(a[0])
    for empty in (-np.inf, np.inf):
        out, lse = libmla.merge(*a, nothing, np.full_like(a[1], empty))
        np.testing.assert_array_equal(out, a[0])
        np.testing.assert_array_equal(lse, a[1])
    _, lse = libmla.merge(*a, nothing, np.full_like(a[1], np.nan))
    assert np.isnan(lse).all()


def test_in_place_and_left_out_tokens() -> None:
    a, b, _ = partials(2)
    wanted, wanted_lse = libmla.merge(*a, *b)
    merged = np.array([1, 0, 1, 0, 0, 1, 1], dtype=bool)
    out = a[0].copy()
    result, lse = libmla.merge(out, a[1], *b, out=out, merged_tokens=merged)
    assert result is out
    np.testing.assert_array_equal(out[merged], wanted[merged])
    np.testing.assert_array_equal(out[~merged], a[0][~merged])
    np.testing.assert_array_equal(lse[:, merged], wanted_lse[:, merged])
    np.testing.assert_array_equal(lse[:, ~merged], a[1][:, ~merged])


def test_errors() -> None:
    a, b, _ = partials(3)
    with pytest.raises(TypeError, match="lse_b: wanted float32, got float64"):
        libmla.merge(*a, b[0], b[1].astype(np.float64))
    with pytest.raises(ValueError, match="out_b"):
        libmla.merge(*a, b[0][1:], b[1])
    with pytest.raises(ValueError, match="lse_a"):
        libmla.merge(a[0], a[1].T, *b)
