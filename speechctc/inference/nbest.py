"""The best sequences of phones of a recording, with their scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from speechctc.decoding.search import Hypothesis
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.samples import opened
from speechctc.inference.streaming import Logits, log_softmax
from speechctc.lm.rescore import Ranker


def nbest(recogniser: Recogniser, path: Path, channel: int | None = None) -> Iterator[tuple[float, list[Hypothesis]]]:
    """Yield the best sequences of phones that a prefix search keeps; a long recording is cut in pauses.

    Parameters
    ----------
    recogniser : Recogniser
    path : Path
    channel : int, optional
        The channel to read, from 1; None: the mean of all.

    Yields
    ------
    start : float
        Start of the piece, seconds.
    ranked : list of Hypothesis
        Best first, at most as many as the beam.

    Raises
    ------
    InputError
        The file cannot be read as audio.
    """
    ranker, frame = Ranker(recogniser.checkpoint.lm, recogniser.lstm, recogniser.config), 0
    for piece in ranker.pieces(log_posteriors(recogniser, path, channel)):
        yield frame * recogniser.clock.step, ranker.rank(piece)
        frame += len(piece)


def log_posteriors(
    recogniser: Recogniser, recording: Path | Any, channel: int | None = None, rate: int | None = None
) -> Logits:
    """Return the log posteriors that decoding uses, shape (n_output_frames, classes): no phones where none speaks.

    The recording is a file, or samples at a rate, as for `Recogniser.decode`.

    Raises
    ------
    InputError
        The file cannot be read as audio.
    """
    with opened(recording, rate, channel, recogniser.config.features.sample_rate) as (_, blocks):
        rows = [log_softmax(block) for block in recogniser.logit_blocks(blocks, gated=True)]
    return np.concatenate([np.zeros((0, len(recogniser.phones) + 1), np.float32), *rows])
