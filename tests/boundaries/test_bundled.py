"""The bundled boundary model on real speech."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import speechctc
from speechctc.audio.annotations import Interval
from speechctc.metrics.boundary_errors import boundary_errors
from speechctc.phones.folding import parse_folding


@pytest.mark.shared
def test_it_halves_the_errors_of_the_net_on_real_speech(shared_data: Path) -> None:
    """Labels of three speakers, folded to CMU's phones; those of stops begin with their closures."""
    fold = parse_folding("timit39").mapping
    model = speechctc.load("english", "cpu")
    boundaries = model.boundaries
    errors: dict[bool, list[float]] = {True: [], False: []}
    for name in ("DR1/FVMH0/SX206", "DR4/MAEB0/SX450", "DR8/FBCG1/SX442"):
        path = shared_data / "timit-sample" / "TRAIN" / name
        rows = [line.split() for line in path.with_suffix(".PHN").read_text().splitlines()]
        labels = [Interval(int(a) / 16000, int(b) / 16000, "t" if c == "dx" else fold.get(c, c)) for a, b, c in rows]
        spoken = [each for each in labels if each.label not in ("sil", "q")]
        touching = [each.label if each.label != "sil" else "(silence)" for each in labels]
        reference = [each._replace(label=label) for each, label in zip(labels, touching, strict=True)]
        for refine in (True, False):
            model.boundaries = boundaries if refine else None
            found = model.align(path.with_suffix(".WAV"), [each.label for each in spoken])
            hypothesis = [Interval(each.start, each.end, each.phone) for each in found.segments]
            errors[refine] += [error for _, error in boundary_errors(reference, hypothesis)]
    refined, rough = (float(np.median(np.abs(errors[way]))) for way in (True, False))
    assert refined < 0.012 and refined < 0.7 * rough
