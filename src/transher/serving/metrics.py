"""Counters in Prometheus' text format: requests by route and status, seconds by route, what is waiting."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class RequestCounters:
    """Written by the event loop alone, so that no lock is needed."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = defaultdict(lambda: [0] * len(BOUNDS))
        self._seconds: dict[str, float] = defaultdict(float)
        self._counts: Counter[str] = Counter()

    def observe(self, route: str, status: int, seconds: float) -> None:
        self._requests[route, status] += 1
        self._counts[route] += 1
        self._seconds[route] += seconds
        for place, bound in enumerate(BOUNDS):
            self._buckets[route][place] += seconds <= bound

    def text(self, gauges: Mapping[str, float]) -> str:
        lines = ["# HELP transher_requests_total Answered requests.", "# TYPE transher_requests_total counter"]
        for (route, status), count in sorted(self._requests.items()):
            lines.append(f'transher_requests_total{{route="{route}",status="{status}"}} {count}')
        lines += ["# HELP transher_request_seconds Time to answer.", "# TYPE transher_request_seconds histogram"]
        for route, buckets in sorted(self._buckets.items()):
            for bound, count in zip(BOUNDS, buckets, strict=True):
                lines.append(f'transher_request_seconds_bucket{{route="{route}",le="{bound}"}} {count}')
            lines.append(f'transher_request_seconds_bucket{{route="{route}",le="+Inf"}} {self._counts[route]}')
            lines.append(f'transher_request_seconds_sum{{route="{route}"}} {self._seconds[route]:.6f}')
            lines.append(f'transher_request_seconds_count{{route="{route}"}} {self._counts[route]}')
        for name, value in gauges.items():
            lines += [f"# TYPE transher_{name} gauge", f"transher_{name} {value:g}"]
        return "\n".join(lines) + "\n"
