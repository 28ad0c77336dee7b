"""Remember which files have a verified checksum, by size and time of modification."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from speechctc.core import files

CHECKED = "checked.json"  # in the files' folder
SETTLED = 2.0  # seconds; a file modified later than that could change again within its time stamp


class Verified:
    """The files of a folder whose checksum was verified and that have not changed since.

    Parameters
    ----------
    folder : Path
    paths : sequence of Path
        Files in it. Their sizes and times are read here, before their checksums are computed, so that a file that
        changes meanwhile does not count as verified.
    """

    def __init__(self, folder: Path, paths: Sequence[Path]) -> None:
        self._checked = folder / CHECKED
        self._known = _read(self._checked)
        self._now = {path.name: stamp for path in paths if (stamp := _stamp(path))}

    def __contains__(self, path: Path) -> bool:
        """Return whether a file was verified and has not changed."""
        now = self._now.get(path.name)
        return now is not None and now == self._known.get(path.name)

    def save(self) -> None:
        """Record all the files as verified, if the folder is writable."""
        if self._now == self._known:
            return
        try:
            files.write_json(self._checked, self._now)
        except OSError:  # read-only folder: the checksums are computed again next time
            pass


def _stamp(path: Path) -> list[int]:
    """Return a file's size and time of modification; nothing if it was modified a moment ago."""
    status = path.stat()
    return [status.st_size, status.st_mtime_ns] if time.time() - status.st_mtime > SETTLED else []


def _read(path: Path) -> dict[str, list[int]]:
    try:
        stamps = files.read_json(path)
    except (OSError, ValueError):
        return {}
    return stamps if isinstance(stamps, dict) else {}
