"""The backends that the tests of the loss run against: the reference, the CPU, the CUDA source on the CPU, a GPU."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import speechctc.ctc
from speechctc.ctc import ctc_loss

FAST = ["cpu", "emulated", pytest.param("cuda", marks=pytest.mark.cuda)]


@dataclass(frozen=True)
class Backend:
    """The public loss with one of its backends."""

    name: str
    device: str

    def loss(self, logits: Tensor, *arguments: Any, **options: Any) -> Tensor:
        """The loss of logits that are brought to the device first."""
        backend = "cuda" if self.name == "emulated" else self.name
        return partial(ctc_loss, backend=backend)(logits.to(self.device), *arguments, **options)

    def both(self, logits: Tensor, *arguments: Any, **options: Any) -> tuple[Tensor, Tensor]:
        """Losses of the samples, and the gradient of their sum, on the CPU."""
        leaf = logits.detach().to(self.device).requires_grad_()
        losses = self.loss(leaf, *arguments, reduction="none", **options)
        (gradient,) = torch.autograd.grad(losses.sum(), leaf)
        return losses.detach().cpu(), gradient.cpu()

    def afford(self, steps: int) -> None:
        """Skip a test that would take this backend long; `steps` are states times frames."""
        limit = {"emulated": 200_000}.get(self.name, steps)
        if steps > limit:
            pytest.skip(f"{steps} steps of the lattice are too many for the {self.name} backend")


@pytest.fixture(params=["reference", *FAST])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Each backend in turn."""
    return _made(request.param, monkeypatch)


@pytest.fixture(params=FAST)
def fast(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    """Each backend that is compared with the reference."""
    return _made(request.param, monkeypatch)


def _made(name: str, monkeypatch: pytest.MonkeyPatch) -> Backend:
    if name == "emulated":
        stub = SimpleNamespace(loss_and_gradient=_emulation())
        monkeypatch.setattr(speechctc.ctc, "cuda", stub, raising=False)
    return Backend(name, "cuda" if name == "cuda" else "cpu")


def _emulation() -> Callable[..., Any]:
    """The CUDA source on the CPU, where it can be compiled."""
    emulation = pytest.importorskip("tests.ctc.emulation", reason="there is no emulation of the CUDA source here")
    if emulation.WHY_NOT is not None:
        pytest.skip(emulation.WHY_NOT)
    return emulation.emulated_loss_and_gradient  # type: ignore[no-any-return]
