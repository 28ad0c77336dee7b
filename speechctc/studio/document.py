"""The labels of one recording: kept in a journal, written to a TextGrid, with undo and redo without end.

Entries of the journal:

    {"what", "at", "old", "new"}       a change; see `Splice`
    {"undo": true}, {"redo": true}     take back, and repeat, the last change
    {"writes": SHA-256}                a TextGrid that the studio is about to write
    {"wrote": SHA-256}                 one that it has written
    {"read": SHA-256, "by_hand"}       where the change before it was read, and whether a person made it
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any

from speechctc.audio import sound_file
from speechctc.audio.annotations import (
    Interval,
    Tier,
    in_order,
    long_text,
    read_tiers,
    shifted,
    textgrid_text,
    tier_key,
)
from speechctc.audio.dereverberation import TAKEN
from speechctc.audio.recordings import Siblings
from speechctc.core import files, links, written
from speechctc.core.errors import InputError
from speechctc.corpora.tier_choice import phone_tier
from speechctc.inference.result import Recognition
from speechctc.phones.inventory import nfc
from speechctc.studio import journal
from speechctc.studio.journal import DIGITS, History, Journal, Outdated, Phone, Phones, Splice
from speechctc.studio.sound import version

PHONES, CONFIDENCE = "phones", "confidence"
COPY = ".original"  # ending of the copy of a TextGrid that is replaced
_RANKED = re.compile(r"alternative ([1-9][0-9]{0,3})")
_CONFIDENCE = re.compile(r"[01]\.[0-9]{2}")
_ALTERNATIVE = re.compile(r"\S+ [01]\.[0-9]{2}")
_TOLERANCE = 0.0002  # seconds between the same interval of two tiers


class Conflict(Exception):
    """Another page or program changed the labels since this page read them."""


class Document:
    """The labels of a recording.

    All methods may be called from several threads. `write_grid` may be called later than a change; after an
    interruption, opening the document again does what was left.

    Parameters
    ----------
    recording : Path
    own_name : bool
        The TextGrid is named after the whole name of the recording, as another one differs from it only in the ending.

    Attributes
    ----------
    phones : list of Phone
    seconds : float
    version : str
        Of the recording; see `speechctc.studio.sound.version`.
    grid_path : Path
        The TextGrid, which need not exist.
    revision : int
        Number of changes so far.
    note : str
        What the user should know about how the labels were read, or ``""``.

    Raises
    ------
    InputError
        The recording, the TextGrid or the journal cannot be read.
    """

    def __init__(self, recording: Path, own_name: bool = False, siblings: Siblings | None = None) -> None:
        self.recording, self._own_name = recording, own_name
        self.version, self.seconds = version(recording), sound_file.info(recording).seconds
        self._lock, self._writing = threading.RLock(), threading.Lock()
        self._load(siblings)

    def _load(self, siblings: Siblings | None = None) -> None:
        """Read journal and TextGrid; if one of them cannot be read, everything stays as it was."""
        named_after = self.recording.with_name(f"{self.recording.name}.TextGrid")
        siblings = siblings or Siblings()
        found = None if self._own_name else siblings.find(self.recording, [".textgrid"])
        grid_path = named_after if self._own_name else found or self.recording.with_suffix(".TextGrid")
        if self._own_name and (other := siblings.recording_of(named_after)) not in (self.recording, None):
            what = f"{self.recording}: its labels would be in {named_after.name}, which is that of {other.name}"
            raise InputError(what, "rename one of the recordings")
        lines = Journal(self.recording.with_name(self.recording.name + journal.ENDING))
        seen, history = [version(path) for path in (lines.path, grid_path)], History()
        for number, entry in enumerate(lines.read(), start=1):
            try:
                history.apply(entry)
            except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError):
                what = f"{lines.path}, line {number}: does not fit the lines before it"
                raise InputError(what, "mend the journal, or move it away to begin from the TextGrid") from None
        refuse_odd_grid(grid_path)
        grid, reading = self._read_grid(grid_path, history)
        self.grid_path, self.journal, self._history = grid_path, lines, history
        self.grid, self._seen = grid, seen
        # lines of the journal to append before the next; of an hour, they take time to make
        self._pending, changed = reading or (b"", "")
        self.note = "; ".join(filter(None, (changed, grid.note)))
        self._unrecognised: int | None = None

    def is_outdated(self) -> bool:
        """Return whether another program changed the journal, the TextGrid or the recording."""
        with self._lock:
            on_disk = [version(path) for path in (self.journal.path, self.grid_path)]
            return self._seen != on_disk or self.version != version(self.recording)

    def _read_grid(self, path: Path, history: History) -> tuple[Grid, tuple[bytes, str] | None]:
        """Read the TextGrid; labels that the journal does not have become a change, which the next edit saves.

        Returns
        -------
        The TextGrid; and, if there is such a change, its lines for the journal and a note on it.
        """
        if not (found := digest(path)):
            return Grid(), None
        grid = read_grid(path, self.seconds)
        if grid.phones and grid.phones[-1].end > self.seconds + 0.05:
            what = f"labels up to {grid.phones[-1].end:.2f} s for a recording of {self.seconds:.2f} s"
            raise InputError(f"{path}: {what}", "check that they belong together")
        if found in history.newest:
            return grid, None
        is_changed, what, note = not _is_draft(path), journal.READ, ""
        if history.revision:
            how = "is not as the studio left it: it was restored, or changed by another program"
            note = f"{path.name} {how}. Its labels are shown; undo brings yours"
            what = what if is_changed else journal.RECOGNISED
        is_own = found in history.wrote
        phones = history.as_checked(grid.phones) if is_own else grid.phones
        by_hand = is_changed and bool(phones) and (history.by_hand or not is_own)
        splice = Splice(0, tuple(history.phones), tuple(phones), what)
        read = {"read": found, "by_hand": by_hand}
        lines = journal.to_lines(splice.to_dict() | {"time": _now()}, read)
        history.change(splice)
        history.apply(read)
        return grid, (lines, note)

    @property
    def phones(self) -> Phones:
        """The phones in order."""
        return self._history.phones

    @property
    def revision(self) -> int:
        """Number of changes so far."""
        return self._history.revision

    @property
    def state(self) -> str:
        """Return ``"new"``, ``"recognised"``, or ``"corrected"`` where a person made or changed labels."""
        with self._lock:
            if self._history.is_corrected:
                return "corrected"
            return "recognised" if self.phones else "new"

    @property
    def by_hand(self) -> bool:
        """Whether the first labels were a person's, all of them."""
        return self._history.by_hand

    @property
    def is_whole(self) -> bool:
        """Whether a person has seen to every phone."""
        return bool(self.phones) and (self.by_hand or all(phone.checked for phone in tuple(self.phones)))

    def undoable(self) -> tuple[bool, bool]:
        """Return whether there is a change to undo, and one to redo."""
        return self._history.undoable()

    def edit(self, revision: int, request: Mapping[str, Any]) -> Splice:
        """Make a change that the page asks for, and save it; return it.

        Raises
        ------
        Conflict
            The page has not seen the newest labels.
        InputError
            The edit cannot be done.
        """
        return self._change(revision, lambda: journal.edit(self.phones, self.seconds, request))

    def replace(self, revision: int, first: int, last: int, new: tuple[Phone, ...], what: str) -> Splice:
        """Replace the phones from `first` up to, not including, `last`.

        Raises
        ------
        Conflict
            The page has not seen the newest labels.
        ValueError
            The phones would not be in order.
        """
        with self._lock:
            self._check_recording()
            if revision != self.revision:
                raise Conflict
            return self._change(revision, lambda: Splice(first, tuple(self.phones[first:last]), new, what))

    def _change(self, revision: int, make: Callable[[], Splice]) -> Splice:
        with self._lock, self._seen_by(revision):
            splice = make()
            before, after = self.phones[: splice.at][-1:], self.phones[splice.at + len(splice.old) :][:1]
            journal.check_order([*before, *splice.new, *after], self.seconds)
            if splice.new != splice.old:  # an edit that changes nothing is no step to undo
                self._save(splice.to_dict())
            return splice

    def step(self, revision: int, way: str) -> Splice:
        """Undo or redo the last change; `way` is ``"undo"`` or ``"redo"``.

        Raises
        ------
        Conflict
            The page has not seen the newest labels.
        InputError
            There is nothing to undo or redo.
        """
        with self._lock, self._seen_by(revision):
            if not self.undoable()[way == "redo"]:
                raise InputError(f"there is nothing to {way}", "go on")
            splice = self._save({way: True})
            assert splice is not None
            return splice

    @contextmanager
    def _seen_by(self, revision: int) -> Iterator[None]:
        """Make a change of the labels that a page has seen.

        If only a recognition came after them, it is taken back: what a person does to labels meanwhile is kept, and
        is not done to others.
        """
        self._check_recording()
        if revision == self.revision:
            yield
            return
        if revision != self._unrecognised:
            raise Conflict
        self._save({"undo": True})
        self.note = "What was recognised meanwhile is not shown: you went on with the labels before it"
        try:
            yield
        except (InputError, ValueError, OSError):
            self._save({"redo": True})
            self._unrecognised = revision
            raise

    def _check_recording(self) -> None:
        if version(self.recording) not in (self.version, ""):  # labels of one that is gone can still be saved
            what = f"{self.recording.name}: another recording has taken its place since it was opened"
            raise InputError(what, "open it again; its saved labels are kept")

    def _save(self, entry: dict[str, Any]) -> Splice | None:
        """Append an entry to the journal and apply it."""
        splice = self._append(entry | {"time": _now()}, before=self._pending)
        self._pending, self._unrecognised = b"", None
        return splice

    def _append(self, entry: dict[str, Any], before: bytes = b"") -> Splice | None:
        try:
            self.journal.append(entry, before=before)
        except Outdated:
            self._load()
            raise Conflict from None
        splice = self._history.apply(entry)  # at once: from here on, the line counts
        self._seen[0] = version(self.journal.path)
        return splice

    def put_recognised(self, result: Recognition) -> None:
        """Take what a model recognised, and write it as `speechctc decode` does if there are no other tiers.

        Raises
        ------
        InputError
            A person has made or corrected labels.
        """
        with self._lock:
            self._check_recording()
            before = self.revision
            if self.state == "corrected":
                fix = "they are kept; recognise recordings that nobody has corrected"
                raise InputError(f"{self.recording}: its labels were corrected by hand", fix)
            if self.grid.others or self.revision:
                new = tuple(phone for phone in map(Phone.of, result.segments) if phone.end > phone.start)
                self.replace(self.revision, 0, len(self.phones), new, journal.RECOGNISED)
            else:
                written.write_text(self.grid_path, textgrid_text(result.seconds, result.tiers(tones=False)))
                self._load()
            self._unrecognised = before
            if result.is_dereverberated:
                self.note = f"{TAKEN[0].upper()}{TAKEN[1:]}"
        self.write_grid()

    def text(self) -> str:
        """Return the TextGrid of the newest labels."""
        with self._lock:
            phones = tuple(self.phones)
        return self.grid.text(self.seconds, phones)

    def write_grid(self) -> None:
        """Write the TextGrid, if it lacks saved changes; a copy is kept of one that the studio did not write.

        A link gives way to a file; what it leads to stays as it is.

        Raises
        ------
        Conflict
            Another program changed the journal.
        InputError
            Another program changed the TextGrid, which is left as it is; opening the document again shows it.
        OSError
            From the disk. The journal has all changes.
        """
        with self._writing:
            with self._lock:
                if self._pending or not self.revision:
                    return
                phones = tuple(self.phones)
            content = self.grid.text(self.seconds, phones).encode()  # of an hour, this takes more than a second
            new = hashlib.sha256(content).hexdigest()
            if digest(self.grid_path) != new:
                with files.draft_file(self.grid_path) as draft:
                    with files.named(self.grid_path):
                        draft.write_bytes(content)
                        # Before the check: another program may save the TextGrid meanwhile.
                        files.commit(draft, self.grid_path)
                    with self._lock:
                        self._put_in_place(draft, new)
            with self._lock:
                if self._history.newest != {new}:
                    self._append({"wrote": new})
                self._mark()

    def _mark(self) -> None:
        """Record whether the TextGrid has a model's labels or a person's, for `start` and `decode`."""
        is_corrected = self.state == "corrected"
        if is_corrected != _is_draft(self.grid_path):
            return
        if is_corrected:
            written.mark_checked([self.grid_path])
        else:
            written.mark_draft(self.grid_path)

    def _put_in_place(self, draft: Path, new: str) -> None:
        """Give a draft with the digest `new` the TextGrid's name, unless another program changed that."""
        refuse_odd_grid(self.grid_path)
        found = digest(self.grid_path)
        is_known = not found or found in self._history.newest
        if is_known:
            self._append({"writes": new})
            if found not in self._history.wrote and written.changed([self.grid_path]):
                keep_copy(self.grid_path)
            is_known = files.put_if_known(draft, self.grid_path, lambda displaced: digest(displaced) == found)
            self._seen[1] = version(self.grid_path)
        if not is_known:
            what = f"{self.grid_path}: was restored, or changed by another program, and is left as it is"
            fix = f"open the recording again to see it; your corrections are in {self.journal.path.name}"
            raise InputError(what, fix)


def _is_draft(path: Path) -> bool:
    """Return whether nobody corrected the labels of a TextGrid, as its folder's record tells."""
    return written.is_draft(path) or not written.changed([path])


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


@dataclass
class Grid:
    """The tiers of a TextGrid.

    Attributes
    ----------
    name : str
        The tier of phones.
    phones : list of Phone
        With the confidences and alternatives of the tiers that `speechctc decode` writes.
    tiers : list of Tier
        All tiers in the order of the file; those that are written anew have no entries here.
    own : dict of int to int
        The places in `tiers` of those: of the phones (0), their confidences (-1), and their alternatives by rank.
    origin : float
        Time in the file, and in `tiers`, at which the recording begins, s.
    note : str
        What the user should know about how the file was read, or ``""``.
    exact : dict of float to float
        The times of the file by those in the recording, which are rounded: what nobody moves stays where it is, and
        boundaries of several tiers stay one.
    """

    name: str = PHONES
    phones: list[Phone] = field(default_factory=list)
    tiers: list[Tier] = field(default_factory=lambda: [Tier(PHONES, False, []), Tier(CONFIDENCE, False, [])])
    own: dict[int, int] = field(default_factory=lambda: {0: 0, 1: -1})
    origin: float = 0.0
    note: str = ""
    exact: dict[float, float] = field(default_factory=dict)

    @property
    def others(self) -> list[Tier]:
        """Return the tiers that are kept as they are, their times those in the recording."""
        return [shifted(tier, -self.origin) for place, tier in enumerate(self.tiers) if place not in self.own]

    def text(self, seconds: float, phones: Sequence[Phone]) -> str:
        """Return the TextGrid with these phones, in Praat's long text format; it begins where it did."""
        ends = [entry.end for tier in self.tiers for entry in tier.entries]
        end = max([_moved(seconds, self.origin), *ends, *(self._time(phone.end) for phone in phones[-1:])])
        new = {place: [self._entry(what, phone) for phone in phones] for place, what in self.own.items()}
        tiers = [tier._replace(entries=new.get(k, tier.entries)) for k, tier in enumerate(self.tiers)]
        return long_text(end, tiers, self.origin)

    def _time(self, time: float) -> float:
        """Return a time of the recording as it is in the file."""
        return self.exact.get(time, _moved(time, self.origin))

    def _entry(self, what: int, phone: Phone) -> Interval:
        """Return the entry of a phone in a tier that is written from the phones; see `own`."""
        label = "" if what else phone.label
        if what < 0 and phone.confidence is not None:
            label = f"{phone.confidence:.2f}"
        elif 0 < what <= len(phone.alternatives):
            label = "{} {:.2f}".format(*phone.alternatives[what - 1])
        return Interval(self._time(phone.start), self._time(phone.end), label)


def read_grid(path: Path, seconds: float) -> Grid:
    """Read the TextGrid of a recording of a length.

    The phones are in the tier ``phones``, or in the one whose labels look like phones; else there is a new tier.

    Raises
    ------
    InputError
        It cannot be read, or its phones overlap.
    """
    read = read_tiers(path)
    tiers, origin = list(read.tiers), read.begins_at(seconds)
    place = _place_of_phones(tiers, path)
    phones = [_phone(each) for each in in_order(tiers[place], path).entries if each.end - each.start > _TOLERANCE]
    spans = {_key(phone.start): phone.end for phone in phones}
    own = {place: 0}
    for k, tier in enumerate(tiers):
        what = _written_by_decode(tier, spans)
        if what and what not in own.values() and k != place:
            own[k] = what
    entries = {  # labelled ones by their start
        what: {_key(entry.start): entry for entry in tiers[k].entries if entry.label} for k, what in own.items()
    }
    alternatives = [entries[rank] for rank in sorted(rank for rank in entries if rank > 0)]
    phones = [_with_model(phone, entries.get(-1, {}), alternatives) for phone in phones]
    if origin:
        moved = [_phone(Interval(each.start - origin, each.end - origin, "")) for each in phones]
        phones = [each._replace(start=at.start, end=at.end) for each, at in zip(phones, moved, strict=True)]
    note = "; ".join(filter(None, (read.note, read.domain_note(path, seconds))))
    times = (time for tier in [*tiers, tiers[place]] for each in tier.entries for time in (each.start, each.end))
    exact = {round(time - origin, DIGITS): time for time in times if time >= origin}
    kept = [tier._replace(entries=[]) if k in own else tier for k, tier in enumerate(tiers)]
    return Grid(tiers[place].name, phones, kept, own, origin, note, exact)


def _place_of_phones(tiers: list[Tier], path: Path) -> int:
    """Return the place of the tier of phones, which is added at the end if there is none."""
    backwards = [(k, tier) for k, tier in reversed(list(enumerate(tiers))) if not tier.points]
    places = {tier_key(tier.name): k for k, tier in backwards} | {tier.name: k for k, tier in backwards}
    name = PHONES if PHONES in places else phone_tier([path]).name
    if name in places:
        return places[name]
    taken = {tier_key(tier.name) for tier in tiers}
    free = next(free for k in count(1) if tier_key(free := PHONES if k == 1 else f"{PHONES} {k}") not in taken)
    tiers.append(Tier(free, False, []))
    return len(tiers) - 1


def _written_by_decode(tier: Tier, spans: Mapping[int, float]) -> int:
    """Return -1 for a tier of confidences that `speechctc decode` wrote, the rank of one of alternatives, 0 for others.

    A person's tier of such a name has other labels, or most of them elsewhere than the phones: it is kept as it is.
    """
    if tier.points:
        return 0
    rank = _RANKED.fullmatch(tier.name)
    named = -1 if tier.name == CONFIDENCE else int(rank[1]) if rank else 0
    labelled = [entry for entry in tier.entries if entry.label]
    form = _CONFIDENCE if named < 0 else _ALTERNATIVE
    if not named or not all(form.fullmatch(entry.label) for entry in labelled):
        return 0
    matching = sum(abs(spans.get(_key(entry.start), -1.0) - entry.end) < _TOLERANCE for entry in labelled)
    return named if 2 * matching >= len(labelled) else 0


def refuse_odd_grid(path: Path) -> None:
    """Check that the place of a TextGrid is free, a plain file or a link, which gives way to a file.

    Raises
    ------
    InputError
        It is a pipe, which may never be read to its end, a device or a folder.
    """
    if not path.is_symlink():
        links.refuse_odd(path)


def digest(path: Path) -> str:
    """Return the SHA-256 of a file; ``""`` if there is none."""
    return files.sha256(path) if path.is_file() else ""


def keep_copy(path: Path) -> Path:
    """Keep a second name for the content of a file that is about to be replaced, or a link as it is; return it."""
    for copy in map(path.with_name, files.numbered(path.name + COPY)):
        if os.path.lexists(copy):
            if not copy.is_symlink() and digest(copy) == digest(path):
                return copy
            continue
        try:
            if path.is_symlink():
                os.symlink(os.readlink(path), copy)
            else:
                os.link(path, copy)
        except FileExistsError:
            continue
        except OSError:  # no links on this file system
            shutil.copyfile(path, copy)
            with suppress(OSError):  # some mounts set no mode or time
                shutil.copystat(path, copy)
        return copy
    raise AssertionError("the names have no end")


def _moved(time: float, origin: float) -> float:
    return round(time + origin, 6) if origin else time


def _phone(entry: Interval) -> Phone:
    return Phone(round(max(entry.start, 0.0), DIGITS), round(entry.end, DIGITS), nfc(entry.label))


def _key(start: float) -> int:
    """Return a start in steps of 0.1 ms."""
    return int(round(start * 10**DIGITS))


def _with_model(
    phone: Phone, confidences: Mapping[int, Interval], alternatives: Sequence[Mapping[int, Interval]]
) -> Phone:
    """Return a phone with the confidence and the alternatives that other tiers have for the same interval."""
    key = _key(phone.start)

    def text(entries: Mapping[int, Interval]) -> str:
        entry = entries.get(key)
        return entry.label if entry is not None and abs(entry.end - phone.end) < _TOLERANCE else ""

    others = tuple(found for entries in alternatives if (found := _alternative(text(entries))) is not None)
    return phone._replace(confidence=_number(text(confidences)), alternatives=others)


@lru_cache(1 << 16)  # an hour has 200,000 alternatives, and most of them again and again
def _alternative(text: str) -> tuple[str, float] | None:
    """Return the label and the posterior of an interval such as ``aa 0.12``."""
    label, _, posterior = text.partition(" ")
    return (nfc(label), number) if label and (number := _number(posterior)) is not None else None


def _number(text: str) -> float | None:
    """Return a number that is written as `_CONFIDENCE` is, if it is at most 1; None for ``""``."""
    return number if text and (number := float(text)) <= 1 else None
