"""A Haystack component that retrieves documents with the relevance feedback of a session."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

from resift import library
from resift.client import for_event_loop
from resift.errors import needs_extra
from resift.integrations.passages import MakeBody, retrieve
from resift.vectors.packaged import DEFAULT_MODEL

with needs_extra("haystack", "The Haystack retriever"):
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.utils import Secret, deserialize_callable, serialize_callable


@component
class ResiftRetriever:
    """A Haystack component that retrieves documents from an index, ranked by the user's feedback in a search session.

    The index is opened when the component first runs.

    Args:
        index: The name of the index.
        session: The id of the session. A run can use another session.
        url: The address of the search engine, as for :func:`resift.open`. Pass a URL with a password as a ``Secret``.
        model: The embedding model, as for :func:`resift.open`.
        sessions: The store of sessions, as for :func:`resift.open`.
        top_k: The maximum number of documents. It takes precedence over the ``size`` of a search body.
        options: Further search options (see :class:`resift.library.SearchOptions`). The options of a run take
            precedence.
        body: A function that makes the search body of a query text, such as a ``hybrid`` or ``knn`` query. By default,
            Resift searches for the text. To save a pipeline, Haystack needs a function of a module.
    """

    def __init__(  # noqa: PLR0913 - Haystack serialises a component by these arguments
        self,
        index: str,
        session: str,
        url: str | Secret = "resift.db",
        model: str = DEFAULT_MODEL,
        sessions: str | None = None,
        top_k: int = 10,
        options: dict[str, Any] | None = None,
        body: MakeBody | None = None,
    ) -> None:
        self.name, self.session, self.url, self.model, self.sessions = index, session, url, model, sessions
        self.top_k, self.options, self.body = top_k, options, body

    @cached_property
    def index(self) -> library.Index:
        """The index, which is opened on first access."""
        url = self.url.resolve_value() if isinstance(self.url, Secret) else self.url
        opened = library.open(url, self.model, sessions=self.sessions)
        return opened.index(self.name)

    def to_dict(self) -> dict[str, Any]:
        """Serialize the component to a dictionary, as Haystack does to save a pipeline."""
        names = ("session", "url", "model", "sessions", "top_k", "options")
        body = None if self.body is None else serialize_callable(self.body)
        return dict(default_to_dict(self, index=self.name, body=body, **{name: getattr(self, name) for name in names}))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Any:
        """Create a component from the dictionary of :meth:`to_dict`."""
        arguments = dict(data.get("init_parameters", {}))
        if arguments.get("body"):
            arguments["body"] = deserialize_callable(arguments["body"])
        return default_from_dict(cls, {**data, "init_parameters": arguments})

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, session: str | None = None, top_k: int | None = None, options: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """Retrieve the documents that best match a query.

        Args:
            query: The query text.
            session: The id of the session. By default, the session of the component.
            top_k: The maximum number of documents. By default, the ``top_k`` of the component.
            options: Search options that override the options of the component.

        Returns:
            A dictionary with the key ``documents``. The content of each document is the text of the index's text
            fields. Its ``meta`` contains the fields that :func:`resift.integrations.passages.metadata_of` returns.
        """
        opened = self.index.session(session or self.session)
        merged = {**(self.options or {}), **(options or {})}
        size = self.top_k if top_k is None else top_k
        documents = [
            Document(id=passage.id, content=passage.text, meta=passage.metadata, score=passage.score)
            for passage in retrieve(opened, query, size, self.body, merged)
        ]
        return {"documents": documents}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, session: str | None = None, top_k: int | None = None, options: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """Retrieve the documents that best match a query, as :meth:`run` does, without blocking the event loop.

        Args:
            query: The query text.
            session: The id of the session. By default, the session of the component.
            top_k: The maximum number of documents. By default, the ``top_k`` of the component.
            options: Search options that override the options of the component.

        Returns:
            The dictionary that :meth:`run` returns.
        """
        documents: dict[str, list[Document]] = await asyncio.to_thread(self.run, query, session, top_k, options)
        return documents

    def mark(
        self,
        query: str,
        relevant: Iterable[Document | str] = (),
        irrelevant: Iterable[Document | str] = (),
        session: str | None = None,
        scores: Mapping[str, float] | None = None,
        explain: bool = False,
        **further: Iterable[Document | str],
    ) -> library.Explanation:
        """Mark documents as relevant or irrelevant for a query.

        Later searches of the session rank similar documents higher or lower. ``mark_async`` is the asynchronous
        version.

        Args:
            query: The query for which the documents are marked.
            relevant: The relevant documents, or their ids.
            irrelevant: The irrelevant documents, or their ids.
            session: The id of the session. By default, the session of the component.
            scores: Relevance scores of a model by document id, from -1 (irrelevant) to 1 (relevant).
            explain: Whether the result should explain what was learned from the marks.
            **further: Documents with other kinds of marks, such as ``clicked``.

        Returns:
            The id and the times of the session. With ``explain``, also its marks and what was learned from them.
        """
        opened = self.index.session(session or self.session)
        return opened.mark(relevant, irrelevant, query=query, scores=scores, explain=explain, **further)

    mark_async = for_event_loop(mark)
