"""The line that names the model in use."""

import json
from pathlib import Path

from speechctc.stages.used_model import find_and_describe


def test_names_from_a_model_stay_on_the_line(tmp_path: Path) -> None:
    about = {
        "phones": {"name": "a\nb\x1b[2J", "list": ["a"]},
        "config": {"corpus": {"kind": "elan", "root": "x\u2028y"}},
        "dev_per": 12.5,
    }
    (tmp_path / "checkpoint.json").write_text(json.dumps(about))
    folder, line = find_and_describe(tmp_path)
    assert folder == tmp_path
    assert line.endswith(r": 1 phones (a\nb\x1b[2J), trained on x\u2028y, dev PER 12.5 %")
