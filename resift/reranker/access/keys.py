"""API keys: their scopes (permissions), the scope that each route requires, and the file of hashed keys.

A key has 256 random bits. It cannot be recovered from its SHA-256, so neither a salt nor a slow hash is needed.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path

from resift.errors import BadInput, NotFound
from resift.files import replace_private
from resift.sessions.sessions import SessionCaller

SCOPES = ("embed", "search", "body", "feedback", "review", "admin")
"""The scopes (permissions) of API keys.

- ``embed``: encode and rank texts, and rewrite searches
- ``search``: search, with the listed query clauses and options
- ``body``: in addition to ``search``, send any search body
- ``feedback``: store judgements and events, and use the sessions of the same key
- ``review``: read and judge the documents of reviews
- ``admin``: use all sessions, delete reviews, and read metrics
"""
OPEN = "open"
"""The scope of routes that need no key."""
SCOPE_OF = {
    "api.embeddings": "embed",
    "api.rerank": "embed",
    "api.search": "search",
    "api.list_indices": "search",
    "api.describe_index": "search",
    "api.suggest": "search",
    "api.rewrite": "embed",
    "api.feedback": "feedback",
    "ubi.events": "feedback",
    "ubi.queries": "feedback",
    "api.get_session": "feedback",
    "api.delete_session": "feedback",
    "api.undo": "feedback",
    "reviews.list_reviews": "review",
    "reviews.begin_review": "review",
    "reviews.get_review": "review",
    "reviews.next_batch": "review",
    "reviews.judge": "review",
    "reviews.undo_judgement": "review",
    "reviews.release_documents": "review",
    "reviews.export_review": "review",
    "reviews.delete_review": "admin",
    "review_page": OPEN,
    "metrics": "admin",
    "healthz": OPEN,
    "readyz": OPEN,
    "openapi": OPEN,
    "script": OPEN,
    "page": OPEN,
    "static": OPEN,
}
"""The scope (permission) that an API key needs for a route, by the name of the route's Flask endpoint."""
PREFIX = "rsf_"
"""The prefix of all API keys."""
VARIABLE = "RESIFT_API_KEY"
"""The environment variable of a single API key with all scopes."""
_KEY = re.compile(PREFIX + r"[A-Za-z0-9_-]{32,256}")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_HASH = re.compile(r"[0-9a-f]{64}")


def required_scope(endpoint: str) -> str:
    """Return the scope (permission) that an API key needs for an endpoint.

    Args:
        endpoint: The name of a Flask endpoint.

    Returns:
        The name of the scope, or ``open`` for endpoints that need no key. Unknown endpoints need ``admin``.
    """
    return SCOPE_OF.get(endpoint, "admin")


@dataclass(frozen=True)
class Caller(SessionCaller):
    """The caller of a request, with the permissions of the API key in the request.

    Attributes:
        name: The name of the caller's API key, or None if the service has no keys.
        scopes: The scopes (permissions) of the API key. By default, for a service without keys, all scopes.
    """

    name: str | None = None
    scopes: frozenset[str] = frozenset(SCOPES)

    @property
    def may_send_bodies(self) -> bool:
        """Whether the caller may send any search body that the engine accepts.

        Other callers may only use the query clauses and options in ``allow_list.json``.
        """
        return not {"body", "admin"}.isdisjoint(self.scopes)

    def may_use(self, owner: str | None) -> bool:
        """Return whether the caller may read and change a search session.

        Callers may use the sessions that were created with their own API key. Keys with the scope ``admin`` may use all
        sessions.

        Args:
            owner: The name of the API key that created the session, or None if it was created without a key.
        """
        return "admin" in self.scopes or owner == self.name


@dataclass(frozen=True)
class KeyRecord:
    """The record of an API key in the file of keys. It contains a hash instead of the key itself.

    Attributes:
        name: The name of the key.
        scopes: The scopes (permissions) of the key.
        hash: The SHA-256 hash of the key, in hexadecimal.
        created: The time when the key was created, in ISO 8601 format.
    """

    name: str
    scopes: tuple[str, ...]
    hash: str
    created: str

    @classmethod
    def create(cls, name: str, scopes: Sequence[str], key: str) -> KeyRecord:
        """Return the record of a new API key, with the current time as the time of its creation.

        Args:
            name: The name of the key.
            scopes: The scopes (permissions) of the key.
            key: The key itself, of which only the hash becomes part of the record.
        """
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return cls(name, tuple(scopes), key_hash(key), now)

    @property
    def caller(self) -> Caller:
        """The caller of a request with this API key, with the name and the scopes of the key."""
        return Caller(self.name, frozenset(self.scopes))


def key_hash(key: str) -> str:
    """Return the SHA-256 of an API key, in hexadecimal."""
    return sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def check_key(key: str, source: str) -> str:
    """Check that an API key is well-formed, and return it.

    Args:
        key: The API key.
        source: Where the key comes from, for the error message. The message does not contain the key itself.

    Raises:
        BadInput: If the key is malformed.
    """
    if not _KEY.fullmatch(key):
        raise BadInput(
            f"{source} is not an API key",
            expected=f"{PREFIX} and at least 32 letters or digits, as created by resift keys create or "
            f"echo {PREFIX}$(openssl rand -hex 32)",
        )
    return key


def check_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """Check the scopes (permissions) of an API key, and remove duplicates.

    Args:
        scopes: The names of the scopes.

    Returns:
        The distinct scopes, in the order of ``SCOPES``.

    Raises:
        BadInput: If a scope is unknown, or ``scopes`` is empty.
    """
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        value = unknown[0] if unknown else ""
        raise BadInput(f"{value!r} is not a scope", value=value, expected=f"one or more of {','.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in scopes)


class KeyFile:
    """A file with the records of API keys, one JSON object per line.

    The file is created with permissions for its owner only.

    Args:
        path: The path of the file, which need not exist yet.
    """

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def read(self) -> list[KeyRecord]:
        """Return the records of all API keys in the file, or an empty list if the file does not exist.

        Raises:
            BadInput: If the file cannot be read, or a line is malformed.
        """
        try:
            lines = self.path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(
                f"{self.path} cannot be read: {error}", value=str(self.path), expected="a file of API keys"
            ) from error
        return [self._parse(number, line) for number, line in enumerate(lines, 1) if line.strip()]

    def create(self, name: str, scopes: Sequence[str]) -> str:
        """Create an API key, and store its hash in the file.

        Args:
            name: A name for the key.
            scopes: The scopes (permissions) of the key.

        Returns:
            The key. It is not stored, so it cannot be read again.

        Raises:
            BadInput: If the name is malformed or in use, or a scope does not exist.
        """
        if not _NAME.fullmatch(name):
            expected = "1 to 64 lower-case letters, digits and _ . -"
            raise BadInput(f"{name!r} is not a valid name for an API key", value=name, expected=expected)
        checked = check_scopes(scopes)
        key = PREFIX + secrets.token_urlsafe(32)
        with self._locked():
            keys = self.read()
            if any(known.name == name for known in keys):
                expected = f"another name, or resift keys rotate {name}"
                raise BadInput(f"an API key named {name!r} already exists", value=name, expected=expected)
            self._write([*keys, KeyRecord.create(name, checked, key)])
        return key

    def rotate(self, name: str) -> str:
        """Add a second API key with the name and the scopes of a stored key.

        Both keys are valid until :meth:`delete` removes the old key. They share sessions and quotas, because these
        belong to the name.

        Args:
            name: The name of the stored key.

        Returns:
            The new key. It is not stored, so it cannot be read again.

        Raises:
            NotFound: If there is no key with this name.
        """
        key = PREFIX + secrets.token_urlsafe(32)
        with self._locked():
            keys = self.read()
            scopes = self._keys_of_name(keys, name)[-1].scopes
            self._write([*keys, KeyRecord.create(name, scopes, key)])
        return key

    def delete(self, name: str, only_old: bool = False) -> None:
        """Delete all API keys with a name from the file.

        Args:
            name: The name of the keys.
            only_old: Whether to keep the newest of these keys.

        Raises:
            NotFound: If there is no key with this name, or no old key.
        """
        with self._locked():
            keys = self.read()
            named = self._keys_of_name(keys, name)
            deleted = named[:-1] if only_old else named
            if not deleted:
                message = f"there is only one API key {name!r} in {self.path}"
                raise NotFound(message, value=name, expected="a name after resift keys rotate NAME")
            self._write([key for key in keys if key not in deleted])

    def _keys_of_name(self, keys: Sequence[KeyRecord], name: str) -> list[KeyRecord]:
        """Return the keys with a name, oldest first.

        Raises:
            NotFound: If there are none.
        """
        named = [key for key in keys if key.name == name]
        if not named:
            names = ", ".join(dict.fromkeys(key.name for key in keys)) or "a file with keys"
            raise NotFound(f"no API key {name!r} in {self.path}", value=name, expected=names)
        return named

    def _parse(self, number: int, line: str) -> KeyRecord:
        try:
            record = json.loads(line)
            key = KeyRecord(
                record["name"], check_scopes(record["scopes"]), record["hash"], str(record.get("created", ""))
            )
            if not (_NAME.fullmatch(key.name) and _HASH.fullmatch(key.hash)):
                raise ValueError("a malformed name or hash")
        except (ValueError, KeyError, TypeError):
            message = f"{self.path}, line {number} is not an API key"
            raise BadInput(message, value=line, expected="a line as resift keys create writes it") from None
        return key

    def _write(self, keys: Sequence[KeyRecord]) -> None:
        replace_private(self.path, "".join(json.dumps(asdict(key)) + "\n" for key in keys))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Return a context manager that prevents other processes from changing the file of keys at the same time.

        Raises:
            BadInput: If the folder of the file cannot be opened.
        """
        import fcntl  # does not exist on Windows, where keys can only be read

        # The folder is locked, since each change replaces the file.
        try:
            folder = os.open(self.path.parent, os.O_RDONLY)
        except OSError as error:
            path = str(self.path)
            raise BadInput(f"{path} cannot be written: {error}", value=path, expected="a file of keys") from error
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield
        finally:
            os.close(folder)
