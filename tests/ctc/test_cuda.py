"""The CUDA path on a GPU: against the reference, and in the company that it will keep there."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from speechctc.ctc import check, ctc_loss, cuda, reference
from speechctc.ctc.cuda_plan import plan, size_of, workspace_bytes
from speechctc.ctc.loss import Reduction
from speechctc.ctc.problem import Problem
from tests.ctc.test_kernel_facts import GRADIENT, LOSS, VARIANTS, Case, planned_as

pytestmark = pytest.mark.cuda
LENGTHS = ("input_lengths", "frame_offsets", "targets", "target_offsets", "target_lengths")
CHARACTERS = Case(150, 64, 28, 40)


def on_gpu(problem: Problem, lengths_too: bool = True, device: str = "cuda") -> Problem:
    """The problem on a GPU; with lengths and targets there, the host knows only their bounds."""
    moved = {"logits": problem.logits.to(device)}
    if problem.grad_output is not None:
        moved["grad_output"] = problem.grad_output.to(device)
    if lengths_too:
        moved |= {name: there.to(device) for name in LENGTHS if (there := getattr(problem, name)) is not None}
        rows, labels = problem.logits.shape[0], problem.target_stride
        problem = replace(problem, longest_input=rows, longest_target=max(labels, problem.longest_target))
    return replace(problem, **moved)  # type: ignore[arg-type]


def gradient_of(problem: Problem) -> tuple[Tensor, Tensor]:
    """Losses and gradient, by the kernels."""
    losses, gradient = cuda.loss_and_gradient(problem, True)
    assert gradient is not None
    return losses, gradient


def assert_right(problem: Problem, gradient: bool = True, lengths_too: bool = True) -> None:
    """Compare with the reference, which is given the same logits in float64."""
    losses, by_logits = cuda.loss_and_gradient(on_gpu(problem, lengths_too), gradient)
    cuda.check()
    expected, by_book = reference.loss_and_gradient(replace(problem, logits=problem.logits.double()), gradient)
    exact = problem.logits.dtype == torch.float64
    slack = 1e-12 if exact else LOSS
    torch.testing.assert_close(losses.cpu().double(), expected, rtol=slack, atol=slack)
    assert (by_logits is None) == (not gradient)
    if by_logits is not None:
        assert by_logits.dtype == problem.logits.dtype
        rounding = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}.get(by_logits.dtype, 0.0)
        slack = 1e-11 if exact else GRADIENT
        torch.testing.assert_close(by_logits.cpu().double(), by_book, rtol=rounding, atol=slack)


@contextmanager
def no_waiting() -> Iterator[None]:
    """Whatever makes the host wait for the device is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that this is a prototype
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("lengths_too", [True, False], ids=["lengths on the GPU", "lengths on the host"])
@pytest.mark.parametrize("name", VARIANTS)
def test_variant(name: str, lengths_too: bool) -> None:
    case = VARIANTS[name]
    gpu = cuda.gpu_of(torch.device("cuda"))
    if case.device.shared_per_block > gpu.limits.shared_per_block:
        pytest.skip("this GPU has less shared memory than the variant wants")
    with planned_as(case, gpu):
        assert_right(case.problem(), case.gradient, lengths_too)


@pytest.mark.parametrize("temperature", [0.5, 1, 3, 10, 30, 60])
@pytest.mark.parametrize(("frames", "classes", "labels"), [(1, 2, 1), (9, 5, 3), (150, 28, 40), (400, 62, 100)])
def test_temperatures(frames: int, classes: int, labels: int, temperature: float) -> None:
    for seed in range(5):
        assert_right(Case(frames, 7, classes, labels, temperature=temperature).problem(seed))


@pytest.mark.parametrize(
    "case",
    [
        Case(4000, 2, 3, 700, temperature=3),
        Case(20000, 2, 5, 30),
        Case(1500, 2, 12, 1280),
        Case(1500, 8, 62, 200, temperature=20),
        Case(100, 50, 80, 20),
        Case(12, 257, 5, 4),
        Case(150, 16, 5000, 20),
        Case(20, 3, 100_003, 5),
        Case(150, 300, 28, 40),
    ],
    ids=lambda case: f"T={case.frames} N={case.samples} A={case.classes} L={case.labels}",
)
def test_large(case: Case) -> None:
    assert_right(case.problem())


@pytest.mark.parametrize("case", [CHARACTERS, Case(60, 16, 5000, 10), Case(300, 4, 28, 280)], ids=str)
def test_the_same_bits_a_hundred_times(case: Case) -> None:
    problem = on_gpu(case.problem())
    losses, gradient = gradient_of(problem)
    for _ in range(100):
        again, by_logits = gradient_of(problem)
        assert torch.equal(losses, again)
        assert torch.equal(gradient, by_logits)


@pytest.mark.parametrize("lengths_too", [True, False])
@pytest.mark.parametrize("classes", [28, 200])
def test_the_host_never_waits(classes: int, lengths_too: bool) -> None:
    problem = on_gpu(Case(50, 4, classes, 9).problem(), lengths_too)
    gradient_of(problem)
    cuda.loss_and_gradient(problem, False)
    with no_waiting():
        gradient_of(problem)
        cuda.loss_and_gradient(problem, False)


@pytest.mark.parametrize("classes", [28, 200])
def test_cuda_graph(classes: int) -> None:
    """A replay takes the logits that are in place at its time."""
    problem, other = (on_gpu(Case(50, 4, classes, 9).problem(seed)) for seed in (0, 1))
    expected = gradient_of(replace(problem, logits=other.logits))
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        gradient_of(problem)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        losses, gradient = gradient_of(problem)
    problem.logits.copy_(other.logits)
    for _ in range(3):
        losses.zero_()
        gradient.zero_()
        graph.replay()
        assert torch.equal(losses, expected[0])
        assert torch.equal(gradient, expected[1])


def public_case(classes: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    """Logits that want a gradient, and the other arguments of `ctc_loss`, all on the GPU; targets are padded."""
    problem = Case(50, 4, classes, 9, dtype=dtype).problem()
    others = problem.targets.view(4, 9).cuda(), problem.input_lengths.cuda(), problem.target_lengths.cuda()
    return problem.logits.cuda().requires_grad_(), others


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("on_host", [False, True], ids=["lengths on the GPU", "lengths on the host"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("classes", [28, 200])
def test_the_public_loss_never_waits(classes: int, reduction: Reduction, on_host: bool, dtype: torch.dtype) -> None:
    logits, others = public_case(classes, dtype)
    if on_host:
        others = others[0].cpu(), others[1].cpu(), others[2].cpu()

    def step() -> None:
        loss = ctc_loss(logits, *others, reduction=reduction, zero_infinity=True)
        torch.autograd.grad(loss.sum() * 2, logits)
        ctc_loss(logits.detach(), *others, reduction=reduction)

    step()
    with no_waiting():
        step()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("classes", [28, 200])
def test_the_public_loss_in_a_graph(classes: int, reduction: Reduction, dtype: torch.dtype) -> None:
    """Forward and backward are captured; replays give the bits of an eager call."""
    logits, others = public_case(classes, dtype)

    def step() -> tuple[Tensor, Tensor]:
        loss = ctc_loss(logits, *others, reduction=reduction)
        return loss, torch.autograd.grad(loss.sum() * 2, logits)[0]

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # that of the capture: autograd's nodes keep the stream on which they were made
        expected = [tensor.detach().clone() for tensor in step()]
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        found = step()
    for _ in range(3):
        graph.replay()
        assert torch.equal(found[0], expected[0]) and torch.equal(found[1], expected[1])


def test_a_replay_tells_of_a_bad_label_by_check() -> None:
    logits, others = public_case(28)
    ctc_loss(logits.detach(), *others)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = ctc_loss(logits.detach(), *others, zero_infinity=True)
    others[0][1, 0] = 28
    graph.replay()
    with pytest.raises(ValueError, match=r"sample 1: label 28 is the blank or outside 0\.\.27"):
        check()
    assert loss.isinf()
    check()


def test_compiled_into_cuda_graphs() -> None:
    """`torch.compile` with CUDA graphs of its own."""
    logits, others = public_case(28)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(lambda x: ctc_loss(x * 2, *others), mode="reduce-overhead", fullgraph=True)
        for _ in range(4):
            torch.compiler.cudagraph_mark_step_begin()
            loss = compiled(logits)
            (gradient,) = torch.autograd.grad(loss, logits)
            found = loss.detach().clone(), gradient.clone()
    expected = ctc_loss(logits * 2, *others)
    torch.testing.assert_close(found[0], expected)
    torch.testing.assert_close(found[1], torch.autograd.grad(expected, logits)[0])


def test_another_stream() -> None:
    """The kernels come after what the current stream does, and before what it does next."""
    problem, other = (on_gpu(Case(150, 4, 28, 9).problem(seed)) for seed in (0, 1))
    expected = gradient_of(other)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)
        problem.logits.copy_(other.logits)
        losses, gradient = gradient_of(replace(other, logits=problem.logits))
        problem.logits.zero_()
    stream.synchronize()
    assert torch.equal(losses, expected[0])
    assert torch.equal(gradient, expected[1])


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is only one GPU")
def test_another_device() -> None:
    problem = Case(50, 4, 28, 9).problem()
    first, second = (gradient_of(on_gpu(problem, device=f"cuda:{index}")) for index in range(2))
    assert torch.cuda.current_device() == 0
    assert second[1].device.index == 1
    assert torch.equal(first[0].cpu(), second[0].cpu())
    assert torch.equal(first[1].cpu(), second[1].cpu())
    mixed = replace(on_gpu(problem, device="cuda:1"), targets=problem.targets.to("cuda:0"))
    assert torch.equal(gradient_of(mixed)[1].cpu(), first[1].cpu())


def test_compiled_by_torch() -> None:
    """One graph, with no break; the same loss and gradient."""
    problem = on_gpu(Case(50, 4, 28, 9).problem())
    lengths, labels = problem.input_lengths, problem.target_lengths
    targets = problem.targets.view(4, 9)

    def step(logits: Tensor) -> Tensor:
        return ctc_loss(logits * 2, targets, lengths, labels, backend="cuda") * 3

    leaf = problem.logits.clone().requires_grad_()
    loss = step(leaf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the compiler has to say of itself
        compiled = torch.compile(step, fullgraph=True)(leaf)
        (by_compiled,) = torch.autograd.grad(compiled, leaf)
    torch.testing.assert_close(compiled, loss)
    torch.testing.assert_close(by_compiled, torch.autograd.grad(loss, leaf)[0])


@pytest.mark.parametrize("case", [CHARACTERS, Case(150, 8, 5000, 20), Case(1500, 4, 62, 200)], ids=str)
def test_memory_is_what_the_function_says(case: Case) -> None:
    problem = on_gpu(case.problem())
    gradient_of(problem)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["requested_bytes.all.current"]
    losses, gradient = gradient_of(problem)
    peak = torch.cuda.memory_stats()["requested_bytes.all.peak"] - before
    said = workspace_bytes(size_of(problem, gradient), cuda.gpu_of(problem.logits.device).limits)
    assert peak == losses.nbytes + gradient.nbytes + said


def test_the_emulated_plan_is_the_one_that_runs() -> None:
    """The limits that torch reports lead to a plan; a real device has at least what the smallest has."""
    limits = cuda.gpu_of(torch.device("cuda")).limits
    assert limits.shared_per_block >= 48 * 1024
    problem = on_gpu(CHARACTERS.problem())
    assert plan(size_of(problem, problem.logits), limits).shared_bytes <= limits.shared_per_block


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("input_lengths", -1, "sample 1: input length -1"),
        ("target_lengths", 99999, "sample 1: target length 99999"),
        ("targets", 28, r"sample 1: label 28 is the blank or outside 0\.\.27"),
    ],
)
def test_bad_lengths_and_labels_on_the_device(field: str, value: int, message: str) -> None:
    problem = on_gpu(replace(Case(20, 3, 28, 5).problem(), target_lengths=torch.tensor([5, 5, 4])))
    losses, gradient = gradient_of(problem)
    bad = getattr(problem, field).clone()
    bad[7 if field == "targets" else 1] = value
    spoilt = replace(problem, **{field: bad})
    found, by_logits = gradient_of(spoilt)
    with pytest.raises(ValueError, match=message):
        cuda.check()
    cuda.check()
    assert found[1].isinf()
    assert torch.equal(found[::2], losses[::2])
    assert (by_logits[:, 1] == 0).all()
    assert torch.equal(by_logits[:, ::2], gradient[:, ::2])
    gradient_of(spoilt)
    torch.cuda.synchronize()
    with pytest.raises(ValueError, match=message):
        gradient_of(problem)
    gradient_of(problem)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_scale(dtype: torch.dtype) -> None:
    gradient = torch.randn(7, 11, 13, device="cuda").to(dtype)
    before = gradient.clone()
    assert cuda.scale_(gradient, torch.ones((), device="cuda")) is gradient
    assert torch.equal(gradient, before)
    cuda.scale_(gradient, torch.tensor(-0.3, device="cuda"))
    torch.testing.assert_close(gradient, before * -0.3)
    with pytest.raises(ValueError, match="scaled by one number"):
        cuda.scale_(gradient, torch.ones(2, device="cuda"))
