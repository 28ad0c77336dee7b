"""Train an LSTM language model in a folder.

Training can be killed at any moment, or stopped by Ctrl-C or SIGTERM, and resumed: ``last/`` holds the weights, the
optimiser's state and the position in the epoch. On a CPU the result is the same bit for bit.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import ValidationError

from speechctc.config.load import explain, override
from speechctc.core import files
from speechctc.core.devices import choose_device
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.core.training_process import only_training, stop_requests
from speechctc.lm.lstm import LstmConfig, LstmModel, LstmTrainer, PhoneLstm, SavedLstm, load_lstm, save_lstm
from speechctc.lm.model import ABOUT
from speechctc.model.checkpoint import provenance
from speechctc.phones.inventory import Inventory, encode_text
from speechctc.stages.lm_texts import PhoneText
from speechctc.training.runs import Run

SAVE_SECONDS = 600.0
MAY_CHANGE = {"epochs", "patience", "device"}

Labels = Sequence[Sequence[int]]
Texts = tuple[Labels, Labels]


class LstmTraining:
    """The training of an LSTM in its folder.

    Parameters
    ----------
    out : Path
        If it holds a ``last/`` and `resume` is true, training is resumed from there.
    inventory : Inventory
    config : LstmConfig
        A training that is resumed keeps its settings but for those that are set here.
    texts : (sequence of sequence of int, sequence of sequence of int)
        The labels of train and of dev.
    resume : bool
    reporter : Reporter

    Raises
    ------
    InputError
        There is something at `out` and `resume` is false, or it was trained with other settings or on another text.
    """

    def __init__(
        self, out: Path, inventory: Inventory, config: LstmConfig, texts: Texts, resume: bool, reporter: Reporter
    ) -> None:
        self.run, self.reporter, self.status = Run(out), reporter, 0
        self.data = _fingerprint(texts, inventory)
        there = out.is_file() or (out.exists() and any(path.name != "lock" for path in out.iterdir()))
        if there and not resume:
            raise InputError(f"{out}: exists already", "go on with it by --resume, or name another with --out")
        saved = self._saved() if there else None
        config = _continued(out, saved.model.config, config) if saved else config
        device = choose_device(config.device)
        torch.manual_seed(config.seed)
        model = LstmModel(PhoneLstm(len(inventory.phones) + 1, config).to(device), inventory, config)
        self.trainer = LstmTrainer(model, *texts)
        if saved:
            self._restore(saved)

    def train(self) -> None:
        """Train to the end, or until a signal, whose exit status is then `status`."""
        trainer = self.trainer
        # Before the first best/ there is a last/: without it, nobody could tell that it was not removed.
        saved = time.monotonic() if (self.run.last / ABOUT).exists() else -SAVE_SECONDS

        def between() -> bool:
            nonlocal saved
            if self.status or time.monotonic() - saved > SAVE_SECONDS:
                self._save(self.run.last, whole=True)
                saved = time.monotonic()
            return bool(self.status)

        with only_training(), self.run.locked(), stop_requests(self.request_stop):
            while not trainer.is_done and not self.status:
                line = trainer.epoch(between)
                if line is None:
                    break
                if line["is_best"]:
                    self._save(self.run.best)
                self.run.log(line)
                self._save(self.run.last, whole=True)
                self.reporter.note(_said(line, trainer.model.config.epochs))

    def request_stop(self, status: int) -> None:
        """End with this status after the present batch, and save."""
        self.status = status

    def _save(self, folder: Path, whole: bool = False) -> None:
        self.run.check_place()
        trainer = self.trainer
        at = trainer.progress
        facts = {"epoch": at.epoch, "dev_perplexity": at.best, "data": self.data, **provenance()}
        if whole:
            facts["progress"] = asdict(at)
        save_lstm(folder, SavedLstm(trainer.model, facts, trainer.optimizer.to_tensors() if whole else {}))

    def _saved(self) -> SavedLstm | None:
        for folder in (self.run.last, self.run.best):
            files.settle_folder(folder)
            if (folder / ABOUT).exists():
                saved = load_lstm(folder, with_state=folder == self.run.last)
                if saved.facts.get("data") != self.data:
                    what = f"{self.run.folder}: it was trained on another text"
                    raise InputError(what, "name another folder with --out")
                if folder == self.run.best:
                    what = f"{self.run.folder}: last/, from which training goes on, is not there; best/ is"
                    raise InputError(what, "restore it, or name another folder with --out")
                return saved
        if any((self.run.folder / name).exists() for name in ("checkpoint.json", "best", "last")):
            raise InputError(f"{self.run.folder}: no training of a language model", "name another with --out")
        return None

    def _restore(self, saved: SavedLstm) -> None:
        self.trainer.model.net.load_state_dict(saved.model.net.state_dict())
        self.trainer.restore(saved.state, saved.facts["progress"])


def _continued(out: Path, before: LstmConfig, given: LstmConfig) -> LstmConfig:
    """Return the settings of a training that goes on: what it had, with those that are given and may change."""
    now = {key: getattr(given, key) for key in given.model_fields_set}
    if changed := [key for key in now if now[key] != getattr(before, key) and key not in MAY_CHANGE]:
        key = changed[0]
        what = f"it was trained with lm.{key}={getattr(before, key)}, not {now[key]}"
        raise InputError(f"{out}: {what}", "leave the setting out, or name another folder with --out")
    return before.model_copy(update=now)


def lstm_config(settings: Sequence[str]) -> LstmConfig:
    """Return the settings given as ``lm.KEY=VALUE``.

    Raises
    ------
    InputError
        A key does not exist, or a value is out of range.
    """
    try:
        return LstmConfig.model_validate(override({}, settings).get("lm", {}))
    except ValidationError as error:
        raise InputError(*explain(error, "the language model", settings, LstmConfig, "lm.")) from None


def train_and_dev(
    train: PhoneText, dev: PhoneText | None, inventory: Inventory, reporter: Reporter
) -> tuple[list[list[int]], list[list[int]]]:
    """Return the labels of train and dev; without a dev text, a tenth of the utterances, which is reported.

    Raises
    ------
    InputError
        A word is not a phone of the set, or there is only one utterance.
    """
    labels = encode_text(train.name, train.utterances, inventory)
    if dev is not None:
        return labels, encode_text(dev.name, dev.utterances, inventory)
    if len(labels) < 2:
        raise InputError(f"{train.name}: one utterance cannot be trained on and held out", "name a text with --dev")
    count = max(len(labels) // 10, 1)
    order = np.random.default_rng(0).permutation(len(labels)).tolist()
    reporter.note(f"{count} of the {len(labels)} utterances, chosen at random, are held out as dev")
    return [labels[k] for k in sorted(order[count:])], [labels[k] for k in sorted(order[:count])]


def _said(line: dict[str, Any], epochs: int) -> str:
    star = " *" if line["is_best"] else ""
    return (
        f"epoch {line['epoch']:3d} of {epochs}  perplexity {line['perplexity']:.2f}"
        f"  dev {line['dev_perplexity']:.2f}{star}  {line['phones_per_second']:,} phones/s"
    )


def _fingerprint(texts: Texts, inventory: Inventory) -> str:
    digest = hashlib.sha256(" ".join(inventory.phones).encode())
    for labels in texts:
        for utterance in labels:
            digest.update(np.array([*utterance, 0], np.int32).tobytes())
    return digest.hexdigest()
