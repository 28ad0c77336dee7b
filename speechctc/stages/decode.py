"""The decoding stage: recordings to phones, in the format asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from speechctc.inference.writer import Delivery, channel_hint, deliver, opened_out, say_if_uncalibrated, to_do
from speechctc.progress import Reporter

LIVE = ("text", "ctm", "tsv", "csv")  # formats in which one recording goes out phone by phone, and none is kept
LIVE_FRAMES = 50  # of static features at a time from standard input: phones come half a second late, and a bit


def decode(recogniser: Recogniser, arguments: Sequence[Path], options: OutputOptions, reporter: Reporter) -> int:
    """Decode recordings, writing each as it comes; return the exit status: 0, 1 if some failed, 2 if all did.

    Parameters
    ----------
    recogniser : Recogniser
    arguments : sequence of Path
        Files, folders, patterns.
    options : OutputOptions
    reporter : Reporter
        Hears of those that failed, at the end.

    Raises
    ------
    InputError
        A folder without recordings, or results that do not fit into the output named, or would replace a person's
        files.
    """
    recordings = find_recordings(arguments)
    check_out(recordings, options)
    for line in left_out(arguments):
        reporter.note(line)
    say_if_uncalibrated(recogniser, options, reporter)
    recordings = to_do(recordings, options, reporter)
    if len(recordings) == 1 and options.folder is None and options.form in LIVE:
        _decode_live(recogniser, recordings[0], options, reporter)
        return 0
    paths = [recording.path for recording in recordings]
    results = decode_files(recogniser, paths, options.jobs, options.alternatives, options.channel)
    return deliver(Delivery(recordings, results, options), "decoding", reporter)


def _decode_live(recogniser: Recogniser, recording: Recording, options: OutputOptions, reporter: Reporter) -> None:
    """Decode one recording, phone by phone."""
    path = recording.path
    (source,) = options.sources([recording])
    with stream.opened(path, recogniser.config.features.sample_rate, options.channel) as blocks:
        if hint := channel_hint(path, options):
            reporter.warn(hint)
        _write_live(recogniser.segments(blocks), source, options)
    if note := sound_file.cut_short(path):
        reporter.warn(note)


def decode_stdin(recogniser: Recogniser, options: OutputOptions, raw_rate: int | None, reporter: Reporter) -> None:
    """Decode standard input as it comes: text, CTM, TSV and CSV go out phone by phone, JSON and TextGrid at the end.

    Parameters
    ----------
    recogniser : Recogniser
    options : OutputOptions
    raw_rate : int or None
        Rate of raw 16-bit little-endian mono samples, Hz; None: it is a sound file, of which only WAV is decoded while
        it comes.
    reporter : Reporter

    Raises
    ------
    InputError
        It is not sound, or what is at the output named was made by a person.
    """
    if options.folder is not None:
        raise InputError(
            f"--out {options.folder}: a folder, and standard input gives one file", "name a file: a.TextGrid"
        )
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
            write_stream([(source, Recognition("-", blocks.seconds, phones))], options.form, out)


def _write_live(segments: Iterator[Segment], source: Source, options: OutputOptions) -> None:
    """Write each phone as it comes, and keep none."""
    with opened_out(options) as out:
        out.write(header(options.form))
        between, end = "", "\n" if options.form == "text" else ""
        try:
            for segment in segments:
                out.write(between + segment.phone if options.form == "text" else row(options.form, source, segment))
                out.flush()
                between = " "
        except InputError:
            out.write(end if between else "")
            raise
        out.write(end)
