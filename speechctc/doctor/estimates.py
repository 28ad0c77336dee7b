"""Estimates of training: memory, and minutes an epoch, measured by steps on made-up features."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
import torch

from speechctc.config.schema import Config
from speechctc.core.devices import choose_device
from speechctc.core.progress import Reporter
from speechctc.doctor.finding import Finding
from speechctc.model.checkpoint import build_net
from speechctc.phones.inventory import Inventory
from speechctc.training.batches import Batch
from speechctc.training.distributed import Ranks
from speechctc.training.epoch_plan import EpochPlan, Indices, Limits
from speechctc.training.memory_estimate import MIB, MemoryEstimate, estimate
from speechctc.training.optimise import stages
from speechctc.training.train_step import TrainStep

ENOUGH = 0.5  # s; a step that takes this long is measured well
REPEATS = 3  # such steps; other work on the machine slows some of them
NEAR = 0.8  # share of the memory from which it may run out


@dataclass(frozen=True)
class Work:
    """The lengths of the training split.

    Attributes
    ----------
    frames : ndarray, shape = (n_utterances,)
        Input frames of each utterance.
    phones : float
        Mean number of phones of an utterance.
    """

    frames: Indices
    phones: float


def estimate_training(config: Config, inventory: Inventory, work: Work) -> tuple[MemoryEstimate, float]:
    """Return the memory that training needs, and the minutes an epoch of it takes on this machine, without dev."""
    device = choose_device(config.train.device)
    held = config.data.chunk_mib * MIB // (config.features.static_dims * (2 if config.data.dtype == "float16" else 4))
    limits = Limits(config.train.batch_size, config.train.batch_frames, max(held, int(work.frames.max())))
    plan = EpochPlan(work.frames, np.arange(len(work.frames)), limits, config.train.seed)
    shapes = [(len(batch), int(work.frames[batch].max())) for batch in plan.batches(0)]
    learner = noise_learner(config, inventory, device)
    width = 2 if config.data.dtype == "float16" else 4
    chunk = min(held, int(work.frames.sum())) * config.features.static_dims * width
    memory = estimate(learner, max(shapes, key=math.prod), chunk)
    rate = _frames_a_second(learner, shapes[len(shapes) // 2], max(round(work.phones), 1))
    return memory, sum(map(math.prod, shapes)) / rate / 60


def check_memory(memory: MemoryEstimate) -> list[Finding]:
    """Return a finding if training may not fit into the memory of its device."""
    share = memory.device / memory.available if memory.available else 0.0
    if share < NEAR:
        return []
    return [
        Finding(
            "memory",
            "warning",
            f"training needs about {memory.device / MIB:,.0f} MiB of the device's {memory.available / MIB:,.0f}",
            (f"the largest batch: {memory.largest}",),
            "batches that do not fit are split, to the same result but more slowly; on a CPU the system may end it",
            "lower train.batch_frames, cut the longest recordings, or take a smaller model",
        )
    ]


def noise_learner(config: Config, inventory: Inventory, device: torch.device) -> TrainStep:
    """Return the learner of a config's net with random weights, for features that need no normalisation."""
    shape = (config.features.channels, config.features.static_dims)
    with torch.random.fork_rng(devices=[]):
        net = build_net(config, inventory).to(device)
    mean, std = torch.zeros(shape, device=device), torch.ones(shape, device=device)
    learner = TrainStep(config, net, mean, std, Ranks(), Reporter(quiet=True))
    learner.start_stage(stages(config.train)[0])
    return learner


def _frames_a_second(learner: TrainStep, shape: tuple[int, int], phones: int) -> float:
    """Time steps on growing parts of a typical batch, until one takes long enough; return the highest speed."""
    learner.net.train()
    utterances, frames = shape
    learner.step(noise_batch(learner, 1, frames, phones), phones, 1e-9, 0)  # what happens once: memory, compiled code
    best, count, repeats = 0.0, 1, REPEATS
    while repeats:
        batch = noise_batch(learner, count, frames, phones)
        began = time.perf_counter()
        float(learner.step(batch, count * phones, 1e-9, 1))
        seconds = time.perf_counter() - began
        best = max(best, count * frames / seconds)
        if seconds > ENOUGH or count == utterances:
            repeats -= 1
        else:
            count = min(2 * count, utterances)
    return best


def noise_batch(learner: TrainStep, count: int, frames: int, phones: int) -> Batch:
    """Return a batch of noise; random labels are as fast as others."""
    generator = torch.Generator().manual_seed(count)
    classes = learner.net.output.out_channels
    phones = max(min(phones, frames // learner.config.model.time_stride // 2), 1)
    static = torch.randn((count, frames, learner.config.features.static_dims), generator=generator)
    labels = torch.randint(1, classes, (count, phones), generator=generator)
    lengths, counts = np.full(count, frames, dtype=np.int64), np.full(count, phones, dtype=np.int64)
    device = learner.device
    return Batch(
        np.arange(count),
        lengths,
        counts,
        static.to(device),
        torch.from_numpy(lengths).to(device),
        labels.to(device),
        torch.from_numpy(counts).to(device),
    )
