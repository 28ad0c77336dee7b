"""What the launching code does between torch and the kernels, with a GPU that is emulated."""

import contextlib
import ctypes
from dataclasses import dataclass, replace
from types import SimpleNamespace

import pytest
import torch

from speechctc.ctc import cuda, reference
from speechctc.ctc.nvrtc import Macros
from tests.ctc import emulation
from tests.ctc.test_kernel_facts import GRADIENT, LOSS, Case

pytestmark = pytest.mark.skipif(emulation.WHY_NOT is not None, reason=str(emulation.WHY_NOT))


@dataclass
class Emulated:
    """A loaded kernel."""

    kernel: str
    macros: Macros

    def launch(self, arguments: bytes, blocks: int, threads: int, shared_bytes: int, stream: int) -> None:
        assert stream == 77
        emulation.launch(self.kernel, self.macros, arguments, blocks, threads, shared_bytes, 0)


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> cuda.Gpu:
    """A GPU whose memory is the host's."""
    gpu = object.__new__(cuda.Gpu)
    gpu.index, gpu.limits = 0, emulation.H200
    gpu._fault = torch.zeros(2, dtype=torch.int64)
    gpu.fault_address = gpu._fault.data_ptr()
    gpu._fault_words = (ctypes.c_uint64 * 2).from_address(gpu.fault_address)
    gpu._tickets = cuda.Tickets(torch.device("cpu"))
    gpu.kernels = {}
    monkeypatch.setattr(cuda.Gpu, "kernel", lambda self, name, macros: Emulated(name, macros))
    monkeypatch.setattr(cuda, "gpu_of", lambda device: gpu)
    monkeypatch.setattr(cuda, "on_device", lambda problem, device: problem)
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda index: None)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=77))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    return gpu


@pytest.mark.parametrize("want_gradient", [True, False])
@pytest.mark.parametrize("classes", [28, 200])
def test_loss_and_gradient(classes: int, want_gradient: bool) -> None:
    problem = Case(60, 2, classes, 20).problem()
    losses, gradient = cuda.loss_and_gradient(problem, want_gradient)
    expected, by_book = reference.loss_and_gradient(problem, want_gradient)
    torch.testing.assert_close(losses.double(), expected, rtol=LOSS, atol=LOSS)
    assert (gradient is None) == (not want_gradient)
    if gradient is not None and by_book is not None:
        torch.testing.assert_close(gradient, by_book, rtol=0, atol=GRADIENT)


def test_a_bad_label_is_reported_by_the_next_call_and_then_forgotten() -> None:
    problem = Case(60, 2, 28, 20).problem()
    bad = problem.targets.clone()
    bad[3] = 99
    losses, gradient = cuda.loss_and_gradient(replace(problem, targets=bad), True)
    assert losses.isinf().tolist() == [True, False]
    assert gradient is not None
    assert (gradient[:, 0] == 0).all()
    with pytest.raises(ValueError, match=r"sample 0: label 99 is the blank or outside 0\.\.27"):
        cuda.loss_and_gradient(problem, True)
    cuda.check(0)
    cuda.loss_and_gradient(problem, True)


def test_a_bad_length_is_reported_by_check() -> None:
    problem = Case(60, 2, 28, 20).problem()
    cuda.loss_and_gradient(replace(problem, input_lengths=torch.tensor([60, 61])), False)
    with pytest.raises(ValueError, match="sample 1: input length 61 is negative or exceeds the frames of the logits"):
        cuda.check()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_scale(dtype: torch.dtype) -> None:
    gradient = torch.randn(3, 5, 7).to(dtype)
    before = gradient.clone()
    assert cuda.scale_(gradient, torch.ones(())) is gradient
    assert torch.equal(gradient, before)
    cuda.scale_(gradient, torch.tensor(-0.3))
    torch.testing.assert_close(gradient, before * -0.3)
    with pytest.raises(ValueError, match=r"scaled by one number, not by a tensor of shape \(2,\)"):
        cuda.scale_(gradient, torch.ones(2))
    cuda.scale_(torch.empty(0, 2, 3), torch.ones(()))
