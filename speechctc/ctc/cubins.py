"""Machine code of the CUDA kernels: found in a folder or in the cache, or compiled; then loaded and launched."""

from __future__ import annotations

import ctypes
import hashlib
import os
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from speechctc.ctc.nvrtc import Macros, call, call_all, compile_cubin, load_driver, nvrtc_version, options_of, sources
from speechctc.jit.cache import temporary_cache

_NO_CONTEXT = 201  # CUDA_ERROR_INVALID_CONTEXT


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
    code = _kept(Path(shipped) / _name(kernel, macros, architecture, ""), None) if shipped else None
    if code is None:
        folder = cache_folder()
        path = folder / _name(kernel, macros, architecture, nvrtc_version()) if folder else None
        code = _kept(path, _owners()) if path else None
        if code is None:
            code, _ = compile_cubin(kernel, macros, architecture)
            if path:
                _keep(path, code)
    return code


def precompile(wanted: Iterable[tuple[str, Macros]], architecture: str, folder: Path) -> int:
    """Compile kernels for a machine that is pointed to them by SPEECHCTC_CUBINS; those that are there already stay.

    Parameters
    ----------
    wanted : iterable of (str, macros)
        Kernels, as for `cubin`.
    architecture : str
        Of the machine that will run them.
    folder : Path
        Where they go; made if need be.

    Returns
    -------
    made : int
        How many were compiled.
    """
    places = {folder / _name(kernel, macros, architecture, ""): (kernel, macros) for kernel, macros in wanted}
    missing = [(path, *one) for path, one in sorted(places.items()) if _kept(path, None) is None]

    def make(path: Path, kernel: str, macros: Macros) -> None:
        code, _ = compile_cubin(kernel, macros, architecture)
        _write(path, code)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda one: make(*one), missing))
    return len(missing)


def cache_folder() -> Path | None:
    """Return the folder where cubins are kept.

    It is SPEECHCTC_CACHE if that is set, else speechctc in XDG_CACHE_HOME or ~/.cache. If that is not writable, it is a
    folder of this user among the temporary files; None if there is none.
    """
    if own := os.environ.get("SPEECHCTC_CACHE"):
        return Path(own)
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "speechctc"
    except RuntimeError:  # this user has no home
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
        self._library = call(driver.cuLibraryLoadData(code, [], [], 0, [], [], 0))
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


def _name(kernel: str, macros: Macros, architecture: str, version: str) -> str:
    key = "\n".join([kernel, *options_of(macros, architecture), version, *sources().values()])
    return f"{kernel}-{architecture}-{hashlib.sha256(key.encode()).hexdigest()[:32]}.cubin"


def _owners() -> set[int] | None:
    """Whose files in the cache are trusted: this user's and root's; None where files have no owners."""
    return {0, os.getuid()} if hasattr(os, "getuid") else None


def _kept(path: Path, owners: set[int] | None) -> bytes | None:
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


def _keep(path: Path, code: bytes) -> None:
    """Write a file of the cache; a folder that cannot be written to costs time, no more."""
    try:
        _write(path, code)
    except OSError:
        return


def _write(path: Path, code: bytes) -> None:
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
