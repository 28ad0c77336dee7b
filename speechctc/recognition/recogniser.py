"""A trained net at work: recordings in, phones with times and confidence out, features made as in training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc import audio, audio_blocks
from speechctc.checkpoint import Checkpoint, find_checkpoint, load_checkpoint
from speechctc.config import Config, override, parse_config
from speechctc.devices import choose_device
from speechctc.errors import InputError
from speechctc.features import centred_alone, frame_count, input_of_centred, static_features
from speechctc.lm.model import LanguageModel
from speechctc.lm.rescore import Ranked, Ranker, choose_search, method
from speechctc.lm.tuned import FILE, find_tuned, tuned_settings
from speechctc.recognition.alignment import align_frames, check_fit
from speechctc.recognition.calibration import Calibration
from speechctc.recognition.recognition import Recognition
from speechctc.recognition.segments import FrameClock, Segment, Segmenter
from speechctc.recognition.streaming import BLOCK_FRAMES, centred_blocks, logit_blocks, static_blocks

Samples = NDArray[np.float32]


class Recogniser:
    """A checkpoint ready to decode and align; made by `speechctc.load`.

    Parameters
    ----------
    checkpoint : Checkpoint
    device : torch.device
    calibration : Calibration, optional
        Without one, confidences are posteriors as they are.
    lstm : LanguageModel, optional
        To rank with what the search finds, beside the checkpoint's n-gram or without one.

    Attributes
    ----------
    config : Config
        That the model was trained with.
    inventory : Inventory
        Its phones: phone ``inventory.phones[i]`` is class ``i + 1`` of the logits, class 0 the blank.
    clock : FrameClock
        The times of the logits' frames.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        device: torch.device,
        calibration: Calibration | None = None,
        lstm: LanguageModel | None = None,
    ) -> None:
        self.checkpoint, self.device, self.lstm = checkpoint, device, lstm
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
            Of the n-gram of phones, instead of what was tuned or the config's ``decode.lm_weight``; 0: without it.

        Raises
        ------
        InputError
            There is none, it is damaged or of another version, there is no such device, or a weight is given that is
            not one, or of an n-gram that the model has not.
        """
        chosen = choose_device(device)
        folder = find_checkpoint(None if model is None else Path(model), or_built_in=True)
        recogniser = cls(load_checkpoint(folder, chosen), chosen, Calibration.load(folder))
        if lm_weight is None:
            settings = tuned_settings(find_tuned(folder, recogniser.checkpoint.lm, None))
            values = override(recogniser.config.to_dict(), settings)
            return recogniser.configured(parse_config(values, f"{folder / FILE}")) if settings else recogniser
        if lm_weight and recogniser.checkpoint.lm is None:
            raise InputError(
                f"{folder}: the model has no n-gram", "train one with decode.lm_order=4, or give no weight"
            )
        values = override(recogniser.config.to_dict(), [f"decode.lm_weight={lm_weight}"])
        return recogniser.configured(parse_config(values, "the model's config with this weight"))

    def configured(self, config: Config) -> Recogniser:
        """Return a recogniser of the same model that decodes as another config's ``decode`` says."""
        own = self.config.model_copy(update={"decode": config.decode})
        return Recogniser(replace(self.checkpoint, config=own), self.device, self.calibration, self.lstm)

    @property
    def method(self) -> str:
        """How phones are found, in words."""
        return method(self.checkpoint.lm, self.lstm, self.config)

    def logits(self, samples: Samples, rate: int) -> NDArray[np.float32]:
        """Return unnormalised log probabilities.

        Parameters
        ----------
        samples : ndarray, shape = (n_samples,)
            Mono, in [-1, 1].
        rate : int
            Samples a second; resampled to the model's if it differs.

        Returns
        -------
        ndarray, shape = (n_output_frames, classes), float32
            Class 0 is the blank. No frames where the recording is shorter than a window. Frame ``t`` stands for the
            moment ``clock.seconds(t)``.

        Raises
        ------
        InputError
            The samples are not one row of finite numbers.
        """
        wave = np.ascontiguousarray(samples, dtype=np.float32)
        if wave.ndim != 1 or not np.isfinite(wave).all():
            what = f"shape {wave.shape}" if wave.ndim != 1 else "a number that is not finite"
            raise InputError(f"samples with {what}", "give one row of finite numbers, in [-1, 1]")
        wave = audio.resample(wave, rate, self.config.features.sample_rate)
        blocks = list(self.logit_blocks([wave]))
        return np.concatenate(blocks) if blocks else np.zeros((0, len(self.inventory.phones) + 1), dtype=np.float32)

    def decode(self, path: str | Path, alternatives: int = 0) -> Recognition:
        """Recognise one recording, of any length, in memory that grows with its phones only.

        Parameters
        ----------
        path : str or Path
        alternatives : int
            How many other phones to name for each.

        Raises
        ------
        InputError
            It cannot be read as audio.
        """
        with audio_blocks.opened(Path(path), self.config.features.sample_rate) as blocks:
            segments = tuple(self.segments(blocks, alternatives))
            return Recognition(str(path), blocks.seconds, segments)

    def align(self, path: str | Path, phones: Sequence[str]) -> Recognition:
        """Place phones that are known to be in a recording.

        Raises
        ------
        InputError
            A phone is not of the model's set, there are more than fit into the recording, or it cannot be read.
        """
        try:
            labels = self.inventory.encode(phones)
        except InputError as error:
            raise InputError(f"{path}: {error.what}", f"the model's are: {' '.join(self.inventory.phones)}") from None
        with audio_blocks.opened(Path(path), self.config.features.sample_rate) as blocks:
            log_probs = [_log_softmax(block) for block in self.logit_blocks(blocks)]
            seconds = blocks.seconds
        frames = sum(len(block) for block in log_probs)
        check_fit(str(path), labels, frames, seconds)
        if not labels:
            return Recognition(str(path), seconds, (), 0.0)
        rows = np.concatenate(log_probs)
        segmenter = Segmenter(self.inventory, self.clock, self.calibration)
        classes, score = align_frames(rows, labels)
        segments = [*segmenter.push(rows, classes), *segmenter.finish(seconds)]
        return Recognition(str(path), seconds, tuple(segments), score / len(labels))

    def segments(
        self, blocks: audio_blocks.Blocks, alternatives: int = 0, block_frames: int = BLOCK_FRAMES
    ) -> Iterator[Segment]:
        """Yield the phones of an opened recording as they become known; with an n-gram up to `DELAY` later."""
        return self._spot(self.logit_blocks(blocks, block_frames), lambda: blocks.seconds, alternatives)

    def segments_of(self, logits: NDArray[np.float32], seconds: float, alternatives: int = 0) -> Iterator[Segment]:
        """Yield the phones of the logits of a whole recording of this length."""
        return self._spot([logits], lambda: seconds, alternatives)

    def nbest(self, path: str | Path) -> Iterator[tuple[float, list[Ranked]]]:
        """Yield the best sequences of phones that a prefix search keeps; long recordings in pieces cut in pauses.

        Yields
        ------
        start : float
            Of the piece, seconds.
        ranked : list of Ranked
            Best first, at most as many as the beam.

        Raises
        ------
        InputError
            It cannot be read as audio.
        """
        ranker, frame = Ranker(self.checkpoint.lm, self.lstm, self.config), 0
        for piece in ranker.pieces(self.log_posteriors(path)):
            yield frame * self.clock.step, ranker.rank(piece)
            frame += len(piece)

    def log_posteriors(self, path: str | Path) -> NDArray[np.float32]:
        """Return the log posteriors of a recording; shape = (n_output_frames, classes).

        Raises
        ------
        InputError
            It cannot be read as audio.
        """
        with audio_blocks.opened(Path(path), self.config.features.sample_rate) as blocks:
            rows = [_log_softmax(block) for block in self.logit_blocks(blocks)]
        return np.concatenate([np.zeros((0, len(self.inventory.phones) + 1), np.float32), *rows])

    def _spot(
        self, logits: Iterable[NDArray[np.float32]], seconds: Callable[[], float], alternatives: int
    ) -> Iterator[Segment]:
        """Yield the phones of logits that come in blocks; the recording's length is asked for at its end."""
        segmenter = Segmenter(self.inventory, self.clock, self.calibration, alternatives)
        classes = len(self.inventory.phones) + 1
        search = choose_search(self.checkpoint.lm, self.lstm, self.config, classes)
        if search is not None:
            for block in logits:
                yield from segmenter.push(*search.push(_log_softmax(block)))
            yield from segmenter.push(*search.finish())
        else:
            for block in logits:
                yield from segmenter.push(_log_softmax(block))
        yield from segmenter.finish(seconds())

    def static(self, path: Path, most: int) -> tuple[float, Tensor | None]:
        """Return a recording's seconds and its static features, None if they are more than `most` frames.

        Raises
        ------
        InputError
            It cannot be read as audio.
        """
        config = self.config.features
        if frame_count(int(audio.info(path).seconds * config.sample_rate), config) > most:
            return 0.0, None
        samples, seconds = audio.read(path, config.sample_rate)
        return seconds, static_features(torch.from_numpy(samples), config)

    def logit_blocks(
        self, samples: Iterable[Samples], block_frames: int = BLOCK_FRAMES
    ) -> Iterator[NDArray[np.float32]]:
        """Yield the logits of samples that come in blocks, at the model's rate."""
        config = self.config
        static = static_blocks((torch.from_numpy(block) for block in samples), config.features)
        features = centred_blocks(static, config.features)
        for logits in logit_blocks(features, self._alone, config.model, config.features, block_frames):
            yield logits.numpy()

    def _alone(self, features: Tensor) -> Tensor:
        return self._one_pass([features])[0]

    def apply_batch(self, statics: Sequence[Tensor]) -> list[Tensor]:
        """Map the static features of some recordings to their logits on the CPU, in one pass of the net."""
        return self._one_pass([centred_alone(static, self.config.features) for static in statics])

    @torch.inference_mode()
    def _one_pass(self, features: Sequence[Tensor]) -> list[Tensor]:
        """Map centred features, each (n_frames, static_dims), to logits on the CPU."""
        if not any(map(len, features)):  # shorter than a window, all of them
            return [torch.zeros(0, len(self.inventory.phones) + 1) for _ in features]
        frames = torch.tensor([len(each) for each in features], device=self.device)
        padded = torch.nn.utils.rnn.pad_sequence(list(features), batch_first=True).to(self.device)
        mean, std = self.checkpoint.mean, self.checkpoint.std
        logits, lengths = self.net(input_of_centred(padded, frames, mean, std, self.config.features), frames)
        logits = logits.float().cpu()
        return [row[:length] for row, length in zip(logits, lengths.tolist(), strict=True)]


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    result: NDArray[np.float32] = torch.from_numpy(logits).log_softmax(1).numpy()
    return result
