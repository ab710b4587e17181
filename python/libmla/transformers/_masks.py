"""Which keys each query sees, said in three numbers a request where that is enough.

Transformers asks an attention implementation's mask function once a step. A plain causal mask over
a contiguous range of keys per request is described by `KeyRanges`, which travels on the mask tensor
as an attribute; everything else stays the 4-D mask that sdpa would get.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from transformers.masking_utils import causal_mask_function, prepare_padding_mask, sdpa_mask

_ATTRIBUTE = "_libmla_ranges"


@dataclass(frozen=True)
class KeyRanges:
    """Request b sees the keys starts[b] .. starts[b] + lengths[b] - 1, and its query i, standing at
    key query_offset + i, none after that."""

    starts: tuple[int, ...]
    lengths: tuple[int, ...]
    query_offset: int


def contiguous_ranges(keys: torch.Tensor, query_offset: int) -> KeyRanges | None:
    """From a boolean key mask [B,N]; None where the keys of a request have a hole."""
    counts = keys.sum(dim=-1)
    starts = keys.int().argmax(dim=-1)
    last = keys.shape[-1] - 1 - keys.flip(-1).int().argmax(dim=-1)
    whole = (last - starts + 1 == counts) | (counts == 0)
    if not bool(whole.all()):
        return None
    starts = torch.where(counts == 0, torch.zeros_like(starts), starts)
    return KeyRanges(tuple(starts.tolist()), tuple(counts.tolist()), query_offset)


def ranges_of(mask: torch.Tensor | None, batch: int, queries: int, keys: int) -> KeyRanges | None:
    """What a mask of `mask()` says; None where only the 4-D mask itself says it."""
    if mask is None:
        return KeyRanges((0,) * batch, (keys,) * batch, keys - queries)
    ranges: KeyRanges | None = getattr(mask, _ATTRIBUTE, None)
    if ranges is None and mask.ndim == 2:
        ranges = contiguous_ranges(mask.bool(), keys - queries)
    return ranges


def dense_mask(mask: torch.Tensor | None, queries: int, keys: int) -> torch.Tensor | None:
    """The 4-D mask sdpa takes, from any mask of `mask()`."""
    if mask is None or mask.ndim == 4:
        return None if mask is None else mask[..., :keys]
    ranges: KeyRanges | None = getattr(mask, _ATTRIBUTE, None)
    offset = keys - queries if ranges is None else ranges.query_offset
    places = torch.arange(queries, device=mask.device)[:, None] + offset
    causal = places >= torch.arange(keys, device=mask.device)[None, :]
    return mask.bool()[:, None, None, :keys] & causal


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,  # an int, or StaticLayer's tensor
    kv_offset: int = 0,
    mask_function: Callable[..., Any] = causal_mask_function,
    attention_mask: torch.Tensor | None = None,
    local_size: int | None = None,
    config: Any = None,
    **kwargs: Any,
) -> torch.Tensor | None:
    """Transformers' mask function of attn_implementation="libmla"."""
    sparse = getattr(config, "index_topk", None) is not None
    plain = mask_function is causal_mask_function and kv_offset == 0 and local_size is None
    if not plain:
        return sdpa_mask(
            batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask,
            local_size, **kwargs,
        )  # fmt: skip
    offset = int(q_offset)
    keys = prepare_padding_mask(attention_mask, kv_length, kv_offset)
    if keys is None or bool(keys.all()):
        if offset + q_length == kv_length and not sparse:
            return None
        device = kwargs.get("device", "cpu")
        keys = torch.ones((batch_size, kv_length), dtype=torch.bool, device=device)
    keys = keys[:, :kv_length].bool()
    ranges = contiguous_ranges(keys, offset)
    if ranges is None or sparse:  # a sparse model's indexer scores against the 4-D mask
        kwargs["allow_is_causal_skip"] = False
        result = sdpa_mask(
            batch_size, q_length, kv_length, q_offset, kv_offset, mask_function, attention_mask,
            local_size, **kwargs,
        )  # fmt: skip
    else:
        result = keys
    if ranges is not None and result is not None:
        setattr(result, _ATTRIBUTE, ranges)
    return result
