"""A client's connection, with limits on how long it may take to send a request and to read the answer, and on how many
there are.

uvicorn's clock for idle connections stops at the first byte that comes, so that a client that sends a byte now and then
keeps a connection for ever; and it waits without end for a client that does not read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from transher.serving.guard import TrustedProxies

SECONDS = 15.0  # for head and body; the body alone has less: see `guard`
UNREAD_SECONDS = 10.0  # for an answer to be read, but for what a buffer holds: some 5 kB a second at the least
CONNECTIONS, OF_ONE_ADDRESS = 1000, 250  # the latter but for proxies that are trusted: they speak for many


def _answer(status: bytes, reason: bytes, more: bytes = b"") -> bytes:
    """A whole answer, for where no request has come as far as the application."""
    body = b'{"reason": "%s", "suggestions": []}' % reason
    head = b"HTTP/1.1 %s\r\nconnection: close\r\ncontent-type: application/json\r\n%scontent-length: %d\r\n\r\n"
    return head % (status, more, len(body)) + body


_TOO_SLOW = _answer(b"408 Request Timeout", b"The request did not come in time.")
_TOO_MANY = _answer(
    b"503 Service Unavailable", b"Too many connections are open: try again in a second.", b"retry-after: 1\r\n"
)


class Connection(H11Protocol):
    """One clock runs from the first byte of a request, or from the connection's start, to the request's last byte;
    another while the client lets the answer lie."""

    open: ClassVar[Counter[str]] = Counter()  # connections by address
    trusted: ClassVar[TrustedProxies]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._clock: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._address = ""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self.open[self._address] += 1
        of_one = self.open[self._address] > OF_ONE_ADDRESS and self._address not in self.trusted
        if of_one or self.open.total() > CONNECTIONS:
            transport.write(_TOO_MANY)
            transport.close()
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        self._has_read()
        self.open[self._address] -= 1
        if not self.open[self._address]:
            del self.open[self._address]
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._has_read()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait_for_reader()  # of the last piece too: a transport that closes waits for it

    def _watch(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._stop_clock()
        elif self._clock is None:
            self._clock = self.loop.call_later(SECONDS, self._give_up)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _give_up(self) -> None:
        if self.conn.our_state is h11.IDLE:  # no answer has begun
            self.transport.write(_TOO_SLOW)
        self.transport.close()

    def _wait_for_reader(self) -> None:
        if self._unread is None and self.transport.get_write_buffer_size():
            self._unread = self.loop.call_later(UNREAD_SECONDS, self._give_up_reader)

    def _has_read(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _give_up_reader(self) -> None:
        self._unread = None
        if self.transport.get_write_buffer_size():
            self.transport.abort()
