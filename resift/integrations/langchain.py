"""A retriever for LangChain: ``retriever.invoke("…")`` by all that its session has marked."""

from __future__ import annotations

import asyncio
from typing import Any

from resift.errors import needs_extra
from resift.integrations.passages import SessionMarking, passages
from resift.library import Session

with needs_extra("langchain", "The LangChain retriever"):
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
    from langchain_core.documents import Document
    from langchain_core.retrievers import BaseRetriever
    from pydantic import Field


class ResiftRetriever(SessionMarking, BaseRetriever):
    """Finds the ``k`` best documents of a session's index.

    A document has the text of the fields that are searched, the other fields as its ``metadata``, and in that its
    score, as ``relevance_score``. ``options`` are what else a search may say (:class:`resift.library.SearchOptions`);
    they and ``k`` may also be given to ``invoke`` and ``ainvoke``.
    """

    session: Session
    k: int = 10
    options: dict[str, Any] = Field(default_factory=dict)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        size = options.pop("k", self.k)
        hits = self.session.search(query, size, **{**self.options, **options})
        return [
            Document(id=one.id, page_content=one.text, metadata={**one.metadata, "relevance_score": one.score})
            for one in passages(self.session, hits)
        ]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        # the base class's own takes no options
        handlers = run_manager.get_sync()
        return await asyncio.to_thread(self._get_relevant_documents, query, run_manager=handlers, **options)
