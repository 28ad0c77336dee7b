"""A band of states around the places where free recognition and a transcript agree."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from speechctc.alignment.compiled import CompiledTranscript
from speechctc.alignment.posteriors import Posteriors
from speechctc.ctc.graph import Band

AGREE = 3
"""Fewest phones in a row that must be recognised as in the transcript to be an anchor."""
EDGE = 6
"""A path touches the edge of its band where it comes this near to it, in states."""


def anchored_band(compiled: CompiledTranscript, posteriors: Posteriors, frames: int, states: int) -> Band:
    """Return a band around the anchors.

    The phones of the best path without a transcript are aligned with those of the transcript, at a minimal number of
    edits. Stretches that agree are the anchors; between two anchors the band follows a straight line.

    Parameters
    ----------
    compiled : CompiledTranscript
    posteriors : Posteriors
    frames, states : int
        How far the band reaches from that line, in each direction.
    """
    from rapidfuzz.distance import Levenshtein

    onsets = np.flatnonzero(posteriors.onsets)
    found = posteriors.greedy[onsets].tolist()
    wanted = compiled.graph.column[compiled.spine].tolist()
    at, to = [0.0], [0.0]
    for block in Levenshtein.opcodes(found, wanted):
        if block.tag == "equal" and block.src_end - block.src_start >= AGREE:
            at += onsets[block.src_start : block.src_end].tolist()
            to += compiled.spine[block.dest_start : block.dest_end].tolist()
    last = compiled.graph.states
    at.append(float(max(posteriors.frames, at[-1] + 1)))
    to.append(float(last))
    time = np.arange(posteriors.frames)
    low = np.floor(np.interp(time - frames, at, to)) - states
    high = np.ceil(np.interp(time + frames, at, to)) + states
    high[-1:] = last
    return Band(np.maximum(low, 0).astype(np.int32), np.clip(high, 1, last).astype(np.int32))


def touches(path: NDArray[np.int32], band: Band, states: int) -> NDArray[np.int64]:
    """Return the frames in which a path is near an edge of its band beyond which there are more states."""
    below = (band.low > 0) & (path < band.low + EDGE)
    above = (band.high < states) & (path >= band.high - EDGE)
    return np.flatnonzero(below | above)
