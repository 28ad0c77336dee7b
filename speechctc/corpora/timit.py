"""Reads a corpus in the layout of TIMIT, complete or in part.

A recording is for example ``TRAIN/DR1/FVMH0/SX206.WAV``, and its labels are in ``SX206.PHN``. Names are in any
letter case, and folders at any depth. Speakers in a folder ``DEV``, which the LDC's corpus does not have, are dev.
Without it, dev is the usual 50 speakers and test the 24 of the core test set, both from ``TEST``.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from speechctc.audio import sound_file
from speechctc.audio.annotations import PhnLine, read_phn_lines
from speechctc.audio.folders import walk
from speechctc.core.bundled import bundled_texts
from speechctc.core.errors import InputError, first_few
from speechctc.corpora.corpus import SPLITS, Corpus, Rejected, Utterance, note_text
from speechctc.corpora.corpus_builder import choose_dev
from speechctc.phones.folding import fold_labels
from speechctc.phones.inventory import named_inventory

_TABLES = bundled_texts(__file__)
CORE_TEST, DEV = frozenset(_TABLES["core_test"].split()), frozenset(_TABLES["dev"].split())
TRAIN_SPEAKERS = 462
SENTENCES = 8  # of each speaker, without the two SA sentences
COMPLETE = {"train": 3696, "dev": 400, "test": 192}

# SA1.WAV, sa1.wav, and the doubled endings of copies in circulation: SA1.WAV.wav
_NAME = re.compile(r"(?P<stem>[^.]+)(?:(?P<audio>(?:\.(?:wav|flac|sph))+)|(?P<phn>\.phn))", re.IGNORECASE)
_DIALECT_SENTENCE = re.compile(r"sa\d", re.IGNORECASE)
TAIL_MS = 50  # labels may end this much after the recording: 1 % of the LDC's end a sample late


def read_timit(root: Path, phone_set: str = "timit61", dev_share: float = 0.1, needed: str = "train") -> Corpus:
    """Read a corpus in TIMIT's layout, complete or in part.

    Parameters
    ----------
    root : Path
        A folder that contains TRAIN and TEST, at any depth.
    phone_set : str
        ``"timit61"``, or a set of Lee and Hon, to which the labels are folded.
    dev_share : float
        Share of the TRAIN speakers that become dev if none of the usual 50 is present.
    needed : str
        The split that must have recordings, if TRAIN has none.

    Returns
    -------
    Corpus
        Ids are region, speaker and sentence: ``"dr1-fvmh0-sx206"``; times are in seconds.

    Raises
    ------
    InputError
        There is no corpus, TRAIN is empty, or all speakers of TIMIT are present but not all sentences.
    """
    if not phone_set.startswith("timit"):
        raise InputError(f"corpus.phones={phone_set}: TIMIT's labels cannot be folded to that set", "set it to timit61")
    sides, notes = find_files(root)
    if not sides["train"] and (needed == "train" or not (sides["dev"] or sides["test"])):
        held = ", ".join(f"{len(files)} utterances in {side.upper()}" for side, files in sides.items() if files)
        raise InputError(f"{root}: no recordings with .PHN files in a TRAIN folder, only {held}", "add TRAIN")
    members, more = divide(sides, dev_share)
    read = {split: [_read(files, phone_set) for files in members[split]] for split in SPLITS}
    utterances = {split: tuple(each for each in read[split] if isinstance(each, Utterance)) for split in SPLITS}
    rejected = {split: tuple(each for each in read[split] if isinstance(each, Rejected)) for split in SPLITS}
    if not utterances["train"] and rejected["train"]:
        what = f"{root}: none of TRAIN's {len(rejected['train'])} utterances can be used"
        raise InputError(f"{what}; {rejected['train'][0].reason}", "correct them")
    from_train = len(members["train"]) < len(sides["train"])
    return Corpus(utterances, phone_set, rejected, tuple(notes + more), dev_from_train=from_train)


def divide(sides: dict[str, list[Files]], dev_share: float) -> tuple[dict[str, list[Files]], list[str]]:
    """Divide the utterances among the splits, and return notes on how.

    Raises
    ------
    InputError
        All speakers of TIMIT are present, but not all sentences.
    """
    if sides["dev"]:
        return sides, ["dev and test are the folders DEV and TEST of the corpus"]
    speakers = {side: {files.speaker for files in found} for side, found in sides.items()}
    dev, core = speakers["test"] & DEV, speakers["test"] & CORE_TEST
    test = core or speakers["test"] - dev
    members = {
        "train": sides["train"],
        "dev": [files for files in sides["test"] if files.speaker in dev],
        "test": [files for files in sides["test"] if files.speaker in test],
    }
    if len(speakers["train"]) == TRAIN_SPEAKERS and dev == DEV and core == CORE_TEST:
        _check_complete(members)
        return members, ["complete TIMIT: 3696 training, 400 dev (50 speakers), 192 core test utterances"]
    counts = {side: len(speakers[side]) for side in ("train", "test")}
    which = "the core test speakers" if core else "the speakers of TEST"
    notes = [
        note_text("partial TIMIT", all=TRAIN_SPEAKERS, **counts, dev=len(dev), core=len(core)),
        f"test: {which} ({len(test)})" if speakers["test"] else "test: none, because there is no TEST folder",
    ]
    if left_out := len(speakers["test"] - dev - test):
        notes.append(f"{left_out} speakers of TEST are in neither set, and left out")
    if dev or not sides["train"]:
        notes.append(f"dev: the usual speakers that are present ({len(dev)})")
        return members, notes
    names = [Utterance(files.id, Path(), (), files.speaker) for files in sides["train"]]
    held, note = choose_dev(names, dev_share)
    members["train"] = [files for files in sides["train"] if files.id not in held]
    members["dev"] = [files for files in sides["train"] if files.id in held]
    return members, [*notes, note]


def _check_complete(members: dict[str, list[Files]]) -> None:
    for split, count in COMPLETE.items():
        whole: Counter[str] = Counter()
        for files in members[split]:
            whole[files.speaker] += bool(files.audio and files.phn)
        if whole.total() != count:
            short = [f"{name} {number}" for name, number in sorted(whole.items()) if number != SENTENCES]
            what = f"all speakers of TIMIT are present, but {whole.total()} {split} utterances instead of {count}"
            what += f" ({first_few(short, 5)} instead of {SENTENCES})"
            raise InputError(what, "copy the corpus again; it is read in part only where whole speakers are missing")


def _read(files: Files, phone_set: str) -> Utterance | Rejected:
    try:
        return _utterance(files, phone_set)
    except InputError as error:
        return Rejected(files.id, error.what)


def _utterance(files: Files, phone_set: str) -> Utterance:
    """Read the labels of an utterance; times in seconds."""
    if files.audio is None:
        raise InputError(f"{files.phn}: no recording of that name beside it (.wav, .flac, .sph)", "copy it again")
    if files.phn is None:
        raise InputError(f"{files.audio}: no .PHN file beside it", "copy it again")
    frames, rate, _ = sound_file.info(files.audio)
    lines = read_labels(files.phn, frames, rate)
    phones, kept = fold_labels([line.label for line in lines], phone_set)
    times = tuple((lines[k].start / rate, lines[k].end / rate) for k in kept)
    return Utterance(files.id, files.audio, tuple(phones), files.speaker, times, traits=_traits(files))


def _traits(files: Files) -> tuple[tuple[str, str], ...]:
    """Return sex and dialect region, which are in the names of TIMIT's folders: ``dr1/fvmh0``."""
    region, _, _ = files.id.partition("-")
    sex = {"f": "female", "m": "male"}.get(files.speaker[:1])
    known = (("sex", sex), ("dialect", region if region.startswith("dr") else None))
    return tuple((name, value) for name, value in known if value)


@dataclass
class Files:
    """The files of an utterance: a recording and a .PHN file, or one of them."""

    id: str
    speaker: str
    audio: Path | None = None
    phn: Path | None = None


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
        The folder does not exist, or has no files in TIMIT's layout.
    """
    if not root.is_dir():
        raise InputError(f"{root}: no such folder", "set corpus.root to the folder that holds TIMIT's TRAIN and TEST")
    found: dict[str, dict[str, Files]] = {side: {} for side in SPLITS}
    dialect_sentences, doubles = 0, list[str]()
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
            if getattr(files, kind) is None:
                setattr(files, kind, folder / name)
            else:
                doubles.append(str((folder / name).relative_to(root)))
    if not any(found.values()):
        what = f"{root}: no utterances; looked for TRAIN/<region>/<speaker>/<sentence>.WAV and .PHN, in any case"
        raise InputError(what, "set corpus.root to the folder above TRAIN, or corpus.kind to table for others")
    notes = [f"SA sentences left out ({dialect_sentences})"] if dialect_sentences else []
    if doubles:
        notes.append(f"{len(doubles)} second files of the same utterances ({first_few(doubles, 3)}) are not used")
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
    InputError
        The file is not a .PHN file or is empty, a label is not one of TIMIT's, or times run backwards, overlap or go
        beyond the end of the recording.
    """
    timit = named_inventory("timit61")
    checked: list[PhnLine] = []
    last = 0
    for number, start, end, label in read_phn_lines(path):
        phone, problem = timit.normalise(label), ""
        if phone not in timit.phones:
            problem = f"the label {phone!r} is not in the phone set {timit.name}"
        elif end < start:
            problem = f"times run backwards, {phone} ends at {end} and starts at {start}"
        elif start < last:
            problem = f"times overlap, {phone} starts at {start}, before the end of the last, {last}"
        elif end > frames + rate * TAIL_MS // 1000:
            problem = f"{phone} ends at sample {end}, and the recording has {frames} at {rate} Hz: "
            problem += "it is cut short, or was resampled without its labels"
        if problem:
            raise InputError(f"{path}, line {number}: {problem}", "correct the line")
        checked.append(PhnLine(number, min(start, frames), min(end, frames), phone))
        last = end
    return checked


def _folders(root: Path) -> list[tuple[Path, list[str]]]:
    """Return every folder with the names of its files, short names first; links are followed, without loops."""
    entered: set[str] = set()
    folders = []
    for folder, subfolders, names in walk(root, links=True):
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
