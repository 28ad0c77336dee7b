"""Decode a split of the corpus, and mark each phone as right or wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from speechctc.config.load import override, parse_config
from speechctc.config.schema import Config
from speechctc.corpora.corpus import Utterance
from speechctc.corpora.registry import read_corpus
from speechctc.errors import InputError
from speechctc.inference.batch_decode import decode_files, map_in_threads
from speechctc.inference.calibration import right_phones
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.metrics.per import EditCounts, Reliability, edit_counts, reliability
from speechctc.phones.folding import Folding, choose_folding
from speechctc.progress import Reporter
from speechctc.stages.utterance_sound import sound_of


@dataclass
class ScoredSplit:
    """The scores of a split.

    Attributes
    ----------
    utterances : tuple of Utterance
        All utterances of the split, decoded or not.
    protocol : str
        How phones were decoded, folded and compared, in words.
    counts : EditCounts
    skipped : list of (str, str)
        Ids of utterances that could not be scored, and the reasons.
    """

    utterances: tuple[Utterance, ...]
    protocol: str
    counts: EditCounts = field(default_factory=EditCounts)
    _each: list[EditCounts] = field(default_factory=list)
    _speakers: list[str] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    _phones: list[tuple[float, bool, int]] = field(default_factory=list)

    def add(self, number: int, phones: Sequence[str], confidences: Sequence[float], folding: Folding) -> None:
        """Score the phones recognised in utterance `number`."""
        reference = self.utterances[number].phones
        counts = edit_counts(folding.apply(reference), folding.apply(phones))
        self.counts += counts
        self._each.append(counts)
        self._speakers.append(self.utterances[number].speaker)
        for confidence, right in zip(confidences, right_phones(reference, phones, folding), strict=True):
            if right is not None:
                self._phones.append((confidence, right, number))

    @property
    def reliability(self) -> Reliability:
        """The PER's interval."""
        return reliability(self._each, self._speakers)

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
    recogniser: Recogniser, split: str, overrides: Sequence[str], reporter: Reporter, what: str
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

    Raises
    ------
    InputError
        The split is empty, or none of its recordings can be decoded.
    """
    config = _override(recogniser.config, overrides)
    corpus = read_corpus(config.corpus)
    folding = choose_folding(config.score.fold, recogniser.inventory)
    recogniser = recogniser.configured(config)
    protocol = f"{folding.protocol}; {recogniser.method}; minimal edit distance, every phone counted alike"
    scored = ScoredSplit(corpus.splits[split], protocol)
    scored.skipped += [(entry.id, entry.reason) for entry in corpus.rejected.get(split, ())]
    if not scored.utterances:
        raise InputError(f"the corpus has no {split} split, or nothing usable in it", "name another with --split")
    results = _decode(recogniser, scored.utterances)
    with reporter.progress(f"{what} {split}", len(scored.utterances)) as advance:
        for number, result in enumerate(results):
            if isinstance(result, InputError):
                scored.skipped.append((scored.utterances[number].id, result.what))
            else:
                confidences = [segment.confidence for segment in result.segments]
                scored.add(number, result.phones, confidences, folding)
            advance(1, f"PER {scored.counts.per:.2f} %")
    if not scored.counts.utterances:
        reason = scored.skipped[-1][1]
        raise InputError(f"none of the {len(scored.utterances)} recordings of {split} can be decoded", reason)
    return scored


def _decode(recogniser: Recogniser, utterances: Sequence[Utterance]) -> Iterator[Recognition | InputError]:
    """Decode utterances in order, each from its channel and its stretch of the recording."""
    channels = {utterance.channel for utterance in utterances}
    if len(channels) == 1 and not any(utterance.stretch for utterance in utterances):
        return decode_files(recogniser, [utterance.audio for utterance in utterances], channel=channels.pop())
    return map_in_threads(lambda utterance: recogniser.decode(**sound_of(utterance, recogniser)), utterances)


def _override(config: Config, overrides: Sequence[str]) -> Config:
    return parse_config(override(config.to_dict(), overrides), "the model's config with these settings")
