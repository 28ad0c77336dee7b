"""Writes results, and refuses to overwrite files that a person made or changed.

Each folder of results has a small hidden file, `RECORD`, with a line for every file written there: its SHA-256 and its
name, as ``sha256sum`` prints them. The line is appended before the file gets its name, so that a run that is killed
leaves no file that looks like a person's; and once more after it took the place of another. So a file is ours if it is
as one of the last two lines of its name says: an older version, put back, is a person's. So is one that `mark_checked`
marked; the mark names what was checked, as another draft may be copied over it. What `mark_draft` marked has a model's
labels beside what may be a person's: it is not overwritten, but its labels count as nobody's.
Several processes can append to the same record.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import os
import stat
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, TextIO

from speechctc.core import files
from speechctc.core.errors import FULL, InputError, first_few
from speechctc.core.files import draft_file
from speechctc.core.links import open_plain, refuse_odd
from speechctc.core.text_files import MOST_TEXT

RECORD = ".speechctc-written"
CHECKED = "checked:"  # before the digest of what a person found right; with it, the line is of no content
DRAFT = "draft:"  # before the digest of what a model's labels were put into; likewise
NAMED = 3  # files that an error names; the others are counted


def changed(paths: Iterable[Path]) -> list[Path]:
    """Return the files that exist with other content than speechctc wrote; links are among them.

    Text that another program saved in UTF-16 or with other line ends has the same content.
    """
    found = []
    for path in paths:
        if not os.path.lexists(path) or files.is_special(path):
            continue
        if path.is_symlink():
            found.append(path)
            continue
        own = _digests(path)
        if path.is_dir() or not own or not _is_as(path, own):
            found.append(path)
    return found


def mark_checked(paths: Iterable[Path]) -> None:
    """Record that a person found files right: from now on they are the person's."""
    for path in paths:
        _append(path, CHECKED + files.sha256(path), 2)


def mark_draft(path: Path) -> None:
    """Record that the labels of a file are a model's, whoever made the rest of it."""
    _append(path, DRAFT + files.sha256(path), 2)


def is_draft(path: Path) -> bool:
    """Return whether `mark_draft` marked a file, and it is as it was then."""
    marked = "" if path.is_symlink() else _marked(_digests(path), DRAFT)
    return bool(marked) and _is_as(path, [marked])


def unrecorded(paths: Iterable[Path]) -> list[Path]:
    """Return the files of which no record tells whether they are as speechctc wrote them.

    The record of their folder does not name them, or other content was marked as checked.
    """
    found = []
    for path in paths:
        own = _digests(path)
        marked = _marked(own, CHECKED)
        if not own or (marked and not _is_as(path, [marked])):
            found.append(path)
    return found


def refuse_changed(paths: Iterable[Path], overwrite: bool, advice: str = "") -> None:
    """Check that writing to these files overwrites nothing that a person made or changed.

    Parameters
    ----------
    paths : iterable of Path
    overwrite : bool
        The user allows it; then only folders are refused. A link is replaced itself, never what it leads to.
    advice : str
        What else can be done; appended to the message.

    Raises
    ------
    InputError
        Some files were not written by speechctc, or were changed since then, or are links; or the folder's record is.
    """
    paths = [path for path in paths if not files.is_special(path)]
    for place in {path.parent for path in paths}:
        refuse_odd(place / RECORD)
    found = [path for path in changed(paths) if not (overwrite and _is_no_folder(path))]
    if not found:
        return
    if link := next((path for path in found if path.is_symlink()), None):
        fix = "remove it, write to another place, or give --overwrite to replace the link itself by a file"
        raise InputError(f"{link}: a link, and no link is followed to write a file", fix)
    if folder := next((path for path in found if path.is_dir()), None):
        raise InputError(f"{folder}: a folder, where a file is to be written", "name another file")
    one = len(found) == 1
    names = first_few([str(path) for path in found], NAMED)
    what = f"{names}: {'exists and was' if one else f'{len(found)} files exist that were'} made or changed by hand"
    fix = f"write to another place, move {'it' if one else 'them'} away, or give --overwrite to lose what is there"
    raise InputError(f"{what} (not as speechctc wrote {'it' if one else 'them'})", fix + advice)


def write_text(path: Path, text: str, overwrite: bool = False) -> None:
    """Write text as UTF-8 with unchanged line ends, and record it.

    Raises
    ------
    InputError
        The file was changed since it was written; see `refuse_changed`.
    """
    write_bytes(path, text.encode(), overwrite)


def write_json(path: Path, value: Any, overwrite: bool = False) -> None:
    """Write plain values as JSON, and record it."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n", overwrite)


def write_bytes(path: Path, content: bytes, overwrite: bool = False) -> None:
    """Write a file, a picture for example, and record it.

    Raises
    ------
    InputError
        The file was changed since it was written; see `refuse_changed`.
    """
    with _place(path, overwrite) as place:
        place.write_bytes(content)


@contextmanager
def opened(path: Path, overwrite: bool = False) -> Iterator[TextIO]:
    """Open a file for writing, which gets its name when it is complete.

    After Ctrl-C or an `InputError`, it gets its name with the content written so far.

    Raises
    ------
    InputError
        The file was changed since it was written, or another run wrote it meanwhile; if this is found only on leaving,
        the new file has another name.
    """
    with _place(path, overwrite, is_slow=True) as place, open(place, "w", encoding="utf-8", newline="") as file:
        yield file


@contextmanager
def _place(path: Path, overwrite: bool, is_slow: bool = False) -> Iterator[Path]:
    """Yield where to write: a device or a pipe itself, else a draft, which gets the name of the file.

    If it is slow, what another run of this program writes meanwhile is kept too.
    """
    refuse_changed([path], overwrite)
    if files.is_special(path):
        yield path
        return
    before = _content(path) if is_slow and not overwrite else None
    with draft_file(path) as draft, files.named(path, FULL):
        try:
            yield draft
        except (KeyboardInterrupt, InputError):
            if draft.stat().st_size:
                _put_in_place(draft, path, overwrite, before)
            raise
        _put_in_place(draft, path, overwrite, before)


def _content(path: Path) -> str:
    """Return the digest of a file; ``""`` if there is none."""
    return files.sha256(path) if path.is_file() else ""


def _put_in_place(draft: Path, path: Path, overwrite: bool, before: str | None) -> None:
    """Give a draft its name; what a person saved there up to this moment keeps it, and the draft gets another one."""
    with files.named(path):
        files.commit(draft, path)  # it may take long: another program may save the file meanwhile
    digest, is_new = files.sha256(draft), not os.path.lexists(path)
    own = [] if is_new else _digests(path)
    try:
        refuse_changed([path], overwrite)
        if before is not None and _content(path) not in ("", before, digest):
            raise InputError(f"{path}: another run wrote it meanwhile", "look at both, and name a file for each run")
        _append(path, digest)
        if files.put_if_known(draft, path, lambda old: (overwrite and _is_no_folder(old)) or _is_as(old, own)):
            if not is_new:
                with files.saved(path):
                    _append(path, digest)
            return
        refuse_changed([path], overwrite)
        raise InputError(f"{path}: was changed by another program while it was written", "look at both")
    except InputError as error:
        names = (path.with_name(f"{path.stem}.new{k}{path.suffix}") for k in count(1))
        kept = next(name for name in names if not os.path.lexists(name))
        files.put_in_place(draft, kept)
        raise InputError(f"{error.what}; the new content is in {kept}", error.fix) from None


def _marked(own: Sequence[str], mark: str) -> str:
    """Return the digest that the last line of a file has behind a mark; ``""`` if it has none."""
    return own[0].partition(mark)[2] if own else ""


def _is_as(path: Path, digests: Sequence[str]) -> bool:
    """Return whether a file has the content of one of these digests, perhaps with other line ends or in UTF-16."""
    return files.sha256(path) in digests or _digest_of_text(path) in digests


def _is_no_folder(path: Path) -> bool:
    return path.is_symlink() or not path.is_dir()


def _append(path: Path, digest: str, times: int = 1) -> None:
    """Append the line of a file to the record of its folder."""
    record = open_plain(path.with_name(RECORD), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        line = digest.encode() + b"  " + _name(path) + b"\n"
        files.append(record, line * times)  # half a line would make the file look like a person's
    finally:
        os.close(record)


@dataclass
class _Record:
    """What a folder's record says, of which only what was appended is read again: it grows with every file."""

    path: Path
    version: tuple[int, ...] = ()
    end: int = 0  # of the lines that were read
    last: bytes = b""  # the last of them
    own: dict[bytes, tuple[str, ...]] = field(default_factory=dict)  # its last two lines by name, newest first
    lock: threading.Lock = field(default_factory=threading.Lock)

    def digests(self, name: bytes) -> list[str]:
        with self.lock:
            try:
                status = self.path.lstat()
                if not stat.S_ISREG(status.st_mode):  # it may be a stranger's, or a pipe
                    return []
                version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
                if version != self.version:
                    self._read(version)
                    self.version = version
            except OSError:
                return []
            return list(self.own.get(name, ()))

    def _read(self, version: tuple[int, ...]) -> None:
        with open(files.readable(self.path, MOST_TEXT), "rb") as file:
            file.seek(max(0, self.end - len(self.last)))
            if version[:2] != self.version[:2] or version[2] < self.end or file.read(len(self.last)) != self.last:
                self.end, self.last, self.own = 0, b"", {}
                file.seek(0)
            for line in file:
                digest, _, name = _composed(line.rstrip(b"\r\n")).partition(b"  ")  # git may end lines as Windows does
                self.own[name] = (digest.decode("ascii", "replace"), *self.own.get(name, ())[:1])
                if not line.endswith(b"\n"):  # it is being written: read again, from the beginning
                    self.end, self.last = MOST_TEXT, b"\n"
                    break
                self.end, self.last = self.end + len(line), line


_record_of = lru_cache(maxsize=64)(_Record)


def _digests(path: Path) -> list[str]:
    """Return what the last two lines of a file in the record of its folder say."""
    return _record_of((path.parent / RECORD).absolute()).digests(_name(path))


def _name(path: Path) -> bytes:
    """Return the name of a file as in the record, on one line."""
    return _composed(os.fsencode(path.name)).replace(b"\n", b"\\n")


def _composed(name: bytes) -> bytes:
    """Return a name with composed letters, as a folder from a Mac may list another form of them than it was given."""
    return unicodedata.normalize("NFC", name.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _digest_of_text(path: Path) -> str:
    """Return the digest of a text as speechctc writes it: in UTF-8, with plain line ends; ``""`` of other files."""
    try:
        if path.stat().st_size > MOST_TEXT:
            return ""
        content = path.read_bytes()
        text = content.decode("utf-16" if content[:2] in (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE) else "utf-8-sig")
    except UnicodeDecodeError:
        return ""
    return hashlib.sha256(text.replace("\r\n", "\n").encode()).hexdigest()
