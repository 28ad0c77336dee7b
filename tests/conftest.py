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


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run whose model names tones; made once."""
    from tests.tiny_model import teach

    return teach(tmp_path_factory.mktemp("tiny_model"))


@pytest.fixture(scope="session")
def extracted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the config of a small net over a corpus of tones whose features are extracted."""
    from speechctc.config.load import load_config
    from speechctc.stages.extract import extract
    from tests.tones import write_config
    from tests.train_helpers import Recorder

    config = write_config(tmp_path_factory.mktemp("tones"))
    extract(load_config(config), Recorder())
    return config


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
