"""Whatever is wrong with a table: its rows are the utterances and those that are named as left out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from speechctc.audio.folders import walk
from speechctc.audio.tracks import Channel
from speechctc.config.load import load_config
from speechctc.core.errors import InputError
from speechctc.corpora import manifests
from speechctc.corpora.corpus import Corpus
from speechctc.corpora.registry import read_corpus

RATE = 8000


@pytest.fixture(autouse=True)
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with a.wav to d.wav of 3 s, and two.wav with two channels."""
    monkeypatch.chdir(tmp_path)
    for name in "abcd":
        soundfile.write(f"{name}.wav", np.zeros(3 * RATE, np.float32), RATE)
    soundfile.write("two.wav", np.zeros((3 * RATE, 2), np.float32), RATE)
    Path("words.dict").write_text("lo l o\nhi h i\n")


def read(table: str, *settings: str, split: str = "test") -> Corpus:
    given = ["corpus.kind=table", f"corpus.tables.{split}={table}", "corpus.dictionary=words.dict", *settings]
    return read_corpus(load_config("demo", given).corpus, split)


def used(corpus: Corpus, split: str = "test") -> dict[str, tuple[str, tuple[float, float] | None, Channel | None]]:
    return {each.id: (each.audio.name, each.stretch, each.channel) for each in corpus.splits[split]}


def left(corpus: Corpus, split: str = "test") -> dict[str, str]:
    return {each.id: each.reason for each in corpus.rejected[split]}


def recording(audio: str = "a.wav", channels: tuple[int, ...] = (0,), **more: Any) -> dict[str, Any]:
    sources = [{"type": "file", "channels": list(channels), "source": audio}]
    return {"id": "r", "sources": sources, "sampling_rate": RATE, "num_samples": 3 * RATE, "duration": 3.0} | more


def said(id: str, start: float = 0.0, duration: float = 3.0, channel: Any = 0, text: str | None = "lo hi") -> Any:
    return {"id": id, "recording_id": "r", "start": start, "duration": duration, "channel": channel, "text": text}


def cut(supervisions: list[Any], of: Any, **more: Any) -> dict[str, Any]:
    return {"id": "c", "start": 0.0, "duration": 3.0, "supervisions": supervisions, "recording": of} | more


def changed(name: str, **kwargs: Any) -> dict[str, Any]:
    return recording(transforms=[{"name": name, "kwargs": kwargs}])


CUTS = [
    cut([said("s1", 0.5, 1.0), said("s2", 1.5, 1.0)], recording(), start=0.2),
    cut([], recording(), id="none said"),
    {"id": "features", "supervisions": [said("s3")], "features": {"storage_path": "x"}, "type": "MonoCut"},
    {"id": "padding", "duration": 1.0, "type": "PaddingCut"},
    {"id": "m1", "tracks": [{"cut": cut([said("s4")], recording("b.wav"))}, {"cut": {"type": "PaddingCut"}}]},
    {"id": "mixed", "tracks": [{"cut": cut([said("s5")], recording())}, {"cut": cut([said("s6")], recording())}]},
    cut([said("both", channel=[0, 1])], recording("two.wav", (0, 1)), type="MultiCut"),
    cut([said("second", channel=1)], recording("two.wav", (0, 1))),
    cut([said("third", channel=2)], recording("two.wav", (0, 1))),
    cut([said("resampled")], changed("Resample", source_sampling_rate=16000, target_sampling_rate=8000)),
    cut([said("fast")], changed("Speed", factor=1.1)),
    cut([said("slow")], changed("Tempo", factor=0.9)),
    cut([said("loud")], changed("Volume", factor=2.0)),
    cut(
        [said("command")],
        recording() | {"sources": [{"type": "command", "channels": [0], "source": "sox d.wav -t wav -"}]},
    ),
    cut([said("cloud")], recording() | {"sources": [{"type": "url", "channels": [0], "source": "https://x/a.wav"}]}),
    cut([said("silent", text=None)], recording()),
]


def test_cuts_of_lhotse_are_their_recordings_or_named() -> None:
    Path("cuts.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, CUTS)).encode()))
    corpus = read("cuts.jsonl.gz")
    assert used(corpus) == {
        "s1": ("a.wav", (0.7, 1.7), None),
        "s2": ("a.wav", (1.7, 2.7), None),
        "s4": ("b.wav", None, None),
        "both": ("two.wav", None, None),
        "second": ("two.wav", None, 2),
        "resampled": ("a.wav", None, None),
        "command": ("d.wav", None, None),
    }
    why = {
        "none said": "without supervisions",
        "features": "features without its recording",
        "padding": "without supervisions",
        "mixed": "mixed of 2 recordings",
        "third": "channel 2, of a recording with [0, 1]",
        "fast": "a perturbed copy (Speed 1.1)",
        "slow": "a perturbed copy (Tempo 0.9)",
        "loud": "a perturbed copy (Volume 2)",
        "cloud": "type 'url'",
        "silent": "no phones",
    }
    assert left(corpus).keys() == why.keys() and all(text in left(corpus)[id] for id, text in why.items())
    assert "rows of test: 17, 7 used, 10 left out" in corpus.notes
    (copies,) = [each for each in corpus.warnings if "perturbed" in each]
    assert "(3): Speed 1.1 (1), Tempo 0.9 (1), Volume 2 (1); training makes its own: augment.speed" in copies


def test_a_channel_is_in_the_source_that_has_it() -> None:
    sources = [{"type": "file", "channels": [k], "source": f"{name}.wav"} for k, name in ((2, "b"), (1, "a"))]
    rows = [cut([said(f"u{k}", channel=k)], recording() | {"sources": sources}) for k in (1, 2)]
    rows.append(cut([said("all", channel=[1, 2])], recording() | {"sources": sources}))
    Path("cuts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    corpus = read("cuts.jsonl")
    assert used(corpus) == {"u1": ("a.wav", None, None), "u2": ("b.wav", None, None)}
    assert "which are in several files" in left(corpus)["all"]


def test_supervisions_are_of_the_recordings_beside_them() -> None:
    of = {"fine": recording(), "fast": changed("Speed", factor=1.1)}
    Path("my_recordings.jsonl").write_text("\n".join(json.dumps(each | {"id": id}) for id, each in of.items()))
    rows = [said(f"u-{id}") | {"recording_id": id} for id in (*of, "lost")]
    Path("my_supervisions.jsonl").write_text("\n".join(map(json.dumps, rows)))
    corpus = read("my_supervisions.jsonl")
    assert list(used(corpus)) == ["u-fine"] and left(corpus).keys() == {"u-fast", "u-lost"}
    assert "no recording 'lost' in my_recordings.jsonl" in left(corpus)["u-lost"]


@pytest.mark.parametrize(
    ("times", "stretch"),
    [
        ({}, None),
        ({"duration": 3.0}, None),
        ({"duration": 3.2}, None),  # as long as another program thought
        ({"duration": 1.5}, (0.0, 1.5)),
        ({"duration": None}, None),
        ({"duration": 1.5, "offset": None}, (0.0, 1.5)),
        ({"duration": 1.5, "offset": 1}, (1.0, 2.5)),
        ({"duration": None, "offset": 1.25}, (1.25, 3.0)),
        ({"duration": "inf", "offset": 1.25}, (1.25, 3.0)),
        ({"offset": 1.25}, (1.25, 3.0)),
        ({"duration": 13.0}, "0 to 13 s of a recording of 3.00 s"),
        ({"duration": "x"}, "not a JSON object of a manifest"),
    ],
)
def test_a_row_of_nemo_lasts_as_nemo_reads_it(times: dict[str, Any], stretch: tuple[float, float] | str | None) -> None:
    rows = [{"audio_filepath": "a.wav", "text": "lo"} | times, {"audio_filepath": "b.wav", "text": "hi"}]
    Path("nemo.json").write_text("\n".join(map(json.dumps, rows)))
    corpus = read("nemo.json")
    if isinstance(stretch, str):
        assert list(used(corpus)) == ["b"] and stretch in "".join(left(corpus).values())
    else:
        assert used(corpus)["a"] == ("a.wav", stretch, None)


ROWS = [{"audio_filepath": "a.wav", "text": "lo"}, {"audio_filepath": "b.wav", "text": "hi"}]


@pytest.mark.parametrize(
    "text",
    [
        "\n\n".join(map(json.dumps, ROWS)),
        ",\n".join(map(json.dumps, ROWS)) + ",\n",
        json.dumps(ROWS),
        json.dumps(ROWS, indent=1),
        json.dumps(ROWS)[:-1] + ",\n]",
        json.dumps({each["audio_filepath"][0]: each for each in ROWS}),
        json.dumps({each["audio_filepath"][0]: each for each in ROWS}, indent=1),
    ],
    ids=["empty lines", "commas", "list", "pretty list", "comma before the end", "by id", "pretty by id"],
)
def test_json_is_read_by_the_line_and_as_a_document(text: str) -> None:
    Path("t.json").write_text(text)
    assert used(read("t.json")) == {"a": ("a.wav", None, None), "b": ("b.wav", None, None)}


def test_a_list_without_entries_has_no_rows() -> None:
    Path("t.json").write_text("[\n]\n")
    with pytest.raises(InputError, match=r"t.json: no rows in the table"):
        read("t.json")


def test_a_list_that_is_cut_off_is_named() -> None:
    Path("t.json").write_text(json.dumps(ROWS, indent=1)[:-20])
    with pytest.raises(InputError, match=r"t.json, line \d+: not JSON, or not closed"):
        read("t.json")


KALDI = {
    "wav.scp": "r1 ../a.wav\nr2 ../b.wav\nr3 data.ark:77\nr4 sox ../c.wav -t wav - speed 1.1 |\n"
    "r5 sph2pipe -c 2 ../two.wav |\n",
    "segments": "".join(
        f"{line}\n"
        for line in (
            *("u1 r1 0 1", "u2 r1 1 -1", "u3 r2 0.5 2 0", "u4 r3 0 1", "u5 r4 0 1", "u6 r5 0 1 0", "u7 r5 0 1 1"),
            *("u8 r9 0 1", "u9 r1 2 1", "u10 r1 0 1", "unsaid r1 0 1"),
        )
    ),
    "text": "".join(f"u{k} lo\n" for k in range(1, 10)) + "u10\nu11 lo\n",
    "utt2spk": "u1 s1\n",
}


def test_utterances_of_kaldi_are_used_or_named() -> None:
    Path("data").mkdir()
    for name, text in KALDI.items():
        Path("data", name).write_text(text)
    corpus = read("data")
    assert used(corpus) == {
        "u1": ("a.wav", (0.0, 1.0), None),
        "u2": ("a.wav", (1.0, 3.0), None),
        "u3": ("b.wav", (0.5, 2.0), 1),
        "u6": ("two.wav", (0.0, 1.0), 2),
    }
    why = {
        "u4": "data/text, line 4: a recording in an archive of Kaldi",
        "u5": "data/text, line 5: a command of wav.scp that may change the sound",
        "u7": "the channel '1' of the one that wav.scp takes",
        "u8": "no line of wav.scp for the recording 'r9'",
        "u9": "no time from 2 to 1 s",
        "u10": "its cell of phones or words is empty",
        "u11": "no line of segments",
        "unsaid": "data/segments, line 11: no line of text",
    }
    assert left(corpus).keys() == why.keys() and all(text in left(corpus)[id] for id, text in why.items())
    assert "rows of test: 12, 4 used, 8 left out" in corpus.notes


def test_two_entries_of_kaldi_for_one_id_are_an_error() -> None:
    Path("data").mkdir()
    Path("data/text").write_text("u1 lo\n")
    Path("data/wav.scp").write_text("u1 ../a.wav\nu1 ../a.wav\n")
    assert used(read("data")) == {"u1": ("a.wav", None, None)}
    Path("data/wav.scp").write_text("u1 ../a.wav\n\nu1 ../b.wav\n")
    with pytest.raises(InputError, match=r"wav.scp, line 3: 'u1' has another entry in line 1"):
        read("data")


def test_lines_and_recordings_of_librispeech_are_used_or_named() -> None:
    place = Path("dev/1/2")
    place.mkdir(parents=True)
    for name in ("1-2-0000", "1-2-0001"):
        Path("a.wav").rename(place / f"{name}.wav") if name == "1-2-0000" else Path("b.wav").rename(
            place / f"{name}.wav"
        )
    (place / "1-2.trans.txt").write_text("1-2-0000 LO\n1-2-0002 HI\n")
    corpus = read("dev")
    assert list(used(corpus)) == ["1-2-0000"]
    assert "no such recording" in left(corpus)["1-2-0002"] and "no line of it" in left(corpus)["1-2-0001"]


def test_the_files_of_a_folder_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("dev/1/2").mkdir(parents=True)
    Path("a.wav").rename("dev/1/2/1-2-0000.wav")
    Path("dev/1/2/1-2.trans.txt").write_text("1-2-0000 LO\n")
    walked = list[Path]()

    def counted(folder: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        walked.append(folder)
        return walk(folder)

    monkeypatch.setattr(manifests, "walk", counted)
    assert list(used(read("dev"))) == ["1-2-0000"] and walked == [Path("dev")]


def test_texts_of_vctk_are_used_or_named() -> None:
    for folder in ("corpus/txt/p1", "corpus/wav48_silence_trimmed/p1"):
        Path(folder).mkdir(parents=True)
    for number, words in (("001", "Lo hi."), ("002", "hi")):
        Path(f"corpus/txt/p1/p1_{number}.txt").write_text(words + "\n")
    for k, name in enumerate(("mic1", "mic2")):
        Path(f"{'ab'[k]}.wav").rename(f"corpus/wav48_silence_trimmed/p1/p1_001_{name}.wav")
    corpus = read("corpus")
    assert used(corpus) == {"p1_001": ("p1_001_mic1.wav", None, None)} and list(left(corpus)) == ["p1_002"]
    assert corpus.splits["test"][0].speaker == "p1" and corpus.splits["test"][0].phones == ("l", "o", "h", "i")


CSV = "id,audio,words\n"


@pytest.mark.parametrize(
    ("rows", "ids", "reasons"),
    [
        ('1,a.wav,"lo\nhi"\n2,b.wav,hi\n', "12", {}),
        ('1,a.wav,"lo\r\nhi"\r\n2,b.wav,hi\r\n', "12", {}),
        ('1,a.wav,"lo, hi"\n2,b.wav,"lo ""hi"""\n', "12", {}),
        ('1,a.wav,"lo" hi\n2,b.wav,hi\n', "2", {"line 2": "quotation mark"}),
        ('1,a.wav,lo\n2,b.wav,"hi\n', "1", {"line 3": "quotation mark"}),
        (
            "1,a.wav,lo\n1,b.wav,lo\n\n3,c.wav\n4,d.wav,lo,hi\n,,\n",
            "1",
            {"1": "already", "line 5": "2 f", "line 6": "4 f"},
        ),
    ],
)
def test_rows_of_a_csv_are_used_or_named(rows: str, ids: str, reasons: dict[str, str]) -> None:
    Path("t.csv").write_bytes((CSV + rows).encode())
    corpus = read("t.csv")
    assert "".join(used(corpus)) == ids and left(corpus).keys() == reasons.keys()
    assert all(text in left(corpus)[id] for id, text in reasons.items())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (CSV + '1,a.wav,lo\n2,b.wav,"hi\n3,c.wav,lo\n', 3),
        (CSV + '1,a.wav,"lo\n2,b.wav,hi"\n3,c.wav,lo\n', 2),
        (CSV + '1,a.wav,"lo\n2,b.wav,"hi\n3,c.wav,lo\n', 2),
        ('id,audio,phones\n1,a.wav,"h i\n2,b.wav,l "o\n3,c.wav,h "i\n', 2),
        ('id,audio,phones\n1,a.wav,"h i\nl o"\n', 2),
        ('words,audio\n\nlo,a.wav\n"hi,b.wav\nlo,c.wav\nhi,"d.wav\n', 4),
        ('id;audio;words\n1;"a.wav;lo\n2;b.wav";hi\n', 2),
    ],
)
def test_a_quotation_mark_that_is_not_closed_is_named_with_its_line(text: str, line: int) -> None:
    Path("t.csv").write_text(text)
    with pytest.raises(
        InputError, match=rf"t.csv, line {line}: a field begins with a quotation mark that is not closed"
    ):
        read("t.csv")


def test_quotes_of_a_tsv_are_signs_unless_a_text_ends_in_a_later_line() -> None:
    Path("t.tsv").write_text('audio\tid\twords\na.wav\t1\t"lo\nhi"\nb.wav\t2\t"hi\nc.wav\t3\tlo\nd.wav\t4\t"hi\nlost\n')
    corpus = read("t.tsv")
    assert list(used(corpus)) == ["1", "2", "3", "4"] and list(left(corpus)) == ["line 7"]
    assert corpus.splits["test"][0].phones == ("l", "o", "h", "i")
    Path("p.tsv").write_text('audio\tid\tphones\na.wav\t1\t"l o\nb.wav\t2\n')
    assert left(read("p.tsv")).keys() == {"line 3"}, "X-SAMPA's stress is no quotation mark"


@pytest.mark.parametrize("first", ["sep=;\n", '"sep=;"\r\n', "\ufeffsep=;\n", "SEP=;;;\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_excels_line_of_the_separator_is_no_header(first: str, encoding: str) -> None:
    Path("t.csv").write_bytes(f"{first}id;audio;words\n1;a.wav;lo, hi\n2;b.wav\n".encode(encoding))
    corpus = read("t.csv")
    assert list(used(corpus)) == ["1"] and "t.csv, line 4: " in left(corpus)["line 4"]


@pytest.mark.parametrize("name", ["start", "sex", "split"])
def test_a_column_that_is_there_twice_is_an_error(name: str) -> None:
    Path("t.csv").write_text(f"audio,words,{name},{name.title()}\na.wav,lo,0,1\n")
    with pytest.raises(InputError, match=f"several columns named {name}"):
        read("t.csv")


def test_of_two_columns_that_may_be_meant_the_one_that_is_read_is_named() -> None:
    Path("t.csv").write_text("audio,sentence,text,path\na.wav,lo,hi,b.wav\n")
    corpus = read("t.csv")
    assert corpus.splits["test"][0].phones == ("h", "i") and used(corpus) == {"a": ("a.wav", None, None)}
    assert "t.csv: the column 'text' is read as words, and not sentence" in corpus.warnings
    assert "t.csv: the column 'audio' is read as audio, and not path" in corpus.warnings


def test_of_two_keys_that_may_be_meant_the_one_that_is_read_is_named() -> None:
    Path("t.jsonl").write_text(json.dumps({"audio_filepath": "a.wav", "text": "lo", "transcript": "hi"}) + "\n")
    corpus = read("t.jsonl")
    assert corpus.splits["test"][0].phones == ("l", "o")
    assert "t.jsonl: the column 'text' is read as words, and not transcript" in corpus.warnings


def test_an_id_that_a_list_for_synthesis_has_twice_is_named() -> None:
    for k in range(20):
        Path(f"r{k}.wav").write_bytes(Path("a.wav").read_bytes())
    rows = [f"r{k}|lo hi|hi lo\n" for k in range(20)]
    Path("metadata.csv").write_text("".join([*rows, "r3|lo|hi\n", "r4|lo hi\n"]))
    corpus = read("metadata.csv")
    assert len(used(corpus)) == 20 and left(corpus).keys() == {"r3", "line 22"}


def test_a_duration_beside_a_start_is_an_end_and_alone_it_is_compared() -> None:
    Path("t.csv").write_text("id,audio,words,start,duration\n1,a.wav,lo,0.5,1\n2,b.wav,hi,,\n3,c.wav,hi,x,1\n")
    corpus = read("t.csv")
    assert used(corpus) == {"1": ("a.wav", (0.5, 1.5), None), "2": ("b.wav", None, None)}
    assert "not seconds: start 'x', duration '1'" in left(corpus)["3"]
    Path("u.csv").write_text("id,audio,words,duration\n1,a.wav,lo,1.5\n2,b.wav,hi,3.0\n3,c.wav,hi,3000\n")
    corpus = read("u.csv")
    assert {stretch for _, stretch, _ in used(corpus).values()} == {None}
    assert [each for each in corpus.warnings if "shorter than their recording, which is read whole (1): 1;" in each]


SYNTHESIS: dict[str, tuple[str, dict[str, tuple[str, str, tuple[str, ...]]]]] = {
    "LJSpeech": (
        "a|Lo.|lo hi\nb|Hi hi|hi lo\n",
        {"a": ("a.wav", "", ("l", "o", "h", "i")), "b": ("b.wav", "", ("h", "i", "l", "o"))},
    ),
    "commas": (
        "a|Hi, lo, hi, lo.|hi, lo, hi, lo\nb|Hi hi|hi lo\n",
        {"a": ("a.wav", "", ("h", "i", "l", "o") * 2), "b": ("b.wav", "", ("h", "i", "l", "o"))},
    ),
    "text only": (
        "a|lo hi\nb|hi lo\n",
        {"a": ("a.wav", "", ("l", "o", "h", "i")), "b": ("b.wav", "", ("h", "i", "l", "o"))},
    ),
    "CSS10": (
        "a.wav|Lo hi.|hi hi|3.00\nb.wav|Hi hi.|lo hi|2.98\n",
        {"a": ("a.wav", "", ("h", "i", "h", "i")), "b": ("b.wav", "", ("l", "o", "h", "i"))},
    ),
    "VITS": (
        "a.wav|7|lo hi\nb.wav|8|hi lo\n",
        {"a": ("a.wav", "7", ("l", "o", "h", "i")), "b": ("b.wav", "8", ("h", "i", "l", "o"))},
    ),
    "Coqui": (
        "audio_file|text|speaker_name\na.wav|lo hi|x\nb.wav|hi lo|y\n",
        {"a": ("a.wav", "x", ("l", "o", "h", "i")), "b": ("b.wav", "y", ("h", "i", "l", "o"))},
    ),
}


@pytest.mark.parametrize("form", SYNTHESIS)
def test_lists_for_synthesis_are_read_and_it_is_said_how(form: str) -> None:
    text, expected = SYNTHESIS[form]
    Path("metadata.csv").write_text(text)
    corpus = read("metadata.csv")
    assert {
        each.id.removeprefix("test-"): (each.audio.name, each.speaker, each.phones) for each in corpus.splits["test"]
    } == expected
    assert any("no line of names; its columns are read as" in each for each in corpus.warnings) == (form != "Coqui")


def test_lists_whose_columns_cannot_be_told_are_refused() -> None:
    for text in ("a|b\nc|d\n", "lo hi|a\nhi lo|b\n", "a\nb\n"):
        Path("metadata.csv").write_text(text)
        with pytest.raises(InputError, match="no column audio"):
            read("metadata.csv")


def test_as_many_labels_as_recordings_of_fairseq(tmp_path: Path) -> None:
    Path("t.tsv").write_text(f"{tmp_path}\na.wav\t24000\nb.wav\t24000\n")
    with pytest.raises(InputError, match="a manifest of fairseq without a file of labels"):
        read("t.tsv")
    Path("t.phn").write_text("l o\nh i\n")
    assert [each.phones for each in read("t.tsv").splits["test"]] == [("l", "o"), ("h", "i")]
    Path("t.phn").write_text("l o\n")
    with pytest.raises(InputError, match=r"2 recordings, and t.phn has 1 lines"):
        read("t.tsv")


TIMIT = ["sil w ax n sil p iy l iy ng", "SIL HH AA N S T AX-H R EY S SIL"]


@pytest.mark.parametrize("write", ["kaldi", "lhotse", "csv"])
def test_texts_of_phones_are_read_as_phones_and_it_is_said(write: str) -> None:
    forms: dict[str, Callable[[], str]] = {"kaldi": as_kaldi, "lhotse": as_lhotse, "csv": as_csv}
    corpus = read(forms[write]())
    assert [each.phones for each in corpus.splits["test"]] == [tuple(line.split()) for line in TIMIT]
    assert any("all its words are phones of TIMIT or of the CMU dictionary" in each for each in corpus.warnings)


def as_kaldi() -> str:
    Path("data").mkdir()
    Path("data/wav.scp").write_text("u0 ../a.wav\nu1 ../b.wav\n")
    Path("data/text").write_text("".join(f"u{k} {line}\n" for k, line in enumerate(TIMIT)))
    return "data"


def as_lhotse() -> str:
    rows = [cut([said(f"u{k}", text=line)], recording(f"{'ab'[k]}.wav")) for k, line in enumerate(TIMIT)]
    Path("cuts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return "cuts.jsonl"


def as_csv() -> str:
    Path("t.csv").write_text(CSV + "".join(f"u{k},{'ab'[k]}.wav,{line}\n" for k, line in enumerate(TIMIT)))
    return "t.csv"


@pytest.mark.parametrize("texts", [["uh er", "m ah"], ["b d f g k", "l m n p r"], ["lo p iy s", "hi w ax n"]])
def test_interjections_letters_and_words_are_no_phones(texts: list[str]) -> None:
    names = {name for text in texts for name in text.split()}
    Path("words.dict").write_text("".join(f"{name} x\n" for name in names))
    Path("t.csv").write_text(CSV + "".join(f"{k},{'ab'[k]}.wav,{text}\n" for k, text in enumerate(texts)))
    assert {phone for each in read("t.csv").splits["test"] for phone in each.phones} == {"x"}


def splits_table() -> None:
    rows = ["train/a.wav,lo,", "validation/b.wav,hi,", "test/c.wav,lo hi,", "d.wav,hi lo,"]
    for row in rows[:3]:
        path = Path(row.split(",")[0])
        path.parent.mkdir()
        path.write_bytes(Path(path.name).read_bytes())
    Path("all.csv").write_text("file_name,words,x\n" + "".join(f"{row}\n" for row in rows))


def test_a_table_that_is_named_for_each_split_is_divided_by_folders() -> None:
    splits_table()
    tables = ["corpus.tables.dev=all.csv", "corpus.tables.test=all.csv"]
    corpus = read("all.csv", *tables, split="train")
    assert {split: list(used(corpus, split)) for split in corpus.splits} == {
        "train": ["a", "d"],
        "dev": ["b"],
        "test": ["c"],
    }
    assert not any("all rows are read as" in each for each in corpus.warnings)


def test_rows_of_a_split_without_the_table_are_named() -> None:
    splits_table()
    corpus = read("all.csv", "corpus.tables.test=all.csv", "corpus.dev_share=0.5", split="train")
    assert sorted([*used(corpus, "train"), *used(corpus, "dev")]) == ["a", "d"] and list(used(corpus)) == ["c"]
    assert "its split is dev, for which the table is not named; name it" in left(corpus, "train")["b"]
    assert {"rows of train: 3, 2 used, 1 left out", "rows of test: 1, 1 used, 0 left out"} <= set(corpus.notes)


def test_recordings_of_one_name_in_the_splits_of_a_table_have_ids_of_their_own() -> None:
    for split in ("train", "dev", "test"):
        Path(split).mkdir()
        Path(split, "1.wav").write_bytes(Path("a.wav").read_bytes())
    Path("all.csv").write_text("path,words\ntrain/1.wav,lo hi\ntest/1.wav,hi\ndev/1.wav,lo\n")
    corpus = read("all.csv", "corpus.tables.dev=all.csv", "corpus.tables.test=all.csv", split="train")
    assert {id for split in corpus.splits for id in used(corpus, split)} == {"1", "dev-1", "test-1"}
    assert corpus.words is not None and [each.text for each in corpus.words["1"]] == ["lo", "hi"]


def test_a_table_that_is_named_for_one_split_is_read_whole_and_it_is_said_of_whom() -> None:
    splits_table()
    corpus = read("all.csv")
    assert len(used(corpus)) == 4
    (warning,) = [each for each in corpus.warnings if "all rows are read as test" in each]
    assert "dev (1), train (1)" in warning


def test_rows_that_are_left_out_for_their_labels_are_counted_too() -> None:
    Path("train.csv").write_text(CSV + "1,a.wav,lo\n2,b.wav,lo\n3,none.wav,lo\n")
    Path("dev.tsv").write_text("audio\tphones\nc.wav\tl o\nd.wav\tl x\n")
    corpus = read("train.csv", "corpus.tables.dev=dev.tsv", split="train")
    assert {"rows of train: 3, 2 used, 1 left out", "rows of dev: 2, 1 used, 1 left out"} <= set(corpus.notes)
    assert [len(corpus.splits[split]) + len(corpus.rejected[split]) for split in ("train", "dev")] == [3, 2]


@pytest.mark.parametrize("name", ["subset", "set", "Fold", "data_split"])
def test_a_column_of_splits_is_before_folders(name: str) -> None:
    Path("t.csv").write_text(
        f"audio,words,{name}\na.wav,lo,train\nb.wav,hi,Validation\nc.wav,lo hi,TEST\nd.wav,hi lo,train\n"
    )
    corpus = read("t.csv", "corpus.tables.dev=t.csv", "corpus.tables.test=t.csv", split="train")
    assert [list(used(corpus, split)) for split in ("train", "dev", "test")] == [["a", "d"], ["b"], ["c"]]


def test_a_plain_en_is_american_as_english_is_and_it_is_said() -> None:
    rows = [
        {"audio_filepath": f"{name}.wav", "text": "a dance bath car", "lang": code}
        for name, code in zip("abc", ("en", "English", "en-GB"), strict=True)
    ]
    Path("t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    settings = ["corpus.kind=table", "corpus.tables.test=t.jsonl"]
    corpus = read_corpus(load_config("demo", settings).corpus, "test")
    plain, named, british = (each.phones for each in corpus.splits["test"])
    assert plain == named != british
    assert any("the language 'en' of the corpus names no accent and is read as en-us" in each for each in corpus.notes)
    chosen = read_corpus(load_config("demo", [*settings, "corpus.language={en: en-gb}"]).corpus, "test")
    assert chosen.splits["test"][0].phones == british


@pytest.mark.parametrize("form", ["tsv", "jsonl"])
def test_where_a_channel_is_0_the_others_are_not_read_as_counted_from_1(form: str) -> None:
    rows = [("zero", 0), ("one", 1), ("none", "")]
    lines = [f"{id}\ttwo.wav\t{channel}\tlo hi\n" for id, channel in rows]
    objects = [json.dumps({"id": id, "audio": "two.wav", "channel": channel, "words": "lo"}) for id, channel in rows]
    Path("t.tsv").write_text("id\taudio\tchannel\twords\n" + "".join(lines))
    Path("t.jsonl").write_text("\n".join(objects))
    corpus = read(f"t.{form}")
    line = 2 if form == "tsv" else 1
    assert used(corpus) == {"none": ("two.wav", None, None)} and list(left(corpus)) == ["zero", "one"]
    assert f"a channel that is counted from 0, as line {line} has it" in left(corpus)["one"]


def test_rows_of_one_sound_with_other_labels_are_named() -> None:
    rows = ["1\ta.wav\t\t\tA\tlo", "2\ta.wav\t\t\tB\thi", "3\ta.wav\t0\t1\tA\tlo", "4\ta.wav\t0\t1\tB\thi"]
    rows += ["5\ta.wav\t0\t1\tA\thi", "6\tb.wav\t\t\tA\tlo", "7\tb.wav\t\t\tA\tlo", "8\tc.wav\t\t\tA\thi"]
    Path("t.tsv").write_text("id\taudio\tstart\tend\tspeaker\twords\n" + "\n".join(rows))
    corpus = read("t.tsv")
    (warning,) = [each for each in corpus.warnings if "the same sound" in each]
    assert "(2): 2, 5;" in warning and len(used(corpus)) == 8


def test_strings_between_slashes_and_brackets_are_divided_and_other_signs_are_named() -> None:
    texts = ["/ka-ta/", "[kʰa.ta]", "ka(t)a", "/pala ka/", "[a, o]", "[k ã]"]
    lines = "".join(f"{k}\t{name}.wav\t{text}\n" for k, (name, text) in enumerate(zip("abcdad", texts, strict=True)))
    Path("t.tsv").write_text("id\taudio\tphones\n" + lines)
    corpus = read("t.tsv", "corpus.phones=found", "corpus.segment=ipa", split="train")
    phones = {each.id: "".join(each.phones) for split in corpus.splits.values() for each in split}
    assert phones == {"0": "kata", "1": "kʰata", "2": "ka(t)a", "3": "palaka", "5": "kã"}
    assert "phones are not a JSON list" in left(corpus, "train")["4"]
    assert any("signs without a letter are learned as phones: " in each and "( (1)" in each for each in corpus.warnings)
