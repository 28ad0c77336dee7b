"""Which recordings a command line means, what their results are called, and which other files have their names."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from speechctc.audio import ffmpeg
from speechctc.errors import InputError

SOUND = tuple(".wav .flac .ogg .opus .mp3 .aiff .aif .sph .nist .au .caf .w64 .rf64".split())
CONTAINERS = ffmpeg.ENDINGS
"""Sound files that take ffmpeg to read, and videos, whose sound may also lie beside them as one of `SOUND`."""
ENDINGS = SOUND + CONTAINERS
"""Files in a folder that are taken for recordings, in either case; a file that is named may end in anything."""
NOT_READ = tuple(".ape .avi .dss .ds2 .dvf .m4b .m4p .mpc .mpg .mts .pcm .ra .raw .rm .shn .tta .voc .vox .wv".split())
"""Files in a folder that look like sound and are not read."""


class Recording(NamedTuple):
    """A recording, and what its results are called: its path below the folder that was named, less the ending."""

    path: Path
    name: Path


def find_recordings(arguments: Iterable[Path]) -> list[Recording]:
    """Return the recordings that files, folders (at any depth) and patterns mean, each once, in order.

    A file that does not exist is among them: that it cannot be read is found out when its turn comes. Of two files of
    one folder whose names differ only in the ending, the results' names keep the ending.

    Raises
    ------
    InputError
        A folder without recordings, or a pattern that no file matches.
    """
    found: dict[Path, Recording] = {}
    for argument in arguments:
        for path, below in _expand(argument):
            name = path.relative_to(below) if below else Path(path.name)
            found.setdefault(path, Recording(path, name.with_suffix("") if name.suffix else name))
    stems = Counter((path.with_suffix(""), path.suffix.lower() in ENDINGS) for path in found)

    def is_shared(path: Path) -> bool:
        sound = path.suffix.lower() in ENDINGS
        return stems[path.with_suffix(""), sound] > 1 or (not sound and stems[path.with_suffix(""), True] > 0)

    return [Recording(path, name.with_name(path.name) if is_shared(path) else name) for path, name in found.values()]


def left_out(arguments: Iterable[Path]) -> list[str]:
    """Say which files in the folders named look like sound and are not among the recordings, in lines."""
    said = []
    for folder in (argument for argument in arguments if os.path.isdir(argument)):
        _, doubles, unread = _scan(folder)
        if doubles:
            said.append(f"{folder}: {_some(doubles)} left out: the same sound lies beside it under another ending")
        if unread:
            said.append(f"{folder}: {_some(unread)} left out: not a kind of sound that is read; convert it to WAV")
    return said


def _some(paths: Sequence[Path]) -> str:
    """Name one file, and count the others."""
    return paths[0].name if len(paths) == 1 else f"{paths[0].name} and {len(paths) - 1} more"


def _scan(folder: Path) -> tuple[list[Path], list[Path], list[Path]]:
    """Return a folder's recordings, those left out as they lie there twice, and what looks like sound but is not read.

    Hidden files and folders are passed over: drafts, what macOS keeps under ``._`` names, waste baskets.
    """
    paths = sorted(path for path in folder.rglob("*") if not _is_hidden(path.relative_to(folder)))
    sound = [path for path in paths if path.suffix.lower() in ENDINGS and path.is_file()]
    plain = {path.with_suffix("") for path in sound if path.suffix.lower() in SOUND}
    doubles = [path for path in sound if path.suffix.lower() in CONTAINERS and path.with_suffix("") in plain]
    unread = [path for path in paths if path.suffix.lower() in NOT_READ and path.is_file()]
    return [path for path in sound if path not in set(doubles)], doubles, unread


def _is_hidden(below: Path) -> bool:
    return any(part.startswith(".") for part in below.parts)


def _expand(argument: Path) -> list[tuple[Path, Path | None]]:
    """Return the files one argument means, each with the folder it was found in."""
    if os.path.isdir(argument):
        files, _, unread = _scan(argument)
        if not files:
            seen = f"; {_some(unread)} cannot be read" if unread else ""
            looked = f"(looked for {' '.join(ENDINGS)}{seen})"
            raise InputError(f"{argument}: no recordings in this folder {looked}", "name another folder, or files")
        return [(path, argument) for path in files]
    if glob.has_magic(str(argument)) and not os.path.exists(argument):
        matches = sorted(glob.glob(str(argument), recursive=True))
        if not matches:
            raise InputError(f"{argument}: no file matches this pattern", "check the path, and where you are")
        return [pair for match in matches for pair in _expand(Path(match))]
    return [(argument, None)]


def ids(recordings: Sequence[Recording]) -> list[str]:
    """Return a name without blanks for each recording, none twice, as CTM needs them.

    The name of its results; the path as it was named where two results have one name; and a number at its end where
    that, too, is another's.
    """
    names = Counter(recording.name for recording in recordings)
    taken: set[str] = set()
    found = []
    for path, name in recordings:
        whole = (name if names[name] == 1 else path.with_suffix("") if path.suffix else path).as_posix()
        base = id = "_".join(whole.split()) or "-"
        number = 1
        while id in taken:
            number += 1
            id = f"{base}-{number}"
        taken.add(id)
        found.append(id)
    return found


def beside(path: Path, endings: Iterable[str]) -> Path | None:
    """Return the file that is called like a recording and ends in the first of `endings` there is, in either case.

    ``a.mp3.TextGrid`` goes before ``a.TextGrid`` for the recording ``a.mp3``.
    """
    there = {each.name.lower(): each for each in path.parent.iterdir()} if path.parent.is_dir() else {}
    for ending in endings:
        for name in (path.name, path.stem):
            if (other := there.get(f"{name}{ending}".lower())) is not None:
                return other
    return None
