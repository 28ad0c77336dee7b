"""Decode a split of the corpus, and mark each phone as right or wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from speechctc.config.load import override, parse_config
from speechctc.config.schema import Config
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Utterance
from speechctc.inference.batch_decode import decode_files, map_in_threads
from speechctc.inference.calibration import right_phones
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.metrics.per import EditCounts, Reliability, edit_counts, reliability
from speechctc.phones.folding import Folding, choose_folding
from speechctc.phones.inventory import Inventory, inventory_of
from speechctc.phones.notations import choose_symbols
from speechctc.stages.scored_corpus import in_notation_of, read_to_score
from speechctc.stages.utterance_sound import sound_of


class ScoredUtterance(NamedTuple):
    """An utterance, the phones recognised in it, and its errors by the model's folding.

    Attributes
    ----------
    number : int
        Its place in the split.
    utterance : Utterance
    segments : tuple of Segment
    counts : EditCounts
    """

    number: int
    utterance: Utterance
    segments: tuple[Segment, ...]
    counts: EditCounts

    @property
    def phones(self) -> list[str]:
        """The phones recognised."""
        return [segment.phone for segment in self.segments]


@dataclass
class ScoredSplit:
    """The scores of a split.

    Attributes
    ----------
    utterances : tuple of Utterance
        All utterances of the split, decoded or not.
    protocol : str
        How phones were decoded, folded and compared, in words.
    folding : Folding
    inventory : Inventory
        The phones that may be recognised, as they are written.
    notes : tuple of str
        How the corpus was divided and its labels were read, where that is not as in the model's config.
    labels : dict of str to tuple of str
        By id, the phones of each utterance as the corpus has them.
    results : list of ScoredUtterance
    counts : EditCounts
        Of all results.
    skipped : list of (str, str)
        Ids of utterances that could not be scored, and the reasons.
    """

    utterances: tuple[Utterance, ...]
    protocol: str
    folding: Folding
    inventory: Inventory
    notes: tuple[str, ...] = ()
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    results: list[ScoredUtterance] = field(default_factory=list)
    counts: EditCounts = field(default_factory=EditCounts)
    skipped: list[tuple[str, str]] = field(default_factory=list)

    def add(self, number: int, segments: tuple[Segment, ...]) -> None:
        """Score the phones recognised in utterance `number`."""
        utterance, phones = self.utterances[number], [segment.phone for segment in segments]
        counts = edit_counts(self.folding.apply(utterance.phones), self.folding.apply(phones))
        self.results.append(ScoredUtterance(number, utterance, segments, counts))
        self.counts += counts

    @property
    def speakers(self) -> list[str]:
        """The speaker of each result."""
        return [result.utterance.speaker for result in self.results]

    @property
    def reliability(self) -> Reliability:
        """The PER's interval."""
        return reliability([result.counts for result in self.results], self.speakers)

    @cached_property
    def _phones(self) -> list[tuple[float, bool, int]]:
        """Return confidence, rightness and utterance of each scored phone; asked for when all results are there."""
        return [
            (segment.confidence, right, number)
            for number, utterance, segments, _ in self.results
            for segment, right in zip(
                segments, right_phones(utterance.phones, [each.phone for each in segments], self.folding), strict=True
            )
            if right is not None
        ]

    @property
    def confidences(self) -> NDArray[np.float64]:
        """The confidence of each scored phone, shape = (n_phones,)."""
        return np.array([confidence for confidence, _, _ in self._phones], dtype=np.float64)

    @property
    def right(self) -> NDArray[np.float64]:
        """1 for each scored phone that is right, 0 for others, shape = (n_phones,)."""
        return np.array([right for _, right, _ in self._phones], dtype=np.float64)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """The number of each scored phone's utterance, shape = (n_phones,)."""
        return np.array([number for _, _, number in self._phones], dtype=np.int64)


def score_split(
    recogniser: Recogniser,
    split: str,
    overrides: Sequence[str],
    reporter: Reporter,
    what: str,
    symbols: str = "own",
) -> ScoredSplit:
    """Decode a split of the model's corpus and compare with the labels.

    Parameters
    ----------
    recogniser : Recogniser
    split : str
    overrides : sequence of str
        Settings that replace those of the model's config: another corpus, folding or decoding.
    reporter : Reporter
    what : str
        The text of the progress bar.
    symbols : str
        How the phones recognised are written; see `speechctc.phones.notations.choose_symbols`. The labels are compared
        as they are where they have these symbols, and by tables where they are in another notation.

    Raises
    ------
    InputError
        The split is empty, or none of its recordings can be decoded.
    """
    config = _override(recogniser.config, overrides)
    corpus, notes = read_to_score(config, recogniser.config, split)
    chosen = choose_symbols(recogniser.phones, symbols)
    inventory = _written(recogniser.inventory, chosen.written)
    folding = choose_folding("none" if chosen.written else config.score.fold, inventory)
    recogniser = recogniser.configured(config)
    utterances, more = in_notation_of(inventory.phones, corpus.splits[split])
    method = [folding.protocol, recogniser.method, "minimal edit distance, every phone counted alike"]
    said = (*notes, *more, *([chosen.note] if chosen.note else []))
    method += ["labels read in the model's notation"] if more else []
    scored = ScoredSplit(utterances, "; ".join(method), folding, inventory, said)
    scored.labels = {each.id: each.phones for each in corpus.splits[split]}
    scored.skipped += [(entry.id, entry.reason) for entry in corpus.rejected.get(split, ())]
    if not scored.utterances:
        raise InputError(f"the corpus has no {split} split, or nothing usable in it", "name another with --split")
    for note in said:
        reporter.note(note)
    results = _decode(recogniser, scored.utterances)
    with reporter.progress(f"{what} {split}", len(scored.utterances)) as advance:
        for number, result in enumerate(results):
            if isinstance(result, InputError):
                scored.skipped.append((scored.utterances[number].id, result.what))
            else:
                scored.add(number, result.renamed(chosen.written).segments)
            advance(1, f"PER {scored.counts.per:.2f} %")
    if not scored.counts.utterances:
        reason = scored.skipped[-1][1]
        raise InputError(f"none of the {len(scored.utterances)} recordings of {split} can be decoded", reason)
    return scored


def _written(inventory: Inventory, symbols: Mapping[str, str]) -> Inventory:
    """Return the phones of a model as symbols."""
    return inventory_of(symbols.get(phone, phone) for phone in inventory.phones) if symbols else inventory


def _decode(recogniser: Recogniser, utterances: Sequence[Utterance]) -> Iterator[Recognition | InputError]:
    """Decode utterances in order, each from its channel and its stretch of the recording."""
    channels = {utterance.channel for utterance in utterances}
    if len(channels) == 1 and not any(utterance.stretch for utterance in utterances):
        return decode_files(recogniser, [utterance.audio for utterance in utterances], channel=channels.pop())
    return map_in_threads(lambda utterance: recogniser.decode(**sound_of(utterance, recogniser)), utterances)


def _override(config: Config, overrides: Sequence[str]) -> Config:
    return parse_config(override(config.to_dict(), overrides), "the model's config with these settings")
