"""The job for Slurm of docs/guide/own, run with programs in place of Slurm's and torchrun that note their calls."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import typer

from speechctc.cli import app
from tests.documented.reading import ROOT

JOB = ROOT / "docs" / "guide" / "own" / "train.sbatch"
PROGRAMS = {
    "scontrol": 'echo "scontrol $*" >> calls; [ "$1" = show ] && printf "node1\\nnode2\\n"; true',
    "srun": '"$@"',
    "torchrun": 'echo "torchrun $*" >> calls; exit "$TRAINED"',
}


def submitted(folder: Path, trained: int, restarts: str) -> list[str]:
    """Run the job in a folder, where training ends with this status; return the calls of scontrol and torchrun."""
    for name, text in PROGRAMS.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    given = {"PATH": f"{folder}:{os.environ['PATH']}", "TRAINED": str(trained), "SLURM_RESTART_COUNT": restarts}
    slurm = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_JOB_NODELIST": "node[1-2]"}
    subprocess.run(["bash", JOB], cwd=folder, env={**given, **slurm}, check=False)
    return (folder / "calls").read_text().splitlines()


@pytest.mark.parametrize(("trained", "restarts", "requeued"), [(0, "0", False), (143, "0", True), (143, "20", False)])
def test_the_job_trains_and_is_requeued_until_it_is_done(
    tmp_path: Path, trained: int, restarts: str, requeued: bool
) -> None:
    hosts, trains, *after = submitted(tmp_path, trained, restarts)
    assert hosts == "scontrol show hostnames node[1-2]"
    assert after == (["scontrol requeue 7"] if requeued else [])
    launch, _, command = trains.partition(" -m speechctc ")
    assert {"--nnodes=2", "--rdzv-id=7", "--rdzv-endpoint=node1:29500"} <= set(launch.split())
    name, *words = command.split()
    typer.main.get_command(app.app).commands[name].make_context(name, words)  # type: ignore[attr-defined]
