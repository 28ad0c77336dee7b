"""Work on many items at a time on the machines of a Dask cluster.

A worker of a cluster that is lost costs time only: the scheduler gives its work to the others. Whoever reaches a
scheduler can run code on its workers, so it belongs in a network whose users trust each other, or behind ``tls://``.
"""

from __future__ import annotations

import logging
import platform
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple

from speechctc import __version__
from speechctc.core.errors import InputError, optional, with_extra
from speechctc.core.parallel import Item, Result, WorkerEnded, WorkFailed, ordered

SECONDS = 10  # that a scheduler has to answer
INSTALL = "install the same speechctc on every machine of the cluster, with its extra 'cluster'"


@contextmanager
def on_cluster(
    address: str,
    work: Callable[..., Result],
    items: Iterable[Item],
    size: Callable[[Item], int] = lambda item: 1,
    most: int = 64,
    shared: Any = None,
) -> Iterator[Iterator[Result]]:
    """Offer ``work(item)`` of each item, in order, from the workers of a Dask cluster.

    Parameters
    ----------
    address : str
        Of the scheduler: ``tcp://host:8786``.
    work, items, size, most
        As for `speechctc.core.parallel.in_processes`; two items a thread of the cluster are begun in any case.
    shared : optional
        Sent to each worker once; the work is then ``work(shared, item)``.

    Raises
    ------
    InputError
        Dask is not installed here, no scheduler answers, it has no workers, or a worker has other versions; by the
        iterator: what `work` raised of this kind.
    WorkerEnded
        By the iterator: the scheduler is gone, or an item ended several workers.
    WorkFailed
        By the iterator: `work` raised another exception.
    """
    client = _connect(address)
    try:
        threads = sum(client.nthreads().values())
        if not threads:
            raise InputError(f"{address}: the scheduler has no workers", f"run: dask worker {address}")
        _check_versions(client, address)
        given = () if shared is None else (client.scatter(shared, broadcast=True, hash=False),)
        submit = partial(client.submit, work, *given, pure=False)
        yield ordered(lambda item: _Begun(submit(item)), items, 2 * threads, size, most)
    finally:
        client.close(timeout=SECONDS)


class _Begun(NamedTuple):
    """An item that the cluster has."""

    future: Any

    def result(self) -> Any:
        from asyncio import CancelledError
        from concurrent.futures import CancelledError as FutureCancelled

        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        try:
            return self.future.result()
        except InputError:
            raise
        except (KilledWorker, CommClosedError, CancelledError, FutureCancelled, TimeoutError):
            raise WorkerEnded from None
        except Exception as error:
            raise WorkFailed(f"{type(error).__name__}: {error}") from error


def versions() -> dict[str, str]:
    """Return what must be alike on all machines for their results to be: Python, and packages, as far as installed."""
    names = ("torch", "torchaudio", "numpy", "soundfile", "numba", "praat-parselmouth")
    packages = {name: each.version for name in names for each in distributions(name=name)}
    return {**packages, "speechctc": __version__, "Python": ".".join(platform.python_version_tuple()[:2])}


def shared_recording(folder: Path, name: Path, of: str) -> Path:
    """Return the path of a recording on this worker.

    Parameters
    ----------
    folder : Path
        Where the machine that asks looks for relative names.
    name : Path
    of : str
        What the recording is part of, for the error.

    Raises
    ------
    InputError
        The recording is not on this machine.
    """
    path = folder / name
    if not path.is_file():
        fix = f"put the {of} in a folder that all machines share, under the same path"
        raise InputError(f"{path}: not on the worker {socket.gethostname()}", fix)
    return path


def refuse_other(here: Mapping[str, str], there: Mapping[str, str], worker: str) -> None:
    """Raise an `InputError` if a worker has other versions; it names the first that differs."""
    for name in sorted({*here, *there}):
        ours, theirs = here.get(name, "none"), there.get(name, "none")
        if ours != theirs:
            raise InputError(f"the worker {worker} has {name} {theirs}, this machine {ours}", INSTALL)


def _connect(address: str) -> Any:
    fix = f"{with_extra('cluster')}, or work without a cluster"
    import asyncio  # loading it takes a while

    distributed = optional("distributed", f"{address}: Dask is not installed", fix)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what goes wrong is told in one line, by this module
    try:
        # A client that fails to connect is closed when it is collected, and hangs if another one is just being made.
        asyncio.run(_call(address, distributed.Security().get_connection_args("client")))
        return distributed.Client(address, timeout=SECONDS, set_as_default=False)
    except (OSError, ValueError, TimeoutError):
        fix = "name one as tcp://HOST:8786; 'dask scheduler' starts it"
        raise InputError(f"{address}: no Dask scheduler answers there", fix) from None


async def _call(address: str, arguments: Mapping[str, Any]) -> None:
    """Connect to the scheduler once, and hang up."""
    from distributed.comm.core import connect

    comm = await connect(address, timeout=SECONDS, **arguments)
    await comm.close()


def _check_versions(client: Any, address: str) -> None:
    try:
        found = client.run(versions)
    except Exception as error:  # Dask turns what a worker raises while it unpacks work into a plain Exception
        raise InputError(f"{address}: a worker cannot take work ({error})", INSTALL) from None
    for worker, there in found.items():
        refuse_other(versions(), there, worker)
