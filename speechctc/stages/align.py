"""Align recordings with their known phones or words, and score the phones; write the results."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from speechctc.audio import conditions, sound_file
from speechctc.audio.recordings import Recording
from speechctc.audio.tracks import preferred
from speechctc.core.errors import InputError, counted_alike, plural
from speechctc.core.parallel import attempt, check_time, each_within, map_in_threads
from speechctc.core.progress import Reporter
from speechctc.corpora.transcripts import Labels, Task, Transcript, TranscriptOrError
from speechctc.inference.alignment import AlignOptions
from speechctc.inference.contrasts import Tally
from speechctc.inference.goodness import USUAL
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
from speechctc.inference.segmenter import Segment, Segments
from speechctc.inference.transcript import Items, units_of
from speechctc.phones.espeak import Reader
from speechctc.phones.inventory import CMU39
from speechctc.phones.nonspeech_labels import ANY, kind_of_phone
from speechctc.phones.notations import are_other_ipa
from speechctc.phones.pronouncer import are_texts_in_ipa
from speechctc.stages.transcript_reader import Job, TranscriptReader

DOUBTS = 5  # recordings to name that may not be as in their transcripts
MISFITS = 3
"""Exit status if all recordings were aligned, and some do not fit their transcripts."""


def in_ipa(tasks: Sequence[Task], labels: Labels) -> bool:
    """Return whether transcripts are in IPA: words that need no language, or phones that `english` does not have."""
    texts = [" ".join(each.transcript.labels) for each in tasks if isinstance(each.transcript, Transcript)]
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
    reader: TranscriptReader,
    work: Work = Work(),  # noqa: B008
    failed: list[tuple[Recording, str]] | None = None,
) -> int:
    """Align recordings and write each result when it is ready; return the exit status.

    The `reader` reads the transcripts as phones of the model, one after the other.

    To `failed` are added the recordings that could not be aligned, and why.

    The status is 0 if all recordings were aligned, 1 if some failed, 2 if all failed, `MISFITS` if all were aligned and
    some do not fit their transcripts.

    Raises
    ------
    InputError
        The output cannot hold the results, or files that a person made or changed would be replaced.
    """
    recordings = [task.recording._replace(channel=preferred(task.recording.channel, work.channel)) for task in tasks]
    tasks = [task._replace(recording=recording) for task, recording in zip(tasks, recordings, strict=True)]
    transcripts = {task.recording: task.transcript for task in tasks}
    options = check_out(recordings, options, lambda each: _digest(transcripts[each]))
    note_if_uncalibrated(recogniser, options, reporter)
    left = set(left_to_do(recordings, options, reporter))
    tasks, left_out = reader.prepare(tasks, options.scored)  # all: they tell how each is read
    reporter.note(*left_out)
    misfits, failed = list[tuple[Path | str, str]](), [] if failed is None else failed
    doubts, pauses, tally = list[str](), list[str](), Tally()
    tasks = [task for task in tasks if task.recording in left]
    jobs = map(reader.read, tasks)  # eSpeak NG reads one text at a time: not in the threads
    recordings = [task.recording for task in tasks]
    with each_within(work.time_limit), _results(recogniser, jobs, options, work, reporter) as results:
        watched = _watched(recordings, results, misfits, doubts, pauses, failed, tally)
        writer = ResultWriter(recordings, watched, options)
        status = write_results(writer, "scoring" if options.scored else "aligning", reporter, aligned=True)
    about = about_scores(recogniser, reader.languages) if options.scored and status < 2 else ""
    about += _merged_text(reader.merged) if about else ""
    reporter.note(*reader.notes(), *filter(None, [about, *counted_alike(misfits)]))
    reporter.note(*_doubts(doubts, len(recordings)), *_firsts(pauses, "recordings with a pause in a word"))
    reporter.note(*tally.lines(recogniser.goodness.contrasts))
    return status or (MISFITS if misfits else 0)


def _digest(transcript: TranscriptOrError) -> str:
    """Return a digest of what is to be placed."""
    if isinstance(transcript, InputError):
        return digest_of(str(transcript))
    return digest_of(transcript.labels, transcript.phrases, transcript.language)


def _merged_text(merged: Mapping[str, tuple[str, ...]]) -> str:
    """Return in words which phones are not told apart."""
    groups = dict.fromkeys(tuple(sorted({label, *others})) for label, others in merged.items())
    if not groups:
        return ""
    listed = ", ".join(" ".join(each) for each in groups)
    return f" Without a score for the difference, as the model hears them as one sound: {listed}."


def _results(
    recogniser: Recogniser, jobs: Iterable[Job], options: OutputOptions, work: Work, reporter: Reporter
) -> AbstractContextManager[Iterator[Recognition | InputError]]:
    """Offer the results of jobs, in order, from the threads of this machine or from a cluster."""
    if work.cluster is None:
        return nullcontext(map_in_threads(partial(_place, recogniser, options, reporter), jobs, work.jobs))
    from speechctc.stages.clustered import worked_on  # late: few use a cluster

    there = ((job.task.recording, job) for job in jobs)
    command = "score-phones" if options.scored else "align"
    return worked_on(command, partial(_place_there, options), recogniser, there, work, reporter)


def _place_there(options: OutputOptions, recogniser: Recogniser, path: Path, job: Job) -> Recognition:
    """Align on another machine, where the recording has this path."""
    given, task = job.task.recording.path, job.task._replace(recording=job.task.recording._replace(path=path))
    result = _place(recogniser, options, Reporter(quiet=True), job._replace(task=task))
    return replace(result, file=str(given), note=result.note.replace(str(path), str(given)))


def _place(recogniser: Recogniser, output: OutputOptions, reporter: Reporter, job: Job) -> Recognition:
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
        reporter.status(task.recording.told(f"{path.name}: {text}"))

    find = placing.find_misfits
    options = AlignOptions(bool(find), placing.silences, heard, judge, watch, find is None)
    parts = () if phrases[0].end == math.inf else phrases
    result = recogniser.place(path, items, channel=task.recording.channel, phrases=parts, options=options)
    segments = placing.hearing.joined(result.segments) if placing.hearing else result.segments
    words = () if language is None else result.words
    segments = Segments(_named(each, placing.merged) for each in segments) if placing.merged else segments
    result = replace(result, segments=segments, words=words, show_intervals=placing.show_intervals)
    result = result.renamed(placing.spelled) if placing.spelled else result
    if output.scored:
        about = about_scores(recogniser, [language or ""])
        about += _merged_text(placing.merged) if language is not None else ""
        return replace(result, about=about, symbols=output.notation, channel=_channel(task.recording))
    return result


def _named(segment: Segment, merged: Mapping[str, tuple[str, ...]]) -> Segment:
    """Return a phone that names the others that its score does not tell it from."""
    if segment.goodness is None or segment.phone not in merged:
        return segment
    return segment._replace(goodness=segment.goodness._replace(not_told=merged[segment.phone]))


def _channel(recording: Recording) -> conditions.Conditions | None:
    """Return through what a recording came, by its first part."""
    part = 0.0, conditions.LONGEST
    return conditions.measure(sound_file.read(recording.path, conditions.RATE, recording.channel, part)[0])


def _labels(items: Items) -> list[str]:
    """Return the labels of all pronunciations, each once."""
    units = units_of(items)
    return list(dict.fromkeys(label for unit in units for reading in unit.pronunciations for label in reading))


def _watched(
    recordings: Sequence[Recording],
    results: Iterable[Recognition | InputError],
    misfits: list[tuple[Path | str, str]],
    doubts: list[str],
    pauses: list[str],
    failed: list[tuple[Recording, str]],
    tally: Tally,
) -> Iterator[Recognition | InputError]:
    """Yield results; add to the lists what does not fit, what may not, pauses, what failed, and contrasts."""
    for recording, result in zip(recordings, results, strict=True):
        if isinstance(result, InputError):
            failed.append((recording, recording.told(str(result))))
        else:
            beside = "; words beside it have no score" if result.about else ""
            name = recording.place
            said = f"{name}: {misfits_text(result.misfits)}{beside}" if result.misfits else ""
            doubts += [f"{name}: {result.doubt}"] if result.doubt else []
            misfits += [(name, recording.told(text)) for text in (said, result.note) if text]
            pauses += [f"{name}: {result.pauses_text}"] if result.pauses_text else []
            tally.add(result.segments)
        yield result


def _doubts(doubts: Sequence[str], count: int) -> list[str]:
    """Return lines on the recordings of which something may not fit, the first of many."""
    if not doubts:
        return []
    how = "every word was placed; --misfits marks what does not fit (of right texts, some 2 of 100 words)"
    return [
        f"{len(doubts)} of {plural(count, 'recording')} may not be as in the transcript: {how}",
        *_firsts(doubts),
    ]


def _firsts(lines: Sequence[str], what: str = "") -> list[str]:
    """Return the first of many lines, and how many more there are."""
    more = len(lines) - DOUBTS
    return [*lines[:DOUBTS], *([f"and {more} more {what}".rstrip()] if more > 0 else [])]


def about_scores(recogniser: Recogniser, languages: Sequence[str], name: str = "") -> str:
    """Return a line on what scores by a model of this name mean, and what they do not judge."""
    meaning = "how probable it is that a sound was said as written; the model knows no right speech"
    if recogniser.goodness.usual:
        meaning = f"at 0.2, {USUAL}; at 0.5, 25 of 100. Listen first to sounds below 0.2"
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
