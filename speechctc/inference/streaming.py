"""Compute features and logits in blocks, equal to those of one pass over the whole recording.

The net sees a limited number of frames around each (`model.receptive_field`). A window of frames therefore passes
through the net as if it were a recording, and only the output at least half a receptive field away from a cut is kept.
At the true ends of the recording, derivatives and convolutions pad as in one pass. In the same way sliding CMN
(`features.sliding_cmn`) waits for the frames that its window needs. An empty block of samples passes through all of
this at once, as an empty block: `Stream` learns by it that all samples given so far have been worked on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.resampling import in_windows
from speechctc.config.schema import FeatureConfig, ModelConfig
from speechctc.core.errors import InputError
from speechctc.features.activity import ActivityGate
from speechctc.features.extractor import extractor
from speechctc.features.one_recording import local_cmn, sliding_cmn
from speechctc.inference.samples import PushedSamples, Samples
from speechctc.inference.segmenter import Segment
from speechctc.model.checkpoint import Checkpoint
from speechctc.model.layers import receptive_field
from speechctc.model.numpy_net import NumpyNet

BLOCK_FRAMES = 8000  # static frames in one pass of the net: 80 s of speech at 10 ms a frame
LIVE_FRAMES = 50  # the same while samples come: delays phones by half a second
LOOKAHEAD = 0.2  # seconds after a frame that the means of a live stream cover

Rows = NDArray[np.float32]
Logits = NDArray[np.float32]
# Maps a checkpoint to a function of the features of recordings after CMN that returns their logits.
NetMaker = Callable[[Checkpoint], Callable[[Sequence[Rows]], list[Logits]]]


def cmn_blocks(static: Iterable[Rows], config: FeatureConfig, lookahead: int | None = None) -> Iterator[Rows]:
    """Yield static features after sliding CMN, as soon as the frames that it needs are known.

    Parameters
    ----------
    static : iterable of ndarray, shape = (n, static_dims)
        A recording, cut anywhere.
    config : FeatureConfig
    lookahead : int, optional
        Most frames after each in its mean, at least; by default those of the config.

    Yields
    ------
    ndarray, shape = (n_frames, static_dims)
        Concatenated: without `lookahead`, `sliding_cmn` of the whole.
    """
    behind, ahead = config.cmn_reach
    size = None if lookahead is None or lookahead >= ahead else max(lookahead, 1)
    ahead = ahead if size is None else lookahead or 0
    return in_windows(static, lambda frames: sliding_cmn(frames, config), behind, ahead, size)


def local_cmn_blocks(static: Iterable[Rows], config: FeatureConfig) -> Iterator[Rows]:
    """Yield static features after local CMN (`features.local_cmn`) if the recording is longer than the sliding mean.

    The mean of a shorter one is that of all of it, as of the utterances that nets are trained on.

    Parameters
    ----------
    static : iterable of ndarray, shape = (n, static_dims)
        A recording, cut anywhere.
    config : FeatureConfig
    """
    pieces, start, most = iter(static), list[Rows](), sum(config.cmn_frames)
    for piece in pieces:
        start.append(piece)
        if config.cmn_window_ms is not None and sum(map(len, start)) > most:
            behind, ahead = (max(each, 2 * config.power_window_frames) for each in config.cmn_reach)
            yield from in_windows(chain(start, pieces), lambda frames: local_cmn(frames, config), behind, ahead)
            return
    yield from cmn_blocks(start, config)


def logit_blocks(
    centred: Iterable[Rows],
    apply: Callable[[Rows], Rows],
    model: ModelConfig,
    features: FeatureConfig,
    block_frames: int = BLOCK_FRAMES,
    whole_context: bool = True,
) -> Iterator[Rows]:
    """Yield the logits of a recording whose features, after sliding CMN, come in blocks.

    Parameters
    ----------
    centred : iterable of ndarray, shape = (n, static_dims)
        Cut anywhere.
    apply : callable
        (n_frames, static_dims) of a whole recording to its logits, (n_output_frames, classes).
    model, features : ModelConfig, FeatureConfig
        The receptive field and the stride of `apply`.
    block_frames : int
        Input frames in a window, without context: bounds memory and delay. A recording that is hardly longer takes
        one pass.
    whole_context : bool
        Wait for the frames that ``model.context`` averages after each. Otherwise the mean is of those before it, and
        of the few after it that the convolutions need.

    Yields
    ------
    ndarray, shape = (n, classes)
        Concatenated, with the whole context: ``apply`` of the whole, except for rounding.
    """
    stride = model.time_stride
    narrow = model if whole_context else model.model_copy(update={"context": 0})
    behind, ahead = (_to_multiple((receptive_field(each, features) - 1) // 2, stride) for each in (model, narrow))
    return in_windows(centred, apply, behind, ahead, _to_multiple(block_frames, stride), (stride, 1))


def _to_multiple(frames: int, stride: int) -> int:
    """Round up to a multiple of the stride, so that windows start at an output frame."""
    return -(-frames // stride) * stride


class Forward:
    """The net of a checkpoint with its features, on a device.

    Parameters
    ----------
    checkpoint : Checkpoint
    device : str
        Where a pretrained encoder computes, as torch names it. Other features are computed on the CPU.
    net : callable
        Returns what computes the logits of a checkpoint: `NumpyNet`, or `speechctc.model.net.TorchNet` on the device.
    """

    def __init__(self, checkpoint: Checkpoint, device: str = "cpu", net: NetMaker = NumpyNet) -> None:
        self.config, self.device, self._net = checkpoint.config, device, net(checkpoint)
        self.phones = checkpoint.inventory.phones

    def in_blocks(
        self,
        samples: Iterable[Samples],
        block_frames: int = BLOCK_FRAMES,
        gated: bool = False,
        local: bool = False,
        lookahead: float | None = None,
    ) -> Iterator[Logits]:
        """Yield the logits of one recording, each (n, classes), while its samples are read.

        Parameters
        ----------
        samples : iterable of ndarray, shape = (n,)
            Mono samples at the model's rate, cut anywhere.
        block_frames : int
            Input frames in one pass of the net.
        gated : bool
            Remove the phones where the recording holds no speech (see `ActivityGate`).
        local : bool
            Centre the frames of a long recording on the second around each (see `local_cmn_blocks`).
        lookahead : float, optional
            Seconds after a frame that the means over time cover: the sliding mean of the features, and that of
            ``model.context``. By default as many as in training.
        """
        model, features = self.config.model, self.config.features
        after = None if lookahead is None else round(lookahead * 1000 / features.shift_ms)
        gate = ActivityGate(self.config, self.phones)
        static = extractor(features, self.device).blocks(samples)
        watched = gate.watch(static) if gated else static
        centred = local_cmn_blocks(watched, features) if local else cmn_blocks(watched, features, after)
        size = block_frames if after is None else max(after, 1)
        logits = logit_blocks(centred, lambda rows: self._forward([rows])[0], model, features, size, after is None)
        return gate.apply(logits) if gated else logits

    def batch(self, statics: Sequence[Rows]) -> list[Logits]:
        """Return the logits of several recordings from static features, each (n_frames, static_dims)."""
        return self._forward([sliding_cmn(static, self.config.features) for static in statics])

    def static(self, path: Path, most: int, channel: int | None = None) -> tuple[float, Rows | None]:
        """Return a recording's seconds and its static features; 0 and None if these exceed `most` frames.

        Raises
        ------
        InputError
            The file cannot be read as audio.
        """
        config = self.config.features
        if extractor(config).frames(int(sound_file.info(path).seconds * config.sample_rate)) > most:
            return 0.0, None
        samples, seconds = sound_file.read(path, config.sample_rate, channel)
        return seconds, extractor(config, self.device).static(samples)

    def _forward(self, features: Sequence[Rows]) -> list[Logits]:
        """Map features after CMN, each (n_frames, static_dims), to logits.

        Raises
        ------
        InputError
            A logit is not finite, as those of a net with huge weights are.
        """
        rows = self._net(features)
        if not all(bool(np.isfinite(each).all()) for each in rows):
            raise InputError("the model's output is not finite: NaN or inf", "use another model, or train it again")
        return rows


class Stream:
    """Recognises samples while they come; `Recogniser.stream` makes one.

    The phones do not depend on how the samples are cut into blocks. Memory does not grow.

    Parameters
    ----------
    source : PushedSamples
    phones : iterator of list of Segment
        What is recognised in each block that is made of the source, an empty one too.
    """

    def __init__(self, source: PushedSamples, phones: Iterator[list[Segment]]) -> None:
        self._source, self._phones = source, phones

    @property
    def seconds(self) -> float:
        """Length of the samples so far."""
        return self._source.seconds

    def push(self, samples: Any) -> list[Segment]:
        """Take the next samples; return the phones that are known by now and were not before.

        Parameters
        ----------
        samples : array_like or Tensor, shape = (n,) or (n, channels)
            As for `Recogniser.decode`; any number.

        Raises
        ------
        InputError
            These are no samples, and nothing is changed; or `finish` was called.
        """
        self._source.put(samples)
        found: list[Segment] = []
        for phones in self._phones:
            found += phones
            if self._source.waits:
                break
        return found

    def finish(self) -> list[Segment]:
        """End the recording; return the phones that were not returned yet, none if it was ended before."""
        self._source.ended = True
        return [segment for phones in self._phones for segment in phones]
