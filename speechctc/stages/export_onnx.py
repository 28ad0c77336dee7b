"""Write a model as ONNX: from static features to logits, for other programs."""

from __future__ import annotations

import importlib.util
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from speechctc import __version__
from speechctc.config.schema import FeatureConfig, ModelConfig
from speechctc.core import files
from speechctc.core.errors import InputError, with_extra
from speechctc.features.extractor import INT16_SCALE
from speechctc.features.padded import net_input
from speechctc.model.checkpoint import Checkpoint
from speechctc.model.layers import is_own
from speechctc.model.net import any_net_of

NEEDED = ("onnx", "onnxscript")
EXAMPLE = (2, 61)  # utterances and frames that the exporter traces; the file accepts any numbers


class OnnxNet(nn.Module):
    """The computation in the file: sliding CMN, derivatives, normalisation and the net.

    Parameters
    ----------
    checkpoint : Checkpoint
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self.config, self.net = checkpoint.config.features, any_net_of(checkpoint).eval()
        self.mean, self.std = (nn.Buffer(torch.from_numpy(each)) for each in (checkpoint.mean, checkpoint.std))

    def forward(self, features: Tensor, frames: Tensor) -> tuple[Tensor, Tensor]:
        """Map static features, (n_batch, max_frames, static_dims), and their lengths to logits and theirs."""
        logits, lengths = self.net(net_input(features, frames, self.mean, self.std, self.config), frames)
        return logits, lengths


def order(config: FeatureConfig) -> list[str]:
    """Return the names of the values of a frame: bands from low to high, or coefficients as in HTK; the energy last."""
    if config.kind == "mel":
        return [f"mel{k}" for k in range(1, config.mels + 1)] + ["energy"] * config.energy
    return [f"c{k}" for k in range(1, config.ceps)] + ["energy" if config.energy else "c0"]


@contextmanager
def _blaming(model: ModelConfig) -> Iterator[None]:
    """Turn an error of torch's exporter into a line that names the user's own net."""
    try:
        yield
    except Exception as error:
        if not is_own(model):
            raise
        why = str(error.__cause__ or error).strip().splitlines() or [type(error).__name__]
        what = f"model.kind={model.kind}: torch.onnx cannot export it: {why[0]:.200}"
        raise InputError(what, "export a folder, or change forward as torch.export asks") from error


def export_onnx(checkpoint: Checkpoint, out: Path) -> int:
    """Write a model as ONNX; return the bytes written.

    Inputs are ``features``, float32, (n_batch, max_frames, static_dims): the static features that
    `features.static_features` makes; and ``frames``, int64, (n_batch,). Outputs are ``logits``, float32, (n_batch,
    max_output_frames, classes), class 0 the blank; and ``lengths``, int64, (n_batch,). The metadata have ``phones`` and
    ``features`` (the settings of the filter bank) as JSON; of log mel energies and cepstral coefficients also
    ``sample_scale``, the factor for samples in [-1, 1] before the filter bank, and ``feature_order``, the names of the
    static features in their order, as JSON.

    Parameters
    ----------
    checkpoint : Checkpoint
    out : Path
        A file; it is replaced if it exists.

    Raises
    ------
    InputError
        A package that the export needs is not installed, or torch cannot export a net of the user's own.
    """
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise InputError(f"{out}: the export needs {' and '.join(missing)}, not installed", with_extra("onnx"))
    # at least 3, as derivatives are traced: else torch finds that out, and traces all again; fewer can be computed
    batch, time = torch.export.Dim("n_batch"), torch.export.Dim("max_frames", min=3)
    example = torch.randn(*EXAMPLE, checkpoint.config.features.static_dims)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with torch.no_grad(), warnings.catch_warnings(), _blaming(checkpoint.config.model):
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
    if checkpoint.config.features.kind in ("mel", "mfcc"):
        # samples in [-1, 1] are multiplied by this before the filter bank
        about |= {"sample_scale": f"{INT16_SCALE:g}", "feature_order": json.dumps(order(checkpoint.config.features))}
    program.model.metadata_props.update(about)
    content = program.model_proto.SerializeToString()
    files.write_bytes(out, content)
    return out.stat().st_size
