"""Folders, documents and servers of the studio for its tests; the model is in a thread instead of a process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from speechctc.audio.annotations import Interval, textgrid_text
from speechctc.studio.engine import serve
from speechctc.studio.journal import Phone
from speechctc.studio.microphone import Microphone
from speechctc.studio.server import HEADER, Guard, build_app
from speechctc.studio.studio import Studio
from tests.tiny_model import write_song

PORT = 8000
SONG = ["low", "mid", "top", "high", "low", "top", "mid", "high"]


def launch_thread(pipe: Connection, model: Path | None) -> threading.Thread:
    thread = threading.Thread(target=serve, args=(pipe, model), daemon=True)
    thread.start()
    return thread


def launch_nothing(pipe: Connection, model: Path | None) -> threading.Thread:
    """Stand for a model that is still being loaded."""
    thread = threading.Thread(target=threading.Event().wait, daemon=True)
    thread.start()
    thread.pipe = pipe  # type: ignore[attr-defined]  # stays open
    return thread


@contextmanager
def client_of(folder: Path, model: Path | None = None) -> Iterator[tuple[TestClient, Studio]]:
    """Serve a folder; without a model, none is ever loaded."""
    studio = Studio(folder, model, launch_thread if model else launch_nothing)
    app = Guard(build_app(studio, Microphone(studio)), PORT, "secret")
    try:
        studio.folder.wait()
        with TestClient(app, base_url=f"http://127.0.0.1:{PORT}") as client:
            client.headers[HEADER] = "secret"
            yield client, studio
    finally:
        studio.close()


def write_labelled(path: Path, labels: list[str], seed: int = 0, **tiers: list[Interval]) -> list[Phone]:
    """Write a recording of tones and a TextGrid as a person makes it; return its phones."""
    times = write_song(path, SONG[: len(labels)], seed)
    phones = [Phone(round(start, 4), round(end, 4), label) for (start, end), label in zip(times, labels, strict=True)]
    intervals = [Interval(phone.start, phone.end, phone.label) for phone in phones]
    grid = textgrid_text(times[-1][1] + 0.04, {**tiers, "phones": intervals})
    path.with_suffix(".TextGrid").write_text(grid, encoding="utf-16")
    return phones


def post(client: TestClient, route: str, name: str, **body: Any) -> Any:
    """Send a request of the page; return the answer's status and its JSON."""
    answer = client.post(f"/api/{route}", params={"recording": name}, json=body)
    return answer.status_code, answer.json()
