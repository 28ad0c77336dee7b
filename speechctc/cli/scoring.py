"""Commands that measure: evaluate, calibrate, score-boundaries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from speechctc.cli.find_model import find_model
from speechctc.cli.options import (
    Device,
    DeviceOption,
    JsonOption,
    ModelOption,
    OverwriteOption,
    SettingsArgument,
    Split,
)


def evaluate_command(
    settings: SettingsArgument = None,
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
    from speechctc.stages.evaluate import evaluate
    from speechctc.storage import written

    check_place(json_file, overwrite)
    result = evaluate(Recogniser.load(find_model(model)), split.value, settings or (), Reporter())
    typer.echo(result.to_text())
    if json_file:
        written.write_json(json_file, result.to_dict(), overwrite)


def calibrate_command(
    settings: SettingsArgument = None,
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
    from speechctc.stages.calibrate import calibrate

    typer.echo(calibrate(find_model(model), Reporter(), split.value, settings or (), device.value).to_text())


def score_boundaries_command(
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
    from speechctc.metrics.boundary_errors import score_boundaries
    from speechctc.storage import written

    check_place(json_file, overwrite)
    result = score_boundaries(reference, hypothesis, tier)
    typer.echo(result.to_text())
    if json_file:
        written.write_json(json_file, result.to_dict(), overwrite)
