"""The processes that train one net together, as started by torchrun; a single process is rank 0 of 1."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

from speechctc.core.errors import RESUME, InputError


@dataclass(frozen=True)
class Ranks:
    """The rank of this process, and reductions over all ranks.

    Attributes
    ----------
    rank, world_size : int
    """

    rank: int = 0
    world_size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def sum(self, values: Sequence[float]) -> list[float]:
        """Return the sums of these numbers over all ranks, in float64: counts stay exact."""
        return self._reduce(values, dist.ReduceOp.SUM)

    def max(self, values: Sequence[float]) -> list[float]:
        """Return the maximum of each number over all ranks."""
        return self._reduce(values, dist.ReduceOp.MAX)

    def wait(self) -> None:
        """Wait for all ranks."""
        if self.world_size > 1:
            self.max([0.0])

    def share_weights(self, net: nn.Module) -> None:
        """Broadcast the weights of rank 0."""
        if self.world_size > 1:
            with _with_the_others():
                for parameter in net.parameters():
                    dist.broadcast(parameter.data, 0)

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Sum the gradients over all ranks, in one message; a rank without gradients contributes zeros."""
        if self.world_size == 1:
            return
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        for parameter in trained:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        gradients = [parameter.grad for parameter in trained if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        with _with_the_others():
            dist.all_reduce(flat)
        parts = flat.split([gradient.numel() for gradient in gradients])
        torch._foreach_copy_(gradients, [p.view(g.shape) for p, g in zip(parts, gradients, strict=True)])

    def _reduce(self, values: Sequence[float], operation: dist.ReduceOp.RedOpType) -> list[float]:
        if self.world_size == 1:
            return list(values)
        tensor = torch.tensor(values, dtype=torch.float64)  # on the host: gloo, whatever the device
        with _with_the_others():
            dist.all_reduce(tensor, operation)
        return [float(value) for value in tensor]


@contextmanager
def _with_the_others() -> Iterator[None]:
    """Say in one line that another process is gone, of which the engine tells by where it noticed it."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        what = f"another process of this training has ended, or cannot be reached ({str(error).splitlines()[0]})"
        raise InputError(what, f"run the same again ({RESUME}); fewer or more processes may go on") from None


@contextmanager
def process_group(device: torch.device) -> Iterator[Ranks]:
    """Join the process group that torchrun set up (environment variable WORLD_SIZE); rank 0 of 1 without it."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        yield Ranks()
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo")
    try:
        yield Ranks(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
