"""The section `features.encoder` of the config, and what is read of an encoder's folder without loading it."""

from __future__ import annotations

import functools
import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from speechctc.config.section import Section
from speechctc.core.errors import InputError, first_few
from speechctc.core.files import read_json

FAMILIES = {"wav2vec2": "Wav2Vec2Model", "hubert": "HubertModel", "wavlm": "WavLMModel"}
"""By ``model_type``, the class of transformers; XLS-R and MMS are of the type of wav2vec 2.0."""
ELSEWHERE = "SPEECHCTC_ENCODERS"
"""Environment variable: the folder of an encoder that has moved."""
DEPTH = 2 / 3
"""The default's layer, as a share of the depth: phones are best told from layers above the middle, not from the last
(A. Pasad et al., "Layer-wise analysis of a self-supervised speech representation model", ASRU 2021)."""
_WEIGHTS, _INDEX = "model.safetensors", "model.safetensors.index.json"
_Layer = Annotated[int, Field(ge=1, le=200)]


class EncoderConfig(Section):
    """A pretrained encoder (`features.kind: encoder`), and which of its layers are the features."""

    folder: Path | None = None
    """folder of a pretrained wav2vec 2.0, HuBERT, WavLM, XLS-R or MMS in the form of Hugging Face: config.json,
    preprocessor_config.json and safetensors"""
    layers: _Layer | Annotated[tuple[_Layer, ...], Field(min_length=1)] | Literal["all"] | None = None
    """layer of it, from 1; or a list, or all: the net learns the weights of their mean; null: the layer at two thirds
    of the depth"""
    seconds: float = Field(16.0, ge=4, le=120)
    """seconds of sound that the encoder hears at once; a longer recording in windows of that length, of which two
    thirds are new. Live phones are known up to that much later"""
    sha256: str = Field("", description="its content, which a model needs again; empty: that of the folder")
    size: int = Field(0, ge=0, description="values of a frame of a layer; filled in from the folder")

    @property
    def chosen(self) -> tuple[int, ...]:
        """Return the numbers of the layers; those of the folder are known (see `FeatureConfig`)."""
        return self.layers if isinstance(self.layers, tuple) else (self.layers,) if isinstance(self.layers, int) else ()

    @property
    def is_known(self) -> bool:
        """Return whether all that the folder says is filled in."""
        return bool(self.sha256 and self.size and self.chosen)

    def of_folder(self) -> tuple[EncoderConfig, EncoderFacts]:
        """Return the section with what the folder says filled in, and the rest of that.

        Raises
        ------
        InputError
            No folder is named, it is none of an encoder, or has another content or fewer layers than the section names.
        """
        if self.folder is None:
            raise InputError("features.kind is encoder, and features.encoder.folder is not set", "name its folder")
        folder = Path(os.path.abspath(self.folder))
        if self.sha256:
            folder, facts = find_encoder(self.model_copy(update={"folder": folder}))
        else:
            facts = read_facts(folder)
        layers = self.chosen or (max(round(facts.depth * DEPTH), 1),)
        layers = tuple(range(1, facts.depth + 1)) if self.layers == "all" else layers
        if max(layers) > facts.depth:
            raise InputError(f"{folder}: the encoder has {facts.depth} layers, not {max(layers)}", "name one of these")
        known = {"folder": folder, "layers": layers, "sha256": facts.sha256, "size": facts.size}
        return self.model_copy(update=known), facts


class EncoderFacts(NamedTuple):
    """What an encoder's folder says: type, content, values of a frame, layers, samples of a frame and between two.

    `normalise`: samples are to have mean 0 and deviation 1.
    """

    family: str
    sha256: str
    size: int
    depth: int
    rate: int
    window: int
    shift: int
    normalise: bool


def read_facts(folder: Path) -> EncoderFacts:
    """Read what a folder says about its encoder; all of its weights are read once, for the hash.

    Raises
    ------
    InputError
        It is no folder of an encoder of these families, or has no weights as safetensors.
    """
    if not folder.is_dir():
        raise InputError(
            f"{folder}: no such folder of an encoder",
            "name one; nothing is downloaded unless you ask for it: hf download facebook/hubert-base-ls960 --local-dir"
            " FOLDER",
        )
    return _facts(folder, tuple(_stamp(path) for path in sorted(folder.iterdir()) if path.is_file()))


def _stamp(path: Path) -> tuple[str, int, int]:
    status = path.stat()
    return path.name, status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=8)
def _facts(folder: Path, stamps: tuple[tuple[str, int, int], ...]) -> EncoderFacts:
    """Return what an encoder's files say of it; their sizes and times, `stamps`, are the key of the cache."""
    about, sound = _values(folder / "config.json"), _values(folder / "preprocessor_config.json")
    weights = weight_files(folder)
    if (family := str(about.get("model_type"))) not in FAMILIES:
        raise InputError(f"{folder}: an encoder of the type {family!r:.40}", f"use one of: {', '.join(FAMILIES)}")
    try:
        window, shift = 1, 1
        for kernel, stride in zip(about["conv_kernel"], about["conv_stride"], strict=True):
            window, shift = window + (int(kernel) - 1) * shift, shift * int(stride)
        sizes = int(about["hidden_size"]), int(about["num_hidden_layers"]), int(sound["sampling_rate"])
        normalise = bool(sound["do_normalize"])
        if min(*sizes, window, shift) < 1:
            raise ValueError
    except (LookupError, TypeError, ValueError, OverflowError):
        raise InputError(
            f"{folder}: not the files of an encoder: a size or the rate is missing", "copy it anew"
        ) from None
    digest = hashlib.sha256(json.dumps([_lasting(about), normalise, sizes[2]], sort_keys=True).encode())
    for path in weights:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return EncoderFacts(family, digest.hexdigest(), *sizes, window, shift, normalise)


def weight_files(folder: Path) -> list[Path]:
    """Return the files of an encoder's weights.

    Raises
    ------
    InputError
        There are none, or only pickles, which may run any program when they are opened.
    """
    names = [_WEIGHTS]
    if not (folder / _WEIGHTS).is_file() and (folder / _INDEX).is_file():
        table = _values(folder / _INDEX).get("weight_map")
        names = sorted({str(name) for name in table.values()}) if isinstance(table, dict) else names
    paths = [folder / name for name in names]  # a name that leads elsewhere is none of the folder's
    there = {path for path in folder.iterdir() if path.is_file()}
    if missing := [path.name for path in paths if path not in there]:
        pickles = sorted(path.name for path in folder.iterdir() if path.suffix in (".bin", ".pt", ".pth", ".ckpt"))
        if pickles:
            raise InputError(
                f"{folder}: weights only as a pickle, {pickles[0]}, which is not opened: it may run any program",
                f"get {_WEIGHTS} of the same encoder",
            )
        raise InputError(f"{folder}: no weights, {missing[0]} is missing", "copy or download the whole encoder")
    return paths


def _lasting(about: dict[str, Any]) -> dict[str, Any]:
    """Return a config without what changes when the same encoder is saved again."""
    return {key: value for key, value in about.items() if key[0] != "_" and key != "transformers_version"}


def _values(path: Path) -> dict[str, Any]:
    try:
        values = read_json(path)
    except OSError:
        raise InputError(f"{path}: cannot be read", "copy or download the whole encoder, with this file") from None
    except ValueError:
        values = None
    if not isinstance(values, dict):
        raise InputError(f"{path}: not the JSON of an encoder", "copy or download it again")
    return values


def find_encoder(config: EncoderConfig) -> tuple[Path, EncoderFacts]:
    """Return the folder that has the content which a config names: its own, or that which `ELSEWHERE` names.

    Raises
    ------
    InputError
        It has moved or changed.
    """
    places = [Path(each) for each in (config.folder, os.environ.get(ELSEWHERE)) if each]
    found = [(folder, read_facts(folder)) for folder in places if folder.is_dir()]
    for folder, facts in found:
        if facts.sha256 == config.sha256:
            return folder, facts
    fix = f"name its folder: {ELSEWHERE}=FOLDER in the environment; or train again with another"
    if not found:
        gone = f"{first_few([str(folder) for folder in places]) or 'encoder'}: the encoder of these features"
        raise InputError(f"{gone} is not there any more", fix)
    folder, facts = found[-1]
    contents = f"its content is {facts.sha256[:12]}, not {config.sha256[:12]}"
    raise InputError(f"{folder}: not the encoder of these features: {contents}", fix)
