"""The net that scores phones, where it is not the model's own: the last layers of a bundled model, taught otherwise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from safetensors import SafetensorError

from speechctc.core.bundled import MODELS
from speechctc.core.errors import InputError
from speechctc.core.tensor_file import load_weights
from speechctc.model.checkpoint import Checkpoint, read_checkpoint
from speechctc.model.layers import weight_shapes
from speechctc.phones.inventory import Inventory

FILE = "judge.safetensors"  # in a checkpoint's folder: weights that take the place of those of the model `BASE`
BASE = "ipa"


def judge_of(folder: Path) -> Path | None:
    """Return the file of a judge in a checkpoint's folder, if there is one."""
    return folder / FILE if (folder / FILE).exists() else None


def load_judge(path: Path, inventory: Inventory) -> Checkpoint:
    """Return the net of a judge, of the phones of the model that it belongs to.

    Raises
    ------
    InputError
        The file is damaged, or of other phones.
    """
    base = read_checkpoint(MODELS[BASE].folder)
    try:
        weights = {**base.weights, **load_weights(path)}
        wanted = weight_shapes(base.config, len(inventory.phones) + 1)
        if {name: each.shape for name, each in weights.items()} != wanted:
            raise ValueError
    except (OSError, SafetensorError, ValueError):
        fix = "delete it, then run speechctc calibrate: the model itself scores"
        raise InputError(f"{path}: not a net that scores phones of this model", fix) from None
    return replace(base, inventory=inventory, weights=weights, lm=None)
