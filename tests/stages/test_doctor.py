"""The doctor finds each fault that was planted, and nothing in a clean corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from speechctc.config.load import load_config
from speechctc.corpora.findings import Finding
from speechctc.corpora.registry import read_corpus
from speechctc.stages.doctor import Diagnosis, analyse_sounds, check_corpus, check_machine
from speechctc.stages.machine import why_no_gpu
from tests.command import Command
from tests.stages.spoilt import FAULTS, Tones, clean
from tests.train_helpers import Recorder


def findings(tones: Tones) -> list[Finding]:
    config = load_config(tones.write())
    corpus = read_corpus(config.corpus)
    return check_corpus(config, corpus, analyse_sounds(corpus, Recorder()))


def test_a_clean_corpus_has_no_finding(tmp_path: Path) -> None:
    assert findings(clean(tmp_path)) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found_and_nothing_else(fault: str, tmp_path: Path) -> None:
    plant, kind, place = FAULTS[fault]
    tones = clean(tmp_path)
    plant(tones)
    found = findings(tones)
    assert any(place in where for each in found if each.kind == kind for where in each.where), found
    beside = {"reading"} if fault == "a phone that is never trained" else set()
    assert {each.kind for each in found} - beside <= {kind}, found
    assert all(each.what and each.why and each.fix for each in found)


def test_the_command_prints_findings_and_json(speechctc: Command, tmp_path: Path) -> None:
    tones = clean(tmp_path)
    FAULTS["a clipped recording"][0](tones)
    status, said, _ = speechctc("doctor", "--config", tones.write(), "--json", tmp_path / "found.json")
    assert status == 0 and "\nmemory" in said and "an epoch" not in said
    assert "recordings that are clipped, with peaks cut flat: 1\n  where: " in said
    found = json.loads((tmp_path / "found.json").read_text())
    kinds = {each["kind"] for each in found["findings"]} - {"disk"}  # that of this machine may be nearly full
    assert found["possible"] and kinds == {"clipped"}
    assert set(found["findings"][0]) == {"kind", "severity", "what", "where", "why", "fix"}


def test_a_corpus_that_cannot_be_trained_on_gives_status_1(speechctc: Command, tmp_path: Path) -> None:
    tones = clean(tmp_path)
    for path in tmp_path.glob("*.wav"):
        path.unlink()
    status, out, _ = speechctc("doctor", "--config", tones.write(), "--json", "-")
    found = json.loads(out)
    assert status == 1 and not found["possible"] and found["findings"][0]["severity"] == "stops"
    assert "none of 12 rows can be used" in found["findings"][0]["what"]


def test_the_machine_alone_is_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"torch", "processor", "CTC loss on the CPU"} <= set(check_machine().facts)
    monkeypatch.setattr("speechctc.corpora.findings.MIN_FREE_BYTES", 2**70)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    found = check_machine("cuda", (Path("no/such/folder"),))
    assert {"disk", "no-gpu"} <= {each.kind for each in found.findings} and not found.is_possible


GPU_CARD = {"sys/bus/pci/devices/0/class": "0x030200\n", "sys/bus/pci/devices/0/vendor": "0x10de\n"}
WSL = {"proc/version": "Linux version 5.15 (Microsoft@Microsoft.com)"}


@pytest.mark.parametrize(
    ("cuda", "visible", "files", "fix"),
    [
        (None, None, GPU_CARD, "install a torch for CUDA"),
        (None, "", {}, "everything runs on the CPU"),
        ("13.0", "7", GPU_CARD, "unset that"),
        ("13.0", None, {}, "everything runs on the CPU"),
        ("13.0", None, GPU_CARD, "install NVIDIA's driver for CUDA 13.0"),
        ("13.0", None, {"dev/nvidia0": "", ".dockerenv": ""}, "docker --gpus all"),
        ("13.0", None, WSL, "driver in Windows"),
    ],
)
def test_what_to_do_without_a_gpu_depends_on_the_machine(
    cuda: str | None,
    visible: str | None,
    files: dict[str, str],
    fix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def init() -> None:
        raise RuntimeError("Found no driver.\nPlease check. It is late.")

    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("torch.version.cuda", cuda)
    monkeypatch.setattr("torch.cuda.init", init)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = why_no_gpu(tmp_path)
    assert found[0].startswith("Found no driver") and fix in found[1] and "\n" not in found[0]
    assert ("=7" in found[0]) == (visible == "7")


def test_a_loss_that_does_not_start_or_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def wrong(*args: object, backend: str, **more: object) -> torch.Tensor:
        if backend == "cpu":
            return torch.tensor(1.0)
        return torch.tensor(2.0)

    monkeypatch.setattr("speechctc.ctc.ctc_loss", wrong)
    assert any("should be 2.0" in each.what for each in check_machine().findings if each.kind == "loss")
    assert not Diagnosis(check_machine().findings, {}).is_possible


def test_train_says_in_short_what_is_found(tmp_path: Path) -> None:
    from speechctc.stages.extract import extract
    from speechctc.stages.train import train

    tones, recorder = clean(tmp_path), Recorder()
    FAULTS["a rare phone"][0](tones)
    config = load_config(tones.write())
    extract(config, Recorder())
    train(config, False, recorder)
    warning = "warning: phones that occur fewer than 5 times in train: 1 (once (1)); correct them"
    assert any(line.startswith(warning) for line in recorder.said)
    assert any("speechctc doctor" in line for line in recorder.said)
