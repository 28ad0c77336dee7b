"""A clean corpus of tones, and faults to plant in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.typing import NDArray

from tests.tones import PHONES, RATE, speak

Row = dict[str, Any]


@dataclass
class Tones:
    """The rows of a corpus by split; `write` writes its tables and a config."""

    folder: Path
    rows: dict[str, list[Row]] = field(default_factory=lambda: {"train": [], "dev": [], "test": []})

    def add(self, split: str, id: str, samples: NDArray[Any] | None, phones: list[str], **more: Any) -> Path:
        """Add an utterance; without samples, its recording is written by the caller."""
        path = self.folder / f"{id}.wav"
        if samples is not None:
            soundfile.write(path, samples, RATE)
        row = {"id": id, "audio": path.name, "phones": phones, "speaker": f"{split}-{len(self.rows[split]) % 3}"}
        self.rows[split].append({**row, **more})
        return path

    def write(self) -> Path:
        """Write everything; return the config."""
        tables = {}
        for split, rows in self.rows.items():
            tables[split] = str(self.folder / f"{split}.jsonl")
            Path(tables[split]).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        config = {
            "run": str(self.folder / "run"),
            "corpus": {"kind": "table", "tables": tables},
            "data": {"dir": str(self.folder / "features")},
            "features": {"mels": 20},
            "model": {"convs": [4], "dense": [4], "time_stride": 2, "dropout": 0.0},
            "train": {"device": "cpu", "epochs": 1, "lr": 0.01, "curves": False},
        }
        (self.folder / "c.yaml").write_text(json.dumps(config), encoding="utf-8")
        return self.folder / "c.yaml"


def clean(folder: Path) -> Tones:
    """Return a corpus without faults: every phone ten times in train, and in dev and test in another order."""
    tones, rng = Tones(folder), np.random.default_rng(7)
    for split, count in (("train", 12), ("dev", 3), ("test", 3)):
        for number in range(count):
            phones = [PHONES[(number + k) % len(PHONES)] for k in range(5)][:: 1 if split == "train" else -1]
            tones.add(split, f"{split}{number}", 0.5 * speak(phones, rng), phones)
    return tones


SONG = ["low", "mid", "high", "top", "low"]


def song(seed: int) -> NDArray[np.float32]:
    """Return the tones of `SONG`, never twice the same samples."""
    return 0.5 * speak(SONG, np.random.default_rng(100 + seed))


Plant = Callable[[Tones], object]
EACH = ("train", "dev", "test")
SPREAD = (*["train"] * 5, "dev", "test")
WIDE = (*["train"] * 12, *["dev", "test"] * 2)


def one(name: str, samples: Callable[[], NDArray[Any]] | None, phones: list[str] = SONG, **more: Any) -> Plant:
    """Return what adds an utterance to train; without samples, its recording is missing."""
    return lambda tones: tones.add("train", name, samples() if samples else None, phones, **more)


def several(name: str, seed: int, splits: Sequence[str], *texts: str) -> Plant:
    """Return what adds an utterance to each of the splits, with the phones of the texts by turns."""

    def plant(tones: Tones) -> None:
        for k, split in enumerate(splits):
            tones.add(split, f"{name}{k}", song(seed + k), texts[k % len(texts)].split())

    return plant


def _empty(tones: Tones) -> None:
    tones.add("train", "empty", None, SONG).write_bytes(b"")


def _text(tones: Tones) -> None:
    tones.add("train", "text", None, SONG).write_text("not a recording")


def _nan(tones: Tones) -> None:
    samples = song(5)
    samples[1000] = np.nan
    soundfile.write(tones.add("train", "nan", None, SONG), samples, RATE, subtype="FLOAT")


def _as_text(tones: Tones) -> None:
    path = tones.add("train", "ascii", song(6), SONG)
    header, sound = path.read_bytes()[:44], path.read_bytes()[44:]
    path.write_bytes(header + sound.replace(b"\r\n", b"\n").replace(b"\r", b"\n"))


def _mp3(tones: Tones) -> None:
    path = tones.add("train", "mixed", None, SONG)
    soundfile.write(path, song(6), RATE, format="MP3")
    content = path.read_bytes()
    middle = content.index(b"\xff" + content[1:2], len(content) // 2)
    path.write_bytes(content[:middle] + b"U" * 50 + content[middle:])


def _cut(tones: Tones) -> None:
    path = tones.add("train", "cut", song(6), SONG)
    path.write_bytes(path.read_bytes()[:-4000])


def _low_rate(tones: Tones) -> None:
    samples = speak(["low", "mid", "high", "mid", "low"], np.random.default_rng(8), 8000)
    soundfile.write(tones.add("train", "lowrate", None, SONG), 0.5 * samples, 8000)


def _telephone(tones: Tones) -> None:
    spectrum = np.fft.rfft(song(9).astype(np.float64))
    spectrum[int(len(spectrum) * 3900 / 8000) :] = 0
    soundfile.write(tones.add("train", "phoned", None, SONG), np.fft.irfft(spectrum), RATE, subtype="FLOAT")


def _channels(tones: Tones) -> None:
    a, b = song(10), speak(["top", "high", "mid", "low", "top"], np.random.default_rng(11))
    size = min(len(a), len(b))
    tones.add("train", "stereo", np.stack([a[:size], b[:size]], axis=1), SONG)


def _twice(tones: Tones) -> None:
    for name in ("one", "two"):
        tones.add("train", name, song(13), SONG)


def _across(tones: Tones) -> None:
    for split in ("train", "dev"):
        tones.add(split, f"across-{split}", song(14), SONG)


def _differ(tones: Tones) -> None:
    for name, phones in (("this", SONG), ("that", SONG[::-1][:-1] + ["top"])):
        tones.add("train", name, song(15), phones)


def _speaker(tones: Tones) -> None:
    for k, split in enumerate(("train", "test")):
        tones.add(split, f"kim-{split}", song(16 + k), SONG, speaker="kim")


def _strings(tones: Tones) -> None:
    names = dict(zip(PHONES, ("ʃaka", "kʰuʃi", "mat͡sə", "ɲiku"), strict=True))
    for row in (row for rows in tones.rows.values() for row in rows):
        row["phones"] = [names[phone] for phone in row["phones"]]


FAULTS: dict[str, tuple[Plant, str, str]] = {
    "a clipped recording": (one("clipped", lambda: np.clip(20 * song(1), -0.9, 0.9)), "clipped", "clipped.wav"),
    "a silent recording": (one("silent", lambda: 1e-5 * song(2)), "silent", "silent.wav"),
    "a very quiet recording": (one("quiet", lambda: 0.004 * song(3)), "quiet", "quiet.wav"),
    "an offset": (one("offset", lambda: song(4) + 0.1), "offset", "offset.wav"),
    "an empty file": (_empty, "unreadable", "empty.wav"),
    "text for audio": (_text, "unreadable", "text.wav"),
    "a sample that is no number": (_nan, "unreadable", "nan.wav"),
    "a file copied as text": (_as_text, "copied-as-text", "ascii.wav"),
    "an MP3 with other bytes in it": (_mp3, "gaps", "mixed.wav (damaged at "),
    "a file cut short": (_cut, "cut-short", "cut.wav"),
    "a missing recording": (one("missing", None), "left-out", "missing"),
    "a low sample rate": (_low_rate, "low-rate", "lowrate.wav"),
    "telephone speech": (_telephone, "telephone", "phoned.wav"),
    "two speakers in two channels": (_channels, "channels-differ", "stereo.wav"),
    "a recording of a minute": (one("long", lambda: np.tile(song(12), 80), SONG * 80), "long", "long.wav"),
    "a recording twice": (_twice, "duplicates", "one (train) = two (train)"),
    "a recording in two splits": (_across, "duplicates-across", "across-dev (dev)"),
    "a recording with two transcripts": (_differ, "duplicates-differ", "this (train)"),
    "a speaker in two splits": (_speaker, "speakers-shared", "kim (test, train)"),
    "an utterance without a speaker": (one("nameless", lambda: song(18), speaker=""), "no-speaker", "nameless"),
    "a rare phone": (several("rare", 19, EACH, "low once high top low"), "rare-phones", "once (1)"),
    "a phone that is never scored": (
        several("hidden", 22, EACH[:1] * 6, "low hidden high top low"),
        "one-split",
        "hidden (6)",
    ),
    "a phone that is never trained": (several("new", 28, ["dev"], "low unheard high top low"), "left-out", "unheard"),
    "two spellings": (several("spelt", 29, WIDE, "low ɡ high top low", "low g high top low"), "spellings", "U+0261"),
    "two notations": (several("noted", 60, WIDE, "ɑ i ʃ j ɑ", "aa iy sh y aa"), "notations", "iy ("),
    "strings of IPA as phones": (_strings, "strings", "ʃaka ("),
    "pauses as phones": (several("pause", 45, SPREAD, "low <pause> high top low"), "pauses", "<pause> (7)"),
    "unclear speech as a phone": (several("unclear", 52, SPREAD, "low xxx high top low"), "unclear", "xxx (7)"),
    "too few frames": (one("short", lambda: song(59)[:1600], SONG * 2), "too-short", "short (10 phones"),
    "sound without labels": (one("unlabelled", lambda: song(60), []), "no-phones", "unlabelled"),
    "labels for a part": (one("half", lambda: np.tile(song(61), 6), ["low"]), "speech-rate", "half"),
    "a malformed row": (one("malformed", lambda: song(62), channel="left"), "left-out", "malformed"),
    "an id twice": (one("train0", None), "left-out", "train0"),
    "a label for everything": (several("filler", 63, EACH[:1] * 12, "low low low low low"), "one-label", "low ("),
}
"""Each fault: what plants it, the kind of finding it must give, and what the places of that finding must name."""
