"""The tree in docs/architecture.md is that of the package, and README names its rooms."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def listed() -> dict[str, str]:
    """Return what docs/architecture.md lists under ``speechctc/``, with its purpose, by paths from the root."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tree = text.partition("## The files\n")[2].partition("\n## ")[0]
    found: dict[str, str] = {}
    folders: list[str] = []
    for indent, name, purpose in re.findall(r"^    ( *)(\S+)(?: +(.*))?$", tree, flags=re.MULTILINE):
        folders = folders[: len(indent) // 2]
        path = "".join([*folders, name])
        if name.endswith("/"):
            folders.append(name)
        if path.startswith("speechctc/"):
            assert path not in found, f"{path} is listed twice"
            found[path] = purpose
    return found


def test_every_module_is_listed_and_nothing_else() -> None:
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "speechctc").rglob("*.py")}
    modules = {module for module in modules if not module.endswith(("/__init__.py", "/__main__.py"))}
    assert {path for path in listed() if path.endswith(".py")} == modules, "scripts/draw_tree writes the list anew"
    assert all((ROOT / path).is_dir() for path in listed() if path.endswith("/"))


def test_every_module_has_its_purpose_in_a_line() -> None:
    assert not [path for path, purpose in listed().items() if not purpose and path != "speechctc/"]


def test_the_readme_and_the_architecture_name_every_room() -> None:
    rooms = {path.name for path in (ROOT / "speechctc").iterdir() if path.is_dir() and path.name[0] != "_"}
    readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("## The rooms\n")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)/` \|", readme, flags=re.MULTILINE)) == rooms
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    text = text.partition("## The rooms\n")[2].partition("\n## ")[0]
    assert rooms <= set(re.findall(r"\*\*(\w+)\*\*", text))
