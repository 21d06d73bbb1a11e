"""Engines and session stores by their addresses: the URL of a cluster, or the path of a file."""

from __future__ import annotations

from resift.plugin.addresses import is_cluster
from resift.plugin.engine import Engine
from resift.plugin.session_store import SessionStore

# An implementation is imported where it is chosen, since opensearch-py takes longer to import than a search on a file
# takes to run.


def open_engine(url: str) -> Engine:
    """Open an engine: OpenSearch at a URL, or at several separated by commas, else the embedded engine on that file.

    Raises BadInput for what is clearly neither, and EngineUnavailable if the file cannot be opened. A cluster is not
    asked before the first request.
    """
    if is_cluster(url):
        from resift.plugin.opensearch.engine import OpenSearchEngine

        return OpenSearchEngine(url)
    from resift.plugin.sqlite.engine import SqliteEngine

    return SqliteEngine(url)


def open_session_store(url: str, index: str) -> SessionStore:
    """Open a store of sessions: the index ``index`` of the cluster at ``url``, or else the file of that path.

    Raises BadInput if ``url`` is clearly neither, if the file cannot be opened, or if ``index`` cannot name an index.
    """
    if is_cluster(url):
        from resift.plugin.opensearch.sessions import OpenSearchSessionStore

        return OpenSearchSessionStore(url, index)
    from resift.plugin.sqlite.sessions import SqliteSessionStore

    return SqliteSessionStore(url)
