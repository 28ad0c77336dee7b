"""Forced alignment: the Viterbi path of known phones through a recording's posteriors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from speechctc.ctc import viterbi
from speechctc.ctc.feasibility import frames_needed
from speechctc.errors import InputError
from speechctc.phones.inventory import BLANK

LATTICE_STATES = 250_000_000
"""Limit on frames x states of a lattice, which takes nine bytes for each: about five minutes of speech."""


def check_fit(file: str, labels: Sequence[int], frames: int, seconds: float) -> None:
    """Check that phones fit into a recording.

    Parameters
    ----------
    file : str
        Named in the error.
    labels : sequence of int
    frames : int
        Output frames of the recording.
    seconds : float
        Its length.

    Raises
    ------
    InputError
        The phones need more frames than there are, or their lattice is larger than `LATTICE_STATES`.
    """
    needed = int(frames_needed(torch.tensor(labels, dtype=torch.int64), torch.tensor([len(labels)])))
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
        At least one; they must fit (see `check_fit`).

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
