"""No link is followed when writing: a folder that a stranger made may hold links to any file of the user's.

A folder that the user names may be a link, and so may the folders above it. Below it, neither a file to write nor a
folder to write into may be one.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from speechctc.core.errors import InputError

_SAFE_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_MAKE = "remove it, or name another place"


def refuse_odd(path: Path) -> None:
    """Check that a path is free or a plain file: not a link, a pipe, a device or a folder.

    Raises
    ------
    InputError
        It is something else.
    """
    try:
        mode = path.lstat().st_mode
    except OSError:  # free, or said by who writes there
        return
    if stat.S_ISLNK(mode):
        raise InputError(f"{path}: a link, and no link is followed to write a file", _MAKE)
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a pipe or a device"
        raise InputError(f"{path}: {kind}, where a file is to be written", _MAKE)


def refuse_linked_folder(folder: Path) -> None:
    """Check that a folder that speechctc names itself is no link to another.

    Raises
    ------
    InputError
        It is one.
    """
    if folder.is_symlink():
        raise InputError(f"{folder}: a link, and no link is followed to write into a folder", _MAKE)


def refuse_links_below(folder: Path, below: Path) -> None:
    """Check that none of the folders from `folder`, which the user named, down to ``folder / below`` is a link.

    Raises
    ------
    InputError
        One is.
    """
    for part in below.parts:
        folder = folder / part
        refuse_linked_folder(folder)


def open_plain(path: Path, flags: int) -> int:
    """Open a plain file, which ``O_CREAT`` may create, and return its handle; nothing else is opened.

    Raises
    ------
    InputError
        It is a link, a pipe, a device or a folder.
    OSError
        From the disk.
    """
    refuse_odd(path)
    handle = os.open(path, flags | _SAFE_FLAGS, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(f"{path}: not a plain file", _MAKE)
    return handle
