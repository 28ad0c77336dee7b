"""Kinds of static features: how they are computed from samples, and what everything else may assume about them.

To add a kind: its name and keys in `FeatureConfig`, whose ``static_dims`` counts its values, and a subclass of
`FeatureExtractor` that `extractor` returns for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import ClassVar

import torch
import torchaudio
from torch import Tensor

from speechctc.config.schema import AugmentConfig, FeatureConfig
from speechctc.core.errors import InputError

# Kaldi's filter bank expects samples at 16-bit scale; in [-1, 1] quiet frames would fall below its floor.
INT16_SCALE = 32768.0
ANY_KIND = ("speed", "time_masks", "time_mask_ms")
"""Augmentation that suits all features, because it changes only their times."""


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
        where a recording is active, and allow the augmentation of `BANDS`.
    """

    BANDS: ClassVar[tuple[str, ...]] = tuple(key for key in AugmentConfig.model_fields if key not in ANY_KIND)

    def __init__(self, config: FeatureConfig) -> None:
        self.config = config
        self.window = int(config.sample_rate * config.window_ms * 0.001)
        self.shift = int(config.sample_rate * config.shift_ms * 0.001)
        self.bands = 0

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
            They are not log powers of bands, and it changes such.
        """
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


def extractor(config: FeatureConfig) -> FeatureExtractor:
    """Return the extractor of a config's kind of features."""
    return LogMel(config)
