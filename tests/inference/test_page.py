"""Recordings as a page: what `decode --format html` writes."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from speechctc.inference.page import recordings_page
from speechctc.inference.result import Recognition, Word
from speechctc.inference.segmenter import Segment
from tests.command import Command, one_line_error
from tests.tiny_model import write_song

SONG = ["low", "mid", "high"]


def test_phones_with_their_times_and_doubtful_ones(tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", SONG)
    segments = (Segment("<b>", 0.1, 0.2, 0.9), Segment("ʃ", 0.2, 0.35, 0.3, (("s", 0.25),)))
    html = recordings_page([(tmp_path / "a.wav", 'my "a".wav', None, Recognition("a", 0.5, segments))])
    assert "<title>Phones of my &#34;a&#34;.wav</title>" in html and "<b>" not in html
    assert 'aria-label="ʃ, 0.20 to 0.35 s, confidence 0.30; or s 0.25"' in html
    kinds = re.findall(r'class="cell (\w+)', html)
    assert kinds == ["plain", "doubtful"] and '<td class="number">0.350</td>' in html


def test_words_stand_over_their_phones(tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", SONG)
    words = (Word("see <i>", 0.1, 0.35, -1.0, 0), Word("*", 0.35, 0.4, -1.0, -1))
    segments = (Segment("s", 0.1, 0.2, 0.9), Segment("iː", 0.2, 0.35, 0.9))
    html = recordings_page([(tmp_path / "a.wav", "a.wav", None, Recognition("a", 0.5, segments, words=words))])
    assert html.index("see &lt;i&gt;, 0.10 to 0.35 s") < html.index("iː, 0.20 to 0.35 s, confidence 0.90")
    assert "*, 0.35 to 0.40 s" in html and len(re.findall(r'class="cell (\w+)', html)) == 4


def test_a_page_for_one_recording_and_for_many(speechctc: Command, beside_latest: Path) -> None:
    for name in ("a.wav", "b.wav"):
        write_song(beside_latest / name, SONG)
    assert speechctc("decode", "a.wav", "--out", "a.html").status == 0
    assert speechctc("decode", "a.wav", "b.wav", "--out", "both.html").status == 0
    assert speechctc("decode", ".", "--format", "html", "--out", "pages").status == 0
    one, both, each = (Path(name).read_text(encoding="utf-8") for name in ("a.html", "both.html", "pages/b.html"))
    assert "Phones of a.wav" in one and "Phones of 2 recordings" in both and "Phones of b.wav" in each
    assert [html.count("<audio ") for html in (one, both, each)] == [1, 2, 1]
    labels = re.findall(r"<span>(\w+)</span></button>", both)
    assert labels == SONG + SONG
    Path("a.html").write_text("my notes")
    assert "a.html: exists and was made" in one_line_error(speechctc("decode", "a.wav", "--out", "a.html"))


def test_standard_input_cannot_be_shown(speechctc: Command, beside_latest: Path) -> None:
    assert "standard input is not kept" in one_line_error(speechctc("decode", "-", "--format", "html"))


def test_alignments_are_shown_too(speechctc: Command, beside_latest: Path) -> None:
    write_song(beside_latest / "a.wav", SONG)
    assert speechctc("align", "a.wav", "--phones", " ".join(SONG), "--out", "a.html").status == 0
    html = Path("a.html").read_text(encoding="utf-8")
    starts = [float(start) for start in re.findall(r'class="cell \w+.*?data-start="([\d.]+)"', html)]
    assert len(starts) == 3 and all(a < b for a, b in itertools.pairwise(starts)) and "log probability" in html


@pytest.mark.parametrize("channel", [1, 2])
def test_the_chosen_channel_is_shown(tmp_path: Path, channel: int) -> None:
    write_song(tmp_path / "a.wav", SONG, channels=2)
    page = recordings_page([(tmp_path / "a.wav", "a", channel, Recognition("a", 0.5, ()))])
    assert page.count("<img ") == 1
