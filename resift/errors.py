"""The one tree of errors. Each carries a stable code, an HTTP status, the offending value and what was expected."""

from __future__ import annotations

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

    def __init_subclass__(cls, code: str | None = None, status: int | None = None) -> None:
        cls.code, cls.status = code or cls.code, status or cls.status

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


class BadInput(ResiftError, ValueError, code="bad_input", status=400):
    """A value that the caller gave is not of the expected form."""


class MalformedJson(BadInput, code="malformed_json"):
    """The request's body is not JSON, or holds NaN or Infinity, which JSON has not."""


class TextTooLong(BadInput, code="too_large", status=413):
    """A text or a whole request is larger than the configured limit."""


class DimensionMismatch(BadInput, code="dimension_mismatch"):
    """A vector has another number of dimensions than the model."""


class UnsupportedQuery(BadInput, code="unsupported_query"):
    """The embedded engine does not know this part of the query language."""


class AmbiguousDocument(BadInput, code="ambiguous_document"):
    """An id is named that several indices have, and nothing says which of them is meant."""


class UnsupportedCluster(BadInput, code="unsupported_cluster", status=503):
    """What answers is not OpenSearch, or a version of it that is too old."""


class UnsupportedMediaType(BadInput, code="unsupported_media_type", status=415):
    """The request's Content-Type is not JSON's, which pages of other sites could send unasked."""


class Unauthorized(ResiftError, code="unauthorized", status=401):
    """The request has no API key, or one that is not known."""


class Forbidden(ResiftError, code="forbidden", status=403):
    """The API key lacks the scope that the endpoint needs."""


class ClauseNotAllowed(Forbidden, code="clause_not_allowed"):
    """A part of a search that is not on the list of what may be asked, for a caller who is held to it."""


class IndexNotServed(ResiftError, code="index_not_served", status=403):
    """The index is none of those that are served."""


class HostNotAllowed(ResiftError, code="host_not_allowed", status=403):
    """The request was sent to a name of this server that is not allowed."""


class OriginNotAllowed(ResiftError, code="origin_not_allowed", status=403):
    """A page of another site asked for a change."""


class MissingExtra(ResiftError, ImportError, code="missing_extra", status=501):
    """An optional package is needed; the message names the pip extra."""


class NotFound(ResiftError, LookupError, code="not_found", status=404):
    """Something that was named does not exist."""


class IndexNotFound(NotFound, code="index_not_found"):
    """No index of that name."""


class ModelNotFound(NotFound, code="model_not_found"):
    """No model or word vectors of that name or at that path."""


class SessionNotFound(NotFound, code="session_not_found"):
    """No session of that name, or it has expired."""


class RequestTimeout(ResiftError, code="request_timeout", status=408):
    """A request did not come completely within its time."""


class DeadlineExceeded(ResiftError, code="deadline_exceeded", status=503):
    """A request was not answered within its time."""


class Interrupted(ResiftError, code="interrupted", status=503):
    """A stop was requested before all was done; the message says how to go on."""


class TooBusy(ResiftError, code="too_busy", status=503):
    """So much is asked at once that the request was not begun; it may be sent again a little later."""


class SessionBusy(ResiftError, code="session_busy", status=409):
    """A session was changed by others all the time; nothing was written."""


class SessionsUnavailable(ResiftError, code="sessions_unavailable", status=503):
    """The store of the sessions does not answer, or refuses."""


class SessionDamaged(SessionsUnavailable, code="session_damaged", status=409):
    """What is stored of one session is none; others are in order."""


class QuotaExceeded(ResiftError, code="quota_exceeded", status=429):
    """An API key has stored as much as it may in a day. ``seconds``: how long until it may store more."""

    def __init__(self, message: str, *, seconds: int = 86_400, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.seconds = seconds


class ModelMismatch(ResiftError, code="model_mismatch", status=409):
    """The index's vectors were made by another model than the one at work."""


class CorruptModel(ResiftError, code="corrupt_model"):
    """A saved model or vector folder is damaged: its content does not have the recorded hash or shape."""


class EngineError(ResiftError, code="engine_error"):
    """The engine refused a request; ``status`` is what the engine answered."""

    def __init__(self, message: str, *, status: int = 503, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.status = status


class EngineUnavailable(ResiftError, code="engine_unavailable", status=503):
    """The engine did not answer."""


class TeacherUnavailable(ResiftError, code="teacher_unavailable", status=503):
    """What was to give texts vectors, to learn from, did not answer, or answered something else."""


class CorruptEngine(EngineUnavailable, code="corrupt_engine"):
    """The embedded engine's file is damaged; trying again does not help."""


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
