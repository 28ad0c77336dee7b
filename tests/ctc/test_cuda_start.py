"""What surrounds the kernels, where there is no GPU: the plan, the cache of machine code, and why it cannot start."""

import os
import re
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from speechctc.ctc import cuda, nvrtc
from speechctc.ctc import nvrtc as cubins
from speechctc.ctc.cache import temporary_cache
from speechctc.ctc.cuda_plan import PLACES, Device, Size, Tuning, plan, workspace_bytes
from speechctc.ctc.problem import make_problem
from tests.ctc.test_kernel_compile import COMMON, GPUS, needs_nvrtc

SCALE = (("LOGIT_TYPE", 0),)


def size(frames: int, labels: int, classes: int, samples: int, gradient: bool = True) -> Size:
    return Size(frames, samples, classes, frames, labels, torch.float32, packed=False, gradient=gradient)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("name", COMMON)
def test_memory_is_at_most_half_of_torch(name: str, gpu: str) -> None:
    """PyTorch's loss keeps alpha and beta of all states, log-probabilities, and the gradient by those."""
    frames, labels, classes, samples = COMMON[name]
    torch_bytes = samples * frames * (2 * (2 * labels + 1) + 2 * classes) * 4
    assert workspace_bytes(size(*COMMON[name]), GPUS[gpu]) <= torch_bytes / 2


def test_a_small_problem_takes_no_memory_at_all() -> None:
    assert workspace_bytes(size(*COMMON["characters"]), GPUS["sm_90"]) == 0


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    frames=st.integers(0, 3000),
    labels=st.integers(0, 2000),
    classes=st.integers(1, 30000),
    samples=st.integers(1, 3000),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.float16]),
    gradient=st.booleans(),
    contiguous=st.booleans(),
    shared=st.sampled_from([48, 64, 99, 163, 227]),
)
def test_any_problem_has_a_plan(
    frames: int,
    labels: int,
    classes: int,
    samples: int,
    dtype: torch.dtype,
    gradient: bool,
    contiguous: bool,
    shared: int,
) -> None:
    """It fits the device, has room for the longest path, and never more threads than a block can have."""
    problem = Size(frames, samples, classes, frames, labels, dtype, False, gradient, contiguous)
    chosen = plan(problem, Device(80, shared * 1024, (shared + 1) * 1024))
    options, rows = dict(chosen.sweep), dict(chosen.rows)
    assert chosen.shared_bytes <= shared * 1024
    assert chosen.threads <= 512
    assert chosen.longest == min(frames, labels)
    if not options["SPACIOUS"]:
        assert 32 * options["PAIRS"] * options["WARPS"] > chosen.longest
    if options["FUSED"]:
        assert 16 * options["HELPERS"] // options["CHUNK"] * options["CLASSES_PER_LANE"] >= classes
        assert not rows
    elif rows["ONCE"]:
        elements = 16 // dtype.itemsize if contiguous else 1
        assert rows["ROW_THREADS"] * rows["ROW_VECTORS"] * elements >= classes + elements - 1
    for place in chosen.places:
        assert -1 - chosen.shared_bytes <= place <= chosen.workspace_bytes


@pytest.mark.parametrize("tuning", ["", "chunk=4", "helpers=4", "helpers=8", "blocks=2", "fused_classes=128"])
@pytest.mark.parametrize("classes", [2, 8, 9, 28, 33, 62, 64, 65, 127, 128])
def test_the_table_has_a_column_for_every_lane(classes: int, tuning: str) -> None:
    """Each lane of a helper's row stores all its numbers, of classes or not; and one column more is for none."""
    chosen = plan(size(150, 20, classes, 64), GPUS["sm_90"], Tuning.parse(tuning))
    options = dict(chosen.sweep)
    if not options["FUSED"]:
        assert classes > Tuning.parse(tuning).fused_classes
        return
    columns = 16 * options["HELPERS"] // options["CHUNK"] * options["CLASSES_PER_LANE"] + 1
    frames = 152 if options["WHOLE"] else 2 * (options["WARPS"] + 3) * options["CHUNK"]
    begin = -1 - chosen.places[PLACES.index("table")]
    after = min([-1 - p for p in chosen.places if -1 - p > begin] + [chosen.shared_bytes])
    assert columns > classes and after - begin >= frames * columns * 8


def test_too_many_frames_to_count() -> None:
    with pytest.raises(ValueError, match="2200000000 frames in one call are too many"):
        plan(size(22_000_000, 1, 2, 100), GPUS["sm_90"])


def test_logits_on_the_wrong_device() -> None:
    problem = make_problem(torch.zeros(2, 1, 3), torch.tensor([[1]]), [2], [1])
    with pytest.raises(ValueError, match=r'backend="cuda" takes logits on a CUDA device; these are on cpu'):
        cuda.loss_and_gradient(problem, True)


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    cuda._require_gpu.cache_clear()
    with pytest.raises(cuda.CannotStart, match="cannot start: torch finds no NVIDIA GPU or no driver; run nvidia-smi"):
        cuda.check("cuda")


def test_a_torch_without_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    cuda._require_gpu.cache_clear()
    with pytest.raises(cuda.CannotStart, match="this build of torch is without CUDA; install one with CUDA"):
        cuda.check(0)


@pytest.mark.parametrize(("version", "packages"), [("13.0", "cuda-bindings"), ("12.8", "'cuda-bindings==12.*'")])
def test_no_bindings(monkeypatch: pytest.MonkeyPatch, version: str, packages: str) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    monkeypatch.setattr(torch.version, "cuda", version)
    for load in (nvrtc.load_driver, nvrtc.load_nvrtc):
        load.cache_clear()
        with pytest.raises(nvrtc.CannotStart, match=re.escape(f"pip install {packages} nvidia-cuda-nvrtc")):
            load()


@needs_nvrtc
def test_a_gpu_that_nvrtc_does_not_know() -> None:
    with pytest.raises(nvrtc.CannotStart, match=r"does not compile for this GPU \(sm_50\), only for sm_75"):
        nvrtc.compile_cubin("scale", SCALE, "sm_50")


@needs_nvrtc
def test_source_that_does_not_compile() -> None:
    with pytest.raises(RuntimeError, match=r"(?s)scale.cu does not compile for sm_80:.*error"):
        nvrtc.compile_cubin("scale", (("LOGIT_TYPE", 0), ("real", 7)), "sm_80")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPEECHCTC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@needs_nvrtc
def test_machine_code_is_compiled_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = cubins.cubin("scale", SCALE, "sm_80")
    assert [path.suffix for path in cache.iterdir()] == [".cubin"]
    with monkeypatch.context() as patched:
        patched.setattr(cubins, "compile_cubin", None)
        assert cubins.cubin("scale", SCALE, "sm_80") == code
        for other in ((("LOGIT_TYPE", 1),), "sm_80"), (SCALE, "sm_90"):
            with pytest.raises(TypeError):
                cubins.cubin("scale", *other)
        patched.setattr(cubins, "nvrtc_version", lambda: "99.0")
        with pytest.raises(TypeError):
            cubins.cubin("scale", SCALE, "sm_80")


@needs_nvrtc
@pytest.mark.parametrize("damage", [b"", b"half", None])
def test_a_damaged_file_is_made_again(cache: Path, damage: bytes | None) -> None:
    code = cubins.cubin("scale", SCALE, "sm_80")
    (path,) = cache.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] if damage is None else damage)
    assert cubins.cubin("scale", SCALE, "sm_80") == code
    assert path.read_bytes() == whole


@needs_nvrtc
def test_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("SPEECHCTC_CACHE", str(tmp_path / "file" / "cache"))
    assert cubins.cubin("scale", SCALE, "sm_80").startswith(b"\x7fELF")


def test_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)  # the user's own may be read-only
    monkeypatch.delenv("SPEECHCTC_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "else"))
    assert cubins.cache_folder() == tmp_path / "else" / "speechctc"
    monkeypatch.setenv("XDG_CACHE_HOME", os.path.join("in", "the working folder"))
    assert cubins.cache_folder() == tmp_path / ".cache" / "speechctc"


@needs_nvrtc
def test_the_cache_is_for_one_user(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody else may write to it, and files of others are not loaded."""
    cubins.cubin("scale", SCALE, "sm_80")
    assert cache.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(cubins, "compile_cubin", lambda *one: (b"compiled anew", ""))
    assert cubins.cubin("scale", SCALE, "sm_80").startswith(b"\x7fELF")
    monkeypatch.setattr(cubins, "trusted_owners", lambda: {12345})
    assert cubins.cubin("scale", SCALE, "sm_80") == b"compiled anew"


def test_cache_folder_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPEECHCTC_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    folder = cubins.cache_folder()
    assert folder == temporary_cache() and folder is not None and folder.parent == tmp_path
    folder.chmod(0o777)  # others may have written to it
    assert cubins.cache_folder() is None
    monkeypatch.setattr(cubins, "compile_cubin", lambda *arguments: (b"code", ""))
    assert cubins.cubin("scale", (), "sm_80") == b"code" and not any(folder.iterdir())


def test_capture_wants_lengths_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph would go on with the lengths of the day it was captured."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    problem = make_problem(torch.zeros(2, 1, 3), torch.tensor([[1]]), [2], [1])
    with pytest.raises(ValueError, match=r"input_lengths, .* on the host.* put lengths and targets on cuda:0 before"):
        cuda.on_device(problem, torch.device("cuda:0"))


def test_capture_wants_the_kernel_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    gpu = object.__new__(cuda.Gpu)
    gpu.kernels = {}
    with pytest.raises(RuntimeError, match="call the loss once with these shapes before the capture"):
        gpu.kernel("sweep", SCALE)
