"""The wheel: what is in it, and that it brings no OpenMP of its own."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import libmla
from libmla import _libmla


# What PEP 600 lets a manylinux wheel take from the system, and libgomp, which is torch's too.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libgcc_s.so.1",
          "libstdc++.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libgomp.so.1"}  # fmt: skip


def test_links_the_plain_libgomp() -> None:
    readelf = shutil.which("readelf")
    if readelf is None:
        pytest.skip("readelf is not installed")
    done = subprocess.run(
        [readelf, "-d", _libmla.__file__], capture_output=True, text=True, check=True
    )
    needed = [line.split("[")[1].rstrip("]") for line in done.stdout.splitlines() if "NEEDED" in line]
    assert "libgomp.so.1" in needed
    assert set(needed) <= SYSTEM


def test_tag_is_the_stable_abi_where_there_is_one() -> None:
    if not importlib.metadata.packages_distributions().get("libmla"):
        pytest.skip("libmla is not installed from a wheel")
    wheel = importlib.metadata.distribution("libmla").read_text("WHEEL")
    assert wheel is not None
    tags = [line.split()[1] for line in wheel.splitlines() if line.startswith("Tag:")]
    own = f"cp{sys.version_info.major}{sys.version_info.minor}"
    python = "cp312-abi3" if sys.version_info >= (3, 12) else f"{own}-{own}"
    assert tags and all(tag.startswith(python + "-linux") or tag.startswith(python + "-manylinux")
                        for tag in tags)  # fmt: skip
    suffix = ".abi3.so" if sys.version_info >= (3, 12) else f".cpython-{own[2:]}-"
    assert suffix in Path(_libmla.__file__).name


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
