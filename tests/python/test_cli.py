"""`python -m libmla` is the mla command line, and has a doctor."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import libmla
from libmla.__main__ import binary

needs_binary = pytest.mark.skipif(
    not binary().exists(), reason=f"{binary()} is not there: not an installed wheel"
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "libmla", *arguments],
        capture_output=True, text=True, check=False, timeout=300,
    )


@needs_binary
def test_is_the_mla_program() -> None:
    done = run("select", "--platform", "cuda", "--capability", "10.0", "--dims", "128,64,128", "--json")
    assert done.returncode == 0, done.stderr
    wanted = libmla.select(platform="cuda", capability=(10, 0))
    assert json.loads(done.stdout) == json.loads(wanted.to_json())


@needs_binary
def test_exit_codes_pass_through() -> None:
    assert run("select", "--dtype", "float32", "--platform", "cuda", "--capability", "9.0",
               "--dims", "128,64,128").returncode == 1
    assert run("no-such-command").returncode == 2


def test_doctor_tells_row_and_integrations() -> None:
    done = run("doctor", "--json")
    assert done.returncode == 0, done.stderr
    answer = {finding["what"]: finding for finding in json.loads(done.stdout)}
    chosen = libmla.select(dtype="bfloat16", platform="cpu")
    assert answer["row for bfloat16"]["detail"].startswith(chosen.full_name)
    assert {"Transformers", "vLLM", "threads", "OpenMP"} <= set(answer)
    for row in chosen.rejected:
        assert row.reasons[0].text in answer["row for bfloat16"]["detail"]
