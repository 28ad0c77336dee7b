"""Connectionist temporal classification: an exact, fast loss on CPUs and GPUs, posteriors, and Viterbi paths.

`ctc_loss` and `CTCLoss` replace PyTorch's. Importing this package loads torch and numpy; numba and the CUDA bindings
are loaded when first needed.
"""

try:
    import torch
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"speechctc.ctc needs torch: pip install 'torch==2.11.*' ({error})", name="torch"
    ) from None

from speechctc.ctc.alignment import ViterbiPath, posteriors, viterbi
from speechctc.ctc.loss import CTCLoss, ctc_loss

__all__ = ["CTCLoss", "ViterbiPath", "check", "ctc_loss", "is_compiled", "posteriors", "viterbi", "warm_up"]


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


def is_compiled(dtype: torch.dtype = torch.float32) -> bool:
    """Return whether the CPU kernel for a type of logits is compiled, in this process or in the cache on disk.

    Compiling takes some seconds, once per machine, version and type: when it is about to happen, say so.

    Parameters
    ----------
    dtype : torch.dtype
        The type of the logits.
    """
    from speechctc.ctc import entry

    return entry.is_compiled(dtype)


def warm_up(dtype: torch.dtype = torch.float32) -> None:
    """Compile the CPU kernel for logits of a type, or load it from disk; the loss then starts at once.

    Parameters
    ----------
    dtype : torch.dtype
        The type of the logits.
    """
    from speechctc.ctc import entry

    entry.compiled_entry(dtype)
