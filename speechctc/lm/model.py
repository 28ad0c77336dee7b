"""The protocol of language models of phones, and n-grams in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from speechctc.core import files
from speechctc.lm.automaton import END, PhoneLM
from speechctc.lm.ngram import Reals
from speechctc.phones.inventory import Inventory

Sequences = Sequence[Sequence[int]]

ABOUT = "lm.json"
"""The file of an LSTM's folder that says what it is."""


class LanguageModel(Protocol):
    """A probability distribution over sequences of phones; class 0 is the end, phones count from 1."""

    @property
    def inventory(self) -> Inventory:
        """The phones."""

    @property
    def kind(self) -> str:
        """A description, such as ``"4-gram"``."""

    def score(self, sequences: Sequences) -> Reals:
        """Return the log probability of each sequence, including its end; shape = (n_sequences,)."""

    def begin(self, count: int) -> Any:
        """Return the state at the start of `count` utterances."""

    def step(self, state: Any, labels: Sequence[int] | None) -> tuple[Reals, Any]:
        """Append a phone to each utterance (none at the start).

        Returns
        -------
        log_probs : ndarray, shape = (n_utterances, classes)
            Log probability of each next class.
        state : any
        """


@dataclass(frozen=True)
class NgramModel:
    """An n-gram as a language model.

    Attributes
    ----------
    lm : PhoneLM
    inventory : Inventory
    kind : str
    missing : tuple of str
        Phones that it has no probability for.
    """

    lm: PhoneLM
    inventory: Inventory
    kind: str = "n-gram"
    missing: tuple[str, ...] = ()

    def score(self, sequences: Sequences) -> Reals:
        """Return the log probability of each sequence, including its end; shape = (n_sequences,)."""
        return np.array([self.lm.log_prob(labels) for labels in sequences])

    def begin(self, count: int) -> Any:
        """Return the state at the start of `count` utterances."""
        return np.zeros(count, np.int64)

    def step(self, state: Any, labels: Sequence[int] | None) -> tuple[Reals, Any]:
        """Append a phone to each utterance (none at the start); see `LanguageModel.step`."""
        state = state if labels is None else self.lm.next_state[state, np.asarray(labels)]
        return self.lm.log_probs[state].astype(np.float64), state


@dataclass(frozen=True)
class PartModel:
    """A language model of which only some phones are said; its probabilities are those of `whole`.

    Given that only these phones are said, all sequences have a probability higher by the same factor.

    Attributes
    ----------
    whole : LanguageModel
    inventory : Inventory
        The phones that are left.
    kept : sequence of int
        Their classes in `whole`, after class 0.
    """

    whole: LanguageModel
    inventory: Inventory
    kept: Sequence[int]

    @property
    def kind(self) -> str:
        """That of `whole`."""
        return self.whole.kind

    def score(self, sequences: Sequences) -> Reals:
        """Return the log probability of each sequence, including its end; shape = (n_sequences,)."""
        return self.whole.score([[self.kept[label] for label in labels] for labels in sequences])

    def begin(self, count: int) -> Any:
        """Return the state at the start of `count` utterances."""
        return self.whole.begin(count)

    def step(self, state: Any, labels: Sequence[int] | None) -> tuple[Reals, Any]:
        """Append a phone to each utterance (none at the start); see `LanguageModel.step`."""
        log_probs, state = self.whole.step(state, None if labels is None else [self.kept[each] for each in labels])
        return log_probs[:, list(self.kept)], state


def sample(
    model: LanguageModel, count: int, seed: int, temperature: float, prefix: Sequence[int], longest: int
) -> Iterator[list[int]]:
    """Draw sequences of phones.

    Parameters
    ----------
    model : LanguageModel
    count : int
    seed : int
    temperature : float
        Log probabilities are divided by it; 0: always the most probable phone.
    prefix : sequence of int
        Beginning of each sequence.
    longest : int
        Most phones in a sequence.
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        labels = list(prefix)
        log_probs, state = model.step(model.begin(1), None)
        for label in labels:
            log_probs, state = model.step(state, [label])
        while len(labels) < longest and (label := _draw(log_probs[0], temperature, rng)) != END:
            labels.append(label)
            log_probs, state = model.step(state, [label])
        yield labels


def _draw(log_probs: Reals, temperature: float, rng: np.random.Generator) -> int:
    if temperature == 0:
        return int(log_probs.argmax())
    noise = rng.gumbel(size=len(log_probs))  # the maximum of log p + Gumbel noise is a draw from p
    return int((log_probs / temperature + noise).argmax())


def find_lstm(path: Path) -> Path | None:
    """Return the folder of the model in a folder of ``lm train``: itself, its ``best`` or its ``last``."""
    places = (path, path / "best", path / "last")
    return next((folder for folder in places if (files.standing(folder) / ABOUT).is_file()), None)
