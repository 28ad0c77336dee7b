"""Compute the logits of recordings: features, then the net, in blocks or in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from speechctc.audio import sound_file
from speechctc.features.extractor import extractor
from speechctc.features.filterbank import frame_count, net_input_after_cmn, sliding_cmn_one, static_features
from speechctc.inference.samples import Samples
from speechctc.inference.streaming import (
    BLOCK_FRAMES,
    ActivityGate,
    cmn_blocks,
    local_cmn_blocks,
    logit_blocks,
)
from speechctc.model.checkpoint import Checkpoint

Logits = NDArray[np.float32]


class Forward:
    """The net of a checkpoint with its features, on a device.

    Parameters
    ----------
    checkpoint : Checkpoint
        Its net is put into evaluation mode.
    device : torch.device
        Where the net is. Features are computed on the CPU.
    """

    def __init__(self, checkpoint: Checkpoint, device: torch.device) -> None:
        self.checkpoint, self.device = checkpoint, device
        self.config = checkpoint.config
        self.phones = checkpoint.inventory.phones
        self.net = checkpoint.net.eval()

    def in_blocks(
        self, samples: Iterable[Samples], block_frames: int = BLOCK_FRAMES, gated: bool = False, local: bool = False
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
        """
        model, features = self.config.model, self.config.features
        gate = ActivityGate(self.config, self.phones)
        static = extractor(features).blocks(torch.from_numpy(block) for block in samples)
        watched = gate.watch(static) if gated else static
        centred = (local_cmn_blocks if local else cmn_blocks)(watched, features)
        blocks = logit_blocks(centred, self._forward_one, model, features, block_frames)
        logits = (block.numpy() for block in blocks)
        return gate.apply(logits) if gated else logits

    def batch(self, statics: Sequence[Tensor]) -> list[Tensor]:
        """Return the logits of several recordings, on the CPU, from static features, each (n_frames, static_dims)."""
        return self._forward([sliding_cmn_one(static, self.config.features) for static in statics])

    def static(self, path: Path, most: int, channel: int | None = None) -> tuple[float, Tensor | None]:
        """Return a recording's seconds and its static features; 0 and None if these exceed `most` frames.

        Raises
        ------
        InputError
            The file cannot be read as audio.
        """
        config = self.config.features
        if frame_count(int(sound_file.info(path).seconds * config.sample_rate), config) > most:
            return 0.0, None
        samples, seconds = sound_file.read(path, config.sample_rate, channel)
        return seconds, static_features(torch.from_numpy(samples), config)

    def _forward_one(self, features: Tensor) -> Tensor:
        return self._forward([features])[0]

    @torch.inference_mode()
    def _forward(self, features: Sequence[Tensor]) -> list[Tensor]:
        """Map features after CMN, each (n_frames, static_dims), to logits on the CPU, in one pass of the net."""
        if not any(map(len, features)):  # all are shorter than a window
            return [torch.zeros(0, len(self.phones) + 1) for _ in features]
        frames = torch.tensor([len(each) for each in features], device=self.device)
        padded = torch.nn.utils.rnn.pad_sequence(list(features), batch_first=True).to(self.device)
        mean, std = self.checkpoint.mean, self.checkpoint.std
        logits, lengths = self.net(net_input_after_cmn(padded, frames, mean, std, self.config.features), frames)
        logits = logits.float().cpu()
        return [row[:length] for row, length in zip(logits, lengths.tolist(), strict=True)]


def log_softmax(logits: Logits) -> Logits:
    """Return log posteriors, (n, classes), of logits."""
    result: Logits = torch.from_numpy(logits).log_softmax(1).numpy()
    return result
