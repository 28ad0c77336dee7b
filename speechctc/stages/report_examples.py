"""The utterances that a report shows with sound: the worst, the typical and the best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from speechctc.audio import sound_file
from speechctc.core.errors import InputError
from speechctc.inference.batch_decode import map_in_threads
from speechctc.inference.recogniser import Recogniser
from speechctc.metrics.edits import Edit, align
from speechctc.pages.timeline import Cell, Kind, Tier, Timeline, make_timeline
from speechctc.phones.folding import Folding
from speechctc.stages.split_scoring import ScoredSplit, ScoredUtterance
from speechctc.stages.utterance_sound import sound_of

PAGE_RATE = 16000  # Hz, of the sound on pages
_SAID_OF_REFERENCE = {"right": "right", "deleted": "deleted", "substituted": "recognised as"}
_SAID_OF_HYPOTHESIS = {"right": "right", "inserted": "inserted", "substituted": "instead of"}
Times = Sequence[tuple[float, float]]


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
    times, placed = _reference_times(result, recogniser)
    edits = align(utterance.phones, result.phones, folding)
    tiers = [Tier("recognised", tuple(_recognised(result, edits)))]
    if times is not None:
        tiers.insert(0, Tier("reference", tuple(_labelled(result, edits, times))))
    timeline = make_timeline(f"u{result.number}", utterance.id, samples, PAGE_RATE, tiers)
    return Example(result, timeline, placed)


def _reference_times(result: ScoredUtterance, recogniser: Recogniser) -> tuple[Times | None, str]:
    """Return the times of the reference: as labelled, or else as the model aligns it."""
    utterance = result.utterance
    if utterance.times is not None:
        return utterance.times, "times of the reference as labelled"
    try:
        found = recogniser.align(phones=utterance.phones, **sound_of(utterance, recogniser))
    except InputError:
        return None, "the reference could not be placed in time"
    return [(each.start, each.end) for each in found.segments], "times of the reference as the model aligns it"


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
