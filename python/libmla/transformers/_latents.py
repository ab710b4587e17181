"""Attention straight from the latent cache, with the prefill operator.

An accelerated module's `expand_kv` gives a `Latents` where Transformers expects keys and values; it
reaches the attention function untouched, which asks the operator. Nothing of the context is
expanded as a whole, ever; a decode step is absorbed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

import libmla

from ._masks import KeyRanges, ranges_of


@dataclass
class Step:
    """The plan of the running step, shared by the layers of a model."""

    key: tuple[Any, ...] | None = None
    plan: libmla.Plan | None = None


@dataclass(frozen=True)
class Options:
    backend: str | None = None
    form: str = "auto"
    scratch_bytes: int = 256 << 20


class Expansion:
    """Replaces `expand_kv` of one attention module."""

    def __init__(self, module: Any, options: Options, step: Step) -> None:
        self.module = module
        self.options = options
        self.step = step
        self._operator: libmla.PrefillOperator | None = None
        self._packed: tuple[Any, ...] | None = None
        self.shape: tuple[Any, ...] = ()  # operators that agree in this share plans

    def __call__(
        self, kv_nope: torch.Tensor, k_rot: torch.Tensor
    ) -> tuple[Any, Any]:
        weight = self.module.kv_b_proj.weight
        gradient = torch.is_grad_enabled() and (kv_nope.requires_grad or weight.requires_grad)
        if self.module.training or gradient or kv_nope.dtype != weight.dtype:
            return self.expand(kv_nope, k_rot)
        latents = Latents(self, kv_nope, k_rot)
        return latents, latents

    def expand(self, kv_nope: torch.Tensor, k_rot: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What the module's class does."""
        expanded: tuple[torch.Tensor, torch.Tensor] = type(self.module).expand_kv(
            self.module, kv_nope, k_rot
        )
        return expanded

    def operator(self, scaling: float) -> libmla.PrefillOperator:
        """Packed from the module's weight; packed again when that has changed."""
        weight = self.module.kv_b_proj.weight
        packed = (weight.data_ptr(), weight._version, weight.dtype, scaling)
        if self._operator is None or self._packed != packed:
            module = self.module
            dims = (module.qk_nope_head_dim, module.qk_rope_head_dim, module.v_head_dim)
            heads = weight.shape[0] // (dims[0] + dims[2])
            self.shape = (heads, dims, module.kv_lora_rank, weight.dtype, scaling, self.options)
            self._operator = libmla.PrefillOperator(
                weight.detach(),
                num_heads=heads,
                dims=dims,
                kv_lora_rank=module.kv_lora_rank,
                dtype=weight.dtype,
                scale=scaling,
                backend=self.options.backend,
                form=self.options.form,
                scratch_bytes=self.options.scratch_bytes,
            )
            self._packed = packed
        return self._operator

    def __getstate__(self) -> dict[str, Any]:
        """Copied and pickled without what is packed, which is made again where it is needed."""
        return {**self.__dict__, "step": Step(), "_operator": None, "_packed": None}


@dataclass
class Latents:
    """Stands where keys and values do: kv [B,1,N,L] and pe [B,1,N,rope]."""

    expansion: Expansion = field(repr=False)
    kv: torch.Tensor
    pe: torch.Tensor

    def expand(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.expansion.expand(self.kv, self.pe)

    def rows(self) -> torch.Tensor:
        """[B,N,L+rope]: the cache's own memory where that holds the two side by side."""
        rank, rope = self.kv.shape[-1], self.pe.shape[-1]
        batch, _, length, _ = self.kv.shape
        row = rank + rope
        strides = (self.kv.stride(0), row, 1)
        beside = (
            self.pe.data_ptr() == self.kv.data_ptr() + rank * self.kv.element_size()
            and self.kv.stride(2) == row == self.pe.stride(2)
            and self.kv.stride(3) == 1 == self.pe.stride(3)
            and (batch == 1 or self.kv.stride(0) == self.pe.stride(0))
        )
        if beside:
            return self.kv.as_strided((batch, length, row), strides, self.kv.storage_offset())
        return torch.cat((self.kv[:, 0], self.pe[:, 0]), dim=-1)


def attend_latents(
    latents: Latents, query: torch.Tensor, mask: torch.Tensor | None, scaling: float | None
) -> torch.Tensor | None:
    """[B,S,H,Dv], or None where the mask needs more than ranges of keys."""
    batch, heads, queries, width = query.shape
    keys = latents.kv.shape[2]
    ranges = ranges_of(mask, batch, queries, keys)
    if ranges is None or query.dtype != latents.kv.dtype:
        return None
    if (torch.is_grad_enabled() and query.requires_grad) or not query.is_cpu:
        return None
    context = ranges.query_offset
    operator = latents.expansion.operator(width**-0.5 if scaling is None else scaling)
    rows = latents.rows() if context > 0 else None
    plan = _plan(latents.expansion, operator, ranges, queries, rows)
    new_kv = latents.kv[:, 0, context : context + queries].reshape(batch * queries, -1)
    new_pe = latents.pe[:, 0, context : context + queries].reshape(batch * queries, -1)
    if batch == 1:
        packed = query[0].transpose(0, 1)
    else:
        packed = query.transpose(1, 2).reshape(batch * queries, heads, width)
    out: torch.Tensor = operator.run(
        plan, packed.detach(), new_kv.detach(), new_pe.detach(), _pages(rows, ranges)
    )
    out = out.view(batch, queries, heads, -1)
    for request, start in enumerate(ranges.starts):
        if start > context:  # padding on the left: rows that see no key
            out[request, : start - context] = 0
    return out


def _pages(rows: torch.Tensor | None, ranges: KeyRanges) -> torch.Tensor | None:
    """The context as a paged cache: a block a request, or a block a row where a request's context
    starts inside it."""
    if rows is None:
        return None
    rows = rows.detach()
    if not any(ranges.starts):
        return rows
    batch, length, width = rows.shape
    total = (batch - 1) * (rows.stride(0) // width) + length
    return rows.as_strided((total, 1, width), (width, width, 1), rows.storage_offset())


def _plan(
    expansion: Expansion,
    operator: libmla.PrefillOperator,
    ranges: KeyRanges,
    queries: int,
    rows: torch.Tensor | None,
) -> libmla.Plan:
    """Made by the first layer of a step, used by all: the requests, and before each the rows of its
    padding on the left as a request of their own, whose result is dropped."""
    step = expansion.step
    page = None if rows is None or not any(ranges.starts) else rows.stride(0) // rows.shape[2]
    threads = torch.get_num_threads()
    key = (ranges.starts, ranges.query_offset, queries, page, threads, expansion.shape)
    if step.key == key and step.plan is not None:
        return step.plan
    offsets, contexts, tables = [0], [], []
    for request, start in enumerate(ranges.starts):
        padding = min(max(start - ranges.query_offset, 0), queries)
        context = max(ranges.query_offset - start, 0)
        if padding > 0:
            offsets.append(offsets[-1] + padding)
            contexts.append(0)
            tables.append((0, 0))
        offsets.append(offsets[-1] + queries - padding)
        contexts.append(context)
        tables.append((request if page is None else request * page + start, context))
    table = None
    if rows is not None:
        blocks = max(1 if page is None else context for _, context in tables)
        first = torch.tensor([begin for begin, _ in tables], dtype=torch.int32)
        table = first[:, None] + torch.arange(max(blocks, 1), dtype=torch.int32)[None, :]
    step.plan = operator.plan(offsets, contexts, table, num_threads=threads)
    step.key = key
    return step.plan
