"""Perplexity of language models, with a confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from speechctc.core.errors import columns
from speechctc.lm.model import LanguageModel

RESAMPLES = 1000


@dataclass(frozen=True)
class Perplexity:
    """The perplexity of a text under a language model.

    Attributes
    ----------
    lm, text : str
        Names of the model and of the text.
    utterances, phones : int
    perplexity : float
        ``exp(-log p / n)``, where the n events are the phones and the ends of the utterances.
    low, high : float
        Bounds of its 95 % bootstrap interval over utterances.
    """

    lm: str
    text: str
    utterances: int
    phones: int
    perplexity: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "bits_per_event": math.log2(self.perplexity)}


def perplexity(lm: LanguageModel, name: str, text: str, labels: Sequence[Sequence[int]]) -> Perplexity:
    """Score a text.

    Parameters
    ----------
    lm : LanguageModel
    name, text : str
        For the report.
    labels : sequence of sequence of int
        Utterances; at least one.
    """
    scores = lm.score(labels)
    events = np.array([len(utterance) + 1 for utterance in labels])
    draws = np.random.default_rng(0).integers(len(labels), size=(RESAMPLES, len(labels)))
    low, high = np.percentile(np.exp(-scores[draws].sum(1) / events[draws].sum(1)), [2.5, 97.5])
    phones = int(events.sum()) - len(labels)
    value = float(np.exp(-scores.sum() / events.sum()))
    return Perplexity(name, text, len(labels), phones, value, float(low), float(high))


def table(found: Sequence[Perplexity]) -> str:
    """Return the perplexities as a table, one per line."""
    rows = [("language model", "text", "utterances", "phones", "perplexity", "95 % interval")]
    for each in found:
        interval = f"{each.low:.2f} to {each.high:.2f}"
        rows.append((each.lm, each.text, str(each.utterances), str(each.phones), f"{each.perplexity:.2f}", interval))
    return "\n".join(columns(rows, "llrrrr"))
