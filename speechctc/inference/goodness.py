"""How well each phone of a transcript was said: goodness of pronunciation, without cutting the recording into phones.

For each phone the exact CTC lattice says how probable the recording is with it, with any other phone in its place,
without it, and with one more phone beside it (`speechctc.ctc.alternatives`). Each of these counts by how often it
happens in speech that is right: where nobody says the ``t`` of "just now", its absence is no surprise. Those shares are
learned without labels, by expectation maximisation over speech with its transcripts. Short vowels are seldom said as a
dictionary has them, which nets that learned from dictionaries do not hear: they count as fitting worse. The score of a
phone is the share of the phones of right speech that fit as badly or worse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.ctc.alternatives import Alternatives, alternatives
from speechctc.inference.posteriors import Posteriors
from speechctc.inference.segmenter import OMITTED, PhoneScore, Segment
from speechctc.phones.articulation import describe
from speechctc.phones.inventory import SILENCES
from speechctc.phones.matching import ipa, is_arpabet

if TYPE_CHECKING:
    from speechctc.inference.placement import Placement

FILE = "goodness.json"
FORMAT = 1
# Phones whose lattice is computed at a time, and those on each side that belong to it but are scored with others.
PIECE, CONTEXT = 60, 8
RANKS = np.array([0.01, 0.02, 0.05, *np.arange(0.1, 0.95, 0.1), 0.95, 0.98, 0.99])  # of the quantiles of right phones
# Shares of phones that are left out, said as others, and followed by one more, as long as nothing is known.
AGAINST = (0.02, 0.08, 0.02)
ROUNDS = 12  # of expectation maximisation
# What vowels below so many seconds lose: so many nats for each e-fold by which they are shorter.
SHORT, BREVITY = 0.15, 2.0
MIN_SHARE = 1e-4  # share that a file names
# Exponent of the shares where they weigh the lattice's alternatives, and what is added to each before that.
WEIGHT, FLOOR = 0.5, 1e-3
MAX_LOG_ODDS = 60.0  # log odds beyond which there is nothing to tell, nats
SAID = 3  # alternatives to name

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
# Returns a score for each phone of a placement, with its phones in time and the model's class of each class of the
# posteriors; None for silences.
Judge = Callable[["Placement", Posteriors, Sequence[Segment], Labels], "list[PhoneScore | None]"]


class Evidence(NamedTuple):
    """What a lattice says about phones.

    Attributes
    ----------
    labels : ndarray, shape = (n,), int64
        Classes of the phones.
    ratios : ndarray, shape = (n, 3 * classes)
        Log probability of each alternative less that of the transcript. Column 0: the phone is left out; k: class k in
        its place, 0 for the phone itself; classes + k: class k after it; 2 * classes + k: before it, of the first only.
    occupancy : ndarray, shape = (n,)
        Expected number of frames of each phone.
    seconds : ndarray, shape = (n,)
        Duration of each phone.
    """

    labels: Labels
    ratios: Array
    occupancy: Array
    seconds: Array


@dataclass(frozen=True)
class Goodness:
    """What is usual in speech that is right.

    Attributes
    ----------
    phones : tuple of str
        Of the model.
    expected : ndarray, shape = (classes, 2 * classes)
        Share of each alternative, columns as in `Evidence`; rows add up to 1.
    quantiles : ndarray, shape = (len(RANKS),), optional
        Of how right phones fit; None: nothing was learned, and probabilities are the scores.
    brevity : float
        What short vowels lose, see `BREVITY`; 0 where that was not learned.
    """

    phones: tuple[str, ...]
    expected: Array
    quantiles: Array | None = None
    brevity: float = 0.0

    @classmethod
    def untaught(cls, phones: Sequence[str]) -> Goodness:
        """Return what is assumed where nothing was learned."""
        classes = len(phones) + 1
        omitted, other, more = AGAINST
        expected = np.full((classes, 2 * classes), other / max(classes - 2, 1))
        expected[:, 0], expected[:, classes:] = omitted, more / (classes - 1)
        expected[:, classes] = 0.0
        np.fill_diagonal(expected, 1 - sum(AGAINST))
        return cls(tuple(phones), expected / expected.sum(axis=1, keepdims=True))

    @classmethod
    def learn(cls, phones: Sequence[str], seen: Sequence[Evidence]) -> Goodness:
        """Learn what is usual from speech with transcripts, all of which counts as right.

        Raises
        ------
        InputError
            There is no phone to learn from.
        """
        if not sum(len(each.labels) for each in seen):
            raise InputError("no phones to learn from", "give recordings with transcripts")
        own = cls.untaught(phones)
        labels = np.concatenate([each.labels for each in seen])
        classes = len(phones) + 1
        ratios = np.concatenate([each.ratios for each in seen])[:, : 2 * classes]
        expected, weak = own.expected, own.expected
        for _ in range(ROUNDS):
            counts = np.zeros_like(weak)
            np.add.at(counts, labels, _shares(ratios + _log(expected[labels])))
            counts += 0.5 * _of_any(counts) + 0.001 * (weak > 0)
            counts[:, classes] = 0.0
            expected = counts / counts.sum(axis=1, keepdims=True)
        taught = cls(own.phones, expected, None, BREVITY)
        fit = np.quantile(np.concatenate([taught.fit(each) for each in seen]), RANKS)
        return replace(taught, quantiles=fit + 1e-6 * np.arange(len(RANKS)))  # rising, so that each value has one rank

    def weighed(self, seen: Evidence) -> Array:
        """Return the log weight of each alternative, shape = (n, 3 * classes).

        If the next phone was said otherwise, that too can be heard as one more phone before it. So one more phone
        weighs less by how much more the alternatives of the next phone weigh than that phone itself.
        """
        classes = len(self.phones) + 1
        usual = WEIGHT * np.log(self.expected[seen.labels] + FLOOR)
        weights: Array = seen.ratios + np.hstack([usual, usual[:, classes:]])
        rows = np.arange(len(weights))
        own, changed = weights[rows, seen.labels], weights[:, :classes].copy()
        changed[rows, seen.labels] = -np.inf
        against = np.logaddexp.reduce(changed, axis=1) - own
        weights[:-1, classes : 2 * classes] -= np.logaddexp(0.0, against[1:, None])
        return weights

    def odds(self, seen: Evidence) -> Array:
        """Return the log odds that each phone was said as it is written, shape = (n,)."""
        weights = self.weighed(seen)
        rows = np.arange(len(seen.labels))
        own = weights[rows, seen.labels].copy()
        weights[rows, seen.labels] = -np.inf
        return np.asarray(np.clip(own - np.logaddexp.reduce(weights, axis=1), -MAX_LOG_ODDS, MAX_LOG_ODDS))

    def fit(self, seen: Evidence) -> Array:
        """Return the log odds, less what short vowels lose, shape = (n,)."""
        arpabet = is_arpabet(self.phones)
        vowels = np.array([False, *(describe(ipa(each, arpabet)[0]).get("kind") == "vowel" for each in self.phones)])
        shorter = np.log(np.maximum(SHORT / np.maximum(seen.seconds, 0.001), 1.0))
        return np.asarray(self.odds(seen) - self.brevity * vowels[seen.labels] * shorter)

    def score(self, fit: Array) -> Array:
        """Return which share of the phones of right speech fits as badly or worse, shape = (n,)."""
        if self.quantiles is None:
            return np.asarray(1 / (1 + np.exp(-fit)))
        return np.array([_rank(value, self.quantiles) for value in fit.tolist()])

    def scores(
        self, placed: Placement, posteriors: Posteriors, segments: Sequence[Segment], to_model: Labels
    ) -> list[PhoneScore | None]:
        """Return a score for each phone of a placement, None for silences; `to_model` as for `evidence`."""
        numbers, seen = evidence(placed, posteriors, segments, to_model, self.phones)
        found: list[PhoneScore | None] = [None] * len(placed.visits)
        for number, score in zip(numbers, self.judge(seen), strict=True):
            found[number] = score
        return found

    def judge(self, seen: Evidence) -> list[PhoneScore]:
        """Return the scores of phones, and what was probably said instead of each."""
        scores = self.score(self.fit(seen))
        shares = _shares(self.weighed(seen))
        found = []
        for label, score, row in zip(seen.labels.tolist(), scores.tolist(), shares, strict=True):
            own = float(row[label])
            row[label] = 0.0
            best = [int(k) for k in np.argsort(-row)[:SAID] if row[k] >= 0.005]
            said = tuple((self._text(label, k), float(row[k])) for k in best)
            found.append(PhoneScore(score, own, said))
        return found

    def _text(self, label: int, column: int) -> str:
        """Return what is said in an alternative."""
        place, other = divmod(column, len(self.phones) + 1)
        own = self.phones[label - 1]
        if column == 0:
            return OMITTED
        named = self.phones[other - 1]
        return (named, f"{own} {named}", f"{named} {own}")[place]

    def save(self, folder: Path) -> None:
        """Write it into a checkpoint's folder."""
        assert self.quantiles is not None
        classes = len(self.phones) + 1

        def named(row: Array) -> dict[str, float]:
            return {
                self.phones[k - 1]: round(float(row[k]), 5) for k in np.flatnonzero(row[:classes] >= MIN_SHARE) if k
            }

        phones = {}
        for phone, row in zip(self.phones, self.expected[1:], strict=True):
            omitted = round(float(row[0]), 5)
            phones[phone] = {"omitted": omitted, "said": named(row), "followed": named(row[classes:])}
        odds = [round(float(value), 6) for value in self.quantiles]
        values = {"format": FORMAT, "odds": odds, "short_vowels": self.brevity, "phones": phones}
        files.write_json(folder / FILE, values)

    @classmethod
    def load(cls, folder: Path, phones: Sequence[str]) -> Goodness:
        """Read it from a checkpoint's folder; without a file, nothing is known.

        Raises
        ------
        InputError
            The file is damaged, of another version, or of other phones.
        """
        path, own = folder / FILE, cls.untaught(phones)
        if not path.exists():
            return own
        classes = len(own.phones) + 1
        column = {phone: k for k, phone in enumerate(own.phones, start=1)}
        expected = np.full_like(own.expected, MIN_SHARE / 10)
        expected[:, classes] = 0.0
        try:
            values = files.read_json(path)
            if values["format"] != FORMAT or set(values["phones"]) != set(own.phones):
                raise ValueError
            for phone, row in values["phones"].items():
                k = column[phone]
                expected[k, 0] += float(row["omitted"])
                for start, shares in ((0, row["said"]), (classes, row["followed"])):
                    for other, share in shares.items():
                        expected[k, start + column[other]] += float(share)
            quantiles, brevity = np.array(values["odds"], np.float64), float(values.get("short_vowels", 0.0))
            are_shares = np.isfinite(expected).all() and (expected >= 0).all() and expected.max() <= 1.01
            are_ranked = np.isfinite(quantiles).all() and (np.diff(quantiles) >= 0).all()
            if not (are_shares and are_ranked and quantiles.shape == RANKS.shape and 0 <= brevity < MAX_LOG_ODDS):
                raise ValueError
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            fix = "make it again with speechctc calibrate, or delete it"
            raise InputError(f"{path}: not what this version knows of right speech by this model", fix) from None
        return cls(own.phones, expected / expected.sum(axis=1, keepdims=True), quantiles, brevity)


def _of_any(counts: Array) -> Array:
    """Return shares for phones that are rare: said as themselves as often as phones are, else as any are said."""
    own = np.arange(1, len(counts))
    others = counts.copy()
    others[own, own] = 0.0
    total = counts.sum()
    found: Array = np.tile(others.sum(axis=0) / total, (len(counts), 1))
    found[own, own] += counts[own, own].sum() / total
    return found


def _log(values: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(values))


def _shares(logs: Array) -> Array:
    """Return rows of log weights as shares that add up to 1."""
    return np.asarray(np.exp(logs - np.logaddexp.reduce(logs, axis=1, keepdims=True)))


def _rank(value: float, quantiles: Array) -> float:
    """Return the rank of a value among quantiles; beyond the first and the last it nears 0 and 1 exponentially."""
    if value < quantiles[0]:
        scale = max((quantiles[2] - quantiles[0]) / np.log(RANKS[2] / RANKS[0]), 1e-3)
        return float(RANKS[0] * np.exp((value - quantiles[0]) / scale))
    if value > quantiles[-1]:
        return 1 - _rank(-value, -quantiles[::-1])
    return float(np.interp(value, quantiles, RANKS))


def evidence(
    placed: Placement, posteriors: Posteriors, segments: Sequence[Segment], to_model: Labels, phones: Sequence[str]
) -> tuple[list[int], Evidence]:
    """Return which phones of a placement can be scored, and what the lattice says about them.

    Long transcripts are worked on in pieces of `PIECE` phones, cut where the most probable path has `CONTEXT` phones
    more on each side. Stretches of sound without phones of the transcript part the lattice too.

    Parameters
    ----------
    placed : Placement
    posteriors : Posteriors
        Their first columns are the classes of the model.
    segments : sequence of Segment
        The phones in time.
    to_model : ndarray, int64
        By class of the posteriors, the class of the model that it is heard as.
    phones : sequence of str
        Of the model.
    """
    classes = len(phones) + 1
    labels = np.array([to_model[placed.classes[visit.first]] for visit in placed.visits], np.int64)
    numbers, rows, occupancy = list[int](), list[Array](), list[Array]()
    for first, end, frames in _pieces(placed):
        low, high = max(frames.low, first - CONTEXT), min(frames.high, end + CONTEXT)
        start = frames.start if low == frames.low else placed.visits[low].first
        stop = frames.stop if high == frames.high else placed.visits[high - 1].end
        found = alternatives(posteriors.read(start, stop)[:, :classes], labels[low:high])
        if found is not None:
            spoken = (k for k in range(first, end) if placed.visits[k].unit >= 0)
            wanted = [k for k in spoken if phones[labels[k] - 1] not in SILENCES]
            numbers += wanted
            rows.append(_ratios(found)[np.array(wanted, int) - low])
            occupancy.append(found.occupancy[np.array(wanted, int) - low])
    all_rows = np.concatenate([np.zeros((0, 3 * classes)), *rows])
    seconds = np.array([segments[k].end - segments[k].start for k in numbers])
    return numbers, Evidence(labels[numbers], all_rows, np.concatenate([np.zeros(0), *occupancy]), seconds)


class _Run(NamedTuple):
    """Phones `low` to `high - 1` without a stretch between them, and frames `start` to `stop - 1` around them."""

    low: int
    high: int
    start: int
    stop: int


def _pieces(placed: Placement) -> Iterator[tuple[int, int, _Run]]:
    """Yield the first phone of each piece, the one after its last, and the run that it is part of."""
    places = [visit.first for visit in placed.visits]
    begins = [0, *(stretch.end for stretch in placed.stretches)]
    stops = [*(stretch.first for stretch in placed.stretches), len(placed.classes)]
    for start, stop in zip(begins, stops, strict=True):
        low, high = (int(k) for k in np.searchsorted(places, (start, stop)))
        for first in range(low, high, PIECE):
            yield first, min(first + PIECE, high), _Run(low, high, start, stop)


def _ratios(found: Alternatives) -> Array:
    """Return the columns of `Evidence` for all labels of a lattice; a class between two of them is after the first."""
    changed = found.substituted.copy()
    changed[:, 0] = found.deleted
    before = np.full_like(changed, -np.inf)
    before[0] = found.inserted[0]
    return np.hstack([changed, found.inserted[1:], before]) - found.log_likelihood


def collect(
    seen: list[Evidence],
    phones: Sequence[str],
    placed: Placement,
    posteriors: Posteriors,
    segments: Sequence[Segment],
    to_model: Labels,
) -> list[PhoneScore | None]:
    """Append what a lattice says about the phones of a placement, to learn from, and score nothing."""
    seen.append(evidence(placed, posteriors, segments, to_model, phones)[1])
    return [None] * len(placed.visits)
