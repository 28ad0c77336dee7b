"""Norms of the gradients of an epoch's steps, summed on the device: the host never waits for them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn


class GradientNorms:
    """Mean and largest norm of the gradient, and the share of steps whose gradient was clipped.

    Parameters
    ----------
    device : torch.device
    limit : float
        Largest norm that is not clipped; 0: none is.

    Attributes
    ----------
    totals : Tensor, shape = (5,), float64
        Sum of the finite norms, their number, the number of clipped ones, the number of steps, the largest norm.
    """

    def __init__(self, device: torch.device, limit: float) -> None:
        self.limit = limit or math.inf
        self.totals = torch.zeros(5, dtype=torch.float64, device=device)

    def clip(self, parameters: Iterable[nn.Parameter]) -> None:
        """Measure the norm of the gradients, and clip them to the limit, if there is one."""
        with_gradient = [parameter for parameter in parameters if parameter.grad is not None]
        if self.limit < math.inf:
            norm = torch.nn.utils.clip_grad_norm_(with_gradient, self.limit)
        else:
            norm = torch.nn.utils.get_total_norm([p.grad for p in with_gradient if p.grad is not None])
        self._add(norm.detach().double())

    def _add(self, norm: Tensor) -> None:
        finite = norm.isfinite()  # it is not in steps that the scaler of float16 skips
        value = torch.where(finite, norm, 0.0)
        one = torch.ones_like(value)
        self.totals[:4] += torch.stack([value, finite.double(), (value > self.limit).double(), one])
        self.totals[4] = torch.maximum(self.totals[4], value)

    def summary(self) -> dict[str, float]:
        """Return the values for ``metrics.jsonl``. On a GPU this waits for the device."""
        total, finite, clipped, steps, largest = self.totals.tolist()
        return {
            "gradient_norm": total / max(finite, 1),
            "gradient_norm_max": largest,
            "clipped_share": clipped / max(steps, 1),
        }

    def reset(self) -> None:
        """Begin an epoch."""
        self.totals.zero_()
