"""The command line: parse, load the config, call one stage. No arithmetic, and no torch until a stage needs it."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import typer

from speechctc import __version__
from speechctc.errors import InputError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Train phoneme recognisers from recordings and phone labels, and use them.",
)

ConfigOption = Annotated[str, typer.Option("--config", help="A YAML file, or the name of one that comes along: demo.")]
Settings = Annotated[
    Optional[list[str]],  # noqa: UP045 (typer reads annotations at run time, on Python 3.10 too)
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings laid over the config: train.epochs=3"),
]
ModelOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--model", help="A checkpoint or a run's folder (its best); without it the latest run."),
]


class Split(str, Enum):
    """The splits that can be scored."""

    train = "train"
    dev = "dev"
    test = "test"


class Format(str, Enum):
    """How decoded phones are written."""

    text = "text"
    json = "json"


@app.command()
def extract(config: ConfigOption, settings: Settings = None) -> None:
    """Turn a corpus's recordings into features on disk. Interrupted, it goes on where it was."""
    from speechctc.config import load_config
    from speechctc.extract import extract as run_stage
    from speechctc.progress import Reporter

    loaded = load_config(config, settings or ())
    for summary in run_stage(loaded, Reporter()):
        typer.echo(summary.to_text())
    typer.echo(f"features in {loaded.data.dir}")


@app.command()
def train(
    config: ConfigOption,
    settings: Settings = None,
    run: Annotated[Optional[Path], typer.Option("--run", help="The run's folder.")] = None,  # noqa: UP045
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder, if there is one.")
    ] = False,
) -> None:
    """Train a net on extracted features. Ctrl-C saves; --resume goes on from there."""
    from speechctc.config import load_config
    from speechctc.progress import Reporter

    loaded = load_config(config, [*(settings or ()), *([f"run={run}"] if run else [])])
    from speechctc.train import Stopped
    from speechctc.train import train as run_stage

    try:
        run_stage(loaded, resume, Reporter())
    except Stopped as stop:
        typer.echo(f"stopped; the state is saved in {loaded.run}/last, go on with --resume", err=True)
        raise typer.Exit(stop.status) from None
    typer.echo(f"trained: {loaded.run}/best")


@app.command()
def evaluate(
    settings: Settings = None,
    model: ModelOption = None,
    split: Annotated[Split, typer.Option("--split", help="Which split to score.")] = Split.test,
    json_file: Annotated[Optional[Path], typer.Option("--json", help="Write the score there too.")] = None,  # noqa: UP045
) -> None:
    """Score a model on a split: phone error rate, substitutions, deletions, insertions, and the protocol."""
    from speechctc import files
    from speechctc.evaluate import evaluate as run_stage
    from speechctc.progress import Reporter
    from speechctc.recogniser import Recogniser

    result = run_stage(Recogniser.load(model), split.value, settings or (), Reporter())
    typer.echo(result.to_text())
    if json_file:
        files.write_json(json_file, result.to_dict())


@app.command()
def decode(
    audio: Annotated[list[Path], typer.Argument(help="Recordings, in any format and at any rate.")],
    model: ModelOption = None,
    form: Annotated[Format, typer.Option("--format", help="A line of phones per file, or JSON.")] = Format.text,
) -> None:
    """Recognise the phones of recordings."""
    from speechctc.decode import decode as run_stage
    from speechctc.progress import Reporter
    from speechctc.recogniser import Recogniser

    failed = run_stage(Recogniser.load(model), audio, form.value, sys.stdout, Reporter())
    if failed:
        raise typer.Exit(2 if failed == len(audio) else 1)


@app.command()
def config(config: ConfigOption, settings: Settings = None) -> None:
    """Check a config and print it with every default filled in."""
    import yaml

    from speechctc.config import load_config

    typer.echo(yaml.safe_dump(load_config(config, settings or ()).to_dict(), sort_keys=False), nl=False)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"speechctc {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; what the user got wrong is one line and status 2."""
    try:
        app(prog_name="speechctc")
    except InputError as error:
        print(f"speechctc: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("speechctc: interrupted", file=sys.stderr)
        sys.exit(130)
    except OSError as error:
        if error.filename is None and error.errno is None:
            raise
        print(
            f"speechctc: {error.filename or 'disk'}: {error.strerror}; free space or mend the path",
            file=sys.stderr,
        )
        sys.exit(2)
