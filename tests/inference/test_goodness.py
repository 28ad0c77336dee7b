"""How well phones were said: usual values in right speech, scores, pieces of long recordings, another net as judge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import ctc_loss as of_torch

import speechctc
from speechctc.core.bundled import MODELS
from speechctc.core.errors import InputError
from speechctc.core.tensor_file import load_weights, save_tensors
from speechctc.inference import goodness
from speechctc.inference.alignment import AlignOptions
from speechctc.inference.contrasts import Contrast
from speechctc.inference.goodness import Evidence, Goodness, Spoken, against_others, evidence
from speechctc.inference.placement import Placement, Posteriors, place
from speechctc.inference.recogniser import JUDGE_FILE, Recogniser, load_judge
from speechctc.inference.segmenter import PhoneScore, Segment
from speechctc.inference.streaming import Forward
from speechctc.inference.transcript import AnyStretch, Phrase, Unit, phone_units
from speechctc.lm.search import log_softmax
from speechctc.model.checkpoint import read_checkpoint
from speechctc.stages.export import export

PHONES = ("a", "b", "c", "d")
OWN = np.arange(5)
OPENED = ExitStack()


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Delete the temporary files of posteriors after a test."""
    with OPENED:
        yield


def spoken(labels: list[int], seed: int, sure: float = 5.0, frames: int = 4) -> Posteriors:
    """Return posteriors in which these classes sound: some frames of each, and blanks between."""
    generator = np.random.default_rng(seed)
    path = [each for label in labels for each in [label] * (frames // 2) + [0] * (frames - frames // 2)]
    logits = generator.normal(size=(len(path), len(PHONES) + 1))
    logits[np.arange(len(path)), path] += sure
    rows = Posteriors(len(PHONES) + 1)
    OPENED.callback(rows.__exit__, None, None, None)
    rows.append((logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)).astype(np.float32))
    return rows


def encode(phones: object) -> list[int]:
    """Return the classes of phones."""
    return [PHONES.index(phone) + 1 for phone in phones]  # type: ignore[attr-defined]


def seen_in(posteriors: Posteriors, labels: list[int]) -> Evidence:
    """Return what the lattice says about these labels."""
    placed = place(phone_units([PHONES[k - 1] for k in labels]), encode, posteriors, 0.02)
    return evidence(placed, posteriors, in_time(placed), OWN, PHONES)[1]


def in_time(placed: Placement) -> list[Segment]:
    """Return the phones of a placement, frames of 20 ms."""
    classes = [int(placed.classes[visit.first]) for visit in placed.visits]
    times = [(0.02 * visit.first, 0.02 * visit.end) for visit in placed.visits]
    return [Segment(PHONES[k - 1], *time, 1.0) for k, time in zip(classes, times, strict=True)]


def corpus(count: int, seed: int, omit: float = 0.0) -> list[Evidence]:
    """Return evidence of utterances in which ``b`` is often left out."""
    generator = np.random.default_rng(seed)
    found = []
    for number in range(count):
        labels = generator.integers(1, 5, 12).tolist()
        said = [k for k in labels if k != 2 or generator.random() >= omit]
        said = said if len(said) > 3 else labels
        # room for those left out: the lattice needs a frame for each
        found.append(seen_in(spoken(said, 100 * seed + number, sure=3.0, frames=6), labels))
    return found


def taught(seen: list[Evidence], language: str = "") -> Goodness:
    """Return what is usual in the speech of five speakers."""
    return Goodness.learn(PHONES, [Spoken(each, str(k % 5), language) for k, each in enumerate(seen)])


def test_what_is_usual_is_learned_without_labels() -> None:
    learned = taught(corpus(60, 1, omit=0.4))
    omitted = learned.expected[1:, 0]
    assert 0.15 < omitted[1] < 0.45 and omitted[[0, 2, 3]].max() < 0.03
    np.testing.assert_allclose(learned.expected.sum(axis=1), 1.0)
    with pytest.raises(InputError, match="no phones to learn from"):
        Goodness.learn(PHONES, [])


def test_a_phone_that_was_never_met_is_said_as_itself() -> None:
    labels = [1, 2, 3, 1, 3, 2]  # never 4
    learned = taught([seen_in(spoken(labels, k, sure=3.0, frames=6), labels) for k in range(20)])
    assert learned.expected[4].argmax() == 4 and learned.expected[4, 4] > 0.5


def test_scores_say_which_share_of_a_phones_right_realisations_is_as_low() -> None:
    learned, fresh = taught(corpus(80, 1)), corpus(80, 2)
    scores, labels = np.concatenate([learned.score(each) for each in fresh]), np.concatenate([e.labels for e in fresh])
    for share in (0.05, 0.25, 0.5, 0.75):
        for kept in (labels > 0, labels == 1, labels == 4):
            assert abs(float(np.mean(scores[kept] ** 2 <= share)) - share) < 0.08
    assert learned.usual is not None and (np.diff(learned.usual.quantiles) > 0).all()
    means = [float(learned.score(each).mean()) for each in fresh]
    low, high = learned.usual.persons
    assert low < np.mean(means) < high and high - low < 0.5


def test_what_a_longer_phone_gains_is_taken_back_by_half() -> None:
    """Long phones have two nats more in this speech; a phone of the usual time keeps its odds."""
    seen = [each._replace(seconds=np.where(np.arange(12) % 2, 0.2, 0.1)) for each in corpus(60, 3)]
    gain = np.where(np.arange(12) % 2, 1.0, -1.0)
    classes = np.arange(15) % 5
    for each in seen:
        own = (classes == each.labels[:, None]) | (classes == 0) | (np.arange(15) >= 5)
        each.ratios[:] -= np.where(own, 0.0, gain[:, None])
    learned = taught(seen)
    assert learned.usual is not None
    np.testing.assert_allclose(learned.usual.gains, 2 / np.log(2), rtol=0.2)
    taken = against_others(seen[0]) - learned.fit(seen[0])
    np.testing.assert_allclose(taken, gain / 2, atol=0.2)


def test_a_contrast_is_the_odds_of_the_two_transcripts() -> None:
    """By the loss of either, as torch's own CTC computes it."""
    labels, said = [1, 2, 3, 1], [1, 4, 3, 1]
    posteriors = spoken(said, 3, sure=1.0, frames=6)
    learned = taught([seen_in(spoken(labels, k, sure=3.0), labels) for k in range(8)])
    contrasted = replace(learned, contrasts=(Contrast("d", "b"), Contrast("a", "c")))
    seen = seen_in(posteriors, labels)
    found = [each.contrasts for each in contrasted.judge(seen)]
    rows = torch.from_numpy(np.concatenate(list(posteriors.blocks()))).double()[:, None]
    lengths = torch.tensor([len(rows)]), torch.tensor([4])
    right, wrong = (float(of_torch(rows, torch.tensor([each]), *lengths, reduction="sum")) for each in (labels, said))
    ((other, probability),) = found[1]
    assert other == "d" and probability == pytest.approx(1 / (1 + np.exp(right - wrong)))
    assert [[other for other, _ in each] for each in found] == [["c"], ["d"], ["a"], ["c"]]
    assert all(each.contrasts == () for each in learned.judge(seen))


@pytest.mark.parametrize("language", ["", "xx"])
def test_a_phone_that_right_speech_fails_is_not_judged(tmp_path: Path, language: str) -> None:
    """All who speak the language say c where b is written; nobody is blamed for it."""
    said = [1, 3, 4, 1, 3, 4]
    learned = taught([seen_in(spoken(said, k, sure=4.0), [1, 2, 4, 1, 2, 4]) for k in range(8)], language)
    learned.save(tmp_path)
    kept = Goodness.load(tmp_path, PHONES)
    posteriors = spoken(said, 99, sure=4.0)
    placed = place(phone_units([PHONES[k - 1] for k in (1, 2, 4, 1, 2, 4)]), encode, posteriors, 0.02)
    scores = replace(kept, language=language and "xx-yy").scores(placed, posteriors, in_time(placed), OWN)
    assert [each is None for each in scores] == [False, True, False] * 2
    assert "b (any)" in kept.about([language]) and "Of 100 people" in kept.about([language])


def test_a_language_that_natives_fail_is_not_judged_and_one_unheard_is_named(tmp_path: Path) -> None:
    learned = taught(corpus(8, 1), "xx")
    assert learned.usual is not None and 0.0 < learned.usual.languages["xx"] < 0.1
    shares = {"th": 0.33, "fr": 0.06, "xx": 0.04}
    replace(learned, usual=learned.usual._replace(unjudged={}, languages=shares)).save(tmp_path)
    kept = Goodness.load(tmp_path, PHONES)
    labels = np.array([1, 2, 3, 4])
    about = kept.about([])
    said = {"th": "too many are below 0.2: 33 (th)", "fr": "more of 100 sounds of right speech: 6 (fr)"}
    said |= {"zz": "no right speech was heard of: zz"}
    for language in ("th", "fr", "xx", "xx-yy", "zz", ""):
        of = replace(kept, language=language)
        assert of.is_judged(labels).tolist() == [language != "th"] * 4
        assert of.plain()["unjudged"] == (sorted(PHONES) if language == "th" else [])
        assert of.about([language]).endswith(said.get(language, about))


@pytest.mark.parametrize(
    ("said", "written", "at", "text"),
    [
        ([1, 3, 4, 1], [1, 2, 4, 1], 1, "c"),
        ([1, 4, 1], [1, 2, 4, 1], 1, "-"),
        ([1, 2, 3, 4, 1], [1, 2, 4, 1], 1, "b c"),
        ([3, 1, 2, 4], [1, 2, 4], 0, "c a"),
    ],
)
def test_what_was_said_instead(said: list[int], written: list[int], at: int, text: str) -> None:
    scores = Goodness.untaught(PHONES).judge(seen_in(spoken(said, 0, sure=6.0), written))
    assert scores[at].said_instead[0][0] == text and scores[at].instead.startswith(text)
    assert min(range(len(scores)), key=lambda k: scores[k].score) == at
    total = scores[at].probability + sum(share for _, share in scores[at].said_instead)
    assert scores[at].probability < 0.2 and 0.9 < total <= 1.0 + 1e-9
    others = [each for k, each in enumerate(scores) if abs(k - at) > (" " in text)]
    assert all(each.instead == "" and each.probability > 0.5 for each in others)


def test_pieces_of_a_long_transcript_score_as_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.random.default_rng(5).integers(1, 5, 150).tolist()
    posteriors = spoken(labels, 5, sure=2.0)
    pieces = seen_in(posteriors, labels)
    monkeypatch.setattr(goodness, "PIECE", 1000)
    whole = seen_in(posteriors, labels)
    known = Goodness.untaught(PHONES)
    assert len(pieces.labels) == len(whole.labels) == 150
    np.testing.assert_allclose(known.odds(pieces), known.odds(whole), atol=1e-5)


def test_stretches_and_silences_part_the_lattice() -> None:
    posteriors = spoken([1, 2, 4, 4, 3, 1], 2)
    items = (*phone_units(["a", "b"]), AnyStretch(), *phone_units(["c", "a"]))
    placed = place(items, encode, posteriors, 0.02)
    scores = Goodness.untaught(PHONES).scores(placed, posteriors, in_time(placed), OWN)
    assert len(scores) == 4 and all(each and each.probability > 0.5 for each in scores)
    words = (Unit("one", (("a", "b"),)), Unit("two", (("c", "a"),)))
    placed = place(words, encode, posteriors, 0.02, silences=[4])
    scores = Goodness.untaught(PHONES).scores(placed, posteriors, in_time(placed), OWN)
    assert [visit.unit for visit in placed.visits] == [0, 0, -1, -1, 1, 1]
    assert [each is None for each in scores] == [False, False, True, True, False, False]


def test_it_is_kept_beside_the_weights(tmp_path: Path) -> None:
    assert Goodness.load(tmp_path, PHONES).usual is None
    learned, fresh = taught(corpus(40, 3, omit=0.3)), corpus(10, 4)
    learned.save(tmp_path)
    kept = Goodness.load(tmp_path, PHONES)
    for each in fresh:
        np.testing.assert_allclose(kept.odds(each), learned.odds(each), atol=0.1)
        np.testing.assert_allclose(kept.score(each), learned.score(each), atol=0.001)


@pytest.mark.parametrize("model", MODELS)
def test_bundled_models_know_right_speech(model: str) -> None:
    inventory = read_checkpoint(MODELS[model].folder).inventory
    usual = Goodness.load(MODELS[model].folder, inventory.phones)
    plain = np.array(inventory.encode("p t k b d m n s l f v z".split()))
    assert (usual.expected[plain].argmax(axis=1) == plain).all() and usual.is_judged(plain).all()


@pytest.mark.parametrize("damage", ["?", {"format": 1}, {"phones": {}}, {"gains": [0]}, {"gains": [float("nan")] * 2}])
def test_a_damaged_file_is_named(tmp_path: Path, damage: Any) -> None:
    taught(corpus(10, 3)).save(tmp_path)
    values = json.loads((tmp_path / goodness.FILE).read_text())
    (tmp_path / goodness.FILE).write_text(damage if damage == "?" else json.dumps(values | damage))
    with pytest.raises(InputError, match=f"{goodness.FILE}.*: "):
        Goodness.load(tmp_path, PHONES)


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
    net = Forward(load_judge(english.judge, english.checkpoint))
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
    english = speechctc.load(tmp_path / "out", "cpu")
    assert english.judge == tmp_path / "out" / JUDGE_FILE
    assert english.judge.read_bytes() == (MODELS["english"].folder / JUDGE_FILE).read_bytes()
    fewer = replace(english.inventory, phones=english.phones[:-1])
    (tmp_path / "damaged").write_bytes(b"no tensors")
    layer = "dense.8.conv.bias"
    save_tensors(tmp_path / "earlier", {layer: load_weights(english.judge)[layer]})  # a judge had some layers once
    others = [(tmp_path / name, english.checkpoint) for name in ("damaged", "earlier")]
    for file, model in [(english.judge, replace(english.checkpoint, inventory=fewer)), *others]:
        with pytest.raises(InputError, match="not a net that scores phones of this model"):
            load_judge(file, model)
