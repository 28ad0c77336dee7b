"""The folder and the microphone: names that collide, recordings that a killed server left."""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
import time
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from speechctc.audio.annotations import read_textgrid
from speechctc.core.errors import InputError
from speechctc.studio.document import Document
from speechctc.studio.folder import Folder
from speechctc.studio.microphone import GONE, HEAD, Microphone, header, keep, recover
from speechctc.studio.sound import Waveform, remove_copies
from tests.studio.folders import SONG, client_of, write_labelled
from tests.tiny_model import sing, write_song
from tests.waiting import wait_for


def test_recordings_that_differ_in_their_ending_have_their_own_textgrids(tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", SONG)
    soundfile.write(tmp_path / "a.flac", *soundfile.read(tmp_path / "a.wav"))
    folder = Folder(tmp_path)
    for name in ("a.wav", "a.flac"):
        document = folder.document(name)
        document.edit(0, {"what": "insert", "start": 0.1, "end": 0.2, "label": name[2:]})
        document.write_grid()
    assert sorted(path.name for path in tmp_path.glob("*.TextGrid")) == ["a.flac.TextGrid", "a.wav.TextGrid"]
    assert [Folder(tmp_path).document(name).phones[0].label for name in ("a.wav", "a.flac")] == ["wav", "flac"]


def test_a_second_look_does_not_ask_again_for_what_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_song(tmp_path / "a.wav", SONG)
    asked: list[str] = []
    monkeypatch.setattr(Folder, "refresh", lambda self, name, siblings: asked.append(name))
    folder = Folder(tmp_path)
    assert [row["state"] for row in folder.rows()] == ["reading"]
    write_song(tmp_path / "b.wav", SONG)
    folder.scan()
    folder.wait()
    assert asked == ["a.wav", "b.wav"]


@pytest.mark.parametrize("ending", ["wav", "flac", "ogg", "aiff"])
@pytest.mark.parametrize("channels", [1, 2])
def test_any_part_of_a_recording_is_read(tmp_path: Path, ending: str, channels: int) -> None:
    samples, _ = sing(SONG, np.random.default_rng(0))
    path = tmp_path / f"a.{ending}"
    soundfile.write(path, np.repeat(samples[:, None], channels, axis=1), 16000)
    expected, _ = soundfile.read(path, dtype="float32", always_2d=True)
    sound = Waveform(path)
    close = 1 / 32000 if ending in ("flac", "ogg") else 1e-7
    assert np.abs(sound.read(500, 2500) - expected[500:2500].mean(axis=1)).max() <= close
    outside = sound.read(-3, sound.frames + 4)
    assert len(outside) == sound.frames + 7 and not outside[:3].any() and not outside[-4:].any()
    served = soundfile.info(sound.file)
    assert (served.format, served.subtype, served.channels) == ("WAV", "PCM_16", 1) and served.frames == sound.frames
    for columns in (7, 3000):
        low, high = sound.extremes(0.1, 0.4, columns).T.astype(float) / 32767
        part = expected[1600:6400].mean(axis=1)
        assert abs(low.min() - part.min()) < 1e-3 and abs(high.max() - part.max()) < 1e-3


def test_the_summary_of_a_long_recording_has_its_peaks(tmp_path: Path) -> None:
    samples = np.zeros(16000 * 60, dtype=np.float32)
    samples[16000 * 41 + 5], samples[16000 * 7] = 0.75, -0.5
    soundfile.write(tmp_path / "a.wav", samples, 16000)
    found = Waveform(tmp_path / "a.wav").extremes(0.0, 64.0, 512)
    assert int(found[:, 1].argmax()) == 41 * 8 and int(found[:, 0].argmin()) == 7 * 8
    assert (found.max(), found.min()) == (24576, -16384) and not found[60 * 8 :].any()


def test_the_microphone_is_recognised_and_kept(tmp_path: Path, tiny_model: Path) -> None:
    write_song(tmp_path / "a.wav", SONG)
    samples, _ = sing(SONG, np.random.default_rng(3))
    with client_of(tmp_path, tiny_model) as (client, studio):
        studio.engine.ask("live_stop").result(60)
        name = client.post("/api/microphone/start", json={"rate": 16000}).json()["name"]
        assert client.post("/api/microphone/start", json={"rate": 16000}).status_code == 400
        heard = []
        headers = {"Content-Type": "application/octet-stream"}
        for first in range(0, len(samples), 4000):
            block = samples[first : first + 4000].astype("<f4").tobytes()
            heard += client.post("/api/microphone/block", content=block, headers=headers).json()["phones"]
        assert client.post("/api/microphone/block", content=b"abc", headers=headers).status_code == 400
        ended = client.post("/api/microphone/stop").json()
        assert heard + ended["phones"] == SONG and ended["name"] == name
        assert name in studio.folder.recordings
    kept, rate = soundfile.read(tmp_path / name)
    assert rate == 16000 and np.abs(kept - samples).max() < 1e-4
    assert not list(tmp_path.glob(".*recording"))


def test_a_recording_goes_into_the_folder_of_its_speaker_under_its_name(tmp_path: Path) -> None:
    """A recording that is there keeps its name, and its labels; no name leads out of the folder."""
    (tmp_path / "Li Na").mkdir()
    write_song(tmp_path / "Li Na" / "one.flac", SONG)
    block = np.full(800, 0.25, "<f4").tobytes()
    with client_of(tmp_path) as (client, studio):
        microphone = Microphone(studio)
        for speaker, name, wanted in (
            ("Li Na", "one", "Li Na/one-2.wav"),
            ("Li Na", "two.wav", "Li Na/two.wav"),
            ("a/B ", " 1.5 ", "a/B/1.5.wav"),
            ("", "one", "one.wav"),
        ):
            assert microphone.start(8000, speaker, name)["name"] == wanted
            microphone.block(block, wanted, 0)
            assert microphone.stop(wanted)["name"] == wanted and soundfile.info(tmp_path / wanted).frames == 800
            assert wanted in studio.folder.recordings
        for place in ("../x", "a//b/x", "a/..", ".a/x", "a/x\ty", "//x", "a/x?"):
            speaker, _, name = place.rpartition("/")
            with pytest.raises(InputError, match="cannot be the name"):
                microphone.start(8000, speaker, name)
        (tmp_path / "link").symlink_to(tmp_path.parent)
        with pytest.raises(InputError, match="a link"):
            microphone.start(8000, "link", "x")
        name = client.post("/api/microphone/start", json={"rate": 8000, "speaker": "Zhou"}).json()["name"]
        assert re.fullmatch(r"Zhou/recording-[-\d]+\.wav", name)


def test_what_was_recorded_of_a_speaker_is_recovered(tmp_path: Path) -> None:
    (tmp_path / "Li Na").mkdir()
    (tmp_path / "Li Na" / ".one.8000.speechctc-recording").write_bytes(header(8000, 0) + bytes(200))
    assert recover(tmp_path) == [tmp_path / "Li Na" / "one.wav"]


def test_the_textgrid_catches_up_with_the_journal_when_the_folder_is_opened(tmp_path: Path) -> None:
    """A server that was killed may have left it behind; nobody has asked for the recording yet."""
    write_labelled(tmp_path / "a.wav", ["ʃ", "a", "b"])
    document = Document(tmp_path / "a.wav")
    document.edit(document.revision, {"what": "relabel", "phone": 1, "label": "x"})
    assert [each.label for each in read_textgrid(document.grid_path, "phones")] == ["ʃ", "a", "b"]
    folder = Folder(tmp_path)
    folder.refresh("a.wav")
    assert [each.label for each in read_textgrid(document.grid_path, "phones")] == ["ʃ", "x", "b"]
    assert folder.document("a.wav").revision == document.revision


def test_what_a_killed_server_recorded_is_recovered(tmp_path: Path) -> None:
    write_song(tmp_path / "a.wav", SONG)
    with client_of(tmp_path) as (client, studio):
        microphone = Microphone(studio)
        microphone.start(8000)
        microphone.block(np.full(800, 0.25, "<f4").tobytes())
    (raw,) = tmp_path.glob(".*speechctc-recording")
    with open(raw, "ab") as file:
        file.write(b"x")
    assert recover(tmp_path) == []
    os.close(microphone._file)  # as the system does when a process is killed
    (path,) = recover(tmp_path)
    samples, rate = soundfile.read(path)
    assert rate == 8000 and len(samples) == 800 and abs(samples[0] - 0.25) < 1e-4
    assert recover(tmp_path) == []


def test_what_was_recorded_where_there_are_no_locks_is_recovered_once_it_is_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    raw, said = tmp_path / ".talk.8000.speechctc-recording", list[str]()
    raw.write_bytes(header(8000, 0) + bytes(200))
    assert recover(tmp_path, said.append) == [] and raw.exists()
    (line,) = said
    assert str(raw) in line and "left as it is" in line and "start the studio again" in line
    os.utime(raw, (time.time() - 2 * GONE,) * 2)
    (path,) = recover(tmp_path)
    assert soundfile.info(path).frames == 100 and not raw.exists()


def test_a_pause_and_a_second_studio_do_not_split_a_recording(tmp_path: Path) -> None:
    """The second one is started while the first is heard nothing from."""
    write_song(tmp_path / "a.wav", SONG)
    block = np.full(800, 0.25, "<f4").tobytes()
    with client_of(tmp_path) as (client, studio):
        microphone = Microphone(studio)
        name = microphone.start(8000)["name"]
        microphone.block(block)
        (raw,) = tmp_path.glob(".*speechctc-recording")
        os.utime(raw, (time.time() - 3600,) * 2)
        assert recover(tmp_path) == []
        microphone.block(block)
        assert microphone.stop()["name"] == name
    assert soundfile.info(tmp_path / name).frames == 1600 and not list(tmp_path.glob(".*recording"))


def test_leftovers_of_strangers_are_said_and_left(tmp_path: Path) -> None:
    """A link to a file of the user's, which the draft of a recording once was; names without a rate; a pipe."""
    precious = tmp_path / "precious"
    precious.write_text("mine")
    folder = tmp_path / "talks"
    folder.mkdir()
    write_song(folder / "a.wav", SONG)
    (folder / ".v.draft").symlink_to(precious)
    (folder / ".v.wav").symlink_to(precious)
    (folder / ".v.16000.speechctc-recording").write_bytes(header(16000, 0) + bytes(200))
    (folder / ".w.16000.speechctc-recording").write_bytes(bytes(200))
    odd = [f".{name}.speechctc-recording" for name in ("x.0", "x.99999999999", "x.\u0663", "x", "x.-8000", "x.8e3")]
    for name in odd:
        (folder / name).write_bytes(bytes(200))
    (folder / ".l.8000.speechctc-recording").symlink_to(precious)
    os.mkfifo(folder / ".p.8000.speechctc-recording")
    said: list[str] = []
    assert recover(folder, said.append) == [folder / "v.wav"]
    assert len(said) == len(odd) + 3 and all("left as it is" in line for line in said)
    assert precious.read_text() == "mine" and all(
        (folder / name).exists() for name in [*odd, ".w.16000.speechctc-recording"]
    )


@pytest.mark.parametrize("size", [2 * 1000, 2**32 - HEAD - 2, 2**32 - HEAD + 8, 5 * 2**30])
def test_a_recording_of_any_length_is_kept_at_once(tmp_path: Path, size: int) -> None:
    """Without its samples in memory, or written again; beyond 4 GiB as RF64, which libsndfile reads."""
    raw = tmp_path / ".talk.48000.speechctc-recording"
    raw.write_bytes(header(48000, 0) + b"\x00\x10")
    os.truncate(raw, HEAD + size + 1)
    used, place = os.stat(raw).st_blocks, raw.stat().st_ino
    tracemalloc.start()
    (path,) = recover(tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20 and path.stat().st_ino == place and os.stat(path).st_blocks <= used + 16
    about = soundfile.info(path)
    assert (about.frames, about.samplerate, about.channels) == (size // 2, 48000, 1)
    assert about.format == ("WAV" if size + HEAD - 8 < 2**32 else "RF64")
    samples, _ = soundfile.read(path, frames=2, dtype="int16")
    assert samples.tolist() == [4096, 0] and soundfile.read(path, start=size // 2 - 5)[0].tolist() == [0] * 5


def test_a_kill_while_a_recording_gets_its_name_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = tmp_path / ".talk.8000.speechctc-recording"
    for fault in ("link", "fsync", "write"):
        raw.write_bytes(header(8000, 0) + bytes(range(200)))

        def killed(*_: Any) -> Any:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(f"os.{fault}", killed)
            with suppress(KeyboardInterrupt):
                keep(raw)
        (path,) = recover(tmp_path)
        assert soundfile.read(path, dtype="int16")[0].tobytes() == bytes(range(200))
        path.unlink()
    for begun in (b"", header(8000, 0)[:50], header(8000, 0)):
        raw.write_bytes(begun)
        assert recover(tmp_path) == [] and not list(tmp_path.iterdir())


def test_the_sound_is_kept_before_a_slow_model_hears_it(tmp_path: Path, tiny_model: Path) -> None:
    """Blocks are acknowledged without it, and what it heard of them all becomes the labels."""
    write_song(tmp_path / "a.wav", SONG)
    samples, _ = sing(SONG, np.random.default_rng(3))
    with client_of(tmp_path, tiny_model) as (_, studio):
        studio.engine.ask("live_stop").result(60)
        ask, may_answer, wanted = studio.engine.ask, threading.Event(), list[str]()

        def slow(what: str, *arguments: Any) -> Any:
            wanted.append(what)
            may_answer.wait(60)
            return ask(what, *arguments)

        studio.engine.ask = slow  # type: ignore[method-assign, assignment]
        microphone = Microphone(studio)
        name = microphone.start(16000)["name"]
        for first in range(0, len(samples), 4000):
            block = samples[first : first + 4000].astype("<f4").tobytes()
            assert microphone.block(block, name, first) == microphone.block(block, name, first) == {"phones": []}
        with pytest.raises(InputError, match="did not arrive"):
            microphone.block(block, name, len(samples) + 1)
        with pytest.raises(InputError, match="other.wav was ended"):
            microphone.block(block, "other.wav", 0)
        (raw,) = tmp_path.glob(".*speechctc-recording")
        assert raw.stat().st_size == HEAD + 2 * len(samples)
        assert microphone.stop(name)["name"] == name and soundfile.info(tmp_path / name).frames == len(samples)
        assert "recognise" not in wanted and not studio.folder.document(name).phones
        may_answer.set()
        wait_for(lambda: studio.folder.document(name, again=True).phones)
        assert [phone.label for phone in studio.folder.document(name).phones] == SONG


def test_a_recording_whose_page_is_gone_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When another begins, or the studio ends."""
    write_song(tmp_path / "a.wav", SONG)
    block = np.full(800, 0.25, "<f4").tobytes()
    with client_of(tmp_path) as (_, studio):
        microphone = Microphone(studio)
        first = microphone.start(8000)["name"]
        microphone.block(block)
        with pytest.raises(InputError, match="another page"):
            microphone.start(8000)
        monkeypatch.setattr("speechctc.studio.microphone.SILENT", 0.0)
        second = microphone.start(8000)["name"]
        with pytest.raises(InputError, match="was ended"):
            microphone.block(block, first, 800)
        microphone.block(block, second, 0)
        assert microphone.close() == tmp_path / second and microphone.close() is None
    assert [soundfile.info(tmp_path / name).frames for name in (first, second)] == [800, 800]
    assert not list(tmp_path.glob(".*recording"))


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_a_killed_process_leaves_no_decoded_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str) -> None:
    """Where a copy needs a name, the next studio removes it; and neither one in use nor what another program made."""
    if system == "linux" and sys.platform != "linux":
        pytest.skip("needs Linux")
    monkeypatch.setattr(sys, "platform", system)
    copies = tmp_path / "tmp"
    copies.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(copies))
    path = tmp_path / "a.flac"
    soundfile.write(path, sing(SONG, np.random.default_rng(0))[0], 16000)
    sound = Waveform(path)
    assert len(list(copies.iterdir())) == (system != "linux")
    kept = copies / "speechctc-0.wav"
    kept.write_bytes(b"another program's")
    (copies / "speechctc-studio-link.wav").symlink_to(kept)
    left = copies / "speechctc-studio-left.wav"
    left.write_bytes(b"a killed studio's")
    remove_copies()
    assert left.exists()
    remove_copies(0)
    assert not left.exists() and kept.exists() and np.abs(sound.read(0, sound.frames)).max() > 0.01
    sound.close()
    assert sorted(each.name for each in copies.iterdir()) == ["speechctc-0.wav", "speechctc-studio-link.wav"]


def test_the_studio_ends_although_the_disk_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_labelled(tmp_path / "a.wav", ["a", "b"])
    with client_of(tmp_path) as (_, studio):
        document = studio.folder.document("a.wav")
        answers = threading.Event()
        monkeypatch.setattr(document, "write_grid", answers.wait)
        assert not studio.close(0.1)
        answers.set()
        assert studio.close(60)


@pytest.mark.parametrize("links", [True, False])
def test_a_name_that_is_taken_meanwhile_is_not_taken_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    raw = tmp_path / ".talk.8000.speechctc-recording"
    raw.write_bytes(header(8000, 0) + bytes(200))
    (tmp_path / "talk.wav").write_bytes(b"mine")
    link = os.link

    def taken(source: Path, path: Path) -> None:
        if not links:
            raise OSError(95, "Operation not supported")
        if path.name == "talk-2.wav":
            path.write_bytes(b"mine, too")
        link(source, path)

    monkeypatch.setattr("os.link", taken)
    assert recover(tmp_path) == [tmp_path / ("talk-3.wav" if links else "talk-2.wav")] and not raw.exists()
    assert (tmp_path / "talk.wav").read_bytes() == b"mine"
    assert not links or (tmp_path / "talk-2.wav").read_bytes() == b"mine, too"
