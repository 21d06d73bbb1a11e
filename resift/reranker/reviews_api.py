"""Reviews under /v1/reviews, for keys with the scope ``review``, which may read all documents of a review."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request
from msgspec import structs
from msgspec.structs import replace

from resift.arrays import batched
from resift.errors import Forbidden, IndexNotFound, IndexNotServed
from resift.reranker.access.requests import current_caller, engine_headers
from resift.reranker.api import body_of, current_service, to_json
from resift.reranker.request_bodies import BatchRequest, JudgementsRequest, ReviewRequest, UndoRequest
from resift.reviews.review import MODEL, PERSON, Review
from resift.reviews.stopping import Progress
from resift.service.bodies import Search
from resift.service.served_indices import index_not_served

_AT_ONCE = 1000  # documents that are asked for in one request
reviews = Blueprint("reviews", __name__, url_prefix="/v1/reviews")


@reviews.before_request
def check() -> None:
    """Where there are no keys, let only this machine's own read whole sets."""
    if {"review", "admin"}.isdisjoint(current_caller().scopes):
        raise Forbidden("without keys, reviews are for this machine alone", value="review", expected="a key")


def _open(id: str, anew: bool = False) -> Review:
    """A review of an index that is served to the caller."""
    service = current_service()
    review: Review = service.reviews.open(id, anew)
    service.served(review.first_event["index"], engine_headers())
    return review


def _is_served(index: str) -> bool:
    """Whether an index is served to the caller; one that is gone is if its name would be."""
    service = current_service()
    try:
        service.served(index, engine_headers())
    except IndexNotServed:
        return False
    except IndexNotFound:
        return service.served_indices.has(index)
    return True


def _by(name: str) -> str:
    """Who judges: as the request says, or else the key's name."""
    return name or current_caller().name or ""


@reviews.get("")
def list_reviews() -> dict[str, Any]:
    """The reviews that were begun, of indices that are served."""
    begun = current_service().reviews.list()
    return {"reviews": [{"review": id, "index": index} for id, index in begun if _is_served(index)]}


@reviews.put("/<review>")
def begin_review(review: str) -> dict[str, Any]:
    """Begin a review of an index, or of the documents that a query finds.

    One of that name and index that was begun already comes back as it is.
    """
    body, service = body_of(ReviewRequest), current_service()
    asked = Search(index=body.index, query=body.topic, filter=body.query, headers=engine_headers())
    service.require_allowed(replace(asked, listed_only=not current_caller().may_send_bodies))
    wanted = structs.asdict(body)
    return described(service.reviews.begin(review, **{**wanted, "by": _by(body.by)}))


@reviews.get("/<review>")
def get_review(review: str) -> dict[str, Any]:
    """How far a review is, and whether it may stop."""
    return described(_open(review))


@reviews.delete("/<review>")
def delete_review(review: str) -> dict[str, Any]:
    """Delete a review with all its judgements."""
    service = current_service()
    index = dict(service.reviews.list()).get(review)
    if index is not None and not _is_served(index):  # of an index that is gone nothing could be opened
        raise index_not_served(index)
    service.reviews.delete(review)
    return {"review": review, "deleted": True}


@reviews.post("/<review>/next")
def next_batch(review: str) -> dict[str, Any]:
    """The documents that somebody is to read next, likeliest first; or a random sample of those that nobody read.

    What was given to somebody is given to nobody else for eight hours.
    """
    body, found, engine = body_of(BatchRequest), _open(review), current_service().engine
    index, source = found.first_event["index"], MODEL if body.model else PERSON
    ids = found.sample(body.size or 10, _by(body.by)) if body.sample else found.next(body.size, _by(body.by), source)
    # read with the caller's own rights
    held = engine.documents(index, ids, engine_headers()) if ids else {}
    if len(held) < len(ids) and not body.sample and len(engine.documents(index, ids)) < len(ids):  # some were deleted
        found = _open(review, anew=True)
        ids = found.next(body.size, _by(body.by), source)
        held = engine.documents(index, ids, engine_headers()) if ids else {}
    words = found.reasons(held)
    documents = [{"id": id, "fields": held[id][0], "words": words[id]} for id in ids if id in held]
    return {"documents": documents, "progress": progress_of(found.progress())}


@reviews.post("/<review>/judgements")
def judge(review: str) -> dict[str, Any]:
    """Judge documents; what is answered is stored."""
    body = body_of(JudgementsRequest)
    source = MODEL if body.model else PERSON
    return {"progress": progress_of(_open(review).judge(body.relevant, body.irrelevant, _by(body.by), source))}


@reviews.post("/<review>/undo")
def undo_judgement(review: str) -> dict[str, Any]:
    """Take somebody's last judgement back."""
    by = _by(body_of(UndoRequest).by)
    return {"progress": progress_of(_open(review).undo(by))}


@reviews.get("/<review>/export")
def export_review(review: str) -> Response:
    """All judgements: as csv (the default), ris, qrels, or json, which is all that happened."""
    format, found = request.args.get("format", "csv"), _open(review)
    if format == "json":
        return Response(b"\n".join([*map(to_json, found.audit()), b""]), mimetype="application/x-ndjson")
    headers, index = engine_headers(), found.first_event["index"]

    def may_read(ids: list[str]) -> set[str]:
        """Those of these ids that the caller's own rights at the engine give."""
        engine = current_service().engine
        return {id for some in batched(ids, _AT_ONCE) for id in engine.documents(index, some, headers)}

    return Response(
        found.export(format, may_read if headers else set), mimetype="text/csv" if format == "csv" else "text/plain"
    )


def progress_of(found: Progress) -> dict[str, Any]:
    """A progress, as answers have it."""
    low, high = found.recall
    return {
        "total": found.total,
        "read": found.read,
        "relevant": found.relevant,
        "recall": {"least": round(low, 4), "most": round(high, 4)},
        "target": found.target,
        "p": round(found.p, 4),
        "may_stop": found.may_stop,
        "cost": found.cost,
    }


def described(review: Review) -> dict[str, Any]:
    """A review, as answers have it."""
    return {
        "review": review.id,
        **{name: review.first_event[name] for name in ("index", "topic", "query")},
        "progress": progress_of(review.progress()),
        "judged_by_models": review.judged_by_models(),
        "found_at": review.found_at(),
        "samples": review.controls(),
        "conflicts": [{"document": id, "votes": votes} for id, votes in review.conflicts().items()],
    }
