"""The schema of the config: all sections together."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_serializer, field_validator

from speechctc.config.corpus_config import CorpusConfig
from speechctc.config.feature_config import DataConfig, FeatureConfig
from speechctc.config.model_config import ModelConfig
from speechctc.config.section import Section
from speechctc.config.train_config import AugmentConfig, TrainConfig

NO_RUN = Path(os.devnull)
"""`Config.run` of a config that belongs to no run, such as that of an exported model; null in files."""


class ScoreConfig(Section):
    """How hypotheses are compared with references."""

    fold: str | dict[str, str] = Field(
        "auto",
        description="phones that count as one: auto (timit39 for TIMIT's sets, else none), none, timit48, timit39,"
        " cmu37, strip:tone,stress,length,diacritics (any of these classes of marks), or a mapping",
    )


class DecodeConfig(Section):
    """How phones are found in the output of a net. Alignment does not use it: there the phones are known."""

    lm_order: int = Field(0, ge=0, le=8, description="order of the n-gram of the training labels; 0: no n-gram")
    lm_cutoff: int = Field(
        1, ge=1, description="strings of `lm_order` phones that occur fewer times in the training labels are left out"
    )
    lm_weight: float = Field(0.5, ge=0, le=5, description="weight of language models' log probabilities; 0: not used")
    lm_bonus: float = Field(1.5, ge=-10, le=10, description="score added for each phone of a sequence")
    lm_share: float = Field(0.5, ge=0, le=1, description="share of an LSTM in that weight; the n-gram has the rest")
    search: Literal["auto", "greedy", "beam"] = Field(
        "auto", description="beam: prefix search even without a language model; greedy: never; auto: only with one"
    )
    beam: int = Field(64, ge=1, le=4096, description="hypotheses that the prefix search keeps")
    min_modulation_db: float = Field(
        6.0,
        ge=0,
        le=40,
        description="no phones are found where no band's level changes by more than this within 1.5 s, dB; 0: not used",
    )


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
