"""Parts of a training step as CUDA graphs, one for each shape of their inputs.

A step is some 650 short kernels. To launch them one by one takes the host longer than the GPU takes to compute them; a
graph is launched as one. What a graph reads must lie where it lay when it was captured, so that whatever changes from
step to step is on the device: inputs are copied there before each replay, and numbers such as the learning rate are
tensors. Random numbers go on from the seed and the offset of torch's generator, as without a graph.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

import torch
from torch import Tensor

from speechctc.core.progress import Reporter

EAGERLY = 2  # times that a part runs kernel by kernel on inputs of a shape: a rare shape is not worth its capture
MOST = 64  # graphs; each takes some memory beside what all share

Part = Callable[..., Tensor | None]


class _Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    output: Tensor | None


class StepGraphs:
    """Runs parts of a step, and captures and replays those that come again.

    All graphs share one pool of memory: a part leaves nothing there that another needs, but its output, which is kept.

    Parameters
    ----------
    device : torch.device
        A GPU.
    reporter : Reporter
        Told when graphs cannot be used.
    most : int
        Graphs to keep; the one that was not used for longest goes.
    """

    def __init__(self, device: torch.device, reporter: Reporter, most: int = MOST) -> None:
        self._device, self._reporter, self._most = device, reporter, most
        self._stream = torch.cuda.Stream(device)  # libraries have a workspace for each stream, not of the pool
        self._seen: Counter[Hashable] = Counter()
        self._works = True
        self._forget()

    def run(self, part: Part, *given: Tensor) -> Tensor | None:
        """Return what `part` returns for these tensors; it waits for nothing and keeps no tensor that it makes.

        To be called `aside`.
        """
        if not self._works:
            return part(*given)
        key = (part.__name__, *(tensor.shape for tensor in given))
        self._seen[key] += 1
        if self._seen[key] <= EAGERLY:
            return part(*given)
        if key not in self._kept and not self._capture(key, part, given):
            return part(*given)
        self._kept.move_to_end(key)
        graph, inputs, output = self._kept[key]
        for into, tensor in zip(inputs, given, strict=True):
            into.copy_(tensor)
        graph.replay()
        return None if output is None else output.clone()

    def give_up(self, reason: str) -> bool:
        """Where there are graphs, use none from now on and give back their memory; return whether there were any."""
        if not self._kept:
            return False
        self._end(reason)
        return True

    def _end(self, reason: str) -> None:
        self._works = False
        self._forget()
        torch.cuda.empty_cache()
        self._reporter.warn(f"no CUDA graphs from here on ({reason}): training goes on, to the same result but slower")

    def _forget(self) -> None:
        self._kept: OrderedDict[Hashable, _Captured] = OrderedDict()
        self._rooms: dict[tuple[str, int], Tensor] = {}
        self._pool = torch.cuda.graph_pool_handle()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Work on the stream of captures, after what is under way, and before what comes: a whole step does.

        Autograd's nodes keep the stream on which they were made, and a capture fails where one is of another stream.
        """
        here = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(here)
        with torch.cuda.stream(self._stream):
            yield
        here.wait_stream(self._stream)

    def _capture(self, key: Hashable, part: Part, given: tuple[Tensor, ...]) -> bool:
        """Capture a part for inputs of these shapes, without running it; return whether that succeeded."""
        inputs = [self._room(part.__name__, place, tensor).copy_(tensor) for place, tensor in enumerate(given)]
        graph = torch.cuda.CUDAGraph()
        try:
            # Another thread reads data meanwhile, and may do what a capture forbids.
            with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
                output = part(*inputs)
        except RuntimeError as error:  # among them, that memory is short
            reason = " ".join(str(error.__context__ or error).split())[:200]
        else:
            self._kept[key] = _Captured(graph, inputs, output)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return True
        self._end_failed_capture()  # outside `except`: the traceback would keep tensors alive
        self._end(reason)
        return False

    def _room(self, part: str, place: int, like: Tensor) -> Tensor:
        """Return memory for an input in the shape of `like`; graphs of all shapes share it, as one runs at a time."""
        room = self._rooms.get((part, place))
        if room is None or room.numel() < like.numel():
            room = self._rooms[part, place] = like.new_empty(2 * like.numel())
        return room[: like.numel()].view(like.shape)

    def _end_failed_capture(self) -> None:
        """Let torch's allocator and its random numbers go on: both may believe that the capture is under way."""
        index = self._device.index or 0
        with suppress(RuntimeError):  # it is not under way any more
            torch._C._cuda_endAllocateToPool(index, self._pool)
            torch._C._cuda_releasePool(index, self._pool)
        generator = torch.cuda.default_generators[index]
        generator.graphsafe_set_state(generator.clone_state())
