"""Score texts with language models, and draw samples from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from speechctc.core.errors import InputError, columns
from speechctc.core.progress import Reporter
from speechctc.lm.load import load_lm
from speechctc.lm.model import LanguageModel, NgramModel, sample
from speechctc.phones.inventory import Inventory
from speechctc.phones.texts import encode, listed
from speechctc.stages.lm_texts import PhoneText

RESAMPLES = 1000


def score_texts(
    lms: Sequence[Path], texts: Sequence[PhoneText], inventory: Inventory | None, reporter: Reporter
) -> list[Perplexity]:
    """Score every text with every language model.

    Parameters
    ----------
    lms : sequence of Path
    texts : sequence of PhoneText
    inventory : Inventory, optional
        The phones that the models must have.
    reporter : Reporter

    Raises
    ------
    InputError
        A model cannot be read, or a text has words that are not its phones.
    """
    found = []
    for path in lms:
        lm = load_lm(path, inventory)
        if isinstance(lm, NgramModel) and lm.missing:
            reporter.warn(f"{path}: has no probability for {len(lm.missing)} phones: {listed(lm.missing)}")
        for text in texts:
            labels = encode(text.name, text.utterances, lm.inventory)
            found.append(perplexity(lm, str(path), text.name, labels))
    return found


def draw(path: Path, count: int, seed: int, temperature: float, prefix: str, longest: int) -> Iterator[str]:
    """Yield phone strings drawn from a language model.

    Raises
    ------
    InputError
        It cannot be read, or the prefix has words that are not its phones.
    """
    if count < 1 or temperature < 0 or longest < 1:
        raise InputError(
            f"--count {count}, --temperature {temperature:g}, --longest {longest}: out of range",
            "give counts of 1 or more, and a temperature of 0 or more",
        )
    lm = load_lm(path)
    (begin,) = encode("--prefix", [prefix.split()], lm.inventory)
    for labels in sample(lm, count, seed, temperature, begin, longest):
        yield " ".join(lm.inventory.decode(labels))


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
