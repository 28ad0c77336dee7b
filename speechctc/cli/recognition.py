"""Commands that work on recordings: decode, align."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

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
from speechctc.cli.streams import new_reporter, show
from speechctc.core.errors import InputError

if TYPE_CHECKING:
    from speechctc.inference.output import OutputOptions
    from speechctc.inference.recogniser import Recogniser


def decode_command(
    audio: Annotated[
        list[Path],
        typer.Argument(
            help="Sound files, folders of them, or patterns in quotes ('talks/*.wav'); - reads standard input."
        ),
    ],
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
) -> None:
    """Recognise the phones of recordings.

    As text, one recording gives one line of phones; several give a line each: the file, a tab, the phones.
    """
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
    from speechctc.stages.decode import decode
    from speechctc.stages.nbest import check_nbest, decode_nbest

    if str(audio[0]) != "-":
        check_some(audio)
    form, also = parse_formats(forms)
    chosen = choose_output(form, out)
    options, work = OutputOptions(*chosen, overwrite, skip_existing, also), Work(jobs, alternatives, channel)
    if nbest and (also or symbols != "own"):
        raise InputError("--nbest writes one format, with the model's own labels", "leave the other options out")
    if nbest:
        check_nbest(audio, options, work)
    device = Device.cpu if cluster else device
    recogniser = load_recogniser(
        model, device, lm or (), lm_weight, beam, min_modulation_db, inventory=inventory, language=language
    )
    may_doubt = not lm and recogniser.folder == BUILT_IN
    options = _with_symbols(options, recogniser, symbols)
    doubt = Doubt(recogniser, by_best_path=bool(nbest)) if may_doubt else None
    if nbest:
        status = decode_nbest(recogniser, audio, nbest, options, new_reporter(), doubt, work)
    else:
        status = decode(recogniser, audio, options, new_reporter(), cluster, raw, doubt, work)
    if status:
        raise typer.Exit(status)


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
