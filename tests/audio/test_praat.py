"""Praat itself, called through parselmouth, reads what is written here, and what it writes is read here."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speechctc.audio import sound_file
from speechctc.audio.annotations import Interval, Tier, long_text, read_tiers

parselmouth = pytest.importorskip("parselmouth", reason="praat-parselmouth is not installed")
ODD = ["a", "", 'say "ʃ"', "t͡ɕ", "é", "e\u0301", "\\bs", "two\nlines", "𐞁", "<b>&", "!", "#", "1.5", " ", "ＡＢ", "'x'"]
"""Labels that Praat's formats or its scripts might take for something else."""


def call(*arguments: Any) -> Any:
    return parselmouth.praat.call(*arguments)


def tiers_of(grid: Any) -> list[tuple[str, list[tuple[float, float, str]]]]:
    """Return names and entries as Praat has them; points begin and end at once."""
    found = []
    for tier in range(1, call(grid, "Get number of tiers") + 1):
        kind = "interval" if call(grid, "Is interval tier", tier) else "point"
        entries = []
        for k in range(1, call(grid, f"Get number of {kind}s", tier) + 1):
            times = ("start time of interval", "end time of interval") if kind == "interval" else ("time of point",) * 2
            start, end = (call(grid, f"Get {what}", tier, k) for what in times)
            entries.append((start, end, call(grid, f"Get label of {kind}", tier, k)))
        found.append((call(grid, "Get tier name", tier), entries))
    return found


def some_tiers(seed: int) -> tuple[float, list[Tier]]:
    """Return tiers of random times without gaps, each with odd labels."""
    rng = random.Random(seed)
    seconds = rng.uniform(1, 4000)
    found = []
    for name, points in (("phones", False), ('wörds "2"', False), ("bounds", True)):
        edges = [0.0, *sorted(rng.uniform(0.001, seconds - 0.001) for _ in range(rng.randrange(1, 9))), seconds]
        labels = [rng.choice(ODD) for _ in edges]
        ends = edges if points else edges[1:]
        found.append(Tier(name, points, [Interval(*each) for each in zip(edges, ends, labels, strict=False)]))
    return seconds, found


@pytest.mark.parametrize("seed", range(20))
def test_praat_reads_the_textgrids_that_are_written(tmp_path: Path, seed: int) -> None:
    seconds, tiers = some_tiers(seed)
    (tmp_path / "a.TextGrid").write_text(long_text(seconds, tiers), encoding="utf-8")
    grid = parselmouth.read(str(tmp_path / "a.TextGrid"))
    assert call(grid, "Get end time") == seconds
    assert tiers_of(grid) == [(tier.name, [tuple(each) for each in tier.entries]) for tier in tiers]


@pytest.mark.parametrize("form", ["text", "short text"])
@pytest.mark.parametrize("seed", range(5))
def test_the_textgrids_that_praat_writes_are_read(tmp_path: Path, form: str, seed: int) -> None:
    seconds, tiers = some_tiers(seed)
    (tmp_path / "a.TextGrid").write_text(long_text(seconds, tiers), encoding="utf-8")
    grid = parselmouth.read(str(tmp_path / "a.TextGrid"))
    call(grid, f"Save as {form} file", str(tmp_path / "b.TextGrid"))
    ours, praats = (read_tiers(tmp_path / name).tiers for name in ("a.TextGrid", "b.TextGrid"))
    assert [(tier.name, tier.points, tier.entries) for tier in praats] == [
        (tier.name, tier.points, tier.entries) for tier in ours
    ]
    assert [[each[:2] for each in tier.entries] for tier in ours] == [[e[:2] for e in tier.entries] for tier in tiers]


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(
    ("form", "step"),
    [("WAV", 15), ("24-bit WAV", 23), ("32-bit WAV", 31), ("AIFF", 15), ("AIFC", 15), ("NIST", 15), ("FLAC", 15)]
    + [("Next/Sun", 15)],
)
def test_the_sounds_that_praat_writes_are_read(tmp_path: Path, form: str, step: int, channels: int) -> None:
    samples = np.random.default_rng(1).uniform(-0.9, 0.9, (channels, 5000))
    path = tmp_path / f"a.{form.split()[-1].lower().replace('next/sun', 'au')}"
    call(parselmouth.Sound(samples, 22050), f"Save as {form} file", str(path))
    read, seconds = sound_file.read(path, 22050)
    assert seconds == pytest.approx(5000 / 22050) and read.shape == (5000,)
    np.testing.assert_allclose(read, samples.mean(0), atol=2.0**-step + 1e-7)
