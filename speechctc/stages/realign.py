"""Choose pronunciations and silences by a model, and find transcripts that are not those of their recordings."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.config.schema import Config
from speechctc.core.errors import InputError, counted, some
from speechctc.core.progress import Reporter
from speechctc.corpora.corpus import Corpus, Utterance
from speechctc.ctc import ctc_loss
from speechctc.inference.recogniser import Recogniser
from speechctc.phones.inventory import SILENCES
from speechctc.phones.matching import match_phones
from speechctc.phones.pronouncer import Word

DOUBTFUL = 4.0  # an utterance's loss a phone is this many times the median deviation above the median: told
LEAST = 1.0  # nats a phone above the median, in any case

Labels = tuple[int, ...]


class Scored(NamedTuple):
    """An utterance with the chosen pronunciation of each word, how many silences were placed, and its loss a phone."""

    utterance: Utterance
    variants: tuple[int, ...]
    silences: int
    loss: float


def realign(corpus: Corpus, config: Config, model: Path, reporter: Reporter) -> Corpus:
    """Return the corpus with the pronunciations and silences that score best; nothing else is changed.

    A silence may stand before, between and after words if the corpus's phone set has a label of silence, and the model
    has one too.

    Parameters
    ----------
    corpus : Corpus
        With words.
    config : Config
        Its ``train.device`` is used.
    model : Path
        Its phones may be of another set: each phone is scored as the same or the nearest one.
    reporter : Reporter

    Raises
    ------
    InputError
        The corpus has no words, or there is no such model.
    """
    if not corpus.words:
        raise InputError(
            "--realign chooses among pronunciations of words, and this corpus has none", "extract it without --realign"
        )
    recogniser = Recogniser.load(model, config.train.device)
    scorer = _Scorer(recogniser, corpus)
    spoken = [utterance for utterance in corpus.utterances() if corpus.words.get(utterance.id)]
    tracked = reporter.track("choosing pronunciations", spoken, len(spoken))
    scored = [found for each in tracked if (found := scorer.score(each, corpus.words[each.id]))]
    read = {each.utterance.id: each.utterance for each in scored}
    splits = {split: tuple(read.get(each.id, each) for each in part) for split, part in corpus.splits.items()}
    _report(scored, corpus.words, reporter)
    if len(scorer.pause) > 1:
        silences = sum(each.silences for each in scored)
        holding = sum(each.silences > 0 for each in scored)
        reporter.note(f"silences: {silences:,} placed, in {holding:,} of {len(scored):,} utterances")
    chosen = corpus.words | {
        each.utterance.id: _first(corpus.words[each.utterance.id], each.variants) for each in scored
    }
    return dataclasses.replace(corpus, splits=splits, words=chosen)


def _first(words: Sequence[Word], variants: Sequence[int]) -> tuple[Word, ...]:
    """Return words with the chosen pronunciation first."""
    moved = []
    for word, k in zip(words, variants, strict=True):
        others = (*word.pronunciations[:k], *word.pronunciations[k + 1 :])
        moved.append(Word(word.text, (word.pronunciations[k], *others)))
    return tuple(moved)


class _Scorer:
    def __init__(self, recogniser: Recogniser, corpus: Corpus) -> None:
        self._recogniser = recogniser
        readings = {each for words in (corpus.words or {}).values() for word in words for each in word.pronunciations}
        phones = sorted({phone for reading in readings for phone in reading})
        silences = [label for label in corpus.inventory().phones if label in SILENCES and label not in phones]
        matches = match_phones([*phones, *silences], recogniser.phones)
        unlike = [phone for phone in phones if phone not in matches]
        if unlike:
            raise InputError(
                f"phones unlike all of the model's: {some(unlike)}", "train a model on this corpus, and realign with it"
            )
        self._class_of = {phone: recogniser.inventory.encode([match.phone])[0] for phone, match in matches.items()}
        # A label for each silence of the model: the same one, or else rather TIMIT's pause than its h# or epi.
        known = [label for label in silences if label in matches]
        label_of: dict[int, str] = {}
        for label in sorted(known, key=lambda label: (matches[label].how != "name", label != "pau")):
            label_of.setdefault(self._class_of[label], label)
        self.pause = ((), *((label,) for label in label_of.values()))  # between words: nothing, or a label of silence

    def score(self, utterance: Utterance, words: Sequence[Word]) -> Scored | None:
        """Return the utterance with its best pronunciations and silences; None where its recording cannot be read."""
        rate = self._recogniser.config.features.sample_rate
        try:
            samples, _ = sound_file.read(utterance.audio, rate, utterance.channel, utterance.stretch)
        except InputError:  # extraction skips it and gives the reason
            return None
        logits = self._recogniser.logits(samples, rate)
        if not len(logits):
            return None
        parts = [self.pause, *(part for word in words for part in (word.pronunciations, self.pause))]
        labels = [[tuple(self._class_of[p] for p in each) for each in part] for part in parts]
        chosen, loss = choose_variants(logits, labels)
        phones = tuple(p for part, k in zip(parts, chosen, strict=True) for p in part[k])
        silences = sum(k > 0 for k in chosen[::2])
        return Scored(dataclasses.replace(utterance, phones=phones), chosen[1::2], silences, loss / max(len(phones), 1))


def _report(scored: Sequence[Scored], words: dict[str, tuple[Word, ...]], reporter: Reporter) -> None:
    """Say which pronunciations were chosen, and which utterances score far worse than the others."""
    several = 0
    changed: Counter[str] = Counter()
    for each in scored:
        for word, k in zip(words[each.utterance.id], each.variants, strict=True):
            several += len(word.pronunciations) > 1
            if k:
                changed[f"{word.text.lower()}: {' '.join(word.pronunciations[k])}"] += 1
    reporter.note(
        f"pronunciations: {sum(changed.values()):,} of {several:,} words with several are not the first one"
        + (f": {counted(changed)}" if changed else "")
    )
    losses = [each.loss for each in scored]
    if len(losses) < 10:
        return
    middle = median(losses)
    limit = middle + max(DOUBTFUL * median(abs(loss - middle) for loss in losses), LEAST)
    worst = sorted((each for each in scored if each.loss > limit), key=lambda each: -each.loss)
    if worst:
        names = some([f"{each.utterance.id} ({each.loss:.1f})" for each in worst], 10)
        reporter.warn(
            f"utterances whose words may not be those of their recordings, by their loss a phone ({len(worst)}; the "
            f"median is {middle:.1f}): {names}; they are kept: listen to them"
        )


class Chosen(NamedTuple):
    """The pronunciation chosen of each word, by its index, and the CTC loss of all together; inf if they do not fit."""

    variants: tuple[int, ...]
    loss: float


def choose_variants(logits: NDArray[np.float32], words: Sequence[Sequence[Labels]]) -> Chosen:
    """Choose a pronunciation of each word, one word after the other, with the others as they are then.

    Parameters
    ----------
    logits : ndarray, shape = (n_frames, classes)
        Class 0 is the blank.
    words : sequence of sequence of tuple of int
        The pronunciations of each word as classes, at least one each. Of equal scores the first is chosen.
    """
    frames = torch.from_numpy(logits)
    chosen = [0] * len(words)
    loss = _losses(frames, [_joined(words, chosen)])[0]
    for k, variants in enumerate(words):
        if len(variants) == 1:
            continue
        tried = [[*chosen[:k], variant, *chosen[k + 1 :]] for variant in range(len(variants))]
        losses = _losses(frames, [_joined(words, each) for each in tried])
        chosen[k] = int(np.argmin(losses))
        loss = losses[chosen[k]]
    return Chosen(tuple(chosen), loss)


def _joined(words: Sequence[Sequence[Labels]], chosen: Sequence[int]) -> Labels:
    return tuple(label for word, k in zip(words, chosen, strict=True) for label in word[k])


def _losses(frames: torch.Tensor, candidates: Sequence[Labels]) -> list[float]:
    """Return the CTC loss of each sequence of labels over the same frames."""
    count = len(candidates)
    targets = torch.tensor([label for labels in candidates for label in labels], dtype=torch.int64)
    lengths = [len(labels) for labels in candidates]
    logits = frames[:, None].expand(-1, count, -1)
    return [float(loss) for loss in ctc_loss(logits, targets, [len(frames)] * count, lengths, reduction="none")]
