"""TextGrids in Praat's formats; the bytes are as Praat 6.1 writes them."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Literal

import pytest
from praatio.utilities import textgrid_io

from speechctc.audio.annotations import Interval, Tier, long_text, read_phn, read_textgrid, read_tiers
from speechctc.core.errors import InputError

WANTED = {
    "Mary": (False, [Interval(0.0, 1.5, "é")]),
    "phönes": (False, [Interval(0.0, 0.25, "a"), Interval(0.25, 0.5, 'ʃ"x'), Interval(0.5, 1.5, "")]),
    "bell": (True, [Interval(0.75, 0.75, "ding")]),
}
SHORT = (
    'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n1.5\n<exists>\n3\n"IntervalTier"\n"Mary"\n0\n1.5\n1\n'
    '0\n1.5\n"é"\n"IntervalTier"\n"phönes"\n0\n1.5\n3\n0\n0.25\n"a"\n0.25\n0.5\n"ʃ""x"\n0.5\n1.5\n""\n"TextTier"\n'
    '"bell"\n0\n1.5\n1\n0.75\n"ding"\n'
)
CHRONOLOGICAL = '"Praat chronological TextGrid text file"\n0 1.5   ! Time domain.\n0   ! Number of tiers.\n'
BINARY = b"ooBinaryFile\x08TextGrid" + struct.pack(">dd?i", 0, 1.5, True, 0)
UTF16 = [codec for codec in ("utf-16-be", "utf-16-le")]
FILES = {"short": SHORT.encode()}
FILES |= {f"short, {codec}": ("\ufeff" + SHORT).encode(codec) for codec in UTF16}
FILES["old Mac lines"] = SHORT.replace("\n", "\r").encode()


def write(folder: Path, raw: bytes) -> Path:
    (folder / "a.TextGrid").write_bytes(raw)
    return folder / "a.TextGrid"


@pytest.mark.parametrize("raw", FILES.values(), ids=FILES.keys())
def test_each_format_says_the_same(tmp_path: Path, raw: bytes) -> None:
    path = write(tmp_path, raw)
    assert {tier.name: (tier.points, tier.entries) for tier in read_tiers(path).tiers} == WANTED
    assert read_textgrid(path, "PHÖNES") == [Interval(0.0, 0.25, "a"), Interval(0.25, 0.5, 'ʃ"x')]
    with pytest.raises(InputError, match=r"a.TextGrid: no tier 'x', only 'Mary', 'phönes', 'bell'; name one of those"):
        read_textgrid(path, "x")
    with pytest.raises(InputError, match="the tier 'bell' has points"):
        read_textgrid(path, "bell")


LONG = long_text(1.5, [Tier("a", False, [Interval(0.0, 1.5, "é")]), Tier("b", True, [Interval(0.75, 0.75, "ding")])])


@pytest.mark.parametrize("text", [SHORT, LONG], ids=["short", "long"])
def test_what_breaks_off_is_refused(tmp_path: Path, text: str) -> None:
    """praatio alone reads most of these, with fewer labels."""
    for cut in range(20, len(text.rstrip())):
        with pytest.raises(InputError, match="a.TextGrid: not a TextGrid"):
            read_tiers(write(tmp_path, text[:cut].encode()))


@pytest.mark.parametrize("raw", [BINARY, CHRONOLOGICAL.encode(), ("\ufeff" + CHRONOLOGICAL).encode("utf-16-le")])
def test_formats_that_are_not_read_are_named_with_what_to_do(tmp_path: Path, raw: bytes) -> None:
    with pytest.raises(InputError, match=r"a (binary|chronological) TextGrid"):
        read_tiers(write(tmp_path, raw))


@pytest.mark.parametrize("form", ["long_textgrid", "short_textgrid"])
def test_files_of_praatio_are_read_as_praatio_reads_them(tmp_path: Path, form: Literal["long_textgrid"]) -> None:
    """Random tiers, with labels of quotes, several lines, brackets, numbers and nothing."""
    rng = random.Random(0)
    labels = ["", "a", "ʃ", '"', 'x""y', '""', "two\nlines", "1.5", "[2]:", "a b", "!", "-", "<exists>", "xmin = 3"]
    for _ in range(30):
        edges = sorted(rng.sample(range(1, 40000), 2 * rng.randint(0, 9)))
        times = [edge / 10000 for edge in edges]
        rows = [(a, b, rng.choice(labels)) for a, b in zip(times[::2], times[1::2], strict=True)]
        points = [(time, rng.choice([label for label in labels if '"' not in label])) for time in times]
        tiers = [("IntervalTier", 'p "1"', rows), ("TextTier", "bell", points), ("IntervalTier", "", [])]
        dicts = [{"class": kind, "name": n, "xmin": 0, "xmax": 4, "entries": e} for kind, n, e in tiers]
        text = textgrid_io.getTextgridAsStr({"xmin": 0, "xmax": 4, "tiers": dicts}, form, includeBlankSpaces=True)
        expected = [
            (tier["name"], [(float(e[0]), float(e[-2]), e[-1]) for e in tier["entries"]])
            for tier in textgrid_io.parseTextgridStr(text, includeEmptyIntervals=True)["tiers"]
        ]
        found = read_tiers(write(tmp_path, text.encode())).tiers
        assert [(tier.name, [tuple(entry) for entry in tier.entries]) for tier in found] == expected
        if form == "long_textgrid":
            assert long_text(4, found) == text


COMMENTS = [("<exists>", "! three tiers\n<exists>"), ("0.25", "2.5e-01"), ("\n3\n", "\nsize = 3 größer \n")]


@pytest.mark.parametrize(("old", "new"), COMMENTS)
def test_what_praat_reads_alike_is(tmp_path: Path, old: str, new: str) -> None:
    path = write(tmp_path, SHORT.replace(old, new, 1).encode())
    assert {tier.name: (tier.points, tier.entries) for tier in read_tiers(path).tiers} == WANTED


ODD = [
    ("0.25", "0,25"),
    ("0.25", "1_0"),
    ("0.25", "\u0663"),
    ("0.25", ""),
    ('"a"', '"a'),
    ('"a"', "a"),
    ("\n3\n0\n0.25", "\n4\n0\n0.25"),
    ("\n3\n0\n0.25", "\n2\n0\n0.25"),
    ("\n3\n0\n0.25", "\n-3\n0\n0.25"),
    ("\n<exists>\n3", "\n<exists>\n4"),
    ("\n<exists>\n3", "\n<absent>"),
    ('class = "TextGrid"', 'class = "PitchTier"'),
]


@pytest.mark.parametrize(("old", "new"), ODD)
def test_what_is_odd_is_refused(tmp_path: Path, old: str, new: str) -> None:
    assert old in SHORT
    with pytest.raises(InputError, match="a.TextGrid: not a TextGrid"):
        read_tiers(write(tmp_path, SHORT.replace(old, new, 1).encode()))


def test_windows_text_is_read_and_said(tmp_path: Path) -> None:
    grid = read_tiers(write(tmp_path, SHORT.replace("ʃ", "s").encode("cp1252")))
    assert grid.tiers[0].entries[0].label == "é"
    assert "line 15: not UTF-8, read as Windows-1252 (it says 'é', 'phönes')" in grid.note


@pytest.mark.parametrize(
    ("intervals", "message"),
    [
        ([(0.0, 0.5, "a"), (0.4, 0.9, "b")], "overlap: 'a' ends at 0.500 s, 'b' begins at 0.400 s"),
        ([(0.5, 0.2, "a")], "'a' goes from 0.5 s to 0.2 s"),
        ([(0.1, float("nan"), "a")], "not a TextGrid"),
        ([(0.1, float("inf"), "a")], "not a TextGrid"),
        ([(-0.5, 0.1, "a")], "'a' goes from -0.5 s to 0.1 s"),
        ([(float("-inf"), 0.1, "a")], "not a TextGrid"),
    ],
)
def test_times_that_cannot_be_are_refused(
    tmp_path: Path, intervals: list[tuple[float, float, str]], message: str
) -> None:
    text = 'File type = "ooTextFile"\nObject class = "TextGrid"\n\n0\n1\n<exists>\n1\n"IntervalTier"\n"p"\n0\n1\n'
    text += f"{len(intervals)}\n" + "".join(f'{start}\n{end}\n"{label}"\n' for start, end, label in intervals)
    with pytest.raises(InputError, match=message):
        read_textgrid(write(tmp_path, text.encode()), "p")


def test_intervals_come_in_the_order_of_time_and_labels_in_nfc(tmp_path: Path) -> None:
    text = SHORT.replace('0\n0.25\n"a"\n0.25\n0.5\n"ʃ""x"\n', '0.25\n0.5\n"ʃ""x"\n0.5\n1.4\n"a\u0303"\n')
    text = text.replace('0.5\n1.5\n""', '0\n0.25\n""')
    assert [each.label for each in read_textgrid(write(tmp_path, text.encode()), "phönes")] == ['ʃ"x', "\u00e3"]
    (tmp_path / "a.PHN").write_bytes("0 100 a\u0303\r\n100 200 x\r\n".encode("utf-16"))
    assert [each.label for each in read_phn(tmp_path / "a.PHN")] == ["\u00e3", "x"]


@pytest.mark.parametrize("line", [f"0 {'9' * 4301} a", f"0 {'9' * 400} a", "-5 3 a", "9 3 a"])
def test_a_phn_file_of_impossible_times_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.phn").write_text(line)
    with pytest.raises(InputError, match=r"a\.phn"):
        read_phn(tmp_path / "a.phn")
