"""What the machine can do: torch, threads, CUDA, the CTC loss; the memory that training needs."""

from __future__ import annotations

import ctypes
import math
import os
import platform
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from speechctc import ctc
from speechctc.config.schema import Config
from speechctc.core.devices import choose_device, nvidia_driver, total_memory
from speechctc.core.parallel import cores
from speechctc.core.progress import Reporter
from speechctc.ctc import nvrtc
from speechctc.model.net import build_net
from speechctc.phones.inventory import Inventory
from speechctc.stages.doctor.findings import Diagnosis, Finding, check_disk, finding
from speechctc.training.distributed import Ranks
from speechctc.training.epoch_plan import EpochPlan, Indices, Limits
from speechctc.training.memory_estimate import MIB, MemoryEstimate, estimate
from speechctc.training.optimise import stages
from speechctc.training.train_step import TrainStep

NO_DEVICE = 100  # CUDA's CUDA_ERROR_NO_DEVICE
IN_CONTAINER = "if the host has one, start with docker --gpus all, podman --device nvidia.com/gpu=all or apptainer --nv"
TOLERANCE = 1e-4  # of a loss, against the float64 reference
INSTALL = "install speechctc again, or run scripts/install; docs/guide/install.md names the versions"


def check_machine(device: str = "auto", folders: tuple[Path, ...] = ()) -> Diagnosis:
    """Check the machine for training on `device` (``"auto"``, ``"cpu"`` or ``"cuda"``), writing into these folders."""
    cuda = torch.cuda.is_available()
    memory = total_memory(torch.device("cpu")) / 2**30
    processor = f"{cores()} cores, {torch.get_num_threads()} threads of torch, {memory:.1f} GiB of memory"
    facts = {"torch": f"{torch.__version__}, {_gpus() if cuda else 'no CUDA GPU'}", "processor": processor}
    found = [*check_disk(folders), *_loss_starts("cpu")]
    facts["CTC loss"] = "starts on the CPU" if not any(each.kind == "loss" for each in found) else "does not start"
    if cuda:
        on_gpu = _loss_starts("cuda")
        facts["CTC loss"] += f", {'does not start' if on_gpu else 'starts'} on the GPU"
        found += on_gpu
    if torch.version.cuda is not None:
        facts["NVRTC"] = _nvrtc()
    if not cuda:
        why, fix = why_no_gpu()
        facts["GPU"] = f"none is used: {why}; {fix}"
        if device == "cuda" or _has_nvidia(Path("/")):
            found.append(finding("no-gpu", severity="stops" if device == "cuda" else "warning", reason=why, fix=fix))
    return Diagnosis(tuple(found), facts)


def _gpus() -> str:
    names = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    memory = total_memory(torch.device("cuda", 0)) / 2**30
    return f"CUDA {torch.version.cuda}: {', '.join(names)}, {memory:.0f} GiB"


def _nvrtc() -> str:
    try:
        return nvrtc.nvrtc_version()
    except nvrtc.CannotStart as error:
        return f"cannot start: {error}"


def _loss_starts(device: str) -> list[Finding]:
    """Compute a small loss on a device and compare it with the float64 reference."""
    logits = torch.linspace(-2, 2, 6 * 2 * 4).sin().reshape(6, 2, 4)
    problem = (torch.tensor([[1, 2], [3, 3]]), [6, 5], [2, 2])
    want = ctc.ctc_loss(logits, *problem, reduction="sum", backend="reference")
    try:
        got = ctc.ctc_loss(logits.to(device), *problem, reduction="sum", backend=device).cpu()
    except Exception as error:  # whatever a broken installation raises is what the user must know
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        fix = INSTALL if device == "cpu" else "train with train.device=cpu, or with train.loss_backend=torch"
        return [_of_loss("loss-stopped", device=device.upper(), reason=reason, fix=fix)]
    if abs(float(got) - float(want)) > TOLERANCE * float(want):
        return [_of_loss("loss-differs", device=device.upper(), got=float(got), want=float(want), fix=INSTALL)]
    return []


def _of_loss(kind: str, **values: Any) -> Finding:
    return replace(finding(kind, severity="stops", **values), kind="loss")


def why_no_gpu(root: Path = Path("/")) -> tuple[str, str]:
    """Return why torch finds no CUDA GPU, and what to do.

    Parameters
    ----------
    root : Path
        The folder with ``dev``, ``proc`` and ``sys``.
    """
    wanted, visible, driver = torch.version.cuda, os.environ.get("CUDA_VISIBLE_DEVICES"), nvidia_driver()
    if platform.system() == "Darwin":
        return "CUDA has no driver for macOS", "train on the CPU, or on another machine"
    if wanted is None and (driver is not None or _has_nvidia(root)):
        return f"torch {torch.__version__} is built for CPUs alone", "install one for CUDA (pytorch.org) in its place"
    if visible is not None and not visible.strip().partition(",")[0].replace("-1", ""):
        return f"CUDA_VISIBLE_DEVICES={visible} hides all GPUs", "unset it, or give it the number of one: 0"
    if driver is None or wanted is None:
        return _why_no_driver(root)
    known, count = ctypes.c_int(), ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(known))
    if known.value // 1000 < int(wanted.partition(".")[0]):
        of = f"CUDA {known.value // 1000}.{known.value % 1000 // 10}"
        return (
            f"the driver is too old: it is of {of}, this torch of {wanted}",
            f"install a newer driver, or a torch of {of}",
        )
    if (status := driver.cuInit(0)) not in (0, NO_DEVICE):
        return f"the driver does not start (error {status} of CUDA)", "restart the machine; nvidia-smi says more"
    driver.cuDeviceGetCount(ctypes.byref(count))
    if not count.value and visible:
        return f"CUDA_VISIBLE_DEVICES={visible} names no GPU of this machine", "unset it; nvidia-smi -L lists them"
    if not count.value:
        return ("the driver finds no GPU", IN_CONTAINER if _in_container(root) else "see whether nvidia-smi lists one")
    try:
        torch.cuda.init()
    except Exception as error:  # whatever torch says
        return " ".join(str(error).split())[:300], "install the torch of the driver's CUDA, which nvidia-smi shows"
    return "torch does not see the GPU that the driver has", "start Python again"


def _why_no_driver(root: Path) -> tuple[str, str]:
    with suppress(OSError):
        if "microsoft" in (root / "proc" / "version").read_text().lower():
            return "WSL shows Linux no GPU", "install NVIDIA's driver in Windows (none in Linux), then wsl --update"
    if _in_container(root):
        return "this container sees no GPU", IN_CONTAINER
    if _has_nvidia(root):
        return "the NVIDIA GPU has no driver", "install NVIDIA's driver, and restart"
    return "there is no NVIDIA GPU, or no driver of one", "everything runs on the CPU"


def _in_container(root: Path) -> bool:
    marks = (root / ".dockerenv", root / "run" / ".containerenv", root / ".singularity.d")
    return any(mark.exists() for mark in marks) or "KUBERNETES_SERVICE_HOST" in os.environ


def _has_nvidia(root: Path) -> bool:
    """Return whether there is a GPU of NVIDIA, with a driver or without."""
    for device in (root / "sys" / "bus" / "pci" / "devices").glob("*"):
        with suppress(OSError):
            is_gpu = (device / "class").read_text().startswith("0x03")
            if is_gpu and (device / "vendor").read_text().strip() == "0x10de":
                return True
    return (root / "dev" / "nvidia0").exists()


NEAR = 0.8  # share of the memory from which it may run out


def estimate_memory(config: Config, inventory: Inventory, frames: Indices) -> MemoryEstimate:
    """Return the memory that training needs.

    Parameters
    ----------
    config : Config
    inventory : Inventory
    frames : ndarray, shape = (n_utterances,)
        Input frames of each training utterance.
    """
    size = config.features.static_dims * (2 if config.data.dtype == "float16" else 4)  # bytes of a frame
    held = config.data.chunk_mib * MIB // size
    limits = Limits(config.train.batch_size, config.train.batch_frames, max(held, int(frames.max())))
    plan = EpochPlan(frames, np.arange(len(frames)), limits, config.train.seed)
    shapes = [(len(batch), int(frames[batch].max())) for batch in plan.batches(0)]
    train_step = noise_train_step(config, inventory, choose_device(config.train.device))
    return estimate(train_step, max(shapes, key=math.prod), min(held, int(frames.sum())) * size)


def check_memory(memory: MemoryEstimate) -> list[Finding]:
    """Return a finding if training may not fit into the memory of its device."""
    share = memory.device / memory.available if memory.available else 0.0
    if share < NEAR:
        return []
    needed, there = memory.device / MIB, memory.available / MIB
    return [finding("memory", [f"the largest batch: {memory.largest}"], needed=needed, there=there)]


def noise_train_step(config: Config, inventory: Inventory, device: torch.device) -> TrainStep:
    """Return the train step of a config's net with random weights, for features that need no normalisation."""
    shape = (config.features.channels, config.features.static_dims)
    with torch.random.fork_rng(devices=[]):
        net = build_net(config, inventory).to(device)
    mean, std = torch.zeros(shape, device=device), torch.ones(shape, device=device)
    train_step = TrainStep(config, net, mean, std, Ranks(), Reporter(quiet=True))
    train_step.start_stage(stages(config.train)[0])
    return train_step
