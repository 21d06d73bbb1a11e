"""Log formatters and the format of error responses. Both include the request's id."""

from __future__ import annotations

import json
import logging
import time
import traceback
from typing import Any

from resift.contracts.engine import REQUEST_ID
from resift.errors import shorten

_TEXT = "[%(asctime)s] [%(process)d] [%(levelname)s] %(message)s"
_MAX_MESSAGE = 10_000
"""Maximum number of characters of a log message. Messages may quote texts of a request, which can be long."""
_ESCAPES = {ord(character): repr(character)[1:-1] for character in map(chr, [*range(32), *range(127, 160), 8232, 8233])}
"""Escape sequences for control characters and line breaks in log messages.

Messages may quote texts of a request. With a line break, a caller could write lines that look like other messages.
"""

_CODES = {
    404: "no_such_path",
    405: "method_not_allowed",
    413: "too_large",
    415: "unsupported_media_type",
    500: "internal_error",
}

log = logging.getLogger(__name__)
"""Logs one line per request, if the service logs as JSON."""


def error_body(error: dict[str, Any], id: str | None = None) -> dict[str, Any]:
    """Return the JSON body of an error response: the error, with the id of the request.

    Args:
        error: The error's ``code`` and ``message``, and optionally ``value`` and ``expected``.
        id: The id of the request. By default, the id of the request that the service is answering in this context.
    """
    return {"error": {**error, "request_id": id or REQUEST_ID.get()}}


def http_error(status: int, name: str, path: str, max_body: int) -> dict[str, Any]:
    """Return the description of an HTTP error, such as 404, in the format of this service's errors.

    Args:
        status: The HTTP status, such as 413.
        name: The name of the status, such as "Request Entity Too Large".
        path: The path of the request.
        max_body: The maximum size of a request body, in bytes.

    Returns:
        The error's ``code``, ``message``, ``value`` and ``expected``, for :func:`error_body`.
    """
    expected = f"at most {max_body} bytes" if status == 413 else "see /openapi.json"
    code = _CODES.get(status, "http_error")
    return {"code": code, "message": name, "value": path, "expected": expected}


class JsonLines(logging.Formatter):
    """A formatter that writes a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a log record as a line of JSON with ``time`` (UTC), ``level``, ``logger`` and ``message``.

        The line also contains ``request_id`` if the record belongs to a request, and ``trace`` if it has an exception.

        Args:
            record: The log record.
        """
        seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "time": f"{seconds}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": shorten(record.getMessage(), _MAX_MESSAGE),
            **getattr(record, "fields", {}),
        }
        if (id := _request_id_of(record)) is not None:
            line["request_id"] = id
        if record.exc_info:
            line["trace"] = "".join(traceback.format_exception(*record.exc_info))
        return json.dumps(line, default=str)


class TextLines(logging.Formatter):
    """A log formatter that writes lines of text in the style of gunicorn.

    If a record belongs to a request, the id of the request is added at the end of the first line.
    """

    def __init__(self) -> None:
        super().__init__(_TEXT, "%Y-%m-%d %H:%M:%S %z")

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the message of a log record as a single line, with the id of the request if there is one."""
        record.message = shorten(record.message, _MAX_MESSAGE).translate(_ESCAPES)
        line, id = super().formatMessage(record), _request_id_of(record)
        return line if id is None else f"{line} [request {id}]"


def _request_id_of(record: logging.LogRecord) -> str | None:
    """Return the id of the HTTP request during which a log record was created, or None if there was no request.

    In records from background threads, the id is the attribute ``request_id``.
    """
    id: str | None = getattr(record, "request_id", None) or REQUEST_ID.get()
    return id


def log_formatter(kind: str) -> logging.Formatter:
    """Return the formatter that writes log records in a log format.

    Args:
        kind: The log format, ``text`` or ``json``.
    """
    return JsonLines() if kind == "json" else TextLines()


def log_to_stderr(kind: str) -> None:
    """Write the log of this process to standard error.

    Args:
        kind: The log format, ``text`` or ``json``. The format ``json`` also writes a line for each request.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(log_formatter(kind))
    logging.getLogger().addHandler(handler)
    # opensearch-py logs each failed attempt with a stack trace. If all attempts fail, Resift raises its own error.
    logging.getLogger("opensearch").propagate = False
    if kind == "json":
        log.setLevel(logging.INFO)
