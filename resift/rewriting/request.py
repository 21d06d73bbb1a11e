"""What a search asks of its rewriting, its body as the client wrote it and its limits, and what came of it."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import structs

from resift.contracts.search_options import PipelineOptions
from resift.errors import BadInput, TextTooLong
from resift.feedback.feedback import Feedback
from resift.query.dsl import Body
from resift.rewriting.clauses import CLAUSES, TEXT_CLAUSES
from resift.rewriting.outcome import Note, Outcome
from resift.schema import fields_of, read_struct
from resift.sessions.knowledge import Knowledge
from resift.sessions.sessions import is_id
from resift.text import FUNCTION_WORDS, tokenize, word_spans

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
_BY_MODELS = ("neural", "neural_sparse")  # which have a text encoded
# What a query says of hits that nobody looks for, and of conditions beside the words.
_UNWANTED, _CONDITIONS = ("must_not", "negative"), ("filter", "functions")
# How many words stand for a text of more than that. Of a pasted document fewer and more telling ones find more: 50 to
# 200 do better than 400, and these than as many as the engine takes.
_TELLING = 100
# What a query_string says beside the words that it asks for.
_NAME = r"[\w.*-]+:"
_FIELD = rf"(?<![\w.*\\-]){_NAME}"
_VALUE = r"""(?:"[^"]*"|\([^()]*\)|[^\s()]+)(?:[~^][\d.]*)?"""
_NEGATED = re.compile(rf"(?<![^\s(])[-!](?:{_NAME})?{_VALUE}")
_NO_WORDS = re.compile(rf"_exists_:\S+|{_FIELD}(?:[\[{{][^][{{}}]*[\]}}]|[<>]=?\S*)|\bNOT\s+(?:{_NAME})?{_VALUE}")
_OF_A_FIELD = re.compile(rf"{_FIELD}{_VALUE}")
_SYNTAX = re.compile(rf"{_FIELD}|\b(?:AND|OR|NOT)\b|[~^][\d.]+")


@dataclass(frozen=True)
class RewriteSettings:
    """How a search is rewritten.

    ``alpha``: weight of the similarity, 0 (the words alone) to 1 (the similarity alone, but for ties). ``window``: how
    many of the first hits are rescored. ``widen``: whether the session's strongest words, and the ``knn`` documents
    nearest to the query, may add documents that the query itself does not match. ``judged``: what happens to documents
    that the session has judged: they ``keep`` the place that they have without the session, are shown last (``demote``)
    or not at all (``hide``).
    """

    alpha: float
    window: int
    widen: bool = False
    knn: int = 0
    judged: str = "keep"


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
        """Whether its hits have scores of ours."""
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

    @property
    def obstacle(self) -> str:
        """What kept the body as it was, wholly or in part, in English; "" if nothing did."""
        notes = [note.outcome.english.format(note.detail) for note in self.notes]
        return "; ".join(dict.fromkeys(notes)) or self.outcome.english

    @property
    def reason(self) -> str:
        """The same, and what was left out beside it."""
        return "; ".join(filter(None, [self.obstacle, *self.knowledge.notes]))


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


def find_text(query: Any, is_condition: bool = False) -> str:
    """The first text that a query clause asks for, depth first; "" if there is none.

    That of a filter, or of a function's, counts if there is no other, and what hits must not match never does, wherever
    it stands: a body that comes through OpenSearch has its parts in another order than its client gave them. Of a
    ``query_string`` the words count, without what it excludes, and in a filter without those that it looks for in
    fields that it names, which are conditions (``is_condition``).

    >>> find_text({"bool": {"filter": [{"match": {"tag": "new"}}], "should": [{"match": {"title": "bush fire"}}]}})
    'bush fire'
    >>> find_text({"query_string": {"query": "title:(bush fire)^2 AND NOT state:NSW -sale"}})
    '(bush fire)'
    """
    if isinstance(query, Mapping):
        wanted = [item for item in query.items() if item[0] not in _UNWANTED]
        parts = sorted(wanted, key=lambda item: item[0] in _CONDITIONS)
        texts = (_text_of_clause(*item, is_condition or item[0] in _CONDITIONS) for item in parts)
        return next(filter(None, texts), "")
    if isinstance(query, list):
        return next(filter(None, (find_text(one, is_condition) for one in query)), "")
    return ""


def _text_of_clause(kind: Any, body: Any, is_condition: bool) -> str:
    if kind in _BY_MODELS and isinstance(body, Mapping):
        asked = next(iter(body.values()), None)
        text = asked.get("query_text") if isinstance(asked, Mapping) else None
        return text if isinstance(text, str) else ""
    if kind not in TEXT_CLAUSES or not isinstance(body, Mapping):
        return find_text(body, is_condition)
    # {"multi_match": {"query": text}}, {"match": {field: text}} or {"match": {field: {"query": text}}}
    inner = body.get("query", next(iter(body.values()), ""))
    found = inner.get("query", "") if isinstance(inner, Mapping) else inner
    return _asked_words(kind, found, is_condition) if isinstance(found, str) else ""


def _asked_words(kind: str, text: str, is_condition: bool) -> str:
    """What a clause's text asks for, without what its syntax says beside it."""
    if kind not in ("query_string", "simple_query_string"):
        return text
    beside = [_NEGATED]
    if kind == "query_string":
        beside += [_NO_WORDS, *([_OF_A_FIELD] if is_condition else []), _SYNTAX]
    for syntax in beside:
        text = syntax.sub(" ", text)
    return " ".join(text.split()) if tokenize(text) else ""


def telling_words(text: str, width: int, rarity: Callable[[str], float]) -> str:
    """What of a text is looked for in ``width`` fields: all of it, or of one that is too long for the engine its most
    telling words, in the order of the text.

    Those are telling that are rare and stand there often: sqrt(count) · ``rarity`` is largest. Where no spaces part the
    words, what stands between other signs is one.

    >>> telling_words("bush fire", 2, len)
    'bush fire'
    """
    if (len(tokenize(text)) + 1) * width <= CLAUSES + 20:  # a field counts by itself, too
        return text
    lowered = text.lower()
    places: list[list[int]] = []
    for start, end in word_spans(lowered):
        if places and places[-1][1] == start:
            places[-1][1] = end
        else:
            places.append([start, end])
    counts = Counter(lowered[start:end] for start, end in places)
    words = [word for word in counts if word not in FUNCTION_WORDS]
    left, kept = min(_TELLING, max(1, CLAUSES // (2 * width))), dict[str, str]()
    for word in sorted(words, key=lambda word: -(counts[word] ** 0.5) * rarity(word)):
        size = len(tokenize(word))
        kept[word] = word if size <= left else word[:left]
        left -= size
        if left <= 0:
            break
    return " ".join(kept[word] for word in counts if word in kept)


@dataclass(frozen=True)
class Asked:
    """What a search asks of its rewriting; None is the default: of the configuration, the model, or the session.

    ``text``: what is encoded, "" where the query has none. ``client``: whose clicks count, as UBI has them, where that
    is not the session's id. ``through_cluster``: whether a search pipeline asks, with
    the cluster's key: then a session is whose who knows its id. The others are those of
    :class:`resift.service.bodies.Search`.
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
    options = structs.asdict(read_struct(PipelineOptions, given or {}))
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
