"""The CUDA kernels run on the CPU: the same sources, compiled by g++ with a header that plays the GPU."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from threading import get_ident

import torch
from torch import Tensor

from speechctc.ctc import cuda_plan
from speechctc.ctc.cuda import explain
from speechctc.ctc.cuda_plan import Tuning
from speechctc.ctc.nvrtc import Macros
from speechctc.ctc.problem import Problem
from tests.ctc.emulation.guarded import Guarded

KERNELS = Path(cuda_plan.__file__).with_name("kernels")
HERE = Path(__file__).parent
H200 = cuda_plan.Device(multiprocessors=132, shared_per_block=227 * 1024, shared_per_multiprocessor=228 * 1024)
COMPILER = shutil.which("g++")
WHY_NOT = None if COMPILER else "g++ is not on the PATH, so that the CUDA source cannot be run on the CPU"


def emulated_loss_and_gradient(
    problem: Problem,
    want_gradient: bool = True,
    reduce: bool = False,
    zero_infinity: bool = False,
    *,
    device: cuda_plan.Device = H200,
    seed: int = 0,
    tuning: Tuning | None = None,
) -> tuple[Tensor, Tensor | None]:
    """What `speechctc.ctc.cuda.loss_and_gradient` does, on the CPU, as if on `device`."""
    loss, gradient, fault = run(problem, want_gradient, device, seed, reduce, zero_infinity, tuning)
    if fault:
        raise ValueError(fault)
    return loss, gradient


def run(
    problem: Problem,
    want_gradient: bool,
    device: cuda_plan.Device,
    seed: int = 0,
    reduce: bool = False,
    zero_infinity: bool = False,
    tuning: Tuning | None = None,
) -> tuple[Tensor, Tensor | None, str]:
    """Run a problem: losses, gradient, and what the kernels found to be bad.

    Every buffer ends where memory does, and is filled with NaN before.
    """
    memory = Guarded()
    problem = replace(
        problem,
        logits=memory.like(problem.logits),
        input_lengths=memory.like(problem.input_lengths),
        frame_offsets=None if problem.frame_offsets is None else memory.like(problem.frame_offsets),
        targets=memory.like(problem.targets),
        target_offsets=None if problem.target_offsets is None else memory.like(problem.target_offsets),
        target_lengths=memory.like(problem.target_lengths),
        grad_output=None if problem.grad_output is None else memory.like(problem.grad_output),
    )
    real = torch.float64 if problem.logits.dtype == torch.float64 else torch.float32
    losses = memory.empty((problem.samples,), real)
    loss = memory.empty((), real) if reduce else None
    gradient = memory.empty_like(problem.logits) if want_gradient else None
    chosen = plan_of(problem, gradient, device, tuning)
    workspace = memory.empty((chosen.workspace_bytes,), torch.uint8)
    fault = torch.zeros(2, dtype=torch.int64)
    ticket = torch.zeros(1, dtype=torch.int32)
    given = (problem, chosen, gradient, losses, loss, workspace, fault.data_ptr(), ticket.data_ptr())
    arguments = cuda_plan.pack(*given, zero_infinity)
    rows = problem.logits.shape[0] * problem.logits.shape[1]
    if chosen.rows and rows:
        launch("rows", chosen.rows, arguments, rows, chosen.row_threads, 0, seed)
    launch("sweep", chosen.sweep, arguments, problem.samples, chosen.threads, chosen.shared_bytes, seed)
    word, classes = fault.tolist()
    found = explain(word & (1 << 64) - 1, classes) if word else ""
    assert ticket.item() == 0
    return (losses if loss is None else loss).clone(), None if gradient is None else gradient.clone(), found


def plan_of(
    problem: Problem, gradient: Tensor | None, device: cuda_plan.Device, tuning: Tuning | None = None
) -> cuda_plan.Plan:
    """How a problem is run on a device."""
    return cuda_plan.plan(cuda_plan.size_of(problem, gradient), device, tuning)


def launch(kernel: str, macros: Macros, arguments: bytes, blocks: int, threads: int, shared: int, seed: int) -> None:
    """Run a kernel, block after block; the seed draws the order of warps and lanes."""
    runner = scheduler()
    error = runner.run(load(kernel, macros).entry, arguments, blocks, threads, ctypes.c_ulong(shared), seed)
    if error:
        raise RuntimeError(f"ctc_{kernel}: {error.decode()}")


@cache
def scheduler() -> ctypes.CDLL:
    """What runs kernels; they find its symbols, since it is loaded first and for all."""
    library = ctypes.CDLL(str(_compile("scheduler", HERE / "scheduler.cpp", [])), mode=ctypes.RTLD_GLOBAL)
    library.run.restype = ctypes.c_char_p
    return library


@cache
def load(kernel: str, macros: Macros) -> ctypes.CDLL:
    """The kernel as a library, built when first asked for and kept among temporary files."""
    scheduler()
    return ctypes.CDLL(str(build(kernel, macros)))


def build(kernel: str, macros: Macros) -> Path:
    """Compile a kernel under the emulation, unless that has been done."""
    same = ("BLOCKS",)  # tells a compiler for GPUs how many registers there are
    defines = [f"-D{name}={1 if name in same else value}" for name, value in macros]
    defines += ["-DEMULATED", f'-DKERNEL_FILE="{kernel}.cu"', f"-DKERNEL=ctc_{kernel}"]
    return _compile(kernel, HERE / "launch.cpp", defines)


def build_all(wanted: set[tuple[str, Macros]]) -> None:
    """Build several kernels, as many at a time as there are processors."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda one: build(*one), sorted(wanted)))


def kernels_of(chosen: cuda_plan.Plan) -> set[tuple[str, Macros]]:
    """What a plan runs."""
    return {("sweep", chosen.sweep)} | ({("rows", chosen.rows)} if chosen.rows else set())


def _compile(name: str, source: Path, defines: list[str]) -> Path:
    assert COMPILER is not None
    flags = ["-O1", "-std=c++17", "-fPIC", "-shared", "-ffp-contract=off", "-fno-math-errno"]
    flags += ["-Wall", "-Werror", "-Wno-unused-function", "-Wno-unknown-pragmas", "-Wno-clobbered"]
    files = [file for folder in (KERNELS, HERE) for file in sorted(folder.iterdir()) if file.is_file()]
    text = "".join(file.read_text() for file in files) + " ".join(flags + defines)
    folder = Path(tempfile.gettempdir()) / f"speechctc-emulation-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    target = folder / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:20]}.so"
    if not target.exists():
        made = target.with_suffix(f".{os.getpid()}-{get_ident()}")
        command = [COMPILER, *flags, *defines, f"-I{KERNELS}", f"-I{HERE}", str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
        made.replace(target)
    return target
