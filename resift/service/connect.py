"""Open engines and stores by their address: the URL of a cluster, or the path of a file.

Each function imports the implementation when it opens it, because importing opensearch-py takes longer than a search of
the embedded engine.
"""

from __future__ import annotations

import os
from pathlib import Path

from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionStore
from resift.contracts.ubi import UbiLog
from resift.errors import BadInput
from resift.plugin.addresses import is_cluster

SESSIONS_FILE = "sessions.db"


def open_engine(url: str) -> Engine:
    """Open OpenSearch or the embedded engine.

    No request is sent to a cluster before it is first used.

    Args:
        url: URL of a cluster (several URLs are separated by commas), or path of the embedded engine's file.

    Raises:
        BadInput: The address is neither a URL nor a file.
        EngineUnavailable: The file cannot be opened.
    """
    if is_cluster(url):
        from resift.plugin.opensearch.engine import OpenSearchEngine

        return OpenSearchEngine(url)
    if url == ":memory:":  # SQLite would open a separate empty database in each thread
        raise BadInput("documents cannot be kept in memory only", value=url, expected="a file, such as /tmp/try.db")
    from resift.embedded.engine import SqliteEngine

    return SqliteEngine(url)


def default_store(engine: str) -> str:
    """Return the path of the file that stores sessions by default.

    For the embedded engine, sessions are stored in the engine's own file, so that sessions of different engines are not
    mixed. For a cluster, or if the engine's file is not writable, they are stored in ``SESSIONS_FILE``. Sessions are
    not stored in the cluster by default, because each search would need an additional request, and the service would
    need write permissions.

    Args:
        engine: The engine's address.
    """
    if is_cluster(engine):
        return SESSIONS_FILE
    return SESSIONS_FILE if os.path.isfile(engine) and not os.access(engine, os.W_OK) else engine


def open_session_store(url: str, index: str) -> SessionStore:
    """Open the store of sessions.

    Args:
        url: URL of a cluster, or path of an SQLite file.
        index: Name of the sessions' index, if ``url`` is a cluster.

    Raises:
        BadInput: The address is neither a URL nor a file, the file cannot be opened, or the index name is invalid.
    """
    if is_cluster(url):
        from resift.plugin.opensearch.sessions import OpenSearchSessionStore

        return OpenSearchSessionStore(url, index)
    from resift.embedded.database import SqliteSessionStore

    return SqliteSessionStore(url)


def open_review_store(url: str, index: str) -> SessionStore:
    """Open the store of reviews, next to the store of sessions.

    The store is the index ``<index>-reviews`` of a cluster, or a file whose name ends with ``-reviews.db``. Writes to
    the file survive a power failure.

    Args:
        url: The address of the store of sessions.
        index: The name of the sessions' index, if ``url`` is a cluster.

    Raises:
        BadInput: As for :func:`open_session_store`.
    """
    if is_cluster(url):
        return open_session_store(url, f"{index}-reviews")
    from resift.embedded.database import SqliteSessionStore

    path = Path(url)
    return SqliteSessionStore(str(path.with_name(f"{path.stem}-reviews.db")), durable=True)


def open_ubi_log(url: str, events: str, queries: str) -> UbiLog:
    """Open the log of UBI (User Behavior Insights) events and queries.

    Args:
        url: URL of a cluster, or path of an SQLite file.
        events: Name of the events' index, if ``url`` is a cluster.
        queries: Name of the queries' index, if ``url`` is a cluster.

    Raises:
        BadInput: The address is neither a URL nor a file, or an index name is invalid.
        EngineUnavailable: The file cannot be opened.
    """
    if is_cluster(url):
        from resift.plugin.opensearch.ubi import OpenSearchUbiLog

        return OpenSearchUbiLog(url, events, queries)
    from resift.embedded.database import SqliteUbiLog

    return SqliteUbiLog(url)


def ubi_address(engine: str, store: str) -> str:
    """Return the address of the log of UBI (User Behavior Insights) events and queries.

    For a cluster, it is the cluster's URL, because other collectors of events write their log to the cluster too. For
    the embedded engine, it is the address of the store of sessions.

    Args:
        engine: The engine's address.
        store: The address of the store of sessions.
    """
    return engine if is_cluster(engine) else store
