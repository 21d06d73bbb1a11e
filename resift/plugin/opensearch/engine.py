"""OpenSearch as a search engine, through opensearch-py."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
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
from resift.errors import AmbiguousDocument, EngineError, IndexNotFound
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
from resift.plugin.opensearch.documents import document_json, prepare_body, take_vectors, without_stored_vector
from resift.plugin.opensearch.mappings import (
    TUNING_KEY,
    exact_field_names,
    field_types,
    index_settings,
    mapped_fields,
    mappings,
    text_sources,
    vector_fields,
)
from resift.plugin.opensearch.models import analyzed_tokens, query_embedding, sparse_tokens
from resift.plugin.opensearch.stored_fields import has_source, ids_in_indices, stored_documents
from resift.query.clause_count import ClauseCounter, term_count
from resift.query.dsl import (
    MAX_OWN_CLAUSES,
    PLAIN,
    VECTOR_FIELD,
    Body,
    NestedField,
    is_compact_vector_field,
    is_resift_field,
    text_clause,
)

_MAX_FLOAT32 = 1e38  # limit for numbers that are compared with their 32-bit form
# Time for which the kind of an index's default pipeline is cached, in seconds. Its fields are cached as long.
_PIPELINE_SECONDS = 5.0
# Makes a node answer from its own copy of the cluster state. Otherwise it asks the cluster manager node. If that node
# hangs, searches would wait for it.
_LOCAL = {"local": "true"}
# Waits until the cluster manager node has handled the failure of shards, and the shards have started again. The client
# waits for the response longer than the cluster waits for the shards.
_WAIT_FOR_SHARDS = {
    "wait_for_events": "languid",
    "wait_for_status": "yellow",
    "timeout": "10s",
    "request_timeout": 15,
}
_SAMPLE_SEED = 7
_WORD_LENGTH = 12
# The error of a search whose rescore window is larger than the setting ``index.max_rescore_window``.
_TOO_LARGE_WINDOW = re.compile(r"Rescore window \[\d+\] is too large\. It must be less than \[(\d+)\]")
# Some of the indices behind a name may allow smaller windows than the index whose limit OpenSearch reports.
_MAX_WINDOW_ATTEMPTS = 5


class OpenSearchEngine(Engine):
    """A search engine that stores its indices in an OpenSearch cluster.

    Args:
        url: The URLs of one or more nodes, separated by commas. See :func:`resift.plugin.opensearch.client.connect` for
            credentials.
        timeout: The time limit of a request in seconds.

    Attributes:
        client: The client of opensearch-py.
    """

    writers = 3

    def __init__(self, url: str, timeout: float = 30) -> None:
        self.client = connect(url, timeout)
        # Whether the default search pipeline of an index only rewrites searches, by index and headers.
        self._only_rewrites: TtlCache[bool] = TtlCache(1000, _PIPELINE_SECONDS)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def ping(self) -> str:
        """Return the product name and version of the cluster, such as ``opensearch 3.6.0``.

        Raises:
            UnsupportedCluster: If the server is not OpenSearch, or if its version is too old.
        """
        return supported_version(call(self.client.info))

    def create(self, index: str, fields: Sequence[str], model: ModelDescription, analyzer: str = "english") -> None:
        """Create an index with mappings for its text fields and for the vectors of a model.

        If the index already exists with the same fields and model, nothing is changed. :meth:`Engine.create` describes
        the arguments and errors.
        """
        check_index(index, fields, analyzer)
        info = IndexInfo.from_model(model, fields)
        body = {"settings": index_settings(analyzer), "mappings": mappings(fields, model, analyzer)}
        try:
            call(self.client.indices.create, index=index, body=body)
        except EngineError as error:
            # Another process may have created the same index at the same time.
            if "resource_already_exists_exception" not in error.message or self.info(index).to_meta() != info.to_meta():
                raise

    def _mappings(self, index: str, headers: Headers = None) -> dict[str, dict[str, Any]]:
        """Return the mappings of all indices that a name refers to, by index name.

        Only mappings are read, because callers who may search an index may also read its mapping, but not its aliases.

        Args:
            index: The name of an index, alias or data stream, or a pattern.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.

        Raises:
            IndexNotFound: If the name is empty or refers to no index. OpenSearch itself would interpret an empty name
                as all indices, and would report no error for a pattern that matches no index.
        """
        response = call(self.client.indices.get_mapping, index=index, params=_LOCAL, headers=headers) if index else {}
        if not response:
            raise IndexNotFound(f"no index {index!r}", value=index, expected="an existing index")
        return {name: response[name]["mappings"] for name in sorted(response)}

    def info(self, index: str, headers: Headers = None) -> IndexInfo:
        """Return the description of an index: its text fields, its vectors and its settings.

        If a name refers to several indices, their descriptions are combined.

        Args:
            index: The name of an index, alias or data stream, or a pattern.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.
        """
        mappings_by_index = self._mappings(index, headers)
        return IndexInfo.combine(
            index, [_info_from_mapping(name, mapping) for name, mapping in mappings_by_index.items()]
        )

    def tune(self, index: str, tuning: Tuning | None) -> None:
        """Store search settings that were chosen for an index, or delete the stored settings.

        Args:
            index: The name of an index, alias or data stream, or a pattern. All indices that it refers to are changed.
            tuning: The settings, or None to delete the stored settings.
        """
        for name, mapping in self._mappings(index).items():
            meta = mapping.get("_meta", {})
            changed = {key: value for key, value in meta.items() if key != TUNING_KEY}
            if tuning is not None:
                changed[TUNING_KEY] = tuning.to_json()
            if changed != meta:
                self.put_mapping(name, {"_meta": changed}, mapping)

    def put_mapping(self, index: str, change: Body, mapping: dict[str, Any]) -> None:
        """Change the mapping of an index, and wait until the index can be searched.

        Older versions of OpenSearch may restart the shards of an index with a ``knn_vector`` field when its mapping
        changes.

        Args:
            index: The name of the index.
            change: The fields and the ``_meta`` to write.
            mapping: The mapping before the change. The method only waits if this mapping contains a ``knn_vector``
                field.
        """
        call(self.client.indices.put_mapping, index=index, body=change)
        if any(field.get("type") == "knn_vector" for _, field, _ in mapped_fields(mapping)):
            # In OpenSearch before 2.19.6, a new mapping makes the shards restart if index.knn is not set. See
            # https://github.com/opensearch-project/k-NN/issues/2540. The caller may lack the right to wait.
            with suppress(EngineError):
                call(self.client.cluster.health, index=index, params=_WAIT_FOR_SHARDS)

    def resolve(self, index: str, headers: Headers = None) -> list[str]:
        """Return the names of all indices that a name refers to.

        Args:
            index: The name of an index, alias or data stream, or a pattern.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.
        """
        return list(self._mappings(index, headers))

    def indices(self, patterns: Sequence[str] = ("*",), headers: Headers = None) -> list[IndexInfo]:
        """Return the descriptions of all open indices that match one of the patterns, sorted by name.

        Args:
            patterns: Names of indices, in which ``*`` matches any characters.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.
        """
        # Exclude system indices (-.*), because OpenSearch logs a warning for each request for them, but not the backing
        # indices of data streams (.ds-*). The exclusion must come after a pattern: at the beginning of the list,
        # OpenSearch takes it for the name of an index.
        index = ",".join([*patterns, "-.*", ".ds-*"] if "*" in patterns else patterns)
        params = {"expand_wildcards": "open", "ignore_unavailable": "true"}
        response = call(self.client.indices.get_mapping, index=index, params=params, headers=headers)
        return [_info_from_mapping(name, response[name]["mappings"]) for name in sorted(response)]

    def exact_fields(self, index: str, headers: Headers = None) -> list[str]:
        """Return the names of all fields that support exact filters (``term`` queries), according to the mappings.

        Args:
            index: The name of an index, alias or data stream, or a pattern.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.
        """
        all_mappings = self._mappings(index, headers).values()
        return list(dict.fromkeys(name for mapping in all_mappings for name in exact_field_names(mapping)))

    def field_names(self, index: str) -> list[str]:
        """Return the names of all fields in the mappings, except the fields that Resift adds.

        Args:
            index: The name of an index, alias or data stream, or a pattern.
        """
        names = (name for mapping in self._mappings(index).values() for name, *_ in mapped_fields(mapping))
        return list(dict.fromkeys(name for name in names if not is_resift_field(name)))

    def value_counts(
        self, index: str, query: Body, fields: Sequence[str], size: int, headers: Headers = None
    ) -> dict[str, list[tuple[Any, int]]]:
        """Return the most frequent values of fields in the documents that match a query.

        Args:
            index: The name of an index, alias or data stream, or a pattern.
            query: The query clause that selects the documents.
            fields: The names of the fields.
            size: The maximum number of values for each field.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.

        Returns:
            For each field, pairs of a value and its number of documents, most frequent first.
        """
        # The aggregations are named by numbers, because field names may contain characters that are not allowed in the
        # name of an aggregation.
        aggs = {str(number): {"terms": {"field": name, "size": size}} for number, name in enumerate(fields)}
        body = {"query": query, "size": 0, "aggs": aggs}
        results = self.search(index, body, headers=headers).response.get("aggregations", {})
        counts = {}
        for number, name in enumerate(fields):
            buckets = results.get(str(number), {}).get("buckets", ())
            counts[name] = [(_bucket_value(bucket), bucket["doc_count"]) for bucket in buckets]
        return counts

    def embed(self, model: str, text: str, headers: Headers = None) -> Floats | None:
        """Encode a query text with an embedding model that runs in the cluster.

        Args:
            model: The id of the model.
            text: The query text.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.

        Returns:
            The query vector, of shape (n_dimensions,). It is never None: only engines without such models return None.

        Raises:
            EngineError: If the cluster refuses the request, or if the model returns no vector.
            EngineUnavailable: If the model does not answer within 0.7 seconds.
        """
        return query_embedding(self.client, model, text, headers)

    def query_tokens(
        self, text: str, model: str | None = None, analyzer: str | None = None, headers: Headers = None
    ) -> dict[str, float] | None:
        """Convert a query text to weighted tokens for sparse retrieval.

        Args:
            text: The query text.
            model: The id of a sparse encoding model in the cluster. If None, the analyzer is used.
            analyzer: The name of an analyzer in the cluster, by default ``bert-uncased``.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.

        Returns:
            The weight of each token. The result is never None for this engine.
        """
        if model is None:
            return analyzed_tokens(self.client, analyzer, text, headers)
        return sparse_tokens(self.client, model, text, headers)

    def drop(self, index: str) -> None:
        """Delete an index with all its documents."""
        # check_name refuses patterns and lists, which would delete several indices.
        call(self.client.indices.delete, index=check_name(index))

    def refresh(self, index: str) -> None:
        """Make all documents that were written to an index visible to searches."""
        call(self.client.indices.refresh, index=index)

    def bulk(self, index: str, documents: Sequence[Document], vector_field: str = VECTOR_FIELD) -> list[Rejection]:
        """Index documents with a single bulk request.

        Args:
            index: The name of the index.
            documents: The documents. They replace existing documents with the same ids.
            vector_field: The name of the field that stores the vectors.

        Returns:
            A rejection for each document that was not indexed.
        """
        lines: list[str] = []
        sent_positions: list[int] = []
        rejected: list[Rejection] = []
        for position, document in enumerate(documents):
            # The types of fields and the length of the vector are checked by OpenSearch, for each document separately.
            reason = check_document(document)
            if reason is None:
                sent_positions.append(position)
                lines += [json.dumps({"index": {"_id": document.id}}), document_json(document, vector_field)]
            else:
                rejected.append(Rejection(position, document.id, 400, reason))
        if sent_positions:
            sent_ids = [documents[position].id for position in sent_positions]
            refused = self.bulk_lines(sent_ids, index, lines, "index")
            rejected += [replace(rejection, position=sent_positions[rejection.position]) for rejection in refused]
        return sorted(rejected, key=lambda rejection: rejection.position)

    def bulk_lines(self, ids: Sequence[str], index: str, lines: Sequence[str], action: str) -> list[Rejection]:
        """Send a bulk request, whose lines the caller has prepared, to the cluster.

        Args:
            ids: The ids of the documents, in the order of the lines.
            index: The name of the index.
            lines: All lines of the request body: an action line for each document and, depending on the action, the
                document.
            action: The action in all action lines, such as ``index``.

        Returns:
            The documents that OpenSearch rejected. Deleting a document that does not exist is not a rejection.

        Raises:
            EngineError: If the caller has no permission to write.
        """
        params = {"filter_path": "items.*.status,items.*.error"}
        response = call(self.client.bulk, index=index, body="\n".join(lines) + "\n", params=params)
        results = [item[action] for item in response["items"]]
        for result in results:
            if result.get("error", {}).get("type") == "security_exception":
                raise EngineError(f"OpenSearch: {error_reason(result['error'])}", status=result["status"])
        return [
            Rejection(position, id, result["status"], error_reason(result["error"]))
            for position, (id, result) in enumerate(zip(ids, results, strict=True))
            if "error" in result
        ]

    def search(self, index: str, body: Body, vectors: str | None = None, headers: Headers = None) -> SearchResult:
        """Run a search, and return its hits.

        Args:
            index: The name of an index, alias or data stream, or a pattern.
            body: The search body.
            vectors: The name of the vector field to return for each hit, or None for no vectors.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.
        """
        prepared = self._body_to_send(index, body, vectors, headers)
        if vectors is None:
            text = call_for_text(self.client.search, index=index, body=prepared, headers=headers)
            return SearchResult(unparsed=(text, from_json))
        return _search_result(call(self.client.search, index=index, body=prepared, headers=headers), vectors)

    def search_all(
        self, index: str, bodies: Sequence[Body], vectors: str | None = None, headers: Headers = None
    ) -> list[SearchResult]:
        """Run several searches in a single request (``_msearch``).

        Args:
            index: The name of an index, alias or data stream, or a pattern.
            bodies: The search bodies.
            vectors: The name of the vector field whose values are returned for the hits of the first search, or None.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.

        Returns:
            The results, in the order of the bodies.
        """
        vector_fields = [vectors, *[None] * len(bodies)]
        prepared = [
            self._body_to_send(index, body, field, headers) for body, field in zip(bodies, vector_fields, strict=False)
        ]
        lines = "".join(f"{{}}\n{to_json(body)}\n" for body in prepared)
        responses = call(self.client.msearch, index=index, body=lines, headers=headers)["responses"]
        for response in responses:
            status = response.pop("status", 200)  # only _msearch adds the status to the response of a search
            if "error" in response:  # _msearch has status 200 even if a search is refused
                raise translate_error(TransportError(status, "", response))
        return [_search_result(response, field) for response, field in zip(responses, vector_fields, strict=False)]

    def _body_to_send(self, index: str, body: Body, vectors: str | None, headers: Headers) -> Body:
        """Return the search body to send to OpenSearch. It skips the default search pipeline of the index if possible.

        The pipeline is skipped if it does nothing except rewrite searches. All searches that this engine sends are
        already rewritten, or must not be rewritten. With the pipeline, the cluster would call the service again, which
        takes five milliseconds, or a second if the service is overloaded. The pipeline is also skipped if it does not
        exist, because OpenSearch would refuse the search. This happens if a snapshot restored the index without the
        pipeline.

        A pipeline with further processors is not skipped, because their work is needed, such as normalising the scores
        of a ``hybrid`` query. The cluster then calls the service again, which leaves its own clauses unchanged.

        Args:
            index: The name of an index, alias or data stream, or a pattern.
            body: The search body.
            vectors: The name of the vector field to return for each hit, or None for no vectors.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.
        """
        prepared = prepare_body(body, vectors)
        if "search_pipeline" in prepared:
            return prepared
        key = (index, str(headers))
        only_rewrites = self._only_rewrites.get(key)
        if only_rewrites is None:
            only_rewrites = self._only_rewrites.put(key, has_only_rewriting_pipeline(self.client, index, headers))
        return {**prepared, **PLAIN} if only_rewrites else prepared

    def max_rescore_window(self, index: str, window: int, headers: Headers = None) -> int:
        """Return the largest rescore window that all indices behind a name allow, but at most ``window``.

        The method sends a search without hits, because a caller who may search an index may not be allowed to read its
        setting ``index.max_rescore_window``. If a window is larger than the setting, OpenSearch reports the setting.

        Args:
            index: The name of an index, alias or data stream, or a pattern.
            window: The rescore window that a search needs.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.
        """
        for _ in range(_MAX_WINDOW_ATTEMPTS):
            stage = {"window_size": window, "query": {"rescore_query": {"match_none": {}}}}
            body = {"size": 0, "track_total_hits": False, "rescore": stage, **PLAIN}
            try:
                # If only some of the indices refuse the window, the response has the status 200.
                errors = str(self.search(index, body, headers=headers).response["_shards"].get("failures", ""))
            except EngineError as error:
                errors = error.message
                if not _TOO_LARGE_WINDOW.search(errors):
                    raise
            limits = [int(limit) for limit in _TOO_LARGE_WINDOW.findall(errors)]
            if not limits:
                break
            window = min(limits)
        return window

    def terms_per_word(self, info: IndexInfo, fields: Sequence[str], headers: Headers = None) -> int:
        """Return an upper estimate of the number of terms that the analyzers of some fields make of a word.

        An ``ngram`` tokenizer makes ten terms of a long word, for example. A caller who may search an index may not be
        allowed to read its analyzers or to use them. So the method searches for as many random words as fit into a
        query. If OpenSearch refuses the query, the method tries half as many words, and so on. The result is larger if
        the cluster allows fewer clauses than by default.

        Args:
            info: The description of the index.
            fields: The names or patterns of the searched fields. Empty for all fields.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.

        Returns:
            A power of two, or a number that leaves no room for any word.

        Raises:
            EngineError: If OpenSearch refuses the search for another reason than the number of clauses.
        """
        per_term = ClauseCounter(info.field_types).clauses_per_term(fields)
        words, terms = _random_words(MAX_OWN_CLAUSES), 1
        while per_term * terms <= MAX_OWN_CLAUSES:
            clauses = [text_clause(word, fields) for word in words[: MAX_OWN_CLAUSES // (per_term * terms)]]
            body = {"query": {"bool": {"should": clauses}}, "size": 0, "track_total_hits": False, **PLAIN}
            try:
                answer = self.search(info.name, body, headers=headers)
                errors = str(answer.response["_shards"].get("failures", ""))
            except EngineError as error:
                errors = error.message
                if "maxClauseCount" not in errors:
                    raise
            if "maxClauseCount" not in errors:
                break
            terms *= 2
        return terms

    def document_counts(
        self, index: str, clauses: Sequence[Body], headers: Headers = None, skip_pipeline: bool = False
    ) -> list[int]:
        """Return how many documents of an index match each query clause.

        Args:
            index: The name of an index, alias or data stream, or a pattern.
            clauses: The query clauses.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.
            skip_pipeline: Whether to skip the default search pipeline of the index.

        Returns:
            The numbers of documents, in the order of the clauses.
        """
        if not clauses:
            return []
        # A single aggregation over all documents is fast, because Lucene mostly knows these counts. In comparison,
        # sixty separate searches took a tenth of a second.
        aggs = {"counts": {"filters": {"filters": list(clauses)}}}
        body = {"size": 0, "track_total_hits": False, "aggs": aggs, **(PLAIN if skip_pipeline else {})}
        response = self.search(index, body, headers=headers).response
        return [bucket["doc_count"] for bucket in response["aggregations"]["counts"]["buckets"]]

    def word_counts(
        self, info: IndexInfo, fields: Sequence[str], words: Sequence[str], headers: Headers = None
    ) -> tuple[int, list[int]]:
        """Return the number of documents in an index, and the number of documents that contain each of some words.

        The default search pipeline of the index has no effect on the numbers.

        Args:
            info: The description of the index.
            fields: The names or patterns of the fields in which words are searched. Empty for all fields.
            words: The words. The analyzers of the index normalise them.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.
        """
        clauses_per_term = ClauseCounter(info.field_types).clauses_per_term(fields)
        if not words or sum(map(term_count, words)) * clauses_per_term > MAX_OWN_CLAUSES:
            return super().word_counts(info, fields, words, headers)
        clauses = [text_clause(word, fields) for word in words]
        # OpenSearch tests each document of the search against each filter of the aggregation. In a large index, this is
        # fast only if the search finds no documents except those with one of the words. The aggregation "global" counts
        # all documents.
        body = {
            "query": {"bool": {"filter": [{"bool": {"should": clauses}}]}},
            "size": 0,
            "track_total_hits": False,
            "aggs": {"counts": {"filters": {"filters": clauses}}, "all": {"global": {}}},
            **PLAIN,
        }
        results = self.search(info.name, body, headers=headers).response["aggregations"]
        return results["all"]["doc_count"], [bucket["doc_count"] for bucket in results["counts"]["buckets"]]

    def sample(
        self,
        index: str,
        size: int,
        source: Any = True,
        vectors: str | None = None,
        headers: Headers = None,
    ) -> SearchResult:
        """Return random documents of an index.

        The same arguments return the same documents as long as the index does not change. :meth:`Engine.sample`
        describes the arguments.
        """
        return self.search(index, _sample_body({}, size, source, _SAMPLE_SEED), vectors, headers)

    def sample_matches(
        self, index: str, query: Body, size: int, source: Any = True, seed: int = _SAMPLE_SEED
    ) -> SearchResult:
        """Return random documents that match a query.

        Args:
            index: The name of an index, alias or data stream, or a pattern.
            query: The query clause that the documents must match.
            size: The maximum number of documents.
            source: The value of ``_source``, which selects the returned fields.
            seed: The seed of the random selection.
        """
        scoring = {"query": query, "boost_mode": "replace"}
        return self.search(index, _sample_body(scoring, size, source, seed))

    def get(self, index: str, id: str) -> tuple[dict[str, Any], Any]:
        """Read a document by its id.

        Args:
            index: The name of the index.
            id: The id of the document.

        Returns:
            The fields of the document without its vector, and its version, which :meth:`put_vectors` needs.
        """
        response = call(self.client.get, index=index, id=id)
        return without_stored_vector(response["_source"]), _document_version(response)

    def put_vectors(
        self, index: str, vectors: Sequence[tuple[str, Any, Floats]], vector_field: str = VECTOR_FIELD
    ) -> list[Rejection]:
        """Replace the vectors of documents, unless the documents have changed since they were read.

        Args:
            index: The name of the index.
            vectors: Tuples of a document id, the version of the document when it was read, and the new vector, of shape
                (n_dimensions,).
            vector_field: The name of the field that stores the vectors.

        Returns:
            A rejection for each document that was not updated.
        """
        if not vectors:  # OpenSearch refuses an empty bulk request
            return []
        self._check_vector_field(index, vector_field)
        lines = []
        for id, (seq_no, primary_term, routing), vector in vectors:
            action = {"_id": id, "if_seq_no": seq_no, "if_primary_term": primary_term}
            # A partial update does not change any other field of the document.
            lines.append(json.dumps({"update": action if routing is None else {**action, "routing": routing}}))
            lines.append(f'{{"doc": {document_json(Document(id, {}, vector), vector_field)}}}')
        return self.bulk_lines([id for id, _, _ in vectors], index, lines, "update")

    def _check_vector_field(self, index: str, vector_field: str) -> None:
        """Check that a field can store vectors.

        If the field is not mapped as a vector field, dynamic mapping would index the vectors as plain numbers.

        Args:
            index: The name of the index.
            vector_field: The name of the field.

        Raises:
            EngineError: If the mapping lacks the field, or the field has another type.
        """
        expected_type = "binary" if is_compact_vector_field(vector_field) else "knn_vector"
        for name, mapping in self._mappings(index).items():
            actual_type = mapping.get("properties", {}).get(vector_field, {}).get("type")
            if actual_type != expected_type:
                state = actual_type or "not mapped"
                message = f"field {vector_field} of index {name!r} is {state}, and cannot contain vectors"
                advice = "copy the index to an index without that field, and resift attach it with --vectors"
                raise EngineError(message, status=409, value=vector_field, expected=f"{expected_type}: {advice}")

    def scan(
        self,
        index: str,
        vector_field: str = VECTOR_FIELD,
        fields: Sequence[str] | None = None,
        missing: bool = False,
        ids: Sequence[str] | None = None,
        query: Body | None = None,
    ) -> Iterator[Document]:
        """Yield all documents of an index with their vectors, or only the documents that the arguments select.

        :meth:`Engine.scan` describes the arguments.
        """
        filters: list[Body] = []
        if missing:
            filters.append({"bool": {"must_not": [{"exists": {"field": vector_field}}]}})
        if ids is not None:
            filters.append({"ids": {"values": list(ids)}})
        body: Body = {"query": {"bool": {"filter": filters}}, "seq_no_primary_term": True}
        if query is not None:
            body["query"]["bool"]["must"] = [query]
            body["sort"] = ["_score"]
        if fields is not None or query is not None:
            source = True if fields is None else list(fields)
            body = prepare_body({**body, "_source": source}, None if missing or query else vector_field)
        for hit in scroll(self.client, index, body):
            (vector,) = take_vectors([hit], vector_field)
            yield Document(hit["_id"], without_stored_vector(hit["_source"]), vector, _document_version(hit))

    def documents(
        self, index: str, ids: Sequence[str], headers: Headers = None, vectors: str = VECTOR_FIELD
    ) -> dict[str, tuple[dict[str, Any], Floats | None]]:
        """Return the fields and vectors of documents by id.

        If an index does not store the ``_source`` of its documents, the fields come from stored fields and term
        vectors, and there are no vectors.

        Args:
            index: The name of an index, alias or data stream, or a pattern.
            ids: The ids of the documents.
            headers: The HTTP headers of the caller, which are passed on to OpenSearch.
            vectors: The name of the vector field.

        Returns:
            A mapping from document ids to pairs of the document's fields and its vector of shape (n_dimensions,), or
            None for a document without a vector. Documents that do not exist are left out.
        """
        try:
            return super().documents(index, ids, headers, vectors)
        except EngineError:
            by_index = self._mappings(index, headers)
            without_source = [name for name, mapping in by_index.items() if not has_source(mapping)]
            if not without_source:
                raise
        # Search under the name in the request, because an alias may have a filter.
        with_source = [name for name in by_index if name not in without_source]
        query = ids_in_indices(ids, with_source)
        documents = self._documents_of(index, query, len(ids), headers, vectors) if with_source else {}
        for id, fields in stored_documents(self.client, index, without_source, ids, headers):
            if id in documents:
                message = f"document {id!r} is in several indices of {index!r}"
                raise AmbiguousDocument(message, value=id, expected="the index in the hit's _index field")
            documents[id] = fields, None
        return documents

    def delete(self, index: str, ids: Sequence[str]) -> int:
        """Delete documents by their ids, and return how many of them existed."""
        if not ids:  # OpenSearch refuses an empty bulk request
            return 0
        lines = "".join(json.dumps({"delete": {"_id": id}}) + "\n" for id in ids)
        response = call(self.client.bulk, index=index, body=lines)
        return sum(item["delete"]["status"] == 200 for item in response["items"])


def _info_from_mapping(index: str, mappings: dict[str, Any]) -> IndexInfo:
    """Create the description of an index, with its text fields, vectors and search settings, from its mapping.

    Args:
        index: The name of the index.
        mappings: The mapping of the index.
    """
    meta = mappings.get("_meta", {})
    info = IndexInfo.from_meta(index, meta.get("resift") or {})
    sources = {} if info.fields else text_sources(mappings)
    nested = _nested_fields(mappings)
    source_names = dict.fromkeys(name for names in sources.values() for name in names)
    return replace(
        _with_nested_fields(info, nested),
        other_models=tuple(_with_nested_fields(other, nested) for other in info.other_models),
        vector_fields=dict(vector_fields(mappings)),
        tuning=Tuning.from_json(meta.get(TUNING_KEY)),
        field_types=(field_types(mappings),),
        text_sources=sources,
        nested_fields=tuple(nested[name] for name in source_names if name in nested),
    )


def _with_nested_fields(info: IndexInfo, nested: Mapping[str, NestedField]) -> IndexInfo:
    """Mark the text fields that are inside nested objects, because they need ``nested`` queries.

    Args:
        info: The description of the index.
        nested: The fields of the index that are inside nested objects, by name.

    Returns:
        A copy of the description in which these fields are NestedField objects.
    """
    return replace(info, fields=tuple(nested.get(name, name) for name in info.fields))


def _nested_fields(mappings: dict[str, Any]) -> dict[str, NestedField]:
    """Return the fields of a mapping that are inside nested objects, by name.

    Args:
        mappings: The mapping of the index.
    """
    # A ``semantic`` field is searched by a model, and not for words.
    return {
        name: NestedField(name, path)
        for name, field, path in mapped_fields(mappings)
        if path is not None and field.get("type") != "semantic"
    }


def _bucket_value(bucket: dict[str, Any]) -> Any:
    """Return the field value that a bucket of a ``terms`` aggregation counts, in the same form as in documents.

    OpenSearch returns a boolean as 1 or 0 together with the text ``true`` or ``false``. Dates are returned as strings.
    """
    key, text = bucket["key"], bucket.get("key_as_string")
    if text is not None:
        return {"true": True, "false": False}.get(text, text)
    # OpenSearch converts 32-bit floats to 64 bits, which adds digits: 59.9 becomes 59.900001525878906.
    is_float32 = isinstance(key, float) and abs(key) < _MAX_FLOAT32 and np.float32(key) == key
    return float(str(np.float32(key))) if is_float32 else key


def _document_version(hit: dict[str, Any]) -> tuple[int, int, str | None]:
    """Return the version of a document that was read, so that a later write can fail if the document has changed.

    Args:
        hit: The document as OpenSearch returned it, with the keys ``_seq_no`` and ``_primary_term``.

    Returns:
        The sequence number, the primary term, and the routing value of the document or None.
    """
    return hit["_seq_no"], hit["_primary_term"], hit.get("_routing")


def _search_result(response: dict[str, Any], vectors: str | None) -> SearchResult:
    return SearchResult(response, None if vectors is None else take_vectors(response["hits"]["hits"], vectors))


def _sample_body(function_score: Body, size: int, source: Any, seed: int) -> Body:
    """Return a search body that retrieves random documents.

    Args:
        function_score: Settings to add to the ``function_score`` query, such as ``query`` to restrict the documents.
        size: The number of documents.
        source: The value of ``_source``, which selects the returned fields.
        seed: The seed of the random numbers.
    """
    score = {"random_score": {"seed": seed, "field": "_seq_no"}, **function_score}
    body = {"query": {"function_score": score}, "size": size, "_source": source, "track_total_hits": False}
    return {**body, **PLAIN}


@cache
def _random_words(count: int) -> list[str]:
    """Return different words of twelve random letters, which are the same in each process."""
    letters = np.random.default_rng(_SAMPLE_SEED).integers(ord("a"), ord("z") + 1, (count, _WORD_LENGTH))
    return ["".join(map(chr, word)) for word in letters]
