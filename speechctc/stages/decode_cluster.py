"""Recordings decoded by the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import torch

from speechctc.core import workers
from speechctc.core.errors import InputError
from speechctc.core.workers import WorkerEnded, on_cluster, shared_recording
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition


@contextmanager
def decoded_on(
    address: str,
    recogniser: Recogniser,
    paths: Sequence[Path],
    alternatives: int = 0,
    channel: int | None = None,
) -> Iterator[Iterator[Recognition | InputError]]:
    """Offer the result of each recording, in order, or the error of one that cannot be decoded.

    Parameters
    ----------
    address : str
        Of the scheduler: ``tcp://host:8786``.
    recogniser : Recogniser
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
    work = _OnSharedFiles(Path.cwd(), alternatives, channel)
    try:
        with on_cluster(address, work, paths, versions, shared=recogniser) as results:
            yield results
    except WorkerEnded:
        raise InputError(
            "a worker was ended from outside", "run it again with --skip-existing, when the cluster is up"
        ) from None


@dataclass(frozen=True)
class _OnSharedFiles:
    """Decoding on another machine, which has the recordings under the same path; relative ones from `folder`."""

    folder: Path
    alternatives: int
    channel: int | None

    def __call__(self, recogniser: Recogniser, given: Path) -> Recognition | InputError:
        torch.set_num_threads(1)
        path = shared_recording(self.folder, given, "recordings")
        try:
            result = recogniser.decode(path, alternatives=self.alternatives, channel=self.channel)
        except InputError as error:
            return InputError(error.what.replace(str(path), str(given)), error.fix)
        return replace(result, file=str(given))


def versions() -> dict[str, str]:
    """Return what must be alike on all machines for their results to be."""
    return {**workers.versions(), "numba": version("numba")}
