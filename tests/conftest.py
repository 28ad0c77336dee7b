"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# The nets of the tests are tiny: threads would only wait for each other, most of all on a busy machine.
os.environ.setdefault("OMP_NUM_THREADS", "1")

SHARED = Path(__file__).resolve().parent.parent.parent / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real speech beside the checkout; tests that need it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"no real speech here: {SHARED} does not exist")
    return SHARED


@pytest.fixture(autouse=True)
def _no_gpu_for_the_skipped(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("cuda"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no CUDA GPU here")
