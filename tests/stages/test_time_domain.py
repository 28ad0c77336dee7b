"""TextGrids that say that they begin elsewhere than at 0, as Praat's *Extract part, preserve times* makes them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import parselmouth
import pytest
import soundfile

from speechctc.audio.annotations import Interval, read_tiers, textgrid_text
from speechctc.config.schema import CorpusConfig
from speechctc.core.progress import Reporter
from speechctc.corpora.tasks import find_tasks
from speechctc.corpora.tiers import read_textgrids
from speechctc.corpora.transcripts import Transcript, TranscriptOptions
from speechctc.metrics.boundary_errors import score_boundaries
from speechctc.stages.measure import _labels
from speechctc.studio.document import Document

RATE = 16000
LABELS = [Interval(0.3, 0.4, "m a"), Interval(0.4, 0.6, "t"), Interval(0.7, 0.9, "u")]
START, END = 0.25, 0.95


@pytest.fixture
def part(here: Path) -> Path:
    """Return a recording of 0.7 s whose TextGrid says that it goes from 0.25 to 0.95 s; Praat extracted both."""
    (here / "in").mkdir()
    (here / "whole.TextGrid").write_text(textgrid_text(1.2, {"phones": LABELS, "words": [Interval(0.3, 0.9, "matu")]}))
    grid = parselmouth.read(str(here / "whole.TextGrid"))
    parselmouth.praat.call(grid, "Extract part", START, END, True).save_as_text_file(str(here / "in/a.TextGrid"))
    sound = parselmouth.Sound(np.random.default_rng(0).normal(0, 0.05, round(1.2 * RATE)), RATE)
    parselmouth.praat.call(sound, "Extract part", START, END, "rectangular", 1.0, True).save(
        str(here / "in/a.wav"), "WAV"
    )
    return here / "in/a.wav"


def spans(entries: list[Interval]) -> list[tuple[float, float, str]]:
    return [(round(start, 6), round(end, 6), label) for start, end, label in entries if label]


RIGHT = [(0.05, 0.15, "m a"), (0.15, 0.35, "t"), (0.45, 0.65, "u")]


def test_a_corpus_counts_times_from_there(part: Path) -> None:
    config = CorpusConfig(kind="textgrid", root=part.parent, phones="found", segment="spaces", max_gap=None)
    corpus = read_textgrids(part.parent, config)
    (utterance,) = corpus.splits["train"]
    assert utterance.phones == ("m", "a", "t", "u") and utterance.stretch is None
    assert any("goes from 0.25 s on, and is as long as the recording" in each for each in corpus.warnings)
    grid = part.with_suffix(".TextGrid")
    grid.write_text(grid.read_text().replace('"m a"', '"m"'))
    corpus = read_textgrids(part.parent, config.model_copy(update={"segment": "labels"}))
    (utterance,) = corpus.splits["train"]
    assert utterance.times == pytest.approx(np.array([(start, end) for start, end, _ in RIGHT]))


def test_transcripts_have_limits_from_there(part: Path) -> None:
    said: list[str] = []
    reporter = Reporter(quiet=True)
    reporter.warn = lambda *texts: said.extend(texts)  # type: ignore[method-assign]
    (task,) = find_tasks([part], None, None, TranscriptOptions("phones", limits=True), reporter)
    assert isinstance(task.transcript, Transcript)
    found = [Interval(each.start, each.end, " ".join(each.labels)) for each in task.transcript.phrases]
    assert spans(found) == RIGHT
    assert len(said) == 1 and "goes from 0.25 s on" in said[0]


def test_measures_are_made_there(part: Path) -> None:
    grid = part.with_suffix(".TextGrid")
    labels, note = _labels(grid, "phones", "words", 0.7)
    assert spans(labels.phones.entries) == RIGHT and "0.25 s on" in note
    assert labels.words is not None and spans(labels.words.entries) == [(0.05, 0.65, "matu")]


def test_boundaries_are_compared_with_those_of_the_recording(part: Path) -> None:
    (part.parent.parent / "other").mkdir()
    other = part.parent.parent / "other/a.TextGrid"
    other.write_text(textgrid_text(0.7, {"phones": [Interval(*each) for each in RIGHT]}))
    for pair in ((part.with_suffix(".TextGrid"), other), (other.parent, part.parent)):
        score = score_boundaries(*pair)
        assert score.to_dict()["mean_error_ms"] == pytest.approx(0.0, abs=1e-6)
        assert len(score.notes) == 1 and "goes from 0.25 s on" in score.to_text()
    part.unlink()  # the other TextGrid has the length
    assert score_boundaries(other, part.with_suffix(".TextGrid")).to_dict()["mean_error_ms"] == pytest.approx(
        0, abs=1e-6
    )


def test_the_studio_writes_what_begins_there(part: Path) -> None:
    before = read_tiers(part.with_suffix(".TextGrid"))
    document = Document(part)
    assert [(each.start, each.end, each.label) for each in document.phones] == RIGHT
    assert "0.25 s on" in document.note
    (words,) = document.grid.others  # which the page shows beside the recording
    assert spans(words.entries) == [(0.05, 0.65, "matu")]
    document.edit(document.revision, {"what": "relabel", "phone": 1, "label": "d"})
    document.write_grid()
    after = read_tiers(part.with_suffix(".TextGrid"))
    assert (after.start, after.end) == pytest.approx((before.start, before.end))
    assert spans(after.tiers[0].entries) == [(start, end, {"t": "d"}.get(label, label)) for start, end, label in LABELS]
    assert after.tiers[1] == before.tiers[1]
    again = Document(part)
    assert [(each.start, each.label) for each in again.phones] == [(0.05, "m a"), (0.15, "d"), (0.45, "u")]
    praat = parselmouth.read(str(part.with_suffix(".TextGrid")))
    assert (praat.xmin, praat.xmax) == pytest.approx((START, END))


@pytest.mark.parametrize(
    ("start", "end", "seconds", "begins", "said"),
    [
        (0.0, 3.0, 3.0, 0.0, ""),
        (0.0, 3.0, 3.04, 0.0, ""),  # what a codec adds
        (0.25, 3.25, 3.0, 0.25, "goes from 0.25 s on"),
        (-0.25, 2.75, 3.0, -0.25, "goes from -0.25 s on"),
        (-0.004, 3.0, 3.0, 0.0, ""),  # speechctc writes a label that begins early
        (0.25, 3.0, 3.0, 0.0, ""),  # its tiers begin late, and their times are the recording's
        (0.0, 2.0, 3.0, 0.0, "goes from 0.00 to 2.00 s, and the recording has 3.00 s"),
        (0.0, 3.2, 3.0, 0.0, "goes from 0.00 to 3.20 s, and the recording has 3.00 s"),
        (0.25, 3.9, 3.0, 0.0, "goes from 0.25 to 3.90 s, and the recording has 3.00 s"),
        (60.0, 63.0, 3.01, 60.0, "goes from 60.00 s on"),
    ],
)
def test_where_a_recording_begins(
    here: Path, start: float, end: float, seconds: float, begins: float, said: str
) -> None:
    times = f"{start}\n{end}\n"
    head = f'File type = "ooTextFile"\nObject class = "TextGrid"\n\n{times}<exists>\n1\n'
    Path("a.TextGrid").write_text(f'{head}"IntervalTier"\n"phones"\n{times}1\n{times}"a"\n')
    grid = read_tiers(Path("a.TextGrid"))
    assert grid.begins_at(seconds) == begins
    note = grid.domain_note(Path("a.TextGrid"), seconds)
    assert (said in note) if said else not note


def test_the_lengths_of_many_are_one_line(here: Path) -> None:
    (here / "in").mkdir()
    for name in ("a", "b", "c"):
        soundfile.write(here / f"in/{name}.wav", np.random.default_rng(0).normal(0, 0.1, 2 * RATE), RATE)
        (here / f"in/{name}.TextGrid").write_text(textgrid_text(1.0, {"phones": [Interval(0.1, 0.9, "x")]}))
    corpus = read_textgrids(here / "in", CorpusConfig(kind="textgrid", root=here / "in", phones="found"))
    (said,) = [each for each in corpus.warnings if "check that they belong" in each]
    assert "(3 times, also for" in said
