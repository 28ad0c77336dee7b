"""A trained net at work: recordings in, phones with times and confidence out, features made as in training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.audio import sound_file, stream
from speechctc.config.load import override, parse_config
from speechctc.config.schema import Config
from speechctc.decoding.search import lm_search, uses_lm
from speechctc.devices import choose_device
from speechctc.errors import InputError
from speechctc.features.filterbank import frame_count, net_input_after_cmn, sliding_cmn_one, static_features
from speechctc.inference.alignment import align_frames, check_fit
from speechctc.inference.calibration import Calibration
from speechctc.inference.result import Recognition
from speechctc.inference.samples import NAME, SampleBlocks, Samples, Source
from speechctc.inference.segmenter import FrameClock, Segment, Segmenter
from speechctc.inference.streaming import BLOCK_FRAMES, ActivityGate, cmn_blocks, logit_blocks, static_blocks
from speechctc.model.checkpoint import Checkpoint, find_checkpoint, load_checkpoint
from speechctc.model.net import receptive_field
from speechctc.storage import files


class Recogniser:
    """A checkpoint ready to decode and align; made by `speechctc.load`.

    Parameters
    ----------
    checkpoint : Checkpoint
    device : torch.device
    calibration : Calibration, optional
        Without one, confidences are posteriors as they are.

    Attributes
    ----------
    config : Config
        That the model was trained with.
    inventory : Inventory
        Its phones: phone ``inventory.phones[i]`` is class ``i + 1`` of the logits, class 0 the blank.
    clock : FrameClock
        The times of the logits' frames.
    """

    def __init__(self, checkpoint: Checkpoint, device: torch.device, calibration: Calibration | None = None) -> None:
        self.checkpoint, self.device = checkpoint, device
        self.calibration = calibration or Calibration()
        self.config, self.inventory = checkpoint.config, checkpoint.inventory
        self.net = checkpoint.net.eval()
        self.clock = FrameClock.of(self.config.features, self.config.model)

    @classmethod
    def load(cls, model: str | Path | None = None, device: str = "auto", lm_weight: float | None = None) -> Recogniser:
        """Load a checkpoint or a run's best; without a name the latest run's, or else the model that comes along.

        Parameters
        ----------
        model : str or Path, optional
        device : str
        lm_weight : float, optional
            Of the n-gram of phones, instead of the config's ``decode.lm_weight``; 0: decode without it.

        Raises
        ------
        InputError
            There is none, it is damaged or of another version, there is no such device, or a weight is given that is
            not one, or of an n-gram that the model has not.
        """
        chosen = choose_device(device)
        folder = find_checkpoint(None if model is None else Path(model), or_built_in=True)
        checkpoint, calibration = files.read_folder(
            folder, lambda place: (load_checkpoint(place, chosen), Calibration.load(place))
        )
        recogniser = cls(checkpoint, chosen, calibration)
        if lm_weight is None:
            return recogniser
        if lm_weight and recogniser.checkpoint.lm is None:
            raise InputError(
                f"{folder}: the model has no n-gram", "train one with decode.lm_order=4, or give no weight"
            )
        values = override(recogniser.config.to_dict(), [f"decode.lm_weight={lm_weight}"])
        return recogniser.configured(parse_config(values, "the model's config with this weight"))

    def configured(self, config: Config) -> Recogniser:
        """Return a recogniser of the same model that decodes as another config's ``decode`` says."""
        own = self.config.model_copy(update={"decode": config.decode})
        return Recogniser(replace(self.checkpoint, config=own), self.device, self.calibration)

    @property
    def method(self) -> str:
        """How phones are found, in words."""
        decode = self.config.decode
        if not uses_lm(self.checkpoint.lm, self.config):
            return "best path"
        return f"prefix search with an n-gram of phones (weight {decode.lm_weight:g}, bonus {decode.lm_bonus:g})"

    @property
    def phones(self) -> tuple[str, ...]:
        """The phones that the model knows; ``phones[i]`` is class ``i + 1`` of the logits, class 0 the blank."""
        return self.inventory.phones

    @property
    def receptive_field(self) -> float:
        """Seconds of a recording that one frame of the output depends on; the mean of ``center_ms`` is not in it."""
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
        blocks = list(self.logit_blocks(SampleBlocks(samples, rate, self.config.features.sample_rate)))
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.phones) + 1), dtype=np.float32)

    def decode(
        self,
        recording: str | Path | Any,
        rate: int | None = None,
        alternatives: int = 0,
        channel: int | None = None,
    ) -> Recognition:
        """Recognise one recording, of any length.

        Parameters
        ----------
        recording : str, Path, array_like or Tensor
            A file, read in memory that grows with its phones only; or samples of shape (n,) or (n, channels), which
            are averaged: floating-point numbers in [-1, 1], or int16, int32 or uint8.
        rate : int, optional
            Hz, of samples; a file has its own.
        alternatives : int
            How many other phones to name for each.
        channel : int, optional
            Which channel to read, counted from 1; None: the mean of all.

        Returns
        -------
        Recognition
            Phones with times and confidences. Samples give the result that a file of these samples gives, with
            ``"samples"`` as its name.

        Raises
        ------
        InputError
            The file cannot be read as audio; the samples or the rate cannot be those of a recording.

        Examples
        --------
        >>> import numpy as np
        >>> import speechctc
        >>> model = speechctc.load("english", "cpu")
        >>> model.decode(np.zeros(16000), 16000).phones
        ()
        """
        with self._opened(recording, rate, channel) as (name, blocks):
            segments = tuple(self.segments(blocks, alternatives))
            return Recognition(name, blocks.seconds, segments)

    def align(
        self,
        recording: str | Path | Any,
        phones: Sequence[str],
        rate: int | None = None,
        channel: int | None = None,
    ) -> Recognition:
        """Place phones that are known to be in a recording.

        Parameters
        ----------
        recording : str, Path, array_like or Tensor
            As for `decode`.
        phones : sequence of str
            Of the model's, in order.
        rate : int, optional
            Hz, of samples.
        channel : int, optional
            Which channel of a file to read, counted from 1; None: the mean of all.

        Returns
        -------
        Recognition
            With a score.

        Raises
        ------
        InputError
            A phone is not of the model's set, there are more than fit into the recording, or it cannot be read.
        """
        with self._opened(recording, rate, channel) as (name, blocks):
            try:
                labels = self.inventory.encode(phones)
            except InputError as error:
                raise InputError(f"{name}: {error.what}", f"the model's are: {' '.join(self.phones)}") from None
            log_probs = [_log_softmax(block) for block in self.logit_blocks(blocks)]
            seconds = blocks.seconds
        frames = sum(len(block) for block in log_probs)
        check_fit(name, labels, frames, seconds)
        if not labels:
            return Recognition(name, seconds, (), 0.0)
        rows = np.concatenate(log_probs)
        segmenter = Segmenter(self.inventory, self.clock, self.calibration)
        classes, score = align_frames(rows, labels)
        segments = [*segmenter.push(rows, classes), *segmenter.finish(seconds)]
        return Recognition(name, seconds, tuple(segments), score / len(labels))

    @contextmanager
    def _opened(
        self, recording: str | Path | Any, rate: int | None, channel: int | None
    ) -> Iterator[tuple[str, Source]]:
        """Open a file or samples; yield the name that results have, and the blocks."""
        wanted = self.config.features.sample_rate
        if not isinstance(recording, (str, Path)):
            if channel is not None:
                raise InputError("a channel of samples, which are averaged", "give that channel's samples alone")
            yield NAME, SampleBlocks(recording, rate, wanted)
            return
        if rate is not None:
            raise InputError(f"{recording}: a rate for a file, which has its own", "leave rate out")
        with stream.opened(Path(recording), wanted, channel) as blocks:
            yield str(recording), blocks

    def segments(self, blocks: Source, alternatives: int = 0, block_frames: int = BLOCK_FRAMES) -> Iterator[Segment]:
        """Yield the phones of an opened recording as they become known; with an n-gram up to `DELAY` later."""
        return self._spot(self.logit_blocks(blocks, block_frames, True), lambda: blocks.seconds, alternatives)

    def segments_of(self, logits: NDArray[np.float32], seconds: float, alternatives: int = 0) -> Iterator[Segment]:
        """Yield the phones of the logits of a whole recording of this length."""
        return self._spot([logits], lambda: seconds, alternatives)

    def _spot(
        self, logits: Iterable[NDArray[np.float32]], seconds: Callable[[], float], alternatives: int
    ) -> Iterator[Segment]:
        """Yield the phones of logits that come in blocks; the recording's length is asked for at its end."""
        segmenter = Segmenter(self.inventory, self.clock, self.calibration, alternatives)
        lm = self.checkpoint.lm
        if lm is not None and uses_lm(lm, self.config):
            search = lm_search(lm, self.config)
            for block in logits:
                yield from segmenter.push(*search.push(_log_softmax(block)))
            yield from segmenter.push(*search.finish())
        else:
            for block in logits:
                yield from segmenter.push(_log_softmax(block))
        yield from segmenter.finish(seconds())

    def static(self, path: Path, most: int, channel: int | None = None) -> tuple[float, Tensor | None]:
        """Return a recording's seconds and its static features, None if they are more than `most` frames.

        Raises
        ------
        InputError
            It cannot be read as audio.
        """
        config = self.config.features
        if frame_count(int(sound_file.info(path).seconds * config.sample_rate), config) > most:
            return 0.0, None
        samples, seconds = sound_file.read(path, config.sample_rate, channel)
        return seconds, static_features(torch.from_numpy(samples), config)

    def logit_blocks(
        self, samples: Iterable[Samples], block_frames: int = BLOCK_FRAMES, gated: bool = False
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the logits of samples that come in blocks, at the model's rate; gated: by an `ActivityGate`."""
        static = static_blocks((torch.from_numpy(block) for block in samples), self.config.features)

        def logits(static: Iterable[Tensor]) -> Iterator[NDArray[np.float32]]:
            model, features = self.config.model, self.config.features
            for block in logit_blocks(cmn_blocks(static, features), self._alone, model, features, block_frames):
                yield block.numpy()

        return ActivityGate(self.config, self.phones).blocks(static, logits) if gated else logits(static)

    def _alone(self, features: Tensor) -> Tensor:
        return self._one_pass([features])[0]

    def apply_batch(self, statics: Sequence[Tensor]) -> list[Tensor]:
        """Map the static features of some recordings to their logits on the CPU, in one pass of the net."""
        return self._one_pass([sliding_cmn_one(static, self.config.features) for static in statics])

    @torch.inference_mode()
    def _one_pass(self, features: Sequence[Tensor]) -> list[Tensor]:
        """Map centred features, each (n_frames, static_dims), to logits on the CPU."""
        if not any(map(len, features)):  # shorter than a window, all of them
            return [torch.zeros(0, len(self.inventory.phones) + 1) for _ in features]
        frames = torch.tensor([len(each) for each in features], device=self.device)
        padded = torch.nn.utils.rnn.pad_sequence(list(features), batch_first=True).to(self.device)
        mean, std = self.checkpoint.mean, self.checkpoint.std
        logits, lengths = self.net(net_input_after_cmn(padded, frames, mean, std, self.config.features), frames)
        logits = logits.float().cpu()
        return [row[:length] for row, length in zip(logits, lengths.tolist(), strict=True)]


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    result: NDArray[np.float32] = torch.from_numpy(logits).log_softmax(1).numpy()
    return result
