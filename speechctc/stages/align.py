"""Align recordings with their known phones or words, and score the phones; write the results."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from speechctc.audio import channel, sound_file
from speechctc.audio.recordings import Recording
from speechctc.audio.tracks import preferred
from speechctc.core.errors import InputError, counted_alike, first_few, plural
from speechctc.core.parallel import attempt, check_time, each_within, map_in_threads
from speechctc.core.progress import Reporter
from speechctc.corpora.spoken import without_nonspeech
from speechctc.corpora.transcripts import Labels, Task, Transcript, TranscriptOrError
from speechctc.inference.alignment import AlignOptions, Hearing
from speechctc.inference.manifest import digest_of
from speechctc.inference.output import (
    OutputOptions,
    ResultWriter,
    Work,
    check_out,
    left_to_do,
    note_if_uncalibrated,
    write_results,
)
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition, misfits_text
from speechctc.inference.segmenter import WHOLE, Segment
from speechctc.inference.transcript import Items, Phrase, Unit, parse_phones, parse_words, units_of
from speechctc.phones.articulation import is_arpabet, sounds_of
from speechctc.phones.espeak import Reader, phones_of_language
from speechctc.phones.inventory import CMU39, SILENCES, Inventory
from speechctc.phones.label_rules import may_be_phone
from speechctc.phones.nonspeech import ANY, kind_of_phone
from speechctc.phones.notations import are_other_ipa, notation_of, xsampa_in_ipa
from speechctc.phones.pronouncer import Pronouncer, are_texts_in_ipa, check_length

PhrasesOrError = tuple[Phrase, ...] | InputError  # a transcript to place, or the reason why there is none
DOUBTS = 5  # recordings to name that may not be as in their transcripts
EXAMPLES = 8  # words without a pronunciation, to be named
MISFITS = 3
"""Exit status if all recordings were aligned, and some do not fit their transcripts."""


class Placing(NamedTuple):
    """How transcripts are placed.

    Attributes
    ----------
    pronouncer : Pronouncer, optional
        The transcripts hold words, which this reads; None: they hold phones.
    hearing : Hearing, optional
        The pronunciations and phones keep their labels, which are heard as phones of the model; None: they are its own.
    find_misfits : bool or None
        Mark what is missing from the recordings, and what they hold beyond the transcripts; None: only say so.
    silences : tuple of str
        Phones of the model that may stand between words.
    show_intervals : bool
        TextGrids get a tier of points for the intervals of the boundaries.
    first_variant : bool
        Of the pronunciations of a word, only the first is taken.
    spelled : mapping of str to str
        The labels of the transcripts, by how they are written in IPA, as they are placed.
    in_language : callable, optional
        Returns this for words of a language that a table names; None: all are read alike.
    merged : mapping of str to tuple of str
        By phone, those that the model cannot tell from it.
    ignored : tuple of str
        Labels that are neither phones nor words, beside those that are known.
    """

    pronouncer: Pronouncer | None = None
    hearing: Hearing | None = None
    find_misfits: bool | None = False
    silences: tuple[str, ...] = ()
    show_intervals: bool = False
    first_variant: bool = False
    spelled: Mapping[str, str] = {}
    in_language: Callable[[str], Placing] | None = None
    ignored: tuple[str, ...] = ()
    merged: Mapping[str, tuple[str, ...]] = {}


def choose_placing(
    inventory: Inventory,
    labels: Labels,
    dictionary: Path | None,
    language: str | None,
    misfits: bool | None,
    silence: str | None,
    keep: bool = True,
    only_ipa: bool = False,
) -> Placing:
    """Return how to place transcripts of phones or words.

    Parameters
    ----------
    inventory : Inventory
        The phones of the model.
    labels : str
        What the transcripts hold.
    dictionary, language : Path, str or None
        What reads words.
    misfits : bool or None
        Look for what is missing and for what is not in the transcripts; None: only say so.
    silence : str or None
        Phones, separated by spaces; None: where the transcripts hold words, all labels of silence.
    keep : bool
        Keep the labels of the dictionary and of eSpeak NG, which are heard as phones of the model; False: write those.
        English of eSpeak NG is always written in ARPABET for a model of ARPABET.
    only_ipa : bool
        The words are in IPA, and need neither a dictionary nor a language.

    Raises
    ------
    InputError
        Words, and nothing to read them; or a dictionary or a language, and no words.
    """
    if labels == "phones" and (dictionary or language):
        raise InputError("--dictionary and --language read words, and there are none", "give the words with --words")
    if labels == "words" and not (dictionary or language or only_ipa):
        fix = "give --language en-us or another, --dictionary FILE, or a table with the language of each row"
        raise InputError(
            "--words needs pronunciations", f"{fix}; IPA needs none, between slashes if it may be spelling"
        )
    words = labels == "words"
    found = [phone for phone in inventory.phones if phone in SILENCES] if words else []
    silences = tuple(found if silence is None else silence.split())
    if unknown := [phone for phone in silences if phone not in inventory.phones]:
        raise InputError(f"--silence {unknown[0]}: not a phone of the model", f"choose of {' '.join(inventory.phones)}")
    if not words:
        own = inventory.phones
        return Placing(None, None if is_arpabet(own) else Hearing(inventory, own), misfits, silences)
    pronouncer, hearing = Pronouncer(dictionary, language, only_ipa=only_ipa), None
    if not keep or (pronouncer.is_english and is_arpabet(inventory.phones)):
        pronouncer = Pronouncer(dictionary, language, inventory, only_ipa)
    else:
        pronouncer.check(inventory)
        hearing = Hearing(inventory, pronouncer.labels)
    again = partial(choose_placing, inventory, labels, dictionary, misfits=misfits, silence=silence, keep=keep)
    return Placing(pronouncer, hearing, misfits, silences, in_language=again)


def in_ipa(tasks: Sequence[Task], labels: Labels) -> bool:
    """Return whether transcripts are in IPA: words that need no language, or phones that `english` does not have."""
    texts = _texts(tasks)
    if labels == "words":
        return are_texts_in_ipa(texts)
    found = {label for text in texts for label in re.split(r"[\s()|]+", text)} - {ANY, ""}
    return are_other_ipa({label for label in found if kind_of_phone(label) is None}, CMU39)


def in_own_languages(tasks: Sequence[Task], chosen: str | None, reporter: Reporter) -> tuple[str | None, list[Task]]:
    """Return a language that a table names, if one does, and the transcripts: an error for each without a language.

    None where one is `chosen` for all, which is noted if the table names others.
    """
    found = [task.transcript.language if isinstance(task.transcript, Transcript) else "" for task in tasks]
    if chosen and {*found} - {"", chosen}:
        reporter.note(f"the column language is not used: --language {chosen} is that of all rows")
    if chosen or not any(found):
        return None, list(tasks)
    fix = "fill its column language, or give --language for all"
    kept = [
        task._replace(transcript=InputError(f"{task.recording.path}: its row names no language", fix))
        if isinstance(task.transcript, Transcript) and not language
        else task
        for task, language in zip(tasks, found, strict=True)
    ]
    languages = list(dict.fromkeys(filter(None, found)))  # one that nothing reads is an error of its rows only
    return next((each for each in languages if isinstance(attempt(Reader, each), Reader)), languages[0]), kept


def align(
    recogniser: Recogniser,
    tasks: Sequence[Task],
    options: OutputOptions,
    reporter: Reporter,
    placing: Placing | None = None,
    work: Work = Work(),  # noqa: B008
    failed: list[tuple[Recording, str]] | None = None,
) -> int:
    """Align recordings and write each result when it is ready; return the exit status.

    To `failed` are added the recordings that could not be aligned, and why.

    The status is 0 if all recordings were aligned, 1 if some failed, 2 if all failed, `MISFITS` if all were aligned and
    some do not fit their transcripts.

    Raises
    ------
    InputError
        The output cannot hold the results, or files that a person made or changed would be replaced.
    """
    placing = placing or Placing()
    recordings = [task.recording._replace(channel=preferred(task.recording.channel, work.channel)) for task in tasks]
    tasks = [task._replace(recording=recording) for task, recording in zip(tasks, recordings, strict=True)]
    transcripts = {task.recording: task.transcript for task in tasks}
    options = check_out(recordings, options, lambda each: _digest(transcripts[each]))
    note_if_uncalibrated(recogniser, options, reporter)
    left = set(left_to_do(recordings, options, reporter))
    tasks, placing = _read_as_ipa(tasks, placing, recogniser.inventory)
    tasks, left_out = without_nonspeech(tasks, None if placing.pronouncer else recogniser.inventory, placing.ignored)
    reporter.note(*left_out)
    placing = placing._replace(merged=_merged(placing, recogniser.inventory, tasks)) if options.scored else placing
    misfits, failed = list[tuple[Path, str]](), [] if failed is None else failed
    doubts = list[str]()
    if placing.pronouncer:
        placing.pronouncer.detect_ipa(_texts(tasks))
    tasks = [task for task in tasks if task.recording in left]  # late: all tell how each is read
    # eSpeak NG reads one text at a time: not in the threads
    placings = {"": placing}
    jobs = (_prepared(task, recogniser.inventory, placings, options.scored) for task in tasks)
    recordings = [task.recording for task in tasks]
    with each_within(work.time_limit), _results(recogniser, jobs, options, work, reporter) as results:
        writer = ResultWriter(recordings, _watched(recordings, results, misfits, doubts, failed), options)
        status = write_results(writer, "scoring" if options.scored else "aligning", reporter, aligned=True)
    said = [each.pronouncer.notes() if each.pronouncer else () for each in placings.values()]
    heard = [each.hearing.note() if each.hearing else "" for each in placings.values()]
    languages = [each.pronouncer.language for each in placings.values() if each.pronouncer]
    about = about_scores(recogniser, languages) if options.scored and status < 2 else ""
    merged = {label: others for each in placings.values() for label, others in each.merged.items()}
    about += _merged_text(merged) if about else ""
    spelled = [f"labels read as X-SAMPA: {first_few(pairs)}"] if (pairs := _pairs(placing.spelled)) else []
    reporter.note(*filter(None, [*spelled, *chain.from_iterable(said), *heard, about, *counted_alike(misfits)]))
    reporter.note(*_doubts(doubts, len(recordings)))
    return status or (MISFITS if misfits else 0)


def _digest(transcript: TranscriptOrError) -> str:
    """Return a digest of what is to be placed."""
    if isinstance(transcript, InputError):
        return digest_of(str(transcript))
    return digest_of(transcript.labels, transcript.phrases, transcript.language)


def _merged(placing: Placing, inventory: Inventory, tasks: Sequence[Task]) -> dict[str, tuple[str, ...]]:
    """Return which phones of the dictionary, the language, or the transcripts the model does not tell apart."""
    if (pronouncer := placing.pronouncer) is None:
        found = [task.transcript.labels for task in tasks if isinstance(task.transcript, Transcript)]
        labels = list(dict.fromkeys(label for each in found for label in each if may_be_phone(label, inventory.phones)))
        return Hearing(inventory).merged(labels, True) if placing.hearing else {}
    if pronouncer.is_english and is_arpabet(inventory.phones):
        return {}  # its phones are those of the model
    read = phones_of_language(pronouncer.language) if pronouncer.language and not pronouncer.labels else ()
    return Hearing(inventory, pronouncer.labels).merged([*dict.fromkeys((*pronouncer.labels, *read))])


def _merged_text(merged: Mapping[str, tuple[str, ...]]) -> str:
    """Return in words which phones are not told apart."""
    groups = dict.fromkeys(tuple(sorted({label, *others})) for label, others in merged.items())
    if not groups:
        return ""
    listed = ", ".join(" ".join(each) for each in groups)
    return f" Without a score for the difference, as the model hears them as one sound: {listed}."


def _read_as_ipa(tasks: Sequence[Task], placing: Placing, inventory: Inventory) -> tuple[list[Task], Placing]:
    """Return transcripts of phones in IPA, and a placing that knows how they are written, if they are in X-SAMPA.

    They are if a model of another notation lacks some of the labels, and all can be.
    """
    found = {label for task in tasks if isinstance(task.transcript, Transcript) for label in task.transcript.labels}
    lacking = [label for label in found - {ANY} if inventory.normalise(label) not in inventory.phones]
    in_ipa = 2 * sum(sounds_of(phone) != () for phone in inventory.phones) > len(inventory.phones)
    is_other = in_ipa and placing.hearing is not None and notation_of(inventory.phones) != "xsampa"
    told = xsampa_in_ipa(found - {ANY}) if is_other and lacking and placing.pronouncer is None else {}
    spelled = {sound: label for label, sound in sorted(told.items(), reverse=True) if sound != label}
    return [_spelled(task, told) for task in tasks], placing._replace(spelled=spelled)


def _spelled(task: Task, written: Mapping[str, str]) -> Task:
    """Return a transcript with its labels written otherwise."""
    transcript = task.transcript
    if isinstance(transcript, InputError) or not written:
        return task

    def all_of(labels: Iterable[str]) -> tuple[str, ...]:
        return tuple(written.get(label, label) for label in labels)

    phrases = tuple(each._replace(labels=all_of(each.labels)) for each in transcript.phrases)
    return task._replace(transcript=transcript._replace(labels=all_of(transcript.labels), phrases=phrases))


def _pairs(spelled: Mapping[str, str]) -> list[str]:
    return [f"{label} as {sound}" for sound, label in sorted(spelled.items())]


def _texts(tasks: Sequence[Task]) -> list[str]:
    return [" ".join(each.transcript.labels) for each in tasks if isinstance(each.transcript, Transcript)]


class _Job(NamedTuple):
    """A recording, and how its transcript is placed: what read its words is left out; `language`: None for phones."""

    task: Task
    placing: Placing
    language: str | None
    phrases: PhrasesOrError


def _prepared(task: Task, inventory: Inventory, placings: dict[str, Placing], is_scored: bool = False) -> _Job:
    """Return how to place a transcript, by its language, and what; placings that are made are added."""
    first = placings[""]
    language = task.transcript.language if isinstance(task.transcript, Transcript) else ""
    if language and language not in placings and first.in_language:
        try:
            placings[language] = first.in_language(language)._replace(
                show_intervals=first.show_intervals, first_variant=first.first_variant
            )
            if is_scored:
                placings[language] = placings[language]._replace(merged=_merged(placings[language], inventory, ()))
        except InputError as error:
            unread = first._replace(pronouncer=None, in_language=None)
            return _Job(task, unread, None, InputError(f"{task.recording.path}: {error.what}", error.fix))
    placing = placings.get(language, first)
    if placing.pronouncer and first.pronouncer:
        placing.pronouncer.is_for_ipa = first.pronouncer.is_for_ipa
    read_in = placing.pronouncer.language if placing.pronouncer else None
    phrases = _phrases(task, inventory, placing)
    return _Job(task, placing._replace(pronouncer=None, in_language=None), read_in, phrases)


def _phrases(task: Task, inventory: Inventory, placing: Placing) -> PhrasesOrError:
    """Return a transcript to place, in one part or in those that have limits, or the error that says why not."""
    path, transcript = task.recording.path, task.transcript
    if isinstance(transcript, InputError):
        return transcript
    where = f" in {transcript.file}" if transcript.file else ""
    try:
        if placing.pronouncer and (sound := attempt(sound_file.info, path)) and not isinstance(sound, InputError):
            check_length(" ".join(transcript.labels), sound.seconds)
        parts = transcript.phrases if len(transcript.phrases) > 1 else ()
        whole = Phrase(*WHOLE, _items(transcript.labels, inventory, placing))  # all: errors name all unknown words
        phrases = [Phrase(each.start, each.end, _items(each.labels, inventory, placing)) for each in parts]
    except InputError as error:
        return InputError(f"{path}: {error.what}{where}", error.fix)
    if not whole.items:
        what = "words" if placing.pronouncer else "phones"
        return InputError(f"{path}: no {what} to align{where}", "give some, separated by spaces")
    if len(transcript.phrases) == 1:
        phrases = [whole._replace(start=transcript.phrases[0].start, end=transcript.phrases[0].end)]
    return tuple(each for each in phrases if each.items) or (whole,)


def _items(labels: Sequence[str], inventory: Inventory, placing: Placing) -> Items:
    """Return the items of phones or words."""
    pronouncer, hearing = placing.pronouncer, placing.hearing
    if pronouncer is None:
        told = None if is_arpabet([label for label in labels if label != ANY]) else hearing
        return parse_phones(labels, inventory.phones, lambda label: _phone(label, inventory, told))
    return parse_words(" ".join(labels), lambda text: _read(text, pronouncer, placing))


def _phone(label: str, inventory: Inventory, hearing: Hearing | None) -> Unit:
    """Return a phone as a unit. One that the model lacks is placed as the nearest phone, a diphthong as its vowels.

    A label of two other sounds, without a tie, may be a word.
    """
    if hearing is None or inventory.normalise(label) in inventory.phones:
        return Unit(label, ((label,),))
    is_heard = may_be_phone(label, inventory.phones) and hearing.knows([label])
    return Unit(label, (hearing.parts([label]) if is_heard else (label,),))


def _read(text: str, pronouncer: Pronouncer, placing: Placing) -> list[Unit]:
    """Return the words of a text with their pronunciations, without those that the model cannot hear."""
    words, most = pronouncer.read(text), 1 if placing.first_variant else None
    if hearing := placing.hearing:
        known = (tuple(map(hearing.parts, filter(hearing.knows, word.pronunciations))) for word in words)
        words = [word._replace(pronunciations=readings) for word, readings in zip(words, known, strict=True)]
    if unknown := sorted({word.text for word in words if not word.pronunciations}):
        named = ", ".join(unknown[:EXAMPLES]) + (" and others" if len(unknown) > EXAMPLES else "")
        fix = "add them to the dictionary, or write * in their place"
        if not (pronouncer.has_dictionary or pronouncer.language):
            fix = "give --language, or IPA between slashes (/kata/)"
        raise InputError(f"no pronunciation for {named}", fix)
    return [Unit(word.text, word.pronunciations[:most]) for word in words]


def _results(
    recogniser: Recogniser, jobs: Iterable[_Job], options: OutputOptions, work: Work, reporter: Reporter
) -> AbstractContextManager[Iterator[Recognition | InputError]]:
    """Offer the results of jobs, in order, from the threads of this machine or from a cluster."""
    if work.cluster is None:
        return nullcontext(map_in_threads(partial(_place, recogniser, options, reporter), jobs, work.jobs))
    from speechctc.stages.decode_sources import worked_on  # late: few use a cluster

    there = ((job.task.recording.path, job) for job in jobs)
    run = work.on_cluster("score-phones" if options.scored else "align", reporter)
    return worked_on(work.cluster, partial(_place_there, options), recogniser, there, run)


def _place_there(options: OutputOptions, recogniser: Recogniser, path: Path, job: _Job) -> Recognition:
    """Align on another machine, where the recording has this path."""
    given, task = job.task.recording.path, job.task._replace(recording=job.task.recording._replace(path=path))
    return replace(_place(recogniser, options, Reporter(quiet=True), job._replace(task=task)), file=str(given))


def _place(recogniser: Recogniser, output: OutputOptions, reporter: Reporter, job: _Job) -> Recognition:
    """Align one recording."""
    task, placing, language, phrases = job
    if isinstance(phrases, InputError):
        raise phrases
    items = tuple(item for phrase in phrases for item in phrase.items)
    path = task.recording.path
    heard = placing.hearing.of(_labels(items)) if placing.hearing else None
    judge = replace(recogniser.goodness, language=language or "").scores if output.scored else None

    def watch(text: str) -> None:
        check_time(path)
        reporter.status(f"{path.name}: {text}")

    find = placing.find_misfits
    options = AlignOptions(bool(find), placing.silences, heard, judge, watch, find is None)
    parts = () if phrases[0].end == math.inf else phrases
    result = recogniser.place(path, items, channel=task.recording.channel, phrases=parts, options=options)
    segments = placing.hearing.joined(result.segments) if placing.hearing else result.segments
    words = () if language is None else result.words
    result = replace(result, segments=segments, words=words, show_intervals=placing.show_intervals)
    result = result.renamed(placing.spelled) if placing.spelled else result
    if output.scored:
        about = about_scores(recogniser, [language or ""])
        about += _merged_text(placing.merged) if language is not None else ""
        result = replace(result, segments=tuple(_named(each, placing.merged) for each in result.segments))
        return replace(result, about=about, symbols=output.notation, channel=_channel(task.recording))
    return result


def _named(segment: Segment, merged: Mapping[str, tuple[str, ...]]) -> Segment:
    """Return a phone that names the others that its score does not tell it from."""
    if segment.goodness is None or segment.phone not in merged:
        return segment
    return segment._replace(goodness=segment.goodness._replace(not_told=merged[segment.phone]))


def _channel(recording: Recording) -> channel.Conditions | None:
    """Return through what a recording came, by its first part."""
    part = 0.0, channel.LONGEST
    return channel.measure(sound_file.read(recording.path, channel.RATE, recording.channel, part)[0])


def _labels(items: Items) -> list[str]:
    """Return the labels of all pronunciations, each once."""
    units = units_of(items)
    return list(dict.fromkeys(label for unit in units for reading in unit.pronunciations for label in reading))


def _watched(
    recordings: Sequence[Recording],
    results: Iterable[Recognition | InputError],
    misfits: list[tuple[Path, str]],
    doubts: list[str],
    failed: list[tuple[Recording, str]],
) -> Iterator[Recognition | InputError]:
    """Yield the results of recordings; add to the lists what does not fit, what may not, and what failed."""
    for recording, result in zip(recordings, results, strict=True):
        if isinstance(result, InputError):
            failed.append((recording, str(result)))
        else:
            beside = "; words beside it have no score" if result.about else ""
            said = f"{result.file}: {misfits_text(result.misfits)}{beside}" if result.misfits else ""
            doubts += [f"{result.file}: {result.doubt}"] if result.doubt else []
            misfits += [(recording.path, text) for text in (said, result.note) if text]
        yield result


def _doubts(doubts: Sequence[str], count: int) -> list[str]:
    """Return lines on the recordings of which something may not fit, the first of many."""
    if not doubts:
        return []
    more = [f"and {len(doubts) - DOUBTS} more"] if len(doubts) > DOUBTS else []
    how = "every word was placed; --misfits marks what does not fit (of right texts, some 2 of 100 words)"
    return [
        f"{len(doubts)} of {plural(count, 'recording')} may not be as in the transcript: {how}",
        *doubts[:DOUBTS],
        *more,
    ]


def about_scores(recogniser: Recogniser, languages: Sequence[str], name: str = "") -> str:
    """Return a line on what scores by a model of this name mean, and what they do not judge."""
    meaning = "how probable it is that a sound was said as written; the model knows no right speech"
    if recogniser.goodness.usual:
        same = "4 of 100 examples of the same sound in right speech fit as badly or worse"
        meaning = f"at 0.2, {same}; at 0.5, 25 of 100. Listen first to sounds below 0.2"
    name = name or recogniser.about.partition(":")[0]
    model = f", by {name}" if name else ""
    told = ". ".join(filter(None, [f"Scores, from 0 to 1{model}: {meaning}", recogniser.goodness.about(languages)]))
    told = f"{told}. Another microphone, codec or noise moves a single score much: look at several of a sound"
    return f"{told}. Scores judge single sounds: not stress, melody or fluency, and no person by a mean."


def say_if_untaught(recogniser: Recogniser, reporter: Reporter) -> None:
    """Note what scores are, if the model does not know how each phone scores in right speech."""
    if recogniser.goodness.usual is None:
        what = "scores are the probabilities that phones were said as written, as the model knows no right speech"
        reporter.note(f"{what}; see speechctc calibrate --help")
