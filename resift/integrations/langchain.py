"""A LangChain retriever with the relevance feedback of a session."""

from __future__ import annotations

import asyncio
from typing import Any

from resift.errors import needs_extra
from resift.integrations.passages import MakeBody, SessionMarking, retrieve
from resift.library import Session

with needs_extra("langchain", "The LangChain retriever"):
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import Field


class ResiftRetriever(SessionMarking, BaseRetriever):
    """A LangChain retriever that ranks documents by the user's feedback in a search session.

    The content of a retrieved document comes from the text fields of the index. Its ``metadata`` contains the fields
    that :func:`resift.integrations.passages.metadata_of` returns, and the score of the hit under the key
    ``relevance_score``. The query can also be a search body.

    Attributes:
        session: The search session, whose marks and clicks affect the ranking.
        k: The maximum number of documents. It can be overridden in ``invoke`` and ``ainvoke``. It takes precedence over
            the ``size`` of a search body.
        body: A function that makes the search body of a query text, such as a ``hybrid`` or ``knn`` query. By default,
            Resift searches for the text.
        options: Further search options (see :class:`resift.library.SearchOptions`). They can also be overridden in
            ``invoke`` and ``ainvoke``.
    """

    session: Session
    k: int = 10
    body: MakeBody | None = None
    options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        size = options.pop("k", self.k)
        retrieved = retrieve(self.session, query, size, self.body, {**self.options, **options})
        return [
            Document(
                id=passage.id,
                page_content=passage.text,
                metadata={**passage.metadata, "relevance_score": passage.score},
            )
            for passage in retrieved
        ]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        # The method of the base class accepts no options.
        handlers = run_manager.get_sync()
        return await asyncio.to_thread(self._get_relevant_documents, query, run_manager=handlers, **options)
