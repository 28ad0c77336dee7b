"""A trained LSTM in a folder, loaded without pickle.

weights.safetensors    the net's tensors
lm.json                format, phones, settings, epoch, dev perplexity, versions
state.safetensors      only in ``last/``: the state to resume training from
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.tensor_file import load_weights, save_tensors, shapes
from speechctc.lm.lstm import LstmConfig, LstmModel, PhoneLstm
from speechctc.phones.inventory import Inventory, check_labels

FORMAT = 1
ABOUT = "lm.json"


@dataclass(frozen=True)
class SavedLstm:
    """The contents of the folder of an LSTM.

    Attributes
    ----------
    model : LstmModel
    facts : dict
        Epoch, dev perplexity, versions; plain values.
    state : dict of str to Tensor
        State of the optimiser; empty except in ``last/``.
    """

    model: LstmModel
    facts: dict[str, Any] = field(default_factory=dict)
    state: Mapping[str, Tensor] = field(default_factory=dict)


def save_lstm(folder: Path, saved: SavedLstm) -> None:
    """Write a model, whole or not at all."""
    model = saved.model
    about = {
        "format": FORMAT,
        "kind": "lstm",
        **saved.facts,
        "phones": {"name": model.inventory.name, "list": list(model.inventory.phones)},
        "settings": model.config.model_dump(mode="json"),
    }

    def write(beside: Path) -> None:
        weights = {name: value.contiguous() for name, value in model.net.state_dict().items()}
        save_tensors(beside / "weights.safetensors", weights)
        if saved.state:
            save_tensors(beside / "state.safetensors", saved.state)
        (beside / ABOUT).write_text(json.dumps(about, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    files.write_folder(folder, write)


def load_lstm(folder: Path, device: torch.device | None = None) -> SavedLstm:
    """Read a model onto a device (the CPU by default).

    Raises
    ------
    InputError
        It is damaged or has another format version.
    """
    return files.read_folder(folder, lambda place: _load(place, device or torch.device("cpu")))


def _load(folder: Path, device: torch.device) -> SavedLstm:
    try:
        about = files.read_json(folder / ABOUT)
        if about["format"] != FORMAT:
            raise InputError(
                f"{folder}: a language model of format {about['format']}; this version reads format {FORMAT}",
                "use it with the version that made it, or train again",
            )
        config = LstmConfig.model_validate(about["settings"])
        inventory = Inventory(about["phones"]["name"], tuple(about["phones"]["list"]))
        check_labels(inventory.phones)
        _check_weights(folder / "weights.safetensors", len(inventory.phones) + 1, config)
        net = PhoneLstm(len(inventory.phones) + 1, config)
        net.load_state_dict(load_weights(folder / "weights.safetensors"))
        state = load_file(folder / "state.safetensors") if (folder / "state.safetensors").exists() else {}
    except (OSError, SafetensorError, KeyError, TypeError, RuntimeError, ValueError, ValidationError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{folder}: the language model is damaged ({reason})", "use another, or train again") from None
    facts = {key: value for key, value in about.items() if key not in ("format", "kind", "phones", "settings")}
    return SavedLstm(LstmModel(net.to(device).eval(), inventory, config), facts, state)


def _check_weights(path: Path, classes: int, config: LstmConfig) -> None:
    """Compare the file's header with the largest tensors of the config's net, before memory is allocated for either.

    Raises
    ------
    ValueError
        The shapes differ.
    """
    found, last = shapes(path), f"lstm.weight_hh_l{config.layers - 1}"
    wanted = {"embedding.weight": (classes, config.embedding), last: (4 * config.hidden, config.hidden)}
    for name, shape in wanted.items():
        if found.get(name) != shape:
            raise ValueError(f"{name} has the shape {found.get(name)}, the settings ask for {shape}")


def find_lstm(path: Path) -> Path | None:
    """Return the folder of the model in a folder of ``lm train``: itself, its ``best`` or its ``last``."""
    for folder in (path, path / "best", path / "last"):
        if (files.standing(folder) / ABOUT).is_file():
            return folder
    return None
