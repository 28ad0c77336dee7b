"""Short real trainings, killed and resumed, and by two processes: for prove_cuda. Nothing but `train` is called."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from safetensors.torch import load_file
from synthetic import write_split

from speechctc.config.load import load_config

ROOT = Path(__file__).resolve().parent.parent
SETTINGS = """
corpus: {kind: demo, phones: found}
data: {dir: features, chunk_mib: 1, dtype: float32}
features: {mels: 100, deltas: 1}
model: {convs: [6], dense: [32], time_stride: 2, dropout: 0.2, norm: layer}
train: {lr: 0.01, batch_size: 8, schedule: cosine, warmup_steps: 10, epochs: 8, save_minutes: 0.0005, ema: 0.99}
augment: {band_masks: 1, time_masks: 1}
"""
"""Dev alone is larger than a chunk, so that both splits are read in chunks, while training and while scoring."""

HOURS = {"train": 0.036, "dev": 0.0085}
SHARES = {
    "bfloat16": ("model.context=8", "model.dense=[32, 32]", "augment.speed=0.1", "augment.noise_db=[10, 30]"),
    "float32": ("train.consistency=0.2", "augment.warp=0.1", "augment.reverb=0.5"),
    "float16": ("model.norm=none", "augment.telephone=0.2", "augment.gain_db=3", "augment.colour_db=3"),
}
"""What each precision is trained with besides: together they have all that works on a GPU's tensors."""

PRECISIONS = tuple(SHARES)
TOGETHER = """
import sys
import torch
from contextlib import contextmanager
from speechctc.stages import train
from speechctc.training.distributed import Ranks

@contextmanager
def by_gloo(device):
    torch.distributed.init_process_group("gloo")
    yield Ranks(torch.distributed.get_rank(), torch.distributed.get_world_size())
    torch.distributed.destroy_process_group()

train.choose_device = lambda name: torch.device("cuda", 0)
train.process_group = by_gloo
from speechctc.__main__ import main
sys.argv[0] = "speechctc"
main()
"""
"""Two processes on one GPU, which NCCL refuses and speechctc too: for want of a second one, by gloo."""


def prepare(folder: Path) -> None:
    """Write the features and the config."""
    (folder / "proof.yaml").write_text(SETTINGS)
    config = load_config(folder / "proof.yaml", [f"data.dir={folder / 'features'}"])
    for seed, (split, hours) in enumerate(HOURS.items()):
        write_split(folder / "features" / split, config, hours, (100, 400), seed)
        size = hours * 3600e3 / config.features.shift_ms * config.features.static_dims * 4
        assert size > config.data.chunk_mib * 2**20, "dev has room in a chunk"


def start(
    folder: Path, run: str, *settings: str, engine: tuple[str, ...] = ("-m", "speechctc")
) -> subprocess.Popen[bytes]:
    """Start training, or go on with it, in a process of its own."""
    command = [sys.executable, *engine, "train", "--config", "proof.yaml", "--resume", f"run={run}", *settings]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with (folder / f"{run}.log").open("ab") as log:
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)


def finish(process: subprocess.Popen[bytes], folder: Path, run: str) -> None:
    """Wait for a run that must end well."""
    if process.wait() != 0:
        text = (folder / f"{run}.log").read_text(errors="replace")
        sys.exit(f"{run}: status {process.returncode}\n{text[-6000:]}")


def kill_within(process: subprocess.Popen[bytes], folder: Path, run: str) -> int:
    """Kill a run within an epoch after its first, once it has saved there; return the step that it can go on from."""
    saved = folder / run / "last" / "checkpoint.json"
    while process.poll() is None:
        try:
            facts = json.loads(saved.read_text())
        except (OSError, ValueError):  # not there yet, or just then replaced
            facts = {}
        if facts.get("epoch", 0) >= 1 and facts.get("dev_per") is None:
            process.kill()
            process.wait()
            return int(facts["step"])
        time.sleep(0.002)
    sys.exit(f"{run}: ended before it was killed:\n{(folder / f'{run}.log').read_text(errors='replace')[-6000:]}")


def one_precision(folder: Path, device: str, precision: str) -> dict[str, object]:
    """Train as a whole, and killed and resumed; return what came of both."""
    settings = (f"train.device={device}", f"train.precision={precision}", *SHARES[precision])
    whole, killed = f"{precision}-whole", f"{precision}-killed"
    finish(start(folder, whole, *settings), folder, whole)
    step = kill_within(start(folder, killed, *settings), folder, killed)
    finish(start(folder, killed, *settings), folder, killed)
    (first, *_, last), resumed = metrics(folder / whole), metrics(folder / killed)
    found = {
        "precision": precision,
        "killed after step": step,
        "steps": last["step"],
        "loss": [round(line["loss"], 4) for line in metrics(folder / whole)],
        "loss, resumed": [round(line["loss"], 4) for line in resumed],
        "dev PER": [last["dev_per"], resumed[-1]["dev_per"]],
        "the same bits": same_bits(folder / whole, folder / killed),
    }
    print(json.dumps(found), flush=True)
    losses = [line[key] for line in (first, last, *resumed) for key in ("loss", "dev_loss")]
    if not all(map(math.isfinite, losses)) or not last["loss"] < 0.9 * first["loss"]:
        sys.exit(f"{precision}: the loss is not finite, or has not fallen")
    if [line["step"] for line in resumed] != [line["step"] for line in metrics(folder / whole)]:
        sys.exit(f"{precision}: the resumed run took other steps")
    if not abs(resumed[-1]["loss"] / last["loss"] - 1) < (1e-9 if device == "cpu" else 0.02):
        sys.exit(f"{precision}: the resumed run ended with another loss")
    return found


def together(folder: Path, device: str) -> dict[str, object]:
    """Train by two processes; on one GPU, if there is one only."""
    run, engine = "two", ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    if device == "cuda" and torch.cuda.device_count() < 2:
        (folder / "together.py").write_text(TOGETHER)
        engine += ["together.py"]
        nccl_alone(folder)
    else:
        engine += ["-m", "speechctc"]
    finish(start(folder, run, f"train.device={device}", engine=tuple(engine)), folder, run)
    first, *_, last = metrics(folder / run)
    found = {"processes": 2, "steps": last["step"], "loss": [first["loss"], last["loss"]], "dev PER": last["dev_per"]}
    print(json.dumps(found), flush=True)
    if not last["loss"] < 0.9 * first["loss"]:
        sys.exit("two processes: the loss has not fallen")
    return found


def nccl_alone(folder: Path) -> None:
    """Sum over a group of one by NCCL, as far as one GPU goes."""
    import torch.distributed as dist

    dist.init_process_group("cpu:gloo,cuda:nccl", init_method=f"file://{folder}/group", rank=0, world_size=1)
    values = torch.ones(3, device="cuda")
    dist.all_reduce(values)
    dist.destroy_process_group()
    print(f"NCCL sums over one process: {values.tolist()}", flush=True)


def metrics(run: Path) -> list[dict[str, float]]:
    """Return a run's lines, one an epoch."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def same_bits(one: Path, other: Path) -> bool:
    """Whether the last weights of two runs are the same."""
    a, b = (load_file(run / "last" / "weights.safetensors") for run in (one, other))
    return all(torch.equal(a[name], b[name]) for name in a)


def prove(folder: Path, device: str, precisions: list[str], two: bool) -> None:
    """Prepare the data and train; the precisions side by side where there are cores for it."""
    prepare(folder)
    if two:
        together(folder, device)
        return
    with ThreadPoolExecutor(len(precisions) if device == "cuda" else 1) as pool:
        waiting = [pool.submit(one_precision, folder, device, precision) for precision in precisions]
        failed = [error for each in waiting if (error := each.exception())]
    if failed:
        sys.exit("\n".join(map(str, failed)))
