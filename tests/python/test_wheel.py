"""The wheel: what is in it, and that it brings no OpenMP of its own."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import libmla
from libmla import _libmla


def test_links_the_plain_libgomp() -> None:
    readelf = shutil.which("readelf")
    if readelf is None:
        pytest.skip("readelf is not installed")
    done = subprocess.run(
        [readelf, "-d", _libmla.__file__], capture_output=True, text=True, check=True
    )
    needed = [line.split("[")[1].rstrip("]") for line in done.stdout.splitlines() if "NEEDED" in line]
    assert "libgomp.so.1" in needed
    assert not [name for name in needed if name.startswith(("libmla", "libfmt", "libpython"))]


def test_nothing_but_the_module_is_exported() -> None:
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("nm is not installed")
    done = subprocess.run(
        [nm, "-D", "--defined-only", _libmla.__file__], capture_output=True, text=True, check=True
    )
    names = [line.split()[-1] for line in done.stdout.splitlines()]
    assert "PyInit__libmla" in names


def test_no_library_is_bundled() -> None:
    root = Path(libmla.__file__).parent
    assert not list(root.parent.glob("libmla.libs/*gomp*"))
    assert not [path for path in root.rglob("*.so*") if "gomp" in path.name]
