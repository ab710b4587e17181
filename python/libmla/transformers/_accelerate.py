"""accelerate(model) and restore(model)."""

from __future__ import annotations

from typing import Any, TypeVar

import torch

from ._attention import _DTYPES, NAME
from ._cache import use_latent_layer
from ._latents import Expansion, Options, Step

Model = TypeVar("Model", bound=torch.nn.Module)

_STATE = "_libmla_accelerated"
_DIMS = ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "kv_lora_rank")


def accelerate(
    model: Model,
    *,
    backend: str | None = None,
    form: str = "auto",
    scratch_bytes: int = 256 << 20,
) -> Model:
    """Makes the model's MLA attention work from latents, with libmla's prefill operator.

    Every attention module is checked first; where one does not fit, ValueError says why and the
    model is as it was. Weights, state dict, cache object and `generate` stay the model's own; the
    packed copies of kv_b_proj take as much memory again. Training and gradients go the model's own
    way. backend, form and scratch_bytes are PrefillOperator's. Returns the model.
    """
    if hasattr(model, _STATE):
        raise ValueError("model: already accelerated; call restore(model) first")
    modules = {name: module for name, module in model.named_modules() if _is_mla(module)}
    if not modules:
        raise ValueError("model: no MLA attention module with expand_kv and kv_b_proj was found")
    for name, module in modules.items():
        reason = _why_not(module)
        if reason is not None:
            raise ValueError(f"{name}: {reason}")
    options, step = Options(backend, form, scratch_bytes), Step()
    expansions = {name: Expansion(module, options, step) for name, module in modules.items()}
    for name, expansion in expansions.items():
        expansion.operator(float(modules[name].scaling))
        _check_projection(name, modules[name])
    previous = _set_implementation(model, list(modules.values()))
    for name, module in modules.items():
        module.expand_kv = expansions[name]
        module.register_forward_pre_hook(_before_forward, with_kwargs=True)
    setattr(model, _STATE, previous)
    return model


def restore(model: Model) -> Model:
    """Undoes accelerate(). Returns the model."""
    previous: str | None = getattr(model, _STATE, None)
    if previous is None:
        raise ValueError("model: not accelerated")
    for module in model.modules():
        if isinstance(module.__dict__.get("expand_kv"), Expansion):
            del module.__dict__["expand_kv"]
            _remove_hook(module)
    _put_implementation(model, previous)
    delattr(model, _STATE)
    return model


def _remove_hook(module: torch.nn.Module) -> None:
    # By value, not by the handle of registration: a copied model has copies of the hooks only.
    hooks = module._forward_pre_hooks
    for key in [key for key, hook in hooks.items() if hook is _before_forward]:
        del hooks[key]
        module._forward_pre_hooks_with_kwargs.pop(key, None)


def _before_forward(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    use_latent_layer(kwargs.get("past_key_values"), module.layer_idx)


def _is_mla(module: torch.nn.Module) -> bool:
    return hasattr(type(module), "expand_kv") and hasattr(module, "kv_b_proj")


def _why_not(module: Any) -> str | None:
    """The reason why a module is left alone, or None."""
    for attribute in (*_DIMS, "scaling", "layer_idx", "config"):
        if not hasattr(module, attribute):
            return f"{type(module).__name__} has no {attribute}"
    if getattr(module, "indexer", None) is not None or hasattr(module.config, "index_topk"):
        return f"{type(module).__name__} has a sparse indexer, and sparse attention is not supported"
    projection: Any = module.kv_b_proj
    if type(projection) is not torch.nn.Linear:
        return f"kv_b_proj is a {type(projection).__name__}, not a plain Linear layer"
    if projection.bias is not None:
        return "kv_b_proj has a bias"
    weight = projection.weight
    if not weight.is_cpu:
        return f"kv_b_proj is on {weight.device}, not on the CPU"
    if weight.dtype not in _DTYPES:
        return f"kv_b_proj is {weight.dtype}, not float32, float16 or bfloat16"
    rows = int(module.qk_nope_head_dim) + int(module.v_head_dim)
    if weight.shape[1] != module.kv_lora_rank or weight.shape[0] % rows != 0:
        return f"kv_b_proj is {tuple(weight.shape)}, not [heads * {rows}, {module.kv_lora_rank}]"
    return None


@torch.no_grad()
def _check_projection(name: str, module: Any) -> None:
    """The module's own expand_kv, against k = [kv W_UK^T | pe] and v = kv W_UV^T."""
    weight = module.kv_b_proj.weight
    generator = torch.Generator().manual_seed(0)
    kv = torch.randn((1, 1, 3, module.kv_lora_rank), generator=generator).to(weight.dtype)
    pe = torch.randn((1, 1, 3, module.qk_rope_head_dim), generator=generator).to(weight.dtype)
    keys, values = type(module).expand_kv(module, kv, pe)
    nope, width = module.qk_nope_head_dim, module.v_head_dim
    heads = weight.shape[0] // (nope + width)
    projected = (kv[0, 0] @ weight.T).view(3, heads, nope + width).transpose(0, 1)
    rope = pe[0].expand(heads, -1, -1)
    same = (
        tuple(keys.shape) == (1, heads, 3, nope + pe.shape[-1])
        and tuple(values.shape) == (1, heads, 3, width)
        and torch.allclose(keys[0, ..., :nope].float(), projected[..., :nope].float(), 1e-2, 1e-2)
        and torch.allclose(values[0].float(), projected[..., nope:].float(), 1e-2, 1e-2)
        and torch.equal(keys[0, ..., nope:], rope)
    )
    if not same:
        raise ValueError(f"{name}: {type(module).__name__}.expand_kv is not kv_b_proj and a split")


def _set_implementation(model: Any, modules: list[Any]) -> str:
    """Sets attn_implementation="libmla"; ValueError, and nothing changed, where a module of the
    model would not use it."""
    previous = str(modules[0].config._attn_implementation)
    _put_implementation(model, NAME)
    if any(module.config._attn_implementation != NAME for module in modules):
        _put_implementation(model, previous)
        raise ValueError(f'model: {type(model).__name__} does not take attn_implementation="{NAME}"')
    return previous


def _put_implementation(model: Any, name: str) -> None:
    if not hasattr(model, "set_attn_implementation"):
        raise ValueError(f"model: {type(model).__name__} is not a model of Transformers")
    model.set_attn_implementation(name)
