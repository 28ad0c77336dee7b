"""Commands to look before and after: doctor, plot, measure, check-labels, inspect."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from speechctc.bundled import NAMES
from speechctc.cli.options import (
    ChannelOption,
    ConfigOption,
    Device,
    DeviceOption,
    ModelOrBundledOption,
    OverwriteOption,
    SettingsArgument,
    Split,
    load_recogniser,
)
from speechctc.cli.streams import new_reporter, show, show_scores, write_page
from speechctc.core.errors import InputError


def doctor_command(
    settings: SettingsArgument = None,
    config: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--config", help="The config whose corpus to examine. Default: only the machine."),
    ] = None,
    json_file: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--json", metavar="FILE", help="Also write the findings to this JSON file; -: print only JSON."),
    ] = None,
    overwrite: OverwriteOption = False,
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
    overwrite: OverwriteOption = False,
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
    overwrite: OverwriteOption = False,
    channel: ChannelOption = None,
) -> None:
    """Measure phones with Praat: durations, f0 and formants.

    Reads TextGrids that align or decode wrote or a person made, and writes a table (CSV) with a row for each phone: its
    word, neighbours and position, confidence and score, mean f0 and intensity, and F1 to F3 at the middle and in ten
    steps. The speaker is the folder below the one named. Needs praat-parselmouth.
    """
    from speechctc.core.progress import Reporter
    from speechctc.inference.output import check_place
    from speechctc.stages.measure import PraatSettings, measure, picture_form, write_picture, write_table

    form = picture_form(picture) if picture else ""
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
    config: ConfigOption,
    settings: SettingsArgument = None,
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
        Optional[list[Split]],  # noqa: UP045
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
    device: DeviceOption = Device.auto,
    overwrite: OverwriteOption = False,
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
    recogniser = load_recogniser(model, device)
    chosen = [split.value for split in splits or Split]
    checked = check_labels(recogniser, loaded, chosen, new_reporter())
    show(checked.to_text())
    write_page(out, checked.to_tsv(), overwrite)
    if page:
        write_page(page, suspects_page(checked, recogniser, recogniser.about, examples, new_reporter()), overwrite)


def inspect_command(
    model: ModelOrBundledOption = None,
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
    channel: ChannelOption = None,
    overwrite: OverwriteOption = False,
) -> None:
    """Draw the inside of a model as PNG files and a page.

    The first filters; with a recording also feature maps, how often each maxout piece wins, the functions of units,
    posteriors over time, and the saliency of a phone.
    """
    from speechctc.stages.inspect import inspect, write_pictures

    recogniser = load_recogniser(model, Device.cpu)
    found = inspect(recogniser, audio, layer, phone, channel)
    title = f"Inside the model, listening to {audio.name}" if audio else "Inside the model"
    for path in write_pictures(found, out, title, recogniser.about, overwrite):
        show(f"wrote {path}")
