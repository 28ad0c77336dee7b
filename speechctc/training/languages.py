"""The languages of the utterances of a split: epochs balanced among them, and error rates of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from speechctc.core.errors import some
from speechctc.core.text_files import read_text
from speechctc.training.epoch_plan import Indices

FILE = "languages.tsv"
"""The file of extraction with the columns split, id and language, where a corpus has several languages."""


@dataclass(frozen=True)
class Languages:
    """The languages of a split.

    Attributes
    ----------
    names : tuple of str
        In alphabetical order; none where the corpus does not say them, or has one.
    numbers : ndarray, shape = (n_utterances,)
        The place in `names` of each utterance's language.
    """

    names: tuple[str, ...]
    numbers: Indices

    @classmethod
    def read(cls, folder: Path, split: str, ids: Sequence[str]) -> Languages:
        """Read the languages of these utterances from the folder of their features.

        Raises
        ------
        InputError
            The file is not text.
        """
        known: dict[str, str] = {}
        if (folder / FILE).is_file():
            for line in read_text(folder / FILE).text.splitlines():
                part, _, rest = line.partition("\t")
                id, _, language = rest.rpartition("\t")
                known |= {id: language} if part == split else {}
        of_each = [known.get(id, "") for id in ids]
        names = sorted(set(of_each))
        places = {name: k for k, name in enumerate(names)}
        numbers = np.array([places[each] for each in of_each], dtype=np.int64)
        return cls(tuple(names) if len(names) > 1 else (), numbers)

    def quotas(self, members: Indices, temperature: float) -> Indices:
        """Return how many of `members` of each language an epoch has.

        Of n utterances of a language it has a share of (n / m) ** (1 / temperature - 1), where m is the median of the
        languages; of languages with fewer than that, all. (Languages are often drawn by their share of the data to the
        power of 1 / temperature; here none is repeated.)
        """
        counts = np.bincount(self.numbers[members], minlength=len(self.names))
        there = counts[counts > 0]
        ratio = np.maximum(counts / np.median(there), 1.0)
        return np.ceil(counts * ratio ** (1 / temperature - 1) - 1e-9).astype(np.int64)

    def draw(self, members: Indices, temperature: float, seed: int) -> Indices:
        """Return the utterances of an epoch, drawn anew for each seed; all where there is one language."""
        if not self.names or temperature == 1:
            return members
        quotas, shuffled = self.quotas(members, temperature), np.random.default_rng(seed).permutation(members)
        numbers = self.numbers[shuffled]
        drawn = [shuffled[numbers == k][:quota] for k, quota in enumerate(quotas.tolist())]
        return np.sort(np.concatenate(drawn))

    def describe(self, members: Indices, temperature: float) -> str:
        """Return what an epoch has of the larger languages, in words; ``""`` where there is one language."""
        if not self.names:
            return ""
        counts = np.bincount(self.numbers[members], minlength=len(self.names)).tolist()
        pairs = zip(self.names, self.quotas(members, temperature).tolist(), counts, strict=True)
        fewer = [f"{name} {quota:,} of {count:,}" for name, quota, count in pairs if quota < count]
        if not fewer:
            return f"{len(self.names)} languages, an epoch has all of each (train.balance={temperature:g})"
        return (
            f"{len(self.names)} languages, an epoch has all but of (train.balance={temperature:g}): {some(fewer, 10)}"
        )
