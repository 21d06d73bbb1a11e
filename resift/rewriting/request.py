"""What a search asks of its rewriting, its body as the client wrote it and its limits, and what came of it."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import structs

from resift.contracts.query_dsl import Body, VectorFields
from resift.contracts.search_options import JUDGED, PipelineOptions
from resift.errors import BadInput, TextTooLong
from resift.ranking.feedback import Feedback
from resift.rewriting.outcome import Note, Outcome
from resift.rewriting.text import find_text
from resift.schema import fields_of, read
from resift.sessions.knowledge import Knowledge
from resift.sessions.sessions import is_id


@dataclass(frozen=True)
class RewriteSettings:
    """How a search is rewritten.

    ``alpha``: weight of the similarity, 0 (the words alone) to 1 (the similarity alone, but for ties). ``window``: how
    many of the first hits are rescored. ``widen``: whether the session's strongest words, and the ``knn`` documents
    nearest to the query, may add documents that the query itself does not match. ``judged``: what happens to documents
    that the session has judged: they ``keep`` the place that they have without the session, are shown last (``demote``)
    or not at all (``hide``).

    Raises BadInput for an unknown ``judged``.
    """

    alpha: float
    window: int
    widen: bool = False
    knn: int = 0
    judged: str = "keep"

    def __post_init__(self) -> None:
        if self.judged not in JUDGED:
            raise BadInput(f"judged is {self.judged!r}", value=self.judged, expected=" | ".join(JUDGED))


@dataclass(frozen=True)
class Rewritten:
    """A search ``body`` and what became of it, by what ``knowledge`` and under which ``settings``.

    ``notes``: what could not be done, beside what ``knowledge`` notes. ``in_place``: whether the body ranks by meaning
    itself, and its own clauses were changed if anything was; ``is_changed``: whether anything was; ``widened``: the
    words of the index by which documents are found that the query's own words do not find.
    """

    body: Body
    outcome: Outcome
    knowledge: Knowledge
    settings: RewriteSettings
    notes: Sequence[Note] = ()
    in_place: bool = False
    is_changed: bool = True
    widened: Sequence[str] = ()

    @property
    def is_scored(self) -> bool:
        """Whether its hits have scores of ours, :func:`resift.rewriting.rewrite.score_factor` times the words' own."""
        return not self.in_place and self.outcome in (Outcome.REWRITTEN, Outcome.IN_PART)

    @property
    def is_ranked(self) -> bool:
        """Whether its hits are in the order of their scores, and may be ordered by others."""
        return self.is_scored or (self.outcome is Outcome.NOTHING_TO_ADD and not self.in_place)

    @property
    def is_reranked(self) -> bool:
        """Whether the order of its hits is ours."""
        return self.is_scored or (self.in_place and self.is_changed)

    @property
    def field(self) -> tuple[str, Feedback] | None:
        """The first field whose vectors moved a clause of its own, and what they taught."""
        moved = self.knowledge.own.vectors.items() if self.in_place and self.is_changed else ()
        return next(((name, own.feedback) for name, own in moved), None)

    def seen(self, searched: VectorFields) -> VectorFields:
        """The field or fields by which hits are compared, of an index whose own that we search are ``searched``."""
        return searched if self.field is None else self.field[0]

    @property
    def obstacle(self) -> str:
        """What kept the body as it was, wholly or in part, in English; "" if nothing did."""
        notes = [note.outcome.english.format(note.detail) for note in self.notes]
        return "; ".join(dict.fromkeys(notes)) or self.outcome.english

    @property
    def reason(self) -> str:
        """The same, and what was left out beside it."""
        return "; ".join(filter(None, [self.obstacle, *self.knowledge.notes]))


MAX_DEPTH = 100  # of lists and objects in a query or filter, and of brackets in their texts
MAX_REGEX = 1000  # characters of a suggestion's, or of a script in expressions; others OpenSearch bounds itself
MAX_QUERY_VALUES = 100_000  # of a query or filter
_OPENING, _CLOSING = "([{", ")]}"
UBI = "ubi"
# What plugins' parts of ext show as fields of ext itself.
_SHOWN = {
    UBI: ("query_id", "user_query", "client_id", "application", "object_id_field", "query_attributes"),
    "rerank": ("query_context",),
}


def as_written(body: Body) -> Body:
    """The body as its client wrote it; the very same one where nothing is to be put back.

    The UBI plugin shows what stands in ``ext.ubi`` as fields of ``ext`` itself, which OpenSearch then refuses to read,
    and so does neural search with ``ext.rerank``; the Search Relevance Workbench hides the query in a ``wrapper``.

    >>> as_written({"ext": {"client_id": "anna", "user_query": None}})
    {'ext': {'ubi': {'client_id': 'anna'}}}
    """
    changed = {**_with_parts(body.get("ext")), **_unwrapped(body.get("query"))}
    return {**body, **changed} if changed else body


def _with_parts(ext: Any) -> Body:
    if not isinstance(ext, Mapping):
        return {}
    found = dict(ext)
    for part, names in _SHOWN.items():
        if part in ext or not any(name in ext for name in names):
            continue
        shown = {name: found.pop(name, None) for name in names}
        # what the client did not say is null here, which UBI's plugin does not read
        found[part] = {name: value for name, value in shown.items() if value is not None}
    return {"ext": found} if found != ext else {}


def _unwrapped(query: Any) -> Body:
    wrapper = query.get("wrapper") if isinstance(query, Mapping) and len(query) == 1 else None
    if not isinstance(wrapper, Mapping) or not isinstance(wrapper.get("query"), str):
        return {}
    try:
        found = json.loads(b64decode(wrapper["query"], validate=True))
    except (ValueError, RecursionError):  # OpenSearch says itself what is wrong
        return {}
    return {"query": found} if isinstance(found, dict) else {}


@dataclass(frozen=True)
class Asked:
    """What a search asks of its rewriting; None is the default: of the configuration, the model, or the session.

    ``text``: what is encoded, "" where the query has none. ``client``: whose clicks count, as UBI has them, where that
    is not the session's id. ``through_cluster``: whether a search pipeline asks, with
    the cluster's key: then a session is whose who knows its id. The others are those of
    :class:`resift.reranker.search.bodies.Search`.
    """

    text: str
    session: str | None = None
    client: str | None = None
    alpha: float | None = None
    window: int | None = None
    widen: bool = False
    knn: int | None = None
    judged: str = "keep"
    without: Sequence[str] = ()
    through_cluster: bool = False


def asked_in(body: dict[str, Any]) -> Asked:
    """What a body that comes through a search pipeline asks for, in ``ext.ml_inference``.

    Where that names no session, or no query, ``ext.ubi`` does by its ``client_id`` and ``user_query``. Raises BadInput
    for a value of another form than a search has it.
    """
    ext = body.get("ext")
    given = ext.get("ml_inference") if isinstance(ext, dict) else None
    ubi = ext.get("ubi") if isinstance(ext, dict) else None
    if given is not None and not isinstance(given, dict):
        raise BadInput("ext.ml_inference is malformed", value=given, expected=" | ".join(fields_of(PipelineOptions)))
    options = structs.asdict(read(PipelineOptions, given or {}))
    asked = {"text" if name == "query" else name: value for name, value in options.items() if value is not None}
    return Asked(**{"text": find_text(body.get("query", {})), **_asked_by_ubi(ubi), **asked}, through_cluster=True)


def _asked_by_ubi(ubi: Any) -> dict[str, str]:
    """What a body asks for in ``ext.ubi``, as far as that is well formed: the UBI plugin is there to judge that."""
    known = {name: value for name, value in ubi.items() if isinstance(value, str)} if isinstance(ubi, dict) else {}
    client, text = known.get("client_id", ""), known.get("user_query", "")
    asked = {"text": text} if text else {}
    if client:
        # what is no session's id may still be a client's
        asked |= {"client": client} | ({"session": client} if is_id(client) else {})
    return asked


def check_clause(name: str, clause: Mapping[str, Any], max_text: int) -> None:
    """Raises BadInput for a query or filter that is nested too deep or holds too many values, and TextTooLong for a
    text in it of more than ``max_text`` characters, or a suggestion's regular expression of more than MAX_REGEX."""
    level: list[Any] = [clause]
    count = 0
    for _ in range(MAX_DEPTH):
        _check_expressions(level)
        level = [value for one in level for value in _values(one)]
        count += len(level)
        if count > MAX_QUERY_VALUES:
            raise BadInput(
                f"the {name} has more than {MAX_QUERY_VALUES} values",
                value=count,
                expected=f"at most {MAX_QUERY_VALUES} values",
            )
        texts = [value for value in level if isinstance(value, str)]
        longest = max(map(len, texts), default=0)
        if longest > max_text:
            raise TextTooLong(
                f"a text of the {name} has {longest} characters", value=longest, expected=f"at most {max_text}"
            )
        for text in texts:
            check_brackets(name, text)
        if not level:
            return
    raise _too_deep(name)


def check_brackets(name: str, text: str) -> None:
    """Raises BadInput for a text of a query or filter with brackets that are nested too deep.

    Query strings, regular expressions, shapes and scripts are texts: OpenSearch reads them by functions that call
    themselves, and of some thousand brackets the whole node ends.
    """
    if sum(map(text.count, _OPENING)) <= MAX_DEPTH:
        return
    signs = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    opening, closing = (np.isin(signs, [*map(ord, brackets)]) for brackets in (_OPENING, _CLOSING))
    levels = np.cumsum(opening.astype(np.int32) - closing)
    # one that closes nothing does not make up for one that opens later
    if np.max(levels - np.minimum.accumulate(np.minimum(levels, 0))) > MAX_DEPTH:
        raise _too_deep(name)


def _too_deep(name: str) -> BadInput:
    return BadInput(
        f"the {name} is nested more than {MAX_DEPTH} levels deep",
        value=name,
        expected=f"at most {MAX_DEPTH} levels of lists, objects and brackets",
    )


def _check_expressions(level: Sequence[Any]) -> None:
    """Raises TextTooLong for a completion's regular expression, or a script of the language expression, that is too
    long: OpenSearch reads both by functions that call themselves, and a long one may end a node."""
    for one in level:
        if not isinstance(one, dict):
            continue
        regex = one.get("regex") if "completion" in one else None
        script = one.get("source") if one.get("lang") == "expression" else None
        size = max(len(text) for text in ("", regex, script) if isinstance(text, str))
        if size > MAX_REGEX:
            raise TextTooLong(f"an expression has {size} characters", value=size, expected=f"at most {MAX_REGEX}")


def _values(value: Any) -> Sequence[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else ()
