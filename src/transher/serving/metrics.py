"""Counters in Prometheus' text format: requests by route and status, seconds by route, what is waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
STATUSES = (200, 304, 307, 400, 401, 403, 404, 405, 408, 409, 413, 421, 422, 429, 500, 503)
OTHER = "other"  # routes and statuses that have no place of their own
_CELLS = len(STATUSES) + 1 + len(BOUNDS) + 1  # counts by status, then by time, then seconds


class RequestCounters:
    """Written by the event loop alone, so that no lock is needed. Processes that serve together each write a row of
    their own of one table in shared memory, and any of them tells the sum."""

    def __init__(self, routes: Sequence[str], rows: NDArray[np.float64] | None = None, own: int = 0) -> None:
        """rows: (processes, `size(routes)`), of which this process writes row `own`."""
        self._routes = {route: place for place, route in enumerate((*routes, OTHER))}
        self._rows = np.zeros((1, self.size(routes))) if rows is None else rows
        self._own = self._rows[own].reshape(-1, _CELLS)

    @staticmethod
    def size(routes: Sequence[str]) -> int:
        return (len(routes) + 1) * _CELLS

    def observe(self, route: str, status: int, seconds: float) -> None:
        cells = self._own[self._routes.get(route, self._routes[OTHER])]
        cells[STATUSES.index(status) if status in STATUSES else len(STATUSES)] += 1
        cells[len(STATUSES) + 1 : -1] += seconds <= np.array(BOUNDS)
        cells[-1] += seconds

    def text(self, gauges: Mapping[str, float]) -> str:
        table = self._rows.sum(0).reshape(-1, _CELLS)
        seen = [(route, table[place]) for route, place in sorted(self._routes.items())]
        seen = [(route, cells) for route, cells in seen if cells[: len(STATUSES) + 1].any()]
        lines = ["# HELP transher_requests_total Answered requests.", "# TYPE transher_requests_total counter"]
        for route, cells in seen:
            for status, count in zip((*STATUSES, OTHER), cells, strict=False):
                if count:
                    lines.append(f'transher_requests_total{{route="{route}",status="{status}"}} {count:.0f}')
        lines += ["# HELP transher_request_seconds Time to answer.", "# TYPE transher_request_seconds histogram"]
        for route, cells in seen:
            total = cells[: len(STATUSES) + 1].sum()
            for bound, count in zip(BOUNDS, cells[len(STATUSES) + 1 :], strict=False):
                lines.append(f'transher_request_seconds_bucket{{route="{route}",le="{bound}"}} {count:.0f}')
            lines.append(f'transher_request_seconds_bucket{{route="{route}",le="+Inf"}} {total:.0f}')
            lines.append(f'transher_request_seconds_sum{{route="{route}"}} {cells[-1]:.6f}')
            lines.append(f'transher_request_seconds_count{{route="{route}"}} {total:.0f}')
        for name, value in gauges.items():
            lines += [f"# TYPE transher_{name} gauge", f"transher_{name} {value:g}"]
        return "\n".join(lines) + "\n"
