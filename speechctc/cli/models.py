"""Commands on models and configs: export, config."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from speechctc.cli.options import ConfigOption, ModelOption, SettingsArgument, find_model
from speechctc.cli.streams import show


def export_command(
    out: Annotated[Path, typer.Argument(help="The folder to write; a name that ends in .onnx is an ONNX file.")],
    model: ModelOption = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace the folder if it holds an exported model and nothing else; an .onnx file is never replaced.",
        ),
    ] = False,
    lm: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--lm",
            metavar="PLACE",
            help="An n-gram that takes the place of the model's own: an ARPA file, or a model that has one.",
        ),
    ] = None,
) -> None:
    """Write a model to give to others.

    It is a folder for speechctc, or an .onnx file for other programs. A folder has half the size of a checkpoint: no
    training state, no paths of this machine, weights in 16 bits. An ONNX file maps static features to logits.
    """
    from speechctc.core.progress import Reporter
    from speechctc.stages.export import check_out, export

    check_out(out, overwrite)
    size = export(find_model(model), out, overwrite, lm, Reporter())
    show(f"{out}: {size / 1e6:.1f} MB")


def config_command(config: ConfigOption, settings: SettingsArgument = None) -> None:
    """Check a config and print all its keys.

    Defaults are filled in.
    """
    import yaml

    from speechctc.config.load import load_config

    typer.echo(yaml.safe_dump(load_config(config, settings or ()).to_dict(), sort_keys=False), nl=False)
