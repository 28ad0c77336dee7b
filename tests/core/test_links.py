"""Links that a stranger planted, at the places of whatever is written; `scripts/fuzz --links` tries all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from speechctc.cli import app
from speechctc.corpora import transcripts
from speechctc.inference.output import OutputOptions
from tests.fuzzing import links
from tests.fuzzing.links import PLANTS, Writer
from tests.fuzzing.writers import cheap, slow, with_model

RUN = Path("run")
SLOWER = ("start", "extract", "doctor", "plot", "measure")


def _in_turn(number: int) -> Iterator[str]:
    """Another plant at each place: all kinds come up, and not each at every place."""
    yield list(PLANTS)[number % len(PLANTS)]


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    fast = {name: writer for name, writer in cheap().items() if name not in SLOWER}
    hunted = links.hunt(fast, tmp_path)
    assert hunted.findings == [] and hunted.runs.keys() == fast.keys() and sum(hunted.runs.values()) > 100


def test_no_command_writes_through_a_link(tmp_path: Path, tiny_model: Path) -> None:
    writers = {**cheap(), **with_model(tiny_model)}
    names = ("start", "extract", "decode", "evaluate", "export", "export a page", "score-phones", "compare", "plugins")
    some = {name: writers[name] for name in names}
    hunted = links.hunt(some, tmp_path, _in_turn)
    assert hunted.findings == [] and hunted.runs.keys() == some.keys() and sum(hunted.runs.values()) > 60


READ = {
    *"--model --lm --transcripts --words --dictionary --textgrids --audio --text --dev --before --ratings".split(),
}
ALONE = {("studio",): "its parts are hunted one by one", ("config",): "prints", ("lm", "sample"): "prints"}


def test_the_hunt_tries_each_option_of_each_command_that_names_a_place_to_write() -> None:
    def commands(group: Any, name: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
        for part, each in group.commands.items():
            yield from commands(each, (*name, part)) if hasattr(each, "commands") else [((*name, part), each)]

    hunted = [writer.act.__dict__.get("words", ()) for writer in {**cheap(), **with_model(RUN), **slow(RUN)}.values()]
    for name, command in commands(typer.main.get_command(app.app)):
        own = [words for words in hunted if words[: len(name)] == name]
        assert own or name in ALONE, name
        for option in command.params:
            if "Path" in str(option.type_descriptor.annotation) or option.opts[0] == "--out":
                given = any(option.opts[0] in words for words in own)
                assert given or option.opts[0] in READ or option.param_type_name == "argument", (name, option.opts)


def test_the_hunt_finds_what_follows_links(tmp_path: Path) -> None:
    def follows(folder: Path) -> None:
        (folder / "sub").mkdir(exist_ok=True)
        (folder / "sub" / "out.txt").write_text("over")

    def leaves_a_draft(folder: Path) -> None:
        (folder / "out.draft").write_text("over")
        os.replace(folder / "out.draft", folder / "out.txt")

    for act, place in ((follows, "sub"), (follows, "sub/out.txt"), (leaves_a_draft, "out.draft")):
        found = links.hunt({"it": Writer(lambda folder: None, act)}, tmp_path).findings
        assert any(f" at {place}: " in line for line in found), found


@pytest.mark.parametrize("id", ["../../../escaped", "/tmp/escaped", "a/b", "..", ".", "", "...", "\\0", "./x"])
def test_an_id_is_a_name_and_never_a_path(tmp_path: Path, id: str) -> None:
    table = tmp_path / "t.jsonl"
    table.write_text(
        f'{{"id": {id.encode("unicode_escape").decode()!r}, "audio": "a.wav", "phones": "a"}}\n'.replace("'", '"')
    )
    (tmp_path / "a.wav").touch()
    ((recording, _),) = transcripts.in_table(table, None, transcripts.TranscriptOptions())
    (file,) = OutputOptions("textgrid", folder=tmp_path / "out").files_of(recording).values()
    assert file.parent == tmp_path / "out" and Path(os.path.normpath(file)).parent == tmp_path / "out"


def test_folders_that_a_user_names_may_be_links(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recordings, the results, the features: what a person linked to another disk is used as it is."""
    for name in ("songs", "results"):
        (tmp_path / "disk" / name).mkdir(parents=True)
        (tmp_path / name).symlink_to(tmp_path / "disk" / name, target_is_directory=True)
    writers = with_model(tiny_model)
    writers["decode"].prepare(tmp_path / "disk" / "songs")
    monkeypatch.chdir(tmp_path / "songs")
    links.command("decode", "corpus", "--model", "model", "--format", "textgrid", "--out", "../results/")(tmp_path)
    assert len(list((tmp_path / "disk" / "results").rglob("*.TextGrid"))) == 21
    assert (tmp_path / "results").is_symlink()
