"""The layers that a config asks for, in numbers: what nets are built from, and weights are checked against."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from speechctc.config.schema import Config, FeatureConfig, ModelConfig
from speechctc.core.own_net import OWN, build
from speechctc.features.extractor import extractor

OWN_PREFIX = "own."  # before the names of the weights of a net of one's own

Count = TypeVar("Count")  # a number, or several as an array or a Tensor


class LayerPlan(NamedTuple):
    """A convolution over bands and frames, with what comes before and after it.

    Attributes
    ----------
    name : str
        In the names of weights: ``convs.0``.
    inputs, outputs : int
        Maps; those of the convolution are `pieces` times as many.
    pieces : int
    kernel : (int, int)
        Bands and frames, odd.
    stride : int
        In frames.
    normed : int
        Maps that are normalised: the input's in a residual layer, else the convolution's; 0: none.
    residual : bool
        The input is added to the output.
    dropout : float
    """

    name: str
    inputs: int
    outputs: int
    pieces: int
    kernel: tuple[int, int]
    stride: int
    normed: int
    residual: bool
    dropout: float


class ContextPlan(NamedTuple):
    """Tells the dense layers of the frames around each: the voice, the room, the microphone.

    The mean of the first dense layer's output over the frames around, as in squeeze and excitation (J. Hu, L. Shen and
    G. Sun, "Squeeze-and-excitation networks", CVPR 2018, section 3), becomes a few values, and these a factor and a
    shift for each input of the layers above.

    Attributes
    ----------
    inputs : int
        Units of the first dense layer.
    values : int
    span : int
        Output frames of the mean, odd.
    layers : tuple of int
        Inputs of each layer above.
    """

    inputs: int
    values: int
    span: int
    layers: tuple[int, ...]


class NetPlan(NamedTuple):
    """The layers of a net.

    Attributes
    ----------
    mixed : int
        Vectors in a frame whose learned mean is the input; 0: the frame is the input.
    convs : tuple of LayerPlan
    pool : int
        Bands of which the largest is kept, after the first convolution.
    dense : tuple of LayerPlan
    normed : int
        Inputs of the output layer that are normalised, 0 or all.
    inputs : int
        Of the output layer.
    context : ContextPlan or None
    has_bands : bool
        The values of a frame are of neighbouring bands, and the convolutions cover several, as they cover frames.
        Otherwise each value is a channel of its own.
    """

    mixed: int
    convs: tuple[LayerPlan, ...]
    pool: int
    dense: tuple[LayerPlan, ...]
    normed: int
    inputs: int
    context: ContextPlan | None = None
    has_bands: bool = True


def plan(config: ModelConfig, channels: int, dims: int, has_bands: bool = True, layers: int = 1) -> NetPlan:
    """Return the layers of a config's net.

    Parameters
    ----------
    config : ModelConfig
    channels, dims : int
        Channels of the input (static features and derivatives), and values per frame.
    has_bands : bool
        The values are of neighbouring bands. Otherwise each is a channel of its own.
    layers : int
        The values are so many vectors of one size.

    Raises
    ------
    ValueError
        Pooling leaves nothing.
    """
    kernel, pool = (config.kernel, config.pool) if has_bands else ((1, config.kernel[1]), 1)
    if not has_bands:
        channels, dims = channels * dims // layers, 1
    bands = dims // pool
    if bands == 0:
        raise ValueError(f"pooling {pool} bands leaves nothing of {dims}")
    pieces = config.pieces if config.activation == "maxout" else 1
    is_normed, rates = config.norm == "layer", iter(config.dropout_rates)

    def layer(name: str, n_in: int, n_out: int, kernel: tuple[int, int], stride: int, norm: bool) -> LayerPlan:
        residual = config.residual and n_in == n_out and stride == 1
        normed = (n_in if residual else n_out * pieces) if norm else 0
        return LayerPlan(name, n_in, n_out, pieces, kernel, stride, normed, residual, next(rates))

    inputs = [channels, *config.convs]
    convs = tuple(
        layer(f"convs.{k}", inputs[k], maps, kernel, 1 if k else config.time_stride, False)
        for k, maps in enumerate(config.convs)
    )
    inputs = [config.convs[-1] * bands, *config.dense]
    dense = tuple(
        layer(f"dense.{k}", inputs[k], units, (1, span), 1, is_normed)
        for k, (units, span) in enumerate(zip(config.dense, config.dense_spans, strict=True))
    )
    # The sum over residual layers has no fixed scale: it is normalised before the output layer.
    normed = inputs[-1] if is_normed and config.residual else 0
    above = tuple(layer.inputs for layer in dense[1:])
    context = ContextPlan(dense[0].outputs, config.context, config.context_span, above) if config.context else None
    return NetPlan(layers if layers > 1 else 0, convs, pool, dense, normed, inputs[-1], context, has_bands)


def is_own(model: ModelConfig) -> bool:
    """Return whether the net is one of the user's own, which has no plan."""
    return model.kind not in OWN


def longest_frames(config: Config) -> int | None:
    """Return the most static frames that a net takes at once; None: any number."""
    longest = config.model.longest
    return None if longest is None else int(longest * 1000 / config.features.shift_ms)


def plan_of(model: ModelConfig, features: FeatureConfig) -> NetPlan:
    """Return the layers of the net of a config's sections."""
    kind = extractor(features)
    return plan(model, features.channels, features.static_dims, bool(kind.bands), kind.layers)


def weight_shapes(config: Config, classes: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of each weight of a config's net."""
    if is_own(config.model):
        made = build(config.model.kind, config.features.inputs, classes, config.model.options)
        return {OWN_PREFIX + name: tuple(each.shape) for name, each in made.module.state_dict().items()}
    net = plan_of(config.model, config.features)
    shapes: dict[str, tuple[int, ...]] = {"mix": (net.mixed,)} if net.mixed else {}
    for layer in (*net.convs, *net.dense):
        outputs = layer.outputs * layer.pieces
        shapes |= {f"{layer.name}.conv.weight": (outputs, layer.inputs, *layer.kernel)}
        shapes |= {f"{layer.name}.conv.bias": (outputs,)}
        if layer.normed:
            shapes |= {f"{layer.name}.norm.{kind}": (layer.normed,) for kind in ("weight", "bias")}
        if config.model.activation == "prelu":
            shapes[f"{layer.name}.activation.weight"] = (layer.outputs,)
    if context := net.context:
        shapes |= {f"context.norm.{kind}": (context.inputs,) for kind in ("weight", "bias")}
        shapes |= {"context.down.weight": (context.values, context.inputs), "context.down.bias": (context.values,)}
        for number, inputs in enumerate(context.layers):
            name = f"context.up.{number}"
            shapes |= {f"{name}.weight": (2 * inputs, context.values), f"{name}.bias": (2 * inputs,)}
    if net.normed:
        shapes |= {f"norm.{kind}": (net.normed,) for kind in ("weight", "bias")}
    return shapes | {"output.weight": (classes, net.inputs, 1, 1), "output.bias": (classes,)}


def output_frames(frames: Count, config: ModelConfig) -> Count:
    """Return the number of output frames for a number of input frames: ``ceil(frames / time_stride)``."""
    counts: Count = (frames + config.time_stride - 1) // config.time_stride  # type: ignore[operator, assignment]
    return counts


def reach(model: ModelConfig, features: FeatureConfig) -> tuple[int, int]:
    """Return on how many static frames before and after it an output frame depends, derivatives included."""
    if not is_own(model):
        half = (receptive_field(model, features) - 1) // 2
        return half, half
    derivatives = features.deltas * (features.delta_window // 2)
    if not isinstance(model.sees, tuple):
        whole = int((model.longest or 0) * 1000 / features.shift_ms)
        return whole, whole
    return model.sees[0] + derivatives, model.sees[1] + derivatives


def receptive_field(model: ModelConfig, features: FeatureConfig) -> int:
    """Return the number of static frames that one output frame depends on, derivatives included.

    41 for the ten 3 x 5 convolutions of the paper; each order of derivative adds ``delta_window - 1``. Those of a net
    of the user's own are counted as if it saw as many before a frame as after it.
    """
    if is_own(model):
        return 2 * max(reach(model, features)) + 1
    net = plan_of(model, features)
    field, step = 1 + features.deltas * (features.delta_window - 1), 1
    for layer in (*net.convs, *net.dense):
        field += (layer.kernel[1] - 1) * step
        step *= layer.stride
    return field + (step * (net.context.span - 1) if net.context else 0)
