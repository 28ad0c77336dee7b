"""PyTorch's own loss as a backend, against the reference: infeasible samples, padding, packed frames, shares."""

import pytest
import torch
from torch import Tensor

from speechctc.ctc import ctc_loss
from speechctc.ctc.loss import Reduction

FRAMES, LABELS = [12, 9, 3, 5, 7], [4, 2, 3, 0, 6]  # the third has too few frames for 1 1 1, the fourth no labels
TARGETS = [[1, 2, 2, 5], [3, 1], [1, 1, 1], [], [5, 4, 3, 2, 1, 2]]


def loss_and_gradient(backend: str, logits: Tensor, packed: bool, reduction: Reduction) -> tuple[Tensor, Tensor]:
    leaf = logits.clone().requires_grad_()
    targets = torch.tensor([label for row in TARGETS for label in row])
    rows = torch.cat([leaf[:n, k] for k, n in enumerate(FRAMES)]) if packed else leaf
    loss = ctc_loss(rows, targets, FRAMES, LABELS, 0, reduction, True, backend, packed=packed)
    (loss * torch.arange(1.0, 6.0, dtype=loss.dtype) if reduction == "none" else loss).sum().backward()
    assert leaf.grad is not None
    return loss.detach(), leaf.grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_it_is_the_reference(dtype: torch.dtype, packed: bool, reduction: Reduction) -> None:
    torch.manual_seed(1)
    logits = 3 * torch.randn(12, 5, 6, dtype=dtype)
    logits[9:, 1] = 1e4  # padding; it must count for nothing
    ours, theirs = (loss_and_gradient(backend, logits, packed, reduction) for backend in ("torch", "reference"))
    within = 1e-4 if dtype == torch.float32 else 1e-9
    torch.testing.assert_close(ours[0].double(), theirs[0].double(), rtol=within, atol=within)
    torch.testing.assert_close(ours[1], theirs[1], rtol=within, atol=within)
    assert not ours[1][3:, 2].any() and not ours[1][:, 2].any(), "no path fits: no gradient"
    assert ours[1][:9, 1].any() and not ours[1][9:, 1].any()
