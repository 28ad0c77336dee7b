"""Losses of past steps, summed and watched for values that are no numbers, without the host waiting for the device."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from speechctc.errors import InputError
from speechctc.training.chunks import Batch
from speechctc.training.epoch_plan import Indices

EVERY = 16  # steps between two looks on a GPU; what is looked at is as old again, and has long been computed


class LossWatch:
    """Takes each step's loss; on a CPU it is looked at on the spot, on a GPU some steps later.

    Parameters
    ----------
    ids : list of str
        Names of the utterances.
    device : torch.device
    """

    def __init__(self, ids: list[str], device: torch.device) -> None:
        self.ids = ids
        self._every = EVERY if device.type == "cuda" else 1
        self._new: list[tuple[str, Indices, Tensor]] = []
        self._sent: list[tuple[str, Indices, Tensor]] = []
        self._values: Tensor | None = None
        self._arrived: torch.cuda.Event | None = None

    def add(self, where: str, batch: Batch | None, loss: Tensor) -> float:
        """Take a step's loss; return the sum of those looked at now.

        Raises
        ------
        InputError
            One of them is infinite or no number; it names the batch and `where` it came.
        """
        if batch is None:
            return 0.0
        self._new.append((where, batch.indices, loss))
        if len(self._new) < self._every:
            return 0.0
        if self._every == 1:
            return self.flush()
        looked_at = self._look()
        self._send()
        return looked_at

    def flush(self) -> float:
        """Look at all that is left; return its sum. On a GPU this waits for the device.

        Raises
        ------
        InputError
            As `add`.
        """
        looked_at = self._look()
        self._send()
        return looked_at + self._look()

    def _send(self) -> None:
        self._sent, self._new = self._new, []
        if not self._sent:
            return
        values = torch.stack([loss for _, _, loss in self._sent])
        self._values = values
        if values.device.type == "cuda":
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def _look(self) -> float:
        if not self._sent or self._values is None:
            return 0.0
        if self._arrived is not None:
            self._arrived.synchronize()
        total = 0.0
        for (where, indices, _), value in zip(self._sent, self._values.tolist(), strict=True):
            if not math.isfinite(value):
                raise self._not_finite(where, indices, value)
            total += value
        self._sent = []
        return total

    def _not_finite(self, where: str, indices: Indices, value: float) -> InputError:
        names = [self.ids[int(index)] for index in indices]
        named = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
        return InputError(
            f"the loss became {value} at {where}, in the batch of {named}",
            "lower train.lr, or look at these recordings; last/ in the run's folder holds the last good state",
        )
