"""One set of golden vectors for the three implementations: NumPy, torch, and the JavaScript of the page.

The vectors are computed here, once for each config, in float64: the filter bank by torchaudio, the sliding mean by its
definition, the net by torch in double precision, the gate by its definition, the search by one that keeps far more
sequences. A change of one implementation alone is seen in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from speechctc.config.schema import Config
from speechctc.features import filterbank
from speechctc.features.activity import ActivityGate
from speechctc.features.extractor import extractor, sliding_cmn
from speechctc.inference.recogniser import Recogniser
from speechctc.lm.model import PhoneLM
from speechctc.lm.ngram import START
from speechctc.lm.search import best_labels, choose_search, collapse, log_softmax
from speechctc.model.checkpoint import fill_checkpoint
from speechctc.model.net import TorchNet, build_net
from speechctc.model.numpy_net import NumpyNet
from speechctc.phones.inventory import SILENCES
from speechctc.stages.export import about_model
from tests.pages.node import floats, run_node
from tests.pages.test_web_modules import LOADED, babble, random_model

Array = NDArray[Any]
CONFIGS: dict[str, dict[str, Any]] = {
    "maxout": {"model": {"time_stride": 2}, "features": {"cmn_window_ms": [600, 400]}, "lm_order": 3},
    "context": {
        "model": {"dense": [20, 20, 12], "context": 5, "context_span": 81, "residual": True, "norm": "layer"},
        "features": {"cmn_window_ms": [3000, 3000]},
    },
    "prelu": {"model": {"activation": "prelu", "dense_span": [1, 3]}, "features": {"deltas": 1, "energy": False}},
}
MAX_ERROR = {"static": 2e-3, "centred": 2e-3, "logits": 5e-3, "gated": 5e-3}
BEAM = 64  # sequences that the search of the vectors keeps


class Golden(NamedTuple):
    """What a recording becomes on its way: static features, after the sliding mean, logits, those gated, phones."""

    static: Array
    centred: Array
    logits: Array
    gated: Array
    phones: list[int]


def golden(recogniser: Recogniser, samples: Array) -> Golden:
    """Return the vectors of a recording."""
    kaldi = pytest.importorskip("torchaudio.compliance.kaldi")
    config = recogniser.config.features
    bank = kaldi.fbank(
        32768 * torch.from_numpy(samples).double()[None],
        sample_frequency=config.sample_rate,
        num_mel_bins=config.mels,
        frame_length=config.window_ms,
        frame_shift=config.shift_ms,
        low_freq=config.low_hz,
        high_freq=config.high_hz,
        preemphasis_coefficient=config.preemphasis,
        window_type=config.window,
        use_energy=config.energy,
        energy_floor=1.0,
        dither=0.0,
    ).numpy()
    static = np.roll(bank, -1, axis=1) if config.energy else bank  # here the energy comes last
    centred = static - _means(static, config) if config.cmn_window_ms else static
    checkpoint = recogniser.checkpoint
    net = build_net(recogniser.config, recogniser.inventory)
    net.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in checkpoint.weights.items()})
    net = net.double().eval()
    rows, frames = torch.from_numpy(centred)[None], torch.tensor([len(centred)])
    mean, std = (torch.from_numpy(np.array(each)).double() for each in (checkpoint.mean, checkpoint.std))
    with torch.no_grad():
        logits = net(filterbank.net_input_after_cmn(rows, frames, mean, std, config), frames)[0]
    gated = logits[0].numpy().copy()
    silent = ~_active(static, recogniser.config)[:: recogniser.config.model.time_stride]
    for k, phone in enumerate(recogniser.phones, start=1):
        if phone not in SILENCES:
            gated[silent, k] = np.minimum(gated[silent, k], gated[silent, 0] - 30)
    rows = gated - np.logaddexp.reduce(gated, axis=1, keepdims=True)
    return Golden(static, centred, logits[0].numpy(), gated, _best(rows, checkpoint.lm, recogniser.config.decode))


def _means(static: Array, config: Any) -> Array:
    """Return the sliding mean: of frames by their power in the second around each, as FeatureConfig says."""
    before, after = config.cmn_frames
    near = config.power_window_frames
    loudness = np.maximum(static.mean(axis=1), 0)
    power = np.array([np.exp(loudness[max(t - near, 0) : t + near + 1]).mean() for t in range(len(static))])
    power = np.where(loudness > 0, power, 1.0)
    inside = [slice(max(min(t - before, len(static) - 1), 0), t + after + 1) for t in range(len(static))]
    return np.array([np.average(static[each], axis=0, weights=power[each]) for each in inside])


def _active(static: Array, config: Config) -> Array:
    """Return in which frames some fifth of the bands changes by more than the threshold within 1.5 s; see the gate."""
    step, bands = config.features.shift_ms / 1000, np.array_split(static[:, : config.features.mels].T, 5)
    levels = np.maximum(np.array([band.mean(axis=0) for band in bands]), 5) * 10 / np.log(10)
    half, behind, ahead = round(0.09 / step) // 2, round(1 / step), round(0.5 / step)
    for smooth in (np.median, np.mean):  # clicks are removed, then what is left of noise
        padded = np.pad(levels, ((0, 0), (half, half)), "edge")
        if smooth is np.mean:  # the medians beyond the ends are of what is there twice as far
            padded[:, :half], padded[:, -half:] = levels[:, :1], levels[:, -1:]
        windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1, axis=1)
        levels = smooth(windows, axis=2)
    last = max(levels.shape[1] - behind - ahead - 1, 0)
    starts = np.clip(np.arange(levels.shape[1]) - behind, 0, last)
    changes = [np.ptp(levels[:, first : first + behind + ahead + 1], axis=1).max() for first in starts]
    return np.array(changes) > config.decode.min_modulation_db


def _best(rows: Array, lm: PhoneLM | None, settings: Any) -> list[int]:
    """Return what posteriors and an n-gram say together, by a prefix search; without one, the best path."""
    if lm is None:
        return collapse(rows.argmax(axis=1).tolist())
    # Log sums of the paths that end in a blank and in a phone; the state of the n-gram, and what it says so far.
    kept: dict[tuple[int, ...], Array] = {(): np.array([0.0, -np.inf])}
    known: dict[tuple[int, ...], tuple[int, float]] = {(): (START, 0.0)}
    for row in rows:
        found: dict[tuple[int, ...], Array] = {}
        for phones, (blank, same) in kept.items():
            here = found.setdefault(phones, np.full(2, -np.inf))
            here[0] = np.logaddexp(here[0], np.logaddexp(blank, same) + row[0])
            for k in range(1, len(row)):
                again = bool(phones) and phones[-1] == k
                if again:
                    here[1] = np.logaddexp(here[1], same + row[k])
                longer = found.setdefault((*phones, k), np.full(2, -np.inf))
                longer[1] = np.logaddexp(longer[1], (blank if again else np.logaddexp(blank, same)) + row[k])
                state, said = known[phones]
                said += settings.lm_weight * lm.log_probs[state, k] + settings.lm_bonus
                known[(*phones, k)] = int(lm.next_state[state, k]), said
        ranked = sorted(found, key=lambda each: -np.logaddexp(*found[each]) - known[each][1])
        kept = {phones: found[phones] for phones in ranked[:BEAM]}
    ends = {phones: settings.lm_weight * lm.log_probs[known[phones][0], 0] for phones in kept}
    total = {each: float(np.logaddexp(*kept[each])) + known[each][1] + ends[each] for each in kept}
    return list(max(total.items(), key=lambda each: each[1])[0])


def by_numpy(recogniser: Recogniser, samples: Array, folder: Path) -> Golden:
    config = recogniser.config.features
    static = extractor(config).static(samples)
    centred = sliding_cmn(static, config)
    return _decided(recogniser, static, centred, NumpyNet(recogniser.checkpoint)(centred))


def by_torch(recogniser: Recogniser, samples: Array, folder: Path) -> Golden:
    config = recogniser.config.features
    static = filterbank.static_features(torch.from_numpy(samples), config)
    centred = filterbank.sliding_cmn_one(static, config).numpy()
    return _decided(recogniser, static.numpy(), centred, TorchNet(recogniser.checkpoint, "cpu")(centred))


def _decided(recogniser: Recogniser, static: Array, centred: Array, logits: Array) -> Golden:
    """Return the vectors with what gate and search make of logits: they are the same after NumPy and after torch."""
    gated = ActivityGate(recogniser.config, recogniser.phones).whole(static, logits)
    search = choose_search(recogniser.checkpoint.lm, None, recogniser.config, len(recogniser.phones) + 1)
    return Golden(static, centred, logits, gated, best_labels(search, log_softmax(gated)))


def by_javascript(recogniser: Recogniser, samples: Array, folder: Path) -> Golden:
    samples.tofile(folder / "samples")
    body = """
    const { features } = model.config, { dims } = model.bank;
    const rows = model.bank.static(read("samples", Float32Array)), centred = slidingCmn(rows, dims, features);
    write("static", rows);
    write("centred", centred);
    const logits = model.net.forward(centred), gate = new Gate(model.config, model.spoken), { classes } = model.net;
    write("logits", logits);
    function* watched() { for (const _ of gate.watch([rows])); yield logits; }
    const gated = joined(...gate.apply(watched(), classes));
    write("gated", gated);
    const search = chooseSearch(model.config, model.ngram, classes);
    const path = [...search.push(logSoftmax(gated, classes)).path, ...search.finish().path];
    return path.filter((label, t) => label && label !== path[t - 1]);
    """
    given = {"about": about_model(recogniser), "lm": recogniser.checkpoint.lm is not None}
    modules = {"model": "Model, logSoftmax", "features": "slidingCmn", "activity": "Gate", "search": "chooseSearch"}
    phones = run_node(folder, modules | {"rows": "joined"}, LOADED + body, given)
    config, classes = recogniser.config.features, len(recogniser.phones) + 1
    widths = {"static": config.static_dims, "centred": config.static_dims, "logits": classes, "gated": classes}
    return Golden(**{name: floats(folder / name).reshape(-1, width) for name, width in widths.items()}, phones=phones)


@cache
def made(name: str, folder: Path) -> tuple[Recogniser, Array, Golden]:
    """Return a model of a config, a recording, and its vectors."""
    recogniser = random_model(folder / name, **CONFIGS[name])
    rng, rate = np.random.default_rng(11), recogniser.config.features.sample_rate
    steady = 1e-3 * rng.standard_normal(4 * rate)  # nobody speaks there
    samples = np.concatenate([babble(rng, 2 * rate), steady]).astype(np.float32)
    checkpoint = recogniser.checkpoint
    logits = by_numpy(recogniser, samples, folder).logits
    # Each class is the best one now and then.
    scale, weight, bias = (
        40 / logits.std(axis=0),
        checkpoint.weights["output.weight"],
        checkpoint.weights["output.bias"],
    )
    changed = {
        "output.weight": scale[:, None, None, None] * weight,
        "output.bias": scale * (bias - logits.mean(axis=0)),
    }
    weights = {**checkpoint.weights, **{key: value.astype(np.float32) for key, value in changed.items()}}
    recogniser = recogniser.replaced(checkpoint=replace(checkpoint, weights=weights))
    fill_checkpoint(folder / name, recogniser.checkpoint)
    return recogniser, samples, golden(recogniser, samples)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.mark.parametrize("way", [by_numpy, by_torch, by_javascript])
@pytest.mark.parametrize("name", CONFIGS)
def test_each_implementation_gives_the_golden_vectors(
    name: str, way: Callable[[Recogniser, Array, Path], Golden], models: Path
) -> None:
    recogniser, samples, expected = made(name, models)
    found = way(recogniser, samples, models / name)
    assert found.phones == expected.phones and len(expected.phones) > 20
    for stage in MAX_ERROR:
        ours, theirs = getattr(found, stage), getattr(expected, stage)
        assert ours.shape == theirs.shape and np.isfinite(ours).all() and theirs.std() > 0.1
        np.testing.assert_allclose(ours, theirs, atol=MAX_ERROR[stage], rtol=1e-4, err_msg=stage)
    changed = (expected.gated != expected.logits).any(axis=1)
    assert 0.1 < changed.mean() < 0.9
