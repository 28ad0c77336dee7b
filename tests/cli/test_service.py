"""`speechctc decode --via-service` answers what the command says itself, and only the user is heard."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, answer_challenge, deliver_challenge
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from speechctc.stages.ask_service import INSTALLATION, START, decoded, place_of_file
from speechctc.stages.service import LARGEST
from speechctc.studio import elan, praat
from tests.command import Command, one_line_error
from tests.forked import Forked
from tests.tiny_model import write_song

ROOT = Path(__file__).resolve().parents[2]
POSIX = pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions and signals")


def start(runtime: Path, model: Path) -> Forked:
    """Start a service and wait until it answers, or has ended."""
    arguments = ("decode", "--listen", "--model", model)
    log = runtime / f"said{len(list(runtime.iterdir()))}"
    service = Forked("speechctc", *arguments, cwd=runtime, log=log, environment={"XDG_RUNTIME_DIR": str(runtime)})
    service.wait_until_it_says("--via-service is answered here")
    return service


@pytest.fixture(scope="module")
def service(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Offer the runtime folder of a service."""
    runtime = tmp_path_factory.mktemp("runtime")
    process = start(runtime, tiny_model)
    yield runtime
    process.send_signal(signal.SIGTERM)
    process.wait(600)
    assert not list(runtime.rglob("*.json"))


@pytest.fixture
def served(service: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with two recordings, where the service is found."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(service))
    for number, name in enumerate(("a.wav", "b.wav")):
        write_song(here / name, ["low", "top", "mid", "high"], number, channels=1 + number)
    (here / "odd.wav").write_bytes(b"RIFF, and no sound")
    return here


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a runtime folder without a service."""
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    return runtime


def asked(runtime: Path, options: object = None, token: str = "", size: int = 0) -> dict[str, Any]:
    """Send a request, with another token or padded to a size, and return the answer."""
    about = json.loads((runtime / "speechctc" / "service.json").read_text())
    key = (token or about["token"]).encode()
    body = json.dumps({"installation": INSTALLATION, "folder": os.getcwd(), "options": options})
    with Client(("127.0.0.1", about["port"])) as connection:
        answer_challenge(connection, key)
        deliver_challenge(connection, key)
        connection.send_bytes(body.ljust(size).encode())
        answer: dict[str, Any] = json.loads(connection.recv_bytes())
        return answer


@pytest.mark.parametrize(
    "options",
    [
        ["a.wav"],
        ["a.wav", "b.wav"],
        ["b.wav", "--format", "json", "--alternatives", "2"],
        ["a.wav", "b.wav", "--format", "json", "--channel", "1"],
        ["b.wav", "--format", "textgrid", "--symbols", "symbols.tsv"],
        ["a.wav", "--format", "eaf"],
        ["a.wav", "--format", "csv", "--beam", "4", "--min-modulation-db", "0"],
        ["a.wav", "--inventory", "low top mid"],
        ["a.wav", "--nbest", "2"],
        ["a.wav", "odd.wav", "--format", "json"],
        ["odd.wav"],
        ["a.wav", "b.wav", "--format", "textgrid"],
        ["none.wav"],
        ["a.wav", "--model", "nowhere"],
        ["a.wav", "--channel", "9"],
    ],
)
def test_prints_what_the_command_prints(served: Path, speechctc: Command, options: list[str]) -> None:
    (served / "symbols.tsv").write_text("low\tL\ntop\tT\nmid\tM\nhigh\tH\n")
    alone = speechctc("decode", *options)
    assert alone.out or alone.status
    again = speechctc("decode", *options, "--via-service")
    assert again._replace(out=undated(again.out)) == alone._replace(out=undated(alone.out))


@pytest.mark.parametrize("name", ["out.TextGrid", "below/out.eaf", "out.csv", "out.xlsx", "out.html", "out.json"])
def test_writes_the_same_file(served: Path, speechctc: Command, name: str) -> None:
    if name.endswith("xlsx"):
        pytest.importorskip("openpyxl")
    (served / "below").mkdir()
    alone = speechctc("decode", "b.wav", "--out", name)
    content = comparable(served / name)
    again = speechctc("decode", "b.wav", "--out", name, "--via-service")
    assert again == alone and again.status == 0
    assert comparable(served / name) == content


def comparable(path: Path) -> object:
    """Return what is in a file, without the time when it was made and the random number of a compressed sound."""
    if path.suffix == ".xlsx":
        import openpyxl

        return [list(sheet.values) for sheet in openpyxl.load_workbook(path)]
    return undated(re.sub(r"base64,[^\"']*", "", path.read_text(encoding="utf-8")))


def undated(text: str) -> str:
    return re.sub(r'DATE="[^"]*"', "", text)


def test_keeps_what_a_person_made(served: Path, speechctc: Command) -> None:
    (served / "mine.TextGrid").write_text("mine")
    refused = speechctc("decode", "a.wav", "--out", "mine.TextGrid", "--via-service")
    assert "made or changed by hand" in one_line_error(refused)
    assert (served / "mine.TextGrid").read_text() == "mine"
    assert speechctc("decode", "a.wav", "--out", "mine.TextGrid", "--via-service", "--overwrite").status == 0
    assert (served / "mine.TextGrid").read_text() != "mine"


def test_the_service_writes_nothing(served: Path, service: Path, speechctc: Command) -> None:
    options: dict[str, Any] = dict.fromkeys(
        "model forms channel raw lm lm_weight beam inventory language nbest min_modulation_db cluster".split()
    )
    options |= {"symbols": "own", "skip_existing": False, "jobs": 0, "alternatives": 0, "device": "cpu"}
    options |= {"audio": ["a.wav"], "out": "theirs.json", "overwrite": True}
    before = sorted(served.rglob("*"))
    answer = asked(service, options)
    assert answer["status"] == 0 and '"segments"' in answer["out"]
    assert sorted(served.rglob("*")) == before
    assert asked(service, {**options, "out": "folder/"})["error"] and sorted(served.rglob("*")) == before


def test_refuses_strangers(served: Path, service: Path) -> None:
    assert asked(service)["error"]  # it is heard, and has no options
    with pytest.raises(AuthenticationError):
        asked(service, token="wrong")
    with pytest.raises((EOFError, OSError)):
        asked(service, size=LARGEST + 1)


@pytest.mark.parametrize(
    "said", [b"POST /decode HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n{}", b"\0\0\0\x10" + bytes(16), b""]
)
def test_a_web_page_or_a_guess_is_told_nothing(served: Path, service: Path, said: bytes) -> None:
    about = json.loads((service / "speechctc" / "service.json").read_text())
    with socket.create_connection(("127.0.0.1", about["port"]), timeout=600) as stranger:
        heard = stranger.recv(4096)  # first: what has come may be lost when the service closes
        with suppress(OSError):  # what was said is not all read, or the service has closed
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            while part := stranger.recv(4096):
                heard += part
    assert b"#CHALLENGE#" in heard and b"WELCOME" not in heard and about["token"].encode() not in heard
    assert len(heard) < 200 and asked(service)["error"]


def test_refuses_another_installation(served: Path, speechctc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speechctc.stages.ask_service.INSTALLATION", "0.0 elsewhere")
    assert "another installation" in one_line_error(speechctc("decode", "a.wav", "--via-service"))


def test_a_changed_model_is_read_again(served: Path, speechctc: Command, tiny_model: Path) -> None:
    shutil.copytree(tiny_model, served / "own")
    asked = ("decode", "a.wav", "--model", "own", "--via-service")
    before = speechctc(*asked)
    assert before.status == 0 and "low" in before.out
    (file,) = (served / "own").glob("best/checkpoint.json")
    file.write_text(file.read_text().replace('"low"', '"LOW"'))
    after = speechctc(*asked)
    assert after.out == before.out.replace("low", "LOW") and after == speechctc(*asked[:-1])
    shutil.rmtree(served / "own")
    assert "own" in one_line_error(speechctc(*asked))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-"], "files"),
        (["a.wav", "--out", "grids/"], "one file"),
        (["a.wav", "--out", "grids"], "one file"),
        (["a.wav", "--format", "json,eaf"], "one file"),
        (["a.wav", "--cluster", "tcp://a:1"], "files"),
        (["a.wav", "--format", "xlsx"], "not text"),
        (["a.wav", "--listen"], "--listen"),
    ],
)
def test_says_what_it_cannot_do(served: Path, speechctc: Command, options: list[str], said: str) -> None:
    assert said in one_line_error(speechctc("decode", *options, "--via-service"))


def test_asking_loads_no_numbers(served: Path) -> None:
    code = (
        "import sys, speechctc.cli.app as app\ntry: app.main()\nexcept SystemExit: pass\n"
        "print([name for name in ('numpy', 'torch', 'numba', 'rich') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, "decode", "a.wav", "--via-service"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[-1] == "[]" and len(done.stdout.splitlines()) == 2, done


def test_no_service(alone: Path, here: Path, speechctc: Command) -> None:
    asked = ("decode", "a.wav", "--via-service")
    assert one_line_error(speechctc(*asked)).endswith(f"no service is running; {START}")
    place = place_of_file()
    place.write_text("not JSON")
    place.chmod(0o600)
    assert "no service is running" in one_line_error(speechctc(*asked))


def test_without_recordings(here: Path, speechctc: Command) -> None:
    assert "no recordings are named" in one_line_error(speechctc("decode"))


@POSIX
def test_a_file_of_others_is_not_believed(alone: Path, here: Path, speechctc: Command) -> None:
    place = place_of_file()
    assert place.parent.stat().st_mode & 0o777 == 0o700
    place.write_text('{"port": 1, "token": "a"}')
    place.chmod(0o644)
    assert "others may have written it" in one_line_error(speechctc("decode", "a.wav", "--via-service"))


@pytest.mark.parametrize("said", [b"", b"HTTP/1.0 200 OK\r\n\r\nlies", b"\0\0\0\x1b#CHALLENGE#" + bytes(16)])
def test_another_program_at_the_port_is_not_believed(
    alone: Path, here: Path, speechctc: Command, monkeypatch: pytest.MonkeyPatch, said: bytes
) -> None:
    def lie(stranger: socket.socket) -> None:
        with stranger.accept()[0] as connection, suppress(ConnectionResetError):
            connection.sendall(said)
            connection.recv(4096)

    monkeypatch.setattr("speechctc.stages.ask_service.PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as liar:
        thread = Thread(target=lie, args=(liar,))
        thread.start()
        place = place_of_file()
        place.write_text(json.dumps({"port": liar.getsockname()[1], "token": "secret"}))
        place.chmod(0o600)
        done = speechctc("decode", "a.wav", "--via-service")
        thread.join()
    assert "another program answers" in one_line_error(done) and "lies" not in done.out


def test_the_plugins_use_it(served: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (served / "own.tsv").write_text("low\tɡã\n", encoding="utf-8")
    model = str(tiny_model)
    values = {"source": "b.wav", "phones": "own.xml", "model": model, "symbols": "own.tsv", "channel": "2"}
    with pytest.MonkeyPatch.context() as alone:
        alone.setenv("XDG_RUNTIME_DIR", str(served))  # no service there
        elan.run(values)
        praat.main("b.wav", "own.TextGrid", "error", model, "own.tsv")
    monkeypatch.setattr("speechctc.inference.recogniser.Recogniser.load", lambda *_: pytest.fail("loaded"))
    elan.run({**values, "phones": "asked.xml"})
    praat.main("b.wav", "asked.TextGrid", "error", model, "own.tsv")
    assert not Path("error").exists() and "ɡã" in Path("asked.xml").read_text(encoding="utf-8")
    for ending in ("xml", "TextGrid"):
        assert Path(f"asked.{ending}").read_bytes() == Path(f"own.{ending}").read_bytes()


def test_a_service_that_cannot_is_passed_over(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert decoded(Path("none.wav"), "english", "json", "own") is None
    monkeypatch.setattr("speechctc.stages.ask_service.INSTALLATION", "0.0 elsewhere")
    assert decoded(Path("a.wav"), "english", "json", "own") is None


@POSIX
def test_begins_and_ends(alone: Path, here: Path, speechctc: Command, tiny_model: Path) -> None:
    first = start(alone, tiny_model)
    place = alone / "speechctc" / "service.json"
    assert place.stat().st_mode & 0o777 == 0o600 and place.parent.stat().st_mode & 0o777 == 0o700
    content = place.read_text()
    refused = speechctc("decode", "--listen", "--model", tiny_model)
    assert "running already" in one_line_error(refused) and place.read_text() == content
    first.kill()
    first.wait(600)
    assert place.exists()
    assert "it was ended" in one_line_error(speechctc("decode", "a.wav", "--via-service"))
    second = start(alone, tiny_model)
    assert place.read_text() != content
    second.send_signal(signal.SIGINT)
    assert second.wait(600) == 0 and "Traceback" not in second.log.read_text() and not place.exists()
