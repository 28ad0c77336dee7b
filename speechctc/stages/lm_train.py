"""Train an n-gram and write it as an ARPA file."""

from __future__ import annotations

import os
from pathlib import Path

from speechctc.core.errors import InputError
from speechctc.ngram.arpa import write_arpa
from speechctc.ngram.kneser_ney import estimate
from speechctc.phones.inventory import Inventory
from speechctc.phones.texts import encode
from speechctc.stages.lm_texts import PhoneText


def check_free(out: Path) -> None:
    """Check that nothing would be overwritten.

    Raises
    ------
    InputError
        Something is at `out`.
    """
    if os.path.lexists(out):
        raise InputError(f"{out}: exists already", "name another with --out")


def train_ngram(text: PhoneText, inventory: Inventory, order: int, out: Path, threshold: float = 0.0) -> str:
    """Estimate an n-gram, prune it, write it as an ARPA file, and return a line about it.

    `threshold` is that of `speechctc.ngram.kneser_ney.prune`.

    Raises
    ------
    InputError
        Something is at `out`, or a word of the text is not a phone of the set.
    """
    labels = encode(text.name, text.utterances, inventory)
    ngram = estimate(labels, len(inventory.phones) + 1, order, threshold=threshold)
    check_free(out)
    write_arpa(out, ngram, inventory)
    counts = ", ".join(str(len(ngram.nodes(length))) for length in range(1, order + 1))
    events = sum(map(len, labels))
    return f"{out}: {order}-gram of {events:,} phones in {len(labels):,} utterances ({text.name}); strings: {counts}"
