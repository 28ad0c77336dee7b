"""Train phoneme recognisers from recordings and phone labels, and use them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from speechctc.inference.recogniser import Recogniser

__version__ = "0.1.0"


def load(model: str | Path | None = None, device: str = "auto") -> Recogniser:
    """Load a trained model to decode and align with.

    Parameters
    ----------
    model : str or Path, optional
        The folder of a run (its best checkpoint is used) or of a checkpoint; ``"english"`` or
        ``"ipa"``: a bundled model, unless a folder of that name in the working directory has a model, of which a
        warning tells. Default: the latest run in the working directory, or else ``"english"``.
    device : {"auto", "cpu", "cuda"}

    Returns
    -------
    Recogniser
        Its methods `decode` and `align` take files or samples, `logits` takes samples.

    Raises
    ------
    InputError
        There is no such model, or it is damaged.

    Examples
    --------
    >>> import numpy as np
    >>> import speechctc
    >>> model = speechctc.load("english", "cpu")
    >>> len(model.phones), model.phones[:3]
    (39, ('aa', 'ae', 'ah'))
    >>> model.decode(np.zeros(16000), 16000)
    <Recognition of 'samples', 1.00 s, 0 phones: >
    """
    from speechctc.bundled import bundled_folder
    from speechctc.inference.recogniser import Recogniser  # late: it loads torch
    from speechctc.model.checkpoint import find_checkpoint

    bundled = bundled_folder(model)
    if bundled is not None and (own := find_checkpoint(Path(bundled.name))) != bundled:
        warnings.warn(f"{model!s}: the model in the folder {own.resolve()}, not the bundled one", stacklevel=2)
    return Recogniser.load(model, device)
