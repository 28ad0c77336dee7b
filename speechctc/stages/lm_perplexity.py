"""Score texts with language models, and draw samples from them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.lm.load import load_lm
from speechctc.lm.model import NgramModel, sample
from speechctc.lm.perplexity import Perplexity, perplexity
from speechctc.phones.inventory import Inventory
from speechctc.phones.texts import encode, listed
from speechctc.stages.lm_texts import PhoneText


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
