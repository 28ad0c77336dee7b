"""The tables of a report: error rates by group, confusions, contexts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np

from speechctc.metrics.edits import DIMENSIONS, Confusions, align, phonetic_order
from speechctc.metrics.per import EditCounts, bootstrap
from speechctc.pages.charts import Bar, Matrix, matrix
from speechctc.phones.matching import is_arpabet
from speechctc.stages.split_scoring import ScoredSplit, ScoredUtterance

LENGTHS = 4  # groups of utterances by length
CONTEXTS = 15  # most frequent contexts of deletions and insertions to show
DELETED, INSERTED = "deleted", "inserted"
Key = TypeVar("Key", bound=tuple[str, ...])


class Context(NamedTuple):
    """A phone with its neighbours, how often it was deleted or inserted there."""

    before: str
    phone: str
    after: str
    times: int


def groups(scored: ScoredSplit) -> list[tuple[str, list[Bar]]]:
    """Return error rates by traits of the speakers, by length, and by speaker; those with more than one group."""
    traits = dict.fromkeys(name for result in scored.results for name, _ in result.utterance.traits)
    tables = [(name, _bars(scored, partial(_trait, name))) for name in traits]
    tables.append(("length", _by_length(scored)))
    speakers = _bars(scored, lambda result: result.utterance.speaker)
    tables.append(("speaker", sorted(speakers, key=lambda bar: -bar.rate)))
    return [(name, bars) for name, bars in tables if len(bars) > 1]


def _trait(name: str, result: ScoredUtterance) -> str:
    return dict(result.utterance.traits).get(name, "")


def _bars(scored: ScoredSplit, key: Callable[[ScoredUtterance], str]) -> list[Bar]:
    """Return the error rate of each group, in the order of their names; intervals are over speakers if possible."""
    members: dict[str, list[ScoredUtterance]] = {}
    for result in scored.results:
        members.setdefault(key(result), []).append(result)
    return [_bar(name or "not known", found) for name, found in sorted(members.items())]


def _bar(name: str, results: Sequence[ScoredUtterance]) -> Bar:
    counts = sum((result.counts for result in results), start=EditCounts())
    sums = [(result.counts.errors, result.counts.reference_phones) for result in results]
    low, high, _ = bootstrap(sums, [result.utterance.speaker for result in results])
    interval = "" if low is None or high is None else f"{low:.1f} to {high:.1f}"
    return Bar(name, counts.per, interval, len(results), counts.reference_phones, counts.errors)


def _by_length(scored: ScoredSplit) -> list[Bar]:
    """Return the error rates of about equally many utterances each, from short to long."""
    lengths = np.array([len(result.utterance.phones) for result in scored.results])
    edges = np.unique(np.quantile(lengths, np.arange(1, LENGTHS) / LENGTHS, method="lower"))
    numbers = np.searchsorted(edges, lengths, side="left")
    bars = []
    for number in np.unique(numbers):
        inside = numbers == number
        low, high = lengths[inside].min(), lengths[inside].max()
        name = f"{low} phones" if low == high else f"{low} to {high} phones"
        bars.append(_bar(name, [result for result, is_in in zip(scored.results, inside, strict=True) if is_in]))
    return bars


def confusions(scored: ScoredSplit) -> Confusions:
    """Count the confusions of all utterances, by the folded phones."""
    counts = Confusions()
    folding = scored.folding
    for result in scored.results:
        ours, theirs = result.utterance.phones, result.phones
        edits = align(ours, theirs, folding)
        first, second = ([folding.mapping.get(phone, phone) for phone in side] for side in (ours, theirs))
        counts.add(first, second, edits)
    return counts


def confusion_matrix(counts: Confusions) -> Matrix:
    """Return the confusions by phone; phones in phonetic order, with a column of deletions and a row of insertions."""
    order = phonetic_order(counts.phones, is_arpabet([*counts.phones]))
    pairs = counts.pairs.copy()
    pairs.update({(phone, DELETED): count for phone, count in counts.deleted.items()})
    pairs.update({(INSERTED, phone): count for phone, count in counts.inserted.items()})
    return matrix(pairs, [*order, INSERTED], [*order, DELETED])


def feature_matrices(counts: Confusions) -> list[tuple[str, Matrix]]:
    """Return the confusions summed by place, manner, voicing, height and backness; those with several values."""
    found = []
    for dimension, pairs in counts.by_feature(is_arpabet([*counts.phones])).items():
        values = {value for pair in pairs for value in pair}
        order = [value for value in DIMENSIONS[dimension] if value in values]
        if len(order) > 1:
            found.append((dimension, matrix(pairs, order, order)))
    return found


def worst_pairs(counts: Confusions) -> list[tuple[str, str, int]]:
    """Return the most frequent confusions of two phones."""
    wrong = Counter({pair: count for pair, count in counts.pairs.items() if pair[0] != pair[1]})
    return [(ours, theirs, count) for (ours, theirs), count in _most(wrong)]


def contexts(counts: Counter[tuple[str, str, str]]) -> list[Context]:
    """Return the most frequent contexts."""
    return [Context(*context, count) for context, count in _most(counts)]


def _most(counts: Counter[Key]) -> list[tuple[Key, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:CONTEXTS]
