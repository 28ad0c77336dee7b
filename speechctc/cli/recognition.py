"""Commands that work on recordings: decode, align."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

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
    if cluster and inventory:
        raise InputError("--cluster decodes with all phones of the model", "leave --inventory or --cluster out")
    if cluster and (nbest or str(audio[0]) == "-"):
        raise InputError("--cluster decodes files, without --nbest", "leave one of the two out")
    from speechctc.core.progress import Reporter
    from speechctc.inference.output import OutputOptions, choose_output, parse_formats
    from speechctc.inference.unsure import Doubt
    from speechctc.model.checkpoint import BUILT_IN, find_checkpoint
    from speechctc.stages.decode import decode
    from speechctc.stages.nbest import check_nbest, decode_nbest

    form, also = parse_formats(forms)
    chosen = choose_output(form, out)
    options = OutputOptions(*chosen, jobs, alternatives, channel, overwrite, skip_existing, also)
    if nbest and (also or symbols != "own"):
        raise InputError("--nbest writes one format, with the model's own labels", "leave the other options out")
    if nbest:
        check_nbest(audio, options)
    device = Device.cpu if cluster else device
    recogniser = load_recogniser(model, device, lm or (), lm_weight, beam, min_modulation_db)
    if inventory is not None:
        from speechctc.inference.restriction import restrict

        recogniser = restrict(recogniser, inventory, Reporter())
    options = _with_symbols(options, recogniser, symbols)
    doubt = None if lm or find_checkpoint(model, True) != BUILT_IN else Doubt(recogniser, by_best_path=bool(nbest))
    if nbest:
        status = decode_nbest(recogniser, audio, nbest, options, Reporter(), doubt)
    else:
        status = decode(recogniser, audio, options, Reporter(), cluster, raw, doubt)
    if status:
        raise typer.Exit(status)


def align_command(
    audio: Annotated[
        Optional[list[Path]],  # noqa: UP045
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
) -> None:
    """Find the times of known phones or words in recordings.

    In phones and words, * stands for any stretch of sound, (a|b c) for alternatives, (a|) for what may be missing. If
    the phones come from files with times (.PHN, TextGrid), also prints how far those are from the times found. The
    exit status is 0 if all is well, 3 if some recordings do not fit their transcripts, 1 if some recordings failed, 2
    if all failed.
    """
    from speechctc.core.progress import Reporter
    from speechctc.corpora.transcripts import Choice, find_tasks
    from speechctc.inference.output import OutputOptions, choose_output, parse_formats
    from speechctc.stages.align import align, choose_placing

    if words is not None and (phones is not None or transcripts is not None):
        raise InputError("--words are given, and phones too", "give one of them")
    form, also = parse_formats(forms)
    chosen = choose_output(form, out)
    options = OutputOptions(*chosen, jobs, 0, channel, overwrite, skip_existing, also)
    labels: Literal["phones", "words"] = "phones" if words is None else "words"
    tasks = find_tasks(audio or (), phones, words or transcripts, Choice(tier, labels, limits), Reporter())
    if intervals and "textgrid" not in options.forms:
        raise InputError("--intervals is a tier of TextGrids, and none is written", "give --format textgrid too")
    recogniser = load_recogniser(model, device)
    recogniser.boundaries = recogniser.boundaries if refine else None
    if intervals and recogniser.boundaries is None:
        raise InputError("--intervals needs a boundary model", "leave --no-refine out, or train-boundaries first")
    options = _with_symbols(options, recogniser, symbols)
    placing = choose_placing(recogniser.inventory, labels, dictionary, language, misfits, silence, symbols == "own")
    placing = placing._replace(show_intervals=intervals)
    if status := align(recogniser, tasks, options, Reporter(), placing):
        raise typer.Exit(status)


def _with_symbols(options: OutputOptions, recogniser: Recogniser, choice: str) -> OutputOptions:
    """Return the options with the notation of the phones, and print what it cannot write."""
    from speechctc.core.progress import Reporter
    from speechctc.phones.notations import choose_symbols

    symbols = choose_symbols(recogniser.phones, choice)
    if symbols.note:
        Reporter().warn(symbols.note)
    return replace(options, symbols=symbols.written)
