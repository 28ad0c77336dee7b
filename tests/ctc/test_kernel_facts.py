"""The CUDA source, run on the CPU, against the float64 reference: every variant of the kernels, every awkward input."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from speechctc.ctc import cuda, cuda_plan, reference
from speechctc.ctc.cuda_plan import Device, Plan, Tuning
from speechctc.ctc.problem import Problem, make_problem
from tests.ctc import emulation
from tests.ctc.emulation import H200, emulated_loss_and_gradient

pytestmark = pytest.mark.skipif(emulation.WHY_NOT is not None, reason=str(emulation.WHY_NOT))


def holding(kib: int) -> Device:
    """A small GPU whose blocks have so much shared memory."""
    return Device(multiprocessors=40, shared_per_block=kib * 1024, shared_per_multiprocessor=64 * 1024)


T4 = holding(64)
LOSS, GRADIENT = 1e-6, 5e-6  # relative, absolute


class Case(NamedTuple):
    frames: int
    samples: int
    classes: int
    labels: int
    dtype: torch.dtype = torch.float32
    device: Device = H200
    gradient: bool = True
    temperature: float = 1.0
    tuning: str = ""

    def problem(self, seed: int = 0) -> Problem:
        """Random logits, and lengths from half of the longest to the longest."""
        random = torch.Generator().manual_seed(seed)
        shape = (self.frames, self.samples, self.classes)
        logits = (torch.randn(shape, generator=random) * self.temperature).to(self.dtype)
        targets = torch.randint(1, self.classes, (self.samples, self.labels), generator=random)
        frames = torch.randint(self.frames // 2, self.frames + 1, (self.samples,), generator=random)
        labels = torch.randint(self.labels // 2, self.labels + 1, (self.samples,), generator=random)
        frames[0], labels[0] = self.frames, self.labels
        return make_problem(logits, targets, frames, labels)

    def plan(self) -> Plan:
        problem = self.problem()
        tuning = Tuning.parse(self.tuning)
        return emulation.plan_of(problem, problem.logits if self.gradient else None, self.device, tuning)


@contextmanager
def planned_as(case: Case, gpu: cuda.Gpu) -> Iterator[None]:
    """Let a GPU plan by the limits and the tuning of a case: some variants would never run on it otherwise.

    Kernels are loaded anew, since a kernel is loaded with the most shared memory that the limits allow.
    """
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(gpu, "limits", case.device)
        patched.setattr(gpu, "kernels", {})
        patched.setattr(cuda_plan, "TUNING", Tuning.parse(case.tuning))
        yield


# Named by what they use: pairs per lane, warps per direction; states of all frames (H) or of every eighth; emissions
# of all frames (W) or a ring; classes or only labels in the table; all in one kernel, or rows first.
VARIANTS = {
    "1x1 H W fused": Case(70, 3, 28, 20),
    "2x1 H W fused": Case(75, 3, 28, 40),
    "2x1 W fused": Case(150, 2, 28, 40, device=T4),
    "2x2 H ring fused": Case(129, 2, 62, 64),
    "2x2 W fused": Case(200, 2, 62, 127, temperature=10),
    "2x4 ring fused": Case(300, 2, 62, 200, temperature=20),
    "2x4 ring fused, borders in the workspace": Case(515, 1, 62, 255),
    "1x1 H W fused, 16 classes to a lane": Case(50, 2, 127, 20, tuning="fused_classes=128 helpers=4"),
    "2x1 H W fused, 4 helpers": Case(75, 3, 28, 40, tuning="helpers=4"),
    "2x2 W fused, 8 classes to 16 lanes": Case(129, 2, 127, 64, tuning="fused_classes=128 helpers=8"),
    "2x1 H W fused, chunks of 4, 2 classes to 32 lanes": Case(75, 3, 62, 40, tuning="chunk=4 helpers=8"),
    "2x4 W fused, chunks of 4": Case(301, 2, 62, 200, tuning="chunk=4"),
    "2x4 ring fused, chunks of 4": Case(190, 2, 28, 180, device=T4, tuning="chunk=4"),
    "2x1 ring fused, two blocks": Case(150, 2, 28, 40, tuning="blocks=2", device=T4),
    "1x1 H W, rows, two blocks": Case(40, 2, 200, 20, tuning="blocks=2"),
    "rows kept by 1024 threads": Case(5, 2, 6000, 3, tuning="row_threads=1024"),
    "in turns, by class": Case(300, 2, 28, 200, device=T4),
    "in turns, by label": Case(290, 2, 300, 270),
    "in turns, chunks of 4": Case(120, 2, 28, 100, device=holding(20), tuning="chunk=4"),
    "1x1 H W, rows": Case(60, 2, 200, 20),
    "1x1 W, rows": Case(300, 2, 200, 20, device=T4),
    "1x1 ring, rows": Case(300, 2, 200, 20, device=holding(40)),
    "2x2 ring, rows": Case(260, 2, 600, 100),
    "rows kept by 256 threads": Case(9, 2, 5000, 3),
    "rows read three times": Case(9, 2, 16391, 3),
    "loss": Case(150, 2, 28, 40, gradient=False),
    "loss, rows": Case(150, 2, 200, 20, gradient=False),
    "loss, in turns": Case(400, 1, 28, 300, gradient=False),
    "float64": Case(60, 2, 28, 20, dtype=torch.float64),
    "float64, rows": Case(60, 2, 131, 20, dtype=torch.float64),
    "float64 in turns": Case(60, 2, 28, 40, dtype=torch.float64, device=holding(16)),
    "float64 2x2 W fused": Case(200, 1, 28, 70, dtype=torch.float64),
    "bfloat16": Case(60, 2, 28, 20, dtype=torch.bfloat16),
    "bfloat16, rows": Case(60, 2, 201, 20, dtype=torch.bfloat16),
    "bfloat16 2x4 ring fused": Case(300, 1, 62, 200, dtype=torch.bfloat16),
    "float16": Case(60, 2, 28, 20, dtype=torch.float16),
    "float16, rows": Case(60, 2, 201, 20, dtype=torch.float16),
    "float16 in turns": Case(290, 1, 300, 270, dtype=torch.float16),
}


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    """All variants, built side by side; a second run finds them among the temporary files."""
    wanted = [emulation.kernels_of(case.plan()) for case in VARIANTS.values()]
    emulation.build_all(set().union(*wanted))


def assert_right(
    problem: Problem, gradient: bool = True, device: Device = H200, tuning: str = ""
) -> tuple[Tensor, Tensor | None]:
    """Run the kernels and compare with the reference."""
    losses, by_logits = emulated_loss_and_gradient(problem, gradient, device=device, tuning=Tuning.parse(tuning))
    exact = replace(problem, logits=problem.logits.double())
    expected, by_book = reference.loss_and_gradient(exact, gradient)
    slack = 1e-12 if problem.logits.dtype == torch.float64 else LOSS
    torch.testing.assert_close(losses.double(), expected, rtol=slack, atol=slack)
    assert (by_logits is None) == (not gradient)
    if by_logits is not None and by_book is not None:
        assert by_logits.dtype == problem.logits.dtype
        assert by_logits.shape == problem.logits.shape
        # Half a unit in the last place is what rounding to a short type costs at best.
        rounding = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}.get(by_logits.dtype, 0.0)
        slack = 1e-11 if by_logits.dtype == torch.float64 else GRADIENT
        torch.testing.assert_close(by_logits.double(), by_book, rtol=rounding, atol=slack)
    return losses, by_logits


@pytest.mark.parametrize("name", VARIANTS)
def test_variant(name: str) -> None:
    case = VARIANTS[name]
    assert_right(case.problem(), case.gradient, case.device, case.tuning)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_what_its_name_says(name: str) -> None:
    plan = VARIANTS[name].plan()
    sweep = dict(plan.sweep)
    kept = " H" * sweep["HISTORY"] + (" W" if sweep["WHOLE"] else " ring")
    said = re.search(r"(\dx\d)((?: H)?(?: W| ring))", name)
    assert said is None or said.groups() == (f"{sweep['PAIRS']}x{sweep['WARPS']}", kept)
    told = {"in turns": sweep["SPACIOUS"] == 1, "chunks of 4": sweep["CHUNK"] == 4, "two blocks": sweep["BLOCKS"] == 2}
    told["rows"] = bool(plan.rows) and not sweep["SPACIOUS"]
    assert {word for word in told if word in name} == {word for word, there in told.items() if there}


def test_the_variants_above_are_all_that_differ() -> None:
    """Each geometry, each place for states and for emissions, each way to read rows."""
    plans = [case.plan() for case in VARIANTS.values()]
    found = {tuple(dict(p.sweep)[key] for key in ("PAIRS", "WARPS", "SPACIOUS")) for p in plans}
    assert found == {(1, 1, 0), (2, 1, 0), (2, 2, 0), (2, 4, 0), (2, 2, 1)}
    assert {tuple(dict(p.sweep)[key] for key in ("FUSED", "HISTORY", "WHOLE")) for p in plans} >= {
        (fused, history, whole) for fused in (0, 1) for history in (0, 1) for whole in (0, 1)
    } - {(0, 0, 1), (0, 1, 0)}
    assert {dict(p.sweep)["BY_CLASS"] for p in plans if not p.rows} == {1}
    assert {dict(p.sweep)["BY_CLASS"] for p in plans if p.rows} == {0, 1}
    assert {dict(p.sweep)["CLASSES_PER_LANE"] for p in plans if not p.rows} == {2, 4, 8, 16}
    assert {tuple(dict(p.sweep)[key] for key in ("CHUNK", "HELPERS")) for p in plans} == {
        (8, 4),
        (8, 8),
        (4, 4),
        (4, 8),
    }
    assert {dict(p.sweep)["BLOCKS"] for p in plans} == {1, 2}
    assert {dict(p.rows)["ROW_THREADS"] for p in plans if p.rows} == {32, 128, 256, 512, 1024}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    frames=st.integers(1, 100),
    classes=st.integers(2, 32),
    labels=st.integers(0, 63),
    temperature=st.sampled_from([0.5, 1, 3, 10, 30, 60]),
    few=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_random_lattices(frames: int, classes: int, labels: int, temperature: float, few: bool, seed: int) -> None:
    problem = Case(frames, 2, classes, labels, temperature=temperature).problem(seed)
    if few:  # one label over and over: as many blanks as labels must be found
        problem = replace(problem, targets=torch.ones_like(problem.targets))
    assert_right(problem)


@pytest.mark.parametrize(
    "case",
    [
        Case(4000, 1, 3, 700, temperature=3),
        Case(20000, 1, 5, 30),
        Case(1500, 1, 12, 1280),
        Case(1500, 1, 62, 200, temperature=20),
        Case(100, 50, 80, 20),
        Case(12, 257, 5, 4),
        Case(3000, 1, 5, 40, temperature=60),
    ],
    ids=lambda case: f"T={case.frames} N={case.samples} A={case.classes} L={case.labels}",
)
def test_large(case: Case) -> None:
    assert_right(case.problem())


@pytest.mark.parametrize("classes", [5, 150])
@pytest.mark.parametrize("infinite", ["one", "all"])
def test_logits_without_a_softmax(classes: int, infinite: str) -> None:
    """Their loss is no number, as everywhere; that of the sample beside them is."""
    problem = Case(20, 2, classes, 3).problem()
    logits = problem.logits.clone()
    if infinite == "all":
        logits[4, 0] = -torch.inf
    else:
        logits[4, 0, next(k for k in range(1, classes) if k not in problem.targets[:3])] = torch.inf
    losses, gradient = emulated_loss_and_gradient(replace(problem, logits=logits))
    assert losses.isnan().tolist() == [True, False]
    assert gradient is not None
    assert gradient[:, 0].isnan().all()
    assert gradient[:, 1].isfinite().all()


@pytest.mark.parametrize("name", ["2x1 H W fused", "2x2 W fused", "in turns, by class", "2x2 ring, rows", "loss"])
def test_the_same_bits_in_any_order_of_warps(name: str) -> None:
    case = VARIANTS[name]
    problem = case.problem()
    losses, gradient = emulated_loss_and_gradient(problem, case.gradient, device=case.device)
    for seed in range(1, 4):
        again, by_logits = emulated_loss_and_gradient(problem, case.gradient, device=case.device, seed=seed)
        assert torch.equal(losses, again)
        assert gradient is None or (by_logits is not None and torch.equal(gradient, by_logits))


@pytest.mark.parametrize("classes", [28, 200])
def test_a_view_with_holes_and_one_that_repeats(classes: int) -> None:
    problem = Case(20, 3, classes, 5).problem()
    wide = torch.randn(20, 6, 2 * classes + 3, generator=torch.Generator().manual_seed(0))
    assert_right(replace(problem, logits=wide[:, ::2, 1 : classes + 1]))
    assert_right(replace(problem, logits=wide[:, ::2, 1 : 2 * classes : 2]))
    assert_right(replace(problem, logits=wide[:, :1, :classes].expand(20, 3, classes)))


@pytest.mark.parametrize("classes", [28, 200])
def test_weights(classes: int) -> None:
    problem = Case(20, 3, classes, 5).problem()
    assert_right(replace(problem, grad_output=torch.tensor([0.25, 0.0, 1.5])))
    assert_right(replace(problem, mean=True, grad_output=torch.tensor(-3.0)))
    assert_right(replace(problem, mean=True, grad_output=torch.tensor(0.5).expand(3)))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("input_lengths", -1, r"sample 1: input length -1 is negative"),
        ("input_lengths", 2**40, r"sample 1: input length 2147483647 .* exceeds the frames"),
        ("target_lengths", -3, r"sample 1: target length -3 is negative"),
        ("target_lengths", 2**40, r"sample 1: target length 2147483647 .* exceeds the labels"),
        ("target_lengths", 6, r"sample 1: target length 6 .* exceeds the labels"),
        ("target_offsets", 13, r"sample 1: its 5 labels reach beyond the targets"),
        ("target_offsets", -7, r"sample 1: its 5 labels reach beyond the targets"),
        ("label", 0, r"sample 1: label 0 is the blank or outside 0\.\.27"),
        ("label", 28, r"sample 1: label 28 is the blank or outside 0\.\.27"),
        ("label", -1, r"sample 1: label -1 is the blank or outside 0\.\.27"),
        ("label", 2**33 + 1, r"sample 1: label 2147483647 is the blank or outside 0\.\.27"),
    ],
)
@pytest.mark.parametrize("device", [H200, T4], ids=["H200", "T4"])
def test_what_the_host_cannot_check(field: str, value: int, message: str, device: Device) -> None:
    """A bad sample is named; nothing outside is touched; the others come out as without it."""
    problem = replace(Case(20, 3, 28, 5).problem(), target_lengths=torch.tensor([5, 5, 4]))
    if field == "target_offsets":
        problem = replace(problem, target_offsets=torch.tensor([0, 5, 10]), target_stride=0)
    bad = problem.targets.clone() if field == "label" else getattr(problem, field).clone()
    bad[7 if field == "label" else 1] = value
    spoilt = replace(problem, **{"targets" if field == "label" else field: bad})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=message):
        emulated_loss_and_gradient(spoilt, device=device)
    losses, gradient, _ = emulation.run(spoilt, True, device)
    same, as_before = emulated_loss_and_gradient(problem, device=device)
    assert losses[1].isinf()
    assert torch.equal(losses[::2], same[::2])
    assert gradient is not None
    assert as_before is not None
    assert (gradient[:, 1] == 0).all()
    assert torch.equal(gradient[:, ::2], as_before[:, ::2])


@pytest.mark.parametrize("offset", [-1, 45, 2**40])
@pytest.mark.parametrize("classes", [28, 200])
def test_packed_frames_out_of_place(offset: int, classes: int) -> None:
    rows = torch.randn(40, classes, generator=torch.Generator().manual_seed(0))
    problem = make_problem(rows, torch.tensor([[1, 2], [3, 4]]), [20, 20], [2, 2], packed=True)
    assert problem.frame_offsets is not None
    spoilt = replace(problem, frame_offsets=torch.tensor([0, offset]))
    with pytest.raises(ValueError, match=r"sample \d: its 20 frames reach beyond the packed logits"):
        emulated_loss_and_gradient(spoilt)


def test_bounds_instead_of_lengths() -> None:
    """On an accelerator the host knows only bounds: more room than needed, the same bits."""
    problem = Case(30, 3, 28, 5).problem()
    loose = replace(problem, longest_target=29)
    exact, loosely = emulated_loss_and_gradient(problem), emulated_loss_and_gradient(loose)
    assert torch.equal(exact[0], loosely[0])
    assert exact[1] is not None
    assert loosely[1] is not None
    assert torch.equal(exact[1], loosely[1])
