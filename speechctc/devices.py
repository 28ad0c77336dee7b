"""Which device computes, and in what precision."""

from __future__ import annotations

import torch

from speechctc.errors import InputError


def choose_device(name: str) -> torch.device:
    """Return the device that ``train.device`` means; ``auto`` is CUDA where there is one.

    Raises
    ------
    InputError
        ``cuda`` was asked for and there is none.
    """
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise InputError("train.device=cuda: torch finds no CUDA GPU here", "use train.device=cpu or auto")
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Return a context in which matrix products are done in this precision; weights stay float32."""
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bfloat16")
