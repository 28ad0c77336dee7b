"""The decoding stage: recordings to phones, in the format asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from speechctc import audio, audio_blocks
from speechctc.errors import InputError
from speechctc.progress import Reporter
from speechctc.recognition.formats import TSV_HEADER, row, write_stream
from speechctc.recognition.many import decode_many
from speechctc.recognition.recogniser import Recogniser
from speechctc.recognition.recognition import Recognition
from speechctc.recognition.recordings import find_recordings
from speechctc.recognition.results import Wanted, check_out, deliver, opened_out, say_if_uncalibrated
from speechctc.recognition.segments import Segment

LIVE = ("text", "ctm", "tsv")  # formats in which one recording goes out phone by phone, and none is kept
LIVE_FRAMES = 50  # of static features at a time from standard input: phones come half a second late, and a bit


def decode(recogniser: Recogniser, arguments: Sequence[Path], wanted: Wanted, reporter: Reporter) -> int:
    """Decode recordings, writing each as it comes; return the exit status: 0, 1 if some failed, 2 if all did.

    Parameters
    ----------
    recogniser : Recogniser
    arguments : sequence of Path
        Files, folders, patterns.
    wanted : Wanted
    reporter : Reporter
        Hears of those that failed, at the end.

    Raises
    ------
    InputError
        A folder without recordings, or results that do not fit into the output named.
    """
    recordings = find_recordings(arguments)
    check_out(recordings, wanted)
    say_if_uncalibrated(recogniser, wanted.form, reporter)
    if len(recordings) == 1 and wanted.folder is None and wanted.form in LIVE:
        path = recordings[0].path
        with audio_blocks.opened(path, recogniser.config.features.sample_rate) as blocks:
            _write_live(recogniser.segments(blocks), str(path), wanted)
        if note := audio.cut_short(path):
            reporter.warn(note)
        return 0
    paths = [recording.path for recording in recordings]
    results = decode_many(recogniser, paths, wanted.jobs, wanted.alternatives)
    return deliver(recordings, results, wanted, "decoding", reporter)


def decode_stdin(recogniser: Recogniser, wanted: Wanted, raw_rate: int | None, reporter: Reporter) -> None:
    """Decode standard input as it comes: text, CTM and TSV go out phone by phone, JSON and TextGrid at the end.

    Parameters
    ----------
    recogniser : Recogniser
    wanted : Wanted
    raw_rate : int or None
        Rate of raw 16-bit little-endian mono samples, Hz; None: it is WAV.
    reporter : Reporter

    Raises
    ------
    InputError
        It is not WAV.
    """
    say_if_uncalibrated(recogniser, wanted.form, reporter)
    with audio_blocks.opened_stdin(recogniser.config.features.sample_rate, raw_rate) as blocks:
        segments = recogniser.segments(blocks, wanted.alternatives, LIVE_FRAMES)
        if wanted.form in LIVE:
            _write_live(segments, "-", wanted)
            return
        phones = tuple(segments)
        with opened_out(wanted.out) as out:
            write_stream([Recognition("-", blocks.seconds, phones)], wanted.form, out)


def _write_live(segments: Iterator[Segment], file: str, wanted: Wanted) -> None:
    """Write each phone as it comes, and keep none."""
    with opened_out(wanted.out) as out:
        out.write(TSV_HEADER if wanted.form == "tsv" else "")
        between, end = "", "\n" if wanted.form == "text" else ""
        try:
            for segment in segments:
                out.write(between + segment.phone if wanted.form == "text" else row(wanted.form, file, segment))
                out.flush()
                between = " "
        except InputError:
            out.write(end if between else "")
            raise
        out.write(end)
