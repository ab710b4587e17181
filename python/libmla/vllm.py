"""libmla inside vLLM on CPUs: the plugin of the group vllm.general_plugins.

`register` runs in every process of vLLM. It makes libmla the prefill backend of CPU and ZEN_CPU;
`PrefillBackend` takes what libmla computes and leaves the rest to vLLM's own class. Settings:
LIBMLA_VLLM=0 turns it off; LIBMLA_VLLM_CHUNKED_PREFILL=1 keeps chunked prefill and prefix caching
on CPUs where vLLM turns them off for MLA; LIBMLA_VLLM_REPLACE_AMX=1 puts the backend CPU_MLA, and
with it libmla, in the place of AMX_MLA, which asks no prefill backend; LIBMLA_VLLM_BACKEND=CPU:avx2 asks for a row.
"""

from __future__ import annotations

import functools
import logging
import os
from typing import TYPE_CHECKING, Any

import libmla

if TYPE_CHECKING:
    import torch

logger = logging.getLogger("vllm.libmla")  # below vLLM's logger, whose handler shows it

BACKEND = "libmla.vllm.PrefillBackend"
_registered = False
_calls = {"new_tokens": 0, "context_chunks": 0, "left_to_vllm": 0}


def calls() -> dict[str, int]:
    """How often, in this process, vLLM asked for a layer's prefill: new tokens and context chunks
    that libmla attended to, and either that it left to vLLM's class."""
    return dict(_calls)


def _row() -> str | None:
    """The row asked for, None: selected."""
    return os.environ.get("LIBMLA_VLLM_BACKEND") or None


def enabled(name: str, default: str = "0") -> bool:
    """Whether an environment variable is set to something that is not off."""
    return os.environ.get(name, default).strip().lower() not in ("", "0", "false", "off", "no")


def register() -> None:
    """The plugin's entry point; safe to call again."""
    global _registered
    if not enabled("LIBMLA_VLLM", "1"):
        logger.info("libmla %s: off (LIBMLA_VLLM=0)", libmla.__version__)
        return
    if _registered:
        return
    from vllm.platforms import current_platform
    from vllm.v1.attention.backends.mla.prefill.registry import (
        MLAPrefillBackendEnum,
        register_mla_prefill_backend,
    )

    if not current_platform.is_cpu():
        logger.info("libmla %s: not used, the platform is no CPU", libmla.__version__)
        return
    for backend in (MLAPrefillBackendEnum.ZEN_CPU, MLAPrefillBackendEnum.CPU):
        register_mla_prefill_backend(backend, BACKEND)
    notes = _wrap_platform(type(current_platform))
    _registered = True
    row = libmla.select(dtype="bfloat16", platform="cpu", backend=_row()).full_name
    logger.info(
        "libmla %s is active: MLA prefill on this CPU runs on %s%s", libmla.__version__, row, notes
    )


def _wrap_platform(platform: Any) -> str:
    """Wraps check_and_update_config for what was opted into; says what that was."""
    chunked = enabled("LIBMLA_VLLM_CHUNKED_PREFILL")
    replace_amx = enabled("LIBMLA_VLLM_REPLACE_AMX")
    if not chunked and not replace_amx:
        return ""
    original = platform.check_and_update_config.__func__

    @functools.wraps(original)
    def check_and_update_config(cls: Any, vllm_config: Any) -> None:
        mla = vllm_config.model_config is not None and vllm_config.model_config.use_mla
        if mla and replace_amx:
            _avoid_amx(vllm_config)
        wanted = _chunking(vllm_config)
        original(cls, vllm_config)
        if mla and chunked:
            _set_chunking(vllm_config, wanted)

    platform.check_and_update_config = classmethod(check_and_update_config)
    names = [
        name
        for name, on in (("chunked prefill", chunked), ("in the place of AMX_MLA", replace_amx))
        if on
    ]
    return f" ({', '.join(names)})"


def _avoid_amx(vllm_config: Any) -> None:
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    attention = vllm_config.attention_config
    if attention.backend in (None, AttentionBackendEnum.AMX_MLA):
        attention.backend = AttentionBackendEnum.CPU_MLA


def _chunking(vllm_config: Any) -> tuple[bool, bool, int]:
    return (
        vllm_config.scheduler_config.enable_chunked_prefill,
        vllm_config.cache_config.enable_prefix_caching,
        vllm_config.scheduler_config.max_num_batched_tokens,
    )


def _set_chunking(vllm_config: Any, wanted: tuple[bool, bool, int]) -> None:
    chunked, prefix, tokens = wanted
    vllm_config.scheduler_config.enable_chunked_prefill = chunked
    vllm_config.cache_config.enable_prefix_caching = prefix
    vllm_config.scheduler_config.max_num_batched_tokens = tokens


@functools.cache
def _runs(dtype: str, dims: tuple[int, int, int]) -> bool:
    """Whether a row of libmla computes this here."""
    try:
        choice = libmla.select(dims=dims, dtype=dtype, platform="cpu", backend=_row())
    except libmla.Error as error:
        logger.warning("libmla leaves MLA prefill to vLLM: %s", error)
        return False
    return any(row.runs_here for row in libmla.registry.find(choice.full_name))


def __getattr__(name: str) -> Any:
    """PrefillBackend, made when vLLM asks for it: its base class is vLLM's."""
    if name != "PrefillBackend":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    backend = _make_backend()
    globals()[name] = backend
    return backend


def _make_backend() -> type:
    from vllm.v1.attention.backends.mla.prefill.cpu_sdpa import CPUSDPAMLAPrefillBackend

    class PrefillBackend(CPUSDPAMLAPrefillBackend):
        """vLLM's CPU backend with libmla doing the attention. No state: vLLM clones it."""

        @staticmethod
        def get_name() -> str:
            return "LIBMLA"

        def supports_out(self) -> bool:
            return True

        def run_prefill_new_tokens(
            self,
            q: torch.Tensor,
            k: torch.Tensor,
            v: torch.Tensor,
            return_softmax_lse: bool,
            out: torch.Tensor | None = None,
            output_scale: torch.Tensor | None = None,
        ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
            if output_scale is not None or not self._takes(q, k, v):
                _calls["left_to_vllm"] += 1
                return super().run_prefill_new_tokens(
                    q, k, v, return_softmax_lse, out, output_scale
                )
            _calls["new_tokens"] += 1
            offsets = self._prefill_metadata.query_start_loc
            result: torch.Tensor | tuple[torch.Tensor, torch.Tensor] = libmla.attend(
                q, k, v, offsets, offsets, scale=self.scale, causal=True,
                return_lse=return_softmax_lse, out=out, backend=_row(),
            )  # fmt: skip
            return result

        def run_prefill_context_chunk(
            self,
            chunk: Any,
            q: torch.Tensor,
            k: torch.Tensor,
            v: torch.Tensor,
            out: torch.Tensor | None = None,
        ) -> tuple[torch.Tensor, torch.Tensor]:
            if not self._takes(q, k, v):
                _calls["left_to_vllm"] += 1
                return super().run_prefill_context_chunk(chunk, q, k, v, out)
            _calls["context_chunks"] += 1
            result: tuple[torch.Tensor, torch.Tensor] = libmla.attend(
                q, k, v, chunk.query_start_loc, chunk.cu_seq_lens, scale=self.scale,
                causal=False, return_lse=True, out=out, backend=_row(),
            )  # fmt: skip
            return result

        @staticmethod
        def _takes(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> bool:
            same = q.dtype == k.dtype == v.dtype and q.shape[1] == k.shape[1] == v.shape[1]
            if not same or not (q.stride(-1) == k.stride(-1) == v.stride(-1) == 1):
                return False
            return _runs(str(q.dtype), (q.shape[-1], 0, v.shape[-1]))

    PrefillBackend.__module__ = __name__
    PrefillBackend.__qualname__ = "PrefillBackend"
    return PrefillBackend
