"""The kernels that the CUDA tests and benchmarks will run on a GPU, found without one: for prove_cuda."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import Tensor

from speechctc.ctc import cuda_plan
from speechctc.ctc.cuda_plan import Device, Plan, Size, Tuning, plan, size_of
from speechctc.ctc.nvrtc import Macros, compile_cubin, kept, name_of, options_of, sources, write_kept
from speechctc.ctc.problem import Problem

TYPES = (torch.float32, torch.bfloat16)
MARK = "sources.sha256"
"""A file beside precompiled kernels: from what they were made, and for what."""


def precompile_all(folder: Path, architecture: str, tunings: dict[str, str]) -> None:
    """Compile them into a folder, and say how many there are."""
    wanted: set[tuple[str, Macros]] = {("scale", (("LOGIT_TYPE", kind),)) for kind in range(4)}
    wanted |= set(of_benchmarks(tunings, architecture)) | set(of_trainings(architecture))
    wanted |= set(of_tests(architecture)) | set(of_emulated_tests(architecture))
    (folder / MARK).unlink(missing_ok=True)
    made = precompile(sorted(wanted), architecture, folder)
    (folder / MARK).write_text(mark(architecture))
    print(f"{len(wanted)} kernels for {architecture} in {folder}, {made} of them compiled now; there, set")
    print(f"SPEECHCTC_CUBINS={folder}")


def precompile(wanted: Iterable[tuple[str, Macros]], architecture: str, folder: Path) -> int:
    """Compile kernels for a machine that is pointed to them by SPEECHCTC_CUBINS; those that are there already stay.

    Parameters
    ----------
    wanted : iterable of (str, macros)
        Kernels, as for `speechctc.ctc.nvrtc.cubin`.
    architecture : str
        Of the machine that will run them.
    folder : Path
        Where they go; made if need be.

    Returns
    -------
    made : int
        How many were compiled.
    """
    places = {folder / name_of(kernel, macros, architecture, ""): (kernel, macros) for kernel, macros in wanted}
    missing = [(path, *one) for path, one in sorted(places.items()) if kept(path, None) is None]

    def make(path: Path, kernel: str, macros: Macros) -> None:
        code, _ = compile_cubin(kernel, macros, architecture)
        write_kept(path, code)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda one: make(*one), missing))
    return len(missing)


def mark(architecture: str) -> str:
    """Return what tells kernels that were compiled from these sources, with these options and for these plans."""
    made_of = [*options_of((), architecture), Path(cuda_plan.__file__).read_text()]  # the plans say which are made
    made_of += [f"{name}\n{text}" for name, text in sources().items()]
    digest = hashlib.sha256("\n".join(made_of).encode())
    return f"{architecture} {digest.hexdigest()}\n"


def wrong_with(folder: Path) -> str | None:
    """Return why a folder of precompiled kernels is of no use, if it is not.

    A kernel that is not found there is compiled on the spot, so that otherwise only the lost time would tell.
    """
    try:
        architecture, _ = made = tuple((folder / MARK).read_text().split())
    except (OSError, ValueError):
        return f"{folder} has no kernels that --precompile has finished with"
    if " ".join(made) + "\n" != mark(architecture):
        return f"the kernels in {folder} are stale: their sources, options or plans have changed since"
    if torch.cuda.is_available():
        here = "sm_{}{}".format(*torch.cuda.get_device_capability())
        if here != architecture:
            return f"the kernels in {folder} are for {architecture}, and this GPU is {here}"
    return None


def of_benchmarks(tunings: dict[str, str], architecture: str) -> Iterator[tuple[str, Macros]]:
    """The kernels of bench_ctc, with each tuning at its shapes, and of the small problems of prove_cuda."""
    more = "150,40,28,1 150,40,28,128 150,40,28,264 150,20,5000,1 150,20,5000,128 8,2,5,1"
    more += " 64,16,32,4 256,48,64,16 512,48,64,32 1024,96,128,32"
    for tuning, shapes in (*tunings.items(), ("", more)):
        for shape in shapes.split():
            frames, labels, classes, samples = (int(n) for n in shape.split(","))
            for dtype in TYPES:
                size = Size(frames, samples, classes, frames, labels, dtype, packed=False, gradient=True)
                yield from kernels_of(size, architecture, tuning)


def of_trainings(architecture: str) -> Iterator[tuple[str, Macros]]:
    """The kernels of the short trainings of cuda_training.py: 39 phones and the blank, a label in 9 frames."""
    for frames, labels, gradient in itertools.product((50, 100, 150, 200, 225), (20, 45), (True, False)):
        yield from kernels_of(Size(frames, 8, 40, frames, labels, torch.float32, False, gradient), architecture, "")


def of_tests(architecture: str) -> Iterator[tuple[str, Macros]]:
    """The kernels of the problems that tests are parametrised with: most of those that the tests run."""
    from tests.ctc.test_kernel_facts import VARIANTS, Case

    cases = list(VARIANTS.values())
    for item in _collected("tests/ctc/test_cuda.py"):
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        cases += [value for value in parameters.values() if isinstance(value, Case)]
        if {"frames", "classes", "labels"} <= set(parameters):
            cases.append(Case(parameters["frames"], 7, parameters["classes"], parameters["labels"]))
    for case in cases:
        problem = case.problem()
        for gradient in (problem.logits, None):
            yield from kernels_of(size_of(problem, gradient), architecture, "")
            yield from kernels_of(size_of(problem, gradient), architecture, case.tuning, case.device)


def of_emulated_tests(architecture: str) -> Iterator[tuple[str, Macros]]:
    """The kernels of the tests that run on every backend: those that the emulated one is asked for."""
    from tests.ctc import emulation

    sizes: set[Size] = set()
    planned = emulation.plan_of

    def noting(problem: Problem, gradient: Tensor | None, device: Device, tuning: Tuning | None = None) -> Plan:
        sizes.add(size_of(problem, gradient))
        return planned(problem, gradient, device, tuning)

    emulation.plan_of = noting
    try:
        _pytest(
            "-n", "0", "-k", "emulated", *(f"tests/ctc/test_{name}.py" for name in ("facts", "arguments", "autograd"))
        )
    finally:
        emulation.plan_of = planned
    for size in sizes:
        yield from kernels_of(size, architecture, "")


def kernels_of(
    size: Size, architecture: str, tuning: str, device: Device | None = None
) -> Iterator[tuple[str, Macros]]:
    """What a problem runs on the GPU of an architecture, as the tests of compilation know it, or of others."""
    from tests.ctc.test_kernel_compile import GPUS

    chosen = plan(size, device or GPUS[architecture], Tuning.parse(tuning))
    yield "sweep", chosen.sweep
    if chosen.rows:
        yield "rows", chosen.rows


def _collected(path: str) -> list[pytest.Item]:
    class Collector:
        items: list[pytest.Item] = []

        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            self.items = list(items)

    collector = Collector()
    _pytest("--collect-only", path, plugins=[collector])
    return collector.items


def _pytest(*arguments: str, plugins: Sequence[object] = ()) -> None:
    root = Path(__file__).resolve().parent.parent
    quiet = ["-qqq", "-p", "no:cacheprovider", "--assert=plain", "-o", "filterwarnings=default", "--rootdir", str(root)]
    given = [str(root / each) if each.startswith("tests/") else each for each in arguments]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main([*quiet, *given], plugins=list(plugins))
