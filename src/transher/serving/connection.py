"""A client's connection, with a limit on how long it may take to send a request.

uvicorn's clock for idle connections stops at the first byte that comes, so that a client that sends a byte now and then
keeps a connection for ever.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 15.0  # for head and body; the body alone has less: see `guard`
_REASON = b'{"reason": "The request did not come in time.", "suggestions": []}'
_TOO_SLOW = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-type: application/json\r\n"
    b"content-length: %d\r\n\r\n%s" % (len(_REASON), _REASON)
)


class Connection(H11Protocol):
    """The clock runs from the first byte of a request, or from the connection's start, to the request's last byte."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_clock()
        super().connection_lost(exc)

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
