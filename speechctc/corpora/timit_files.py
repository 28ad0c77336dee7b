"""Files of a corpus in TIMIT's layout: recordings paired with .PHN files, and their labels."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from speechctc.audio.annotations import PhnLine, read_phn_lines
from speechctc.core.errors import InputError, some
from speechctc.corpora.corpus import SPLITS
from speechctc.phones.inventory import named_inventory

# SA1.WAV, sa1.wav, and the doubled endings of copies in circulation: SA1.WAV.wav
_NAME = re.compile(r"(?P<stem>[^.]+)(?:(?P<audio>(?:\.(?:wav|flac|sph))+)|(?P<phn>\.phn))", re.IGNORECASE)
_DIALECT_SENTENCE = re.compile(r"sa\d", re.IGNORECASE)
TAIL_MS = 50  # labels may end this much after the recording: 1 % of the LDC's end a sample late


@dataclass
class Files:
    """The files of an utterance: a recording and a .PHN file, or one of them."""

    id: str
    speaker: str
    audio: Path | None = None
    phn: Path | None = None


class BadLabels(Exception):
    """An utterance that cannot be used; the message names the file, and the line."""


def find_files(root: Path) -> tuple[dict[str, list[Files]], list[str]]:
    """Find the utterances in TRAIN, DEV and TEST, without the SA sentences.

    Returns
    -------
    sides : dict of str to list of Files
        Under ``"train"``, ``"dev"`` and ``"test"``, sorted by id.
    notes : list of str
        What was left out.

    Raises
    ------
    InputError
        The folder does not exist, is empty, or has no files in TIMIT's layout.
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


def read_labels(path: Path, frames: int, rate: int) -> list[PhnLine]:
    """Read the labels of a recording from its .PHN file, and check them.

    Parameters
    ----------
    path : Path
    frames : int
        Length of the recording, samples; the last labels are cut to it.
    rate : int
        Of the recording, Hz.

    Raises
    ------
    BadLabels
        The file is not a .PHN file or is empty, a label is not one of TIMIT's, or times run backwards, overlap or go
        beyond the end of the recording.
    """
    timit = named_inventory("timit61")
    checked: list[PhnLine] = []
    last = 0
    try:
        lines = read_phn_lines(path)
    except InputError as error:
        raise BadLabels(error.what) from None
    for number, start, end, label in lines:
        where, phone = f"{path}, line {number}", timit.normalise(label)
        try:
            timit.encode([phone])
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
        checked.append(PhnLine(number, min(start, frames), min(end, frames), phone))
        last = end
    return checked


def _folders(root: Path) -> list[tuple[Path, list[str]]]:
    """Return every folder with the names of its files, short names first; links are followed, without loops."""
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
    """Return the last part of a path that names a split, in lower case, and the parts after it."""
    for k in reversed(range(len(parts))):
        if parts[k].lower() in SPLITS:
            return parts[k].lower(), parts[k + 1 :]
    return "", ()


def _nothing(root: Path) -> InputError:
    """Return the error for a folder without utterances: what was looked for, and what the folder has."""
    names = [name for _, names in _folders(root) for name in names]
    if not names:
        return InputError(f"{root}: the folder is empty", "copy TIMIT there, or set corpus.root to where it is")
    wanted = "looked for TRAIN/<region>/<speaker>/<sentence>.WAV and .PHN, in any letter case, at any depth"
    if root.name.lower() in SPLITS:
        return InputError(f"{root}: {wanted}", f"set corpus.root to the folder above: {root.parent}")
    endings = sorted({Path(name).suffix.lower() or "no ending" for name in names})
    top = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in root.iterdir())
    return InputError(
        f"{root}: no utterances in {len(names)} files ({', '.join(endings[:6])}); it holds {some(top, 6)}; {wanted}",
        "set corpus.root to the corpus, or corpus.kind to table for recordings of your own",
    )
