"""How well each phone of a transcript was said: goodness of pronunciation, without cutting the recording into phones.

For each phone the exact CTC lattice says how probable the recording is with it, with any other phone in its place,
without it, and with one more phone beside it (`speechctc.ctc.alternatives`). Each of these counts by how often it
happens in speech that is right: where nobody says the ``t`` of "just now", its absence is no surprise. Those shares are
learned without labels, by expectation maximisation over speech with its transcripts. They weigh what was said instead.

The score of a phone compares its odds against the other phones with the odds of the same phone in right speech: 0.2
says that 4 % of these are as low, 0.5 that 25 % are, 0.7 that half are (the square root of the share, which tells
learners from natives a little better than the share itself). Sounds are heard less well the shorter they are, so half
of what that does in right speech is taken back. Phones that are not told from another have no score.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.ctc.alternatives import Alternatives, alternatives
from speechctc.inference.contrasts import Contrast
from speechctc.inference.placement import Posteriors
from speechctc.inference.ratings import Ratings
from speechctc.inference.segmenter import OMITTED, PhoneScore, Segment
from speechctc.phones.articulation import describe, ipa, is_arpabet
from speechctc.phones.inventory import SILENCES

if TYPE_CHECKING:
    from speechctc.inference.placement import Placement

FILE = "goodness.json"
FORMAT = 2
# Phones whose lattice is computed at a time, and those on each side that belong to it but are scored with others.
PIECE, CONTEXT = 60, 8
RANKS = np.array([0.01, 0.02, 0.05, *np.arange(0.1, 0.95, 0.1), 0.95, 0.98, 0.99])  # of the quantiles of right phones
# Shares of phones that are left out, said as others, and followed by one more, as long as nothing is known.
AGAINST = (0.02, 0.08, 0.02)
ROUNDS = 12  # of expectation maximisation
SHORTEST = 0.01  # seconds of a phone, at least
TAKEN_BACK = 0.5  # share of what longer phones gain in right speech
OWN = 20  # realisations of a phone that weigh as much as those of all phones, in what is usual for it
# Realisations of a phone, from which it is judged whether it is told from the one that it is mostly taken for; and in
# which share of pairs of the two it must fit its own better, or not be taken for one that right speech hardly has.
LEAST, TOLD = 5, 0.75
# A score that tells a mistake; of right speech the share below it that is told to users, and that forbids to judge.
LOW, TOLD_LOW, UNFIT_LOW = 0.2, 0.05, 0.1
USUAL = "4 of 100 examples of the same sound in right speech fit as badly or worse"  # at LOW
MIN_SHARE = 1e-4  # share that a file names
# Exponent of the shares where they weigh the lattice's alternatives, and what is added to each before that.
WEIGHT, FLOOR = 0.5, 1e-3
MAX_LOG_ODDS = 60.0  # log odds beyond which there is nothing to tell, nats
SAID, TELLING = 3, 0.005  # alternatives to name, and their least share

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


class Usual(NamedTuple):
    """How well each phone of a model fits in right speech.

    Attributes
    ----------
    quantiles : ndarray, shape = (classes, len(RANKS))
        Of the odds of each phone against the others, as it is said in its usual time.
    seconds : ndarray, shape = (classes,)
        Mean log duration.
    gains : ndarray, shape = (2,)
        Of consonants and of vowels: nats that a phone gains with each e-fold by which it is longer.
    unjudged : mapping of str to tuple of str
        By language, ``""`` for all: the phones that are not told from the one that they are mostly taken for.
    persons : (float, float)
        Between which means of scores 95 % of right speakers lie.
    languages : mapping of str to float
        Languages whose right speech was heard, and which share of its phones scores below `LOW`; none: it is not known.
    accents : str
        Whose speech is mostly right speech, in words, or ``""``.
    """

    quantiles: Array
    seconds: Array
    gains: Array
    unjudged: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    persons: tuple[float, float] = (0.0, 1.0)
    languages: Mapping[str, float] = MappingProxyType({})
    accents: str = ""


class Spoken(NamedTuple):
    """What a lattice says about a recording, who speaks, and in what language; ``""`` where that is not known."""

    seen: Evidence
    speaker: str = ""
    language: str = ""


@dataclass(frozen=True)
class Goodness:
    """What is usual in speech that is right.

    Attributes
    ----------
    phones : tuple of str
        Of the model.
    expected : ndarray, shape = (classes, 2 * classes)
        Share of each alternative, columns as in `Evidence`; rows add up to 1.
    usual : Usual, optional
        How well phones fit; None: it was not learned, and probabilities are the scores.
    language : str
        Of the speech to score; ``""``: not known.
    ratings : Ratings, optional
        What predicts raters' scores.
    contrasts : tuple of Contrast
        Pairs of phones that are compared with each other alone, too.
    """

    phones: tuple[str, ...]
    expected: Array
    usual: Usual | None = None
    language: str = ""
    ratings: Ratings | None = None
    contrasts: tuple[Contrast, ...] = ()

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
    def learn(cls, phones: Sequence[str], heard: Sequence[Spoken]) -> Goodness:
        """Learn what is usual from speech with transcripts, all of which counts as right.

        Raises
        ------
        InputError
            There is no phone to learn from.
        """
        seen = [each.seen for each in heard]
        if not sum(len(each.labels) for each in seen):
            raise InputError("no phones to learn from", "give recordings with transcripts")
        own = cls.untaught(phones)
        whole = Evidence(*map(np.concatenate, zip(*seen, strict=True)))
        classes = len(phones) + 1
        ratios = whole.ratios[:, : 2 * classes]
        expected, weak = own.expected, own.expected
        for _ in range(ROUNDS):
            counts = np.zeros_like(weak)
            np.add.at(counts, whole.labels, _shares(ratios + _log(expected[whole.labels])))
            counts += 0.5 * _of_any(counts) + 0.001 * (weak > 0)
            counts[:, classes] = 0.0
            expected = counts / counts.sum(axis=1, keepdims=True)
        taught = cls(own.phones, expected, _usual(own, whole))
        return taught._with_groups(heard)

    def _with_groups(self, heard: Sequence[Spoken]) -> Goodness:
        """Return it with the phones that are not judged, and the range of the means of speakers."""
        assert self.usual is not None
        failed = defaultdict[str, list[str]](list)
        for language in sorted({"", *(each.language for each in heard)}):
            seen = [each.seen for each in heard if language in ("", each.language)]
            failed[language] = self._not_told(Evidence(*map(np.concatenate, zip(*seen, strict=True))), failed[""])
        unjudged = {language: tuple(each) for language, each in failed.items() if each}
        found = replace(self, usual=self.usual._replace(unjudged=unjudged))
        persons, languages = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
        for number, spoken in enumerate(heard):
            one = replace(found, language=spoken.language)
            scores = one.score(spoken.seen)[one.is_judged(spoken.seen.labels)].tolist()
            persons[spoken.speaker or str(number)] += scores
            languages[spoken.language] += scores
        means = np.array([np.mean(each) for each in persons.values() if each])
        spread = 1.96 * float(means.std(ddof=1)) if len(means) > 1 else 1.0
        middle = float(means.mean()) if len(means) else 0.5
        range_ = max(middle - spread, 0.0), min(middle + spread, 1.0)
        low = {each: float(np.mean(np.array(scores) < LOW)) for each, scores in languages.items() if each and scores}
        return replace(self, usual=found.usual and found.usual._replace(persons=range_, languages=low))

    def _not_told(self, seen: Evidence, known: Sequence[str]) -> list[str]:
        """Return the phones, without those known, that fit no better than where what they are taken for was said."""
        ratios = seen.ratios[:, 1 : len(self.phones) + 1].copy()
        ratios[np.arange(len(ratios)), seen.labels - 1] = 0.0
        found = []
        for k, phone in enumerate(self.phones):
            others = ratios.copy()
            others[:, k] = -np.inf
            fit = np.clip(ratios[:, k] - np.logaddexp.reduce(others, axis=1), -MAX_LOG_ODDS, MAX_LOG_ODDS)
            own = seen.labels == k + 1
            taken = Counter(others[own].argmax(axis=1)[fit[own] < 0].tolist()).most_common(1)
            if own.sum() >= LEAST and taken and phone not in known:
                ((most, count),) = taken
                other = fit[seen.labels == 1 + most]
                above = np.sign(fit[own][:, None] - other) / 2 + 0.5
                told = above.mean() if len(other) >= LEAST else 1 - count / own.sum()
                found += [phone] if told < TOLD else []
        return found

    def about(self, languages: Sequence[str]) -> str:
        """Return what scores say, and which phones have none in these languages; `""`: nothing was learned."""
        if self.usual is None:
            return ""
        low, high = self.usual.persons
        told = f"Of 100 people whose speech is right, 95 have a mean score from {low:.2f} to {high:.2f}"
        codes = dict.fromkeys(["", *(each.partition("-")[0] for each in languages)])
        unjudged = self.usual.unjudged
        shares = {each: self.usual.languages[each] for each in codes if each in self.usual.languages}
        notes = {
            "Without a score, as the model takes them for other sounds in right speech too": [
                f"{' '.join(unjudged[each])} ({each or 'any'})" for each in codes if each in unjudged
            ],
            "Below 0.2 are more of 100 sounds of right speech": [
                f"{100 * share:.0f} ({each})" for each, share in shares.items() if TOLD_LOW < share <= UNFIT_LOW
            ],
            "Not judged, as of 100 sounds of right speech too many are below 0.2": [
                f"{100 * share:.0f} ({each})" for each, share in shares.items() if share > UNFIT_LOW
            ],
            "Sounds are compared with those of other languages, as no right speech was heard of": [
                each for each in codes if each and self.usual.languages and each not in shares
            ],
        }
        if self.usual.accents:
            told += f". Right speech is {self.usual.accents}: right sounds of other accents may score low"
        return ". ".join([told, *(f"{why}: {', '.join(which)}" for why, which in notes.items() if which)])

    def is_judged(self, labels: Labels) -> NDArray[np.bool_]:
        """Return whether phones of the language have scores, by their classes."""
        left = self._unjudged()
        return np.array([False, *(each not in left for each in self.phones)])[labels]

    def _unjudged(self) -> set[str]:
        """Return the phones of the language that have no scores."""
        if self.usual is None:
            return set()
        own = self.language.partition("-")[0]
        is_unfit = self.usual.languages.get(own, 0.0) > UNFIT_LOW
        return {*(self.phones if is_unfit else self.usual.unjudged.get("", ())), *self.usual.unjudged.get(own, ())}

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
        """Return the odds that are scored: of each phone against the others, in its usual time; shape = (n,)."""
        if self.usual is None:
            return self.odds(seen)
        is_vowel = _are_vowels(self.phones)[seen.labels]
        gained = self.usual.gains[is_vowel.astype(int)] * _longer(seen, self.usual.seconds)
        return np.asarray(against_others(seen) - TAKEN_BACK * gained)

    def score(self, seen: Evidence) -> Array:
        """Return scores of phones, shape = (n,)."""
        fit = self.fit(seen).tolist()
        if self.usual is None:
            return np.asarray(1 / (1 + np.exp(-np.array(fit))))
        pairs = zip(fit, self.usual.quantiles[seen.labels], strict=True)
        return np.sqrt([_rank(value, quantiles) for value, quantiles in pairs])

    def scores(
        self, placed: Placement, posteriors: Posteriors, segments: Sequence[Segment], to_model: Labels
    ) -> list[PhoneScore | None]:
        """Return a score for each phone of a placement that is judged; `to_model` as for `evidence`."""
        numbers, seen = evidence(placed, posteriors, segments, to_model, self.phones)
        found: list[PhoneScore | None] = [None] * len(placed.visits)
        for number, score, is_judged in zip(numbers, self.judge(seen), self.is_judged(seen.labels), strict=True):
            found[number] = score if is_judged else None
        return found

    def judge(self, seen: Evidence) -> list[PhoneScore]:
        """Return the scores of phones, and what was probably said instead of each."""
        scores = self.score(seen)
        shares = _shares(self.weighed(seen))
        found = []
        changed = np.clip(seen.ratios[:, : len(self.phones) + 1], -MAX_LOG_ODDS, MAX_LOG_ODDS).tolist()
        for label, score, row, ratios in zip(seen.labels.tolist(), scores.tolist(), shares, changed, strict=True):
            own = float(row[label])
            row[label] = 0.0
            best = [int(k) for k in np.argsort(-row)[:SAID] if row[k] >= TELLING]
            said = tuple((self._text(label, k), float(row[k])) for k in best)
            odds = tuple((self._text(label, k), value) for k, value in enumerate(ratios) if k != label)
            one = PhoneScore(score, own, said, odds, contrasts=tuple(self._contrasted(label, ratios)))
            found.append(one._replace(rating=self.ratings.rate(self.phones[label - 1], one) if self.ratings else None))
        return found

    def _contrasted(self, label: int, ratios: Sequence[float]) -> Iterator[tuple[str, float]]:
        """Yield each phone that one is contrasted with, and how probable this one is of the two, both alike before."""
        own = self.phones[label - 1]
        for other in (pair.other if pair.one == own else pair.one for pair in self.contrasts if own in pair):
            yield other, float(1 / (1 + np.exp(ratios[self.phones.index(other) + 1])))

    def _text(self, label: int, column: int) -> str:
        """Return what is said in an alternative."""
        place, other = divmod(column, len(self.phones) + 1)
        own = self.phones[label - 1]
        if column == 0:
            return OMITTED
        named = self.phones[other - 1]
        return (named, f"{own} {named}", f"{named} {own}")[place]

    def plain(self) -> dict[str, Any]:
        """Return what the page that scores needs, as plain values: what is usual, and the constants."""
        values: dict[str, Any] = {
            "log_usual": [[float(f"{value:.7g}") for value in row] for row in WEIGHT * np.log(self.expected + FLOOR)],
            "vowels": _are_vowels(self.phones).astype(int).tolist(),
            "unjudged": [],
            "gains": None,
        }
        if self.usual is not None:
            usual = self.usual
            values |= {name: getattr(usual, name).tolist() for name in ("quantiles", "gains", "seconds")}
            values["unjudged"] = sorted(self._unjudged())
        values |= {"ranks": RANKS.tolist(), "piece": PIECE, "context": CONTEXT, "shortest": SHORTEST}
        return values | {"taken_back": TAKEN_BACK, "most": MAX_LOG_ODDS, "told": SAID, "least": TELLING}

    def save(self, folder: Path) -> None:
        """Write it into a checkpoint's folder."""
        assert self.usual is not None
        classes = len(self.phones) + 1
        usual = self.usual

        def rounded(row: Iterable[float]) -> list[float]:
            return [round(float(value), 4) for value in row]

        def named(row: Array) -> dict[str, float]:
            return {
                self.phones[k - 1]: round(float(row[k]), 5) for k in np.flatnonzero(row[:classes] >= MIN_SHARE) if k
            }

        phones = {}
        for k, phone in enumerate(self.phones, start=1):
            row = self.expected[k]
            about = {"odds": rounded(usual.quantiles[k]), "log_seconds": round(float(usual.seconds[k]), 4)}
            shares = {"omitted": round(float(row[0]), 5), "said": named(row), "followed": named(row[classes:])}
            phones[phone] = about | shares
        values = {"format": FORMAT, "gains": rounded(usual.gains), "persons": rounded(usual.persons)}
        values |= {"unjudged": {language: list(each) for language, each in usual.unjudged.items()}}
        values |= {"languages": {each: round(share, 3) for each, share in usual.languages.items()}, "phones": phones}
        values |= {"accents": usual.accents} if usual.accents else {}
        files.write_json(folder / FILE, values)

    @classmethod
    def load(cls, folder: Path, phones: Sequence[str]) -> Goodness:
        """Read it from a checkpoint's folder; without a file, nothing is known.

        Raises
        ------
        InputError
            The file is damaged, of another version, or of other phones.
        """
        path, own = folder / FILE, replace(cls.untaught(phones), ratings=Ratings.load(folder, phones))
        if not path.exists():
            return own
        try:
            return own._read(files.read_json(path))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
            fix = "delete it; speechctc calibrate makes it again"
            raise InputError(f"{path}: not what this version knows of right speech by this model", fix) from None

    def _read(self, values: Any) -> Goodness:
        """Return it with the values of a file; a `ValueError` or its like says that they are none."""
        classes = len(self.phones) + 1
        column = {phone: k for k, phone in enumerate(self.phones, start=1)}
        expected = np.full_like(self.expected, MIN_SHARE / 10)
        expected[:, classes] = 0.0
        if values["format"] != FORMAT or set(values["phones"]) != set(self.phones):
            raise ValueError
        for phone, row in values["phones"].items():
            k = column[phone]
            expected[k, 0] += float(row["omitted"])
            for start, shares in ((0, row["said"]), (classes, row["followed"])):
                for other, share in shares.items():
                    expected[k, start + column[other]] += float(share)
        if not (np.isfinite(expected).all() and (expected >= 0).all() and expected.max() <= 1.01):
            raise ValueError
        found = replace(self, expected=expected / expected.sum(axis=1, keepdims=True))
        return replace(found, usual=_usual_of(self.phones, values))


def _usual_of(phones: Sequence[str], values: Any) -> Usual:
    """Return what a file says of how well phones fit."""
    rows = [values["phones"][phone] for phone in phones]
    quantiles = np.array([row["odds"] for row in rows], np.float64)
    seconds = np.array([float(row["log_seconds"]) for row in rows])
    gains, persons = (np.array(values[name], np.float64) for name in ("gains", "persons"))
    is_right = all(_are_ranked(row) for row in quantiles) and gains.shape == persons.shape == (2,)
    if not is_right or not np.isfinite([*seconds, *gains, *persons]).all():
        raise ValueError
    unjudged = {str(language): tuple(map(str, each)) for language, each in values["unjudged"].items()}
    first = np.vstack([quantiles[:1], quantiles]), np.concatenate([seconds[:1], seconds])  # of the blank, for none
    languages = {str(each): float(share) for each, share in values.get("languages", {}).items()}
    range_ = float(persons[0]), float(persons[1])
    return Usual(*first, gains, unjudged, range_, languages, str(values.get("accents", "")))


def _are_ranked(quantiles: Array) -> bool:
    return quantiles.shape == RANKS.shape and bool(np.isfinite(quantiles).all() and (np.diff(quantiles) >= 0).all())


def against_others(seen: Evidence) -> Array:
    """Return the log odds of phones against the other phones in their places, all alike; shape = (n,)."""
    odds = -np.logaddexp.reduce(_others(seen), axis=1, initial=-MAX_LOG_ODDS)
    return np.asarray(np.clip(odds, -MAX_LOG_ODDS, MAX_LOG_ODDS))


def _others(seen: Evidence) -> Array:
    """Return the log ratios of the other phones in the place of each, shape = (n, classes - 1)."""
    others = seen.ratios[:, 1 : seen.ratios.shape[1] // 3].copy()
    others[np.arange(len(others)), seen.labels - 1] = -np.inf
    return np.asarray(others)


def _are_vowels(phones: Sequence[str]) -> NDArray[np.bool_]:
    """Return by class whether it is a vowel."""
    arpabet = is_arpabet(phones)
    return np.array([False, *(describe(ipa(each, arpabet)[0]).get("kind") == "vowel" for each in phones)])


def _longer(seen: Evidence, seconds: Array) -> Array:
    """Return by how many e-folds phones are longer than usual, at most one."""
    return np.asarray(np.clip(np.log(np.maximum(seen.seconds, SHORTEST)) - seconds[seen.labels], -1, 1))


def _usual(own: Goodness, seen: Evidence) -> Usual:
    """Return how well phones fit; those that are rare, as phones do."""
    labels, odds, is_vowel = seen.labels, against_others(seen), _are_vowels(own.phones)[seen.labels]
    counts = np.bincount(labels, minlength=len(own.phones) + 1)

    def mean(values: Array) -> Array:
        sums = np.bincount(labels, values, minlength=len(counts))
        return np.asarray((sums + OWN * values.mean()) / (counts + OWN))

    seconds = mean(np.log(np.maximum(seen.seconds, SHORTEST)))
    longer, above = _longer(seen, seconds), odds - mean(odds)[labels]
    parts = [(longer[kind] - longer[kind].mean(), above[kind]) for kind in (~is_vowel, is_vowel) if kind.any()]
    gains = np.array([x @ y / max(x @ x, 1e-9) for x, y in parts]) if len(parts) > 1 else np.zeros(2)
    fit = odds - TAKEN_BACK * gains[is_vowel.astype(int)] * longer
    fine = (np.arange(200) + 0.5) / 200
    of_all = np.quantile(fit, fine)
    quantiles = np.empty((len(counts), len(RANKS)))
    for k, count in enumerate(counts):
        values = np.concatenate([fit[labels == k], of_all])
        weights = np.concatenate([np.ones(count), np.full(len(fine), OWN / len(fine))])
        order = np.argsort(values)
        ranks = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
        quantiles[k] = np.interp(RANKS, ranks, values[order])
    return Usual(quantiles + 1e-4 * np.arange(len(RANKS)), seconds, gains)  # rising, so that each value has one rank


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
