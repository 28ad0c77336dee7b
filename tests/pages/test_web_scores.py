"""The scores of the page, in node, against Python: what a lattice says, and how well phones were said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import speechctc
from speechctc.audio import sound_file
from speechctc.core.bundled import MODELS
from speechctc.core.errors import InputError
from speechctc.ctc.alternatives import alternatives
from speechctc.inference.alignment import AlignOptions
from speechctc.inference.goodness import RANKS, Goodness, Usual
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.transcript import parse_phones
from speechctc.model.checkpoint import fill_checkpoint
from speechctc.stages.export import about_model, export
from tests.pages.node import run_node
from tests.pages.test_web_modules import LOADED, PHONES, babble, random_model

SCORED = """
const samples = read("samples", Float32Array), seconds = samples.length / model.rate;
return [...model.scored(blocks(samples, 30000), () => seconds, given.phones)].flat();
"""


def scored(folder: Path, recogniser: Recogniser, samples: Any, phones: list[str]) -> list[dict[str, Any]]:
    """Return the phones of a transcript with their scores, by the page's modules."""
    samples.astype(np.float32).tofile(folder / "samples")
    given = {"about": about_model(recogniser), "lm": False, "phones": phones}
    return list(run_node(folder, {"model": "Model"}, LOADED + SCORED, given))


def assert_scores_alike(recogniser: Recogniser, samples: Any, phones: list[str], found: list[dict[str, Any]]) -> None:
    """Check scores and what was said instead to a thousandth, and times."""
    options = AlignOptions(judge=recogniser.goodness.scores)
    items, rate = parse_phones(phones, recogniser.phones), recogniser.config.features.sample_rate
    expected = recogniser.place(samples, items, rate, options=options)
    assert [each["phone"] for each in found] == [each.phone for each in expected.segments] == phones
    for ours, theirs in zip(found, expected.segments, strict=True):
        assert (ours["start"], ours["end"]) == pytest.approx((theirs.start, theirs.end), abs=1e-4)
        assert (ours["goodness"] is None) == (theirs.goodness is None)
        if theirs.goodness and ours["goodness"]:
            assert ours["goodness"]["score"] == pytest.approx(theirs.goodness.score, abs=1e-3)
            assert ours["goodness"]["probability"] == pytest.approx(theirs.goodness.probability, abs=1e-3)
            said = {text: share for text, share in theirs.goodness.said_instead}
            assert {text: pytest.approx(share, abs=1e-3) for text, share in ours["goodness"]["said"]} == said


def taught(kind: str, rng: np.random.Generator) -> Goodness:
    """Return what is usual in right speech of random phones: nothing, or learned by format 1 or 2."""
    own = Goodness.untaught(PHONES)
    expected = own.expected * rng.uniform(0.2, 5, own.expected.shape)
    quantiles = np.sort(rng.normal(0, 8, (len(PHONES) + 1, len(RANKS))), axis=1)
    own = replace(own, expected=expected / expected.sum(axis=1, keepdims=True))
    if kind == "former":
        return replace(own, former=(quantiles[0], 1.7))
    if kind == "usual":
        seconds = rng.normal(-2.5, 0.5, len(PHONES) + 1)
        return replace(own, usual=Usual(quantiles, seconds, np.array([0.8, 1.9]), {"": ("b",)}))
    return own


@pytest.mark.parametrize("kind", ["untaught", "former", "usual"])
@pytest.mark.parametrize(("seconds", "count"), [(3, 9), (12, 140), (1, 1)])
def test_scores_are_those_of_python(kind: str, seconds: int, count: int, tmp_path: Path) -> None:
    """Of a long recording, too, whose frames are centred otherwise, and whose lattice is computed in pieces."""
    rng = np.random.default_rng(seconds)
    recogniser = random_model(tmp_path / "model", model={"time_stride": 2}, features={"cmn_window_ms": [2000, 1500]})
    recogniser.goodness = taught(kind, rng)
    samples = babble(rng, seconds * 16000)
    phones = [PHONES[k] for k in rng.integers(len(PHONES), size=count)]
    assert_scores_alike(recogniser, samples, phones, scored(tmp_path / "model", recogniser, samples, phones))


@pytest.mark.parametrize("labels", [[1], [1, 1], [2, 1, 2], [1, 2, 2, 3, 1], [3] * 4])
def test_a_lattice_says_what_that_of_python_says(labels: list[int], tmp_path: Path) -> None:
    rng = np.random.default_rng(len(labels))
    logits = rng.normal(0, 2, (12, 4))
    rows = (logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)).astype(np.float32)
    rows.tofile(tmp_path / "rows")
    body = """
    const finite = (row) => Array.from(row, (each) => Math.max(each, -1e9));
    return ratios(read("rows", Float32Array), 4, given).map(finite);
    """
    found = np.array(run_node(tmp_path, {"scores": "ratios"}, body, labels))
    expected = alternatives(rows, np.array(labels))
    assert expected is not None
    changed = expected.substituted.copy()
    changed[:, 0] = expected.deleted
    np.testing.assert_allclose(found[:, :4], np.maximum(changed - expected.log_likelihood, -1e9), atol=1e-6)
    inserted = np.maximum(expected.inserted - expected.log_likelihood, -1e9)
    np.testing.assert_allclose(found[:, 4:8], inserted[1:], atol=1e-6)
    np.testing.assert_allclose(found[0, 8:], inserted[0], atol=1e-6)


def test_too_many_phones_are_told(tmp_path: Path) -> None:
    recogniser = random_model(tmp_path / "model")
    (tmp_path / "model/samples").write_bytes(babble(np.random.default_rng(1), 1600).tobytes())
    body = """
    const sound = blocks(read("samples", Float32Array), 800);
    try { return [...model.scored(sound, () => 0.1, given.phones)]; } catch (error) { return error.message; }
    """
    given = {"about": about_model(recogniser), "lm": False, "phones": ["a"] * 20}
    said = run_node(tmp_path / "model", {"model": "Model"}, LOADED + body, given)
    assert said == "the recording is too short for 20 phones."


@pytest.mark.shared
@pytest.mark.slow
def test_real_speech_is_scored_as_by_the_command(shared_data: Path, tmp_path: Path) -> None:
    """By the bundled `ipa`, whose own net scores, and without its boundary model, which a page does not have."""
    recogniser = speechctc.load("ipa", "cpu")
    recogniser.boundaries = None
    fill_checkpoint(tmp_path, replace(recogniser.checkpoint, state={}))
    for word in sorted((shared_data / "voxangeles").glob("*/*.ogg"))[::180]:
        rate = recogniser.config.features.sample_rate
        samples, _ = sound_file.read(word, rate)
        phones = list(recogniser.decode(samples, rate).phones) or ["a"]
        phones[0] = "m"  # not what was said
        assert_scores_alike(recogniser, samples, phones, scored(tmp_path, recogniser, samples, phones))


@pytest.mark.shared
@pytest.mark.slow
def test_english_is_scored_by_the_net_that_heard_natives_only(shared_data: Path, tmp_path: Path) -> None:
    """Exported as a model of its own, it scores as beside the model that recognises, in Python and in a page."""
    export(MODELS["english"].folder, tmp_path / "model", scores=True)
    alone, whole = speechctc.load(tmp_path / "model", "cpu"), speechctc.load("english", "cpu")
    assert whole.judge and alone.judge is None and alone.phones == whole.phones
    with pytest.raises(InputError, match="the model's own net scores its phones; leave out --scores"):
        export(tmp_path / "model", tmp_path / "again", scores=True)
    rate, differences = alone.config.features.sample_rate, list[float]()
    for path in sorted((shared_data / "english/dev/audio").glob("ls*/*-000.ogg"))[:2]:
        samples, _ = sound_file.read(path, rate)
        phones = list(whole.decode(samples, rate).phones)
        by = [
            each.place(
                samples, parse_phones(phones, each.phones), rate, options=AlignOptions(judge=each.goodness.scores)
            )
            for each in (alone, whole)
        ]
        pairs = zip(*(each.segments for each in by), strict=True)
        differences += [abs(a.goodness.score - b.goodness.score) for a, b in pairs if a.goodness and b.goodness]
        without = speechctc.load(tmp_path / "model", "cpu")
        without.boundaries = None
        assert_scores_alike(without, samples, phones, scored(tmp_path / "model", without, samples, phones))
    assert len(differences) > 100 and np.median(differences) < 0.002 and np.quantile(differences, 0.95) < 0.05
