"""Commands on models and configs: export, config."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from speechctc.cli.options import ConfigOption, ModelOption, SettingsArgument, find_model
from speechctc.cli.streams import show


def export_command(
    out: Annotated[Path, typer.Argument(help="The folder to write; a name that ends in .onnx or .html is a file.")],
    model: ModelOption = None,
    form: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="folder, onnx, or web: a page, index.html in the folder, that recognises in the browser. Default: by"
            " the name.",
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite",
            help="Replace the folder if it holds an exported model and nothing else, or a page that was changed by"
            " hand; an .onnx file is never replaced.",
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

    It is a folder for speechctc, an .onnx file for other programs, or a page for the browser. A folder has half the
    size of a checkpoint: no training state, no paths of this machine, weights in 16 bits. An ONNX file maps static
    features to logits. A page is one file with the model in it, which needs neither an installation nor a network;
    without --model and without a run here, it has the bundled model of English.
    """
    from speechctc.core.progress import Reporter
    from speechctc.stages.export import check_out, export, form_of

    form = form_of(out, form)
    if form == "web":
        from speechctc.stages.export_web import export_web, page_place

        size = export_web(find_model(model, or_bundled=True), out, overwrite, lm, Reporter())
        out = page_place(out)
    else:
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
