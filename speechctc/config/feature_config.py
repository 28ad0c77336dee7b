"""The sections `data` and `features` of the config: extraction and storage of features."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator, model_validator

from speechctc.config.section import Section

_Milliseconds = Annotated[float, Field(ge=0, le=60_000)]


class DataConfig(Section):
    """Storage of the features on disk, and how they are loaded."""

    dir: Path = Field(Path("data/features"), description="folder of the extracted features")
    dtype: Literal["float16", "float32"] = Field("float16", description="type of the stored features")
    shard_mib: int = Field(64, ge=1, le=4096, description="largest size of a shard file, MiB")
    workers: int = Field(0, ge=0, le=256, description="extraction processes; 0: one for each core")
    cluster: str = Field(
        "", description="scheduler of a Dask cluster that extracts, as tcp://HOST:8786; empty: this machine"
    )
    chunk_mib: int = Field(256, ge=1, description="features on the device at a time, MiB")


class FeatureConfig(Section):
    """Static features from samples, and the net's input from static features."""

    sample_rate: int = Field(16000, ge=4000, le=96000, description="rate that recordings are resampled to, Hz")
    window_ms: float = Field(25.0, gt=0, le=200, description="length of the analysis window, ms")
    shift_ms: float = Field(10.0, gt=0, le=100, description="time between the starts of neighbouring frames, ms")
    window: Literal["hamming", "hanning", "povey", "rectangular", "blackman"] = Field(
        "hamming", description="shape of the analysis window"
    )
    mels: int = Field(40, ge=4, le=256, description="number of mel filters")
    low_hz: float = Field(20.0, ge=0, description="lower edge of the filter bank, Hz")
    high_hz: float = Field(
        0.0, description="upper edge of the filter bank, Hz; 0 or negative: that far below the Nyquist frequency"
    )
    preemphasis: float = Field(0.97, ge=0, lt=1, description="coefficient of the pre-emphasis filter; 0: none")
    energy: bool = Field(True, description="append the log energy of the frame")
    center_ms: tuple[_Milliseconds, _Milliseconds] | None = Field(
        None, description="subtract a power-weighted sliding mean over [before, after] a frame, ms; null: do not"
    )
    deltas: int = Field(2, ge=0, le=3, description="orders of time derivatives; each is a channel of the net's input")
    delta_window: int = Field(5, ge=3, le=21, description="frames that a derivative is estimated from; odd")

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
        """Return the values per frame before derivatives: the mel bands, and the energy if it is appended."""
        return self.mels + int(self.energy)

    @property
    def center_frames(self) -> tuple[int, int]:
        """Return how many frames before and after a frame its sliding mean covers."""
        before, after = self.center_ms or (0.0, 0.0)
        return round(before / self.shift_ms), round(after / self.shift_ms)

    @property
    def stretch_frames(self) -> int:
        """Return how many frames on either side of a frame its power, its weight in the mean, is measured over."""
        return round(1000 / self.shift_ms)

    @property
    def center_reach(self) -> tuple[int, int]:
        """Return how many frames before and after a frame are needed to centre it."""
        if self.center_ms is None:
            return 0, 0
        before, after = self.center_frames
        return before + self.stretch_frames, after + self.stretch_frames

    @property
    def channels(self) -> int:
        """Return the channels of the net's input: the static features and each order of derivative."""
        return 1 + self.deltas
