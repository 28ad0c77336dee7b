"""``talk.wav`` beside ``talk.wav.wav`` or ``talk.wav.mp3``: each has its own labels and results."""

from pathlib import Path

import pytest

from speechctc.audio.eaf import find_media
from speechctc.audio.recordings import Siblings, find_recordings
from speechctc.config.schema import CorpusConfig
from speechctc.core.errors import InputError
from speechctc.core.progress import Reporter
from speechctc.corpora.tasks import find_tasks
from speechctc.corpora.tiers import read_textgrids
from speechctc.corpora.transcripts import Transcript, TranscriptOptions
from speechctc.inference.output import OutputOptions, check_out
from speechctc.stages.measure import _textgrids
from speechctc.studio.document import Document
from speechctc.studio.folder import Folder
from tests.stages.test_letter_case import write_grid
from tests.tiny_model import write_song


@pytest.fixture
def folder(here: Path) -> Path:
    """Return a folder with talk.wav and talk.wav.wav, each with its TextGrid as decode writes them."""
    (here / "in").mkdir()
    for name, labels in (("talk", ["low", "mid"]), ("talk.wav", ["mid", "top"])):
        write_song(here / "in" / f"{name}.wav", labels)
        write_grid(here / "in" / f"{name}.TextGrid", *labels)
    return here / "in"


def test_a_corpus_has_each_recording_with_its_own_labels(folder: Path) -> None:
    corpus = read_textgrids(folder, CorpusConfig(kind="textgrid", root=folder, phones="found"))
    found = {each.audio.name: each.phones for each in corpus.splits["train"]}
    assert found == {"talk.wav": ("low", "mid"), "talk.wav.wav": ("mid", "top")}
    (folder / "talk.TextGrid").unlink()
    corpus = read_textgrids(folder, CorpusConfig(kind="textgrid", root=folder, phones="found"))
    assert [each.audio.name for each in corpus.splits["train"]] == ["talk.wav.wav"]
    assert "talk.wav: no TextGrid beside it" in corpus.rejected["train"][0].reason


@pytest.mark.parametrize("ending", [".lab", ".txt", ".PHN", ".TextGrid"])
@pytest.mark.parametrize("apart", [False, True])
def test_transcripts_beside_recordings_and_in_a_folder(here: Path, ending: str, apart: bool) -> None:
    sounds, texts = here / "sounds", here / ("texts" if apart else "sounds")
    sounds.mkdir()
    for name, label in (("talk", "low"), ("talk.wav", "mid")):
        write_song(sounds / f"{name}.wav", [label])
        if ending == ".TextGrid":
            write_grid(texts / f"{name}{ending}", label)
        else:
            texts.mkdir(exist_ok=True)
            (texts / f"{name}{ending}").write_text(f"0 100 {label}" if ending == ".PHN" else label)
    given = texts if apart else None
    for arguments in ([sounds], [sounds / "talk.wav"]):  # the other is beside it even if it is not named
        tasks = find_tasks(arguments, None, given, TranscriptOptions(), Reporter(quiet=True))
        read = {each.recording.path.name: each.transcript for each in tasks}
        assert isinstance(read["talk.wav"], Transcript) and read["talk.wav"].labels == ("low",)
    (texts / f"talk{ending}").unlink()
    [task] = find_tasks([sounds / "talk.wav"], None, given, TranscriptOptions(), Reporter(quiet=True))
    assert isinstance(task.transcript, InputError)


def test_the_studio_keeps_two_documents(folder: Path) -> None:
    one, other = Document(folder / "talk.wav"), Document(folder / "talk.wav.wav")
    assert (one.grid_path.name, other.grid_path.name) == ("talk.TextGrid", "talk.wav.TextGrid")
    before = other.grid_path.read_bytes()
    one.edit(one.revision, {"what": "relabel", "phone": 0, "label": "top"})
    one.write_grid()
    assert other.grid_path.read_bytes() == before and [p.label for p in Document(other.recording).phones] == [
        "mid",
        "top",
    ]


def test_results_of_both_are_written_and_none_over_the_other(folder: Path) -> None:
    (folder / "talk.TextGrid").unlink()
    options = OutputOptions("textgrid", folder=folder, overwrite=True)
    for arguments in ([folder], [folder / "talk.wav"]):
        recordings = find_recordings(arguments)
        chosen = check_out(recordings, options)
        names = {each.path.name: chosen.files_of(each)["textgrid"].name for each in recordings}
        assert names["talk.wav"] == "talk.TextGrid"


def test_a_name_that_would_be_taken_for_another_is_refused(folder: Path) -> None:
    write_song(folder / "talk.flac", ["low"])  # now talk.wav and talk.flac need their whole names
    options = OutputOptions("textgrid", folder=folder, overwrite=True)
    with pytest.raises(InputError, match="both .*talk.wav and .*talk.wav.wav would be written to .*; rename one"):
        check_out(find_recordings([folder]), options)
    pair = find_recordings([folder / "talk.wav", folder / "talk.flac"])
    with pytest.raises(InputError, match=r"talk.wav.TextGrid would be taken for that of .*talk.wav.wav; rename"):
        check_out(pair, options)
    with pytest.raises(InputError, match="would be taken for that of"):  # by those who read out/ beside the recordings
        check_out(pair, OutputOptions("textgrid", folder=folder.parent / "out"))
    shown = Folder(folder)
    shown.wait()
    states = {row["name"]: row["state"] for row in shown.rows()}
    assert states == {"talk.wav": "unreadable", "talk.flac": "new", "talk.wav.wav": "corrected"}


def test_measuring_takes_its_own(folder: Path) -> None:
    for given in (None, folder):
        found = _textgrids(given, find_recordings([folder]))
        assert [each.name for each in found if isinstance(each, Path)] == ["talk.TextGrid", "talk.wav.TextGrid"]
    write_song(folder / "talk.flac", ["low"])  # talk.wav needs its whole name, and has no file of that
    pair = find_recordings([folder / "talk.flac", folder / "talk.wav"])
    for given in (None, folder):
        assert [each.name for each in _textgrids(given, pair) if isinstance(each, Path)] == ["talk.TextGrid"] * 2


def test_labels_find_their_recording(here: Path) -> None:
    for name in ("talk.wav", "talk.wav.mp3", "song.flac", "song.wav", "song.eaf.wav", "only.wav"):
        Path(name).touch()
    found = {
        name: Siblings().recording_of(Path(name)) for name in ("talk.wav.PHN", "talk.PHN", "song.eaf", "only.wav.eaf")
    }
    names = {name: path.name if path else None for name, path in found.items()}
    assert names == {
        "talk.wav.PHN": "talk.wav.mp3",
        "talk.PHN": "talk.wav",
        "song.eaf": "song.wav",
        "only.wav.eaf": "only.wav",
    }
    assert find_media(Path("only.wav.eaf"), []) == Path("only.wav")


@pytest.mark.parametrize(
    ("files", "name", "expected"),
    [
        ("talk.wav talk.wav.mp3 talk.wav.TextGrid", "talk.wav.mp3", "talk.wav.TextGrid"),
        ("talk.wav talk.wav.mp3 talk.wav.TextGrid", "talk.wav", None),
        ("talk.wav TALK.WAV.mp3 talk.wav.TextGrid", "talk.wav", "talk.wav.TextGrid"),
        ("talk.wav TALK.WAV.mp3 talk.wav.TextGrid", "TALK.WAV.mp3", None),
        ("talk.wav Talk.WAV.mp3 TALK.wav.TextGrid", "talk.wav", None),
        ("talk.wav talk_checked.TextGrid", "talk.wav", None),
        ("talk.wav talk.flac talk.TextGrid", "talk.flac", "talk.TextGrid"),
        ("talk.wav talk.wav.txt talk.wav.TextGrid", "talk.wav", "talk.wav.TextGrid"),  # a text is no recording
    ],
)
def test_whose_file_it_is(here: Path, files: str, name: str, expected: str | None) -> None:
    for each in files.split():
        Path(each).touch()
    found = Siblings().find(Path(name), [".textgrid"])
    assert (found.name if found else None) == expected


def test_rows_of_a_table_whose_recordings_have_moved(here: Path) -> None:
    rows = [("talk.wav", "talk.wav", "low"), ("talk.wav.wav", "talk.wav.wav", "mid")]
    Path("table.tsv").write_text("id\taudio\tphones\n" + "".join("\t".join(row) + "\n" for row in rows))
    for _, name, label in rows:
        (here / "moved").mkdir(exist_ok=True)
        write_song(here / "moved" / name, [label])
    tasks = find_tasks([Path("moved")], None, Path("table.tsv"), TranscriptOptions(), Reporter(quiet=True))
    read = {each.recording.path.name: each.transcript for each in tasks}
    assert {name: each.labels for name, each in read.items() if isinstance(each, Transcript)} == {
        "talk.wav": ("low",),
        "talk.wav.wav": ("mid",),
    }
