"""The net with numpy alone: a trained one applied to a recording, as `model.net` computes it, in the same order.

A convolution is one product of matrices: each row holds what one output sees. The rows of a layer are divided among
threads, in pieces that stay in a core's cache. On a CPU this is as fast as torch where layers are dense, starts in
milliseconds, and needs nothing but numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from speechctc.core.parallel import threads_per_recording
from speechctc.features.extractor import net_input
from speechctc.model.checkpoint import Checkpoint
from speechctc.model.layers import ContextPlan, LayerPlan, plan_of

Rows = NDArray[np.float32]
Weights = Mapping[str, Rows]
# Calls a function with each of some numbers, in any order.
Each = Callable[[Callable[[int], object], Sequence[int]], object]

# Numbers that a piece of a layer's rows holds, about: 2 MiB.
PIECE = 1 << 19
EPSILON = np.float32(1e-5)  # of the layer normalisation, as torch's


class NumpyNet:
    """The net of a checkpoint, with the normalisation of its features."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        config, weights = checkpoint.config, checkpoint.weights
        self.config, self.mean, self.std = config, checkpoint.mean, checkpoint.std
        net, kind = plan_of(config.model, config.features), config.model.activation
        self._pool, self._has_bands = net.pool, net.has_bands
        self._mix = weights["mix"] if net.mixed else None
        self._convs, self._dense = ([_Layer(each, kind, weights) for each in part] for part in (net.convs, net.dense))
        self._context = _Context(net.context, weights) if net.context else None
        self._norm = _Norm("norm", weights) if net.normed else None
        self._output = np.ascontiguousarray(weights["output.weight"][:, :, 0, 0].T), weights["output.bias"]

    def __call__(self, centred: Rows, last: int | None = None, prior: Rows | None = None) -> Rows:
        """Return the logits of a recording, (n_output_frames, classes), of features after CMN, (n_frames, dims).

        With `last`, only so many frames at the end are asked for: those before may be zeros. `prior`, (units,), is the
        mean of `first_layer` that ``model.context`` expects; it counts as one span of speech.
        """
        with np.errstate(all="ignore"), _in_threads() as each:
            return self._logits(centred, each, last, prior)

    def first_layer(self, centred: Rows) -> Rows:
        """Return the outputs of the first dense layer, (n_output_frames, units), whose mean ``model.context`` hears."""
        with np.errstate(all="ignore"), _in_threads() as each:
            return self._lowest(centred, each)[:, 0]

    def _logits(self, centred: Rows, each: Each, last: int | None, prior: Rows | None) -> Rows:
        weight, bias = self._output
        if not len(centred):
            return np.zeros((0, len(bias)), np.float32)
        x, changes, cut = self._lowest(centred, each), None, 0
        if self._context is not None:
            cut = max(len(x) - last, 0) if last else 0
            changes, x = self._context(x, cut, prior), x[cut:]
        for number, dense in enumerate(self._dense[1:]):
            x = dense(x if changes is None else changes(number, x), each)
        logits: Rows = (x if self._norm is None else self._norm(x))[:, 0] @ weight
        logits += bias
        return np.pad(logits, ((cut, 0), (0, 0))) if cut else logits

    def _lowest(self, centred: Rows, each: Each) -> Rows:
        """Return the outputs of the layers over bands, then of the first dense one, (n_output_frames, 1, units)."""
        x = self._as_channels(net_input(centred, self.mean, self.std, self.config.features))
        for number, conv in enumerate(self._convs):
            x = conv(x, each)
            if number == 0 and (pool := self._pool) > 1:
                bands = x.shape[1] // pool
                x = x[:, : bands * pool].reshape(len(x), bands, pool, -1).max(2)
        x = x.transpose(0, 2, 1).reshape(len(x), 1, -1)
        return self._dense[0](x, each) if self._dense else x

    def _as_channels(self, x: Rows) -> Rows:
        """Return features without bands as (n_frames, 1, channels x dims), of the mean of their layers."""
        if self._mix is not None:
            shares = np.exp(self._mix - self._mix.max())
            x = np.einsum("tlsc,l->tsc", x.reshape(len(x), len(shares), -1, x.shape[2]), shares / shares.sum())
        return x if self._has_bands else x.transpose(0, 2, 1).reshape(len(x), 1, -1)


class _Norm:
    """Layer normalisation over the maps."""

    def __init__(self, name: str, weights: Weights) -> None:
        self.weight, self.bias = weights[f"{name}.weight"], weights[f"{name}.bias"]

    def __call__(self, x: Rows) -> Rows:
        centred: Rows = x - x.mean(-1, keepdims=True)
        variance = np.einsum("...i,...i->...", centred, centred)[..., None] / np.float32(x.shape[-1])
        centred *= 1 / np.sqrt(variance + EPSILON)
        centred *= self.weight
        centred += self.bias
        return centred


class _Context:
    """As `speechctc.model.net.Context`, of (n_frames, 1, maps)."""

    def __init__(self, plan: ContextPlan, weights: Weights) -> None:
        self._span, self._half, self._norm = plan.span, plan.span // 2, _Norm("context.norm", weights)
        names = ("down", *(f"up.{k}" for k in range(len(plan.layers))))
        pairs = [(weights[f"context.{name}.weight"].T, weights[f"context.{name}.bias"]) for name in names]
        self._down, self._up = pairs[0], pairs[1:]

    def __call__(self, x: Rows, cut: int, prior: Rows | None) -> Callable[[int, Rows], Rows]:
        """Return what changes the inputs of layers, of the frames from `cut` on."""
        at = np.arange(cut, len(x))
        first, end = np.maximum(at - self._half, 0), np.minimum(at + self._half + 1, len(x))
        sums = np.concatenate([np.zeros((1, x.shape[2])), x[:, 0].cumsum(0, dtype=np.float64)])
        total, counts = sums[end] - sums[first], (end - first)[:, None]
        if prior is not None:
            total, counts = total + self._span * prior, counts + self._span
        means = (total / counts).astype(np.float32)
        weight, bias = self._down
        values = np.maximum(self._norm(means) @ weight + bias, 0)

        def change(number: int, x: Rows) -> Rows:
            weight, bias = self._up[number]
            factor, shift = np.split((values @ weight + bias)[:, None], 2, axis=2)
            changed: Rows = x * (1 + factor) + shift
            return changed

        return change


class _Layer:
    """A layer of (n_frames, bands, maps)."""

    def __init__(self, layer: LayerPlan, activation: str, weights: Weights) -> None:
        self.plan, weight = layer, weights[f"{layer.name}.conv.weight"]
        self.matrix = np.ascontiguousarray(weight.transpose(3, 2, 1, 0)).reshape(-1, len(weight))
        self.bias = weights[f"{layer.name}.conv.bias"]
        self.norm = _Norm(f"{layer.name}.norm", weights) if layer.normed else None
        self.activate = _activation(activation, layer, weights)

    def __call__(self, x: Rows, each: Each) -> Rows:
        layer, (frames, bands, maps) = self.plan, x.shape
        high, wide = layer.kernel
        padded = np.zeros((frames + wide - 1, bands + high - 1, maps), np.float32)
        inside = x if self.norm is None or not layer.residual else self.norm(x)
        padded[wide // 2 : wide // 2 + frames, high // 2 : high // 2 + bands] = inside
        along, across, step = padded.strides
        count = -(-frames // layer.stride)
        shape, strides = (count, bands, wide, high * maps), (along * layer.stride, across, along, step)
        seen = as_strided(padded, shape, strides, writeable=False)
        result = np.empty((count, bands, layer.outputs), np.float32)
        rows = max(PIECE // (bands * max(self.matrix.shape)), 1)

        def compute(first: int) -> None:
            part = np.ascontiguousarray(seen[first : first + rows])
            y = part.reshape(-1, len(self.matrix)) @ self.matrix
            y += self.bias
            if self.norm is not None and not layer.residual:
                y = self.norm(y)
            y = self.activate(y).reshape(-1, bands, layer.outputs)
            result[first : first + rows] = y + x[first : first + rows] if layer.residual else y

        each(compute, range(0, count, rows))
        return result


def _activation(name: str, layer: LayerPlan, weights: Weights) -> Callable[[Rows], Rows]:
    """Return a function that can be pickled, for processes that share a loaded model."""
    if name == "maxout":
        return partial(_maxout, outputs=layer.outputs)
    if name == "prelu":
        return partial(_prelu, slope=weights[f"{layer.name}.activation.weight"])
    return {"silu": _silu, "relu": _relu}[name]


def _prelu(x: Rows, slope: Rows) -> Rows:
    return np.where(x > 0, x, slope * x)


def _silu(x: Rows) -> Rows:
    y: Rows = x / (1 + np.exp(-x))
    return y


def _relu(x: Rows) -> Rows:
    return np.maximum(x, 0)


def _maxout(x: Rows, outputs: int) -> Rows:
    first = x[:, :outputs]
    for start in range(outputs, x.shape[1], outputs):
        first = np.maximum(first, x[:, start : start + outputs])
    return first


@contextmanager
def _in_threads() -> Iterator[Each]:
    """Offer a way to call a function with each of some numbers, in as many threads as a recording may use."""
    count = threads_per_recording()
    if count == 1:
        yield lambda work, numbers: list(map(work, numbers))
        return
    with ThreadPoolExecutor(count, "net") as pool:
        yield lambda work, numbers: list(pool.map(work, numbers))
