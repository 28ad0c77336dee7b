"""Results of files that do not come from this machine's threads: from a Dask cluster, or inside a tier's intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from speechctc.audio.annotations import Interval
from speechctc.audio.recordings import Recording
from speechctc.core import cluster
from speechctc.core.cluster import on_cluster, shared_recording
from speechctc.core.errors import InputError
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


@dataclass(frozen=True)
class Tier:
    """A tier of TextGrids or files of ELAN: its name, and where the files are; None: beside the recordings."""

    name: str
    place: Path | None = None

    def __call__(self, recogniser: Decoder, recordings: Sequence[Recording], work: Work, reporter: Reporter) -> Results:
        """Offer the phones inside the tier's intervals of each recording."""
        there = self.read(recordings, reporter)
        return nullcontext(map_in_threads(partial(_inside, recogniser, work, self.name), there, work.jobs))

    def read(self, recordings: Sequence[Recording], reporter: Reporter) -> list[Task]:
        """Return the labelled intervals of the tier for each recording, or the error that says why there are none."""
        choice = TranscriptOptions(self.name, limits=True)
        if self.place and not self.place.is_dir():
            if len(recordings) > 1:
                raise InputError(f"{self.place} is of one recording, and {len(recordings)} are named", "name a folder")
            found: Sequence[TranscriptOrError] = [read_transcript(self.place, recordings[0].path, choice)]
        else:
            found = read_in(self.place, recordings, choice) if self.place else read_sidecars(recordings, choice)
        reporter.warn(*dict.fromkeys(each.note for each in found if isinstance(each, Transcript) and each.note))
        return [Task(*pair) for pair in zip(recordings, found, strict=True)]


def _inside(recogniser: Decoder, work: Work, tier: str, task: Task) -> Recognition:
    """Decode a recording inside the intervals of a tier."""
    if isinstance(task.transcript, InputError):
        raise task.transcript
    intervals = [Interval(each.start, each.end, " ".join(each.labels)) for each in task.transcript.phrases]
    path, channel = task.recording.path, task.recording.channel
    return replace(recogniser.decode_inside(path, intervals, work.alternatives, channel), tier=tier)


@dataclass(frozen=True)
class Cluster:
    """The workers of a Dask cluster, by the address of its scheduler: ``tcp://host:8786``."""

    address: str

    def __call__(self, recogniser: Decoder, recordings: Sequence[Recording], work: Work, reporter: Reporter) -> Results:
        """Offer the phones of each recording; see `decoded_on`."""
        paths = [recording.path for recording in recordings]
        return decoded_on(self.address, recogniser, paths, work.alternatives, work.channel)


def decoded_on(
    address: str, recogniser: Decoder, paths: Sequence[Path], alternatives: int = 0, channel: int | None = None
) -> Results:
    """Offer the phones of each recording, as `worked_on` does; `alternatives` and `channel` as for `decode`."""
    return worked_on(address, partial(_decode, alternatives, channel), recogniser, ((path, path) for path in paths))


def versions() -> dict[str, str]:
    """Return what must be alike on all machines for their results to be."""
    return {**cluster.versions(), "numba": version("numba")}


@contextmanager
def worked_on(
    address: str,
    work: Callable[[Any, Path, Any], Result],
    shared: Any,
    items: Iterable[tuple[Path, Any]],
    versions: Callable[[], Mapping[str, str]] = versions,
) -> Iterator[Iterator[Result | InputError]]:
    """Offer the result of each recording, in order, or the error of one that nothing can be made of.

    Parameters
    ----------
    address : str
        Of the scheduler: ``tcp://host:8786``.
    work : callable
        Of what is shared, a recording and what else its item has.
    shared : object
        What each worker gets a copy of: a recogniser on the CPU, settings.
    items : iterable of (Path, object)
        Relative paths are from the working folder, which has the same path on each worker.
    versions : callable
        As for `on_cluster`.

    Raises
    ------
    InputError
        As `on_cluster`; or a recording is not on a worker.
    """
    try:
        with on_cluster(address, partial(_there, Path.cwd(), work), items, versions, shared=shared) as results:
            yield results
    except WorkerEnded:
        raise InputError(
            "a worker was ended from outside", "run it again with --skip-existing, when the cluster is up"
        ) from None


def _decode(alternatives: int, channel: int | None, recogniser: Decoder, path: Path, given: Path) -> Recognition:
    return replace(recogniser.decode(path, alternatives=alternatives, channel=channel), file=str(given))


def _there(
    folder: Path, work: Callable[[Any, Path, Any], Result], shared: Any, item: tuple[Path, Any]
) -> Result | InputError:
    """Work on another machine, which has the recordings under the same path; relative ones from `folder`."""
    given, more = item
    path = shared_recording(folder, given, "recordings")
    try:
        with shared_among(threads()):
            return work(shared, path, more)
    except InputError as error:
        return InputError(error.what.replace(str(path), str(given)), error.fix)
