"""The times of annotations, intervals and rows as limits: each phrase is aligned between its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import soundfile
from pympi import Elan

from speechctc.audio.annotations import Interval, read_textgrid, textgrid_text
from speechctc.audio.recordings import Recording
from speechctc.core.errors import InputError
from speechctc.corpora.tasks import in_table
from speechctc.corpora.transcripts import Transcript, TranscriptOptions, read_transcript
from tests.cli.test_align_words import write_words
from tests.command import Command, one_line_error

SAID = ["drop", "scale", "drop", "hum", "drop"]
AROUND = 0.02  # seconds of the pause between two words


def phrases_of(times: list[tuple[float, float]], *parts: tuple[int, int]) -> list[tuple[float, float, str]]:
    """Return the words from `first` to before `end` of each part, with their times."""
    found = [(times[first][0] - AROUND, times[end - 1][1] + AROUND, " ".join(SAID[first:end])) for first, end in parts]
    return [(round(start, 3), round(end, 3), text) for start, end, text in found]


def write_grid(file: str, phrases: list[tuple[float, float, str]], tier: str = "phrases", seconds: float = 9.0) -> None:
    Path(file).write_text(textgrid_text(seconds, {tier: [Interval(*each) for each in phrases]}))


def write_elan(
    file: str, phrases: list[tuple[float, float, str]], audio: str = "a.wav", origin: int | None = None
) -> None:
    eaf = Elan.Eaf()
    eaf.add_linked_file(str(Path(audio).resolve()), mimetype="audio/x-wav", time_origin=origin)
    eaf.add_tier("phrases")
    for start, end, text in phrases:
        eaf.add_annotation("phrases", round(1000 * start), round(1000 * end), text)
    eaf.remove_tier("default")
    eaf.to_file(file)


def check(grid: Path, phrases: list[tuple[float, float, str]], times: list[tuple[float, float]]) -> None:
    """Check that the words of the phrases are where they were said, and that all lies between their times."""
    words, phones = read_textgrid(grid, "words"), read_textgrid(grid, "phones")
    assert [word.label for word in words] == " ".join(text for *_, text in phrases).split()
    for each in (*words, *phones):
        assert any(start - 1e-4 <= each.start < each.end <= end + 1e-4 for start, end, _ in phrases), each
    for word, (start, end) in zip(words, times, strict=True):
        assert abs(word.start - start) < 0.08 and abs(word.end - end) < 0.12


def test_a_phrase_of_a_textgrid_lies_where_its_interval_says(speechctc: Command, here: Path) -> None:
    """Three words of five are annotated: without limits, the first drop would be placed at the first that is said."""
    times = write_words("a.wav", SAID)
    phrases = phrases_of(times, (2, 4), (4, 5))
    write_grid("a.TextGrid", phrases)
    use = ("a.wav", "--words", "a.TextGrid", "--tier", "phrases", "--dictionary", "d.dict")
    assert speechctc("align", *use, "--out", "out.TextGrid").status == 0
    check(here / "out.TextGrid", phrases, times[2:])
    (entry,) = json.loads(speechctc("align", *use, "--format", "json").out)
    assert [word["number"] for word in entry["words"]] == [0, 1, 2] and -2 < entry["log_probability"] <= 0
    Path("a.lab").write_text(" ".join(text for *_, text in phrases))
    (plain,) = json.loads(
        speechctc("align", "a.wav", "--words", "a.lab", "--dictionary", "d.dict", "--format", "json").out
    )
    (whole,) = json.loads(speechctc("align", *use, "--no-limits", "--format", "json").out)
    assert whole["segments"] == plain["segments"] != entry["segments"]


def test_files_of_elan_are_read_and_name_their_recording(speechctc: Command, here: Path) -> None:
    times = write_words("a.wav", SAID)
    phrases = phrases_of(times, (0, 1), (2, 4))
    write_elan("a.eaf", phrases)
    use = ("--tier", "phrases", "--dictionary", "d.dict")
    assert speechctc("align", "--words", "a.eaf", *use, "--out", "named.TextGrid").status == 0
    check(here / "named.TextGrid", phrases, [times[0], *times[2:4]])
    (here / "away").mkdir()
    shutil.copy("a.eaf", "away")
    assert (
        "away/a.eaf chooses what is read, and 1 outside of away"
        in speechctc("align", "--words", "away/a.eaf", *use).err
    )
    (here / "eafs").mkdir()
    Path("a.eaf").rename("eafs/a.eaf")
    assert speechctc("align", "a.wav", "--words", "eafs", *use, "--format", "textgrid,eaf", "--out", "out/").status == 0
    assert (here / "out/a.TextGrid").read_text() == (here / "named.TextGrid").read_text()
    done = speechctc("align", "a.wav", "--words", "eafs", "--dictionary", "d.dict")
    assert done.status == 2 and "no tier 'words', only 'phrases'" in done.err


def test_times_of_elan_count_from_where_the_recording_begins_there(here: Path) -> None:
    times = write_words("a.wav", SAID)
    write_elan("a.eaf", [(0.1, 0.5, "drop scale")], origin=1500)
    found = read_transcript(here / "a.eaf", here / "a.wav", TranscriptOptions("phrases", "words"))
    assert [(round(each.start, 3), round(each.end, 3)) for each in found.phrases] == [(1.6, 2.0)] and times


def test_a_tier_of_single_words_is_a_limit_only_if_one_says_so(speechctc: Command, here: Path) -> None:
    times = write_words("a.wav", SAID)
    words = phrases_of(times, *((k, k + 1) for k in range(len(SAID))))
    moved = [(start + 0.04, end, text) for start, end, text in words]
    write_grid("a.TextGrid", moved, "words")
    use = ("a.wav", "--words", "a.TextGrid", "--dictionary", "d.dict")
    assert speechctc("align", *use, "--out", "free.TextGrid").status == 0
    free = read_textgrid(here / "free.TextGrid", "words")
    assert any(word.start < start - 1e-3 for word, (start, *_) in zip(free, moved, strict=True))
    assert speechctc("align", *use, "--limits", "--out", "held.TextGrid").status == 0
    check(here / "held.TextGrid", moved, times)


def test_rows_with_times_are_phrases_of_their_recording(speechctc: Command, here: Path) -> None:
    times = write_words("a.wav", SAID)
    phrases = phrases_of(times, (0, 2), (2, 3), (4, 5))
    lines = [f"u{k}\ta.wav\t{start}\t{end}\t{text}" for k, (start, end, text) in enumerate(phrases)]
    (here / "t.tsv").write_text("\n".join(["id\taudio\tstart\tend\twords", *reversed(lines)]) + "\n")
    use = ("--words", "t.tsv", "--dictionary", "d.dict", "--format", "textgrid", "--out")
    assert speechctc("align", *use, "all/").status == 0
    assert [path.name for path in (here / "all").glob("*.TextGrid")] == ["a.TextGrid"]
    check(here / "all/a.TextGrid", phrases, [*times[:3], times[4]])
    assert speechctc("align", "a.wav", *use, "named/").status == 0
    assert (here / "named/a.TextGrid").read_text() == (here / "all/a.TextGrid").read_text()


HEAD = "id\taudio\tstart\tend\tphones"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["a\ta.wav\t0\t1\tlow top", "b\ta.wav\t0.5\t2\tmid"], "a.wav: limits overlap: 'low top' until 1.000 s, 'mid'"),
        (["a\ta.wav\t1\t1\tlow"], "line 2: no time from 1 to 1 s"),
        (["a\ta.wav\t2\t1\tlow"], "line 2: no time from 2 to 1 s"),
        (["a\ta.wav\t0:01\t2\tlow"], "line 2: start and end are '0:01' and '2', not seconds"),
        (["a\ta.wav\t1\t\tlow"], "line 2: start and end are '1' and '', not seconds"),
        (["a\ta.wav\t1\tnan\tlow"], "line 2: start and end are '1' and 'nan', not seconds"),
        (["a\ta.wav\t0\t1\tlow", "b\ta.wav\t\t\tmid"], "line 3: no start and end, which other rows of a.wav have"),
    ],
)  # fmt: skip
def test_limits_that_cannot_be_are_named(speechctc: Command, here: Path, rows: list[str], said: str) -> None:
    write_words("a.wav", ["hum"])
    (here / "t.tsv").write_text("\n".join([HEAD, *rows]) + "\n")
    assert said in one_line_error(speechctc("align", "--transcripts", "t.tsv"))


def test_a_row_beyond_the_recording_is_left_out_alone(speechctc: Command, here: Path) -> None:
    (start, end), *_ = write_words("a.wav", ["hum"])
    seconds = soundfile.info("a.wav").duration
    times = [(max(start - 0.02, 0.0), seconds + 0.005), *((seconds + k, seconds + k + 0.9) for k in range(1, 5))]
    lines = [f"{k}\ta.wav\t{first:.3f}\t{last:.3f}\tlow top" for k, (first, last) in enumerate(times)]
    (here / "t.tsv").write_text("\n".join([HEAD, *lines]) + "\n")
    done = speechctc("align", "--transcripts", "t.tsv", "--format", "json")
    (entry,) = json.loads(done.out)
    assert entry["phones"] == ["low", "top"] and entry["segments"][-1]["end"] <= seconds
    assert done.status == 3 and "a.wav: 4 of 5 phrases are left out" in done.err
    assert f"times: {times[1][0]:.2f} to {times[1][1]:.2f} s: a phrase ends after the" in done.err
    assert "and 1 more" in done.err and done.err.count("which has") == 3


def test_a_phrase_that_does_not_fit_is_left_out_and_said(speechctc: Command, here: Path) -> None:
    times = write_words("a.wav", SAID)
    (start, end, text), other = phrases_of(times, (1, 3), (3, 4))
    write_grid("a.TextGrid", [(start, end, text), (other[0], other[0] + 0.03, "hum drop")])
    use = ("align", "a.wav", "--words", "a.TextGrid", "--tier", "phrases", "--dictionary", "d.dict")
    done = speechctc(*use, "--out", "out.TextGrid")
    assert done.status == 3 and "1 of 2 phrases are left out, which do not fit their times" in done.err
    check(here / "out.TextGrid", [(start, end, text)], times[1:3])
    write_grid("a.TextGrid", [(other[0], other[0] + 0.03, "hum drop")])
    assert speechctc(*use, "--out", "none.TextGrid").status == 2


def test_a_tier_of_elan_without_times_has_no_limits(here: Path) -> None:
    write_words("a.wav", ["hum"])
    eaf = Elan.Eaf()
    eaf.add_linguistic_type("sub", "Symbolic_Subdivision", False)
    eaf.add_tier("top")
    eaf.add_tier("words", "sub", "top")
    eaf.add_annotation("top", 0, 900, "hum drop")
    eaf.add_ref_annotation("words", "top", 100, "hum drop")
    eaf.add_ref_annotation("words", "top", 100, "scale", prev=eaf.get_ref_annotation_data_for_tier("words") and "a2")
    eaf.to_file("a.eaf")
    found = read_transcript(here / "a.eaf", here / "a.wav", TranscriptOptions("words", "words"))
    assert isinstance(found, Transcript) and not found.phrases
    with pytest.raises(InputError, match="'words' has no times of its own.*name the tier above it"):
        read_transcript(here / "a.eaf", here / "a.wav", TranscriptOptions("words", "words", True))


def test_recordings_of_one_name_in_two_folders_keep_their_own_phrases(here: Path) -> None:
    rows = [f"{k}\t{folder}/a.wav\t{k}\t{k + 1}\tlow" for folder in ("x", "y") for k in range(2)]
    (here / "t.tsv").write_text("\n".join([HEAD, *rows]) + "\n")
    for folder in "xy":
        (here / folder).mkdir()
        (here / folder / "a.wav").touch()
    pairs = in_table(here / "t.tsv", None, TranscriptOptions())
    assert [str(recording.name) for recording, _ in pairs] == ["x_a", "y_a"]
    assert all(isinstance(found, Transcript) and len(found.phrases) == 2 for _, found in pairs)
    (pair,) = in_table(here / "t.tsv", [Recording(here / "y" / "a.wav", Path("a"))], TranscriptOptions())
    assert isinstance(pair[1], Transcript) and len(pair[1].phrases) == 2
