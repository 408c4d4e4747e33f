"""Who is let in: so many requests at a time of one client, and so many of all together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

EACH = 32  # half of what the queue before the workers holds: one client alone cannot shut the others out
TOGETHER = 500


class RefusedError(Exception):
    """Why a request is not let in; `retry_after` is in seconds."""

    def __init__(self, status: int, reason: str, retry_after: int | None = None) -> None:
        super().__init__(reason)
        self.status, self.retry_after = status, retry_after


class Admission:
    """Counts the requests that are under way, by the address that they come from."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def of(self, client: str) -> Iterator[None]:
        """One request of a client, from its head to its answer."""
        if self._under_way[client] >= EACH:
            raise RefusedError(429, f"{EACH} of your requests are under way: wait for some of them.", retry_after=1)
        if self._under_way.total() >= TOGETHER:
            raise RefusedError(503, "Too many requests are under way: try again in a second.", retry_after=1)
        self._under_way[client] += 1
        try:
            yield
        finally:
            self._under_way[client] -= 1
            if not self._under_way[client]:
                del self._under_way[client]  # or every client would be kept in memory forever
