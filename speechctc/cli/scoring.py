"""Commands that look at corpora and models, and score them: doctor, plot, measure, evaluate, compare, and others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from speechctc.bundled import NAMES
from speechctc.cli import options as opt
from speechctc.cli.streams import new_reporter, show, show_scores, write_page
from speechctc.core.errors import InputError


def evaluate_command(
    settings: opt.SettingsArgument = None,
    model: opt.ModelOption = None,
    split: Annotated[
        opt.Split, typer.Option("--split", help="The part of the corpus to score; dev is never trained on.")
    ] = opt.Split.test,
    json_file: opt.JsonOption = None,
    overwrite: opt.OverwriteOption = False,
    lm: opt.LmOption = None,
    lm_weight: opt.LmWeightOption = None,
    beam: opt.BeamOption = None,
    symbols: opt.SymbolsOption = "own",
    inventory: opt.InventoryOption = None,
    language: opt.HeardLanguageOption = None,
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
    recogniser = opt.load_recogniser(
        model, opt.Device.auto, lm or (), lm_weight, beam, or_bundled=False, inventory=inventory, language=language
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
    split: Annotated[opt.Split, typer.Option("--split", help="The part of the corpus to score.")] = opt.Split.test,
    json_file: opt.JsonOption = None,
    overwrite: opt.OverwriteOption = False,
    device: opt.DeviceOption = opt.Device.auto,
) -> None:
    """Compare models on the same utterances.

    Prints the PER of each, the difference of each pair with its 95 % interval, and whether chance may explain it: by
    the paired bootstrap over speakers, and by the matched-pairs test. Runs that differ in train.seed only are one
    system, with mean and standard deviation. KEY=VALUE replaces a setting of all models.
    """
    from speechctc.inference.output import check_place
    from speechctc.inference.recogniser import Recogniser
    from speechctc.stages.compare import check_distinct, compare, short_names

    check_place(json_file, overwrite)
    settings = [str(run) for run in runs if "=" in str(run) and not run.exists()]
    folders = [run for run in runs if str(run) not in settings]
    places = [opt.find_model(folder) for folder in folders]
    check_distinct(folders, places)
    models = [Recogniser.load(place, device.value) for place in places]
    result = compare([*zip(short_names(folders), models, strict=True)], split.value, settings, new_reporter())
    show_scores(result.to_text(), result.to_dict(), json_file, overwrite)


def calibrate_command(
    settings: opt.SettingsArgument = None,
    model: opt.ModelOption = None,
    split: Annotated[
        opt.Split, typer.Option("--split", help="The split to calibrate on; the model must not be trained on it.")
    ] = opt.Split.dev,
    device: opt.DeviceOption = opt.Device.auto,
) -> None:
    """Make the confidences of a model probabilities.

    Also corrects its boundaries. After this, of the phones with confidence 0.8 about 80 % are right, and all boundaries
    are moved by the median error of the model's boundaries. It also learns how the phones of right speech score, for
    score-phones. All is estimated on dev, which is never trained on, and saved in the model's folder; for a bundled
    model, in a copy of it, such as english/, in the working directory.
    """
    from speechctc.stages.calibrate import calibrate

    show(calibrate(opt.find_model(model), new_reporter(), split.value, settings or (), device.value).to_text())


def train_boundaries_command(
    settings: opt.SettingsArgument = None,
    model: opt.ModelOption = None,
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

    show(train_boundaries(opt.find_model(model), new_reporter(), settings or (), minutes, fresh))


def score_boundaries_command(
    reference: Annotated[Path, typer.Argument(help="A TextGrid or .PHN file, or a folder of them.")],
    hypothesis: Annotated[
        Path, typer.Argument(help="A file, or a folder with files of the same names, to compare with the reference.")
    ],
    tier: Annotated[
        str, typer.Option("--tier", metavar="NAME", help="The tier of the TextGrids to compare.")
    ] = "phones",
    json_file: opt.JsonOption = None,
    overwrite: opt.OverwriteOption = False,
) -> None:
    """Compare the boundaries of two sets of files.

    Prints, for each class of phones, mean and median error, and the share of boundaries within 10, 20 and 50 ms.
    """
    from speechctc.inference.output import check_place
    from speechctc.metrics.boundary_errors import score_boundaries

    check_place(json_file, overwrite)
    result = score_boundaries(reference, hypothesis, tier)
    show_scores(result.to_text(), result.to_dict(), json_file, overwrite)


def doctor_command(
    settings: opt.SettingsArgument = None,
    config: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--config", help="The config whose corpus to examine. Default: only the machine."),
    ] = None,
    json_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--json", metavar="FILE", help="Also write the findings to this JSON file; -: print only JSON."),
    ] = None,
    overwrite: opt.OverwriteOption = False,
) -> None:
    """Examine a corpus and the machine before long work. Nothing is changed.

    Each finding says what is wrong, where, why it matters and what to do. The exit status is 1 if training is
    impossible, else 0.
    """
    import json

    from speechctc.config.load import load_config
    from speechctc.inference.output import check_place
    from speechctc.stages.doctor import examine

    prints = json_file == Path("-")
    if not prints:
        check_place(json_file, overwrite)
    loaded = load_config(config, settings or ()) if config else None
    diagnosis = examine(loaded, new_reporter())
    if prints:
        typer.echo(json.dumps(diagnosis.to_dict(), ensure_ascii=False, indent=1))
    else:
        show_scores(diagnosis.to_text(), diagnosis.to_dict(), json_file, overwrite)
    if not diagnosis.is_possible:
        raise typer.Exit(1)


def plot_command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="The folders of runs.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The picture to write: .png, .svg or .pdf.")
    ] = Path("curves.png"),
    overwrite: opt.OverwriteOption = False,
) -> None:
    """Draw the curves of runs over one another.

    Losses, phone error rate (PER), blank share, entropy, norm of the gradient and learning rate, by epoch.
    """
    from speechctc.stages.plot import plot

    for line in plot(runs, out, overwrite):
        show(line)
    show(f"curves in {out}")


def measure_command(
    audio: Annotated[
        list[Path], typer.Argument(help="Sound files, folders of them, or patterns in quotes ('talks/*.wav').")
    ],
    textgrids: Annotated[
        Path | None,
        typer.Option(
            "--textgrids",
            metavar="PLACE",
            help="A folder of TextGrids named like the recordings, or the TextGrid of a single one. Default: beside the"
            " recordings.",
        ),
    ] = None,
    tier: Annotated[str, typer.Option("--tier", metavar="NAME", help="The tier of the phones.")] = "phones",
    words: Annotated[
        str, typer.Option("--words-tier", metavar="NAME", help="The tier of the words; it may be missing.")
    ] = "words",
    maximum_formant: Annotated[
        float, typer.Option("--maximum-formant", metavar="HZ", min=1000, help="5500 suits women, 5000 men.")
    ] = 5500.0,
    number_of_formants: Annotated[
        float, typer.Option("--number-of-formants", metavar="N", min=3, max=10, help="Searched for below that.")
    ] = 5.0,
    pitch_floor: Annotated[float, typer.Option("--pitch-floor", metavar="HZ", min=20, help="Lowest f0.")] = 75.0,
    pitch_ceiling: Annotated[float, typer.Option("--pitch-ceiling", metavar="HZ", min=50, help="Highest f0.")] = 600.0,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="The table to write, CSV. Default: standard output."),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            "--plot", metavar="FILE", help="Also draw a vowel chart and durations, by speaker: .png .svg .pdf."
        ),
    ] = None,
    overwrite: opt.OverwriteOption = False,
    channel: opt.ChannelOption = None,
) -> None:
    """Measure phones with Praat: durations, f0 and formants.

    Reads TextGrids that align or decode wrote or a person made, and writes a table (CSV) with a row for each phone: its
    word, neighbours and position, confidence and score, mean f0 and intensity, and F1 to F3 at the middle and in ten
    steps. The speaker is the folder below the one named. Needs praat-parselmouth.
    """
    from speechctc.audio.recordings import ENDINGS
    from speechctc.core.progress import Reporter
    from speechctc.inference.output import check_place
    from speechctc.pages.figures import picture_form
    from speechctc.stages.measure import PraatSettings, measure, write_picture, write_table

    form = picture_form(picture) if picture else ""
    if out is not None and out.suffix.lower() in (".textgrid", *ENDINGS):
        raise InputError(f"{out}: a table is no sound and no TextGrid", "name a file with the ending .csv")
    check_place(out, overwrite)
    check_place(picture, overwrite)
    if pitch_floor >= pitch_ceiling:
        raise InputError(f"--pitch-floor {pitch_floor:g} is not below --pitch-ceiling {pitch_ceiling:g}", "lower it")
    settings = PraatSettings(maximum_formant, number_of_formants, pitch_floor, pitch_ceiling)
    rows, status = measure(audio, textgrids, tier, words, channel, settings, Reporter())
    if rows and (text := write_table(rows, out, overwrite)):
        show(text.removesuffix("\r\n"))
    if rows and picture:
        write_picture(rows, picture, form, overwrite)
    if status:
        raise typer.Exit(status)


def check_labels_command(
    config: opt.ConfigOption,
    settings: opt.SettingsArgument = None,
    model: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--model",
            metavar="DIR",
            help="The model that listens. Default: that of the config's run, else the latest run in runs/, or else"
            f" english; bundled are {NAMES}. Standard error names it.",
        ),
    ] = None,
    splits: Annotated[
        Optional[list[opt.Split]],  # noqa: UP045
        typer.Option("--split", help="The part of the corpus to check; may be given several times. Default: all."),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The table to write (TSV): all utterances, ranked.")
    ] = Path("suspects.tsv"),
    report: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--report", metavar="DIR", help="Also write a page with pictures and sound: DIR/suspects.html."),
    ] = None,
    examples: Annotated[
        int, typer.Option("--examples", metavar="N", min=1, help="How many utterances the page shows.")
    ] = 40,
    device: opt.DeviceOption = opt.Device.auto,
    overwrite: opt.OverwriteOption = False,
) -> None:
    """Rank utterances by how doubtful their labels are.

    The score says how much more probable the model's own phones are than the labels. Nothing in the corpus is changed.
    """
    from speechctc.config.load import load_config
    from speechctc.inference.output import check_place
    from speechctc.stages.check_labels import check_labels, suspects_page

    page = report / "suspects.html" if report else None
    for place in (out, page):
        check_place(place, overwrite)
    loaded = load_config(config, settings or ())
    model = model or (loaded.run if (loaded.run / "best").is_dir() else None)
    recogniser = opt.load_recogniser(model, device)
    chosen = [split.value for split in splits or opt.Split]
    checked = check_labels(recogniser, loaded, chosen, new_reporter())
    show(checked.to_text())
    write_page(out, checked.to_tsv(), overwrite)
    if page:
        write_page(page, suspects_page(checked, recogniser, recogniser.about, examples, new_reporter()), overwrite)


def inspect_command(
    model: opt.ModelOrBundledOption = None,
    audio: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--audio", metavar="FILE", help="A recording to look at; of a longer one, the first 20 s."),
    ] = None,
    layer: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--layer", metavar="NAME", help="The layer whose maps and units to draw: conv1, dense2. Default: conv1."
        ),
    ] = None,
    phone: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--phone", metavar="PHONE", help="Draw what matters for this phone. Default: the clearest one."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder to write.")] = Path("inside"),
    channel: opt.ChannelOption = None,
    overwrite: opt.OverwriteOption = False,
) -> None:
    """Draw the inside of a model as PNG files and a page.

    The first filters; with a recording also feature maps, how often each maxout piece wins, the functions of units,
    posteriors over time, and the saliency of a phone.
    """
    from speechctc.stages.inspect import inspect, write_pictures

    recogniser = opt.load_recogniser(model, opt.Device.cpu)
    found = inspect(recogniser, audio, layer, phone, channel)
    title = f"Inside the model, listening to {audio.name}" if audio else "Inside the model"
    for path in write_pictures(found, out, title, recogniser.about, overwrite):
        show(f"wrote {path}")
