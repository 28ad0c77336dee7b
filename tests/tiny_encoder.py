"""Tiny pretrained encoders in the form of Hugging Face, with random weights, made on the spot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

FAMILIES = ("wav2vec2", "hubert", "wavlm")
SIZE, DEPTH = 24, 3


def write_encoder(folder: Path, family: str = "wav2vec2", large: bool = False, seed: int = 0, **change: Any) -> Any:
    """Write an encoder and return transformers' model of it; `large`: with the norms of large encoders and XLS-R.

    Skips the test where transformers is not installed.
    """
    transformers = pytest.importorskip("transformers", reason="transformers is not installed: pip install transformers")
    name = {"wav2vec2": "Wav2Vec2", "hubert": "Hubert", "wavlm": "WavLM"}[family]
    settings = {
        "hidden_size": SIZE,
        "num_hidden_layers": DEPTH,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "conv_dim": (32,) * 7,
        "num_conv_pos_embeddings": 16,
        "num_conv_pos_embedding_groups": 4,
        "do_stable_layer_norm": large,
        "feat_extract_norm": "layer" if large else "group",
        "conv_bias": large,
    }
    torch.manual_seed(seed)
    model = getattr(transformers, f"{name}Model")(getattr(transformers, f"{name}Config")(**settings, **change)).eval()
    model.save_pretrained(folder)
    sound = {"sampling_rate": 16000, "do_normalize": True, "feature_extractor_type": "Wav2Vec2FeatureExtractor"}
    (folder / "preprocessor_config.json").write_text(json.dumps(sound), encoding="utf-8")
    return model
