"""The folder that the studio shows: its recordings, their documents, and their state for the list."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from speechctc.audio.recordings import Siblings, find_recordings, left_out
from speechctc.core.errors import InputError, of_disk
from speechctc.inference.result import Recognition
from speechctc.pages.timeline import SpectrogramSettings
from speechctc.studio.document import Conflict, Document
from speechctc.studio.sound import Waveform, loudest, version

OPEN = 8  # documents and sounds that stay in memory
SOON = 0.4  # seconds after a change in which further ones join the same writing of the TextGrid


def readable(name: str) -> str:
    r"""Return the name of a file with bytes that are not UTF-8 as text: ``caf\xe9.wav``."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


class NoSuchRecording(Exception):
    """A request names a recording that the folder does not have."""


class Folder:
    """The recordings of a folder. Its methods may be called from several threads.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    recordings : dict of str to Path
        By name: the path relative to the folder, with slashes, `readable`. Nothing else is read or written for a
        request.
    notes : list of str
        Files that look like sound and are not shown, and why.
    change : int
        The number of the last change of a row.

    Raises
    ------
    InputError
        All that is in it are links to recordings elsewhere.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._opening: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._documents: OrderedDict[str, Document] = OrderedDict()
        self._sounds: OrderedDict[str, Waveform] = OrderedDict()
        self._loudest: dict[tuple[str, str, SpectrogramSettings], float] = {}
        self._rows: dict[str, dict[str, Any]] = {}
        self.change = time.time_ns() // 1_000_000  # above those of a studio before this one
        self._listed = self.change  # the change that gave the list its names
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="studio")
        self._timers: dict[str, threading.Timer] = {}
        self.problems: dict[str, str] = {}
        self.recordings: dict[str, Path] = {}
        self._own_names: set[Path] = set()
        self.notes: list[str] = []
        self.scan()

    def scan(self) -> None:
        """Find the recordings of the folder, and learn their states in the background."""
        inside = self.path.resolve()
        try:
            found = find_recordings([self.path])
        except InputError:  # there are none yet: one can record some
            if not self.path.is_dir():
                raise
            found = []
        recordings: dict[str, Path] = {}
        for each in found:
            name = readable(each.path.relative_to(self.path).as_posix())
            while name in recordings:  # another file has the name that this one is shown by
                name += "'"
            recordings[name] = each.path
        self._own_names = {each.path for each in found if each.name.name == each.path.name}
        away = {name: path for name, path in recordings.items() if not path.resolve().is_relative_to(inside)}
        self.notes = left_out([self.path])
        if away:
            first = next(iter(away))
            self.notes.append(f"{len(away)} links to recordings outside of the folder are not shown: {first}")
        recordings = {name: path for name, path in recordings.items() if name not in away}
        if recordings.keys() != self.recordings.keys():
            with self._lock:
                self.change += 1
                self._listed = self.change
        new = [name for name in recordings if name not in self._rows]
        self._rows |= {name: {"state": "reading", "change": 1} for name in new}
        self.recordings = recordings
        if away and not self.recordings:
            raise InputError(f"{self.path}: only links to recordings outside of it", "name the folder they lie in")
        siblings = Siblings()
        for name in new:
            self._threads.submit(self.refresh, name, siblings)

    def document(self, name: str, again: bool = False) -> Document:
        """Return the labels of a recording; `again`: read them once more if another program changed them on the disk.

        Raises
        ------
        NoSuchRecording
            The folder does not have it.
        InputError
            The recording, its TextGrid or its journal cannot be read.
        """
        path = self._path(name)
        if (found := self._recent(name)) is not None and not (again and found.is_outdated()):
            return found
        with self._opening[name]:  # the labels of an hour take a second, and two requests need them read once
            if (now := self._recent(name)) is not None and now is not found:
                return now
            old, found = found, self._opened(path)
            if old and old.version != found.version and found.phones:
                found.note = f"{path.name} was replaced: these labels were made for the recording before"
            with self._lock:
                self._documents[name] = found
                while len(self._documents) > OPEN:
                    self._documents.popitem(last=False)
        self._threads.submit(self._write, name, found)  # what an interruption left
        return found

    def _recent(self, name: str) -> Document | None:
        with self._lock:
            if name in self._documents:
                self._documents.move_to_end(name)
            return self._documents.get(name)

    def sound(self, name: str) -> Waveform:
        """Return the samples of a recording.

        Raises
        ------
        NoSuchRecording, InputError
            As `document`.
        """
        path = self._path(name)
        with self._lock:
            if name in self._sounds and self._sounds[name].version in ("", version(path)):
                self._sounds.move_to_end(name)
                return self._sounds[name]
        sound = Waveform(path)
        with self._lock:
            if name in self._sounds and self._sounds[name].version == sound.version:
                return self._sounds[name]  # made by another request meanwhile, which may be sending its file
            self._sounds[name] = sound
            while len(self._sounds) > OPEN:
                self._sounds.popitem(last=False)
        return sound

    def loudest(self, name: str, settings: SpectrogramSettings) -> float:
        """Return the highest level of a recording's spectrogram, dB, computed once."""
        sound = self.sound(name)
        key = (name, sound.version, settings)
        if key not in self._loudest:
            self._loudest[key] = loudest(sound, settings)
        return self._loudest[key]

    def changed(self, name: str) -> None:
        """Learn the state of a recording after a change that its journal has, and write its TextGrid soon."""
        document = self.document(name)
        self._put_row(name, self._row(document))
        with self._lock:
            if (timer := self._timers.pop(name, None)) is not None:
                timer.cancel()
            self._timers[name] = timer = threading.Timer(SOON, self._write, (name, document))
            timer.daemon = True
            timer.start()

    def _write(self, name: str, document: Document) -> None:
        try:
            document.write_grid()
            self.problems.pop(name, None)
        except Conflict:
            pass  # another program changed the journal; the next request reads it
        except Exception as error:  # in a thread, where nobody hears of it: whatever it is, the page says it
            self.problems[name] = f"the TextGrid is not written: {error}; every correction is in the journal"
        self._put_row(name, self._row(document))

    def put_recognised(self, name: str, result: Recognition, is_part: bool = False) -> None:
        """Keep what a model recognised in a recording that nobody has corrected; a part only where there is nothing."""
        document = self.document(name)
        if not is_part or (result.segments and not document.phones):
            document.put_recognised(result)
        self._put_row(name, self._row(document))

    def refresh(self, name: str, siblings: Siblings | None = None) -> None:
        """Learn the state of a recording for the list; for many, folders are listed once with the same `siblings`."""
        try:
            with self._opening[name]:
                with self._lock:
                    document = self._documents.get(name)
                document = document or self._opened(self.recordings[name], siblings)
                with self._lock:
                    if len(self._documents) < OPEN:
                        document = self._documents.setdefault(name, document)
            self._write(name, document)  # what an interruption left
        except InputError as error:
            self._put_row(name, {"state": "unreadable", "problem": str(error)})
        except OSError as error:
            self._put_row(name, {"state": "unreadable", "problem": str(of_disk(error))})
        except Exception as error:  # in a thread, as in `_write`
            self._put_row(name, {"state": "unreadable", "problem": f"{type(error).__name__}: {error}"})

    def _row(self, document: Document) -> dict[str, Any]:
        phones = list(document.phones)
        unsure = [phone.confidence for phone in phones if phone.confidence is not None and not phone.checked]
        return {
            "seconds": document.seconds,
            "state": document.state,
            "revision": document.revision,
            "phones": len(phones),
            "checked": len(phones) if document.by_hand else sum(phone.checked for phone in phones),
            "whole": document.is_whole,
            "confidence": sum(unsure) / len(unsure) if unsure else None,
            "lowest": min(unsure, default=None),
        }

    def _put_row(self, name: str, row: dict[str, Any]) -> None:
        with self._lock:
            self.change += 1
            self._rows[name] = row | {"change": self.change}

    def is_whole(self, since: int) -> bool:
        """Return whether `rows` with `since` are all, as the list has other names since then."""
        return not self._listed <= since <= self.change

    def rows(self, since: int = 0) -> list[dict[str, Any]]:
        """Return a row for each recording, suspects first; or with `since` of those that changed after that change.

        Those that were recognised come in the order of their confidence, the lowest first; then the new, the corrected,
        and those that cannot be read.
        """
        since = 0 if self.is_whole(since) else since
        states = {name: self._rows[name] for name in self.recordings}
        rows = [{"name": name, **row} for name, row in states.items() if row["change"] > since]
        for row in rows:
            if problem := self.problems.get(row["name"]):
                row["problem"] = problem
        order = ["recognised", "reading", "new", "corrected", "unreadable"]
        return sorted(rows, key=lambda row: (order.index(row["state"]), row.get("confidence") or 0.0, row["name"]))

    def settle(self, patience: float | None = None) -> bool:
        """Write every TextGrid that lacks changes; return whether that was done within `patience`, in seconds."""
        for timer in list(self._timers.values()):
            timer.cancel()

        def write() -> None:
            for name, document in list(self._documents.items()):
                self._write(name, document)

        writing = threading.Thread(target=write, daemon=True)  # a disk may never answer
        writing.start()
        writing.join(patience)
        return not writing.is_alive()

    def wait(self) -> None:
        """Wait until the states of all recordings are known."""
        self._threads.submit(lambda: None).result()

    def _opened(self, path: Path, siblings: Siblings | None = None) -> Document:
        return Document(path, path in self._own_names, siblings)

    def _path(self, name: str) -> Path:
        if name not in self.recordings:
            raise NoSuchRecording(name)
        return self.recordings[name]
