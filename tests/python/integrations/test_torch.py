"""libmla on torch's tensors: in place, strided, bfloat16, and nothing behind autograd's back."""

from __future__ import annotations

import pytest
import torch

import libmla

CU = torch.tensor([0, 5, 5, 16], dtype=torch.int32)


def tensors(dtype=torch.float32):
    torch.manual_seed(0)
    q = torch.randn(16, 2, 24).to(dtype)
    k = torch.randn(16, 2, 24).to(dtype)
    v = torch.randn(16, 2, 24 + 16).to(dtype)[..., 24:]
    return q, k, v


@pytest.mark.parametrize(
    "dtype, tolerance", [(torch.float32, 2e-5), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)]
)
def test_equals_the_reference(dtype, tolerance) -> None:
    q, k, v = tensors(dtype)
    out, lse = libmla.attend(q, k, v, CU, CU.long(), return_lse=True)
    wanted, wanted_lse = libmla.reference(q, k, v, CU, CU)
    assert out.dtype == dtype and lse.dtype == torch.float32
    torch.testing.assert_close(out.double(), wanted, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(lse.double(), wanted_lse, rtol=1e-3, atol=1e-3)


def test_out_in_place_and_float32_on_request() -> None:
    q, k, v = tensors(torch.bfloat16)
    out = torch.empty(16, 2, 16)
    assert libmla.attend(q, k, v, CU, CU, out=out) is out
    torch.testing.assert_close(out.bfloat16(), libmla.attend(q, k, v, CU, CU))


def test_a_parameter_and_a_subclass_are_tensors() -> None:
    q, k, v = tensors()

    class Tagged(torch.Tensor):
        pass

    with torch.no_grad():
        out = libmla.attend(torch.nn.Parameter(q), k.as_subclass(Tagged), v, CU, CU)
    assert torch.equal(out, libmla.attend(q, k, v, CU, CU))


def test_refuses_to_break_a_gradient() -> None:
    q, k, v = tensors()
    with pytest.raises(ValueError, match="q: wanted a tensor without gradient"):
        libmla.attend(q.requires_grad_(), k, v, CU, CU)
    with torch.no_grad():
        libmla.attend(q, k, v, CU, CU)


def test_refuses_other_devices() -> None:
    q, k, v = tensors()
    with pytest.raises(ValueError, match="q: wanted a tensor in the CPU's memory, got device meta"):
        libmla.attend(q.to("meta"), k, v, CU, CU)


def test_dense_equals_sdpa() -> None:
    torch.manual_seed(0)
    q, k, v = torch.randn(2, 3, 7, 24), torch.randn(2, 3, 9, 24), torch.randn(2, 3, 9, 16)
    mask = torch.ones(7, 9, dtype=torch.bool).tril(2).repeat(2, 1, 1, 1)
    mask[1, :, :, :2] = False
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(libmla.attend_dense(q, k, v, key_starts=[0, 2]), wanted)


def test_one_openmp_runtime() -> None:
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = {line.split()[-1] for line in maps if "libgomp" in line or "libomp" in line}
    assert len(loaded) == 1
