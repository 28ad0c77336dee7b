"""Functions for use inside other compiled functions. Importing this loads numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def njit_inline(function: Function) -> Function:
    """Compile a function that other compiled functions call; division by zero follows IEEE 754."""
    return numba.njit(function, error_model="numpy")  # type: ignore[no-any-return, unused-ignore]
