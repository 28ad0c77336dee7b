"""Machine code of the CUDA kernels: compiled at run time by NVRTC, or found in a folder or the cache; then loaded.

No compiler is needed on the machine, and no GPU to compile: NVRTC is a library that torch brings along.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from speechctc.ctc.cache import cache_home, temporary_cache

Macros = tuple[tuple[str, int], ...]

KERNELS = Path(__file__).with_name("kernels")
_OPTIONS = ("-std=c++17", "-default-device", "--ptxas-options=-v")

_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT


class CannotStart(RuntimeError):
    """The CUDA path has no GPU, no NVRTC or no driver to work with; the message says why and what to do."""

    def __init__(self, why: str, fix: str) -> None:
        super().__init__(f'the CUDA path of the CTC loss cannot start: {why}; {fix}, or choose backend="torch"')


def compile_cubin(kernel: str, macros: Macros, architecture: str, form: str = "CUBIN") -> tuple[bytes, str]:
    """Compile a kernel, past the cache; return its machine code, or its ``"PTX"``, and the compiler's report.

    Raises
    ------
    CannotStart
        If NVRTC is missing, or does not know the architecture.
    """
    nvrtc = load_nvrtc()
    known = [f"sm_{number}" for number in call(nvrtc.nvrtcGetSupportedArchs())]
    if architecture not in known:
        why = f"NVRTC {nvrtc_version()} does not compile for this GPU ({architecture}), only for {', '.join(known)}"
        raise CannotStart(why, "install a build of torch made for this GPU")
    encoded = {name.encode(): text.encode() for name, text in sources().items()}
    headers = {name: text for name, text in encoded.items() if name.endswith(b".cuh")}
    main = f"{kernel}.cu".encode()
    program = call(nvrtc.nvrtcCreateProgram(encoded[main], main, len(headers), [*headers.values()], [*headers]))
    try:
        options = [option.encode() for option in options_of(macros, architecture)]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        report = b" " * call(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, report)
        if int(status) != 0:
            raise RuntimeError(f"{kernel}.cu does not compile for {architecture}:\n{report.decode()}")
        code = b" " * call(getattr(nvrtc, f"nvrtcGet{form}Size")(program))
        call(getattr(nvrtc, f"nvrtcGet{form}")(program, code))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return code, report.rstrip(b"\0 ").decode()


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
        raise _lacks(f"the package cuda-bindings cannot be imported ({error})") from error
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
        raise _lacks(f"the package cuda-bindings cannot be imported ({error})") from error
    except RuntimeError as error:
        raise _lacks(f"the NVRTC library is not found ({error})") from error
    return nvrtc  # type: ignore[no-any-return]


def _lacks(why: str) -> CannotStart:
    """Return the error of what is missing, or unfit for the driver, with the packages for the CUDA that torch is of."""
    old = str(torch.version.cuda).startswith("12.")
    packages = "'cuda-bindings==12.*' nvidia-cuda-nvrtc-cu12" if old else "cuda-bindings nvidia-cuda-nvrtc"
    return CannotStart(why, f"install what fits: {sys.executable} -m pip install {packages}")


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


def cubin(kernel: str, macros: Macros, architecture: str) -> bytes:
    """Return a kernel's machine code.

    It is looked for in the folder that SPEECHCTC_CUBINS names, where it may come from another machine and NVRTC is not
    needed; then in the cache; then it is compiled, and kept in the cache.

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
        If it must be compiled, and NVRTC is missing or does not know the architecture.
    """
    shipped = os.environ.get("SPEECHCTC_CUBINS")
    code = kept(Path(shipped) / name_of(kernel, macros, architecture, ""), None) if shipped else None
    if code is None:
        folder = cache_folder()
        path = folder / name_of(kernel, macros, architecture, nvrtc_version()) if folder else None
        code = kept(path, trusted_owners()) if path else None
        if code is None:
            code, _ = compile_cubin(kernel, macros, architecture)
            if path:
                with suppress(OSError):  # a cache that cannot be written to costs time, no more
                    write_kept(path, code)
    return code


def cache_folder() -> Path | None:
    """Return the folder where cubins are kept.

    It is SPEECHCTC_CACHE if that is set, else speechctc in XDG_CACHE_HOME or ~/.cache. If that is not writable, it is a
    folder of this user among the temporary files; None if there is none.
    """
    if own := os.environ.get("SPEECHCTC_CACHE"):
        return Path(own)
    if (folder := cache_home()) is None:
        return temporary_cache()
    there = next((place for place in (folder, *folder.parents) if os.path.exists(place)), folder)
    return folder if os.access(there, os.W_OK | os.X_OK) else temporary_cache()


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
        self._context = call(driver.cuDevicePrimaryCtxRetain(call(driver.cuDeviceGet(device))))
        self._enter_context()
        code = cubin(kernel, macros, architecture)
        try:
            self._library = call(driver.cuLibraryLoadData(code, [], [], 0, [], [], 0))
        except RuntimeError as error:
            known = call(driver.cuDriverGetVersion()) // 1000
            if int(nvrtc_version().partition(".")[0]) <= known:
                raise
            why = f"the driver is of CUDA {known} and refuses what NVRTC {nvrtc_version()} compiles ({error})"
            raise _lacks(why) from None
        entry = call(driver.cuLibraryGetKernel(self._library, f"ctc_{kernel}".encode()))
        self._function = call(driver.cuKernelGetFunction(entry))
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        if shared_bytes > 0:
            call(driver.cuFuncSetAttribute(self._function, attribute, shared_bytes))

    def launch(self, arguments: bytes, blocks: int, threads: int, shared_bytes: int, stream: int) -> None:
        """Put a launch on a stream of the device; `arguments` is the one structure that the kernel takes."""
        structure = ctypes.create_string_buffer(arguments, len(arguments))
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(structure))
        shape = (blocks, 1, 1, threads, 1, 1, shared_bytes, stream, ctypes.addressof(pointers), 0)
        result = self._driver.cuLaunchKernel(self._function, *shape)
        if int(result[0]) == _NO_CONTEXT:
            self._enter_context()
            result = self._driver.cuLaunchKernel(self._function, *shape)
        call_all(result)

    def _enter_context(self) -> None:
        """Use torch's context in this thread, which may be one where torch has had no reason yet to do so."""
        call_all(self._driver.cuCtxSetCurrent(self._context))


def name_of(kernel: str, macros: Macros, architecture: str, version: str) -> str:
    """Return the name of the file that holds a kernel's machine code, compiled by a version of NVRTC."""
    key = "\n".join([kernel, *options_of(macros, architecture), version, *sources().values()])
    return f"{kernel}-{architecture}-{hashlib.sha256(key.encode()).hexdigest()[:32]}.cubin"


def trusted_owners() -> set[int] | None:
    """Whose files in the cache are trusted: this user's and root's; None where files have no owners."""
    return {0, os.getuid()} if hasattr(os, "getuid") else None


def kept(path: Path, owners: set[int] | None) -> bytes | None:
    """The machine code in a file, which begins with its SHA-256; None where it is missing, damaged or of others."""
    try:
        with path.open("rb") as file:
            if owners is not None and os.fstat(file.fileno()).st_uid not in owners:
                return None
            content = file.read()
    except OSError:
        return None
    digest, code = content[:32], content[32:]
    return code if hashlib.sha256(code).digest() == digest else None


def write_kept(path: Path, code: bytes) -> None:
    """Write a file so that nobody ever reads half of it, in a folder that is only for this user if it is made here."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(hashlib.sha256(code).digest() + code)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise
