"""Choice of device and precision, and memory of devices. torch is loaded by what needs it."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

import psutil

from speechctc.core.errors import InputError, with_extra

if TYPE_CHECKING:
    import torch

NVIDIA = {"linux": "libcuda.so.1", "win32": "nvcuda.dll"}  # the driver, by system


def choose_device(name: str) -> torch.device:
    """Return the device for ``train.device``; ``auto`` is CUDA if available, else the CPU.

    Under torchrun each process uses the GPU with its local rank.

    Raises
    ------
    InputError
        If ``cuda`` is requested and not available, or if there are fewer GPUs than processes.
    """
    import torch

    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        advice = "`speechctc doctor` says why; or use train.device=cpu or auto (docs/guide/symptoms.md#no-gpu-is-found)"
        raise InputError("train.device=cuda: torch finds no CUDA GPU here", advice)
    if not available or name == "cpu":
        return torch.device("cpu")
    number, gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if number >= gpus:
        raise InputError(f"process {number} of this machine has no GPU; there are {gpus}", "lower --nproc-per-node")
    return torch.device("cuda", number)


def recognition_device(name: str) -> str:
    """Return where to recognise, as torch names it; torch is loaded only where there is a GPU, or one is asked for.

    Parameters
    ----------
    name : str
        ``"auto"``, ``"cpu"``, ``"cuda"``, or a GPU by its number, ``"cuda:1"``; a `torch.device` is taken too.

    Raises
    ------
    InputError
        There is no such device here, or torch is not installed.
    """
    name = str(name)
    if re.fullmatch(r"auto|cpu(:0)?|cuda(:\d+)?", name) is None:
        meant = "did you mean cuda? " if name.lower() in ("gpu", "nvidia", "cuda:") else ""
        raise InputError(f"device {name!r:.40}: there is none of that name", f"{meant}name auto, cpu, cuda or cuda:1")
    if name[:3] == "cpu" or (name == "auto" and not (_has_gpu() and find_spec("torch"))):
        return "cpu"
    if find_spec("torch") is None:
        raise InputError(f"device {name}: torch, which computes on GPUs, is not installed", with_extra("train"))
    import torch

    if name == "auto":
        return str(choose_device(name))
    gpus, number = torch.cuda.device_count() if torch.cuda.is_available() else 0, name.partition(":")[2]
    if int(number or 0) >= gpus:
        there = f"there are {gpus}, counted from 0" if gpus else "torch finds no CUDA GPU here"
        raise InputError(f"device {name}: {there}", "`speechctc doctor` says why; or name cpu or auto")
    return f"cuda:{int(number)}" if number else str(choose_device(name))


@cache
def _has_gpu() -> bool:
    """Return whether NVIDIA's driver has a GPU for this process."""
    count, driver = ctypes.c_int(), nvidia_driver()
    try:
        found = driver and driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
        return bool(found) and count.value > 0
    except AttributeError:
        return False


def nvidia_driver() -> ctypes.CDLL | None:
    """Return the library of NVIDIA's driver, where there is one."""
    try:
        return ctypes.CDLL(NVIDIA[sys.platform])
    except (KeyError, OSError):
        return None


def choose_precision(device: torch.device, wanted: str) -> str:
    """Return the precision to use on a device; ``auto`` is bfloat16 if the hardware supports it, else float32.

    On a CPU this requires AMX, or AVX-512 with products of bfloat16 (AMD since Zen 4). With other AVX-512 bfloat16
    takes three times as long as float32, with AVX2 far longer.
    """
    if wanted != "auto":
        return wanted
    import torch

    if device.type == "cuda":
        able = torch.cuda.is_bf16_supported(including_emulation=False)
    else:
        found = torch.cpu.get_capabilities()
        able = bool(found.get("amx_bf16") or found.get("avx512_bf16"))
    return "bfloat16" if able else "float32"


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Return a context that computes matrix products in this precision; weights stay float32."""
    import torch

    low = {"bfloat16": torch.bfloat16, "float16": torch.float16}
    return torch.autocast(device.type, dtype=low.get(precision, torch.bfloat16), enabled=precision in low)


def allow_tf32(allowed: bool) -> None:
    """Allow or forbid TensorFloat-32 (factors rounded to 10 bits) for float32 products on CUDA GPUs."""
    import torch

    # Not fp32_precision: other parts of torch still read these, and raise where the two disagree.
    torch.backends.cudnn.allow_tf32 = allowed
    torch.backends.cuda.matmul.allow_tf32 = allowed


def total_memory(device: torch.device) -> int:
    """Return the total memory of a device, in bytes."""
    if device.type == "cuda":
        import torch

        return int(torch.cuda.get_device_properties(device).total_memory)
    return int(psutil.virtual_memory().total)


def held_by_others(device: torch.device) -> int:
    """Return the bytes of a GPU's memory that are in use, but not by torch's allocator in this process."""
    if device.type != "cuda":
        return 0
    import torch

    free, total = torch.cuda.mem_get_info(device)
    return max(0, total - free - torch.cuda.memory_reserved(device))


def resident_memory() -> int:
    """Return the resident memory of this process, in bytes."""
    return int(psutil.Process().memory_info().rss)


def give_back_memory() -> None:
    """Return free memory of the C library's heap to the system.

    Batches of many sizes leave holes in the heap, of hundreds of MiB in time. Only the GNU C library supports this.
    """
    if (trim := _malloc_trim()) is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means out of memory; on a CPU only its text says so."""
    import torch

    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)
