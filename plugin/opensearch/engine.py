"""OpenSearch as an engine, by opensearch-py. Vectors are ``knn_vector`` fields of the lucene engine."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import nullcontext
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
import orjson
from opensearchpy import OpenSearch
from opensearchpy.exceptions import ConnectionError as Unreachable
from opensearchpy.exceptions import OpenSearchException, SerializationError, TransportError
from opensearchpy.helpers import scan

from resift.arrays import Floats
from resift.encoders.model import Model
from resift.errors import BadInput, EngineError, EngineUnavailable, IndexNotFound, ModelMismatch
from resift.plugin.documents import (
    Document,
    IndexInfo,
    Rejection,
    SearchResult,
    check_document,
    check_index,
    check_name,
    check_parts,
)
from resift.plugin.engine import OVERSAMPLING, Engine
from resift.plugin.opensearch.client import JsonSerializer, T, _reason, _translated
from resift.plugin.opensearch.hit_cache import HitCache, IndexState
from resift.plugin.opensearch.mappings import mappings
from resift.plugin.query_dsl import CODE_FIELD, VECTOR_FIELD, knn_body, names_vector, patterns, without_vector
from resift.plugin.vector_code import encode_vector

Place = tuple[str, int, int]  # a hit's index, sequence number and primary term
# what a search body may hold for its hits to be put together from kept ones
_PLAIN = {
    *("query", "size", "from", "_source", "aggs", "aggregations", "min_score", "post_filter", "rescore", "suggest"),
    *("indices_boost", "timeout", "terminate_after", "track_scores", "track_total_hits"),
}
_STATE = "index.uuid,index.creation_date,index.number_of_shards,index.search.default_pipeline"


class OpenSearchEngine(Engine):
    """An OpenSearch cluster. ``url`` may carry user and password; OPENSEARCH_CA_CERTS names a certificate file."""

    writers = 3

    def __init__(self, url: str, timeout: float = 30) -> None:
        self.url, self.json = url, JsonSerializer()
        self.client = OpenSearch(
            url,
            timeout=timeout,
            ca_certs=os.environ.get("OPENSEARCH_CA_CERTS"),
            http_compress=False,
            pool_maxsize=32,
            serializer=self.json,
        )
        self.hit_cache: HitCache[Any] = HitCache()

    def call(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call the client, its exceptions turned into ours."""
        try:
            return function(*arguments, **named)
        except Unreachable as error:
            raise EngineUnavailable(f"no answer from OpenSearch: {error}", expected="a reachable cluster") from error
        except TransportError as error:
            raise _translated(error) from error
        except (SerializationError, ValueError) as error:
            raise BadInput(f"OpenSearch cannot be asked this: {error}") from error
        except OpenSearchException as error:
            raise EngineError(str(error)) from error

    def close(self) -> None:
        self.client.close()

    def ping(self) -> str:
        version = self.call(self.client.info)["version"]
        return f"{version.get('distribution', 'elasticsearch')} {version['number']}"

    def create(self, index: str, fields: Sequence[str], model: Model, analyzer: str = "english") -> None:
        check_index(index, fields, analyzer)
        body = {"settings": {"index.knn": True}, "mappings": mappings(fields, model, analyzer)}
        self.call(self.client.indices.create, index=index, body=body)

    def info(self, index: str, headers: Mapping[str, str] | None = None) -> IndexInfo:
        found = self.call(self.client.indices.get_mapping, index=index, headers=headers)
        metas = [entry["mappings"].get("_meta", {}).get("resift") for entry in found.values()]
        if not metas:
            raise IndexNotFound(f"no index {index!r}", value=index, expected="an existing index")
        if any(meta != metas[0] for meta in metas):
            raise ModelMismatch(
                f"{index!r} names indices of different models", value=index, expected="one model's indices"
            )
        meta = metas[0] or {}
        fields = tuple(meta.get("fields", ()))
        return IndexInfo(index, fields, meta.get("model"), meta.get("model_name"), meta.get("dim"))

    def drop(self, index: str) -> None:
        self.call(self.client.indices.delete, index=check_name(index))
        self.hit_cache = HitCache()

    def refresh(self, index: str) -> None:
        self.call(self.client.indices.refresh, index=index)

    def bulk(self, index: str, documents: Sequence[Document]) -> list[Rejection]:
        lines, sent, rejected = [], [], []
        for position, document in enumerate(documents):
            reason = check_parts(document, (), None)
            try:
                line = "" if reason else _line(document)
            except (TypeError, ValueError) as error:
                reason = f"not JSON: {error}"
            if reason is not None:
                rejected.append(Rejection(position, document.id, 400, reason))
                continue
            sent.append(position)
            lines += [json.dumps({"index": {"_id": document.id}}), line]
        if sent:
            told = {"filter_path": "items.*.status,items.*.error"}
            answer = self.call(self.client.bulk, index=index, body="\n".join(lines) + "\n", params=told)
            for position, item in zip(sent, answer["items"], strict=True):
                result = item["index"]
                if result["status"] >= 300:
                    rejected.append(
                        Rejection(position, documents[position].id, result["status"], _reason(result["error"]))
                    )
        return sorted(rejected, key=lambda rejection: rejection.position)

    def search(
        self,
        index: str,
        body: dict[str, Any],
        vectors: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> SearchResult:
        def ask(bodies: Sequence[Any]) -> list[dict[str, Any]]:
            return [self.call(self.client.search, index=index, body=bodies[0], headers=headers)]

        return self._searched(index, [body], vectors, headers, ask)[0]

    def search_all(
        self,
        index: str,
        bodies: Sequence[dict[str, Any]],
        vectors: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> list[SearchResult]:
        """By ``_msearch``; what it refuses is raised as the single search would."""

        def ask(bodies: Sequence[Any]) -> list[dict[str, Any]]:
            lines = "".join(f"{{}}\n{body if isinstance(body, str) else _dumped(body)}\n" for body in bodies)
            answer = self.call(self.client.msearch, index=index, body=lines, headers=headers)
            for response in answer["responses"]:
                if "error" in response:
                    raise _translated(TransportError(response["status"], "", response))
            responses: list[dict[str, Any]] = answer["responses"]
            return responses

        return self._searched(index, bodies, vectors, headers, ask)

    def _searched(
        self,
        index: str,
        bodies: Sequence[dict[str, Any]],
        vectors: bool,
        headers: Mapping[str, str] | None,
        ask: Callable[[Sequence[Any]], list[dict[str, Any]]],
    ) -> list[SearchResult]:
        """Results by ``ask``; with vectors and the service's own rights, hits come as numbers of kept ones where they
        can be. Callers with rights of their own are shown what the engine answers them alone."""
        if vectors and headers is None:
            short = [_short(body) for body in bodies]
            states = self._states(index, None) if None not in short else {}
            if states and all(state.numbered for state in states.values()):
                found = self._completed(index, ask(short), bodies, states)
                if found is not None:
                    return found
        return self._results(index, ask([_asking(body, vectors) for body in bodies]), bodies, vectors, headers)

    def _completed(
        self,
        index: str,
        responses: Sequence[dict[str, Any]],
        bodies: Sequence[dict[str, Any]],
        states: Mapping[str, IndexState],
    ) -> list[SearchResult] | None:
        """Results whose hits are known by their sequence numbers. What is not kept takes one more request for vectors,
        and one for each ``_source`` setting. None where a document is gone by then."""
        specs = [_dumped(body.get("_source")) for body in bodies]
        sources: dict[str | None, Any] = {None: [VECTOR_FIELD]}
        sources |= {spec: without_vector(body.get("_source")) for spec, body in zip(specs, bodies, strict=True)}
        missing: dict[str | None, set[Place]] = {}
        found: list[list[tuple[dict[str, Any], Place, Any, Any]]] = []
        for response, spec in zip(responses, specs, strict=True):
            found.append([])
            for hit in response["hits"]["hits"]:
                state = states.get(hit["_index"])
                if state is None:
                    return None
                place = (hit["_index"], hit.pop("_seq_no"), hit.pop("_primary_term"))
                whole, vector = (
                    self.hit_cache.get((state.key, *place[1:], spec)),
                    self.hit_cache.get((state.key, *place[1:])),
                )
                if whole is None:
                    missing.setdefault(spec, set()).add(place)
                if vector is None:
                    missing.setdefault(None, set()).add(place)
                found[-1].append((hit, place, whole, vector))
        fetched: dict[tuple[str | None, Place], Any] = {}
        for which, places in missing.items():
            fetched |= self._fetched(index, places, sources[which], which, states)
        results = []
        for response, spec, rows in zip(responses, specs, found, strict=True):
            result = SearchResult(response)
            hits: list[dict[str, Any]] = response["hits"]["hits"]
            for position, (hit, place, whole, vector) in enumerate(rows):
                result.cached += vector is not None
                if whole is None or vector is None:
                    whole, vector = whole or fetched.get((spec, place)), vector or fetched.get((None, place))
                    if whole is None or vector is None:
                        return None
                merged = whole.copy()
                merged.update(hit)
                hits[position] = merged
                result.vectors.append(vector[0])
            results.append(result)
        return results

    def _fetched(
        self, index: str, places: Set[Place], source: Any, spec: str | None, states: Mapping[str, IndexState]
    ) -> dict[tuple[str | None, Place], Any]:
        """Hits with their ``source``, or without a ``spec`` vectors as tuples of one, which are kept from now on."""
        indices, numbers = {place[0] for place in places}, {place[1] for place in places}
        here = [{"terms": {"_seq_no": list(numbers)}}, {"terms": {"_index": list(indices)}}]
        asked = {
            "query": {"bool": {"filter": here}},
            "size": min(len(indices) * len(numbers), 10_000),
            "_source": source,
            "seq_no_primary_term": True,
            "track_total_hits": False,
            "search_pipeline": "_none",
        }
        with self.json.floats() if spec is None else nullcontext():
            response = self.call(self.client.search, index=index, body=asked)
        found = {}
        for hit in response["hits"]["hits"]:
            number, term = hit.pop("_seq_no"), hit.pop("_primary_term")
            value = hit if spec is not None else (_stored_vector(hit),)
            if hit["_index"] in states:
                key = states[hit["_index"]].key
                self.hit_cache.put((key, number, term) if spec is None else (key, number, term, spec), value)
            found[spec, (hit["_index"], number, term)] = value
        return found

    def _results(
        self,
        index: str,
        responses: Sequence[dict[str, Any]],
        bodies: Sequence[dict[str, Any]],
        vectors: bool,
        headers: Mapping[str, str] | None,
    ) -> list[SearchResult]:
        results = [_result(response, body) for response, body in zip(responses, bodies, strict=True)]
        if vectors:
            asking = zip(results, bodies, strict=True)
            self._add_vectors(index, [result for result, body in asking if not _names_vector(body)], headers)
        for result, body in zip(results, bodies, strict=True):
            if not body.get("seq_no_primary_term"):
                for hit in result.hits:
                    hit.pop("_seq_no", None)
                    hit.pop("_primary_term", None)
        return results

    def _add_vectors(self, index: str, results: Sequence[SearchResult], headers: Mapping[str, str] | None) -> None:
        """Fill in the hits' vectors: those that are kept, and by one more request those that are not."""
        states = self._states(index, headers)
        missing: dict[tuple[Any, ...], list[tuple[SearchResult, int]]] = {}
        for result in results:
            for position, hit in enumerate(result.hits):
                known = self.hit_cache.get(_version(hit, states))
                if known is None:
                    missing.setdefault(_place(hit), []).append((result, position))
                else:
                    (result.vectors[position],) = known
                    result.cached += 1
        if not missing:
            return
        indices, ids = {place[0] for place in missing}, {place[1] for place in missing}
        here = [{"ids": {"values": list(ids)}}, {"terms": {"_index": list(indices)}}]
        body = {
            "query": {"bool": {"filter": here}},
            "size": min(len(indices) * len(ids), 10_000),
            "_source": [VECTOR_FIELD],
            "seq_no_primary_term": True,
            "search_pipeline": "_none",
        }
        with self.json.floats():
            response = self.call(self.client.search, index=index, body=body, headers=headers)
        for hit in response["hits"]["hits"]:
            vector = _stored_vector(hit)
            self.hit_cache.put(_version(hit, states), (vector,))
            for result, position in missing.get(_place(hit), ()):
                result.vectors[position] = vector

    def _states(self, index: str, headers: Mapping[str, str] | None) -> Mapping[str, IndexState]:
        """The indices behind a name, as they were known at most five seconds ago."""
        return self.hit_cache.states(index, lambda: self._asked_states(index, headers))

    def _asked_states(self, index: str, headers: Mapping[str, str] | None) -> dict[str, IndexState]:
        """None, so that nothing is kept, where the caller may not know them."""
        try:
            get = self.client.indices.get_settings
            found = self.call(get, index=index, name=_STATE, flat_settings=True, headers=headers)
        except EngineError:
            return {}
        states = {}
        for name, entry in found.items():
            settings = entry["settings"]
            key = f"{settings['index.uuid']} {settings.get('index.creation_date')}"
            piped = settings.get("index.search.default_pipeline", "_none") != "_none"
            states[name] = IndexState(key, settings.get("index.number_of_shards") == "1" and not piped)
        return states

    def masked_body(
        self,
        vector: Floats,
        mask: Floats,
        similarity: str,
        size: int,
        filter: dict[str, Any] | None = None,
        source: Any = True,
    ) -> dict[str, Any]:
        """One request: the shard orders its candidates by our script, which needs no installation."""
        name, probe = {"cosine": ("masked_cosine", mask**2 * vector), "jaccard": ("fuzzy_jaccard", vector)}[similarity]
        params = {"field": VECTOR_FIELD, "query": vector.tolist(), "mask": mask.tolist()}
        script = {"source": _script(name), "params": params}
        ordered = {"script_score": {"query": {"match_all": {}}, "script": script}}
        candidates = min(size * OVERSAMPLING, 10_000)
        return {
            **knn_body(probe, candidates, filter, source),
            "size": size,
            "rescore": {
                "window_size": candidates,
                "query": {"query_weight": 0, "rescore_query_weight": 1, "rescore_query": ordered},
            },
        }

    def get(self, index: str, id: str) -> tuple[dict[str, Any], Any]:
        found = self.call(self.client.get, index=index, id=id)
        found["_source"].pop(VECTOR_FIELD, None)
        found["_source"].pop(CODE_FIELD, None)
        return found["_source"], (found["_seq_no"], found["_primary_term"])

    def put(self, index: str, document: Document, version: Any) -> bool:
        reason = check_document(document, (), None)
        if reason is not None:
            raise EngineError(reason, status=400, value=document.id)
        params = {"if_seq_no": version[0], "if_primary_term": version[1]}
        try:
            self.call(self.client.index, index=index, id=document.id, body=_source(document), params=params)
        except EngineError as error:
            if error.status != 409:
                raise
            return False
        return True

    def scan(self, index: str) -> Iterator[tuple[str, dict[str, Any], Floats | None]]:
        for hit in self.call(lambda: scan(self.client, index=index, size=500)):
            values = hit["_source"].pop(VECTOR_FIELD, None)
            hit["_source"].pop(CODE_FIELD, None)
            yield hit["_id"], hit["_source"], None if values is None else np.asarray(values, np.float32)

    def delete(self, index: str, ids: Sequence[str]) -> int:
        if not ids:
            return 0
        lines = "".join(json.dumps({"delete": {"_id": id}}) + "\n" for id in ids)
        answer = self.call(self.client.bulk, index=index, body=lines)
        return sum(item["delete"]["status"] == 200 for item in answer["items"])


def _names_vector(body: Mapping[str, Any]) -> bool:
    return names_vector(body.get("_source"))


@cache
def _script(name: str) -> str:
    return (files("resift.plugin") / "resources" / f"{name}.painless").read_text("utf-8")


def _dumped(value: Any) -> str:
    """JSON, as opensearch-py sends it."""
    text: str = JsonSerializer().dumps(value)
    return text


def _short(body: dict[str, Any]) -> str | None:
    """The search, its hits by their sequence numbers alone; None where more is asked of them than their fields."""
    spec = body.get("_source")
    excluded = patterns(spec, "excludes") if isinstance(spec, Mapping) else []
    if not _PLAIN.issuperset(body) or _names_vector(body) or any(fnmatchcase(VECTOR_FIELD, one) for one in excluded):
        return None
    bare = {"_source": False, "stored_fields": "_none_", "seq_no_primary_term": True, "search_pipeline": "_none"}
    text = _dumped({**body, **bare})
    return None if '"inner_hits":' in text else text


def _asking(body: dict[str, Any], vectors: bool) -> dict[str, Any]:
    """A search body that leaves the vector field out, unless it names it, and for ``vectors`` brings hits' versions."""
    versions = {"seq_no_primary_term": True} if vectors and not _names_vector(body) else {}
    return {**body, "_source": without_vector(body.get("_source")), **versions}


def _result(response: dict[str, Any], body: dict[str, Any]) -> SearchResult:
    """A response, with the vectors where its body names them; they are not in the hits where it does not."""
    hits = response["hits"]["hits"]
    if _names_vector(body):
        named = (hit.get("_source", {}).get(VECTOR_FIELD) for hit in hits)
        return SearchResult(response, [None if values is None else np.asarray(values, np.float32) for values in named])
    return SearchResult(response, [None] * len(hits))


def _stored_vector(hit: Mapping[str, Any]) -> Floats | None:
    """The vector of a hit that brings it; None where its document has none."""
    values = hit.get("_source", {}).get(VECTOR_FIELD)
    return None if values is None else np.asarray(values, np.float32)


def _place(hit: Mapping[str, Any]) -> tuple[Any, ...]:
    return hit["_index"], hit["_id"], hit.get("_routing")


def _version(hit: Mapping[str, Any], states: Mapping[str, IndexState]) -> tuple[Any, ...] | None:
    """What a hit's vector is kept under; None where the hit does not say all of it."""
    state, number = states.get(hit["_index"]), hit.get("_seq_no")
    if state is None or number is None:
        return None
    return state.key, hit["_id"], hit.get("_routing"), number, hit.get("_primary_term")


def _line(document: Document) -> str:
    """A document as JSON, its vector in the fewest digits that tell 32-bit floats apart. ValueError for NaN."""
    fields = json.dumps(document.source, allow_nan=False)
    if document.vector is None:
        return fields
    if not document.source or document.source.keys() & {VECTOR_FIELD, CODE_FIELD}:
        return json.dumps(_source(document), allow_nan=False)
    numbers = orjson.dumps(np.ascontiguousarray(document.vector, np.float32), option=orjson.OPT_SERIALIZE_NUMPY)
    return f'{fields[:-1]}, "{VECTOR_FIELD}": {numbers.decode()}, "{CODE_FIELD}": "{encode_vector(document.vector)}"}}'


def _source(document: Document) -> dict[str, Any]:
    if document.vector is None:
        return document.source
    vector = np.asarray(document.vector, np.float32)
    return {**document.source, VECTOR_FIELD: vector.tolist(), CODE_FIELD: encode_vector(vector)}
