"""The phones of a recording in time; splices, the one form of every change to them; the journal that keeps these.

A line of JSON a change is on the disk before it is acknowledged. A process that is killed leaves at most half a last
line, which reading ignores. Two processes may append to one journal: the one that does not know the other's lines is
refused. Once the lines are on the disk nothing more can fail, or memory and disk would tell different stories.
"""

from __future__ import annotations

import json
import math
import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from speechctc.core import links
from speechctc.core.errors import InputError, advice_on
from speechctc.core.files import append, flush, is_at, locked, named, readable, write_bytes
from speechctc.inference.segmenter import Segment
from speechctc.phones.inventory import nfc

DIGITS = 4  # of times: 0.1 ms, as in TextGrids

MIN_PHONE_SECONDS = 0.005  # seconds of a phone
NEW = 0.08  # seconds of a phone that is inserted in a pause
MAX_LABEL_CHARACTERS = 40  # characters
MOST = 1 << 30  # bytes of a journal; a correction takes some 200, an hour that is placed again 20 million
TOUCH = 0.0002  # seconds between phones that count as touching


class Phone(NamedTuple):
    """A phone in time.

    Attributes
    ----------
    start, end : float
        Seconds, in steps of 0.1 ms.
    label : str
    confidence : float, optional
        Probability that the label is right; None of labels that no model wrote.
    alternatives : tuple of (str, float)
        Other phones that the model considered, with their posteriors.
    checked : bool
        A person has chosen or confirmed the label.
    first : str
        The label that was there before a person gave another; ``""`` if nobody did.
    """

    start: float
    end: float
    label: str
    confidence: float | None = None
    alternatives: tuple[tuple[str, float], ...] = ()
    checked: bool = False
    first: str = ""

    def to_list(self) -> list[Any]:
        """Return the values as the journal and the page have them."""
        others = [list(each) for each in self.alternatives]
        values = [self.start, self.end, self.label, self.confidence, others, self.checked]
        return [*values, self.first] if self.first else values

    @classmethod
    def from_list(cls, values: Sequence[Any]) -> Phone:
        """Return a phone of `to_list`.

        Raises
        ------
        ValueError, TypeError
            The values are not those of a phone.
        """
        start, end, label, confidence, alternatives, checked, *more = values
        (first,) = more or [""]
        others = tuple((str(phone), float(p)) for phone, p in alternatives)
        confidence = None if confidence is None else float(confidence)
        numbers = [p for _, p in others] + [0.0 if confidence is None else confidence]
        if not (0 <= start <= end < math.inf and all(map(math.isfinite, numbers))):
            raise ValueError(f"not a phone: {values!r:.80}")
        "".join([label, first, *(phone for phone, _ in others)]).encode()  # TypeError; or half of a pair of UTF-16
        return cls(float(start), float(end), label, confidence, others, bool(checked), first)

    @classmethod
    def of(cls, segment: Segment) -> Phone:
        """Return what a model recognised."""
        others = tuple((phone, round(p, 4)) for phone, p in segment.alternatives)
        start, end = round(segment.start, DIGITS), round(segment.end, DIGITS)
        return cls(start, end, nfc(segment.phone), round(segment.confidence, DIGITS), others)


Phones = list[Phone]


class Splice(NamedTuple):
    """A change: at index `at`, the phones `old` become `new`; `what` names the edit."""

    at: int
    old: tuple[Phone, ...]
    new: tuple[Phone, ...]
    what: str = ""

    def inverse(self) -> Splice:
        """Return the change that takes this one back."""
        return self._replace(old=self.new, new=self.old)

    def apply(self, phones: Phones) -> None:
        """Change the phones in place.

        Raises
        ------
        ValueError
            The phones are not those that the change was made for.
        """
        span = slice(self.at, self.at + len(self.old))
        if self.at < 0 or tuple(phones[span]) != self.old:
            raise ValueError(f"the phones from number {self.at} are not those that were changed")
        phones[span] = self.new

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for the journal."""
        return {"what": self.what, "at": self.at, "old": _lists(self.old), "new": _lists(self.new)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Splice:
        """Return a change of `to_dict`.

        Raises
        ------
        ValueError, TypeError, KeyError
            The values are not those of a change.
        """
        old, new = (tuple(map(Phone.from_list, values[key])) for key in ("old", "new"))
        return cls(int(values["at"]), old, new, str(values["what"]))


def _lists(phones: Iterable[Phone]) -> list[list[Any]]:
    return [phone.to_list() for phone in phones]


def check_order(phones: Sequence[Phone], seconds: float) -> None:
    """Check that phones are in order, do not overlap and lie within the recording.

    Raises
    ------
    ValueError
        They do not; the message names the first.
    """
    at = 0.0
    for phone in phones:
        if not (at - 1e-9 <= phone.start < phone.end <= seconds + 0.05):
            raise ValueError(f"{phone.label!r} from {phone.start} s to {phone.end} s, after {at} s of {seconds} s")
        at = phone.end


@dataclass(frozen=True)
class Labels:
    """The phones to edit, and the length of their recording in seconds."""

    phones: Sequence[Phone]
    seconds: float

    def chosen(self, request: Mapping[str, Any]) -> tuple[int, Phone]:
        """Return the phone that a request names by its index.

        Raises
        ------
        InputError
            There is none.
        """
        number = request.get("phone")
        if type(number) is not int or not 0 <= number < len(self.phones):
            raise InputError(f"there is no phone number {number!r:.20}", "choose a phone of the recording")
        return number, self.phones[number]

    def before(self, number: int) -> float:
        """Return the end of the previous phone, or 0."""
        return self.phones[number - 1].end if number else 0.0

    def after(self, number: int) -> float:
        """Return the start of the next phone, or the end of the recording."""
        return self.phones[number + 1].start if number + 1 < len(self.phones) else round(self.seconds, DIGITS)

    def touches(self, number: int) -> bool:
        """Return whether a phone touches the next one."""
        return 0 <= number < len(self.phones) - 1 and self.after(number) - self.phones[number].end < TOUCH

    def splice(self, first: int, last: int, *new: Phone) -> Splice:
        """Return the change of the phones from `first` up to, not including, `last`."""
        return Splice(first, tuple(self.phones[first:last]), new)


def edit(phones: Sequence[Phone], seconds: float, request: Mapping[str, Any]) -> Splice:
    """Return the change that a request of the page means.

    Parameters
    ----------
    phones : sequence of Phone
    seconds : float
        Length of the recording.
    request : mapping
        ``what``, a key of `EDITS`, and the values that this edit needs.

    Raises
    ------
    InputError
        There is no such edit, a value is missing or wrong, or there is no room for it.
    """
    if (make := EDITS.get(str(request.get("what")))) is None:
        raise InputError(f"there is no edit {request.get('what')!r:.40}", f"the edits are: {', '.join(EDITS)}")
    return make(Labels(phones, seconds), request)._replace(what=str(request["what"]))


def relabel(labels: Labels, request: Mapping[str, Any]) -> Splice:
    """Give a phone another label; the first one is kept beside it, to go back to."""
    number, phone = labels.chosen(request)
    label = checked_label(request.get("label"))
    first = phone.first or (phone.label if label != phone.label else "")
    changed = phone._replace(label=label, confidence=None, checked=True, first=first)
    return labels.splice(number, number + 1, changed)


def confirm(labels: Labels, request: Mapping[str, Any]) -> Splice:
    """Mark a phone as checked by a person."""
    number, phone = labels.chosen(request)
    return labels.splice(number, number + 1, phone._replace(checked=True))


def confirm_all(labels: Labels, request: Mapping[str, Any]) -> Splice:
    """Mark every phone as checked by a person."""
    if not labels.phones:
        raise InputError("there are no phones to confirm", "recognise the recording, or insert some")
    return labels.splice(0, len(labels.phones), *(phone._replace(checked=True) for phone in labels.phones))


def split(labels: Labels, request: Mapping[str, Any]) -> Splice:
    """Cut a phone in two at a time; the second part may have another label."""
    number, phone = labels.chosen(request)
    time = _time(request.get("time"))
    if not phone.start + MIN_PHONE_SECONDS <= time <= phone.end - MIN_PHONE_SECONDS:
        raise InputError(f"{phone.label!r} cannot be split at {time:.3f} s", "move the cursor into the phone")
    second = checked_label(request["label"]) if request.get("label") else phone.label
    left = phone._replace(end=time, confidence=None, checked=True)
    right = left._replace(start=time, end=phone.end, label=second)
    return labels.splice(number, number + 1, left, right)


def merge(labels: Labels, request: Mapping[str, Any]) -> Splice:
    """Join a phone with the next; the label is the first one's."""
    number, phone = labels.chosen(request)
    if number + 1 == len(labels.phones):
        raise InputError(f"{phone.label!r} is the last phone", "choose the first of the two to merge")
    joined = phone._replace(end=labels.phones[number + 1].end, confidence=None, checked=True)
    return labels.splice(number, number + 2, joined)


def delete(labels: Labels, request: Mapping[str, Any]) -> Splice:
    """Remove a phone; neighbours that both touched it meet in its middle."""
    number, phone = labels.chosen(request)
    if not (labels.touches(number - 1) and labels.touches(number)):
        return labels.splice(number, number + 1)
    middle = round((phone.start + phone.end) / 2, DIGITS)
    left, right = labels.phones[number - 1]._replace(end=middle), labels.phones[number + 1]._replace(start=middle)
    return labels.splice(number - 1, number + 2, left, right)


def insert(labels: Labels, request: Mapping[str, Any]) -> Splice:
    """Add a phone from `start` to `end`; neighbours are cut to make room. Without `end`, it has the room there is."""
    label, start = checked_label(request.get("label")), _time(request.get("start"))
    inside = next((k for k, phone in enumerate(labels.phones) if phone.start <= start < phone.end), None)
    if request.get("end") is not None:
        end = _time(request.get("end"))
    elif inside is not None:
        end = labels.phones[inside].end
    else:
        end = min([start + NEW, labels.seconds, *(phone.start for phone in labels.phones if phone.start > start)])
    start, end = max(start, 0.0), round(min(end, labels.seconds), DIGITS)
    if end - start < MIN_PHONE_SECONDS:
        raise InputError(f"no room for {label!r} at {start:.3f} s", "select the time that it takes, or move the cursor")
    first = next((k for k, phone in enumerate(labels.phones) if phone.end > start + TOUCH), len(labels.phones))
    last = next((k for k, phone in enumerate(labels.phones) if phone.start >= end - TOUCH), len(labels.phones))
    parts = [Phone(start, end, label, None, (), True)]
    for phone in labels.phones[first:last]:
        before, after = start - phone.start, phone.end - end
        if before < MIN_PHONE_SECONDS and after < MIN_PHONE_SECONDS:
            raise InputError(f"{phone.label!r} is there already", "change its label, or delete it first")
        if before >= MIN_PHONE_SECONDS and after >= MIN_PHONE_SECONDS:
            raise InputError(f"{phone.label!r} goes on after the new phone", "split it there, and relabel the part")
        if before >= MIN_PHONE_SECONDS:
            parts.insert(0, phone._replace(end=start))
        else:
            parts.append(phone._replace(start=end))
    return labels.splice(first, last, *parts)


def move(labels: Labels, request: Mapping[str, Any]) -> Splice:
    """Move the start or the end of a phone, and with it the edge of a neighbour that touches it."""
    number, phone = labels.chosen(request)
    time = _time(request.get("time"))
    if request.get("edge") not in ("start", "end"):
        raise InputError(f"the edge {request.get('edge')!r:.20} of a phone", "name start or end")
    if request["edge"] == "start":
        if labels.touches(number - 1):
            return move(labels, {**request, "phone": number - 1, "edge": "end"})
        start = min(max(time, labels.before(number)), phone.end - MIN_PHONE_SECONDS)
        return labels.splice(number, number + 1, phone._replace(start=round(start, DIGITS)))
    if not labels.touches(number):
        end = max(min(time, labels.after(number)), phone.start + MIN_PHONE_SECONDS)
        return labels.splice(number, number + 1, phone._replace(end=round(end, DIGITS)))
    other = labels.phones[number + 1]
    edge = round(min(max(time, phone.start + MIN_PHONE_SECONDS), other.end - MIN_PHONE_SECONDS), DIGITS)
    return labels.splice(number, number + 2, phone._replace(end=edge), other._replace(start=edge))


EDITS: dict[str, Callable[[Labels, Mapping[str, Any]], Splice]] = {
    edit.__name__: edit for edit in (relabel, confirm, confirm_all, split, merge, delete, insert, move)
}


def checked_label(label: Any) -> str:
    """Return a label in NFC without spaces around it.

    Raises
    ------
    InputError
        It is empty, has a space or a control character in it, or is too long for a phone.
    """
    text = nfc(label).strip() if isinstance(label, str) else ""
    if not text:
        raise InputError("a phone without a label", "type its label, or delete the phone")
    if len(text) > MAX_LABEL_CHARACTERS or text.split() != [text]:
        raise InputError(f"the label {text!r:.60} is not one phone", "give each phone its own interval")
    if any(unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp") for letter in text):
        raise InputError(f"the label {text!r} has a control character", "type it again")
    return text


def _time(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e7:
        raise InputError(f"{value!r:.40} is not a time in seconds", "choose a place in the recording")
    return round(float(value), DIGITS)


ENDING = ".journal"
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT

READ, RECOGNISED = "read the TextGrid", "recognised"  # changes that are no corrections
_BY_HAND = "read a person's TextGrid"  # in memory; in the journal, the entry after it tells
_READINGS = (READ, RECOGNISED, _BY_HAND)


class Outdated(Exception):
    """Another process appended to the journal since it was read."""


class Journal:
    """An append-only file of JSON lines.

    Parameters
    ----------
    path : Path
        Need not exist; it is created by the first `append`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._size = 0  # bytes that this object has read or written

    def read(self) -> list[dict[str, Any]]:
        """Return all entries in order; half a line, which a killed process left, is skipped.

        Raises
        ------
        InputError
            The file cannot be read, or is a link or a pipe.
        """
        links.refuse_odd(self.path)
        try:
            content = readable(self.path, MOST).read_bytes()
        except FileNotFoundError:
            content = b""
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read ({error.strerror})", advice_on(error)) from None
        self._size = len(content)
        return [entry for line in content.split(b"\n") if (entry := _entry(line)) is not None]

    def append(self, *entries: dict[str, Any], before: bytes = b"") -> None:
        """Append entries and wait until they are on the disk; all or none of them count after an interruption.

        Parameters
        ----------
        *entries : dict
        before : bytes
            Lines of `to_lines` to append first.

        Raises
        ------
        Outdated
            Another process appended since `read`; nothing is written.
        InputError
            The file became a link meanwhile.
        OSError
            From the disk. What was written of the entries is taken back.
        """
        lines = before + to_lines(*entries)
        if sys.platform != "win32":
            self._leave_snapshots()
        handle = links.open_plain(self.path, _FLAGS)
        try:
            with locked(handle):
                self._append(handle, lines)
        finally:
            with suppress(OSError):  # the lines are on the disk, or an error is on its way
                os.close(handle)

    def _append(self, handle: int, lines: bytes) -> None:
        before = os.fstat(handle).st_size
        if before != self._size or not is_at(handle, self.path):
            raise Outdated
        if not before:
            flush(self.path.parent)  # the name of the new file, while an error does no harm
        elif _lacks_end(self.path):
            lines = b"\n" + lines
        with named(self.path):
            append(handle, lines, flush=True)
        self._size = before + len(lines)

    def _leave_snapshots(self) -> None:
        """Go on in a copy of the journal, if it has other names: a snapshot by hard links must not change."""
        if not os.path.lexists(self.path) or self.path.lstat().st_nlink < 2:
            return
        handle = links.open_plain(self.path, os.O_RDWR)
        try:
            with locked(handle):
                if is_at(handle, self.path):
                    write_bytes(self.path, self.path.read_bytes())
        finally:
            os.close(handle)


def to_lines(*entries: dict[str, Any]) -> bytes:
    """Return the lines of entries.

    Raises
    ------
    ValueError
        A number is not finite, or a text cannot be written as UTF-8.
    """
    texts = (json.dumps(entry, ensure_ascii=False, allow_nan=False) for entry in entries)
    return b"".join(text.encode("utf-8") + b"\n" for text in texts)


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _lacks_end(path: Path) -> bool:
    """Return whether a file ends with half a line."""
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"


class History:
    """Phones, and the changes that led to them.

    Attributes
    ----------
    phones : list of Phone
    revision : int
        Number of changes so far, undo and redo among them.
    wrote : set of str
        SHA-256 of all TextGrids that the studio wrote.
    newest : set of str
        SHA-256 of the TextGrid that it wrote or read last, and of one that it was about to write after that.
    """

    def __init__(self) -> None:
        self.phones: Phones = []
        self.revision = 0
        self.wrote: set[str] = set()
        self.newest: set[str] = set()
        self._done: list[Splice] = []
        self._undone: list[Splice] = []

    def apply(self, entry: Mapping[str, Any]) -> Splice | None:
        """Apply an entry of the journal; return the change of the phones, if it is one.

        Raises
        ------
        ValueError, TypeError, KeyError, IndexError
            The entry does not fit those before it.
        """
        if "writes" in entry:
            self.newest.add(str(entry["writes"]))
            return None
        if "wrote" in entry:
            self.newest = {str(entry["wrote"])}
            self.wrote |= self.newest
            return None
        if "read" in entry:
            self.newest = {str(entry["read"])}
            if entry["by_hand"]:
                self._done[-1] = self._done[-1]._replace(what=_BY_HAND)
            return None
        if "undo" in entry:
            splice = self._done[-1].inverse()
            splice.apply(self.phones)
            self._undone.append(self._done.pop())
        elif "redo" in entry:
            splice = self._undone[-1]
            splice.apply(self.phones)
            self._done.append(self._undone.pop())
        else:
            splice = Splice.from_dict(dict(entry))
            self.change(splice)
            return splice
        self.revision += 1
        return splice

    def change(self, splice: Splice) -> None:
        """Apply a new change.

        Raises
        ------
        ValueError
            The phones are not those that the change was made for.
        """
        splice.apply(self.phones)
        self._done.append(splice)
        self._undone.clear()
        self.revision += 1

    def undoable(self) -> tuple[bool, bool]:
        """Return whether there is a change to undo, and one to redo; the first labels cannot be undone."""
        first = 1 if self._done and not self._done[0].old and self._done[0].what in _READINGS else 0
        return len(self._done) > first, bool(self._undone)

    @property
    def by_hand(self) -> bool:
        """Whether the labels that were read last were a person's, all of them."""
        return next((splice.what for splice in reversed(self._done) if splice.what in _READINGS), "") == _BY_HAND

    @property
    def is_corrected(self) -> bool:
        """Whether a person made or changed labels."""
        return next((splice.what for splice in reversed(self._done) if splice.what != READ), RECOGNISED) != RECOGNISED

    def as_checked(self, phones: Iterable[Phone]) -> Phones:
        """Return phones; those that a person has checked at their place are checked."""
        checked = {phone[:3] for splice in self._done for phone in splice.new if phone.checked}
        return [phone._replace(checked=phone[:3] in checked) for phone in phones]
