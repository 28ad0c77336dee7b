"""Results of files that do not come from this machine's threads: from a Dask cluster, or inside a tier's intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from speechctc.audio.annotations import Interval
from speechctc.audio.recordings import Recording
from speechctc.audio.tracks import Channel
from speechctc.core.cluster import on_cluster, shared_recording
from speechctc.core.dispatch import ClusterRun, NotHere
from speechctc.core.errors import InputError, counted_alike
from speechctc.core.parallel import Result, WorkerEnded, map_in_threads, shared_among, threads
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
        found: Sequence[TranscriptOrError] = [read_transcript(place, recordings[0].path, choice)]
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
    paths = [recording.path for recording in recordings]
    way = partial(_decode, work.alternatives, work.channel)
    return worked_on("decode", way, recogniser, zip(paths, paths, strict=True), work, reporter)


@contextmanager
def worked_on(
    command: str,
    way: Callable[[Any, Path, Any], Result],
    shared: Any,
    items: Iterable[tuple[Path, Any]],
    work: Work,
    reporter: Reporter,
) -> Iterator[Iterator[Result | InputError]]:
    """Offer the result of each recording from the cluster, in order, or the error of one that nothing can be made of.

    Parameters
    ----------
    command : str
        Whose tasks they are, for Dask's dashboard.
    way : callable
        Of what is shared, a recording and what else its item has.
    shared : object
        What each worker gets a copy of: a recogniser on the CPU, settings.
    items : iterable of (Path, object)
        Relative paths are from the working folder, which has the same path on each worker.
    work : Work
        On a cluster.
    reporter : Reporter
        Receives what goes wrong on the cluster.

    Raises
    ------
    InputError
        As `on_cluster`; or the scheduler is gone.
    """
    assert work.cluster is not None
    items = iter(items)
    if not (first := list(islice(items, 1))):  # all is done: that is said without a cluster, too
        yield iter(())
        return
    run = ClusterRun(command, lambda item: str(item[0]), work.cluster_wait, work.time_limit, reporter.warn)
    try:
        with on_cluster(
            work.cluster, partial(_there, Path.cwd(), way), chain(first, items), shared=shared, run=run
        ) as results:
            yield results
    except WorkerEnded:
        fix = "run it again when the cluster is up; --skip-existing, or --manifest and --resume, keep what is done"
        raise InputError(f"{work.cluster}: the scheduler is gone", fix) from None


def _decode(alternatives: int, channel: Channel | None, recogniser: Decoder, path: Path, given: Path) -> Recognition:
    return replace(recogniser.decode(path, alternatives=alternatives, channel=channel), file=str(given))


def _there(
    folder: Path, way: Callable[[Any, Path, Any], Result], shared: Any, item: tuple[Path, Any]
) -> Result | InputError:
    """Work on another machine, which has the recordings under the same path; relative ones from `folder`."""
    given, more = item
    path = shared_recording(folder, given, "recordings")
    try:
        with shared_among(threads()):
            return way(shared, path, more)
    except NotHere:
        raise
    except InputError as error:
        return InputError(error.what.replace(str(path), str(given)), error.fix)
