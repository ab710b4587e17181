"""Selects and runs MLA prefill attention: the Python face of libmla.

Tensors of torch, numpy (ml_dtypes' bfloat16 included) and anything with DLPack or the buffer
protocol are read and written in place. Importing this imports none of them.
"""

from __future__ import annotations

import atexit as _atexit
import logging as _logging

from . import _libmla
from ._errors import Error, SelectionError
from ._libmla import (
    Cpu,
    DriverReport,
    GpuDevice,
    Machine,
    ModelConfig,
    Plan,
    PrefillOperator,
    Reason,
    Registry,
    Rejected,
    Row,
    Selection,
    attend,
    attend_dense,
    devices,
    load_model,
    merge,
    models,
    parse_model_config,
    reference,
    registry,
    select,
    select_json,
)
from ._libmla import version as __version__

__all__ = [
    "Cpu",
    "DriverReport",
    "Error",
    "GpuDevice",
    "Machine",
    "ModelConfig",
    "Plan",
    "PrefillOperator",
    "Reason",
    "Registry",
    "Rejected",
    "Row",
    "Selection",
    "SelectionError",
    "__version__",
    "attend",
    "attend_dense",
    "devices",
    "load_model",
    "merge",
    "models",
    "parse_model_config",
    "reference",
    "registry",
    "select",
    "select_json",
]

_LEVELS = (_logging.DEBUG, _logging.INFO, _logging.WARNING)


def _log(level: int, text: str) -> None:
    _logging.getLogger("libmla").log(_LEVELS[level], "%s", text)


_libmla.set_log_sink(_log)
# Threads of the library may outlive the interpreter; what they say then goes nowhere.
_atexit.register(_libmla.set_log_sink, None)
