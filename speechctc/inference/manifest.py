"""A manifest of what was done: a line of JSON for each recording as it ends, by which a run that was ended goes on.

Beside a manifest of results that go into one file lies a file of their rows, with the ending `ROWS`: what was done is
put into the file from there, in the order of the recordings. Of two lines for a recording the last counts. Names in a
manifest are compared with those of the recordings that are named, and never opened: it may be a stranger's.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from speechctc import __version__
from speechctc.audio.recordings import Recording
from speechctc.audio.tracks import Channel, chosen
from speechctc.audio.tracks import fields as channel_fields
from speechctc.core import files, links, written
from speechctc.core.errors import InputError, as_utf8, plural
from speechctc.core.parallel import took
from speechctc.inference.formats import Kept

ROWS = ".rows"
MOST_LINE = 1 << 24  # bytes of a line that is read
SETTINGS = ("command", "version", "model", "settings")  # what all lines of a run share


class Line(NamedTuple):
    """What is known of a recording that was done."""

    digest: str
    stamp: tuple[int, int]
    given: str  # a digest of what else the result depends on
    outputs: tuple[tuple[str, str], ...]
    rows: tuple[int, int, str] | None
    is_warned: bool


Key = tuple[str, Channel | None, str]  # the path, the channel or track, and the name of the results


@dataclass(eq=False)
class Manifest:
    """A manifest that is read and written.

    Parameters
    ----------
    path : Path
    resume : bool
        Go on by it, if it is there.
    about : mapping
        The command, the model and the settings of the run, as they stand in each line.

    Attributes
    ----------
    recordings : sequence of Recording
        All of the run.
    done : dict
        What identifies a recording, and what the manifest says of it; only what is still so.
    """

    path: Path
    resume: bool = False
    about: Mapping[str, Any] = field(default_factory=dict)
    recordings: Sequence[Recording] = ()
    given: Callable[[Recording], str] = lambda recording: ""
    done: dict[Key, Line] = field(default_factory=dict)
    others: int = 0  # recordings that were done with other settings
    _handle: int = -1
    _rows: int = -1

    def begin(
        self,
        recordings: Sequence[Recording],
        given: Callable[[Recording], str],
        files_of: Callable[[Recording], Iterable[Path]] | None,
    ) -> None:
        """Open the manifest, and find what of these recordings is done.

        Parameters
        ----------
        recordings : sequence of Recording
        given : callable
            Returns a digest of what else the result of a recording depends on, as a transcript.
        files_of : callable, optional
            Returns the files of a recording's results; None: they are rows of one file.

        Raises
        ------
        InputError
            It is there and is not to be resumed, it is no manifest, or another run writes it.
        """
        self.recordings, self.given = recordings, given
        self._handle = links.open_plain(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        if (is_held := files.try_lock(self._handle)) is False:
            raise InputError(f"{self.path}: another run writes this manifest", "wait for it, or name another")
        if is_held is None:
            files.warn_of_no_locks()
        if os.fstat(self._handle).st_size and not self.resume:
            raise InputError(f"{self.path}: exists", "give --resume to go on by it, or name another manifest")
        self._rows = -1 if files_of else links.open_plain(self._rows_path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        wanted = {_key(each): each for each in recordings}
        for key, line in self._read(wanted).items():
            expected = [as_utf8(str(file)) for file in files_of(wanted[key])] if files_of else None
            if self._is_still_so(wanted[key], line, expected):
                self.done[key] = line

    @property
    def _rows_path(self) -> Path:
        return self.path.with_name(self.path.name + ROWS)

    def _read(self, wanted: Mapping[Key, Recording]) -> dict[Key, Line]:
        """Return the last line of each of these recordings, if it is of this run's settings and no error."""
        about, found, other = self._shared, dict[Key, Line](), set[Key]()
        end = 0
        with open(self.path, "rb") as file:
            for number, raw in enumerate(iter(lambda: file.readline(MOST_LINE), b""), 1):
                if not raw.endswith(b"\n"):
                    break  # of a run that was killed while it wrote
                end += len(raw)
                try:
                    values = json.loads(raw)
                    channel = chosen(values.get("track"), values.get("channel"))
                    key = (str(values["input"]), channel, str(values["name"]))
                    line = None if "error" in values else _line(values)
                    is_same = all(values.get(name) == about[name] for name in SETTINGS)
                except (ValueError, KeyError, TypeError, AttributeError):
                    fix = "name a manifest that speechctc wrote, or a new one"
                    raise InputError(f"{self.path}, line {number}: not of a manifest", fix) from None
                found.pop(key, None)
                other.discard(key)
                if line is not None and key in wanted:
                    found.update({key: line} if is_same else {})
                    other.update(() if is_same else {key})
        os.ftruncate(self._handle, end)
        self.others = len(other)
        return found

    @cached_property
    def _shared(self) -> dict[str, Any]:
        """Return what all lines of this run share, as it is read back."""
        shared: dict[str, Any] = json.loads(
            json.dumps({"command": "", "version": __version__, "model": "", "settings": {}} | dict(self.about))
        )
        return shared

    def _is_still_so(self, recording: Recording, line: Line, expected: Sequence[str] | None) -> bool:
        """Return whether the recording and its results are as a line says."""
        try:
            if _stamp(recording.path) != line.stamp and files.sha256(files.readable(recording.path)) != line.digest:
                return False
        except OSError:
            return False
        if line.given != self.given(recording):
            return False
        if expected is None:
            return line.rows is not None and self._kept(line.rows) is not None
        there = sorted(path for path, _ in line.outputs) == sorted(expected)
        return there and all(self._is_output(Path(path), digest) for path, digest in line.outputs)

    def _is_output(self, path: Path, digest: str) -> bool:
        """Return whether a result is there as it was written, or as a person changed it since."""
        try:
            return files.sha256(files.readable(path)) == digest or bool(written.changed([path]))
        except OSError:
            return False

    def _kept(self, rows: tuple[int, int, str]) -> bytes | None:
        """Return the rows that lie at a place, if they are there."""
        start, length, digest = rows
        if length > os.fstat(self._rows).st_size:
            return None
        with open(self._rows_path, "rb") as file:
            file.seek(start)
            found = file.read(length)
        return found if _sha256(found) == digest else None

    def is_done(self, recording: Recording) -> bool:
        """Return whether nothing is to be done of a recording."""
        return _key(recording) in self.done

    def kept(self, recording: Recording) -> Kept:
        """Return the rows of a recording that is done.

        Raises
        ------
        InputError
            Another program has changed the file of rows meanwhile.
        """
        rows = self.done[_key(recording)].rows
        assert rows is not None
        if (text := self._kept(rows)) is None:
            raise InputError(f"{self._rows_path}: changed while it was read", "run it again")
        return Kept(text.decode("utf-8", "surrogateescape"))

    def add(
        self,
        recording: Recording,
        outputs: Mapping[Path, bytes] | None = None,
        rows: str | None = None,
        seconds: float | None = None,
        warnings: Iterable[str] = (),
        error: str | None = None,
    ) -> None:
        """Append the line of a recording: its files and what is in them, or its rows, or why there are none.

        `seconds` is the length of the recording.
        """
        spent = took()
        input, channel, name = _key(recording)
        values: dict[str, Any] = {"input": input, "channel": None} | channel_fields(channel) | {"name": name}
        values |= _content(recording.path) | ({"given": given} if (given := self.given(recording)) else {})
        values |= self._shared
        if error is not None:
            values["error"] = as_utf8(error)
        else:
            found = [{"path": as_utf8(str(path)), "sha256": _sha256(text)} for path, text in (outputs or {}).items()]
            values["outputs"] = found
            if rows is not None and self._rows >= 0:
                values["rows"] = self._append_rows(rows.encode("utf-8", "surrogateescape"))
        values |= {"warnings": said} if (said := [as_utf8(each) for each in warnings]) else {}
        values |= {"duration": round(seconds, 3)} if seconds is not None else {}
        values |= {"seconds": round(spent.seconds, 3), "machine": spent.machine} if spent else {"machine": _HERE}
        with files.named(self.path):
            files.append(self._handle, json.dumps(values, ensure_ascii=False).encode() + b"\n")

    def _append_rows(self, text: bytes) -> dict[str, Any]:
        start = os.fstat(self._rows).st_size
        with files.named(self._rows_path):
            files.append(self._rows, text)
        return {"start": start, "bytes": len(text), "sha256": _sha256(text)}

    def end(self) -> None:
        """Close the files."""
        for handle in (self._handle, self._rows):
            if handle >= 0:
                os.close(handle)
        self._handle = self._rows = -1

    def notes(self) -> Iterator[str]:
        """Yield lines on what is done already, and what is done again."""
        if self.done:
            n_warned = sum(line.is_warned for line in self.done.values())
            more = f", which has warnings of {n_warned:,} of them" if n_warned else ""
            yield f"{plural(len(self.done), 'recording')} done already, by {self.path}{more}"
        if self.others:
            again = f"{plural(self.others, 'recording')} of {self.path} done again"
            yield f"{again}: of another command, version, model or setting"


_HERE = socket.gethostname()


def _key(recording: Recording) -> Key:
    return as_utf8(recording.place), recording.channel, as_utf8(str(recording.name))


def _line(values: Mapping[str, Any]) -> Line:
    """Return what a line says; raise what a line of something else leads to."""
    rows = values.get("rows")
    return Line(
        str(values["sha256"]),
        (int(values["bytes"]), int(values["modified_ns"])),
        str(values.get("given", "")),
        tuple((str(each["path"]), str(each["sha256"])) for each in values["outputs"]),
        (int(rows["start"]), int(rows["bytes"]), str(rows["sha256"])) if rows else None,
        bool(values.get("warnings")),
    )


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _content(path: Path) -> dict[str, Any]:
    """Return the digest of a recording, its size and when it was changed; nothing of one that cannot be read."""
    try:
        size, modified = _stamp(path)
        return {"sha256": files.sha256(files.readable(path)), "bytes": size, "modified_ns": modified}
    except OSError:
        return {}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def digest_of(*values: object) -> str:
    """Return a digest of plain values, of what else a result depends on."""
    return _sha256(json.dumps(values, default=repr, ensure_ascii=True).encode())[:16]


def digest_of_folder(folder: Path) -> str:
    """Return a digest of the files that lie in a folder: of a model."""
    found = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    return digest_of(*((path.name, files.sha256(path)) for path in found))
