"""Train again from corrections: the corpus that they make, rounds beside the recordings, and the model in use."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import psutil

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.sound_file import write_wav
from speechctc.core import files, links
from speechctc.core.errors import InputError, check_torch, first_few
from speechctc.core.processes import module_command, open_standard_streams
from speechctc.core.training_process import OWN_GROUP, STOP
from speechctc.corpora.corpus_builder import shuffled
from speechctc.phones.inventory import NAMED
from speechctc.stages.start import advise
from speechctc.studio.document import Document
from speechctc.studio.journal import Phone
from speechctc.studio.sound import Waveform

if TYPE_CHECKING:
    from speechctc.stages.evaluate import Evaluation
    from speechctc.training.records import BeginningRecord

STATE = "round.json"
FEATURES = "features"  # the folder beside the rounds: each extracts what is new, and has the dev of the last one
REMEDY = "correct another recording with such a label, or write the label as another, and train again"
MAX_NAMED = 8  # labels


class Ended(Exception):
    """SIGTERM came before the training began."""


class Round:
    """A round of training in a folder.

    Parameters
    ----------
    folder : Path
        With a plan in its state: ``model``, ``epochs``, ``minutes``, ``lr``, ``dev_share``, ``phones``, ``test``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / "run"
        self.state: dict[str, Any] = files.read_json(folder / STATE)

    def update(self, **values: Any) -> None:
        """Change the state, for the page to read."""
        self.state |= values
        files.write_json(self.folder / STATE, self.state)

    def go(self) -> None:
        """Extract, train and score; the state says how it ended."""
        self.update(state="preparing", process=os.getpid())
        try:
            self.train()
        except Ended:
            self.update(state="stopped", line="stopped before there was a model")
            return
        except InputError as error:
            # the remedies of other errors are for the command line
            self.update(state="failed", line=str(error) if error.fix == REMEDY else error.what)
            return
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            self.update(state="failed", line=f"{what}; the whole message is in {self.folder}/log.txt")
            raise
        self._score()

    def train(self) -> None:
        """Extract and train."""
        from speechctc.config.load import override, parse_config
        from speechctc.core.progress import Reporter
        from speechctc.model.checkpoint import read_config
        from speechctc.stages.calibrate import calibrate_run
        from speechctc.stages.extract import extract
        from speechctc.stages.train import Stopped, train
        from speechctc.training.records import Callbacks

        stored = read_config(Path(self.state["model"])).model_dump(mode="json")
        config = parse_config(override(stored | {"corpus": self.corpus()}, self.settings()), "this round")
        found = {each.split: each.utterances for each in extract(config, Reporter(quiet=True))}
        if not found["dev"]:
            raise InputError(self._why_no_dev(), REMEDY)
        self.update(state="training", dev=found["dev"])
        reporter = Reporter(quiet=True)
        try:
            train(config, True, reporter, Callbacks(on_beginning=self._begin_with))
            calibrate_run(config.run, reporter)
        except Stopped:
            if not (self.run / "best").exists():
                raise Ended from None
            self.update(line="stopped early")

    def _begin_with(self, record: BeginningRecord) -> None:
        """Keep the PER of the model that training goes on from."""
        self.update(start_per=record["dev_per"])

    def _why_no_dev(self) -> str:
        rare = self.state.get("rare", [])
        why = f"each has a label that no other has: {first_few(rare, MAX_NAMED)}" if rare else "there is too little"
        return f"no recording can be set aside to choose the best epoch, because {why}"

    def corpus(self) -> dict[str, Any]:
        """Return the section ``corpus`` of the config."""
        root, phones, share = str(self.folder / "corpus"), self.state["phones"], self.state["dev_share"]
        return {"kind": "textgrid", "root": root, "tier": "phones", "phones": phones, "dev_share": share}

    def settings(self) -> list[str]:
        """Return the other settings that differ from those of the model to go on from."""
        features = self.folder.with_name(FEATURES)
        given = {"run": self.run, "data.dir": features, "train.init_from": self.state["model"]}
        given |= {f"train.{key}": self.state[key] for key in ("epochs", "minutes", "lr")}
        return _settings(given | {"train.save_minutes": 1, "train.device": "auto", "score.fold": "none"})

    def _score(self) -> None:
        """Score both models on the recordings that were held out."""
        self.update(state="scoring")
        try:
            scores = {"before": self.per_of(Path(self.state["model"])), "after": self.per_of(self.run / "best")}
        except InputError as error:
            self.update(state="done", line=f"the models could not be scored: {error}")
            return
        self.update(state="done", **scores)

    def _evaluated(self, model: Path) -> Evaluation:
        """Return the score of a model on the recordings that were held out."""
        from speechctc.core.progress import Reporter
        from speechctc.inference.recogniser import Recogniser
        from speechctc.stages.evaluate import evaluate
        from speechctc.stages.open_model import open_model

        corpus = {f"corpus.{key}": value for key, value in self.corpus().items()}
        settings = _settings({**corpus, "score.fold": "none"})
        return evaluate(open_model(model, Recogniser), "test", settings, Reporter(quiet=True))

    def per_of(self, model: Path) -> dict[str, Any] | None:
        """Return a model's PER on what was held out, its interval and a caution; None if nothing was."""
        if not self.state["test"]:
            return None
        found = self._evaluated(model)
        if not found.counts.reference_phones:
            return None
        return {
            "per": found.counts.per,
            "text": found.reliability.to_text(),
            "caution": found.reliability.caution,
            "phones": found.counts.reference_phones,
            "recordings": len(self.state["test"]),
        }


def _settings(values: Mapping[str, Any]) -> list[str]:
    """Return settings as on the command line, where values are YAML."""
    texts = {key: json.dumps(str(each) if isinstance(each, Path) else each) for key, each in values.items()}
    return [f"{key}={text}" for key, text in texts.items()]


def main() -> int:
    """Run the round in the folder that is named."""
    round_ = Round(Path(sys.argv[1]))

    def end(number: int, frame: FrameType | None) -> None:
        if not (round_.run / "best").exists():  # else what is left, calibration and scores, is done
            raise Ended

    signal.signal(signal.SIGTERM, end)
    round_.go()
    return 0 if round_.state["state"] == "done" else 1


MIN_RECORDINGS = 2  # corrected recordings: one chooses the best epoch
MAX_MINUTES = 24 * 60.0
RUNNING = ("preparing", "training", "scoring")
ROUND = "speechctc.studio.training"  # this module, which a round is a process of
# For phones that the model knows: larger rates or more epochs forget more than corrections teach (bench_corrections).
KNOWN_PHONES = {"epochs": 8, "lr": 1e-4}

MAX_WHOLE_SECONDS = 15.0  # seconds of a recording that stays whole
LEAST_SECONDS, PAUSE, LONG_PAUSE = 4.0, 0.15, 1.0  # seconds of a piece, and of pauses at which it may and must end
AROUND = 0.25  # seconds of a pause that a piece keeps
SHARE = 0.2  # of the corrected recordings, held out
MIN_HELD_OUT_RECORDINGS = 5  # corrected recordings, with fewer of which none is held out


class Training:
    """The rounds of training of a folder of recordings.

    Parameters
    ----------
    recordings : Path
        The folder; the rounds are in one beside it, named after it with ``-studio`` at the end.
    """

    def __init__(self, recordings: Path) -> None:
        whole = recordings.resolve()
        self.folder = whole.with_name(f"{whole.name}-studio")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def chosen(self) -> Path | None:
        """The model that the last round made or the user chose; None for the one that the studio began with."""
        name = self._kept("model")
        with suppress(OSError):  # too long a name
            if isinstance(name, str) and name and (self.folder / name / "checkpoint.json").exists():
                return self.folder / name
        return None

    def _kept(self, key: str) -> Any:
        """Return a value that `choose` wrote; None if there is none."""
        try:
            return files.read_json(self.folder / "studio.json")[key]
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def choose(self, model: Path | None) -> None:
        """Remember the model to use when the studio is opened again, and that the rounds that ended were looked at."""
        links.refuse_linked_folder(self.folder)
        self.folder.mkdir(exist_ok=True)
        name = str(model.relative_to(self.folder)) if model is not None else ""
        looked_at = self._rounds()[: -1 if self.is_running() else None]
        files.write_json(self.folder / "studio.json", {"model": name, "round": max(looked_at, default=0)})

    def is_new(self, state: Mapping[str, Any]) -> bool:
        """Return whether the last round, of which this is the `status`, made a model, and none was chosen since."""
        number, looked_at = state.get("round", 0), self._kept("round")
        looked_at = looked_at if isinstance(looked_at, int) else 0
        return state.get("state") == "done" and number > looked_at and (self._best(number) / "checkpoint.json").exists()

    def better_model(self, state: Mapping[str, Any]) -> Path | None:
        """Return the model of the last round; None if it made more errors on what was held out than the one before."""
        before, after = state.get("before"), state.get("after")
        return None if before and after and after["per"] > before["per"] else self._best(state["round"])

    def _best(self, number: int) -> Path:
        return self._round(number) / "run" / "best"

    def models(self) -> list[dict[str, Any]]:
        """Return the models that rounds made: number, folder and PER after, where it was measured."""
        found = []
        for number in self._rounds():
            model = self._round(number) / "run" / "best"
            if (model / "checkpoint.json").exists():
                after = self._state(number).get("after") or {}
                found.append({"round": number, "folder": str(model), "per": after.get("per")})
        return found

    def start(self, documents: Mapping[str, Document], model: Path, phones: list[str], minutes: float) -> None:
        """Prepare a round, as `prepare` does, and start it in its own process; that needs torch, or else InputError."""
        check_torch()
        self._launch(self.prepare(documents, model, phones, minutes))

    def prepare(self, documents: Mapping[str, Document], model: Path, phones: list[str], minutes: float) -> Path:
        """Write what a new round needs; return its folder.

        Parameters
        ----------
        documents : mapping of str to Document
            The corrected recordings by name.
        model : Path
            The model to go on from.
        phones : list of str
            Its phones.
        minutes : float
            The longest duration of the training.

        Raises
        ------
        InputError
            A round is running, there are too few corrections, or the folder beside cannot be written.
        """
        if self.is_running():
            raise InputError("a training is running", "wait for its end, or stop it")
        if not 0 < minutes <= MAX_MINUTES:
            raise InputError(f"{minutes:g} minutes of training", f"choose more than 0 and at most {MAX_MINUTES:g}")
        if len(documents) < MIN_RECORDINGS:
            what = f"{len(documents)} corrected recordings; training needs {MIN_RECORDINGS}: one chooses the epoch"
            raise InputError(what, "correct more of them")
        links.refuse_linked_folder(self.folder)
        number = max(self._rounds(), default=0) + 1
        folder = self._round(number)
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            fix = "change the folder's permissions"
            raise InputError(f"{folder}: cannot be made ({error.strerror})", fix) from None
        try:
            held = self._held_out(documents, number)
            parts = write_corpus(documents, held, folder / "corpus")
            plan = _plan(parts, model, phones, minutes) | {"test": held}
            share = self._state(number - 1).get("dev_share", plan["dev_share"])  # the same: dev stays dev
            files.write_json(folder / STATE, plan | {"dev_share": share})
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)  # else it would be the last round
            raise
        return folder

    def _held_out(self, documents: Mapping[str, Document], number: int) -> list[str]:
        """Return the recordings that a new round scores on."""
        before = [self._state(k) for k in self._rounds() if k != number]
        held_before = {name for state in before for name in state.get("test", ())}
        trained = {name for state in before for name in state.get("train", ())}
        whole = [name for name, document in documents.items() if document.is_whole]
        labels = {name: {phone.label for phone in document.phones} for name, document in documents.items()}
        held = choose_held_out(labels, whole, held_before, trained)
        return held if len(held) <= len(documents) - MIN_RECORDINGS else []

    def _launch(self, folder: Path) -> None:
        command, apart = [*module_command(ROUND), str(folder)], {"start_new_session": True, **OWN_GROUP}
        with open(folder / "log.txt", "wb") as log:
            nothing = subprocess.DEVNULL
            self._process = subprocess.Popen(command, cwd=folder, stdin=nothing, stdout=log, stderr=log, **apart)
        threading.Thread(target=self._process.wait, daemon=True).start()

    def stop(self) -> None:
        """Ask the round that is running to end; what it has trained is scored and used."""
        state = self.status()
        if state.get("state") == "preparing" and "process" not in state:
            raise InputError("the training is only just beginning", "stop it in a moment")
        if state.get("state") in ("preparing", "training") and (process := self._process_of(state)):
            with suppress(ProcessLookupError):
                os.kill(process.pid, STOP)

    def is_running(self) -> bool:
        """Return whether a round is running, also one that a studio began which was killed since."""
        return self.status().get("state") in RUNNING

    def status(self) -> dict[str, Any]:
        """Return the state of the last round, with the curve of its epochs; ``{}`` if there was none."""
        number = max(self._rounds(), default=0)
        if not number:
            return {}
        state = self._state(number) | {"round": number}
        if state.get("state") in RUNNING and not self._is_alive(state):
            state = self._state(number) | {"round": number}  # it may have ended between the two
            if state.get("state") in RUNNING:
                line = f"the training's process ended; its messages are in {self._round(number)}/log.txt"
                state |= {"state": "failed", "line": line}
        seconds = {"seconds": time.time() - state["began"]} if "began" in state else {}
        return state | seconds | {"curve": self._curve(number)}

    def _is_alive(self, state: Mapping[str, Any]) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        return self._process_of(state) is not None

    def _process_of(self, state: Mapping[str, Any]) -> psutil.Process | None:
        """Return the process of a round; None if it has ended, and another program may have its number by now."""
        with suppress(psutil.Error, KeyError, TypeError, ValueError, OverflowError):
            process = psutil.Process(state["process"])
            if process.cmdline()[-2:] == [ROUND, str(self._round(state["round"]))]:
                return process
        return None

    def _curve(self, number: int) -> list[dict[str, Any]]:
        points, text = [], ""
        with suppress(OSError, ValueError):
            text = files.readable(self._round(number) / "run" / "metrics.jsonl", files.MOST_JSON).read_text("utf-8")
        for line in text.splitlines():
            with suppress(ValueError, LookupError, TypeError, OverflowError, RecursionError):
                entry = json.loads(line)
                point = {key: entry[key] for key in ("epoch", "loss", "dev_loss", "dev_per", "minutes")}
                if all(map(_is_number, point.values())):  # else no point of a curve
                    points.append(point)
        return points

    def _rounds(self) -> list[int]:
        names = [path.name.removeprefix("round-") for path in self.folder.glob("round-*")]
        return sorted(int(name) for name in names if name.isdecimal())

    def _round(self, number: int) -> Path:
        return self.folder / f"round-{number}"

    def _state(self, number: int) -> dict[str, Any]:
        """Return the state of a round; ``{}`` if it is not as a round writes it."""
        try:
            state: dict[str, Any] = files.read_json(self._round(number) / STATE)
            return state if _is_state(state) else {}
        except (OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
            return {}


def _is_state(state: dict[str, Any]) -> bool:
    """Return whether values are as a round writes them, as far as the page shows them; else an error, or False."""
    json.dumps(state, allow_nan=False)  # ValueError: the page could not be told
    lists = [state.get(key, []) for key in ("test", "train", "forgotten", "rare")]
    scores = [score for key in ("before", "after") if (score := state.get(key)) is not None]
    more = (state.get(key, 0) for key in ("epochs", "began", "minutes", "start_per", "dev"))
    numbers = [*more, *(score[key] for score in scores for key in ("per", "phones", "recordings"))]
    texts = [state.get("state", ""), state.get("line", "")]
    texts += [score[key] for score in scores for key in ("text", "caution")]
    return (
        all(isinstance(each, list) for each in lists)
        and all(isinstance(each, str) for each in [*texts, *(name for names in lists for name in names)])
        and all(_is_number(each) and each >= 0 for each in numbers)
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _plan(trained: Mapping[str, Sequence[Piece]], model: Path, phones: list[str], minutes: float) -> dict[str, Any]:
    """Return the first state of a round: what it trains on, and how."""
    pieces = [piece for parts in trained.values() for piece in parts]
    said = [phone for piece in pieces for phone in piece.phones]
    labels = Counter(
        label for parts in trained.values() for label in {phone.label for piece in parts for phone in piece.phones}
    )
    checked, seconds = sum(phone.checked for phone in said), sum(piece.end - piece.start for piece in pieces)
    advice = advise(seconds / 60, len({Path(name).parent for name in trained}))
    named = next((name for name, known in NAMED.items() if sorted(known) == sorted(phones)), None)
    fits = named is not None and set(labels) <= set(phones)
    plan = {
        "state": "preparing",
        "line": "",
        "began": time.time(),
        "model": str(model),
        "epochs": advice.epochs,
        "minutes": minutes,
        "lr": advice.lr,
        "dev_share": advice.dev_share,
        "phones": named if fits else "found",
        "forgotten": [] if fits else sorted(set(phones) - set(labels)),
        "rare": sorted(label for label, count in labels.items() if count == 1),
        "train": list(trained),
        "facts": {"pieces": len(pieces), "phones": len(said), "checked": checked, "seconds": seconds},
    }
    return plan | KNOWN_PHONES if fits else plan


class Piece(NamedTuple):
    """A part of a recording: from `start` to `end` in seconds, with its phones."""

    start: float
    end: float
    phones: tuple[Phone, ...]


def choose_held_out(
    labels: Mapping[str, Collection[str]], whole: Collection[str], before: Collection[str], trained: Collection[str]
) -> list[str]:
    """Return the recordings to score on: those held out before, and some of the new ones up to a fifth of all.

    Only a recording of which a person has seen to every phone is held out: labels that the old model wrote and nobody
    checked would make that model look right. Its labels must also be in the others, or no model could learn them. One
    that a model of the studio was trained on is never held out, and one held out is never trained on.

    Parameters
    ----------
    labels : mapping of str to collection of str
        The corrected recordings, and the labels in each.
    whole : collection of str
        Those of which every phone is checked.
    before : collection of str
        Those held out in earlier rounds.
    trained : collection of str
        Those that earlier rounds trained on.
    """
    held = [name for name in labels if name in before]
    if len(labels) < MIN_HELD_OUT_RECORDINGS:
        return held
    left = Counter(label for name in labels if name not in before for label in set(labels[name]))
    for name in sorted((name for name in whole if name not in before and name not in trained), key=shuffled):
        if len(held) < round(SHARE * len(labels)) and all(left[label] > 1 for label in labels[name]):
            held.append(name)
            left.subtract(set(labels[name]))
    return held


def write_corpus(documents: Mapping[str, Document], held_out: Collection[str], root: Path) -> dict[str, list[Piece]]:
    """Write corrected recordings as a corpus of kind ``textgrid``, in the folders ``train`` and ``test`` of `root`.

    Parameters
    ----------
    documents : mapping of str to Document
        The corrected recordings by name.
    held_out : collection of str
        Those for ``test``.
    root : Path
        A new folder.

    Returns
    -------
    dict of str to list of Piece
        What there is to train on, by recording.

    Raises
    ------
    InputError
        A recording cannot be read.
    """
    trained = {}
    for name, document in documents.items():
        sound = Waveform(document.recording)
        phones = tuple(document.phones)
        parts = [piece for piece in pieces(phones, sound.seconds) if _is_corrected(document, piece)]
        split = "test" if name in held_out else "train"
        stem = root / split / Path(name).parent / Path(name).name.replace(".", "-")
        for number, piece in enumerate(parts, start=1):
            _write(piece, sound, stem.with_name(f"{stem.name}-{number}"))
        sound.close()
        if split == "train" and parts:
            trained[name] = parts
    return trained


def pieces(phones: Sequence[Phone], seconds: float) -> Iterator[Piece]:
    """Yield the parts of a recording that are short enough to train on; a short recording is one."""
    if seconds <= MAX_WHOLE_SECONDS:
        if phones:
            yield Piece(0.0, seconds, tuple(phones))
        return
    first = 0
    for k, phone in enumerate(phones):
        pause = (phones[k + 1].start if k + 1 < len(phones) else seconds + LONG_PAUSE) - phone.end
        long = phone.end - phones[first].start
        if pause >= LONG_PAUSE or (pause >= PAUSE and long >= LEAST_SECONDS) or long >= MAX_WHOLE_SECONDS:
            before = phones[first - 1].end if first else 0.0
            start = max(phones[first].start - AROUND, (before + phones[first].start) / 2)
            yield Piece(start, min(phone.end + min(AROUND, pause / 2), seconds), tuple(phones[first : k + 1]))
            first = k + 1


def _is_corrected(document: Document, piece: Piece) -> bool:
    """Return whether a person worked on a piece."""
    whole = len(piece.phones) == len(document.phones)
    return whole or document.by_hand or any(phone.checked for phone in piece.phones)


def _write(piece: Piece, sound: Waveform, stem: Path) -> None:
    stem.parent.mkdir(parents=True, exist_ok=True)
    first, last = round(piece.start * sound.rate), round(piece.end * sound.rate)
    samples = np.clip(sound.read(first, min(last, sound.frames)), -1, 1)
    write_wav(stem.with_name(f"{stem.name}.wav"), samples, sound.rate)
    seconds = len(samples) / sound.rate
    times = [
        (max(phone.start - piece.start, 0.0), min(phone.end - piece.start, seconds), phone.label)
        for phone in piece.phones
    ]
    intervals = [Interval(round(a, 6), min(round(b, 6), seconds), label) for a, b, label in times if b > a]
    files.write_text(stem.with_name(stem.name + ".TextGrid"), textgrid_text(seconds, {"phones": intervals}))


if __name__ == "__main__":
    open_standard_streams()
    sys.exit(main())
