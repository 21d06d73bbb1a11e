"""The one tree of errors. Each carries a stable code, an HTTP status, the offending value and what was expected."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ResiftError(Exception):
    """Base of every error that Resift raises on purpose.

    ``code`` is stable across versions and is what clients should test; ``status`` is the HTTP status that the
    reranker answers with.
    """

    code = "internal_error"
    status = 500

    def __init__(self, message: str, *, value: Any = None, expected: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        """The message, and, where it does not say so itself, the value and what was expected."""
        parts = []
        if self.value is not None and not _quotes(self.message, self.value):
            parts.append(f"got {shorten(self.value)!r}")
        if self.expected is not None and self.expected not in self.message:
            parts.append(f"expected {self.expected}")
        return f"{self.message} ({'; '.join(parts)})" if parts else self.message

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: ``code``, ``message``, and ``value`` and ``expected`` where they are known."""
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.value is not None:
            body["value"] = shorten(self.value)
        if self.expected is not None:
            body["expected"] = self.expected
        return body


def shorten(value: Any, limit: int = 200) -> Any:
    """``value`` as something JSON can hold, texts cut at ``limit`` characters."""
    if isinstance(value, (int, bool)):
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _quotes(message: str, value: Any) -> bool:
    """Whether a message has a value in it, or everything that a list holds."""
    if isinstance(value, (list, tuple)) and value:
        return all(_quotes(message, one) for one in value)
    return re.search(rf"(?<!\w){re.escape(str(shorten(value)))}(?!\w)", message) is not None


class BadInput(ResiftError, ValueError):
    """A value that the caller gave is not of the expected form."""

    code, status = "bad_input", 400


class MalformedJson(BadInput):
    """The request's body is not JSON, or holds NaN or Infinity, which JSON has not."""

    code = "malformed_json"


class TextTooLong(BadInput):
    """A text or a whole request is larger than the configured limit."""

    code, status = "too_large", 413


class DimensionMismatch(BadInput):
    """A vector has another number of dimensions than the model."""

    code = "dimension_mismatch"


class UnsupportedQuery(BadInput):
    """The embedded engine does not know this part of the query language."""

    code = "unsupported_query"


class AmbiguousDocument(BadInput):
    """An id is named that several indices have, and nothing says which of them is meant."""

    code = "ambiguous_document"


class UnsupportedCluster(BadInput):
    """What answers is not OpenSearch, or a version of it that is too old."""

    code, status = "unsupported_cluster", 503


class UnsupportedMediaType(BadInput):
    """The request's Content-Type is not JSON's, which pages of other sites could send unasked."""

    code, status = "unsupported_media_type", 415


class Unauthorized(ResiftError):
    """The request has no API key, or one that is not known."""

    code, status = "unauthorized", 401


class Forbidden(ResiftError):
    """The API key lacks the scope that the endpoint needs."""

    code, status = "forbidden", 403


class ClauseNotAllowed(Forbidden):
    """A part of a search that is not on the list of what may be asked, for a caller who is held to it."""

    code = "clause_not_allowed"


class IndexNotServed(ResiftError):
    """The index is none of those that are served."""

    code, status = "index_not_served", 403


class HostNotAllowed(ResiftError):
    """The request was sent to a name of this server that is not allowed."""

    code, status = "host_not_allowed", 403


class OriginNotAllowed(ResiftError):
    """A page of another site asked for a change."""

    code, status = "origin_not_allowed", 403


class MissingExtra(ResiftError, ImportError):
    """An optional package is needed; the message names the pip extra."""

    code, status = "missing_extra", 501


class NotFound(ResiftError, LookupError):
    """Something that was named does not exist."""

    code, status = "not_found", 404


class IndexNotFound(NotFound):
    """No index of that name."""

    code = "index_not_found"


class ModelNotFound(NotFound):
    """No model or word vectors of that name or at that path."""

    code = "model_not_found"


class SessionNotFound(NotFound):
    """No session of that name, or it has expired."""

    code = "session_not_found"


class RequestTimeout(ResiftError):
    """A request did not come completely within its time."""

    code, status = "request_timeout", 408


class DeadlineExceeded(ResiftError):
    """A request was not answered within its time."""

    code, status = "deadline_exceeded", 503


class Interrupted(ResiftError):
    """A stop was requested before all was done; the message says how to go on."""

    code, status = "interrupted", 503


class TooBusy(ResiftError):
    """So much is asked at once that the request was not begun; it may be sent again a little later."""

    code, status = "too_busy", 503


class SessionBusy(ResiftError):
    """A session was changed by others all the time; nothing was written."""

    code, status = "session_busy", 409


class SessionsUnavailable(ResiftError):
    """The store of the sessions does not answer, or refuses."""

    code, status = "sessions_unavailable", 503


class SessionDamaged(SessionsUnavailable):
    """What is stored of one session is none; others are in order."""

    code, status = "session_damaged", 409


class QuotaExceeded(ResiftError):
    """An API key has stored as much as it may in a day. ``seconds``: how long until it may store more."""

    code, status = "quota_exceeded", 429

    def __init__(self, message: str, *, seconds: int = 86_400, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.seconds = seconds


class ModelMismatch(ResiftError):
    """The index's vectors were made by another model than the one at work."""

    code, status = "model_mismatch", 409


class CorruptModel(ResiftError):
    """A saved model or vector folder is damaged: its content does not have the recorded hash or shape."""

    code = "corrupt_model"


class EngineError(ResiftError):
    """The engine refused a request; ``status`` is what the engine answered."""

    code = "engine_error"

    def __init__(self, message: str, *, status: int = 503, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.status = status


class EngineUnavailable(ResiftError):
    """The engine did not answer."""

    code, status = "engine_unavailable", 503


class TeacherUnavailable(ResiftError):
    """What was to give texts vectors, to learn from, did not answer, or answered something else."""

    code, status = "teacher_unavailable", 503


class CorruptEngine(EngineUnavailable):
    """The embedded engine's file is damaged; trying again does not help."""

    code = "corrupt_engine"


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Turn an ImportError of the block into a MissingExtra that says which extra to install.

    ``purpose`` begins the message: "``purpose`` needs ``package``: pip install 'resift[``extra``]'".
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or "a package").partition(".")[0]
        raise MissingExtra(f"{purpose} needs {package}: pip install 'resift[{extra}]'") from error


def at_least(least: int, settings: object, *names: str) -> None:
    """Raise BadInput where a setting of these names is less than ``least``, or not finite; None is let pass."""
    for name in names:
        value = getattr(settings, name)
        if value is not None and not least <= value < math.inf:
            raise BadInput(f"{name} is {value}", value=value, expected=f"{least} or more")
