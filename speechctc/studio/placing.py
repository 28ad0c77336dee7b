"""Forced alignment in a part of a recording, with the sound around it as context."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from speechctc.alignment.posteriors import Posteriors
from speechctc.alignment.transcript import phone_units
from speechctc.inference.alignment import check_fit, recognition
from speechctc.inference.segmenter import FrameClock, Segment, Segmenter
from speechctc.model.numpy_net import log_softmax
from speechctc.studio.sound import Sound

if TYPE_CHECKING:
    from speechctc.inference.recogniser import Recogniser


def align_part(recogniser: Recogniser, sound: Sound, start: float, stop: float, labels: Sequence[str]) -> list[Segment]:
    """Place phones between two times of a recording.

    Parameters
    ----------
    recogniser : Recogniser
    sound : Sound
    start, stop : float
        Seconds.
    labels : sequence of str
        Phones of the model, at least one.

    Returns
    -------
    list of Segment
        One for each label, within `start` and `stop`.

    Raises
    ------
    InputError
        A phone is not in the model's set, or there are too many for this time.
    """
    classes = recogniser.inventory.encode(labels)
    features, step = recogniser.config.features, recogniser.clock.step
    behind, ahead = (reach * features.shift_ms / 1000 for reach in features.cmn_reach)
    half = recogniser.receptive_field / 2
    begin = math.floor(max(start - behind - half, 0) / step) * step  # a frame of the whole recording begins here
    end = min(stop + ahead + half + 1, sound.seconds)
    samples = sound.read(round(begin * sound.rate), round(end * sound.rate))
    rows = log_softmax(recogniser.logits(samples, sound.rate))
    clock = recogniser.clock
    first = min(max(math.ceil((start - begin - clock.half) / step), 0), len(rows))
    last = min(max(math.ceil((stop - begin - clock.half) / step), first), len(rows))
    rows = rows[first:last]
    check_fit(f"{sound.path.name}, {start:.2f} to {stop:.2f} s", classes, len(rows), stop - start)
    segmenter = Segmenter(recogniser.inventory, FrameClock(step, begin + clock.seconds(first)), recogniser.calibration)
    with Posteriors(rows.shape[1]) as posteriors:
        posteriors.append(rows)
        found = recognition(sound.path.name, stop, phone_units(labels), posteriors, segmenter, False, ()).segments
    return [
        each._replace(start=min(max(each.start, start), stop), end=min(max(each.end, start), stop)) for each in found
    ]
