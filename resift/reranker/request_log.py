"""Lines of logs and bodies of errors, each with the id of its request."""

from __future__ import annotations

import json
import logging
import time
import traceback
from typing import Any

from resift.contracts.engine import REQUEST_ID

_TEXT = "[%(asctime)s] [%(process)d] [%(levelname)s] %(message)s"

_CODES = {
    404: "no_such_path",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    500: "internal_error",
}

log = logging.getLogger(__name__)


def identified(error: dict[str, Any], id: str | None = None) -> dict[str, Any]:
    """The body of an answer that is an ``error``, with the id of the request: the one at hand, unless it is given."""
    return {"error": {**error, "request_id": id or REQUEST_ID.get()}}


def http_error(status: int, name: str, path: str, max_body: int) -> dict[str, Any]:
    """The body of an answer with a ``status`` of this ``name`` to a request for ``path``."""
    expected = f"at most {max_body} bytes" if status == 413 else "see /openapi.json"
    code = _CODES.get(status, "http_error")
    return {"error": {"code": code, "message": name, "value": path, "expected": expected}}


class JsonLines(logging.Formatter):
    """A log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """``time`` (UTC), ``level``, ``logger``, ``message``, and ``request_id`` and ``trace`` where there are any."""
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if (id := _id_of(record)) is not None:
            line["request_id"] = id
        if record.exc_info:
            line["trace"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """A log record as text, as gunicorn writes it, with the request's id at the end of its first line."""

    def __init__(self) -> None:
        super().__init__(_TEXT, "%Y-%m-%d %H:%M:%S %z")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """The first line."""
        line, id = super().formatMessage(record), _id_of(record)
        return line if id is None else f"{line} [request {id}]"


def _id_of(record: logging.LogRecord) -> str | None:
    """The id of the request that a record is of; what another thread says of a request names it."""
    id: str | None = getattr(record, "request_id", None) or REQUEST_ID.get()
    return id


def formatter(kind: str) -> logging.Formatter:
    """How lines look in logs of a ``kind``, ``text`` or ``json``."""
    return JsonLines() if kind == "json" else TextLines()


def log_to_stderr(kind: str) -> None:
    """Write what this process logs to standard error; as JSON with a line for each request."""
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(kind))
    logging.getLogger().addHandler(handler)
    # opensearch-py's own lines tell of each attempt by its trace; what came of them all is an error of ours
    logging.getLogger("opensearch").propagate = False
    if kind == "json":
        log.setLevel(logging.INFO)
