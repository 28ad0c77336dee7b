"""The section `model` of the config: the net."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from speechctc.config.section import Section


class ModelConfig(Section):
    """The net: convolutions over frequency and time, then dense layers on each frame."""

    activation: Literal["maxout", "relu", "prelu", "silu"] = Field("maxout", description="activation of every layer")
    pieces: int = Field(2, ge=2, le=8, description="linear pieces of a maxout unit")
    convs: tuple[int, ...] = Field(
        (128,) * 4 + (256,) * 6,
        min_length=1,
        description="feature maps of each convolution, after maxout",
    )
    kernel: tuple[int, int] = Field((3, 5), description="filter size: mel bands x frames; odd")
    pool: int = Field(3, ge=1, le=16, description="max-pooling over frequency after the first convolution")
    time_stride: int = Field(1, ge=1, le=4, description="frames of input per frame of output")
    dense: tuple[int, ...] = Field((1024,) * 3, description="units of each dense layer, after maxout")
    dense_span: int | tuple[int, ...] = Field(
        1, description="neighbouring output frames that a dense layer sees; odd; or a list, one for each layer"
    )
    dropout: float | tuple[float, ...] = Field(
        0.3, description="share of a hidden layer's output set to 0 in training; or a list, one for each layer"
    )
    norm: Literal["none", "layer"] = Field(
        "none", description="layer: layer normalisation of each frame's units in every dense layer"
    )
    residual: bool = Field(False, description="add the input of a layer to its output where their shapes agree")
    init: Literal["uniform", "he"] = Field(
        "he", description="first weights: he: He et al. 2015; uniform: U(-0.05, 0.05) as in Zhang et al. 2016"
    )

    @field_validator("convs", "dense")
    @classmethod
    def _widths(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if any(width < 1 for width in value):
            raise ValueError("every width must be at least 1")
        return value

    @field_validator("kernel")
    @classmethod
    def _odd(cls, value: tuple[int, int]) -> tuple[int, int]:
        if any(size < 1 or size % 2 == 0 for size in value):
            raise ValueError("both sizes must be odd and at least 1")
        return value

    @model_validator(mode="after")
    def _one_for_each_layer(self) -> ModelConfig:
        for name, values, layers in (
            ("dropout", self.dropout_rates, len(self.convs) + len(self.dense)),
            ("dense_span", self.dense_spans, len(self.dense)),
        ):
            if len(values) != layers:
                raise ValueError(f"model.{name} is a list of {len(values)} for {layers} layers")
        if not all(0 <= rate < 1 for rate in self.dropout_rates):
            raise ValueError("model.dropout must be at least 0 and below 1")
        if not all(span > 0 and span % 2 for span in self.dense_spans):
            raise ValueError("model.dense_span must be odd and at least 1")
        return self

    @property
    def dropout_rates(self) -> tuple[float, ...]:
        """Return the dropout rate of every hidden layer, convolutions first."""
        layers = len(self.convs) + len(self.dense)
        return self.dropout if isinstance(self.dropout, tuple) else (self.dropout,) * layers

    @property
    def dense_spans(self) -> tuple[int, ...]:
        """Return the span of every dense layer, in output frames."""
        return self.dense_span if isinstance(self.dense_span, tuple) else (self.dense_span,) * len(self.dense)
