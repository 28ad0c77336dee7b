"""Commands that measure, and what is learned from measuring: evaluate, compare, calibrate, train-boundaries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from speechctc.cli.options import (
    BeamOption,
    Device,
    DeviceOption,
    HeardLanguageOption,
    InventoryOption,
    JsonOption,
    LmOption,
    LmWeightOption,
    ModelOption,
    OverwriteOption,
    SettingsArgument,
    Split,
    SymbolsOption,
    find_model,
    load_recogniser,
)
from speechctc.cli.streams import new_reporter, show, show_scores, write_page


def evaluate_command(
    settings: SettingsArgument = None,
    model: ModelOption = None,
    split: Annotated[
        Split, typer.Option("--split", help="The part of the corpus to score; dev is never trained on.")
    ] = Split.test,
    json_file: JsonOption = None,
    overwrite: OverwriteOption = False,
    lm: LmOption = None,
    lm_weight: LmWeightOption = None,
    beam: BeamOption = None,
    symbols: SymbolsOption = "own",
    inventory: InventoryOption = None,
    language: HeardLanguageOption = None,
    report: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--report", metavar="DIR", help="Also write a page with pictures and sound: DIR/report.html."),
    ] = None,
    examples: Annotated[
        int,
        typer.Option(
            "--examples",
            metavar="N",
            min=0,
            help="How many of the worst, of the typical and of the best utterances the page shows with sound.",
        ),
    ] = 10,
) -> None:
    """Score a model on a split of its corpus.

    Prints the phone error rate (PER): the substitutions, deletions and insertions that turn the phones recognised into
    the reference, divided by the number of reference phones, by all protocols that apply. Also prints the calibration
    error: the mean distance between the confidences and the share of phones that are right.

    The corpus may be another one, and only a test: corpus.kind=textgrid corpus.root=FOLDER. Labels in IPA are compared
    with ARPABET by tables, and the other way round; --symbols writes the phones recognised as your own table says.
    """
    from speechctc.inference.output import check_place
    from speechctc.stages.evaluate import score
    from speechctc.stages.report import report_file, write_report

    page = report_file(report) if report else None
    check_place(json_file, overwrite)
    check_place(page, overwrite)
    recogniser = load_recogniser(
        model, Device.auto, lm or (), lm_weight, beam, or_bundled=False, inventory=inventory, language=language
    )
    scored, result = score(recogniser, split.value, settings or (), new_reporter(), symbols)
    show_scores(result.to_text(), result.to_dict(), json_file, overwrite)
    if page:
        html = write_report(scored, result, recogniser, recogniser.about, examples, new_reporter())
        write_page(page, html, overwrite)


def compare_command(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN RUN [RUN]... [KEY=VALUE]...", help="Two or more models; settings.")
    ],
    split: Annotated[Split, typer.Option("--split", help="The part of the corpus to score.")] = Split.test,
    json_file: JsonOption = None,
    overwrite: OverwriteOption = False,
    device: DeviceOption = Device.auto,
) -> None:
    """Compare models on the same utterances.

    Prints the PER of each, the difference of each pair with its 95 % interval, and whether chance may explain it: by
    the paired bootstrap over speakers, and by the matched-pairs test. Runs that differ in train.seed only are one
    system, with mean and standard deviation. KEY=VALUE replaces a setting of all models.
    """
    from speechctc.inference.output import check_place
    from speechctc.inference.recogniser import Recogniser
    from speechctc.stages.compare import compare, short_names

    check_place(json_file, overwrite)
    settings = [str(run) for run in runs if "=" in str(run) and not run.exists()]
    folders = [run for run in runs if str(run) not in settings]
    models = [Recogniser.load(find_model(folder), device.value) for folder in folders]
    result = compare([*zip(short_names(folders), models, strict=True)], split.value, settings, new_reporter())
    show_scores(result.to_text(), result.to_dict(), json_file, overwrite)


def calibrate_command(
    settings: SettingsArgument = None,
    model: ModelOption = None,
    split: Annotated[
        Split, typer.Option("--split", help="The split to calibrate on; the model must not be trained on it.")
    ] = Split.dev,
    device: DeviceOption = Device.auto,
) -> None:
    """Make the confidences of a model probabilities.

    Also corrects its boundaries. After this, of the phones with confidence 0.8 about 80 % are right, and all boundaries
    are moved by the median error of the model's boundaries. It also learns how the phones of right speech score, for
    score-phones. All is estimated on dev, which is never trained on, and saved in the model's folder; for a bundled
    model, in a copy of it, such as english/, in the working directory.
    """
    from speechctc.stages.calibrate import calibrate

    show(calibrate(find_model(model), new_reporter(), split.value, settings or (), device.value).to_text())


def train_boundaries_command(
    settings: SettingsArgument = None,
    model: ModelOption = None,
    minutes: Annotated[
        float, typer.Option("--minutes", metavar="N", min=0.1, help="Train on at most N minutes of speech.")
    ] = 40.0,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Start from nothing, not from the boundaries that the model knows already."),
    ] = False,
) -> None:
    """Teach a model where phones begin and end.

    A small net learns it from a corpus with times (corpus.kind=timit, textgrid, elan, or speech made by eSpeak NG) and
    is saved in the model's folder, where align finds it; for a bundled model, in a copy of it, such as english/, in
    the working directory. On dev the boundaries are compared with those before.
    """
    from speechctc.stages.train_boundaries import train_boundaries

    show(train_boundaries(find_model(model), new_reporter(), settings or (), minutes, fresh))


def score_boundaries_command(
    reference: Annotated[Path, typer.Argument(help="A TextGrid or .PHN file, or a folder of them.")],
    hypothesis: Annotated[
        Path, typer.Argument(help="A file, or a folder with files of the same names, to compare with the reference.")
    ],
    tier: Annotated[
        str, typer.Option("--tier", metavar="NAME", help="The tier of the TextGrids to compare.")
    ] = "phones",
    json_file: JsonOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Compare the boundaries of two sets of files.

    Prints, for each class of phones, mean and median error, and the share of boundaries within 10, 20 and 50 ms.
    """
    from speechctc.inference.output import check_place
    from speechctc.metrics.boundary_errors import score_boundaries

    check_place(json_file, overwrite)
    result = score_boundaries(reference, hypothesis, tier)
    show_scores(result.to_text(), result.to_dict(), json_file, overwrite)
