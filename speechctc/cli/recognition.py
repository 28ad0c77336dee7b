"""Commands that work on recordings: decode, align."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from speechctc.cli.options import (
    AlternativesOption,
    BeamOption,
    ChannelOption,
    ClusterOption,
    Device,
    DeviceOption,
    DictionaryOption,
    FormatOption,
    HeardLanguageOption,
    IntervalsOption,
    InventoryOption,
    JobsOption,
    LanguageOption,
    LimitsOption,
    LmOption,
    LmWeightOption,
    MinModulationOption,
    MisfitsOption,
    ModelOrBundledOption,
    NbestOption,
    OutOption,
    OverwriteOption,
    PhonesOption,
    RatingsOption,
    RawOption,
    RefineOption,
    SilenceOption,
    SkipOption,
    SymbolsOption,
    TierOption,
    TranscriptsOption,
    WordsOption,
    load_recogniser,
)
from speechctc.cli.streams import new_reporter, say, show
from speechctc.core.errors import InputError, printable

if TYPE_CHECKING:
    from speechctc.inference.output import OutputOptions
    from speechctc.inference.recogniser import Recogniser


def decode_command(
    audio: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Sound files, folders of them, or patterns in quotes ('talks/*.wav'); - reads standard input."
        ),
    ] = None,
    model: ModelOrBundledOption = None,
    forms: FormatOption = None,
    symbols: SymbolsOption = "own",
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    skip_existing: SkipOption = False,
    channel: ChannelOption = None,
    jobs: JobsOption = 0,
    alternatives: AlternativesOption = 0,
    raw: RawOption = None,
    lm: LmOption = None,
    lm_weight: LmWeightOption = None,
    beam: BeamOption = None,
    inventory: InventoryOption = None,
    language: HeardLanguageOption = None,
    nbest: NbestOption = None,
    min_modulation_db: MinModulationOption = None,
    cluster: ClusterOption = None,
    device: DeviceOption = Device.auto,
    via_service: Annotated[
        bool, typer.Option("--via-service", help="Let the service that --listen started decode: its model is loaded.")
    ] = False,
    listen: Annotated[
        bool,
        typer.Option("--listen", help="Keep models loaded for --via-service, until Ctrl-C; with --model, --device."),
    ] = False,
) -> None:
    """Recognise the phones of recordings.

    As text, one recording gives one line of phones; several give a line each: the file, a tab, the phones.
    """
    options = {name: value for name, value in locals().items() if name not in ("listen", "via_service")}
    if listen:
        _listen(options, via_service)
    elif not audio:
        raise InputError("no recordings are named", "name sound files or folders; see speechctc decode --help")
    elif status := _ask_service(options) if via_service else _decode(**options):
        raise typer.Exit(status)


def _listen(options: dict[str, Any], via_service: bool) -> None:
    """Load a model, and decode with it what other commands ask for."""
    from speechctc.stages.service import Models, listen

    usual = {"model", "device", "symbols"}
    if via_service or any(value for name, value in options.items() if name not in usual) or options["symbols"] != "own":
        raise InputError("--listen decodes what others ask for", "give it --model and --device only")
    models = Models()
    load_recogniser(options["model"], options["device"], read=models.read)
    listen(lambda asked: _decode(**_from_json(asked), read=models.read, is_sent=True), say)


def _ask_service(options: dict[str, Any]) -> int:
    """Print or write what the service has decoded; return the exit status."""
    from speechctc.core import written
    from speechctc.stages.ask_service import ask

    out, overwrite = options["out"] and Path(options["out"]), options["overwrite"]
    if "-" in map(str, options["audio"]) or options["raw"] or options["cluster"]:
        raise InputError("--via-service decodes files", "leave it out for standard input, --raw or --cluster")
    if out and (out.is_dir() or options["out"].endswith(("/", os.sep)) or not (out.suffix or out.exists())):
        raise InputError(f"--out {out} is a folder, and --via-service writes one file", "name a file, or leave it out")
    if out:
        written.refuse_changed([out], overwrite)
    answer = ask(_to_json(options))
    sys.stderr.write(printable(answer.err, keep="\n\t"))
    if out and (answer.out or not answer.error):
        written.write_bytes(out, answer.out, overwrite)
    elif not out:
        text = answer.out.decode("utf-8", "surrogateescape")
        sys.stdout.write(printable(text, keep="\n\t\r") if sys.stdout.isatty() else text)
    if answer.error:
        raise InputError(*answer.error)
    return answer.status


def _to_json(options: dict[str, Any]) -> dict[str, Any]:
    """Return options as values of JSON."""
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in options.items()}
    paths = {name: options[name] and [str(each) for each in options[name]] for name in ("audio", "lm")}
    return {**plain, **paths, "device": options["device"].value}


def _from_json(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `_to_json`; one that is not given has the default of the command."""
    known = inspect.signature(decode_command).parameters
    usual = {name: each.default for name, each in known.items() if name not in ("listen", "via_service")}
    given = {**usual, **given}
    paths = {name: given[name] and [Path(each) for each in given[name]] for name in ("audio", "lm")}
    model = given["model"] and Path(given["model"])
    return {**given, **paths, "model": model, "device": Device(given["device"])}


def _decode(
    audio: list[Path],
    model: Path | None,
    forms: list[str] | None,
    symbols: str,
    out: str | None,
    overwrite: bool,
    skip_existing: bool,
    channel: int | None,
    jobs: int,
    alternatives: int,
    raw: int | None,
    lm: list[Path] | None,
    lm_weight: float | None,
    beam: int | None,
    inventory: str | None,
    language: str | None,
    nbest: int | None,
    min_modulation_db: float | None,
    cluster: str | None,
    device: Device,
    read: Callable[[Path, str], Recogniser] | None = None,
    is_sent: bool = False,
) -> int:
    """Decode; return the exit status. `is_sent`: it writes no file, and who asked puts the output into `out`."""
    if "-" in map(str, audio) and len(audio) > 1:
        raise InputError("- reads standard input and cannot be named with others", "decode it alone")
    if raw and str(audio[0]) != "-":
        raise InputError("--raw is for standard input", "name - instead of a file")
    if cluster and (inventory or language):
        raise InputError("--cluster decodes with all phones of the model", "leave out --cluster, or what names phones")
    if cluster and (nbest or str(audio[0]) == "-"):
        raise InputError("--cluster decodes files, without --nbest", "leave one of the two out")
    from speechctc.audio.recordings import check_some
    from speechctc.inference.output import OutputOptions, Work, choose_output, parse_formats
    from speechctc.inference.unsure import Doubt
    from speechctc.model.checkpoint import BUILT_IN
    from speechctc.stages.decode import check_nbest, decode, decode_nbest

    if str(audio[0]) != "-":
        check_some(audio)
    form, also = parse_formats(forms)
    chosen = choose_output(form, out)
    options, work = OutputOptions(*chosen, overwrite, skip_existing, also), Work(jobs, alternatives, channel)
    options = _sent(options) if is_sent else options
    if nbest and (also or symbols != "own"):
        raise InputError("--nbest writes one format, with the model's own labels", "leave the other options out")
    if nbest:
        check_nbest(audio, options, work)
    device = Device.cpu if cluster else device
    recogniser = load_recogniser(
        model, device, lm or (), lm_weight, beam, min_modulation_db, True, inventory, language, read
    )
    may_doubt = not lm and recogniser.folder == BUILT_IN
    options = _with_symbols(options, recogniser, symbols)
    doubt = Doubt(recogniser, by_best_path=bool(nbest)) if may_doubt else None
    if nbest:
        return decode_nbest(recogniser, audio, nbest, options, new_reporter(), doubt, work)
    return decode(recogniser, audio, options, new_reporter(), cluster, raw, doubt, work)


def _sent(options: OutputOptions) -> OutputOptions:
    """Return the options of a command whose results who asked for them writes."""
    from speechctc.inference.formats import WRITERS

    if options.folder is not None or options.also:
        raise InputError("--via-service writes one file", "name a file and a format, or leave it out")
    if not WRITERS[options.form].is_text and options.file is None:
        raise InputError(f"--format {options.form} is not text", "name a file with --out")
    return replace(options, file=None, place=options.file)


def align_command(
    audio: Annotated[
        list[Path] | None,
        typer.Argument(help="Sound files, folders of them, or patterns in quotes ('talks/*.wav')."),
    ] = None,
    phones: PhonesOption = None,
    transcripts: TranscriptsOption = None,
    words: WordsOption = None,
    language: LanguageOption = None,
    dictionary: DictionaryOption = None,
    tier: TierOption = None,
    limits: LimitsOption = None,
    misfits: MisfitsOption = False,
    silence: SilenceOption = None,
    refine: RefineOption = True,
    intervals: IntervalsOption = False,
    inventory: InventoryOption = None,
    model: ModelOrBundledOption = None,
    forms: FormatOption = None,
    symbols: SymbolsOption = "own",
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    skip_existing: SkipOption = False,
    channel: ChannelOption = None,
    jobs: JobsOption = 0,
    device: DeviceOption = Device.auto,
) -> None:
    """Find the times of known phones or words in recordings.

    In phones and words, * stands for any stretch of sound, (a|b c) for alternatives, (a|) for what may be missing. If
    the phones come from files with times (.PHN, TextGrid), also prints how far those are from the times found. The
    exit status is 0 if all is well, 3 if some recordings do not fit their transcripts, 1 if some recordings failed, 2
    if all failed.
    """
    _align(**locals())


def score_phones_command(
    audio: Annotated[
        list[Path] | None,
        typer.Argument(help="Sound files, folders of them, or patterns in quotes ('talks/*.wav')."),
    ] = None,
    phones: PhonesOption = None,
    transcripts: TranscriptsOption = None,
    words: WordsOption = None,
    language: LanguageOption = None,
    dictionary: DictionaryOption = None,
    tier: TierOption = None,
    limits: LimitsOption = None,
    misfits: MisfitsOption = False,
    silence: SilenceOption = None,
    refine: RefineOption = True,
    intervals: IntervalsOption = False,
    model: ModelOrBundledOption = None,
    forms: FormatOption = None,
    symbols: SymbolsOption = "own",
    out: OutOption = None,
    overwrite: OverwriteOption = False,
    skip_existing: SkipOption = False,
    channel: ChannelOption = None,
    jobs: JobsOption = 0,
    device: DeviceOption = Device.auto,
    ratings: RatingsOption = None,
) -> None:
    """Say how well each phone of a transcript was said.

    Aligns recordings with their phones or words as align does. The score of a phone is from 0 to 1: the share of the
    phones of right speech that fit as badly or worse. Beside it stands what was most probably said
    instead: another phone, nothing (-), or one phone more. Words and recordings have the means. The exit status is that
    of align.
    """
    _align(scored=True, **locals())


def _align(
    audio: list[Path] | None,
    phones: str | None,
    transcripts: Path | None,
    words: Path | None,
    language: str | None,
    dictionary: Path | None,
    tier: str | None,
    limits: bool | None,
    misfits: bool,
    silence: str | None,
    refine: bool,
    intervals: bool,
    model: Path | None,
    forms: list[str] | None,
    symbols: str,
    out: str | None,
    overwrite: bool,
    skip_existing: bool,
    channel: int | None,
    jobs: int,
    device: Device,
    inventory: str | None = None,
    scored: bool = False,
    ratings: Path | None = None,
) -> None:
    """Align recordings; `scored`: also say how well each phone was said, and compare that with ratings."""
    from speechctc.corpora.transcripts import Choice, find_tasks
    from speechctc.inference.output import OutputOptions, Work, choose_output, parse_formats
    from speechctc.stages.align import align, choose_placing
    from speechctc.stages.score_phones import Ratings, say_if_untaught

    if words is not None and (phones is not None or transcripts is not None):
        raise InputError("--words are given, and phones too", "give one of them")
    form, also = parse_formats(forms)
    chosen = choose_output(form, out)
    options = OutputOptions(*chosen, overwrite, skip_existing, also, {}, scored)
    labels: Literal["phones", "words"] = "phones" if words is None else "words"
    tasks = find_tasks(audio or (), phones, words or transcripts, Choice(tier, labels, limits), new_reporter())
    if intervals and "textgrid" not in options.forms:
        raise InputError("--intervals is a tier of TextGrids, and none is written", "give --format textgrid too")
    rated = Ratings.read(ratings, [task.recording for task in tasks]) if ratings else None
    recogniser = load_recogniser(model, device, inventory=inventory)
    recogniser.boundaries = recogniser.boundaries if refine else None
    if intervals and recogniser.boundaries is None:
        raise InputError("--intervals needs a boundary model", "leave --no-refine out, or train-boundaries first")
    options = _with_symbols(options, recogniser, symbols)
    placing = choose_placing(recogniser.inventory, labels, dictionary, language, misfits, silence, symbols == "own")
    placing = placing._replace(show_intervals=intervals)
    if scored:
        say_if_untaught(recogniser, new_reporter())
    work, see = Work(jobs, channel=channel), rated.see if rated else None
    status = align(recogniser, tasks, options, new_reporter(), placing, work, see)
    if rated:
        show(rated.to_text(), err=out is None)
    if status:
        raise typer.Exit(status)


def _with_symbols(options: OutputOptions, recogniser: Recogniser, choice: str) -> OutputOptions:
    """Return the options with the notation of the phones, and print what it cannot write."""
    from speechctc.phones.notations import choose_symbols

    symbols = choose_symbols(recogniser.phones, choice)
    if symbols.note:
        new_reporter().warn(symbols.note)
    return replace(options, symbols=symbols.written)
