"""Every place that writes, in a folder of a stranger's where a link stands at the place of something it makes.

A writer is run once in a clean folder, to learn which files and folders it makes there. Then it is run again and again
in fresh folders: each time, a link, or a pipe, stands in the place of one of them. It may refuse in a line or replace
the link; what lies outside of the folder must stay as it was.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from speechctc.core.files import DRAFT

Act = Callable[[Path], None]
"""Writes in a folder; raises, or returns. What a user sees of an error is for other tests."""


@dataclass(frozen=True)
class Writer:
    """Something that writes.

    Attributes
    ----------
    prepare : callable
        Puts what the writer reads into a new folder.
    act : callable
        Writes in it.
    named : tuple of str
        Folders that the user names: these may be links to folders.
    """

    prepare: Act
    act: Act
    named: tuple[str, ...] = ()


@dataclass
class Hunted:
    """What came of a hunt: the number of runs by writer, and the findings in lines."""

    runs: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)


def _to_file(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "precious")


def _to_nothing(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "new")


def _to_folder(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "folder", target_is_directory=True)


def _to_empty_folder(place: Path, outside: Path) -> None:
    place.symlink_to(outside / "empty", target_is_directory=True)


def _in_a_chain(place: Path, outside: Path) -> None:
    between = place.with_name(f"{place.name}.between")
    between.symlink_to(os.path.relpath(outside / "precious", place.parent))
    place.symlink_to(between.name)


PLANTS: Mapping[str, Callable[[Path, Path], None]] = {
    "a link to a file": _to_file,
    "a link to nothing": _to_nothing,
    "a link to a folder": _to_folder,
    "a link to an empty folder": _to_empty_folder,
    "a chain of links": _in_a_chain,
}


def hunt(writers: Mapping[str, Writer], root: Path, plants: Callable[[int], Iterable[str]] | None = None) -> Hunted:
    """Try all writers.

    Parameters
    ----------
    writers : mapping of str to Writer
    root : Path
        An empty folder.
    plants : callable, optional
        Takes the number of a place and yields the names of the plants to try there; None: all.
    """
    found = Hunted()
    for name, writer in writers.items():
        for number, place in enumerate(places_of(writer, root)):
            for plant in plants(number) if plants else PLANTS:
                if place in writer.named and "folder" in plant:
                    continue
                found.runs[name] = found.runs.get(name, 0) + 1
                if fault := _tried(writer, place, plant, root):
                    found.findings.append(f"{name}: {plant} at {place}: {fault}")
        shutil.rmtree(root / "prepared")
    return found


def _prepare(writer: Writer, folder: Path, root: Path) -> None:
    """Prepare a folder, always the same; from the second time on with a copy of what the first time made."""
    if (root / "prepared").exists():
        shutil.copytree(root / "prepared", folder, symlinks=True, dirs_exist_ok=True)
        return
    writer.prepare(folder)
    shutil.copytree(folder, root / "prepared", symlinks=True)


def places_of(writer: Writer, root: Path) -> list[str]:
    """Return the files and folders that a writer makes or changes, relative to its folder; names at random aside."""
    with _workplace(root) as (folder, outside):
        _prepare(writer, folder, root)
        before = _content(folder)
        with heard() as named:
            writer.act(folder)
        after = _content(folder)
        if _content(outside) != _outside_content():
            raise AssertionError("it writes outside, without any link")
    places = {name for name in after if name not in before or after[name] != before[name]}
    passing = {os.path.relpath(name, folder) for name in named if os.path.isabs(name)} | {
        os.path.normpath(name) for name in named if not os.path.isabs(name)
    }
    places |= {name for name in passing if not name.startswith("..") and name != "."}
    assert places, "it writes nothing"
    return sorted(place for place in places if not any(map(_is_random, Path(place).parts)))


def _is_random(name: str) -> bool:
    """Return whether nobody can foresee a name."""
    return DRAFT.fullmatch(name) is not None or name.startswith("events.out")


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_EVENTS = dict.fromkeys(("open", "os.mkdir", "os.remove", "os.rmdir"), 1)  # by their number of names
_EVENTS |= dict.fromkeys(("os.rename", "os.link", "os.symlink"), 2)
_ears: list[set[str]] = []


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _ears and (number := _EVENTS.get(event)) and (event != "open" or (arguments[2] or 0) & _WRITING):
        paths = [path for path in arguments[:number] if isinstance(path, str | bytes | os.PathLike)]
        _ears[-1].update(map(os.fsdecode, paths))


sys.addaudithook(_hear)  # for good


@contextlib.contextmanager
def heard() -> Iterator[set[str]]:
    """Hear which names Python opens to write, makes, renames or removes, also those that are gone at the end."""
    _ears.append(set())
    try:
        yield _ears[-1]
    finally:
        _ears.pop()


def _tried(writer: Writer, place: str, plant: str, root: Path) -> str:
    """Return what is wrong after a run, or ``""``."""
    with _workplace(root) as (folder, outside):
        _prepare(writer, folder, root)
        there = folder / place
        there.parent.mkdir(parents=True, exist_ok=True)
        if there.is_dir() and not there.is_symlink():
            shutil.rmtree(there)
        there.unlink(missing_ok=True)
        PLANTS[plant](there, outside)
        with contextlib.suppress(Exception):
            writer.act(folder)
        after, before = _content(outside), _outside_content()
        changed = sorted(name for name in {*after, *before} if after.get(name, "none") != before.get(name, "none"))
        return f"{', '.join(changed)} outside {'are' if len(changed) > 1 else 'is'} not as before" if changed else ""


@contextlib.contextmanager
def _workplace(root: Path) -> Iterator[tuple[Path, Path]]:
    """Make a folder to work in, and one outside of it; silence what is said. All is removed at the end."""
    home, folder, outside = Path.cwd(), root / "theirs" / "talks", root / "outside"
    folder.mkdir(parents=True)
    for name, content in _outside_content().items():
        path = outside / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(exist_ok=True) if content is None else path.write_bytes(content)
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            yield folder, outside
    finally:
        os.chdir(home)
        shutil.rmtree(root / "theirs")
        shutil.rmtree(outside)


def _outside_content() -> dict[str, bytes | None]:
    return {"precious": b"mine\n", "empty": None, "folder": None, "folder/old.safetensors": b"old", "folder/f": b"f"}


def _content(folder: Path) -> dict[str, bytes | None]:
    """Return the content of each file below a folder, and None for each folder and link."""
    found: dict[str, bytes | None] = {}
    for path in folder.rglob("*"):
        plain = path.is_file() and not path.is_symlink()
        found[path.relative_to(folder).as_posix()] = path.read_bytes() if plain else None
    return found


def command(*words: object) -> Act:
    """Return what runs a command line in the folder, in this process."""

    def act(folder: Path) -> None:
        from speechctc.cli import app

        before, sys.argv = sys.argv, ["speechctc", *map(str, words)]
        try:
            app.main()
        except SystemExit as left:
            if left.code:
                said = sys.stderr.getvalue() if isinstance(sys.stderr, io.StringIO) else ""
                raise RuntimeError(f"status {left.code}: {said}") from None
        finally:
            sys.argv = before

    act.__dict__["words"] = tuple(map(str, words))
    return act
