"""What a training step takes: an estimate of its memory before training, and a profile of its time, with a trace."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from speechctc.config.schema import Config, TrainConfig
from speechctc.core import files
from speechctc.core.devices import allow_tf32, autocast, choose_device, held_by_others, resident_memory, total_memory
from speechctc.core.progress import Reporter
from speechctc.core.training_process import only_training
from speechctc.model.layers import is_own, longest_frames
from speechctc.training.batches import Batch, TrainingData
from speechctc.training.distributed import Ranks
from speechctc.training.initialise import first_train_step
from speechctc.training.optimise import stages
from speechctc.training.train_step import TrainStep

MIB = 2**20
PROBE = 64  # frames of an utterance by which the memory of a batch is measured
# Free memory that the heap keeps, by the memory of the activations: blocks of many sizes leave holes between them.
#
# With GNU's C library, and as training gives holes back that exceed the estimate; benchmarks/memory.csv.
FRAGMENTATION = 0.6
# What a process on a CPU loads after the estimate: kernels, compiled code, what draws the curves.
LOADED_LATER = 50 * MIB


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes by part.

    Attributes
    ----------
    weights, gradients, optimiser, activations, chunks : int
        On the device; `activations` for the largest batch, including the temporaries of the backward pass.
    graphs : int
        On a GPU: what CUDA graphs keep for the activations, which batches of a rare shape take beside them.
    heap : int
        On a CPU: holes that the activations leave in the heap of the C library, and what is loaded later.
    cuda : int
        What a GPU holds already beside tensors: CUDA's context, loaded kernels, and other programs. cuDNN's workspaces,
        which it chooses by what is free, come on top and are not counted.
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
    graphs: int
    heap: int
    cuda: int
    host: int
    available: int
    largest: str

    @property
    def device(self) -> int:
        """Bytes on the device in total."""
        held = self.weights + self.gradients + self.optimiser + self.activations + self.chunks
        return held + self.graphs + self.heap + self.cuda

    def to_text(self) -> str:
        """Return one line, in MiB."""
        parts = ["weights", "gradients", "optimiser", "activations", "chunks"]
        parts += [name for name in ("graphs", "heap", "cuda") if getattr(self, name)]
        said = ", ".join(f"{name} {getattr(self, name) / MIB:,.1f}" for name in parts)
        total = f"{self.device / MIB:,.0f} of the device's {self.available / MIB:,.0f}"
        return f"memory in MiB: {said} = {total} (largest batch: {self.largest}); host {self.host / MIB:,.0f}"


def estimate(train_step: TrainStep, largest: tuple[int, int], chunk_bytes: int) -> MemoryEstimate:
    """Estimate the memory of training.

    Parameters
    ----------
    train_step : TrainStep
    largest : (int, int)
        Utterances and frames of the largest batch, padding included.
    chunk_bytes : int
        Features held on the device.
    """
    trained = [value for value in train_step.net.parameters() if value.requires_grad]
    weights, gradients = (
        sum(value.numel() * value.element_size() for value in values)
        for values in (train_step.net.parameters(), trained)
    )
    state = {"adam": 2, "sgd": 0}.get(train_step.config.train.optimizer, 2)  # of most of torch's
    on_gpu = train_step.device.type == "cuda"
    activations = _activations(train_step, *largest)
    heap, cuda = 0 if on_gpu else LOADED_LATER + int(FRAGMENTATION * activations), held_by_others(train_step.device)
    graphs = activations if train_step.graphs else 0
    optimiser = state * gradients + (2 * weights if train_step.ema else 0)
    parts = (weights, gradients, optimiser, activations, chunk_bytes, graphs, heap, cuda)
    host = resident_memory() + (pinned(chunk_bytes) if on_gpu else sum(parts) - weights)
    largest_batch = f"{largest[0]} x {largest[1]} frames"
    return MemoryEstimate(*parts, host, total_memory(train_step.device), largest_batch)


def pinned(count: int) -> int:
    """Return the bytes of pinned host memory that torch takes for so many: the next power of two."""
    return 1 << (count - 1).bit_length() if count > 0 else 0


def _activations(train_step: TrainStep, utterances: int, frames: int) -> int:
    """Estimate from a small batch, since what autograd saves grows with the batch.

    The backward pass additionally needs a gradient as large as the largest output of a layer, which maxout does not
    save: it has a value for each piece. The features and the logits are float32 in every precision. (Torch's meta
    device would do without a batch; but its arithmetic is that of torch's compiler, which takes 3 s to load.)
    """
    config = train_step.config
    longest, frames = frames, utterances * config.train.views * train_step.augmenter.most_frames(frames)
    own = is_own(config.model)
    probe = train_step.augmenter.most_frames(longest) if own else PROBE  # attention does not grow with the frames alone
    probe = min(probe, longest_frames(config) or probe)
    (one, _), (two, largest) = (_saved(train_step, count, probe) for count in (1, 2))
    saved = two - one  # without what does not grow with the batch, such as weights in another precision
    inputs = 4 * config.features.channels * config.features.static_dims
    logits = 3 * 4 * (train_step.net.classes / config.model.time_stride)
    waiting = 4 * config.features.static_dims * (config.train.accumulate - 1)  # the other batches of a step
    return int(frames * ((saved + largest / 2) / probe + inputs + logits + waiting))


def _saved(train_step: TrainStep, utterances: int, frames: int) -> tuple[int, int]:
    """Run the net on some silence; return the bytes that autograd saves, and those of the largest output of a layer."""
    config, net = train_step.config, train_step.net
    kept: dict[int, Tensor] = {}
    sizes = [0]

    def keep(tensor: Tensor) -> Tensor:
        alone = tensor.detach()  # what autograd saves would never be freed if it knew what made it
        if not isinstance(tensor, torch.nn.Parameter):
            kept[tensor.untyped_storage().data_ptr()] = alone
        return alone

    def measure(layer: nn.Module, given: Any, output: object) -> None:
        if isinstance(output, Tensor):
            sizes.append(output.nbytes)

    own = is_own(config.model)
    measured = [each for each in net.modules() if isinstance(each, nn.Conv2d) or (own and not [*each.children()])]
    hooks = [each.register_forward_hook(measure) for each in measured]
    statistics = {name: each.clone() for name, each in net.named_buffers()}  # as batch normalisation has
    shape = (utterances, config.features.channels, config.features.static_dims, frames)
    features = torch.zeros(shape, device=train_step.device).contiguous(memory_format=torch.channels_last)
    lengths = torch.full((utterances,), frames, device=train_step.device)
    devices = [train_step.device] if train_step.device.type == "cuda" else []
    was_training = net.training
    with (
        torch.random.fork_rng(devices),
        saved_tensors_hooks(keep, lambda tensor: tensor),
        autocast(train_step.device, train_step.precision),
    ):
        net.train()(features, lengths)
    net.train(was_training)
    for name, each in net.named_buffers():
        each.copy_(statistics[name])
    for hook in hooks:
        hook.remove()
    return sum(tensor.untyped_storage().nbytes() for tensor in kept.values()), max(sizes)


PARTS = ("data", "forward", "loss", "backward", "reduce", "optimiser")
WARM_UP = 3  # steps before the profile begins


@dataclass(frozen=True)
class StepTimes:
    """Seconds by part, over some steps.

    Attributes
    ----------
    steps, frames : int
    seconds : dict of str to float
        By part, plus ``other`` and the total, ``wall``.
    trace : Path
    """

    steps: int
    frames: int
    seconds: dict[str, float]
    trace: Path

    def to_text(self) -> str:
        """Return the table as text."""
        wall = self.seconds["wall"]
        lines = [f"{self.steps} steps in {wall:.2f} s, {self.frames / wall:,.0f} frames/s"]
        for part in (*PARTS, "other"):
            seconds = self.seconds.get(part, 0.0)
            lines.append(f"  {part:<10}{1e3 * seconds / self.steps:9.2f} ms a step {100 * seconds / wall:6.1f} %")
        return "\n".join([*lines, f"trace: {self.trace} (open it in chrome://tracing)"])


@only_training()
def profile(config: Config, steps: int, reporter: Reporter) -> StepTimes:
    """Take steps as the first of a run are taken, and time their parts.

    Parameters
    ----------
    config : Config
        Its run's folder is neither read nor written; the trace is written beside it.
    steps : int
        Steps to time, at least 1; some others are taken before.
    reporter : Reporter

    Raises
    ------
    InputError
        There are no features, or they are of another config.
    """
    from torch.profiler import profile as torch_profile  # late: only --profile needs it
    from torch.profiler import record_function

    device = choose_device(config.train.device)
    allow_tf32(config.train.tf32)
    data = TrainingData(config, device, reporter)
    stage = stages(config.train)[0]
    train_step, _ = first_train_step(config, data, stage, Ranks(), reporter)
    train_step.net.train()
    of_steps, seconds, frames = _endless(data, config.train), defaultdict[str, float](float), 0

    @contextmanager
    def clock(part: str) -> Iterator[None]:
        began = time.perf_counter()
        with record_function(part):
            yield
            if device.type == "cuda":  # each part waits for its kernels
                torch.cuda.synchronize(device)
        seconds[part] += time.perf_counter() - began

    for number in range(WARM_UP):
        train_step.step(*next(of_steps), stage.lr, number)
    train_step.clock = clock
    with torch_profile(acc_events=True) as recorded:  # else torch warns that a second cycle would clear the first
        began = time.perf_counter()
        for number in range(WARM_UP, WARM_UP + steps):
            with clock("data"):
                batches, labels = next(of_steps)
            train_step.step(batches, labels, stage.lr, number)
            frames += sum(int(batch.lengths.sum()) for batch in batches)
        wall = time.perf_counter() - began
    trace = config.run.with_name(f"{config.run.name}.trace.json")
    files.write_file(trace, lambda draft: recorded.export_chrome_trace(str(draft)))
    rest = max(wall - sum(seconds.values()), 0.0)
    return StepTimes(steps, frames, {**seconds, "other": rest, "wall": wall}, trace)


def _endless(data: TrainingData, config: TrainConfig) -> Iterator[tuple[list[Batch], int]]:
    """Yield the batches of each step and their number of labels, epoch after epoch."""
    for seed in count(config.seed):
        batches = (batch for batch in data.train.batches(data.train.plan(seed, 1)) if batch is not None)
        while step := list(islice(batches, config.accumulate)):
            yield step, sum(int(batch.counts.sum()) for batch in step)
