"""The sections `augment` and `train` of the config."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from speechctc.config.section import Section


class AugmentConfig(Section):
    """Random changes to training utterances, drawn anew in each epoch; none by default, and none on dev and test."""

    speed: float | tuple[float, float] = Field(
        0.0,
        description="speaking rate as a multiple of the original, drawn from [1 - speed, 1 + speed]; or a list of the"
        " slowest and the fastest rate",
    )
    warp: float = Field(
        0.0,
        ge=0,
        le=0.5,
        description="vocal tract length perturbation: the mel axis is stretched by 1 - warp to 1 + warp",
    )
    gain_db: float = Field(0.0, ge=0, le=60, description="largest change of the level, up or down, dB")
    colour_db: float = Field(
        0.0, ge=0, le=30, description="size of a smooth random equalisation, as of microphones, dB"
    )
    noise_db: tuple[float, float] | None = Field(
        None, description="lowest and highest signal-to-noise ratio of added white noise, dB; null: no noise"
    )
    reverb: float = Field(0.0, ge=0, le=1, description="share of utterances with the reverberation of a room")
    telephone: float = Field(
        0.0, ge=0, le=1, description="share of utterances with the bandwidth of a telephone, about 300 to 3400 Hz"
    )
    band_masks: int = Field(0, ge=0, le=10, description="frequency masks per utterance, set to the mean (SpecAugment)")
    band_mask: int = Field(8, ge=1, description="largest width of a frequency mask, mel bands")
    time_masks: float = Field(0.0, ge=0, le=10, description="time masks per second, set to the mean (SpecAugment)")
    time_mask_ms: float = Field(200.0, gt=0, description="largest length of a time mask, ms")

    @field_validator("speed")
    @classmethod
    def _possible(cls, value: float | tuple[float, float]) -> float | tuple[float, float]:
        slowest, fastest = _rates(value)
        if not 0.25 <= slowest <= 1 <= fastest <= 4:
            raise ValueError("rates must lie within 0.25 to 4 and include 1: for example 0.1, or [0.9, 1.1]")
        return value

    @property
    def rates(self) -> tuple[float, float]:
        """Return the slowest and the fastest speaking rate, as multiples of the original."""
        return _rates(self.speed)

    @field_validator("noise_db")
    @classmethod
    def _in_order(cls, value: tuple[float, float] | None) -> tuple[float, float] | None:
        if value is not None and value[0] > value[1]:
            raise ValueError("the first must not exceed the second")
        return value


def _rates(speed: float | tuple[float, float]) -> tuple[float, float]:
    return speed if isinstance(speed, tuple) else (1 - speed, 1 + speed)


class FinetuneConfig(Section):
    """A second stage of training, as in Zhang et al. 2016: plain SGD from the best weights of the first stage."""

    epochs: int = Field(0, ge=0, description="passes over the training split; 0: no second stage")
    lr: float = Field(1e-5, gt=0, description="learning rate")
    weight_decay: float = Field(1e-5, ge=0, description="weight decay")


class TrainConfig(Section):
    """How the net is trained."""

    init_from: Path | None = Field(
        None, description="start from the weights of this run or checkpoint, whose phones may differ; null: at random"
    )
    epochs: int = Field(10, ge=1, description="passes over the training split")
    minutes: float = Field(0.0, ge=0, description="most minutes of training; 0: no limit")
    patience: int = Field(0, ge=0, description="end a stage after this many epochs without a better dev PER; 0: never")
    save_minutes: float = Field(
        10.0, gt=0, description="minutes between saves of last/ within an epoch; it is also saved at the end of each"
    )
    seed: int = Field(1, ge=0, description="seed for the first weights, the order of batches and dropout")
    balance: float = Field(
        1.0,
        ge=1,
        le=100,
        description="temperature that balances an epoch among the languages of a corpus: of a language with more"
        " utterances than the median, it has fewer; 1: all",
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA where there is a GPU, else the CPU")
    precision: Literal["float32", "bfloat16", "float16", "auto"] = Field(
        "float32",
        description="precision of the net's matrix products; weights and the loss stay in float32; auto: bfloat16 where"
        " the hardware supports it (AMX, GPUs), else float32",
    )
    tf32: bool = Field(False, description="CUDA: compute float32 products in TensorFloat-32, with 10 bits")
    batch_size: int = Field(20, ge=1, description="most utterances in a batch")
    batch_frames: int = Field(20_000, ge=1, description="most frames in a batch, padding included")
    optimizer: Literal["adam", "sgd"] = Field("adam", description="adam: AdamW; sgd: SGD without momentum")
    lr: float = Field(1e-4, gt=0, description="highest learning rate")
    weight_decay: float = Field(0.0, ge=0, description="weight decay of the optimiser")
    warmup_steps: int = Field(
        0, ge=0, description="steps over which the learning rate rises; at most a tenth of all steps"
    )
    schedule: Literal["constant", "cosine"] = Field(
        "constant", description="cosine: the learning rate falls to 0 at the planned end"
    )
    scale_lr: Literal["none", "linear", "sqrt"] = Field(
        "none", description="growth of the learning rate with the number of processes that train together"
    )
    consistency: float = Field(
        0.0,
        ge=0,
        le=10,
        description="weight of the difference between the outputs for two masked views of an utterance; 0: one view",
    )
    ema: float = Field(
        0.0, ge=0, lt=1, description="decay per step of the weights' moving average, which is scored; 0: none"
    )
    clip: float = Field(5.0, ge=0, description="largest norm of the gradient; 0: no limit")
    loss_backend: Literal["auto", "cpu", "cuda", "torch", "reference"] = Field(
        "auto", description="implementation of the CTC loss; auto: that of the device"
    )
    tensorboard: bool = Field(False, description="write a log for TensorBoard to tensorboard/ in the run's folder")
    curves: bool = Field(True, description="keep curves.png up to date in the run's folder, if matplotlib is installed")
    finetune: FinetuneConfig = FinetuneConfig()

    @property
    def views(self) -> int:
        """Return how often a batch goes through the net in a step."""
        return 2 if self.consistency else 1
