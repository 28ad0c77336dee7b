"""Commands that look at corpora and models, and score them: doctor, plot, measure, evaluate, compare, and others."""

from __future__ import annotations

from pathlib import Path

import typer

from speechctc.cli import options as opt
from speechctc.cli.streams import check_places, new_reporter, show, show_scores, write_page
from speechctc.core.errors import InputError, first_few


def evaluate_command(
    settings: list[str] | None = None,
    model: Path | None = None,
    split: opt.Split = opt.Split.test,
    json_file: Path | None = None,
    overwrite: bool = False,
    lm: list[Path] | None = None,
    lm_weight: float | None = None,
    beam: int | None = None,
    symbols: str = "own",
    inventory: str | None = None,
    language: str | None = None,
    report: Path | None = None,
    examples: int = 10,
) -> None:
    """Score a model on a split of its corpus.

    Prints the phone error rate (PER): the substitutions, deletions and insertions that turn the phones recognised into
    the reference, divided by the number of reference phones, by all protocols that apply. Also prints the calibration
    error: the mean distance between the confidences and the share of phones that are right.

    Settings name another corpus, which needs only a test split: corpus.kind=textgrid corpus.root=FOLDER. Labels in IPA
    are compared with ARPABET by tables, and ARPABET with IPA; --symbols gives a table of your own.
    """
    from speechctc.stages.evaluate import score
    from speechctc.stages.report import FILE, write_report

    page = report / FILE if report else None
    check_places(overwrite, json_file, page)
    recogniser = opt.load_recogniser(
        opt.Model(
            model, opt.Device.auto, lm or (), lm_weight, beam, or_bundled=False, inventory=inventory, language=language
        )
    )
    scored, result = score(recogniser, split.value, settings or (), new_reporter(), symbols)
    show_scores(result.to_text(), result.to_dict(), json_file, overwrite)
    if page:
        html = write_report(scored, result, recogniser, recogniser.about, examples, new_reporter())
        write_page(page, html, overwrite)


def compare_command(
    runs: list[Path],
    split: opt.Split = opt.Split.test,
    json_file: Path | None = None,
    overwrite: bool = False,
    device: opt.Device = opt.Device.auto,
) -> None:
    """Compare models on the same utterances.

    Prints the PER of each, the difference of each pair with its 95 % interval, and whether chance may explain it: by
    the paired bootstrap over speakers, and by the matched-pairs test. Runs that differ in train.seed only are one
    system, with mean and standard deviation. KEY=VALUE replaces a setting of all models.
    """
    from speechctc.inference.recogniser import Recogniser
    from speechctc.stages.compare import check_distinct, compare, short_names

    check_places(overwrite, json_file)
    settings = [str(run) for run in runs if "=" in str(run) and not run.exists()]
    folders = [run for run in runs if str(run) not in settings]
    places = [opt.find_model(folder) for folder in folders]
    check_distinct(folders, places)
    models = [Recogniser.load(place, device.value) for place in places]
    result = compare([*zip(short_names(folders), models, strict=True)], split.value, settings, new_reporter())
    show_scores(result.to_text(), result.to_dict(), json_file, overwrite)


def calibrate_command(
    settings: list[str] | None = None,
    model: Path | None = None,
    split: opt.Split = opt.Split.dev,
    device: opt.Device = opt.Device.auto,
) -> None:
    """Make the confidences of a model probabilities.

    After this about 80 % of the phones with confidence 0.8 are right. It also learns the median error of the model's
    boundaries, which are then moved by it, and how phones of right speech score, for score-phones. It learns on dev,
    which is never trained on, and saves the result in the model's folder; for a bundled model, in a copy of it, such
    as english/, in the working directory.
    """
    from speechctc.stages.calibrate import calibrate

    show(calibrate(opt.find_model(model), new_reporter(), split.value, settings or (), device.value).to_text())


def train_boundaries_command(
    settings: list[str] | None = None, model: Path | None = None, minutes: float = 40.0, fresh: bool = False
) -> None:
    """Teach a model where phones begin and end.

    A small net learns it from a corpus with times (corpus.kind=timit, textgrid, elan, or speech made by eSpeak NG). If
    the boundaries of dev are not worse than before, it is saved in the model's folder, where align finds it; for a
    bundled model, in a copy of it, such as english/, in the working directory.
    """
    from speechctc.stages.train_boundaries import train_boundaries

    show(train_boundaries(opt.find_model(model), new_reporter(), settings or (), minutes, fresh))


def score_boundaries_command(
    reference: Path, hypothesis: Path, tier: str = "phones", json_file: Path | None = None, overwrite: bool = False
) -> None:
    """Compare the boundaries of two sets of files.

    Prints, for each class of phones, mean and median error, and the share of boundaries within 10, 20 and 50 ms.
    """
    from speechctc.metrics.boundary_errors import score_boundaries

    check_places(overwrite, json_file)
    result = score_boundaries(reference, hypothesis, tier)
    show_scores(result.to_text(), result.to_dict(), json_file, overwrite)


def doctor_command(
    settings: list[str] | None = None, config: str | None = None, json_file: Path | None = None, overwrite: bool = False
) -> None:
    """Examine a corpus and the machine before long work. Nothing is changed.

    Each finding says what is wrong, where, why it matters and what to do. The exit status is 1 if training is
    impossible, else 0.
    """
    import json

    from speechctc.stages.doctor.examine import examine

    prints = json_file == Path("-")
    check_places(overwrite, None if prints else json_file)
    loaded = opt.load_config(config, settings) if config else None
    diagnosis = examine(loaded, new_reporter())
    if prints:
        typer.echo(json.dumps(diagnosis.to_dict(), ensure_ascii=False, indent=1))
    else:
        show_scores(diagnosis.to_text(), diagnosis.to_dict(), json_file, overwrite)
    if not diagnosis.is_possible:
        raise typer.Exit(1)


def plot_command(runs: list[Path], out: Path = Path("curves.png"), overwrite: bool = False) -> None:
    """Draw the curves of runs over one another.

    Losses, phone error rate (PER), blank share, entropy, norm of the gradient and learning rate, by epoch.
    """
    from speechctc.stages.plot import plot

    for line in plot(runs, out, overwrite):
        show(line)
    show(f"curves in {out}")


def measure_command(
    audio: list[Path],
    textgrids: Path | None = None,
    tier: str = "phones",
    words: str = "words",
    maximum_formant: float = 5500.0,
    number_of_formants: float = 5.0,
    pitch_floor: float = 75.0,
    pitch_ceiling: float = 600.0,
    out: Path | None = None,
    picture: Path | None = None,
    overwrite: bool = False,
    channel: int | None = None,
) -> None:
    """Measure phones with Praat: durations, f0 and formants.

    Reads TextGrids that align or decode wrote or a person made, and writes a table (CSV) with a row for each phone: its
    word, neighbours and position, confidence and score, mean f0 and intensity, F1 to F3 at the middle, and these and f0
    in ten steps. The speaker is that of the table, or the folder below the one named; with several folders, the one
    named. Needs praat-parselmouth.
    """
    from speechctc.core import written
    from speechctc.inference.output import refuse_input
    from speechctc.pages.figures import picture_form
    from speechctc.stages.measure import PraatSettings, measure, table_text, write_picture

    form = picture_form(picture) if picture else ""
    if out is not None and out.suffix.lower() not in (".csv", ".txt", ""):
        raise InputError(f"{out}: the table is text in CSV, which this name does not say", "name a file .csv")
    if out is not None:
        refuse_input(out, audio)
    check_places(overwrite, out, picture)
    if pitch_floor >= pitch_ceiling:
        raise InputError(f"--pitch-floor {pitch_floor:g} is not below --pitch-ceiling {pitch_ceiling:g}", "lower it")
    settings = PraatSettings(maximum_formant, number_of_formants, pitch_floor, pitch_ceiling)
    rows, status = measure(audio, textgrids, tier, words, channel, settings, new_reporter())
    if rows and out:
        written.write_text(out, table_text(rows), overwrite)
    elif rows:
        show(table_text(rows).removesuffix("\r\n"))
    if rows and picture:
        write_picture(rows, picture, form, overwrite)
    places = [str(place) for place in (out, picture) if place]
    if rows and places:
        count = len({row["file"] for row in rows})
        speakers = list(dict.fromkeys(row["speaker"] for row in rows if row["speaker"]))
        by = f", speakers: {first_few(speakers)}" if speakers else ""
        said = f"wrote {' and '.join(places)}: {len(rows):,} phones of {count} recording{'s'[: count - 1]}{by}"
        show(said, err=out is None)
    if status:
        raise typer.Exit(status)


def mark_checked_command(drafts: list[Path]) -> None:
    """Say that drafts of decode are right as they are.

    From now on their labels count as corrected: start trains on them, and no command writes over them.
    """
    from speechctc.audio.recordings import TIERS, files_below
    from speechctc.core import written

    found = [file for each in drafts for file in (files_below(each) if each.is_dir() else [each])]
    files = [file for file in found if file.suffix.lower() in TIERS and file.is_file()]
    if other := next((each for each in drafts if not each.is_dir() and each not in files), None):
        what = "no TextGrid or file of ELAN" if other.exists() else "no such file"
        raise InputError(f"{other}: {what}", "name drafts, or folders of them")
    unknown = set(written.unrecorded(files))
    own = set(written.changed(files)) - unknown
    written.check(file for file in files if file not in own)
    show(f"files that count as checked: {len(files) - len(own)}, and {len(own)} that a person made or changed before")
    if unknown:
        show(f"of {len(unknown)} of them no hidden {written.RECORD} says whether speechctc wrote them")


def check_labels_command(
    config: str,
    settings: list[str] | None = None,
    model: Path | None = None,
    splits: list[opt.Split] | None = None,
    out: Path = Path("suspects.tsv"),
    report: Path | None = None,
    examples: int = 40,
    device: opt.Device = opt.Device.auto,
    overwrite: bool = False,
) -> None:
    """Rank utterances by how doubtful their labels are.

    The gain says how much more probable the model's own phones are than the labels. Nothing in the corpus is changed.
    """
    from speechctc.stages.check_labels import check_labels, suspects_page

    page = report / "suspects.html" if report else None
    check_places(overwrite, out, page)
    loaded = opt.load_config(config, settings)
    model = model or (loaded.run if (loaded.run / "best").is_dir() else None)
    recogniser = opt.load_recogniser(opt.Model(model, device))
    chosen = [split.value for split in splits or opt.Split]
    checked = check_labels(recogniser, loaded, chosen, new_reporter())
    show(checked.to_text())
    write_page(out, checked.to_tsv(), overwrite)
    if page:
        write_page(page, suspects_page(checked, recogniser, recogniser.about, examples, new_reporter()), overwrite)


def inspect_command(
    model: Path | None = None,
    audio: Path | None = None,
    layer: str | None = None,
    phone: str | None = None,
    out: Path = Path("inside"),
    channel: int | None = None,
    overwrite: bool = False,
) -> None:
    """Draw the inside of a model as PNG files and a page.

    The first filters; with a recording also feature maps, how often each maxout piece wins, the functions of units,
    posteriors over time, and the saliency of a phone.
    """
    from speechctc.stages.inspect import inspect, write_pictures

    recogniser = opt.load_recogniser(opt.Model(model, opt.Device.cpu))
    found = inspect(recogniser, audio, layer, phone, channel)
    title = f"Inside the model, listening to {audio.name}" if audio else "Inside the model"
    for path in write_pictures(found, out, title, recogniser.about, overwrite):
        show(f"wrote {path}")
