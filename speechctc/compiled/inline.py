"""Functions that become a part of the machine code of others; importing this loads numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def njit_inline(function: Function) -> Function:
    """Have a function compiled, for use by others that are; dividing by zero gives what IEEE 754 says."""
    return numba.njit(function, error_model="numpy")  # type: ignore[no-any-return, unused-ignore]
