"""Code that the retrievers of several frameworks share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from resift.client import for_event_loop
from resift.contracts.documents import IndexInfo
from resift.errors import BadInput
from resift.library import Explanation, Hits, Session
from resift.options_section import with_options
from resift.query.dsl import filter_source, values_of
from resift.service.bodies import as_body
from resift.sessions.documents import readable_paths, readable_text

MakeBody = Callable[[str], dict[str, Any]]
"""A function that returns the search body for a query text."""
_VECTOR_TYPES = ("knn_vector", "sparse_vector", "rank_features")
_EXACT_TYPES = ("keyword", "constant_keyword", "wildcard")
_MAX_LABEL = 100
"""Maximum number of characters of a label, such as a category or the name of a file."""


@dataclass(frozen=True)
class Passage:
    """A search hit, in a form that each integration converts to its framework's documents.

    Attributes:
        id: The id of the document.
        text: The text of the document, from the text fields of its index.
        metadata: The other fields of the document, as :func:`metadata_of` returns them.
        score: The score of the hit, or None if hits are sorted by a field.
    """

    id: str
    text: str
    metadata: dict[str, Any]
    score: float | None


def retrieve(
    session: Session, query: str | dict[str, Any], size: int, body: MakeBody | None, options: Mapping[str, Any]
) -> list[Passage]:
    """Search in a session, and return the hits as passages.

    Args:
        session: The session in which the search runs.
        query: A text, a query clause or a search body.
        size: The maximum number of passages. It takes precedence over the ``size`` of a search body.
        body: A function that makes the search body of a query text, or None if Resift searches for the text.
        options: Further options of the search.

    Raises:
        BadInput: If hits would not contain their documents, so that the passages would have no text. Also if ``body``
            does not return a dictionary.
    """
    documents = options.get("documents", "source")
    if documents != "source":
        expected = "source, because passages contain the texts of documents"
        raise BadInput(f"documents is {documents!r}", value=documents, expected=expected)
    if body is not None and isinstance(query, str):
        query = own_body(body, query, size)
    if isinstance(query, dict):
        query = {**as_body(query), "size": size}
        if query.get("_source") is False:
            expected = "true, or the fields of a passage, because passages contain the texts of documents"
            raise BadInput("_source is false", value=False, expected=expected)
    return list(_passages(session, session.search(query, size, **options)))


def own_body(body: MakeBody, query: str, size: int) -> dict[str, Any]:
    """Return the search body for a query. It names the query text, so that marks for this text count.

    Args:
        body: A function that returns a search body or a query clause.
        query: The query text.
        size: The maximum number of hits. It takes precedence over the ``size`` of the body.

    Raises:
        BadInput: If ``body`` does not return a dictionary.
    """
    search_body = body(query)
    if not isinstance(search_body, dict):
        expected = "a dictionary, as OpenSearch takes it"
        raise BadInput("body returned no search body", value=search_body, expected=expected)
    return {**with_options(as_body(search_body), query=query), "size": size}


def _passages(session: Session, hits: Hits) -> Iterator[Passage]:
    info = session.index.library.service.infos.get(session.index.name)
    for hit in hits:
        yield Passage(hit.id, readable_text(hit.source, info), metadata_of(hit.source, info), hit.score)


def metadata_of(source: dict[str, Any], info: IndexInfo) -> dict[str, Any]:
    """Return the fields of a document, without its text and its vectors.

    Retrievers return the text separately. In an index without vectors of Resift, each text field of the mapping belongs
    to the text. A text field is also returned as metadata if it is also indexed as a keyword and its values have at
    most 100 characters, because OpenSearch by default maps every string as text and keyword, including the name of a
    file or a category.

    Args:
        source: The ``_source`` of the document.
        info: The names and fields of the index.

    >>> info = IndexInfo("news", ("text",), None, None, None)
    >>> metadata_of({"text": "Bush fire", "year": 2001, "embedding": [0.1, 0.2]}, info)
    {'year': 2001}
    """
    excluded = [name for types in info.field_types for name, type in types.items() if type in _VECTOR_TYPES]
    if info.bags is not None:
        excluded.append(info.bags)
    if not info.field_types:
        excluded += [name for name, value in source.items() if _is_vector(value)]
    excluded += [path for path in readable_paths(source, info) if info.fields or not _is_label(source, path, info)]
    metadata: dict[str, Any] = filter_source(source, {"excludes": excluded}) or {}
    return metadata


def _is_vector(value: Any) -> bool:
    """Return whether a value is a list of numbers, or a list of such lists."""
    if not isinstance(value, list) or not value:
        return False
    return all(_is_vector(item) or (isinstance(item, (int, float)) and not isinstance(item, bool)) for item in value)


def _is_label(source: Mapping[str, Any], path: str, info: IndexInfo) -> bool:
    """Return whether a field has only short values, and can be matched exactly.

    Args:
        source: The ``_source`` of the document.
        path: The path of the field.
        info: The names and fields of the index.
    """
    if any(len(str(value)) > _MAX_LABEL for value in values_of(source, path)):
        return False
    return any(
        type in _EXACT_TYPES and (name == path or name.startswith(f"{path}."))
        for types in info.field_types
        for name, type in types.items()
    )


class SessionMarking:
    """A mixin for retrievers with a search session. It adds the method :meth:`mark` for relevance feedback."""

    session: Session

    def mark(
        self,
        relevant: Iterable[Any] = (),
        irrelevant: Iterable[Any] = (),
        query: str | None = None,
        scores: Mapping[str, float] | None = None,
        explain: bool = False,
        **further: Iterable[Any],
    ) -> Explanation:
        """Mark documents as relevant or irrelevant for a query.

        Later searches of the session rank similar documents higher or lower. ``amark`` is the asynchronous version.

        Args:
            relevant: The relevant documents, nodes or ids.
            irrelevant: The irrelevant documents, nodes or ids.
            query: The query for which the documents are marked. By default, the last query of ``session``. Pass the
                query if several searches run at the same time, or if another object has searched.
            scores: Relevance scores of a model by document id, from -1 (irrelevant) to 1 (relevant).
            explain: Whether the result should explain what was learned from the marks.
            **further: Documents with other kinds of marks, such as ``clicked``.

        Returns:
            The session's id, times and number of steps. With ``explain``, also its judgements and a summary of what was
            learned.

        Raises:
            BadInput: If ``query`` is missing, and ``session`` has not searched for a text yet.
        """
        if query is None and not self.session.last_query:
            expected = "the query of the search that returned the documents"
            raise BadInput("query is missing, and this retriever has not searched for a text", expected=expected)
        return self.session.mark(relevant, irrelevant, query=query, scores=scores, explain=explain, **further)

    amark = for_event_loop(mark)
