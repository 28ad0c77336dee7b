"""Work on many items at a time on the machines of a Dask cluster.

A worker of a cluster that is lost costs time only: the scheduler gives its work to the others. Whoever reaches a
scheduler can run code on its workers, so it belongs in a network whose users trust each other, or behind ``tls://``.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import platform
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from speechctc import __version__
from speechctc.core.dispatch import INSTALL, ClusterRun, LostItem, NotHere, Pool
from speechctc.core.errors import InputError, optional, with_extra
from speechctc.core.parallel import Item, Result, ordered

SECONDS = 10  # that a scheduler has to answer


@contextmanager
def on_cluster(
    address: str,
    work: Callable[..., Result],
    items: Iterable[Item],
    size: Callable[[Item], int] = lambda item: 1,
    most: int = 64,
    shared: Any = None,
    run: ClusterRun = ClusterRun(),  # noqa: B008
) -> Iterator[Iterator[Result | LostItem]]:
    """Offer ``work(item)`` of each item, in order, from the workers of a Dask cluster.

    An item that a worker loses or fails at goes to others; if they fail too, its result is a `LostItem`. Where there
    is no worker, the run says so and waits for one. A worker with another program gets no work, and is named.

    Parameters
    ----------
    address : str
        Of the scheduler: ``tcp://host:8786``.
    work, items, size, most
        As for `speechctc.core.processes.in_processes`; some items a thread of the cluster are begun in any case.
    shared : optional
        Sent to each worker once; the work is then ``work(shared, item)``.
    run : ClusterRun
        How long it waits for workers and for an item, and what the tasks are called.

    Raises
    ------
    InputError
        Dask is not installed here, no scheduler answers, no worker came, or none can be used; by the iterator: what
        `work` raised of this kind.
    WorkerEnded
        The scheduler is gone.
    """
    client = _connect(address)
    try:
        pool = Pool(client, address, work, () if shared is None else (shared,), refusal, versions, run)
        yield ordered(pool.submit, items, pool.room, size, most)
    finally:
        client.close(timeout=SECONDS)


def versions() -> dict[str, str]:
    """Return what must be alike on all machines for their results to be: Python, packages as far as installed, code."""
    python = ".".join(platform.python_version_tuple()[:2])
    return {**_packages(), "speechctc": __version__, "Python": python, "the code of speechctc": code_digest()}


@cache
def _packages() -> dict[str, str]:
    names = ("torch", "torchaudio", "numpy", "soundfile", "numba", "praat-parselmouth")
    return {name: each.version for name in names for each in distributions(name=name)}


@cache
def code_digest() -> str:
    """Return a digest of the modules of this package, which may differ though its version does not."""
    folder, digest = Path(__file__).resolve().parent.parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder).as_posix()}\n".encode() + path.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()[:12]


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
    NotHere
        The recording is not on this machine.
    """
    path = folder / name
    if not path.is_file():
        fix = f"put the {of} in a folder that all machines share, under the same path"
        raise NotHere(f"{path}: not on the worker {socket.gethostname()}", fix)
    return path


def refusal(there: Mapping[str, str], worker: str) -> str:
    """Return why a worker with other versions than this machine is not used; "" if they are the same."""
    try:
        refuse_other(versions(), there, worker)
    except InputError as error:
        return str(error)
    return ""


def refuse_other(here: Mapping[str, str], there: Mapping[str, str], worker: str) -> None:
    """Raise an `InputError` if a worker has other versions; it names the first that differs."""
    for name in sorted({*here, *there}):
        ours, theirs = here.get(name, "none"), there.get(name, "none")
        if ours != theirs:
            raise InputError(f"the worker {worker} has {name} {theirs}, this machine {ours}", INSTALL)


def _connect(address: str) -> Any:
    fix = f"{with_extra('cluster')}, or work without a cluster"
    distributed = optional("distributed", f"{address}: Dask is not installed", fix)
    # What goes wrong is told in one line, by this module.
    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.partition(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)
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
