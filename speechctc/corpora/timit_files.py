"""TIMIT's files: which recording and which labels belong together, and what the labels say."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from speechctc.corpora.corpus import SPLITS
from speechctc.errors import InputError
from speechctc.phones.inventory import named_inventory

# SA1.WAV, sa1.wav, and the doubled endings of copies in circulation: SA1.WAV.wav
_NAME = re.compile(r"(?P<stem>[^.]+)(?:(?P<audio>(?:\.(?:wav|flac|sph))+)|(?P<phn>\.phn))", re.IGNORECASE)
_DIALECT_SENTENCE = re.compile(r"sa\d", re.IGNORECASE)
_DIGITS = 16  # of a number of samples: no recording has so many
TAIL_MS = 50  # labels may run past the recording by this: one in a hundred of the LDC's ends a sample late


@dataclass
class Files:
    """What was found of one utterance: a recording and a .PHN file, or one of them."""

    id: str
    speaker: str
    audio: Path | None = None
    phn: Path | None = None


class Segment(NamedTuple):
    """A line of a .PHN file: from sample `start` up to sample `end` of the recording, a phone."""

    start: int
    end: int
    phone: str


class BadLabels(Exception):
    """An utterance that cannot be used; the message names the file, and the line."""


def find_files(root: Path) -> tuple[dict[str, list[Files]], list[str]]:
    """Find the utterances below TRAIN, DEV and TEST, the SA sentences left out.

    Returns
    -------
    sides : dict of str to list of Files
        Under ``"train"``, ``"dev"`` and ``"test"``, in the order of their ids.
    notes : list of str
        What was left out.

    Raises
    ------
    InputError
        There is no such folder, it is empty, or holds nothing of TIMIT's.
    """
    if not root.exists():
        raise InputError(f"{root}: no such folder", "set corpus.root to the folder that holds TIMIT's TRAIN and TEST")
    if not root.is_dir():
        raise InputError(f"{root}: a file, not a folder", "set corpus.root to the folder that holds TRAIN and TEST")
    found: dict[str, dict[str, Files]] = {side: {} for side in SPLITS}
    dialect_sentences, second_copies = 0, 0
    for folder, names in _folders(root):
        side, below = _place(folder.relative_to(root).parts)
        if not below:
            continue
        for name, match in ((name, _NAME.fullmatch(name)) for name in names):
            if match is None or name.startswith("."):
                continue
            if _DIALECT_SENTENCE.fullmatch(match["stem"]):
                dialect_sentences += match["phn"] is not None
                continue
            id = "-".join((*below, match["stem"])).lower()
            files = found[side].setdefault(id, Files(id, below[-1].lower()))
            kind = "audio" if match["audio"] else "phn"
            before: Path | None = getattr(files, kind)
            if before is None:
                setattr(files, kind, folder / name)
            elif before.parent != folder:
                second_copies += 1
    if not any(found.values()):
        raise _nothing(root)
    notes = [f"SA sentences left out ({dialect_sentences})"] if dialect_sentences else []
    if second_copies:
        notes.append(f"{second_copies} files of a second copy of the same utterances are not used")
    return {side: [found[side][id] for id in sorted(found[side])] for side in SPLITS}, notes


def read_phn(path: Path, frames: int, rate: int) -> list[Segment]:
    """Read a .PHN file, whose times count the samples of its recording.

    Parameters
    ----------
    path : Path
    frames : int
        Length of the recording, samples; the last phone is cut to it.
    rate : int
        Of the recording, Hz.

    Raises
    ------
    BadLabels
        An empty file, a line that is not ``start end phone``, a label that is not TIMIT's, times that run backwards
        or overlap, or that run past the recording.
    """
    labels = named_inventory("timit61")
    segments: list[Segment] = []
    last = 0
    for number, fields in _lines(path):
        where = f"{path}, line {number}"
        if len(fields) != 3 or not all(each.isdecimal() and len(each) < _DIGITS for each in fields[:2]):
            raise BadLabels(f"{where}: {' '.join(fields)!r} is not a start, an end in samples and a phone")
        start, end, phone = int(fields[0]), int(fields[1]), labels.normalise(fields[2])
        try:
            labels.encode([phone])
        except InputError as error:
            raise BadLabels(f"{where}: {error.what}") from None
        if end < start:
            raise BadLabels(f"{where}: times run backwards, {phone} ends at {end} and starts at {start}")
        if start < last:
            raise BadLabels(f"{where}: times overlap, {phone} starts at {start}, before the end of the last, {last}")
        if end > frames + rate * TAIL_MS // 1000:
            raise BadLabels(
                f"{where}: {phone} ends at sample {end}, and the recording has {frames} at {rate} Hz: "
                "it is cut short, or was resampled without its labels"
            )
        segments.append(Segment(min(start, frames), min(end, frames), phone))
        last = end
    if not segments:
        raise BadLabels(f"{path}: no labels in it")
    return segments


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """Return the fields of each line that has any, with its number."""
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise BadLabels(f"{path}: not readable as text ({error})") from None
    return [(number, line.split()) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]


def _folders(root: Path) -> list[tuple[Path, list[str]]]:
    """Return every folder with its files' names, short ones first; links are followed, each folder entered once."""
    entered: set[str] = set()
    folders = []
    for folder, subfolders, names in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in entered:
            subfolders.clear()
            continue
        entered.add(real)
        subfolders.sort()
        folders.append((Path(folder), sorted(names, key=lambda name: (len(name), name))))
    return folders


def _place(parts: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Return the side a folder is on, by the last of its names that says so, and the names below that."""
    for k in reversed(range(len(parts))):
        if parts[k].lower() in SPLITS:
            return parts[k].lower(), parts[k + 1 :]
    return "", ()


def _nothing(root: Path) -> InputError:
    """Say what was looked for, and what is there instead."""
    names = [name for _, names in _folders(root) for name in names]
    if not names:
        return InputError(f"{root}: the folder is empty", "copy TIMIT there, or set corpus.root to where it is")
    wanted = "looked for TRAIN/<region>/<speaker>/<sentence>.WAV and .PHN, in either case, at any depth"
    if root.name.lower() in SPLITS:
        return InputError(f"{root}: {wanted}", f"set corpus.root to the folder above: {root.parent}")
    endings = sorted({Path(name).suffix.lower() or "no ending" for name in names})
    top = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in root.iterdir())
    holds = ", ".join(top[:6]) + (f" and {len(top) - 6} more" if len(top) > 6 else "")
    return InputError(
        f"{root}: nothing of TIMIT's among {len(names)} files ({', '.join(endings[:6])}); it holds {holds}; {wanted}",
        "set corpus.root to the corpus, or corpus.kind to table for recordings of your own",
    )
