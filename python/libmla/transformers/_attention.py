"""The attention function behind attn_implementation="libmla"."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F

import libmla

from ._latents import Latents, attend_latents
from ._masks import KeyRanges, dense_mask, ranges_of

NAME = "libmla"
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_LARGEST_HEAD_DIM = 1024
_backend: str | None = None


def use_backend(backend: str | None) -> None:
    """The row of the calls to come; an error here rather than in a model's forward."""
    global _backend
    if backend is not None:
        libmla.registry.find(backend)
    _backend = backend


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor | Latents,
    value: torch.Tensor | Latents,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """query [B,H,S,Dq], key [B,H,N,Dq], value [B,H,N,Dv] -> [B,S,H,Dv]."""
    causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
    _refuse_what_changes_the_result(kwargs)
    if isinstance(key, Latents):
        if causal and dropout == 0.0 and "cu_seq_lens_q" not in kwargs:
            out = attend_latents(key, query, attention_mask, scaling)
            if out is not None:
                return out, None
        key, value = key.expand()
    assert isinstance(value, torch.Tensor)
    _refuse_sparse(kwargs.get("indices"), attention_mask, key.shape[2])
    if dropout > 0.0 or not _fits(query, key, value):
        return _sdpa(query, key, value, attention_mask, dropout, scaling, causal), None
    if kwargs.get("cu_seq_lens_q") is not None and query.shape[0] == 1:
        return _ragged(query, key, value, scaling, causal, kwargs), None
    ranges = ranges_of(attention_mask, query.shape[0], query.shape[2], key.shape[2])
    if ranges is None:
        return _sdpa(query, key, value, attention_mask, dropout, scaling, causal), None
    return _dense(query, key, value, ranges, scaling, causal), None


def _dense(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    ranges: KeyRanges,
    scaling: float | None,
    causal: bool,
) -> torch.Tensor:
    out: torch.Tensor = libmla.attend_dense(
        query.detach(),
        key.detach(),
        value.detach(),
        key_starts=ranges.starts,
        key_lengths=ranges.lengths,
        query_offset=ranges.query_offset,
        scale=scaling,
        causal=causal,
        backend=_backend,
    )
    return out.transpose(1, 2)


def _ragged(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scaling: float | None,
    causal: bool,
    kwargs: dict[str, Any],
) -> torch.Tensor:
    """Packed sequences whose offsets the caller gave, as Flash Attention gets them."""
    out: torch.Tensor = libmla.attend(
        query.detach()[0].transpose(0, 1),
        key.detach()[0].transpose(0, 1),
        value.detach()[0].transpose(0, 1),
        kwargs["cu_seq_lens_q"],
        kwargs.get("cu_seq_lens_k", kwargs["cu_seq_lens_q"]),
        scale=scaling,
        causal=causal,
        backend=_backend,
    )
    return out[None]


def _fits(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> bool:
    """Whether libmla computes this; everything else is torch's."""
    needs_gradient = torch.is_grad_enabled() and (
        query.requires_grad or key.requires_grad or value.requires_grad
    )
    return (
        not needs_gradient
        and query.is_cpu
        and query.dtype in _DTYPES
        and query.dtype == key.dtype == value.dtype
        and query.shape[1] == key.shape[1]
        and max(query.shape[-1], value.shape[-1]) <= _LARGEST_HEAD_DIM
        and query.stride(-1) == key.stride(-1) == value.stride(-1) == 1
    )


def _sdpa(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float,
    scaling: float | None,
    causal: bool,
) -> torch.Tensor:
    """torch's attention with v padded to the width of q, which keeps it off its slow path."""
    queries, keys, width = query.shape[2], key.shape[2], value.shape[-1]
    if query.shape[1] != key.shape[1]:
        repeats = query.shape[1] // key.shape[1]
        key = key.repeat_interleave(repeats, dim=1)
        value = value.repeat_interleave(repeats, dim=1)
    if attention_mask is None and causal and 1 < queries != keys:
        attention_mask = torch.ones(query.shape[0], keys, dtype=torch.bool, device=query.device)
    mask = dense_mask(attention_mask, queries, keys)
    if width < query.shape[-1]:
        value = F.pad(value, (0, query.shape[-1] - width))
    out = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        dropout_p=dropout,
        is_causal=causal and mask is None and queries > 1,
        scale=scaling,
    )
    return out[..., :width].transpose(1, 2).contiguous()


def _refuse_what_changes_the_result(kwargs: dict[str, Any]) -> None:
    for name in ("softcap", "s_aux", "position_bias"):
        if kwargs.get(name) is not None:
            raise ValueError(
                f'attn_implementation="libmla": {name} is not supported; use "eager" or "sdpa"'
            )


def _refuse_sparse(
    indices: torch.Tensor | None, attention_mask: torch.Tensor | None, keys: int
) -> None:
    """A sparse indexer's choice of keys: fine while it chooses all that a query sees."""
    if indices is None:
        return
    chosen = (indices >= 0).sum(dim=-1)
    visible = torch.full_like(chosen, keys)
    if attention_mask is not None and attention_mask.ndim == 4:
        seen = attention_mask if attention_mask.dtype == torch.bool else attention_mask >= 0
        visible = seen[:, 0, :, :keys].sum(dim=-1)
    if bool((chosen < visible).any()):
        raise ValueError(
            f'attn_implementation="libmla": the indexer chose at most {int(chosen.max())} of {keys} '
            'keys, and sparse attention is not supported; use attn_implementation="sdpa"'
        )
