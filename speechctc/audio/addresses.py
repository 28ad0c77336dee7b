"""Addresses of recordings in object stores and on servers.

An address is taken from the command line and from a list that it names, never from tables, manifests or files of a
folder, which may be a stranger's: reading them would tell a server who reads, or reach what only this machine can.
"""

from __future__ import annotations

import os
import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from speechctc.core.errors import InputError

SCHEMES = "s3 gs gcs az abfs http https file memory".split()
_SCHEME = re.compile(rf"({'|'.join(SCHEMES)}):(?:(?<=file:)//?localhost(?=/))?/+(?=[^/])")  # that is this machine

LOST: dict[str, InputError] = {}  # by its address, why a recording could not be fetched


def address_of(text: str | Path) -> str:
    """Return the address that a text is, or a path, which has lost a slash of it; "" if it is none.

    A path of a file that is there is none: a stranger's folder may have the name ``https:``.
    """
    found = _SCHEME.match(str(text))
    if found is None or (os.path.lexists(text) if isinstance(text, Path) else "://" not in text[: found.end()]):
        return ""
    slashes = ":///" if found[1] == "file" else "://"
    return f"{found[1]}{slashes}{str(text)[found.end() :]}"


def name_of_address(address: str) -> PurePosixPath:
    """Return where a recording lies: its host or bucket and its path, without what asks for it."""
    place = unescaped(address).partition("://")[2]
    return PurePosixPath(re.split(r"[?#]", place)[0] if address.startswith("http") else place)


def unescaped(address: str) -> str:
    """Return an address of a file with what its escapes (``%20``) stand for, unless a file has the name with them."""
    scheme, _, place = address.partition("://")
    found = unquote(place, errors="surrogateescape")
    is_plain = scheme != "file" or "\0" in found or (not os.path.lexists(found) and os.path.lexists(place))
    return address if is_plain else f"{scheme}://{found}"


def why_lost(path: Path) -> InputError | None:
    """Return why the recording at the address that a path is could not be fetched; None of any other path."""
    error = LOST.get(address_of(path))
    return error and InputError(error.what, error.fix)
