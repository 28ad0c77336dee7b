"""Extraction and decoding on a Dask cluster of three workers, each a process."""

import json
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

import speechctc
from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.audio.recordings import Recording
from speechctc.config.load import load_config
from speechctc.core import cluster, dispatch
from speechctc.core.cluster import on_cluster
from speechctc.core.dispatch import ClusterRun, LostItem
from speechctc.core.errors import InputError
from speechctc.core.progress import Advance
from speechctc.corpora.corpus import Utterance
from speechctc.inference.output import OutputOptions, Work
from speechctc.stages import extract as extract_stage
from speechctc.stages.decode import decode
from speechctc.stages.decode_sources import on_workers
from speechctc.stages.extract import Job, Made, extract, extracted
from tests.command import run_command
from tests.forked import Forked
from tests.tones import PHONES, write_config
from tests.train_helpers import Recorder
from tests.waiting import wait_for

distributed = pytest.importorskip("distributed")
SCHEDULER, WORKER = "distributed.cli.dask_scheduler", "distributed.cli.dask_worker"


Process = Forked | subprocess.Popen[bytes]
Start = Callable[..., AbstractContextManager[Process]]


def square(number: int) -> int:
    if number == 13:
        raise ValueError("unlucky")
    return number * number


def nothing_installed() -> dict[str, str]:
    return {}


@contextmanager
def process(folder: Path, module: str, *arguments: str) -> Iterator[Forked]:
    """Run a part of a cluster in a folder."""
    started = Forked(module, *arguments, cwd=folder, log=folder / "said")
    try:
        yield started
    finally:
        started.kill()
        started.wait()


@contextmanager
def lacking(folder: Path, module: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a part of a cluster in a process that has loaded nothing; the folder is where it looks for modules first."""
    with subprocess.Popen([sys.executable, "-m", module, *arguments], cwd=folder, stderr=subprocess.DEVNULL) as started:
        try:
            yield started
        finally:
            started.kill()


def answers(port: int) -> bool:
    """Return whether somebody listens at a port of this machine."""
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False


@contextmanager
def scheduler(folder: Path) -> Iterator[str]:
    """Start a scheduler; yield its address when it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with process(folder, SCHEDULER, "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"):
        wait_for(lambda: answers(port))
        yield f"tcp://127.0.0.1:{port}"


@contextmanager
def workers(address: str, folder: Path, *kinds: Start) -> Iterator[list[Process]]:
    from distributed import Client

    options = (address, "--no-nanny", "--no-dashboard", "--nthreads", "1")
    with ExitStack() as stack:
        started = [stack.enter_context(kind(folder, WORKER, *options)) for kind in kinds]
        with Client(address, set_as_default=False) as client:
            client.wait_for_workers(len(kinds), timeout=600)
        yield started


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a scheduler."""
    with scheduler(tmp_path_factory.mktemp("scheduler")) as address:
        yield address


@pytest.fixture(scope="module")
def three(address: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[Process]]]:
    """Return the address of a cluster of three workers, and the two that tests may kill."""
    with workers(address, tmp_path_factory.mktemp("elsewhere"), process, process, process) as started:
        yield address, started[:2]


def test_a_cluster_without_workers_and_a_worker_that_lacks_a_package(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of these tests: the others give the scheduler workers that stay."""
    monkeypatch.setattr(cluster, "versions", nothing_installed)
    run, said = Recorder(), Recorder()
    with (
        pytest.raises(InputError, match="no worker for . s; run: dask worker"),
        on_cluster(address, square, [1], run=ClusterRun(wait=0.1, warn=run.warn)) as results,
    ):
        next(results)
    monkeypatch.setattr(dispatch, "SILENCE_SECONDS", 0.5)
    (tmp_path / "tests.py").write_text("")  # the worker cannot import this module
    with workers(address, tmp_path, lacking), pytest.raises(InputError, match="none of its workers .*tests"):
        with on_cluster(address, square, [1], run=ClusterRun(warn=said.warn)) as results:
            next(results)
    assert "cannot take work" in said.said[0] and said.said[0].endswith("it gets no work")


class KillsOne(Recorder):
    """Kills a worker after so many results."""

    def __init__(self, after: int, kill: Callable[[], None]) -> None:
        super().__init__()
        self.after, self.kill = after, kill

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Advance]:
        done = 0

        def advance(count: int = 1) -> None:
            nonlocal done
            done += count
            if done == self.after:
                self.kill()

        yield advance


def features(folder: Path) -> dict[str, bytes]:
    """Return the files of features; the digests of recordings are kept only once these are some seconds old."""
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != "recordings.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_a_cluster_makes_the_same_features_though_a_worker_is_killed(
    three: tuple[str, list[Process]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, (victim, _) = three
    monkeypatch.chdir(tmp_path)
    write_config(Path("corpus"), 24, 6)  # relative paths: the workers start in another folder
    shutil.copyfile("corpus/audio/0-001.wav", "corpus/audio/0-000.wav")
    Path("corpus/audio/0-002.wav").write_bytes(Path("corpus/audio/0-001.wav").read_bytes()[:500])  # too short
    config = load_config(Path("corpus/tones.yaml"))
    here = extract(config, Recorder())
    there = load_config(Path("corpus/tones.yaml"), ["data.dir=there", f"data.cluster={address}"])
    monkeypatch.setattr(extract_stage, "MAX_AHEAD", 200)  # so that much is left when the worker ends
    assert extract(there, KillsOne(5, victim.kill)) == here
    assert victim.wait(600) != 0
    assert features(Path("there")) == features(config.data.dir)
    assert len(here[0].skipped) == 1 and "corpus/audio/0-002.wav: " in here[0].skipped[0][1]


def test_a_cluster_finds_the_same_phones_though_a_worker_is_killed(
    three: tuple[str, list[Process]], tiny_model: Path, here: Path
) -> None:
    address, (_, victim) = three
    write_config(Path("corpus"), 24, 2)
    Path("corpus/audio/0-003.wav").write_bytes(b"RIFF")
    recogniser = speechctc.load(tiny_model, device="cpu")
    options = OutputOptions("json", None, Path("there"))
    reporter = KillsOne(5, victim.kill)
    assert decode(recogniser, [Path("corpus")], options, reporter, Work(cluster=address)) == 1
    assert victim.wait(600) != 0
    assert decode(recogniser, [Path("corpus")], replace(options, folder=Path("alone")), Recorder()) == 1
    assert len(features(Path("there"))) > 20 and features(Path("there")) == features(Path("alone"))
    lost = Path("corpus/audio/0-003.wav")
    lost.unlink()
    with on_workers(recogniser, [Recording(lost, lost)], Work(cluster=address), Recorder()) as results:
        (missing,) = results
    assert isinstance(missing, InputError) and "0-003.wav: not on the worker" in str(missing)


@pytest.mark.parametrize("command", ["align", "score-phones"])
def test_a_cluster_places_phones_and_words_as_this_machine_does(
    three: tuple[str, list[Process]], tiny_model: Path, here: Path, command: str
) -> None:
    """One of the recordings is none, one has a phone too many, one has other phones: errors, their order and notes."""
    write_config(Path("corpus"), 8, 2)
    table = Path("corpus/table0.jsonl")
    rows = [json.loads(line) for line in table.read_text(encoding="utf-8").splitlines()]
    Path("corpus/audio/0-003.wav").write_bytes(b"RIFF")
    rows[5]["phones"].append("zzz")
    rows[4]["phones"] = ["top", "low"] * 12
    words = [f"{row['id']}\t{row['audio']}\t{' '.join(f'w-{phone}' for phone in row['phones'])}\n" for row in rows]
    Path("corpus/words.tsv").write_text("id\taudio\twords\n" + "".join(words), encoding="utf-8")
    table.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    Path("words.dict").write_text("".join(f"w-{phone}\t{phone}\n" for phone in PHONES), encoding="utf-8")
    for name, given in (
        ("phones", ["--transcripts", table]),
        ("words", ["--words", "corpus/words.tsv", "--dictionary", "words.dict"]),
    ):
        shared = [command, *given, "--model", tiny_model, "--format", "json"]
        assert run_command(*shared, "--out", f"{name}-alone/") == 1
        assert run_command(*shared, "--out", f"{name}-there/", "--cluster", three[0]) == 1
        alone = features(Path(f"{name}-alone"))
        assert len([each for each in alone if each.endswith(".json")]) == 6
        noted = any(b'"note": "corpus/audio/0-004.wav: ' in each for each in alone.values())
        assert noted == (command == "score-phones")
        assert features(Path(f"{name}-there")) == alone


def test_a_cluster_measures_as_this_machine_does(three: tuple[str, list[Process]], here: Path) -> None:
    pytest.importorskip("parselmouth")
    write_config(Path("corpus"), 8, 2)
    sounds = sorted(Path("corpus/audio").iterdir())
    for sound in sounds[:-1]:
        phones = [Interval(0.02, 0.1, "low"), Interval(0.1, 0.2, "high")]
        sound.with_suffix(".TextGrid").write_text(textgrid_text(0.2, {"phones": phones}), encoding="utf-8")
    sounds[3].write_bytes(b"RIFF")
    for place in ("all.csv", "each/"):
        assert run_command("measure", "corpus", "--out", place) == 1
        assert run_command("measure", "corpus", "--out", f"there-{place}", "--cluster", three[0]) == 1
    assert Path("there-all.csv").read_bytes() == Path("all.csv").read_bytes()
    assert len(features(Path("each"))) == len(sounds) - 1  # one has no TextGrid, one no sound; a record is beside them
    assert features(Path("there-each")) == features(Path("each"))


def test_what_the_work_raises_is_told_and_a_recording_that_is_not_shared(
    three: tuple[str, list[Process]], tmp_path: Path
) -> None:
    address, _ = three
    config = write_config(tmp_path / "corpus")
    job = Job(Utterance("a", tmp_path / "corpus/audio/0-000.wav", ("low",)), (1,), 10)
    with on_cluster(address, square, [*range(12), 13], most=2) as results:
        assert [next(results) for _ in range(12)] == [number * number for number in range(12)]
        unlucky = next(results)
    assert isinstance(unlucky, LostItem) and "13: ValueError: unlucky on" in str(unlucky)
    job.utterance.audio.unlink()
    there = load_config(config, [f"data.cluster={address}"])
    with extracted([job], there) as features:
        assert "0-000.wav: not on the worker" in str(next(features))


def test_a_recording_that_takes_too_long_to_extract_is_left_out_here_and_there(
    three: tuple[str, list[Process]], tmp_path: Path
) -> None:
    config, long = write_config(tmp_path, 2, 1), tmp_path / "long.wav"
    soundfile.write(long, np.random.default_rng(0).uniform(-0.1, 0.1, 48000 * 20), 48000)
    jobs = [Job(Utterance(f"u{number}", long, ("low",)), (1,), 2000) for number in range(128)]
    settings = {"cluster": (f"data.cluster={three[0]}", jobs[:2]), "alone": ("data.workers=1", jobs[:2])}
    settings |= {"processes": ("data.workers=2", jobs)}  # fewer are extracted by one
    for name, (setting, some) in settings.items():
        with extracted(some, load_config(config, [setting, "data.time_limit=0.001"])) as features:
            assert {str(each) for each in features} == {f"{long}: took longer than 0.001 s"}, name
        with extracted(some[:1], load_config(config, [setting, "data.time_limit=600"])) as features:
            assert isinstance(next(features), Made), name


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "nonsense", "tcp://no.such.host.invalid:8786"])
def test_no_scheduler(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "SECONDS", 0.5)
    monkeypatch.setattr(distributed, "Client", None)  # one that fails to connect hangs when it is collected
    with pytest.raises(InputError, match=f"{address}: no Dask scheduler answers"):
        with on_cluster(address, square, [1]):
            pass


def test_without_dask_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"Dask is not installed; pip install '\.\[cluster\]'"):
        with on_cluster("tcp://a:1", square, [1]):
            pass


def test_a_worker_with_other_versions_is_named() -> None:
    here = {"torch": "2.11.0", "numpy": "2.2.6"}
    cluster.refuse_other(here, dict(here), "b")
    with pytest.raises(InputError, match="the worker b has torch 2.10.0, this machine 2.11.0"):
        cluster.refuse_other(here, here | {"torch": "2.10.0"}, "b")
    with pytest.raises(InputError, match="the worker b has numpy none, this machine 2.2.6"):
        cluster.refuse_other(here, {"torch": "2.11.0"}, "b")
