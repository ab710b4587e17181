"""attend(), against the double loops and against its laws."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from conftest import runnable_rows
from hypothesis import given
from hypothesis import strategies as st

import libmla


def batch(rng, q_lens, k_lens, heads=2, dq=24, dv=16, dtype=np.float32):
    """Random q, k, v and their offsets; v is the second part of a wider projection."""
    t, n = sum(q_lens), sum(k_lens)
    q = rng.standard_normal((t, heads, dq)).astype(dtype)
    k = rng.standard_normal((n, heads, dq)).astype(dtype)
    v = rng.standard_normal((n, heads, dq + dv)).astype(dtype)[..., dq:]
    cu_q = np.cumsum([0, *q_lens]).astype(np.int32)
    cu_k = np.cumsum([0, *k_lens]).astype(np.int64)
    return q, k, v, cu_q, cu_k


def near(out, reference, tolerance):
    reference = np.asarray(reference, dtype=np.float64)
    error = np.abs(np.asarray(out, dtype=np.float64) - reference)
    return bool((error <= tolerance * (1 + np.abs(reference))).all())


lengths = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 70)), min_size=0, max_size=4)


@given(lengths, st.booleans(), st.integers(0, 2**32 - 1), st.sampled_from([8, 24, 192]))
def test_equals_the_reference(pairs, causal, seed, dq) -> None:
    rng = np.random.default_rng(seed)
    q, k, v, cu_q, cu_k = batch(rng, [m for m, _ in pairs], [n for _, n in pairs], dq=dq)
    out, lse = libmla.attend(q, k, v, cu_q, cu_k, causal=causal, return_lse=True)
    wanted, wanted_lse = libmla.reference(q, k, v, cu_q, cu_k, causal=causal)
    assert near(out, wanted, 2e-5)
    seen = np.isfinite(wanted_lse)
    assert near(lse[seen], wanted_lse[seen], 1e-5)
    assert (lse[~seen] == -np.inf).all()
    assert (np.moveaxis(out, 1, 0)[~seen] == 0).all()


@pytest.mark.parametrize("row", runnable_rows())
@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-5), ("float16", 4e-3)])
def test_every_row(row, dtype, tolerance, rng) -> None:
    q, k, v, cu_q, cu_k = batch(rng, [33, 1], [65, 40], dtype=dtype)
    out = libmla.attend(q, k, v, cu_q, cu_k, backend=row)
    assert out.dtype == np.dtype(dtype)
    assert near(out, libmla.reference(q, k, v, cu_q, cu_k)[0], tolerance)


@pytest.mark.parametrize("row", runnable_rows("bfloat16"))
def test_bfloat16_of_ml_dtypes(row, rng) -> None:
    bfloat16 = pytest.importorskip("ml_dtypes", reason="ml_dtypes is not installed").bfloat16
    q, k, v, cu_q, cu_k = batch(rng, [33], [65], dtype=bfloat16)
    out = libmla.attend(q, k, v, cu_q, cu_k, backend=row)
    assert out.dtype == bfloat16
    assert near(out, libmla.reference(q, k, v, cu_q, cu_k)[0], 3e-2)
    wide = np.empty(out.shape, np.float32)
    libmla.attend(q, k, v, cu_q, cu_k, backend=row, out=wide)
    assert near(out, wide, 2**-8)


def test_writes_out_in_place_whatever_its_strides(rng) -> None:
    q, k, v, cu_q, cu_k = batch(rng, [9], [9])
    room = np.full((9, 3, 40), 7.0, np.float32)
    view = room[:, :2, 4:20]
    result = libmla.attend(q, k, v, cu_q, cu_k, out=view)
    assert result is view
    assert np.array_equal(view, libmla.attend(q, k, v, cu_q, cu_k))
    view[...] = 7.0
    assert (room == 7.0).all()


def test_lists_and_both_integer_types_are_offsets(rng) -> None:
    q, k, v, _, _ = batch(rng, [4, 5], [4, 5])
    wanted = libmla.attend(q, k, v, [0, 4, 9], (0, 4, 9))
    for kind in (np.int32, np.int64):
        offsets = np.array([0, 4, 9], dtype=kind)
        assert np.array_equal(libmla.attend(q, k, v, offsets, offsets), wanted)


def test_same_bits_for_any_number_of_threads(rng) -> None:
    q, k, v, cu_q, cu_k = batch(rng, [70, 3, 0, 20], [300, 3, 5, 20])
    wanted = libmla.attend(q, k, v, cu_q, cu_k, num_threads=1)
    for threads in (2, 3, 8):
        assert np.array_equal(libmla.attend(q, k, v, cu_q, cu_k, num_threads=threads), wanted)


class OnlyDlpack:
    """A tensor of a library that libmla has never heard of."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **kwargs: object) -> object:
        return self.array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_anything_with_dlpack(rng) -> None:
    q, k, v, cu_q, cu_k = batch(rng, [9], [9])
    out = libmla.attend(*(OnlyDlpack(x) for x in (q, k, v, cu_q, cu_k)))
    assert np.array_equal(np.from_dlpack(out), libmla.attend(q, k, v, cu_q, cu_k))


def test_buffer_protocol(rng) -> None:
    q, k, v, cu_q, cu_k = batch(rng, [9], [9])
    v = np.ascontiguousarray(v)
    out = np.empty((9, 2, 16), np.float32)
    libmla.attend(*(memoryview(x) for x in (q, k, v, cu_q, cu_k)), out=memoryview(out))
    assert np.array_equal(out, libmla.attend(q, k, v, cu_q, cu_k))


def test_jax(rng) -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    q, k, v, cu_q, cu_k = batch(rng, [9], [9])
    out = libmla.attend(*(jax.numpy.asarray(x) for x in (q, k, v)), cu_q, cu_k)
    assert isinstance(out, jax.Array)
    assert np.array_equal(np.asarray(out), libmla.attend(q, k, v, cu_q, cu_k))


def test_releases_the_gil(rng) -> None:
    q, k, v, cu_q, cu_k = batch(rng, [600], [600], heads=16, dq=192, dv=128)
    running, ticks, during = threading.Event(), 0, []

    def work() -> None:
        running.set()
        for _ in range(3):
            libmla.attend(q, k, v, cu_q, cu_k, num_threads=1)
        running.clear()

    thread = threading.Thread(target=work)
    thread.start()
    running.wait()
    while running.is_set():
        ticks += 1
        during.append(ticks)
    thread.join()
    assert len(during) > 1000  # a held GIL leaves a handful of turns between the calls


# Each: a change of the good arguments, the exception, and what its message must name.
BAD = [
    ({"q": 3}, TypeError, ["q", "int", "tensor"]),
    ({"q": np.zeros((4, 2, 24))}, TypeError, ["q", "float64", "float32"]),
    ({"q": np.zeros((4, 24), np.float32)}, ValueError, ["q", "(T, H, Dq)", "(4, 24)"]),
    ({"k": np.zeros((4, 3, 24), np.float32)}, ValueError, ["k", "heads", "(4, 3, 24)"]),
    ({"k": np.zeros((4, 2, 25), np.float32)}, ValueError, ["k", "24", "(4, 2, 25)"]),
    ({"v": np.zeros((4, 2, 16), np.float16)}, TypeError, ["v", "float16", "float32"]),
    ({"v": np.zeros((5, 2, 16), np.float32)}, ValueError, ["v", "tokens of k"]),
    ({"v": np.zeros((4, 2, 32), np.float32)[..., ::2]}, ValueError, ["v", "stride 2"]),
    ({"v": np.zeros((4, 2, 16), ">f4")}, TypeError, ["v", ">f4"]),
    ({"cu_seqlens_q": [0, 3]}, ValueError, ["cu_seqlens_q", "3"]),
    ({"cu_seqlens_q": [0, 5, 4]}, ValueError, ["cu_seqlens", "3"]),
    ({"cu_seqlens_k": [0.0, 4.0]}, TypeError, ["cu_seqlens_k", "integers"]),
    ({"cu_seqlens_k": np.array([0.0, 4.0])}, TypeError, ["cu_seqlens_k", "int32", "float64"]),
    ({"cu_seqlens_q": [], "cu_seqlens_k": []}, ValueError, ["cu_seqlens_q"]),
    ({"scale": float("nan")}, ValueError, ["scale", "nan"]),
    ({"num_threads": 0}, ValueError, ["num_threads", "0"]),
    ({"out": np.zeros((4, 2, 16), np.float16)}, TypeError, ["out", "float16"]),
    ({"out": np.zeros((4, 2, 17), np.float32)}, ValueError, ["out", "(4, 2, 17)"]),
    ({"backend": "NOPE"}, libmla.SelectionError, ["NOPE", "CPU"]),
    ({"backend": "FLASH_ATTN"}, libmla.SelectionError, ["FLASH_ATTN", "cpu"]),
]


@pytest.mark.parametrize("change, error, words", BAD)
def test_errors_name_argument_got_and_wanted(change, error, words) -> None:
    good = {
        "q": np.zeros((4, 2, 24), np.float32),
        "k": np.zeros((4, 2, 24), np.float32),
        "v": np.zeros((4, 2, 16), np.float32),
        "cu_seqlens_q": [0, 4],
        "cu_seqlens_k": [0, 4],
    }
    libmla.attend(**good)
    out = change.get("out")
    before = None if out is None else out.copy()
    with pytest.raises(error) as raised:
        libmla.attend(**{**good, **change})
    for word in words:
        assert word in str(raised.value)
    assert out is None or np.array_equal(out, before)


def test_read_only_arrays_are_read_and_not_written(rng) -> None:
    q, k, v, cu_q, cu_k = batch(rng, [4], [4])
    for array in (q, k, v):
        array.setflags(write=False)
    out = libmla.attend(q, k, v, cu_q, cu_k)
    out.setflags(write=False)
    with pytest.raises(ValueError, match="out: wanted a tensor that can be written"):
        libmla.attend(q, k, v, cu_q, cu_k, out=out)
