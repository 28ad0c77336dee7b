"""Phones that are known, placed in a recording by the best path through their lattice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from speechctc.ctc import viterbi
from speechctc.errors import InputError
from speechctc.features.shards import frames_needed
from speechctc.phones.inventory import BLANK

LATTICE_STATES = 250_000_000
"""Frames x states of the largest lattice that is tried, at nine bytes each: some five minutes of speech."""


def check_fit(file: str, labels: Sequence[int], frames: int, seconds: float) -> None:
    """See that the phones can be in the recording.

    Raises
    ------
    InputError
        They need more frames than there are, or more memory than is sensible.
    """
    needed = frames_needed(labels)
    if needed > frames:
        repeats = needed - len(labels)
        apart = f" and {repeats} blanks between repeated ones" if repeats else ""
        raise InputError(
            f"{file}: {len(labels)} phones{apart} need {needed} frames, and its {seconds:.2f} s have {frames}",
            "check that these phones belong to this recording, or align with a model of a smaller model.time_stride",
        )
    if frames * (2 * len(labels) + 1) > LATTICE_STATES:
        raise InputError(
            f"{file}: {len(labels)} phones in {seconds:.0f} s are too many to align at once",
            "cut the recording and its phones into parts, for example of two minutes",
        )


def align_frames(log_probs: NDArray[np.float32], labels: Sequence[int]) -> tuple[NDArray[np.int64], float]:
    """Find the most probable path that collapses to the labels.

    Parameters
    ----------
    log_probs : ndarray, shape = (n_frames, classes)
    labels : sequence of int
        At least one, and they fit (see `check_fit`).

    Returns
    -------
    classes : ndarray, shape = (n_frames,)
        The class of each frame on that path.
    score : float
        Its log probability.
    """
    found = viterbi(
        torch.from_numpy(log_probs)[:, None], torch.tensor([list(labels)]), [len(log_probs)], [len(labels)], BLANK
    )
    states = found.states[0].numpy()
    with_blanks = np.full(2 * len(labels) + 1, BLANK, dtype=np.int64)
    with_blanks[1::2] = labels
    return with_blanks[states], float(found.scores[0])
