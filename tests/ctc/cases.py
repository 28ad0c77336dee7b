"""Random problems, and how exact an answer must be."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from speechctc.ctc import ctc_loss

LOSS = 1e-6  # relative, and absolute below 1
GRADIENT = 5e-6


class Case(NamedTuple):
    """A random batch, padded on the side."""

    logits: Tensor
    targets: Tensor
    input_lengths: Tensor
    target_lengths: Tensor


def random_case(
    frames: int,
    samples: int,
    classes: int,
    labels: int,
    *,
    temperature: float = 1.0,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    ragged: bool = True,
) -> Case:
    """Random logits and labels; with `ragged`, lengths from half of the longest on, else all of them the longest."""
    random = torch.Generator().manual_seed(seed)

    def lengths(longest: int) -> Tensor:
        if not ragged:
            return torch.full((samples,), longest)
        return torch.randint(longest // 2, longest + 1, (samples,), generator=random)

    logits = torch.randn(frames, samples, classes, generator=random, dtype=torch.float64) * temperature
    targets = torch.randint(1, classes, (samples, labels), generator=random)
    return Case(logits.to(dtype), targets, lengths(frames), lengths(labels))


def reference(case: Case, **options: Any) -> tuple[Tensor, Tensor]:
    """Losses, and the gradient of their sum, in float64."""
    leaf = case.logits.double().requires_grad_()
    losses = ctc_loss(leaf, *case[1:], reduction="none", backend="reference", **options)
    (gradient,) = torch.autograd.grad(losses.sum(), leaf)
    return losses.detach(), gradient


def assert_close(found: tuple[Tensor, Tensor], wanted: tuple[Tensor, Tensor], *, gradient: float = GRADIENT) -> None:
    """Compare losses and gradients with the float64 reference."""
    torch.testing.assert_close(found[0].double(), wanted[0].double(), rtol=LOSS, atol=LOSS)
    torch.testing.assert_close(found[1].double(), wanted[1].double(), rtol=0, atol=gradient)
