"""Checkpoints: a trained net and everything needed to use it, in one folder, without pickle.

weights.safetensors    the net's tensors as ``net.*``, and ``normalisation.mean`` / ``normalisation.std``
checkpoint.json        format, config, phones, epoch and step, scores, seed, versions, git revision
lm.safetensors         the n-gram of phones, if the model decodes with one
state.safetensors      the state to resume training from; only in a run's ``last/``

checkpoint.json also has checksums of itself and of the others, as parts of two saves are no checkpoint: a folder that
is copied while a training replaces it may have them.
"""

from __future__ import annotations

import difflib
import functools
import importlib.metadata
import math
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError, model_validator
from safetensors import SafetensorError

from speechctc import __version__
from speechctc.config.load import parse_config
from speechctc.config.schema import Config
from speechctc.core import files
from speechctc.core.bundled import MODELS, NAMES, bundled_folder
from speechctc.core.errors import InputError
from speechctc.core.latest_run import LATEST, latest_run
from speechctc.core.parallel import program
from speechctc.core.tensor_file import (
    CHECKSUMS,
    Arrays,
    check_description,
    load_arrays,
    load_weights,
    packed,
    rounded,
    save_tensors,
    shapes,
    unpacked,
    write_description,
)
from speechctc.lm.model import MAX_STRINGS, PhoneLM
from speechctc.model.layers import is_own, weight_shapes
from speechctc.phones.inventory import Inventory, check_labels

if TYPE_CHECKING:
    from torch import Tensor, nn

FORMAT = 1
# Fact: how often each phone is among the training labels, of a model without an n-gram of its own.
FREQUENCIES = "frequencies"
DESCRIPTION = "checkpoint.json"
WEIGHTS, STATE, NGRAM = TENSORS = ("weights.safetensors", "state.safetensors", "lm.safetensors")
# A training state has a few numbers for each weight, and one for each utterance.
_STATE_PER_WEIGHT, _MOST_STATE = 16, 1 << 28
# The bundled model that is used where none is named and there is no run.
BUILT_IN = MODELS["english"].folder


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a checkpoint folder.

    Attributes
    ----------
    config : Config
    inventory : Inventory
        The phones; class 0 is the blank.
    weights : dict of str to ndarray
        The net's, float32, by name.
    mean, std : ndarray, shape = (channels, static_dims)
        Normalisation of the features, from the training split.
    facts : dict
        Epoch, step, dev scores, seed, versions, git revision; plain values. ``dev_utterances``: the ids of dev, where
        it may have been chosen out of the training utterances.
    state : dict of str to ndarray, or to Tensor when it is saved
        State to resume training from; empty except in a run's ``last/``, and where it was not read.
    lm : PhoneLM, optional
        The n-gram to decode with, over the net's classes.
    """

    config: Config
    inventory: Inventory
    weights: Mapping[str, NDArray[np.float32]]
    mean: NDArray[np.float32]
    std: NDArray[np.float32]
    facts: dict[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    lm: PhoneLM | None = None

    @classmethod
    def of(
        cls,
        config: Config,
        inventory: Inventory,
        net: nn.Module,
        mean: Tensor,
        std: Tensor,
        facts: dict[str, Any] | None = None,
        state: Mapping[str, Tensor] | None = None,
        lm: PhoneLM | None = None,
    ) -> Checkpoint:
        """Return the checkpoint of a net in training: its weights as they are now."""
        arrays = arrays_of({"mean": mean, "std": std})
        weights = arrays_of(net.state_dict())
        return cls(config, inventory, weights, arrays["mean"], arrays["std"], facts or {}, state or {}, lm)

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy is made from: of a model in a small file, weights as small as there."""
        return {**self.__dict__, "weights": packed(self.weights)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Be the copy."""
        self.__dict__.update({**state, "weights": unpacked(state["weights"])})


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, whole or not at all."""
    files.write_folder(folder, lambda draft: fill_checkpoint(draft, checkpoint))


def fill_checkpoint(folder: Path, checkpoint: Checkpoint, small: bool = False) -> None:
    """Write the files of a checkpoint into a folder that no one reads yet; `small`: with weights that are `rounded`."""
    weights: Arrays = {f"net.{name}": tensor for name, tensor in checkpoint.weights.items()}
    lm = {} if checkpoint.lm is None else checkpoint.lm.to_tensors()
    if small:
        weights, lm = rounded(weights), rounded(lm)
    about = {
        "format": FORMAT,
        **checkpoint.facts,
        **provenance(),
        "phones": {"name": checkpoint.inventory.name, "list": list(checkpoint.inventory.phones)},
        "config": checkpoint.config.to_dict(),
    }
    normalisation = {"normalisation.mean": checkpoint.mean, "normalisation.std": checkpoint.std}
    save_tensors(folder / WEIGHTS, weights | normalisation)
    if checkpoint.state:
        save_tensors(folder / STATE, checkpoint.state)
    if lm:
        save_tensors(folder / NGRAM, lm)
    write_about(folder, about)


def write_about(folder: Path, about: Mapping[str, Any]) -> None:
    """Write checkpoint.json; the tensors are there already."""
    write_description(folder / DESCRIPTION, about, TENSORS)


def arrays_of(tensors: Mapping[str, Tensor]) -> Arrays:
    """Return copies of tensors of torch, on the CPU."""
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in tensors.items()}


def load_checkpoint(folder: Path, with_state: bool = False) -> Checkpoint:
    """Read a checkpoint; with `with_state`, also the state to resume training from, which takes twice its memory.

    Raises
    ------
    InputError
        The folder is not a checkpoint, is damaged, or has another format version.
    """
    return files.read_folder(folder, lambda place: read_checkpoint(place, with_state))


def read_inventory(folder: Path) -> Inventory:
    """Read only the phones of a checkpoint; see `load_checkpoint`."""
    phones = _read_whole_about(folder)["phones"]
    return Inventory(phones["name"], tuple(phones["list"]))


def read_config(folder: Path) -> Config:
    """Read only the config of a checkpoint; see `load_checkpoint`."""
    return parse_config(_read_whole_about(folder)["config"], f"{folder}/{DESCRIPTION}")


def read_checkpoint(folder: Path, with_state: bool = False) -> Checkpoint:
    """Read a checkpoint as `load_checkpoint` does, from a folder that `files.read_folder` holds still."""
    about = _read_about(folder)
    config = parse_config(about["config"], f"{folder}/checkpoint.json")
    inventory = Inventory(about["phones"]["name"], tuple(about["phones"]["list"]))
    try:
        _check_weights(folder / WEIGHTS, config, inventory)
        tensors = load_weights(folder / WEIGHTS)
        state = folder / STATE
        most = _MOST_STATE + _STATE_PER_WEIGHT * sum(each.nbytes for each in tensors.values())
        training = load_arrays(state, most) if with_state and state.exists() else {}
        weights = {k.removeprefix("net."): v for k, v in tensors.items() if k.startswith("net.")}
        mean, std = tensors["normalisation.mean"], tensors["normalisation.std"]
        if not (std > 0).all():
            raise ValueError("normalisation.std has a value that is not above 0")
        ngram = folder / NGRAM
        lm = _load_ngram(ngram, len(inventory.phones) + 1) if ngram.exists() else None
        check_description(folder / DESCRIPTION, about, TENSORS if with_state else (WEIGHTS, NGRAM))
    except (OSError, SafetensorError, KeyError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{folder}: the checkpoint is damaged ({reason})", "use another, or train again") from None
    facts = {key: value for key, value in about.items() if key not in ("format", "phones", "config", CHECKSUMS)}
    return Checkpoint(config, inventory, weights, mean, std, facts, training, lm)


def _check_weights(path: Path, config: Config, inventory: Inventory) -> None:
    """Compare the file's header with the shapes of the config's net, before memory is allocated for either.

    Raises
    ------
    ValueError
        The shapes differ.
    """
    features = (config.features.channels, config.features.static_dims)
    found = shapes(path)
    if not is_own(config.model) and len(config.model.convs) + len(config.model.dense) > len(found):
        raise ValueError("fewer weights than layers")
    classes = len(inventory.phones) + 1
    wanted = {f"net.{name}": shape for name, shape in weight_shapes(config, classes).items()}
    wanted |= {"normalisation.mean": features, "normalisation.std": features}
    if found != wanted:
        name = min(name for name in {*found, *wanted} if found.get(name) != wanted.get(name))
        raise ValueError(f"{name} has the shape {found.get(name)}, the config asks for {wanted.get(name)}")


def _load_ngram(path: Path, classes: int) -> PhoneLM:
    """Return the n-gram of a file, whose header is looked at before memory is taken."""
    if max((math.prod(shape) for shape in shapes(path).values()), default=0) > MAX_STRINGS:
        raise ValueError(f"an n-gram of more than {MAX_STRINGS:,} strings")
    return PhoneLM.from_tensors(load_arrays(path), classes)


def find_checkpoint(model: Path | None, or_bundled: bool = False) -> Path:
    """Return the checkpoint folder that ``--model`` names.

    Parameters
    ----------
    model : Path or None
        A checkpoint folder; a run's folder (its ``best``, or ``last`` if there is no best yet); the name of a bundled
        model, unless a folder of that name has a model; or None for the latest run.
    or_bundled : bool
        If `model` is None and there is no latest run, return `BUILT_IN`.

    Raises
    ------
    InputError
        There is no such model.
    """
    if model is None and latest_run() is None:
        if or_bundled and BUILT_IN.is_dir():
            return BUILT_IN
        named = ", ".join(f"{name} ({each.about})" for name, each in MODELS.items())
        fix = f"train one (speechctc train --config demo), or name the folder of one, or a bundled one: {named}"
        raise InputError("no model to use: none was named and there is no latest run here", fix)
    place = model or latest_run() or LATEST
    for folder in (place, place / "best", place / "last"):
        if (files.standing(folder) / "checkpoint.json").is_file():
            return folder
    if (bundled := bundled_folder(model)) is not None:
        return bundled
    what = "no such folder" if not place.exists() else "neither a checkpoint nor a run that has saved one"
    if (place / "run.json").exists():
        raise InputError(f"{place}: its training has saved no model yet", f"wait for its first epoch, or name {NAMES}")
    near = difflib.get_close_matches(str(place).lower(), MODELS, 1)
    meant = f"did you mean {near[0]}? else " if near and not place.exists() else ""
    raise InputError(f"{place}: {what}", f"{meant}name a run's folder, one of its checkpoints, {NAMES}")


class _Phones(BaseModel):
    name: str
    list: Annotated[tuple[str, ...], AfterValidator(check_labels)]


class _Description(BaseModel):
    """The parts of checkpoint.json that loading needs; the others are facts."""

    model_config = ConfigDict(extra="allow")
    phones: _Phones
    config: dict[str, Any]
    frequencies: list[NonNegativeInt] = Field(default=[])

    @model_validator(mode="after")
    def _one_for_each_phone(self) -> _Description:
        if len(self.frequencies) not in (0, len(self.phones.list)):
            raise ValueError(f"{len(self.frequencies)} frequencies of {len(self.phones.list)} phones")
        return self


def _read_about(folder: Path) -> dict[str, Any]:
    try:
        about = files.read_json(folder / DESCRIPTION)
        version = about["format"]
    except (ValueError, PermissionError) as error:
        reason = "no JSON: cut off, or changed" if isinstance(error, ValueError) else error.strerror
        what = f"{folder}: the checkpoint is damaged (checkpoint.json: {reason})"
        raise InputError(what, "use another, or train again") from None
    except (OSError, KeyError, TypeError):
        raise InputError(f"{folder}: not a checkpoint", "name a run's folder or one of its checkpoints") from None
    if version != FORMAT:
        versions = about.get("versions")
        made = versions.get("speechctc") if isinstance(versions, dict) else "another version"
        what = f"a checkpoint of format {version!r:.20} (speechctc {made!s:.20}); this version reads format {FORMAT}"
        raise InputError(f"{folder}: {what}", "use it with the version that made it, or train again")
    try:
        return _Description.model_validate(about).model_dump(exclude_unset=True)
    except ValidationError as error:
        first = error.errors()[0]
        where, why = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        what = ": ".join(filter(None, ("checkpoint.json", where, why)))
        raise InputError(f"{folder}: the checkpoint is damaged ({what})", "use another, or train again") from None


def _read_whole_about(folder: Path) -> dict[str, Any]:
    """Read the description alone, of a folder that a training may replace."""
    about = files.read_folder(folder, _read_about)
    try:
        check_description(folder / DESCRIPTION, about)
    except ValueError as error:
        raise InputError(f"{folder}: the checkpoint is damaged ({error})", "use another, or train again") from None
    return about


def provenance() -> dict[str, Any]:
    """Return the versions and, if the package runs from a git checkout of it, the revision."""
    torch = {"torch": version} if (version := installed("torch")) else {}
    versions = {"speechctc": __version__, **torch, "python": platform.python_version()}
    return {"versions": versions, "git": git_revision(Path(__file__).resolve().parent.parent)}


def installed(name: str) -> str | None:
    """Return the version of a package, which is not loaded for it; None where it is not installed."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@functools.cache
def git_revision(root: Path) -> str | None:
    """Return the git revision of this folder, with the suffix ``-dirty`` if files were changed since; None without git.

    A repository in a parent folder is ignored: it is not the package's. No program that the repository's config names
    is run, and nothing is written.
    """
    repository = root / ".git"
    if not repository.exists() or (git := program("git")) is None:
        return None
    command = [git, "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}"]
    command += [f"--git-dir={repository}", f"--work-tree={root}"]
    command += ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    others = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env = others | {"GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
