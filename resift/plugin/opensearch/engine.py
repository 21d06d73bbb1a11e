"""OpenSearch as an engine, by opensearch-py. Vectors are ``knn_vector`` fields of the lucene engine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from opensearchpy.exceptions import TransportError

from resift.arrays import Floats
from resift.cache import TtlCache
from resift.contracts.documents import (
    Document,
    IndexInfo,
    ModelDescription,
    Rejection,
    SearchResult,
    check_document,
    check_index,
    check_name,
)
from resift.contracts.engine import Engine, Headers
from resift.contracts.tuning import Tuning
from resift.errors import EngineError, IndexNotFound
from resift.plugin.opensearch.client import (
    call,
    call_for_text,
    connect,
    error_reason,
    from_json,
    has_only_rewriting_pipeline,
    scroll,
    supported_version,
    to_json,
    translate_error,
)
from resift.plugin.opensearch.documents import sent_body, stored_json, take_vectors, without_stored_vector
from resift.plugin.opensearch.mappings import (
    TUNING,
    exact_names,
    index_settings,
    mapped_fields,
    mappings,
    vector_fields,
)
from resift.plugin.opensearch.models import analyzed_tokens, embedding, sparse_tokens
from resift.query.dsl import PLAIN, VECTOR_FIELD, Body, NestedField, is_compact

_LARGEST = 1e38  # of numbers of 32 bits
_SECONDS = 5.0  # for which it is remembered what pipeline an index has, as its fields are
# What the node knows that is asked. Searches would wait for the one that manages the cluster, which may hang.
_LOCAL = {"local": "true"}


class OpenSearchEngine(Engine):
    """An OpenSearch cluster at ``url``, the URLs of one or several nodes separated by commas.

    ``timeout`` is how many seconds a request may take. Users, passwords and certificates are what
    :func:`resift.plugin.opensearch.client.connect` takes.
    """

    writers = 3

    def __init__(self, url: str, timeout: float = 30) -> None:
        self.client = connect(url, timeout)
        self._passed_by: TtlCache[bool] = TtlCache(1000, _SECONDS)  # whether indices have our default pipeline

    def close(self) -> None:
        self.client.close()

    def ping(self) -> str:
        return supported_version(call(self.client.info))

    def create(self, index: str, fields: Sequence[str], model: ModelDescription, analyzer: str = "english") -> None:
        check_index(index, fields, analyzer)
        made = IndexInfo.from_model(model, fields)
        body = {"settings": index_settings(analyzer), "mappings": mappings(fields, model, analyzer)}
        try:
            call(self.client.indices.create, index=index, body=body)
        except EngineError as error:
            if "resource_already_exists_exception" not in error.message or self.info(index).to_meta() != made.to_meta():
                raise

    def _mappings(self, index: str, headers: Headers = None) -> dict[str, dict[str, Any]]:
        """The mapping of each index that a name stands for; who may search an index may read it, unlike its aliases.

        Raises IndexNotFound where there is none: to OpenSearch "" is all indices, and a pattern without any no error.
        """
        answer = call(self.client.indices.get_mapping, index=index, params=_LOCAL, headers=headers) if index else {}
        if not answer:
            raise IndexNotFound(f"no index {index!r}", value=index, expected="an existing index")
        return {name: answer[name]["mappings"] for name in sorted(answer)}

    def info(self, index: str, headers: Headers = None) -> IndexInfo:
        mapped = self._mappings(index, headers)
        return IndexInfo.combine(index, [_info(name, mapping) for name, mapping in mapped.items()])

    def tune(self, index: str, tuning: Tuning | None) -> None:
        for name, mapping in self._mappings(index).items():
            meta = mapping.get("_meta", {})
            others = {key: value for key, value in meta.items() if key != TUNING}
            changed = others if tuning is None else {**others, TUNING: tuning.to_json()}
            if changed != meta:
                call(self.client.indices.put_mapping, index=name, body={"_meta": changed})

    def resolve(self, index: str, headers: Headers = None) -> list[str]:
        return list(self._mappings(index, headers))

    def indices(self, patterns: Sequence[str] = ("*",), headers: Headers = None) -> list[IndexInfo]:
        # System indices left out by name, as a cluster warns of requests for them; those behind data streams are not.
        # Names that are given come first: what is excluded before anything is included counts as a name of its own.
        index = ",".join([*patterns, "-.*", ".ds-*"] if "*" in patterns else patterns)
        params = {"expand_wildcards": "open", "ignore_unavailable": "true"}
        answer = call(self.client.indices.get_mapping, index=index, params=params, headers=headers)
        return [_info(name, answer[name]["mappings"]) for name in sorted(answer)]

    def exact_fields(self, index: str, headers: Headers = None) -> list[str]:
        mapped = self._mappings(index, headers).values()
        return list(dict.fromkeys(name for mapping in mapped for name in exact_names(mapping)))

    def value_counts(
        self, index: str, query: Body, fields: Sequence[str], size: int, headers: Headers = None
    ) -> dict[str, list[tuple[Any, int]]]:
        # under numbers: the name of an aggregation may not have every sign that a field's may
        aggs = {str(at): {"terms": {"field": name, "size": size}} for at, name in enumerate(fields)}
        body = {"query": query, "size": 0, "aggs": aggs}
        found = self.search(index, body, headers=headers).response.get("aggregations", {})
        return {
            name: [(_value(bucket), bucket["doc_count"]) for bucket in found.get(str(at), {}).get("buckets", ())]
            for at, name in enumerate(fields)
        }

    def embed(self, model: str, text: str, headers: Headers = None) -> Floats | None:
        return embedding(self.client, model, text, headers)

    def query_tokens(
        self, text: str, model: str | None = None, analyzer: str | None = None, headers: Headers = None
    ) -> dict[str, float] | None:
        if model is None:
            return analyzed_tokens(self.client, analyzer, text, headers)
        return sparse_tokens(self.client, model, text, headers)

    def drop(self, index: str) -> None:
        # check_name refuses patterns and lists: they would delete more than one index.
        call(self.client.indices.delete, index=check_name(index))

    def refresh(self, index: str) -> None:
        call(self.client.indices.refresh, index=index)

    def bulk(self, index: str, documents: Sequence[Document], vector_field: str = VECTOR_FIELD) -> list[Rejection]:
        lines: list[str] = []
        sent: list[int] = []
        rejected: list[Rejection] = []
        for position, document in enumerate(documents):
            # fields and the vector's length are left to the mapping: OpenSearch rejects each document by itself
            reason = check_document(document)
            if reason is None:
                sent.append(position)
                lines += [json.dumps({"index": {"_id": document.id}}), stored_json(document, vector_field)]
            else:
                rejected.append(Rejection(position, document.id, 400, reason))
        if sent:
            refused = self.bulk_lines([documents[position].id for position in sent], index, lines, "index")
            rejected += [replace(one, position=sent[one.position]) for one in refused]
        return sorted(rejected, key=lambda rejection: rejection.position)

    def bulk_lines(self, ids: Sequence[str], index: str, lines: Sequence[str], action: str) -> list[Rejection]:
        """Send one bulk request, the ``lines`` of an action on each of the documents ``ids``; return the refused.

        Raises EngineError if the caller lacks a right to write, which is no document's fault.
        """
        params = {"filter_path": "items.*.status,items.*.error"}
        answer = call(self.client.bulk, index=index, body="\n".join(lines) + "\n", params=params)
        results = [item[action] for item in answer["items"]]
        for result in results:
            if result.get("error", {}).get("type") == "security_exception":
                raise EngineError(f"OpenSearch: {error_reason(result['error'])}", status=result["status"])
        return [
            Rejection(position, id, result["status"], error_reason(result["error"]))
            for position, (id, result) in enumerate(zip(ids, results, strict=True))
            if "error" in result  # which a document has not that was to be deleted, and is gone
        ]

    def search(self, index: str, body: Body, vectors: str | None = None, headers: Headers = None) -> SearchResult:
        sent = self._sent(index, body, vectors, headers)
        if vectors is None:
            text = call_for_text(self.client.search, index=index, body=sent, headers=headers)
            return SearchResult(unparsed=(text, from_json))
        return _result(call(self.client.search, index=index, body=sent, headers=headers), vectors)

    def search_all(
        self, index: str, bodies: Sequence[Body], vectors: str | None = None, headers: Headers = None
    ) -> list[SearchResult]:
        read = [vectors, *[None] * len(bodies)]
        sent = [self._sent(index, body, field, headers) for body, field in zip(bodies, read, strict=False)]
        lines = "".join(f"{{}}\n{to_json(body)}\n" for body in sent)
        answer = call(self.client.msearch, index=index, body=lines, headers=headers)
        for response in answer["responses"]:
            status = response.pop("status", 200)  # of this body alone, and no part of a search's answer
            if "error" in response:  # _msearch answers 200 and puts the refusal of one body in its place
                raise translate_error(TransportError(status, "", response))
        return [_result(response, field) for response, field in zip(answer["responses"], read, strict=False)]

    def _sent(self, index: str, body: Body, vectors: str | None, headers: Headers) -> Body:
        """The body of a search of ours as OpenSearch is sent it: past a default pipeline that only asks us.

        Our own searches are rewritten already, or are meant to be plain. Through the pipeline the cluster would ask the
        reranker about each, which costs five milliseconds where all is well; where all its threads wait for searches,
        or it hangs, it costs a second. Where an index came by a snapshot without the pipeline, it would refuse them.
        What else a pipeline does, such as to mix the scores of a ``hybrid`` query, is meant for our searches too; then
        the rewriting is asked about once more, and leaves alone what it made.
        """
        sent = sent_body(body, vectors)
        if "search_pipeline" in sent:
            return sent
        key = (index, str(headers))
        passed_by = self._passed_by.get(key)
        if passed_by is None:
            passed_by = self._passed_by.put(key, has_only_rewriting_pipeline(self.client, index, headers))
        return {**sent, **PLAIN} if passed_by else sent

    def document_counts(self, index: str, clauses: Sequence[Body], headers: Headers = None) -> list[int]:
        if not clauses:
            return []
        # of all documents, where the engine mostly knows them without a search: sixty searches took a tenth of a second
        aggs = {"counts": {"filters": {"filters": list(clauses)}}}
        found = self.search(index, {"size": 0, "track_total_hits": False, "aggs": aggs}, headers=headers).response
        return [one["doc_count"] for one in found["aggregations"]["counts"]["buckets"]]

    def sample(
        self,
        index: str,
        size: int,
        source: Any = True,
        vectors: str | None = None,
        headers: Headers = None,
    ) -> SearchResult:
        return self.search(index, _sample_body({}, size, source, 7), vectors, headers)

    def sample_matches(self, index: str, query: Body, size: int, source: Any = True, seed: int = 7) -> SearchResult:
        scoring = {"query": query, "boost_mode": "replace"}
        return self.search(index, _sample_body(scoring, size, source, seed))

    def get(self, index: str, id: str) -> tuple[dict[str, Any], Any]:
        answer = call(self.client.get, index=index, id=id)
        return without_stored_vector(answer["_source"]), _version(answer)

    def put_vectors(
        self, index: str, vectors: Sequence[tuple[str, Any, Floats]], vector_field: str = VECTOR_FIELD
    ) -> list[Rejection]:
        if not vectors:  # OpenSearch refuses an empty bulk request
            return []
        wanted = "binary" if is_compact(vector_field) else "knn_vector"
        for name, mapping in self._mappings(index).items():  # what is not mapped would become mere numbers
            if (kind := mapping.get("properties", {}).get(vector_field, {}).get("type")) != wanted:
                message = f"field {vector_field} of index {name!r} is {kind or 'not mapped'}, and can hold no vectors"
                expected = f"{wanted}: copy the index into one without that field, and resift attach it with --vectors"
                raise EngineError(message, status=409, value=vector_field, expected=expected)
        lines = []
        for id, (seq_no, primary_term, routing), vector in vectors:
            action = {"_id": id, "if_seq_no": seq_no, "if_primary_term": primary_term}
            # a partial update of the vector alone, which leaves every other byte of the document as it is
            lines.append(json.dumps({"update": action if routing is None else {**action, "routing": routing}}))
            lines.append(f'{{"doc": {stored_json(Document(id, {}, vector), vector_field)}}}')
        return self.bulk_lines([id for id, _, _ in vectors], index, lines, "update")

    def scan(
        self,
        index: str,
        vector_field: str = VECTOR_FIELD,
        fields: Sequence[str] | None = None,
        missing: bool = False,
        ids: Sequence[str] | None = None,
        query: Body | None = None,
    ) -> Iterator[Document]:
        conditions: list[Body] = []
        if missing:
            conditions.append({"bool": {"must_not": [{"exists": {"field": vector_field}}]}})
        if ids is not None:
            conditions.append({"ids": {"values": list(ids)}})
        body: Body = {"query": {"bool": {"filter": conditions}}, "seq_no_primary_term": True}
        if query is not None:
            body["query"]["bool"]["must"] = [query]
            body["sort"] = ["_score"]
        if fields is not None or query is not None:
            source = True if fields is None else list(fields)
            body = sent_body({**body, "_source": source}, None if missing or query else vector_field)
        for hit in scroll(self.client, index, body):
            (vector,) = take_vectors([hit], vector_field)
            yield Document(hit["_id"], without_stored_vector(hit["_source"]), vector, _version(hit))

    def delete(self, index: str, ids: Sequence[str]) -> int:
        if not ids:  # OpenSearch refuses an empty bulk request
            return 0
        lines = "".join(json.dumps({"delete": {"_id": id}}) + "\n" for id in ids)
        answer = call(self.client.bulk, index=index, body=lines)
        return sum(item["delete"]["status"] == 200 for item in answer["items"])


def _info(index: str, mappings: dict[str, Any]) -> IndexInfo:
    """What one index records about itself."""
    meta = mappings.get("_meta", {})
    info = IndexInfo.from_meta(index, meta.get("resift") or {})
    others = tuple(_located(other, mappings) for other in info.other_models)
    found = replace(_located(info, mappings), other_models=others, vector_fields=dict(vector_fields(mappings)))
    return replace(found, tuning=Tuning.from_json(meta.get(TUNING)))


def _located(info: IndexInfo, mappings: dict[str, Any]) -> IndexInfo:
    """The same with what is known of fields in nested objects."""
    paths = {name: path for name, _, path in mapped_fields(mappings) if path is not None}
    fields = tuple(NestedField(name, paths[name]) if name in paths else name for name in info.fields)
    return replace(info, fields=fields)


def _value(bucket: dict[str, Any]) -> Any:
    """The value that a bucket of a ``terms`` aggregation is for; a date is a text, as documents have it.

    True and false come as 1 and 0, and in words.
    """
    key, text = bucket["key"], bucket.get("key_as_string")
    if text is not None:
        return {"true": True, "false": False}.get(text, text)
    # a number of 32 bits comes as one of 64, which has digits of its own: 59.9 as 59.900001525878906
    fits = isinstance(key, float) and abs(key) < _LARGEST and np.float32(key) == key
    return float(str(np.float32(key))) if fits else key


def _version(hit: dict[str, Any]) -> tuple[int, int, str | None]:
    """What a write needs to know of a document to change this version of it and no other."""
    return hit["_seq_no"], hit["_primary_term"], hit.get("_routing")


def _result(response: dict[str, Any], vectors: str | None) -> SearchResult:
    return SearchResult(response, None if vectors is None else take_vectors(response["hits"]["hits"], vectors))


def _sample_body(scoring: Body, size: int, source: Any, seed: int) -> Body:
    """Return a search body for random documents. ``scoring`` contains further settings of the function score query."""
    score = {"random_score": {"seed": seed, "field": "_seq_no"}, **scoring}
    body = {"query": {"function_score": score}, "size": size, "_source": source, "track_total_hits": False}
    return {**body, **PLAIN}
