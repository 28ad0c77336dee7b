"""Commands that look at corpora and models, and score them: doctor, plot, measure, evaluate, compare, and others."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from speechctc.audio.tracks import chosen
from speechctc.cli import options as opt
from speechctc.cli.options import check_places, new_reporter, show, show_scores, write_page
from speechctc.core.bundled import NAMES
from speechctc.core.errors import InputError, first_few, plural

if TYPE_CHECKING:
    from speechctc.inference.output import OutputOptions
    from speechctc.stages.measure import Choice


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """The options of ``evaluate``."""

    # fmt: off
    settings: opt.Settings = None
    model: opt.Model = None
    split: Annotated[opt.Split, Option(help=
        "The part of the corpus to score; dev is never trained on.")] = opt.Split.test
    json_file: opt.JsonFile = None
    overwrite: opt.Overwrite = False
    lm: opt.Lm = None
    lm_weight: opt.LmWeight = None
    beam: opt.Beam = None
    symbols: opt.Symbols = "own"
    inventory: opt.Inventory = None
    language: opt.PhonesOf = None
    report: Annotated[Path | None, Option(metavar="DIR", help=
        "Also write a page with pictures and sound: DIR/report.html.")] = None
    examples: Annotated[int, Option(metavar="N", min=0, help=
        "How many of the worst, of the typical and of the best utterances the page shows with spectrogram; 0: a page "
        "without sound.")] = 10
    # fmt: on


@opt.with_fields
def evaluate_command(given: Evaluate) -> None:
    """Score a model on a split of its corpus.

    Prints the phone error rate (PER): the substitutions, deletions and insertions that turn the phones recognised into
    the reference, divided by the number of reference phones, by all protocols that apply. Also prints the calibration
    error: the mean distance between the confidences and the share of phones that are right.

    Settings name another corpus, which needs only a test split: corpus.kind=textgrid corpus.root=FOLDER. Labels in IPA
    are compared with ARPABET by tables, and ARPABET with IPA; --symbols gives a table of your own.
    """
    from speechctc.inference.recogniser import Recogniser
    from speechctc.stages.evaluate import score
    from speechctc.stages.report import FILE, write_report

    page = given.report / FILE if given.report else None
    check_places(given.overwrite, given.json_file, page)
    recogniser = opt.open_model(
        given.model,
        Recogniser,
        opt.Device.auto,
        lms=given.lm or (),
        lm_weight=given.lm_weight,
        beam=given.beam,
        inventory=given.inventory,
        language=given.language,
        or_bundled=False,
    )
    scored, result = score(recogniser, given.split.value, given.settings or (), new_reporter(), given.symbols)
    show_scores(result.to_text(), result.to_dict(), given.json_file, given.overwrite)
    if page:
        html = write_report(scored, result, recogniser, given.examples, new_reporter())
        write_page(page, html, given.overwrite)


def compare_command(
    runs: Annotated[
        list[Path], Argument(metavar="RUN RUN [RUN]... [KEY=VALUE]...", help="Two or more models; settings.")
    ],
    split: Annotated[opt.Split, Option(help="The part of the corpus to score.")] = opt.Split.test,
    json_file: opt.JsonFile = None,
    overwrite: opt.Overwrite = False,
    device: opt.OnDevice = opt.Device.auto,
) -> None:
    """Compare models on the same utterances.

    Prints the PER of each, the difference of each pair with its 95 % interval, and whether chance may explain it: by
    the paired bootstrap over speakers, and by the matched-pairs test. Runs that differ in train.seed only are one
    system, with mean and standard deviation. KEY=VALUE replaces a setting of all models.
    """
    from speechctc.inference.recogniser import Recogniser
    from speechctc.stages.evaluate import check_distinct, compare
    from speechctc.stages.open_model import ModelChoice, open_model

    check_places(overwrite, json_file)
    settings = [str(run) for run in runs if "=" in str(run) and not run.exists()]
    folders = [run for run in runs if str(run) not in settings]
    places = [opt.find_model(folder) for folder in folders]
    check_distinct(folders, places)
    choice = ModelChoice(device.value)
    models = [(str(each), open_model(place, Recogniser, choice)) for each, place in zip(folders, places, strict=True)]
    result = compare(models, split.value, settings, new_reporter())
    show_scores(result.to_text(), result.to_dict(), json_file, overwrite)


# fmt: off
Ratings = Annotated[Path | None, Option("--ratings", metavar="TABLE", help=
    "Learn only raters' scores of phones, from a table with the columns file (JSON that score-phones wrote), phone "
    "(its number in the file, from 1) and rating. score-phones then predicts ratings, in JSON.")]
# fmt: on


def calibrate_command(
    settings: opt.Settings = None,
    model: opt.Model = None,
    split: opt.UnseenSplit = opt.Split.dev,
    device: opt.OnDevice = opt.Device.auto,
    ratings: Ratings = None,
) -> None:
    """Make the confidences of a model probabilities.

    After this about 80 % of the phones with confidence 0.8 are right. It also learns the median error of the model's
    boundaries, which are then moved by it, and how phones of right speech score, for score-phones. It learns on dev,
    which is never trained on, and saves the result in the model's folder; for a bundled model, in a copy of it, such
    as english/, in the working directory.
    """
    from speechctc.stages.calibrate import calibrate, learn_ratings

    if ratings is not None:
        show(learn_ratings(opt.find_model(model), ratings, new_reporter()))
        return
    show(calibrate(opt.find_model(model), new_reporter(), split.value, settings or (), device.value).to_text())


def train_boundaries_command(
    settings: opt.Settings = None,
    model: opt.Model = None,
    minutes: Annotated[float, Option(metavar="N", min=0.1, help="Train on at most N minutes of speech.")] = 40.0,
    fresh: Annotated[bool, Option("--fresh", help="Start from random weights, not the model's boundaries.")] = False,
) -> None:
    """Teach a model where phones begin and end.

    A small net learns it from a corpus with times (corpus.kind=timit, textgrid, elan, or speech made by eSpeak NG). If
    the boundaries of dev are not worse than before, it is saved in the model's folder, where align finds it; for a
    bundled model, in a copy of it, such as english/, in the working directory.
    """
    from speechctc.stages.train_boundaries import train_boundaries

    show(train_boundaries(opt.find_model(model), new_reporter(), settings or (), minutes, fresh))


def score_boundaries_command(
    reference: Annotated[Path, Argument(help="A TextGrid or .PHN file, or a folder of them.")],
    hypothesis: Annotated[Path, Argument(help="A file, or a folder with files of the same names, to compare.")],
    tier: Annotated[str, Option(metavar="NAME", help="The tier of the TextGrids to compare.")] = "phones",
    reference_tier: Annotated[
        str | None, Option(metavar="NAME", help="That of the first side. Default: --tier.")
    ] = None,
    hypothesis_tier: Annotated[
        str | None, Option(metavar="NAME", help="That of the second side. Default: --tier.")
    ] = None,
    json_file: opt.JsonFile = None,
    overwrite: opt.Overwrite = False,
) -> None:
    """Compare the boundaries of two sets of files.

    Prints, for each class of phones, mean and median error, and the share of boundaries within 10, 20 and 50 ms.
    """
    from speechctc.metrics.boundary_errors import score_boundaries

    check_places(overwrite, json_file)
    result = score_boundaries(reference, hypothesis, reference_tier or tier, hypothesis_tier or tier)
    show_scores(result.to_text(), result.to_dict(), json_file, overwrite)


# fmt: off
Findings = Annotated[Path | None, Option("--json", metavar="FILE", help=
    "Also write the findings to this JSON file; -: print only JSON.")]
# fmt: on


def doctor_command(
    settings: opt.Settings = None,
    config: Annotated[str | None, Option(help="The config whose corpus to examine. Default: only the machine.")] = None,
    json_file: Findings = None,
    overwrite: opt.Overwrite = False,
) -> None:
    """Examine a corpus and the machine before long work. Nothing is changed.

    Each finding says what is wrong, where, why it matters and what to do. The exit status is 1 if training is
    impossible, else 0.
    """
    import json

    from speechctc.stages.doctor import examine

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


def plot_command(
    runs: Annotated[list[Path], Argument(metavar="RUN...", help="The folders of runs.")],
    out: Annotated[Path, Option(metavar="FILE", help="The picture to write: .png, .svg or .pdf.")] = Path("curves.png"),
    overwrite: opt.Overwrite = False,
) -> None:
    """Draw the curves of runs over one another.

    Losses, phone error rate (PER), blank share, entropy, norm of the gradient and learning rate, by epoch.
    """
    from speechctc.stages.plot import plot

    for line in plot(runs, out, overwrite):
        show(line)
    show(f"curves in {out}")


@dataclass(frozen=True, kw_only=True)
class Measure:
    """The options of ``measure``."""

    # fmt: off
    audio: Annotated[list[Path] | None, Argument(help=
        "Sound files, folders of them, or patterns in quotes ('talks/*.wav'); or a table that align has read.")] = None
    recordings: opt.RecordingList = None
    shard: opt.Part = None
    textgrids: Annotated[Path | None, Option(metavar="PLACE", help=
        "A folder of TextGrids named like the recordings, or the TextGrid of a single one. Default: beside the "
        "recordings.")] = None
    tier: Annotated[str, Option(metavar="NAME", help="The tier of the phones.")] = "phones"
    words: Annotated[str, Option("--words-tier", metavar="NAME", help=
        "The tier of the words; it may be missing.")] = "words"
    maximum_formant: Annotated[list[str] | None, Option(metavar="HZ", help=
        "Formants are searched below it. 5500 suits most women, 5000 most men. Also by speaker, several times or with "
        "commas: Anna=5500,Ben=5000; female=5500,male=5000 or sex (5500, 5000, children 8000), where the table has a "
        "column sex; or a table with the columns speaker, and maximum_formant or sex. Default: 5500.")] = None
    number_of_formants: Annotated[float, Option(metavar="N", min=3, max=10, help=
        "Number of formants below the maximum formant.")] = 5.0
    pitch_floor: Annotated[float, Option(metavar="HZ", min=20, help="Lowest f0.")] = 75.0
    pitch_ceiling: Annotated[float, Option(metavar="HZ", min=50, help="Highest f0.")] = 600.0
    forms: Annotated[list[str] | None, Option("--format", metavar="FORMAT[,FORMAT]...", help=
        "The format of the table: csv, csv-bom (for Excel), tsv or xlsx (Excel). Several at once need a folder. "
        "Default: by the ending of --out, else csv.")] = None
    out: opt.Out = None
    skip_existing: opt.SkipExisting = False
    manifest: opt.Manifest = None
    resume: opt.Resume = False
    picture: Annotated[Path | None, Option("--plot", metavar="FILE", help=
        "Also draw a vowel chart with ellipses of 95 % and durations, by speaker: .png .svg .pdf.")] = None
    bark: Annotated[bool, Option("--bark", help="The vowel chart of --plot is in Bark, not in Hz.")] = False
    overwrite: opt.Overwrite = False
    channel: opt.Channel = None
    track: opt.Track = None
    cluster: opt.Cluster = None
    cluster_wait: opt.ClusterWait = opt.WAIT_SECONDS
    time_limit: opt.TimeLimit = None
    # fmt: on


@opt.with_fields
def measure_command(given: Measure) -> None:
    """Measure phones with Praat: durations, f0 and formants.

    Reads TextGrids that align or decode wrote or a person made, and writes a table (CSV, Excel) with a row for each
    phone: its word, neighbours and position, confidence and score, mean f0 and intensity, F1 to F3 at the middle, and
    these and f0 in ten steps. The speaker is that of the table, or the folder below the one named; with several
    folders, the one named. Needs praat-parselmouth.
    """
    from speechctc.audio.recordings import check_some
    from speechctc.pages.figures import image_format
    from speechctc.stages.measure import Summary, measure, write_picture

    opt.check_named(given, "measure")
    audio = opt.name_recordings(given)
    check_some(audio)
    form = image_format(given.picture) if given.picture else ""
    if given.bark and not given.picture:
        raise InputError("--bark is of the vowel chart, and none is drawn", "give --plot FILE too")
    if given.picture and (given.skip_existing or given.resume):
        skips = "--skip-existing skips" if given.skip_existing else "--resume leaves out"
        raise InputError(f"--plot draws all that is measured, and {skips} some", "leave one of them out")
    options = _measured_output(given)
    check_places(given.overwrite, given.picture)
    choice, summary = _what_to_measure(given), Summary(bool(form))
    with opt.with_manifest("measure", options, given) as options:
        status = measure(audio, choice, options, summary, new_reporter())
    if summary.rows and given.picture:
        write_picture(summary.rows, given.picture, form, given.overwrite, given.bark)
    if summary.phones and (given.out or given.picture):
        count, speakers = summary.recordings, list(summary.speakers)
        by = f", speakers: {first_few(speakers)}" if speakers else ""
        drawn = f"wrote {given.picture}: " if given.picture else ""
        show(f"{drawn}{plural(summary.phones, 'phone')} of {plural(count, 'recording')}{by}", err=given.out is None)
    if status:
        raise typer.Exit(status)


def _what_to_measure(given: Measure) -> Choice:
    """Return what is measured, and where."""
    from speechctc.audio.recording_list import parse_shard
    from speechctc.inference.output import Work
    from speechctc.stages.measure import Choice, PraatSettings

    if given.pitch_floor >= given.pitch_ceiling:
        raise InputError(f"--pitch-floor {given.pitch_floor:g} is not below --pitch-ceiling", "lower it")
    settings = PraatSettings(
        number_of_formants=given.number_of_formants, pitch_floor=given.pitch_floor, pitch_ceiling=given.pitch_ceiling
    )
    work = Work(cluster=given.cluster, cluster_wait=given.cluster_wait, time_limit=given.time_limit)
    formants = tuple(given.maximum_formant or ())
    channel = chosen(given.track, given.channel)
    return Choice(given.textgrids, given.tier, given.words, channel, settings, formants, work, parse_shard(given.shard))


def _measured_output(given: Measure) -> OutputOptions:
    """Return how the table of measured phones is written."""
    from speechctc.inference.output import OutputOptions, choose_output, parse_formats, refuse_input
    from speechctc.stages.measured_tables import MEASURED

    asked, also = parse_formats(given.forms)
    if other := next((form for form in (asked, *also) if form and form not in MEASURED), None):
        raise InputError(f"--format {other}: measure writes a table", f"choose from: {', '.join(MEASURED)}")
    try:
        form, file, folder = choose_output(asked, given.out)
    except InputError:
        if asked is not None:
            raise
        form, file, folder = "", Path(str(given.out)), None  # its ending is that of no format
    if asked is None and form == "text" and (file is None or file.suffix.lower() in ("", ".txt")):
        form = "csv"
    if form not in MEASURED:
        raise InputError(
            f"{file}: the table is text in CSV or a workbook, which this name does not say", "name a file .csv or .xlsx"
        )
    opt.check_part(given.shard, file)
    if file is not None:
        refuse_input(file, given.audio or ())
    return OutputOptions(form, file, folder, given.overwrite, given.skip_existing, also=also)


def mark_checked_command(
    drafts: Annotated[list[Path], Argument(help="TextGrids and files of ELAN that you checked, or folders of them.")],
) -> None:
    """Say that drafts of decode are right as they are.

    From now on their labels count as corrected: start trains on them, and no command writes over them.
    """
    from speechctc.audio.annotations import read_tiers
    from speechctc.audio.eaf import ENDING, read_eaf
    from speechctc.audio.folders import TIERS, files_below
    from speechctc.core import written

    found = [file for each in drafts for file in (files_below(each) if each.is_dir() else [each])]
    files = [file for file in found if file.suffix.lower() in TIERS and file.is_file()]
    if other := next((each for each in drafts if not each.is_dir() and each not in files), None):
        what = "no TextGrid or file of ELAN" if other.exists() else "no such file"
        raise InputError(f"{other}: {what}", "name drafts, or folders of them")
    for file in files:  # before any is marked
        read_eaf(file) if file.suffix.lower() == ENDING else read_tiers(file)
    unknown = set(written.unrecorded(files))
    own = set(written.changed(files)) - unknown
    written.mark_checked(file for file in files if file not in own)
    show(f"files that count as checked: {len(files) - len(own)}, and {len(own)} that a person made or changed before")
    if unknown:
        show(f"of {len(unknown)} of them no hidden {written.RECORD} says whether speechctc wrote them")


@dataclass(frozen=True, kw_only=True)
class CheckLabels:
    """The options of ``check-labels``."""

    # fmt: off
    config: opt.ConfigName
    settings: opt.Settings = None
    model: Annotated[Path | None, Option(metavar="DIR", help=
        "The model. Default: that of the config's run, else the latest run in runs/, or else english; bundled are "
        f"{NAMES}. Standard error names it.")] = None
    splits: Annotated[list[opt.Split] | None, Option("--split", help=
        "The part of the corpus to check; may be given several times. Default: all.")] = None
    out: Annotated[Path, Option(metavar="FILE", help=
        "The table to write (TSV): all utterances, ranked.")] = Path("suspects.tsv")
    report: Annotated[Path | None, Option(metavar="DIR", help=
        "Also write a page with pictures and sound: DIR/suspects.html.")] = None
    examples: Annotated[int, Option(metavar="N", min=1, help="How many utterances the page shows.")] = 40
    device: opt.OnDevice = opt.Device.auto
    overwrite: opt.Overwrite = False
    # fmt: on


@opt.with_fields
def check_labels_command(given: CheckLabels) -> None:
    """Rank utterances by how doubtful their labels are.

    The gain says how much more probable the model's own phones are than the labels. Nothing in the corpus is changed.
    """
    from speechctc.inference.recogniser import Recogniser
    from speechctc.stages.check_labels import check_labels, suspects_page

    page, reporter = given.report / "suspects.html" if given.report else None, new_reporter()
    check_places(given.overwrite, given.out, page)
    loaded = opt.load_config(given.config, given.settings)
    model = given.model or (loaded.run if (loaded.run / "best").is_dir() else None)
    recogniser = opt.open_model(model, Recogniser, given.device)
    chosen = [split.value for split in given.splits or opt.Split]
    checked = check_labels(recogniser, loaded, chosen, reporter)
    show(checked.to_text())
    write_page(given.out, checked.to_tsv(), given.overwrite)
    if page:
        write_page(page, suspects_page(checked, recogniser, given.examples, reporter), given.overwrite)


def _show_sources(model: Path, json_file: Path | None, overwrite: bool) -> None:
    """Print what a model was made from."""
    from speechctc.stages.sources import sources_of, sources_text

    check_places(overwrite, json_file)
    found = sources_of(opt.find_model(model))
    show_scores(sources_text(found), [asdict(each) for each in found], json_file, overwrite)


# fmt: off
SourcesOf = Annotated[Path | None, Argument(metavar="[MODEL]", help=
    "Draw nothing, but print from which sources this model was made, and their licences: a bundled model, or the "
    "folder of a run or of a model.")]
SourcesFile = Annotated[Path | None, Option("--json", metavar="FILE", help=
    "With MODEL: also write the sources to this JSON file.")]
Looked = Annotated[Path | None, Option("--audio", metavar="FILE", help=
    "A recording to look at; of a longer one, the first 20 s.")]
Saliency = Annotated[str | None, Option("--phone", metavar="PHONE", help=
    "Draw what matters for this phone. Default: the clearest one.")]
# fmt: on


def inspect_command(
    sources_of: SourcesOf = None,
    json_file: SourcesFile = None,
    model: opt.ModelOrBundled = None,
    audio: Looked = None,
    layer: Annotated[str, Option(metavar="NAME", help="The layer whose maps and units to draw: dense2.")] = "conv1",
    phone: Saliency = None,
    out: Annotated[Path, Option(metavar="DIR", help="The folder to write.")] = Path("inside"),
    channel: opt.Channel = None,
    track: opt.Track = None,
    overwrite: opt.Overwrite = False,
) -> None:
    """Draw the inside of a model as PNG files and a page, or print what it was made from.

    The first filters; with a recording also feature maps, how often each maxout piece wins, the functions of units,
    posteriors over time, and the saliency of a phone.
    """
    if sources_of is not None:
        if model is not None or audio is not None:
            raise InputError("MODEL prints sources, and --model or --audio draws", "leave out one of them")
        return _show_sources(sources_of, json_file, overwrite)
    if json_file is not None:
        raise InputError("--json has sources, and no MODEL is named", "name one: speechctc inspect english --json FILE")
    from speechctc.inference.recogniser import Recogniser
    from speechctc.stages.inspect import inspect, write_pictures

    recogniser = opt.open_model(model, Recogniser, opt.Device.cpu)
    found = inspect(recogniser, audio, layer, phone, chosen(track, channel))
    title = f"Inside the model, listening to {audio.name}" if audio else "Inside the model"
    for path in write_pictures(found, out, title, recogniser.about, overwrite):
        show(f"wrote {path}")
