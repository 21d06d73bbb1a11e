"""Compare two answers of OpenSearch to the same search, without what a session may change: scores and their order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

# Parts of an answer that differ each time, or that describe how the answer was computed.
_VOLATILE = ("took", "profile", "_scroll_id", "pit_id", "num_reduce_phases", "phase_took", "processor_results")
# Parts of a hit that follow from its score.
_SCORED = ("_score", "_explanation", "sort", "matched_queries")
# Names that Resift gives its own clauses, which OpenSearch lists in ``matched_queries``.
_OWN_NAMES = "resift"
_SHOWN = 300  # characters of a value in the text of a difference


@dataclass(frozen=True)
class Answer:
    """The status and the JSON body of a response."""

    status: int
    body: Json

    @property
    def is_success(self) -> bool:
        """Whether the request succeeded."""
        return self.status < 400

    @property
    def failed_shards(self) -> int:
        """The number of shards that failed in a search that succeeded otherwise."""
        shards = self.body.get("_shards")
        return int(shards.get("failed", 0)) if isinstance(shards, dict) else 0

    @property
    def hits(self) -> list[Json]:
        """The hits, empty if the response has none."""
        hits = self.body.get("hits")
        return hits.get("hits", []) if isinstance(hits, dict) else []

    @property
    def total(self) -> Any:
        """The number of matching documents, as OpenSearch has it, or None if it was not counted."""
        hits = self.body.get("hits")
        return hits.get("total") if isinstance(hits, dict) else None


@dataclass(frozen=True)
class Difference:
    """One part of an answer that differs from the plain answer.

    Attributes:
        comparison: The name of the compared part: ``status``, ``shards``, ``total``, ``aggregations``, ``suggestions``,
            ``scroll``, ``end``, ``documents``, ``highlights``, ``inner hits``, ``sources`` or ``other parts``. It is
            ``rewriting`` if the service refuses the search, and ``marks`` if the service refuses to mark a hit. It is
            ``body`` if a session changes a part of the body that it must leave alone, or changes nothing.
        detail: Both values, for people.
    """

    comparison: str
    detail: str


def exact_differences(plain: Answer, answer: Answer) -> list[Difference]:
    """Return the parts of an answer that are not identical to those of the plain one, scores included."""
    if plain.status != answer.status:
        return [_difference("status", _status(plain), _status(answer))]
    names = [name for name in {**plain.body, **answer.body} if name not in _VOLATILE]
    pairs = ((name, plain.body.get(name), answer.body.get(name)) for name in names)
    return [_difference(name, before, after) for name, before, after in pairs if before != after]


def differences(plain: Answer, answer: Answer, body: Mapping[str, Any]) -> list[Difference]:
    """Return the parts of an answer in a session that differ from the plain answer, where they must be the same.

    Documents are compared if the page has all of them, or if something other than the score orders them. Of collapsed
    hits the groups are compared.

    Args:
        plain: The answer without Resift.
        answer: The answer to the rewritten search.
        body: The plain search body.
    """
    # OpenSearch may report another error for a search that it refuses anyway
    if plain.is_success != answer.is_success and not plain.failed_shards:
        return [_difference("status", _status(plain), _status(answer))]
    # of a search that some shards fail at, the order of hits decides which documents are read, and what fails
    if not plain.is_success or plain.failed_shards:
        return []
    compared = {
        "shards": _shards,
        "total": lambda one: one.total,
        "aggregations": lambda one: _without_scores(one.body.get("aggregations")),
        "suggestions": lambda one: _without_scores(one.body.get("suggest")),
        "scroll": lambda one: one.body.get("scroll failed"),
        "end": lambda one: [one.body.get("timed_out"), one.body.get("terminated_early")],
    }
    found = [
        _difference(name, before, after)
        for name, part in compared.items()
        if (before := part(plain)) != (after := part(answer))
    ]
    return [*found, *_hit_differences(plain, answer, body)]


def _hit_differences(plain: Answer, answer: Answer, body: Mapping[str, Any]) -> Iterator[Difference]:
    collapse = body["collapse"].get("field", "") if isinstance(body.get("collapse"), dict) else ""
    if collapse:
        before, after = _groups(plain.hits, collapse), _groups(answer.hits, collapse)
    else:
        before, after = _documents(plain.hits), _documents(answer.hits)
    if _is_ordered(plain.hits):
        if before != after:
            yield _difference("documents", before, after)
    elif _is_complete(plain, body, bool(collapse)):
        # a hybrid search that is not normalised may show a document several times
        lost, new = sorted({*before} - {*after}), sorted({*after} - {*before})
        if lost or new:
            yield Difference("documents", f"documents: {_shortened(lost)} are lost, {_shortened(new)} are new")
    elif len(before) != len(after):
        yield _difference("documents", len(before), len(after))
    hits = dict(zip(_documents(answer.hits), answer.hits, strict=True))
    pairs = [(hit, hits[key]) for key, hit in zip(_documents(plain.hits), plain.hits, strict=True) if key in hits]
    for name, part in _PARTS.items():
        for hit, other in pairs:
            if part(hit) != part(other):
                yield _difference(name, part(hit), part(other), f" of {hit.get('_id')}")
                break


def _highlight(hit: Json) -> Any:
    return hit.get("highlight")


def _source(hit: Json) -> Any:
    return hit.get("_source")


def _inner_hits(hit: Json) -> Any:
    return _without_scores(hit.get("inner_hits"))


def _other_parts(hit: Json) -> Json:
    named = ("highlight", "_source", "inner_hits")
    parts = {name: value for name, value in hit.items() if name not in (*_SCORED, *named)}
    return {
        **parts,
        "matched_queries": _own_names_removed(hit),
        "sort": hit.get("sort") if _is_ordered([hit]) else None,
    }


_PARTS = {"highlights": _highlight, "sources": _source, "inner hits": _inner_hits, "other parts": _other_parts}


def _is_complete(plain: Answer, body: Mapping[str, Any], is_collapsed: bool) -> bool:
    """Return whether a page has all matching documents, or all groups of collapsed hits."""
    if is_collapsed:  # OpenSearch does not count the groups
        size = body.get("size", 10)
        return not body.get("from") and isinstance(size, int) and len(plain.hits) < size
    return count(plain.total) == len(plain.hits)


def count(total: Any) -> int | None:
    """Return the exact number of matching documents, or None if only a lower bound is known."""
    if isinstance(total, dict):
        return total["value"] if total.get("relation") == "eq" else None
    return total if isinstance(total, int) else None


def _shards(answer: Answer) -> Any:
    """Return how many shards answered and failed. Which shards were skipped depends on the query."""
    shards = answer.body.get("_shards", {})
    return {name: shards.get(name) for name in ("total", "failed")}


def _documents(hits: Sequence[Json]) -> list[str]:
    """Return what identifies each hit: its index, its id and its position in nested objects, or its content."""
    return [
        f"{hit.get('_index')}/{hit['_id']}{hit.get('_nested', '')}" if "_id" in hit else json.dumps(_bare(hit))
        for hit in hits
    ]


def _groups(hits: Sequence[Json], field: str) -> list[str]:
    return [str(hit.get("fields", {}).get(field)) for hit in hits]


def _is_ordered(hits: Sequence[Json]) -> bool:
    """Return whether hits are ordered without their scores, which OpenSearch does not compute then."""
    return bool(hits) and all(hit.get("_score") is None and "sort" in hit for hit in hits)


def _without_scores(value: Any) -> Any:
    """Return aggregations or inner hits without scores, and without what scores decide.

    Hits are sorted by their ids if all matching documents are there. If only the best ones are there, their total is
    compared alone.
    """
    if isinstance(value, list):
        return [_without_scores(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    hits = value.get("hits")
    if isinstance(hits, list) and "max_score" in value:
        total = value.get("total")
        pairs = [(key, _bare(hit)) for key, hit in zip(_documents(hits), hits, strict=True)]
        if _is_ordered(hits):
            return {"total": total, "hits": [hit for _, hit in pairs]}
        if count(total) == len(hits):
            return {"total": total, "hits": [hit for _, hit in sorted(pairs, key=lambda pair: pair[0])]}
        return {"total": total, "hits": len(hits)}
    parts = {name: _without_scores(item) for name, item in value.items() if name != "matched_queries"}
    if value.get("doc_count") == 0 and value.get("buckets") == []:
        # A significant_terms aggregation counts the documents of the shards that OpenSearch did not skip. It skips
        # shards on which the plain query cannot match, but not every rewritten query tells it so.
        parts.pop("bg_count", None)
    matched = _own_names_removed(value)
    return {**parts, "matched_queries": matched} if matched else parts


def _own_names_removed(hit: Mapping[str, Any]) -> list[str]:
    """Return the names of a hit's matching queries, without their scores and without those of Resift's clauses."""
    return [name for name in hit.get("matched_queries", ()) if not name.startswith(_OWN_NAMES)]


def _bare(hit: Json) -> Json:
    return {
        **_other_parts(hit),
        "highlight": _highlight(hit),
        "_source": _source(hit),
        "inner_hits": _inner_hits(hit),
    }


def _status(answer: Answer) -> str:
    """Return the status and, for an error, its reason."""
    error = answer.body.get("error")
    if answer.status < 400 or not error:
        return str(answer.status)
    causes = error.get("root_cause") if isinstance(error, dict) else None
    reason = causes[0].get("reason") if causes else error
    return f"{answer.status} ({reason})"


def _difference(name: str, before: Any, after: Any, where: str = "") -> Difference:
    return Difference(name, f"{name}{where}: plain {_shortened(before)}, rewritten {_shortened(after)}")


def _shortened(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
