"""How far the labels of an utterance score under what the model heard instead, and where.

Both scores are the log probabilities of CTC, summed over all paths (Graves et al. 2006, eq. 3), so that neither depends
on an alignment. Where the labels and what was heard differ, the labels are replaced by what was heard, one place at a
time: the gain is by how much the log probability rises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from rapidfuzz.distance import Levenshtein

from speechctc.ctc import ctc_loss
from speechctc.ctc.feasibility import frames_needed

Classes = Sequence[int]


@dataclass(frozen=True)
class Place:
    """A place where the labels and what was heard differ.

    Attributes
    ----------
    start, end : int
        The labels ``[start, end)``; empty where something was heard between labels.
    heard_start, heard_end : int
        What was heard there.
    gain : float
        By how much the log probability of the labels rises if they are replaced here by what was heard, nats.
    """

    start: int
    end: int
    heard_start: int
    heard_end: int
    gain: float


@dataclass(frozen=True)
class Doubt:
    """How doubtful the labels of an utterance are.

    Attributes
    ----------
    labels, heard : float
        Log probabilities of the labels, and of what was heard, nats; -inf where the labels do not fit into the frames.
    phones : int
        The larger number of phones of both.
    places : tuple of Place
        The places where they differ, the greatest gain first.
    """

    labels: float
    heard: float
    phones: int
    places: tuple[Place, ...]

    @property
    def per_phone(self) -> float:
        """Return by how much what was heard is more probable, nats per phone; inf for labels that do not fit."""
        return (self.heard - self.labels) / max(self.phones, 1)


def doubt(logits: NDArray[np.float32], labels: Classes, heard: Classes) -> Doubt:
    """Compare labels with what was heard.

    Parameters
    ----------
    logits : ndarray, shape = (n_frames, classes)
        At least one frame.
    labels, heard : sequence of int
        Classes of the phones; what was heard fits into the frames.
    """
    regions = _differences(labels, heard)
    versions = [list(labels), list(heard)]
    versions += [[*labels[:a], *heard[c:d], *labels[b:]] for a, b, c, d in regions]
    scores = _log_probabilities(logits, versions)
    places = [
        Place(*region, gain=score - scores[0] if np.isfinite(scores[0]) else float(score > scores[0]))
        for region, score in zip(regions, scores[2:], strict=True)
    ]
    ranked = sorted(places, key=lambda place: -place.gain)
    return Doubt(scores[0], scores[1], max(len(labels), len(heard)), tuple(ranked))


def _differences(labels: Classes, heard: Classes) -> list[tuple[int, int, int, int]]:
    """Return the places that differ in an alignment with the fewest edits; neighbouring edits are one place."""
    regions: list[tuple[int, int, int, int]] = []
    for edit in Levenshtein.opcodes(list(labels), list(heard)):
        if edit.tag == "equal":
            continue
        if regions and regions[-1][1] == edit.src_start and regions[-1][3] == edit.dest_start:
            start, _, heard_start, _ = regions.pop()
            regions.append((start, edit.src_end, heard_start, edit.dest_end))
        else:
            regions.append((edit.src_start, edit.src_end, edit.dest_start, edit.dest_end))
    return regions


def _log_probabilities(logits: NDArray[np.float32], versions: Sequence[Classes]) -> list[float]:
    """Return the log probability of each sequence of classes; -inf where it does not fit."""
    counts = torch.tensor([len(version) for version in versions])
    labels = torch.tensor([label for version in versions for label in version], dtype=torch.int64)
    fits = frames_needed(labels, counts) <= len(logits)
    frames = torch.from_numpy(logits)[:, None].expand(-1, len(versions), -1)
    losses = ctc_loss(frames, labels, [len(logits)] * len(versions), counts, reduction="none")
    return torch.where(fits, -losses.double(), -torch.inf).tolist()
