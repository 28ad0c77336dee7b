"""Write a page on how a model does on a split: scores, errors by group, confusions, utterances with their sound."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.core.cores import map_in_threads
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Utterance
from speechctc.inference.recogniser import Recogniser
from speechctc.metrics.edits import DIMENSIONS, Confusions, Edit, align, phonetic_order
from speechctc.metrics.per import EditCounts, bootstrap
from speechctc.pages import timeline
from speechctc.pages.page import render_page
from speechctc.pages.timeline import Cell, Kind, Tier, Timeline, make_timeline
from speechctc.phones.folding import Folding
from speechctc.phones.matching import is_arpabet
from speechctc.stages.evaluate import Evaluation
from speechctc.stages.split_scoring import ScoredSplit, ScoredUtterance, Times, times_of_labels

FILE = "report.html"
EXAMPLES = 10  # of the worst, of the typical and of the best utterances
TITLES = {
    "worst": "The worst utterances",
    "typical": "Typical utterances, with error rates next to that of all",
    "best": "The best utterances",
}

PAGE_RATE = 16000  # Hz, of the sound on pages
_SAID_OF_REFERENCE = {"right": "right", "deleted": "deleted", "substituted": "recognised as"}
_SAID_OF_HYPOTHESIS = {"right": "right", "inserted": "inserted", "substituted": "instead of"}

LENGTHS = 4  # groups of utterances by length
CONTEXTS = 15  # most frequent contexts of deletions and insertions to show
DELETED, INSERTED = "deleted", "inserted"
Key = TypeVar("Key", bound=tuple[str, ...])


def report_file(folder: Path) -> Path:
    """Return the page of a folder of reports."""
    return folder / FILE


def write_report(
    scored: ScoredSplit,
    evaluation: Evaluation,
    recogniser: Recogniser,
    model: str,
    examples: int,
    reporter: Reporter,
) -> str:
    """Return the page as HTML.

    Parameters
    ----------
    scored : ScoredSplit
        At least one utterance of it was decoded.
    evaluation : Evaluation
        Its scores.
    recogniser : Recogniser
        The model that decoded it; it also places references in time that have no times.
    model : str
        The model, in words.
    examples : int
        How many of the worst, of the typical and of the best utterances to show with their sound.
    reporter : Reporter
        Receives the errors of recordings that can no longer be read.
    """
    counts = confusions(scored)
    ranked = sorted(scored.results, key=lambda result: (-result.counts.per, result.utterance.id))
    shown = _examples(scored, recogniser, examples, reporter)
    values: dict[str, Any] = {
        "model": model,
        "evaluation": evaluation,
        "groups": groups(scored),
        "matrix": confusion_matrix(counts),
        "pairs": worst_pairs(counts),
        "features": feature_matrices(counts),
        "deletions": _most(counts.deletion_contexts),
        "insertions": _most(counts.insertion_contexts),
        "bins": reliability_bins(*scored.marks[:2]),
        "examples": shown,
        "titles": TITLES,
        "with_sound": {example.result.number for part in shown.values() for example in part},
        "utterances": ranked,
        "studio_command": studio_command,
        "marked": lambda result: marked(result, scored),
    }
    title = f"How well the model does on {evaluation.split}: {evaluation.counts.per:.1f} % PER"
    return render_page("report.html", title, values, [timeline.STYLE, "report.css"], [timeline.SCRIPT])


def _examples(scored: ScoredSplit, recogniser: Recogniser, most: int, reporter: Reporter) -> dict[str, list[Example]]:
    """Return the utterances to show, by the reason to show them."""
    chosen = choose(scored, most)
    shown: dict[str, list[Example]] = {reason: [] for reason in chosen}
    drawn = ((reason, each) for reason in chosen for each in show(chosen[reason], recogniser, scored.folding))
    for reason, example in reporter.track("drawing", drawn, sum(map(len, chosen.values()))):
        if isinstance(example, InputError):
            reporter.warn(str(example))
        else:
            shown[reason].append(example)
    return shown


def marked(result: ScoredUtterance, scored: ScoredSplit) -> list[tuple[str, str, str]]:
    """Return the alignment of an utterance: the kind of each edit, the labelled phone and the recognised one."""
    ours, theirs = result.utterance.phones, result.phones

    def both(edit: Edit) -> tuple[str, str, str]:
        first = ours[edit.reference] if edit.reference is not None else ""
        return edit.kind, first, theirs[edit.hypothesis] if edit.hypothesis is not None else ""

    return [both(edit) for edit in align(ours, theirs, scored.folding)]


class Example(NamedTuple):
    """An utterance on the page.

    Attributes
    ----------
    result : ScoredUtterance
    timeline : Timeline
    placed : str
        Where the times of the reference are from, in words.
    """

    result: ScoredUtterance
    timeline: Timeline
    placed: str


def choose(scored: ScoredSplit, most: int) -> dict[str, list[ScoredUtterance]]:
    """Return at most so many of the worst, the typical and the best utterances; each utterance is in one list.

    The worst have the highest error rates, the best the lowest, and of equal rates the longer come first. The typical
    ones are those whose rates are next to that of the split.
    """
    results = [result for result in scored.results if result.counts.reference_phones]
    most = min(most, -(-len(results) // 3))
    length = {result.number: result.counts.reference_phones for result in results}
    worst = sorted(results, key=lambda each: (-each.counts.per, -length[each.number]))[:most]
    left = [each for each in results if each not in worst]
    best = sorted(left, key=lambda each: (each.counts.per, -length[each.number]))[:most]
    left = [each for each in left if each not in best]
    typical = sorted(left, key=lambda each: (abs(each.counts.per - scored.counts.per), each.number))[:most]
    return {"worst": worst, "typical": typical, "best": best}


def show(
    results: Sequence[ScoredUtterance], recogniser: Recogniser, folding: Folding
) -> Iterator[Example | InputError]:
    """Yield each utterance with its sound and its picture, or the error that says why it cannot be shown."""
    return map_in_threads(lambda result: _example(result, recogniser, folding), results)


def _example(result: ScoredUtterance, recogniser: Recogniser, folding: Folding) -> Example:
    utterance = result.utterance
    samples, _ = sound_file.read(utterance.audio, PAGE_RATE, utterance.channel, utterance.stretch)
    times = times_of_labels(utterance, recogniser)
    placed = "as labelled" if utterance.times is not None else "as the model aligns it"
    placed = "the reference could not be placed in time" if times is None else f"times of the reference {placed}"
    edits = align(utterance.phones, result.phones, folding)
    tiers = [Tier("recognised", tuple(_recognised(result, edits)))]
    if times is not None:
        tiers.insert(0, Tier("reference", tuple(_labelled(result, edits, times))))
    timeline = make_timeline(f"u{result.number}", utterance.id, samples, PAGE_RATE, tiers)
    return Example(result, timeline, placed)


def _labelled(result: ScoredUtterance, edits: Sequence[Edit], times: Times) -> Iterator[Cell]:
    """Yield the phones of the reference with what was recognised in their place."""
    found = {edit.reference: edit for edit in edits if edit.reference is not None}
    for k, (phone, (start, end)) in enumerate(zip(result.utterance.phones, times, strict=True)):
        edit = found.get(k)
        said = _SAID_OF_REFERENCE.get(_kind(edit), "not scored")
        if edit and edit.kind == "substituted" and edit.hypothesis is not None:
            said += f" {result.segments[edit.hypothesis].phone}"
        yield Cell(start, end, phone, _kind(edit), f"{phone}, {start:.2f} to {end:.2f} s, {said}")


def _recognised(result: ScoredUtterance, edits: Sequence[Edit]) -> Iterator[Cell]:
    """Yield the recognised phones with their confidences."""
    found = {edit.hypothesis: edit for edit in edits if edit.hypothesis is not None}
    for k, segment in enumerate(result.segments):
        edit = found.get(k)
        said = _SAID_OF_HYPOTHESIS.get(_kind(edit), "not scored")
        if edit and edit.kind == "substituted" and edit.reference is not None:
            said += f" {result.utterance.phones[edit.reference]}"
        span = f"{segment.start:.2f} to {segment.end:.2f} s"
        about = f"{segment.phone}, {span}, {said}, confidence {segment.confidence:.2f}"
        yield Cell(segment.start, segment.end, segment.phone, _kind(edit), about)


def _kind(edit: Edit | None) -> Kind:
    return edit.kind if edit else "plain"


def studio_command(utterance: Utterance) -> str:
    """Return the command that opens the recording of an utterance in the studio, at its start."""
    at = f" --at {utterance.stretch[0]:.2f}" if utterance.stretch else ""
    return f"speechctc studio {shlex.quote(str(utterance.audio))}{at}"


def groups(scored: ScoredSplit) -> list[tuple[str, list[Bar]]]:
    """Return error rates by traits of the speakers, by length, and by speaker; those with more than one group."""
    traits = dict.fromkeys(name for result in scored.results for name, _ in result.utterance.traits)
    tables = [(name, _bars(scored, partial(_trait, name))) for name in traits]
    tables.append(("length", _by_length(scored)))
    speakers = _bars(scored, lambda result: result.utterance.speaker)
    tables.append(("speaker", sorted(speakers, key=lambda bar: -bar.counts.per)))
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
    return Bar(name, counts, interval)


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
    return Matrix([*order, INSERTED], [*order, DELETED], pairs)


def feature_matrices(counts: Confusions) -> list[tuple[str, Matrix]]:
    """Return the confusions summed by place, manner, voicing, height and backness; those with several values."""
    found = []
    for dimension, pairs in counts.by_feature(is_arpabet([*counts.phones])).items():
        values = {value for pair in pairs for value in pair}
        order = [value for value in DIMENSIONS[dimension] if value in values]
        if len(order) > 1:
            found.append((dimension, Matrix(order, order, pairs)))
    return found


def worst_pairs(counts: Confusions) -> list[tuple[str, str, int]]:
    """Return the most frequent confusions of two phones."""
    wrong = Counter({pair: count for pair, count in counts.pairs.items() if pair[0] != pair[1]})
    return [(ours, theirs, count) for (ours, theirs), count in _most(wrong)]


def _most(counts: Counter[Key]) -> list[tuple[Key, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:CONTEXTS]


BINS = 10


class Bar(NamedTuple):
    """A row of a table of rates: its name, its edits, and the 95 % interval of the rate in words, or ``""``."""

    name: str
    counts: EditCounts
    interval: str


class Matrix(NamedTuple):
    """Counts of pairs, in an order of rows, which are of the reference, and columns, of what was recognised."""

    rows: Sequence[str]
    columns: Sequence[str]
    counts: Counter[tuple[str, str]]

    def total(self, row: str) -> int:
        """Return the sum of a row."""
        return sum(self.counts[row, column] for column in self.columns)


@dataclass(frozen=True)
class ReliabilityBin:
    """The phones whose confidence is in a range: their number, mean confidence, and the share that is right."""

    low: float
    high: float
    count: int
    confidence: float
    right: float


def reliability_bins(confidences: NDArray[np.float64], right: NDArray[np.float64]) -> list[ReliabilityBin]:
    """Return ten bins of equal width; bins without phones have a count of 0.

    Parameters
    ----------
    confidences, right : ndarray, shape = (n_phones,)
        The confidence of each phone, and 1 if it is right, else 0.
    """
    numbers = np.minimum((confidences * BINS).astype(int), BINS - 1)
    bins = []
    for k in range(BINS):
        inside = numbers == k
        count = int(inside.sum())
        mean, share = (float(each[inside].mean()) if count else 0.0 for each in (confidences, right))
        bins.append(ReliabilityBin(k / BINS, (k + 1) / BINS, count, mean, share))
    return bins
