"""Kinds of static features: how they are computed from samples, and what everything else may assume about them.

To add a kind: its name and keys in `FeatureConfig`, whose ``static_dims`` counts its values, and a subclass of
`FeatureExtractor` in `KINDS`. Without a change to the package: a subclass with `FeatureExtractor.dims`, and
`speechctc.register_features`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar

import torch
import torchaudio
from torch import Tensor

from speechctc.config.schema import AugmentConfig, FeatureConfig
from speechctc.core import plugins
from speechctc.core.errors import InputError
from speechctc.features import encoder

# Kaldi's filter bank expects samples at 16-bit scale; in [-1, 1] quiet frames would fall below its floor.
INT16_SCALE = 32768.0
LIFTER = 22  # Kaldi's and HTK's
ANY_KIND = ("speed", "time_masks", "time_mask_ms", "own")
"""Augmentation that suits all features: it changes only their times, or is a user's own."""


class FeatureExtractor(ABC):
    """Static features of one kind.

    Parameters
    ----------
    config : FeatureConfig

    Attributes
    ----------
    window, shift : int
        Samples of a frame, and samples from the start of a frame to that of the next.
    bands : int
        So many values of a frame, the first, are log powers of neighbouring bands of frequency; 0: none are. They tell
        where a recording is active, and allow the augmentation of `BANDS`. Where there are none, the values have no
        order, and the net takes each as a channel of its own.
    layers : int
        The values are so many vectors of one size after each other, and the net takes their learned mean.
    alone : bool
        It uses all processor cores, or a GPU, by itself, so that one process extracts.
    """

    BANDS: ClassVar[tuple[str, ...]] = tuple(key for key in AugmentConfig.model_fields if key not in ANY_KIND)

    def __init__(self, config: FeatureConfig) -> None:
        self.config = config
        self.window = int(config.sample_rate * config.window_ms * 0.001)
        self.shift = int(config.sample_rate * config.shift_ms * 0.001)
        self.bands, self.layers, self.alone = 0, 1, False

    @classmethod
    def dims(cls, config: FeatureConfig) -> int:
        """Return the number of values of a frame. Only a kind of one's own needs it: the config knows the others."""
        raise NotImplementedError

    @abstractmethod
    def static(self, samples: Tensor) -> Tensor:
        """Return the static features of a recording.

        Parameters
        ----------
        samples : Tensor, shape = (n_samples,)
            Mono, in [-1, 1], at ``config.sample_rate``.

        Returns
        -------
        Tensor, shape = (n_frames, config.static_dims), float32
            On the device of the samples.
        """

    def frames(self, samples: int) -> int:
        """Return the number of frames of a recording; each window is wholly inside it."""
        return 0 if samples < self.window else 1 + (samples - self.window) // self.shift

    def blocks(self, samples: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield static features as soon as the samples of a frame are known.

        Parameters
        ----------
        samples : iterable of Tensor, shape = (n,)
            A recording, as for `static`, cut anywhere. An empty block gives an empty one at once.

        Yields
        ------
        Tensor, shape = (n_frames, static_dims)
            Concatenated: `static` of the whole.
        """
        waiting = torch.zeros(0)
        for block in samples:
            if not len(block):
                yield torch.zeros(0, self.config.static_dims)
                continue
            waiting = torch.cat([waiting, block])
            if frames := self.frames(len(waiting)):
                yield self.static(waiting)
                waiting = waiting[frames * self.shift :]

    def check(self, augment: AugmentConfig) -> None:
        """Check that these features allow an augmentation.

        Raises
        ------
        InputError
            They are not log powers of bands, and it changes such; or one of a user's own is not there.
        """
        for name in augment.own:
            plugins.need("augmentation", name)
        plain = AugmentConfig()
        for key in () if self.bands else self.BANDS:
            if getattr(augment, key) != getattr(plain, key):
                raise InputError(f"augment.{key} is for log powers of bands, and features are not", "leave it out")


class LogMel(FeatureExtractor):
    """Log mel energies, followed by the log energy if configured."""

    def __init__(self, config: FeatureConfig) -> None:
        super().__init__(config)
        self.bands = config.mels

    def static(self, samples: Tensor) -> Tensor:
        """Return log mel energies; the frame's log energy is the last value."""
        config = self.config
        if self.frames(samples.numel()) == 0:
            return samples.new_zeros((0, config.static_dims), dtype=torch.float32)
        bank = torchaudio.compliance.kaldi.fbank(
            samples.to(torch.float32)[None] * INT16_SCALE,
            sample_frequency=config.sample_rate,
            frame_length=config.window_ms,
            frame_shift=config.shift_ms,
            window_type=config.window,
            num_mel_bins=config.mels,
            low_freq=config.low_hz,
            high_freq=config.high_hz,
            preemphasis_coefficient=config.preemphasis,
            use_energy=config.energy,
            htk_compat=True,  # puts the energy last
            dither=0.0,
        )
        assert isinstance(bank, Tensor)
        return bank


class MFCC(LogMel):
    """Mel-frequency cepstral coefficients: the cosine transform of log mel energies, liftered as in Kaldi and HTK.

    Their order is HTK's: the first coefficient, or the log energy in its place, is the last value.
    """

    def __init__(self, config: FeatureConfig) -> None:
        super().__init__(config)
        self.bands = 0
        transform = torchaudio.functional.create_dct(config.mels, config.mels, "ortho")[:, : config.ceps]
        transform[:, 0] = math.sqrt(2 / config.mels)  # as HTK's; Kaldi's own is orthogonal
        lifter = 1 + LIFTER / 2 * (torch.arange(config.ceps) * (math.pi / LIFTER)).sin()
        self._transform = (transform * lifter).roll(-1, 1)

    def static(self, samples: Tensor) -> Tensor:
        """Return the coefficients."""
        bank = super().static(samples)
        if not len(bank):
            return bank.new_zeros(0, self.config.ceps)
        values = bank[:, : self.config.mels] @ self._transform.to(bank.device)
        if self.config.energy:
            values[:, -1] = bank[:, -1]
        return values


class Encoder(FeatureExtractor):
    """Layers of a pretrained encoder (`speechctc.features.encoder`).

    It hears a recording of at most ``encoder.seconds`` at once. A longer one goes through it in windows of that length:
    two thirds of each are new, and a sixth at either side is context. The last window ends with the recording. As
    attention sees all of its window, the result is near that of one pass, but not equal to it.
    """

    def __init__(self, config: FeatureConfig, device: torch.device | None = None) -> None:
        super().__init__(config)
        rate = config.sample_rate
        self.window, self.shift = (round(rate * each / 1000) for each in (config.window_ms, config.shift_ms))
        self.layers, self.alone, self._device = len(config.encoder.chosen), True, device
        self._side = round(rate * config.encoder.seconds / 6 / self.shift)  # frames of context

    def static(self, samples: Tensor) -> Tensor:
        """Return the layers, one after the other in each frame."""
        return torch.cat([samples.new_zeros(0, self.config.static_dims), *self.blocks([samples])])

    def blocks(self, samples: Iterable[Tensor]) -> Iterator[Tensor]:
        """Yield static features, a window at a time."""
        shift, side = self.shift, self._side
        size, waiting = 6 * side * shift + self.window, torch.zeros(0)
        start, done = 0, 0  # of the next window in `waiting`, in samples; frames of it that were yielded before
        for block in samples:
            if not len(block):
                yield torch.zeros(0, self.config.static_dims)
                continue
            waiting = torch.cat([waiting, block])
            while len(waiting) > start + size:  # more is to come: this is not the last window
                yield self._apply(waiting[start : start + size])[done : 5 * side]
                waiting, start, done = waiting[start:], 4 * side * shift, side
        if self.frames(len(waiting)):
            first = -(-max(len(waiting) - size, 0) // shift)
            yield self._apply(waiting[first * shift :])[start // shift + done - first :]

    def _apply(self, samples: Tensor) -> Tensor:
        return encoder.load(self.config.encoder, self._device)(samples)


KINDS: dict[str, type[FeatureExtractor]] = {"mel": LogMel, "mfcc": MFCC}


def extractor(config: FeatureConfig, device: torch.device | None = None) -> FeatureExtractor:
    """Return the extractor of a config's kind of features.

    Parameters
    ----------
    config : FeatureConfig
    device : torch.device, optional
        Where an encoder computes; None: a GPU where there is one. Samples and features are on the CPU all the same.
    """
    if config.kind == "encoder":
        return Encoder(config, device)
    kind: type[FeatureExtractor] = KINDS.get(config.kind) or plugins.find("features", config.kind)
    return kind(config)
