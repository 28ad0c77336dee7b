"""Files and folders written whole or not at all: beside, flushed to the disk, then renamed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

PARTIAL = ".partial"
PREVIOUS = ".previous"
_MASK = os.umask(0o077)  # the only way to read it is to set it
os.umask(_MASK)


def write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a file beside `path`, then put it in its place.

    Raises
    ------
    OSError
        From the disk; `path` is then as it was before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}{PARTIAL}")
    try:
        write(beside)
        _settle(beside)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _flush(path.parent)


def write_text(path: Path, text: str) -> None:
    """Write text as UTF-8."""

    def write(beside: Path) -> None:
        beside.write_text(text, encoding="utf-8")

    write_file(path, write)


def write_json(path: Path, value: Any) -> None:
    """Write plain values as JSON."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_folder(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a folder beside `path`, then swap it in.

    Between the two renames of the swap only ``<name>.previous`` exists; `settle_folder` puts that back.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    settle_folder(path)
    beside, previous = path.with_name(f"{path.name}{PARTIAL}"), path.with_name(f"{path.name}{PREVIOUS}")
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir()
        write(beside)
        _settle_all(beside)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    if path.exists():
        os.rename(path, previous)
    os.rename(beside, path)
    _flush(path.parent)
    shutil.rmtree(previous, ignore_errors=True)


def settle_folder(path: Path) -> None:
    """Finish or undo a swap that was cut off: afterwards `path`, if it exists, is whole and is the only one."""
    previous = path.with_name(f"{path.name}{PREVIOUS}")
    if previous.exists():
        if path.exists():
            shutil.rmtree(previous, ignore_errors=True)
        else:
            os.rename(previous, path)
    shutil.rmtree(path.with_name(f"{path.name}{PARTIAL}"), ignore_errors=True)


def _settle_all(folder: Path) -> None:
    """Settle a folder and everything in it, the innermost first."""
    for place, _, names in os.walk(folder, topdown=False):
        for name in names:
            _settle(Path(place, name))
        _settle(Path(place))


def _settle(path: Path) -> None:
    """Give it the mode that new files or folders get here (safetensors writes for its owner alone), and flush it."""
    path.chmod((0o777 if path.is_dir() else 0o666) & ~_MASK)
    _flush(path)


def _flush(path: Path) -> None:
    """Wait until the disk has it; folders cannot be flushed on Windows, and need not be."""
    if os.name == "nt" and path.is_dir():
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
