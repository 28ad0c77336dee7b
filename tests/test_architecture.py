"""docs/explain/architecture.md names the rooms of the package."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_architecture_names_every_room() -> None:
    rooms = {path.name for path in (ROOT / "speechctc").iterdir() if path.is_dir() and path.name[0] != "_"}
    text = (ROOT / "docs" / "explain" / "architecture.md").read_text(encoding="utf-8")
    text = text.partition("## The rooms\n")[2].partition("\n## ")[0]
    assert rooms == set(re.findall(r"\*\*(\w+)\*\*", text))
