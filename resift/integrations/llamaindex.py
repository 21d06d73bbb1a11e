"""A retriever for LlamaIndex: ``retriever.retrieve("…")`` by all that its session has marked."""

from __future__ import annotations

import asyncio
from typing import Any

from resift.errors import needs_extra
from resift.integrations.passages import SessionMarking, passages
from resift.library import Session

with needs_extra("llamaindex", "The LlamaIndex retriever"):
    from llama_index.core.callbacks import CallbackManager
    from llama_index.core.retrievers import BaseRetriever
    from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode


class ResiftRetriever(SessionMarking, BaseRetriever):
    """Finds the ``similarity_top_k`` best documents of a session's index.

    A node has the document's id, the text of the fields that are searched, and the other fields as its metadata.
    ``options`` are what else a search may say (:class:`resift.library.SearchOptions`).
    """

    def __init__(
        self,
        session: Session,
        similarity_top_k: int = 10,
        callback_manager: CallbackManager | None = None,
        **options: Any,
    ) -> None:
        super().__init__(callback_manager)
        self.session, self.similarity_top_k, self.options = session, similarity_top_k, options

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self.session.search(query_bundle.query_str, self.similarity_top_k, **self.options)
        return [
            NodeWithScore(node=TextNode(id_=one.id, text=one.text, metadata=one.metadata), score=one.score)
            for one in passages(self.session, hits)
        ]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(self._retrieve, query_bundle)
