"""Results of files that do not come from this machine's threads: from a Dask cluster, or inside a tier's intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

from speechctc.audio.annotations import Interval
from speechctc.audio.recordings import Recording
from speechctc.core import parallel
from speechctc.core.errors import InputError
from speechctc.core.parallel import WorkerEnded, map_in_threads, on_cluster, shared_among, shared_recording, threads
from speechctc.core.progress import Reporter
from speechctc.corpora.transcripts import (
    Task,
    Transcript,
    TranscriptOptions,
    TranscriptOrError,
    read_beside,
    read_in,
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
            found = read_in(self.place, recordings, choice) if self.place else read_beside(recordings, choice)
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


@contextmanager
def decoded_on(
    address: str, recogniser: Decoder, paths: Sequence[Path], alternatives: int = 0, channel: int | None = None
) -> Iterator[Iterator[Recognition | InputError]]:
    """Offer the result of each recording, in order, or the error of one that cannot be decoded.

    Parameters
    ----------
    address : str
        Of the scheduler: ``tcp://host:8786``.
    recogniser : Decoder
        On the CPU; each worker gets a copy.
    paths : sequence of Path
        Relative ones from the working folder, which has the same path on each worker.
    alternatives, channel
        As for `Recogniser.decode`.

    Raises
    ------
    InputError
        As `on_cluster`; or a recording is not on a worker.
    """
    work = partial(_decode_shared, Path.cwd(), alternatives, channel)
    try:
        with on_cluster(address, work, paths, versions, shared=recogniser) as results:
            yield results
    except WorkerEnded:
        raise InputError(
            "a worker was ended from outside", "run it again with --skip-existing, when the cluster is up"
        ) from None


def _decode_shared(
    folder: Path, alternatives: int, channel: int | None, recogniser: Decoder, given: Path
) -> Recognition | InputError:
    """Decode on another machine, which has the recordings under the same path; relative ones from `folder`."""
    path = shared_recording(folder, given, "recordings")
    try:
        with shared_among(threads()):
            result = recogniser.decode(path, alternatives=alternatives, channel=channel)
    except InputError as error:
        return InputError(error.what.replace(str(path), str(given)), error.fix)
    return replace(result, file=str(given))


def versions() -> dict[str, str]:
    """Return what must be alike on all machines for their results to be."""
    return {**parallel.versions(), "numba": version("numba")}
