"""Engines and session stores by their addresses: a cluster's URL, or a file."""

from __future__ import annotations

from resift.plugin.engine import Engine
from resift.plugin.session_store import SessionStore


def open_engine(url: str) -> Engine:
    """``http(s)://…`` is an OpenSearch cluster; anything else the path of an embedded engine's file."""
    if url.startswith(("http://", "https://")):
        from resift.plugin.opensearch.engine import OpenSearchEngine

        return OpenSearchEngine(url)
    from resift.plugin.sqlite.engine import SqliteEngine

    return SqliteEngine(url)


def open_session_store(url: str, index: str) -> SessionStore:
    """``http(s)://…`` is an OpenSearch cluster with the sessions in ``index``; anything else the path of a file."""
    if url.startswith(("http://", "https://")):
        from resift.plugin.opensearch.sessions import OpenSearchSessionStore

        return OpenSearchSessionStore(url, index)
    from resift.plugin.sqlite.sessions import SqliteSessionStore

    return SqliteSessionStore(url)
