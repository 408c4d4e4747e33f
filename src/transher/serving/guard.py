"""What stands before every request: its host, its token, its client, its size; behind it: headers and a count."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import time
from contextlib import AbstractContextManager, nullcontext

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transher.serving.admission import Admission, RefusedError
from transher.serving.metrics import RequestCounters

BODY = 256 * 1024  # bytes
_BODY_SECONDS = 10.0
_OPEN = {"/api/health"}  # without a token; so is the page, which holds no data
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """Refuses early and cheaply; all it lets through is bounded."""

    def __init__(self, app: ASGIApp, metrics: RequestCounters, token: str | None, loopback_only: bool) -> None:
        self.app, self.metrics = app, metrics
        self._token = token.encode() if token else None
        self._loopback_only = loopback_only
        self._admission = Admission()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if scope["path"].startswith("/api") and "cache-control" not in headers:
                    headers["cache-control"] = "no-store"
            await send(message)

        try:
            self._check(scope)
            with self._admitted(scope):
                await self.app(scope, await self._bounded(scope, receive), send_with_headers)
        except RefusedError as refused:
            await _answer(refused, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", None) or "other"
            self.metrics.observe(route, status, time.perf_counter() - start)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if self._loopback_only:
            # A page elsewhere can point a name of its own at 127.0.0.1 and read what it finds there.
            host = headers.get("host", "")
            name = host[: host.find("]") + 1] if host.startswith("[") else host.rsplit(":", 1)[0]
            if not is_loopback(name):
                raise RefusedError(421, "This server answers only to localhost.")
        if self._token and scope["path"].startswith("/api") and scope["path"] not in _OPEN:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token):
                raise RefusedError(401, "Give the token that the server was started with, as a bearer token.")

    def _admitted(self, scope: Scope) -> AbstractContextManager[None]:
        """Who watches over the server is let in when it is full too."""
        if scope["path"] in _OPEN and scope["method"] == "GET":
            return nullcontext()
        address, _ = scope["client"] or ("", 0)
        return self._admission.of(address)

    async def _bounded(self, scope: Scope, receive: Receive) -> Receive:
        """The body is read here, so that neither its size nor its slowness reaches what is behind."""
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            return receive
        length = Headers(scope=scope).get("content-length", "0")
        if length.isdigit() and int(length) > BODY:
            raise RefusedError(413, f"The body may have {BODY:,} bytes.")
        body = b""
        try:
            async with asyncio.timeout(_BODY_SECONDS):
                more = True
                while more:
                    message = await receive()
                    body += message.get("body", b"")
                    if len(body) > BODY:
                        raise RefusedError(413, f"The body may have {BODY:,} bytes.")
                    more = message.get("more_body", False)
        except TimeoutError:
            raise RefusedError(408, f"The body did not come within {_BODY_SECONDS:g} seconds.") from None
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        return replay


async def _answer(refused: RefusedError, send: Send) -> None:
    body = json.dumps({"reason": str(refused), "suggestions": []}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refused.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refused.retry_after is not None:
        headers.append((b"retry-after", str(refused.retry_after).encode()))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
