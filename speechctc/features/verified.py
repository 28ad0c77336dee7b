"""Which files of a folder were found whole before, told by size and time of change, so that no checksum is needed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from speechctc.storage import files

CHECKED = "checked.json"  # beside the files
SETTLED = 2.0  # seconds after which a file's time of change tells it from a later version of itself


class Stamps:
    """The files of a folder as they are now, and as they were when they were last found whole.

    Parameters
    ----------
    folder : Path
    paths : sequence of Path
        Files in it. They are looked at here, so that one that changes while it is being checked is not taken for whole.
    """

    def __init__(self, folder: Path, paths: Sequence[Path]) -> None:
        self._checked = folder / CHECKED
        self._known = _read(self._checked)
        self._now = {path.name: stamp for path in paths if (stamp := _stamp(path))}

    def __contains__(self, path: Path) -> bool:
        """Tell whether a file is the one that was found whole."""
        now = self._now.get(path.name)
        return now is not None and now == self._known.get(path.name)

    def save(self) -> None:
        """Remember all the files as whole, where the folder may be written to."""
        if self._now == self._known:
            return
        try:
            files.write_json(self._checked, self._now)
        except OSError:  # a folder that may only be read: they are checked again next time
            pass


def _stamp(path: Path) -> list[int]:
    """Return what tells a file from other versions of itself; nothing where it is too new to tell."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns] if time.time() - status.st_mtime > SETTLED else []


def _read(path: Path) -> dict[str, list[int]]:
    try:
        stamps = files.read_json(path)
    except (OSError, ValueError):
        return {}
    return stamps if isinstance(stamps, dict) else {}
