"""Recognise the phones of recordings with a trained model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from io import BufferedReader, BytesIO
from itertools import chain
from operator import length_hint
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from speechctc.audio.annotations import Interval
from speechctc.audio.dereverberation import AudioBlocks, Dereverberated, When
from speechctc.audio.tracks import Channel
from speechctc.config.load import with_settings
from speechctc.config.schema import Config
from speechctc.core.errors import InputError
from speechctc.core.parallel import map_in_threads
from speechctc.features.activity import ActivityGate
from speechctc.features.extractor import Reals, extractor
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import BEYOND, MIN_DURATION, Calibration, FrameClock, Segment, Segmenter, lasting
from speechctc.inference.streaming import (
    BLOCK_FRAMES,
    LIVE_FRAMES,
    LOOKAHEAD,
    BinaryFile,
    Forward,
    Logits,
    NetMaker,
    Prior,
    PushedSamples,
    Rows,
    Stream,
    cmn_sums,
    context_sums,
    is_several,
    opened,
)
from speechctc.lm.beam import expect
from speechctc.lm.model import LanguageModel
from speechctc.lm.search import DELAY, LIVE_DELAY, choose_search, log_softmax, method
from speechctc.model.checkpoint import Checkpoint, read_checkpoint
from speechctc.model.layers import receptive_field
from speechctc.model.numpy_net import NumpyNet

if TYPE_CHECKING:
    from typing_extensions import Self


Opening = AbstractContextManager[tuple[str, Dereverberated]]
Several = (  # recordings: files by name or open, or samples
    list[str] | list[Path] | list[BufferedReader] | list[BytesIO] | list[NDArray[Any]] | tuple[Any, ...] | Iterator[Any]
)


ONLY = "only"  # the fact of a checkpoint that says, in words, to which phones it was restricted


@dataclass(eq=False, repr=False)
class Decoder:
    """A trained model that decodes recordings.

    Parameters
    ----------
    checkpoint : Checkpoint
    device : str
        Where an encoder of features computes, as torch names it.
    calibration : Calibration, optional
        Without one, confidences are the net's posteriors.
    lstm : LanguageModel, optional
        Ranks the hypotheses of the search, with or without the checkpoint's n-gram.
    prior : Prior, optional
        As for `Forward`.
    folder : Path, optional
        Of the checkpoint.
    about : str
        The model in words, for reports.
    net : callable
        Makes what computes the logits, as for `Forward`.

    Attributes
    ----------
    config : Config
        The config that the model was trained with.
    inventory : Inventory
        Its phones: phone ``inventory.phones[i]`` is class ``i + 1`` of the logits, class 0 the blank.
    forward : Forward
        Computes the logits.
    clock : FrameClock
        The times of the logits' frames.
    """

    checkpoint: Checkpoint
    device: str = "cpu"
    calibration: Calibration = field(default_factory=Calibration)
    lstm: LanguageModel | None = None
    prior: Prior | None = field(default=None, kw_only=True)
    folder: Path | None = field(default=None, kw_only=True)
    about: str = field(default="", kw_only=True)
    net: NetMaker = field(default=NumpyNet, kw_only=True)

    def __post_init__(self) -> None:
        """Load the net."""
        self.config, self.inventory = self.checkpoint.config, self.checkpoint.inventory
        self.forward = Forward(self.checkpoint, self.device, self.net, self.prior)
        self.clock = FrameClock.of(self.config.features, self.config.model)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made from: no net, which has the weights once more."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be the copy, with a net of its own."""
        self.__dict__.update(state)
        self.__post_init__()

    @classmethod
    def parts(cls, folder: Path) -> dict[str, Any]:
        """Return those of the constructor's arguments that are in the folder of a checkpoint.

        Raises
        ------
        InputError
            There is no such model, or it is damaged or of another version.
        """
        return {"checkpoint": read_checkpoint(folder), "calibration": Calibration.load(folder)}

    def with_settings(self, settings: Sequence[str]) -> Self:
        """Return a decoder of the same model with these settings: ``"decode.beam=9"``."""
        return self.configured(with_settings(self.config, settings)) if settings else self

    def configured(self, config: Config) -> Self:
        """Return a decoder of the same model that decodes by the ``decode`` section of another config."""
        own = self.config.model_copy(update={"decode": config.decode})
        return self.replaced(checkpoint=replace(self.checkpoint, config=own))

    def replaced(self, **parts: Any) -> Self:
        """Return one with other parts, by the names that the constructor has for them."""
        return replace(self, **parts)

    def centred_on(self, recordings: Iterable[str | Path], jobs: int = 0, channel: Channel | None = None) -> Self:
        """Return a decoder that expects what these files have in common: CMN by speaker, and so ``model.context``.

        They are of one speaker, microphone and room. The shorter a recording, the more its means are those of its
        phones, and the more the common ones count (see `Prior`). Files without speech, as
        `ActivityGate` finds them, and files that cannot be read are left out.

        Raises
        ------
        InputError
            The model subtracts no mean.
        """
        features = self.config.features
        if features.cmn_window_ms is None:
            raise InputError("the model subtracts no mean: features.cmn_window_ms is null", "decode without that")

        def mean_of(sums: Callable[[Iterator[Rows]], Reals]) -> Rows:
            """Return the mean of what is summed, with its count behind it, over each recording's features in blocks."""

            def of(path: str | Path) -> Reals:
                gate = ActivityGate(self.config, self.phones)
                with self.opened(path, None, channel) as (_, blocks):
                    found = sums(gate.watch(extractor(features, self.device).blocks(blocks)))
                return found if gate.is_active else 0 * found

            known = (each for each in map_in_threads(of, paths, jobs) if not isinstance(each, InputError))
            total = sum(known, start=sums(iter(())))
            return np.asarray(total[:-1] / max(total[-1], 1), np.float32)

        paths = list(recordings)
        mean = mean_of(lambda static: cmn_sums(static, features))
        if not self.config.model.context:
            return self.replaced(prior=Prior(mean, None))
        net = NumpyNet(self.checkpoint)
        return self.replaced(prior=Prior(mean, mean_of(lambda static: context_sums(static, net, mean))))

    def restricted(self, checkpoint: Checkpoint) -> Self:
        """Return one of a checkpoint that has fewer phones."""
        return self.replaced(checkpoint=checkpoint)

    def opened(
        self, recording: str | Path | Any, rate: int | None, channel: Channel | None, dereverb: When | None = None
    ) -> Opening:
        """Open a file or samples as `streaming.opened` does, at the model's rate, dereverberated as its config says."""
        return opened(
            recording, rate, channel, self.config.features.sample_rate, dereverb or self.config.decode.dereverb
        )

    @property
    def method(self) -> str:
        """The decoding method, in words."""
        how = method(self.checkpoint.lm, self.lstm, self.config)
        return f"{how}, {self.checkpoint.facts[ONLY]}" if ONLY in self.checkpoint.facts else how

    @property
    def phones(self) -> tuple[str, ...]:
        """The phones of the model; ``phones[i]`` is class ``i + 1`` of the logits, class 0 the blank."""
        return self.inventory.phones

    @property
    def receptive_field(self) -> float:
        """Seconds of a recording that one output frame depends on, without the sliding mean of ``cmn_window_ms``."""
        return receptive_field(self.config.model, self.config.features) * self.config.features.shift_ms / 1000

    def logits(self, samples: Any, rate: int) -> NDArray[np.float32]:
        """Return unnormalised log probabilities.

        Parameters
        ----------
        samples : array_like or Tensor, shape = (n,) or (n, channels)
            As for `decode`.
        rate : int
            Hz; resampled to the model's if it differs.

        Returns
        -------
        ndarray, shape = (n_output_frames, classes), float32
            Class 0 is the blank. No frames where the recording is shorter than a window. Frame ``t`` stands for the
            moment ``clock.seconds(t)``.

        Raises
        ------
        InputError
            The samples or the rate cannot be those of a recording.
        """
        with self.opened(samples, rate, None) as (_, source):
            blocks = list(self.forward.in_blocks(source))
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.phones) + 1), dtype=np.float32)

    @overload
    def decode(
        self, recording: BinaryFile, rate: None = None, alternatives: int = 0, channel: Channel | None = None
    ) -> Recognition: ...

    @overload
    def decode(
        self, recording: Several, rate: int | None = None, alternatives: int = 0, channel: Channel | None = None
    ) -> Iterator[Recognition | InputError]: ...

    @overload
    def decode(
        self, recording: Any, rate: int | None = None, alternatives: int = 0, channel: Channel | None = None
    ) -> Recognition: ...

    def decode(
        self, recording: Any, rate: int | None = None, alternatives: int = 0, channel: Channel | None = None
    ) -> Recognition | Iterator[Recognition | InputError]:
        """Recognise a recording of any length, or each of several.

        Parameters
        ----------
        recording : str, Path, binary file, array_like or Tensor
            A file, by name or open, or `io.BytesIO`: it is read in blocks, and memory grows only with the number of its
            phones. Or samples of shape (n,) or (n, channels), which are averaged: floating-point numbers in [-1, 1], or
            int16, int32 or uint8. Or a list, a tuple or an iterator of these: several recordings.
        rate : int, optional
            Hz, of samples; a file names its rate itself.
        alternatives : int
            Number of other phones to name for each phone.
        channel : int or Track, optional
            The channel of a file to read, counted from 1; None: the mean of all.

        Returns
        -------
        Recognition
            Phones with times and confidences. Samples give the result that a file of these samples gives, with
            ``"samples"`` as its name.
        iterator of Recognition or InputError
            Of several recordings: the result of each in order, while others are decoded, as many at a time as
            there are cores, or ``OMP_NUM_THREADS``. A recording that cannot be decoded gives the error in its
            place, as the command goes on too.

        Raises
        ------
        InputError
            The file cannot be read as audio; the samples or the rate cannot be those of a recording; a number of
            alternatives is negative.

        Examples
        --------
        >>> import numpy as np
        >>> import speechctc
        >>> model = speechctc.load("english", "cpu")
        >>> model.decode(np.zeros(16000), 16000).phones
        ()
        >>> [result.seconds for result in model.decode([np.zeros(16000), np.zeros(8000)], 16000)]
        [1.0, 0.5]
        """
        _check_count(alternatives)
        if is_several(recording):
            return self.decode_all(recording, 0, alternatives, channel, rate)
        return self.decode_one(recording, rate, alternatives, channel)

    def decode_one(
        self,
        recording: str | Path | Any,
        rate: int | None = None,
        alternatives: int = 0,
        channel: Channel | None = None,
    ) -> Recognition:
        """As `decode`, for one recording."""
        with self.opened(recording, rate, channel) as (name, blocks):
            segments = tuple(self.segments(blocks, alternatives))
            return Recognition(name, blocks.seconds, segments, is_dereverberated=blocks.changed)

    def decode_inside(
        self,
        recording: str | Path,
        intervals: Sequence[Interval],
        alternatives: int = 0,
        channel: Channel | None = None,
    ) -> Recognition:
        """Recognise a file inside intervals in the order of time, and nothing between them.

        The net hears the whole recording; each interval is decoded by itself. The result keeps the intervals.

        Raises
        ------
        InputError
            As `decode`; or an interval ends after the recording.
        """
        _check_count(alternatives)
        with self.opened(recording, None, channel) as (name, blocks):
            log_probs = self._log_posteriors(blocks)
            seconds, changed = blocks.seconds, blocks.changed
        segments = list[Segment]()
        for each in intervals:
            if each.end > seconds + BEYOND:
                what = f"{name}: an interval ends at {each.end:.2f} s, after the recording, which has {seconds:.2f} s"
                raise InputError(what, "correct its times")
            first, last = map(self.clock.frame, each[:2])
            begin, end = first * self.clock.step, min(each.end, seconds)
            found = self.segments_of(log_probs[first:last], end - begin, alternatives)
            moved = [one.moved(one.start + begin, one.end + begin) for one in found]
            segments += lasting(moved, MIN_DURATION, each.start, end)
        return Recognition(name, seconds, tuple(segments), intervals=tuple(intervals), is_dereverberated=changed)

    def decode_all(
        self,
        recordings: Iterable[Any],
        jobs: int = 0,
        alternatives: int = 0,
        channel: Channel | None = None,
        rate: int | None = None,
    ) -> Iterator[Recognition | InputError]:
        """Decode files or samples, several at a time.

        The arguments are those of `decode` for each; `jobs` is as for `map_in_threads`.
        """
        expect(length_hint(recordings, 1))
        return map_in_threads(lambda each: self.decode_one(each, rate, alternatives, channel), recordings, jobs)

    def stream(self, rate: int, alternatives: int = 0, lookahead: float | None = LOOKAHEAD) -> Stream:
        """Recognise samples while they come, from a microphone for example, without a thread.

        Parameters
        ----------
        rate : int
            Hz.
        alternatives : int
            As for `decode`.
        lookahead : float, optional
            Seconds after each frame that the means over time cover: the sliding mean of the features, and that of
            ``model.context``. None: as many as in training. The phones are then those of `decode` without
            dereverberation, but come as late as those means and an n-gram need, with ``english`` 12 s.

        Returns
        -------
        Stream
            ``push(samples)`` returns the phones that became known, ``finish()`` the last.

        Raises
        ------
        InputError
            The rate cannot be that of a recording, or the number of alternatives or the lookahead is negative.

        Examples
        --------
        >>> import numpy as np
        >>> import speechctc
        >>> stream = speechctc.load("english", "cpu").stream(16000)
        >>> stream.push(np.zeros(1600)), stream.push(np.zeros(1600)), stream.finish()
        ([], [], [])
        """
        _check_count(alternatives)
        if not isinstance(lookahead, int | float | None):
            raise InputError(f"lookahead={lookahead!r:.60}", "give seconds as a number, or None")
        if lookahead is not None and not 0 <= lookahead < math.inf:
            raise InputError(f"a lookahead of {lookahead} s", "give 0 or more, or None for that of training")
        source = PushedSamples(rate, self.config.features.sample_rate)
        return Stream(source, self._by_block(source, alternatives, LIVE_FRAMES, lookahead))

    def log_posteriors(
        self, recording: str | Path | Any, rate: int | None = None, channel: Channel | None = None
    ) -> Logits:
        """Return the log posteriors that decoding uses, (n_output_frames, classes): no phones where none speaks.

        The arguments and errors are those of `decode`.
        """
        with self.opened(recording, rate, channel) as (_, blocks):
            return self._log_posteriors(blocks)

    def _log_posteriors(self, blocks: AudioBlocks) -> Logits:
        rows = (log_softmax(block) for block in self.forward.in_blocks(blocks, gated=True))
        return np.concatenate([np.zeros((0, len(self.phones) + 1), np.float32), *rows])

    def segments(
        self,
        blocks: AudioBlocks,
        alternatives: int = 0,
        block_frames: int = BLOCK_FRAMES,
        lookahead: float | None = None,
    ) -> Iterator[Segment]:
        """Yield the phones of an opened recording as soon as they are known; see `stream` for `lookahead`."""
        return chain.from_iterable(self._by_block(blocks, alternatives, block_frames, lookahead))

    def _by_block(
        self, source: AudioBlocks, alternatives: int, block_frames: int, lookahead: float | None
    ) -> Iterator[list[Segment]]:
        """Yield the phones found by each block of samples."""
        logits = self.forward.in_blocks(source, block_frames, gated=True, lookahead=lookahead)
        return self._found(logits, lambda: source.seconds, alternatives, DELAY if lookahead is None else LIVE_DELAY)

    def segments_of(self, logits: Logits, seconds: float, alternatives: int = 0) -> Iterator[Segment]:
        """Yield the phones of a whole recording from its logits, (n_output_frames, classes), and its length."""
        return chain.from_iterable(self._found([logits], lambda: seconds, alternatives))

    def _found(
        self, logits: Iterable[Logits], seconds: Callable[[], float], alternatives: int, delay: float = DELAY
    ) -> Iterator[list[Segment]]:
        """Yield the phones found by each block of logits, and the last; `seconds` is called after the last block."""
        segmenter = Segmenter(self.inventory, self.clock, self.calibration, alternatives)
        search = choose_search(self.checkpoint.lm, self.lstm, self.config, len(self.phones) + 1, delay)
        for block in logits:
            yield list(segmenter.push(*search.push(log_softmax(block))))
        yield [*segmenter.push(*search.finish()), *segmenter.finish(seconds())]


def _check_count(alternatives: int) -> None:
    if isinstance(alternatives, bool) or not isinstance(alternatives, int | np.integer):
        raise InputError(f"alternatives={alternatives!r:.60}", "give a whole number")
    if alternatives < 0:
        raise InputError(f"{alternatives} alternatives", "ask for 0 or more")


# The two limits were chosen by ``benchmarks/bench_foreign`` (``benchmarks/foreign.csv``), groups of 6 recordings. With
# the n-gram the mean confidence is at least 0.768 for all 32 groups of English, and at most 0.765 for 36 of 37 other
# languages; without, at least 0.816, and at most 0.807. The other one is Irish, which is as sure as English. Persons
# can be below: with an earlier net seven of 55, with strong accents, and of Indian speakers most.
MIN_PHONES = 50  # phones, with fewer of which nothing is said
MIN_CONFIDENCE = 0.767  # mean confidence of its phones below which most speech is not English
MIN_CONFIDENCE_WITHOUT_LM = 0.81  # the same of the best path, without the n-gram


def has_ngram(recogniser: Decoder) -> bool:
    """Return whether a model decodes with its n-gram."""
    return recogniser.checkpoint.lm is not None and recogniser.config.decode.lm_weight > 0


class Doubt:
    """Tells when a model is less sure of its phones than of the speech it learned: it may be another language.

    Parameters
    ----------
    recogniser : Decoder
        The bundled model of English.
    remedy : str
        How to decode without its n-gram.
    """

    def __init__(self, recogniser: Decoder, remedy: str = "--lm-weight 0 decodes without it") -> None:
        self._remedy, self._with_ngram = remedy, has_ngram(recogniser)
        self._least = MIN_CONFIDENCE if self._with_ngram else MIN_CONFIDENCE_WITHOUT_LM
        self._lock = Lock()
        self._sum, self._count = 0.0, 0

    def seen(self, segments: Iterable[Segment]) -> Iterator[Segment]:
        """Yield the phones, and count them."""
        for segment in segments:
            self._add(segment.confidence, 1)
            yield segment

    def watched(self, results: Iterable[Any]) -> Iterator[Any]:
        """Yield the results, `Recognition`, errors or phones that come one by one, and count their phones."""
        for result in results:
            if isinstance(result, Recognition):
                self._add(sum(segment.confidence for segment in result.segments), len(result.segments))
            elif not isinstance(result, InputError):
                result = replace(result, segments=self.seen(result.segments))
            yield result

    def _add(self, confidence: float, count: int) -> None:
        with self._lock:
            self._sum, self._count = self._sum + confidence, self._count + count

    def note(self) -> str:
        """Return what the user should know; ``""`` if the phones are too few, or as sure as those of English."""
        if self._count < MIN_PHONES or self._sum >= self._least * self._count:
            return ""
        why = f"its n-gram writes English phones where the net is unsure: {self._remedy}"
        ngram = f"; {why}" if self._with_ngram else ""
        confidence = f"mean confidence {self._sum / self._count:.2f}, below {self._least}"
        what = f"the model of English is less sure of these phones than of English ({confidence})"
        may_be = "noisy speech, an accent that it hardly knows, as most of India, or another language"
        return f"{what}: this may be {may_be}, for which there is --model ipa{ngram}"
