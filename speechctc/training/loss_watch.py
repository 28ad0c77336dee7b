"""Sum the losses of the steps and check that they are finite, without making the host wait for the device."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from speechctc.core.errors import InputError
from speechctc.training.chunks import Batch
from speechctc.training.epoch_plan import Indices

EVERY = 16  # steps between two checks on a GPU; each checks the 16 steps before the last 16, which are done by then


class LossWatch:
    """Collects each step's loss; checks it at once on a CPU, some steps later on a GPU.

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
        """Add a step's loss; return the sum of the losses checked by this call.

        Raises
        ------
        InputError
            If a loss is infinite or NaN; the message names the batch and `where`.
        """
        if batch is None:
            return 0.0
        self._new.append((where, batch.indices, loss))
        if len(self._new) < self._every:
            return 0.0
        if self._every == 1:
            return self.flush()
        checked = self._look()
        self._send()
        return checked

    def flush(self) -> float:
        """Check the remaining losses and return their sum. On a GPU this waits for the device.

        Raises
        ------
        InputError
            As `add`.
        """
        checked = self._look()
        self._send()
        return checked + self._look()

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
