"""select(), the registry and the models: Python's face gives what `mla` gives."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import libmla

CASES = Path(__file__).parent.parent / "data" / "selection.jsonl"


def cases():
    with CASES.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines if line.strip()]


def test_select_gives_the_answers_of_the_case_file() -> None:
    asked = 0
    for case in cases():
        request = case.get("request", case)
        if "dims" not in request or request.get("platform") is None:
            continue
        arguments = {key: value for key, value in request.items() if value is not None}
        if set(arguments) - {
            "dims", "dtype", "platform", "capability", "backend", "compat", "arch", "cpu",
            "fallback", "disabled", "unloadable", "not_installed",
        }:
            continue
        wanted = json.loads(libmla.select_json(json.dumps(request)))
        if wanted["error"] is not None and wanted["error"]["code"] == "invalid_request":
            continue
        asked += 1
        try:
            answer = json.loads(libmla.select(**arguments).to_json())
        except libmla.SelectionError as error:
            assert wanted["error"] == {"code": error.code, "message": str(error)}
            assert [row["backend"] for row in wanted["rejected"]] == [
                row.backend for row in error.rejected
            ]
        else:
            assert answer == wanted
    assert asked > 100


def test_a_selection_is_a_value() -> None:
    choice = libmla.select((192, 64, 256), "bf16", "cuda", (10, 0), not_installed=["TRTLLM_RAGGED"])
    assert choice.backend == "FLASH_ATTN"
    assert choice.variant is None and choice.note is None
    assert not choice.explicit and not choice.fallback
    assert choice.rejected[0].backend == "TRTLLM_RAGGED"
    assert choice.rejected[0].reasons[0].code == "dependency_missing"
    assert choice == libmla.select(
        (192, 64, 256), np.dtype("float16") if False else "bf16", "cuda", (10, 0),
        not_installed=["TRTLLM_RAGGED"],
    )
    assert choice != libmla.select((192, 64, 256), "bf16", "cuda", (10, 0))


@pytest.mark.parametrize("dtype", ["float32", "torch.float32", "fp32", np.float32, np.dtype("f4")])
def test_dtypes_by_any_name(dtype) -> None:
    assert libmla.select(dtype=dtype, platform="cpu") == libmla.select(
        dtype="float32", platform="cpu"
    )


@pytest.mark.parametrize(
    "arguments, word",
    [
        ({"dtype": "int7"}, "dtype"),
        ({"platform": "tpu"}, "platform"),
        ({"compat": "sglang"}, "compat"),
        ({"platform": "cpu", "cpu": {"cores": 3}}, "cpu"),
        ({"capability": (9, 0)}, "platform"),
    ],
)
def test_bad_requests_name_the_argument(arguments, word) -> None:
    with pytest.raises(ValueError, match=f"^{word}: wanted"):
        libmla.select(**arguments)


def test_errors_carry_code_and_every_reason() -> None:
    with pytest.raises(libmla.SelectionError) as raised:
        libmla.select(dtype="float32", platform="cuda", capability=(9, 0))
    assert raised.value.code == "none_valid"
    assert [reason.code for reason in raised.value.rejected[0].reasons] == ["dtype_unsupported"]


def test_log_lines_reach_python() -> None:
    code = (
        "import logging, libmla\n"
        "logging.basicConfig(level=logging.INFO, format='%(name)s %(levelname)s %(message)s')\n"
        "for _ in range(2):\n"
        "    libmla.select(platform='cuda', compat='vllm')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    text = "Device capability not available, using FlashAttention MLA prefill backend."
    assert done.stderr.count(f"libmla INFO {text}") == 1
    assert logging.getLogger("libmla").handlers == []


def test_rows_are_added_overridden_and_cleared() -> None:
    generation = libmla.registry.generation
    row = libmla.Row("MY_ROW", devices=["cuda"], dtypes=["bfloat16"], dims=[(128, 64, 128)])
    libmla.registry.add(row)
    assert libmla.registry.generation > generation
    assert "MY_ROW" in libmla.registry.names()
    assert libmla.select(platform="cuda", capability=(9, 0), backend="MY_ROW").explicit
    with pytest.raises(libmla.Error) as raised:
        libmla.registry.add(libmla.Row("CPU"))
    assert raised.value.code == "already_registered"

    libmla.registry.override("FLASH_ATTN", libmla.Row("FLASH_ATTN", devices=["cuda"], dtypes=["f32"]))
    try:
        assert libmla.registry.is_overridden("FLASH_ATTN")
        assert libmla.select(dtype="float32", platform="cuda", capability=(9, 0)).backend == "FLASH_ATTN"
    finally:
        libmla.registry.clear_override("FLASH_ATTN")
    with pytest.raises(libmla.SelectionError):
        libmla.select(dtype="float32", platform="cuda", capability=(9, 0))


def test_a_row_that_runs_nothing_says_so() -> None:
    libmla.registry.add(libmla.Row("DESCRIBED", devices=["cpu"]))
    x = np.zeros((1, 1, 8), np.float32)
    with pytest.raises(libmla.Error, match="DESCRIBED is described in the registry but runs nothing"):
        libmla.attend(x, x, x, [0, 1], [0, 1], backend="DESCRIBED")


def test_models_by_name_and_from_text(tmp_path: Path) -> None:
    assert "deepseek-v3" in libmla.models()
    model = libmla.load_model("deepseek-v3")
    assert model.dims == (128, 64, 128)
    assert model.kv_lora_rank == 512 and model.num_heads == 128
    with pytest.raises(libmla.Error) as raised:
        libmla.parse_model_config('{"model_type": "llama"}')
    assert raised.value.code == "not_mla"
    with pytest.raises(libmla.Error) as raised:
        libmla.load_model(str(tmp_path / "config.json"))
    assert raised.value.code == "not_readable"


def test_devices_describe_this_machine() -> None:
    machine = libmla.devices()
    assert machine.usable_threads >= 1
    assert machine.logical_cpus >= machine.usable_threads
    assert machine.cpu.isa == sorted(machine.cpu.isa)
    assert {driver.kind for driver in machine.drivers} == {"cuda", "rocm"}
