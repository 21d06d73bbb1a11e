"""The log of User Behavior Insights (UBI) in a cluster.

The log consists of two indices with the names and mappings of the UBI plugin. The plugin itself is not needed.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from resift.cache import TtlCache
from resift.contracts.documents import check_name
from resift.contracts.session_store import SEARCH_TIMEOUT
from resift.contracts.ubi import (
    END_OF_TIME,
    EVENTS,
    KINDS,
    MAX_CLIENT_EVENTS,
    QUERIES,
    UNITS_PER_SECOND,
    UbiEvent,
    UbiLog,
    UbiQuery,
    id_as_text,
)
from resift.errors import EngineError, IndexNotFound
from resift.plugin import read_resource
from resift.plugin.opensearch.client import call, connect, create_if_missing, error_reason, scroll, to_json
from resift.query.dsl import PLAIN

_TIMEOUT = 5.0  # seconds
_MISSING_SECONDS = 0.5  # time for which an index that was missing is not searched again
# Fields that identify a client. The UBI plugin does not map session_id, so dynamic mapping makes it a text field with
# a keyword sub-field. In an index without explicit mappings, client_id is mapped in this way as well.
_CLIENT_FIELDS = ("client_id", "session_id")
_PERSON_FIELDS = (*_CLIENT_FIELDS, "user_id")
_EVENT_SOURCE = (
    "action_name",
    "client_id",
    "session_id",
    "query_id",
    "timestamp",
    "user_query",
    "event_attributes.object.object_id",
    "event_attributes.object.object_id_field",
    "event_attributes.position.ordinal",
)
_LATEST_FIRST = [{"timestamp": {"order": "desc", "unmapped_type": "date"}}]


class OpenSearchUbiLog(UbiLog):
    """A log of User Behavior Insights (UBI) in two indices of a cluster: for queries, and for events such as clicks.

    The first write creates a missing index. An existing index keeps its mappings.

    Args:
        url: The URLs of the cluster.
        events: The name of the index for events.
        queries: The name of the index for queries.

    Attributes:
        names: The names of both indices, by the kind of their entries.
    """

    def __init__(self, url: str, events: str, queries: str) -> None:
        self.names = {EVENTS: check_name(events), QUERIES: check_name(queries)}
        self.client = connect(url, _TIMEOUT)
        self._created: set[str] = set()
        self._missing: TtlCache[bool] = TtlCache(len(KINDS), _MISSING_SECONDS)

    def add(self, kind: str, sources: Sequence[Mapping[str, Any]]) -> int:
        """Add queries or events to the log.

        Args:
            kind: The kind of all entries: queries or events.
            sources: The entries as JSON objects.

        Returns:
            The number of entries that OpenSearch refused.

        Raises:
            EngineError: If OpenSearch refused all entries for a reason other than their content.
        """
        if not sources:  # OpenSearch refuses an empty bulk request
            return 0
        self._create(kind)
        # With ids, an event is stored only once even if the response is lost and the request is sent again.
        lines = "".join(f'{{"index":{{"_id":"{uuid.uuid4()}"}}}}\n{to_json(source)}\n' for source in sources)
        params = {"filter_path": "items.*.status,items.*.error"}
        response = call(self.client.bulk, index=self.names[kind], body=lines, params=params)
        results = [item["index"] for item in response["items"]]
        if all(result["status"] > 400 for result in results):  # the index is at fault, not a single document
            raise EngineError(f"OpenSearch: {error_reason(results[0]['error'])}", status=results[0]["status"])
        return sum(result["status"] >= 300 for result in results)

    def _create(self, kind: str) -> None:
        """Create the index for a kind of entries, unless it exists.

        The mappings equal the mappings of the UBI plugin, with three differences:

        - New fields are not mapped. Any browser can send events, and an index is limited to 1,000 fields.
        - A timestamp may be a number, and may lack milliseconds.
        - Long queries are stored without being indexed. A term of more than about 32,000 bytes would make OpenSearch
          refuse the whole document.
        """
        if kind not in self._created:
            body = {"mappings": json.loads(read_resource(f"ubi-{kind}.json"))}
            create_if_missing(self.client, self.names[kind], body)
            self._created.add(kind)
            self._missing.clear()

    def events(self, client: str, since: float, until: float) -> list[UbiEvent]:
        """Return the events of a client or session in a period, oldest first.

        If there are more than :data:`MAX_CLIENT_EVENTS` events, only the latest are returned.

        Args:
            client: The client id or session id.
            since: The beginning of the period, in Unix seconds.
            until: The end of the period, in Unix seconds.
        """
        filters = [_any_field_clause(_CLIENT_FIELDS, client), {"bool": {"should": _time_clauses(since, until)}}]
        body = {"query": {"bool": {"filter": filters}}, "sort": _LATEST_FIRST, "size": MAX_CLIENT_EVENTS}
        hits = reversed(self._hits(EVENTS, body, _EVENT_SOURCE))
        all_events = (UbiEvent.read(hit["_source"]) for hit in hits)
        # If session_id is only a text field, a query also matches ids that contain the same term.
        events = [event for event in all_events if event is not None and client in (event.client, event.session)]
        return sorted(events, key=lambda event: event.at)  # the index does not order timestamps of different units

    def queries(self, ids: Sequence[str]) -> dict[str, UbiQuery]:
        """Look up logged queries by their query ids.

        Args:
            ids: The query ids.

        Returns:
            The queries, by query id. Unknown ids are left out.
        """
        body = {"query": _any_field_clause(("query_id",), *ids), "size": MAX_CLIENT_EVENTS, "sort": _LATEST_FIRST}
        # A second page of hits logs a second document with the same id. The oldest document, which comes last, wins.
        hits = self._hits(QUERIES, body, ("query_id", "user_query", "query_response_hit_ids"))
        return {str(hit["_source"].get("query_id")): UbiQuery.read(hit["_source"]) for hit in hits}

    def _hits(self, kind: str, body: dict[str, Any], source: Sequence[str]) -> list[dict[str, Any]]:
        """Search one index of the log with a short time limit, and return the hits.

        If the index does not exist, there are no hits.

        Args:
            kind: The kind of entries to search: queries or events.
            body: The search body.
            source: The names of the fields to return.
        """
        if self._missing.get(kind):
            return []
        search_body = {**body, **PLAIN, "_source": list(source), "track_total_hits": False}
        # With ignore_unavailable, a missing index is not an error that would be logged at each search.
        params = {"request_timeout": SEARCH_TIMEOUT, "ignore_unavailable": "true"}
        response = call(self.client.search, index=self.names[kind], body=search_body, params=params)
        if response["_shards"]["total"] == 0:
            # The index is missing. Remember this, so that a cluster without UBI is not searched again for each search.
            self._missing.put(kind, True)
        hits: list[dict[str, Any]] = response["hits"]["hits"]
        return hits

    def scan(self, since: float = 0.0, until: float = END_OF_TIME) -> Iterator[UbiEvent]:
        """Return an iterator over all events between two times.

        Args:
            since: The time of the earliest event, in Unix seconds.
            until: The time of the latest event, in Unix seconds.
        """
        # Without limits there is no filter: the index may have been unable to parse the time of an event.
        filters = [] if (since, until) == (0.0, END_OF_TIME) else [{"bool": {"should": _time_clauses(since, until)}}]
        hits = self._scroll(EVENTS, {"query": {"bool": {"filter": filters}}, "_source": list(_EVENT_SOURCE)})
        return (event for event in (UbiEvent.read(hit["_source"]) for hit in hits) if event is not None)

    def application_queries(self, application: str, since: float, until: float) -> list[dict[str, Any]]:
        """Return the queries that an application logged between two times, as JSON objects.

        Args:
            application: The name of the application.
            since: The time of the earliest query, in Unix seconds.
            until: The time of the latest query, in Unix seconds.
        """
        filters = [{"bool": {"should": _time_clauses(since, until)}}, _any_field_clause(("application",), application)]
        return [hit["_source"] for hit in self._scroll(QUERIES, {"query": {"bool": {"filter": filters}}})]

    def client_documents(self, client: str) -> dict[str, list[dict[str, Any]]]:
        """Return all log entries about a client.

        Args:
            client: A client id, session id or user id.

        Returns:
            Lists of entries as JSON objects, by kind ("queries" and "events").
        """
        return {kind: [hit["_source"] for hit in self._client_hits(kind, client)] for kind in KINDS}

    def delete_client(self, client: str) -> int:
        """Delete all log entries about a client, and return how many were deleted.

        Args:
            client: A client id, session id or user id.
        """
        deleted = 0
        # proceed: an event that arrives during the deletion must not prevent it
        params = {"conflicts": "proceed", "refresh": "true", "request_timeout": 60}
        for kind in KINDS:
            if ids := [hit["_id"] for hit in self._client_hits(kind, client)]:
                body = {"query": {"ids": {"values": ids}}}
                response = call(self.client.delete_by_query, index=self.names[kind], body=body, params=params)
                deleted += response["deleted"]
        return deleted

    def _client_hits(self, kind: str, client: str) -> Iterator[dict[str, Any]]:
        # If the ids are only text fields, a query also matches ids that contain the same term.
        hits = self._scroll(kind, {"query": _any_field_clause(_PERSON_FIELDS, client)})
        return (hit for hit in hits if client in [id_as_text(hit["_source"].get(field)) for field in _PERSON_FIELDS])

    def _scroll(self, kind: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield all hits of a search in one index of the log, page by page.

        If the index does not exist, there are no hits.

        Args:
            kind: The kind of entries to search: queries or events.
            body: The search body.
        """
        try:
            # Refresh both indices, because callers that read events then ask for the queries.
            names = ",".join(self.names.values())
            call(self.client.indices.refresh, index=names, params={"ignore_unavailable": "true"})
            yield from scroll(self.client, self.names[kind], body)
        except IndexNotFound:
            return

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


def _any_field_clause(fields: Sequence[str], *values: str) -> dict[str, Any]:
    """Return a query clause that matches if at least one of the fields contains at least one of the values.

    The clause also searches the keyword sub-field of each field.

    Args:
        fields: The names of the fields.
        *values: The values to look for.
    """
    should = [{"terms": {name: list(values)}} for field in fields for name in (field, f"{field}.keyword")]
    return {"bool": {"should": should, "minimum_should_match": 1}}


def _time_clauses(since: float, until: float) -> list[dict[str, Any]]:
    """Return query clauses that match timestamps between two times, one clause for each unit of time.

    The log may contain numbers in seconds, milliseconds or microseconds. The index reads all numbers as milliseconds,
    so that seconds appear as a time in 1970.

    Args:
        since: The earliest time, in Unix seconds.
        until: The latest time, in Unix seconds.
    """
    spans = (
        {"gte": round(since * unit), "lte": round(until * unit), "format": "epoch_millis"} for unit in UNITS_PER_SECOND
    )
    return [{"range": {"timestamp": span}} for span in spans]
