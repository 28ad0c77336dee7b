"""Commands that work on recordings: decode, align, score-phones."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal

import typer

from speechctc.cli import options as opt
from speechctc.cli.streams import new_reporter, show
from speechctc.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from speechctc.corpora.transcripts import Labels, Task
    from speechctc.inference.decoder import Decoder
    from speechctc.inference.output import OutputOptions
    from speechctc.inference.recogniser import Recogniser
    from speechctc.stages.align import Placing
    from speechctc.stages.by_speaker import SpeakerPages
    from speechctc.stages.decode import Source


def decode_command(
    audio: list[Path] | None = None,
    model: Path | None = None,
    forms: list[str] | None = None,
    symbols: str = "own",
    out: str | None = None,
    overwrite: bool = False,
    skip_existing: bool = False,
    skip_changed: bool = False,
    channel: int | None = None,
    jobs: int = 0,
    alternatives: int = 0,
    raw: int | None = None,
    live: bool = False,
    lm: list[Path] | None = None,
    lm_weight: float | None = None,
    beam: int | None = None,
    inventory: str | None = None,
    language: str | None = None,
    tier: str | None = None,
    textgrids: Path | None = None,
    nbest: int | None = None,
    min_modulation_db: float | None = None,
    cluster: str | None = None,
    device: opt.Device = opt.Device.auto,
) -> None:
    """Recognise the phones of recordings.

    As text, one recording gives one line of phones; several give a line each: the file, a tab, the phones.
    """
    given = SimpleNamespace(**locals())
    if not audio:
        raise InputError("no recordings are named", "name sound files or folders; see speechctc decode --help")
    if status := _decode(given):
        raise typer.Exit(status)


def _decode(given: SimpleNamespace) -> int:
    """Decode; return the exit status."""
    audio, nbest, cluster = given.audio, given.nbest, given.cluster
    if "-" in map(str, audio) and len(audio) > 1:
        raise InputError("- reads standard input and cannot be named with others", "decode it alone")
    if (given.raw or given.live) and str(audio[0]) != "-":
        raise InputError(f"--{'raw' if given.raw else 'live'} is for standard input", "name - instead of a file")
    if cluster and (given.inventory or given.language):
        raise InputError("--cluster decodes with all phones of the model", "leave out --cluster, or what names phones")
    if given.textgrids and not given.tier:
        raise InputError("--textgrids has intervals of a tier, and none is named", "give --tier NAME too")
    if given.tier and (nbest or cluster or str(audio[0]) == "-"):
        raise InputError("--tier decodes files here, without --nbest and --cluster", "leave one of them out")
    if cluster and (nbest or str(audio[0]) == "-"):
        raise InputError("--cluster decodes files, without --nbest", "leave one of the two out")
    from speechctc.audio.recordings import check_some
    from speechctc.inference.output import OutputOptions, Work, choose_output, parse_formats
    from speechctc.inference.unsure import Doubt
    from speechctc.model.checkpoint import BUILT_IN
    from speechctc.phones.languages import LISTED
    from speechctc.stages.decode import check_nbest, decode

    if str(audio[0]) != "-":
        check_some(audio)
    form, also = parse_formats(given.forms)
    skips = (given.skip_existing, given.skip_changed)
    options = OutputOptions(*choose_output(form, given.out), given.overwrite, *skips, also)
    work = Work(given.jobs, given.alternatives, given.channel, given.live, given.raw, nbest or 0)
    if nbest and (also or given.symbols != "own"):
        raise InputError("--nbest writes one format, with the model's own labels", "leave the other options out")
    if nbest:
        check_nbest(audio, options, work)
    device, search = opt.Device.cpu if cluster else given.device, (given.lm_weight, given.beam, given.min_modulation_db)
    model = _suited(given.model, given.language, LISTED)
    named = {"inventory": given.inventory, "language": given.language}
    recogniser = opt.load_decoder(opt.Model(model, device, given.lm or (), *search, **named))
    options = _with_symbols(options, recogniser, given.symbols)
    doubtful = not given.lm and recogniser.folder == BUILT_IN
    doubt = Doubt(recogniser, by_best_path=bool(nbest)) if doubtful else None
    return decode(recogniser, audio, options, new_reporter(), work, doubt, _source(given))


def _source(given: SimpleNamespace) -> Source | None:
    """Return where results come from, if not from this machine's threads."""
    if not given.tier and not given.cluster:
        return None
    from speechctc.stages.decode_sources import Cluster, Tier

    return Tier(given.tier, given.textgrids) if given.tier else Cluster(given.cluster)


def align_command(
    audio: list[Path] | None = None,
    phones: str | None = None,
    transcripts: Path | None = None,
    words: Path | None = None,
    language: str | None = None,
    dictionary: Path | None = None,
    tier: str | None = None,
    limits: bool | None = None,
    misfits: bool = False,
    silence: str | None = None,
    first_variant: bool = False,
    refine: bool = True,
    intervals: bool = False,
    inventory: str | None = None,
    model: Path | None = None,
    forms: list[str] | None = None,
    symbols: str = "own",
    out: str | None = None,
    overwrite: bool = False,
    skip_existing: bool = False,
    skip_changed: bool = False,
    channel: int | None = None,
    jobs: int = 0,
    device: opt.Device = opt.Device.auto,
) -> None:
    """Find the times of known phones or words in recordings.

    In phones and words, * stands for any piece of sound, (a|b c) for alternatives, (a|) for what may be missing. If
    the phones come from files with times (.PHN, TextGrid), also prints how far those are from the times found. The
    exit status is 0 if all is well, 3 if some recordings do not fit their transcripts, 1 if some recordings failed, 2
    if all failed.
    """
    _align(SimpleNamespace(**locals(), ratings=None, by_speaker=None, before=None))


def score_phones_command(**given: Any) -> None:
    """Say how well each phone of a transcript was said.

    Aligns recordings with their phones or words as align does. The score of a phone is from 0 to 1 and compares it with
    the same phone in right speech, which fits as badly or worse in 4 of 100 cases where the score is 0.2, in half where
    it is 0.7. A second column has what was most probably said instead: another phone, nothing (-), or one phone more.
    Words and recordings have the means. The exit status is that of align.

    --by-speaker writes a page for each speaker: the worst sounds first, what was said instead, words to listen to.
    """
    if given["by_speaker"] is not None:
        if given["out"] is not None:
            raise InputError("--out and --by-speaker both say where to write", "give one of them")
        given |= {"out": f"{given['by_speaker'] / 'scores'}/", "forms": ["json", *(given["forms"] or ())]}
    elif given["before"] is not None:
        raise InputError("--before is for --by-speaker", "give --by-speaker FOLDER too")
    _align(SimpleNamespace(**given, inventory=None), scored=True)


_options = {**inspect.signature(align_command, eval_str=True).parameters}
_ratings = _options.pop("inventory").replace(name="ratings", annotation=Path | None)
_pages = [_ratings.replace(name=name) for name in ("by_speaker", "before")]
score_phones_command.__signature__ = inspect.Signature([*_options.values(), _ratings, *_pages])  # type: ignore[attr-defined]


def _align(given: SimpleNamespace, scored: bool = False) -> None:
    """Align recordings; `scored`: also say how well each phone was said, and compare that with ratings."""
    from speechctc.corpora.transcripts import Choice, find_tasks
    from speechctc.inference.output import OutputOptions, Work, choose_output, parse_formats
    from speechctc.stages.align import Ratings, align, in_own_languages, say_if_untaught

    if given.words is not None and (given.phones is not None or given.transcripts is not None):
        raise InputError("--words are given, and phones too", "give one of them")
    form, also = parse_formats(given.forms)
    chosen = choose_output(form, given.out)
    skips = (given.skip_existing, given.skip_changed)
    options = OutputOptions(*chosen, given.overwrite, *skips, also, {}, scored)
    labels: Literal["phones", "words"] = "phones" if given.words is None else "words"
    choice = Choice(given.tier, labels, given.limits)
    tasks = find_tasks(given.audio or (), given.phones, given.words or given.transcripts, choice, new_reporter())
    if given.intervals and "textgrid" not in options.forms:
        raise InputError("--intervals is a tier of TextGrids, and none is written", "give --format textgrid too")
    rated = Ratings.read(given.ratings, [task.recording for task in tasks]) if given.ratings else None
    pages = _plan_pages(tasks, given) if given.by_speaker else None
    named = None
    if labels == "words" and not given.dictionary:
        named, tasks = in_own_languages(tasks, given.language, new_reporter())
    model = _suited(given.model, given.language or named)
    recogniser = opt.load_recogniser(opt.Model(model, given.device, inventory=given.inventory))
    recogniser.boundaries = recogniser.boundaries if given.refine else None
    if given.intervals and recogniser.boundaries is None:
        raise InputError("--intervals needs a boundary model", "leave --no-refine out, or train-boundaries first")
    options = _with_symbols(options, recogniser, given.symbols)
    placing = _placing(given, recogniser, labels, given.language or named)
    if rated and rated.note:
        new_reporter().warn(rated.note)
    if scored:
        say_if_untaught(recogniser, new_reporter())
    work, see = Work(given.jobs, channel=given.channel), rated.see if rated else None
    status = align(recogniser, tasks, options, new_reporter(), placing, work, see)
    if rated:
        show(rated.to_text(), err=given.out is None)
    if pages:
        show(pages.write(options))
    if status:
        raise typer.Exit(status)


def _plan_pages(tasks: Sequence[Task], given: SimpleNamespace) -> SpeakerPages:
    from speechctc.stages.by_speaker import SpeakerPages  # late: it loads what draws pages

    return SpeakerPages.plan(tasks, given.by_speaker, given.before, given.overwrite)


def _placing(given: SimpleNamespace, recogniser: Recogniser, labels: Labels, language: str | None) -> Placing:
    """Return how transcripts are placed."""
    from speechctc.stages.align import choose_placing

    how = given.misfits, given.silence, given.symbols == "own"
    placing = choose_placing(recogniser.inventory, labels, given.dictionary, language, *how)
    placing = placing._replace(show_intervals=given.intervals, first_variant=given.first_variant)
    return placing._replace(in_language=None) if given.language else placing


def _suited(model: Path | None, language: str | None, *instead: str) -> Path | None:
    """Return the model that is named, or `ipa` where none is, no run is here, and the language is not English.

    `instead` is what to do without the language, for a message.
    """
    from speechctc.model.checkpoint import BUILT_IN, find_checkpoint
    from speechctc.phones.espeak import Reader

    if model is not None or not language or find_checkpoint(None, True) != BUILT_IN:
        return model
    return None if Reader(language, *instead).language.partition("-")[0] == "en" else Path("ipa")


def _with_symbols(options: OutputOptions, recogniser: Decoder, choice: str) -> OutputOptions:
    """Return the options with the notation of the phones, and print what it cannot write."""
    from speechctc.phones.notations import choose_symbols

    symbols = choose_symbols(recogniser.phones, choice)
    if symbols.note:
        new_reporter().warn(symbols.note)
    return replace(options, symbols=symbols.written)
