"""The connections to the studio's server: so few, and so briefly without a request, that nobody can use them all up.

Any user of the machine can connect, also without the token. What is opened must never lack the handles that saving a
correction needs.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 64  # connections at a time; a browser has six
HEAD_SECONDS = 5.0  # in which the head of a request must come
WAITING = 32  # connections that the system accepts before the server sees them


class Connection(H11Protocol):
    """A connection, which is closed if it brings no request; of too many, the one that has waited longest is."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection, in the place of one without a request if there are too many."""
        super().connection_made(transport)
        self._deadline: asyncio.TimerHandle | None = None
        self._expect_request()
        if len(self.connections) > MOST:
            idle = (each for each in self.connections if isinstance(each, Connection) and each._deadline is not None)
            min(idle, key=Connection._until, default=self)._give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._stop_expecting()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Take what has come; between requests, the next one has its time."""
        super().handle_events()
        if self.conn.their_state is not h11.IDLE:
            self._stop_expecting()
        elif self._deadline is None:
            self._expect_request()

    def on_response_complete(self) -> None:
        """Expect the next request."""
        super().on_response_complete()
        if self._deadline is None and not self.transport.is_closing():
            self._expect_request()

    def _expect_request(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_expecting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _until(self) -> float:
        return self._deadline.when() if self._deadline is not None else 0.0

    def _give_up(self) -> None:
        self._stop_expecting()
        self.connections.discard(self)
        self.transport.abort()


def run(app: ASGIApp, listening: socket.socket) -> None:
    """Answer requests until Ctrl-C."""
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # a line for each connection that it cannot accept
    more: dict[str, Any] = {"access_log": False, "timeout_graceful_shutdown": 3, "backlog": WAITING, "ws": "none"}
    uvicorn.Server(uvicorn.Config(app, http=Connection, log_level="error", **more)).run(sockets=[listening])
