"""Write a page on how a model does on a split: scores, errors by group, confusions, utterances with their sound."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.core.errors import InputError
from speechctc.core.parallel import map_in_threads
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Utterance
from speechctc.inference.recogniser import Recogniser
from speechctc.metrics.edits import DIMENSIONS, Confusions, Edit, align, phonetic_order
from speechctc.metrics.protocols import ProtocolScore
from speechctc.pages import timeline
from speechctc.pages.page import render_page
from speechctc.pages.timeline import Cell, Kind, Tier, Timeline, make_timeline, sound_url
from speechctc.phones.articulation import is_arpabet
from speechctc.phones.folding import Folding
from speechctc.stages.evaluate import Evaluation, score_of, scores_by
from speechctc.stages.split_scoring import ScoredSplit, ScoredUtterance, Times, times_of_labels

FILE = "report.html"
EXAMPLES = 10  # of the worst, of the typical and of the best utterances
TITLES = {
    "worst": "The worst utterances",
    "typical": "Typical utterances, with error rates next to that of all",
    "best": "The best utterances",
}

PAGE_RATE = 16000  # Hz, of the sound on pages
MOST_SOUND = 6_000_000  # bytes of the page for sounds of the list: some 25 minutes; of more, the rest are links
_SAID_OF_REFERENCE = {"right": "right", "deleted": "deleted", "substituted": "recognised as"}
_SAID_OF_HYPOTHESIS = {"right": "right", "inserted": "inserted", "substituted": "instead of"}

LENGTHS = 4  # groups of utterances by length
CONTEXTS = 15  # most frequent contexts of deletions and insertions to show
DELETED, INSERTED = "deleted", "inserted"
Key = TypeVar("Key", bound=tuple[str, ...])


def write_report(
    scored: ScoredSplit, evaluation: Evaluation, recogniser: Recogniser, examples: int, reporter: Reporter
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
    examples : int
        How many of the worst, of the typical and of the best utterances to show with spectrogram and sound. If 0, the
        page has no sound; else the others can be heard in the list (see `sounds`).
    reporter : Reporter
        Receives the errors of recordings that can no longer be read.
    """
    counts = confusions(scored)
    ranked = sorted(scored.results, key=lambda result: (-result.counts.rank, result.utterance.id))
    shown = _examples(scored, recogniser, examples, reporter)
    with_sound = {example.result.number for part in shown.values() for example in part}
    listed = [result for result in ranked if result.number not in with_sound] if examples else []
    heard = sounds(listed, reporter)
    values: dict[str, Any] = {
        "model": recogniser.about,
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
        "with_sound": with_sound,
        "sounds": heard,
        "linked": sum(not each.startswith("data:") for each in heard.values()),
        "utterances": ranked,
        "studio_command": studio_command,
        "marked": lambda result: marked(result, scored),
    }
    title = f"How well the model does on {evaluation.split}: {evaluation.counts.to_text(1)} PER"
    return render_page(
        "report.html", title, values, [timeline.STYLE, "report.css"], [timeline.SCRIPT, "sortable.js", "clips.js"]
    )


def _examples(scored: ScoredSplit, recogniser: Recogniser, most: int, reporter: Reporter) -> dict[str, list[Example]]:
    """Return the utterances to show, by the reason to show them."""
    chosen = choose(scored, most)
    shown: dict[str, list[Example]] = {reason: [] for reason in chosen}
    pairs = [(reason, result) for reason, results in chosen.items() for result in results]
    drawn = map_in_threads(lambda pair: show(pair[1], recogniser, scored.folding), pairs)
    for (reason, _), example in reporter.track("drawing", zip(pairs, drawn, strict=True), len(pairs)):
        if isinstance(example, InputError):
            reporter.warn(str(example))
        else:
            shown[reason].append(example)
    return shown


def sounds(results: Sequence[ScoredUtterance], reporter: Reporter) -> dict[int, str]:
    """Return the sounds of utterances by their numbers: ``data:`` URLs, and links to the files once those are too long.

    Parameters
    ----------
    results : sequence of ScoredUtterance
        The first ones are put into the page, as many as fit into 6 MB.
    reporter : Reporter
        Receives the errors of recordings that can no longer be read; these have no sound.
    """
    found, size = dict[int, str](), 0
    clips = map_in_threads(_clip, results)
    for result, clip in reporter.track("adding sounds", zip(results, clips, strict=True), len(results)):
        if isinstance(clip, InputError):
            reporter.warn(str(clip))
            continue
        size += len(clip)
        if size > MOST_SOUND:
            break
        found[result.number] = clip
    ended = size > MOST_SOUND
    return found | {each.number: _link(each.utterance) for each in results if ended and each.number not in found}


def _clip(result: ScoredUtterance) -> str:
    return sound_url(_samples(result.utterance), PAGE_RATE)


def _samples(utterance: Utterance) -> NDArray[np.float32]:
    return sound_file.read(utterance.audio, PAGE_RATE, utterance.channel, utterance.stretch)[0]


def _link(utterance: Utterance) -> str:
    """Return the address of the recording on this machine, at the stretch that is the utterance."""
    at = f"#t={utterance.stretch[0]:.2f},{utterance.stretch[1]:.2f}" if utterance.stretch else ""
    return utterance.audio.resolve().as_uri() + at


def marked(result: ScoredUtterance, scored: ScoredSplit) -> list[tuple[str, str, str]]:
    """Return the alignment of an utterance: the kind of each edit, the labelled phone and the recognised one."""
    ours, theirs = ({None: "", **dict(enumerate(side))} for side in (result.utterance.phones, result.phones))
    edits = align(result.utterance.phones, result.phones, scored.folding)
    return [(edit.kind, ours[edit.reference], theirs[edit.hypothesis]) for edit in edits]


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
    worst = sorted(results, key=lambda each: (-each.counts.rank, -length[each.number]))[:most]
    left = [each for each in results if each not in worst]
    best = sorted(left, key=lambda each: (each.counts.rank, -length[each.number]))[:most]
    left = [each for each in left if each not in best]
    typical = sorted(left, key=lambda each: (abs(each.counts.rank - scored.counts.rank), each.number))[:most]
    return {"worst": worst, "typical": typical, "best": best}


def show(result: ScoredUtterance, recogniser: Recogniser, folding: Folding) -> Example:
    """Return an utterance with its sound and its picture."""
    utterance = result.utterance
    times = times_of_labels(utterance, recogniser)
    placed = "as labelled" if utterance.times is not None else "as the model aligns it"
    placed = "the reference could not be placed in time" if times is None else f"times of the reference {placed}"
    edits = align(utterance.phones, result.phones, folding)
    tiers = [Tier("recognised", tuple(_recognised(result, edits)))]
    if times is not None:
        tiers.insert(0, Tier("reference", tuple(_labelled(result, edits, times))))
    timeline = make_timeline(f"u{result.number}", utterance.id, _samples(utterance), PAGE_RATE, tiers)
    return Example(result, timeline, placed)


def _labelled(result: ScoredUtterance, edits: Sequence[Edit], times: Times) -> Iterator[Cell]:
    """Yield the phones of the reference with what was recognised in their place."""
    found = {edit.reference: edit for edit in edits if edit.reference is not None}
    for k, (phone, (start, end)) in enumerate(zip(result.utterance.phones, times, strict=True)):
        edit = found.get(k)
        other = "" if edit is None or edit.hypothesis is None else result.phones[edit.hypothesis]
        yield _cell(start, end, phone, edit, _SAID_OF_REFERENCE, other)


def _recognised(result: ScoredUtterance, edits: Sequence[Edit]) -> Iterator[Cell]:
    """Yield the recognised phones with their confidences."""
    found = {edit.hypothesis: edit for edit in edits if edit.hypothesis is not None}
    for k, segment in enumerate(result.segments):
        edit = found.get(k)
        other = "" if edit is None or edit.reference is None else result.utterance.phones[edit.reference]
        cell = _cell(segment.start, segment.end, segment.phone, edit, _SAID_OF_HYPOTHESIS, other)
        yield replace(cell, about=f"{cell.about}, confidence {segment.confidence:.2f}")


def _cell(start: float, end: float, phone: str, edit: Edit | None, words: Mapping[str, str], other: str) -> Cell:
    """Return a phone with what became of it, in these words; `other` is the phone of the other side."""
    kind: Kind = edit.kind if edit else "plain"
    said = words.get(kind, "not scored") + (f" {other}" if kind == "substituted" else "")
    return Cell(start, end, phone, kind, f"{phone}, {start:.2f} to {end:.2f} s, {said}")


def studio_command(utterance: Utterance) -> str:
    """Return the command that opens the recording of an utterance in the studio, at its start."""
    at = f" --at {utterance.stretch[0]:.2f}" if utterance.stretch else ""
    return f"speechctc studio {shlex.quote(str(utterance.audio))}{at}"


def groups(scored: ScoredSplit) -> list[tuple[str, list[ProtocolScore]]]:
    """Return error rates by traits of the speakers, by length, and by speaker; those with more than one group."""
    traits = dict.fromkeys(name for result in scored.results for name, _ in result.utterance.traits)
    tables = [(name, scores_by(scored.results, partial(Utterance.trait, name=name))) for name in traits]
    tables.append(("length", _by_length(scored)))
    speakers = scores_by(scored.results, lambda utterance: utterance.speaker)
    tables.append(("speaker", sorted(speakers, key=lambda score: -score.counts.rank)))
    return [(name, scores) for name, scores in tables if len(scores) > 1]


def _by_length(scored: ScoredSplit) -> list[ProtocolScore]:
    """Return the error rates of about equally many utterances each, from short to long."""
    lengths = np.array([len(result.utterance.phones) for result in scored.results])
    edges = np.unique(np.quantile(lengths, np.arange(1, LENGTHS) / LENGTHS, method="lower"))
    numbers = np.searchsorted(edges, lengths, side="left")
    scores = []
    for number in np.unique(numbers):
        inside = numbers == number
        low, high = lengths[inside].min(), lengths[inside].max()
        name = f"{low} phones" if low == high else f"{low} to {high} phones"
        scores.append(score_of(name, [scored.results[k] for k in np.flatnonzero(inside)]))
    return scores


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


@dataclass(frozen=True)
class ReliabilityBin:
    """The phones whose confidence is in a range: their number, mean confidence, and the share that is right."""

    low: float
    high: float
    count: int
    confidence: float
    right: float


class Matrix(NamedTuple):
    """Counts of pairs, in an order of rows, which are of the reference, and columns, of what was recognised."""

    rows: Sequence[str]
    columns: Sequence[str]
    counts: Counter[tuple[str, str]]

    def total(self, row: str) -> int:
        """Return the sum of a row."""
        return sum(self.counts[row, column] for column in self.columns)


def reliability_bins(confidences: NDArray[np.float64], right: NDArray[np.float64]) -> list[ReliabilityBin]:
    """Return ten bins of equal width; bins without phones have a count of 0.

    Parameters
    ----------
    confidences, right : ndarray, shape = (n_phones,)
        The confidence of each phone, and 1 if it is right, else 0.
    """
    numbers = np.minimum((confidences * BINS).astype(int), BINS - 1)
    counts = np.bincount(numbers, minlength=BINS)
    means, shares = (np.bincount(numbers, each, BINS) / np.maximum(counts, 1) for each in (confidences, right))
    values = zip(counts.tolist(), means.tolist(), shares.tolist(), strict=True)
    return [ReliabilityBin(k / BINS, (k + 1) / BINS, *each) for k, each in enumerate(values)]
