"""Training from shards to checkpoints, on a corpus of tones."""

import itertools
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file

from speechctc.config.load import load_config
from speechctc.core.errors import InputError
from speechctc.inference.recogniser import Recogniser
from speechctc.stages.evaluate import evaluate
from speechctc.stages.open_model import open_model
from speechctc.stages.train import Stopped, train
from speechctc.training.batches import Batch
from speechctc.training.runs import Run
from speechctc.training.train_step import TrainStep
from tests.forked import Forked
from tests.train_helpers import Recorder, run_once, same, score_once, stopping, trainer_of
from tests.waiting import wait_for


def test_it_learns_and_leaves_a_whole_run(extracted: Path, here: Path) -> None:
    dev = train(load_config(extracted, ["run=r"]), False, Recorder()).dev
    assert dev is not None and dev.counts.per < 10
    assert (here / "runs" / "latest").resolve() == here / "r"
    assert {path.name for path in (here / "r").iterdir()} == {
        *("best", "last", "config.yaml", "run.json", "utterances.json", "metrics.jsonl", "lock")
    }
    lines = [json.loads(line) for line in (here / "r" / "metrics.jsonl").read_text().splitlines()]
    assert [line["epoch"] for line in lines] == list(range(1, 13))
    assert lines[-1]["loss"] < lines[0]["loss"]
    about = json.loads((here / "r" / "best" / "checkpoint.json").read_text())
    assert about["dev_per"] == min(line["dev_per"] for line in lines)
    assert about["phones"]["list"] == ["high", "low", "mid", "top"]


def test_labels_that_changed_after_extraction_are_named(extracted: Path, here: Path) -> None:
    config, reporters = load_config(extracted, ["run=r", "train.epochs=1"]), [Recorder(), Recorder()]
    table = shutil.copy(config.corpus.tables.of("dev")[0], here / "dev.tsv")
    tables = config.corpus.tables.model_copy(update={"dev": Path(table)})
    config = config.model_copy(update={"corpus": config.corpus.model_copy(update={"tables": tables})})
    for reporter, later in zip(reporters, (-10, 10), strict=True):
        made = (config.data.dir / "phones.tsv").stat().st_mtime
        os.utime(table, (made + later, made + later))
        train(config, later > 0, reporter)
    before, after = (sum("newer than the features: " in each for each in r.said) for r in reporters)
    assert (before, after) == (0, 1)


@pytest.mark.parametrize("search", ["greedy", "beam", "auto"])
def test_dev_is_scored_by_the_search_that_decode_and_evaluate_use(search: str, extracted: Path, here: Path) -> None:
    """An n-gram of much weight, which greedy decoding must not use; beam uses it, and without it searches alone."""
    counts = []
    settings = ["train.epochs=2", "decode.lm_order=3", "decode.lm_weight=2", "decode.lm_bonus=4"]
    for name, more in (("n-gram", []), ("alone", ["decode.lm_weight=0"])):
        dev = score_once(extracted, here / name, *settings, *more, f"decode.search={search}")
        assert dev.counts == evaluate(open_model(here / name / "last", Recogniser), "dev", [], Recorder()).counts, name
        counts.append(dev.counts)
    assert (counts[0] == counts[1]) == (search == "greedy")


def test_the_same_seed_gives_the_same_weights_and_another_does_not(extracted: Path, here: Path) -> None:
    settings = ("train.epochs=2", "model.dropout=0.2")
    first = run_once(extracted, here / "a", *settings)
    assert same(first, run_once(extracted, here / "b", *settings))
    assert not same(first, run_once(extracted, here / "c", *settings, "train.seed=2"))


@pytest.mark.parametrize("accumulate", [1, 2])
def test_stopped_at_any_step_it_goes_on_to_the_bit(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch, accumulate: int
) -> None:
    settings = ("train.epochs=3", "model.dropout=0.2", "data.chunk_mib=1", f"train.accumulate={accumulate}")
    whole = run_once(extracted, here / "whole", *settings)
    monkeypatch.setattr(TrainStep, "step", stopping(TrainStep.step, {3, 6, 11}))
    for _ in range(3):
        with pytest.raises(Stopped):
            run_once(extracted, here / "parts", *settings, resume=True)
    assert same(whole, run_once(extracted, here / "parts", *settings, resume=True))
    lines = (here / "parts" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_a_signal_saves_and_leaves_with_its_own_status(extracted: Path, here: Path) -> None:
    process = Forked(
        "speechctc", "train", "--config", extracted, "--run", "r", "train.epochs=5000", cwd=here, log=here / "said"
    )
    wait_for((here / "r" / "metrics.jsonl").exists)
    process.send_signal(signal.SIGTERM)  # SIGINT comes below
    assert process.wait(600) == 128 + signal.SIGTERM
    said = (here / "said").read_text()
    assert "go on with --resume and the same settings: train.epochs=5000\n" in said and "Traceback" not in said
    epochs = len((here / "r" / "metrics.jsonl").read_text().splitlines())
    run_once(extracted, here / "r", f"train.epochs={epochs + 1}", resume=True)


def resumed(config: Path, run: Path, *settings: str) -> list[str]:
    recorder = Recorder()
    train(load_config(config, [f"run={run}", *settings]), True, recorder)
    return recorder.said


def test_a_resumed_run_tells_in_a_line_which_settings_it_does_not_go_on_with(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "r", "train.epochs=1", "train.patience=7")
    told = f"{here}/r: not as in the session before: "
    said = resumed(extracted, here / "r", "train.epochs=2", "train.patience=8", "train.curves=false")
    assert f"{told}train.epochs 1 -> 2, train.patience 7 -> 8" in said
    said = resumed(extracted, here / "r", "train.epochs=2", "train.patience=8")
    assert not any("session before" in line for line in said)


def test_a_loss_that_is_no_number_stops_with_the_batch_named(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = run_once(extracted, here / "r", "train.epochs=2")
    forward = TrainStep.forward_varied
    calls = iter(range(100))

    def poisoned(self: TrainStep, batch: Batch) -> Any:
        (logits,), frames = forward(self, batch)
        return [logits * float("nan") if next(calls) >= 3 else logits], frames

    monkeypatch.setattr(TrainStep, "forward_varied", poisoned)
    what = r"became nan at epoch 3, step \d+, in the batch of u0-.*run=DIR.*lower train\.lr; train\.init_from=RUN/last"
    with pytest.raises(InputError, match=what):
        run_once(extracted, here / "r", "train.epochs=4", resume=True)
    assert same(good, load_file(here / "r" / "last" / "weights.safetensors"))
    monkeypatch.setattr(TrainStep, "forward_varied", forward)
    advised = [f"train.init_from={here / 'r' / 'last'}", "train.lr=1e-9", "train.epochs=1"]
    again = run_once(extracted, here / "again", *advised)
    for name, value in good.items():
        torch.testing.assert_close(again[name], value, rtol=1e-3, atol=1e-6)


def test_the_second_stage_starts_from_the_best_weights(extracted: Path, here: Path) -> None:
    recorder = Recorder()
    settings = ["run=r", "train.epochs=2", "train.finetune.epochs=1", "train.finetune.lr=1e-12"]
    train(load_config(extracted, settings), False, recorder)
    assert any(line.startswith("finetune: sgd") for line in recorder.said)
    best, last = (load_file(here / "r" / name / "weights.safetensors") for name in ("best", "last"))
    for name in best:
        torch.testing.assert_close(best[name], last[name], rtol=1e-6, atol=1e-7)


def test_the_time_given_ends_a_run_in_the_middle_of_an_epoch(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = itertools.count(0.0, 0.01)  # between two looks at the trainer's clock
    clock = SimpleNamespace(monotonic=lambda: next(seconds), perf_counter=time.perf_counter)
    monkeypatch.setattr("speechctc.training.trainer.time", clock)
    recorder = Recorder()
    settings = ("train.epochs=100000", "train.minutes=0.03", "train.schedule=cosine")
    score_once(extracted, here / "r", *settings, recorder=recorder)
    lines = [json.loads(line) for line in (here / "r" / "metrics.jsonl").read_text().splitlines()]
    assert 1.8 <= 60 * lines[-1]["minutes"] < 1.85
    assert lines[-1]["lr"] < 0.2 * max(line["lr"] for line in lines)  # the schedule ends with the time
    assert f"train.minutes=0.03 ended it after {lines[-1]['epoch'] - 1} whole epochs" in recorder.said[-1]
    score_once(extracted, here / "r", "train.epochs=100000", "train.minutes=0.04")
    after = [json.loads(line) for line in (here / "r" / "metrics.jsonl").read_text().splitlines()]
    assert after[-1]["step"] > lines[-1]["step"]


def test_a_run_that_no_longer_gets_better_ends_early(extracted: Path, here: Path) -> None:
    recorder = Recorder()
    settings = ("train.epochs=50", "train.lr=1e-12", "train.patience=3", "train.finetune.epochs=1")
    score_once(extracted, here / "r", *settings, recorder=recorder)
    lines = (here / "r" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3, 4, 5]  # then the second stage
    assert any("has not fallen for 3 epochs" in line for line in recorder.said)


def epochs_of(run: Path) -> list[int]:
    return [json.loads(line)["epoch"] for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_no_epoch_is_skipped_after_one_that_patience_made_the_last(extracted: Path, here: Path) -> None:
    run, settings = here / "r", ("train.lr=1e-12", "train.patience=3")
    score_once(extracted, run, "train.epochs=50", *settings)
    assert epochs_of(run) == [1, 2, 3, 4]
    said = resumed(extracted, run, "train.epochs=50", *settings)
    assert epochs_of(run) == [1, 2, 3, 4] and any("all of it is done already" in line for line in said)
    said = resumed(extracted, run, "train.epochs=52", *settings)  # more are asked for: patience begins anew
    assert epochs_of(run) == [1, 2, 3, 4, 5, 6, 7]
    assert any(
        "the main stage goes on after 4 epochs, after which train.patience=3 had ended it" in line for line in said
    )
    resumed(extracted, run, "train.epochs=52", "train.lr=1e-12", "train.patience=5")
    assert epochs_of(run) == [*range(1, 10)]
    resumed(extracted, run, "train.epochs=52", "train.lr=1e-12", "train.patience=5", "train.finetune.epochs=2")
    assert epochs_of(run) == [*range(1, 12)]


@pytest.mark.parametrize("gone", ["last", "last/checkpoint.json", "last best"])
def test_a_run_that_lost_its_last_state_does_not_begin_again(extracted: Path, here: Path, gone: str) -> None:
    run_once(extracted, here / "r", "train.epochs=2")
    for name in gone.split():
        shutil.rmtree(here / "r" / name) if (here / "r" / name).is_dir() else (here / "r" / name).unlink()
    before = {path: path.read_bytes() for path in sorted((here / "r").rglob("*")) if path.is_file()}
    with pytest.raises(InputError, match="last/, from which training goes on, is not there; (best/ is|there is only)"):
        run_once(extracted, here / "r", "train.epochs=3", resume=True)
    assert {path: path.read_bytes() for path in sorted((here / "r").rglob("*")) if path.is_file()} == before


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_run_that_lost_its_best_epoch_does_not_go_on(extracted: Path, here: Path, is_gone: bool) -> None:
    """No later epoch may be better: the end would name a model that is not there."""
    run_once(extracted, here / "r", "train.epochs=2")
    if is_gone:
        shutil.rmtree(here / "r" / "best")
    else:
        os.truncate(here / "r" / "best" / "weights.safetensors", 900)
    log = (here / "r" / "metrics.jsonl").read_text()
    with pytest.raises(InputError, match="best: .*; it had the best epoch so far; .* train.init_from=.*last"):
        run_once(extracted, here / "r", "train.epochs=3", resume=True)
    assert (here / "r" / "metrics.jsonl").read_text() == log
    run_once(extracted, here / "again", "train.epochs=1", f"train.init_from={here / 'r' / 'last'}")


def test_a_run_of_which_last_was_copied_while_it_was_replaced_does_not_go_on(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "r", "train.epochs=1")
    weights = (here / "r" / "last" / "weights.safetensors").read_bytes()
    run_once(extracted, here / "r", "train.epochs=2", resume=True)
    (here / "r" / "last" / "weights.safetensors").write_bytes(weights)
    with pytest.raises(InputError, match="weights.safetensors is of another save than checkpoint.json"):
        run_once(extracted, here / "r", "train.epochs=3", resume=True)


def test_a_run_that_ends_between_its_first_best_and_its_log_goes_on(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run_once(extracted, here / "whole", "train.epochs=2")

    def cut_off(self: Run, line: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Run, "log", cut_off)
        with pytest.raises(KeyboardInterrupt):
            run_once(extracted, here / "r", "train.epochs=2")
    assert same(run_once(extracted, here / "r", "train.epochs=2", resume=True), whole)


def test_two_trainings_in_one_process_do_not_change_each_other(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All threads draw from the same generators: the second is refused, and the first is as if alone."""
    alone = run_once(extracted, here / "alone", "train.epochs=1")
    said: list[str] = []
    original = TrainStep.step

    def stepped(self: TrainStep, *arguments: Any) -> Any:
        if not said:
            said.append("")
            other = Thread(target=lambda: said.append(str(attempt_to_train(extracted, here / "b"))))
            other.start()
            other.join()
        return original(self, *arguments)

    monkeypatch.setattr(TrainStep, "step", stepped)
    assert same(run_once(extracted, here / "a", "train.epochs=1"), alone)
    assert said[1].startswith("another training is under way in this process") and not (here / "b").exists()
    run_once(extracted, here / "b", "train.epochs=1")  # one after the other


def attempt_to_train(config: Path, run: Path) -> InputError | None:
    try:
        run_once(config, run, "train.epochs=1")
    except InputError as error:
        return error
    return None


def test_averaged_weights_are_scored_and_kept_as_best(extracted: Path, here: Path) -> None:
    last = run_once(extracted, here / "r", "train.epochs=1", "train.ema=0.9")
    best = load_file(here / "r" / "best" / "weights.safetensors")
    state = load_file(here / "r" / "last" / "state.safetensors")
    name = "net.output.weight"
    assert not torch.equal(best[name], last[name])
    assert torch.equal(best[name], state[f"average.{name[4:]}"])


def test_chunks_of_another_size_do_not_lose_an_utterance(extracted: Path, here: Path) -> None:
    trainer = trainer_of(extracted, here / "r", "train.epochs=1")
    trainer.train_step.net.train()
    trainer.progress.batch = 2
    done = set(trainer.plan().done(2).tolist())
    trainer._save_last()
    again = trainer_of(extracted, here / "r", "train.epochs=1", "data.chunk_mib=2")
    assert again.progress.batch == 0
    rest = again.plan().done(again.plan().steps).tolist()
    assert not done & set(rest) and len(done) + len(rest) == len(trainer.data.train.members)
    same_limits = trainer_of(extracted, here / "r", "train.epochs=1")
    assert same_limits.progress.batch == 2


def test_a_run_from_before_a_key_goes_on_where_the_key_has_its_default(extracted: Path, here: Path) -> None:
    """The key is missing from the run's config and from the tables' headers."""
    run_once(extracted, here / "r", "train.epochs=1")
    stored = yaml.safe_load((here / "r" / "config.yaml").read_text())
    del stored["train"]["consistency"], stored["features"]["preemphasis"], stored["train"]["finetune"]
    (here / "r" / "config.yaml").write_text(yaml.safe_dump(stored))
    run_once(extracted, here / "r", "train.epochs=2", resume=True)
    stored["train"]["never_was"] = 0.3  # a key that there is not
    (here / "r" / "config.yaml").write_text(yaml.safe_dump(stored))
    with pytest.raises(InputError, match=r"train\.never_was=0\.3"):
        run_once(extracted, here / "r", "train.epochs=3", resume=True)
    del stored["train"]["never_was"]
    (here / "r" / "config.yaml").write_text(yaml.safe_dump(stored))
    with pytest.raises(InputError, match=r"train\.consistency=0\.0 \(now 0\.5\)"):
        run_once(extracted, here / "r", "train.epochs=3", "train.consistency=0.5", resume=True)


def test_a_run_tells_what_it_was_made_from(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "r", "train.epochs=1")
    run_once(extracted, here / "r", "train.epochs=2", resume=True)
    record = json.loads((here / "r" / "run.json").read_text())
    assert record["config"]["train"]["epochs"] == 2 and record["seed"] == 1
    assert {"torch", "numpy", "speechctc", "python"} <= set(record["versions"])
    assert record["hardware"]["cores"] and record["command"] and "git" in record
    assert record["data"]["train"]["utterances"] == 48 and len(record["data"]["train"]["sha256"]) == 64
    assert len(record["resumed"]) == 1 and "config" not in record["resumed"][0]


def test_other_features_are_refused_on_resume(extracted: Path, here: Path) -> None:
    run_once(extracted, here / "r", "train.epochs=1")
    record = json.loads((here / "r" / "run.json").read_text())
    record["data"]["dev"]["sha256"] = "another"
    (here / "r" / "run.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="not the corpus that this run was begun with"):
        run_once(extracted, here / "r", "train.epochs=2", resume=True)


def test_stopped_while_scoring_it_scores_first_when_it_goes_on(
    extracted: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, forward = run_once(extracted, here / "whole", "train.epochs=2"), TrainStep.forward

    def stopped(self: TrainStep, batch: Batch) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return forward(self, batch)

    with monkeypatch.context() as patch:
        patch.setattr(TrainStep, "forward", stopped)
        with pytest.raises(Stopped):
            run_once(extracted, here / "parts", "train.epochs=2")
    assert not (here / "parts" / "metrics.jsonl").exists()
    assert same(whole, run_once(extracted, here / "parts", "train.epochs=2", resume=True))
    logs = [(here / name / "metrics.jsonl").read_text().splitlines() for name in ("whole", "parts")]
    assert [[json.loads(line)["lr"] for line in log] for log in logs][0] == [json.loads(line)["lr"] for line in logs[1]]


def test_weights_that_are_no_numbers_are_never_saved(extracted: Path, here: Path) -> None:
    trainer = trainer_of(extracted, here / "r")
    with torch.no_grad():
        trainer.train_step.net.get_parameter("output.weight")[0, 0] = float("nan")
    with pytest.raises(InputError, match=r"no number by step 0.*train\.lr"):
        trainer._save_last()
    assert not (here / "r" / "last").exists()


def test_float16_scales_its_gradients_and_goes_on_with_the_scale(extracted: Path, here: Path) -> None:
    settings = ("train.precision=float16", "model.convs=[4]", "model.dense=[8]")
    run_once(extracted, here / "whole", "train.epochs=2", *settings)
    run_once(extracted, here / "parts", "train.epochs=2", "train.minutes=1e-9", *settings)
    state = load_file(here / "parts" / "last" / "state.safetensors")
    assert trainer_of(extracted, here / "parts", *settings).train_step.scaler.get_scale() == state["scaler.scale"] > 1
    losses = [json.loads(line)["loss"] for line in (here / "whole" / "metrics.jsonl").read_text().splitlines()]
    assert losses[1] < losses[0]


def test_two_processes_do_not_share_a_folder(extracted: Path, here: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    (here / "r").mkdir()
    with open(here / "r" / "lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(InputError, match="another process"):
            run_once(extracted, here / "r", "train.epochs=1")


def test_cuda_asked_for_where_there_is_none_is_said(extracted: Path, here: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(InputError, match=r"train\.device=cpu"):
        run_once(extracted, here / "r", "train.device=cuda")
