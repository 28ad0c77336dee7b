"""A trained net and all that using it takes, in one folder, loaded without pickle.

weights.safetensors    the net's tensors as ``net.*``, and ``normalisation.mean`` / ``normalisation.std``
checkpoint.json        format, config, phones, epoch and step, scores, seed, versions, git revision
lm.safetensors         of a model that decodes with an n-gram of phones: its tables
state.safetensors      only in a run's ``last/``: what training needs to go on
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from speechctc.config.load import parse_config
from speechctc.config.schema import Config, without_removed
from speechctc.decoding.ngram import PhoneLM
from speechctc.errors import InputError
from speechctc.model.net import MaxoutNet
from speechctc.model.provenance import provenance
from speechctc.phones.inventory import Inventory, check_labels
from speechctc.storage import files
from speechctc.storage.tensor_file import save_tensors

FORMAT = 1
LATEST = Path("runs/latest")
BUILT_IN = Path(__file__).parent.parent / "bundled" / "english"
"""The model that comes with the package; see the README.md in it."""


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint folder holds.

    Attributes
    ----------
    config : Config
    inventory : Inventory
        The phones; class 0 is the blank.
    net : MaxoutNet
    mean, std : Tensor, shape = (channels, static_dims)
        The training corpus's normalisation.
    facts : dict
        Epoch, step, dev scores, seed, versions, git revision; plain values.
    state : dict of str to Tensor
        What training needs to go on; empty but in a run's ``last/``.
    lm : PhoneLM, optional
        The n-gram to decode with, over the classes of the net.
    """

    config: Config
    inventory: Inventory
    net: MaxoutNet
    mean: Tensor
    std: Tensor
    facts: dict[str, Any] = field(default_factory=dict)
    state: Mapping[str, Tensor] = field(default_factory=dict)
    lm: PhoneLM | None = None


def save_checkpoint(folder: Path, checkpoint: Checkpoint, half: bool = False) -> None:
    """Write a checkpoint; whole or not at all. In half precision what is read again is rounded to 11 bits."""
    files.write_folder(folder, lambda draft: fill_checkpoint(draft, checkpoint, half))


def fill_checkpoint(folder: Path, checkpoint: Checkpoint, half: bool = False) -> None:
    """Write a checkpoint's files into a folder that nobody reads yet."""
    tensors = {f"net.{name}": tensor.contiguous() for name, tensor in checkpoint.net.state_dict().items()}
    tensors |= {"normalisation.mean": checkpoint.mean, "normalisation.std": checkpoint.std}
    lm = {} if checkpoint.lm is None else checkpoint.lm.to_tensors()
    if half:
        tensors, lm = _halved(tensors), _halved(lm)
    about = {
        "format": FORMAT,
        **checkpoint.facts,
        **provenance(),
        "phones": {"name": checkpoint.inventory.name, "list": list(checkpoint.inventory.phones)},
        "config": checkpoint.config.to_dict(),
    }
    save_tensors(folder / "weights.safetensors", tensors)
    if checkpoint.state:
        save_tensors(folder / "state.safetensors", checkpoint.state)
    if lm:
        save_tensors(folder / "lm.safetensors", lm)
    text = json.dumps(about, indent=1, ensure_ascii=False) + "\n"
    (folder / "checkpoint.json").write_bytes(text.encode("utf-8", "backslashreplace"))


def load_checkpoint(folder: Path, device: torch.device | None = None) -> Checkpoint:
    """Read a checkpoint onto a device (the CPU by default).

    Raises
    ------
    InputError
        Not a checkpoint, cut off or damaged, or of another format version.
    """
    return files.read_folder(folder, lambda place: _load(place, device or torch.device("cpu")))


def _load(folder: Path, device: torch.device) -> Checkpoint:
    about = _read_about(folder)
    config = parse_config(without_removed(about["config"]), f"{folder}/checkpoint.json")
    inventory = Inventory(about["phones"]["name"], tuple(about["phones"]["list"]))
    try:
        _check_weights(folder / "weights.safetensors", config, inventory)
        tensors = load_file(folder / "weights.safetensors")
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
            raise ValueError("a weight is infinite or no number")
        state = folder / "state.safetensors"
        training = load_file(state) if state.exists() else {}
        net = build_net(config, inventory)
        net.load_state_dict({k.removeprefix("net."): v for k, v in tensors.items() if k.startswith("net.")})
        mean, std = tensors["normalisation.mean"], tensors["normalisation.std"]
        lm = _load_lm(folder / "lm.safetensors", len(inventory.phones) + 1)
    except (OSError, SafetensorError, KeyError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{folder}: the checkpoint is damaged ({reason})", "use another, or train again") from None
    facts = {key: value for key, value in about.items() if key not in ("format", "phones", "config")}
    return Checkpoint(config, inventory, net.to(device), mean.to(device), std.to(device), facts, training, lm)


def _check_weights(path: Path, config: Config, inventory: Inventory) -> None:
    """Compare the file's header with the shapes of the config's net, before memory is taken for either.

    Raises
    ------
    ValueError
        They differ.
    """
    features = (config.features.channels, config.features.static_dims)
    with safe_open(path, framework="pt") as file:
        found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}
    if len(config.model.convs) + len(config.model.dense) > len(found):
        raise ValueError("fewer weights than layers")
    with torch.device("meta"):
        net = build_net(config, inventory)
    wanted = {f"net.{name}": tuple(tensor.shape) for name, tensor in net.state_dict().items()}
    wanted |= {"normalisation.mean": features, "normalisation.std": features}
    if found != wanted:
        name = min(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        raise ValueError(f"{name} has the shape {found.get(name)}, the config asks for {wanted.get(name)}")


def _halved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Round weights to half precision; the normalisation, a few numbers, stays as it is."""
    return {
        name: value.half() if value.is_floating_point() and not name.startswith("normalisation.") else value
        for name, value in tensors.items()
    }


def _load_lm(path: Path, classes: int) -> PhoneLM | None:
    if not path.exists():
        return None
    lm = PhoneLM.from_tensors(load_file(path))
    if lm.log_probs.shape[1] != classes:
        raise ValueError(f"an n-gram over {lm.log_probs.shape[1]} classes, the net has {classes}")
    return lm


def build_net(config: Config, inventory: Inventory) -> MaxoutNet:
    """Make the config's net for these phones, with fresh weights from torch's random state."""
    classes = len(inventory.phones) + 1
    net = MaxoutNet(config.model, config.features.channels, config.features.static_dims, classes)
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def find_checkpoint(model: Path | None, or_built_in: bool = False) -> Path:
    """Return the checkpoint folder that a ``--model`` means.

    Parameters
    ----------
    model : Path or None
        A checkpoint folder, a run's folder (its ``best``, or ``last`` while there is no best), ``english``: the bundled
        model, unless a folder of that name has a model; or None: the latest run.
    or_built_in : bool
        Without a name and a run: the model that comes with the package.

    Raises
    ------
    InputError
        There is none.
    """
    if model is None and not LATEST.exists():
        if or_built_in and BUILT_IN.is_dir():
            return BUILT_IN
        raise InputError(
            "no model to use: none was named and there is no latest run here",
            "train one with speechctc train --config demo, or name one with --model DIR",
        )
    place = model or LATEST.resolve()
    for folder in (place, place / "best", place / "last"):
        if (files.standing(folder) / "checkpoint.json").is_file():
            return folder
    if place == Path(BUILT_IN.name) and BUILT_IN.is_dir():
        return BUILT_IN
    what = "no such folder" if not place.exists() else "neither a checkpoint nor a run that has saved one"
    raise InputError(f"{place}: {what}", "name a run's folder or one of its checkpoints with --model DIR")


def _checked(labels: tuple[str, ...]) -> tuple[str, ...]:
    check_labels(labels)
    return labels


class _Phones(BaseModel):
    name: str
    list: Annotated[tuple[str, ...], AfterValidator(_checked)]


class _About(BaseModel):
    """What of checkpoint.json its reader needs; the rest are facts."""

    model_config = ConfigDict(extra="allow")
    phones: _Phones
    config: dict[str, Any]


def _read_about(folder: Path) -> dict[str, Any]:
    try:
        about = files.read_json(folder / "checkpoint.json")
        version = about["format"]
    except (OSError, ValueError, KeyError, TypeError):
        raise InputError(f"{folder}: not a checkpoint", "name a run's folder or one of its checkpoints") from None
    if version != FORMAT:
        versions = about.get("versions")
        made = versions.get("speechctc") if isinstance(versions, dict) else "another version"
        raise InputError(
            f"{folder}: a checkpoint of format {version!r:.20} (speechctc {made!s:.20}); "
            f"this version reads format {FORMAT}",
            "use it with the version that made it, or train again",
        )
    try:
        return _About.model_validate(about).model_dump()
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InputError(
            f"{folder}: the checkpoint is damaged (checkpoint.json: {where}: {first['msg']})",
            "use another, or train again",
        ) from None
