"""What the server writes to standard error: warnings, failures, and on demand a line per request, as text or JSON."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any, Literal, get_args

from starlette.types import Scope

Log = Literal["off", "text", "json"]  # of requests; "json" is for failures too
LOGS: tuple[Log, ...] = get_args(Log)

_ACCESS = logging.getLogger("transher.access")


class _Structured(logging.Formatter):
    """A JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told)


def start_logging(form: Log) -> None:
    """Warnings and failures always; requests unless `form` is off."""
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(_Structured() if form == "json" else plain)
    for name, level in (("uvicorn.error", logging.WARNING), ("transher.access", logging.INFO)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    _ACCESS.disabled = form == "off"


def log_request(scope: Scope, status: int, seconds: float, sent: int) -> None:
    """The path as it came over the wire, where it has no control characters; a token is in no path."""
    if _ACCESS.disabled or not _ACCESS.handlers:
        return
    client = (scope["client"] or ("", 0))[0]
    path = scope.get("raw_path", b"").decode("latin-1")
    query = scope["query_string"].decode("latin-1")
    fields = {
        "client": client,
        "method": scope["method"],
        "path": path,
        "query": query,
        "status": status,
        "milliseconds": round(1000 * seconds, 3),
        "bytes": sent,
    }
    asked = f"{path}?{query}" if query else path
    line = f"{client} {scope['method']} {asked} {status} {sent} bytes {fields['milliseconds']:.1f} ms"
    _ACCESS.info("%s", line.encode("ascii", "backslashreplace").decode(), extra={"fields": fields})
