"""Open engines and stores by their address: the URL of a cluster, or the path of a file.

Each function imports its implementation only when it is called, because importing opensearch-py takes longer than a
search of the embedded engine.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionStore
from resift.contracts.ubi import UbiLog
from resift.errors import BadInput
from resift.plugin.addresses import is_cluster

if TYPE_CHECKING:
    from resift.plugin.opensearch.engine import OpenSearchEngine

SESSIONS_FILE = "sessions.db"


def open_engine(url: str) -> Engine:
    """Open the search engine: an OpenSearch cluster or the embedded engine.

    A cluster is not contacted until the first request.

    Args:
        url: The URL of a cluster (several nodes are separated by commas), or the path of the embedded engine's file.

    Raises:
        BadInput: If ``url`` is neither a URL nor the path of a file.
        EngineUnavailable: If the file cannot be opened.
    """
    if is_cluster(url):
        from resift.plugin.opensearch.engine import OpenSearchEngine

        return OpenSearchEngine(url)
    if url == ":memory:":  # the UBI log and other processes could not read it
        raise BadInput("documents cannot be kept in memory only", value=url, expected="a file, such as /tmp/try.db")
    from resift.embedded.engine import SqliteEngine

    return SqliteEngine(url)


def is_opensearch(engine: Engine) -> TypeGuard[OpenSearchEngine]:
    """Return whether an engine is an OpenSearch cluster, which has pipelines.

    The function never imports opensearch-py: an engine of a cluster only exists if its module was imported before.
    """
    module = sys.modules.get("resift.plugin.opensearch.engine")
    return module is not None and isinstance(engine, module.OpenSearchEngine)


def default_session_store(engine: str) -> str:
    """Return the default path of the file in which search sessions are stored.

    The embedded engine stores sessions in its own file, so that sessions of different engines are not mixed. With a
    cluster, or if the engine's file is not writable, sessions are stored in the file ``sessions.db``. Storing them in
    the cluster must be requested, because it needs write permission and an additional request per search.

    Args:
        engine: The address of the search engine.
    """
    if is_cluster(engine):
        return SESSIONS_FILE
    return SESSIONS_FILE if os.path.isfile(engine) and not os.access(engine, os.W_OK) else engine


def open_session_store(url: str, index: str) -> SessionStore:
    """Open the store of search sessions, which contain users' relevance judgements.

    Args:
        url: The URL of a cluster, or the path of an SQLite file.
        index: The name of the index for sessions, if ``url`` is a cluster.

    Raises:
        BadInput: If the address is neither a URL nor a file, the file cannot be opened, or the index name is invalid.
    """
    if is_cluster(url):
        from resift.plugin.opensearch.sessions import OpenSearchSessionStore

        return OpenSearchSessionStore(url, index)
    from resift.embedded.database import SqliteSessionStore

    return SqliteSessionStore(url)


def open_review_store(url: str, index: str) -> SessionStore:
    """Open the store of document reviews, which is separate from the store of sessions.

    In a review, people judge documents until most of the relevant documents of an index are found.

    Reviews are stored in the index ``<index>-reviews`` of a cluster, or in a file whose name ends with ``-reviews.db``.
    Writes to the file survive a power failure.

    Args:
        url: The address of the store of sessions: the URL of a cluster, or the path of an SQLite file.
        index: The name of the index for sessions, if ``url`` is a cluster.

    Raises:
        BadInput: If the address is neither a URL nor a file, the file cannot be opened, or the index name is invalid.
    """
    if is_cluster(url):
        return open_session_store(url, f"{index}-reviews")
    from resift.embedded.database import SqliteSessionStore

    path = Path(url)
    return SqliteSessionStore(str(path.with_name(f"{path.stem}-reviews.db")), durable=True)


def open_ubi_log(url: str, events: str, queries: str) -> UbiLog:
    """Open the log of user events and queries (UBI, User Behavior Insights).

    Args:
        url: The URL of a cluster, or the path of an SQLite file.
        events: The name of the index for events, if ``url`` is a cluster.
        queries: The name of the index for queries, if ``url`` is a cluster.

    Raises:
        BadInput: If ``url`` is neither a URL nor the path of a file, or an index name is invalid.
        EngineUnavailable: If the file cannot be opened.
    """
    if is_cluster(url):
        from resift.plugin.opensearch.ubi import OpenSearchUbiLog

        return OpenSearchUbiLog(url, events, queries)
    from resift.embedded.database import SqliteUbiLog

    return SqliteUbiLog(url)


def ubi_address(engine: str, store: str) -> str:
    """Return the address of the UBI log, which records user events and queries (UBI: User Behavior Insights).

    If the engine is a cluster, the log is in the cluster, because other UBI collectors write their events there. If the
    engine is embedded, the log is in the session store.

    Args:
        engine: The address of the search engine.
        store: The address of the session store.
    """
    return engine if is_cluster(engine) else store
