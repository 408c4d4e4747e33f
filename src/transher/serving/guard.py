"""What stands before every request: its host, its token, its client, its size; behind it: headers and a count."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import re
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from transher.errors import UsageError
from transher.serving.admission import Admission, RefusedError
from transher.serving.logs import log_request
from transher.serving.metrics import RequestCounters

BODY = 256 * 1024  # bytes
_BODY_SECONDS = 10.0
_OPEN = {"/api/health", "/api/ready"}  # without a token, and when the server is full
_PAGES = {"/api/docs"}  # without a token, as all that is not under /api: they hold no data
_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^\[\]:@/\s]+)(:[0-9]{1,5})?")
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


def host_name(header: str) -> str:
    """The name or address in a Host header, without its port; empty where it is not well formed."""
    found = _HOST.fullmatch(header)
    return found["name"] if found else ""


class TrustedProxies:
    """Addresses and networks whose word counts on whom a request comes from."""

    def __init__(self, addresses: Sequence[str] = ("127.0.0.1", "::1")) -> None:
        try:
            self._networks = [ipaddress.ip_network(address) for address in addresses]
        except ValueError as error:
            raise UsageError(f"a trusted proxy is an address or a network, as 10.0.0.0/8: {error}.") from None

    def __contains__(self, address: object) -> bool:
        try:
            own = ipaddress.ip_address(str(address))
        except ValueError:
            return False
        own = getattr(own, "ipv4_mapped", None) or own  # as a socket for both versions says it
        return any(own in network for network in self._networks)

    def client(self, scope: Scope) -> str:
        """Whom a request comes from: the last address that no trusted proxy has, of those that it went through."""
        address: str = (scope["client"] or ("", 0))[0]
        said = ",".join(value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for")
        for before in reversed([part.strip() for part in said.split(",") if part.strip()]):
            if address not in self:
                break
            address = before
        return address[:64]


class Guard:
    """Refuses early and cheaply; all it lets through is bounded."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: RequestCounters,
        token: str | None,
        loopback_only: bool,
        trusted: TrustedProxies,
    ) -> None:
        self.app, self.metrics, self._trusted = app, metrics, trusted
        self._token = token.encode() if token else None
        self._loopback_only = loopback_only
        self._admission = Admission()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status, sent = time.perf_counter(), 500, 0
        scope["client"] = (self._trusted.client(scope), (scope["client"] or ("", 0))[1])
        admitted = ExitStack()

        async def send_with_headers(message: Message) -> None:
            nonlocal status, sent
            sent += len(message.get("body", b""))
            if message["type"] == "http.response.start":
                admitted.close()  # the answer is there: a client that reads it slowly keeps nobody else waiting
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                if scope["path"].startswith("/api") and "cache-control" not in headers:
                    headers["cache-control"] = "no-store"
            await send(message)

        try:
            self._check(scope)
            with admitted:
                admitted.enter_context(self._admitted(scope))
                await self.app(scope, await self._bounded(scope, receive), send_with_headers)
        except RefusedError as refused:
            await _answer(refused, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", None) or "other"
            seconds = time.perf_counter() - start
            self.metrics.observe(route, status, seconds)
            log_request(scope, status, seconds, sent)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        if "content-length" in headers and "transfer-encoding" in headers:
            # A proxy may have read the one where this server reads the other: what follows would be another's request.
            raise RefusedError(400, "A request has a Content-Length or a Transfer-Encoding, and not both.")
        # A page elsewhere can point a name of its own at 127.0.0.1 and read what it finds there.
        if self._loopback_only and not is_loopback(host_name(headers.get("host", ""))):
            raise RefusedError(421, "This server answers only to localhost.")
        if self._token and scope["path"].startswith("/api") and scope["path"] not in _OPEN | _PAGES:
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
    if refused.status == 400:
        headers.append((b"connection", b"close"))
    if refused.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if refused.retry_after is not None:
        headers.append((b"retry-after", str(refused.retry_after).encode()))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
