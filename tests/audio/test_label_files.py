"""Label files of other programs: the formats' own examples, as their programs write them, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from speechctc.audio.label_files import _rows_by_recording, is_label_file, read_label_file, recordings_in
from speechctc.audio.sound_file import AudioInfo
from speechctc.core.errors import InputError

FOUR = AudioInfo(64000, 16000, 1)  # a recording of four seconds
WORDS = [(0.3, 0.65, "my"), (0.65, 1.0, "sister"), (1.0, 1.5, "paints")]


def read(name: str, text: str, recording: str = "a.wav") -> list[tuple[float, float, str]]:
    Path(name).write_text(text, encoding="utf-8")
    found = read_label_file(Path(name), Path(recording), FOUR)
    assert found is not None and is_label_file(Path(name))
    return [(round(start, 4), round(end, 4), label) for start, end, label in found.entries]


def note(name: str) -> str:
    found = read_label_file(Path(name), Path("a.wav"), FOUR)
    assert found is not None
    return found.note


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("audacity.txt", "0.300000\t0.650000\tmy\n0.650000\t1.000000\tsister\n1.000000\t1.500000\tpaints\n"),
        ("frequencies.txt", "0.3\t0.65\tmy\n\\\t100.0\t5000.0\n0.65\t1.0\tsister\n1.0\t1.5\tpaints\n\\\t-1.0\t-1.0\n"),
        ("comma.txt", "0,300000\t0,650000\tmy\n0,650000\t1,000000\tsister\n1,000000\t1,500000\tpaints\n"),
        ("htk.lab", "0 3000000\n3000000 6500000 my\n6500000 10000000 sister\n10000000 15000000 paints\n"),
        ("scored.lab", "3000000 6500000 my -310.2\n6500000 10000000 sister -500.1\n10000000 15000000 paints -1.5\n"),
        ("alternative.rec", "3000000 6500000 my\n6500000 10000000 sister\n10000000 15000000 paints\n"),
        ("snack.lab", "0.3 0.65 my\n0.65 1.0 sister\n1.0 1.5 paints\n"),
        ("samples.lab", "4800 10400 my\n10400 16000 sister\n16000 24000 paints\n"),
        ("ms.txt", "300 650 my\n650 1000 sister\n1000 1500 paints\n"),
        ("timit.wrd", "4800 10400 my\n10400 16000 sister\n16000 24000 paints\n"),
        (
            "esps.lab",
            "signal a\ntype 1\ncolor 121\nfont -misc-*-bold-*-*-*-15-*-*-*-*-*-*-*\nseparator ;\nnfields 1\n#\n"
            "    0.300000  121 \n    0.650000  121 my\n    1.000000  121 sister\n    1.500000  121 paints\n",
        ),
        ("festvox.lab", "#\n0.3000 100 \n0.65 100 my ; score 2.5 ;\n1.0000 100 sister ;\n1.5000 100 paints\n"),
        ("bare.lab", "0.3 26 \n0.65 26 my\n1.0 26 sister\n1.5 26 paints\n"),
        ("buckeye.words", "#\n  0.3 121 ; U; U; null\n 0.65 121 my; m ay\n 1.0 121 sister; s\n 1.5 121 paints; p\n"),
        ("a.ctm", ";; made by hand\na 1 1.0 0.5 paints 0.9\na 1 0.3 0.35 my 0.8\na 1 0.65 0.35 sister\n"),
        ("many.ctm", "a 1 0.3 0.35 my\na 1 0.65 0.35 sister\na 1 1.0 0.5 paints\nb 1 0.1 0.2 no\n"),
        ("a.stm", ";; LABEL\na 1 anna 0.3 0.65 <o,f0,female> my\na 1 anna 0.65 1.0 sister\na 1 x 1.0 1.5 paints\n"),
        (
            "a.srt",
            "\ufeff1\n00:00:00,300 --> 00:00:00,650\n<i>my</i>\n\n2\n00:00:00,650 --> 00:00:01,000\n{\\an8}- sister\n\n"
            "3\n00:00:01,000 --> 00:00:01,500 X1:0 X2:9\n♪ paints ♪\n",
        ),
        (
            "a.vtt",
            "WEBVTT - a title\nKind: captions\n\nNOTE\nof a person\n\nSTYLE\n::cue { color: red }\n\nfirst\n"
            "00:00.300 --> 00:00.650 align:start\n<v Anna>my</v>\n\n00:00:00.650 --> 00:00:01.000\nsister\n\n"
            "00:01.000 --> 00:01.500\n<c.yellow>paints</c>\n",
        ),
        ("whisper.tsv", "start\tend\ttext\n300\t650\tmy\n650\t1000\tsister\n1000\t1500\tpaints\n"),
        (
            "whisper.json",
            '{"text": "my sister paints", "language": "en", "segments": [{"id": 0, "start": 0.3, "end": 0.65,'
            ' "text": " my"}, {"start": 0.65, "end": 1.0, "text": " sister", "words": []},'
            ' {"start": 1, "end": 1.5, "text": " paints"}]}',
        ),
        (
            "cpp.json",
            '{"params": {}, "transcription": [{"offsets": {"from": 300, "to": 650}, "text": " my"},'
            ' {"offsets": {"from": 650, "to": 800}, "text": " sis"},'
            ' {"offsets": {"from": 800, "to": 1000}, "text": "ter"},'
            ' {"offsets": {"from": 1000, "to": 1500}, "text": " paints"}]}',
        ),
        (
            "vosk.json",
            '{"result": [{"conf": 1, "start": 0.3, "end": 0.65, "word": "my"}, {"start": 0.65, "end": 1.0,'
            ' "word": "sister"}, {"start": 1.0, "end": 1.5, "word": "paints"}], "text": "my sister paints"}',
        ),
        (
            "aws.json",
            '{"jobName": "x", "results": {"transcripts": [], "items": ['
            '{"type": "pronunciation", "start_time": "0.3", "end_time": "0.65", "alternatives": [{"content": "my"}]},'
            '{"type": "pronunciation", "start_time": "0.65", "end_time": "1.0", '
            '"alternatives": [{"content": "sister"}]},'
            '{"type": "pronunciation", "start_time": "1.0", "end_time": "1.5", '
            '"alternatives": [{"content": "paints"}]},'
            '{"type": "punctuation", "alternatives": [{"content": "."}]}]}}',
        ),
        (
            "openai.json",
            '{"task": "transcribe", "text": "my sister paints", "words": [{"word": "my", "start": 0.3, "end": 0.65},'
            ' {"word": "sister", "start": 0.65, "end": 1.0}, {"word": "paints", "start": 1.0, "end": 1.5}]}',
        ),
        ("subtitles.txt", "1\n00:00:00,300 --> 00:00:00,650\nmy\n2\n00:00:00,650 --> 00:00:01,000\nsister\n3\n"
         "00:00:01,000 --> 00:00:01,500\npaints\n"),
    ],
)  # fmt: skip
def test_labels_have_the_times_of_their_format(here: Path, name: str, text: str) -> None:
    assert read(name, text) == WORDS


def test_a_label_may_have_spaces_and_letters_of_any_form(here: Path) -> None:
    assert read("a.txt", "0.0\t1.0\tmy sister\n1.0\t2.0\tcafe\u0301\n") == [(0.0, 1.0, "my sister"), (1.0, 2.0, "café")]
    assert read("b.lab", "0 10000000 my sister\n10000000 20000000 x\n")[0] == (0.0, 1.0, "my sister")
    assert read("c.srt", "1\n00:00:00,000 --> 00:00:01,000\nmy\nsister &amp; I\n")[0] == (0.0, 1.0, "my sister & I")


def test_the_unit_of_whole_numbers_is_said_if_it_is_not_that_of_the_format(here: Path) -> None:
    read("htk.lab", "0 10000000 a\n10000000 30000000 b\n")
    assert note("htk.lab") == "htk.lab: read as a label file of HTK"
    read("samples.lab", "0 16000 a\n16000 48000 b\n")
    assert "its times are taken for samples, which fit the recording" in note("samples.lab")
    with pytest.raises(InputError, match="a label file of HTK with times up to 90000000.*nor in samples"):
        read("other.lab", "0 10000000 a\n10000000 90000000 b\n")


def test_labels_with_neighbours_are_the_middle_one(here: Path) -> None:
    found = read("hts.lab", "0 10000000 x^x-sil+m=ay@1_1/A:0_0\n10000000 20000000 x^sil-m+ay=s@1_2/A:0_0\n")
    assert [label for *_, label in found] == ["sil", "m"] and "the middle is taken" in note("hts.lab")
    found = read("tri.lab", "0 10000000 sil\n10000000 20000000 sil-m+ay\n20000000 30000000 m-ay+s\n")
    assert [label for *_, label in found] == ["sil", "m", "ay"]


def test_captions_that_roll_and_words_that_light_up_are_read_once(here: Path) -> None:
    """As YouTube writes automatic captions, and Whisper its subtitles with highlighted words."""
    rolling = (
        "WEBVTT\nKind: captions\nLanguage: en\n\n"
        "00:00:00.000 --> 00:00:01.000 align:start position:0%\n \nmy<00:00:00.500><c> sister</c>\n\n"
        "00:00:01.000 --> 00:00:01.010 align:start position:0%\nmy sister\n \n\n"
        "00:00:01.010 --> 00:00:02.000 align:start position:0%\nmy sister\npaints<00:00:01.500><c> boats</c>\n\n"
        "00:00:02.000 --> 00:00:02.010 align:start position:0%\npaints boats\n \n\n"
    )
    assert [label for *_, label in read("y.vtt", rolling)] == ["my sister", "paints boats"]
    assert "3 lines left out that captions show again" in note("y.vtt")
    lit = "".join(
        f"{k}\n00:00:0{k},000 --> 00:00:0{k + 1},000\n{text}\n\n"
        for k, text in enumerate(["<u>my</u> sister", "my <u>sister</u>", "my sister"])
    )
    assert read("w.srt", lit) == [(0.0, 1.0, "my"), (1.0, 2.0, "sister")]
    twice = "".join(f"{k}\n00:00:0{k},000 --> 00:00:0{k + 1},000\nno\n\n" for k in range(3))
    assert [label for *_, label in read("n.srt", twice)] == ["no", "no", "no"]  # said again, and no captions that roll


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "my sister paints small boats\n"),
        ("a.lab", "m ay s ih s t er\n"),
        ("a.txt", "10 20 thirty\n"),  # numbers may be said
        ("a.txt", "3 sisters\npaint boats\n"),
        ("a.txt", "# of sisters\n"),
        ("a.lab", "1 _ 2\n"),
        ("a.txt", ""),
    ],
)
def test_a_text_is_a_text(here: Path, name: str, text: str) -> None:
    Path(name).write_text(text)
    assert read_label_file(Path(name), Path("a.wav"), FOUR) is None and not is_label_file(Path(name))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.cha", "@UTF8\n@Begin\n*CHI:\tmy sister . \x15300_1500\x15\n@End\n", "a CHAT transcript, which is not read"),
        ("a.txt", "@UTF8\n@Begin\n*CHI:\tmy sister .\n@End\n", "a CHAT transcript"),
        ("a.lab", '#!MLF!#\n"*/a.lab"\n0 100 a\n.\n', "a master label file of HTK"),
        ("a.trs", "<?xml?><Trans/>", "a file of Transcriber"),
        ("a.txt", "1 my\n2 sister\n", "each line begins with a number, as in '1 my', so it is no transcript"),
        ("a.txt", "1. my\n2. sister\n", "each line begins with a number"),
        ("a.txt", "0.3 my\n0.65 sister\n", "each line begins with a number"),
        ("a.txt", "0.3\tmy\n0.65\tsister\n", "each line begins with a number"),
        ("a.txt", "m 0.3 0.4\nay 0.4 0.5\n", "each line has two numbers, as in 'm 0.3 0.4', so it is no transcript"),
        ("a.lrc", "[00:00.30]my\n", "lyrics in LRC, which is not read"),
        ("a.txt", "0.0\t1.0\ta\n1.0\t2.0\tb\n0.0\t1.0\tc\n", "line 3: times that are not in order .0.0, 1.0.; put"),
        ("a.txt", "0.0\t1.0\ta\n1.0\t9.0\tb\n", "Audacity, with labels up to 9.00 s for a recording of 4.00 s"),
        ("a.lab", "0 10000000 sil[2]\n10000000 20000000 sil[3]\n", "labels of the states of HTK's models"),
        ("a.lab", "0 10000000 m -1.0 my\n10000000 20000000 ay -2.0\n", "labels of HTK on several levels"),
        ("a.lab", "#\n1.0 121 a\n0.5 121 b\n", "line 3: a label of xlabel ends at 0.5 s, before the last one"),
        ("a.ctm", "a 1 0.3 my\n", "line 1: 'a 1 0.3 my' is not recording, channel, start, duration, label"),
        ("a.ctm", "b 1 0 1 x\nc 1 0 1 y\n", "labels of no recording called a, but of b, c"),
        ("a.ctm", "a 1 0 1 x\na 2 0 1 y\n", "labels of the channels 1, 2 of a"),
        ("a.stm", "a 1 anna 0,3 x\n", "is not recording, channel, speaker, times"),
        ("a.srt", "1\n00:00:00,000 --> 00:00:01,000\nmy\n\nsister\n", "line 5: 'sister' is without a time"),
        ("a.srt", "", "subtitles without a label"),
        ("a.ctm", "a 1 nan 0.3 my\n", "CTM, in which 'my' goes from nan to nan s"),
        ("a.ctm", "a 1 1.0 -0.3 my\n", "CTM, in which 'my' goes from 1 to 0.7 s"),
        ("a.txt", "0.0\t1e999\tmy\n", "in which 'my' goes from 0 to inf s"),
        ("a.srt", "1\n00:00:09,000 --> 00:00:10,000\nmy\n", "subtitles, with labels up to 9.00 s"),
    ],
)  # fmt: skip
def test_what_is_refused_is_called_by_its_name(here: Path, name: str, text: str, said: str) -> None:
    Path(name).write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        read_label_file(Path(name), Path("a.wav"), FOUR)
    assert "\n" not in str(caught.value) and "literal" not in str(caught.value)


def test_the_labels_of_one_recording_among_many(here: Path) -> None:
    misses = _rows_by_recording.cache_info().misses
    text = "one 1 0 1 a\nx/two 1 0 1 b\nmy_talk 1 0 1 c\nthree.wav 1 0 1 d\n"
    for recording, label in (("one.wav", "a"), ("two.flac", "b"), ("my talk.wav", "c"), ("three.wav", "d")):
        assert read("many.ctm", text, recording) == [(0.0, 1.0, label)]
    assert _rows_by_recording.cache_info().misses == misses + 1  # it is divided once, not for each recording
    assert recordings_in(Path("many.ctm")) == ["one", "x/two", "my_talk", "three.wav"]
    assert read("single.ctm", "whatever 1 0 1 a\n") == [(0.0, 1.0, "a")]  # one alone is the recording's


def test_subtitles_end_with_the_recording(here: Path) -> None:
    assert read("a.srt", "1\n00:00:03,000 --> 00:00:09,000\nmy\n") == [(3.0, 4.0, "my")]
    assert read("a.stm", "a 1 x 0 1 my\na 1 x 1 2 ignore_time_segment_in_scoring\n") == [(0.0, 1.0, "my")]
    assert "1 segments left out" in note("a.stm")


@pytest.mark.parametrize("sign", [",", "\t", ", "])
def test_texts_of_sonic_visualiser_begin_at_their_times(here: Path, sign: str) -> None:
    """They are a time, a height and a text; xlabel's lines are an end, a colour and a label, with spaces."""
    lines = [(0.3, "0", "my"), (0.65, "0", "sister"), (1.0, "0", "paints")]
    text = "".join(f"{time}{sign}{height}{sign}{label}\n" for time, height, label in lines)
    assert read("a.txt", text) == [(time, time, label) for time, _, label in lines]
    assert read("b.txt", text.replace(sign, " ")) == [(0.0, 0.3, "my"), (0.3, 0.65, "sister"), (0.65, 1.0, "paints")]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"results": {"channels": [{"alternatives": [{"words": []}]}]}}', "a transcript of Deepgram"),
        ('{"results": {"channel_labels": {}, "items": []}}', "a transcript of Amazon Transcribe, of several channels"),
        ('{"results": [{"alternatives": [{"words": [{"startTime": "1s"}]}]}]}', "a transcript of Google"),
        ('{"recognizedPhrases": [{}]}', "a transcript of Azure"),
        ('{"transcript": "my", "words": [{"word": "my", "case": "success", "start": 0, "end": 1}]}', "Gentle"),
        ('{"text": "my", "words": [{"text": "my", "start": 300, "end": 650}]}', "a transcript of AssemblyAI"),
    ],
)
def test_json_of_other_recognisers_is_called_by_its_name(here: Path, text: str, kind: str) -> None:
    Path("a.json").write_text(text)
    assert is_label_file(Path("a.json"))
    with pytest.raises(InputError, match=f"a.json: .*{kind}, which is not read"):
        read_label_file(Path("a.json"), Path("a.wav"), FOUR)


@pytest.mark.parametrize(
    "text",
    ['{"audio": "a.wav", "words": "my"}\n{"audio": "b.wav", "words": "so"}', '{"a": {"wav": "a.wav", "words": ["my"]}}',
     '{"words": 3}', '{"results": []}', '{"segments": [{"start": 0}]}'],
)  # fmt: skip
def test_other_json_is_no_transcript(here: Path, text: str) -> None:
    Path("a.json").write_text(text)
    assert not is_label_file(Path("a.json"))


@pytest.mark.parametrize(("name", "text"), [("a.ctm", "{} 1 0.3 0.35 my"), ("a.stm", "{} 1 anna 0.3 0.65 my")])
def test_labels_of_a_recording_of_another_name_are_named(here: Path, name: str, text: str) -> None:
    """Fields are divided at spaces, so that a name which has some shifts all others: numbers were read as words."""
    read(name, text.format("b"))
    assert "labels of b, which are taken for those of a.wav" in note(name)
    read(name, text.format("a"))
    assert "taken" not in note(name)
    for other in ("my talk", "my talk.wav"):
        Path(name).write_text(text.format(other))
        with pytest.raises(InputError, match="the spaces in the name .* divide; write my_talk"):
            read_label_file(Path(name), Path("my talk.wav"), FOUR)
    assert read(name, text.format("my_talk"), "my talk.wav") == [(0.3, 0.65, "my")]
