"""The options of the commands, described in options.txt; and the model that they name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from speechctc.cli.streams import new_reporter, show
from speechctc.core.bundled import NAMES
from speechctc.inference.formats import help_text

if TYPE_CHECKING:
    from speechctc.config.schema import Config
    from speechctc.inference.decoder import Decoder
    from speechctc.inference.recogniser import Recogniser


class Split(str, Enum):
    """The splits that can be scored."""

    train = "train"
    dev = "dev"
    test = "test"


class Device(str, Enum):
    """Devices to compute on; auto is a CUDA GPU if there is one."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


AnyDecoder = TypeVar("AnyDecoder", bound="Decoder")
Command = TypeVar("Command", bound=Callable[..., None])
TEXTS = Path(__file__).with_name("options.txt")
HEAD = re.compile(r"^(?:(.+) )?(\w+):(?: (--[\w/-]+))?(?: (.+?))?(?:, from ([\d.]+)(?: to ([\d.]+))?)?$")
"""Of an entry of `TEXTS`: commands, parameter, option, what stands for the value, the least and the largest number."""


def described(name: str, command: Command) -> Command:
    """Give the parameters of a command of this name the names, ranges and help that `TEXTS` has for them."""
    known = _descriptions()
    parameters = [
        each.replace(annotation=Annotated[each.annotation, known.get((name, each.name)) or known["", each.name]])
        for each in inspect.signature(command, eval_str=True).parameters.values()
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}  # typer reads both
    return command


@cache
def _descriptions() -> dict[tuple[str, str], Any]:
    """Return what typer is told of a parameter, by command (``""``: all others) and parameter."""
    found: dict[tuple[str, str], Any] = {}
    for entry in re.split(r"\n(?=\w)", TEXTS.read_text(encoding="utf-8"))[1:]:
        head, *lines = entry.rstrip().split("\n")
        (commands, name, option, value, *limits), *_ = HEAD.findall(head)
        low, high = (float(limit) if "." in limit else int(limit) if limit else None for limit in limits)
        help = " ".join(map(str.strip, lines)).replace("{models}", NAMES).replace("{formats}", help_text())
        about: dict[str, Any] = {"metavar": value or None, "min": low, "max": high, "help": help}
        info = typer.Option(option, **about) if option else typer.Argument(**about)
        found |= {(command, name): info for command in commands.split(", ")}
    return found


def load_config(config: str, settings: Sequence[str] | None) -> Config:
    """Return the config that is named, with settings of the command line."""
    from speechctc.config.load import load_config as load

    return load(config, settings or ())


def find_model(model: Path | None, or_bundled: bool = False) -> Path:
    """Return the folder of the model that is named, else of the latest run, else the bundled one where allowed."""
    return _find(model, or_bundled)[0]


def _find(model: Path | None, or_bundled: bool) -> tuple[Path, str]:
    from speechctc.stages.used_model import find_and_describe

    folder, line = find_and_describe(model, or_bundled)
    show(line, err=True)
    return folder, line


@dataclass(frozen=True)
class Model:
    """The model of a command, and what it decodes with.

    Attributes
    ----------
    place : Path, optional
        As for `find_model`.
    device : Device
    lms : sequence of Path
        Language models, see `speechctc.inference.variants.with_lms`.
    lm_weight, beam, min_modulation_db
        In place of the numbers of the model's ``decode`` section.
    or_bundled : bool
        As for `find_model`.
    inventory, language : str, optional
        Only phones of these are recognised.
    """

    place: Path | None = None
    device: Device = Device.auto
    lms: Sequence[Path] = ()
    lm_weight: float | None = None
    beam: int | None = None
    min_modulation_db: float | None = None
    or_bundled: bool = True
    inventory: str | None = None
    language: str | None = None


def load_recogniser(model: Model) -> Recogniser:
    """Load a model to decode and align; its `folder` and `about` say which it is."""
    from speechctc.inference.recogniser import Recogniser

    return _load(model, Recogniser.read)


def load_decoder(model: Model) -> Decoder:
    """Load a model to decode, as `load_recogniser`."""
    from speechctc.inference.load import load_decoder as read

    return _load(model, read)


def _load(model: Model, read: Callable[[Path, str], AnyDecoder]) -> AnyDecoder:
    from speechctc.inference.decoder import ONLY
    from speechctc.inference.variants import restrict, with_language_models
    from speechctc.inference.wanted import find_wanted

    folder, line = _find(model.place, model.or_bundled)
    search = model.lms, model.lm_weight, model.beam
    recogniser = with_language_models(read(folder, model.device.value), folder, *search, new_reporter())
    least = model.min_modulation_db
    recogniser = recogniser.with_settings([] if least is None else [f"decode.min_modulation_db={least}"])
    name = line.removeprefix("using ")
    about = name if name != line else line[:1].upper() + line[1:]
    if (wanted := find_wanted(model.inventory, model.language)) is not None:
        recogniser = restrict(recogniser, wanted, new_reporter())
        about += f"; {recogniser.checkpoint.facts[ONLY]}"
    recogniser.folder, recogniser.about = folder, about
    return recogniser
