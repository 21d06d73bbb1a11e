"""Engines and session stores by their addresses: the URL of a cluster, or the path of a file."""

from __future__ import annotations

import os
from pathlib import Path

from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionStore
from resift.contracts.ubi import UbiLog
from resift.errors import BadInput
from resift.plugin.addresses import is_cluster

SESSIONS_FILE = "sessions.db"

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
    if url == ":memory:":  # each thread would find another one there, and none after an error
        raise BadInput("documents cannot be kept in memory only", value=url, expected="a file, such as /tmp/try.db")
    from resift.embedded.engine import SqliteEngine

    return SqliteEngine(url)


def default_store(engine: str) -> str:
    """Where the sessions of an engine's documents are kept unless somebody says where: always in a file.

    It is the embedded engine's own file, so that sessions of other documents do not get among them; SESSIONS_FILE for
    a cluster, and for a file that cannot be written. Not the cluster: a search would take one request more there, and
    whoever serves it would need rights to write.
    """
    if is_cluster(engine):
        return SESSIONS_FILE
    return SESSIONS_FILE if os.path.isfile(engine) and not os.access(engine, os.W_OK) else engine


def open_session_store(url: str, index: str) -> SessionStore:
    """Open a store of sessions: the index ``index`` of the cluster at ``url``, or else the file of that path.

    Raises BadInput if ``url`` is clearly neither, if the file cannot be opened, or if ``index`` cannot name an index.
    """
    if is_cluster(url):
        from resift.plugin.opensearch.sessions import OpenSearchSessionStore

        return OpenSearchSessionStore(url, index)
    from resift.embedded.database import SqliteSessionStore

    return SqliteSessionStore(url)


def open_review_store(url: str, index: str) -> SessionStore:
    """Open the store of reviews that is beside the sessions': the index ``INDEX-reviews``, or a file ``…-reviews.db``,
    in which what was written survives a power cut too.

    Raises what :func:`open_session_store` raises.
    """
    if is_cluster(url):
        return open_session_store(url, f"{index}-reviews")
    from resift.embedded.database import SqliteSessionStore

    path = Path(url)
    return SqliteSessionStore(str(path.with_name(f"{path.stem}-reviews.db")), durable=True)


def open_ubi_log(url: str, events: str, queries: str) -> UbiLog:
    """Open a log of UBI: two indices of the cluster at ``url``, or else the file of that path.

    Raises BadInput if ``url`` is clearly neither or a name cannot be an index's, and EngineUnavailable if the file
    cannot be opened.
    """
    if is_cluster(url):
        from resift.plugin.opensearch.ubi import OpenSearchUbiLog

        return OpenSearchUbiLog(url, events, queries)
    from resift.embedded.database import SqliteUbiLog

    return SqliteUbiLog(url)


def ubi_address(engine: str, store: str) -> str:
    """Where the log of UBI is: in the documents' cluster, where other collectors write it, else with the sessions."""
    return engine if is_cluster(engine) else store
