"""Each command as a user would run it, on files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from speechctc.stages import extract as extract_stage
from tests.command import Command, one_line_error, run_command
from tests.tones import speak, write_config, write_table


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the corpus of tones extracted and a run trained on it, by the command line."""
    folder = tmp_path_factory.mktemp("cli")
    config = write_config(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for command in ("extract", "train"):
            assert run_command(command, "--config", config) == 0
    return folder


@pytest.fixture
def there(trained: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(trained)
    return trained


def test_the_help_of_no_command_loads_a_stage() -> None:
    code = "import sys\nfrom speechctc.cli.app import app, main\n"
    code += "lm = [['lm', name] for name in ('train', 'perplexity', 'sample', 'tune')]\n"
    code += "for words in [*([each.name] for each in app.registered_commands), *lm]:\n"
    code += "    sys.argv = ['speechctc', *words, '--help']\n"
    code += "    try:\n        main()\n    except SystemExit as left:\n        assert not left.code\n"
    code += "loaded = [name for name in sys.modules if name.startswith('speechctc.')]\n"
    code += "early = ('audio', 'audio.tracks', 'core', 'core.parallel', 'core.errors', 'core.bundled', "
    code += "'core.processes', 'core.stopping', 'inference', 'inference.formats')\n"
    code += "assert all(name.split('.')[1] == 'cli' or name.partition('.')[2] in early for name in loaded), loaded\n"
    code += "assert not {'torch', 'numpy', 'yaml'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("--help") >= 11, done.stderr


def test_version_and_config(speechctc: Command) -> None:
    assert speechctc("--version").out.startswith("speechctc ")
    shown = speechctc("config", "--config", "demo", "train.epochs=77").out
    assert "epochs: 77" in shown and "preemphasis" in shown


def test_extract_says_what_it_made_and_does_nothing_twice(speechctc: Command, there: Path) -> None:
    shards = sorted((there / "features" / "store").glob("*.safetensors"))
    before = [path.stat().st_mtime_ns for path in shards]
    done = speechctc("extract", "--config", "tones.yaml")
    assert done.status == 0
    assert "train: 48 utterances" in done.out and "test: 12 utterances" in done.out
    assert "0 utterances extracted, 72 there already" in done.err
    assert [path.stat().st_mtime_ns for path in shards] == before


def test_evaluate_writes_the_score_with_its_protocol(speechctc: Command, there: Path) -> None:
    done = speechctc("evaluate", "--model", "run", "--split", "test", "--json", "out/score.json")
    assert done.status == 0
    score = json.loads((there / "out" / "score.json").read_text())
    assert score["per"] < 15
    errors = score["substitutions"] + score["deletions"] + score["insertions"]
    assert score["per"] == pytest.approx(100 * errors / score["reference_phones"])
    rows = [json.loads(line) for line in (there / "table2.jsonl").read_text().splitlines()]
    assert score["reference_phones"] == sum(len(row["phones"]) for row in rows)
    assert score["utterances"] == len(rows) == 12
    assert score["per_low"] <= score["per"] <= score["per_high"]
    assert (score["speakers"], score["interval_over"]) == (4, "speakers") and "below 500" in score["caution"]
    assert "95 % interval" in done.out and "not reliable" in done.out
    assert done.err.count("PER, the phone error rate") == 1 and "PER, the" not in done.out
    assert "none folded" in score["protocol"] and f"PER on test: {score['per']:.2f} %" in done.out


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["decode", "a.wav", "--out="], "--out"),
        (["decode", "a.wav", "--out", ""], "--out"),
        (["measure", "a.wav", "--tier", ""], "--tier"),
        (["evaluate", "--model="], "--model"),
        *(([command, ""], "an argument") for command in ("decode", "start", "plugins", "studio")),
    ],
)
def test_an_empty_value_is_no_place(speechctc: Command, here: Path, arguments: list[str], what: str) -> None:
    assert f"speechctc: {what} is empty; give it a value" in one_line_error(speechctc(*arguments))


def test_a_working_directory_that_is_gone_is_said(
    tmp_path: Path, speechctc: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for words in (("decode", tmp_path / "a.wav"), ("measure", tmp_path), ("config", "demo")):
        assert "the working directory is gone; change to a folder" in one_line_error(speechctc(*words))


def test_evaluate_on_another_table_with_another_folding(speechctc: Command, there: Path) -> None:
    write_table(there, 5, seed=9)
    done = speechctc(
        "evaluate", "--json", "o.json", "corpus.tables.test=table9.jsonl", "score.fold={low: mid, high: mid, top: mid}"
    )
    score = json.loads((there / "o.json").read_text())
    assert done.status == 0 and score["utterances"] == 5 and score["substitutions"] == 0
    assert "low as mid" in score["protocol"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("train", "--config", "tones.yaml"), "exists already"),
        (("train", "--config", "tones.yaml", "--run", "r2", "features.mels=21"), "features.mels=20 (now 21)"),
        (("train", "--config", "tones.yaml", "--run", "r3", "data.dir=none"), "speechctc extract"),
        (("extract", "--config", "tones.yaml", "corpus.tables.train=none.tsv"), "none.tsv"),
        (("extract", "--config", "tones.yaml", "corpus.kind=timit", "corpus.root=."), "TRAIN"),
        (("extract", "--config", "tones.yaml", "corpus.kind=timit", "corpus.root=nowhere"), "nowhere"),
        (("evaluate", "--model", "nowhere"), "no such folder"),
        (("decode", "tones.yaml", "--model", "features"), "neither a checkpoint nor a run"),
        (("dekode",), "no such command 'dekode'. Did you mean 'decode'; see speechctc --help"),
        (("decode", "--modell", "a"), "no such option: --modell (Possible options: --model); see speechctc decode"),
        (("export", "a.zip", "--model", "english"), "no format has the ending .zip"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    speechctc: Command, there: Path, arguments: tuple[str, ...], said: str
) -> None:
    assert said in one_line_error(speechctc(*arguments))


def test_extract_counts_and_lists_what_it_skips(speechctc: Command, here: Path) -> None:
    config = write_config(here, train=6, held_out=3)
    table = here / "table0.jsonl"
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    Path(rows[0]["audio"]).write_bytes(b"")
    Path(rows[1]["audio"]).write_bytes(b"RIFF but no more")
    Path(rows[2]["audio"]).unlink()
    table.write_text("\n".join(json.dumps(row) for row in rows))
    done = speechctc("extract", "--config", config)
    assert done.status == 0
    assert "train: 3 utterances" in done.out and "3 skipped" in done.out
    listed = (here / "features" / "skipped.tsv").read_text()
    for row in rows[:3]:
        assert f"train\t{row['id']}\t" in listed and row["id"] in done.out


def test_extraction_goes_on_and_redoes_only_what_changed(speechctc: Command, here: Path) -> None:
    config = write_config(here, train=6, held_out=3)
    assert "12 utterances extracted" in speechctc("extract", "--config", config).err
    Path("features/dev.safetensors").unlink()
    assert "0 utterances extracted, 12 there already" in speechctc("extract", "--config", config).err
    (shard,) = Path("features/store").glob("*.safetensors")
    soundfile.write("audio/2-000.wav", speak(["low"] * 9, np.random.default_rng(0)), 16000)
    assert "1 utterance extracted, 11 there already" in speechctc("extract", "--config", config).err
    shard.write_bytes(shard.read_bytes()[:-10])
    done = speechctc("extract", "--config", config)
    assert "11 utterances extracted, 1 there already" in done.err and f"{shard.name}; speechctc" in done.err
    assert "0 utterances extracted, 12 there already" in speechctc("extract", "--config", config, "--prune").err
    assert not shard.exists()
    assert "damaged" not in speechctc("extract", "--config", config).err


def test_a_recording_that_vanishes_during_extraction_is_taken_when_it_is_back(
    speechctc: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_config(here, train=6, held_out=3)
    lost, work = here / "audio" / "0-004.wav", extract_stage.extract_one

    def and_lose_one(*arguments: object) -> object:
        if lost.exists():
            lost.rename("away.wav")
        return work(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(extract_stage, "extract_one", and_lose_one)
        done = speechctc("extract", "--config", config)
    assert done.status == 0 and "0-004.wav: no such file" in done.out
    Path("away.wav").rename(lost)
    done = speechctc("extract", "--config", config)
    assert "1 utterance extracted, 11 there already" in done.err and "skipped u0-004" not in done.out
    assert "0 utterances extracted, 12 there already" in speechctc("extract", "--config", config).err
