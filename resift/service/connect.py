"""Open engines and stores by their address: the URL of a cluster, or the path of a file.

The functions import the implementation that they open. Importing opensearch-py takes longer than a search on a file.
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
    """Return the file in which sessions are kept unless the settings name another place.

    For the embedded engine this is the engine's own file, so that sessions of different engines are not mixed. It is
    ``SESSIONS_FILE`` for a cluster, and for an engine's file that is not writable. Sessions are not kept in the cluster
    by default, since each search would need a further request and the service write permissions.

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
    """Open the store of reviews: the index ``INDEX-reviews`` of a cluster, or the file ``…-reviews.db``.

    Writes to the file survive a power failure.

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
    """Return the address of the UBI log: the cluster, where other collectors write to it, or the sessions' file.

    Args:
        engine: The engine's address.
        store: The address of the store of sessions.
    """
    return engine if is_cluster(engine) else store
