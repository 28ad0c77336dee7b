"""The CPU backend as a neighbour: of other threads, of forks, of memory, of processors, of numba's cache."""

import multiprocessing
import os
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numba
import pytest
import torch
from torch import Tensor

from speechctc.ctc import cpu, ctc_loss, entry, threads
from speechctc.ctc.problem import make_problem
from tests.ctc.cases import Case, random_case, reference
from tests.forked import Forked

PACKAGE = Path(__file__).resolve().parent.parent.parent


def both(case: Case) -> tuple[Tensor, Tensor]:
    """Losses, and the gradient of their sum."""
    leaf = case.logits.clone().requires_grad_()
    losses = ctc_loss(leaf, *case[1:], reduction="none", backend="cpu")
    (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    return losses.detach(), gradient


@pytest.fixture
def two_threads() -> object:
    """Let torch, and so the loss, use two threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def case() -> Case:
    """Enough work to be shared."""
    return random_case(300, 17, 40, 30, temperature=4)


@pytest.mark.parametrize("openmp", [True, False])
def test_any_number_of_threads_gives_the_same_bits(
    case: Case, openmp: bool, two_threads: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not openmp:
        monkeypatch.setattr(threads, "openmp", lambda: None)
    elif threads.openmp() is None:
        pytest.skip("torch has no OpenMP with GNU's interface here")
    shared = both(case)
    torch.set_num_threads(1)
    alone = both(case)
    assert torch.equal(shared[0], alone[0]) and torch.equal(shared[1], alone[1])


def test_work_is_shared(case: Case, two_threads: None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    both_here = threading.Barrier(2, timeout=600)  # a single thread would wait for the other in vain
    solve = entry.compiled_entry(torch.float32)

    def look(address: int) -> None:
        both_here.wait()
        asked.append(threading.get_ident())
        solve(address)

    monkeypatch.setattr(threads, "openmp", lambda: None)
    monkeypatch.setattr(entry, "compiled_entry", lambda dtype: look)
    both(case)
    assert len(set(asked)) == 2


def test_several_callers_at_once(case: Case, two_threads: None) -> None:
    expected = both(case)
    with ThreadPoolExecutor(4) as callers:
        for losses, gradient in callers.map(lambda _: both(case), range(12)):
            assert torch.equal(losses, expected[0]) and torch.equal(gradient, expected[1])


def _in_child(results: "multiprocessing.Queue[float]", case: Case) -> None:
    # Straight to the backend: other operators of torch would wait for threads that the child does not have.
    results.put(float(cpu.loss_and_gradient(make_problem(*case), True)[0].sum()))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_after_a_fork(case: Case, two_threads: None) -> None:
    expected = float(both(case)[0].sum())  # brings up the threads that the child will not have
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_in_child, args=(results, case))
    child.start()
    try:
        assert results.get(timeout=600) == expected
    finally:
        child.kill()
        child.join()


def test_peak_memory(tmp_path: Path) -> None:
    # The whole process, on the system where it can be asked: alpha of one sample, and the gradient.
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("the highest mark of memory cannot be reset on this system")
    script = """
import torch
from pathlib import Path
from speechctc.ctc import ctc_loss
torch.set_num_threads(1)
def highest():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024
def run(frames, labels):
    logits = torch.randn(frames, 2, 62, requires_grad=True)
    targets = torch.randint(1, 62, (2, labels))
    Path("/proc/self/clear_refs").write_text("5")
    before = highest()
    torch.autograd.grad(ctc_loss(logits, targets, [frames] * 2, [labels] * 2), logits)
    return highest() - before
run(100, 10)
print(run(3000, 1000))
"""
    used = int(run_forked(tmp_path, script))
    alpha, gradient = 3000 * 2001 * 8, 3000 * 2 * 62 * 4
    assert 0.9 * alpha < used < 1.05 * (alpha + gradient) + 2e6


def run_forked(folder: Path, script: str, **environment: str) -> str:
    """Run a script in a process of its own; return what it prints."""
    (folder / "asked.py").write_text(script)
    said, errors = folder / "said", folder / "errors"
    said.write_text("")
    process = Forked("asked", cwd=folder, log=said, errors=errors, environment=environment)
    assert process.wait(600) == 0, errors.read_text()
    return said.read_text().strip()


def test_import_loads_torch_and_numpy_only() -> None:
    script = """
import sys
import torch, numpy
before = set(sys.modules)
import speechctc.ctc
new = {name for name in set(sys.modules) - before if not name.startswith(("torch.", "numpy."))}
ours = {name for name in new if name.split(".")[0] == "speechctc"}
light = ("", ".alignment", ".arguments", ".autograd", ".loss", ".problem", ".reference")
allowed = {"speechctc"} | {f"speechctc.ctc{part}" for part in light}
assert ours <= allowed, ours - allowed
assert not {"numba", "llvmlite", "cuda"} & {name.split(".")[0] for name in new}
print("fine")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=PACKAGE, timeout=600)
    assert done.stdout.strip() == "fine", done.stderr


COLD = """
import logging, numba, torch
numba.config.reload_config()  # the environment is newer
from speechctc.ctc import ctc_loss, is_compiled, warm_up
heard = []
logging.getLogger("speechctc.ctc.compiler").addFilter(heard.append)
known = is_compiled(torch.DTYPE)
warm_up(torch.DTYPE)
logits = (torch.linspace(-3, 3, 240).reshape(8, 2, 15).cos() * 4).to(torch.DTYPE)
logits.requires_grad_()
loss = ctc_loss(logits, torch.tensor([[1, 2, 2], [3, 4, 5]]), [8, 7], [3, 2])
loss.backward()
print(known, is_compiled(torch.DTYPE), len(heard), loss.item(), logits.grad.double().abs().sum().item())
"""


def test_cache_and_an_old_processor(tmp_path: Path) -> None:
    # A processor without AVX or F16C, whose code lands in a folder of its own: compiled once, then found.
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": ""}
    script = COLD.replace("torch.DTYPE", "torch.float16")
    first, second = (run_forked(tmp_path, script, **environment).split() for _ in range(2))
    assert first[:3] == ["False", "True", "1"] and second[:3] == ["True", "True", "0"]  # compiling is announced, once
    assert first[3:] == second[3:]
    here = run_forked(tmp_path, script).split()
    rounding = torch.finfo(torch.float16).eps
    assert [float(x) for x in first[3:]] == pytest.approx([float(x) for x in here[3:]], rel=rounding)


def test_a_change_in_any_file_that_is_compiled_compiles_anew() -> None:
    found, left = set(), [Path(entry.__file__)]
    while left:
        found.add(path := left.pop())
        modules = re.findall(r"^from speechctc\.ctc\.(\w+) import", path.read_text(), re.MULTILINE)
        left += {path.with_name(f"{module}.py") for module in modules} - found
    loading = {path.with_name(name) for name in ("cache.py", "compiler.py")}  # not compiled
    assert found - loading == set(entry.MADE_OF)


def test_no_folder_to_write_to(monkeypatch: pytest.MonkeyPatch) -> None:
    def cfunc(signature: object, cache: bool = False, **options: object) -> object:
        if cache:  # what numba does where neither its own folders nor the user's can be written to
            raise RuntimeError("cannot cache function: no locator available")
        return lambda function: SimpleNamespace(ctypes="compiled for this process")

    monkeypatch.setattr(numba, "cfunc", cfunc)
    assert entry.compiled_entry.__wrapped__(torch.float32) == "compiled for this process"


@pytest.mark.parametrize(("dtype", "frames"), [(torch.float32, 110), (torch.bfloat16, 220)])
def test_gradient_of_a_large_batch(dtype: torch.dtype, frames: int) -> None:
    # Beyond the size from which it is written past the caches, rows beginning at any place in a cache line.
    case = random_case(frames, 3, 13003, 4, dtype=dtype)
    wanted = reference(case)
    losses, gradient = both(case)
    torch.testing.assert_close(losses.double(), wanted[0], rtol=1e-6, atol=0)
    rounding = 2**-8 * wanted[1].abs() if dtype == torch.bfloat16 else 0
    assert ((gradient.double() - wanted[1]).abs() <= 5e-6 + rounding).all()
    for sample, length in enumerate(case.input_lengths):
        assert not gradient[length:, sample].any()
