"""What the tests of the Python package share. The core group needs numpy and no torch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

import libmla

# Examples come from a fixed seed, and the machine may be slow: no deadlines.
settings.register_profile(
    "libmla",
    deadline=None,
    derandomize=True,
    max_examples=40,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("libmla")


def runnable_rows(dtype: str = "float32") -> list[str]:
    """The rows of this machine's CPU, by full name."""
    names = []
    for row in libmla.registry.rows():
        if not row.runs_here:
            continue
        try:
            libmla.select(dtype=dtype, platform="cpu", backend=row.full_name)
        except libmla.SelectionError:
            continue
        names.append(row.full_name)
    return names


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20240607)
