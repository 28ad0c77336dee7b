"""The command line: parse, load the config, call one stage. No arithmetic, and no torch until a stage needs it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from speechctc import __version__
from speechctc.cli_lm import lm_app
from speechctc.errors import InputError

if TYPE_CHECKING:
    from speechctc.recognition.recogniser import Recogniser

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Train phoneme recognisers from recordings and phone labels, and use them.",
)
app.add_typer(lm_app, name="lm")

ConfigOption = Annotated[str, typer.Option("--config", help="A YAML file, or the name of one that comes along: demo.")]
Settings = Annotated[
    Optional[list[str]],  # noqa: UP045 (typer reads annotations at run time, on Python 3.10 too)
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings laid over the config: train.epochs=3"),
]
ModelOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--model", help="A checkpoint or a run's folder (its best); without it the latest run."),
]


LmOption = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Option(
        "--lm", help="A language model: an ARPA file in place of the model's n-gram, an LSTM's folder, or both."
    ),
]
LmWeightOption = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option("--lm-weight", help="Of the language models, or the model's own n-gram; 0: what was heard alone."),
]
BeamOption = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option("--beam", help="Search with so many sequences at a time, even without a language model."),
]


class Split(str, Enum):
    """The splits that can be scored."""

    train = "train"
    dev = "dev"
    test = "test"


class Device(str, Enum):
    """Where to compute; auto is a CUDA GPU where there is one."""

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"


class Format(str, Enum):
    """How phones in time are written."""

    text = "text"
    json = "json"
    ctm = "ctm"
    textgrid = "textgrid"
    tsv = "tsv"


FormatOption = Annotated[Format, typer.Option("--format", help="What to write.")]
OutOption = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option("--out", help="A file for all; or a folder (a name without an ending) for a file of each."),
]
JobsOption = Annotated[int, typer.Option("--jobs", min=0, help="Recordings at a time; 0: one per core.")]
DeviceOption = Annotated[Device, typer.Option("--device", help="Where to compute.")]


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
    profile: Annotated[
        int, typer.Option("--profile", metavar="N", min=0, help="Only take N steps and say where the time goes.")
    ] = 0,
) -> None:
    """Train a net on extracted features. Ctrl-C saves; --resume goes on from there."""
    from speechctc.config import load_config
    from speechctc.progress import Reporter

    loaded = load_config(config, [*(settings or ()), *([f"run={run}"] if run else [])])
    from speechctc.train import Stopped
    from speechctc.train import profile as profile_stage
    from speechctc.train import train as run_stage

    if profile:
        typer.echo(profile_stage(loaded, profile, Reporter()).to_text())
        return
    try:
        run_stage(loaded, resume, Reporter())
    except Stopped as stop:
        if _speaks():
            typer.echo(f"stopped; the state is saved in {loaded.run}/last, go on with --resume", err=True)
        raise typer.Exit(stop.status) from None
    if _speaks():
        assert loaded.run is not None
        _calibrate(loaded.run)
        typer.echo(f"trained: {loaded.run}/best")


@app.command()
def sweep(
    config: ConfigOption,
    settings: Settings = None,
    run: Annotated[Optional[Path], typer.Option("--run", help="Folder of the run folders.")] = None,  # noqa: UP045
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="How many train at a time.")] = 1,
) -> None:
    """Train every combination of settings (train.lr=1e-4,3e-4) side by side and print them by dev PER.

    Stopped or cut off, the same command goes on where it was.
    """
    from speechctc.config import load_config
    from speechctc.progress import Reporter
    from speechctc.sweep import sweep as run_stage
    from speechctc.sweep import table

    chosen = load_config(config).run
    assert chosen is not None
    folder = run or chosen.with_name(f"{chosen.name}-sweep")
    outcomes = run_stage(config, settings or (), folder, jobs, Reporter())
    typer.echo(table(outcomes))
    if all(outcome.per is None for outcome in outcomes):
        raise typer.Exit(2)


@app.command()
def evaluate(
    settings: Settings = None,
    model: ModelOption = None,
    split: Annotated[Split, typer.Option("--split", help="Which split to score.")] = Split.test,
    json_file: Annotated[Optional[Path], typer.Option("--json", help="Write the score there too.")] = None,  # noqa: UP045
    lm: LmOption = None,
    lm_weight: LmWeightOption = None,
    beam: BeamOption = None,
) -> None:
    """Score a model on a split: phone error rate, substitutions, deletions, insertions, and the protocol."""
    from speechctc import files
    from speechctc.checkpoint import find_checkpoint
    from speechctc.evaluate import evaluate as run_stage
    from speechctc.progress import Reporter
    from speechctc.recognition.language import equipped
    from speechctc.recognition.recogniser import Recogniser

    folder = find_checkpoint(model)
    recogniser = equipped(Recogniser.load(folder), folder, lm or (), lm_weight, beam, Reporter())
    result = run_stage(recogniser, split.value, settings or (), Reporter())
    typer.echo(result.to_text())
    if json_file:
        files.write_json(json_file, result.to_dict())


@app.command()
def decode(
    audio: Annotated[
        list[Path], typer.Argument(help="Recordings, folders of them, patterns; or -, to read standard input.")
    ],
    model: ModelOption = None,
    form: FormatOption = Format.text,
    out: OutOption = None,
    jobs: JobsOption = 0,
    alternatives: Annotated[
        int, typer.Option("--alternatives", min=0, help="Name so many other phones for each, in JSON and TextGrid.")
    ] = 0,
    raw: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--raw", metavar="RATE", min=1, help="- is raw 16-bit little-endian mono at this rate, Hz."),
    ] = None,
    lm: LmOption = None,
    lm_weight: LmWeightOption = None,
    beam: BeamOption = None,
    nbest: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--nbest", metavar="N", min=1, help="A table of the N best with their scores; as TSV or JSON."),
    ] = None,
    device: DeviceOption = Device.auto,
) -> None:
    """Recognise the phones of recordings."""
    if "-" in map(str, audio) and len(audio) > 1:
        raise InputError("- reads standard input and cannot be named with others", "decode it alone")
    if raw and str(audio[0]) != "-":
        raise InputError("--raw is for standard input", "name - instead of a file")
    from speechctc.decode import decode as run_stage
    from speechctc.decode import decode_stdin
    from speechctc.progress import Reporter
    from speechctc.recognition.results import Wanted

    recogniser = _load(model, device, lm or (), lm_weight, beam)
    if nbest:
        from speechctc.nbest import decode_nbest

        if status := decode_nbest(recogniser, audio, nbest, form.value, out, Reporter()):
            raise typer.Exit(status)
        return
    wanted = Wanted(form.value, out, jobs, alternatives)
    if str(audio[0]) == "-":
        decode_stdin(recogniser, wanted, raw, Reporter())
    elif status := run_stage(recogniser, audio, wanted, Reporter()):
        raise typer.Exit(status)


@app.command()
def align(
    audio: Annotated[Optional[list[Path]], typer.Argument(help="Recordings, folders of them, patterns.")] = None,  # noqa: UP045
    phones: Annotated[Optional[str], typer.Option("--phones", help='The phones of the recording: "sh iy hh".')] = None,  # noqa: UP045
    transcripts: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--transcripts", help="A table with id, audio and phones; else .PHN, .lab or .txt files beside."),
    ] = None,
    model: ModelOption = None,
    form: FormatOption = Format.text,
    out: OutOption = None,
    jobs: JobsOption = 0,
    device: DeviceOption = Device.auto,
) -> None:
    """Place known phones in recordings."""
    from speechctc.align import align as run_stage
    from speechctc.align import find_tasks
    from speechctc.progress import Reporter
    from speechctc.recognition.results import Wanted

    tasks = find_tasks(audio or (), phones, transcripts)
    status = run_stage(_load(model, device), tasks, Wanted(form.value, out, jobs), Reporter())
    if status:
        raise typer.Exit(status)


@app.command()
def calibrate(
    settings: Settings = None,
    model: ModelOption = None,
    split: Annotated[Split, typer.Option("--split", help="What to learn from; not the training split.")] = Split.dev,
    device: DeviceOption = Device.auto,
) -> None:
    """Learn what a model's posteriors and boundaries are worth, and keep that in its checkpoint."""
    from speechctc.calibrate import calibrate as run_stage
    from speechctc.progress import Reporter

    typer.echo(run_stage(model, Reporter(), split.value, settings or (), device.value).to_text())


@app.command()
def export(
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    model: ModelOption = None,
) -> None:
    """Write a model to give away: in half precision, without training state and paths."""
    from speechctc.export import export as run_stage

    written = run_stage(model, out)
    typer.echo(f"{out}: {written / 1e6:.1f} MB")


@app.command("score-boundaries")
def score_boundaries(
    reference: Annotated[Path, typer.Argument(help="A TextGrid or .PHN file, or a folder of them.")],
    hypothesis: Annotated[Path, typer.Argument(help="What to compare with it; files of the same name.")],
    tier: Annotated[str, typer.Option("--tier", help="Of the TextGrids.")] = "phones",
    json_file: Annotated[Optional[Path], typer.Option("--json", help="Write the score there too.")] = None,  # noqa: UP045
) -> None:
    """Compare the boundaries of two sets of files: median error, shares within 10, 20 and 50 ms, by class."""
    from speechctc import files
    from speechctc.boundaries import score_boundaries as run_stage

    result = run_stage(reference, hypothesis, tier)
    typer.echo(result.to_text())
    if json_file:
        files.write_json(json_file, result.to_dict())


@app.command()
def config(config: ConfigOption, settings: Settings = None) -> None:
    """Check a config and print it with every default filled in."""
    import yaml

    from speechctc.config import load_config

    typer.echo(yaml.safe_dump(load_config(config, settings or ()).to_dict(), sort_keys=False), nl=False)


def _load(
    model: Path | None,
    device: Device,
    lm: Sequence[Path] = (),
    lm_weight: float | None = None,
    beam: int | None = None,
) -> Recogniser:
    """Load the model that is named, the latest run's, or the one that comes along; say so of the last."""
    from speechctc.checkpoint import BUILT_IN, find_checkpoint
    from speechctc.progress import Reporter
    from speechctc.recognition.language import equipped
    from speechctc.recognition.recogniser import Recogniser

    folder = find_checkpoint(model, or_built_in=True)
    recogniser = equipped(Recogniser.load(folder, device.value), folder, lm, lm_weight, beam, Reporter())
    if model is None and folder == BUILT_IN:
        known = f"{len(recogniser.inventory.phones)} phones ({recogniser.inventory.name})"
        typer.echo(
            "speechctc: no --model and no run here: using the small English model that comes along,"
            f" {known}; its model card: {BUILT_IN}/README.md",
            err=True,
        )
    return recogniser


def _calibrate(run: Path) -> None:
    """Calibrate a run's best on its dev split, unless that is done; a dev split too small for it is no failure."""
    from speechctc.calibrate import calibrate as run_stage
    from speechctc.progress import Reporter
    from speechctc.recognition.calibration import Calibration

    if Calibration.load(run / "best").phones:
        return
    try:
        typer.echo(run_stage(run, Reporter()).to_text())
    except InputError as error:
        typer.echo(f"not calibrated: {error}", err=True)


def _speaks() -> bool:
    """Tell whether this is the process that speaks for all, where torchrun started several."""
    return os.environ.get("RANK", "0") == "0"


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
