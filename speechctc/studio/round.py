"""One training on corrections, as a process: extract, train, score the old and the new model on what was held out.

``python -m speechctc.studio.round FOLDER`` reads the plan of a round, and keeps its state in FOLDER/round.json. SIGTERM
ends the training early; what was trained until then is scored and used.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from speechctc.core import files
from speechctc.core.errors import InputError, some

STATE = "round.json"
NGRAM = "lm.safetensors"  # of a checkpoint
REMEDY = "correct another recording with such a label, or write the label as another, and train again"
MOST_NAMED = 8  # labels


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

    def say(self, **values: Any) -> None:
        """Change the state, for the page to read."""
        self.state |= values
        files.write_json(self.folder / STATE, self.state)

    def go(self) -> None:
        """Extract, train and score; the state says how it ended."""
        self.say(state="preparing", process=os.getpid())
        try:
            self._train()
        except Ended:
            self.say(state="stopped", line="stopped before there was a model")
            return
        except InputError as error:
            # the remedies of other errors are for the command line
            self.say(state="failed", line=str(error) if error.fix == REMEDY else error.what)
            return
        except Exception as error:
            self.say(
                state="failed", line=f"{type(error).__name__}: {error}; the whole message is in {self.folder}/log.txt"
            )
            raise
        self.keep_ngram()
        self._score()

    def _train(self) -> None:
        from speechctc.config.load import override, parse_config
        from speechctc.core.progress import Reporter
        from speechctc.stages.extract import extract
        from speechctc.stages.train import Stopped, train

        stored = files.read_json(Path(self.state["model"]) / "checkpoint.json")["config"]
        config = parse_config(override({**stored, "corpus": self.corpus()}, self.settings()), "this round")
        found = {each.split: each.utterances for each in extract(config, Reporter(quiet=True))}
        if not found["dev"]:
            raise InputError(self._why_no_dev(), REMEDY)
        self.say(state="training")
        try:
            train(config, True, Reporter(quiet=True))
        except Stopped:
            if not (self.run / "best").exists():
                raise Ended from None
            self.say(line="stopped early")

    def _why_no_dev(self) -> str:
        rare = self.state.get("rare", [])
        why = f"each has a label that no other has: {some(rare, MOST_NAMED)}" if rare else "there is too little"
        return f"no recording can be set aside to choose the best epoch, because {why}"

    def corpus(self) -> dict[str, Any]:
        """Return the section ``corpus`` of the config."""
        root, phones, share = str(self.folder / "corpus"), self.state["phones"], self.state["dev_share"]
        return {"kind": "textgrid", "root": root, "tier": "phones", "phones": phones, "dev_share": share}

    def settings(self) -> list[str]:
        """Return the other settings that differ from those of the model to go on from."""
        given = {
            "run": self.run,
            "data.dir": self.folder / "features",
            "train.init_from": self.state["model"],
            "train.epochs": self.state["epochs"],
            "train.minutes": self.state["minutes"],
            "train.lr": self.state["lr"],
            "train.save_minutes": 1,
            "train.device": "auto",
            "score.fold": "none",
        }
        return _settings(given)

    def keep_ngram(self) -> None:
        """Give the new model the n-gram of the one before, if their phones are the same.

        That of a few corrections knows little, and the weight it would have was tuned for the other.
        """
        old, new = Path(self.state["model"]), self.run / "best"
        phones = [files.read_json(model / "checkpoint.json")["phones"]["list"] for model in (old, new)]
        if (old / NGRAM).exists() and phones[0] == phones[1]:
            files.write_bytes(new / NGRAM, (old / NGRAM).read_bytes())

    def _score(self) -> None:
        """Score both models on the recordings that were held out."""
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self.say(state="scoring")
        try:
            scores = {"before": self._per(Path(self.state["model"])), "after": self._per(self.run / "best")}
        except InputError as error:
            self.say(state="done", line=f"the models could not be scored: {error}")
            return
        self.say(state="done", **scores)

    def _per(self, model: Path) -> dict[str, Any] | None:
        """Return a model's PER on what was held out, its interval and a caution; None if nothing was."""
        if not self.state["test"]:
            return None
        from speechctc.core.progress import Reporter
        from speechctc.inference.recogniser import Recogniser
        from speechctc.stages.evaluate import evaluate

        corpus = {f"corpus.{key}": value for key, value in self.corpus().items()}
        settings = _settings({**corpus, "score.fold": "none"})
        found = evaluate(Recogniser.load(model), "test", settings, Reporter(quiet=True))
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
        raise Ended

    signal.signal(signal.SIGTERM, end)
    round_.go()
    return 0 if round_.state["state"] == "done" else 1


if __name__ == "__main__":
    sys.exit(main())
