"""Says why the integration tests did not run, where they did not."""

from __future__ import annotations

import pytest

from . import conftest


@pytest.mark.skipif(
    bool(conftest.MISSING), reason=f"not installed: {', '.join(conftest.MISSING)} (install.sh)"
)
def test_torch_and_transformers_are_installed() -> None:
    import torch
    import transformers

    assert torch.__version__ and transformers.__version__
