"""Recordings and samples in memory in blocks, mono, at the model's rate; their features and logits, as in one pass.

The net sees a limited number of frames around each (`model.receptive_field`). A window of frames therefore passes
through the net as if it were a recording, and only the output at least half a receptive field away from a cut is kept.
At the true ends of the recording, derivatives and convolutions pad as in one pass. In the same way sliding CMN
(`features.sliding_cmn`) waits for the frames that its window needs. An empty block of samples passes through all of
this at once, as an empty block: `Stream` learns by it that all samples given so far have been worked on.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from speechctc.audio import sound_file
from speechctc.audio.dereverberation import Dereverberated, When
from speechctc.audio.resampling import in_windows, resample_blocks
from speechctc.audio.sound_file import BLOCK
from speechctc.audio.tracks import Channel
from speechctc.config.schema import FeatureConfig, ModelConfig
from speechctc.core.errors import InputError
from speechctc.features.activity import ActivityGate
from speechctc.features.extractor import Reals, extractor, local_cmn, power_sums, sliding_cmn
from speechctc.inference.segmenter import Segment
from speechctc.model.checkpoint import Checkpoint
from speechctc.model.layers import reach
from speechctc.model.numpy_net import NumpyNet

Samples = NDArray[np.float32]

NARROW = 1024, 1 << 15  # the largest of samples of 32 bits that were meant to have 16; lower ones are noise of silence
LOUDEST = 8.0  # a larger sample shows that full scale is not 1
MIN_RATE = 1000  # Hz; a lower number is a rate in kHz
MAX_CHANNELS = 64
NAME = "samples"  # name of a recording without a file, in results
FILE = "file"  # the same of an open file without a name


def is_several(recording: Any) -> bool:
    """Return whether this is several recordings: an iterator, or a list or tuple of files or arrays.

    Arrays of at most `MAX_CHANNELS` numbers are the channels of single moments, and a list of them is one recording.
    """
    if not isinstance(recording, (list, tuple)):
        return isinstance(recording, Iterator) and not is_file(recording)

    def is_one(each: Any) -> bool:
        shape: tuple[int, ...] = tuple(getattr(each, "shape", ()))
        whole = isinstance(each, (str, os.PathLike)) or is_file(each)
        return whole or len(shape) == 2 or (len(shape) == 1 and shape[0] > MAX_CHANNELS)

    return any(map(is_one, recording))


class BinaryFile(Protocol):
    """An open file, or what is read as one is."""

    def read(self, size: int = ..., /) -> bytes:
        """Return the next bytes."""


def held(recording: Any) -> Any:
    """Return a recording that can be read twice: what is left of a pipe is kept in memory."""
    if not is_file(recording) or getattr(recording, "seekable", lambda: False)():
        return recording
    return BytesIO(recording.read())


def is_file(recording: Any) -> bool:
    """Return whether this is an open file, or what is read as one is: `io.BytesIO`."""
    return callable(getattr(recording, "read", None))


@contextmanager
def opened(
    recording: str | Path | Any, rate: int | None, channel: Channel | None, model_rate: int, dereverb: When = "never"
) -> Iterator[tuple[str, Dereverberated]]:
    """Open a file, or samples in memory.

    Parameters
    ----------
    recording : str, Path, binary file, array_like or Tensor
        A file by name or open, or samples as for `SampleBlocks`. An open one is read from where it is to its end; one
        that can seek is then put back there.
    rate : int or None
        Hz, of samples; None for a file.
    channel : int or Track, optional
        The channel of a file to read, counted from 1; None: the mean of all.
    model_rate : int
        Rate of the blocks, Hz.
    dereverb : str
        As for `Dereverberated`.

    Yields
    ------
    name : str
        The recording's name in results.
    blocks : Dereverberated

    Raises
    ------
    InputError
        The file cannot be read as audio, a rate is given for a file or none for samples, or a channel of samples.
    """
    if is_file(recording):
        with _stored(recording) as (name, path), opened(path, rate, channel, model_rate, dereverb) as (_, blocks):
            yield name, blocks
        return
    if not isinstance(recording, (str, os.PathLike)):
        _refuse_no_samples(recording)
        if channel is not None:
            raise InputError("a channel of samples, which are averaged", "give that channel's samples alone")
        yield NAME, Dereverberated(SampleBlocks(recording, rate, model_rate), model_rate, dereverb)
        return
    if rate is not None:
        raise InputError(f"{recording!s}: a rate for a file, which has its own", "leave rate out")
    with sound_file.opened(Path(recording), model_rate, channel) as blocks:
        yield str(recording), Dereverberated(blocks, model_rate, dereverb)


@contextmanager
def _stored(file: Any) -> Iterator[tuple[str, Path]]:
    """Offer the name of an open file and a temporary file with what is left of it.

    Raises
    ------
    InputError
        It was opened as text, is closed, or nothing is left.
    """
    named = getattr(file, "name", "")
    name = named if isinstance(named, str) and named else FILE
    if getattr(file, "closed", False):
        raise InputError(f"{name}: the file is closed", "decode it while it is open, or give its name")
    start = file.tell() if getattr(file, "seekable", lambda: False)() else None
    with tempfile.TemporaryDirectory(prefix="speechctc-") as folder:
        path = Path(folder) / (Path(name).name or FILE)
        with path.open("wb") as copy:
            try:
                shutil.copyfileobj(file, copy)
            except (TypeError, UnicodeDecodeError):
                raise InputError(f"{name}: opened as text", 'open it as bytes: open(name, "rb")') from None
            finally:
                if start is not None:
                    file.seek(start)
        if start and not path.stat().st_size:
            raise InputError(f"{name}: nothing is left to read after byte {start:,}", "go to its start: file.seek(0)")
        with _named(path, name):
            yield name, path


@contextmanager
def _named(path: Path, name: str) -> Iterator[None]:
    """Call a temporary file by the name of the file that it is a copy of."""
    try:
        yield
    except InputError as error:
        raise InputError(error.what.replace(str(path), name), error.fix) from None


def _refuse_no_samples(recording: Any) -> None:
    """Refuse what is neither a file nor samples."""
    if isinstance(recording, (bytes, bytearray, memoryview)):
        raise InputError("bytes are neither the name of a file nor samples", "give io.BytesIO(...) of them")
    if recording is None or isinstance(recording, (bool, int, float, dict, set)):
        what = f"{recording!r:.40} is neither a file nor samples"
        raise InputError(what, "give the name of a recording, an open file, or an array with its rate")


class PushedSamples:
    """Samples that are put in while they are read. Where there are none yet, it yields an empty block.

    Parameters
    ----------
    rate : int
        Hz.
    model_rate : int
        Rate of the blocks, Hz.

    Attributes
    ----------
    seconds : float
        Length of what was put in.
    waits : bool
        Whether the last block was empty, as all others had been read.
    ended : bool
        Whether no more will come.

    Raises
    ------
    InputError
        The rate cannot be that of a recording.
    """

    def __init__(self, rate: Any, model_rate: int) -> None:
        self._rate, self._model_rate = checked_rate(rate), model_rate
        self._blocks: deque[Samples] = deque()
        self._count = 0
        self.waits = self.ended = False

    @property
    def seconds(self) -> float:
        """Length of what was put in."""
        return self._count / self._rate

    def put(self, samples: Any) -> None:
        """Append samples as of `SampleBlocks`.

        Raises
        ------
        InputError
            These are no samples, or the recording has ended.
        """
        if self.ended:
            raise InputError("samples for a stream that was finished", "begin another: model.stream(rate)")
        wave = checked_samples(samples)
        self._count += len(wave)
        self._blocks += mono_blocks(wave)

    def __iter__(self) -> Iterator[Samples]:
        """Yield mono samples at the model's rate, and empty blocks."""
        return resample_blocks(self._taken(), self._rate, self._model_rate)

    def _taken(self) -> Iterator[Samples]:
        while self._blocks or not self.ended:
            self.waits = not self._blocks
            yield np.zeros(0, np.float32) if self.waits else self._blocks.popleft()


class SampleBlocks(PushedSamples):
    """Samples in memory, read in blocks as a file is.

    Parameters
    ----------
    samples : array_like or Tensor, shape = (n,) or (n, channels)
        Floating-point samples in [-1, 1]; or int16, int32 or uint8, scaled by the range of their type.
    rate : int
        Hz.
    model_rate : int
        Rate of the blocks, Hz.

    Raises
    ------
    InputError
        The samples or the rate cannot be those of a recording.
    """

    def __init__(self, samples: Any, rate: Any, model_rate: int) -> None:
        super().__init__(rate, model_rate)
        _refuse_narrow(samples)
        self.put(samples)
        self.ended = True


def mono_blocks(wave: Samples) -> Iterator[Samples]:
    """Cut samples, shape = (n,) or (n, channels), into blocks; average the channels."""
    for start in range(0, len(wave), BLOCK):
        block = wave[start : start + BLOCK]
        yield np.ascontiguousarray(block) if block.ndim == 1 else block.mean(axis=1, dtype=np.float32)


def checked_rate(rate: Any) -> int:
    """Return a rate in Hz as an int.

    Raises
    ------
    InputError
        The rate is None, not a whole number, or below 1 kHz.
    """
    fix = "give the samples a second as a whole number: decode(samples, 16000)"
    if rate is None:
        raise InputError("samples without a rate", fix)
    try:
        whole = int(rate)
        right = whole == rate and not isinstance(rate, (bool, str))
    except (TypeError, ValueError, OverflowError):
        right = False
    if not right or whole < MIN_RATE:
        raise InputError(f"{rate!r} is not a rate in Hz", fix)
    return whole


def checked_samples(samples: Any) -> Samples:
    """Return samples as float32, shape = (n,) or (n, channels).

    Raises
    ------
    InputError
        The samples have no type or shape that `SampleBlocks` takes, or are not all finite.
    """
    if hasattr(samples, "detach"):  # a tensor of torch; numpy has no bfloat16
        samples = samples.detach().cpu()
        samples = samples.float() if samples.is_floating_point() else samples
    wave = np.asarray(samples)
    if wave.ndim not in (1, 2):
        raise InputError(f"samples of shape {wave.shape}", "give (n,) of one channel, or (n, channels)")
    if wave.ndim == 2 and (wave.shape[1] > min(wave.shape[0], MAX_CHANNELS) or wave.shape[1] == 0):
        what = f"samples of shape {wave.shape}: not (n, channels)"
        raise InputError(what, "transpose them if channels come first: samples.T")
    wave = _scaled(wave)
    if not np.isfinite(wave).all():
        raise InputError("samples that are not all finite numbers", "remove NaN and inf")
    peak = float(np.abs(wave).max(initial=0.0))
    if peak > LOUDEST:
        what = f"floating-point samples up to {peak:g}"
        raise InputError(what, "scale them to [-1, 1]: those of 16 bits are divided by 32768")
    return wave


def _refuse_narrow(samples: Any) -> None:
    """Refuse samples of 16 bits that are kept in 32: as such they would be 96 dB lower, and silence."""
    is_wide = str(getattr(samples, "dtype", "")) in ("int32", "torch.int32") and samples.shape[0]
    peak = max(int(samples.max()), -int(samples.min())) if is_wide else 0
    if NARROW[0] < peak <= NARROW[1]:
        what = f"samples of type int32 up to {peak}, which is silence"
        raise InputError(what, "convert those of 16 bits: samples.astype('int16')")


def _scaled(wave: NDArray[Any]) -> Samples:
    if wave.dtype.kind == "f":
        return wave.astype(np.float32)
    if wave.dtype in (np.int16, np.int32):
        return (wave / np.float64(2 ** (8 * wave.dtype.itemsize - 1))).astype(np.float32)
    if wave.dtype == np.uint8:
        return ((wave - np.float64(128)) / 128).astype(np.float32)
    raise InputError(f"samples of type {wave.dtype}", "give floating-point numbers in [-1, 1], or int16")


BLOCK_FRAMES = 8000  # static frames in one pass of the net: 80 s of speech at 10 ms a frame
LIVE_FRAMES = 50  # the same while samples come: delays phones by half a second
LOOKAHEAD = 0.2  # seconds after a frame that the means of a live stream cover

Rows = NDArray[np.float32]
Logits = NDArray[np.float32]
# Maps a checkpoint to a function of the features of a recording after CMN that returns its logits; see `NumpyNet`.
NetMaker = Callable[[Checkpoint], Callable[[Rows, int | None, Rows | None], Logits]]


class Prior(NamedTuple):
    """What recordings of one speaker, microphone and room have in common: to be expected in each of them.

    Attributes
    ----------
    cmn : ndarray, shape = (static_dims,)
        The mean of the features; see `features.sliding_cmn`.
    context : ndarray, shape = (units,), or None
        What ``model.context`` averages; see `NumpyNet`. None: the model has no context.
    """

    cmn: Rows
    context: Rows | None


def cmn_blocks(
    static: Iterable[Rows], config: FeatureConfig, lookahead: int | None = None, prior: Rows | None = None
) -> Iterator[Rows]:
    """Yield static features after sliding CMN, as soon as the frames that it needs are known.

    Parameters
    ----------
    static : iterable of ndarray, shape = (n, static_dims)
        A recording, cut anywhere.
    config : FeatureConfig
    lookahead : int, optional
        Most frames after each in its mean, at least; by default those of the config.
    prior : ndarray, shape = (static_dims,), optional
        As for `sliding_cmn`.

    Yields
    ------
    ndarray, shape = (n_frames, static_dims)
        Concatenated: without `lookahead`, `sliding_cmn` of the whole.
    """
    behind, ahead = config.cmn_reach
    size = None if lookahead is None or lookahead >= ahead else max(lookahead, 1)
    ahead = ahead if size is None else lookahead or 0
    return in_windows(static, lambda frames: sliding_cmn(frames, config, prior), behind, ahead, size)


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
    apply: Callable[[Rows, int | None], Rows],
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
        (n_frames, static_dims) of a whole recording to its logits, (n_output_frames, classes), of which it may be asked
        for some at the end only.
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
    if model.sees == "whole":
        return _whole(centred, apply, model, features)
    narrow = model if whole_context else model.model_copy(update={"context": 0})
    behind, ahead = (_to_multiple(reach(each, features)[side], stride) for side, each in enumerate((model, narrow)))
    size = _to_multiple(block_frames, stride)
    last = None if whole_context else (2 * ahead + size) // stride  # most of a window serves the mean alone
    return in_windows(centred, lambda rows: apply(rows, last), behind, ahead, size, (stride, 1))


def _whole(
    centred: Iterable[Rows], apply: Callable[[Rows, int | None], Rows], model: ModelConfig, features: FeatureConfig
) -> Iterator[Rows]:
    """Yield the logits of a recording that the net hears at once.

    Raises
    ------
    InputError
        It is longer than the net takes.
    """
    most, pieces, frames = reach(model, features)[0], list[Rows](), 0
    for rows in centred:
        pieces.append(rows)
        frames += len(rows)
        if frames > most:
            what = (
                f"a recording longer than {model.longest:g} s, and model.kind={model.kind} hears at most that at once"
            )
            raise InputError(what, "cut it into shorter ones, or decode with another model")
    yield apply(np.concatenate(pieces) if pieces else np.zeros((0, features.static_dims), np.float32), None)


def _to_multiple(frames: int, stride: int) -> int:
    """Round up to a multiple of the stride, so that windows start at an output frame."""
    return -(-frames // stride) * stride


def cmn_sums(static: Iterable[Rows], config: FeatureConfig) -> Reals:
    """Return the `power_sums` of a recording whose features come in blocks; a long one counts as one window of CMN."""
    total, frames = np.zeros(config.static_dims + 1), 0
    for rows in in_windows(static, lambda rows: rows, 0, 0, BLOCK_FRAMES):
        total[:] += power_sums(rows, config)
        frames += len(rows)
    return np.asarray(total * min(1.0, sum(config.cmn_frames) / max(frames, 1)))


def context_sums(static: Iterable[Rows], net: NumpyNet, cmn_prior: Rows) -> Reals:
    """Return the sum of the first dense layer over a recording's frames and, behind it, their number, (units + 1,).

    The features come in blocks. A recording longer than the span of ``model.context`` counts as one span.
    """
    centred, model = cmn_blocks(static, net.config.features, prior=cmn_prior), net.config.model
    total = np.zeros(model.dense[0] + 1)
    for rows in logit_blocks(centred, lambda each, _: net.first_layer(each), model, net.config.features):
        total[:] += np.append(rows.sum(0), len(rows))
    return np.asarray(total * min(1.0, model.context_span / max(total[-1], 1)))


class Forward:
    """The net of a checkpoint with its features, on a device.

    Parameters
    ----------
    checkpoint : Checkpoint
    device : str
        Where a pretrained encoder computes, as torch names it. Other features are computed on the CPU.
    net : callable
        Returns what computes the logits of a checkpoint: `NumpyNet`, or `speechctc.model.net.TorchNet` on the device.
    prior : Prior, optional
        What to expect before a recording is read.
    """

    def __init__(
        self, checkpoint: Checkpoint, device: str = "cpu", net: NetMaker = NumpyNet, prior: Prior | None = None
    ) -> None:
        self.config, self.device, self._net, self._prior = checkpoint.config, device, net(checkpoint), prior
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

        Raises
        ------
        InputError
            A `lookahead` is given, and the net sees the whole recording.
        """
        model, features = self.config.model, self.config.features
        if lookahead is not None and model.sees == "whole":
            what = f"model.kind={model.kind} hears a whole recording at once: there are no live phones"
            raise InputError(what, "decode the recording when it has ended")
        after = None if lookahead is None else round(lookahead * 1000 / features.shift_ms)
        gate = ActivityGate(self.config, self.phones)
        static = extractor(features, self.device).blocks(samples)
        watched = gate.watch(static) if gated else static
        prior = None if self._prior is None else self._prior.cmn
        centred = local_cmn_blocks(watched, features) if local else cmn_blocks(watched, features, after, prior)
        size = block_frames if after is None else max(after, 1)
        context = None if self._prior is None or local else self._prior.context
        forward = partial(self._forward, context=context)
        logits = logit_blocks(centred, forward, model, features, size, after is None)
        return gate.apply(logits) if gated else logits

    def _forward(self, features: Rows, last: int | None, context: Rows | None) -> Logits:
        """Map features after CMN, (n_frames, static_dims), to logits; with `last`, of so many frames at the end.

        Raises
        ------
        InputError
            A logit is not finite, as those of a net with huge weights are.
        """
        logits = self._net(features, last, context)
        if not np.isfinite(logits).all():
            raise InputError("the model's output is not finite: NaN or inf", "use another model, or train it again")
        return logits


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
