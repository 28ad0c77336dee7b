"""speechctc: from recordings and phone labels to a phoneme recogniser."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from speechctc.recognition.recogniser import Recogniser

__version__ = "0.1.0"


def load(model: str | Path | None = None, device: str = "auto") -> Recogniser:
    """Load a trained model to decode and align with.

    Parameters
    ----------
    model : str or Path, optional
        A run's folder (its best is used) or one of its checkpoints; without it, the latest run here.
    device : str
        ``"auto"``, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    Recogniser
        ``decode("a.wav")`` gives phones with times and confidences, ``align("a.wav", ["sh", "iy"])`` places known
        ones, ``logits(samples, rate)`` gives the net's output.

    Raises
    ------
    InputError
        There is no such model, or it is damaged.
    """
    from speechctc.recognition.recogniser import Recogniser  # late: it loads torch

    return Recogniser.load(model, device)
