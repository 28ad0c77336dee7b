"""Train again from corrections: rounds in a folder beside the recordings, and the model in use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from speechctc.core import files, written
from speechctc.core.errors import InputError
from speechctc.core.stopping import OWN_GROUP, STOP
from speechctc.phones.inventory import NAMED
from speechctc.stages.start import advise
from speechctc.studio.corpus import Corrections, choose_held_out, write_corpus
from speechctc.studio.document import Document
from speechctc.studio.round import STATE

LEAST = 2  # corrected recordings: one chooses the best epoch
MOST_MINUTES = 24 * 60.0
RUNNING = ("preparing", "training", "scoring")
# For phones that the model knows: larger rates or more epochs forget more than corrections teach (bench_corrections).
KNOWN_PHONES = {"epochs": 8, "lr": 1e-4}


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
        try:
            name = files.read_json(self.folder / "studio.json")["model"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        model = self.folder / name if isinstance(name, str) and name else None
        return model if model is not None and (model / "checkpoint.json").exists() else None

    def choose(self, model: Path | None) -> None:
        """Remember the model to use when the studio is opened again, and that the rounds so far were looked at."""
        written.refuse_linked_folder(self.folder)
        self.folder.mkdir(exist_ok=True)
        name = str(model.relative_to(self.folder)) if model is not None else ""
        files.write_json(self.folder / "studio.json", {"model": name, "round": max(self._rounds(), default=0)})

    def new_model(self) -> tuple[Path | None, str] | None:
        """Return the model to use from now on after a round has ended, and a line on it; None if nothing is new.

        It is the round's, unless that made more errors on the recordings held out than the one before; then it is None.
        """
        state = self.status()
        try:
            looked_at = files.read_json(self.folder / "studio.json")["round"]
        except (OSError, ValueError, KeyError, TypeError):
            looked_at = 0
        number = state.get("round", 0)
        model = self._round(number) / "run" / "best"
        if state.get("state") != "done" or number <= looked_at or not (model / "checkpoint.json").exists():
            return None
        before, after = state.get("before"), state.get("after")
        if before and after and after["per"] > before["per"]:
            return None, "the model before is kept in use, as it makes fewer errors on what was held out"
        return model, "the new model is in use; the one before is kept"

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
        """Start a round in its own process.

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
        if not 0 < minutes <= MOST_MINUTES:
            raise InputError(f"{minutes:g} minutes of training", f"choose more than 0 and at most {MOST_MINUTES:g}")
        if len(documents) < LEAST:
            what = f"{len(documents)} corrected recordings, and training needs {LEAST}: one chooses the best epoch"
            raise InputError(what, "correct more of them")
        written.refuse_linked_folder(self.folder)
        number = max(self._rounds(), default=0) + 1
        folder = self._round(number)
        try:
            folder.mkdir(parents=True)
        except OSError as error:
            raise InputError(
                f"{folder}: cannot be made ({error.strerror})", "change the folder's permissions"
            ) from None
        before = [self._state(k) for k in self._rounds() if k != number]
        held_before = {name for state in before for name in state.get("test", ())}
        trained = {name for state in before for name in state.get("train", ())}
        whole = [name for name, document in documents.items() if document.is_whole]
        labels = {name: {phone.label for phone in document.phones} for name, document in documents.items()}
        held = choose_held_out(labels, whole, held_before, trained)
        if len(held) > len(documents) - LEAST:
            held = []
        found = write_corpus(documents, held, folder / "corpus")
        files.write_json(folder / STATE, _plan(found, model, phones, minutes))
        self._launch(folder)

    def _launch(self, folder: Path) -> None:
        log = open(folder / "log.txt", "wb")
        with log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "speechctc.studio.round", str(folder)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **OWN_GROUP,
            )
        threading.Thread(target=self._process.wait, daemon=True).start()

    def stop(self) -> None:
        """Ask the round that is running to end; what it has trained is scored and used."""
        state = self.status()
        if state.get("state") in ("preparing", "training") and (process := state.get("process")):
            with suppress(ProcessLookupError):
                os.kill(int(process), STOP)

    def is_running(self) -> bool:
        """Return whether a round is running, also one that a studio began which was killed since."""
        return self.status().get("state") in RUNNING

    def status(self) -> dict[str, Any]:
        """Return the state of the last round, with the curve of its epochs; ``{}`` if there was none."""
        number = max(self._rounds(), default=0)
        if not number:
            return {}
        state = self._state(number)
        if state.get("state") in RUNNING and not self._is_alive(state):
            state = self._state(number)  # it may have ended between the two
            if state.get("state") in RUNNING:
                line = f"the training's process ended; its messages are in {self._round(number)}/log.txt"
                state |= {"state": "failed", "line": line}
        return state | {"round": number, "curve": self._curve(number)}

    def _is_alive(self, state: Mapping[str, Any]) -> bool:
        if self._process is not None:
            return self._process.poll() is None
        process = state.get("process")
        return isinstance(process, int) and psutil.pid_exists(process)

    def _curve(self, number: int) -> list[dict[str, Any]]:
        lines = []
        with suppress(OSError, ValueError):
            for line in (self._round(number) / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                lines.append({key: entry[key] for key in ("epoch", "loss", "dev_loss", "dev_per", "minutes")})
        return lines

    def _rounds(self) -> list[int]:
        names = [path.name.removeprefix("round-") for path in self.folder.glob("round-*")]
        return sorted(int(name) for name in names if name.isdecimal())

    def _round(self, number: int) -> Path:
        return self.folder / f"round-{number}"

    def _state(self, number: int) -> dict[str, Any]:
        try:
            state = files.read_json(self._round(number) / STATE)
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}


def _plan(found: Corrections, model: Path, phones: list[str], minutes: float) -> dict[str, Any]:
    """Return the first state of a round: what it trains on, and how."""
    advice = advise(found.seconds / 60, len(found.speakers))
    named = next((name for name, known in NAMED.items() if sorted(known) == sorted(phones)), None)
    fits = named is not None and set(found.labels) <= set(phones)
    plan = {
        "state": "preparing",
        "line": "",
        "model": str(model),
        "epochs": advice.epochs,
        "minutes": minutes,
        "lr": advice.lr,
        "dev_share": advice.dev_share,
        "phones": named if fits else "found",
        "forgotten": [] if fits else sorted(set(phones) - set(found.labels)),
        "rare": sorted(label for label, count in found.labels.items() if count == 1),
        "train": found.recordings,
        "test": found.held_out,
        "facts": {
            "pieces": found.pieces,
            "phones": found.phones,
            "checked": found.checked,
            "seconds": found.seconds,
        },
    }
    return plan | KNOWN_PHONES if fits else plan
