"""Use from several threads at a time, as servers and pools do: results are those of one thread."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import speechctc
from speechctc.inference.result import Recognition
from tests.tiny_model import write_song
from tests.tones import PHONES

THREADS = 8


def test_one_recogniser(tiny_model: Path, tmp_path: Path) -> None:
    model, start = speechctc.load(tiny_model, "cpu"), threading.Barrier(THREADS)
    paths = [tmp_path / f"{k}.wav" for k in range(4)]
    for k, path in enumerate(paths):
        write_song(path, [PHONES[(k + j * j) % 4] for j in range(3 + 5 * k)], seed=k)

    def decode(path: Path) -> Recognition:
        return model.decode(path)

    alone = [decode(path) for path in paths]
    assert [len(result.phones) for result in alone] == [3, 8, 13, 18]
    with ThreadPoolExecutor(THREADS, initializer=start.wait) as pool:
        assert [*pool.map(decode, 8 * paths)] == 8 * alone
