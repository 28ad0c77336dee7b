"""Tensors that are more than numbers at an address: views with a sign, other layouts, modes of torch that look on.

What is right is computed with the plain tensor of the same values.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils.flop_counter import FlopCounterMode

from speechctc.ctc import CTCLoss, ctc_loss, posteriors, viterbi
from tests.ctc.cases import Case, random_case


@pytest.fixture(scope="module")
def case() -> Case:
    """Three samples of unequal lengths."""
    return random_case(9, 3, 5, 3, seed=2)


def negative_view(values: Tensor) -> Tensor:
    """The same values, stored negated."""
    view = torch._neg_view(-values)
    assert view.is_neg() and torch.equal(view, values)
    return view


def gradient_of(loss: Callable[[Tensor], Tensor], logits: Tensor, factors: Tensor | None = None) -> Tensor:
    leaf = logits.detach().clone().requires_grad_()
    return torch.autograd.grad(loss(leaf), leaf, factors)[0]


# ---------------------------------------------------------------------------------- signs and layouts


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("packed", [False, True])
def test_logits_stored_negated_count_as_their_values(dtype: torch.dtype, packed: bool) -> None:
    case = random_case(6, 3, 5, 2, seed=2, ragged=False)
    logits = (case.logits.transpose(0, 1).reshape(18, 5) if packed else case.logits).to(dtype)
    options: dict[str, Any] = {"reduction": "none", "packed": packed}
    wanted = ctc_loss(logits, *case[1:], **options)
    assert torch.equal(ctc_loss(negative_view(logits), *case[1:], **options), wanted)
    as_float = logits.float()
    imaginary = torch.complex(0 * as_float, -as_float).conj().imag
    assert torch.equal(ctc_loss(imaginary, *case[1:], **options), ctc_loss(as_float, *case[1:], **options))
    found = gradient_of(lambda x: ctc_loss(torch._neg_view(-x), *case[1:], **options).sum(), logits)
    assert torch.equal(found, gradient_of(lambda x: ctc_loss(x, *case[1:], **options).sum(), logits))


def test_signs_of_all_other_tensors(case: Case) -> None:
    wanted = ctc_loss(*case, reduction="none")
    for place in (1, 2, 3):
        given = Case(*(negative_view(each) if k == place else each for k, each in enumerate(case)))
        assert torch.equal(ctc_loss(*given, reduction="none"), wanted)
    assert torch.equal(posteriors(negative_view(case.logits), *case[1:]), posteriors(*case))
    assert torch.equal(viterbi(negative_view(case.logits), *case[1:]).states, viterbi(*case).states)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_signs_of_what_the_loss_is_multiplied_by(case: Case, dtype: torch.dtype) -> None:
    factors = torch.tensor([2.0, -3.0, 0.5])

    def losses(x: Tensor) -> Tensor:
        return ctc_loss(x, *case[1:], reduction="none")

    found = gradient_of(losses, case.logits.to(dtype), negative_view(factors))
    assert torch.equal(found, gradient_of(losses, case.logits.to(dtype), factors))


def test_zeros_without_memory_count_as_zeros(case: Case) -> None:
    zeros = torch.zeros_like(case.logits)
    assert torch.equal(ctc_loss(torch._efficientzerotensor(zeros.shape), *case[1:]), ctc_loss(zeros, *case[1:]))


def test_overlapping_and_strided_memory(case: Case) -> None:
    for view in (
        case.logits[:, :1].expand(9, 3, 5),
        case.logits.flatten().as_strided((9, 3, 5), (3, 2, 1)),
        case.logits.permute(2, 0, 1).contiguous().permute(1, 2, 0),
    ):

        def loss(x: Tensor) -> Tensor:
            return ctc_loss(x, *case[1:])

        leaf = view.detach().requires_grad_()
        found = torch.autograd.grad(loss(leaf), leaf)[0]
        assert torch.equal(found, gradient_of(loss, view.contiguous()))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int16, torch.int32])
def test_integers_of_any_width(case: Case, dtype: torch.dtype) -> None:
    given: Any = [each.to(dtype) for each in case[1:]]
    assert torch.equal(ctc_loss(case.logits, *given), ctc_loss(*case))


@pytest.mark.filterwarnings(
    "ignore:.*nested:UserWarning", "ignore:Sparse CSR:UserWarning", "ignore:.*quantized:UserWarning"
)
def test_other_layouts_are_refused_in_words(case: Case) -> None:
    logits, targets, frames, labels = case
    for name, other in (
        ("logits", logits.to_sparse()),
        ("logits", logits.to_mkldnn()),
        ("logits", torch.nested.nested_tensor([logits[:, 0], logits[:7, 1]])),
        ("targets", targets.to_sparse()),
        ("targets", targets.to_sparse_csr()),
        ("targets", torch.nested.nested_tensor(list(targets), layout=torch.jagged)),
    ):
        given = {"logits": logits, "targets": targets} | {name: other}
        with pytest.raises(ValueError, match=rf"{name} are .*; they must be strided"):
            ctc_loss(given["logits"], given["targets"], frames, labels)
    with pytest.raises(ValueError, match="input_lengths are torch.sparse_coo"):
        ctc_loss(logits, targets, frames.to_sparse(), labels)
    with pytest.raises(ValueError, match="torch.qint8"):
        ctc_loss(torch.quantize_per_tensor(logits, 0.1, 0, torch.qint8), targets, frames, labels)


def test_what_is_no_tensor_is_refused_in_words(case: Case) -> None:
    wrong: Any = case.targets.tolist()
    with pytest.raises(TypeError, match="targets are of type list; they must be a tensor"):
        ctc_loss(case.logits, wrong, *case[2:])
    wrong = case.logits.numpy()
    with pytest.raises(TypeError, match="logits are of type ndarray; they must be a tensor"):
        ctc_loss(wrong, *case[1:])
    with pytest.raises(ValueError, match="zero_infinity is 'no'; it must be True or False"):
        ctc_loss(*case, zero_infinity="no")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match="there are no classes"):
        ctc_loss(case.logits[..., :0], *case[1:])


def test_no_values_on_the_meta_device(case: Case) -> None:
    for place, name in ((0, "logits"), (1, "targets"), (2, "input_lengths"), (3, "target_lengths")):
        given = Case(*(each.to("meta") if k == place else each for k, each in enumerate(case)))
        with pytest.raises(ValueError, match=f"{name} (are )?on (the )?meta"):
            ctc_loss(*given)


# ------------------------------------------------------------------- changes before the backward pass


@pytest.mark.parametrize(("place", "name"), [(1, "targets"), (2, "input_lengths"), (3, "target_lengths")])
def test_a_gradient_never_comes_of_what_was_changed_since(case: Case, place: int, name: str) -> None:
    """In float16 the gradient is computed in the backward pass; else for whoever asks a second time."""
    for dtype in (torch.float16, torch.float32):
        leaf = case.logits.to(dtype).requires_grad_()
        given: Any = [each.clone() for each in case[1:]]
        loss = ctc_loss(leaf, given[0], given[1], given[2], reduction="sum")
        if dtype == torch.float32:
            (first,) = torch.autograd.grad(loss, leaf, retain_graph=True)
        given[place - 1].fill_(1)
        with pytest.raises(RuntimeError, match=f"^{name} were changed in place"):
            loss.backward()
    assert torch.equal(first, gradient_of(lambda x: ctc_loss(x, *case[1:], reduction="sum"), case.logits))


def test_a_buffer_may_be_filled_with_the_next_batch(case: Case) -> None:
    """Where the gradient was computed with the loss, nothing that is done to the labels later changes it."""
    leaf, buffer = case.logits.clone().requires_grad_(), case.targets.clone()
    loss = ctc_loss(leaf, buffer, *case[2:])
    buffer.fill_(1)
    (found,) = torch.autograd.grad(loss, leaf)
    assert torch.equal(found, gradient_of(lambda x: ctc_loss(x, *case[1:]), case.logits))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_tensors_of_inference_mode(case: Case, dtype: torch.dtype) -> None:
    logits = case.logits.to(dtype)
    wanted = gradient_of(lambda x: ctc_loss(x, *case[1:]), logits)
    with torch.inference_mode():
        given: Any = [each.clone() for each in case[1:]]
        assert torch.equal(ctc_loss(logits.clone(), *given), ctc_loss(logits, *case[1:]))
    leaf = logits.clone().requires_grad_()
    loss = ctc_loss(leaf, *given)
    with torch.inference_mode():
        given[0].fill_(1)
    assert torch.equal(torch.autograd.grad(loss, leaf)[0], wanted)


# --------------------------------------------------------------------------- what torch looks at


@pytest.mark.filterwarnings("ignore:.torch.jit.")  # torch's own; their kind goes by release
def test_a_traced_loss_is_that_of_what_it_is_given(case: Case) -> None:
    others = 2 * case.logits
    traced = torch.jit.trace(lambda x: CTCLoss()(x, *case[1:]), (case.logits,), check_trace=False)
    torch.testing.assert_close(traced(others), ctc_loss(others, *case[1:]))
    found = gradient_of(traced, others)
    torch.testing.assert_close(found, gradient_of(lambda x: ctc_loss(x, *case[1:]), others))


def test_a_graph_of_torch_fx_is_that_of_what_it_is_given(case: Case) -> None:
    def loss(x: Tensor) -> Tensor:
        return ctc_loss(x, *case[1:])

    others = 2 * case.logits
    for graph in (
        torch.fx.experimental.proxy_tensor.make_fx(loss)(case.logits),
        torch.fx.experimental.proxy_tensor.make_fx(torch.func.functionalize(loss))(case.logits),
        torch.fx.symbolic_trace(loss),
    ):
        torch.testing.assert_close(graph(others), loss(others))
    by_grad = torch.fx.experimental.proxy_tensor.make_fx(torch.func.grad(loss))(case.logits)
    torch.testing.assert_close(by_grad(others), gradient_of(loss, others))
    torch.testing.assert_close(torch.func.functionalize(loss)(others), loss(others))


def test_modes_that_look_on(case: Case) -> None:
    wanted = ctc_loss(*case)
    with FlopCounterMode(display=False):
        assert torch.equal(ctc_loss(*case), wanted)
    with torch.device("meta"):  # where nothing that the loss makes for itself may go
        assert torch.equal(ctc_loss(*case[:2], case.input_lengths.tolist(), case.target_lengths.tolist()), wanted)
        assert viterbi(*case).states.device.type == posteriors(*case).device.type == "cpu"
    with torch._subclasses.fake_tensor.FakeTensorMode() as mode:
        fake = Case(*map(mode.from_tensor, case))
        assert ctc_loss(*fake, reduction="none").shape == (3,)


@pytest.mark.filterwarnings("ignore:.torch.jit.")
def test_no_forward_mode_whoever_looks_on(case: Case) -> None:
    """A derivative that is not there is never taken for zero."""

    class Own(Tensor):
        pass

    def loss(x: Tensor) -> Tensor:
        return ctc_loss(x, *case[1:])

    with pytest.raises(RuntimeError, match="no forward-mode derivative"):
        torch.func.linearize(loss, case.logits)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(case.logits, torch.ones_like(case.logits))
        with FlopCounterMode(display=False), pytest.raises(RuntimeError, match="no forward-mode derivative"):
            loss(dual)
        with pytest.raises(RuntimeError, match="no forward-mode derivative"):
            loss(dual.as_subclass(Own))


def test_a_class_of_ones_own_hears_of_the_loss(case: Case) -> None:
    heard: list[Any] = []

    class Own(Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            heard.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]

    found = ctc_loss(case.logits.as_subclass(Own), *case[1:])
    assert heard == [ctc_loss] and type(found) is Own
    torch.testing.assert_close(found.as_subclass(Tensor), ctc_loss(*case))
