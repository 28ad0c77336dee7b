"""The server: who may ask, what leaves the folder, what each request does, and every bad input."""

from __future__ import annotations

import csv
import io
import os
import socket
import struct
import threading
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
import soundfile
import uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from speechctc.audio.annotations import read_textgrid
from speechctc.audio.dereverberation import Dereverberated
from speechctc.core import files
from speechctc.inference.decoder import MIN_PHONES
from speechctc.inference.recogniser import Recogniser
from speechctc.inference.segmenter import Segment
from speechctc.model.checkpoint import BUILT_IN
from speechctc.phones.articulation import SOUNDS
from speechctc.studio import connections, server
from speechctc.studio.server import HEADER, PAGE, fragment, listen, open_privately
from speechctc.studio.studio import Studio
from tests.studio.folders import PORT, SONG, client_of, post, write_labelled
from tests.tiny_model import write_song
from tests.waiting import wait_for

TILE = {"window": 0.005, "highest": 5500, "range": 50}
ASKED = {"level": 1, "number": 0, "phone": 0, "start": 0, "stop": 0.1, "columns": 9, **TILE}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a labelled recording, a new one, and one that is none."""
    place = tmp_path / "talks"
    (place / "ann").mkdir(parents=True)
    write_labelled(place / "ann" / "a b.wav", ["ʃ", "a", "b"])
    write_song(place / "new.wav", SONG)
    (place / "text.wav").write_text("no sound")
    (tmp_path / "secret.wav").write_bytes((place / "new.wav").read_bytes())
    return place


def until(studio: Studio, name: str, state: str) -> None:
    """Wait until a recording has a state."""
    wait_for(lambda: next(row for row in studio.folder.rows() if row["name"] == name)["state"] == state)


@pytest.mark.parametrize(
    ("headers", "path"),
    [
        ({}, "/api/overview"),
        ({}, "/api/overview?token=secret"),
        ({}, "/api/overview?&sign=secret"),
        ({}, "/api/sign?address=/api/export?"),
        ({HEADER: "wrong"}, "/api/overview"),
        ({"Cookie": "speechctc-8000=secret"}, "/api/overview"),
        ({HEADER: "secret", "Origin": "http://evil.example"}, "/api/overview"),
        ({HEADER: "secret", "Origin": "null"}, "/api/overview"),
        ({HEADER: "secret", "Origin": "http://localhost:8000"}, "/api/overview"),
        ({HEADER: "secret", "Host": "evil.example:8000"}, "/api/overview"),
        ({HEADER: "secret", "Host": "127.0.0.1:8001"}, "/api/overview"),
        ({HEADER: "secret", "Sec-Fetch-Site": "same-site"}, "/api/overview"),
        ({HEADER: "secret", "Sec-Fetch-Site": "cross-site"}, "/api/audio?recording=new.wav"),
    ],
)
def test_strangers_are_refused(folder: Path, headers: dict[str, str], path: str) -> None:
    with client_of(folder) as (client, _):
        with TestClient(client.app, base_url=f"http://127.0.0.1:{PORT}") as stranger:
            answer = stranger.get(path, headers=headers)
        assert answer.status_code == 403 and "set-cookie" not in answer.headers
        assert "talks" not in answer.text and "default-src 'none'" in answer.headers["content-security-policy"]


def test_a_signed_address_opens_itself_alone(folder: Path) -> None:
    """No cookie is set, which another server on this machine would be sent."""
    with client_of(folder) as (client, _):
        address = "/api/export?recording=ann%2Fa+b.wav&format=json"
        sign = client.get("/api/sign", params={"address": address}).text
        signed_sign = client.get("/api/sign", params={"address": "/api/sign?address=x"}).text
        with TestClient(client.app, base_url=f"http://127.0.0.1:{PORT}") as stranger:
            assert stranger.get(f"{address}&sign={sign}").status_code == 200
            page = stranger.get("/?token=secret")
            assert page.status_code == 200 and "set-cookie" not in page.headers and "secret" not in page.text
            for other in (
                f"/api/export?recording=ann%2Fa+b.wav&format=csv&sign={sign}",
                f"/api/overview?&sign={sign}",
                f"{address}&more=1&sign={sign}",
                f"/api/sign?address=x&sign={signed_sign}",
            ):
                assert stranger.get(other).status_code == 403, other
            assert stranger.post(f"{address}&sign={sign}", json={}).status_code == 403


@pytest.mark.parametrize(
    "name",
    ["../secret.wav", "ann/../../secret.wav", "/etc/passwd", "ann", "", "new.wav\x00", "link.wav", "NEW.wav", "text"],
)
def test_no_path_leaves_the_folder(folder: Path, name: str) -> None:
    (folder / "link.wav").symlink_to(folder.parent / "secret.wav")
    with client_of(folder) as (client, studio):
        assert any("outside" in note for note in studio.folder.notes)
        for route in ("recording", "audio", "tile", "wave", "export", "boundary"):
            answer = client.get(f"/api/{route}", params={"recording": name, **ASKED})
            assert answer.status_code == 404, route
        for route in ("edit", "place"):
            assert post(client, route, name, revision=0, what="confirm", phone=0)[0] == 404
        assert client.get("/page/..%2fserver.py").status_code == 404
        assert client.get("/page/%2e%2e/server.py").status_code == 404


def test_the_sound_is_sent_whole_or_in_parts(folder: Path) -> None:
    with client_of(folder) as (client, _):
        whole = client.get("/api/audio", params={"recording": "new.wav"}).content
        part = client.get("/api/audio", params={"recording": "new.wav"}, headers={"Range": "bytes=40-5000"})
    samples, rate = soundfile.read(io.BytesIO(whole), dtype="int16")
    assert rate == 16000 and np.array_equal(samples, soundfile.read(folder / "new.wav", dtype="int16")[0])
    assert (part.status_code, part.content) == (206, whole[40:5001])


def test_tiles_and_waveform(folder: Path) -> None:
    with client_of(folder) as (client, studio):
        query: dict[str, str | float] = {"recording": "new.wav", "level": 3, "number": 0, **TILE}
        tile = client.get("/api/tile", params=query)
        wave = client.get("/api/wave", params={"recording": "new.wav", "start": 0, "stop": 1, "columns": 512})
        for wrong in ("number=99", "number=-1", "level=12", "window=9", "highest=nan", "range="):
            key, _, value = wrong.partition("=")
            answer = client.get("/api/tile", params=query | {key: value})
            assert answer.status_code == 400 and "\n" not in answer.json()["error"]
        long = client.get("/api/wave", params={"recording": "new.wav", "start": 0, "stop": 1e9, "columns": 512})
    width, height = struct.unpack(">II", tile.content[16:24])
    assert (width, height) == (512, 256)
    pairs = np.frombuffer(wave.content, "<i2").reshape(-1, 2)
    samples, _ = soundfile.read(folder / "new.wav")
    assert len(pairs) == 512 and abs(pairs[:, 1].max() / 32767 - samples[:16000].max()) < 1e-4
    assert long.status_code == 400


def test_edits_are_saved_and_the_later_page_is_told(folder: Path) -> None:
    name = "ann/a b.wav"
    with client_of(folder) as (client, studio):
        found = client.get("/api/recording", params={"recording": name}).json()
        status, change = post(client, "edit", name, revision=found["revision"], what="relabel", phone=1, label="ɑ")
        assert (status, change["phones"][0][2], change["undo"]) == (200, "ɑ", True)
        status, refused = post(client, "edit", name, revision=found["revision"], what="relabel", phone=1, label="e")
        assert status == 409 and "newest" in refused["error"]
        assert post(client, "edit", name, revision=change["revision"], what="undo")[0] == 200
        assert post(client, "edit", name, revision=change["revision"] + 1, what="redo")[0] == 200
    labels = [each.label for each in read_textgrid(folder / "ann" / "a b.TextGrid", "phones")]
    assert labels == ["ʃ", "ɑ", "b"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"[" * 100000, 400),
        (b'{"what": "relabel", "phone": 0, "label": "x"}', 400),
        (b'{"revision": "0", "what": "confirm", "phone": 0}', 400),
        (b'{"revision": 1, "what": "move", "phone": 0, "edge": "end", "time": NaN}', 400),
        (b'{"revision": 1, "what": "move", "phone": 0, "edge": "end", "time": 1e999}', 400),
        (b'{"revision": 1, "what": "relabel", "phone": 0, "label": "\\ud800"}', 400),
        (b'{"revision": 7, "what": "confirm", "phone": 0}', 409),
    ],
)
def test_bad_requests_change_nothing(folder: Path, body: bytes, status: int) -> None:
    with client_of(folder) as (client, _):
        answer = client.post("/api/edit", params={"recording": "ann/a b.wav"}, content=body)
        assert answer.status_code == status and answer.json()["error"]
    assert not list(folder.rglob("*.journal")) and not list(folder.rglob("*.original"))


def test_a_full_disk_is_said_and_the_page_can_go_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    name = "ann/a b.wav"
    with client_of(folder) as (client, studio):
        with monkeypatch.context() as patch:
            patch.setattr("speechctc.studio.journal.os.fsync", full)
            status, refused = post(client, "edit", name, revision=1, what="relabel", phone=1, label="x")
        assert status == 507 and "No space left" in refused["error"]
        assert post(client, "edit", name, revision=1, what="relabel", phone=1, label="x")[0] == 200
        with monkeypatch.context() as patch:
            patch.setattr("speechctc.core.files.commit", lambda draft: full(0))
            studio.folder.settle()
        assert "journal" in studio.folder.problems[name]
    assert read_textgrid(folder / "ann" / "a b.TextGrid", "phones")[1].label == "x"


def test_recognise_place_again_and_snap(folder: Path, tiny_model: Path) -> None:
    with client_of(folder, tiny_model) as (client, studio):
        assert client.post("/api/recognise", json={}).status_code == 200
        until(studio, "new.wav", "recognised")
        found = client.get("/api/recording", params={"recording": "new.wav"}).json()
        assert [phone[2] for phone in found["phones"]] == SONG
        assert all(phone[3] is not None and len(phone[4]) == 3 for phone in found["phones"])
        truth = [phone[0] for phone in found["phones"]]
        wrong = found["phones"][3][0] + 0.03
        status, moved = post(
            client, "edit", "new.wav", revision=found["revision"], what="move", phone=2, edge="end", time=wrong
        )
        best = client.get("/api/boundary", params={"recording": "new.wav", "phone": 2}).json()["time"]
        assert abs(best - truth[3]) < 0.021
        status, placed = post(client, "place", "new.wav", revision=moved["revision"], first=1, last=6)
        assert status == 200 and [phone[2] for phone in placed["phones"]] == SONG[1:6]
        assert np.abs(np.array([phone[0] for phone in placed["phones"]]) - truth[1:6]).max() < 0.025
        assert post(client, "place", "new.wav", revision=placed["revision"], first=3, last=3)[0] == 400


def test_recognising_without_the_ngram_and_doubts_about_the_language(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def heard(self: Recogniser, blocks: Any, alternatives: int = 0) -> Iterator[Segment]:
        label = "aa" if self.config.decode.lm_weight else "b"
        yield from (Segment(label, k / 1000, (k + 1) / 1000, 0.5) for _ in blocks for k in range(MIN_PHONES))

    monkeypatch.setattr(Recogniser, "segments", heard)
    with client_of(folder, BUILT_IN) as (client, studio):
        client.post("/api/recognise", json={})
        until(studio, "new.wav", "recognised")
        seen = client.get("/api/overview").json()
        assert seen["model"]["has_ngram"] and seen["model"]["ngram"]
        assert "another language" in seen["notes"][-1] and "take the tick from N-gram" in seen["notes"][-1]
        assert client.post("/api/ngram", json={"on": False}).status_code == 200
        seen = client.get("/api/overview").json()
        assert not seen["model"]["ngram"] and seen["notes"] == []
        assert {phone.label for phone in studio.folder.document("new.wav").phones} == {"aa"}
        client.post("/api/recognise", json={"names": ["new.wav"]})
        wait_for(lambda: studio.recognitions.note)
        assert {phone.label for phone in studio.folder.document("new.wav").phones} == {"b"}
        assert "another language" in studio.recognitions.note and "tick" not in studio.recognitions.note


def test_reverberation_is_a_note_of_its_recording_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A note on the last recording of many would come again with each, however often it is closed."""
    always = property(lambda blocks: True, lambda blocks, value: None)
    monkeypatch.setattr(Dereverberated, "changed", always, raising=False)
    with client_of(folder, BUILT_IN) as (client, studio):
        client.post("/api/recognise", json={"names": ["new.wav"]})
        until(studio, "new.wav", "recognised")
        found = client.get("/api/recording", params={"recording": "new.wav"}).json()
        assert found["note"] == "Reverberation or hum was taken off a copy first"
        assert client.get("/api/overview").json()["notes"] == studio.folder.notes


def test_the_words_beside_a_recording_are_told(folder: Path) -> None:
    def words() -> str:
        return str(client.get("/api/recording", params={"recording": "new.wav"}).json()["words"])

    with client_of(folder) as (client, _):
        assert words() == ""
        (folder / "new.txt").write_text("say  her\nname\n")
        assert words() == "say her name"
        (folder / "new.txt").write_text("la " * 5000)
        assert 1000 < len(words()) <= 2000
        (folder / "new.txt").write_bytes(b"\0" * 9)
        assert words() == ""


def test_labels_that_the_model_does_not_have(folder: Path, tiny_model: Path) -> None:
    with client_of(folder, tiny_model) as (client, studio):
        studio.engine.ask("live_stop").result(60)
        found = client.get("/api/recording", params={"recording": "ann/a b.wav"}).json()
        assert found["unknown"] == ["a", "b", "ʃ"]
        status, refused = post(client, "place", "ann/a b.wav", revision=1)
        assert status == 400 and "does not have the labels a b ʃ" in refused["error"]
        assert post(client, "recognise", "", names=["ann/a b.wav"])[0] == 400


def test_export(folder: Path) -> None:
    with client_of(folder) as (client, studio):
        name = "ann/a b.wav"
        post(client, "edit", name, revision=1, what="relabel", phone=1, label="x,y")
        for form in studio.overview()["formats"]:
            answer = client.get("/api/export", params={"recording": name, "format": form})
            assert answer.status_code == 200 and "a%20b" in answer.headers["content-disposition"], form
        table = client.get("/api/export", params={"recording": name, "format": "csv"}).text
        assert client.get("/api/export", params={"recording": name, "format": "xls"}).status_code == 400
    rows = list(csv.DictReader(io.StringIO(table)))
    assert [row["phone"] for row in rows] == ["ʃ", "x,y", "b"] and rows[0]["file"] == name


def test_a_name_that_is_not_utf8(folder: Path) -> None:
    """The list, the labels, the sound and the edits have it, and all others; nothing is named alike."""
    odd = Path(os.fsdecode(os.fsencode(folder) + b"/caf\xe9.wav"))
    write_labelled(folder / "odd.wav", ["x", "y"])
    (folder / "odd.wav").rename(odd)
    (folder / "odd.TextGrid").rename(odd.with_suffix(".TextGrid"))
    write_song(folder / r"caf\xe9.wav", SONG)
    with client_of(folder) as (client, studio):
        rows = client.get("/api/overview").json()["recordings"]
        names = {row["name"] for row in rows}
        assert names == {"ann/a b.wav", "new.wav", "text.wav", r"caf\xe9.wav", r"caf\xe9.wav'"}
        name = next(name for name, path in studio.folder.recordings.items() if path == odd)
        assert len(client.get("/api/recording", params={"recording": name}).json()["phones"]) == 2
        assert client.get("/api/audio", params={"recording": name}).status_code == 200
        assert post(client, "edit", name, revision=1, what="relabel", phone=0, label="z")[0] == 200
        for form in studio.overview()["formats"]:
            assert client.get("/api/export", params={"recording": name, "format": form}).status_code == 200, form
    assert fragment(odd.name, 0).startswith("#caf")
    assert [label.label for label in read_textgrid(odd.with_suffix(".TextGrid"), "phones")] == ["z", "y"]


def test_the_chart_has_every_symbol(folder: Path) -> None:
    with client_of(folder) as (client, _):
        rows = client.get("/api/overview").json()["chart"]
    shown = [symbol for _, symbols in rows for symbol in symbols]
    terms = {symbol: term for _, symbols in rows for symbol, term in symbols.items()}
    assert all(terms.values()) and terms["\u0303"] == "nasalised" and terms["y"] == "close front rounded vowel"
    assert terms["ɬ"] == "voiceless alveolar lateral fricative"
    assert (
        len(shown) == len(set(shown)) and set(SOUNDS) <= set(shown) and "." not in {s for _, r in rows[:20] for s in r}
    )
    chart = "pbtdʈɖcɟkgqɢʔmɱnɳɲŋɴʙrʀⱱɾɽɸβfvθðszʃʒʂʐçʝxɣχʁħʕhɦɬɮʋɹɻjɰlɭʎʟʘǀǃǂɓɗʄɠʛʍwɥʜʢʡɕʑɺɧiyɨʉɯuɪʏʊeøɘɵɤoəɛœɜɞʌɔæɐaɶɑɒ"
    assert set(chart) <= set(shown)
    assert all(unicodedata.normalize("NFC", symbol) == symbol for symbol in shown if symbol not in "\u0340\u0341")
    assert "panel.setChart(overview.chart)" in (PAGE / "main.js").read_text()


def test_the_token_is_in_no_argument_of_the_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other users of the machine read the arguments of its programs."""
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    with ExitStack() as files:
        open_privately("http://127.0.0.1:1/?token=secret#a%20b.wav@1", files)
        (address,) = opened
        page = Path(unquote(address.removeprefix("file://")))
        assert "secret" not in address and 'url=http://127.0.0.1:1/?token=secret#a%20b.wav@1"' in page.read_text()
        assert page.stat().st_mode & 0o077 == 0 and page.parent.stat().st_mode & 0o077 == 0
    assert not page.exists() and not page.parent.exists()


def test_a_recording_that_was_replaced_is_not_corrected_unseen(tmp_path: Path) -> None:
    write_labelled(tmp_path / "a.wav", ["low", "top", "mid"])
    with client_of(tmp_path) as (client, studio):
        one = client.get("/api/recording", params={"recording": "a.wav"}).json()
        tile: dict[str, Any] = {"recording": "a.wav", "window": 0.005, "highest": 5000, "range": 70}
        tile |= {"level": 4, "number": 0}
        before = [client.get("/api/tile", params=tile).content, client.get("/api/audio", params=tile).content]
        journal = studio.folder.document("a.wav").journal.path
        grid = (tmp_path / "a.TextGrid").read_bytes()
        write_song(tmp_path / "a.wav", ["mid", "low", "top", "high"], 7)
        change = {"revision": one["revision"], "what": "relabel", "phone": 0, "label": "high"}
        for route, body in (("edit", change), ("edit", {"revision": one["revision"], "what": "undo"})):
            status, answer = post(client, route, "a.wav", **body)
            assert status == 400 and "a.wav: another recording has taken its place" in answer["error"]
        assert not journal.exists() and (tmp_path / "a.TextGrid").read_bytes() == grid
        after = [client.get("/api/tile", params=tile).content, client.get("/api/audio", params=tile).content]
        assert all(old != new for old, new in zip(before, after, strict=True))
        two = client.get("/api/recording", params={"recording": "a.wav"}).json()
        assert two["note"] == "a.wav was replaced: these labels were made for the recording before"
        assert two["seconds"] > one["seconds"] and two["sound"] != one["sound"] and two["phones"] == one["phones"]
        assert post(client, "edit", "a.wav", **change)[0] == 200


def test_a_recording_in_which_nothing_is_recognised_says_so(tmp_path: Path, tiny_model: Path) -> None:
    soundfile.write(tmp_path / "a.wav", np.zeros(16000, np.float32), 16000)
    with client_of(tmp_path, tiny_model) as (client, studio):
        client.post("/api/recognise", json={"names": ["a.wav"]})
        wait_for(lambda: studio.recognitions.problems)
        assert "nothing was recognised" in client.get("/api/overview").json()["problems"]["a.wav"]


def test_what_was_recognised_in_a_replaced_recording_is_not_kept(tmp_path: Path, tiny_model: Path) -> None:
    write_song(tmp_path / "a.wav", ["low", "top"])
    with client_of(tmp_path, tiny_model) as (client, studio):
        ask = studio.engine.ask

        def replaced(what: str, *arguments: Any) -> Any:
            future = ask(what, *arguments)
            future.exception()
            write_song(tmp_path / "a.wav", ["mid", "low", "top"], 7)
            return future

        studio.engine.ask = replaced  # type: ignore[method-assign, assignment]
        client.post("/api/recognise", json={"names": ["a.wav"]})
        wait_for(lambda: studio.recognitions.problems)
        assert "replaced while it was recognised" in studio.recognitions.problems["a.wav"]
        assert not studio.folder.document("a.wav", again=True).phones


def test_what_cannot_be_read_is_left_and_said(folder: Path) -> None:
    (folder / "new.TextGrid").write_text("File type = nonsense")
    with client_of(folder) as (client, _):
        rows = {row["name"]: row for row in client.get("/api/overview").json()["recordings"]}
        states = {name: row["state"] for name, row in rows.items()}
        assert states == {"ann/a b.wav": "corrected", "new.wav": "unreadable", "text.wav": "unreadable"}
        assert "new.TextGrid" in rows["new.wav"]["problem"] and "text.wav" in rows["text.wav"]["problem"]
        answer = client.get("/api/recording", params={"recording": "new.wav"})
        assert answer.status_code == 400 and "not a TextGrid" in answer.json()["error"]
        assert client.get("/api/audio", params={"recording": "new.wav"}).status_code == 200
    assert (folder / "new.TextGrid").read_text() == "File type = nonsense"


DAMAGE = {
    "a.wav.journal": '{"what": "recognised", "at": 0, "old": [], "new": [[0, 0.1, "a", %s, [], false]]}\n',
    "b.wav.journal": '{"what": "recognised", "at": 0, "old": [], "new": [[0, 0.1, "a", 0.5, [["b", %s]], false]]}\n',
    "../talks-studio/round-1/round.json": '{"state": "done", "before": {"per": %s}, "facts": {"seconds": %s}}',
    "../talks-studio/round-2/round.json": '{"state": "training", "epochs": 3, "facts": {"seconds": %s}}',
    "../talks-studio/round-2/run/metrics.jsonl": '{"epoch": 1, "loss": %s, "dev_loss": 1, "dev_per": 2, "minutes": 3}\n'
    '{"epoch": 2, "loss": 1, "dev_loss": 1, "dev_per": 2, "minutes": 3}\n',
    "../talks-studio/studio.json": '{"model": "", "round": %s}',
}


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", '"\\ud800"', "1" + "0" * 400, "[]", '"x"'])
def test_a_file_that_is_not_as_it_should_be_takes_nothing_else_with_it(tmp_path: Path, value: str) -> None:
    place = tmp_path / "talks"
    for name in ("a.wav", "b.wav", "c.wav"):
        place.mkdir(exist_ok=True)
        write_labelled(place / name, ["a", "b"])
    for path, text in DAMAGE.items():
        (place / path).parent.mkdir(parents=True, exist_ok=True)
        (place / path).write_text(text.replace("%s", value), encoding="utf-8")
    with client_of(place) as (client, _):
        for _ in range(2):
            seen = client.get("/api/overview")
            assert seen.status_code == 200, seen.text
            states = {row["name"]: row["state"] for row in seen.json()["recordings"]}
            assert states == {"a.wav": "unreadable", "b.wav": "unreadable", "c.wav": "corrected"}
            assert all(set(point) >= {"epoch", "dev_per"} for point in seen.json()["training"].get("curve", ()))
        for name in ("a.wav", "b.wav"):
            answer = client.get("/api/recording", params={"recording": name})
            assert answer.status_code == 400 and f"{name}.journal, line 1" in answer.json()["error"]
        found = client.get("/api/recording", params={"recording": "c.wav"}).json()
        assert post(client, "edit", "c.wav", revision=found["revision"], what="confirm", phone=0)[0] == 200


def test_any_failure_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with client_of(folder) as (client, studio):
        for error in (ZeroDivisionError("by\nzero"), MemoryError(), RuntimeError("x" * 5000)):

            def fail(*_: Any, error: Exception = error) -> Any:
                raise error

            with monkeypatch.context() as patch:
                patch.setattr(studio, "overview", fail)
                answer = client.get("/api/overview")
            assert answer.status_code == 500 and "\n" not in answer.json()["error"] and len(answer.text) < 2000
            assert type(error).__name__ in answer.json()["error"]
        assert client.get("/api/overview").status_code == 200


@pytest.mark.parametrize(
    "error", [PermissionError(13, "Permission denied"), OSError(24, "Too many open files"), KeyError("x")]
)
def test_a_textgrid_that_may_not_be_read_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Not "being read" for ever."""
    (folder / "new.TextGrid").write_text("x")
    sha256 = files.sha256

    def refused(path: Path) -> str:
        if path.name == "new.TextGrid":
            raise error
        return sha256(path)

    monkeypatch.setattr("speechctc.core.files.sha256", refused)
    with client_of(folder) as (client, _):
        rows = {row["name"]: row for row in client.get("/api/overview").json()["recordings"]}
        assert rows["new.wav"]["state"] == "unreadable" and rows["new.wav"]["problem"]
        assert rows["ann/a b.wav"]["state"] == "corrected"


def test_on_windows_no_other_program_shares_the_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """There, SO_REUSEADDR would let another listen at the same port; an option stands for the one that Windows has."""
    monkeypatch.setattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_KEEPALIVE, raising=False)
    with closing(listen(0)) as listening:
        assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert not listening.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)
    monkeypatch.undo()
    with closing(listen(0)) as listening:
        assert listening.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR)


async def _answer(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await PlainTextResponse("here")(scope, receive, send)


@contextmanager
def running(
    monkeypatch: pytest.MonkeyPatch, seconds: float, app: ASGIApp = _answer
) -> Iterator[Callable[[], socket.socket]]:
    """Run a server whose requests must come within seconds; give a function that connects to it."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", seconds)
    servers: list[uvicorn.Server] = []

    class Server(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            servers.append(self)

    monkeypatch.setattr(uvicorn, "Server", Server)
    listening = listen(0)
    thread = threading.Thread(target=connections.run, args=(app, listening))
    thread.start()
    with ExitStack() as opened:
        try:
            yield lambda: opened.enter_context(socket.create_connection(listening.getsockname(), timeout=30))
        finally:
            servers[0].should_exit = True
            thread.join(30)
            listening.close()


GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost:", GET, GET + b"GET /"])
def test_a_connection_without_a_request_is_closed(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    with running(monkeypatch, 0.2) as connect:
        waiting = connect()
        waiting.sendall(sent)
        found = b""
        with suppress(ConnectionResetError):
            while piece := waiting.recv(1000):
                found += piece
        assert (b"here" in found) == (GET in sent)


def test_of_too_many_connections_those_that_wait_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that brings its request is answered, whatever others hold open; the process keeps handles for its files."""
    with running(monkeypatch, 60) as connect:
        first = connect()
        first.sendall(GET)
        wait_for_answer(first)
        idle = [connect() for _ in range(3 * connections.MOST)]
        last = connect()
        last.sendall(GET)
        wait_for_answer(last)
        wait_for(lambda: sum(map(is_closed, idle)) >= 2 * connections.MOST)
        assert not all(map(is_closed, idle))


@pytest.mark.parametrize("sent", [b"Content-Length: 9\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"])
def test_a_request_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    """So many of them as there may be connections would keep the page from saving."""
    monkeypatch.setattr(server, "BODY_SECONDS", 0.2)
    app = Starlette(routes=[Route("/", server.guarded(lambda request, body: body), methods=["POST"])])
    with running(monkeypatch, 60, app) as connect:
        waiting = connect()
        waiting.sendall(b"POST / HTTP/1.1\r\nHost: x\r\n" + sent)
        found = b""
        while piece := waiting.recv(1000):
            found += piece
    assert found.startswith(b"HTTP/1.1 408") and b"did not end" in found


def wait_for_answer(connection: socket.socket) -> None:
    """Wait for the answer."""
    found = b""
    while b"here" not in found:
        found += (piece := connection.recv(1000))
        assert piece, "closed"


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(0.001)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("before", [False, True], ids=["new", "labelled"])
def test_recognition_grows_and_stops(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    """What is known is seen, and kept where there was nothing; one that waits does not begin."""
    for name in ("a.wav", "b.wav"):
        write_song(tmp_path / name, SONG)
    more, segments = threading.Semaphore(0), Recogniser.segments

    def slowly(self: Recogniser, blocks: Any, alternatives: int = 0) -> Iterator[Segment]:
        for segment in segments(self, blocks, alternatives):
            yield segment
            more.acquire(timeout=60)

    monkeypatch.setattr(Recogniser, "segments", slowly)
    with client_of(tmp_path, tiny_model) as (client, studio):
        if before:
            more.release(100)
            client.post("/api/recognise", json={"names": ["a.wav"]})
            until(studio, "a.wav", "recognised")
            wait_for(lambda: not studio.recognitions.status())
            while more.acquire(blocking=False):
                pass
        client.post("/api/recognise", json={"names": ["a.wav", "b.wav"]})
        more.release(2)
        wait_for(lambda: len(studio.recognitions.heard("a.wav")) == 3)
        seen = client.get("/api/heard", params={"recording": "a.wav", "first": 1}).json()["phones"]
        assert [phone[2] for phone in seen] == SONG[1:3]
        assert client.get("/api/heard", params={"recording": "b.wav", "first": 0}).json()["phones"] == []
        for wrong in (None, "a.wav", [1]):
            assert client.post("/api/recognise/stop", json={"names": wrong}).status_code == 400
        client.post("/api/recognise/stop", json={"names": ["a.wav", "b.wav", "c.wav"]})
        more.release(1)
        wait_for(lambda: not studio.recognitions.status())
        found = client.get("/api/recording", params={"recording": "a.wav"}).json()
        assert [phone[2] for phone in found["phones"]] == (SONG if before else SONG[: len(found["phones"])])
        assert before or 3 <= len(found["phones"]) < len(SONG)
        rows = client.get("/api/overview").json()
        assert "stopped: recognised up to 0." in rows["problems"]["a.wav"] and rows["problems"].keys() == {"a.wav"}
        assert not studio.folder.document("b.wav").phones
        more.release(100)
        client.post("/api/recognise", json={"names": ["a.wav"]})
        wait_for(lambda: not studio.recognitions.status())
        labels = [phone.label for phone in studio.folder.document("a.wav").phones]
        assert labels == SONG and not client.get("/api/overview").json()["problems"]


def test_a_recording_that_ends_as_the_studio_is_closed_is_not_recognised_any_more(
    tmp_path: Path, tiny_model: Path
) -> None:
    write_song(tmp_path / "a.wav", SONG)
    with client_of(tmp_path, tiny_model) as (_, studio):
        studio.recognitions.close()
        assert studio.recognise(["a.wav"]) == {"recognising": {}}


@pytest.mark.parametrize(
    "path", ["a.wav.journal", "../talks-studio/round-1/round.json", "../talks-studio/round-1/run/metrics.jsonl"]
)
def test_a_file_that_says_it_has_terabytes_is_not_read(tmp_path: Path, path: str) -> None:
    place = tmp_path / "talks"
    place.mkdir()
    write_labelled(place / "a.wav", ["a", "b"])
    (place / path).parent.mkdir(parents=True, exist_ok=True)
    if "run" in path:
        (place / path).parent.with_name("round.json").write_text('{"state": "done"}')
    (place / path).touch()
    os.truncate(place / path, 1 << 40)
    with client_of(place) as (client, _):
        (row,) = client.get("/api/overview").json()["recordings"]
        assert row["state"] == ("unreadable" if "journal" in path else "corrected")
        assert "journal" not in path or "MiB" in row["problem"]


def test_only_rows_that_changed_are_told_until_the_list_has_other_names(tmp_path: Path) -> None:
    phones = write_labelled(tmp_path / "a.wav", list("abc"))
    write_labelled(tmp_path / "b.wav", list("abc"))
    with client_of(tmp_path) as (client, studio):

        def asked(since: int) -> tuple[list[str], bool, int]:
            found = client.get("/api/overview", params={"since": since}).json()
            return sorted(row["name"] for row in found["recordings"]), found["whole"], found["change"]

        names, is_whole, change = asked(0)
        assert names == ["a.wav", "b.wav"] and is_whole
        assert asked(change)[:2] == ([], False)
        revision = client.get("/api/recording", params={"recording": "b.wav"}).json()["revision"]
        status, _ = post(client, "edit", "b.wav", what="relabel", phone=0, label="x", revision=revision)
        assert status == 200 and len(phones) == 3
        assert asked(change)[:2] == (["b.wav"], False)
        write_labelled(tmp_path / "c.wav", list("abc"))
        client.post("/api/look", json={})
        studio.folder.wait()
        assert asked(change)[:2] == (["a.wav", "b.wav", "c.wav"], True)
        assert asked(change + 10**12)[1]  # of a clock that was ahead


def test_an_empty_folder_can_be_recorded_into(tmp_path: Path) -> None:
    with client_of(tmp_path) as (client, studio):
        assert client.get("/api/overview").json()["recordings"] == []
        write_labelled(tmp_path / "a.wav", list("abc"))
        assert client.post("/api/look", json={}).status_code == 200
        assert [row["name"] for row in client.get("/api/overview").json()["recordings"]] == ["a.wav"]
