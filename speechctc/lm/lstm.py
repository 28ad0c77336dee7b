"""A recurrent language model of phones, an LSTM: the net, its padded batches, its training, and its files.

A trained LSTM in a folder, loaded without pickle.

weights.safetensors    the net's tensors
lm.json                format, phones, settings, epoch, dev perplexity, versions
state.safetensors      only in ``last/``: the state to resume training from
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, ValidationError
from safetensors import SafetensorError
from torch import Tensor, nn

from speechctc.config.section import Section
from speechctc.core import files
from speechctc.core.devices import autocast, choose_precision, is_out_of_memory
from speechctc.core.errors import InputError
from speechctc.core.optimizers import AdamW
from speechctc.core.tensor_file import (
    CHECKSUMS,
    check_description,
    load_arrays,
    load_weights,
    save_tensors,
    shapes,
    write_description,
)
from speechctc.lm.model import ABOUT, Sequences
from speechctc.lm.ngram import Integers, Reals
from speechctc.phones.inventory import Inventory, check_labels

SCORED = 16_384  # events in a batch that is scored, padding included

IGNORED = -100  # target of padding, as in torch's cross entropy
WINDOW = 50  # batches whose utterances are sorted by length together

FORMAT = 1
WEIGHTS, STATE = "weights.safetensors", "state.safetensors"
_MOST_STATE, _STATE_PER_WEIGHT = 1 << 20, 16  # an optimiser keeps a few numbers for each weight


class LstmConfig(Section):
    """The net and its training; set on the command line as ``lm.hidden=512``."""

    embedding: int = Field(64, ge=1, le=8192, description="size of a phone's embedding")
    hidden: int = Field(256, ge=1, le=8192, description="units of each layer")
    layers: int = Field(2, ge=1, le=8)
    dropout: float = Field(
        0.4, ge=0, lt=1, description="dropout after the embedding, between layers and after the last"
    )
    epochs: int = Field(60, ge=1, description="most passes over the training text")
    patience: int = Field(4, ge=1, description="end after this many epochs without a better dev perplexity")
    batch_size: int = Field(32, ge=1, description="most utterances in a batch")
    batch_phones: int = Field(8192, ge=1, description="most phones in a batch, padding included")
    longest: int = Field(512, ge=1, description="longest utterance, phones; longer ones are trained on in parts")
    lr: float = Field(3e-3, gt=0, description="learning rate; halved after an epoch without a better dev perplexity")
    weight_decay: float = Field(0.01, ge=0)
    clip: float = Field(1.0, gt=0, description="largest norm of the gradient")
    seed: int = Field(1, ge=0, description="seed for the weights, the order of batches and dropout")
    precision: Literal["float32", "bfloat16", "auto"] = Field(
        "auto", description="auto: bfloat16 where hardware has it"
    )
    device: Literal["auto", "cpu", "cuda"] = "auto"


class PhoneLstm(nn.Module):
    """Maps tokens to the logits of the next ones. Token 0 is the start as input and the end as output.

    Parameters
    ----------
    classes : int
        The number of phones and 1.
    config : LstmConfig
    """

    def __init__(self, classes: int, config: LstmConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, config.embedding)
        between = config.dropout if config.layers > 1 else 0.0
        self.lstm = nn.LSTM(config.embedding, config.hidden, config.layers, batch_first=True, dropout=between)
        self.dropout = nn.Dropout(config.dropout)
        self.output = nn.Linear(config.hidden, classes)

    def forward(self, tokens: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Any]:
        """Return logits of shape (n_batch, length, classes), and the state after the last token.

        Parameters
        ----------
        tokens : Tensor, shape = (n_batch, length)
        state : tuple of Tensor, optional
            The state after the tokens before; None: at the start.
        """
        hidden, state = self.lstm(self.dropout(self.embedding(tokens)), state)
        return self.output(self.dropout(hidden)), state


@dataclass(frozen=True, eq=False)
class LstmModel:
    """A trained LSTM as a language model.

    Attributes
    ----------
    net : PhoneLstm
    inventory : Inventory
    config : LstmConfig
    """

    net: PhoneLstm
    inventory: Inventory
    config: LstmConfig

    @property
    def kind(self) -> str:
        """Layers and units, in words."""
        return f"LSTM of {self.config.layers} x {self.config.hidden}"

    @property
    def device(self) -> torch.device:
        """The device of the net."""
        return self.net.output.weight.device

    @torch.inference_mode()
    def score(self, sequences: Sequences) -> Reals:
        """Return the log probability of each sequence, including its end; shape = (n_sequences,)."""
        self.net.eval()
        pieces, scores = pieces_of(sequences), np.zeros(len(sequences))
        for members in batches_by_length(lengths_of(pieces), len(sequences), SCORED):
            tokens, targets = (part.to(self.device) for part in padded(pieces, members))
            losses = nn.functional.cross_entropy(
                self.net(tokens)[0].float().transpose(1, 2), targets, reduction="none", ignore_index=-100
            )
            scores[members] = -losses.double().sum(1).cpu().numpy()
        return scores

    def begin(self, count: int) -> Any:
        """Return the state at the start of `count` utterances."""
        self.net.eval()
        shape = self.net.lstm.num_layers, count, self.net.lstm.hidden_size
        return torch.zeros(shape, device=self.device), torch.zeros(shape, device=self.device)

    @torch.inference_mode()
    def step(self, state: Any, labels: Sequence[int] | None) -> tuple[Reals, Any]:
        """Append a phone to each utterance (none at the start); see `LanguageModel.step`."""
        tokens = torch.zeros(state[0].shape[1]) if labels is None else torch.tensor(labels)
        logits, state = self.net(tokens.long()[:, None].to(self.device), state)
        return logits[:, 0].double().log_softmax(1).cpu().numpy(), state


def pieces_of(sequences: Sequences, longest: int | None = None) -> list[NDArray[np.int32]]:
    """Return what the net reads of utterances, in pieces of at most `longest` tokens and the token after them.

    Each utterance has a 0 before its first phone and after its last; the target of a token is the token after it.
    """
    pieces = []
    for labels in sequences:
        tokens = np.array([0, *labels, 0], np.int32)
        step = longest or len(tokens)
        pieces += [tokens[start : start + step + 1] for start in range(0, len(tokens) - 1, step)]
    return pieces


def lengths_of(pieces: Sequence[NDArray[np.int32]]) -> Integers:
    """Return the number of tokens of each piece, the one after them not counted."""
    return np.array([len(piece) - 1 for piece in pieces], np.int64)


def padded(pieces: Sequence[NDArray[np.int32]], members: Integers) -> tuple[Tensor, Tensor]:
    """Return tokens and targets of some pieces, each (n_members, longest); targets of padding are `IGNORED`."""
    chosen = [torch.from_numpy(pieces[member].astype(np.int64)) for member in members]
    tokens = nn.utils.rnn.pad_sequence([each[:-1] for each in chosen], batch_first=True)
    targets = nn.utils.rnn.pad_sequence([each[1:] for each in chosen], batch_first=True, padding_value=IGNORED)
    return tokens, targets


def batches_by_length(lengths: Integers, most: int, most_tokens: int, order: Integers | None = None) -> list[Integers]:
    """Cut pieces into batches of similar length.

    Parameters
    ----------
    lengths : ndarray, shape = (pieces,)
    most, most_tokens : int
        Most pieces in a batch, and most tokens with padding.
    order : ndarray, optional
        The order of the pieces; None: all sorted by length.
    """
    order = np.argsort(lengths, kind="stable") if order is None else order
    batches: list[Integers] = []
    begin = 0
    while begin < len(order):
        size = 1
        while begin + size < len(order) and size < most:
            if (size + 1) * lengths[order[begin : begin + size + 1]].max() > most_tokens:
                break
            size += 1
        batches.append(order[begin : begin + size])
        begin += size
    return batches


def epoch_batches(lengths: Integers, most: int, most_tokens: int, seed: tuple[int, int]) -> list[Integers]:
    """Return the batches of an epoch in random order; the members of each have similar lengths."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(lengths))
    window = WINDOW * most
    for begin in range(0, len(order), window):
        part = order[begin : begin + window]
        order[begin : begin + window] = part[np.argsort(lengths[part], kind="stable")]
    batches = batches_by_length(lengths, most, most_tokens, order)
    return [batches[k] for k in rng.permutation(len(batches))]


@dataclass(frozen=True)
class SavedLstm:
    """The contents of the folder of an LSTM.

    Attributes
    ----------
    model : LstmModel
    facts : dict
        Epoch, dev perplexity, versions; plain values.
    state : dict of str to Tensor
        State of the optimiser; empty except in ``last/``.
    """

    model: LstmModel
    facts: dict[str, Any] = field(default_factory=dict)
    state: Mapping[str, Tensor] = field(default_factory=dict)


def save_lstm(folder: Path, saved: SavedLstm) -> None:
    """Write a model, whole or not at all."""
    model = saved.model
    about = {
        "format": FORMAT,
        "kind": "lstm",
        **saved.facts,
        "phones": {"name": model.inventory.name, "list": list(model.inventory.phones)},
        "settings": model.config.model_dump(mode="json"),
    }

    def write(beside: Path) -> None:
        weights = {name: value.contiguous() for name, value in model.net.state_dict().items()}
        save_tensors(beside / WEIGHTS, weights)
        if saved.state:
            save_tensors(beside / STATE, saved.state)
        write_description(beside / ABOUT, about, (WEIGHTS, STATE))

    files.write_folder(folder, write)


def load_lstm(folder: Path, device: str | torch.device = "cpu", with_state: bool = False) -> SavedLstm:
    """Read a model onto a device; with `with_state`, also the state of its optimiser.

    Raises
    ------
    InputError
        It is damaged or has another format version.
    """
    return files.read_folder(folder, lambda place: _load(place, torch.device(device), with_state))


def _load(folder: Path, device: torch.device, with_state: bool) -> SavedLstm:
    try:
        about = files.read_json(folder / ABOUT)
        if about["format"] != FORMAT:
            raise InputError(
                f"{folder}: a language model of format {about['format']}; this version reads format {FORMAT}",
                "use it with the version that made it, or train again",
            )
        config = LstmConfig.model_validate(about["settings"])
        inventory = Inventory(about["phones"]["name"], tuple(about["phones"]["list"]))
        check_labels(inventory.phones)
        with torch.device("meta"):  # before memory is taken
            wanted = PhoneLstm(len(inventory.phones) + 1, config).state_dict()
        if shapes(folder / WEIGHTS) != {name: tuple(value.shape) for name, value in wanted.items()}:
            raise ValueError("weights of other shapes than the settings ask for")
        net = PhoneLstm(len(inventory.phones) + 1, config)
        weights = load_weights(folder / WEIGHTS)
        net.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
        saved_state = folder / STATE
        most = _MOST_STATE + _STATE_PER_WEIGHT * sum(each.nbytes for each in weights.values())
        state = load_arrays(saved_state, most) if with_state and saved_state.exists() else {}
        check_description(folder / ABOUT, about, (WEIGHTS, STATE) if with_state else (WEIGHTS,))
    except (OSError, SafetensorError, KeyError, TypeError, RuntimeError, ValueError, ValidationError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{folder}: the language model is damaged ({reason})", "use another, or train again") from None
    facts = {
        key: value for key, value in about.items() if key not in ("format", "kind", "phones", "settings", CHECKSUMS)
    }
    tensors = {name: torch.from_numpy(value) for name, value in state.items()}
    return SavedLstm(LstmModel(net.to(device).eval(), inventory, config), facts, tensors)


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


def _possible(chosen: str, wanted: str, device: torch.device) -> str:
    """Return the precision if an LSTM can be computed in it: on a CPU, oneDNN may not have it where torch thinks so."""
    if chosen == "float32":
        return chosen
    try:
        with torch.no_grad(), autocast(device, chosen):
            nn.LSTM(8, 8, batch_first=True, device=device)(torch.zeros(1, 1, 8, device=device))
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        if wanted != "auto":
            what = f"lm.precision={wanted}: this processor, as oneDNN uses it, has no LSTM in {wanted}"
            raise InputError(what, "set lm.precision=float32, or auto") from None
        return "float32"
    return chosen


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
        self.pieces = pieces_of(train, model.config.longest)
        config = model.config
        self.optimizer = AdamW([{"params": [*model.net.parameters()], "weight_decay": config.weight_decay}], config.lr)
        self.precision = _possible(choose_precision(model.device, config.precision), config.precision, model.device)
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
        lengths = lengths_of(self.pieces)
        batches = epoch_batches(lengths, config.batch_size, config.batch_phones, (config.seed, at.epoch))
        began = time.perf_counter()
        for members in batches[at.batch :]:
            self._step(*padded(self.pieces, members))
            now = time.perf_counter()
            at.seconds, began = at.seconds + now - began, now
            if between():
                return None
        return self._finish_epoch()

    def _step(self, tokens: Tensor, targets: Tensor) -> None:
        config, at, net, device = self.model.config, self.progress, self.model.net, self.model.device
        torch.manual_seed(int(np.random.SeedSequence([config.seed, at.step]).generate_state(1, np.uint64)[0] >> 1))
        net.train()
        events = int((targets != IGNORED).sum())
        tokens, targets = (part.to(device) for part in (tokens, targets))
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

    def restore(self, tensors: Mapping[str, Tensor], progress: Mapping[str, Any]) -> None:
        """Restore the state of the optimiser, and the progress.

        Raises
        ------
        LookupError, TypeError, ValueError
            They are not those of such a training.
        """
        self.optimizer.restore(tensors)
        self.progress = Progress(**progress)
