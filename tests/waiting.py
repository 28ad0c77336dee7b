"""Waits for what another process or thread does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SECONDS = 600  # on a busy machine torch takes minutes to load


def wait_for(true: Callable[[], T], seconds: float = SECONDS) -> T:
    """Call a function until it returns something true; return that."""
    end = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < end, f"waited for {seconds:g} s in vain"
        time.sleep(0.02)
    return found
