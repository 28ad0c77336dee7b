"""The runs that prove the CUDA path: what can be known of them before a GPU is at hand."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from speechctc.ctc import nvrtc
from tests.command import script
from tests.ctc.test_kernel_compile import needs_nvrtc
from tests.forked import Forked, Together


@pytest.fixture(scope="module")
def prove_cuda() -> ModuleType:
    return script("prove_cuda")


@pytest.fixture
def as_in_the_background() -> Iterator[None]:
    """Ignore Ctrl-C, as a program does that a shell started in its background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("run", ["right", "fast", "which"])
def test_all_limits_of_a_run_add_up_to_less_than_ten_minutes(
    prove_cuda: ModuleType, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prove_cuda.shutil, "which", lambda tool, path=None: f"/opt/{tool}")
    jobs = list(prove_cuda.RUNS[run](tmp_path, "cuda"))
    assert 100 < sum(job.limit for job in jobs) < 575
    names = [job.name for job in jobs]
    assert len(jobs) * prove_cuda.MOST_LOG < 16 * 2**20  # the log can be brought back
    assert len(set(names)) == len(names)
    if run == "right":
        assert {"training", "training, two processes", "torch.compile", "racecheck", "initcheck"} <= set(names)
    assert ("ncu" in names) == (run == "which")


def run_jobs(prove_cuda: ModuleType, out: Path, jobs: list[object], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setitem(prove_cuda.RUNS, "right", lambda out, device: iter(jobs))
    monkeypatch.setattr(prove_cuda, "gpu", lambda: "none")
    failed: int = prove_cuda.prove("right", out, 500, "cpu", None)
    return failed


def out_of_time_after(line: str, log: Path, prove_cuda: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass for jobs until one has written a line, and then 100 s at once."""

    def clock() -> float:
        return 100.0 if re.search(f"^{line}$", log.read_text(), re.MULTILINE) else 0.0

    log.parent.mkdir(exist_ok=True)
    log.touch()
    monkeypatch.setitem(prove_cuda.SLOWER, "cpu", 1)
    monkeypatch.setattr(prove_cuda, "time", SimpleNamespace(monotonic=clock, sleep=time.sleep))


def test_what_fails_or_hangs_or_floods_costs_no_other_job(
    prove_cuda: ModuleType, tmp_path: Path, as_in_the_background: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what comes back is a few small files in one folder."""
    flood = "while True: print(1000 * 'x')"
    jobs = [
        prove_cuda.python("bad", ["-c", "print('why'); raise SystemExit(3)"], 60),
        prove_cuda.python("hangs", ["-c", "import time; print('begun', flush=True); time.sleep(300)"], 60),
        prove_cuda.python("floods", ["-c", flood], 60),
        prove_cuda.python("good", ["-c", "print('well done')"], 60),
    ]
    out_of_time_after("begun", tmp_path / "right" / "log.txt", prove_cuda, monkeypatch)
    assert run_jobs(prove_cuda, tmp_path / "right", jobs, monkeypatch) == 3
    assert [job.status for job in jobs] == ["failed (3)", "out of time", "wrote too much", "passed"]
    found = json.loads((tmp_path / "right" / "results.json").read_text())["jobs"]
    assert [job["last"] for job in found][::3] == ["why", "well done"] and found[1]["last"] == "KeyboardInterrupt"
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.parent for path in files} == {tmp_path / "right"} and len(files) <= 8 - 3  # and three CSV files
    assert sum(path.stat().st_size for path in files) < 2 * prove_cuda.MOST_LOG


def start(folder: Path, run: str, *settings: str, engine: tuple[str, ...] = ()) -> Forked | Together:
    """Start training as the script does, but in a fork; tests/training/test_distributed.py starts torchrun itself."""
    arguments = ("train", "--config", "proof.yaml", "--resume", f"run={run}", *settings)
    return (Together if engine else Forked)("speechctc", *arguments, cwd=folder, log=folder / f"{run}.log")


@pytest.mark.slow
@pytest.mark.parametrize("two", [False, True], ids=["killed and resumed", "two processes"])
def test_the_short_training_goes_through_on_a_cpu(
    two: bool, tmp_path: Path, scripts_too: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job that a GPU is to do: dev in chunks, a kill within an epoch, and the same end; or two processes."""
    cuda_training = script("cuda_training.py")
    monkeypatch.setattr(cuda_training, "start", start)
    monkeypatch.setattr(cuda_training, "SETTINGS", cuda_training.SETTINGS.replace("epochs: 8", "epochs: 3"))
    cuda_training.prove(tmp_path, "cpu", ["float32"], two)
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["steps"] > 30
    if not two:
        assert found["the same bits"] and 0 < found["killed after step"] < found["steps"]


@needs_nvrtc
def test_precompiled_machine_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder made elsewhere is enough: no NVRTC, no cache; what it lacks is compiled."""
    wanted = [("scale", (("LOGIT_TYPE", 0),)), ("scale", (("LOGIT_TYPE", 1),))]
    precompile, cache = script("cuda_kernels.py").precompile, tmp_path / "cache"
    monkeypatch.setenv("SPEECHCTC_CACHE", str(cache))
    assert precompile(wanted, "sm_80", tmp_path / "made") == 2
    assert precompile(wanted, "sm_80", tmp_path / "made") == 0
    monkeypatch.setenv("SPEECHCTC_CUBINS", str(tmp_path / "made"))
    with monkeypatch.context() as patched:
        patched.setattr(nvrtc, "compile_cubin", None)
        patched.setattr(nvrtc, "nvrtc_version", None)
        assert nvrtc.cubin("scale", (("LOGIT_TYPE", 0),), "sm_80").startswith(b"\x7fELF")
        assert not cache.exists()
    assert nvrtc.cubin("scale", (("LOGIT_TYPE", 2),), "sm_80").startswith(b"\x7fELF")
    assert len(list(cache.iterdir())) == 1
