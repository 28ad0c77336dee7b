"""Compiled code where memory is short: it raises MemoryError, and never returns what it did not compute."""

import re
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch

from speechctc.ctc import cpu, ctc_loss, entry, posteriors
from speechctc.ctc.compiler import with_cache
from speechctc.model import maxout_cpu
from tests.ctc.cases import random_case
from tests.forked import Forked

resource = pytest.importorskip("resource", reason="no limits of memory on this system")

LIMITED = """
import ctypes, resource, sys, time
from pathlib import Path
import numpy as np
import torch
torch.set_num_threads(1)
ctypes.CDLL(None).mallopt(-3, 1 << 20)  # M_MMAP_THRESHOLD: what is large is new memory, not what the heap has free

def limit(more):
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))

def fails(call, more=50_000_000):
    limit(more)
    try:
        print("returned", call())
    except MemoryError as error:
        print("short:", error)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def run(folder: Path, script: str) -> list[str]:
    """Run a script in a process of its own; return the lines that it prints."""
    (folder / "limited.py").write_text(LIMITED + script)
    said, errors = folder / "said", folder / "errors"
    assert Forked("limited", cwd=folder, log=said, errors=errors).wait(600) == 0, errors.read_text()
    return said.read_text().splitlines()


only_linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be asked for this")


@only_linux
def test_the_loss_under_a_limit(tmp_path: Path) -> None:
    script = """
from speechctc.ctc import ctc_loss
frames, labels = 6000, 2500
torch.manual_seed(0)
logits = torch.randn(frames, 2, 4, requires_grad=True)
targets = torch.randint(1, 4, (2, labels))
arguments = logits, targets, [frames] * 2, [labels] * 2
float(ctc_loss(logits[:9], targets[:, :2], [9, 9], [2, 2]))  # all is loaded
fails(lambda: ctc_loss(*arguments))
print(1 < ctc_loss(*arguments).item() < 4)  # and what follows is right
"""
    said, right = run(tmp_path, script)
    what = r"short: not enough memory for the lattice of the CTC loss: [\d,.]+ MiB \(2 x 6000 frames, 2500"
    assert re.match(what, said) and right == "True"


@only_linux
def test_its_gradient_under_a_limit(tmp_path: Path) -> None:
    script = """
from speechctc.ctc import ctc_loss
logits = torch.zeros(2000, 1, 1, requires_grad=True).expand(2000, 1, 20000)
ctc_loss(logits[:9, :, :3], torch.ones(1, 2, dtype=int), [9], [2])
for classes in (1000, 20000):  # the gradient is torch's memory, or a block from the system
    part = logits[..., :classes]
    fails(lambda: ctc_loss(part, torch.ones(1, 2, dtype=int), [2000], [2]), 2_000_000)
"""
    said, *others = run(tmp_path, script)
    for line in (said, *others):
        assert line.startswith("short: not enough memory for the gradient of the CTC loss:"), line
    assert len(others) == 1


def test_a_lattice_beyond_all_memory() -> None:
    frames, labels = 8_000_000, 4_000_000  # half a petabyte, more than addresses there are
    logits = torch.zeros(1, 1, 2, requires_grad=True).expand(frames, 1, 2)
    targets = torch.ones(1, labels, dtype=torch.int64)
    with pytest.raises(MemoryError, match=r"MiB \(1 x 8000000 frames, 4000000 labels, 2 classes\)"):
        ctc_loss(logits, targets, [frames], [labels])
    with pytest.raises(MemoryError, match="8000000 frames"):
        posteriors(logits.detach(), targets, [frames], [labels])


@pytest.mark.parametrize(
    "source",
    [
        (entry._source(torch.float32), entry._SIGNATURE),
        (maxout_cpu._source(True, torch.float32), maxout_cpu._SIGNATURE),
        (maxout_cpu._source(False, torch.float32), maxout_cpu._SIGNATURE),
    ],
    ids=["loss", "maxout", "its gradient"],
)
def test_a_callback_takes_no_memory(source: tuple[Any, Any]) -> None:
    # From a callback no exception reaches the caller: what could raise one must not be in it.
    function, signature = source
    assert not allocations(with_cache(numba.cfunc, function, signature, error_model="numpy"))


def test_what_takes_memory_is_seen() -> None:
    assert allocations(numba.cfunc("float64(int64)")(lambda n: np.zeros(n).sum()))


def allocations(compiled: Any) -> set[str]:
    """Return the calls for memory in compiled code; `inspect_llvm` shows nothing of code from the cache."""
    code = str(compiled._library._get_module_for_linking())
    assert "define " in code
    return set(re.findall(r"NRT_\w*[Aa]lloc\w*", code))


@pytest.mark.parametrize("value", [0xFF, 0x7F])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_what_the_workspace_holds_before_does_not_matter(
    dtype: torch.dtype, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for content in (0, value):  # 255: NaN, and exponents of -1; 127: large numbers
        filled = lambda size, content=content, **how: torch.full((size,), content, **how)  # noqa: E731
        monkeypatch.setattr(cpu, "torch", _Torch(filled))
        for seed in range(12):
            torch.manual_seed(seed)
            case = random_case(5 + 31 * seed, 3, 5 + seed, 1 + 7 * seed, temperature=3, dtype=dtype)
            leaf = case.logits.clone().requires_grad_()
            losses = ctc_loss(leaf, *case[1:], reduction="none")
            (gradient,) = torch.autograd.grad(losses[losses.isfinite()].sum(), leaf)
            found.append((losses.detach(), gradient, posteriors(*case)))
    for clean, other in zip(found[:12], found[12:], strict=True):
        assert all(torch.equal(a, b) for a, b in zip(clean, other, strict=True))


class _Torch:
    """torch, with another way to make empty tensors."""

    def __init__(self, empty: object) -> None:
        self.empty = empty

    def __getattr__(self, name: str) -> object:
        return getattr(torch, name)
