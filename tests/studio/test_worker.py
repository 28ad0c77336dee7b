"""The process that holds the studio's model."""

from __future__ import annotations

import multiprocessing
import shutil
import threading
from pathlib import Path

from speechctc.inference.restriction import RequestedPhones
from speechctc.studio.engine import serve


def test_only_the_first_model_is_restricted(tiny_model: Path, tmp_path: Path) -> None:
    first, trained = tiny_model, tmp_path / "round"
    shutil.copytree(tiny_model / "best", trained)
    ours, theirs = multiprocessing.Pipe()
    only = (first, RequestedPhones("--language xx", ("low", "high")))
    threading.Thread(target=serve, args=(theirs, first, only), daemon=True).start()
    about = ours.recv()[2]
    assert set(about["phones"]) == {"low", "high"} and "only the 2 phones of --language xx" in about["line"]
    for number, (model, count) in enumerate([(trained, 4), (first, 2)], start=1):
        ours.send((number, "load", (model,)))
        assert len(ours.recv()[2]["phones"]) == count
    ours.close()
