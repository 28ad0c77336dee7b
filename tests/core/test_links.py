"""Links that a stranger planted, at the places of whatever is written.

With ``FUZZ_INPUTS=1``, as for `tests.test_fuzz`, all commands are tried, and all kinds of links in each place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from speechctc.cli import app
from speechctc.corpora import tasks, transcripts
from speechctc.inference.output import OutputOptions
from tests.fuzzing.links import TARGETS, Writer, command, hunt
from tests.fuzzing.writers import commands, parts
from tests.tiny_model import write_song

ALL = "FUZZ_INPUTS" in os.environ
RUN = Path("run")
TRIED = ("start", "extract --config tones", "decode corpus/dev", "evaluate", "score-phones corpus", "compare")
MORE = ("plugins", "lm", "export given --model")
NAMES = [name for name in commands(RUN) if ALL or name.startswith(TRIED + MORE)]


@pytest.mark.parametrize("name", parts())
def test_nothing_is_written_through_a_link(tmp_path: Path, name: str) -> None:
    runs, findings = hunt(parts()[name], tmp_path, len(TARGETS))
    assert runs and findings == []


@pytest.mark.parametrize("name", NAMES)
def test_no_command_writes_through_a_link(tmp_path: Path, tiny_model: Path, name: str) -> None:
    runs, findings = hunt(commands(tiny_model)[name], tmp_path, len(TARGETS) if ALL else 1)
    assert runs and findings == []


READ = {*"--model --lm --transcripts --words --dictionary --textgrids --audio --text --dev --before --ratings".split()}
READ.add("--recordings")
ALONE = {("studio",): "its parts are hunted one by one", ("config",): "prints", ("lm", "sample"): "prints"}


def test_the_hunt_tries_each_option_of_each_command_that_names_a_place_to_write() -> None:
    def known(group: Any, name: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
        for part, each in group.commands.items():
            yield from known(each, (*name, part)) if hasattr(each, "commands") else [((*name, part), each)]

    hunted = [writer.words for writer in commands(RUN).values()]
    for name, found in known(typer.main.get_command(app.app)):
        own = [words for words in hunted if tuple(words[: len(name)]) == name]
        assert own or name in ALONE, name
        for option in found.params:
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
        _, found = hunt(Writer(lambda folder: None, act), tmp_path, len(TARGETS))
        assert any(f" at {place}: " in line for line in found), found


@pytest.mark.parametrize("id", ["../../../escaped", "/tmp/escaped", "a/b", "..", ".", "", "...", "\\0", "./x"])
def test_an_id_is_a_name_and_never_a_path(tmp_path: Path, id: str) -> None:
    table = tmp_path / "t.jsonl"
    table.write_text(
        f'{{"id": {id.encode("unicode_escape").decode()!r}, "audio": "a.wav", "phones": "a"}}\n'.replace("'", '"')
    )
    (tmp_path / "a.wav").touch()
    ((recording, _),) = tasks.in_table(table, None, transcripts.TranscriptOptions())
    (file,) = OutputOptions("textgrid", folder=tmp_path / "out").files_of(recording).values()
    assert file.parent == tmp_path / "out" and Path(os.path.normpath(file)).parent == tmp_path / "out"


def test_folders_that_a_user_names_may_be_links(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recordings, the results, the features: what a person linked to another disk is used as it is."""
    for name in ("songs", "results"):
        (tmp_path / "disk" / name).mkdir(parents=True)
        (tmp_path / name).symlink_to(tmp_path / "disk" / name, target_is_directory=True)
    write_song(tmp_path / "disk" / "songs" / "a.wav", ["low", "mid"])
    monkeypatch.chdir(tmp_path)
    command(f"decode songs --model {tiny_model} --format textgrid --out results/")
    assert len(list((tmp_path / "disk" / "results").rglob("*.TextGrid"))) == 1
    assert (tmp_path / "results").is_symlink()
