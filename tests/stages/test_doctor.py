"""The doctor finds each fault that was planted, and nothing in a clean corpus."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from speechctc.config.load import load_config
from speechctc.corpora.registry import read_corpus
from speechctc.stages.doctor.examine import Place, SoundAnalysis, analyse_sounds, check_corpus, check_sounds
from speechctc.stages.doctor.findings import Diagnosis, Finding
from speechctc.stages.doctor.machine import check_machine, why_no_gpu
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
    assert found["possible"] and [each["kind"] for each in found["findings"]] == ["clipped"]
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
    assert {"torch", "processor", "CTC loss"} <= set(check_machine().facts)
    monkeypatch.setattr("speechctc.stages.doctor.findings.MIN_FREE_BYTES", 2**70)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    found = check_machine("cuda", (Path("no/such/folder"),))
    assert {"disk", "no-gpu"} <= {each.kind for each in found.findings} and not found.is_possible


class Driver:
    """Stands in for the library of NVIDIA's driver."""

    def __init__(self, version: int = 13000, gpus: int = 0, status: int = 0) -> None:
        self.version, self.gpus, self.status = version, gpus, status

    def cuDriverGetVersion(self, place: Any) -> int:  # noqa: N802
        place._obj.value = self.version
        return 0

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return self.status

    def cuDeviceGetCount(self, place: Any) -> int:  # noqa: N802
        place._obj.value = self.gpus
        return self.status


GPU_CARD = {"sys/bus/pci/devices/0/class": "0x030200\n", "sys/bus/pci/devices/0/vendor": "0x10de\n"}
WSL = {"proc/version": "Linux version 5.15 (Microsoft@Microsoft.com)"}


@pytest.mark.parametrize(
    ("cuda", "visible", "driver", "files", "why", "fix"),
    [
        (None, None, Driver(gpus=1), {}, "is built for CPUs alone", "one for CUDA"),
        (None, None, None, GPU_CARD, "is built for CPUs alone", "one for CUDA"),
        (None, None, None, {}, "there is no NVIDIA GPU", "on the CPU"),
        ("13.0", "", Driver(gpus=1), {}, "CUDA_VISIBLE_DEVICES= hides all", "unset it"),
        ("13.0", "-1", Driver(), {}, "CUDA_VISIBLE_DEVICES=-1 hides all", "unset it"),
        ("13.0", "7", Driver(), {}, "CUDA_VISIBLE_DEVICES=7 names no GPU", "nvidia-smi -L"),
        ("13.0", None, None, {}, "there is no NVIDIA GPU", "on the CPU"),
        ("13.0", None, None, GPU_CARD, "the NVIDIA GPU has no driver", "install NVIDIA's driver"),
        ("13.0", None, None, {"dev/nvidia0": "", ".dockerenv": ""}, "this container sees no GPU", "--gpus all"),
        ("13.0", None, None, {"run/.containerenv": "", **GPU_CARD}, "this container sees no GPU", "podman"),
        ("13.0", None, None, WSL, "WSL shows Linux no GPU", "driver in Windows"),
        ("13.0", None, Driver(12040, 1), {}, "it is of CUDA 12.4, this torch of 13.0", "a torch of CUDA 12.4"),
        ("12.8", None, Driver(12040, status=100), {}, "the driver finds no GPU", "nvidia-smi"),
        ("13.0", None, Driver(status=100), {".dockerenv": ""}, "the driver finds no GPU", "--gpus all"),
        ("13.0", None, Driver(status=803), {}, "does not start (error 803", "restart the machine"),
    ],
)
@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has no CUDA")
def test_why_no_gpu_is_found(
    cuda: str | None,
    visible: str | None,
    driver: Driver | None,
    files: dict[str, str],
    why: str,
    fix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr("torch.version.cuda", cuda)
    monkeypatch.setattr("speechctc.stages.doctor.machine.nvidia_driver", lambda: driver)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = why_no_gpu(tmp_path)
    assert why in found[0] and fix in found[1] and "\n" not in "".join(found)


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
    from speechctc.stages.train_runs import train

    tones, recorder = clean(tmp_path), Recorder()
    FAULTS["a rare phone"][0](tones)
    config = load_config(tones.write())
    extract(config, Recorder())
    train(config, False, recorder)
    warning = "warning: phones that occur fewer than 5 times in train: 1 (once (1)); correct them"
    assert any(line.startswith(warning) for line in recorder.said)
    assert any("speechctc doctor" in line for line in recorder.said)


def test_the_advice_for_low_rates_fits_a_config_that_starts_from_a_model() -> None:
    heard = {Place(Path("a.wav")): SoundAnalysis(8000, 1, 800, level_db=-20.0)}
    own, of_model = (
        next(each.fix for each in check_sounds(heard, 16000, given) if each.kind == "low-rate")
        for given in (False, True)
    )
    assert own == "set features.sample_rate=8000" and of_model.startswith("keep 16000")
