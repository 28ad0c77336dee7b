"""The sound of an utterance, as the recogniser takes it: a whole recording, or the samples of a stretch of one."""

from __future__ import annotations

from typing import Any

from speechctc.audio import sound_file
from speechctc.corpora.corpus import Utterance
from speechctc.inference.recogniser import Recogniser


def sound_of(utterance: Utterance, recogniser: Recogniser) -> dict[str, Any]:
    """Return the arguments ``recording``, ``rate`` and ``channel`` of `Recogniser.decode` and `Recogniser.align`.

    A whole recording is named, so that it is read in blocks. A stretch is read here, without the rest.

    Raises
    ------
    InputError
        The stretch cannot be read.
    """
    if utterance.stretch is None:
        return {"recording": utterance.audio, "rate": None, "channel": utterance.channel}
    rate = recogniser.config.features.sample_rate
    samples, _ = sound_file.read(utterance.audio, rate, utterance.channel, utterance.stretch)
    return {"recording": samples, "rate": rate, "channel": None}
