"""Which recordings a command line means, and what else is called by their names."""

from __future__ import annotations

import glob
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from speechctc import ffmpeg
from speechctc.errors import InputError

ENDINGS = (*".wav .flac .ogg .opus .mp3 .aiff .aif .sph .nist .au .caf .w64 .rf64".split(), *ffmpeg.ENDINGS)
"""Files in a folder that are taken for recordings, in either case; a file that is named may end in anything."""


class Recording(NamedTuple):
    """A recording, and what its results are called: its path below the folder that was named, less the ending."""

    path: Path
    name: Path


def find_recordings(arguments: Iterable[Path]) -> list[Recording]:
    """Return the recordings that files, folders (at any depth) and patterns mean, each once, in order.

    A file that does not exist is among them: that it cannot be read is found out when its turn comes.

    Raises
    ------
    InputError
        A folder without recordings.
    """
    found: dict[Path, Recording] = {}
    for argument in arguments:
        for path, below in _expand(argument):
            name = path.relative_to(below) if below else Path(path.name)
            found.setdefault(path, Recording(path, name.with_suffix("") if name.suffix else name))
    return list(found.values())


def _expand(argument: Path) -> list[tuple[Path, Path | None]]:
    """Return the files one argument means, each with the folder it was found in."""
    if argument.is_dir():
        files = sorted(path for path in argument.rglob("*") if path.suffix.lower() in ENDINGS and path.is_file())
        if not files:
            raise InputError(
                f"{argument}: no recordings in this folder (looked for {' '.join(ENDINGS)})", "name others"
            )
        return [(path, argument) for path in files]
    if glob.has_magic(str(argument)) and not argument.exists():
        matches = sorted(glob.glob(str(argument), recursive=True))
        return [pair for match in matches for pair in _expand(Path(match))] or [(argument, None)]
    return [(argument, None)]


def beside(path: Path, endings: Iterable[str]) -> Path | None:
    """Return the file that is called like a recording and ends in the first of `endings` there is, in either case."""
    there = {each.name.lower(): each for each in path.parent.iterdir()} if path.parent.is_dir() else {}
    for ending in endings:
        if (other := there.get(f"{path.stem}{ending}".lower())) is not None:
            return other
    return None
