"""libmla inside Hugging Face Transformers.

`import libmla.transformers` (or `register()`) makes `attn_implementation="libmla"` known.
`accelerate(model)` goes further: latents stay latents, so that a decode step no longer expands the
whole context again; `restore(model)` undoes it.
"""

from __future__ import annotations

from ._accelerate import accelerate, restore
from ._attention import NAME, attention, use_backend
from ._masks import mask

__all__ = ["accelerate", "register", "restore"]


def register(*, backend: str | None = None) -> None:
    """Makes attn_implementation="libmla" known to Transformers, mask function included.

    backend: the row it runs on ("CPU:avx2"), None: selected. It may be called again.
    """
    use_backend(backend)
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(NAME, attention)
    # A name registered only above gets no mask ever, and is silently wrong with padding.
    AttentionMaskInterface.register(NAME, mask)


register()
