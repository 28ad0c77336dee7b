import pytest
import torch

from speechctc.maxout import Maxout


@pytest.mark.parametrize("pieces", [2, 3, 5])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_values_and_gradients_are_those_of_torchs_maximum(
    pieces: int, layout: torch.memory_format, dtype: torch.dtype
) -> None:
    x = torch.randn(3, 7 * pieces, 5, 11, dtype=dtype).contiguous(memory_format=layout)
    weight = torch.randn(3, 7, 5, 11, dtype=dtype)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    y = Maxout(pieces)(ours)
    expected = theirs.unflatten(1, (pieces, 7)).amax(1)
    assert torch.equal(y, expected)
    for result in (y, expected):
        result.backward(weight)
    assert ours.grad is not None and theirs.grad is not None
    if dtype is torch.bfloat16:  # equal pieces are common there: amax shares the gradient among them, we do not
        sums = [grad.unflatten(1, (pieces, 7)).sum(1) for grad in (ours.grad, theirs.grad)]
        torch.testing.assert_close(*sums, rtol=2e-2, atol=1e-2)
    else:
        assert torch.equal(ours.grad, theirs.grad)
    with torch.no_grad():
        assert torch.equal(Maxout(pieces)(x), expected)


def test_of_equal_pieces_the_first_gets_the_gradient() -> None:
    x = torch.ones(1, 4, 1, 2, requires_grad=True)
    Maxout(2)(x).sum().backward()
    assert x.grad is not None and x.grad[0, :, 0, 0].tolist() == [1, 1, 0, 0]


def test_it_keeps_a_byte_a_unit() -> None:
    kept = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        kept.append(tensor.untyped_storage().nbytes())
        return tensor

    x = torch.randn(2, 8, 3, 5, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        Maxout(2)(x)
    assert sum(kept) == x.numel() // 2
