"""Export a model: only what decoding and alignment need, in half precision or as ONNX."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from speechctc import __version__
from speechctc.alignment import boundary_model as boundaries
from speechctc.alignment.boundary_model import BoundaryModel
from speechctc.config.corpus_config import CorpusConfig
from speechctc.config.load import override, parse_config
from speechctc.config.schema import NO_RUN, Config, FeatureConfig
from speechctc.core import files
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.features.filterbank import net_input
from speechctc.inference.calibration import Calibration
from speechctc.lm import tuned
from speechctc.lm.load import load_lm
from speechctc.lm.model import NgramModel
from speechctc.model.checkpoint import Checkpoint, fill_checkpoint, find_checkpoint, load_checkpoint, read_checkpoint

KEPT = ("epoch", "dev_per", "fold")
WRITTEN = ("weights.safetensors", "checkpoint.json", "lm.safetensors", "calibration.json", boundaries.FILE, tuned.FILE)

ENDINGS = {".onnx": "onnx", ".html": "web"}
NEEDED = ("onnx", "onnxscript")
EXAMPLE = (2, 61)  # utterances and frames that the exporter traces; the file accepts any numbers


def form_of(out: Path, form: str | None) -> str:
    """Return what an export writes, ``folder``, ``onnx`` or ``web``: as it is named, or else by the ending of `out`.

    Raises
    ------
    InputError
        There is no such format, or a file of it ends otherwise.
    """
    meant = ENDINGS.get(out.suffix.lower(), "folder")
    if form not in (None, "folder", *ENDINGS.values()):
        raise InputError(f"--format {form}: there is no such format", "choose from: folder, onnx, web")
    if form not in (None, meant) and (form, meant) != ("web", "folder"):
        raise InputError(f"{out}: by its name this is not of the format {form}", "name another place")
    return form or meant


def check_out(out: Path, overwrite: bool = False) -> None:
    """Check that writing a model replaces nothing else.

    Parameters
    ----------
    out : Path
    overwrite : bool
        Accept a folder that is empty, or holds an exported model and nothing else.

    Raises
    ------
    InputError
        `out` exists and must not be replaced.
    """
    if not os.path.lexists(out):
        return
    if not overwrite:
        raise InputError(f"{out}: exists already", "name another, or give --overwrite to replace an exported model")
    if not out.is_dir():
        raise InputError(f"{out}: a file, not a folder", "name another place")
    names = {path.name for path in out.iterdir()}
    if other := sorted(names - set(WRITTEN)):
        raise InputError(f"{out}: holds more than an exported model ({', '.join(other[:3])})", "name another folder")
    if names and not _is_export(out):
        raise InputError(f"{out}: a checkpoint of a run, not an exported model", "name another folder")


def _is_export(folder: Path) -> bool:
    """Return whether a checkpoint was exported: its config then names no run."""
    try:
        about = files.read_json(folder / "checkpoint.json")
        return about["config"]["run"] is None
    except (OSError, ValueError, KeyError, TypeError):
        return False


def export(
    model: Path | None, out: Path, overwrite: bool = False, lm: Path | None = None, reporter: Reporter | None = None
) -> int:
    """Write a model in half precision, without paths and training state; or, to a name in ``.onnx``, as ONNX.

    Parameters
    ----------
    model : Path or None
        A checkpoint or a run's folder (its best); None: the latest run.
    out : Path
        A folder, or a file whose name ends in ``.onnx``; must not exist.
    overwrite : bool
        Accept an existing folder (see `check_out`).
    lm : Path, optional
        An n-gram that takes the place of the model's own, with the weights that were tuned for it.
    reporter : Reporter, optional
        It says with which weights.

    Returns
    -------
    int
        Bytes written.

    Raises
    ------
    InputError
        There is no such model or n-gram, or `out` exists and must not be replaced.
    """
    check_out(out, overwrite)
    if lm and out.suffix.lower() == ".onnx":
        raise InputError("an ONNX file holds no language model", "leave out --lm, or name a folder")
    folder = find_checkpoint(model)
    checkpoint, calibration, tunings, placer = files.read_folder(
        folder,
        lambda place: (
            read_checkpoint(place, torch.device("cpu")),
            Calibration.load(place),
            tuned.read_tuned(place / tuned.FILE),
            BoundaryModel.load(place),
        ),
    )
    if out.suffix.lower() == ".onnx":
        return export_onnx(checkpoint, out)
    if lm:
        checkpoint = _with_ngram(checkpoint, lm, tunings, reporter or Reporter(quiet=True))
    facts = {key: checkpoint.facts[key] for key in KEPT if key in checkpoint.facts}
    portable = replace(checkpoint, config=_portable(checkpoint.config), facts=facts, state={})

    def fill(draft: Path) -> None:
        fill_checkpoint(draft, portable, half=True)
        if calibration.phones:
            calibration.save(draft)
        if placer is not None:
            placer.save(draft / boundaries.FILE)
        own, rounded = (tuned.identity(lm, None) for lm in (checkpoint.lm, load_checkpoint(draft).lm))
        for entry in tunings:
            lms = rounded if entry["lms"] == own else entry["lms"]
            tuned.write_tuned(draft / tuned.FILE, entry | {"lms": lms})

    files.write_folder(out, fill)
    return sum(file.stat().st_size for file in out.iterdir())


def _with_ngram(
    checkpoint: Checkpoint, path: Path, tunings: Sequence[dict[str, Any]], reporter: Reporter
) -> Checkpoint:
    """Return a checkpoint with another n-gram, and in its config the weights that were tuned for it."""
    model = load_lm(path, checkpoint.inventory)
    if not isinstance(model, NgramModel):
        raise InputError(f"{path}: not an n-gram", "an exported model holds an n-gram; give the LSTM with decode --lm")
    own = tuned.identity(model.lm, None)
    entry = next((each for each in tunings if each["lms"] == own), None)
    # the share of an LSTM that may be added is not that of an n-gram alone, 0
    settings = [each for each in tuned.tuned_settings(entry) if not each.startswith("decode.lm_share=")]
    config = parse_config(override(checkpoint.config.to_dict(), settings), "the model's config with tuned weights")
    weights = f"{path}: weight {config.decode.lm_weight:g}, bonus {config.decode.lm_bonus:g}"
    if entry is None:
        reporter.warn(f"{weights}, as in the model's config; speechctc lm tune --lm {path} finds better ones")
    else:
        reporter.note(f"{weights}, as tuned")
    facts = checkpoint.facts | ({"dev_per": entry["per"]} if entry and entry.get("split") == "dev" else {})
    return replace(checkpoint, lm=model.lm, config=config, facts=facts)


def _portable(config: Config) -> Config:
    """Remove the paths of this machine: the corpus, its features, the run."""
    plain = Config(corpus=CorpusConfig(kind=config.corpus.kind, phones=config.corpus.phones))
    train = config.train.model_copy(update={"init_from": None})
    return config.model_copy(update={"run": NO_RUN, "corpus": plain.corpus, "data": plain.data, "train": train})


class OnnxNet(nn.Module):
    """The computation in the file: sliding CMN, derivatives, normalisation and the net.

    Parameters
    ----------
    checkpoint : Checkpoint
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self.config, self.net = checkpoint.config.features, checkpoint.net.eval()
        self.mean, self.std = nn.Buffer(checkpoint.mean), nn.Buffer(checkpoint.std)

    def forward(self, features: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Map static features, (n_batch, max_frames, static_dims), and their lengths to logits and theirs."""
        logits, lengths = self.net(net_input(features, frames, self.mean, self.std, self.config, delta), frames)
        return logits, lengths


def delta(values: Tensor, frames: Tensor, config: FeatureConfig) -> Tensor:
    """Return the derivative as `filterbank.delta` does, without torchaudio's operators, which ONNX lacks."""
    steps = torch.arange(values.shape[1], device=values.device)
    reach = config.delta_window // 2
    total = torch.zeros_like(values)
    for k in range(1, reach + 1):
        after = torch.minimum(steps + k, frames[:, None] - 1)[:, :, None].expand_as(values)
        before = torch.minimum((steps - k).clamp(min=0), frames[:, None] - 1)[:, :, None].expand_as(values)
        total = total + k * (values.gather(1, after) - values.gather(1, before))
    return total / (reach * (reach + 1) * (2 * reach + 1) / 3)


def export_onnx(checkpoint: Checkpoint, out: Path) -> int:
    """Write a model as ONNX; return the bytes written.

    Inputs are ``features``, float32, (n_batch, max_frames, static_dims): the static features that
    `features.static_features` makes; and ``frames``, int64, (n_batch,). Outputs are ``logits``, float32, (n_batch,
    max_output_frames, classes), class 0 the blank; and ``lengths``, int64, (n_batch,). The metadata have ``phones`` and
    ``features`` (the settings of the filter bank) as JSON.

    Parameters
    ----------
    checkpoint : Checkpoint
        On the CPU.
    out : Path
        A file that does not exist yet.

    Raises
    ------
    InputError
        A package that the export needs is not installed.
    """
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise InputError(f"{out}: the export needs {' and '.join(missing)}, not installed", "pip install '.[onnx]'")
    batch, time = torch.export.Dim("n_batch"), torch.export.Dim("max_frames")
    example = torch.randn(*EXAMPLE, checkpoint.config.features.static_dims)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about the exporter's own use of torch
        program = torch.onnx.export(
            OnnxNet(checkpoint).eval(),
            (example, torch.tensor([EXAMPLE[1], EXAMPLE[1] - 10])),
            input_names=["features", "frames"],
            output_names=["logits", "lengths"],
            dynamic_shapes={"features": {0: batch, 1: time}, "frames": {0: batch}},
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    about = {
        "speechctc": __version__,
        "phones": json.dumps(list(checkpoint.inventory.phones), ensure_ascii=False),
        "features": json.dumps(checkpoint.config.features.model_dump(mode="json")),
    }
    program.model.metadata_props.update(about)
    content = program.model_proto.SerializeToString()
    files.write_file(out, lambda beside: _write(beside, content))
    return out.stat().st_size


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
