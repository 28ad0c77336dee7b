"""benchmarks/ipa_sources makes speech out of clones by each kind of rule, and counts what it leaves out."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.command import SCRIPTS, script

COLUMNS = ("source", "address", "commit", "language", "speaker", "licence", "audio", "texts", "entry", "key", "most")
Rule = dict[str, str]
SECONDS = {"long": 20.0, "click": 0.05}
TEXTS = {
    "beside/one.txt": "Guten\n Morgen\n",
    "lines/words.xml": "<a>zwei &amp; drei</a><f>one.wav</f><a>a</a><f>two.wav</f><a>b</a><f>two.wav</f>",
    "table/words.csv": 'file,said\none.wav,"ja, gut"\nlong.wav,lang\nclick.wav,ich\nbroken.wav,aus\n',
    "table/words.tsv": 'file\tsaid\nthree.wav\tein "Wort"\n',
}
SOUNDS = (
    *("beside/one.wav", "lines/one.wav", "lines/two.wav", "lines/three.wav", "path/de/ann/gut_so.wav"),
    *("path/pt_BR/bob/bom.wav", "path/qq/bob/x.wav", "table/one.wav", "table/long.wav", "table/click.wav"),
    *("table/three.wav", "code/U0061.wav", "code/U0062.wav", "code/U0063.wav", "code/U0064.wav", "rules/ḿpa.wav"),
    *("rules/q.wav", "twice/eins.wav", "twice/zwei.wav"),
)


@pytest.fixture
def clones(tmp_path: Path) -> Path:
    """Return a folder with a repository of sounds and texts."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "clones" / "ann" / "sounds"
    for name in SOUNDS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        seconds = SECONDS.get(Path(name).stem, 0.6)
        soundfile.write(folder / name, rng.normal(0.0, 0.1, int(8000 * seconds)), 8000)
    (folder / "twice/zwei.wav").write_bytes((folder / "twice/eins.wav").read_bytes())
    (folder / "table/broken.wav").write_bytes(b"RIFF")
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    git(folder, "init", "--quiet")
    git(folder, "add", ".")
    git(folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "sounds")
    return tmp_path / "clones"


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder."""
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True, text=True)
    return done.stdout.strip()


def made(
    clones: Path, monkeypatch: pytest.MonkeyPatch, *rules: Rule
) -> tuple[dict[str, list[dict[str, str]]], list[dict[str, str]]]:
    """Return the rows of each source that the script makes, and the rows of counts."""
    top = clones.parent
    common = {
        "address": "https://github.com/ann/sounds",
        "commit": git(clones / "ann/sounds", "rev-parse", "HEAD"),
        "language": "de",
        "licence": "CC0-1.0",
    }
    lines = [[(common | rule).get(name, "") for name in COLUMNS] for rule in rules]
    (top / "table.tsv").write_text("\n".join("\t".join(line) for line in [list(COLUMNS), *lines]) + "\n", "utf-8")
    arguments = [str(clones), str(top / "out"), "--table", str(top / "table.tsv"), "--csv", str(top / "counts.csv")]
    monkeypatch.setattr(sys, "argv", ["ipa_sources", *arguments])
    script("ipa_sources").main()
    folders = {path.parent.name: path for path in sorted((top / "out").glob("*/utterances.tsv"))}
    return {name: table(path, "\t") for name, path in folders.items()}, table(top / "counts.csv", ",")


def table(path: Path, delimiter: str) -> list[dict[str, str]]:
    """Return the rows of a table."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE if delimiter == "\t" else 0))


@pytest.mark.usefixtures("scripts_too")
def test_each_kind_of_rule_gives_its_words(clones: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, counts = made(
        clones,
        monkeypatch,
        {
            "source": "path",
            "audio": r"path/(?P<lang>\w+)/(?P<who>\w+)/(?P<words>.*)\.wav",
            "language": "{lang} pt_BR=pt-br",
            "speaker": "{who}",
        },
        {"source": "beside", "audio": r"beside/.*\.wav", "texts": "{folder}/{stem}.txt", "licence": "GPL-3.0-only"},
        {
            "source": "lines",
            "audio": r"lines/(?P<key>.*\.wav)",
            "texts": "lin*/*.xml",
            "entry": "<a>(?P<words>.*?)</a><f>(?P<key>.*?)</f>",
            "key": "{key}",
        },
        {
            "source": "csv",
            "audio": r"table/(?P<key>(?!three).*\.wav)",
            "texts": "table/words.csv",
            "entry": "columns file said",
            "key": "{key}",
        },
        {
            "source": "tsv",
            "audio": r"table/(?P<key>three\.wav)",
            "texts": "table/words.tsv",
            "entry": "columns file said",
            "key": "{key}",
        },
    )
    words = {name: [row["words"] for row in own] for name, own in said.items()}
    assert words == {
        "beside": ["Guten Morgen"],
        "csv": ["ja, gut"],
        "lines": ["zwei & drei"],
        "path": ["gut so", "bom"],
        "tsv": ['ein "Wort"'],
    }
    assert [(row["language"], row["speaker"], row["free"]) for row in said["path"]] == [
        ("de", "path-ann", "yes"),
        ("pt-br", "path-bob", "yes"),
    ]
    (row,) = said["beside"]
    assert (row["free"], row["seconds"], row["speaker"]) == ("no", "0.60", "beside")
    assert soundfile.info(clones.parent / "out/beside" / row["audio"]).frames == 9600
    assert {(row["source"], row["language"]): (row["utterances"], row["why"]) for row in counts} == {
        ("path", "de"): ("1", ""),
        ("path", "pt-br"): ("1", ""),
        ("path", "qq"): ("0", "1 nothing reads its language"),
        ("beside", "de"): ("1", ""),
        ("lines", "de"): ("1", "2 it has no words"),
        ("csv", "de"): (
            "1",
            "1 it is longer than 15 s; 1 it is not whole sound; 1 it is shorter than a word or silent",
        ),
        ("tsv", "de"): ("1", ""),
    }


@pytest.mark.usefixtures("scripts_too")
def test_letters_and_the_most_of_a_language(clones: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said, counts = made(
        clones,
        monkeypatch,
        {"source": "code", "audio": r"code/U(?P<code>\w{4})\.wav", "most": "2"},
        {"source": "rules", "audio": r"rules/(?P<words>.*)\.wav", "language": "zu"},
        {"source": "rules2", "audio": r"rules/(?P<words>.*)\.wav", "language": "sn"},
        {"source": "twice", "audio": r"twice/(?P<words>.*)\.wav"},
    )
    assert [row["words"] for row in said["code"]] == ["a", "c"]
    assert [row["ipa"] for row in said["rules"]] == ["ǃ", "m p a"]
    assert [row["words"] for row in said["twice"]] == ["eins"]
    assert {row["source"]: (row["left_out"], row["why"]) for row in counts} == {
        "code": ("2", "2 beyond the 2 of a language"),
        "rules": ("0", ""),
        "rules2": ("1", "1 a letter of its words has no rule"),
        "twice": ("1", "1 it is there twice"),
    }


@pytest.mark.usefixtures("scripts_too")
def test_an_absent_clone_is_fetched_at_its_commit(clones: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = git(clones / "ann/sounds", "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.{clones}/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://github.com/")
    fresh = clones.parent / "fresh"
    script("ipa_sources").fetch(fresh, "https://github.com/ann/sounds", commit)
    assert git(fresh / "ann/sounds", "cat-file", "-t", commit) == "commit"
    assert [path.name for path in (fresh / "ann").iterdir()] == ["sounds"]


@pytest.mark.usefixtures("scripts_too")
def test_the_folders_are_further_speech_for_ipa_table(clones: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = clones.parent
    rules = (
        {"source": "lines", "audio": "lines/(?P<words>one).wav"},
        {"source": "rules", "audio": r"rules/(?P<words>.*)\.wav", "language": "zu"},
        {"source": "beside", "audio": "beside/(?P<words>one).wav", "language": "cs"},
    )
    made(clones, monkeypatch, *rules)
    for part in ("train", "dev"):
        (top / "english" / part).mkdir(parents=True)
        (top / "english" / part / "utterances.tsv").write_text("id\tspeaker\taudio\twords\na\ts\ta.wav\tyes\n", "utf-8")
    more = [str(path) for path in sorted((top / "out").iterdir())]
    arguments = [str(top / "none"), str(top / "english"), str(top / "data"), "--without", "cs", "--more", *more]
    monkeypatch.setattr(sys, "argv", ["ipa_table", *arguments])
    script("ipa_table").main()
    rows = table(top / "data/train.tsv", "\t")
    assert [(row["language"], row["words"], row["phones"]) for row in rows] == [
        ("en", "yes", ""),
        ("de", "one", ""),
        ("zu", "", "ǃ"),
        ("zu", "", "m p a"),
    ]
    assert all(Path(row["audio"]).is_file() for row in rows[1:])


def test_the_table_names_commits_and_rules_that_compile() -> None:
    with (SCRIPTS / "ipa_sources.tsv").open(encoding="utf-8", newline="") as file:
        sources = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    assert tuple(sources[0]) == COLUMNS and len({row["source"] for row in sources}) == len(sources)
    for row in sources:
        names = re.compile(row["audio"]).groupindex
        assert re.fullmatch(r"[0-9a-f]{40}", row["commit"]) and row["licence"], row
        assert row["texts"] or {"words", "code"} & set(names), row
        if not row["entry"].startswith("columns "):
            assert not row["entry"] or "words" in re.compile(row["entry"]).groupindex, row
