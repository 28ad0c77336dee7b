"""Connectionist temporal classification: an exact, fast loss on CPUs and GPUs, posteriors, and Viterbi paths.

`ctc_loss` and `CTCLoss` replace PyTorch's. torch, numba and the CUDA bindings are loaded when first needed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from speechctc.ctc.alignment import ViterbiPath, posteriors, viterbi
    from speechctc.ctc.loss import CTCLoss, ctc_loss

__all__ = ["CTCLoss", "ViterbiPath", "check", "ctc_loss", "is_compiled", "posteriors", "viterbi", "warm_up"]

_HOMES = {"CTCLoss": "loss", "ctc_loss": "loss"} | dict.fromkeys(("ViterbiPath", "posteriors", "viterbi"), "alignment")


def __getattr__(name: str) -> Any:
    """Return what needs torch, which is loaded when it is asked for: alignment uses `graph` without."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import torch  # noqa: F401 - what may be missing
    except ModuleNotFoundError:
        what = "the loss of speechctc.ctc computes with torch, which is not installed"
        raise ModuleNotFoundError(f"{what}; pip install 'torch==2.11.*'", name="torch") from None
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def check(device: torch.device | str | int | None = None) -> None:
    """Wait for a GPU, and raise if a call of the loss on it was given a bad length or label.

    Lengths and labels that lie on a GPU are checked there, and nobody waits for the answer: the next call raises what
    has been found by then. Replays of a CUDA graph make no call. After those, at the end of an epoch, or before the
    losses of a step are trusted, call this.

    Parameters
    ----------
    device : torch.device or str or int, optional
        Which; the current one if not given.

    Raises
    ------
    ValueError
        It names the sample, what is wrong with it, and the value found.
    """
    from speechctc.ctc import cuda

    cuda.check(device)


def is_compiled(dtype: torch.dtype | None = None) -> bool:
    """Return whether the CPU kernel for a type of logits is compiled, in this process or in the cache on disk.

    Compiling takes some seconds, once per machine, version and type: when it is about to happen, say so.

    Parameters
    ----------
    dtype : torch.dtype
        The type of the logits; float32 if not given.
    """
    import torch

    from speechctc.ctc import entry

    return entry.is_compiled(dtype or torch.float32)


def warm_up(dtype: torch.dtype | None = None) -> None:
    """Compile the CPU kernel for logits of a type, or load it from disk; the loss then starts at once.

    Parameters
    ----------
    dtype : torch.dtype
        The type of the logits; float32 if not given.
    """
    import torch

    from speechctc.ctc import entry

    entry.compiled_entry(dtype or torch.float32)
