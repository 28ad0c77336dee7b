"""Augmentation of training utterances, on static features on the device.

Working on features instead of recordings is cheap and needs no copies on disk. Random numbers come from torch's default
generator of the device, which is seeded before every step. The default config changes nothing.

References
----------
.. [1] T. Ko et al., "Audio augmentation for speech recognition", Interspeech 2015: `speed`.
.. [2] N. Jaitly and G. Hinton, "Vocal tract length perturbation (VTLP) improves speech recognition", 2013: `warp`.
.. [3] D. Park et al., "SpecAugment", Interspeech 2019: `band_masks`, `time_masks`.
.. [4] J. Polack, "La transmission de l'énergie sonore dans les salles", 1988: the exponential decay of `reverb`.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from speechctc.config.schema import AugmentConfig, Config
from speechctc.core import plugins
from speechctc.core.errors import InputError
from speechctc.ctc.problem import frames_needed
from speechctc.features.extractor import extractor
from speechctc.features.padded import frame_mask, static_features

NEPER = math.log(10) / 10  # one decibel in natural log power
NOISE_SECONDS = 20
DECAY_SECONDS = (0.2, 0.8)  # time in which the sound of a room falls by 60 dB
DIRECT_DB = (-3.0, 12.0)  # power of the direct sound over that of the reverberation
TELEPHONE_HZ = ((150.0, 350.0), (3200.0, 4000.0))  # the lowest and the highest frequency that a telephone carries
TELEPHONE_DB = (20.0, 60.0)  # attenuation below and above
QUANTISATION = 3.0  # natural log power of a mel band in the rounding noise of 16 bits


class Augmenter:
    """Applies the augmentation that ``augment`` in the config describes.

    Parameters
    ----------
    config : Config
    device : torch.device
    """

    def __init__(self, config: Config, device: torch.device) -> None:
        self.config: AugmentConfig = config.augment
        self.features, self.stride, self.device = config.features, config.model.time_stride, device
        self.bands = extractor(config.features).bands
        extractor(config.features).check(config)
        self.own = {
            name: partial(plugins.guarded(f"augment.own.{name}", plugins.need("augmentation", name)), **given)
            for name, given in config.augment.own.items()
        }
        self.noise = self._white_noise() if self.config.noise_db is not None else None

    def most_frames(self, frames: int) -> int:
        """Return the largest number of frames that an utterance can have after speed perturbation."""
        slowest, _ = self.config.rates
        return math.ceil(frames / slowest + 0.5) if slowest < 1 else frames

    def perturb_speed(self, static: Tensor, frames: Tensor, labels: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
        """Perturb the speed.

        Parameters
        ----------
        static : Tensor, shape = (n_batch, max_frames, static_dims)
        frames : Tensor, shape = (n_batch,)
        labels : Tensor, shape = (n_batch, max_labels)
        counts : Tensor, shape = (n_batch,)
            Numbers of labels; no utterance becomes too short for its labels.

        Returns
        -------
        static : Tensor, shape = (n_batch, new_max_frames, static_dims)
        frames : Tensor, shape = (n_batch,)
        """
        slowest, fastest = self.config.rates
        if slowest == fastest:
            return static, frames
        return self._change_speed(static.float(), frames, least_frames(labels, counts, self.stride))

    def perturb_spectrum(self, static: Tensor, frames: Tensor) -> Tensor:
        """Perturb vocal tract length, room, equalisation, bandwidth and level, add noise, and what users added.

        Each phone stays in its frames, and shapes are as for `perturb_speed`.
        """
        config = self.config
        if config.warp:
            static = self._vtlp(static.float())
        if config.reverb:
            static = self._reverberate(static.float())
        if config.colour_db:
            static = self._equalise(static.float())
        if self.noise is not None:
            static = self._add_noise(static.float(), frames)
        if config.telephone:
            static = self._limit_band(static.float())
        if config.gain_db:
            gain = NEPER * config.gain_db * self._uniform(-1.0, 1.0, len(static))
            static = static + gain[:, None, None]
        for name, change in self.own.items():
            changed = change(static.float(), frames, self.features)
            if not isinstance(changed, Tensor) or changed.shape != static.shape:
                raise InputError(f"augment.own.{name} returned no features of the same shape", "let it return them")
            static = changed
        return static

    def mask(self, features: Tensor, frames: Tensor) -> Tensor:
        """Set random bands and random stretches of time to the mean, 0 (SpecAugment).

        Parameters
        ----------
        features : Tensor, shape = (n_batch, channels, dims, max_frames)
            From `features.net_input`.
        frames : Tensor, shape = (n_batch,)
        """
        config = self.config
        utterances, _, bands, steps = features.shape
        if config.band_masks:
            sizes = frames.new_full((utterances,), bands)
            widest = sizes.clamp(max=config.band_mask)
            hidden = self._spans(config.band_masks, bands, sizes, widest, config.band_masks)
            features = features.masked_fill(hidden[:, None, :, None], 0.0)
        if config.time_masks:
            a_second = 1000 / self.features.shift_ms
            longest = max(round(config.time_mask_ms / self.features.shift_ms), 1)
            counts = (frames * (config.time_masks / a_second)).ceil()
            most = math.ceil(steps * config.time_masks / a_second)
            # A mask covers at most a fifth of its utterance.
            hidden = self._spans(most, steps, frames, (frames // 5).clamp(max=longest), counts[:, None])
            features = features.masked_fill(hidden[:, None, None, :], 0.0)
        return features

    def _change_speed(self, static: Tensor, frames: Tensor, least: Tensor) -> tuple[Tensor, Tensor]:
        factor = self._uniform(*self.config.rates, len(static))
        new = (frames / factor).round().long()
        new = torch.maximum(new, torch.minimum(frames, least))
        # On a GPU the exact maximum would make the host wait; an upper bound does not.
        steps = int(new.max()) if self.device.type == "cpu" else self.most_frames(static.shape[1])
        places = (torch.arange(steps, device=self.device) + 0.5) * (frames / new)[:, None] - 0.5
        return _interpolate(static, places, (frames - 1)[:, None]), new

    def _vtlp(self, static: Tensor) -> Tensor:
        mels = self.bands
        factor = self._uniform(1 - self.config.warp, 1 + self.config.warp, len(static))
        places = torch.arange(mels, device=self.device) * factor[:, None]
        bands = _interpolate(static[:, :, :mels].transpose(1, 2), places, places.new_full((1, 1), mels - 1))
        return torch.cat([bands.transpose(1, 2), static[:, :, mels:]], dim=2)

    def _equalise(self, static: Tensor) -> Tensor:
        """Add a random smooth frequency response: three cosines over the mel axis, `colour_db` in total."""
        mels = self.bands
        places = torch.arange(mels, device=self.device) * (math.pi / max(mels - 1, 1))
        waves = torch.stack([(number * places).cos() for number in (1, 2, 3)])
        heights = torch.randn(len(static), 3, device=self.device) * (NEPER * self.config.colour_db * math.sqrt(2 / 3))
        curve = torch.nn.functional.pad(heights @ waves, (0, static.shape[2] - mels))
        return static + curve[:, None, :]

    def _add_noise(self, static: Tensor, frames: Tensor) -> Tensor:
        assert self.noise is not None and self.config.noise_db is not None
        inside, mels = frame_mask(frames, static.shape[1]), self.bands
        power = static[:, :, :mels].exp().sum(2) * inside
        level = (power.sum(1) / frames).clamp(min=1e-10).log()
        level = level - NEPER * self._uniform(*self.config.noise_db, len(static))
        begin = self._uniform(0.0, float(len(self.noise)), len(static)).long()
        steps = torch.arange(static.shape[1], device=self.device)
        noise = self.noise[(begin[:, None] + steps) % len(self.noise)]
        return torch.logaddexp(static, noise + level[:, None, None])

    def _reverberate(self, static: Tensor) -> Tensor:
        """Add to the power of each band that of earlier frames, decaying exponentially [4]_."""
        count, shift = len(static), self.features.shift_ms / 1000
        decay = (-6 * math.log(10) * shift / self._uniform(*DECAY_SECONDS, count)).exp()  # of the power, per frame
        share = (-NEPER * self._uniform(*DIRECT_DB, count)).exp() * (1 - decay) / decay
        share = share * (self._uniform(0.0, 1.0, count) < self.config.reverb)
        power = static.exp()
        sums, factor, step = power, decay, 1  # sums[t]: of decay ** k * power[t - k] over k < step
        while step < static.shape[1] and step * shift < DECAY_SECONDS[1]:
            earlier = torch.nn.functional.pad(sums[:, :-step], (0, 0, step, 0))
            sums, factor, step = torch.addcmul(sums, factor[:, None, None], earlier), factor**2, 2 * step
        return torch.lerp(power, sums, share[:, None, None]).log()

    def _limit_band(self, static: Tensor) -> Tensor:
        """Attenuate the bands that a telephone does not carry."""
        mels, count = self.bands, len(static)
        centres = self._band_centres()
        low, high = (self._uniform(*edge, count)[:, None] for edge in TELEPHONE_HZ)
        loss = NEPER * (TELEPHONE_DB[0] * (centres < low) + TELEPHONE_DB[1] * (centres > high))
        loss = loss * (self._uniform(0.0, 1.0, count) < self.config.telephone)[:, None]
        loss = torch.nn.functional.pad(loss, (0, static.shape[2] - mels))[:, None, :]
        return torch.where(loss > 0, (static - loss).clamp(min=QUANTISATION), static)

    def _band_centres(self) -> Tensor:
        """Return the centre frequencies of the mel bands, Hz (HTK's mel scale, as in the filter bank)."""
        features = self.features
        nyquist = features.sample_rate / 2
        high = features.high_hz if features.high_hz > 0 else nyquist + features.high_hz
        lowest, highest = (1127 * math.log1p(hz / 700) for hz in (features.low_hz, high))
        mel = torch.linspace(lowest, highest, self.bands + 2, device=self.device)[1:-1]
        return 700 * (mel / 1127).expm1()

    def _white_noise(self) -> Tensor:
        """Return static features of white noise, (frames, static_dims); the power of all mel bands sums to 1."""
        generator = torch.Generator().manual_seed(0)
        samples = 0.01 * torch.randn(NOISE_SECONDS * self.features.sample_rate, generator=generator)
        noise = static_features(samples, self.features)
        level = noise[:, : self.bands].exp().sum(1).mean().log()
        return (noise - level).to(self.device)

    def _spans(self, most: int, length: int, sizes: Tensor, widest: Tensor, counts: Tensor | int) -> Tensor:
        """Return a mask (n_batch, length) of `counts` random stretches of up to `widest` within `sizes`."""
        utterances = len(sizes)
        drawn = torch.rand(2, utterances, most, device=self.device)
        width = (drawn[0] * (widest[:, None] + 1)).floor()
        begin = (drawn[1] * (sizes[:, None] - width + 1)).floor()
        width = width * (torch.arange(most, device=self.device) < counts)
        places = torch.arange(length, device=self.device)
        inside = (places >= begin[:, :, None]) & (places < (begin + width)[:, :, None])
        return inside.any(dim=1)

    def _uniform(self, low: float, high: float, count: int) -> Tensor:
        return low + (high - low) * torch.rand(count, device=self.device)


def least_frames(labels: Tensor, counts: Tensor, stride: int) -> Tensor:
    """Return the fewest input frames that hold the labels (see `frames_needed`).

    Parameters
    ----------
    labels : Tensor, shape = (n_batch, max_labels)
    counts : Tensor, shape = (n_batch,)
    stride : int
        Frames of input per frame of output.
    """
    return (frames_needed(labels, counts) - 1).clamp(min=0) * stride + 1


def _interpolate(values: Tensor, places: Tensor, last: Tensor) -> Tensor:
    """Interpolate `values`, (n_batch, n, d), linearly at `places`, (n_batch, m), clamped to 0..`last`."""
    places = torch.minimum(places.clamp(min=0), last.to(places.dtype))
    low = places.floor()
    share = (places - low)[:, :, None]
    low = low.long()
    high = torch.minimum(low + 1, last.long().expand_as(low))
    wide = (-1, -1, values.shape[2])
    first, second = (values.gather(1, index[:, :, None].expand(*wide)) for index in (low, high))
    return torch.lerp(first, second, share)
