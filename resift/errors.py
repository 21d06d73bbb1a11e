"""All errors that Resift raises on purpose, with stable codes and HTTP statuses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ResiftError(Exception):
    """Base class of all errors that Resift raises on purpose.

    Subclasses set their code and status as class arguments, as in
    ``class BadInput(ResiftError, code="bad_input", status=400)``.

    Args:
        message: A description of the error for people.
        value: The value that caused the error, if any.
        expected: A description of the values that would have been accepted.

    Attributes:
        code: An identifier of the type of error. It stays the same in future versions, so clients should compare codes
            rather than messages.
        status: The HTTP status of the response if the error occurs in the service.
    """

    code = "internal_error"
    status = 500

    def __init_subclass__(cls, code: str | None = None, status: int | None = None) -> None:
        cls.code = code or cls.code
        cls.status = status or cls.status

    def __init__(self, message: str, *, value: Any = None, expected: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.value = value
        self.expected = expected

    def __str__(self) -> str:
        """Return the message, followed by the value and the expected values unless the message contains them."""
        parts = []
        if self.value is not None and not _mentions(self.message, self.value):
            parts.append(f"got {shorten(self.value)!r}")
        if self.expected is not None and self.expected not in self.message:
            parts.append(f"expected {self.expected}")
        return f"{self.message} ({'; '.join(parts)})" if parts else self.message

    def to_dict(self) -> dict[str, Any]:
        """Return the error as a dictionary for JSON.

        The dictionary contains ``code`` and ``message``, and also ``value`` and ``expected`` if they are set.
        """
        body: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.value is not None:
            body["value"] = shorten(self.value)
        if self.expected is not None:
            body["expected"] = self.expected
        return body


def shorten(value: Any, limit: int = 200) -> Any:
    """Return a short form of a value that an error response can quote as JSON.

    Integers and booleans are returned unchanged. Other values are converted to strings, and long strings are cut.

    Args:
        value: The value to convert, of any type.
        limit: The maximum length of the string. If it is cut, a note is appended.
    """
    if isinstance(value, (int, bool)):
        return value
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


def _mentions(message: str, value: Any) -> bool:
    """Return whether a message contains a value, or all items of the value if the value is a list."""
    if isinstance(value, (list, tuple)) and value:
        return all(_mentions(message, item) for item in value)
    return re.search(rf"(?<!\w){re.escape(str(shorten(value)))}(?!\w)", message) is not None


class BadInput(ResiftError, ValueError, code="bad_input", status=400):
    """A value from the caller is invalid."""


class MalformedJson(BadInput, code="malformed_json"):
    """The request body is not valid JSON. NaN and Infinity are not valid either."""


class TextTooLong(BadInput, code="too_large", status=413):
    """A text or a request is larger than the configured limit."""


class DimensionMismatch(BadInput, code="dimension_mismatch"):
    """A vector has a different number of dimensions than the model."""


class UnsupportedQuery(BadInput, code="unsupported_query"):
    """The embedded engine does not support a part of the query."""


class AmbiguousDocument(BadInput, code="ambiguous_document"):
    """Several indices contain a document with the same id, and the request does not specify the index."""


class UnsupportedCluster(BadInput, code="unsupported_cluster", status=503):
    """The server is not OpenSearch, or its version is too old."""


class UnsupportedMediaType(BadInput, code="unsupported_media_type", status=415):
    """The request's Content-Type is not JSON.

    Browsers send other content types across sites without a CORS check, so the service refuses them.
    """


class Unauthorized(ResiftError, code="unauthorized", status=401):
    """The request has no API key, or an unknown API key."""


class Forbidden(ResiftError, code="forbidden", status=403):
    """The API key lacks the scope that the endpoint requires."""


class ClauseNotAllowed(Forbidden, code="clause_not_allowed"):
    """The search contains a clause that the allow-list for this caller does not include."""


class IndexNotServed(ResiftError, code="index_not_served", status=403):
    """The service is not configured to serve this index."""


class HostNotAllowed(ResiftError, code="host_not_allowed", status=403):
    """The request's Host header names a host that is not allowed."""


class OriginNotAllowed(ResiftError, code="origin_not_allowed", status=403):
    """A web page from another origin sent a request that would change data."""


class MissingExtra(ResiftError, ImportError, code="missing_extra", status=501):
    """An optional package is not installed. The message names the pip extra."""


class NotFound(ResiftError, LookupError, code="not_found", status=404):
    """A named resource does not exist."""


class IndexNotFound(NotFound, code="index_not_found"):
    """The index does not exist."""


class ModelNotFound(NotFound, code="model_not_found"):
    """No model or word vectors exist under this name or path."""


class SessionNotFound(NotFound, code="session_not_found"):
    """The session does not exist, or it has expired."""


class RequestTimeout(ResiftError, code="request_timeout", status=408):
    """The request did not arrive completely before its deadline."""


class DeadlineExceeded(ResiftError, code="deadline_exceeded", status=503):
    """The service could not process the request before its deadline."""


class Interrupted(ResiftError, code="interrupted", status=503):
    """The operation was stopped before it was complete. The message says how to resume it."""


class TooBusy(ResiftError, code="too_busy", status=503):
    """The service refused the request because of too many concurrent requests. Retry it later."""


class SessionBusy(ResiftError, code="session_busy", status=409):
    """Concurrent changes to the session prevented this change. Nothing was stored."""


class SessionsUnavailable(ResiftError, code="sessions_unavailable", status=503):
    """The session store does not answer, or it refuses the request."""


class SessionDamaged(SessionsUnavailable, code="session_damaged", status=409):
    """The stored session is corrupt. Other sessions are not affected."""


class QuotaExceeded(ResiftError, code="quota_exceeded", status=429):
    """The API key has reached its daily limit of stored data.

    Args:
        message: A description of the error for people.
        seconds: The number of seconds until the API key may store data again.
        **rest: Optionally ``value``, the value that caused the error, and ``expected``, a description of valid values.
    """

    def __init__(self, message: str, *, seconds: int = 86_400, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.seconds = seconds


class ModelMismatch(ResiftError, code="model_mismatch", status=409):
    """The vectors in the index were made by a different model than the model in use."""


class CorruptModel(ResiftError, code="corrupt_model"):
    """A saved model or vector folder is damaged: its content does not match the recorded hash or shape."""


class EngineError(ResiftError, code="engine_error"):
    """The search engine rejected a request.

    Args:
        message: A description of the error for people.
        status: The HTTP status of the engine's response.
        **rest: Optionally ``value``, the value that caused the error, and ``expected``, a description of valid values.
    """

    def __init__(self, message: str, *, status: int = 503, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.status = status


class ServiceUnavailable(ResiftError, code="service_unavailable", status=503):
    """The service does not answer ``resift.mark`` or ``resift.forget``, or the answer is not from Resift."""


class EngineUnavailable(ResiftError, code="engine_unavailable", status=503):
    """The engine did not answer."""


class TeacherUnavailable(ResiftError, code="teacher_unavailable", status=503):
    """The teacher model did not answer, or returned invalid vectors.

    A teacher model is a larger embedding model. Its vectors are the training data of a smaller model.
    """


class CorruptEngine(EngineUnavailable, code="corrupt_engine"):
    """The embedded engine's database file is damaged. Retrying does not help."""


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Return a context manager for imports of optional packages, which tells users what to install if an import fails.

    An ImportError inside the ``with`` block is converted to a MissingExtra with the message "``purpose`` needs
    ``package``: pip install 'resift[``extra``]'".

    Args:
        extra: The name of the pip extra, such as ``fast``.
        purpose: The feature that needs the package, for example "A review". The message starts with this text.
    """
    try:
        yield
    except ImportError as error:
        package = (error.name or "a package").partition(".")[0]
        raise MissingExtra(f"{purpose} needs {package}: pip install 'resift[{extra}]'") from error
