"""Commands on recordings: decode, align, score-phones, studio, and the plugins for other programs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from speechctc.audio.tracks import chosen
from speechctc.cli import options as opt
from speechctc.cli.options import new_reporter, say, show
from speechctc.core.bundled import NAMES, bundled_folder
from speechctc.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from speechctc.audio.recordings import Named, Recording
    from speechctc.corpora.transcripts import Labels, Task
    from speechctc.inference.decoder import Decoder
    from speechctc.inference.output import OutputOptions, Work
    from speechctc.inference.recogniser import Recogniser
    from speechctc.stages.by_speaker import SpeakerPages
    from speechctc.stages.transcript_reader import TranscriptReader


@dataclass(frozen=True, kw_only=True)
class Recordings:
    """The options of all commands that write a result for each recording."""

    # fmt: off
    audio: Annotated[list[Path] | None, Argument(help=
        "Sound files, folders of them, or patterns in quotes ('talks/*.wav').")] = None
    # fmt: on
    recordings: opt.RecordingList = None
    shard: opt.Part = None
    model: opt.ModelOrBundled = None
    forms: opt.Forms = None
    symbols: opt.Symbols = "own"
    out: opt.Out = None
    overwrite: opt.Overwrite = False
    skip_existing: opt.SkipExisting = False
    skip_changed: opt.SkipChanged = False
    manifest: opt.Manifest = None
    resume: opt.Resume = False
    channel: opt.Channel = None
    track: opt.Track = None
    dereverb: opt.Dereverb = None
    jobs: opt.Jobs = 0
    cluster: opt.Cluster = None
    cluster_wait: opt.ClusterWait = opt.WAIT_SECONDS
    time_limit: opt.TimeLimit = None
    device: opt.OnDevice = opt.Device.auto


@dataclass(frozen=True, kw_only=True)
class Decode(Recordings):
    """The options of ``decode``."""

    # fmt: off
    audio: Annotated[list[Path] | None, Argument(help=
        "Sound files, folders of them, or patterns in quotes ('talks/*.wav'); - reads standard input.")] = None
    alternatives: Annotated[int, Option(metavar="N", min=0, help=
        "In JSON and TextGrid, also name the N next most probable phones.")] = 0
    raw: Annotated[int | None, Option(metavar="RATE", min=1000, help=
        "Standard input has no header: 16-bit little-endian mono samples at RATE Hz.")] = None
    live: Annotated[bool, Option("--live", help=
        "Standard input is a microphone: recognise each phone within about 2 s, without waiting for the sound that the "
        "model averages later. A few phones are others than those of the whole recording.")] = False
    folder_cmn: Annotated[bool, Option("--folder-cmn", help=
        "The recordings of a folder are of one speaker and one microphone: the means of each (CMN, model.context) lean "
        "to those of all, the more the shorter it is. Fewer errors in single words.")
    ] = False
    lm: opt.Lm = None
    lm_weight: opt.LmWeight = None
    beam: opt.Beam = None
    inventory: opt.Inventory = None
    language: opt.PhonesOf = None
    tier: Annotated[str | None, Option(metavar="NAME", help=
        "Recognise only inside the labelled intervals of this tier of TextGrids or ELAN's .eaf, beside the recordings. "
        "TextGrid, .eaf and JSON keep the tier.")] = None
    textgrids: Annotated[Path | None, Option(metavar="PLACE", help=
        "With --tier: a folder of TextGrids or files of ELAN named like the recordings, or the file of a single one. "
        "Default: beside the recordings.")] = None
    min_modulation_db: Annotated[float | None, Option(metavar="DB", help=
        "Find no phones where no band's level changes by more than DB within 1.5 s: in pauses and steady noise. 0: "
        "find phones anywhere. Default: the model's own setting (decode.min_modulation_db).")] = None
    # fmt: on


@opt.with_fields
def decode_command(given: Decode) -> None:
    """Recognise the phones of recordings.

    As text, one recording gives one line of phones; several give a line each: the file, a tab, the phones.
    """
    opt.check_named(given, "decode")
    _check(given, "-" in map(str, given.audio or ()))
    if status := _decode(given, opt.name_recordings(given)):
        raise typer.Exit(status)


def _check(given: Decode, is_stdin: bool) -> None:
    """Check that the options fit together."""
    if is_stdin and len(given.audio or ()) > 1:
        raise InputError("- reads standard input and cannot be named with others", "decode it alone")
    if (given.raw or given.live) and not is_stdin:
        raise InputError(f"--{'raw' if given.raw else 'live'} is for standard input", "name - instead of a file")
    if is_stdin and given.dereverb == opt.When.always:
        raise InputError("--dereverb always is for files: standard input is recognised while it comes", "name a file")
    if given.cluster and (given.inventory or given.language):
        raise InputError("--cluster decodes with all phones of the model", "leave out --cluster, or what names phones")
    if given.textgrids and not given.tier:
        raise InputError("--textgrids has intervals of a tier, and none is named", "give --tier NAME too")
    ways = {"--cluster": given.cluster, "--tier": given.tier, "--folder-cmn": given.folder_cmn, "-": is_stdin}
    if len(named := [way for way, value in ways.items() if value]) > 1:
        raise InputError(f"{named[0]} and {named[1]} do not go together", "leave one of the two out")


def _decode(given: Decode, audio: list[Named]) -> int:
    """Decode; return the exit status."""
    from speechctc.audio.recordings import check_some
    from speechctc.inference.decoder import Decoder, Doubt
    from speechctc.model.checkpoint import BUILT_IN
    from speechctc.phones.languages import LISTED
    from speechctc.stages.decode import decode

    if str(audio[0]) != "-":
        check_some(audio)
    options = _output(given)
    work = _work(given)._replace(
        alternatives=given.alternatives, live=given.live, raw_rate=given.raw, folder_cmn=given.folder_cmn
    )
    place, device = _suited(given.model, given.language, LISTED), opt.Device.cpu if given.cluster else given.device
    recogniser = opt.open_model(
        place,
        Decoder,
        device,
        lms=given.lm or (),
        lm_weight=given.lm_weight,
        beam=given.beam,
        min_modulation_db=given.min_modulation_db,
        dereverb=given.dereverb and given.dereverb.value,
        inventory=given.inventory,
        language=given.language,
    )
    options = _with_symbols(options, recogniser, given.symbols)
    doubt = Doubt(recogniser) if not given.lm and recogniser.folder == BUILT_IN else None
    source = None
    if given.tier:
        from speechctc.stages.decode_sources import inside  # late: few use it

        source = partial(inside, given.tier, given.textgrids)
    with opt.with_manifest("decode", options, given, recogniser) as options:
        return decode(recogniser, audio, options, new_reporter(), work, doubt, source)


def _work(given: Recordings) -> Work:
    """Return what is computed of recordings, and where."""
    from speechctc.inference.output import Work

    return Work(
        given.jobs,
        channel=chosen(given.track, given.channel),
        cluster=given.cluster,
        cluster_wait=given.cluster_wait,
        time_limit=given.time_limit,
    )


def _output(given: Recordings, scored: bool = False) -> OutputOptions:
    """Return how results are written."""
    from speechctc.inference.output import OutputOptions, choose_output, parse_formats

    form, also = parse_formats(given.forms)
    skips = (given.skip_existing, given.skip_changed)
    form, file, folder = choose_output(form, given.out)
    opt.check_part(given.shard, file)
    return OutputOptions(form, file, folder, given.overwrite, *skips, also, {}, scored)


@dataclass(frozen=True, kw_only=True)
class Transcribed(Recordings):
    """The options of ``align`` and ``score-phones``."""

    # fmt: off
    phones: Annotated[str | None, Option(metavar="PHONES", help=
        'The phones of a single recording: "sh iy hh ae d".')] = None
    transcripts: Annotated[Path | None, Option(metavar="PLACE", help=
        "The phones: a table with the columns id, audio and phones; a folder of files named like the recordings; or "
        "the file of a single recording. Default: files in the folders of the recordings, .PHN, .lab, .txt, .TextGrid, "
        ".eaf or .ctm, in this order.")] = None
    words: Annotated[Path | None, Option(metavar="PLACE", help=
        "Words instead of phones: a file of a single recording, .txt, .lab, .TextGrid, .eaf, .WRD, .srt or .vtt; .ctm "
        "or .stm, also of many; a folder of such files named like the recordings; or a table with the columns id, "
        "audio and words. Needs --language or --dictionary, but for words in IPA.")] = None
    language: opt.WordLanguage = None
    dictionary: opt.Dictionary = None
    tier: Annotated[str | None, Option(metavar="NAME", help=
        "Read the phones only from TextGrids and ELAN's .eaf, from this tier. Default: the tier phones (words with "
        "--words), and other files too.")] = None
    limits: Annotated[bool | None, Option("--limits/--no-limits", help=
        "Place the labels of each annotation, interval or row (columns start and end, in seconds) between its own "
        "times, or all of them in the whole recording. Default: between the times of rows, and of a tier most of whose "
        "labels stand in annotations of several.")] = None
    misfits: Annotated[bool | None, Option("--misfits/--no-misfits", help=
        "Mark what is missing from a recording, and what it holds beyond its transcript, instead of placing every word "
        "or phone; --no-misfits does not look. Default: score-phones marks it and scores no word beside it; align "
        "places all, and says when it seems that something does not fit.")] = None
    silence: Annotated[str | None, Option(metavar="PHONES", help=
        'Phones of the model that may stand between words: "pau sil". Default: with --words all of its labels of '
        'silence, else none; "" for none.')] = None
    ignore: Annotated[list[str] | None, Option("--ignore", metavar="LABEL[,LABEL]...", help=
        "Labels that are neither words nor phones, beside those that are known ([noise], sp, xxx): each is placed as "
        "any sound. May be given several times.")] = None
    first_variant: Annotated[bool, Option("--first-variant", help=
        "Take the first pronunciation of each word. Default: of several, the one that fits the recording best; JSON "
        "and the outputs of score-phones name it.")] = False
    refine: Annotated[bool, Option("--refine/--no-refine", help=
        "Place boundaries by the boundary model that train-boundaries has put beside the model, if there is "
        "one.")] = True
    shift: Annotated[bool, Option("--shift/--no-shift", help=
        "Move these boundaries to where hand-made ones usually lie, by 27 numbers of the bundled model that are "
        "statistics of TIMIT (CC BY-NC-SA). --no-shift does without these numbers.")] = True
    intervals: Annotated[bool, Option("--intervals", help=
        "A TextGrid gets a tier of points: each boundary, and between which times it lies with a probability of 95 %. "
        "JSON always has them.")] = False
    # fmt: on


@dataclass(frozen=True, kw_only=True)
class Align(Transcribed):
    """The options of ``align``."""

    inventory: opt.Inventory = None


@opt.with_fields
def align_command(given: Align) -> None:
    """Find the times of known phones or words in recordings.

    In phones and words, * stands for any piece of sound, (a|b c) for alternatives, (a|) for what may be missing. The
    exit status is 0 if all is well, 2 if all recordings failed, 1 if some did, and 3 if none did and some do not fit
    their transcripts.
    """
    _align(given)


@dataclass(frozen=True, kw_only=True)
class ScorePhones(Transcribed):
    """The options of ``score-phones``."""

    # fmt: off
    by_speaker: Annotated[Path | None, Option(metavar="FOLDER", help=
        "Write into this folder a page for each speaker, a page and sheets (CSV, Excel) of all, and the scores of the "
        "recordings (JSON, and other formats of --format).")] = None
    before: Annotated[Path | None, Option(metavar="FOLDER", help=
        "With --by-speaker: the folder that it wrote of earlier recordings. Pages and sheets say which scores changed "
        "since, and whether that is beyond chance.")] = None
    contrasts: Annotated[str | None, Option(metavar="PAIRS", help=
        "Also compare these sounds with each other alone, at each of their places: th/s,l/r. Instead of pairs, a first "
        "language takes those that its speakers often mistake in English: ar, de, es, fr, hi, it, ja, ko, pl, pt, ru, "
        "tr or zh.")] = None
    # fmt: on


@opt.with_fields
def score_phones_command(given: ScorePhones) -> None:
    """Say how well each phone of a transcript was said.

    Aligns recordings with their phones or words as align does. The score of a phone is from 0 to 1 and compares it with
    the same phone in right speech, which fits as badly or worse in 4 of 100 cases where the score is 0.2, in half where
    it is 0.7. A second column has what was most probably said instead: another phone, nothing (-), or one phone more.
    Words and recordings have the means. The exit status is that of align.

    --by-speaker writes a page for each speaker: the worst sounds first, what was said instead, words to listen to.
    """
    if given.by_speaker is not None:
        if given.out is not None:
            raise InputError("--out and --by-speaker both say where to write", "give one of them")
        if given.before is not None and given.before.resolve() == given.by_speaker.resolve():
            raise InputError("--before and --by-speaker name one folder", "give --by-speaker a new one")
        given = replace(given, out=f"{given.by_speaker / 'scores'}/", forms=["json", *(given.forms or ())])
    elif given.before is not None:
        raise InputError("--before is for --by-speaker", "give --by-speaker FOLDER too")
    _align(given)


def _align(given: Align | ScorePhones) -> None:
    """Align recordings; `ScorePhones`: also say how well each phone was said."""
    from speechctc.audio.recording_list import parse_shard
    from speechctc.corpora.tasks import find_tasks
    from speechctc.corpora.transcripts import TranscriptOptions
    from speechctc.inference.contrasts import parse_contrasts
    from speechctc.stages.align import align, in_ipa, in_own_languages, say_if_untaught

    if given.words is not None and (given.phones is not None or given.transcripts is not None):
        raise InputError("--words are given, and phones too", "give one of them")
    scoring = given if isinstance(given, ScorePhones) else None
    options = _output(given, scored=scoring is not None)
    labels: Labels = "phones" if given.words is None else "words"
    choice = TranscriptOptions(given.tier, labels, given.limits)
    audio = opt.name_recordings(given)
    tasks = find_tasks(audio, given.phones, given.words or given.transcripts, choice, new_reporter())
    if given.intervals and "textgrid" not in options.forms:
        raise InputError("--intervals is a tier of TextGrids, and none is written", "give --format textgrid too")
    tasks = tasks if audio else parse_shard(given.shard).take(tasks)
    pages, named = _plan_pages(tasks, scoring) if scoring else None, None
    tasks = pages.tasks if pages else tasks
    failed: list[tuple[Recording, str]] = []
    if labels == "words" and not given.dictionary:
        named, tasks = in_own_languages(tasks, given.language, new_reporter())
    language = given.language or named
    is_ipa = not (language or given.dictionary) and in_ipa(tasks, labels)
    recogniser = _load(given, language, is_ipa)
    options = _with_symbols(options, recogniser, given.symbols)
    reader = _reader(given, recogniser, labels, language, is_ipa)
    if scoring:
        say_if_untaught(recogniser, new_reporter())
        if scoring.contrasts is not None:
            pairs = parse_contrasts(scoring.contrasts, recogniser.phones)
            recogniser.goodness = replace(recogniser.goodness, contrasts=pairs)
    command = "score-phones" if scoring else "align"
    with opt.with_manifest(command, options, given, recogniser) as options:
        status = align(recogniser, tasks, options, new_reporter(), reader, _work(given), failed)
    if pages:
        show(pages.write(options, failed))
    if status:
        raise typer.Exit(status)


def _load(given: Align | ScorePhones, language: str | None, is_ipa: bool) -> Recogniser:
    """Load the model that aligns."""
    from speechctc.inference.recogniser import Recogniser

    inventory = given.inventory if isinstance(given, Align) else None
    device, dereverb = opt.Device.cpu if given.cluster else given.device, given.dereverb and given.dereverb.value
    place = _suited(given.model, language, is_ipa=is_ipa)
    recogniser = opt.open_model(place, Recogniser, device, inventory=inventory, dereverb=dereverb)
    recogniser = recogniser if given.shift else recogniser.unshifted()
    recogniser.boundaries = recogniser.boundaries if given.refine else None
    if given.intervals and recogniser.boundaries is None:
        raise InputError("--intervals needs a boundary model", "leave --no-refine out, or train-boundaries first")
    return recogniser


def _plan_pages(tasks: Sequence[Task], given: ScorePhones) -> SpeakerPages | None:
    if given.by_speaker is None:
        return None
    from speechctc.stages.by_speaker import SpeakerPages  # late: it loads what draws pages

    return SpeakerPages.plan(tasks, given.by_speaker, given.before, given.symbols, given.overwrite)


def _reader(
    given: Transcribed, recogniser: Recogniser, labels: Labels, language: str | None, is_ipa: bool
) -> TranscriptReader:
    """Return what reads the transcripts for a model."""
    from speechctc.stages.transcript_reader import ReadingOptions, TranscriptReader

    misfits = True if given.misfits is None and isinstance(given, ScorePhones) else given.misfits
    options = ReadingOptions(
        labels,
        given.dictionary,
        language,
        only_ipa=is_ipa,
        is_of_rows=not given.language,
        find_misfits=misfits,
        silence=given.silence,
        keep=given.symbols == "own",
        show_intervals=given.intervals,
        first_variant=given.first_variant,
        ignored=tuple(given.ignore or ()),
    )
    return TranscriptReader(recogniser.inventory, options)


def _suited(model: Path | None, language: str | None, *instead: str, is_ipa: bool = False) -> Path | None:
    """Return the model that is named, or `ipa` where none is, no run is here, and labels are IPA or not of English.

    `instead` is what to do without the language, for a message.
    """
    from speechctc.model.checkpoint import BUILT_IN, find_checkpoint
    from speechctc.phones.espeak import Reader

    if model is not None or not (language or is_ipa) or find_checkpoint(None, True) != BUILT_IN:
        return model
    if is_ipa or not language:
        show("labels are IPA: --model ipa is used", err=True)
        return Path("ipa")
    return None if Reader(language, *instead).language.partition("-")[0] == "en" else Path("ipa")


def _with_symbols(options: OutputOptions, recogniser: Decoder, choice: str) -> OutputOptions:
    """Return the options with the notation of the phones, and print what it cannot write."""
    from speechctc.phones.notations import choose_symbols

    symbols = choose_symbols(recogniser.phones, choice)
    if symbols.note:
        new_reporter().warn(symbols.note)
    return replace(options, symbols=symbols.written, notation=choice)


def studio_command(
    folder: Annotated[
        Path, Argument(help="The folder of your recordings, or one recording to open in its folder.")
    ] = Path("."),
    at: Annotated[float, Option(metavar="SECONDS", min=0.0, help="Where to open that recording.")] = 0.0,
    model: opt.ModelOrBundled = None,
    inventory: opt.Inventory = None,
    language: opt.PhonesOf = None,
    port: Annotated[int, Option(metavar="N", min=0, max=65535, help="The port of the page; 0: any free one.")] = 0,
    browser: Annotated[bool, Option("--browser/--no-browser", help="Open the page in your browser.")] = True,
) -> None:
    """Listen, correct phones and train again in a page.

    Corrections are saved at once, in a journal beside each recording and in its TextGrid. Of a TextGrid that you
    made, a copy is kept. Nothing is sent to another machine.
    """
    from speechctc.studio.server import serve

    wanted = None
    if inventory or language:
        from speechctc.inference.restriction import find_requested

        wanted = find_requested(inventory, language)
    serve(folder, at, model, port, browser, show, say, wanted)


# fmt: off
PluginFolder = Annotated[Path | None, Argument(metavar="[FOLDER]", help=
    "The folder to write the plugins into, for you to copy.")]
Install = Annotated[bool, Option("--install", help=
    "Write them into the preferences folders of Praat (6 and 7) and the folder extensions of ELAN, where they are "
    "found.")]
PluginModel = Annotated[Path | None, Option("--model", metavar="DIR", help=
    f"The model that they use; bundled are {NAMES}. Default: english.")]
# fmt: on


def plugins_command(
    folder: PluginFolder = None, install: Install = False, model: PluginModel = None, overwrite: opt.Overwrite = False
) -> None:
    """Write plugins for ELAN and Praat.

    ELAN gets a recogniser, Praat commands for sounds and for the intervals of TextGrids; both run this installation.
    """
    from speechctc.studio import plugins

    own = model is not None and model.exists()
    if model is not None and not own and bundled_folder(model) is None:
        raise InputError(f"{model}: no such model", "name the folder of a run or of an exported model")
    if (folder is None) != install:
        raise InputError("either a folder or --install", "name a folder to copy the plugins from, or give --install")
    if folder and folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: a file, not a folder", "name a folder")
    places = plugins.in_folder(folder) if folder else plugins.in_programs()
    if not places:
        raise InputError("no preferences folder of Praat and no ELAN found", "start Praat once, or name a folder")
    plugins.write(places, str(model.resolve()) if model is not None and own else str(model or "english"), overwrite)
    for place in places:
        program, target = "praat", "the preferences folder of Praat"
        if place.name == plugins.ELAN:
            program, target = "elan", "the folder 'extensions' of ELAN"
        todo = f"copy it into {target}" if folder else "written; start the program again"
        show(f"{place}: {todo}; see docs/guide/{program}.md")
    if any(place.name == plugins.PRAAT for place in places):
        show("Praat 7 asks whether you trust the script: choose its last answer, which lasts until Praat ends")
