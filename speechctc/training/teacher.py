"""Labels for recordings that have none: what the averaged weights and the search find, where they are sure of it.

The teacher is the mean of the weights [1]_. It hears a recording without noise and masks, and decodes it as the config
says, with its n-gram. Phones of which it is unsure, and places where it may have missed one, become a wildcard, which
stands for anything: there the student learns nothing from the label [2]_.

References
----------
.. [1] A. Tarvainen and H. Valpola, "Mean teachers are better role models", NIPS 2017; with CTC: Y. Higuchi et al.,
   "Momentum pseudo-labeling for semi-supervised speech recognition", Interspeech 2021.
.. [2] X. Cai et al., "W-CTC: a connectionist temporal classification loss with wild cards", ICLR 2022.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.ctc import ctc_loss

SURE = 0.5
"""Lowest posterior of a phone, in its best frame, that is learned from."""
MISSED = 0.2
"""Phones expected between two that were found, other than these, from which one may have been missed."""
DOUBT = 1.3
"""How much less sure than of dev the teacher is of recordings that may be of another language, or no speech."""


def sure_labels(path: Sequence[int], probs: NDArray[np.float32]) -> list[int]:
    """Return the labels of a path of classes, and a wildcard for each stretch that is not sure.

    Parameters
    ----------
    path : sequence of int
        The class of each frame; 0 is the blank.
    probs : ndarray, shape = (n_frames, classes)
        Posteriors by the net.

    Returns
    -------
    list of int
        Phones; ``classes`` is the wildcard, never twice in a row.
    """
    classes = np.asarray(path, dtype=np.int64)
    begins = np.flatnonzero((classes != 0) & (classes != np.concatenate([[0], classes[:-1]])))
    ends = np.flatnonzero((classes != 0) & (classes != np.concatenate([classes[1:], [0]]))) + 1
    wildcard = probs.shape[1]
    labels: list[int] = []
    phones = [0, *classes[begins].tolist(), 0]
    edges = zip([0, *ends.tolist()], [*begins.tolist(), len(classes)], strict=True)
    for number, (gap, begin) in enumerate(edges):
        known = np.unique([0, phones[number], phones[number + 1]])
        if (1 - probs[gap:begin][:, known].sum(1)).sum() > MISSED:
            labels.append(wildcard)
        if number < len(begins):
            phone = phones[number + 1]
            labels.append(phone if probs[begin : ends[number], phone].max() >= SURE else wildcard)
    return [label for k, label in enumerate(labels) if label != wildcard or labels[k - 1 : k] != [wildcard]]


def wildcard_loss(logits: Tensor, frames: Tensor, labels: Sequence[Sequence[int]], backend: str) -> Tensor:
    """Return the sum of the CTC losses of sequences in which the class after the last is a wildcard.

    A wildcard stands for one frame or more of any classes, blanks too: its probability in a frame is 1. Beside classes
    that sum to 1, the softmax makes it 1/2 and halves the others; the loss is too large by log 2 a frame.

    Parameters
    ----------
    logits : Tensor, shape = (n_batch, max_frames, classes)
    frames : Tensor, shape = (n_batch,)
    labels : sequence of n_batch sequences of int
        Phones, and ``classes`` for the wildcard.
    backend : str
        See `ctc_loss`.
    """
    counts = torch.tensor([len(each) for each in labels])
    flat = torch.tensor([label for each in labels for label in each], dtype=torch.long)
    logits = torch.cat([logits, logits.logsumexp(2, keepdim=True)], dim=2).transpose(0, 1)
    counts, flat = counts.to(logits.device), flat.to(logits.device)
    loss: Tensor = ctc_loss(logits, flat, frames, counts, reduction="sum", backend=backend)
    return loss - math.log(2) * frames.sum()


def doubts_of(probs: Tensor, inside: Tensor) -> Tensor:
    """Return the entropy of each recording, nats, and the phones that are expected in it.

    On dev their ratio was 1.2 for the bundled English model, 1.4 on another dialect, and 1.7 on three other languages.

    Parameters
    ----------
    probs : Tensor, shape = (n_batch, max_frames, classes)
        Posteriors; class 0 is the blank.
    inside : Tensor of bool, shape = (n_batch, max_frames)

    Returns
    -------
    Tensor, shape = (n_batch, 2)
    """
    pair = torch.stack([torch.special.entr(probs).sum(2), 1 - probs[:, :, 0]], dim=2)
    return torch.where(inside[:, :, None], pair, 0.0).sum(1)
