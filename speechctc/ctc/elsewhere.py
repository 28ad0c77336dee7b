"""Loads packages that take settings from a file in the working folder, which may be a stranger's, without that file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without(settings: str) -> Iterator[None]:
    """Be in another folder meanwhile, where the working folder holds a file of this name."""
    if not os.path.lexists(settings):
        yield
        return
    here = os.getcwd()
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    try:
        yield
    finally:
        os.chdir(here)
