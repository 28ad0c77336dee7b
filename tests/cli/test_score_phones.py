"""score-phones as a user would run it."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.audio import sound_file
from speechctc.audio.annotations import read_textgrid
from speechctc.audio.conditions import measure
from tests.browser import browser, console, set_screen
from tests.cli.test_align_words import write_words
from tests.command import Command, one_line_error
from tests.tiny_model import sing, write_song
from tests.tones import RATE

WORDS = ("--words", "a.txt", "--dictionary", "d.dict")
CLASS = ("score-phones", "may", "--words", "may", "--dictionary", "d.dict", "--by-speaker")


def test_a_phone_that_was_said_otherwise_stands_out(speechctc: Command, here: Path) -> None:
    write_words("a.wav", ["scale", "drop", "hum", "drop"])
    (here / "a.txt").write_text("scale drop hum drop")
    (here / "d.dict").write_text("SCALE low mid high\nDROP top low\nHUM mid high low top\n")  # hum has a mid there
    done = speechctc("score-phones", "a.wav", *WORDS, "--format", "csv")
    assert done.status == 0, done.err
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert [row["phone"] for row in rows] == "low mid high top low mid high low top top low".split()
    worst = min(rows, key=lambda row: float(row["score"]))
    assert rows.index(worst) == 7 and (worst["said_instead"], worst["word"].lower()) == ("mid", "hum")
    assert float(worst["said_instead_probability"]) > 0.5 > float(worst["probability"])
    inside = [float(row["score"]) for row in rows[5:9]]
    assert float(worst["word_score"]) == pytest.approx(sum(inside) / 4, abs=2e-4)
    assert float(worst["file_score"]) == pytest.approx(sum(float(row["score"]) for row in rows) / 11, abs=2e-4)


@pytest.mark.parametrize(
    ("said", "given", "kind", "beside"),
    [
        ("drop hum scale hum drop scale", "drop hum scale buzz hum drop scale", "missing", "scale hum"),
        ("drop hum scale buzz hum drop scale", "drop hum scale hum drop scale", "extra", "scale hum"),
        ("drop hum scale scale hum drop scale", "drop hum scale hum drop scale", "extra", None),
    ],
)
def test_words_beside_one_that_does_not_fit_have_no_score(
    speechctc: Command, here: Path, said: str, given: str, kind: str, beside: str | None
) -> None:
    write_words("a.wav", said.split(), seed=3)
    (here / "a.txt").write_text(given)
    done = speechctc("score-phones", "a.wav", *WORDS, "--format", "json", "--out", "a.json")
    (entry,) = json.loads((here / "a.json").read_text())
    (misfit,) = entry["misfits"]
    assert done.status == 3 and misfit["kind"] == kind and "words beside it have no score" in done.err
    unscored = [word["word"].lower() for word in entry["words"] if "score" not in word]
    assert " ".join(unscored) == beside if beside else 1 <= len(unscored) <= 2 and "scale" in unscored
    for word in entry["words"]:
        inside = [each for each in entry["segments"] if word["start"] <= each["start"] < word["end"]]
        assert all(("score" in each) == ("score" in word) for each in inside)
    everything = speechctc("score-phones", "a.wav", *WORDS, "--no-misfits", "--format", "json", "--out", "b.json")
    (entry,) = json.loads((here / "b.json").read_text())
    assert everything.status == 0 and all("score" in each for each in entry["words"])


def test_the_variant_taken_is_named_or_the_first_is_taken(speechctc: Command, here: Path) -> None:
    pytest.importorskip("openpyxl")
    write_song(here / "a.wav", "low high top low".split())
    (here / "a.txt").write_text("scale drop")
    (here / "d.dict").write_text("SCALE low mid high\nSCALE(2) low high\nDROP top low\n")
    forms = ("--format", "json,csv,text,html,xlsx", "--out", "out/")
    assert speechctc("score-phones", "a.wav", *WORDS, *forms).status == 0
    scale, drop = json.loads((here / "out/a.json").read_text())["words"]
    assert scale["variant"] == {"phones": "low high", "number": 2, "of": 2} and "variant" not in drop
    rows = list(csv.DictReader(io.StringIO((here / "out/a.csv").read_text())))
    assert [row["variant"] for row in rows] == ["low high (2 of 2)"] * 2 + [""] * 2
    assert (here / "out/a.txt").read_text().splitlines()[3].endswith("  scale (2 of 2)")
    assert "low high (2 of 2)" in re.sub("<.*?>", "", (here / "out/a.html").read_text())
    from openpyxl import load_workbook

    words = list(load_workbook(here / "out/a.xlsx")["words"].values)
    assert [row[-1] for row in words] == ["variant", "low high (2 of 2)", None]
    done = speechctc("score-phones", "a.wav", *WORDS, "--format", "json", "--first-variant", "--out", "first.json")
    assert done.status == 0 and "variant" not in (here / "first.json").read_text()
    (entry,) = json.loads((here / "first.json").read_text())
    assert entry["phones"] == "low mid high top low".split()
    assert entry["segments"][1]["said_instead"][0]["phones"] == "-"


def test_ratings_of_other_speakers_are_predicted(speechctc: Command, here: Path) -> None:
    """Each sixth phone has no rating to learn from, and gets one."""
    latest = here / "runs" / "latest"
    shared = latest.resolve()
    latest.unlink()
    shutil.copytree(shared, latest)  # ratings are learned into the model's folder
    rows, rng = ["file\tphone\trating"], np.random.default_rng(0)
    for speaker in "ABCDE":
        (here / "all" / speaker).mkdir(parents=True)
        for k in range(4):
            said = [str(each) for each in rng.choice(["low", "mid", "high", "top"], 6)]
            written = ["mid" if each == "top" and k % 2 else each for each in said]
            write_song(here / "all" / speaker / f"{k}.wav", said, seed=k)
            (here / "all" / speaker / f"{k}.txt").write_text(" ".join(written))
            marks = [f"out/{speaker}/{k}.json\t{n}\t{2 * (written[n - 1] == said[n - 1])}" for n in range(1, 6)]
            rows += marks
    (here / "r.tsv").write_text("\n".join(rows) + "\n", encoding="utf-16")  # as Excel saves Unicode text
    (here / "d.dict").write_text("LOW low\nMID mid\nHIGH high\nTOP top\n")
    score = (
        "score-phones",
        "all",
        "--words",
        "all",
        "--dictionary",
        "d.dict",
        "--no-misfits",
        "--format",
        "json",
        "--out",
    )
    assert speechctc(*score, "out").status == 0
    segments = json.loads((here / "out/A/1.json").read_text())["segments"]
    assert all(set(each["log_odds"]) == {"-", "low", "mid", "high", "top"} - {each["phone"]} for each in segments)
    assert speechctc("calibrate", "--ratings", "r.tsv").status == 0
    assert speechctc(*score, "new").status == 0
    found = [each for path in (here / "new").rglob("*.json") for each in json.loads(path.read_text())["segments"]]
    wrong = [each["rating"] for each in found if max(each["log_odds"].values()) > 3]
    right = [each["rating"] for each in found if max(each["log_odds"].values()) < -3]
    assert len(wrong) > 3 and np.mean(wrong) < 0.7 < 1.7 < np.mean(right)
    for line in ("out/A/0.json\t7\t1", "out/A/0.json\t1\tgood", "x\t1\t1"):
        (here / "r.tsv").write_text(f"file\tphone\trating\n{line}\n")
        assert "line 2" in one_line_error(speechctc("calibrate", "--ratings", "r.tsv"))
    (here / "r.tsv").write_text("file\tphone\trating\nout/A/0.json\t1\t1\n")
    assert "ratings of 1 speakers, 5 are needed" in one_line_error(speechctc("calibrate", "--ratings", "r.tsv"))


def test_every_format_has_the_scores(speechctc: Command, here: Path) -> None:
    pytest.importorskip("openpyxl")
    write_words("a.wav", ["scale", "drop"])
    (here / "a.txt").write_text("scale drop")
    forms = "json,textgrid,tsv,csv,xlsx,eaf,html,text,ctm"
    done = speechctc("score-phones", "a.wav", *WORDS, "--format", forms, "--out", "out/")
    assert done.status == 0, done.err
    entry = json.loads((here / "out/a.json").read_text())
    scores = [segment["score"] for segment in entry["segments"]]
    assert entry["score"] == pytest.approx(sum(scores) / 5, abs=1e-3) and len(scores) == 5
    assert entry["words"][0]["score"] == pytest.approx(sum(scores[:3]) / 3, abs=1e-3)
    tier = read_textgrid(here / "out/a.TextGrid", "score")
    assert [float(each.label) for each in tier] == pytest.approx(scores, abs=0.006)
    tables = [
        list(csv.DictReader(io.StringIO((here / f"out/a.{sign}").read_text()), delimiter=delimiter))
        for sign, delimiter in (("tsv", "\t"), ("csv", ","))
    ]
    assert tables[0][1:] == tables[1] and [float(row["score"]) for row in tables[1]] == pytest.approx(scores, abs=1e-3)
    from openpyxl import load_workbook

    first, *rest = load_workbook(here / "out/a.xlsx")["phones"].iter_rows(values_only=True)
    assert list(first) == list(tables[0][0]) and [row[6] for row in rest] == pytest.approx(scores, abs=1e-3)
    assert ", score " in (here / "out/a.html").read_text()
    _, about, header, *lines = (here / "out/a.txt").read_text().splitlines()
    assert about == entry["about"] and about in (here / "out/a.html").read_text()
    assert header.split() == "start end phone confidence score said instead word".split()
    at = header.index("score") + len("score")
    assert [float(line[at - 5 : at]) for line in lines] == pytest.approx(scores, abs=0.006)
    (here / "out/a.json").write_text("mine")
    again = speechctc("score-phones", "a.wav", *WORDS, "--format", "json", "--out", "out/")
    assert again.status == 2 and (here / "out/a.json").read_text() == "mine"


def test_a_pair_of_sounds_is_compared_in_every_output(speechctc: Command, here: Path) -> None:
    (here / "x").mkdir()
    write_words("x/a.wav", ["scale", "drop"])
    (here / "x/a.txt").write_text("scale drop")
    (here / "d.dict").write_text("SCALE low top high\nDROP top low\n")  # a mid was said in scale
    given = ("score-phones", "x", "--words", "x", "--dictionary", "d.dict", "--contrasts")
    done = speechctc(*given, "top/mid", "--format", "json,csv,text,html,textgrid", "--out", "out/")
    assert done.status == 0 and "contrasts: top as mid 1 of 2" in done.err, done.err
    segments = json.loads((here / "out/a.json").read_text())["segments"]
    of_two = [each.get("contrasts", {}) for each in segments]
    assert [[*each] for each in of_two] == [[], ["mid"], [], ["mid"], []]
    assert of_two[1]["mid"] < 0.01 and of_two[3]["mid"] > 0.99
    odds = [segments[k]["log_odds"]["mid"] for k in (1, 3)]
    assert [of_two[k]["mid"] for k in (1, 3)] == pytest.approx([1 / (1 + np.exp(each)) for each in odds], abs=1e-3)
    rows = list(csv.DictReader(io.StringIO((here / "out/a.csv").read_text())))
    assert [row["contrast"] for row in rows] == ["", "top/mid", "", "top/mid", ""]
    assert float(rows[1]["contrast_probability"]) == pytest.approx(of_two[1]["mid"], abs=1e-4)
    assert [each.label[:8] for each in read_textgrid(here / "out/a.TextGrid", "contrast")][1] == "top/mid "
    page, text = (re.sub("<.*?>", " ", (here / f"out/a.{end}").read_text()) for end in ("html", "txt"))
    assert " contrast " in page and f" top/mid {of_two[1]['mid']:.2f} " in page
    assert "said instead    contrast      word" in text and f"  top/mid {of_two[1]['mid']:.2f}  scale" in text
    shutil.copytree(here / "x", here / "y/x")
    by_speaker = (given[0], "y", given[2], "y", *given[4:])
    assert speechctc(*by_speaker, "top/mid", "--by-speaker", "pages").status == 0
    cells = re.findall(r"<tr><th scope=.row. class=.phone.>top</th>.*?</tr>", (here / "pages/x.html").read_text())
    assert len(cells) == 1 and cells[0].endswith("<td>1 of 2, too seldom to tell</td></tr>")
    assert "no sound buzz" in one_line_error(speechctc(*given, "top/buzz"))
    assert "lists are of sounds of English" in one_line_error(speechctc(*given, "es"))


@pytest.mark.parametrize("audio", ["1.wav", "/gone/{}/1.wav", "1.wav, no speaker"])
def test_a_table_finds_recordings_by_speaker_or_says_in_a_line(speechctc: Command, here: Path, audio: str) -> None:
    rows = []
    for name, phones in (("Li Na", "low mid"), ("Wang", "top high")):
        (here / name).mkdir()
        write_song(here / name / "1.wav", phones.split())
        speaker = name if audio == "1.wav" else ""
        rows.append(f"{name[:2]},{audio.partition(',')[0].format(name)},{speaker},{phones}")
    (here / "t.csv").write_text("\n".join(["id,audio,speaker,phones", *rows]))
    for given in ((), (".",)):
        done = speechctc("score-phones", *given, "--transcripts", "t.csv", "--format", "csv")
        if "no speaker" in audio:
            assert done.status == 2 and ("not there" in done.err) == (not given)
            assert done.err.count("2 rows that fit it; write its folder") == len(given) == done.err.count("1.wav: ")
            continue
        assert done.status == 0, done.err
        found = [(row["file"], row["speaker"], row["phone"]) for row in csv.DictReader(io.StringIO(done.out))]
        people = [name if audio == "1.wav" or given else "" for name in ("Li Na", "Li Na", "Wang", "Wang")]
        files = ["Li Na/1.wav"] * 2 + ["Wang/1.wav"] * 2
        assert found == [*zip(files, people, "low mid top high".split(), strict=True)]


def test_rows_of_one_file_are_lost_in_no_result(speechctc: Command, here: Path) -> None:
    songs = ["low mid high".split(), "top low mid".split()]
    sounds = [sing(song, np.random.default_rng(k), RATE)[0] for k, song in enumerate(songs)]
    soundfile.write(here / "two.wav", np.column_stack([sound[: min(map(len, sounds))] for sound in sounds]), RATE)
    end = min(map(len, sounds)) / RATE
    rows = [
        f"{k}{m},two.wav,{k + 1},{m * end / 3},{(m + 1) * end / 3},{p}" for k in (0, 1) for m, p in enumerate(songs[k])
    ]
    (here / "t.csv").write_text("\n".join(["id,audio,channel,start,end,phones", *rows]) + "\n")
    for named in ((), ("two.wav",)):
        done = speechctc(
            "align", *named, "--transcripts", "t.csv", "--format", "textgrid", "--out", f"out{len(named)}/"
        )
        assert done.status == 0, done.err
        found = {path.stem: path.read_text() for path in (here / f"out{len(named)}").glob("*.TextGrid")}
        assert sorted(found) == ["two-1", "two-2"] and '"high"' in found["two-1"] and '"top"' in found["two-2"]
    (here / "t.csv").write_text("id,audio,channel,phones\nx/1,two.wav,1,low mid\nx_1,two.wav,2,top low\n")
    line = one_line_error(speechctc("align", "--transcripts", "t.csv", "--format", "textgrid", "--out", "same/"))
    assert "both two.wav (channel 1) and two.wav (channel 2) would be written to same" in line
    (here / "t.csv").write_text("id,audio,phones\na,two.wav,low mid\nb,two.wav,top low\n")
    done = speechctc("align", "two.wav", "--transcripts", "t.csv")
    assert done.status == 2 and "two.wav: t.csv has 2 rows that fit it" in done.err


def test_no_result_is_written_over_what_is_read(speechctc: Command, here: Path) -> None:
    write_song(here / "a.wav", ["low"])
    sound = (here / "a.wav").read_bytes()
    line = one_line_error(speechctc("decode", "a.wav", "--format", "textgrid", "--out", "a.wav", "--overwrite"))
    assert "this command reads it" in line and (here / "a.wav").read_bytes() == sound
    assert "text in CSV" in one_line_error(speechctc("measure", "a.wav", "--out", "a.TextGrid"))


def test_pages_by_speaker_name_the_worst_sounds_and_what_changed(speechctc: Command, here: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    for time, second in (("may", "top"), ("june", "mid")):  # of low mid high, in May all said low top high
        for name, said in (("Li Na", ["low", second, "high"]), ("index", ["low", "mid", "high"])):
            (here / time / name).mkdir(parents=True)
            for k in range(6):
                write_song(here / time / name / f"{k}.wav", said, seed=k)
                (here / time / name / f"{k}.txt").write_text("hum")
    (here / "d.dict").write_text("HUM low mid high\n")
    words = ("--words", "may", "--dictionary", "d.dict")
    assert speechctc("score-phones", "may", *words, "--by-speaker", "pages").status == 0
    for path in (here / "pages/scores").rglob("*.json"):  # other tones are no other microphone
        entry, song = json.loads(path.read_text()), here / "june" / path.parent.name / f"{path.stem}.wav"
        sound = measure(sound_file.read(song, RATE)[0])
        path.write_text(json.dumps(entry | {"sound": sound.to_dict()}) if sound else "")
    done = speechctc("score-phones", "june", *words, "--by-speaker", "now", "--before", "pages", "--format", "csv")
    assert done.status == 0 and "wrote 2 pages, index.html and sounds.csv and .xlsx into now" in done.out, done.err
    page, now = ((here / folder / "Li Na.html").read_text() for folder in ("pages", "now"))
    rated = json.loads((here / "pages/scores/Li Na/0.json").read_text())
    long = sum(each["end"] - each["start"] for each in rated["segments"])
    assert rated["phones_a_second"] == pytest.approx(3 / long, abs=0.01)
    assert len(re.findall(r'phones a second">\d+\.\d</td></tr>', (here / "pages/index.html").read_text())) == 2
    assert re.findall('<strong class="phone">(.*?)<', page) == ["mid"]
    assert (
        re.findall('<th scope="row">(.*?)<', page)[0] == "mid" and ">top (6)<" in page and "Scores, from 0 to 1" in page
    )
    listed = "".join(re.findall('<td class="listen">.*?</td>', page))
    assert listed.count('data-sound="data:audio/ogg') == 9 and re.search(
        r">hum 0.\d\d → <span class=.phone.>top<", page
    )
    assert re.search(r"\+1\.00 <span.*?</span> beyond chance</td></tr>", now) and (here / "now/index-2.html").exists()
    rows = list(csv.DictReader(io.StringIO((here / "now/sounds.csv").read_text("utf-8-sig"))))
    changed = {(row["speaker"], row["sound"]) for row in rows if row["beyond_chance"] == "yes"}
    assert ("Li Na", "mid") in changed and {speaker for speaker, _ in changed} == {"Li Na"}
    assert {row["times"] for row in rows} == {"6"} and (here / "now/scores/Li Na/0.csv").exists()
    matrix = [*openpyxl.load_workbook(here / "pages/sounds.xlsx")["speaker by sound"].values]
    assert matrix[0][:3] == ("speaker", "all", "high") and [row[0] for row in matrix[1:]] == ["Li Na", "index"]
    assert speechctc("score-phones", "june", *words, "--out", "all.html").status == 0
    assert (
        speechctc("score-phones", "june/Li Na", *words, "--no-refine", "--format", "json", "--out", "plain/").status
        == 0
    )
    assert "–</td>" not in now and "at 0.2, " not in page and "how probable it is" in page
    plain, unrefined = (
        json.loads((here / name).read_text())["segments"] for name in ("now/scores/Li Na/0.json", "plain/0.json")
    )
    assert [each["score"] for each in plain] == [each["score"] for each in unrefined]
    with browser() as driver:
        set_screen(driver, 390, dark=False)
        for name in ("now/Li Na.html", "now/index.html", "all.html"):
            driver.get((here / name).as_uri())
            code = "[document.documentElement, ...document.querySelectorAll('.pieces > *')].map((it) => it.scrollWidth)"
            assert max(driver.execute_script(f"return {code}")) <= 390 and not console(driver)
    one = here / "pages/scores/Li Na/0.json"
    one.write_text(one.read_text().replace("Scores, from", "Marks, from"))
    other = speechctc("score-phones", "june", *words, "--by-speaker", "other", "--before", "pages")
    assert other.status == 2 and "the scores of before are of another kind than those of now: Marks" in other.err
    (here / "now/index.html").write_text("mine")
    again = speechctc("score-phones", "june", *words, "--by-speaker", "now")
    assert "index.html: exists and was made or changed" in one_line_error(again)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--by-speaker", "pages"), "the speaker of 1 recording is not known: a.wav"),
        (("--by-speaker", "pages", "--out", "a"), "--out and --by-speaker both"),
        (("--before", "pages"), "--before is for --by-speaker"),
        (("--before", "pages", "--by-speaker", "./pages/"), "--before and --by-speaker name one folder"),
    ],
)
def test_pages_by_speaker_need_speakers(speechctc: Command, here: Path, given: tuple[str, ...], message: str) -> None:
    write_words("a.wav", ["scale"])
    (here / "a.txt").write_text("scale")
    assert message in one_line_error(speechctc("score-phones", "a.wav", *WORDS, *given))


def write_class(place: Path, *speakers: str, times: int = 3) -> None:
    """Write recordings of speakers who all say ``low mid high``, with the word beside each, and the dictionary."""
    Path("d.dict").write_text("HUM low mid high\n")
    for name in speakers:
        (place / name).mkdir(parents=True)
        for k in range(times):
            write_song(place / name / f"{k}.wav", ["low", "mid", "high"], seed=k)
            (place / name / f"{k}.txt").write_text("hum")


def test_scores_of_recordings_that_are_gone_stop_it_or_are_removed(speechctc: Command, here: Path) -> None:
    write_class(here / "may", "Li Na", "Wang")
    shutil.copytree(here / "may", here / "june")
    class_of = ("--dictionary", "d.dict", "--by-speaker", "pages", "--words")
    assert speechctc("score-phones", "may", *class_of, "may", "--format", "csv").status == 0
    assert speechctc("score-phones", str(here / "may"), *class_of, "may", "--skip-existing").status == 0
    pages = {file: file.read_bytes() for file in (here / "pages").glob("*.*")}
    line = one_line_error(speechctc("score-phones", "june", *class_of, "june"))
    assert "pages: holds scores of recordings that are not among these: may/Li Na/0.wav and 5 more" in line
    assert {file: file.read_bytes() for file in (here / "pages").glob("*.*")} == pages
    (here / "may/Li Na/2.wav").unlink()
    shutil.rmtree(here / "may/Wang")
    assert "not among these" in one_line_error(speechctc("score-phones", "may", *class_of, "may"))
    done = speechctc("score-phones", "may", *class_of, "may", "--overwrite")
    assert done.status == 0 and not (here / "pages/Wang.html").exists(), done.err
    left = [str(file.relative_to(here / "pages/scores")) for file in sorted((here / "pages/scores").rglob("*.*s*"))]
    assert [name for name in left if "speechctc" not in name] == [
        f"Li Na/{name}" for name in ("0.csv", "0.json", "1.csv", "1.json")
    ]
    (here / "pages/scores/Li Na/9.json").write_text("mine")
    assert "9.json: made or changed by hand" in one_line_error(
        speechctc("score-phones", "may", *class_of, "may", "--overwrite")
    )


def test_pages_and_sheets_name_recordings_that_do_not_count(speechctc: Command, here: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    write_class(here / "may", "Ann", "Bob", times=4)
    (here / "may/Ann/0.wav").write_bytes(b"")
    (here / "may/Ann/1.txt").unlink()
    soundfile.write(here / "may/Ann/2.wav", np.zeros(2 * RATE), RATE)
    assert speechctc(*CLASS, "pages").status == 1
    told = [row[0] for row in openpyxl.load_workbook(here / "pages/sounds.xlsx")["about"].values]
    for text in ("\n".join(told), *((here / f"pages/{name}.html").read_text() for name in ("Ann", "index"))):
        said = re.findall(r"Not counted: (?:may|.*?may)/(Ann/\d)", text)
        assert sorted(said) == ["Ann/0", "Ann/1", "Ann/2"] and "no phone is heard" in text and "empty" in text
    assert "Not counted" not in (here / "pages/Bob.html").read_text()
    rows = csv.DictReader(io.StringIO((here / "pages/sounds.csv").read_text("utf-8-sig")))
    assert {(row["speaker"], row["times"]) for row in rows} == {("Ann", "1"), ("Bob", "4")}
    entry = json.loads((here / "pages/scores/Ann/2.json").read_text())
    assert entry["is_unfit"] and "no phone is heard" in entry["note"]
    (here / "may/Bob/0.wav").write_bytes(b"")  # its scores of the first time are no longer true
    assert speechctc(*CLASS, "pages").status == 1 and not (here / "pages/scores/Bob/0.json").exists()


def test_before_in_another_notation_is_refused(speechctc: Command, here: Path) -> None:
    write_class(here / "may", "Ann")
    (here / "map.tsv").write_text("low\tL\nmid\tM\nhigh\tH\n")
    assert speechctc(*CLASS, "pages", "--symbols", "map.tsv").status == 0
    line = one_line_error(speechctc(*CLASS, "now", "--before", "pages"))
    assert "pages: its phones are written with --symbols map.tsv" in line and not (here / "now").exists()
    assert speechctc(*CLASS, "now", "--before", "pages", "--symbols", "map.tsv").status == 0


def test_folders_of_speakers_may_hold_recordings_of_the_same_names(speechctc: Command, here: Path) -> None:
    write_class(here / "may", "Ann", "Bob")
    way = ("--words", "may", "--dictionary", "d.dict", "--by-speaker", "pages")
    done = speechctc("score-phones", "may/Ann", "may/Bob", *way)
    assert done.status == 0 and (here / "pages/scores/Bob/2.json").exists(), done.err
    for command in (("score-phones", "septembr", *way), ("measure", "septembr")):
        assert one_line_error(speechctc(*command)) == "speechctc: septembr: no such file; check the path"
    write_song(here / "may/Ann/1.wav", "low high top low".split())  # without a mid
    (here / "d.dict").write_text("HUM low mid high top low\n")
    assert speechctc("score-phones", "may/Ann/1.wav", "may/Bob/1.wav", *way, "--overwrite").status == 0
    page = (here / "pages/Ann.html").read_text()
    assert "in 1 recording:" in page and re.search(r">nothing \(1\)<.*→ <span class=.phone.>nothing<", page)
    assert ",nothing (1)" in (here / "pages/sounds.csv").read_text("utf-8-sig")
    done = speechctc("score-phones", "may", *way[:-1], "now", "--before", "pages")
    assert done.status == 0 and "–</td>" in (here / "now/Ann.html").read_text(), done.err
