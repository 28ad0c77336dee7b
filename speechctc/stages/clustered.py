"""The results of recordings from the workers of a Dask cluster, for whatever command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from speechctc.audio.recordings import Recording
from speechctc.core.cluster import on_cluster, shared_recording
from speechctc.core.dispatch import ClusterRun, NotHere
from speechctc.core.errors import InputError
from speechctc.core.parallel import Result, WorkerEnded, shared_among, threads
from speechctc.core.progress import Reporter
from speechctc.inference.output import Work


@contextmanager
def worked_on(
    command: str,
    way: Callable[[Any, Path, Any], Result],
    shared: Any,
    items: Iterable[tuple[Recording, Any]],
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
    items : iterable of (Recording, object)
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
    run = ClusterRun(command, lambda item: item[0].place, work.cluster_wait, work.time_limit, reporter.warn)
    try:
        with on_cluster(
            work.cluster, partial(_there, Path.cwd(), way), chain(first, items), shared=shared, run=run
        ) as results:
            yield results
    except WorkerEnded:
        fix = "run it again when the cluster is up; --skip-existing, or --manifest and --resume, keep what is done"
        raise InputError(f"{work.cluster}: the scheduler is gone", fix) from None


def _there(
    folder: Path, way: Callable[[Any, Path, Any], Result], shared: Any, item: tuple[Recording, Any]
) -> Result | InputError:
    """Work on another machine, which has the recordings under the same path; relative ones from `folder`."""
    given, more = item[0].path, item[1]
    path = shared_recording(folder, given, "recordings")
    try:
        with shared_among(threads()):
            return way(shared, path, more)
    except NotHere:
        raise
    except InputError as error:
        return InputError(error.what.replace(str(path), str(given)), error.fix)
