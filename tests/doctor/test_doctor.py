"""The doctor finds each fault that was planted, and nothing in a clean corpus."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from speechctc.cli import app
from speechctc.config.load import load_config
from speechctc.corpora.registry import read_corpus
from speechctc.doctor.finding import Diagnosis, Finding
from speechctc.doctor.machine import advise_threads, check_machine, measure_threads
from speechctc.doctor.sound_checks import Heard, Place, check_sounds
from speechctc.stages.doctor import check_corpus, listen
from tests.doctor.spoilt import FAULTS, Tones, clean
from tests.train_helpers import Recorder


def findings(tones: Tones) -> list[Finding]:
    config = load_config(tones.write())
    corpus = read_corpus(config.corpus)
    return check_corpus(config, corpus, listen(corpus, Recorder()))


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


def test_all_faults_of_a_corpus_are_found_at_once(tmp_path: Path) -> None:
    tones = clean(tmp_path)
    chosen = {name: fault for name, fault in FAULTS.items() if fault[1] not in ("one-label", "speech-rate", "strings")}
    for plant, _, _ in chosen.values():
        plant(tones)
    found = findings(tones)
    for name, (_, kind, place) in chosen.items():
        places = [where for each in found if each.kind == kind for where in each.where]
        assert any(place.partition(" (")[0] in where for where in places), name


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["speechctc", "doctor", *arguments])
    with pytest.raises(SystemExit) as left:
        app.main()
    return int(left.value.code or 0)


def test_the_command_prints_findings_and_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tones = clean(tmp_path)
    FAULTS["a clipped recording"][0](tones)
    config = str(tones.write())
    assert call(monkeypatch, "--config", config, "--json", str(tmp_path / "found.json")) == 0
    said = capsys.readouterr().out
    assert "recordings that are clipped, with peaks cut flat: 1\n  where: " in said and "an epoch" in said
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["possible"] and [each["kind"] for each in found["findings"] if each["kind"] != "threads"] == [
        "clipped"
    ]
    assert set(found["findings"][0]) == {"kind", "severity", "what", "where", "why", "fix"}


def test_a_corpus_that_cannot_be_trained_on_gives_status_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tones = clean(tmp_path)
    for path in tmp_path.glob("*.wav"):
        path.unlink()
    assert call(monkeypatch, "--config", str(tones.write()), "--json", "-") == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["possible"] and found["findings"][0]["severity"] == "stops"
    assert "none of 12 rows can be used" in found["findings"][0]["what"]


def test_the_machine_alone_is_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"torch", "processor", "CTC loss"} <= set(check_machine().facts)
    monkeypatch.setattr("speechctc.doctor.disk.LEAST_DISK", 2**70)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    found = check_machine("cuda", (Path("no/such/folder"),))
    assert {"disk", "no-gpu"} <= {each.kind for each in found.findings} and not found.is_possible


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
    from speechctc.stages.train import train_net

    tones, recorder = clean(tmp_path), Recorder()
    FAULTS["a rare phone"][0](tones)
    config = load_config(tones.write())
    extract(config, Recorder())
    train_net(config, False, recorder)
    assert "warning: phones that occur fewer than 5 times in train: 1 (once (1))" in recorder.said
    assert any("speechctc doctor" in line for line in recorder.said)


@pytest.mark.parametrize(
    ("threads", "seconds", "advice"),
    [
        (2, {1: 0.010, 2: 0.006}, None),
        (2, {1: 0.010, 2: 0.012}, None),  # not clearly longer
        (2, {1: 0.010, 2: 0.040}, "set OMP_NUM_THREADS=1, or end the other programs"),
        (1, {1: 0.010, 2: 0.006}, "set OMP_NUM_THREADS=2"),
        (1, {1: 0.010, 2: 0.040}, None),  # two cores, and one thread is right: another program has the other core
        (8, {1: 0.010, 2: 0.006, 8: 0.030}, "set OMP_NUM_THREADS=2"),
    ],
)
def test_threads_are_advised_by_what_was_measured(threads: int, seconds: dict[int, float], advice: str | None) -> None:
    found = advise_threads(threads, 2, seconds)
    assert [each.fix for each in found] == ([] if advice is None else [advice])
    assert all(f"{count}: {1000 * each:.0f} ms" in found[0].what for count, each in seconds.items() if found)


def test_measuring_threads_leaves_their_number_as_it_was() -> None:
    import torch

    before = torch.get_num_threads()
    measured = measure_threads({1, 2})
    assert measured.keys() == {1, 2} and min(measured.values()) > 0
    assert torch.get_num_threads() == before


def test_the_advice_for_low_rates_fits_a_config_that_starts_from_a_model() -> None:
    heard = {Place(Path("a.wav")): Heard(8000, 1, 800, level_db=-20.0)}
    own, of_model = (
        next(each.fix for each in check_sounds(heard, 16000, given) if each.kind == "low-rate")
        for given in (False, True)
    )
    assert own == "set features.sample_rate=8000" and of_model.startswith("keep 16000")
