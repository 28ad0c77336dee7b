"""Corrections as a corpus to train on: pieces of recordings with TextGrids, and recordings held out to score on."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import soundfile

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.sound_file import for_soundfile
from speechctc.core import files
from speechctc.studio.document import Document
from speechctc.studio.phones import Phone
from speechctc.studio.sound import Sound

SHORT = 15.0  # seconds of a recording that stays whole
LEAST, PAUSE, LONG_PAUSE = 4.0, 0.15, 1.0  # seconds of a piece, and of pauses at which it may and must end
AROUND = 0.25  # seconds of a pause that a piece keeps
SHARE = 0.2  # of the corrected recordings, held out
ENOUGH = 5  # corrected recordings, with fewer of which none is held out


class Piece(NamedTuple):
    """A part of a recording: from `start` to `end` in seconds, with its phones."""

    start: float
    end: float
    phones: tuple[Phone, ...]


@dataclass
class Corrections:
    """What a corpus of corrections holds.

    Attributes
    ----------
    recordings, held_out : list of str
        Names of recordings to train on, and to score on.
    pieces, phones, checked : int
        Of the recordings to train on; `checked`: phones that a person chose or confirmed.
    seconds : float
    labels : Counter of str
        In how many recordings to train on each label is.
    speakers : set of str
        Folders of the recordings.
    """

    recordings: list[str] = field(default_factory=list)
    held_out: list[str] = field(default_factory=list)
    pieces: int = 0
    phones: int = 0
    checked: int = 0
    seconds: float = 0.0
    labels: Counter[str] = field(default_factory=Counter)
    speakers: set[str] = field(default_factory=set)


def choose_held_out(
    labels: Mapping[str, Collection[str]], whole: Collection[str], before: Collection[str], trained: Collection[str]
) -> list[str]:
    """Return the recordings to score on: those held out before, and some of the new ones up to a fifth of all.

    Only a recording of which a person has seen to every phone is held out: labels that the old model wrote and nobody
    checked would make that model look right. Its labels must also be in the others, or no model could learn them. One
    that a model of the studio was trained on is never held out, and one held out is never trained on.

    Parameters
    ----------
    labels : mapping of str to collection of str
        The corrected recordings, and the labels in each.
    whole : collection of str
        Those of which every phone is checked.
    before : collection of str
        Those held out in earlier rounds.
    trained : collection of str
        Those that earlier rounds trained on.
    """
    held = [name for name in labels if name in before]
    if len(labels) < ENOUGH:
        return held
    left = Counter(label for name in labels if name not in before for label in set(labels[name]))
    for name in sorted((name for name in whole if name not in before and name not in trained), key=_shuffled):
        if len(held) < round(SHARE * len(labels)) and all(left[label] > 1 for label in labels[name]):
            held.append(name)
            left.subtract(set(labels[name]))
    return held


def write_corpus(documents: Mapping[str, Document], held_out: Collection[str], root: Path) -> Corrections:
    """Write corrected recordings as a corpus of kind ``textgrid``, in the folders ``train`` and ``test`` of `root`.

    Parameters
    ----------
    documents : mapping of str to Document
        The corrected recordings by name.
    held_out : collection of str
        Those for ``test``.
    root : Path
        A new folder.

    Raises
    ------
    InputError
        A recording cannot be read.
    """
    found = Corrections()
    for name, document in documents.items():
        sound = Sound(document.recording)
        phones = tuple(document.phones)
        parts = [piece for piece in pieces(phones, sound.seconds) if _is_corrected(document, piece)]
        split = "test" if name in held_out else "train"
        stem = root / split / Path(name).parent / Path(name).name.replace(".", "-")
        for number, piece in enumerate(parts, start=1):
            _write(piece, sound, stem.with_name(f"{stem.name}-{number}"))
        sound.close()
        if split == "test":
            found.held_out.append(name)
        elif parts:
            _count(found, name, parts)
    return found


def pieces(phones: Sequence[Phone], seconds: float) -> Iterator[Piece]:
    """Yield the parts of a recording that are short enough to train on; a short recording is one."""
    if seconds <= SHORT:
        if phones:
            yield Piece(0.0, seconds, tuple(phones))
        return
    first = 0
    for k, phone in enumerate(phones):
        pause = (phones[k + 1].start if k + 1 < len(phones) else seconds + LONG_PAUSE) - phone.end
        long = phone.end - phones[first].start
        if pause >= LONG_PAUSE or (pause >= PAUSE and long >= LEAST) or long >= SHORT:
            before = phones[first - 1].end if first else 0.0
            start = max(phones[first].start - AROUND, (before + phones[first].start) / 2)
            yield Piece(start, min(phone.end + min(AROUND, pause / 2), seconds), tuple(phones[first : k + 1]))
            first = k + 1


def _is_corrected(document: Document, piece: Piece) -> bool:
    """Return whether a person worked on a piece."""
    whole = len(piece.phones) == len(document.phones)
    return whole or document.by_hand or any(phone.checked for phone in piece.phones)


def _write(piece: Piece, sound: Sound, stem: Path) -> None:
    stem.parent.mkdir(parents=True, exist_ok=True)
    first, last = round(piece.start * sound.rate), round(piece.end * sound.rate)
    samples = np.clip(sound.read(first, min(last, sound.frames)), -1, 1)
    soundfile.write(for_soundfile(stem.with_name(f"{stem.name}.wav")), samples, sound.rate, "PCM_16", format="WAV")
    seconds = len(samples) / sound.rate
    times = [
        (max(phone.start - piece.start, 0.0), min(phone.end - piece.start, seconds), phone.label)
        for phone in piece.phones
    ]
    intervals = [Interval(round(start, 6), round(end, 6), label) for start, end, label in times if end > start]
    files.write_text(stem.with_name(stem.name + ".TextGrid"), textgrid_text(seconds, {"phones": intervals}))


def _count(found: Corrections, name: str, parts: Sequence[Piece]) -> None:
    phones = [phone for piece in parts for phone in piece.phones]
    found.recordings.append(name)
    found.pieces += len(parts)
    found.phones += len(phones)
    found.checked += sum(phone.checked for phone in phones)
    found.seconds += sum(piece.end - piece.start for piece in parts)
    found.labels.update({phone.label for phone in phones})
    found.speakers.add(Path(name).parent.as_posix())


def _shuffled(name: str) -> str:
    """Return a key that orders names without regard to what they mean."""
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()
