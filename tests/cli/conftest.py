"""What tests of commands share."""

from pathlib import Path

import pytest


@pytest.fixture
def here(beside_latest: Path) -> Path:
    """Work in an empty folder where the tiny model is the latest run."""
    return beside_latest
