"""Which files lie in a folder, told by one listing in place of a system call per file."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

FEW = 64  # files of a folder that are looked up one by one before the folder is listed


class FolderListings:
    """Looks files up; a folder of which many are asked for is listed once.

    A listing holds regular files only. Symbolic links, and names that the file system matches in another spelling,
    are looked up one by one.
    """

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()
        self._files: dict[str, frozenset[str]] = {}
        self._real: dict[str, str] = {}

    def is_file(self, path: str) -> bool:
        """Tell whether there is such a file."""
        folder, name = _split(path)
        return name in self._listed(folder) or os.path.isfile(path)

    def real(self, path: Path) -> str:
        """Return the path without symbolic links, as `os.path.realpath`."""
        folder, name = _split(str(path))
        if name not in self._listed(folder):
            return os.path.realpath(path)
        if folder not in self._real:
            self._real[folder] = os.path.join(os.path.realpath(folder), "")
        return self._real[folder] + name

    def _listed(self, folder: str) -> frozenset[str]:
        """Return the regular files of a folder, or none as long as few were asked for."""
        files = self._files.get(folder)
        if files is None:
            self._asked[folder] += 1
            if self._asked[folder] <= FEW:
                return frozenset()
            files = self._files[folder] = _files(folder)
        return files


def _split(path: str) -> tuple[str, str]:
    """Return folder and name; as `os.path.split`, which is slow, where `os.sep` is all that separates."""
    if os.altsep:
        return os.path.split(path)
    folder, sep, name = path.rpartition(os.sep)
    return folder or sep, name


def _files(folder: str) -> frozenset[str]:
    try:
        with os.scandir(folder or os.curdir) as entries:
            return frozenset(entry.name for entry in entries if entry.is_file(follow_symlinks=False))
    except OSError:  # its files may be reached even so: a folder may be searched and not read
        return frozenset()
