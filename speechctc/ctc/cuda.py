"""The CTC loss on NVIDIA GPUs: plan, pack, launch; the arithmetic is in `kernels/`.

Everything is put on torch's current stream of the device of the logits, and nothing waits for it. The kernels are
compiled when first needed (about two seconds for each variant, once per machine) and loaded then. So a call of the
same shape must have gone before the capture of a CUDA graph, as torch asks for anyway, and a capture takes lengths
and targets on the device.
"""

from __future__ import annotations

import ctypes
import struct
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import lru_cache

import torch
from torch import Tensor

from speechctc.ctc import cuda_plan
from speechctc.ctc.nvrtc import CannotStart, Kernel, load_driver
from speechctc.ctc.problem import Problem, is_on_cpu

__all__ = ["CannotStart", "check", "gpu_of", "loss_and_gradient", "scale_"]

_SCALE_ARGUMENTS = struct.Struct("=QqQ")


def loss_and_gradient(
    problem: Problem, want_gradient: bool, reduce: bool = False, zero_infinity: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Compute the loss, and its gradient by the logits, in one launch; in two where there are many classes.

    Lengths and labels that lie on the host are copied, without waiting. Those on the device the kernel checks: a bad
    one gives its sample loss inf and gradient 0, and is reported by the next call on that device, or by `check`.

    Parameters
    ----------
    problem : Problem
        With logits on a CUDA device. float64 logits are calculated in float64, others in float32.
    want_gradient : bool
        Without it only the loss is calculated, in half as many steps.
    reduce : bool
        Whether the losses are added up, each times its share: by `Problem.mean` to their mean, else to their sum.
    zero_infinity : bool
        Count an infinite loss as zero, unless a bad length or label is the reason.

    Returns
    -------
    loss : Tensor
        A number, or shape (N,) where they are not added up; float32 or, for float64 logits, float64. inf where no path
        fits.
    gradient : Tensor or None
        Like the logits, multiplied by `Problem.weights`. Zero in padded frames and where the loss is inf.

    Raises
    ------
    ValueError
        If an earlier call on this device was given a bad length or label; it names the sample.
    CannotStart
        If there is no GPU, no NVRTC or no driver to work with.
    """
    logits = problem.logits
    gpu = gpu_of(logits.device)
    gpu.raise_fault()
    unclaimed = problem.packed and problem.input_lengths.device.type != "cpu"
    with torch.cuda.device(gpu.index):
        problem = on_device(problem, logits.device)
        gradient = None
        if want_gradient:  # packed frames that no sound sample claims keep what is there
            gradient = torch.zeros_like(logits) if unclaimed else torch.empty_like(logits)
        size = cuda_plan.size_of(problem, gradient)
        chosen = cuda_plan.plan(size, gpu.limits)
        real = torch.float64 if logits.dtype == torch.float64 else torch.float32
        losses = torch.empty(size.samples, dtype=real, device=logits.device)
        loss = torch.empty((), dtype=real, device=logits.device) if reduce else None
        workspace = torch.empty(chosen.workspace_bytes, dtype=torch.uint8, device=logits.device)
        stream = torch.cuda.current_stream().cuda_stream
        ticket = gpu.ticket(stream)
        given = (problem, chosen, gradient, losses, loss, workspace, gpu.fault_address, ticket.data_ptr())
        arguments = cuda_plan.pack(*given, zero_infinity)
        if chosen.rows and size.all_rows > 0:
            gpu.kernel("rows", chosen.rows).launch(arguments, size.all_rows, chosen.row_threads, 0, stream)
        sweep = gpu.kernel("sweep", chosen.sweep)
        sweep.launch(arguments, size.samples, chosen.threads, chosen.shared_bytes, stream)
    return losses if loss is None else loss, gradient


def scale_(gradient: Tensor, by: Tensor) -> Tensor:
    """Multiply a gradient in place by a number on the device, which costs next to nothing where that is 1.

    Parameters
    ----------
    gradient : Tensor
        What `loss_and_gradient` returned: without holes in memory.
    by : Tensor
        One element, on the same device: the derivative by the loss.

    Returns
    -------
    gradient : Tensor
        The same tensor.
    """
    gpu = gpu_of(gradient.device)
    real = torch.float64 if gradient.dtype == torch.float64 else torch.float32
    if by.numel() != 1:
        raise ValueError(f"a gradient is scaled by one number, not by a tensor of shape {tuple(by.shape)}")
    if gradient.numel() == 0:
        return gradient
    by = by.to(real)
    with torch.cuda.device(gpu.index):
        macros = (("LOGIT_TYPE", cuda_plan.LOGIT_TYPES[gradient.dtype]),)
        arguments = _SCALE_ARGUMENTS.pack(gradient.data_ptr(), gradient.numel(), by.data_ptr())
        blocks = min(8 * gpu.limits.multiprocessors, -(-gradient.numel() // 256))
        gpu.kernel("scale", macros).launch(arguments, blocks, 256, 0, torch.cuda.current_stream().cuda_stream)
    return gradient


def check(device: torch.device | str | int | None = None) -> None:
    """Wait for a device, and raise if a call on it was given a bad length or label.

    A call of the loss looks at what earlier calls have found and does not wait for it. The replay of a CUDA graph looks
    at nothing: after replays this is how to hear of a bad length or label.

    Parameters
    ----------
    device : torch.device or str or int, optional
        Which; the current one if not given.

    Raises
    ------
    ValueError
        It names the sample, what is wrong with it, and the value found.
    """
    gpu = gpu_of(torch.device("cuda", device) if isinstance(device, int) else torch.device(device or "cuda"))
    torch.cuda.synchronize(gpu.index)
    gpu.raise_fault()


class Gpu:
    """A GPU: its limits, the kernels loaded on it, and the word in which they report bad lengths and labels.

    Parameters
    ----------
    index : int
        The number that torch knows it by.
    """

    def __init__(self, index: int) -> None:
        properties = torch.cuda.get_device_properties(index)
        load_driver()
        self.index = index
        self.architecture = f"sm_{properties.major}{properties.minor}"
        self.limits = cuda_plan.Device(
            multiprocessors=properties.multi_processor_count,
            shared_per_block=properties.shared_memory_per_block_optin,  # type: ignore[attr-defined]
            shared_per_multiprocessor=properties.shared_memory_per_multiprocessor,
        )
        # Host memory that the device writes to: the host reads it when it comes by, and need not wait.
        self._fault = torch.zeros(2, dtype=torch.int64, pin_memory=True)
        self.fault_address = self._fault.data_ptr()
        self._fault_words = (ctypes.c_uint64 * 2).from_address(self.fault_address)
        self.kernels: dict[tuple[str, tuple[tuple[str, int], ...]], Kernel] = {}
        self._tickets = Tickets(torch.device("cuda", index))

    def ticket(self, stream: int) -> Tensor:
        """Return the counter of samples for a launch on a stream, or for one that is captured."""
        return self._tickets.take(None if torch.cuda.is_current_stream_capturing() else stream)

    def kernel(self, name: str, macros: tuple[tuple[str, int], ...]) -> Kernel:
        """Return a kernel, compiled and loaded if this is the first time."""
        found = self.kernels.get((name, macros))
        if found is None:
            if torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    "the CTC kernel for this shape is not loaded yet, which cannot be done while a CUDA graph is "
                    "captured; call the loss once with these shapes before the capture"
                )
            most = self.limits.shared_per_block if name == "sweep" else 0
            found = self.kernels[name, macros] = Kernel(self.index, name, macros, self.architecture, most)
        return found

    def raise_fault(self) -> None:
        """Raise what kernels have reported so far, and forget it."""
        word, classes = self._fault_words
        if word:
            self._fault_words[0] = 0
            raise ValueError(explain(word, classes))


class Tickets:
    """Counters of samples that have left their loss, each an int32 on the device that is 0 between launches.

    Launches that may run at the same time must not share one: launches on one stream do not, and each captured launch
    gets one for itself, since the graph may be replayed on any stream.

    Parameters
    ----------
    device : torch.device
        Where they lie.
    """

    COUNT = 4096

    def __init__(self, device: torch.device) -> None:
        # In a thread of its own: while torch captures or warms up a CUDA graph, this thread's memory is the graph's.
        with ThreadPoolExecutor(1) as thread:
            counters = thread.submit(lambda: torch.zeros(self.COUNT, dtype=torch.int32, device=device)).result()
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # they are 0 for all streams from now on
        self._device = device
        self._free = iter(counters.split(1))
        self._of_stream: dict[int, Tensor] = {}

    def take(self, stream: int | None) -> Tensor:
        """Return the counter of a stream; a fresh one for None, and where all are taken, which costs a launch."""
        found = None if stream is None else self._of_stream.get(stream)
        if found is None:
            found = next(self._free, None)
            if found is None:
                return torch.zeros(1, dtype=torch.int32, device=self._device)
            if stream is not None:
                self._of_stream[stream] = found
        return found


def gpu_of(device: torch.device) -> Gpu:
    """Return the GPU behind a torch device.

    Raises
    ------
    CannotStart
        If there is none.
    """
    if device.type != "cuda":
        raise ValueError(f'backend="cuda" takes logits on a CUDA device; these are on {device}')
    _require_gpu()
    return _gpu(torch.cuda.current_device() if device.index is None else device.index)


@lru_cache(maxsize=1)  # asked by every call of the loss
def _require_gpu() -> None:
    if torch.version.cuda is None:
        raise CannotStart("this build of torch is without CUDA", "install one with CUDA (https://pytorch.org)")
    if not torch.cuda.is_available():
        raise CannotStart("torch finds no NVIDIA GPU or no driver", "run nvidia-smi to see which is missing")


_gpu = lru_cache(maxsize=None)(Gpu)

# By the numbers of `Fault` in samples.cuh.
_FAULTS = {
    1: "input length {value} is negative or exceeds the frames of the logits",
    2: "target length {value} is negative or exceeds the labels there are",
    3: "its {value} frames reach beyond the packed logits",
    4: "its {value} labels reach beyond the targets",
    5: "label {value} is the blank or outside 0..{last}",
}


def explain(word: int, classes: int) -> str:
    """Return the message for what a kernel reported: fault, sample and value in 4, 28 and 32 bits."""
    fault, sample, low = word >> 60 & 0xF, word >> 32 & 0xFFFFFFF, word & 0xFFFFFFFF
    value = low - (1 << 32) if low >> 31 else low
    text = _FAULTS[fault].format(value=value, last=classes - 1)
    return f"sample {sample}: {text} (an earlier call of the CTC loss; its loss was inf, its gradient 0)"


def on_device(problem: Problem, device: torch.device) -> Problem:
    """Return the problem with lengths, offsets and targets on the device; those of the host go there in one copy.

    Raises
    ------
    ValueError
        If any is on the host while a CUDA graph is captured.
    """
    names = ("input_lengths", "frame_offsets", "targets", "target_offsets", "target_lengths")
    found = {name: tensor for name in names if (tensor := getattr(problem, name)) is not None}
    moved = {name: tensor for name, tensor in found.items() if is_on_cpu(tensor)}
    if moved:
        if torch.cuda.is_current_stream_capturing():
            raise ValueError(
                f"{', '.join(moved)} of the CTC loss are on the host, and a CUDA graph would keep their present "
                f"values; put lengths and targets on {device} before the capture"
            )
        lengths = [tensor.shape[0] for tensor in moved.values()]
        staged = torch.empty(sum(lengths), dtype=torch.int64, pin_memory=True)
        torch.cat(list(moved.values()), out=staged)
        pieces = torch.split(staged.to(device, non_blocking=True), lengths)
        found.update(zip(moved, pieces, strict=True))
    elsewhere = {name: tensor for name, tensor in found.items() if tensor.device != device}
    found.update((name, tensor.to(device, non_blocking=True)) for name, tensor in elsewhere.items())
    return replace(problem, **found) if moved or elsewhere else problem
