"""A stand-in for a GPU: tensors that no numpy takes and no operation mixes with the host's; copies are asked for.

They say that they are on `cuda:0`; their values lie on the host, where all is computed. Streams and events are there
and do nothing. `OnGpu.waits` counts how often the host would wait: for a value that it asks for, or for a copy that it
does not let run on; while a graph is captured that is an error. A `Graph` computes again what was asked for then, with
the numbers of then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map

from speechctc.ctc import cpu, cuda
from speechctc.ctc.problem import Problem

GPU = torch.device("cuda", 0)
MAKERS = "arange as_tensor empty full linspace ones rand randint randn tensor zeros".split()
TO: Callable[..., Tensor] = Tensor.to
ASKED = {"aten::copy_", "aten::_to_copy"}  # operations that are there to copy between devices
WAITS = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal"}


class Graph:
    """A stand-in for `torch.cuda.CUDAGraph`."""

    captured: Graph | None = None  # the one that is being captured
    made = replays = 0

    def __init__(self) -> None:
        self.calls: list[tuple[Callable[[], Any], list[Tensor]]] = []
        self.before: dict[int, tuple[Tensor, Tensor]] = {}

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Note what is computed; in the end nothing has been, neither in tensors nor of random numbers."""
        random = torch.get_rng_state()
        Graph.captured, Graph.made = self, Graph.made + 1
        try:
            yield
        finally:
            Graph.captured = None
            torch.set_rng_state(random)
            for tensor, values in self.before.values():
                tensor.copy_(values)
            self.before.clear()

    def will_change(self, tensor: Tensor) -> None:
        """Keep the values of a tensor of the host that is about to be written to."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.before:
            all_of_it = torch.empty(0, dtype=torch.uint8).set_(storage)
            self.before[storage.data_ptr()] = (all_of_it, all_of_it.clone())

    def replay(self) -> None:
        """Compute all of it again, into the same memory."""
        Graph.replays += 1
        with torch.no_grad():
            for compute, results in self.calls:
                for old, new in zip(results, _tensors(compute()), strict=True):
                    if old.untyped_storage().data_ptr() != new.untyped_storage().data_ptr():
                        old.copy_(new)


def _tensors(found: Any) -> list[Tensor]:
    return [each for each in torch.utils._pytree.tree_leaves(found) if isinstance(each, Tensor)]


def _computed(compute: Callable[[], Any], changes: Any = ()) -> Any:
    """Compute with tensors of the host, of which some are changed; what a graph that is captured then keeps."""
    graph = Graph.captured
    for each in _tensors(changes) if graph else ():
        graph.will_change(each)  # type: ignore[union-attr]
    found = compute()
    if graph:
        graph.calls.append((compute, _tensors(found)))
    return found


class OnGpu(Tensor):
    """A tensor of the stand-in; for torch it has no values that could be read."""

    held: Tensor
    waits = 0

    @staticmethod
    def __new__(cls, held: Tensor) -> OnGpu:
        """Make one of a tensor of the host, which it holds."""
        assert held.is_cpu, "made on no device that is told of"
        layout, meta = (held.stride(), held.storage_offset()), torch.device("meta")
        made = Tensor._make_wrapper_subclass(cls, held.shape, *layout, dtype=held.dtype, device=meta)
        made.held = held
        return made

    device = property(lambda self: GPU)
    is_cuda = property(lambda self: True)
    is_meta = property(lambda self: False)

    @classmethod
    def wait(cls, true: bool) -> None:
        """Count a wait, if it is true that there is one."""
        if true and Graph.captured:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        cls.waits += true

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        """Show the values, for the one who looks for a fault."""
        return f"OnGpu({self.held!r})"

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")

    def tolist(self) -> Any:
        """Return the values, as for any tensor of a GPU."""
        return self.cpu().tolist()

    numpy = __array__ = _refuse
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        """Compute on the host what all of the device's tensors take part in."""
        name, kwargs, to_host = func._schema.name, dict(kwargs or {}), False
        if "device" in kwargs:
            to_host = kwargs["device"] is not None and torch.device(kwargs["device"]).type == "cpu"
            kwargs["device"] = torch.device("cpu")
        if name == "aten::record_stream":
            return None
        flat = torch.utils._pytree.tree_leaves((args, kwargs))
        others = [each for each in flat if isinstance(each, Tensor) and not isinstance(each, OnGpu)]
        if name not in ASKED and any(other.dim() for other in others):
            raise RuntimeError(f"{name}: expected all tensors to be on the same device, cuda:0 and cpu were found")
        by_mask = name.startswith("aten::index") and any(isinstance(e, Tensor) and e.dtype == torch.bool for e in flat)
        into_host = name == "aten::copy_" and not isinstance(args[0], OnGpu)
        OnGpu.wait(name in WAITS or by_mask or to_host or into_host)
        with torch.inference_mode(False):  # a view in that mode is no tensor of a class of Python's
            given, named = tree_map(_held, args), tree_map(_held, kwargs)
            places = [each.alias_info is not None and each.alias_info.is_write for each in func._schema.arguments]
            changes = [given[k] for k, written in enumerate(places) if written and k < len(given)]
            found = _computed(partial(func, *given, **named), [changes, named.get("out")])
            if to_host:
                return found
            return return_and_correct_aliasing(func, args, kwargs, tree_map(_wrapped, found))


def _held(each: Any) -> Any:
    if isinstance(each, Tensor) and not isinstance(each, OnGpu) and each.is_meta and not each.dim():
        return torch.zeros((), dtype=each.dtype)  # autograd makes it where a gradient is nothing
    return each.held if isinstance(each, OnGpu) else each


def _wrapped(each: Any) -> Any:
    return OnGpu(each) if isinstance(each, Tensor) and not isinstance(each, OnGpu) else each


def _is_gpu(each: Any) -> bool:
    return isinstance(each, str | torch.device) and torch.device(each).type == "cuda"


def _placed(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Let a function that makes tensors make those for the device, too."""

    def made(*args: Any, pin_memory: bool = False, **kwargs: Any) -> Tensor:
        if _is_gpu(kwargs.get("device")):
            OnGpu.wait(make.__name__ in ("tensor", "as_tensor"))  # copied from memory that is not pinned
            return OnGpu(_computed(partial(make, *args, **{**kwargs, "device": "cpu"})))
        return args[0] if args and isinstance(args[0], OnGpu) else make(*args, **kwargs)  # `as_tensor`

    return made


def _to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """As `Tensor.to`: the one way to the device."""
    asked = [*args, kwargs.get("device")]
    own = torch.device("meta" if isinstance(self, OnGpu) else "cpu")
    kwargs |= {"device": own} if _is_gpu(kwargs.get("device")) else {}
    found: Tensor = TO(self, *(own if _is_gpu(each) else each for each in args), **kwargs)
    if isinstance(found, OnGpu) or not any(map(_is_gpu, asked)):
        return found
    OnGpu.wait(not kwargs.get("non_blocking"))
    return OnGpu(found.detach().clone())


def _new_tensor(self: Tensor, data: Any, **kwargs: Any) -> Tensor:
    found = torch.tensor(data, **{"dtype": self.dtype, **kwargs})
    OnGpu.wait(isinstance(self, OnGpu))
    return OnGpu(found) if isinstance(self, OnGpu) else found


class _Nothing:
    """A stream or an event."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None


def _loss(problem: Problem, want_gradient: bool, reduce: bool = False, zero_infinity: bool = False) -> Any:
    """As `speechctc.ctc.cuda.loss_and_gradient`, by the CPU's lattice."""
    held = replace(problem, **{each.name: _held(getattr(problem, each.name)) for each in fields(problem)})
    assert not zero_infinity and not held.mean

    def compute() -> tuple[Tensor, Tensor | None]:
        losses, gradient = cpu.loss_and_gradient(held.on_host(), want_gradient)
        return losses.sum() * held.scale if reduce else losses, gradient

    loss, gradient = _computed(compute)
    return OnGpu(loss), None if gradient is None else OnGpu(gradient)


def _scale(gradient: Tensor, by: Tensor) -> Tensor:
    return gradient.mul_(by)


@contextmanager
def gpu() -> Iterator[type[OnGpu]]:
    """Let torch find one GPU; give the class of its tensors, which counts waits."""
    of_cuda: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "_lazy_init": lambda: None,
        "current_device": lambda: 0,
        "current_stream": _Nothing,
        "Stream": _Nothing,
        "Event": _Nothing,
        "CUDAGraph": Graph,
        "graph": lambda graph, *_, **__: graph.capturing(),
        "graph_pool_handle": lambda: None,
        "default_generators": [_Nothing()],
        "stream": lambda stream: nullcontext(),
        "device": lambda device: nullcontext(),
        "synchronize": lambda device=None: None,
        "empty_cache": lambda: None,
        "is_bf16_supported": lambda **_: True,
        "mem_get_info": lambda device=None: (2**33, 2**34),
        "memory_reserved": lambda device=None: 2**20,
        "get_rng_state": lambda device=None: torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": lambda state, device=None: None,
        "get_device_name": lambda device=None: "a stand-in",
        "get_device_properties": lambda device=None: SimpleNamespace(total_memory=2**34, name="a stand-in"),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, each in of_cuda.items():
            patch.setattr(torch.cuda, name, each)
        for name in MAKERS:
            patch.setattr(torch, name, _placed(getattr(torch, name)))
        for name, each in {"to": _to, "new_tensor": _new_tensor, "pin_memory": lambda tensor: tensor}.items():
            patch.setattr(Tensor, name, each)
        patch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
        patch.setattr(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
        patch.setattr(torch.backends.cudnn, "version", lambda: 0)
        inside_torch = torch._C
        for name in ("_cuda_endAllocateToPool", "_cuda_releasePool"):
            patch.setattr(inside_torch, name, lambda *_: None)
        patch.setattr(cuda, "loss_and_gradient", _loss)
        patch.setattr(cuda, "scale_", _scale)
        patch.setattr("speechctc.training.train_step.check", lambda device: None)
        OnGpu.waits = Graph.made = Graph.replays = 0
        yield OnGpu
