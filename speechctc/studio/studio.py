"""The studio: a folder, a model and its training, together; what the server's routes call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from speechctc.audio.recordings import Siblings
from speechctc.core.errors import InputError
from speechctc.corpora.transcripts import TEXTS, TranscriptOptions, read_transcript
from speechctc.inference.formats import WRITERS
from speechctc.inference.result import LOG_PROBABILITY
from speechctc.model.checkpoint import find_checkpoint
from speechctc.phones.articulation import chart, in_words, ipa, is_arpabet, term
from speechctc.studio.document import Document
from speechctc.studio.engine import Engine, Launch, Recognitions, launch_process
from speechctc.studio.folder import Folder
from speechctc.studio.journal import DIGITS, TOUCH, Phone, Splice
from speechctc.studio.training import Training

if TYPE_CHECKING:
    from speechctc.inference.restriction import RequestedPhones

WAIT = 600.0  # seconds that a request waits for the model
PATIENCE = 20.0  # seconds that the end of the studio waits for the disk
MAX_SECONDS = 60.0  # seconds that are aligned at a time
MOST_WORDS = 2000  # signs of the words that the page shows


class Studio:
    """What the page works with.

    Parameters
    ----------
    path : Path
        The folder of recordings.
    model : Path, optional
        As ``--model``; by default that of the last round of training, or else the latest run or the bundled English.
    launch : callable
    say : callable
        Called with lines for standard error.
    wanted : RequestedPhones, optional
        The phones that the first model may hear; models that are trained here hear all of theirs.

    Raises
    ------
    InputError
        As `Folder`.
    """

    def __init__(
        self,
        path: Path,
        model: Path | None = None,
        launch: Launch = launch_process,
        say: Callable[[str], None] = lambda text: None,
        wanted: RequestedPhones | None = None,
    ) -> None:
        self.folder = Folder(path)
        self.training = Training(path)
        self.first_model = model
        first = model or self.training.chosen
        self.engine = Engine(first, partial(launch, only=(first, wanted)) if wanted else launch, say)
        self.recognitions = Recognitions(self.engine, self.folder.put_recognised)

    def overview(self, since: int = 0) -> dict[str, Any]:
        """Return what the page shows besides the recording that is open; takes a new model into use.

        The rows of the list are those that changed after the change with the number `since`.
        """
        status = self.training.status()
        self._take_new_model(status)
        return {
            "folder": str(self.folder.path),
            "place": str(self.folder.path.resolve()),
            "change": self.folder.change,  # before the rows: what changes meanwhile is told once more
            "whole": self.folder.is_whole(since),
            "recordings": self.folder.rows(since),
            "notes": [*self.folder.notes, *filter(None, [self.recognitions.note])],
            "model": {
                **self.engine.about,
                "ngram": self.engine.ngram,
                "problem": self.engine.problem,
                "rounds": self.training.models(),
                "loading": self.engine.is_loading,
                "first": self._first_name(),
            },
            "ipa": ipa_of(phones := tuple(self.engine.about.get("phones", ()))),
            "terms": terms_of(phones),
            **({} if since else {"chart": _chart()}),  # it does not change
            "formats": list(WRITERS),
            "recognising": self.recognitions.status(),
            "problems": dict(self.recognitions.problems),
            "training": {key: value for key, value in status.items() if key != "process"},
        }

    def _first_name(self) -> str:
        """Return the folder of the model that round 0 stands for; ``""`` if there is none."""
        with suppress(InputError):
            return str(find_checkpoint(self.first_model, or_bundled=True))
        return ""

    def _take_new_model(self, status: Mapping[str, Any]) -> None:
        if not self.training.is_new(status):
            return
        model = self.training.better_model(status)
        current = Path(self.engine.about.get("folder", ""))
        inside = current.is_relative_to(self.training.folder)
        self.training.choose(model or (current if inside else None))
        if model is not None:
            self.engine.load(model)

    def recording(self, name: str) -> dict[str, Any]:
        """Return the labels of a recording, read again if another program changed them."""
        document = self.folder.document(name, again=True)
        labelled = [tier for tier in document.grid.others if any(entry.label for entry in tier.entries)]
        kept = [tier for tier in labelled if tier.name != LOG_PROBABILITY]
        tiers = [{"name": t.name, "points": t.points, "entries": [list(e) for e in t.entries if e.label]} for t in kept]
        return {
            "name": name,
            "seconds": document.seconds,
            "sound": document.version,
            "textgrid": document.grid_path.name,
            "tier": document.grid.name,
            "tiers": tiers,
            "note": document.note,
            "words": words_beside(document.recording),
            "unknown": self.unknown(document),
            **self.labels(document),
        }

    def labels(self, document: Document) -> dict[str, Any]:
        """Return the revision and all phones of a document."""
        phones = [phone.to_list() for phone in document.phones]
        return {**self._about(document), "phones": phones, "by_hand": document.by_hand}

    def _about(self, document: Document) -> dict[str, Any]:
        undo, redo = document.undoable()
        return {"revision": document.revision, "undo": undo, "redo": redo, "state": document.state}

    def unknown(self, document: Document) -> list[str]:
        """Return the labels of a document that the model does not have."""
        known = set(self.engine.about.get("phones", ()))
        return sorted({phone.label for phone in document.phones} - known) if known else []

    def edit(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Make a change, and return it.

        Raises
        ------
        Conflict, InputError
            As `Document.edit` and `Document.step`.
        """
        document, revision = self.folder.document(name), revision_of(request)
        way = request.get("what")
        step = document.step(revision, str(way)) if way in ("undo", "redo") else document.edit(revision, request)
        return self._changed(name, document, step)

    def place(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Place the phones from `first` up to, not including, `last` again.

        Raises
        ------
        InputError
            A label is not the model's, or the phones do not fit.
        Conflict
            The labels were changed meanwhile.
        """
        document, revision = self.folder.document(name), revision_of(request)
        first, last = request.get("first", 0), request.get("last", len(document.phones))
        phones = tuple(document.phones)
        if type(first) is not int or type(last) is not int or not 0 <= first < last <= len(phones):
            raise InputError("there are no phones to place", "select some")
        self._check_known(phones[first:last])
        new: list[Phone] = []
        for start, stop in _runs(phones, first, last):
            floor = new[-1].end if new else phones[start - 1].end if start else 0.0
            new += self._placed(name, document, phones, (start, stop), floor)
        return self._changed(name, document, document.replace(revision, first, last, tuple(new), "place again"))

    def _placed(
        self, name: str, document: Document, phones: tuple[Phone, ...], span: tuple[int, int], floor: float
    ) -> list[Phone]:
        """Return phones at the places that the model finds, after `floor`; an edge that touches another phone stays."""
        first, last = span
        touched = first > 0 and phones[first].start - phones[first - 1].end < TOUCH
        touches = last < len(phones) and phones[last].start - phones[last - 1].end < TOUCH
        start = phones[first].start if touched else floor
        stop = phones[last - 1].end if touches else phones[last].start if last < len(phones) else document.seconds
        labels = [phone.label for phone in phones[first:last]]
        segments = self.engine.ask("align", self.folder.recordings[name], start, stop, labels).result(WAIT)
        new = [
            phone._replace(start=round(found.start, DIGITS), end=round(found.end, DIGITS))
            for phone, found in zip(phones[first:last], segments, strict=True)
        ]
        if touched:
            new[0] = new[0]._replace(start=start)
        if touches:
            new[-1] = new[-1]._replace(end=stop)
        if any(phone.end <= phone.start for phone in new):
            raise InputError("the model finds no room for every phone there", "place more phones at a time")
        return new

    def best_boundary(self, name: str, number: int) -> dict[str, float]:
        """Return the time at which the model places the boundary between a phone and the next.

        Raises
        ------
        InputError
            There is no next phone, or the model does not have the labels.
        """
        document = self.folder.document(name)
        pair = tuple(document.phones[number : number + 2])
        if number < 0 or len(pair) < 2:
            raise InputError("there is no boundary", "choose one between two phones")
        self._check_known(pair)
        labels = [phone.label for phone in pair]
        path = self.folder.recordings[name]
        found = self.engine.ask("align", path, pair[0].start, pair[1].end, labels).result(WAIT)
        return {"time": round(float(found[1].start), DIGITS)}

    def _check_known(self, phones: tuple[Phone, ...]) -> None:
        known = set(self.engine.about.get("phones", ()))
        if not known:
            fix = "wait a moment, or name another model"
            raise InputError(self.engine.problem or "the model is not loaded yet", fix)
        if others := sorted({phone.label for phone in phones} - known):
            what = f"the model does not have the labels {' '.join(others[:8])}{' ...' if len(others) > 8 else ''}"
            raise InputError(what, f"its phones are: {' '.join(sorted(known))}; or train a model on your labels")

    def _changed(self, name: str, document: Document, splice: Splice) -> dict[str, Any]:
        self.folder.changed(name)
        changed = {"at": splice.at, "remove": len(splice.old), "phones": [phone.to_list() for phone in splice.new]}
        about = {"what": splice.what, "note": document.note, "unknown": self.unknown(document)}
        return {**self._about(document), **changed, **about}

    def recognise(self, names: Any = None, again: bool = False) -> dict[str, Any]:
        """Recognise recordings that nobody has corrected, in the background.

        With None, all that have no labels; or `again`, all whose labels a model recognised.

        Raises
        ------
        InputError
            These are no names, or the only one is of a recording that a person corrected.
        """
        if names is None:
            names = [row["name"] for row in self.folder.rows() if row["state"] == ("recognised" if again else "new")]
        for name in _names(names):
            document = self.folder.document(name, again=True)
            if document.state != "corrected":
                self.recognitions.add(name, document.recording)
            elif len(names) == 1:
                raise InputError(f"{name}: its labels were corrected by hand", "they are kept as they are")
        return {"recognising": self.recognitions.status()}

    def heard(self, name: str, first: int) -> dict[str, Any]:
        """Return what is known of a recording that is being recognised, from a number of phones on."""
        return {"phones": [Phone.of(segment).to_list() for segment in self.recognitions.heard(name)[max(first, 0) :]]}

    def stop_recognising(self, names: Any) -> dict[str, Any]:
        """Recognise some recordings no further; of one that is under way, what is known becomes its labels.

        Raises
        ------
        InputError
            These are no names.
        """
        for name in _names(names):
            self.recognitions.stop(name)
        return {"recognising": self.recognitions.status()}

    def train(self, minutes: float) -> None:
        """Train the model in use on all corrected recordings.

        Raises
        ------
        InputError
            As `Training.start`, or there is no model to go on from.
        """
        if not self.engine.about:
            raise InputError(self.engine.problem or "the model is not loaded yet", "wait a moment")
        names = [row["name"] for row in self.folder.rows() if row["state"] == "corrected"]
        documents = {name: self.folder.document(name) for name in sorted(names)}
        about = self.engine.about
        self.training.start(documents, Path(about["folder"]).resolve(), about["phones"], minutes)

    def choose_model(self, number: int) -> None:
        """Use the model of a round from now on, or with 0 the one that the studio began with."""
        model = None
        if number:
            found = [Path(each["folder"]) for each in self.training.models() if each["round"] == number]
            if not found:
                raise InputError(f"there is no model of round {number}", "choose one of the list")
            model = found[0]
        self.engine.load(model or self.first_model)
        self.recognitions.note = ""
        self.training.choose(model)

    def use_ngram(self, wanted: bool) -> None:
        """Recognise with the model's n-gram from now on, or without."""
        self.engine.ngram = wanted
        self.recognitions.note = ""

    def close(self, patience: float = PATIENCE) -> bool:
        """Write what is not written yet, and end the model's process. A training goes on.

        Returns
        -------
        Whether everything is written; else the disk did not answer for `patience` seconds.
        """
        self.recognitions.close()
        is_written = self.folder.settle(patience)
        self.engine.close()
        return is_written


def words_beside(recording: Path) -> str:
    """Return the words of the text beside a recording, or its phones; ``""`` if there is none that can be read."""
    with suppress(InputError, OSError):
        if (file := Siblings().find(recording, TEXTS)) is not None:
            labels = read_transcript(file, recording, TranscriptOptions(labels="words")).labels
            return " ".join(" ".join(labels).split())[:MOST_WORDS]
    return ""


def _chart() -> list[tuple[str, dict[str, str]]]:
    """Return the rows of the IPA chart: a name, and what each symbol in it is called."""
    return [(name, {symbol: term(symbol) for symbol in symbols}) for name, symbols in chart()]


@lru_cache(maxsize=4)  # the page asks every second
def terms_of(phones: tuple[str, ...]) -> dict[str, str]:
    """Return what each label means, in words."""
    in_arpabet = is_arpabet(phones)
    return {label: in_words(label, in_arpabet) for label in phones}


def ipa_of(phones: Sequence[str]) -> dict[str, str]:
    """Return the IPA of each label of an ARPABET set, for those who read IPA; ``{}`` for other sets."""
    return {label: ipa(label, True)[0] for label in phones} if is_arpabet(phones) else {}


def _runs(phones: tuple[Phone, ...], first: int, last: int) -> list[tuple[int, int]]:
    """Cut a range of phones into runs that are short enough to align, at the longest pauses near their ends."""
    runs = []
    while first < last:
        end = first + 1
        while end < last and phones[end].end - phones[first].start <= MAX_SECONDS:
            end += 1
        if end < last:
            near = range(max(first + 1, end - 100), end + 1)
            end = max(near, key=lambda k: phones[k].start - phones[k - 1].end)
        runs.append((first, end))
        first = end
    return runs


def _names(names: Any) -> list[str]:
    """Return the names of recordings that a request has, checked."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError("the request names no recordings", "open the page again")
    return names


def revision_of(request: Mapping[str, Any]) -> int:
    """Return the revision that a request was made for.

    Raises
    ------
    InputError
        There is none.
    """
    revision = request.get("revision")
    if type(revision) is not int:
        raise InputError("the request has no revision", "open the page again")
    return revision
