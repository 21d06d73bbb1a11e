"""A LlamaIndex retriever with the relevance feedback of a session."""

from __future__ import annotations

import asyncio
from typing import Any

from resift.errors import needs_extra
from resift.integrations.passages import MakeBody, SessionMarking, retrieve
from resift.library import Session

with needs_extra("llamaindex", "The LlamaIndex retriever"):
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode


class ResiftRetriever(SessionMarking, BaseRetriever):
    """A LlamaIndex retriever that ranks documents by the user's feedback in a search session.

    A retrieved node has the id of the document and the text of the index's text fields. Its metadata contains the
    fields that :func:`resift.integrations.passages.metadata_of` returns.

    Args:
        session: The search session, whose marks and clicks affect the ranking.
        similarity_top_k: The maximum number of nodes. It takes precedence over the ``size`` of a search body.
        callback_manager: LlamaIndex's callback manager.
        body: A function that makes the search body of a query text, such as a ``hybrid`` or ``knn`` query. By default,
            Resift searches for the text.
        **options: Further search options (see :class:`resift.library.SearchOptions`).
    """

    def __init__(
        self,
        session: Session,
        similarity_top_k: int = 10,
        callback_manager: CallbackManager | None = None,
        body: MakeBody | None = None,
        **options: Any,
    ) -> None:
        super().__init__(callback_manager)
        self.session, self.similarity_top_k, self.body, self.options = session, similarity_top_k, body, options

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        retrieved = retrieve(self.session, query_bundle.query_str, self.similarity_top_k, self.body, self.options)
        return [
            NodeWithScore(
                node=TextNode(id_=passage.id, text=passage.text, metadata=passage.metadata), score=passage.score
            )
            for passage in retrieved
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
