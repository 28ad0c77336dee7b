"""A trained net at work: samples in, logits and phones out, features made as in training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torchaudio
from numpy.typing import NDArray

from speechctc import audio
from speechctc.checkpoint import Checkpoint, find_checkpoint, load_checkpoint
from speechctc.devices import choose_device
from speechctc.features import net_input, static_features
from speechctc.search import collapse


@dataclass(frozen=True)
class Recognition:
    """What was recognised in one recording.

    Attributes
    ----------
    file : str
        As it was named.
    seconds : float
        Length of the recording.
    phones : tuple of str
    """

    file: str
    seconds: float
    phones: tuple[str, ...]


class Recogniser:
    """A checkpoint ready to decode.

    Parameters
    ----------
    checkpoint : Checkpoint
    device : torch.device
    """

    def __init__(self, checkpoint: Checkpoint, device: torch.device) -> None:
        self.checkpoint, self.device = checkpoint, device
        self.config, self.inventory = checkpoint.config, checkpoint.inventory
        self.net = checkpoint.net.eval()

    @classmethod
    def load(cls, model: Path | None = None, device: str = "auto") -> Recogniser:
        """Load a checkpoint or a run's best; without a name the latest run's."""
        chosen = choose_device(device)
        return cls(load_checkpoint(find_checkpoint(model), chosen), chosen)

    @torch.inference_mode()
    def logits(self, samples: NDArray[np.float32], rate: int) -> NDArray[np.float32]:
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
            Class 0 is the blank. No frames where the recording is shorter than a window.
        """
        wave = torch.from_numpy(np.ascontiguousarray(samples, dtype=np.float32))
        wanted = self.config.features.sample_rate
        if rate != wanted:
            wave = torchaudio.functional.resample(wave, rate, wanted)
        static = static_features(wave, self.config.features).to(self.device)
        if not len(static):
            return np.zeros((0, len(self.inventory.phones) + 1), dtype=np.float32)
        frames = torch.tensor([len(static)], device=self.device)
        features = net_input(static[None], frames, self.checkpoint.mean, self.checkpoint.std, self.config.features)
        logits, _ = self.net(features, frames)
        result: NDArray[np.float32] = logits[0].float().cpu().numpy()
        return result

    def decode(self, path: Path) -> Recognition:
        """Recognise one recording.

        Raises
        ------
        InputError
            It cannot be read as audio.
        """
        rate = self.config.features.sample_rate
        samples, seconds = audio.read(path, rate)
        labels = collapse(self.logits(samples, rate).argmax(axis=1).tolist())
        return Recognition(str(path), seconds, tuple(self.inventory.decode(labels)))
