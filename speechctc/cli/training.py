"""Commands to prepare, train and give away: start, extract, train, sweep, export, config."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from speechctc.cli import options as opt
from speechctc.cli.options import find_model, load_config, new_reporter, show
from speechctc.core.errors import InputError


def start_command(
    folder: Annotated[Path, Argument(help="The folder of your recordings; nothing in it is changed.")],
    settings: opt.Settings = None,
    out: Annotated[
        Path | None, Option(metavar="CONFIG", help="The config to write. Default: named after the folder.")
    ] = None,
) -> None:
    """Describe recordings, and write a config for them.

    Where no config can be written, the exit status is 1.

    Settings of the section corpus replace what is found: corpus.language=pl for a table of Polish words.
    """
    from speechctc.stages.start import start

    begun = start(folder, out, settings or ())
    show(begun.to_text())
    if begun.config is None:
        raise typer.Exit(1)


def extract_command(
    config: opt.ConfigName,
    settings: opt.Settings = None,
) -> None:
    """Compute the features of a corpus. After an interruption, the same command continues."""
    from speechctc.stages.extract import extract

    loaded = load_config(config, settings)
    for summary in extract(loaded, new_reporter()):
        show(summary.to_text())
    show(f"features in {loaded.data.dir}")


def train_command(
    config: opt.ConfigName,
    settings: opt.Settings = None,
    run: Annotated[Path | None, Option(help="The folder of the run.")] = None,
    resume: Annotated[bool, Option("--resume", help="Continue the run in the folder, if there is one.")] = False,
    profile_steps: Annotated[
        int, Option("--profile", metavar="N", min=0, help="Take only N steps, and print where the time goes.")
    ] = 0,
) -> None:
    """Train a net on extracted features. Ctrl-C saves and stops; --resume continues."""
    loaded = load_config(config, [*(settings or ()), *([f"run={run}"] if run else [])])
    if profile_steps:
        from speechctc.training.step_costs import profile

        show(profile(loaded, profile_steps, new_reporter()).to_text())
        return
    if is_main_process():
        show(f"{loaded.run}: loading torch and the features in {loaded.data.dir}; this takes a while", err=True)
    from speechctc.stages.train import Stopped
    from speechctc.stages.train_runs import train

    try:
        trained = train(loaded, resume, new_reporter())
    except Stopped as stop:
        if is_main_process():
            same = f" and the same settings: {shlex.join(settings)}" if settings else ""
            show(f"stopped; the state is saved in {loaded.run}/last, go on with --resume{same}", err=True)
        raise typer.Exit(stop.status) from None
    if is_main_process():
        if trained.calibration:
            show(trained.calibration.to_text())
        show(f"trained: {loaded.run}/best")


def sweep_command(
    config: opt.ConfigName,
    settings: opt.Settings = None,
    run: Annotated[Path | None, Option(help="The folder for the runs.")] = None,
) -> None:
    """Train every combination of some settings, in turn.

    train.lr=1e-4,3e-4 tries both values. Prints the runs by their PER (phone error rate) on dev, best first. After an
    interruption, the same command continues.
    """
    from speechctc.stages.train import Stopped
    from speechctc.stages.train_runs import sweep, table

    chosen = load_config(config, None).run
    folder = run or chosen.with_name(f"{chosen.name}-sweep")
    try:
        outcomes = sweep(config, settings or (), folder, new_reporter())
    except Stopped as stop:
        show("stopped; the state of its run is saved, and the same command goes on", err=True)
        raise typer.Exit(stop.status) from None
    show(table(outcomes))
    if all(outcome.per is None for outcome in outcomes):
        raise typer.Exit(2)


def is_main_process() -> bool:
    """Return whether this process prints for all, where torchrun started several."""
    return os.environ.get("RANK", "0") == "0"


def export_command(
    out: Annotated[Path, Argument(help="The folder to write; a name that ends in .onnx or .html is a file.")],
    model: opt.Model = None,
    form: Annotated[
        str | None,
        Option(
            "--format",
            metavar="FORMAT",
            help="folder, onnx, or web: a page, index.html in the folder, that recognises in the browser. Default: by "
            "the name.",
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        Option(
            "--overwrite",
            help="Replace the folder if it holds an exported model and nothing else, or an .onnx file, or a page that "
            "was changed by hand.",
        ),
    ] = False,
    lm: Annotated[
        Path | None,
        Option(
            metavar="PLACE",
            help="An n-gram that takes the place of the model's own: an ARPA file, or a model that has one.",
        ),
    ] = None,
    scores: Annotated[
        bool,
        Option(
            "--scores",
            help="The net that scores phones, where a model has one of its own (english), as a model: a page of it "
            "scores.",
        ),
    ] = False,
    dictionary: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="A pronunciation dictionary that a page has with it, so that words can be typed there: CMU's or MFA's "
            "format, or cmudict. Of a large one, the first words that fit into 2 MB.",
        ),
    ] = None,
) -> None:
    """Write a model to give to others.

    It is a folder for speechctc, an .onnx file for other programs, or a page for the browser. A folder has half the
    size of a checkpoint: no training state, no paths of this machine, weights in 16 bits. An ONNX file maps static
    features to logits. A page is one file with the model in it, which needs neither an installation nor a network;
    without --model and without a run here, it has the bundled model of English.
    """
    from speechctc.stages.export import check_out, export, form_of

    form = form_of(out, form)
    if dictionary and form != "web":
        raise InputError(f"{out}: only a page has a dictionary with it", "leave out --dictionary, or give --format web")
    if form == "web":
        from speechctc.stages.export import export_web, page_place

        size = export_web(find_model(model, or_bundled=True), out, overwrite, lm, new_reporter(), scores, dictionary)
        out = page_place(out)
    else:
        check_out(out, overwrite)
        size = export(find_model(model), out, overwrite, lm, new_reporter(), scores)
    show(f"{out}: {size / 1e6:.1f} MB")


def config_command(
    config: opt.ConfigName,
    settings: opt.Settings = None,
) -> None:
    """Check a config and print all its keys.

    Defaults are filled in.
    """
    import yaml

    typer.echo(yaml.safe_dump(load_config(config, settings).to_dict(), sort_keys=False), nl=False)
