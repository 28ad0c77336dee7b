"""Lets only the page that the studio opened speak to its server: token, host, origin, and a content security policy."""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' blob:",
        "media-src 'self'",
        "connect-src 'self'",
        "worker-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
NAMES = ("127.0.0.1", "localhost")


class Guard:
    """Refuses requests without the token, of another host, or from another origin.

    The token is in the address that the studio prints; the answer to it sets a cookie, which the other requests carry.

    Parameters
    ----------
    app : ASGIApp
    port : int
    token : str, optional
        Random by default.
    """

    def __init__(self, app: ASGIApp, port: int, token: str | None = None) -> None:
        self.app, self.port = app, port
        self.token = token or secrets.token_urlsafe(24)
        self._cookie = f"speechctc-{port}"
        self._hosts = {f"{name}:{port}" for name in NAMES}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request that is allowed."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        given = self._token_in_address(scope)
        problem = self._problem(scope, given)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if given and not problem:
                    cookie = f"{self._cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
                    headers.append("Set-Cookie", cookie)
            await send(message)

        app = PlainTextResponse(problem, 403) if problem else self.app
        await app(scope, receive, send_guarded)

    def _problem(self, scope: Scope, given: str) -> str:
        """Return why a request is refused, or ``""``."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host not in self._hosts:
            return "refused: the address is not the studio's own\n"
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return "refused: another page may not use the studio\n"
        site = headers.get("sec-fetch-site", "none")
        if site not in ("same-origin", "none") and not given:
            return "refused: another page may not use the studio\n"
        token = given or self._token_in_cookie(headers)
        if not hmac.compare_digest(token.encode("utf-8"), self.token.encode("utf-8")):
            return "refused: open the address that speechctc studio printed; it holds a token\n"
        return ""

    def _token_in_address(self, scope: Scope) -> str:
        """Return the token of the address, which only the page itself may have."""
        if scope["path"] != "/" or scope["method"] not in ("GET", "HEAD"):
            return ""
        values = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])
        return str(values[0])

    def _token_in_cookie(self, headers: Headers) -> str:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return ""
        return str(cookies[self._cookie].value) if self._cookie in cookies else ""
