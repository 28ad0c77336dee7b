"""What the page places and scores, in node, against Python: phones and words in time, and how well they were said."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import speechctc
from speechctc.audio import sound_file
from speechctc.audio.annotations import read_textgrid
from speechctc.core.bundled import MODELS
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.inference.alignment import UNLIKE, AlignOptions
from speechctc.inference.goodness import RANKS, Goodness, Usual
from speechctc.inference.placement import Posteriors, place
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.result import Recognition
from speechctc.inference.transcript import Unit, parse_phones, phone_units
from speechctc.stages.export import about_model, export, packed_words
from speechctc.stages.transcript_reader import ReadingOptions, TranscriptReader
from tests.pages.node import run_node
from tests.pages.test_web_modules import LOADED, PHONES, babble, random_model

SCORED = """
const samples = read("samples", Float32Array), seconds = samples.length / model.rate;
const dictionary = given.dictionary ? new Dictionary(given.dictionary) : null;
const words = parsed(given.text, model.phones, dictionary);
const phones = [...model.placed(blocks(samples, 30000), () => seconds, words, dictionary ? model.silent : [])].flat();
const names = words.map(({ text }) => text);
const { isUnlike } = model;
return { phones, words: names, isUnlike, grid: textgrid(phones, seconds, "", dictionary ? names : null) };
"""
MODULES = {"model": "Model", "transcript": "Dictionary, parsed", "formats": "textgrid"}


def scored(folder: Path, recogniser: Recogniser, samples: Any, text: str, dictionary: str = "") -> dict[str, Any]:
    """Return the phones of a transcript with their scores, by the page's modules; with a dictionary, of words."""
    samples.astype(np.float32).tofile(folder / "samples")
    given = {"about": about_model(recogniser), "lm": False, "text": text, "dictionary": dictionary}
    return dict(run_node(folder, MODULES, LOADED + SCORED, given))


def assert_placed_alike(expected: Recognition, found: list[dict[str, Any]]) -> None:
    """Check times, and scores and what was said instead to a thousandth."""
    assert [each["phone"] for each in found] == [each.phone for each in expected.segments]
    for ours, theirs in zip(found, expected.segments, strict=True):
        assert (ours["start"], ours["end"]) == pytest.approx((theirs.start, theirs.end), abs=1e-4)
        assert (ours["goodness"] is None) == (theirs.goodness is None)
        if theirs.goodness and ours["goodness"]:
            assert ours["goodness"]["score"] == pytest.approx(theirs.goodness.score, abs=1e-3)
            assert ours["goodness"]["probability"] == pytest.approx(theirs.goodness.probability, abs=1e-3)
            said = {text: share for text, share in theirs.goodness.said_instead}
            assert {text: pytest.approx(share, abs=1e-3) for text, share in ours["goodness"]["said"]} == said


def assert_scores_alike(recogniser: Recogniser, samples: Any, phones: list[str], folder: Path) -> None:
    """Check the phones of a transcript of phones."""
    options = AlignOptions(judge=recogniser.goodness.scores)
    items, rate = parse_phones(phones, recogniser.phones), recogniser.config.features.sample_rate
    expected = recogniser.place(samples, items, rate, options=options)
    assert list(expected.phones) == phones
    found = scored(folder, recogniser, samples, " ".join(phones))
    assert_placed_alike(expected, found["phones"])
    assert found["isUnlike"] == (UNLIKE in expected.note)


def assert_words_alike(recogniser: Recogniser, samples: Any, text: str, dictionary: Path, folder: Path) -> Recognition:
    """Check the phones and words of a transcript of words; return those of Python."""
    reader = TranscriptReader(recogniser.inventory, ReadingOptions("words", dictionary, keep=False))
    assert reader.pronouncer
    units = [Unit(word.text, word.pronunciations) for word in reader.pronouncer.read(text)]
    options = AlignOptions(silences=reader.silences, judge=recogniser.goodness.scores)
    expected = recogniser.place(samples, tuple(units), recogniser.config.features.sample_rate, options=options)
    packed = packed_words(dictionary, recogniser.inventory, Reporter(quiet=True))
    found = scored(folder, recogniser, samples, text, gzip.decompress(packed).decode())
    assert_placed_alike(expected, found["phones"])
    assert found["isUnlike"] == (UNLIKE in expected.note)
    assert found["words"] == [unit.text for unit in units] == [word.word for word in expected.words]
    (folder / "page.TextGrid").write_text(found["grid"], encoding="utf-8")
    theirs = expected.tiers()
    for tier in ("words", "phones", "confidence", "score"):
        ours = [each for each in read_textgrid(folder / "page.TextGrid", tier) if each.label]
        assert [each.label for each in ours] == [each.label for each in theirs[tier] if each.label]
        for a, b in zip(ours, (each for each in theirs[tier] if each.label), strict=True):
            assert (a.start, a.end) == pytest.approx((b.start, b.end), abs=2e-4)
    return expected


def taught(kind: str, rng: np.random.Generator) -> Goodness:
    """Return what is usual in right speech of random phones: nothing, or learned."""
    own = Goodness.untaught(PHONES)
    expected = own.expected * rng.uniform(0.2, 5, own.expected.shape)
    quantiles = np.sort(rng.normal(0, 8, (len(PHONES) + 1, len(RANKS))), axis=1)
    own = replace(own, expected=expected / expected.sum(axis=1, keepdims=True))
    if kind == "usual":
        seconds = rng.normal(-2.5, 0.5, len(PHONES) + 1)
        return replace(own, usual=Usual(quantiles, seconds, np.array([0.8, 1.9]), {"": ("b",)}))
    return own


@pytest.mark.parametrize("kind", ["untaught", "usual"])
@pytest.mark.parametrize(("seconds", "count"), [(3, 9), (12, 140), (1, 1)])
def test_scores_are_those_of_python(kind: str, seconds: int, count: int, tmp_path: Path) -> None:
    """Of a long recording, too, whose frames are centred otherwise, and whose lattice is computed in pieces."""
    rng = np.random.default_rng(seconds)
    recogniser = random_model(tmp_path / "model", model={"time_stride": 2}, features={"cmn_window_ms": [2000, 1500]})
    recogniser.goodness = taught(kind, rng)
    samples = babble(rng, seconds * 16000)
    phones = [PHONES[k] for k in rng.integers(len(PHONES), size=count)]
    assert_scores_alike(recogniser, samples, phones, tmp_path / "model")


DICTIONARY = """ba b a
ba(2) a b ɪ
bits b ɪ ts
bits(2) b ɪ
it's ɪ ts
a a
ab a b
b. b ɪ
well-a b a ts a
x'n ɪ
ab-out a b a b
ab-out(2) a ts
"""
TEXTS = (
    "Ba bits, it’s ba!",
    "“BA” – a AB well-a … bits-ba/a 'x'n' ",
    "BITS BA, AB-OUT BA",
    "ab-out (ba) bits it's a bits ba " * 6,
)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("seconds", [4, 9])
def test_words_are_placed_and_scored_as_by_python(seconds: int, text: str, tmp_path: Path) -> None:
    """By the pronunciation that fits best, with a silence between words where there is one."""
    rng = np.random.default_rng(seconds + len(text))
    recogniser = random_model(tmp_path / "model", model={"time_stride": 2}, features={"cmn_window_ms": [2000, 1500]})
    recogniser.goodness = taught("usual", rng)
    (tmp_path / "words.dict").write_text(DICTIONARY, encoding="utf-8")
    samples = babble(rng, seconds * 16000)
    result = assert_words_alike(recogniser, samples, text, tmp_path / "words.dict", tmp_path / "model")
    others = [word for word in result.words if word.variant and word.variant.number > 1]
    assert "sil" in result.phones and (others or len(result.words) < 10)


@pytest.mark.parametrize("pause", [45, 70])
def test_phones_of_a_word_that_was_said_twice_are_placed_as_by_python(pause: int, tmp_path: Path) -> None:
    """The first time its last phone is hardly heard; the second time a little better, as all of it."""
    classes = [0, 0, 1, 0, 2, 0, 3, *[0] * pause, 3, 0]
    rows = np.full((len(classes), 4), -20.0, np.float32)
    rows[range(len(rows)), classes] = 0
    rows[6, [0, 3]], rows[7 + pause, [0, 3]] = (-0.05, -3.0), (-0.7, -0.7)
    with Posteriors(4) as posteriors:
        posteriors.append(rows)
        visits = place(
            phone_units("abc"), lambda each: [" abc".index(phone) for phone in each], posteriors, 0.02
        ).visits
    body = """
    const words = parsed("a b c", ["a", "b", "c"]);
    return placed(Float32Array.from(given), 4, words).visits.map(({ first }) => first);
    """
    modules = {"placement": "placed", "transcript": "parsed"}
    found = run_node(tmp_path, modules, body, rows.ravel().tolist())
    assert found == [visit.first for visit in visits] == [2, 4, 6]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (" ", "write the words first."),
        ("ba zap, zip ZAP", "the dictionary in this page lacks ZAP, zap, zip."),
        ("ba * ba", "this page has no * and no |; speechctc align has."),
    ],
)
def test_words_that_cannot_be_read_are_told(text: str, said: str, tmp_path: Path) -> None:
    body = """
    const dictionary = new Dictionary("ba\\tb a");
    try { return parsed(given, ["a", "b"], dictionary); } catch (error) { return error.message; }
    """
    assert run_node(tmp_path, {"transcript": "Dictionary, parsed"}, body, text) == said


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
        assert_scores_alike(without, samples, phones, tmp_path / "model")
    assert len(differences) > 100 and np.median(differences) < 0.002 and np.quantile(differences, 0.95) < 0.05
