"""Results of files that do not come from this machine's threads: from a Dask cluster, or inside a tier's intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

from speechctc.audio.annotations import Interval
from speechctc.audio.recordings import Recording
from speechctc.audio.tracks import Channel
from speechctc.core.errors import InputError, counted_alike
from speechctc.core.parallel import map_in_threads
from speechctc.core.progress import Reporter
from speechctc.corpora.transcripts import (
    Task,
    Transcript,
    TranscriptOptions,
    TranscriptOrError,
    read_in,
    read_sidecars,
    read_transcript,
)
from speechctc.inference.decoder import Decoder
from speechctc.inference.output import Work
from speechctc.inference.result import Recognition
from speechctc.stages.clustered import worked_on

Results = AbstractContextManager[Iterator[Recognition | InputError]]


def inside(
    tier: str, place: Path | None, recogniser: Decoder, recordings: Sequence[Recording], work: Work, reporter: Reporter
) -> Results:
    """Offer the phones inside the labelled intervals of a tier of TextGrids or files of ELAN.

    `place` is the folder of these, or the file of a single recording; None: they are beside the recordings.
    """
    choice = TranscriptOptions(tier, limits=True)
    if place and not place.is_dir():
        if len(recordings) > 1:
            raise InputError(f"{place} is of one recording, and {len(recordings)} are named", "name a folder")
        found: Sequence[TranscriptOrError] = [read_transcript(place, recordings[0].path, choice, recordings[0].called)]
    else:
        found = read_in(place, recordings, choice) if place else read_sidecars(recordings, choice)
    notes = [(each.file or Path(), each.note) for each in found if isinstance(each, Transcript) and each.note]
    reporter.warn(*counted_alike([*dict.fromkeys(notes)], with_numbers=True))
    there = map(Task, recordings, found)
    return nullcontext(map_in_threads(partial(_inside, recogniser, work, tier), there, work.jobs))


def _inside(recogniser: Decoder, work: Work, tier: str, task: Task) -> Recognition:
    """Decode a recording inside the intervals of a tier."""
    if isinstance(task.transcript, InputError):
        raise task.transcript
    intervals = [Interval(each.start, each.end, " ".join(each.labels)) for each in task.transcript.phrases]
    path, channel = task.recording.path, task.recording.channel
    return replace(recogniser.decode_inside(path, intervals, work.alternatives, channel), tier=tier)


def on_workers(recogniser: Decoder, recordings: Sequence[Recording], work: Work, reporter: Reporter) -> Results:
    """Offer the phones of each recording from the workers of a Dask cluster, as `worked_on` does."""
    items = ((each, each.path) for each in recordings)
    way = partial(_decode, work.alternatives, work.channel)
    return worked_on("decode", way, recogniser, items, work, reporter)


def _decode(alternatives: int, channel: Channel | None, recogniser: Decoder, path: Path, given: Path) -> Recognition:
    return replace(recogniser.decode(path, alternatives=alternatives, channel=channel), file=str(given))
