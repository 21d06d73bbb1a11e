"""API keys: what they allow, the scope that each route needs, and the file that keeps their hashes.

A key is 256 random bits, so one SHA-256 of it cannot be turned back, and needs neither salt nor a slow hash.
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
OPEN = "open"
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
PREFIX = "rsf_"
VARIABLE = "RESIFT_API_KEY"
_KEY = re.compile(PREFIX + r"[A-Za-z0-9_-]{32,256}")
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")
_HASH = re.compile(r"[0-9a-f]{64}")


def scope_of(endpoint: str) -> str:
    """The scope that an endpoint needs, or ``open``; ``admin`` for one that is not known here."""
    return SCOPE_OF.get(endpoint, "admin")


@dataclass(frozen=True)
class Caller(SessionCaller):
    """Who asks: the key's ``name`` and its ``scopes``. Without keys the name is None, and everything is allowed."""

    name: str | None = None
    scopes: frozenset[str] = frozenset(SCOPES)

    @property
    def may_send_bodies(self) -> bool:
        """Whether searches may hold whatever the engine takes, instead of what is listed (allow_list.json)."""
        return not {"body", "admin"}.isdisjoint(self.scopes)

    def may_use(self, owner: str | None) -> bool:
        """Whether a session that the key of this name began is the caller's to use."""
        return "admin" in self.scopes or owner == self.name


@dataclass(frozen=True)
class Key:
    """What is kept of a key: its name, its scopes, the SHA-256 of the key in hexadecimal, and when it was created."""

    name: str
    scopes: tuple[str, ...]
    hash: str
    created: str

    @classmethod
    def create(cls, name: str, scopes: Sequence[str], key: str) -> Key:
        """The record of ``key``, created now."""
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return cls(name, tuple(scopes), key_hash(key), now)

    @property
    def caller(self) -> Caller:
        """Who asks with this key."""
        return Caller(self.name, frozenset(self.scopes))


def key_hash(key: str) -> str:
    """SHA-256 of a key, in hexadecimal."""
    return sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def check_key(key: str, source: str) -> str:
    """Return ``key`` if it can be one. Raises BadInput, which names the ``source`` and not the key."""
    if not _KEY.fullmatch(key):
        raise BadInput(
            f"{source} holds no key",
            expected=f"{PREFIX} and at least 32 letters or digits, as resift keys create or "
            f"echo {PREFIX}$(openssl rand -hex 32) make one",
        )
    return key


def check_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """The scopes in their usual order, each once. Raises BadInput if there is none, or an unknown one."""
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown or not scopes:
        value = unknown[0] if unknown else ""
        raise BadInput(f"{value!r} is not a scope", value=value, expected=f"some of {','.join(SCOPES)}")
    return tuple(scope for scope in SCOPES if scope in scopes)


class KeyFile:
    """The keys in the file at ``path``, a JSON object a line, which only its owner may read."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)

    def read(self) -> list[Key]:
        """All keys; none if there is no file. Raises BadInput, which names the line, for a file of anything else."""
        try:
            lines = self.path.read_text("utf-8").splitlines()
        except FileNotFoundError:
            return []
        except (OSError, UnicodeDecodeError) as error:
            raise BadInput(f"{self.path} cannot be read: {error}", value=str(self.path), expected="keys") from error
        return [self._parsed(number, line) for number, line in enumerate(lines, 1) if line.strip()]

    def create(self, name: str, scopes: Sequence[str]) -> str:
        """Make a key and return it; it is kept nowhere.

        Raises BadInput for a name that is malformed or taken, or a scope that does not exist.
        """
        if not _NAME.fullmatch(name):
            expected = "1 to 64 lower-case letters, digits and _ . -"
            raise BadInput(f"{name!r} cannot name a key", value=name, expected=expected)
        checked = check_scopes(scopes)
        key = PREFIX + secrets.token_urlsafe(32)
        with self._locked():
            keys = self.read()
            if any(known.name == name for known in keys):
                raise BadInput(f"there is a key {name!r} already", value=name, expected="another name")
            self._write([*keys, Key.create(name, checked, key)])
        return key

    def delete(self, name: str) -> None:
        """Delete a key. Raises NotFound if there is none of this name."""
        with self._locked():
            keys = self.read()
            kept = [key for key in keys if key.name != name]
            if len(kept) == len(keys):
                names = ", ".join(key.name for key in keys) or "no key at all"
                raise NotFound(f"no key {name!r} in {self.path}", value=name, expected=names)
            self._write(kept)

    def _parsed(self, number: int, line: str) -> Key:
        try:
            found = json.loads(line)
            key = Key(found["name"], check_scopes(found["scopes"]), found["hash"], str(found.get("created", "")))
            if not (_NAME.fullmatch(key.name) and _HASH.fullmatch(key.hash)):
                raise ValueError("a malformed name or hash")
        except (ValueError, KeyError, TypeError):
            message = f"{self.path}, line {number} is not a key"
            raise BadInput(message, value=line, expected="a line as resift keys create writes it") from None
        return key

    def _write(self, keys: Sequence[Key]) -> None:
        replace_private(self.path, "".join(json.dumps(asdict(key)) + "\n" for key in keys))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Keeps other processes from changing the file meanwhile, or one change would undo the other."""
        import fcntl  # not on Windows, where keys can be read all the same

        # the folder and not the file, which each change replaces
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
