"""CUDA C++ compiled at run time: NVRTC makes a cubin for one architecture, the disk keeps it, a device loads it.

No compiler is needed on the machine, and no GPU to compile: NVRTC is a library that torch brings along.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from speechctc.jit.cache import temporary_cache

Macros = tuple[tuple[str, int], ...]

KERNELS = Path(__file__).with_name("kernels")
_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT
_OPTIONS = ("-std=c++17", "-default-device", "--ptxas-options=-v")


class CannotStart(RuntimeError):
    """The CUDA path has no GPU, no NVRTC or no driver to work with; the message says why and what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(f'the CUDA path of the CTC loss cannot start: {why}; {fix}, or choose backend="torch"')


class Resources(NamedTuple):
    """What the compiler reports of a kernel: registers of a thread, bytes of its stack and of spills."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int


def cubin(kernel: str, macros: Macros, architecture: str) -> bytes:
    """Return a kernel's machine code, from the cache on disk if it is there.

    Parameters
    ----------
    kernel : str
        A file of `kernels/` without its suffix: ``"sweep"`` holds the kernel ``ctc_sweep``.
    macros : tuple of (str, int)
        What the source is compiled with.
    architecture : str
        Such as ``"sm_90"``.

    Raises
    ------
    CannotStart
        If NVRTC is missing, or does not know the architecture.
    """
    folder = cache_folder()
    if folder is None:
        return compile_cubin(kernel, macros, architecture)[0]
    key = "\n".join([kernel, *_options(macros, architecture), nvrtc_version(), *_sources().values()])
    path = folder / f"{kernel}-{architecture}-{hashlib.sha256(key.encode()).hexdigest()[:32]}.cubin"
    code = _kept(path)
    if code is None:
        code, _ = compile_cubin(kernel, macros, architecture)
        _keep(path, code)
    return code


def compile_cubin(kernel: str, macros: Macros, architecture: str) -> tuple[bytes, str]:
    """Compile a kernel, past the cache; return its machine code and the compiler's report.

    Raises
    ------
    CannotStart
        If NVRTC is missing, or does not know the architecture.
    """
    nvrtc = load_nvrtc()
    known = [f"sm_{number}" for number in _call(nvrtc.nvrtcGetSupportedArchs())]
    if architecture not in known:
        raise CannotStart(
            f"NVRTC {nvrtc_version()} does not compile for this GPU ({architecture}), only for {', '.join(known)}",
            "install a build of torch made for this GPU",
        )
    headers = {name: text for name, text in _sources().items() if name.endswith(".cuh")}
    program = _call(
        nvrtc.nvrtcCreateProgram(
            _sources()[f"{kernel}.cu"].encode(),
            f"{kernel}.cu".encode(),
            len(headers),
            [text.encode() for text in headers.values()],
            [name.encode() for name in headers],
        )
    )
    try:
        options = [option.encode() for option in _options(macros, architecture)]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        report = b" " * _call(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, report)
        if int(status) != 0:
            raise RuntimeError(f"{kernel}.cu does not compile for {architecture}:\n{report.decode()}")
        code = b" " * _call(nvrtc.nvrtcGetCUBINSize(program))
        _call(nvrtc.nvrtcGetCUBIN(program, code))
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
    return Resources(registers, stack, stores, loads)


def cache_folder() -> Path | None:
    """Return where cubins are kept.

    SPEECHCTC_CACHE if it is set, else speechctc in XDG_CACHE_HOME or ~/.cache; where that cannot be written to, a
    folder of this user's among the temporary files; None where there is none, either.
    """
    if own := os.environ.get("SPEECHCTC_CACHE"):
        return Path(own)
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "speechctc"
    except RuntimeError:  # this user has no home
        return temporary_cache()
    there = next((place for place in (folder, *folder.parents) if os.path.exists(place)), folder)
    return folder if os.access(there, os.W_OK | os.X_OK) else temporary_cache()


@lru_cache(maxsize=1)
def nvrtc_version() -> str:
    """Return the version of the NVRTC library, such as ``"13.0"``."""
    return ".".join(str(number) for number in _call_all(load_nvrtc().nvrtcVersion()))


class Kernel:
    """A kernel loaded on a device, ready to be launched.

    Parameters
    ----------
    device : int
        The number of the device.
    kernel : str
        As for `cubin`.
    macros : tuple of (str, int)
        As for `cubin`.
    architecture : str
        Of the device.
    shared_bytes : int
        The most dynamic shared memory that a launch will ask for.
    """

    def __init__(self, device: int, kernel: str, macros: Macros, architecture: str, shared_bytes: int) -> None:
        driver = self._driver = load_driver()
        self._context = _call(driver.cuDevicePrimaryCtxRetain(_call(driver.cuDeviceGet(device))))
        self._enter_context()
        code = cubin(kernel, macros, architecture)
        self._library = _call(driver.cuLibraryLoadData(code, [], [], 0, [], [], 0))
        entry = _call(driver.cuLibraryGetKernel(self._library, f"ctc_{kernel}".encode()))
        self._function = _call(driver.cuKernelGetFunction(entry))
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        if shared_bytes > 0:
            _call(driver.cuFuncSetAttribute(self._function, attribute, shared_bytes))

    def launch(self, arguments: bytes, blocks: int, threads: int, shared_bytes: int, stream: int) -> None:
        """Put a launch on a stream of the device; `arguments` is the one structure that the kernel takes."""
        structure = ctypes.create_string_buffer(arguments, len(arguments))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(structure))
        shape = (blocks, 1, 1, threads, 1, 1, shared_bytes, stream, ctypes.addressof(pointers), 0)
        result = self._driver.cuLaunchKernel(self._function, *shape)
        if int(result[0]) == _NO_CONTEXT:
            self._enter_context()
            result = self._driver.cuLaunchKernel(self._function, *shape)
        _call_all(result)

    def _enter_context(self) -> None:
        """Use torch's context in this thread, which may be one where torch has had no reason yet to do so."""
        _call_all(self._driver.cuCtxSetCurrent(self._context))


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
def _sources() -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(KERNELS.glob("*.cu*"))}


def _options(macros: Macros, architecture: str) -> list[str]:
    return [f"--gpu-architecture={architecture}", *_OPTIONS, *(f"-D{name}={value}" for name, value in macros)]


def _call(result: Iterable[Any]) -> Any:
    values = _call_all(result)
    return values[0] if values else None


def _call_all(result: Iterable[Any]) -> tuple[Any, ...]:
    """The results of a call to the driver or to NVRTC, without the status that comes first."""
    status, *values = result
    if int(status) != 0:
        raise RuntimeError(f"CUDA says {status.name} ({int(status)})")
    return tuple(values)


def _kept(path: Path) -> bytes | None:
    """The machine code in a file, which begins with its SHA-256; None if there is none, or not all of it."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, code = content[:32], content[32:]
    return code if hashlib.sha256(code).digest() == digest else None


def _keep(path: Path, code: bytes) -> None:
    """Write a file so that nobody ever reads half of it; a folder that cannot be written to costs time, no more."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(hashlib.sha256(code).digest() + code)
            os.replace(name, path)
        except OSError:
            os.unlink(name)
    except OSError:
        return
