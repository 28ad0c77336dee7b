"""Every place that writes, in a folder of a stranger's where a link stands at the place of something it makes.

A writer is run once in a clean folder, to learn which files and folders it makes there. Then it is run again in fresh
folders, each time with a link in the place of one of them. It may refuse in a line or replace the link; what lies
outside of the folder must stay as it was.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from speechctc.core.errors import DRAFT
from tests.command import run_command

Act = Callable[[Path], object]


class Writer(NamedTuple):
    """Something that writes.

    Attributes
    ----------
    prepare : callable
        Puts what the writer reads into a new folder.
    act : callable or str
        Writes in it, or raises; or a command line that does.
    named : tuple of str
        Folders that the user names: these may be links to folders.
    """

    prepare: Act
    act: Act | str
    named: tuple[str, ...] = ()

    @property
    def words(self) -> list[str]:
        """The words of the command line."""
        return self.act.split() if isinstance(self.act, str) else []


def command(line: str) -> None:
    """Run a command line in this process."""
    if run_command(*line.split()):
        raise RuntimeError(line)


TARGETS = ("precious", "new", "folder", "empty", "chain")
"""What a link leads to outside: a file, nothing, a folder, an empty one, another link to a file."""


def hunt(writer: Writer, root: Path, targets: int = 1) -> tuple[int, list[str]]:
    """Run a writer with links to so many of the `TARGETS`, in turn, in each place that it writes to.

    Parameters
    ----------
    writer : Writer
    root : Path
        An empty folder.
    targets : int

    Returns
    -------
    int
        How many runs.
    list of str
        What was changed outside, in lines.
    """
    in_turn, runs, findings = cycle(TARGETS), 0, []
    for place in places_of(writer, root):
        for target in (next(in_turn) for _ in range(targets)):
            if not (place in writer.named and target in ("folder", "empty")):
                runs += 1
                findings += [f"link to {target} at {place}: {name}" for name in _changed(writer, place, target, root)]
    return runs, findings


def places_of(writer: Writer, root: Path) -> list[str]:
    """Return the files and folders that a writer makes or changes, relative to its folder; names at random aside."""
    with _workplace(writer, root) as (folder, outside):
        before, untouched = _content(folder), _content(outside)
        with heard() as named:
            _act(writer, folder)
        after = _content(folder)
        assert _content(outside) == untouched, "it writes outside, without any link"
    places = {name for name in after if name not in before or after[name] != before[name]}
    places |= {os.path.relpath(os.path.join(folder, name), folder) for name in named}
    places = {place for place in places if not place.startswith("..") and place != "."}
    assert places, "it writes nothing"
    return sorted(place for place in places if not any(map(_is_random, Path(place).parts)))


def _is_random(name: str) -> bool:
    """Return whether nobody can foresee a name."""
    return DRAFT.fullmatch(name) is not None or name.startswith("events.out")


_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NAMES = dict.fromkeys(("open", "os.mkdir", "os.remove", "os.rmdir"), 1)  # by event, the number of names
_NAMES |= dict.fromkeys(("os.rename", "os.link", "os.symlink"), 2)
_ears: list[set[str]] = []


def _hear(event: str, arguments: tuple[Any, ...]) -> None:
    if _ears and (number := _NAMES.get(event)) and (event != "open" or (arguments[2] or 0) & _WRITING):
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


def _act(writer: Writer, folder: Path) -> None:
    command(writer.act) if isinstance(writer.act, str) else writer.act(folder)


def _changed(writer: Writer, place: str, target: str, root: Path) -> list[str]:
    """Return what is not as before outside, after a run with a link in one place."""
    with _workplace(writer, root) as (folder, outside):
        there, before = folder / place, _content(outside)
        there.parent.mkdir(parents=True, exist_ok=True)
        if there.is_dir() and not there.is_symlink():
            shutil.rmtree(there)
        there.unlink(missing_ok=True)
        there.symlink_to(outside / target)
        with contextlib.suppress(Exception):
            _act(writer, folder)
        after = _content(outside)
        return sorted(name for name in {*after, *before} if after.get(name, "none") != before.get(name, "none"))


@contextlib.contextmanager
def _workplace(writer: Writer, root: Path) -> Iterator[tuple[Path, Path]]:
    """Go to a folder that is prepared for a writer, with another one outside of it. All is removed at the end."""
    home, folder, outside = Path.cwd(), root / "theirs" / "talks", root / "outside"
    for each in (folder, outside / "empty", outside / "folder"):
        each.mkdir(parents=True)
    for name in ("precious", "folder/old.safetensors", "folder/f"):
        (outside / name).write_bytes(b"mine\n")
    (outside / "chain").symlink_to("precious")
    os.chdir(folder)
    try:
        writer.prepare(folder)
        yield folder, outside
    finally:
        os.chdir(home)
        shutil.rmtree(root / "theirs")
        shutil.rmtree(outside)


def _content(folder: Path) -> dict[str, bytes | None]:
    """Return the content of each file below a folder, and None for each folder and link."""
    plain = ((path, path.is_file() and not path.is_symlink()) for path in folder.rglob("*"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() if is_file else None for path, is_file in plain}
