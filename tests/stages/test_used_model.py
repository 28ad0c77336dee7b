"""The line that names the model in use."""

import json
from pathlib import Path
from typing import Any

import pytest

from speechctc.stages.used_model import find_and_describe


def _line(folder: Path, **facts: Any) -> str:
    about = {"phones": {"name": "found", "list": ["a"]}, "config": {"corpus": {"kind": "elan", "root": "x"}}, **facts}
    (folder / "checkpoint.json").write_text(json.dumps(about))
    found, line = find_and_describe(folder)
    assert found == folder
    return line


def test_names_from_a_model_stay_on_the_line(tmp_path: Path) -> None:
    config = {"corpus": {"kind": "elan", "root": "x\u2028y"}}
    line = _line(tmp_path, phones={"name": "a\nb\x1b[2J", "list": ["a"]}, config=config, dev_per=12.5)
    assert line.endswith(r": 1 phone (a\nb\x1b[2J), trained on x\u2028y, dev PER 12.5 %")


@pytest.mark.parametrize("facts", [{"dev_per": 10**400}, {"phones": {"name": "x" * 5000, "list": ["a"]}}])
def test_what_no_model_has_does_not_end_the_command(tmp_path: Path, facts: dict[str, Any]) -> None:
    assert len(_line(tmp_path, **facts)) < 2000


def test_a_model_is_described_alike_whether_it_is_named_or_not(here: Path) -> None:
    lines = [find_and_describe(model, True)[1] for model in (None, Path("english"))]
    assert lines[0].endswith(f": {lines[1]}") and lines[1].startswith("using the bundled model english (")
