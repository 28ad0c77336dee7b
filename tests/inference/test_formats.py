"""What is written is opened again, TextGrids by another library than wrote them."""

from __future__ import annotations

import csv
import io
import json
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import openpyxl
import pytest
import tgt

from speechctc.audio.annotations import Interval, read_textgrid
from speechctc.audio.recordings import Recording
from speechctc.core.errors import InputError
from speechctc.inference.formats import WRITERS, Layout, RecordingName
from speechctc.inference.output import OutputOptions, check_out, choose_output
from speechctc.inference.result import Misfit, Recognition, Word
from speechctc.inference.segmenter import Segment
from speechctc.stages.decode import LivePhones

RESULT = Recognition(
    "some dir/a b.wav",
    1.23456789,
    (
        Segment("h#", 0.0, 0.1234567, 0.98, (("pau", 0.01),)),
        Segment("sh", 0.1234567, 0.3, 0.5, (("s", 0.4),)),
        Segment('"e"', 0.5, 1.23456789, 0.25),
    ),
)
ALIGNED = Recognition("x.flac", 1.0, (Segment("a", 0.25, 0.5, 0.75),), log_probability=-1.5)


def source(result: Recognition, channel: int | None = None) -> RecordingName:
    return RecordingName(result.file, "an/id", channel)


def written(form: str, *results: Recognition, named: bool = False) -> str:
    out = io.StringIO(newline="")
    aligned = bool(results) and results[0].log_probability is not None
    WRITERS[form].write(((source(result), result) for result in results), out, Layout(named, aligned))
    return out.getvalue()


def test_csv_has_a_byte_order_mark_where_it_is_asked_for() -> None:
    """Excel takes CSV without one for the encoding of the system."""
    with_mark, without = (WRITERS[form].content(source(RESULT), RESULT) for form in ("csv-bom", "csv"))
    assert with_mark == b"\xef\xbb\xbf" + without
    assert (
        choose_output("csv-bom", "x.csv")[:2] == ("csv-bom", Path("x.csv")) and choose_output(None, "x.csv")[0] == "csv"
    )
    both = OutputOptions("csv", folder=Path("out"), also=("csv-bom",)).files_of(Recording(Path("a.wav"), Path("a")))
    assert len(set(both.values())) == 2


def test_csv_for_excel_holds_no_formulas() -> None:
    """A number below zero stays one; without the first apostrophe, each text is as it was."""
    labels = ["=1+1", "@", "-", "+a", "'=", "a=", "'a"]
    found = Recognition("=HYPERLINK(1).wav", 2.0, tuple(Segment(label, 0.0, 1.0, 0.5) for label in labels), -1.5)
    (_, *rows), (_, *plain) = (
        list(csv.reader(io.StringIO(WRITERS[form].content(source(found), found).decode("utf-8-sig"))))
        for form in ("csv-bom", "csv")
    )
    assert [row[3] for row in rows] == ["'=1+1", "'@", "'-", "'+a", "''=", "a=", "'a"]
    assert [row[3] for row in plain] == labels and rows[0][0] == "'=HYPERLINK(1).wav" and "-1.5000" in rows[0]


def test_a_workbook_holds_numbers_and_texts_never_formulas(tmp_path: Path) -> None:
    """The sheets are read from their XML, and by openpyxl: words and misfits have their own."""
    segments = (Segment("=1+1", 0.0, 0.25, 0.5), Segment("a\x01b", 0.25, 1.0, 0.75), Segment("#N/A", 1.0, 1.5, 1.0))
    found = Recognition(
        "-a.wav", 2.0, segments, -1.5, words=(Word("=x", 0.0, 1.0, -0.5, 0),), misfits=(Misfit(1.0, 2.0, "extra", ""),)
    )
    (tmp_path / "a.xlsx").write_bytes(WRITERS["xlsx"].content(source(found), found))
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    assert book.sheetnames == ["phones", "words", "misfits"]
    rows = list(book["phones"].values)
    assert rows[0] == ("file", "start", "end", "phone", "confidence", "word", "file_log_probability")
    assert rows[1:3] == [
        ("-a.wav", 0, 0.25, "=1+1", 0.5, "=x", -1.5),
        ("-a.wav", 0.25, 1, "a\ufffdb", 0.75, "=x", -1.5),
    ]
    assert not rows[3][5]
    assert list(book["words"].values)[1] == ("-a.wav", 0, 1, "=x", -0.5)
    with zipfile.ZipFile(tmp_path / "a.xlsx") as files:
        sheets = [files.read(name).decode() for name in files.namelist() if "worksheets/sheet" in name]
    assert len(sheets) == 3 and not any("<f>" in sheet or 't="e"' in sheet for sheet in sheets)


def test_a_workbook_of_many_results_is_complete_even_after_an_error(tmp_path: Path) -> None:
    def results() -> Iterator[tuple[RecordingName, Recognition]]:
        yield source(RESULT), RESULT
        raise InputError("the disk is gone", "find it")

    with open(tmp_path / "a.xlsx", "w") as out, pytest.raises(InputError, match="gone"):
        WRITERS["xlsx"].write(results(), out)
    assert len(list(openpyxl.load_workbook(tmp_path / "a.xlsx")["phones"].values)) == 4


def test_a_workbook_needs_openpyxl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(InputError, match=r"not installed.*\.\[xlsx\]"):
        check_out([Recording(Path("a.wav"), Path("a"))], OutputOptions("xlsx", Path("a.xlsx")))


def test_phones_that_come_one_by_one_are_written_as_they_come() -> None:
    """In every live format to the same text; the line of text is ended after an error, and nothing is lost."""
    for form in (name for name, writer in WRITERS.items() if writer.is_incremental):
        out = io.StringIO(newline="")
        seen: list[int] = []

        def watched(out: io.StringIO = out, seen: list[int] = seen) -> Iterator[Segment]:
            for segment in RESULT.segments:
                yield segment
                seen.append(len(out.getvalue()))

        WRITERS[form].write([(source(RESULT), LivePhones(watched()))], out)
        assert out.getvalue() == written(form, RESULT)
        assert len(set(seen)) == 3 and seen[-1] == len(out.getvalue().rstrip("\n" if form == "text" else ""))

    def cut_off() -> Iterator[Segment]:
        yield RESULT.segments[0]
        raise InputError("cut off", "mend it")

    out = io.StringIO()
    with pytest.raises(InputError):
        WRITERS["text"].write([(source(RESULT), LivePhones(cut_off()))], out)
    assert out.getvalue() == "h#\n"


def test_text_is_a_line_of_phones_for_each() -> None:
    assert written("text", RESULT, Recognition("b", 1.0, ())) == 'h# sh "e"\n\n'
    assert written("text", ALIGNED).splitlines() == [
        "x.flac: log probability -1.5000 per phone",
        "    0.250     0.500  a      0.75",
    ]


def test_csv_is_read_back_by_the_csv_module() -> None:
    text = written("csv", RESULT)
    rows = list(csv.reader(io.StringIO(text, newline="")))
    assert rows[0] == ["file", "start", "end", "phone", "confidence"] and rows[3][3] == '"e"'
    assert text.count("\r\n") == 4 == text.count("\n")


def test_tables_of_alignments_say_the_word_of_each_phone_and_whose_the_log_probability_is() -> None:
    segments = (*ALIGNED.segments, Segment("sil", 0.5, 0.8, 0.5), Segment("b", 0.8, 1.0, 0.5))
    words = (Word("ja, so", 0.25, 0.5, -0.5, 0), Word("*", 0.8, 1.0, 0.0, -1))
    found = replace(ALIGNED, segments=segments, words=words)
    for form in ("csv", "tsv"):
        lines = [line for line in written(form, found).splitlines() if not line.startswith("#")]
        head, *rows = csv.reader(lines, delimiter="\t" if form == "tsv" else ",")
        assert head[5:] == ["word", "file_log_probability"] and {row[6] for row in rows} == {"-1.5000"}
        assert [row[5] for row in rows] == ["ja, so", "", ""]


def test_json_is_one_list() -> None:
    values = json.loads(written("json", RESULT, ALIGNED))
    assert values == [RESULT.to_dict(), ALIGNED.to_dict()]
    assert values[0]["segments"][1] == {
        "phone": "sh",
        "start": 0.1235,
        "end": 0.3,
        "confidence": 0.5,
        "alternatives": [{"phone": "s", "posterior": 0.4}],
    }
    assert values[1]["log_probability"] == -1.5 and "log_probability" not in values[0]
    assert json.loads(written("json")) == []
    assert (
        json.loads(WRITERS["json"].whole(source(Recognition("n", 0.5, ())), Recognition("n", 0.5, ())))
        == Recognition("n", 0.5, ()).to_dict()
    )


def test_a_json_list_that_is_cut_off_is_still_json() -> None:
    def results() -> object:
        yield source(RESULT), RESULT
        raise KeyboardInterrupt

    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        WRITERS["json"].write(results(), out)  # type: ignore[arg-type]
    assert json.loads(out.getvalue()) == [RESULT.to_dict()]


def test_ctm_has_six_fields() -> None:
    rows = [line.split() for line in WRITERS["ctm"].whole(source(RESULT, 2), RESULT).splitlines()]
    assert rows[1] == ["an/id", "2", "0.1235", "0.1765", "sh", "0.5000"]
    assert WRITERS["ctm"].whole(source(ALIGNED), ALIGNED).startswith(";; x.flac")


def test_a_textgrid_opens_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a.TextGrid").write_text(RESULT.to_textgrid(), encoding="utf-8")
    grid = tgt.io.read_textgrid(str(tmp_path / "a.TextGrid"))
    assert grid.get_tier_names() == ["phones", "confidence", "alternative 1"]
    phones = grid.get_tier_by_name("phones")
    assert [i.text for i in phones.intervals] == ["h#", "sh", '"e"']
    edges = [edge for i in phones.intervals for edge in (float(i.start_time), float(i.end_time))]
    assert edges == pytest.approx([0.0, 0.1235, 0.1235, 0.3, 0.5, RESULT.seconds], abs=1e-9)
    assert [i.text for i in grid.get_tier_by_name("confidence").intervals] == ["0.98", "0.50", "0.25"]
    assert [i.text for i in grid.get_tier_by_name("alternative 1").intervals] == ["pau 0.01", "s 0.40"]
    assert read_textgrid(tmp_path / "a.TextGrid", "PHONES")[1] == Interval(0.1235, 0.3, "sh")


def test_a_textgrid_has_a_point_for_each_boundary_with_an_interval_if_it_is_asked_for(tmp_path: Path) -> None:
    first = Segment("a", 0.25, 0.5, 0.75, (), None, (0.24, 0.27), (0.4912345, 0.52))
    segments = (
        first,
        Segment("b", 0.5, 0.9, 0.5, (), None, (0.4912345, 0.52), (0.85, 1.2)),
        Segment("c", 0.95, 1.0, 0.5),
    )
    result = Recognition("x.flac", 1.0, segments, log_probability=-1.5)
    assert "boundaries" not in result.to_textgrid()
    (tmp_path / "a.TextGrid").write_text(replace(result, show_intervals=True).to_textgrid(), encoding="utf-8")
    grid = tgt.io.read_textgrid(str(tmp_path / "a.TextGrid"))
    points = [(point.time, point.text) for point in grid.get_tier_by_name("boundaries").points]
    assert points == [(0.25, "0.2400 0.2700"), (0.5, "0.4912 0.5200"), (0.9, "0.8500 1.0000")]
    assert [i.text for i in grid.get_tier_by_name("phones").intervals] == ["a", "b", "c"]
    values = json.loads(written("json", result))[0]["segments"]
    assert values[0]["start_interval"] == [0.24, 0.27] and values[0]["end_interval"] == [0.4912, 0.52]
    assert "start_interval" not in values[2]
    moved = first.moved(0.3, 0.5)
    assert moved.start_interval == (0.24, 0.3) and moved.end_interval == first.end_interval


@pytest.mark.parametrize("times", [[(0.1, 0.1), (0.1, 0.3)], [(0.1, 0.3), (0.3, 0.3)], [(0.0, 0.0), (0.3, 0.3)]])
def test_no_tier_loses_a_phone_without_duration(times: list[tuple[float, float]], tmp_path: Path) -> None:
    segments = tuple(Segment(phone, *each, 0.9) for phone, each in zip("ab", times, strict=True))
    grid = tmp_path / "a.TextGrid"
    grid.write_text(Recognition("a", 0.3, segments).to_textgrid(), encoding="utf-8")
    assert [each.label for each in read_textgrid(grid, "phones")] == ["a", "b"]
    assert [each.label for each in read_textgrid(grid, "confidence")] == ["0.90", "0.90"]
