"""Chooses among pronunciations of words by the score of a recording's phones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from speechctc.ctc import ctc_loss

Labels = tuple[int, ...]


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
