"""Decode recordings or standard input, and write the phones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from speechctc.audio import sound_file, stream
from speechctc.audio.recordings import Recording, find_recordings, left_out
from speechctc.errors import InputError
from speechctc.inference.batch_decode import decode_files
from speechctc.inference.formats import Source, header, row, write_stream
from speechctc.inference.output import OutputOptions, check_out, check_place
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.inference.segmenter import Segment
from speechctc.inference.unsure import Doubt
from speechctc.inference.writer import Delivery, channel_hint, deliver, left_to_do, opened_out, say_if_uncalibrated
from speechctc.progress import Reporter
from speechctc.stages.decode_cluster import decoded_on

LIVE = ("text", "ctm", "tsv", "csv")  # formats in which one recording is written phone by phone
LIVE_FRAMES = 50  # static frames at a time from standard input: delays phones by half a second


def decode(
    recogniser: Recogniser,
    arguments: Sequence[Path],
    options: OutputOptions,
    reporter: Reporter,
    cluster: str | None = None,
    doubt: Doubt | None = None,
) -> int:
    """Decode recordings and write each result when it is ready; return the exit status.

    The status is 0 if all recordings were decoded, 1 if some failed, 2 if all failed.

    Parameters
    ----------
    recogniser : Recogniser
    arguments : sequence of Path
        Files, folders, patterns.
    options : OutputOptions
    reporter : Reporter
        Receives the failures, at the end.
    cluster : str, optional
        Address of the scheduler of a Dask cluster that decodes.
    doubt : Doubt, optional
        Counts the phones, and its note is given to the reporter.

    Raises
    ------
    InputError
        A folder has no recordings, the output cannot hold the results, or files that a person made or changed would
        be replaced.
    """
    recordings = find_recordings(arguments)
    check_out(recordings, options)
    for line in left_out(arguments):
        reporter.note(line)
    say_if_uncalibrated(recogniser, options, reporter)
    recordings = left_to_do(recordings, options, reporter)
    if len(recordings) == 1 and options.folder is None and options.form in LIVE and cluster is None:
        _decode_live(recogniser, recordings[0], options, reporter, doubt)
        status = 0
    else:
        with _results(recogniser, [recording.path for recording in recordings], options, cluster) as results:
            watched = doubt.watched(results) if doubt else results
            status = deliver(Delivery(recordings, watched, options), "decoding", reporter)
    if doubt and (note := doubt.note()):
        reporter.warn(note)
    return status


def _results(
    recogniser: Recogniser, paths: Sequence[Path], options: OutputOptions, cluster: str | None
) -> AbstractContextManager[Iterator[Recognition | InputError]]:
    """Offer the results in order, from this machine or from a cluster."""
    if cluster is not None and paths:
        return decoded_on(cluster, recogniser, paths, options.alternatives, options.channel)
    return nullcontext(decode_files(recogniser, paths, options.jobs, options.alternatives, options.channel))


def _decode_live(
    recogniser: Recogniser, recording: Recording, options: OutputOptions, reporter: Reporter, doubt: Doubt | None
) -> None:
    """Decode one recording and write it phone by phone."""
    path = recording.path
    (source,) = options.sources([recording])
    with stream.opened(path, recogniser.config.features.sample_rate, options.channel) as blocks:
        if hint := channel_hint(path, options):
            reporter.warn(hint)
        segments = recogniser.segments(blocks)
        _write_live(doubt.seen(segments) if doubt else segments, source, options)
    if note := sound_file.cut_short(path):
        reporter.warn(note)


def decode_stdin(recogniser: Recogniser, options: OutputOptions, raw_rate: int | None, reporter: Reporter) -> None:
    """Decode standard input while it is read; write text, CTM, TSV and CSV by phone, JSON and TextGrid at the end.

    Parameters
    ----------
    recogniser : Recogniser
    options : OutputOptions
    raw_rate : int or None
        Rate of raw 16-bit little-endian mono samples, Hz; None: standard input is a sound file. Only a WAV file is
        decoded while it is read.
    reporter : Reporter

    Raises
    ------
    InputError
        Standard input is not sound, or the output would replace a file that a person made or changed.
    """
    if options.folder is not None:
        raise InputError(
            f"--out {options.folder}: a folder, and standard input gives one file", "name a file: a.TextGrid"
        )
    if options.form == "html":
        raise InputError("--format html shows the recording, and standard input is not kept", "save it to a file")
    if options.also:
        raise InputError("several formats at once, and standard input gives one file", "name one format")
    check_place(options.file, options.overwrite)
    say_if_uncalibrated(recogniser, options, reporter)
    source = Source("-", "-", options.channel)
    rate = recogniser.config.features.sample_rate
    with stream.opened_stdin(rate, raw_rate, options.channel, say=reporter.note) as blocks:
        segments = recogniser.segments(blocks, options.alternatives, LIVE_FRAMES)
        if options.form in LIVE:
            _write_live(segments, source, options)
            return
        phones = tuple(segments)
        with opened_out(options) as out:
            result = Recognition("-", blocks.seconds, phones).renamed(options.symbols)
            write_stream([(source, result)], options.form, out, place=options.file)


def _write_live(segments: Iterator[Segment], source: Source, options: OutputOptions) -> None:
    """Write each phone when it is known, and keep none in memory."""
    with opened_out(options) as out:
        out.write(header(options.form))
        between, end = "", "\n" if options.form == "text" else ""
        try:
            for segment in (each.renamed(options.symbols) for each in segments):
                out.write(between + segment.phone if options.form == "text" else row(options.form, source, segment))
                out.flush()
                between = " "
        except InputError:
            out.write(end if between else "")
            raise
        out.write(end)
