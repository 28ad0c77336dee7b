import io
import json
import re
import unicodedata
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import soundfile

from speechctc.audio import sound_file
from speechctc.audio.recordings import find_recordings
from speechctc.audio.tracks import Track
from speechctc.config.schema import CorpusConfig, TablesConfig
from speechctc.core.errors import InputError
from speechctc.core.text_files import read_text
from speechctc.corpora.corpus import SPLITS, Corpus
from speechctc.corpora.registry import read_corpus
from speechctc.corpora.table_rows import read_table
from speechctc.corpora.tasks import in_table
from speechctc.corpora.transcripts import Transcript, TranscriptOptions

HEADER = "id\taudio\tphones\n"


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Return a folder with recordings a.wav to f.wav; the reader looks no further than that they are there."""
    for name in "abcdef":
        (tmp_path / f"{name}.wav").write_bytes(b"sound")
    return tmp_path


def read(folder: Path, phones: str = "auto", root: Path | None = None, **tables: str) -> Corpus:
    """Write each text to a file named ``<split>.<ending>``, as ``train_tsv="..."`` says, and read them."""
    paths = {}
    for name, text in tables.items():
        split, ending = name.split("_")
        paths[split] = folder / f"{split}.{ending}"
        paths[split].write_text(text, encoding="utf-8")
    return read_corpus(CorpusConfig(kind="table", phones=phones, root=root, tables=TablesConfig(**paths)))


def reasons(corpus: Corpus, split: str = "train") -> dict[str, str]:
    return {entry.id: entry.reason for entry in corpus.rejected[split]}


def test_three_formats_say_the_same(recordings: Path) -> None:
    rows = [("1", "a.wav", "x ʃ", "ann"), ("2", "b.wav", "ʃ x", "bob"), ("3", "c.wav", "x ʃ", "cat")]
    columns = ("id", "audio", "phones", "speaker")
    tsv = "".join("\t".join(row) + "\n" for row in (columns, *rows))
    csv = "".join(",".join(row) + "\r\n" for row in (columns, *rows))
    jsonl = "".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows)
    from_tsv = read(recordings, "found", train_tsv=tsv)
    for other in (read(recordings, "found", train_csv=csv), read(recordings, "found", train_jsonl=jsonl)):
        assert other == from_tsv
    utterances = {utterance.id: utterance for split in SPLITS for utterance in from_tsv.splits[split]}
    assert [utterances[id].phones for id in "123"] == [("x", "ʃ"), ("ʃ", "x"), ("x", "ʃ")]
    assert utterances["1"].audio == recordings / "a.wav" and utterances["1"].speaker == "ann"
    assert utterances["1"].times is None


def test_recordings_outside_of_the_folder_are_named(recordings: Path) -> None:
    """A table may be a stranger's, and name any file of the user's."""
    (other := recordings / "tables").mkdir()
    table = HEADER + "1\t../a.wav\tx\n2\tb.wav\tx\n"
    (other / "b.wav").write_bytes(b"sound")
    assert f"chooses what is read, and 1 outside of {other}: {other}/../a.wav" in " ".join(
        read(other, train_tsv=table).notes
    )
    for inside in (
        read(other, train_tsv=table.replace("../a", "b")),
        read(other, root=recordings, train_tsv=HEADER + "1\ta.wav\tx\n"),
    ):
        assert "outside" not in " ".join(inside.notes)


def test_traits_of_speakers_are_read_where_they_are_given(recordings: Path) -> None:
    header = "id\taudio\tphones\tSex\tage\tdialect\n"
    rows = "1\ta.wav\tx\tf\t21\tRhenish\n2\tb.wav\tx\t\t30\t\n"
    corpus = read(recordings, train_tsv=header + rows, dev_tsv=HEADER + "3\tc.wav\tx\n")
    assert [each.traits for each in corpus.splits["train"]] == [(("sex", "f"), ("dialect", "Rhenish")), ()]
    assert corpus.splits["dev"][0].traits == ()


PIECES = "id\taudio\tphones\tstart\tend\n"


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """Return a folder with long.wav of 2 s, whose samples tell the time."""
    soundfile.write(tmp_path / "long.wav", np.arange(16000) / 16000, 8000, "FLOAT")
    return tmp_path


def test_rows_with_times_are_pieces_of_their_recording(long: Path) -> None:
    rows = "1\tlong.wav\tx\t0\t0.5\n2\tlong.wav\ty\t0.5\t1.25\n3\tlong.wav\tx y\t\t\n4\tlong.wav\tx\t0\t2.0\n"
    corpus = read(long, train_tsv=PIECES + rows, dev_tsv=PIECES + "5\tlong.wav\tx\t1.25\t2.04\n")
    assert [each.stretch for each in corpus.splits["train"]] == [(0.0, 0.5), (0.5, 1.25), None, None]
    assert corpus.splits["dev"][0].stretch == (1.25, 2.0)
    piece = corpus.splits["train"][1]
    samples, seconds = sound_file.read(piece.audio, 8000, piece.channel, piece.stretch)
    assert seconds == 0.75 and samples[0] == 0.25 and len(samples) == 6000


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ("0.5\t", "train.tsv, line 3: start and end are '0.5' and '', not seconds"),
        ("1,5\t2,1", "1.5 to 2.1 s of a recording of 2.00 s"),
        ("nan\tinf", "not seconds"),
        ("1\t0.5", "no time from 1 to 0.5 s"),
        ("1\t2.1", "1 to 2.1 s of a recording of 2.00 s"),
    ],
)
def test_rows_with_impossible_times_are_rejected(long: Path, times: str, reason: str) -> None:
    rows = f"1\tlong.wav\tx\t0\t1\n2\tlong.wav\tx\t{times}\n"
    corpus = read(long, train_tsv=PIECES + rows, dev_tsv=PIECES + "3\tlong.wav\tx\t1\t2\n")
    assert [each.id for each in corpus.splits["train"]] == ["1"] and reason in reasons(corpus)["2"]


@pytest.mark.parametrize("sign", ["\t", ";"])
def test_times_may_have_a_decimal_comma_where_it_separates_no_columns(long: Path, sign: str) -> None:
    rows = "1\tlong.wav\tx\t0\t,5\n2\tlong.wav\ty\t0,5\t1,25\n"
    train, dev = ((PIECES + each).replace("\t", sign) for each in (rows, "3\tlong.wav\tx\t1,5\t2\n"))
    corpus = read(long, train_csv=train, dev_csv=dev)
    assert [each.stretch for each in corpus.splits["train"]] == [(0.0, 0.5), (0.5, 1.25)]
    quoted = 'id,audio,phones,start,end\n1,long.wav,x,"0,5",1\n2,long.wav,x,0,1\n'
    assert "'0,5' and '1', not seconds" in reasons(read(long, train_csv=quoted, dev_csv=dev))["1"]


def test_pieces_named_as_their_recording_have_ids_of_their_own(long: Path) -> None:
    rows = "".join(f"long\tlong.wav\tx\t{times}\n" for times in ("0\t1", "1\t2", "1\t1.5"))
    rows += "9\tlong.wav\tx\t0\t1\n9\tlong.wav\tx\t1\t2\n"
    corpus = read(long, train_tsv=PIECES + rows, dev_tsv=PIECES + "3\tlong.wav\tx\t1\t2\n")
    assert [each.id for each in corpus.splits["train"]] == ["9", "long", "long-0001000"]
    assert list(reasons(corpus)) == ["long", "9"]


def test_pieces_in_training_are_counted_where_they_overlap_with_those_of_other_splits(long: Path) -> None:
    def notes(dev: str) -> str:
        rows = "1\tlong.wav\tx\t0\t1\n2\tlong.wav\ty\t0.5\t1\n"
        return "".join(read(long, train_tsv=PIECES + rows, dev_tsv=PIECES + f"3\tlong.wav\tx\t{dev}\n").notes)

    assert "also in the training split" not in notes("1\t2")
    assert "dev that are also in the training split: 1" in notes("0.9\t2")
    assert "dev that are also in the training split: 1" in notes("\t")


@pytest.mark.parametrize(
    ("rows", "id", "reason"),
    [
        ("1\ta.wav\tx\n1\tb.wav\ty\n", "1", "train.tsv, line 3: the id '1' is already used in line 2"),
        ("1\ta.wav\tx\n\n2\tz.wav\ty\n", "2", "train.tsv, line 4: no such recording: "),
        ("1\ta.wav\tx\n2\t\ty\n", "2", "train.tsv, line 3: the audio path is empty"),
        ("1\ta.wav\tx\n\tb.wav\ty\n", "line 3", "train.tsv, line 3: the id is empty"),
        ("1\ta.wav\tx\n2\tb.wav\t \n", "2", "empty; for a recording without speech, write [] as phones"),
        ("1\ta.wav\tx\n2\tb.wav\t[x y\n", "2", "phones are not a JSON list: '[x y'"),
        ("1\ta.wav\tx\n2\tb.wav\t[1, 2]\n", "2", "phones are neither a line of labels nor a list"),
        ("1\ta.wav\tx\n2\tb.wav\n", "line 3", "2 fields for 3 columns"),
        (f"1\ta.wav\tx\n2\t{'b/' * 5000}.wav\ty\n", "2", "line 3: no such recording: "),
        ("1\ta.wav\tx\n2\tb.wav\t" + "[" * 9000 + "\n", "2", "phones are not a JSON list"),
    ],
)
def test_bad_rows_are_rejected_by_line_and_the_rest_goes_on(recordings: Path, rows: str, id: str, reason: str) -> None:
    corpus = read(recordings, train_tsv=HEADER + rows, dev_tsv=HEADER + "9\tc.wav\tx\n")
    assert [entry.id for entry in corpus.splits["train"]] == ["1"]
    assert list(reasons(corpus)) == [id]
    assert reason in reasons(corpus)[id]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("{not json", "line 2: not a JSON object"),
        ("[1]", "line 2: not a JSON object"),
        ('{"id": "2", "audio": "b.wav"}', "line 2: no phones"),
        ('{"id": "2", "audio": "b.wav", "phones": 7}', "neither a line of labels nor a list of them"),
        ('{"id": "2", "audio": null, "phones": "x"}', "the audio path is empty"),
        ("[" * 100_000, "line 2: not a JSON object"),
        ('{"id": 2, "audio": "b.wav", "phones": "x", "channel": "' + "1" * 4301 + '"}', "is not a number from 1"),
    ],
)
def test_bad_json_rows_are_rejected_by_line(recordings: Path, row: str, reason: str) -> None:
    good = '{"id": 0, "audio": "a.wav", "phones": ["x"]}\n'
    corpus = read(recordings, train_jsonl=good + row + "\n", dev_jsonl=good.replace("0", "9"))
    assert [entry.id for entry in corpus.splits["train"]] == ["0"]
    (told,) = reasons(corpus).values()
    assert reason in told


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("train_tsv", "", "train.tsv: the table is empty"),
        ("train_tsv", HEADER, "train.tsv: no rows in the table"),
        ("train_tsv", "id\tplace\tphones\n1\ta\tx\n", "line 1: no column audio among: id, place, phones"),
        ("train_tsv", "1\ta.wav\tx\n", "line 1: no column audio and no phones or words among: 1, a.wav, x"),
        ("train_tsv", "\n\nid\taudio\tphones\tPhones \n1\ta\tx\ty\n", "line 3: several columns named phones"),
        ("train_tsv", HEADER + "1\ta.wav\t\0\n", "line 2: a NUL character"),
        ("train_xlsx", HEADER, "train.xlsx: not an Excel workbook"),
        ("train_doc", HEADER, "train.doc: not the ending of a table"),
    ],
)
def test_what_is_no_table_is_refused(recordings: Path, name: str, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(recordings, "auto", None, **{name: text})


PLAIN = [("1", "a.wav", "x é"), ("2", "b.wav", "é x")]
LINES = {
    "semicolons": "id;audio;phones\n1;a.wav;x é\n2;b.wav;é x\n",
    "tabs": "id\taudio\tphones\n1\ta.wav\tx é\n2\tb.wav\té x\n",
    "quotes": '"id";"audio";"phones"\n"1";"a.wav";"[""x"", ""é""]"\n"2";"b.wav";"é x"\n',
    "headers": " ID ,age,Audio\u00a0, PHONES\n1,9,a.wav,x  é\n2,8,b.wav,é x\n",
    "a first line": "\n,,\nid,audio,phones\n1,a.wav,x é\n2,b.wav,é x\n",
    "empty rest": "id;audio;phones;;\n1;a.wav;x é;;\n2;b.wav;é x;;;\n;;;;\n;;;;\n",
    "backslashes": "id,audio,phones\n1,.\\a.wav,x é\n2,.\\b.wav,é x\n",
}


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("ending", ["csv", "tsv"])
@pytest.mark.parametrize("text", LINES.values(), ids=LINES.keys())
def test_tables_as_spreadsheets_save_them(recordings: Path, text: str, ending: str, ends: str) -> None:
    path = recordings / f"train.{ending}"
    path.write_bytes(text.replace("\n", ends).encode())
    corpus = read_corpus(CorpusConfig(kind="table", tables=TablesConfig(train=path), dev_share=0.1))
    utterances = sorted((u for split in SPLITS for u in corpus.splits[split]), key=lambda each: each.id)
    assert [(u.id, u.audio.name, " ".join(u.phones)) for u in utterances] == PLAIN
    assert not any(corpus.rejected.values()) and not corpus.warnings


@pytest.mark.parametrize("encoding", ["utf-16-be", "cp1252"])
def test_tables_in_other_encodings(recordings: Path, encoding: str) -> None:
    path = recordings / "train.csv"
    path.write_bytes(LINES["semicolons"].encode(encoding))
    corpus = read_corpus(CorpusConfig(kind="table", tables=TablesConfig(train=path)))
    assert {u.phones for split in SPLITS for u in corpus.splits[split]} == {("x", "é"), ("é", "x")}
    said = "train.csv, line 2: not UTF-8, read as Windows-1252 (it says 'é'); if that is wrong, save the file as UTF-8"
    assert (said in "".join(corpus.warnings)) == (encoding == "cp1252")


def test_a_wrong_encoding_is_seen_in_the_words_that_are_shown(recordings: Path) -> None:
    path = recordings / "train.csv"
    path.write_bytes("audio,words\na.wav,Poté na poté\nb.wav,většinu řekl potě\n".encode("cp1250"))
    _, note = read_text(path)
    assert "line 2: not UTF-8, read as Windows-1252 (it says 'Poté', 'vìtšinu', 'øekl'; " in note
    assert "in Windows-1250 it would say 'většinu', 'řekl'); if that is wrong" in note
    path.write_bytes("audio,words\na.wav,yağ ve ışık\n".encode("cp1254"))
    assert "'yað', 'ýþýk'; in Windows-1250 it would say 'yađ', 'ýţýk'; in Windows-1254" in read_text(path).note
    assert "in Windows-1254 it would say 'yağ', 'ışık')" in read_text(path).note


def test_letters_of_polish_are_surely_of_their_encoding(recordings: Path) -> None:
    path, text = recordings / "a.txt", "Siostra cały czas maluje małe łódki, są też żółte\n"
    path.write_bytes(text.encode("cp1250"))
    found, note = read_text(path)
    assert found == text and "read as Windows-1250 (it says 'cały', 'łódki', 'są', 'też'" in note
    for spanish in ("¿Qué tal, señor? Año¹, m³ y £5", "“Oui…” «Élan» créée à l’«Été»"):
        path.write_bytes(spanish.encode("cp1252"))
        assert read_text(path).text == spanish


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("gb18030", "我的姐姐 画 小船"),
        ("gb18030", "0.1\t0.2\t你\n0.2\t0.3\t好\n0.3\t0.4\t吗\n"),
        ("euc_kr", "내 여동생은 작은 배를"),
        ("cp1251", "Моя сестра рисует"),
        ("cp1253", "Η αδελφή μου"),
    ],
)
def test_other_scripts_are_refused_and_not_read_as_latin_letters(recordings: Path, encoding: str, text: str) -> None:
    (recordings / "a.txt").write_bytes(text.encode(encoding))
    with pytest.raises(InputError, match="a.txt, line 1: not UTF-8, and of a script that Windows-1252 does not have"):
        read_text(recordings / "a.txt")


def test_a_phone_written_in_two_ways_is_one(recordings: Path) -> None:
    rows = "1\ta.wav\tx \u00e3 ɡ\n2\tb.wav\ta\u0303 g\n"
    corpus = read(recordings, train_tsv=HEADER + rows, dev_tsv=HEADER + "3\tc.wav\ta\u0303\n4\td.wav\tɡ ts x:\n")
    assert corpus.inventory().phones == ("g", "x", "\u00e3", "ɡ")
    assert "different phones: g = U+0067 (1) and ɡ = U+0261 (1)" in "".join(corpus.warnings)
    assert "dev: 1 utterances are left out, because they have labels that are not in" in "".join(corpus.warnings)


def test_sound_tracks_are_of_the_row_or_else_of_the_config(recordings: Path) -> None:
    rows = "1\ta.wav\tx\t\t1\n2\ta.wav\tx\t1\t\n3\ta.wav\tx\t\t-1\n4\ta.wav\tx\t\t\n"
    (recordings / "train.tsv").write_text(f"id\taudio\tphones\tchannel\ttrack\n{rows}")
    tables = TablesConfig(train=recordings / "train.tsv")
    for track in (None, 2):
        corpus = read_corpus(CorpusConfig(kind="table", tables=tables, track=track))
        chosen = {u.id: u.channel for split in SPLITS for u in corpus.splits[split]}
        row = Track(2, 1) if track else 1
        assert chosen == {"1": Track(1), "2": row, "4": Track(2) if track else None}
        assert "line 4: track '-1' is not a number from 1" in reasons(corpus)["3"]


def test_channels_are_of_the_row_or_else_of_the_config(recordings: Path) -> None:
    table = "id\taudio\tphones\tChannel\n1\ta.wav\tx\t2\n2\ta.wav\tx\t\n3\ta.wav\tx\tleft\n4\ta.wav\tx\t1.5\n"
    (recordings / "train.tsv").write_text(table)
    tables = TablesConfig(train=recordings / "train.tsv", dev=recordings / "train.tsv")
    for wanted in (None, 1):
        corpus = read_corpus(CorpusConfig(kind="table", tables=tables.model_copy(update={"dev": None}), channel=wanted))
        channels = {u.id: u.channel for split in SPLITS for u in corpus.splits[split]}
        assert channels == {"1": 2, "2": wanted}
        assert "line 4: channel 'left' is not a number from 1" in reasons(corpus)["3"] and "4" in reasons(corpus)


def test_labels_to_ignore_are_left_out_and_counted(recordings: Path) -> None:
    (recordings / "train.tsv").write_text(HEADER + "1\ta.wav\tsil x sil xxx\n2\tb.wav\tsil x sil xxx\n")
    config = CorpusConfig(kind="table", tables=TablesConfig(train=recordings / "train.tsv"))
    kept = read_corpus(config)
    assert "labels that look like pauses are learned as phones: sil (4); " in " ".join(kept.warnings)
    assert "corpus.ignore=\"['xxx']\"" in " ".join(kept.warnings)
    corpus = read_corpus(config.model_copy(update={"ignore": ("sil", "xxx", "pau")}))
    assert {u.phones for split in SPLITS for u in corpus.splits[split]} == {("x",)}
    assert "labels left out, as corpus.ignore says: sil (4), xxx (2)" in corpus.notes
    assert corpus.warnings == ("corpus.ignore names labels that do not occur: pau",)


def test_tables_that_are_not_there_are_named(recordings: Path) -> None:
    with pytest.raises(InputError, match="corpus.tables.train is not set"):
        read_corpus(CorpusConfig(kind="table"))
    for name, message in {"no.tsv": "no.tsv: no such file", "": "not the ending of a table"}.items():
        with pytest.raises(InputError, match=message):
            read_corpus(CorpusConfig(kind="table", tables=TablesConfig(train=recordings / name)))


def test_a_split_may_be_in_several_tables(recordings: Path) -> None:
    (recordings / "more").mkdir()
    (recordings / "a.wav").rename(recordings / "more" / "a.wav")
    tables = {"one.tsv": HEADER + "1\tb.wav\tx\n", "more/two.csv": "id,audio,phones\n2,a.wav,x\n"}
    for name, text in tables.items():
        (recordings / name).write_text(text)
    one, two = (recordings / name for name in tables)
    corpus = read_corpus(CorpusConfig(kind="table", tables=TablesConfig(train=(one, two, one), test=two)))
    together = sorted(each.id for split in ("train", "dev") for each in corpus.splits[split])
    assert together == ["1", "2"] and [each.id for each in corpus.splits["test"]] == ["2"]
    two.write_text(tables["more/two.csv"].replace("2,", "1,"))
    with pytest.raises(InputError, match="the id '1' is both in .*one.tsv and in .*two.csv"):
        read_corpus(CorpusConfig(kind="table", tables=TablesConfig(train=(one, two))))


def test_the_set_found_is_trainings_and_labels_beyond_it_are_refused(recordings: Path) -> None:
    dev = HEADER + "3\tc.wav\ty\n4\td.wav\tx q\n"
    corpus = read(recordings, train_tsv=HEADER + "1\ta.wav\tx y\n2\tb.wav\tz\n", dev_tsv=dev)
    assert corpus.inventory().phones == ("x", "y", "z")
    assert [entry.id for entry in corpus.splits["dev"]] == ["3"]
    assert reasons(corpus, "dev") == {"4": "labels that are not in the training split: q"}


def test_a_named_set_spells_the_labels_and_refuses_others(recordings: Path) -> None:
    table = HEADER + "1\ta.wav\tHH AH0\n2\tb.wav\tHH AX\n"
    corpus = read(recordings, "cmu39", train_tsv=table, dev_tsv=HEADER + "3\tc.wav\tz\n")
    assert corpus.phone_set == "cmu39"
    assert [entry.phones for entry in corpus.splits["train"]] == [("hh", "ah")]
    assert "line 3: the label 'ax' is not in the phone set cmu39" in reasons(corpus)["2"]


def test_a_workbook_of_excel_is_read_as_the_same_table_saved_as_text(recordings: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    rows = [["ID", "audio", "phones", "speaker", None], [1, "a.wav", "t͡ʃ ã", 'Anna "A"', None], [None] * 5]
    rows += [[2.0, "b.wav", "ã", "Otto\nB", None], [3, " talks/a  \u00a0c.wav ", "x", "A\tB\r\nC", None]]
    book = openpyxl.Workbook()
    book.active.title = "remarks"
    book.active.append(["nothing here"])
    sheet = book.create_sheet("data")
    for row in rows:
        sheet.append(row)
    book.save(recordings / "train.xlsx")
    table = read_table(recordings / "train.xlsx")
    found = [(row.line, row.id, row.audio, row.phones, row.speaker) for row in table.rows]
    assert found == [
        (2, "1", "a.wav", ("t͡ʃ", "ã"), 'Anna "A"'),
        (4, "2", "b.wav", ("ã",), "Otto B"),
        (5, "3", "talks/a  \u00a0c.wav", ("x",), "A B C"),
    ]
    assert [note.partition(": ")[2] for note in table.notes] == ["the sheet 'data' is read, of 2"]


Workbook = Callable[..., Path]


@pytest.fixture
def workbook(tmp_path: Path) -> Workbook:
    """Return what writes a workbook with a header, a row, and more XML of rows, in a file that claims a dimension."""
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")

    def write(rows: str, dimension: str) -> Path:
        book, file = openpyxl.Workbook(), io.BytesIO()
        for row in (["id", "audio", "phones"], [1, "a.wav", "a b"]):
            book.active.append(row)
        book.save(file)
        with zipfile.ZipFile(file) as old, zipfile.ZipFile(tmp_path / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as new:
            for name in old.namelist():
                text = re.sub('<dimension ref="[^"]*"', f'<dimension ref="{dimension}"', old.read(name).decode())
                new.writestr(name, text.replace("</sheetData>", f"{rows}</sheetData>"))
        return tmp_path / "t.xlsx"

    return write


@pytest.mark.parametrize("dimension", ["A1", "A1:C2", "A1:XFD1048576"])
def test_a_workbook_has_the_rows_it_has_whatever_dimension_it_claims(workbook: Workbook, dimension: str) -> None:
    cells = ("2", "b.wav", "b")
    row = "".join(f'<c r="{at}9" t="str"><v>{cell}</v></c>' for at, cell in zip("ABC", cells, strict=True))
    found = read_table(workbook(f'<row r="9">{row}</row>', dimension)).rows
    assert [(row.line, row.id, row.audio, row.phones) for row in found] == [
        (2, "1", "a.wav", ("a", "b")),
        (9, "2", "b.wav", ("b",)),
    ]


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        ('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>', "more than 20,000,000 cells"),
        (f'<row r="3"><c r="A3" t="str"><v>{"a" * (1 << 25)}</v></c></row>', "it unpacks to 33,5"),
    ],
    ids=["far", "long"],
)
def test_a_small_workbook_does_not_become_a_huge_table(workbook: Workbook, rows: str, why: str) -> None:
    with pytest.raises(InputError, match=f"t.xlsx: not an Excel workbook .{why}"):
        list(read_table(workbook(rows, "A1:XFD1048576")).rows)


@pytest.mark.parametrize("there, named", [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_table_of_transcripts_names_recordings_in_another_unicode_form_or_as_windows_does(
    tmp_path: Path, there: Literal["NFC", "NFD"], named: Literal["NFC", "NFD"]
) -> None:
    audio = tmp_path / "audio" / unicodedata.normalize(there, "é.wav")
    audio.parent.mkdir()
    audio.write_bytes(b"sound")
    rows = [f"1,audio\\{unicodedata.normalize(named, 'é.wav')},a b", "2,audio/none.wav,a"]
    (tmp_path / "t.csv").write_text("id,audio,phones\n" + "\n".join(rows), encoding="utf-8")
    (one, read), (missing, _) = in_table(tmp_path / "t.csv", None, TranscriptOptions())
    assert one.path == audio and missing.path == tmp_path / "audio" / "none.wav"
    (_, found), *_ = in_table(tmp_path / "t.csv", find_recordings([tmp_path / "audio"]), TranscriptOptions())
    assert isinstance(found, Transcript) and found._replace(note="") == read
    assert found.note == f"{tmp_path / 't.csv'}: rows of recordings that are not named here (1): 2"


@pytest.mark.parametrize(
    ("columns", "values", "splits"),
    [
        ("is_test", ["0", "1", "False", "yes"], ["train", "test", "train", "test"]),
        ("is_train", ["1", "0"], ["train", "test"]),
        ("is_train\tis_valid", ["1\t0", "0\t1", "0\t0"], ["train", "val", "test"]),
        ("in_testset", ["true", ""], ["test", "train"]),
    ],
)
def test_columns_that_tell_of_one_split_divide_a_table(
    recordings: Path, columns: str, values: list[str], splits: list[str]
) -> None:
    """Test rows were trained on."""
    rows = "".join(f"{'abcdef'[k]}.wav\tx\t{value}\n" for k, value in enumerate(values))
    (recordings / "all.tsv").write_text(f"audio\tphones\t{columns}\n{rows}")
    assert [row.split for row in read_table(recordings / "all.tsv").rows] == splits


def test_recordings_as_hugging_face_names_them(recordings: Path) -> None:
    row = {"audio": {"path": "a.wav", "bytes": None, "sampling_rate": 16000}, "phones": "x y"}
    assert [each.phones for each in read(recordings, train_jsonl=json.dumps(row)).utterances()] == [("x", "y")]
    row["audio"] = {"bytes": None}
    with pytest.raises(InputError, match="the id is empty"):
        read(recordings, train_jsonl=json.dumps(row))
