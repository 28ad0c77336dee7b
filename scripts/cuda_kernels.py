"""The kernels that the CUDA tests and benchmarks will run on a GPU, found without one: for prove_cuda."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from speechctc.ctc.cubins import precompile
from speechctc.ctc.cuda_layout import Size, size_of
from speechctc.ctc.cuda_plan import plan
from speechctc.ctc.cuda_tuning import Tuning
from speechctc.ctc.nvrtc import Macros

TYPES = (torch.float32, torch.bfloat16)


def precompile_all(folder: Path, architecture: str, tunings: dict[str, str]) -> None:
    """Compile them into a folder, and say how many there are."""
    wanted = {("scale", (("LOGIT_TYPE", kind),)) for kind in range(4)}
    for kernels in (of_benchmarks(tunings, architecture), of_tests(architecture)):
        wanted |= set(kernels)
    made = precompile(sorted(wanted), architecture, folder)
    print(f"{len(wanted)} kernels for {architecture} in {folder}, {made} of them compiled now; there, set")
    print(f"SPEECHCTC_CUBINS={folder}")


def of_benchmarks(tunings: dict[str, str], architecture: str) -> Iterator[tuple[str, Macros]]:
    """The kernels of bench_ctc, with each tuning at its shapes, and of the small problems of prove_cuda."""
    more = "150,40,28,1 150,40,28,128 150,40,28,264 150,20,5000,1 150,20,5000,128 8,2,5,1"
    for tuning, shapes in (*tunings.items(), ("", more)):
        for shape in shapes.split():
            frames, labels, classes, samples = (int(n) for n in shape.split(","))
            for dtype in TYPES:
                size = Size(frames, samples, classes, frames, labels, dtype, packed=False, gradient=True)
                yield from kernels_of(size, architecture, tuning)


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
            yield from kernels_of(size_of(problem, gradient), architecture, case.tuning)
            yield from kernels_of(size_of(problem, gradient), architecture, "")


def kernels_of(size: Size, architecture: str, tuning: str) -> Iterator[tuple[str, Macros]]:
    """What a problem runs on the GPU of an architecture, as the tests of compilation know it."""
    from tests.ctc.test_kernel_compile import GPUS

    chosen = plan(size, GPUS[architecture], Tuning.parse(tuning))
    yield "sweep", chosen.sweep
    if chosen.rows:
        yield "rows", chosen.rows


def _collected(path: str) -> list[pytest.Item]:
    class Collector:
        items: list[pytest.Item] = []

        def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
            self.items = list(items)

    collector = Collector()
    root = Path(__file__).resolve().parent.parent
    quiet = ["-qqq", "-p", "no:cacheprovider", "--assert=plain", "-o", "filterwarnings=default"]
    with contextlib.redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", *quiet, str(root / path)], plugins=[collector])
    return collector.items
