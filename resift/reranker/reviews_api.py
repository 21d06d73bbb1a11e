"""The HTTP API of reviews under ``/v1/reviews``.

In a review, people read the documents of an index and judge their relevance, until all relevant documents are found.
The API requires a key with the scope ``review``. Such a key may read all documents of a review.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import Any

from flask import Blueprint, Response, request
from msgspec.structs import replace

from resift.errors import IndexNotFound, IndexNotServed
from resift.reranker.access.requests import current_caller, engine_headers
from resift.reranker.api import current_service, read_body, to_json
from resift.reranker.request_bodies import BatchRequest, JudgementsRequest, ReaderRequest, ReviewRequest, UndoRequest
from resift.reviews.review import MODEL, PERSON, Review
from resift.reviews.reviews import ReviewSettings
from resift.reviews.stopping import Progress
from resift.service.bodies import Search
from resift.service.served_indices import index_not_served

reviews = Blueprint("reviews", __name__, url_prefix="/v1/reviews")


def _open_permitted_review(id: str, reload: bool = False) -> Review:
    """Open a review, after checking that the caller of the current request may search the review's index.

    Args:
        id: The id of the review.
        reload: Whether to read the documents from the engine again.

    Raises:
        IndexNotServed: If the caller may not search the index of the review.
    """
    service = current_service()
    review: Review = service.reviews.open(id, reload)
    service.infos.get_served(review.first_event["index"], engine_headers())
    return review


def _may_search(index: str) -> bool:
    """Return whether the caller may search an index.

    If the index has been deleted, the result is True if the settings of the service allow searching an index of this
    name.

    Args:
        index: The name of the index.
    """
    service = current_service()
    try:
        service.infos.get_served(index, engine_headers())
    except IndexNotServed:
        return False
    except IndexNotFound:
        return service.served_indices.has(index)
    return True


def _author(name: str) -> str:
    """Return the name to store as the author of judgements in a review.

    Args:
        name: The name of a person or model, which the client sent in the field ``by`` of its request. If it is empty,
            the name of the API key that the client sent is returned instead, or "" without a key.
    """
    return name or current_caller().name or ""


@reviews.get("")
def list_reviews() -> dict[str, Any]:
    """List the reviews whose indices the caller may search."""
    listed = current_service().reviews.list()
    return {"reviews": [{"review": id, "index": index} for id, index in listed if _may_search(index)]}


@reviews.put("/<review>")
def begin_review(review: str) -> dict[str, Any]:
    """Start a review of the index in the request body, or of the index's documents that match `query`.

    The response describes the review: its settings, and its progress with the number of documents to judge. If a review
    with this id already exists for the index, it is returned unchanged.
    """
    body, service = read_body(ReviewRequest), current_service()
    search = Search(index=body.index, query=body.topic, filter=body.query, headers=engine_headers())
    service.check_allowed(replace(search, listed_only=not current_caller().may_send_bodies))
    settings = ReviewSettings(body.topic, body.query, body.fields, body.target)
    return review_response(service.reviews.begin(review, body.index, settings, _author(body.by)))


@reviews.get("/<review>")
def get_review(review: str) -> dict[str, Any]:
    """Return the settings and the progress of the review with this id, and whether the review may stop."""
    return review_response(_open_permitted_review(review))


@reviews.delete("/<review>")
def delete_review(review: str) -> dict[str, Any]:
    """Delete the review with this id and all its judgements. The documents stay in their index."""
    service = current_service()
    index = service.reviews.index(review)
    # _open_permitted_review would fail if the index was deleted.
    if not _may_search(index):
        raise index_not_served(index)
    service.reviews.delete(review)
    return {"review": review, "deleted": True}


@reviews.post("/<review>/next")
def next_batch(review: str) -> dict[str, Any]:
    """Return the documents of the review that a reader should judge next.

    By default, these are the unread documents that are most likely relevant, best first. If the field `sample` of the
    request body is true, they are a random sample of the unread documents. The documents are reserved for the reader
    whose name is in the field `by`. A reservation ends when the reader releases the documents, or has not judged any
    document for half an hour. At most 100 documents are reserved for a reader.
    """
    body, opened, engine = read_body(BatchRequest), _open_permitted_review(review), current_service().engine
    by, source = _author(body.by), MODEL if body.model else PERSON
    index, headers = opened.first_event["index"], engine_headers()
    ids = opened.sample(body.size or 10, by) if body.sample else opened.next(body.size, by, source)
    contents = engine.documents(index, ids, headers) if ids else {}
    # Documents may be missing because the caller has no right to read them, or because they were deleted.
    if len(contents) < len(ids) and not body.sample and len(engine.documents(index, ids)) < len(ids):
        opened = _open_permitted_review(review, reload=True)
        ids = opened.next(body.size, by, source)
        contents = engine.documents(index, ids, headers) if ids else {}
    words = opened.reasons(contents, headers=headers)
    documents = [{"id": id, "fields": contents[id][0], "words": words[id]} for id in ids if id in contents]
    return {"documents": documents, "progress": progress_response(opened.progress())}


@reviews.post("/<review>/judgements")
def judge(review: str) -> dict[str, Any]:
    """Add the judgements in the request body to the review with this id.

    The response contains the progress of the review: the number of documents that people have judged, how many of them
    are relevant, the estimated recall, and whether the review may stop.
    """
    body = read_body(JudgementsRequest)
    source = MODEL if body.model else PERSON
    progress = _open_permitted_review(review).judge(body.relevant, body.irrelevant, _author(body.by), source)
    return {"progress": progress_response(progress)}


@reviews.post("/<review>/undo")
def undo_judgement(review: str) -> dict[str, Any]:
    """Undo the last judgement of a reader in the review with this id, and return the progress of the review.

    The field `by` of the request body names the reader.

    Only judgements with the same API key can be undone, unless the key has the scope `admin`.
    """
    body = read_body(UndoRequest)
    progress = _open_permitted_review(review).undo(_author(body.by), MODEL if body.model else PERSON)
    return {"progress": progress_response(progress)}


@reviews.post("/<review>/release")
def release_documents(review: str) -> dict[str, Any]:
    """Release the unjudged documents that are reserved for a reader, so that other readers can judge them.

    The field `by` of the request body names the reader.

    Only documents that were reserved with the API key of this request are released, unless the key has the scope
    `admin`.
    """
    by = _author(read_body(ReaderRequest).by)
    return {"review": review, "released": len(_open_permitted_review(review).release(by))}


@reviews.get("/<review>/export")
def export_review(review: str) -> Response:
    """Export the judgements of a review, or the log of its events.

    The query parameter `format` is `csv` (default), `ris` or `qrels` for the judgements, or `json` for the log, which
    has one JSON object per line.
    """
    format, opened = request.args.get("format", "csv"), _open_permitted_review(review)
    if format == "json":
        return Response((to_json(event) + b"\n" for event in opened.audit()), mimetype="application/x-ndjson")
    parts = opened.export_parts(format, engine_headers())
    # The first part is read before the response begins, so that an engine that is unavailable causes an error response.
    return Response(chain(list(islice(parts, 2)), parts), mimetype="text/csv" if format == "csv" else "text/plain")


def progress_response(progress: Progress) -> dict[str, Any]:
    """Return the progress of a review, with estimates rounded to four digits, as a JSON object for responses."""
    low, high = progress.recall
    return {
        "total": progress.total,
        "read": progress.read,
        "relevant": progress.relevant,
        "recall": {"least": round(low, 4), "most": round(high, 4)},
        "target": progress.target,
        "p": round(progress.p, 4),
        "may_stop": progress.may_stop,
        "cost": progress.cost,
    }


def review_response(review: Review) -> dict[str, Any]:
    """Convert a review, with its settings and its progress, to a JSON object for responses."""
    return {
        "review": review.id,
        **{name: review.first_event[name] for name in ("index", "topic", "query")},
        "progress": progress_response(review.progress()),
        "judged_by_models": review.judged_by_models(),
        "found_at": review.found_at(),
        "samples": review.controls(),
        "conflicts": [{"document": id, "votes": votes} for id, votes in review.conflicts().items()],
    }
