"""Where results go, and in which format."""

from __future__ import annotations

from pathlib import Path

import pytest

from speechctc.audio.recordings import Recording
from speechctc.core.errors import InputError
from speechctc.inference.output import OutputOptions, check_out, check_place, choose_output

RECORDINGS = [Recording(Path(f"{name}.wav"), Path(name)) for name in "ab"]


@pytest.mark.parametrize(
    ("form", "out", "chosen"),
    [
        (None, None, ("text", None, None)),
        ("csv", None, ("csv", None, None)),
        (None, "o/x.textgrid", ("textgrid", "o/x.textgrid", None)),
        (None, "x.CSV", ("csv", "x.CSV", None)),
        ("tsv", "x.tsv", ("tsv", "x.tsv", None)),
        ("json", "x.report", ("json", "x.report", None)),
        ("json", "grids", ("json", None, "grids")),
        (None, "v1.2/", ("text", None, "v1.2")),
        (None, "there.is", ("text", None, "there.is")),
        ("ctm", "/dev/null", ("ctm", "/dev/null", None)),
    ],
)
def test_the_ending_decides(
    here: Path, form: str | None, out: str | None, chosen: tuple[str, str | None, str | None]
) -> None:
    Path("there.is").mkdir()
    kind, *places = choose_output(form, out)
    assert (kind, *(None if place is None else str(place) for place in places)) == chosen


def test_a_contradiction_and_an_unknown_ending_are_said() -> None:
    with pytest.raises(InputError, match=r"--out x.csv is a file of format csv, and --format says tsv"):
        choose_output("tsv", "x.csv")
    with pytest.raises(InputError, match=r"ending .2; .*--format.* v1.2/"):
        choose_output(None, "v1.2")


def test_a_place_that_cannot_be_written_is_said_before_any_work(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("file").write_text("mine")
    with pytest.raises(InputError, match="file: a file, where a folder is needed"):
        check_out(RECORDINGS, OutputOptions(folder=Path("file")))
    with pytest.raises(InputError, match="file: a file, where a folder is needed"):
        check_place(Path("file/x.json"))
    with pytest.raises(InputError, match="file: exists and was made or changed by hand"):
        check_place(Path("file"))
    monkeypatch.setattr("os.access", lambda *_: False)
    with pytest.raises(InputError, match="no permission to write there"):
        check_out(RECORDINGS, OutputOptions(folder=Path("new/folder")))
    assert sorted(path.name for path in here.iterdir()) == ["file"]
