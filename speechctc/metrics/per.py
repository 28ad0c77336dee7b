"""Phone and feature error rates: edits, intervals, whether two systems differ, protocols of scoring. No torch.

References
----------
.. [1] L. Gillick and S. J. Cox, "Some statistical issues in the comparison of speech recognition algorithms", ICASSP
   1989: the matched-pairs test. Its segments are whole utterances here.
.. [2] M. Bisani and H. Ney, "Bootstrap estimates for confidence intervals in ASR performance evaluation", ICASSP 2004:
   the paired bootstrap.
.. [3] K.-F. Lee and H.-W. Hon, "Speaker-independent phone recognition using hidden Markov models", IEEE Trans. ASSP
   37(11), 1989: the 39 phones.
.. [4] D. Povey et al., "The Kaldi speech recognition toolkit", ASRU 2011; its recipe egs/timit/s5 scores
   (local/score_sclite.sh) with sclite of NIST's SCTK, option -D: a silence of the reference may be absent.
.. [5] M. Ravanelli et al., "SpeechBrain: a general-purpose speech toolkit", arXiv 2106.04624, 2021; its recipe TIMIT,
   timit_prepare.py: ``q`` removed, two silences in a row written as one.
.. [6] D. R. Mortensen et al., "PanPhon: a resource for mapping IPA segments to articulatory feature vectors", COLING
   2016; the costs are those of its ``feature_edit_distance``, and the rate that of its ``feature_error_rate``.
.. [7] C. Taguchi et al., "Universal automatic phonetic transcription into the International Phonetic Alphabet",
   Interspeech 2023: the phone feature error rate, PFER.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from speechctc.core.errors import first_few, plural, with_extra
from speechctc.phones.articulation import ipa, is_arpabet, sounds_of
from speechctc.phones.inventory import SILENCES, TIMIT39, TIMIT48, TIMIT61, Inventory
from speechctc.phones.label_rules import Folding, parse_folding
from speechctc.phones.marks import is_tone

MIN_PHONES = 500  # a score on fewer phones or speakers is not reliable
MIN_SPEAKERS = 3
DRAWS = 5000  # samples of the bootstrap
LEVEL = 0.05  # of the tests
PER_MEANS = "PER, the phone error rate: substituted, deleted and inserted phones, in per cent of the phones labelled"


@dataclass(frozen=True)
class EditCounts:
    """The edits between references and hypotheses, in phones. Counts can be added.

    Attributes
    ----------
    substitutions, deletions, insertions : int
        Edits of an alignment with the fewest edits.
    reference_phones : int
    utterances : int
    """

    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0
    reference_phones: int = 0
    utterances: int = 0

    @property
    def errors(self) -> int:
        """Return the number of all edits."""
        return self.substitutions + self.deletions + self.insertions

    @property
    def per(self) -> float:
        """Return the phone error rate, per cent; not a number where the references have no phones."""
        return 100.0 * self.errors / self.reference_phones if self.reference_phones else math.nan

    @property
    def per_or_none(self) -> float | None:
        """Return the phone error rate for JSON: None where there is none."""
        return self.per if self.reference_phones else None

    @property
    def rank(self) -> float:
        """Return what scores are ordered by: the PER; for no reference phones 0, or 100 if phones were inserted."""
        return self.per if self.reference_phones else 100.0 * bool(self.insertions)

    def to_text(self, digits: int = 2) -> str:
        """Return the phone error rate with its sign; where there is none, the number of phones inserted."""
        return f"{self.per:.{digits}f} %" if self.reference_phones else f"none ({self.insertions} inserted)"

    def __add__(self, other: EditCounts) -> EditCounts:
        """Return the sum of two counts."""
        return EditCounts(*map(operator.add, vars(self).values(), vars(other).values()))


def edit_counts(reference: Sequence[str], hypothesis: Sequence[str]) -> EditCounts:
    """Count the edits of one utterance."""
    tags = [edit.tag for edit in Levenshtein.editops(reference, hypothesis)]
    return EditCounts(tags.count("replace"), tags.count("delete"), tags.count("insert"), len(reference), utterances=1)


def cheapest_edits(
    deletions: Sequence[float], insertions: Sequence[float], substitution: Callable[[int, int], float]
) -> tuple[float, list[tuple[int | None, int | None]]]:
    """Return the cost of the cheapest alignment of two sequences, and its pairs of indices.

    Parameters
    ----------
    deletions, insertions : sequence of float
        The cost of deleting each item of the first sequence, and of inserting each of the second.
    substitution : callable
        The cost of pairing two items, by index; 0 for equal ones.

    Returns
    -------
    cost : float
    pairs : list of (int or None, int or None)
        None: no item on this side. Of alignments with the same cost, one that pairs items is preferred.
    """
    rows = [[0.0]]
    for cost in insertions:
        rows[0].append(rows[0][-1] + cost)
    for i, deletion in enumerate(deletions):
        above, row = rows[-1], [rows[-1][0] + deletion]
        for j, insertion in enumerate(insertions):
            row.append(min(above[j] + substitution(i, j), above[j + 1] + deletion, row[j] + insertion))
        rows.append(row)
    return rows[-1][-1], [*_way_back(rows, deletions, substitution)][::-1]


def _way_back(
    rows: list[list[float]], deletions: Sequence[float], substitution: Callable[[int, int], float]
) -> Iterator[tuple[int | None, int | None]]:
    """Yield the pairs of the cheapest alignment, the last first."""
    i, j = len(rows) - 1, len(rows[0]) - 1
    while i or j:
        if i and j and rows[i][j] == rows[i - 1][j - 1] + substitution(i - 1, j - 1):
            i, j = i - 1, j - 1
            yield i, j
        elif i and rows[i][j] == rows[i - 1][j] + deletions[i - 1]:
            i -= 1
            yield i, None
        else:
            j -= 1
            yield None, j


@dataclass(frozen=True)
class Reliability:
    """The confidence interval of a phone error rate, and what it is based on.

    Attributes
    ----------
    low, high : float or None
        The 95 % confidence interval of the PER, per cent; None for fewer than two utterances.
    over : str
        What was resampled: ``"speakers"``, or ``"utterances"`` if there are fewer than 3 speakers or not all are known.
    speakers : int or None
        None if not all utterances have a known speaker.
    phones, utterances : int
    """

    low: float | None
    high: float | None
    over: str
    speakers: int | None
    phones: int
    utterances: int

    def to_text(self) -> str:
        """Return the interval and its basis as text, to print with a PER."""
        speakers = "speakers not known" if self.speakers is None else plural(self.speakers, "speaker")
        rests = f"{speakers}, {plural(self.utterances, 'utterance')}, {plural(self.phones, 'phone')}"
        if not self.interval:
            return f"no interval {'from one utterance' if self.phones else 'without phones'}; {rests}"
        return f"95 % interval {self.interval}, drawn over {self.over}; {rests}"

    @property
    def interval(self) -> str:
        """Return the bounds as text; ``""`` where there is none."""
        return "" if self.low is None or self.high is None else f"{self.low:.1f} to {self.high:.1f}"

    @property
    def caution(self) -> str:
        """Return a warning if the PER is based on few phones or speakers; else ``""``."""
        basis = few_of(self.phones, self.speakers)
        if not basis or not self.phones:
            return ""
        return f"not reliable: this PER is based on {basis}; that of other speakers may be far outside the interval"

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON reports."""
        return {
            "per_low": self.low,
            "per_high": self.high,
            "interval_over": self.over,
            "speakers": self.speakers,
            "caution": self.caution,
        }


def reliability(counts: Sequence[EditCounts], speakers: Sequence[str]) -> Reliability:
    """Estimate the confidence interval of a PER by the bootstrap.

    Speakers are resampled if there are at least 3, because utterances of one speaker are similar to each other [2]_;
    otherwise utterances. If there is no error, the upper end follows from the rule of three: 3 errors in all phones.

    Parameters
    ----------
    counts : sequence of EditCounts
        The counts of each utterance.
    speakers : sequence of str
        The speaker of each utterance; empty if not known.
    """
    known = known_speakers(speakers)
    phones = sum(count.reference_phones for count in counts)
    low, high, over = bootstrap([(count.errors, count.reference_phones) for count in counts], speakers)
    return Reliability(low, high, over, known, phones, len(counts))


def bootstrap(sums: Sequence[tuple[float, int]], speakers: Sequence[str]) -> tuple[float | None, float | None, str]:
    """Return the 95 % interval of an error rate, per cent, and what was resampled; see `reliability`.

    Parameters
    ----------
    sums : sequence of (float, int)
        Errors and reference phones of each utterance.
    speakers : sequence of str
    """
    over = groups_of(speakers)
    groups: dict[str | int, list[float]] = {}
    for number, ((errors, phones), speaker) in enumerate(zip(sums, speakers, strict=True)):
        group = groups.setdefault(speaker if over == "speakers" else number, [0, 0])
        group[0] += errors
        group[1] += phones
    if len(groups) < 2 or not sum(phones for _, phones in sums):
        return None, None, over
    return *_interval(np.array(list(groups.values()))), over


def known_speakers(speakers: Sequence[str]) -> int | None:
    """Return the number of speakers; None if not all are known."""
    return len(set(speakers)) if "" not in speakers else None


def few_of(phones: int, speakers: int | None) -> str:
    """Return in words of what a score has too little to be reliable, phones or known speakers; else ``""``."""
    few = [f"{plural(phones, 'phone')} (below {MIN_PHONES})"] if phones < MIN_PHONES else []
    if speakers is None:
        few.append("unknown speakers")
    elif speakers < MIN_SPEAKERS:
        few.append(plural(speakers, "speaker"))
    return " and ".join(few)


def groups_of(speakers: Sequence[str]) -> str:
    """Return what is resampled: ``"speakers"`` if all are known and there are at least 3, else ``"utterances"``."""
    return "speakers" if "" not in speakers and len(set(speakers)) >= MIN_SPEAKERS else "utterances"


def _interval(sums: NDArray[Any]) -> tuple[float, float]:
    """Return the 2.5th and the 97.5th percentile of the rate over bootstrap samples of rows (errors, phones)."""
    errors, phones = sums.sum(0)
    if not errors:
        return 0.0, min(300.0 / float(phones), 100.0)
    low, high = np.percentile(draw_rates(sums), [2.5, 97.5])
    return float(low), float(high)


def draw_rates(sums: NDArray[Any]) -> NDArray[np.float64]:
    """Return the rates of bootstrap samples of rows (errors, phones), per cent; without those that have no phones."""
    rng = np.random.default_rng(0)
    drawn = np.stack([sums[rng.integers(len(sums), size=len(sums))].sum(0) for _ in range(DRAWS)])
    drawn = drawn[drawn[:, 1] > 0]
    return np.asarray(100.0 * drawn[:, 0] / drawn[:, 1])


@dataclass(frozen=True)
class PairedTest:
    """The difference of two systems on the same utterances.

    Attributes
    ----------
    difference : float
        PER of the second system minus that of the first, in points; negative: the second is better.
    low, high : float
        95 % interval of the difference by the paired bootstrap.
    over : str
        What was resampled: ``"speakers"``, or ``"utterances"`` where fewer than 3 speakers are known.
    p_bootstrap : float
        Two-sided: twice the share of draws on the other side of 0.
    p_matched_pairs : float
        Two-sided, by the matched-pairs test.
    utterances : int
    """

    difference: float
    low: float
    high: float
    over: str
    p_bootstrap: float
    p_matched_pairs: float
    utterances: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON reports."""
        return asdict(self) | {"is_significant": self.is_significant}

    def to_text(self) -> str:
        """Return the difference and the tests as text."""
        said = "they differ" if self.is_significant else "chance may explain it"
        interval = f"95 % interval {self.low:+.2f} to {self.high:+.2f}, drawn over {self.over}"
        return (
            f"{self.difference:+.2f} points ({interval});"
            f" p = {self.p_bootstrap:.3g} by the bootstrap, {self.p_matched_pairs:.3g} by matched pairs: {said}"
        )

    @property
    def is_significant(self) -> bool:
        """Return whether both tests say that the systems differ, at the 5 % level."""
        return self.p_bootstrap < LEVEL and self.p_matched_pairs < LEVEL


def compare_errors(
    first: NDArray[np.float64], second: NDArray[np.float64], phones: NDArray[np.float64], speakers: Sequence[str]
) -> PairedTest:
    """Compare the errors of two systems.

    Parameters
    ----------
    first, second : ndarray, shape = (n_utterances,)
        Errors of each system; means over several runs may be fractions.
    phones : ndarray, shape = (n_utterances,)
        Reference phones.
    speakers : sequence of str
        The speaker of each utterance; empty if not known.
    """
    over = groups_of(speakers)
    groups = np.unique(np.asarray(speakers), return_inverse=True)[1] if over == "speakers" else np.arange(len(first))
    sums = np.stack([np.bincount(groups, weights=each) for each in (second - first, phones)], axis=1)
    differences = draw_rates(sums)
    low, high = np.percentile(differences, [2.5, 97.5]) if len(differences) else (0.0, 0.0)
    below, above = (float(np.mean(side)) if len(differences) else 1.0 for side in (differences <= 0, differences >= 0))
    total = 100 * float((second - first).sum()) / max(float(phones.sum()), 1.0)
    p = min(1.0, 2 * max(min(below, above), 0.5 / DRAWS))
    return PairedTest(total, float(low), float(high), over, p, matched_pairs(first, second), len(first))


def matched_pairs(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """Return the two-sided p-value of Gillick and Cox's matched-pairs test [1]_, with utterances as segments.

    ``W = mean(Z) / (std(Z) / sqrt(n))`` of the differences Z of errors is standard normal if the systems are alike.
    """
    differences = np.asarray(second - first, dtype=np.float64)
    if len(differences) < 2 or not differences.any():
        return 1.0
    deviation = float(differences.std(ddof=1))
    if deviation == 0:
        return 0.0
    return math.erfc(abs(float(differences.mean())) / (deviation / math.sqrt(len(differences))) / math.sqrt(2))


SILENCE = "sil"  # of the 39 phones
_TIMIT = frozenset((*TIMIT61, *TIMIT48, *TIMIT39))
_CLOSURES = frozenset("bcl dcl gcl pcl tcl kcl cl vcl".split())
_SUBSTITUTED, _OTHER, _OPTIONAL = 4.0, 3.0, 2.0  # sclite's costs of edits


@dataclass(frozen=True)
class Protocol:
    """A way to count errors.

    Attributes
    ----------
    name : str
    about : str
        What is folded, dropped and counted, in words.
    count : callable
        Takes the reference and the hypothesis of an utterance as labelled, and returns their `EditCounts`.
    """

    name: str
    about: str
    count: Callable[[Sequence[str], Sequence[str]], EditCounts]


class ProtocolScore(NamedTuple):
    """The score by a protocol.

    Attributes
    ----------
    name, about : str
        See `Protocol`.
    counts : EditCounts
    reliability : Reliability
    """

    name: str
    about: str
    counts: EditCounts
    reliability: Reliability

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON reports."""
        counts = {key: getattr(self.counts, key) for key in ("substitutions", "deletions", "insertions")}
        interval = {"per_low": self.reliability.low, "per_high": self.reliability.high}
        phones = {"reference_phones": self.counts.reference_phones}
        return {"name": self.name, "per": self.counts.per_or_none, **interval, **counts, **phones, "about": self.about}


def score_by_protocols(
    protocols: Iterable[Protocol], pairs: Sequence[tuple[Sequence[str], Sequence[str]]], speakers: Sequence[str]
) -> list[ProtocolScore]:
    """Score utterances by several protocols.

    Parameters
    ----------
    protocols : iterable of Protocol
    pairs : sequence of (sequence of str, sequence of str)
        The reference and the hypothesis of each utterance, as labelled.
    speakers : sequence of str
        The speaker of each utterance; empty if not known.
    """
    scores = []
    for protocol in protocols:
        each = [protocol.count(*pair) for pair in pairs]
        total = sum(each, start=EditCounts())
        scores.append(ProtocolScore(protocol.name, protocol.about, total, reliability(each, speakers)))
    return scores


def folded(name: str, folding: Folding) -> Protocol:
    """Return the protocol that folds both sides and counts the fewest edits."""

    def count(reference: Sequence[str], hypothesis: Sequence[str]) -> EditCounts:
        return edit_counts(folding.apply(reference), folding.apply(hypothesis))

    return Protocol(name, folding.protocol, count)


def protocols_for(inventory: Inventory, folding: Folding) -> list[Protocol]:
    """Return the protocols that apply to a phone set; the first is that of the model's folding.

    ``strict39``, ``kaldi`` and ``speechbrain`` are for the labels of TIMIT, ``segments`` and ``tones`` for tones as
    labels of their own, ``raw`` is for all.
    """
    names = {"timit39": "strict39", "none": "raw"}
    found = [folded(names.get(folding.name, folding.name), folding)]
    if is_timit(inventory):
        found += [folded("strict39", parse_folding("timit39")), kaldi(), speechbrain()]
    found.append(folded("raw", parse_folding("none")))
    if any(map(is_tone, inventory.phones)):
        found += [_only("segments", "phones without tones", False), _only("tones", "tones alone", True)]
    return [each for k, each in enumerate(found) if each.name not in [other.name for other in found[:k]]]


def _only(name: str, about: str, tones: bool) -> Protocol:
    """Return the protocol that counts tones alone, or all but these, as they are labelled."""

    def count(reference: Sequence[str], hypothesis: Sequence[str]) -> EditCounts:
        return edit_counts(*([each for each in side if is_tone(each) == tones] for side in (reference, hypothesis)))

    return Protocol(name, about, count)


def is_timit(inventory: Inventory) -> bool:
    """Return whether the labels are those of TIMIT, whole or folded: a named set of it, or its labels with closures."""
    labels = set(inventory.phones)
    return inventory.name.startswith("timit") or (labels <= _TIMIT and bool(labels & _CLOSURES))


def kaldi() -> Protocol:
    """Return the protocol of Kaldi's recipe [4]_: 39 phones, silences of the reference are optional.

    A deleted silence counts as right. Alignments are the cheapest with sclite's costs: 4 for a substitution, 3 for a
    deletion or insertion, 2 for the deletion of a silence.
    """
    folding = parse_folding("timit39")

    def count(reference: Sequence[str], hypothesis: Sequence[str]) -> EditCounts:
        ours, theirs = folding.apply(reference), folding.apply(hypothesis)
        deletions = [_OPTIONAL if phone == SILENCE else _OTHER for phone in ours]
        insertions = [_OTHER] * len(theirs)
        _, pairs = cheapest_edits(deletions, insertions, lambda i, j: _SUBSTITUTED * (ours[i] != theirs[j]))
        substituted = sum(i is not None and j is not None and ours[i] != theirs[j] for i, j in pairs)
        deleted = sum(j is None and i is not None and ours[i] != SILENCE for i, j in pairs)
        return EditCounts(substituted, deleted, sum(i is None for i, _ in pairs), len(ours), 1)

    return Protocol("kaldi", "39 phones, q dropped; a silence of the reference may be missing; sclite's costs", count)


def speechbrain() -> Protocol:
    """Return the protocol of SpeechBrain's recipe [5]_: 39 phones, two silences in a row count as one.

    As in the recipe, silences are merged by pairs, once: three in a row become two. The recipe merges those of the
    labels that it trains and scores with; here hypotheses are treated alike.
    """
    folding = parse_folding("timit39")

    def count(reference: Sequence[str], hypothesis: Sequence[str]) -> EditCounts:
        return edit_counts(_merged(folding.apply(reference)), _merged(folding.apply(hypothesis)))

    return Protocol("speechbrain", "39 phones, q dropped; two silences in a row merged to one", count)


def _merged(phones: Sequence[str]) -> list[str]:
    """Return the phones without the second of each pair of silences in a row."""
    kept: list[str] = []
    is_pair = False
    for k, phone in enumerate(phones):
        is_pair = phone == SILENCE and k > 0 and phones[k - 1] == SILENCE and not is_pair
        if not is_pair:
            kept.append(phone)
    return kept


Vector = tuple[int, ...]


@dataclass(frozen=True)
class FeatureScore:
    """The feature errors of utterances.

    Attributes
    ----------
    rate : float
        Per cent of the reference's segments.
    low, high : float or None
        Its 95 % interval, as of a PER.
    name, about : str
        The rate, and the features and costs, in words.
    """

    rate: float
    low: float | None
    high: float | None
    name: str = "PFER"
    about: str = "panphon's features; a phone deleted or inserted costs 0.5 to 1, by its features"

    def to_text(self) -> str:
        """Return the rate, its interval and its meaning in a line."""
        interval = "" if self.low is None else f" (95 % interval {self.low:.1f} to {self.high:.1f})"
        return f"{self.name} {self.rate:.2f} %{interval}: {self.about}"


def feature_score(
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]], speakers: Sequence[str], phones: Sequence[str]
) -> FeatureScore | str:
    """Score utterances by panphon's features [6]_ [7]_; silences are left out.

    Parameters
    ----------
    pairs : sequence of (sequence of str, sequence of str)
        References and hypotheses, as labelled.
    speakers : sequence of str
        The speaker of each utterance; empty if not known.
    phones : sequence of str
        The phone set; it decides whether labels are read as ARPABET or IPA.

    Returns
    -------
    FeatureScore or str
        Why there is none: panphon is not installed, or labels have no known place in the IPA.
    """
    if not find_spec("panphon"):
        return f"no PFER: {with_extra('pfer')}"
    arpabet = is_arpabet(phones)
    labels = {*phones, *(label for reference, _ in pairs for label in reference)} - SILENCES
    spelled = {label: ipa(label, arpabet)[0] for label in labels}
    unknown = sorted(label for label, symbol in spelled.items() if not (sounds_of(symbol) and _vectors(symbol)))
    if unknown:
        return f"no PFER: not IPA: {first_few(unknown)}"
    sums = []
    for pair in pairs:
        ours, theirs = ([v for label in side if label in spelled for v in _vectors(spelled[label])] for side in pair)
        costs = [list(map(_whole, side)) for side in (ours, theirs)]
        cost, _ = cheapest_edits(costs[0], costs[1], lambda i, j, a=ours, b=theirs: _substitution(a[i], b[j]))  # type: ignore[misc]
        sums.append((cost, len(ours)))
    if not any(count for _, count in sums):
        return "no PFER: no phones are labelled"
    rate = 100 * sum(cost for cost, _ in sums) / sum(count for _, count in sums)
    low, high, _ = bootstrap(sums, speakers)
    return FeatureScore(rate, low, high)


@lru_cache(maxsize=1 << 12)
def _whole(vector: Vector) -> float:
    """Return the cost of deleting or inserting a segment: its features, those without a value half, in shares."""
    return sum(1.0 if value else 0.5 for value in vector) / len(vector)


@lru_cache(maxsize=1 << 15)
def _substitution(a: Vector, b: Vector) -> float:
    """Return the share of features that differ; having a value or none differs by half."""
    return sum(abs(x - y) / 2 for x, y in zip(a, b, strict=True)) / len(a)


@lru_cache(maxsize=1 << 12)
def _vectors(symbol: str) -> tuple[Vector, ...]:
    """Return panphon's vectors of an IPA label."""
    spelled = symbol.replace("g", "ɡ").replace(":", "ː")  # panphon knows the IPA's own letters only
    return tuple(tuple(vector) for vector in _panphon_table().word_to_vector_list(spelled, numeric=True))


@cache
def _panphon_table() -> Any:
    import panphon

    return panphon.FeatureTable()
