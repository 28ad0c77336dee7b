"""What the machine can do: torch, CUDA, the CTC loss; the memory that training needs."""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

from speechctc import ctc
from speechctc.config.schema import Config
from speechctc.core.devices import choose_device, total_memory
from speechctc.core.parallel import cores
from speechctc.core.progress import Reporter
from speechctc.ctc import nvrtc
from speechctc.model.net import build_any
from speechctc.phones.inventory import Inventory
from speechctc.training.batches import Batch
from speechctc.training.distributed import Ranks
from speechctc.training.epoch_plan import EpochPlan, Indices, Limits
from speechctc.training.optimise import stages
from speechctc.training.step_costs import MIB, MemoryEstimate, estimate
from speechctc.training.train_step import TrainStep

CONTAINERS = (".dockerenv", "run/.containerenv", ".singularity.d")  # files that tell of them
ON_CPU = "everything runs on the CPU"
TIMED_FRAMES = 1500  # most frames of an utterance by which an epoch is timed
TIMING = 10.0  # seconds after which no further step is timed
TOLERANCE = 1e-4  # of a loss, against the float64 reference
INSTALL = "install speechctc again, or run scripts/install; docs/guide/install.md names the versions"


def facts() -> tuple[dict[str, str], bool]:
    """Return the versions and sizes of the machine by subject, in words, and whether torch finds a CUDA GPU."""
    has_gpu, gpus = torch.cuda.is_available(), "no CUDA GPU"
    if has_gpu:
        names = ", ".join(torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count()))
        gpus = f"CUDA {torch.version.cuda}: {names}, {total_memory(torch.device('cuda', 0)) / 2**30:.0f} GiB"
    memory = total_memory(torch.device("cpu")) / 2**30
    processor = f"{cores()} cores, {torch.get_num_threads()} threads of torch, {memory:.1f} GiB of memory"
    found = {"torch": f"{torch.__version__}, {gpus}", "processor": processor}
    if torch.version.cuda is not None:
        try:
            found["NVRTC"] = nvrtc.nvrtc_version()
        except nvrtc.CannotStart as error:
            found["NVRTC"] = f"cannot start: {error}"
    return found, has_gpu


def loss_fault(device: str) -> dict[str, str] | None:
    """Compute a small loss on a device; return what is wrong with it, the float64 reference being right, or None."""
    logits = torch.linspace(-2, 2, 6 * 2 * 4).sin().reshape(6, 2, 4)
    problem = (torch.tensor([[1, 2], [3, 3]]), [6, 5], [2, 2])
    right = float(ctc.ctc_loss(logits, *problem, reduction="sum", backend="reference"))
    try:
        found = float(ctc.ctc_loss(logits.to(device), *problem, reduction="sum", backend=device))
    except Exception as error:  # whatever a broken installation raises is what the user must know
        what = "does not start: " + (" ".join(str(error).split())[:300] or type(error).__name__)
        fix = INSTALL if device == "cpu" else "train with train.device=cpu, or with train.loss_backend=torch"
        return {"device": device.upper(), "what": what, "fix": fix}
    if abs(found - right) <= TOLERANCE * right:
        return None
    return {"device": device.upper(), "what": f"is {found:.6f}, and should be {right:.6f}", "fix": INSTALL}


def why_no_gpu(root: Path = Path("/")) -> tuple[str, str]:
    """Return why torch finds no CUDA GPU, in its own words, and what to do.

    Parameters
    ----------
    root : Path
        The folder with ``dev``, ``proc`` and ``sys``.
    """
    why, hidden = "torch does not see the GPU that the driver has", os.environ.get("CUDA_VISIBLE_DEVICES")
    try:
        torch.cuda.init()
    except Exception as error:  # whatever torch raises
        why = " ".join(str(error).split()).partition(". ")[0][:300]
    if torch.version.cuda is None:
        fix = "install a torch for CUDA in its place (pytorch.org)" if has_nvidia(root) else ON_CPU
    elif hidden is not None:
        why, fix = f"{why}, with CUDA_VISIBLE_DEVICES={hidden}", "unset that; nvidia-smi -L lists the GPUs"
    elif _is_wsl(root):
        fix = "install NVIDIA's driver in Windows (none in Linux), then wsl --update"
    elif any((root / mark).exists() for mark in CONTAINERS) or "KUBERNETES_SERVICE_HOST" in os.environ:
        fix = "if the host has one, start with docker --gpus all, podman --device nvidia.com/gpu=all or apptainer --nv"
    elif has_nvidia(root):
        fix = f"install NVIDIA's driver for CUDA {torch.version.cuda} or newer, and restart; nvidia-smi shows it"
    else:
        fix = ON_CPU
    return why, fix


def _is_wsl(root: Path) -> bool:
    with suppress(OSError):
        return "microsoft" in (root / "proc" / "version").read_text().lower()
    return False


def has_nvidia(root: Path = Path("/")) -> bool:
    """Return whether there is a GPU of NVIDIA, with a driver or without."""
    for device in (root / "sys" / "bus" / "pci" / "devices").glob("*"):
        with suppress(OSError):
            is_gpu = (device / "class").read_text().startswith("0x03")
            if is_gpu and (device / "vendor").read_text().strip() == "0x10de":
                return True
    return (root / "dev" / "nvidia0").exists()


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


def epoch_seconds(config: Config, inventory: Inventory, utterances: int, seconds: float) -> float:
    """Return about how long an epoch of training takes on this machine, in seconds, without scoring dev.

    The median of one to three steps on silence tells, after one that compiles the loss and warms up.

    Parameters
    ----------
    config : Config
    inventory : Inventory
    utterances : int
        Of the training split.
    seconds : float
        Their mean duration.
    """
    device, frame = choose_device(config.train.device), config.features.shift_ms / 1000
    train_step = noise_train_step(config, inventory, device)
    frames = min(max(int(seconds / frame), 50), TIMED_FRAMES)
    count, phones = max(min(config.train.batch_size, utterances, config.train.batch_frames // frames), 1), frames // 10
    lengths, counts = np.full(count, frames), np.full(count, phones)
    static = torch.zeros(count, frames, config.features.static_dims, device=device)
    labels = torch.arange(1, phones + 1, device=device).remainder(train_step.net.classes - 1).add(1).repeat(count, 1)
    of_frames, of_labels = (torch.from_numpy(each).to(device) for each in (lengths, counts))
    batch = Batch(np.arange(count), lengths, counts, static, of_frames, labels, of_labels)
    times: list[float] = []
    while len(times) < 2 or len(times) < 4 and sum(times) < TIMING:
        began = time.perf_counter()
        train_step.step([batch], count * phones, 0.0, len(times) + 1).item()
        times.append(time.perf_counter() - began)
    return float(np.median(times[1:])) * utterances * seconds / (count * frames * frame)


def noise_train_step(config: Config, inventory: Inventory, device: torch.device) -> TrainStep:
    """Return the train step of a config's net with random weights, for features that need no normalisation."""
    shape = (config.features.channels, config.features.static_dims)
    with torch.random.fork_rng(devices=[]):
        net = build_any(config, inventory).to(device)
    mean, std = torch.zeros(shape, device=device), torch.ones(shape, device=device)
    train_step = TrainStep(config, net, mean, std, Ranks(), Reporter(quiet=True))
    train_step.start_stage(stages(config.train)[0])
    return train_step
