"""Choice of device and precision, and memory of devices."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import cache

import psutil
import torch

from speechctc.core.errors import InputError

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def choose_device(name: str) -> torch.device:
    """Return the device for ``train.device``; ``auto`` is CUDA if available, else the CPU.

    Under torchrun each process uses the GPU with its local rank.

    Raises
    ------
    InputError
        If ``cuda`` is requested and not available, or if there are fewer GPUs than processes.
    """
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        advice = "use train.device=cpu or auto (docs/guide/symptoms.md#no-gpu-is-found)"
        raise InputError("train.device=cuda: torch finds no CUDA GPU here", advice)
    if not available or name == "cpu":
        return torch.device("cpu")
    number, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= gpus:
        raise InputError(f"process {number} of this machine has no GPU; there are {gpus}", "lower --nproc-per-node")
    return torch.device("cuda", number)


def choose_precision(device: torch.device, wanted: str) -> str:
    """Return the precision to use on a device; ``auto`` is bfloat16 if the hardware supports it, else float32.

    On a CPU this requires AMX: with AVX-512 alone bfloat16 takes three times as long as float32, with AVX2 far longer.
    """
    if wanted != "auto":
        return wanted
    if device.type == "cuda":
        able = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        able = bool(torch.cpu.get_capabilities().get("amx_bf16"))
    return "bfloat16" if able else "float32"


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Return a context that computes matrix products in this precision; weights stay float32."""
    return torch.autocast(device.type, dtype=DTYPES.get(precision, torch.bfloat16), enabled=precision in DTYPES)


def allow_tf32(allowed: bool) -> None:
    """Allow or forbid TensorFloat-32 (factors rounded to 10 bits) for float32 products on CUDA GPUs."""
    # Not fp32_precision: other parts of torch still read these, and raise where the two disagree.
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cuda.matmul.allow_tf32 = allowed


def total_memory(device: torch.device) -> int:
    """Return the total memory of a device, in bytes."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return int(psutil.virtual_memory().total)


def held_by_others(device: torch.device) -> int:
    """Return the bytes of a GPU's memory that are in use, but not by torch's allocator in this process."""
    if device.type != "cuda":
        return 0
    free, total = torch.cuda.mem_get_info(device)
    return max(0, total - free - torch.cuda.memory_reserved(device))


def resident_memory() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(psutil.Process().memory_info().rss)


def give_back_memory() -> None:
    """Return free memory of the C library's heap to the system.

    Batches of many sizes leave holes in the heap, of hundreds of MiB in time. Only the GNU C library supports this.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means out of memory; on a CPU only its text says so."""
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)
