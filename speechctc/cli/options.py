"""The options of the commands, described in options.txt; and the model that they name."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
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


def load_recogniser(
    model: Path | None,
    device: Device,
    lms: Sequence[Path] = (),
    lm_weight: float | None = None,
    beam: int | None = None,
    min_modulation_db: float | None = None,
    or_bundled: bool = True,
    inventory: str | None = None,
    language: str | None = None,
) -> Recogniser:
    """Load the model that `find_model` finds, with these language models; its `folder` and `about` say which it is.

    Numbers that are not None replace those of the model's ``decode`` section. It hears only the phones of an inventory
    or a language, if one is given.
    """
    from speechctc.inference.recogniser import ONLY, Recogniser
    from speechctc.inference.variants import restrict, with_language_models
    from speechctc.inference.wanted import find_wanted

    folder, line = _find(model, or_bundled)
    recogniser = with_language_models(
        Recogniser.read(folder, device.value), folder, lms, lm_weight, beam, new_reporter()
    )
    settings = [] if min_modulation_db is None else [f"decode.min_modulation_db={min_modulation_db}"]
    recogniser = recogniser.with_settings(settings)
    name = line.removeprefix("using ")
    recogniser.folder = folder
    about = name if name != line else line[:1].upper() + line[1:]
    if (wanted := find_wanted(inventory, language)) is not None:
        recogniser = restrict(recogniser, wanted, new_reporter())
        recogniser.folder = folder
        about += f"; {recogniser.checkpoint.facts[ONLY]}"
    recogniser.about = about
    return recogniser
