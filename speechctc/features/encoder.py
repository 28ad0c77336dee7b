"""Layers of pretrained encoders of speech: wav2vec 2.0, HuBERT, WavLM, XLS-R, MMS.

References
----------
.. [1] A. Baevski et al., "wav2vec 2.0: A framework for self-supervised learning of speech representations", 2020.
.. [2] S. Yang et al., "SUPERB: Speech processing universal performance benchmark", Interspeech 2021: the learned mean.
"""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from torch import nn

from speechctc.config.encoder import FAMILIES, EncoderConfig, EncoderFacts, find_encoder
from speechctc.core.devices import choose_device
from speechctc.core.errors import InputError, optional, with_extra

# Of float16, in which features are stored. A few values of large encoders would be infinite there.
MAX_FLOAT16 = 65504.0
EPSILON = 1e-7  # added to the variance of samples, as in the encoders' training

_loading = threading.Lock()
_loaded: dict[tuple[str, tuple[int, ...], torch.device], PretrainedEncoder] = {}


class PretrainedEncoder:
    """The first layers of an encoder, up to the highest of those wanted.

    Parameters
    ----------
    model : Module
        Of transformers: a model without a head.
    layers : tuple of int
        Those wanted, from 1.
    facts : EncoderFacts
    device : torch.device
    """

    def __init__(self, model: Any, layers: tuple[int, ...], facts: EncoderFacts, device: torch.device) -> None:
        model.adapter = None  # it comes after the last layer
        model.encoder.layers = model.encoder.layers[: max(layers)]
        self._layers, self._facts, self._device = layers, facts, device
        self._model, self._kept = model.to(device).eval(), threading.local()
        for number in {*layers}:
            model.encoder.layers[number - 1].register_forward_hook(partial(self._keep, number))

    def _keep(self, number: int, layer: nn.Module, given: Any, result: Any) -> None:
        self._kept.outputs[number] = result[0] if isinstance(result, tuple) else result

    @torch.no_grad()
    def __call__(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the layers of samples, shape = (n,), heard at once: (n_frames, layers x size), float32, on the CPU.

        The output of a layer is as it goes into the next one, before any normalisation there.
        """
        signal = torch.tensor(samples, dtype=torch.float32, device=self._device)
        if self._facts.normalise:
            signal = (signal - signal.mean()) / (signal.var(unbiased=False) + EPSILON).sqrt()
        self._kept.outputs = outputs = dict[int, torch.Tensor]()
        self._model(signal[None])
        together = torch.cat([outputs[number][0] for number in self._layers], dim=1).clamp(-MAX_FLOAT16, MAX_FLOAT16)
        return np.asarray(together.cpu().numpy())


def load(config: EncoderConfig, device: str | None = None) -> PretrainedEncoder:
    """Return the encoder of a config, whose content is checked; it stays in memory.

    Raises
    ------
    InputError
        It has moved or changed, transformers is not installed, or weights are missing.
    """
    where = torch.device(device) if device else choose_device("auto")
    key = config.sha256, config.chosen, where
    with _loading:
        if key not in _loaded:
            folder, facts = find_encoder(config)
            _loaded[key] = PretrainedEncoder(_model(folder, facts.family), config.chosen, facts, where)
        return _loaded[key]


def _model(folder: Path, family: str) -> Any:
    """Return the model in a folder; nothing is downloaded, and only safetensors are read."""
    missing = "features.kind=encoder: transformers is not installed", with_extra("encoder")
    transformers, logging = (optional(name, *missing) for name in ("transformers", "transformers.utils.logging"))
    before = logging.get_verbosity()
    logging.set_verbosity_error()  # it lists the weights of heads, which are left out
    logging.disable_progress_bar()
    try:
        kind = getattr(transformers, FAMILIES[family])
        how = {"local_files_only": True, "use_safetensors": True, "output_loading_info": True, "dtype": torch.float32}
        model, info = kind.from_pretrained(str(folder), **how)
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, SafetensorError) as error:
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{folder}: the encoder cannot be loaded ({reason})", "copy or download it again") from None
    finally:
        logging.set_verbosity(before)
    lacking = sorted(name for name in info["missing_keys"] if not name.startswith(("masked_spec_embed", "adapter.")))
    if lacking or info.get("mismatched_keys"):
        named = lacking[0] if lacking else str(info["mismatched_keys"])
        raise InputError(f"{folder}: weights of the encoder are missing, {named:.80} first", "use a whole encoder")
    return model
