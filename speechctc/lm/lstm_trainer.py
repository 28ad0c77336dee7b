"""Train an LSTM: steps, epochs, and the state to resume from bit for bit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from speechctc.core.devices import autocast, choose_precision
from speechctc.lm.lstm import IGNORED, LstmModel, Stream, epoch_batches, made_ahead


@dataclass
class Progress:
    """The progress of training.

    Attributes
    ----------
    epoch, batch, step : int
        Epochs done, batches done in the current epoch, steps in all.
    rate : float
        Factor of the learning rate.
    best : float, optional
        Lowest dev perplexity so far.
    waited : int
        Epochs since the best.
    loss : float
        Sum over the events of the current epoch.
    events : int
        Number of these events.
    seconds : float
        Duration of the current epoch so far.
    """

    epoch: int = 0
    batch: int = 0
    step: int = 0
    rate: float = 1.0
    best: float | None = None
    waited: int = 0
    loss: float = 0.0
    events: int = 0
    seconds: float = 0.0


class LstmTrainer:
    """An LSTM in training.

    Parameters
    ----------
    model : LstmModel
        On the device to train on.
    train, dev : sequence of sequence of int
        Labels; neither is empty.
    """

    def __init__(self, model: LstmModel, train: Sequence[Sequence[int]], dev: Sequence[Sequence[int]]) -> None:
        self.model, self.dev = model, dev
        self.stream = Stream.of(train, model.config.longest)
        config = model.config
        self.optimizer = torch.optim.AdamW(model.net.parameters(), config.lr, weight_decay=config.weight_decay)
        self.precision = choose_precision(model.device, config.precision)
        self.progress = Progress()

    @property
    def is_done(self) -> bool:
        """Whether training is finished."""
        config = self.model.config
        return self.progress.epoch >= config.epochs or self.progress.waited >= config.patience

    def epoch(self, between: Callable[[], bool]) -> dict[str, Any] | None:
        """Finish the current epoch and score dev.

        Parameters
        ----------
        between : callable
            Called after each step; training stops there if it returns true.

        Returns
        -------
        dict or None
            The epoch's line of the log; None if training was stopped.
        """
        config, at = self.model.config, self.progress
        batches = epoch_batches(self.stream.lengths, config.batch_size, config.batch_phones, (config.seed, at.epoch))
        ahead = made_ahead(self.stream, batches[at.batch :], self.model.device.type == "cuda")
        began = time.perf_counter()
        try:
            for tokens, targets in ahead:
                self._step(tokens, targets)
                now = time.perf_counter()
                at.seconds, began = at.seconds + now - began, now
                if between():
                    return None
        finally:
            ahead.close()  # type: ignore[attr-defined]
        return self._finish_epoch()

    def _step(self, tokens: Tensor, targets: Tensor) -> None:
        config, at, net, device = self.model.config, self.progress, self.model.net, self.model.device
        torch.manual_seed(int(np.random.SeedSequence([config.seed, at.step]).generate_state(1, np.uint64)[0] >> 1))
        net.train()
        events = int((targets != IGNORED).sum())
        tokens, targets = (part.to(device, non_blocking=True) for part in (tokens, targets))
        with autocast(device, self.precision):
            logits = net(tokens)[0]
        loss = nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORED)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), config.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = config.lr * at.rate
        self.optimizer.step()
        at.loss, at.events = at.loss + float(loss.detach()) * events, at.events + events
        at.batch, at.step = at.batch + 1, at.step + 1

    def _finish_epoch(self) -> dict[str, Any]:
        at = self.progress
        events = sum(map(len, self.dev)) + len(self.dev)
        dev = math.exp(-float(self.model.score(self.dev).sum()) / events)
        better = at.best is None or dev < at.best
        line = {
            "epoch": at.epoch + 1,
            "step": at.step,
            "perplexity": math.exp(min(at.loss / at.events, 700)),
            "dev_perplexity": dev,
            "is_best": better,
            "lr": self.model.config.lr * at.rate,
            "phones_per_second": round(at.events / max(at.seconds, 1e-9)),
        }
        rate, waited = (at.rate, 0) if better else (at.rate / 2, at.waited + 1)
        self.progress = Progress(at.epoch + 1, 0, at.step, rate, dev if better else at.best, waited)
        return line

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the optimiser's state, for `restore`."""
        state = self.optimizer.state_dict()["state"]
        return {f"{number}.{name}": value for number, values in state.items() for name, value in values.items()}

    def restore(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        """Restore a saved state.

        Raises
        ------
        KeyError, TypeError, ValueError
            It is not a state that a trainer saved.
        """
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in tensors.items():
            number, _, key = name.partition(".")
            state.setdefault(int(number), {})[key] = value
        whole = self.optimizer.state_dict()
        self.optimizer.load_state_dict({**whole, "state": state})
        self.progress = Progress(**progress)

    def progress_values(self) -> dict[str, Any]:
        """Return `progress` as plain values."""
        return asdict(self.progress)
