"""The CUDA source through its compilers, for four generations of GPUs; none of them is needed here."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from speechctc.ctc import nvrtc
from speechctc.ctc.cuda_plan import Device, Size, plan
from speechctc.ctc.nvrtc import Macros

try:
    nvrtc.nvrtc_version()
    WHY_NOT = ""
except nvrtc.CannotStart as error:
    WHY_NOT = str(error)
needs_nvrtc = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

KIB = 1024
GPUS = {  # multiprocessors, and shared memory as the programming guide has it
    "sm_75": Device(40, 64 * KIB, 64 * KIB),
    "sm_80": Device(108, 163 * KIB, 164 * KIB),
    "sm_90": Device(132, 227 * KIB, 228 * KIB),
    "sm_100": Device(148, 227 * KIB, 228 * KIB),
}
COMMON = {  # T, L, A, N
    "characters": (150, 40, 28, 64),
    "words": (150, 20, 5000, 64),
    "phones": (400, 40, 62, 32),
    "long utterances": (1500, 200, 62, 32),
    "many words": (183, 29, 10241, 90),
    "many samples": (150, 40, 28, 264),
    "many utterances": (400, 40, 62, 160),
}


class Resources(NamedTuple):
    """What the compiler reports of a kernel: registers of a thread, bytes of its stack and of spills.

    `shared` is a block's shared memory of a size fixed in the source, to which comes what a launch asks for.
    """

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int


def resources_of(report: str) -> Resources:
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


def kernels(
    architecture: str, name: str, dtype: torch.dtype = torch.float32, gradient: bool = True
) -> set[tuple[str, str, Macros]]:
    """What one of the common sizes runs on a GPU."""
    frames, labels, classes, samples = COMMON[name]
    size = Size(frames, samples, classes, frames, labels, dtype, packed=False, gradient=gradient)
    chosen = plan(size, GPUS[architecture])
    return {(architecture, "sweep", chosen.sweep)} | ({(architecture, "rows", chosen.rows)} if chosen.rows else set())


FLOAT32 = set().union(*(kernels(architecture, name) for architecture in GPUS for name in COMMON))
SHORT = kernels("sm_90", "characters", torch.bfloat16) | kernels("sm_90", "words", torch.bfloat16)
LOSS = kernels("sm_90", "characters", gradient=False) | kernels("sm_90", "words", gradient=False)
LONG = kernels("sm_90", "characters", torch.float64) | kernels("sm_90", "words", torch.float64)  # these may spill
SCALE = {("sm_90", "scale", (("LOGIT_TYPE", kind),)) for kind in range(4)}


@pytest.fixture(scope="module")
def reports() -> dict[tuple[str, str, Macros], Resources]:
    """Compile them all, several at a time; what has been compiled before is found among the temporary files."""
    folder = Path(tempfile.gettempdir()) / f"speechctc-reports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    sources = "".join(path.read_text() for path in sorted(nvrtc.KERNELS.iterdir()))

    def resources(one: tuple[str, str, Macros]) -> Resources:
        kept = folder / hashlib.sha256(f"{nvrtc.nvrtc_version()} {one} {sources}".encode()).hexdigest()[:20]
        if not kept.exists():
            architecture, kernel, macros = one
            code, report = nvrtc.compile_cubin(kernel, macros, architecture)
            assert code.startswith(b"\x7fELF")
            made = kept.with_suffix(f".{os.getpid()}")
            made.write_text(report)
            made.replace(kept)
        return resources_of(kept.read_text())

    wanted = sorted(FLOAT32 | SHORT | LOSS | LONG | SCALE)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(wanted, pool.map(resources, wanted), strict=True))


@needs_nvrtc
@pytest.mark.parametrize("architecture", GPUS)
def test_common_sizes_spill_no_register(architecture: str, reports: dict[tuple[str, str, Macros], Resources]) -> None:
    for (where, kernel, macros), found in reports.items():
        if where == architecture and (where, kernel, macros) not in LONG:
            variant = " ".join(f"{name}={value}" for name, value in macros)
            print(f"{architecture} {kernel}: {found.registers} registers ({variant})")
            assert found.spill_stores == found.spill_loads == found.stack == 0, variant


@needs_nvrtc
def test_registers_fit_the_block(reports: dict[tuple[str, str, Macros], Resources]) -> None:
    """A multiprocessor has 65,536 registers; a block that needs more cannot be launched at all."""
    for (_, kernel, macros), found in reports.items():
        options = dict(macros)
        lattice = 4 if options.get("WARPS") == 1 else 2 * options.get("WARPS", 0)  # two of them idle, if they are few
        warps = {"sweep": lattice + options.get("HELPERS", 0), "rows": options.get("ROW_THREADS", 0) // 32, "scale": 8}
        blocks = options.get("BLOCKS", 1)
        assert 32 * warps[kernel] * blocks * (-(-found.registers // 8) * 8) <= 65536


@needs_nvrtc
def test_shared_memory_of_both_kinds_fits_together(reports: dict[tuple[str, str, Macros], Resources]) -> None:
    """The driver refuses a kernel that may ask for more than is left beside the memory fixed in its source."""
    for (where, kernel, macros), found in reports.items():
        asked = GPUS[where].shared_per_block if kernel == "sweep" else 0  # as `cuda.Gpu.kernel` has it
        assert found.shared + asked <= GPUS[where].shared_per_block, (where, kernel, macros)


@needs_nvrtc
@pytest.mark.parametrize(
    ("name", "dtype", "real"), [("characters", torch.float32, "f32"), ("words", torch.float64, "f64")]
)
def test_a_product_whose_error_is_known_is_never_fused(name: str, dtype: torch.dtype, real: str) -> None:
    """Where a probability is split into a power of two and a rest; without `.rn` the assembler may fuse it."""
    texts = [nvrtc.compile_cubin(kernel, how, of, "PTX")[0] for of, kernel, how in kernels("sm_90", name, dtype)]
    rounded, wholes = (b"".join(texts).count(each.encode()) for each in (f"mul.rn.{real}", f"cvt.rni.{real}"))
    assert rounded == wholes > 0


def test_no_variant_of_the_sweep_fixes_shared_memory() -> None:
    """Compiled above are the common ones; of all others the source tells: what it includes fixes none."""
    waiting, seen = ["sweep.cu"], set[str]()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        code = re.sub(r"//.*", "", nvrtc.sources()[name])
        assert "extern __shared__" in code or "__shared__" not in code, name
        waiting += [other for other in re.findall(r'#include "(.*)"', code) if other not in seen]
    assert len(seen) == 8


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not on the PATH")
@pytest.mark.parametrize("kernel", ["sweep", "rows", "scale"])
def test_nvcc_has_nothing_to_say(kernel: str, tmp_path: Path) -> None:
    """Warnings are errors; for one variant of each kernel, since nvcc takes its time."""
    variants = sorted(macros for where, name, macros in FLOAT32 | SCALE if (where, name) == ("sm_90", kernel))
    command = ["nvcc", "-std=c++17", "-arch=sm_90", "-cubin", "-Werror=all-warnings", "-o", str(tmp_path / "kernel")]
    command += [*(f"-D{name}={value}" for name, value in variants[0]), str(nvrtc.KERNELS / f"{kernel}.cu")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
