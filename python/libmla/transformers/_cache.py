"""A cache layer that keeps a token's latents side by side and grows in place.

Transformers' own layer concatenates the whole cache with every token; this one writes the new rows
behind the old ones, and what it returns are views. Everything else (crop, reorder, repeat, select)
is the base class's, after which the rows are laid side by side again.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer

_SPARE_TOKENS = 64  # room to grow, beside an eighth of the length


class LatentLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """keys are kv_c [B,1,N,L] and values k_pe [B,1,N,rope], views of one [B,capacity,L+rope]."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)  # type: ignore[no-untyped-call]
        self._rows: torch.Tensor | None = None

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if torch.is_grad_enabled() and (key_states.requires_grad or value_states.requires_grad):
            updated: tuple[torch.Tensor, torch.Tensor] = super().update(key_states, value_states)
            return updated
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        length = self.get_seq_length()
        total = length + key_states.shape[2]
        rank = key_states.shape[-1]
        rows = self._rows_for(key_states, value_states, length, total)
        rows[:, length:total, :rank] = key_states[:, 0]
        rows[:, length:total, rank:] = value_states[:, 0]
        self.keys = rows[:, None, :total, :rank]
        self.values = rows[:, None, :total, rank:]
        return self.keys, self.values

    def _rows_for(
        self, key_states: torch.Tensor, value_states: torch.Tensor, length: int, total: int
    ) -> torch.Tensor:
        rows, rank = self._rows, key_states.shape[-1]
        keys: Any = self.keys
        values: Any = self.values
        ours = (
            rows is not None
            and rows.shape[0] == key_states.shape[0]
            and (length == 0 or keys.data_ptr() == rows.data_ptr())
            and (length == 0 or values.data_ptr() == rows[0, 0, rank:].data_ptr())
        )
        if rows is not None and ours and rows.shape[1] >= total:
            return rows
        width = rank + value_states.shape[-1]
        capacity = total + total // 8 + _SPARE_TOKENS
        grown = key_states.new_empty((key_states.shape[0], capacity, width))
        if length > 0:
            grown[:, :length, :rank] = keys[:, 0]
            grown[:, :length, rank:] = values[:, 0]
        self._rows = grown
        return grown

    def reset(self) -> None:
        super().reset()
        self._rows = None


def use_latent_layer(cache: Any, index: int) -> None:
    """Puts a LatentLayer in the place of a plain dynamic layer; other kinds are left alone."""
    if not isinstance(cache, Cache) or getattr(cache, "offloading", False):
        return
    replicated = getattr(cache, "layer_class_to_replicate", None)
    while replicated is not None and len(cache.layers) <= index:
        cache.layers.append(replicated())
    if index >= len(cache.layers) or type(cache.layers[index]) is not DynamicLayer:
        return
    old: Any = cache.layers[index]
    layer: Any = LatentLayer()
    if old.is_initialized:
        layer.dtype, layer.device = old.dtype, old.device
        layer.keys, layer.values, layer.is_initialized = old.keys, old.values, True
    cache.layers[index] = layer
