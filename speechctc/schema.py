"""The schema of the config: every key with its default, unit and range, in one place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class Section(BaseModel):
    """A part of the config: immutable once read, no keys beyond those it names."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class TablesConfig(Section):
    """Where the table of each split lies (`corpus.kind: table`)."""

    train: Path | None = Field(None, description="TSV, CSV or JSON-lines file of the training split")
    dev: Path | None = Field(None, description="that of dev; without it a share of the training speakers")
    test: Path | None = Field(None, description="that of test")


class DemoConfig(Section):
    """How much speech the demo corpus has, and how varied it is.

    Voices and sentences are divided alike: `held_out` of each for dev, as many for test, the rest for training.
    """

    voices: int = Field(48, ge=3, le=400, description="speakers: an eSpeak NG variant with a pitch and a rate each")
    sentences: int = Field(320, ge=3, le=330, description="distinct sentences, of those that come with the package")
    held_out: float = Field(0.125, gt=0, le=0.3, description="share of voices and sentences for dev, and for test")
    utterances_per_voice: int = Field(36, ge=1, le=330, description="sentences a training voice speaks, at most")
    evaluation_utterances_per_voice: int = Field(16, ge=1, le=330, description="the same, for dev and test voices")
    words_per_minute: tuple[int, int] = Field((140, 190), description="slowest and fastest voice; 80 to 450")
    pitch: tuple[int, int] = Field((35, 65), description="lowest and highest setting around a variant's own; 0 to 99")
    noise_db: float = Field(-60.0, ge=-120, le=-20, description="white noise under the speech, dB of full scale (RMS)")
    seed: int = Field(0, ge=0, description="of the choice of voices, sentences and noise")

    @field_validator("words_per_minute", "pitch")
    @classmethod
    def _in_order(cls, value: tuple[int, int]) -> tuple[int, int]:
        if value[0] > value[1]:
            raise ValueError("the first must not exceed the second")
        return value

    @field_validator("words_per_minute")
    @classmethod
    def _rates(cls, value: tuple[int, int]) -> tuple[int, int]:
        if not 80 <= value[0] <= value[1] <= 450:
            raise ValueError("must lie within 80 to 450")
        return value

    @field_validator("pitch")
    @classmethod
    def _pitches(cls, value: tuple[int, int]) -> tuple[int, int]:
        if not 0 <= value[0] <= value[1] <= 99:
            raise ValueError("must lie within 0 to 99")
        return value


class CorpusConfig(Section):
    """The recordings and their labels."""

    kind: Literal["timit", "table", "textgrid", "demo"] = Field(description="how the corpus is laid out on disk")
    root: Path | None = Field(None, description="the corpus's folder; for tables, what audio paths are relative to")
    tables: TablesConfig = TablesConfig()
    phones: str = Field(
        "auto", description="phone set: timit61, timit48, timit39, cmu39, found, or auto (the kind's own)"
    )
    tier: str = Field("phones", description="tier of the TextGrids that has the phones (`corpus.kind: textgrid`)")
    dev_share: float = Field(0.1, gt=0, lt=1, description="share of training speakers held out when no dev is given")
    demo: DemoConfig = DemoConfig()


class DataConfig(Section):
    """The features on disk and on their way to the device."""

    dir: Path = Field(Path("data/features"), description="folder of the extracted features")
    dtype: Literal["float16", "float32"] = Field("float16", description="how features are stored")
    shard_mib: int = Field(64, ge=1, le=4096, description="size of one shard file, MiB")
    workers: int = Field(0, ge=0, le=256, description="extraction processes; 0: one per core")
    chunk_mib: int = Field(256, ge=1, description="features held on the device at a time, MiB")


_Around = Annotated[float, Field(ge=0, le=60_000)]


class FeatureConfig(Section):
    """From samples to static features, and from those to the net's input."""

    sample_rate: int = Field(16000, ge=4000, le=96000, description="recordings are resampled to this, Hz")
    window_ms: float = Field(25.0, gt=0, le=200, description="analysis window, ms")
    shift_ms: float = Field(10.0, gt=0, le=100, description="from one frame to the next, ms")
    window: Literal["hamming", "hanning", "povey", "rectangular", "blackman"] = Field("hamming")
    mels: int = Field(40, ge=4, le=256, description="mel filters")
    low_hz: float = Field(20.0, ge=0, description="lower edge of the filter bank, Hz")
    high_hz: float = Field(0.0, description="upper edge, Hz; 0 or less: below the Nyquist frequency by that much")
    preemphasis: float = Field(0.97, ge=0, lt=1)
    energy: bool = Field(True, description="append the frame's log energy")
    center_ms: tuple[_Around, _Around] | None = Field(
        None, description="take from each dimension its mean over so much before and after a frame, by loudness, ms"
    )
    deltas: int = Field(2, ge=0, le=3, description="orders of time derivatives, each a channel of the net's input")
    delta_window: int = Field(5, ge=3, le=21, description="frames a derivative is estimated from; odd")

    @field_validator("delta_window")
    @classmethod
    def _odd(cls, value: int) -> int:
        if value % 2 == 0:
            raise ValueError("must be odd")
        return value

    @model_validator(mode="after")
    def _bands_fit(self) -> FeatureConfig:
        nyquist = self.sample_rate / 2
        high = self.high_hz if self.high_hz > 0 else nyquist + self.high_hz
        if not self.low_hz < high <= nyquist:
            raise ValueError(f"low_hz {self.low_hz:g} and high_hz {high:g} must lie in order below {nyquist:g} Hz")
        return self

    @property
    def static_dims(self) -> int:
        """Values a frame before derivatives: the mel bands, and the energy if wanted."""
        return self.mels + int(self.energy)

    @property
    def center_frames(self) -> tuple[int, int]:
        """How many frames before and after one belong to the mean that is taken from it."""
        before, after = self.center_ms or (0.0, 0.0)
        return round(before / self.shift_ms), round(after / self.shift_ms)

    @property
    def stretch_frames(self) -> int:
        """How many frames on either side of one are of its stretch, whose power is its weight in that mean."""
        return round(1000 / self.shift_ms)

    @property
    def center_reach(self) -> tuple[int, int]:
        """How many frames before and after one it takes to centre it."""
        if self.center_ms is None:
            return 0, 0
        before, after = self.center_frames
        return before + self.stretch_frames, after + self.stretch_frames

    @property
    def channels(self) -> int:
        """Channels of the net's input: the static features and each order of derivative."""
        return 1 + self.deltas


class ModelConfig(Section):
    """The net: convolutions over frequency and time, then dense layers on each frame."""

    activation: Literal["maxout", "relu", "prelu", "silu"] = "maxout"
    pieces: int = Field(2, ge=2, le=8, description="linear pieces of a maxout unit")
    convs: tuple[int, ...] = Field(
        (128,) * 4 + (256,) * 6,
        min_length=1,
        description="feature maps of each convolution, after the maximum",
    )
    kernel: tuple[int, int] = Field((3, 5), description="filter size: mel bands x frames; odd")
    pool: int = Field(3, ge=1, le=16, description="max-pooling over frequency after the first convolution")
    time_stride: int = Field(1, ge=1, le=4, description="frames of input per frame of output")
    dense: tuple[int, ...] = Field((1024,) * 3, description="units of each dense layer, after the maximum")
    dense_span: int | tuple[int, ...] = Field(
        1, description="output frames that a dense layer sees; odd; 1: each by itself; or a list, one a layer"
    )
    dropout: float | tuple[float, ...] = Field(
        0.3, description="share of every hidden layer's output set to 0 in training; or a list, one a layer"
    )
    norm: Literal["none", "layer"] = Field(
        "none", description="layer: the units of each frame to mean 0, variance 1, within every dense layer"
    )
    residual: bool = Field(False, description="add a layer's input to its output where their shapes agree")
    init: Literal["uniform", "he"] = Field("he", description="uniform: U(-0.05, 0.05) as in Zhang et al. 2016")

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
    def _one_a_layer(self) -> ModelConfig:
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
        """The rate of every hidden layer, convolutions first."""
        layers = len(self.convs) + len(self.dense)
        return self.dropout if isinstance(self.dropout, tuple) else (self.dropout,) * layers

    @property
    def midway(self) -> int:
        """The number of the dense layer half-way up, counted from 0."""
        return (len(self.dense) - 1) // 2

    @property
    def dense_spans(self) -> tuple[int, ...]:
        """The span of every dense layer."""
        return self.dense_span if isinstance(self.dense_span, tuple) else (self.dense_span,) * len(self.dense)


class AugmentConfig(Section):
    """How training utterances are varied each time they are met; nothing is by default. Dev and test never are."""

    speed: float | tuple[float, float] = Field(
        0.0, description="speak at a rate from 1 - speed to 1 + speed times the own, or from the first to the second"
    )
    warp: float = Field(0.0, ge=0, le=0.5, description="stretch the mel axis likewise, as other vocal tracts would")
    gain_db: float = Field(0.0, ge=0, le=60, description="make it louder or softer by up to so much")
    colour_db: float = Field(0.0, ge=0, le=30, description="colour it as microphones do: smoothly, by about so much")
    noise_db: tuple[float, float] | None = Field(
        None, description="add white noise so far below the speech: signal to noise from the first to the second, dB"
    )
    band_masks: int = Field(0, ge=0, le=10, description="stretches of bands set to their mean (SpecAugment)")
    band_mask: int = Field(8, ge=1, description="widest of them, bands")
    time_masks: float = Field(0.0, ge=0, le=10, description="stretches of time set to the mean (SpecAugment), a second")
    time_mask_ms: float = Field(200.0, gt=0, description="longest of them")

    @field_validator("speed")
    @classmethod
    def _possible(cls, value: float | tuple[float, float]) -> float | tuple[float, float]:
        slowest, fastest = _rates(value)
        if not 0.25 <= slowest <= 1 <= fastest <= 4:
            raise ValueError("rates go from 0.25 to 4, and 1 is among them: 0.1, or [0.9, 1.1]")
        return value

    @property
    def rates(self) -> tuple[float, float]:
        """The slowest and the fastest rate, in times an utterance's own."""
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
    """A second stage after the first has ended, as in Zhang et al. 2016: plain SGD from the best weights."""

    epochs: int = Field(0, ge=0, description="0: no second stage")
    lr: float = Field(1e-5, gt=0)
    weight_decay: float = Field(1e-5, ge=0)


class TrainConfig(Section):
    """How the net is trained."""

    init_from: Path | None = Field(
        None, description="begin with the weights of this run or checkpoint; its phones may differ, and keep theirs"
    )
    epochs: int = Field(10, ge=1, description="passes over the training split")
    minutes: float = Field(0.0, ge=0, description="end the run after so much training, if that comes first; 0: never")
    patience: int = Field(0, ge=0, description="end a stage after so many epochs without a better dev PER; 0: never")
    save_minutes: float = Field(10.0, gt=0, description="last/ is saved this often inside an epoch, and at its end")
    keep_best: int = Field(1, ge=1, description="checkpoints of the lowest dev PER to keep; above 1 in top/")
    average_best: bool = Field(
        False, description="at the end score the mean of those checkpoints' weights too, and keep it if it is better"
    )
    seed: int = Field(1, ge=0, description="of the weights, the order of batches and dropout")
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["float32", "bfloat16", "float16", "auto"] = Field(
        "float32",
        description="of the net's matrix products; weights and the loss stay in float32; auto: bfloat16 where the"
        " hardware multiplies it (AMX, GPUs), float32 elsewhere",
    )
    tf32: bool = Field(False, description="CUDA: let float32 products round their factors to 10 bits")
    batch_size: int = Field(20, ge=1, description="utterances in a batch, at most")
    batch_frames: int = Field(20_000, ge=1, description="frames in a batch, padding included, at most")
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: float = Field(1e-4, gt=0, description="learning rate, at its highest")
    weight_decay: float = Field(0.0, ge=0)
    warmup_steps: int = Field(0, ge=0, description="steps over which the learning rate rises, at most a tenth of all")
    schedule: Literal["constant", "cosine"] = Field("constant", description="cosine: to 0 at the planned end")
    scale_lr: Literal["none", "linear", "sqrt"] = Field(
        "none", description="how lr grows with the number of processes that train together"
    )
    inter_ctc: float = Field(
        0.0, ge=0, lt=1, description="weight of a second CTC loss, on a layer half-way up; 0: none"
    )
    consistency: float = Field(
        0.0,
        ge=0,
        le=10,
        description="weight of how far two views of an utterance differ, hidden in other places; 0: one",
    )
    ema: float = Field(0.0, ge=0, lt=1, description="decay a step of averaged weights, scored in their place; 0: none")
    clip: float = Field(5.0, ge=0, description="the gradient's norm is held to this; 0: not held")
    loss_backend: Literal["auto", "cpu", "cuda", "torch", "reference"] = "auto"
    tensorboard: bool = Field(False, description="log to tensorboard/ in the run's folder too")
    finetune: FinetuneConfig = FinetuneConfig()

    @property
    def views(self) -> int:
        """How often a batch goes through the net in a step."""
        return 2 if self.consistency else 1


class ScoreConfig(Section):
    """How hypotheses are compared with references."""

    fold: str | dict[str, str] = Field(
        "auto",
        description="auto (timit sets: timit39; others: none), none, timit48, timit39, cmu37, or a mapping",
    )


class DecodeConfig(Section):
    """How phones are found in a net's output. Alignment knows its phones and uses none of this."""

    lm_order: int = Field(0, ge=0, le=8, description="phones in an n-gram of the training labels; 0: no n-gram")
    lm_weight: float = Field(0.5, ge=0, le=5, description="of the language models' log probabilities; 0: without")
    lm_bonus: float = Field(1.5, ge=-10, le=10, description="added to a sequence's score for every phone in it")
    lm_share: float = Field(0.5, ge=0, le=1, description="of an LSTM in that weight, where an n-gram has the rest")
    search: Literal["auto", "greedy", "beam"] = Field(
        "auto", description="beam: a prefix search even without a language model; auto: only with one"
    )
    beam: int = Field(64, ge=1, le=4096, description="how many the search with an n-gram keeps at a time")


class Config(Section):
    """Everything that makes a run."""

    run: Path | None = Field(None, description="the run's folder; without it runs/<name of the config file>")
    corpus: CorpusConfig
    data: DataConfig = DataConfig()
    features: FeatureConfig = FeatureConfig()
    model: ModelConfig = ModelConfig()
    augment: AugmentConfig = AugmentConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()
    score: ScoreConfig = ScoreConfig()

    @model_validator(mode="after")
    def _midway_is_as_wide(self) -> Config:
        dense = self.model.dense
        if self.train.inter_ctc and (len(dense) < 2 or dense[self.model.midway] != dense[-1]):
            raise ValueError("train.inter_ctc needs two or more layers in model.dense, the middle as wide as the last")
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as JSON and YAML know them."""
        return self.model_dump(mode="json")
