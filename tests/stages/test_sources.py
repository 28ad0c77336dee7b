"""What models learned from: the files of sources against NOTICE and the cards, of runs, of copies, of exports."""

from __future__ import annotations

import json
import re
import runpy
import shutil
from pathlib import Path

import pytest
import yaml

from speechctc.core.bundled import MODELS
from speechctc.core.errors import InputError
from speechctc.inference.boundary_model import FILE, SHIFT_DIMS, BoundaryModel
from speechctc.stages.export import export
from speechctc.stages.sources import SHIFT, SOURCES_FILE, UNKNOWN, Source, listed_sources, sources_of
from tests.command import Command, one_line_error

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def here(beside_latest: Path) -> Path:
    return beside_latest


def plain(path: Path) -> str:
    """Return the text of a file with one space in place of all white space."""
    return " ".join(path.read_text(encoding="utf-8").split())


@pytest.mark.parametrize("name", MODELS)
def test_notice_and_card_name_the_sources_and_licences_of_a_model(name: str) -> None:
    parts = yaml.safe_load((MODELS[name].folder / SOURCES_FILE).read_text(encoding="utf-8"))
    notice, card = plain(ROOT / "NOTICE"), plain(MODELS[name].folder / "README.md")
    found = set(re.findall(rf"The model {name}, ([^:]+):", notice))
    assert found == {*parts}
    for part, rows in parts.items():
        section = notice.split(f"The model {name}, {part}: ")[1].split(" The model ")[0].split(" The novels: ")[0]
        items = [each.strip() for each in section.removeprefix("- ").split(" - ")]
        assert len(items) == len(rows)
        for item, row in zip(items, rows, strict=True):
            assert item.startswith(
                row.get("source", f"the {row.get('part', 'weights')} of the model {row.get('model')}")
            )
            assert row.get("licence", "") in item.split(": ", 1)[1] and row.get("by", "") in item
            for licence in filter(None, row.get("licence", "").split(", ")):
                (line,) = re.findall(rf"\| {re.escape(licence)} \| ([^|]+) \|", card)
                assert part in line.split(", ")
    script = runpy.run_path(str(ROOT / "scripts" / "draw_notice"))
    for path in (ROOT / "NOTICE", MODELS[name].folder / "README.md"):
        text = path.read_text(encoding="utf-8")
        assert script["written"](path, text) == text
        assert script["written"](path, text.replace("CC BY 4.0", "MIT")) != text.replace("CC BY 4.0", "MIT")


def test_the_numbers_of_corpora_that_are_not_free_are_named_with_their_licences() -> None:
    """And no other source has such a licence."""
    odd = {
        (name, each.part): each
        for name, model in MODELS.items()
        for each in listed_sources(model.folder)
        if "NC" in each.licence
    }
    assert [*odd] == [("english", SHIFT), ("ipa", SHIFT), ("ipa", "width of intervals")]
    *shifts, width = odd.values()
    for shift in shifts:
        assert shift.amount.startswith(f"{SHIFT_DIMS} numbers") and shift.name.startswith("TIMIT")
    assert width.amount.startswith("one number") and width.name == "VoxAngeles"
    for (name, _), each in odd.items():
        card = plain(MODELS[name].folder / "README.md")
        assert re.search(rf"{each.amount.split(',')[0]}[^|]*{each.name.split(',')[0]}[^|]*{each.licence}\b", card)


def test_the_command_prints_them_without_drawing(speechctc: Command, here: Path) -> None:
    done = speechctc("inspect", "english", "--json", "sources.json")
    assert done.status == 0 and not Path("inside").exists()
    assert "\nshift of boundaries:\n  CC BY-NC-SA " in done.out and "27 numbers" in done.out
    rows = json.loads(Path("sources.json").read_text())
    assert rows[0]["licence"] == "CC BY 4.0" and {each["part"] for each in rows} >= {"weights", "net for scores"}
    assert len(done.out.splitlines()) == len(rows) + len({each["part"] for each in rows})
    assert "leave out one" in one_line_error(speechctc("inspect", "english", "--audio", "a.wav"))
    assert "no MODEL is named" in one_line_error(speechctc("inspect", "--json", "sources.json"))


def test_a_model_of_another_counts_that_ones_sources_too() -> None:
    english, ipa = (sources_of(model.folder) for model in MODELS.values())
    spoken = {each.name for each in english if each.part == "weights"}
    assert "speechocean762" in spoken <= {each.name for each in ipa if each.part == "weights"}
    assert {each.name for each in ipa if each.part == "boundary model"} > {"Synthetic speech of flite"}
    assert [each.name for each in ipa if each.part == SHIFT] == [each.name for each in english if each.part == SHIFT]


def test_a_run_names_its_corpus_and_the_model_that_it_began_with(tiny_model: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_model / "best", tmp_path / "first")
    corpus = Source("weights", "the corpus of the training (table)", UNKNOWN)
    assert sources_of(tmp_path / "first") == [corpus]

    def begun(name: str, init_from: str) -> list[Source]:
        shutil.copytree(tmp_path / "first", tmp_path / name, dirs_exist_ok=True)
        about = json.loads((tmp_path / name / "checkpoint.json").read_text())
        about["config"]["train"]["init_from"] = init_from
        about.pop("checksums", None)
        (tmp_path / name / "checkpoint.json").write_text(json.dumps(about))
        return sources_of(tmp_path / name)

    second = begun("second", "english")
    assert second[0] == corpus and second[1].name == "english"
    own = [each for each in sources_of(MODELS["english"].folder) if each.part == "weights"]
    assert second[2:] == own
    assert {*begun("third", str(tmp_path / "second"))} == {*second}
    assert begun("fourth", str(tmp_path / "fourth")) == [corpus]
    assert "is not found" in begun("fifth", "nowhere")[1].name
    (tmp_path / "fifth" / "checkpoint.json").write_text("{")
    assert begun("sixth", str(tmp_path / "fifth"))[1:] == [
        Source("weights", "the model fifth, which is not found or cannot be read", UNKNOWN)
    ]
    assert export(tmp_path / "second", tmp_path / "given") > 0
    assert sources_of(tmp_path / "given") == second


def test_a_copy_has_the_sources_of_the_parts_that_it_has(tmp_path: Path) -> None:
    whole = sources_of(MODELS["english"].folder)
    shutil.copytree(MODELS["english"].folder, tmp_path / "english")
    boundaries = BoundaryModel.load(tmp_path / "english")
    assert boundaries is not None
    boundaries.unshifted().save(tmp_path / "english" / FILE)
    (tmp_path / "english" / "lm.safetensors").unlink()
    left = [each for each in whole if each.part not in (SHIFT, "n-gram")]
    assert len(left) < len(whole) and sources_of(tmp_path / "english") == left
    export(tmp_path / "english", tmp_path / "judge", scores=True)
    judge = [each for each in whole if each.part == "net for scores"]
    weights = [each for each in sources_of(tmp_path / "judge") if each.part == "weights"]
    assert [each.name for each in weights] == [each.name for each in judge]
    assert not any(each.part == "calibration" for each in sources_of(tmp_path / "judge"))  # it was the other net's
    shutil.copytree(MODELS["ipa"].folder, tmp_path / "ipa")
    (tmp_path / "ipa" / FILE).unlink()
    gone = {each.part for each in sources_of(MODELS["ipa"].folder)} - {
        each.part for each in sources_of(tmp_path / "ipa")
    }
    assert gone == {"boundary model", SHIFT, "width of intervals"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a word", "at its beginning"),
        ("weights: [{source: x, licence: MIT, odd: 1}]", "at weights, entry 0"),
        ("weights: [{source: x}]", "under weights, neither"),
        ("weights: [{licence: MIT, model: english}]", "under weights, neither"),
    ],
)
def test_a_damaged_file_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / SOURCES_FILE).write_text(text)
    with pytest.raises(InputError, match=said):
        listed_sources(tmp_path)


@pytest.mark.parametrize(("text", "said"), [("{", "no JSON"), ('{"format": 1}', "phones: Field required")])
def test_of_a_run_whose_description_is_damaged_they_are_not_known(
    speechctc: Command, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "checkpoint.json").write_text(text)
    done = speechctc("inspect", tmp_path)
    assert f"{tmp_path}: the checkpoint is damaged (checkpoint.json: {said}" in done.err.splitlines()[-1]
    assert done.status == 2 and "Traceback" not in done.err
