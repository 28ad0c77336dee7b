"""Estimate the memory that training needs, by part, before it starts."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from speechctc.devices import DTYPES, resident_memory, total_memory
from speechctc.training.train_step import Learner

MIB = 2**20


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes by part.

    Attributes
    ----------
    weights, gradients, optimiser, activations, chunks : int
        On the device; `activations` for the largest batch, including the temporaries of the backward pass.
    host : int
        On the host in addition: the present process and pinned chunks; on a CPU, the total.
    available : int
        Total memory of the device.
    largest : str
        The largest batch, in words.
    """

    weights: int
    gradients: int
    optimiser: int
    activations: int
    chunks: int
    host: int
    available: int
    largest: str

    @property
    def device(self) -> int:
        """Bytes on the device in total."""
        return self.weights + self.gradients + self.optimiser + self.activations + self.chunks

    def to_text(self) -> str:
        """Return one line, in MiB."""
        parts = ("weights", "gradients", "optimiser", "activations", "chunks")
        said = ", ".join(f"{name} {getattr(self, name) / MIB:,.1f}" for name in parts)
        return (
            f"memory in MiB: {said} = {self.device / MIB:,.0f} of the device's {self.available / MIB:,.0f}"
            f" (largest batch: {self.largest}); host {self.host / MIB:,.0f}"
        )


def estimate(learner: Learner, largest: tuple[int, int], chunk_bytes: int) -> MemoryEstimate:
    """Estimate the memory of training.

    Parameters
    ----------
    learner : Learner
    largest : (int, int)
        Utterances and frames of the largest batch, padding included.
    chunk_bytes : int
        Features held on the device.
    """
    weights = sum(value.numel() * value.element_size() for value in learner.net.parameters())
    state = {"adam": 2, "sgd": 0}[learner.config.train.optimizer] + (2 if learner.ema else 0)
    on_gpu = learner.device.type == "cuda"
    here = MemoryEstimate(
        weights=weights,
        gradients=weights,
        optimiser=state * weights,
        activations=_activations(learner, *largest),
        chunks=chunk_bytes,
        host=0,
        available=total_memory(learner.device),
        largest=f"{largest[0]} x {largest[1]} frames",
    )
    host = resident_memory() + (chunk_bytes if on_gpu else here.device - weights)
    return MemoryEstimate(**{**vars(here), "host": host})


def _activations(learner: Learner, utterances: int, frames: int) -> int:
    """Run the net on torch's meta device, which holds shapes only, and sum the sizes of what autograd saves.

    The backward pass additionally needs a gradient as large as the largest of them. The features and the logits are
    float32 in every precision.
    """
    config, frames = learner.config, learner.augmenter.most_frames(frames)
    utterances *= config.train.views
    low = DTYPES.get(learner.precision)
    net = copy.deepcopy(learner.net).to("meta").train()
    kept: dict[int, Tensor] = {}

    def keep(tensor: Tensor) -> Tensor:
        if not isinstance(tensor, torch.nn.Parameter):
            kept[id(tensor.untyped_storage())] = tensor
        return tensor

    shape = (utterances, config.features.channels, config.features.static_dims, frames)
    features = torch.empty(shape, device="meta").contiguous(memory_format=torch.channels_last)
    lengths = torch.empty(utterances, dtype=torch.int64, device="meta")
    with saved_tensors_hooks(keep, lambda tensor: tensor):
        logits, _ = net(features, lengths)
    sizes = [tensor.untyped_storage().nbytes() for tensor in kept.values()]
    share = 0.5 if low is not None else 1.0
    inputs: int = features.numel() * 4 + 3 * logits.numel() * 4
    activations: float = share * (sum(sizes) + max(sizes, default=0))
    return int(activations) + inputs
