"""The log of UBI in a cluster: the two indices that the UBI plugin has, with or without that plugin."""

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
    text_of,
)
from resift.errors import EngineError, IndexNotFound
from resift.plugin import read_resource
from resift.plugin.opensearch.client import call, connect, create_unless_there, error_reason, scroll, to_json
from resift.query.dsl import PLAIN

_TIMEOUT, _ABSENT = 5.0, 0.5  # seconds
# The UBI plugin leaves session_id to dynamic mapping, which makes it a text with a keyword; an index that nobody
# mapped has client_id so as well.
_CLIENT = ("client_id", "session_id")
_PERSON = (*_CLIENT, "user_id")
_SOURCE = (
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
    """The log in the indices ``events`` and ``queries`` of the cluster at ``url``.

    An index that is not there is created by the first write; one that is, stays as the UBI plugin or others made it.
    """

    def __init__(self, url: str, events: str, queries: str) -> None:
        self.names = {EVENTS: check_name(events), QUERIES: check_name(queries)}
        self.client = connect(url, _TIMEOUT)
        self._made: set[str] = set()
        self._absent: TtlCache[bool] = TtlCache(len(KINDS), _ABSENT)  # indices that were not there

    def add(self, kind: str, sources: Sequence[Mapping[str, Any]]) -> int:
        if not sources:  # OpenSearch refuses an empty bulk request
            return 0
        self._create(kind)
        # with ids, so that an event is there once though its answer gets lost and it is sent again
        lines = "".join(f'{{"index":{{"_id":"{uuid.uuid4()}"}}}}\n{to_json(source)}\n' for source in sources)
        params = {"filter_path": "items.*.status,items.*.error"}
        answer = call(self.client.bulk, index=self.names[kind], body=lines, params=params)
        results = [item["index"] for item in answer["items"]]
        if all(result["status"] > 400 for result in results):  # which is no single event's fault
            raise EngineError(f"OpenSearch: {error_reason(results[0]['error'])}", status=results[0]["status"])
        return sum(result["status"] >= 300 for result in results)

    def _create(self, kind: str) -> None:
        """Create an index unless it exists, with the mappings of the UBI plugin but for three things.

        No field is added: events come from anybody's browser, and an index has room for a thousand fields. A time may
        be a number, or without milliseconds. Longer queries are stored without being indexed, since a term beyond some
        32,000 bytes would have the whole document refused.
        """
        if kind not in self._made:
            body = {"mappings": json.loads(read_resource(f"ubi-{kind}.json"))}
            create_unless_there(self.client, self.names[kind], body)
            self._made.add(kind)
            self._absent.clear()

    def events(self, client: str, since: float, until: float) -> list[UbiEvent]:
        body = {
            "query": {"bool": {"filter": [_any_field(_CLIENT, client), {"bool": {"should": _between(since, until)}}]}},
            "sort": _LATEST_FIRST,
            "size": MAX_CLIENT_EVENTS,
        }
        read = (UbiEvent.read(hit["_source"]) for hit in reversed(self._hits(EVENTS, body, _SOURCE)))
        # where an index has session_id as text alone, a term of it is not all of it
        found = [event for event in read if event is not None and client in (event.client, event.session)]
        return sorted(found, key=lambda event: event.at)  # times of several units are in another order in the index

    def queries(self, ids: Sequence[str]) -> dict[str, UbiQuery]:
        body = {"query": _any_field(("query_id",), *ids), "size": MAX_CLIENT_EVENTS, "sort": _LATEST_FIRST}
        # of several of one id, as a second page makes one, the first
        hits = self._hits(QUERIES, body, ("query_id", "user_query", "query_response_hit_ids"))
        return {str(hit["_source"].get("query_id")): UbiQuery.read(hit["_source"]) for hit in hits}

    def _hits(self, kind: str, body: dict[str, Any], source: Sequence[str]) -> list[dict[str, Any]]:
        if self._absent.get(kind):
            return []
        asked = {**body, **PLAIN, "_source": list(source), "track_total_hits": False}
        # where there is no such index a search finds nothing, and nobody's log is told so at each search
        params = {"request_timeout": SEARCH_TIMEOUT, "ignore_unavailable": "true"}
        answer = call(self.client.search, index=self.names[kind], body=asked, params=params)
        if answer["_shards"]["total"] == 0:
            # clusters without UBI are not asked at each search of a session
            self._absent.put(kind, True)
        hits: list[dict[str, Any]] = answer["hits"]["hits"]
        return hits

    def scan(self, since: float = 0.0, until: float = END_OF_TIME) -> Iterator[UbiEvent]:
        # an event's time may be in another unit, or be none that the index could read
        times = [] if (since, until) == (0.0, END_OF_TIME) else [{"bool": {"should": _between(since, until)}}]
        hits = self._all(EVENTS, {"query": {"bool": {"filter": times}}, "_source": list(_SOURCE)})
        return (event for event in (UbiEvent.read(hit["_source"]) for hit in hits) if event is not None)

    def application_queries(self, application: str, since: float, until: float) -> list[dict[str, Any]]:
        conditions = [{"bool": {"should": _between(since, until)}}, _any_field(("application",), application)]
        return [hit["_source"] for hit in self._all(QUERIES, {"query": {"bool": {"filter": conditions}}})]

    def client_documents(self, client: str) -> dict[str, list[dict[str, Any]]]:
        return {kind: [hit["_source"] for hit in self._of_client(kind, client)] for kind in KINDS}

    def delete_client(self, client: str) -> int:
        forgotten = 0
        # a page may be sending the next event, which is not to keep the others from being deleted
        params = {"conflicts": "proceed", "refresh": "true", "request_timeout": 60}
        for kind in KINDS:
            if ids := [hit["_id"] for hit in self._of_client(kind, client)]:
                body = {"query": {"ids": {"values": ids}}}
                answer = call(self.client.delete_by_query, index=self.names[kind], body=body, params=params)
                forgotten += answer["deleted"]
        return forgotten

    def _of_client(self, kind: str, client: str) -> Iterator[dict[str, Any]]:
        # where an index has these as text alone, a term of one is not all of it
        hits = self._all(kind, {"query": _any_field(_PERSON, client)})
        return (hit for hit in hits if client in [text_of(hit["_source"].get(field)) for field in _PERSON])

    def _all(self, kind: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """All hits of a search body; none where there is no such index."""
        try:
            # both: of the events that are read, the queries are asked for next
            names = ",".join(self.names.values())
            call(self.client.indices.refresh, index=names, params={"ignore_unavailable": "true"})
            yield from scroll(self.client, self.names[kind], body)
        except IndexNotFound:
            return

    def close(self) -> None:
        self.client.close()


def _any_field(fields: Sequence[str], *values: str) -> dict[str, Any]:
    """A clause for one of the values in one of the fields, as a keyword."""
    should = [{"terms": {name: list(values)}} for field in fields for name in (field, f"{field}.keyword")]
    return {"bool": {"should": should, "minimum_should_match": 1}}


def _between(since: float, until: float) -> list[dict[str, Any]]:
    """Clauses for a time between two (Unix seconds), one for each unit that a number in the log may count.

    An index takes any number for milliseconds, and so one of seconds for a time of 1970.
    """
    spans = (
        {"gte": round(since * unit), "lte": round(until * unit), "format": "epoch_millis"} for unit in UNITS_PER_SECOND
    )
    return [{"range": {"timestamp": span}} for span in spans]
