"""Open a model: the one way in which every command, the studio and Python come to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from speechctc.config.encoder import find_encoder
from speechctc.core import files
from speechctc.core.devices import recognition_device
from speechctc.core.progress import Reporter
from speechctc.inference.decoder import ONLY, Decoder
from speechctc.inference.load import with_lms
from speechctc.lm.tuned import lm_settings
from speechctc.model.checkpoint import Checkpoint
from speechctc.model.layers import is_own
from speechctc.model.numpy_net import NumpyNet
from speechctc.stages.used_model import find_and_describe

if TYPE_CHECKING:
    from speechctc.model.net import TorchNet

AnyDecoder = TypeVar("AnyDecoder", bound=Decoder)


@dataclass(frozen=True)
class ModelChoice:
    """How a model is opened: where it computes, and what it decodes with.

    Attributes
    ----------
    device : str
        ``"auto"``: a CUDA GPU if there is one; on the CPU torch is not needed.
    lms : sequence of Path
        Language models, see `speechctc.inference.load.with_lms`.
    lm_weight : float, optional
        Weight of the language models; 0: decode without them. By default that which ``lm tune`` saved for the model
        and these, or else ``decode.lm_weight``.
    beam : int, optional
        Hypotheses to keep; turns on the prefix search even without a language model.
    min_modulation_db, dereverb
        In place of the settings of the model's ``decode`` section.
    inventory, language : str, optional
        Only phones of these are recognised, see `speechctc.inference.restriction.find_requested`.
    or_bundled : bool
        Where no model is named and there is no run, take the bundled English.
    is_tuned : bool
        Use the settings that ``lm tune`` saved.
    """

    device: str = "auto"
    lms: Sequence[Path] = ()
    lm_weight: float | None = None
    beam: int | None = None
    min_modulation_db: float | None = None
    dereverb: str | None = None
    inventory: str | None = None
    language: str | None = None
    or_bundled: bool = True
    is_tuned: bool = True


def open_model(
    place: str | Path | None,
    kind: type[AnyDecoder],
    choice: ModelChoice = ModelChoice(),  # noqa: B008
    reporter: Reporter | None = None,
) -> AnyDecoder:
    """Open a model to decode with, or to align with, too; its `folder` and `about` say which it is.

    Parameters
    ----------
    place : str, Path or None
        The folder of a run (its best checkpoint is used) or of a checkpoint, or the name of a bundled model; see
        `speechctc.model.checkpoint.find_checkpoint`.
    kind : type
        `Decoder`, or `speechctc.inference.recogniser.Recogniser`, which also aligns and has more to read.
    choice : ModelChoice
    reporter : Reporter, optional
        Receives a line on the model, the tuned settings that are used, and what is to be said of its language models
        and its phones. By default only of these, on standard error.

    Raises
    ------
    InputError
        There is no such model or device, the model is damaged or of another version, the encoder of its features has
        moved or changed; a language model cannot be read or has other phones, or a weight is given and there is none;
        a setting is out of range; there are no such phones.
    """
    folder, line = find_and_describe(None if place is None else Path(place), choice.or_bundled)
    if reporter:
        reporter.note(line)
    about = line.partition("using ")[2]  # without why it is used
    model = _with_search(_read(kind, folder, about, choice.device), choice, reporter)
    own = {"min_modulation_db": choice.min_modulation_db, "dereverb": choice.dereverb}
    model = model.with_settings([f"decode.{key}={value}" for key, value in own.items() if value is not None])
    if choice.inventory is None and choice.language is None:
        return model
    from speechctc.inference.restriction import find_requested, restrict  # late: few ask for it

    if wanted := find_requested(choice.inventory, choice.language):
        model = restrict(model, wanted, reporter or Reporter())
    return model.replaced(about=f"{about}; {model.checkpoint.facts[ONLY]}")


def _read(kind: type[AnyDecoder], folder: Path, about: str, device: str) -> AnyDecoder:
    """Read what is in the folder of a checkpoint, which holds still meanwhile."""
    chosen = recognition_device(device)
    own: dict[str, Any] = {"device": chosen, "folder": folder, "about": about, "net": partial(net_on, chosen)}
    model = files.read_folder(folder, lambda place: kind(**kind.parts(place), **own))
    if model.config.features.kind == "encoder":
        find_encoder(model.config.features.encoder)  # before the first recording
    return model


def net_on(device: str, checkpoint: Checkpoint) -> NumpyNet | TorchNet:
    """Return the net of a checkpoint: in numpy on the CPU, in torch elsewhere and for a net of one's own."""
    if device == "cpu" and not is_own(checkpoint.config.model):
        return NumpyNet(checkpoint)
    from speechctc.model.net import TorchNet

    return TorchNet(checkpoint, device)


def _with_search(model: AnyDecoder, choice: ModelChoice, reporter: Reporter | None) -> AnyDecoder:
    """Return a model with its language models, and with the settings of the search."""
    model = with_lms(model, choice.lms, reporter or Reporter())
    settings = list[str]()
    if choice.is_tuned and model.folder:
        say = reporter.note if reporter else lambda line: None
        settings = lm_settings(model.folder, model.checkpoint.lm, model.lstm, choice.lm_weight, say)
    beam = [] if choice.beam is None else [f"decode.beam={choice.beam}", "decode.search=beam"]
    return model.with_settings(settings + beam)
