"""measure, against Praat itself called through parselmouth."""

from __future__ import annotations

import csv
import io
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.core.errors import InputError
from speechctc.pages.measured_figures import bark, draw_measures, measures_figure, vowel_places
from speechctc.stages.maximum_formant import read_maximum_formants
from speechctc.stages.measure import Praat, PraatSettings
from tests.command import Command, one_line_error

pytest.importorskip("parselmouth")

RATE = 16000
VOWELS = {"iy": (280, 2250, 2900), "ae": (690, 1660, 2490), "aa": (710, 1100, 2540), "uw": (310, 870, 2250)}


def vowel(formants: tuple[int, ...], seconds: float, pitch: float, seed: int) -> NDArray[np.float64]:
    """Return a synthetic vowel: pulses through resonators (Klatt's), and a little noise."""
    samples: NDArray[np.float64] = np.zeros(round(seconds * RATE))
    samples[:: round(RATE / pitch)] = 1.0
    samples += 0.003 * np.random.default_rng(seed).normal(size=len(samples))
    for formant in formants:
        r, angle = np.exp(-np.pi * 80 / RATE), 2 * np.pi * formant / RATE
        b, c = 2 * r * np.cos(angle), -r * r
        out = np.zeros(len(samples) + 2)
        for t, x in enumerate(samples):
            out[t + 2] = (1 - b - c) * x + b * out[t + 1] + c * out[t]
        samples = out[2:]
    return np.asarray(samples / np.abs(samples).max() * 0.5)


def write_vowels(path: Path, pitch: float, count: int = 10) -> list[Interval]:
    """Write a recording of vowels and its TextGrid."""
    labels = [list(VOWELS)[k % 4] for k in range(count)]
    pieces = [vowel(VOWELS[label], 0.12 + 0.01 * k, pitch + 3 * k, k) for k, label in enumerate(labels)]
    ends = np.cumsum([len(each) for each in pieces]) / RATE
    phones = [Interval(float(b) - len(p) / RATE, float(b), k) for b, p, k in zip(ends, pieces, labels, strict=True)]
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, np.concatenate(pieces), RATE)
    spans = [("one", phones[:4]), ("two", phones[4:9])]
    words = [Interval(inside[0].start, inside[-1].end, word) for word, inside in spans if inside]
    sure = [each._replace(label="0.5") for each in phones]
    path.with_suffix(".TextGrid").write_text(
        textgrid_text(float(ends[-1]), {"words": words, "phones": phones, "confidence": sure})
    )
    return phones


def table(file: Path) -> list[dict[str, str]]:
    """Return the rows of a table."""
    return list(csv.DictReader(io.StringIO(file.read_text())))


def test_twenty_vowels_are_measured_as_praat_does(speechctc: Command, here: Path) -> None:
    parselmouth = pytest.importorskip("parselmouth")
    call = parselmouth.praat.call
    phones = {name: write_vowels(here / name / "v.wav", pitch) for name, pitch in (("anna", 190.0), ("ben", 110.0))}
    done = speechctc("measure", ".", "--out", "m.csv", "--maximum-formant", "5000")
    assert done.status == 0, done.err
    rows = table(here / "m.csv")
    assert len(rows) == 20
    for name, intervals in phones.items():
        sound = parselmouth.Sound(str(here / name / "v.wav"))
        formant = call(sound, "To Formant (burg)", 0.0, 5, 5000, 0.025, 50)
        pitch = call(sound, "To Pitch", 0.0, 75, 600)
        intensity = call(sound, "To Intensity", 100, 0.0, "yes")
        for row, (start, end, label) in zip([row for row in rows if row["speaker"] == name], intervals, strict=True):
            assert row["phone"] == label and float(row["duration"]) == pytest.approx(end - start, abs=1e-4)
            assert float(row["f0_mean"]) == pytest.approx(call(pitch, "Get mean", start, end, "Hertz"), abs=0.02)
            assert float(row["intensity_mean"]) == pytest.approx(
                call(intensity, "Get mean", start, end, "energy"), abs=0.02
            )
            for number in (1, 2, 3):
                times = {"mid": (start + end) / 2} | {
                    str(k + 1): start + (k + 0.5) / 10 * (end - start) for k in range(10)
                }
                f0 = call(pitch, "Get value at time", times[str(number + 3)], "Hertz", "linear")
                assert float(row[f"f0_{number + 3}"]) == pytest.approx(f0, abs=0.02)
                for step, time in times.items():
                    own = row[f"f{number}_{step}"]
                    value = call(formant, "Get value at time", number, time, "hertz", "linear")
                    assert (own == "") == np.isnan(value) and (
                        own == "" or float(own) == pytest.approx(value, abs=0.02)
                    )
            assert (float(row["f1_mid"]) > 500) == (VOWELS[label][0] > 500)


def test_words_neighbours_and_tiers_beside(speechctc: Command, here: Path) -> None:
    write_vowels(here / "v.wav", 120.0)
    done = speechctc("measure", "v.wav", "--out", "m.csv")
    assert done.status == 0, done.err
    rows = table(here / "m.csv")
    assert [row["word"] for row in rows] == ["one"] * 4 + ["two"] * 5 + [""]
    assert [row["position"] for row in rows] == [*"1234", *"12345", ""] and rows[4]["word_phones"] == "5"
    assert [rows[0]["previous"], rows[0]["next"], rows[9]["previous"], rows[9]["next"]] == ["", "ae", "iy", ""]
    assert {row["confidence"] for row in rows} == {"0.5000"} and {row["score"] for row in rows} == {""}
    assert {row["speaker"] for row in rows} == {""}
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv("m.csv")
    kinds = frame.drop(columns=["file", "speaker", "phone", "previous", "next", "word"]).dtypes
    assert all(kind.kind in "fi" for kind in kinds) and frame["score"].isna().all()


@pytest.mark.parametrize("start", [0.0, 0.05])
def test_an_empty_interval_has_no_means(here: Path, start: float) -> None:
    soundfile.write(here / "v.wav", vowel(VOWELS["aa"], 0.2, 100, 0), RATE)
    praat = Praat(here / "v.wav", None, PraatSettings())
    empty, whole = praat.values(start, start), praat.values(start, 0.2)
    assert empty["f0_mean"] is None and empty["intensity_mean"] is None
    assert whole["f0_mean"] and whole["intensity_mean"] and (start == 0 or empty["f1_mid"])


def test_a_textgrid_belongs_to_one_recording(speechctc: Command, here: Path) -> None:
    for place in ("all/x/v.wav", "all/y/v.wav", "all/y/w.wav"):
        write_vowels(here / place, 120.0, 1)
    (here / "grids/x").mkdir(parents=True)
    for name in "vw":
        (here / f"all/y/{name}.TextGrid").rename(here / f"grids/{name}.TextGrid")
    done = speechctc("measure", "all", "--textgrids", "grids", "--out", "m.csv")
    assert done.status == 1 and {row["file"] for row in table(here / "m.csv")} == {"all/y/w.wav"}
    assert done.err.count("other recordings have the name of grids/v.TextGrid") == 1, done.err
    assert "(2 times, also for all/y/v.wav)" in done.err
    flat = speechctc("measure", "all/x", "all/y/v.wav", "--textgrids", "grids", "--out", "n.csv")
    assert flat.status == 2 and not (here / "n.csv").exists()
    (here / "all/x/v.TextGrid").rename(here / "grids/x/v.TextGrid")
    own = speechctc("measure", "all", "--textgrids", "grids", "--out", "o.csv")
    assert own.status == 1 and {row["file"] for row in table(here / "o.csv")} == {"all/x/v.wav", "all/y/w.wav"}


def test_a_table_names_the_recordings_and_its_ids_the_textgrids(speechctc: Command, here: Path) -> None:
    (here / "out").mkdir()
    for k, id in enumerate(["ä 1", "2", "three"]):
        write_vowels(here / f"rec/{k}.wav", 120.0, 1)
        (here / f"rec/{k}.TextGrid").rename(here / f"out/{id}.TextGrid")
    head, rows = "id;audio;speaker;words\n", ["ä 1;rec/0.wav;Anna;a", "2;rec/1.wav;Ben;a", "three;rec/2.wav;Anna;a"]
    (here / "t.csv").write_text(head + "\n".join(rows), encoding="cp1252")
    done = speechctc("measure", "t.csv", "--textgrids", "out", "--out", "m.csv")
    assert done.status == 0 and done.err.count("read as Windows-1252") == 1, done.err
    found = [(row["file"], row["speaker"]) for row in table(here / "m.csv")]
    assert found == [("rec/0.wav", "Anna"), ("rec/1.wav", "Ben"), ("rec/2.wav", "Anna")]
    (here / "out/three.TextGrid").rename(here / "rec/three.TextGrid")
    assert speechctc("measure", "t.csv", "--out", "n.csv").status == 1 and len(table(here / "n.csv")) == 1
    kept = (here / "t.csv").read_bytes()
    assert "this command reads it" in one_line_error(speechctc("measure", "t.csv", "--out", "t.csv", "--overwrite"))
    assert (here / "t.csv").read_bytes() == kept
    (here / "t.csv").write_text(head + "a b;rec/0.wav;;a\na/b;rec/1.wav;;a\n")
    done = speechctc("measure", "t.csv", "--textgrids", "out")
    assert "rec/0.wav: no .TextGrid file of its name in out" in one_line_error(done)


def test_what_is_wrong_with_many_is_counted_and_what_is_written_is_said(speechctc: Command, here: Path) -> None:
    write_vowels(here / "in/v.wav", 120.0, 4)
    for k in range(30):
        (here / f"in/no {k}.wav").write_bytes((here / "in/v.wav").read_bytes())
    for name in ("p", "q"):
        soundfile.write(here / f"in/{name}.wav", vowel(VOWELS["aa"], 0.2, 100, 0), RATE)
        (here / f"in/{name}.TextGrid").write_bytes((here / "in/v.TextGrid").read_bytes())
    done = speechctc("measure", "in", "--out", "m.csv")
    first, second = [line for line in done.err.splitlines() if line.startswith("warning: ")]
    assert (
        "in/no 0.wav: no .TextGrid file of its name beside no 0.wav" in first and "(30 times, also for in/no 1" in first
    )
    assert "in/p.wav: its TextGrid goes on to" in second and "(2 times, also for in/q.wav)" in second
    assert done.status == 1 and done.out.splitlines() == ["4 phones of 1 recording"]
    shown = speechctc("measure", "in/v.wav", "--plot", "m.svg")
    assert shown.out.startswith("file,speaker,") and "wrote m.svg: 4 phones" in shown.err


def test_a_folder_gets_a_table_for_each_recording_and_an_interrupted_one_the_rest(
    speechctc: Command, here: Path
) -> None:
    for place in ("in/anna/v.wav", "in/ben/v.wav"):
        write_vowels(here / place, 120.0, 2)
    assert speechctc("measure", "in", "--out", "all.csv").status == 0
    said = speechctc("measure", "in", "--out", "each/").out
    assert said == "4 phones of 2 recordings, speakers: anna, ben\n"
    tables = [here / f"each/{name}/v.csv" for name in ("anna", "ben")]
    assert [row for each in tables for row in table(each)] == table(here / "all.csv")
    tables[0].unlink()
    tables[1].write_text("mine\n")
    assert "made or changed by hand" in one_line_error(speechctc("measure", "in", "--out", "each"))
    done = speechctc("measure", "in", "--out", "each", "--skip-existing")
    assert done.status == 0 and "1 recording left out" in done.err
    assert done.out == "2 phones of 1 recording, speakers: anna\n"
    assert table(tables[0]) == table(here / "all.csv")[:2] and tables[1].read_text() == "mine\n"
    assert "--plot" in one_line_error(speechctc("measure", "in", "--out", "each", "--skip-existing", "--plot", "m.svg"))


def test_a_picture_by_speaker(speechctc: Command, here: Path) -> None:
    pytest.importorskip("matplotlib")
    for name, pitch in (("anna", 190.0), ("ben", 110.0)):
        write_vowels(here / name / "v.wav", pitch, 4)
    done = speechctc("measure", ".", "--out", "m.csv", "--plot", "m.pdf")
    assert done.status == 0, done.err
    drawn = (here / "m.pdf").read_bytes()
    assert drawn.startswith(b"%PDF") and len(drawn) > 5000


def chart_rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return rows of two vowels whose F2 and F1 are normal, by two speakers."""
    random, rows = np.random.default_rng(seed), list[dict[str, Any]]()
    for speaker in ("anna", "ben"):
        for phone, mean in (("i", (2200, 300)), ("a", (1300, 800))):
            places = random.multivariate_normal(mean, [[90**2, 1500], [1500, 40**2]], count)
            rows += ({"phone": phone, "speaker": speaker, "duration": 0.1, "f1_mid": y, "f2_mid": x} for x, y in places)
    return rows


def test_an_ellipse_holds_95_of_100_tokens_and_an_outlier_changes_nothing() -> None:
    rows = [row for row in chart_rows(20_000) if row["speaker"] == "anna"]
    place = vowel_places(rows, {"i", "a"})["i"]
    assert place.axes is not None and place.mean == pytest.approx([2200, 300], rel=0.01)
    inside = ((np.linalg.inv(place.axes.T) @ (place.tokens - place.mean).T) ** 2).sum(0) <= 1
    assert inside.mean() == pytest.approx(0.95, abs=0.005) and len(place.outliers) < 4
    few = rows[:30]
    odd = {**few[0], "f1_mid": 1900.0, "f2_mid": 5000.0}
    before, after = (vowel_places(each, {"i", "a"})["i"] for each in (few, [*few, odd]))
    np.testing.assert_allclose(after.ellipse(), before.ellipse())
    assert after.outliers.tolist() == [[5000.0, 1900.0]]
    assert vowel_places(few[:4], {"i"})["i"].axes is None
    hertz = np.array([100.0, 500.0, 1500.0, 3500.0])  # and back by the inverse formula of the same paper
    np.testing.assert_allclose(1960 * (bark(hertz) + 0.53) / (26.28 - bark(hertz)), hertz)


def test_axes_run_as_on_the_chart_without_outliers_and_vowels_have_colours() -> None:
    pytest.importorskip("matplotlib")
    rows = chart_rows(30)
    rare = {**rows[0], "phone": "u", "f1_mid": 4000.0, "f2_mid": 5400.0}  # the only one of its vowel
    limits = []
    for given in (rows, [*rows, rare, {**rows[0], "f1_mid": 1900.0, "f2_mid": 5000.0}]):
        figure = measures_figure(given, {"i", "a", "u"})
        first, second = figure.subfigs[0].axes[:2]
        assert first.xaxis_inverted() and first.yaxis_inverted() and first.get_xlim() == second.get_xlim()
        limits.append((*first.get_xlim(), *first.get_ylim()))
        colours = {text.get_text(): text.get_color() for text in first.texts}
        assert len({*colours.values()}) == len(colours) >= 2
        assert colours == {text.get_text(): text.get_color() for text in second.texts} | colours
        assert "ellipse of 95 %" in figure.subfigs[0].get_suptitle()
    assert limits[0][0] < 3000 and limits[0][2] < 1200
    assert max(limits[1][0], 0) < 3000 and limits[1][2] < 1200
    assert "2 outliers not counted" in first.get_title(loc="left")
    in_bark = measures_figure(rows, {"i", "a"}, in_bark=True).subfigs[0]
    assert in_bark.axes[0].get_xlim()[0] < 16 and in_bark.get_supxlabel() == "F2, Bark"


def test_tables_for_excel_have_the_same_values(speechctc: Command, here: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    write_vowels(here / "=1/v.wav", 120.0, 4)
    for name in ("m.csv", "m.bom.csv", "m.xlsx", "m.tsv"):
        assert speechctc("measure", ".", "--out", name).status == 0
    plain, marked = (here / "m.csv").read_bytes().decode(), (here / "m.bom.csv").read_bytes().decode()
    assert marked[0] == "\ufeff" and marked[1:].replace("'=1", "=1") == plain and ",'=1," in marked
    assert (here / "m.tsv").read_text().splitlines() == [line.replace(",", "\t") for line in plain.splitlines()]
    head, *rows = openpyxl.load_workbook(here / "m.xlsx")["phones"].iter_rows(values_only=True)
    assert list(head) == plain.splitlines()[0].split(",")
    for cells, row in zip(rows, csv.DictReader(io.StringIO(plain)), strict=True):
        for cell, text in zip(cells, row.values(), strict=True):
            assert cell is None if text == "" else float(cell) == float(text) if text[0].isdigit() else cell == text
    done = speechctc("measure", ".", "--format", "csv-bom,xlsx", "--out", "each/")
    assert done.status == 0 and {each.name for each in (here / "each/=1").iterdir()} >= {"v.bom.csv", "v.xlsx"}
    assert speechctc("measure", ".", "--format", "csv-bom").out.encode() == marked.encode()


def test_the_maximum_formant_of_each_speaker(speechctc: Command, here: Path) -> None:
    for name in ("anna", "ben", "kim"):
        write_vowels(here / f"rec/{name}/v.wav", 150.0, 3)
    of = {
        hertz: speechctc("measure", "rec", "--maximum-formant", hertz).out.splitlines() for hertz in (5000, 5500, 8000)
    }
    done = speechctc("measure", "rec", "--maximum-formant", "5500", "--maximum-formant", "ben=5000,kim=8000")
    assert done.status == 0 and "5500 Hz for anna, 5000 Hz for ben" in done.err
    lines = done.out.splitlines()
    assert lines[0] == of[5000][0]
    assert lines[1:] == of[5500][1:4] + of[5000][4:7] + of[8000][7:10]
    assert [row["maximum_formant"] for row in csv.DictReader(lines)] == ["5500.00"] * 3 + ["5000.00"] * 3 + [
        "8000.00"
    ] * 3
    assert of[5000][4:7] != of[5500][4:7]
    (here / "people.csv").write_text("speaker;sex\nanna;F\nben;male\n")
    by_sex = speechctc("measure", "rec", "--maximum-formant", "people.csv")
    assert by_sex.out.splitlines()[1:] == of[5500][1:4] + of[5000][4:7] + of[5500][7:10]
    assert "no sex is known of kim" in by_sex.err
    rows = [f"{name}\trec/{name}/v.wav\t{name}\t{sex}\ta" for name, sex in (("anna", "f"), ("ben", "m"), ("kim", "f"))]
    (here / "t.tsv").write_text("\n".join(["id\taudio\tspeaker\tsex\tphones", *rows]))
    for name in ("anna", "ben", "kim"):
        shutil.copy(here / f"rec/{name}/v.TextGrid", here / f"{name}.TextGrid")
    (here / "grids").mkdir()
    for name in ("anna", "ben", "kim"):
        (here / f"{name}.TextGrid").rename(here / f"grids/{name}.TextGrid")
    told = speechctc("measure", "t.tsv", "--textgrids", "grids", "--maximum-formant", "sex,kim=8000")
    assert told.out.splitlines()[1:] == of[5500][1:4] + of[5000][4:7] + of[8000][7:10], told.err
    wrong = one_line_error(speechctc("measure", "rec", "--maximum-formant", "bob=5000"))
    assert "bob=5000: no such speaker; name one of the speakers: anna, ben, kim" in wrong


def test_a_table_of_maximum_formants_is_read_whole_or_refused(here: Path) -> None:
    (here / "p.tsv").write_text("speaker\tmaximum_formant\tsex\nAnna\t5300\tf\nBen\t\tm\n")
    found = read_maximum_formants(["p.tsv", "male=4900", "5200"], {})
    assert [found.of(name) for name in ("Anna", "Ben", "Kim")] == [5300, 4900, 5200]
    for text, said in (
        ("name\tsex\na\tf\n", "no columns speaker"),
        ("speaker\tsex\na\tx\n", "line 2: the sex 'x' is not known"),
        ("speaker\tmaximum_formant\na\t5e1\n", "line 2: 5e1: below 1000 Hz"),
        ("speaker\tmaximum_formant\na\t5000\na\t5500\n", "a has 5000 and 5500 Hz"),
    ):
        (here / "q.tsv").write_text(text)
        with pytest.raises(InputError, match=said):
            read_maximum_formants(["q.tsv"], {})


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_a_pair_of_dollars_is_drawn_as_it_is(form: str) -> None:
    pytest.importorskip("matplotlib")
    sign = r"$\frac$"  # which mathtext refuses
    rows = [{"phone": sign, "speaker": f"{sign}{k}", "duration": 0.1, "f1_mid": 500.0, "f2_mid": 1500.0} for k in "ab"]
    assert len(draw_measures(rows, {sign}, form)) > 5000


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("none.wav",), "none.wav: no such file; check the path"),
        (("b.wav",), "no .TextGrid file of its name beside b.wav"),
        (("v.wav", "--tier", "syllables"), "syllables"),
        (("b.wav", "--textgrids", "v.TextGrid"), "goes on to"),
        (("still.wav",), "no label in the tier 'phones'; nothing is labelled in it"),
        (("v.wav", "--pitch-floor", "700"), "not below --pitch-ceiling"),
        (("v.wav", "--plot", "m.gif"), "not the ending of a picture"),
        (("v.wav", "--out", "m.docx"), "name a file .csv"),
        (("v.wav", "--out", "m.TextGrid"), "name a file .csv"),
        (("v.wav", "--format", "textgrid"), "choose from: csv, csv-bom, tsv, xlsx"),
        (("v.wav", "--bark"), "--plot"),
        (("v.wav", "--maximum-formant", "500"), "below 1000 Hz"),
        (("v.wav", "--maximum-formant", "women"), "not a frequency"),
        (("v.wav", "--maximum-formant", "anna=5000"), "the recordings have no speakers"),
        (("v.wav", "--maximum-formant", "sex"), "the sex of no speaker is known"),
        (("v.wav", "--maximum-formant", "5000,5500"), "5000 and 5500 are for all"),
        (("v.wav", "--maximum-formant", "no.tsv"), "no.tsv: no such file"),
    ],
)
def test_bad_input_is_one_line(speechctc: Command, here: Path, given: tuple[str, ...], message: str) -> None:
    write_vowels(here / "v.wav", 120.0, 4)
    shutil.copy(here / "v.wav", here / "still.wav")
    (here / "still.TextGrid").write_text(textgrid_text(0.1, {"phones": [], "confidence": []}))
    soundfile.write(here / "b.wav", vowel(VOWELS["aa"], 0.2, 100, 0), RATE)
    assert message in one_line_error(speechctc("measure", *given))


def test_without_parselmouth_it_says_what_to_install(
    speechctc: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "parselmouth", None)
    write_vowels(here / "v.wav", 120.0, 4)
    assert "pip install '.[measure]'" in one_line_error(speechctc("measure", "v.wav"))
