"""Another net than the model's own scores phones: `english` has one that learned from natives only."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import speechctc
from speechctc.core.bundled import MODELS
from speechctc.core.errors import InputError
from speechctc.inference.alignment import AlignOptions
from speechctc.inference.placement import Posteriors
from speechctc.inference.recogniser import JUDGE_FILE, Recogniser, load_judge
from speechctc.inference.segmenter import PhoneScore
from speechctc.inference.streaming import Forward
from speechctc.inference.transcript import Phrase, phone_units
from speechctc.model.numpy_net import log_softmax
from speechctc.stages.export import export

SOUND = np.random.default_rng(0).normal(0, 0.1, 32000).astype(np.float32)
ITEMS = phone_units("s ah n".split())


def judged(recogniser: Recogniser, **arguments: Any) -> list[np.ndarray[Any, Any]]:
    """Return the posteriors that a judge is given."""
    seen: list[np.ndarray[Any, Any]] = []

    def judge(placed: Any, posteriors: Posteriors, segments: Any, to_model: Any) -> list[PhoneScore | None]:
        seen.append(posteriors.read(0, posteriors.frames).copy())
        return [None] * len(placed.visits)

    recogniser.place(SOUND, ITEMS, 16000, options=AlignOptions(judge=judge), **arguments)
    return seen


def test_phones_are_placed_by_the_model_and_scored_by_its_judge() -> None:
    english = speechctc.load("english", "cpu")
    assert english.judge is not None
    net = Forward(load_judge(english.judge, english.inventory))
    whole = log_softmax(np.concatenate(list(net.in_blocks([SOUND], local=True))))
    np.testing.assert_allclose(judged(english)[0], whole, atol=1e-4)
    own = log_softmax(np.concatenate(list(english.forward.in_blocks([SOUND], local=True))))
    assert np.abs(own - whole).max() > 1
    np.testing.assert_allclose(judged(english.replaced(judge=None))[0], own, atol=1e-4)
    late = judged(english, phrases=[Phrase(1.0, 2.0, ITEMS)])[0]
    np.testing.assert_allclose(late, whole[-len(late) :], atol=1e-4)
    assert 45 < len(late) < 55


def test_an_exported_model_keeps_its_judge_and_one_of_other_phones_is_refused(tmp_path: Path) -> None:
    export(MODELS["english"].folder, tmp_path / "out")
    assert (tmp_path / "out" / JUDGE_FILE).read_bytes() == (MODELS["english"].folder / JUDGE_FILE).read_bytes()
    english = speechctc.load(tmp_path / "out", "cpu")
    assert english.judge == tmp_path / "out" / JUDGE_FILE
    other = replace(english.inventory, phones=english.phones[:-1])
    shutil.copy(english.judge, tmp_path / JUDGE_FILE)
    with pytest.raises(InputError, match="not a net that scores phones of this model"):
        load_judge(tmp_path / JUDGE_FILE, other)
    (tmp_path / JUDGE_FILE).write_bytes(b"no tensors")
    with pytest.raises(InputError, match="not a net that scores"):
        load_judge(tmp_path / JUDGE_FILE, english.inventory)
