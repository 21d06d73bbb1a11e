"""Hits and vectors put together from the hit cache, so that OpenSearch sends only what is not cached."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

from opensearchpy import OpenSearch

from resift.arrays import Floats
from resift.errors import EngineError
from resift.plugin.documents import SearchResult
from resift.plugin.engine import Headers
from resift.plugin.opensearch.bodies import lookup, numbered_hits
from resift.plugin.opensearch.client import JsonSerializer, call, to_json
from resift.plugin.opensearch.documents import stored_vector
from resift.plugin.opensearch.hit_cache import HitCache, IndexState
from resift.plugin.query_dsl import VECTOR_FIELD, Body, without_vector

Send = Callable[[Sequence[Any]], list[dict[str, Any]]]  # search bodies, or their JSON, to responses
States = Mapping[str, IndexState]
CachedVector = tuple[Floats | None]  # a tuple, for None in it is known too: the document has no vector
_STATE_SETTINGS = "index.uuid,index.creation_date,index.number_of_shards,index.search.default_pipeline"


class Write(NamedTuple):
    """The write that a hit shows. In an index of one shard no two writes share these numbers."""

    index_name: str
    seq_no: int
    primary_term: int

    @classmethod
    def of(cls, hit: dict[str, Any]) -> Write:
        """The write of a hit, whose numbers are taken out of it."""
        return cls(hit["_index"], hit.pop("_seq_no"), hit.pop("_primary_term"))


@dataclass
class NumberedHit:
    """A hit that came without its fields, and what is known of it.

    ``source`` is the JSON of its search's ``_source``. ``whole`` is the hit with its fields.
    """

    bare: dict[str, Any]
    write: Write
    source: str
    whole: dict[str, Any] | None = None
    vector: CachedVector | None = None

    @property
    def complete(self) -> bool:
        """Whether nothing of it is missing."""
        return self.whole is not None and self.vector is not None


class CachedHits:
    """Completes searches from a hit cache of their hits and vectors."""

    def __init__(self, client: OpenSearch, serializer: JsonSerializer) -> None:
        self.client, self.serializer = client, serializer
        self.cache: HitCache[Any] = HitCache()

    def search(self, index: str, bodies: Sequence[Body], send: Send) -> list[SearchResult] | None:
        """Results with vectors of searches that ask for sequence numbers alone.

        None if that is not exact: a body asks more of its hits than their fields, an index has several shards or a
        search pipeline of its own, or a document was changed or deleted between the requests.
        """
        numbered = [numbered_hits(body) for body in bodies]
        if None in numbered:
            return None
        states = self.states(index, None)
        if not states or not all(state.numbered for state in states.values()):
            return None
        return self._complete(index, send(numbered), bodies, states)

    def add_vectors(self, index: str, results: Sequence[SearchResult], headers: Headers) -> None:
        """Fill in the vectors of whole hits: the cached ones, and by one more request those that are missing."""
        states = self.states(index, headers)
        missing: dict[tuple[str, str, str | None], list[tuple[SearchResult, int]]] = {}
        for result in results:
            for position, hit in enumerate(result.hits):
                cached: CachedVector | None = self.cache.get(_whole_version(hit, states))
                if cached is None:
                    missing.setdefault(_document(hit), []).append((result, position))
                else:
                    (result.vectors[position],) = cached
                    result.cached += cached[0] is not None
        if not missing:
            return
        indices, ids = {document[0] for document in missing}, {document[1] for document in missing}
        body = lookup([{"ids": {"values": list(ids)}}], indices, len(ids), [VECTOR_FIELD])
        for hit in self._fetch(index, body, headers, vectors=True):
            vector = stored_vector(hit)
            self.cache.put(_whole_version(hit, states), (vector,))
            for result, position in missing.get(_document(hit), ()):
                result.vectors[position] = vector

    def states(self, index: str, headers: Headers) -> States:
        """The states of the indices that a name stands for, as they were at most five seconds ago."""
        return self.cache.states(index, lambda: self._fetch_states(index, headers))

    def _fetch_states(self, index: str, headers: Headers) -> dict[str, IndexState]:
        """The states as the cluster has them; none, so that nothing is cached, if the caller may not read them."""
        get = self.client.indices.get_settings
        try:
            answer = call(get, index=index, name=_STATE_SETTINGS, flat_settings=True, headers=headers)
        except EngineError:
            return {}
        return {name: _state(entry["settings"]) for name, entry in answer.items()}

    def _complete(
        self, index: str, responses: Sequence[dict[str, Any]], bodies: Sequence[Body], states: States
    ) -> list[SearchResult] | None:
        """Results of responses with numbered hits, of which the cache or further requests give the rest."""
        pages = [_numbered_hits(*pair) for pair in zip(responses, bodies, strict=True)]
        hits = [hit for page in pages for hit in page]
        if any(hit.write.index_name not in states for hit in hits):
            return None  # the name stands for another index since its states were asked for
        for hit in hits:
            hit.whole = self.cache.get(_version(hit.write, states, hit.source))
            hit.vector = self.cache.get(_version(hit.write, states))
        cached = [sum(hit.vector is not None and hit.vector[0] is not None for hit in page) for page in pages]
        self._fetch_missing(index, hits, bodies, states)
        if not all(hit.complete for hit in hits):
            return None  # a document was changed or deleted meanwhile
        return [_result(*parts) for parts in zip(responses, pages, cached, strict=True)]

    def _fetch_missing(self, index: str, hits: Sequence[NumberedHit], bodies: Sequence[Body], states: States) -> None:
        """Fetch what is not cached: by one request vectors, and by one for each ``_source`` of the bodies fields."""
        self._fetch_vectors(index, [hit for hit in hits if hit.vector is None], states)
        for source, spec in {_source_key(body): body.get("_source") for body in bodies}.items():
            missing = [hit for hit in hits if hit.whole is None and hit.source == source]
            self._fetch_fields(index, missing, without_vector(spec), states)

    def _fetch_vectors(self, index: str, hits: Sequence[NumberedHit], states: States) -> None:
        """Fetch the vectors of hits, and cache them."""
        vectors: dict[Write, CachedVector] = {}
        for found in self._fetch_writes(index, hits, [VECTOR_FIELD], vectors=True):
            write, vector = Write.of(found), (stored_vector(found),)
            self.cache.put(_version(write, states), vector)
            vectors[write] = vector
        for hit in hits:
            hit.vector = vectors.get(hit.write)

    def _fetch_fields(self, index: str, hits: Sequence[NumberedHit], source: Any, states: States) -> None:
        """Fetch whole hits with the fields of one ``_source``, and cache them."""
        wholes: dict[Write, dict[str, Any]] = {}
        for found in self._fetch_writes(index, hits, source):
            write = Write.of(found)
            self.cache.put(_version(write, states, hits[0].source), found)
            wholes[write] = found
        for hit in hits:
            hit.whole = wholes.get(hit.write)

    def _fetch_writes(
        self, index: str, hits: Sequence[NumberedHit], source: Any, vectors: bool = False
    ) -> list[dict[str, Any]]:
        if not hits:
            return []
        indices, numbers = {hit.write.index_name for hit in hits}, {hit.write.seq_no for hit in hits}
        body = lookup([{"terms": {"_seq_no": list(numbers)}}], indices, len(numbers), source)
        # Without headers: only callers without rights of their own get this far.
        return self._fetch(index, body, None, vectors)

    def _fetch(self, index: str, body: Body, headers: Headers, vectors: bool = False) -> list[dict[str, Any]]:
        """The hits of a body, which with ``vectors`` brings vectors and no other field."""
        with self.serializer.without_large_integers() if vectors else nullcontext():
            response = call(self.client.search, index=index, body=body, headers=headers)
        hits: list[dict[str, Any]] = response["hits"]["hits"]
        return hits


def _numbered_hits(response: dict[str, Any], body: Body) -> list[NumberedHit]:
    source = _source_key(body)
    return [NumberedHit(hit, Write.of(hit), source) for hit in response["hits"]["hits"]]


def _source_key(body: Body) -> str:
    return to_json(body.get("_source"))


def _result(response: dict[str, Any], page: Sequence[NumberedHit], cached: int) -> SearchResult:
    # Cached hits are shared by searches: each gets copies, with the score and whatever else its own search says.
    response["hits"]["hits"] = [{**(hit.whole or {}), **hit.bare} for hit in page]
    return SearchResult(response, [hit.vector[0] for hit in page if hit.vector is not None], cached)


def _state(settings: Mapping[str, str]) -> IndexState:
    key = f"{settings['index.uuid']} {settings.get('index.creation_date')}"
    one_shard = settings.get("index.number_of_shards") == "1"
    return IndexState(key, one_shard and settings.get("index.search.default_pipeline", "_none") == "_none")


def _version(write: Write, states: States, source: str | None = None) -> Hashable:
    """What a vector, or with ``source`` a whole hit, is cached under if its write is known."""
    version = (states[write.index_name].key, write.seq_no, write.primary_term)
    return version if source is None else (*version, source)


def _whole_version(hit: Mapping[str, Any], states: States) -> Hashable:
    """What the vector of a whole hit is cached under; None if the hit does not say all of it.

    The id and the routing are in it since the shards of an index count their writes each for itself.
    """
    state, number = states.get(hit["_index"]), hit.get("_seq_no")
    if state is None or number is None:
        return None
    return state.key, hit["_id"], hit.get("_routing"), number, hit.get("_primary_term")


def _document(hit: Mapping[str, Any]) -> tuple[str, str, str | None]:
    return hit["_index"], hit["_id"], hit.get("_routing")
