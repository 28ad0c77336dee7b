"""Transcripts in tiers: which are phrases, and tiers of one name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio.annotations import Interval, Tier, long_text
from speechctc.audio.recordings import Recording
from speechctc.core.errors import InputError
from speechctc.corpora.transcripts import Transcript, TranscriptOptions, read_sidecars, read_transcript


def written(path: Path, *tiers: tuple[str, str]) -> Path:
    """Write a TextGrid of tiers with a name and labels, which a comma separates."""
    spelled = [(name, [label.strip() for label in labels.split(",")]) for name, labels in tiers]
    made = [
        Tier(name, False, [Interval(k / 10, (k + 1) / 10, label) for k, label in enumerate(labels)])
        for name, labels in spelled
    ]
    path.write_text(long_text(3.0, made))
    return path


def read(path: Path, **choice: object) -> Transcript:
    return read_transcript(path, path.with_suffix(".wav"), TranscriptOptions(**choice))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("labels", "are_phrases"),
    [
        ("k, a, e n, s, a, t", False),
        ("k a s a, t i, a", True),
        ("yes, no, how are you", True),
        ("mhm, the cat sat on the mat, mhm, yes, where was it", True),
        ("the, cat, New York, sat, here", False),
    ],
)
def test_most_labels_tell_whether_a_tier_holds_phrases(tmp_path: Path, labels: str, are_phrases: bool) -> None:
    found = read(written(tmp_path / "a.TextGrid", ("phones", labels)))
    assert bool(found.phrases) == are_phrases
    assert found.labels == tuple(labels.replace(",", "").split())
    spaced = next(label for label in labels.split(", ") if " " in label)
    assert are_phrases or f"{spaced!r} at " in found.note
    assert not are_phrases or not found.note


def test_limits_that_are_asked_for_hold_whatever_the_labels(tmp_path: Path) -> None:
    grid = written(tmp_path / "a.TextGrid", ("phones", "k, a, e n, s"))
    assert len(read(grid, limits=True).phrases) == 4
    plain = read(grid, limits=False)
    assert not plain.phrases and not plain.note


def test_a_name_of_two_tiers_is_no_choice(tmp_path: Path) -> None:
    twice = written(tmp_path / "a.TextGrid", ("words", "the, cat"), ("words", "a, dog, ran"))
    with pytest.raises(InputError, match="2 tiers .*'words'; .* 3 labels"):
        read(twice, labels="words")
    spaced = written(tmp_path / "b.TextGrid", ("words", "the, cat"), ("words ", "a, dog"))
    with pytest.raises(InputError, match="2 tiers are called 'words'"):
        read(spaced, labels="words")


def test_of_two_tiers_of_a_name_an_empty_one_is_passed_over(tmp_path: Path) -> None:
    tiers = [Tier("words", False, []), Tier("words", False, [Interval(0, 1, "cat")])]
    (tmp_path / "a.TextGrid").write_text(long_text(1.0, tiers))
    assert read(tmp_path / "a.TextGrid", labels="words").labels == ("cat",)


def test_phones_without_words_beside_a_recording_ask_for_a_text(tmp_path: Path) -> None:
    """As beside a recording of the studio's microphone."""
    written(tmp_path / "a b.TextGrid", ("phones", "k, a"), ("confidence", "0.9, 0.8"))
    recordings = [Recording(tmp_path / "a b.wav", Path("a b.wav"))]
    soundfile.write(recordings[0].path, np.zeros(4800), 16000)
    (error,) = read_sidecars(recordings, TranscriptOptions(labels="words"))
    assert isinstance(error, InputError) and error.fix == "write its words into a b.txt, or name one of those"
    (error,) = read_sidecars(recordings, TranscriptOptions(tier="words", labels="words"))
    assert isinstance(error, InputError) and error.fix == "name one of those"


def test_json_of_a_recogniser_is_read_and_other_json_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"result": [{"word": "my", "start": 0.1, "end": 0.2}]}')
    assert read_transcript(path, tmp_path / "a.wav", TranscriptOptions(labels="words")).labels == ("my",)
    path.write_text('{"my": "words"}')
    with pytest.raises(InputError, match="JSON, but of none of the recognisers"):
        read_transcript(path, tmp_path / "a.wav", TranscriptOptions(labels="words"))
