"""The command line: parse, load the config, call one stage. No arithmetic, and no torch until a stage needs it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from speechctc import __version__
from speechctc.cli.options import (
    AlternativesOption,
    ChannelOption,
    Device,
    DeviceOption,
    FormatOption,
    JobsOption,
    JsonOption,
    LmWeightOption,
    ModelOption,
    ModelOrBundledOption,
    OutOption,
    OverwriteOption,
    PhonesOption,
    RawOption,
    SkipOption,
    Split,
    TierOption,
    TranscriptsOption,
)
from speechctc.errors import InputError, printable

if TYPE_CHECKING:
    from speechctc.inference.recogniser import Recogniser

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


@app.command()
def start(
    folder: Annotated[Path, typer.Argument(help="The folder of your recordings; nothing in it is changed.")],
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--out", metavar="CONFIG", help="The config to write; without it one named after the folder."),
    ] = None,
) -> None:
    """Look at a folder of recordings, say what is there, and write a config to train with it."""
    from speechctc.stages.start import start as run_stage

    _say(run_stage(folder, out).to_text())


@app.command()
def extract(config: ConfigOption, settings: Settings = None) -> None:
    """Turn a corpus's recordings into features on disk. Interrupted, it goes on where it was."""
    from speechctc.config.load import load_config
    from speechctc.progress import Reporter
    from speechctc.stages.extract import extract as run_stage

    loaded = load_config(config, settings or ())
    for summary in run_stage(loaded, Reporter()):
        _say(summary.to_text())
    _say(f"features in {loaded.data.dir}")


@app.command()
def train(
    config: ConfigOption,
    settings: Settings = None,
    run: Annotated[Optional[Path], typer.Option("--run", help="The run's folder.")] = None,  # noqa: UP045
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder, if there is one.")
    ] = False,
    profile: Annotated[
        int, typer.Option("--profile", metavar="N", min=0, help="Only take N steps and say where the time goes.")
    ] = 0,
) -> None:
    """Train a net on extracted features. Ctrl-C saves; --resume goes on from there."""
    from speechctc.config.load import load_config
    from speechctc.progress import Reporter

    loaded = load_config(config, [*(settings or ()), *([f"run={run}"] if run else [])])
    from speechctc.stages.train import Stopped
    from speechctc.stages.train import profile as profile_stage
    from speechctc.stages.train import train as run_stage

    if profile:
        _say(profile_stage(loaded, profile, Reporter()).to_text())
        return
    try:
        run_stage(loaded, resume, Reporter())
    except Stopped as stop:
        if _speaks():
            _say(f"stopped; the state is saved in {loaded.run}/last, go on with --resume", err=True)
        raise typer.Exit(stop.status) from None
    if _speaks():
        assert loaded.run is not None
        _calibrate(loaded.run)
        _say(f"trained: {loaded.run}/best")


@app.command()
def sweep(
    config: ConfigOption,
    settings: Settings = None,
    run: Annotated[Optional[Path], typer.Option("--run", help="Folder of the run folders.")] = None,  # noqa: UP045
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="How many train at a time.")] = 1,
) -> None:
    """Train every combination of some settings.

    train.lr=1e-4,3e-4 tries both values. The runs are printed by their PER (phone error rate) on dev, best first.
    Stopped or cut off, the same command goes on where it was.
    """
    from speechctc.config.load import load_config
    from speechctc.progress import Reporter
    from speechctc.stages.sweep import sweep as run_stage
    from speechctc.stages.sweep import table

    chosen = load_config(config).run
    assert chosen is not None
    folder = run or chosen.with_name(f"{chosen.name}-sweep")
    outcomes = run_stage(config, settings or (), folder, jobs, Reporter())
    _say(table(outcomes))
    if all(outcome.per is None for outcome in outcomes):
        raise typer.Exit(2)


@app.command()
def evaluate(
    settings: Settings = None,
    model: ModelOption = None,
    split: Annotated[
        Split, typer.Option("--split", help="Which part of the corpus to score; dev was held back from training.")
    ] = Split.test,
    json_file: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Score a model on a split of its corpus.

    Prints the phone error rate (PER): the substitutions, deletions and insertions that turn the phones recognised into
    the reference, divided by the number of reference phones. Below it stand the protocol, and the calibration error:
    how far confidences are from the share of phones that are right, on average.
    """
    from speechctc.inference.output import check_place
    from speechctc.inference.recogniser import Recogniser
    from speechctc.progress import Reporter
    from speechctc.stages.evaluate import evaluate as run_stage
    from speechctc.storage import written

    check_place(json_file, overwrite)
    result = run_stage(Recogniser.load(_find(model)), split.value, settings or (), Reporter())
    _say(result.to_text())
    if json_file:
        written.write_json(json_file, result.to_dict(), overwrite)


@app.command()
def decode(
    audio: Annotated[
        list[Path],
        typer.Argument(
            help="Sound files, folders of them, or patterns in quotes ('talks/*.wav'); - reads standard input."
        ),
    ],
    model: ModelOrBundledOption = None,
    form: FormatOption = None,
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    skip_existing: SkipOption = False,
    channel: ChannelOption = None,
    jobs: JobsOption = 0,
    alternatives: AlternativesOption = 0,
    raw: RawOption = None,
    lm_weight: LmWeightOption = None,
    device: DeviceOption = Device.auto,
) -> None:
    """Recognise the phones of recordings.

    One recording as text is a line of phones; several are a line for each: the file, a tab, the phones.
    """
    if "-" in map(str, audio) and len(audio) > 1:
        raise InputError("- reads standard input and cannot be named with others", "decode it alone")
    if raw and str(audio[0]) != "-":
        raise InputError("--raw is for standard input", "name - instead of a file")
    from speechctc.inference.output import Wanted, choose_output
    from speechctc.progress import Reporter
    from speechctc.stages.decode import decode as run_stage
    from speechctc.stages.decode import decode_stdin

    chosen = choose_output(form.value if form else None, out)
    wanted = Wanted(*chosen, jobs, alternatives, channel, overwrite, skip_existing)
    recogniser = _load(model, device, lm_weight)
    if str(audio[0]) == "-":
        decode_stdin(recogniser, wanted, raw, Reporter())
    elif status := run_stage(recogniser, audio, wanted, Reporter()):
        raise typer.Exit(status)


@app.command()
def align(
    audio: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Argument(help="Sound files, folders of them, or patterns in quotes ('talks/*.wav')."),
    ] = None,
    phones: PhonesOption = None,
    transcripts: TranscriptsOption = None,
    tier: TierOption = None,
    model: ModelOrBundledOption = None,
    form: FormatOption = None,
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    skip_existing: SkipOption = False,
    channel: ChannelOption = None,
    jobs: JobsOption = 0,
    device: DeviceOption = Device.auto,
) -> None:
    """Place known phones in recordings.

    Where the phones came with times (.PHN, TextGrid), how far those are from the times found is said, too.
    """
    from speechctc.inference.output import Wanted, choose_output
    from speechctc.progress import Reporter
    from speechctc.stages.align import align as run_stage
    from speechctc.stages.align import find_tasks

    chosen = choose_output(form.value if form else None, out)
    wanted = Wanted(*chosen, jobs, 0, channel, overwrite, skip_existing)
    tasks = find_tasks(audio or (), phones, transcripts, tier, Reporter())
    if status := run_stage(_load(model, device), tasks, wanted, Reporter()):
        raise typer.Exit(status)


@app.command()
def calibrate(
    settings: Settings = None,
    model: ModelOption = None,
    split: Annotated[
        Split, typer.Option("--split", help="What to learn from: a split that the model was not trained on.")
    ] = Split.dev,
    device: DeviceOption = Device.auto,
) -> None:
    """Learn how far a model's confidences can be believed.

    Confidences are then the share of such phones that are right, and boundaries are moved by how much they are early
    or late as a whole. Both are learned on dev, the split held back from training, and kept in the model's folder.
    """
    from speechctc.progress import Reporter
    from speechctc.stages.calibrate import calibrate as run_stage

    _say(run_stage(_find(model), Reporter(), split.value, settings or (), device.value).to_text())


@app.command()
def export(
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    model: ModelOption = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace the folder, if it holds an exported model and nothing else."),
    ] = False,
) -> None:
    """Write a model to give away.

    It is half the size, and has no training state and no paths of this machine.
    """
    from speechctc.stages.export import check_out
    from speechctc.stages.export import export as run_stage

    check_out(out, overwrite)
    written = run_stage(_find(model), out, overwrite)
    _say(f"{out}: {written / 1e6:.1f} MB")


@app.command("score-boundaries")
def score_boundaries(
    reference: Annotated[Path, typer.Argument(help="A TextGrid or .PHN file, or a folder of them.")],
    hypothesis: Annotated[Path, typer.Argument(help="What to compare with it: files of the same names.")],
    tier: Annotated[
        str, typer.Option("--tier", metavar="NAME", help="The tier of the TextGrids to compare.")
    ] = "phones",
    json_file: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Compare the boundaries of two sets of files.

    Prints the median error, and the shares of boundaries within 10, 20 and 50 ms, for each class of phones.
    """
    from speechctc.inference.output import check_place
    from speechctc.metrics.boundary_errors import score_boundaries as run_stage
    from speechctc.storage import written

    check_place(json_file, overwrite)
    result = run_stage(reference, hypothesis, tier)
    _say(result.to_text())
    if json_file:
        written.write_json(json_file, result.to_dict(), overwrite)


@app.command()
def config(config: ConfigOption, settings: Settings = None) -> None:
    """Check a config and print all of its keys.

    Defaults are filled in.
    """
    import yaml

    from speechctc.config.load import load_config

    typer.echo(yaml.safe_dump(load_config(config, settings or ()).to_dict(), sort_keys=False), nl=False)


def _find(model: Path | None, or_built_in: bool = False) -> Path:
    """Find the model that is named, the latest run's, or the bundled one; say on standard error which it is."""
    from speechctc.stages.used_model import find_and_describe

    folder, line = find_and_describe(model, or_built_in)
    _say(line, err=True)
    return folder


def _load(model: Path | None, device: Device, lm_weight: float | None = None) -> Recogniser:
    """Load the model that `_find` finds."""
    from speechctc.inference.recogniser import Recogniser

    return Recogniser.load(_find(model, or_built_in=True), device.value, lm_weight)


def _calibrate(run: Path) -> None:
    """Calibrate a run's best on its dev split, unless that is done; a dev split too small for it is no failure."""
    from speechctc.inference.calibration import Calibration
    from speechctc.progress import Reporter
    from speechctc.stages.calibrate import calibrate as run_stage

    if Calibration.load(run / "best").phones:
        return
    try:
        _say(run_stage(run, Reporter()).to_text())
    except InputError as error:
        _say(f"not calibrated: {error}", err=True)


def _speaks() -> bool:
    """Tell whether this is the process that speaks for all, where torchrun started several."""
    return os.environ.get("RANK", "0") == "0"


def _say(text: str, err: bool = False) -> None:
    """Print lines; control characters that came from files or names are escaped."""
    typer.echo(printable(text, keep="\n\t"), err=err)


def _version(wanted: bool) -> None:
    if wanted:
        _say(f"speechctc {__version__}")
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
            printable(f"speechctc: {error.filename or 'disk'}: {error.strerror}; free space or mend the path"),
            file=sys.stderr,
        )
        sys.exit(2)
