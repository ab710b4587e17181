"""What importing does and does not do; the type stub."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import libmla


def python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_brings_in_no_tensor_library() -> None:
    code = "import sys, libmla; print([m for m in ('torch','numpy','transformers','vllm') if m in sys.modules])"
    assert python(code).strip() == "[]"


def test_nothing_leaks_at_exit() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import libmla; libmla.select(platform='cpu')"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stderr == ""


def test_everything_in_all_exists() -> None:
    for name in libmla.__all__:
        assert getattr(libmla, name) is not None


def test_package_is_marked_as_typed() -> None:
    assert (Path(libmla.__file__).parent / "py.typed").exists()


def test_stub_is_the_generated_one(tmp_path: Path) -> None:
    pytest.importorskip("nanobind", reason="nanobind is not installed: no stub to compare with")
    generated = tmp_path / "_libmla.pyi"
    subprocess.run(
        [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "libmla._libmla", "-o", generated],
        check=True,
        timeout=120,
    )
    shipped = Path(libmla.__file__).parent / "_libmla.pyi"
    assert generated.read_text() == shipped.read_text()
