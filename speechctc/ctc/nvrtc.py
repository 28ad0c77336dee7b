"""CUDA C++ compiled at run time: NVRTC makes machine code, a cubin, for one architecture.

No compiler is needed on the machine, and no GPU to compile: NVRTC is a library that torch brings along.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

Macros = tuple[tuple[str, int], ...]

KERNELS = Path(__file__).with_name("kernels")
_OPTIONS = ("-std=c++17", "-default-device", "--ptxas-options=-v")


class CannotStart(RuntimeError):
    """The CUDA path has no GPU, no NVRTC or no driver to work with; the message says why and what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(f'the CUDA path of the CTC loss cannot start: {why}; {fix}, or choose backend="torch"')


class Resources(NamedTuple):
    """What the compiler reports of a kernel: registers of a thread, bytes of its stack and of spills.

    `shared` is a block's shared memory of a size fixed in the source, to which comes what a launch asks for.
    """

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


def compile_cubin(kernel: str, macros: Macros, architecture: str) -> tuple[bytes, str]:
    """Compile a kernel, past the cache; return its machine code and the compiler's report.

    Raises
    ------
    CannotStart
        If NVRTC is missing, or does not know the architecture.
    """
    nvrtc = load_nvrtc()
    known = [f"sm_{number}" for number in call(nvrtc.nvrtcGetSupportedArchs())]
    if architecture not in known:
        raise CannotStart(
            f"NVRTC {nvrtc_version()} does not compile for this GPU ({architecture}), only for {', '.join(known)}",
            "install a build of torch made for this GPU",
        )
    headers = {name: text for name, text in sources().items() if name.endswith(".cuh")}
    program = call(
        nvrtc.nvrtcCreateProgram(
            sources()[f"{kernel}.cu"].encode(),
            f"{kernel}.cu".encode(),
            len(headers),
            [text.encode() for text in headers.values()],
            [name.encode() for name in headers],
        )
    )
    try:
        options = [option.encode() for option in options_of(macros, architecture)]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        report = b" " * call(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, report)
        if int(status) != 0:
            raise RuntimeError(f"{kernel}.cu does not compile for {architecture}:\n{report.decode()}")
        code = b" " * call(nvrtc.nvrtcGetCUBINSize(program))
        call(nvrtc.nvrtcGetCUBIN(program, code))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return code, report.rstrip(b"\0 ").decode()


def resources(report: str) -> Resources:
    """Read what the compiler reports of a kernel."""
    numbers = re.search(
        r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
        report,
        re.DOTALL,
    )
    if numbers is None:
        raise ValueError(f"the compiler's report has no figures:\n{report}")
    stack, stores, loads, registers = (int(number) for number in numbers.groups())
    fixed = re.search(r"(\d+) bytes smem", report)
    return Resources(registers, stack, stores, loads, int(fixed[1]) if fixed else 0)


@lru_cache(maxsize=1)
def nvrtc_version() -> str:
    """Return the version of the NVRTC library, such as ``"13.0"``."""
    return ".".join(str(number) for number in call_all(load_nvrtc().nvrtcVersion()))


@lru_cache(maxsize=1)
def load_driver() -> ModuleType:
    """Return the bindings of the CUDA driver.

    Raises
    ------
    CannotStart
        If they are not installed.
    """
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise CannotStart(
            f"the package cuda-bindings cannot be imported ({error})", f"install it: {_pip()} cuda-bindings"
        ) from error
    return driver  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def load_nvrtc() -> ModuleType:
    """Return the bindings of NVRTC.

    Raises
    ------
    CannotStart
        If they are not installed, or the library is not.
    """
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()  # the library itself is looked for at the first call
    except ImportError as error:
        raise CannotStart(
            f"the package cuda-bindings cannot be imported ({error})", f"install it: {_pip()} cuda-bindings"
        ) from error
    except RuntimeError as error:
        raise CannotStart(
            f"the NVRTC library is not found ({error})", f"install it: {_pip()} nvidia-cuda-nvrtc"
        ) from error
    return nvrtc  # type: ignore[no-any-return]


def _pip() -> str:
    return f"{sys.executable} -m pip install"


@lru_cache(maxsize=1)
def sources() -> dict[str, str]:
    """Return the CUDA sources by file name."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(KERNELS.glob("*.cu*"))}


def options_of(macros: Macros, architecture: str) -> list[str]:
    """Return what NVRTC is told besides the source."""
    return [f"--gpu-architecture={architecture}", *_OPTIONS, *(f"-D{name}={value}" for name, value in macros)]


def call(result: Iterable[Any]) -> Any:
    """Return the one result of a call to the driver or to NVRTC.

    Raises
    ------
    RuntimeError
        If the call failed.
    """
    values = call_all(result)
    return values[0] if values else None


def call_all(result: Iterable[Any]) -> tuple[Any, ...]:
    """Return the results of a call to the driver or to NVRTC, without the status that comes first."""
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(f"CUDA says {status.name} ({int(status)})")
    return tuple(values)
