"""The search that evaluation measures: the embedded engine, asked what the rewriting makes of a query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from resift.arrays import Floats
from resift.evaluation.served import RANKED, Asked
from resift.plugin.documents import Document
from resift.plugin.query_dsl import MAX_RESULTS
from resift.plugin.rewriting.clauses import question_clause
from resift.plugin.rewriting.rewrite import RewriteSettings, rewrite
from resift.plugin.sqlite.engine import SqliteEngine
from resift.ranking.feedback import Feedback
from resift.ranking.judgements import JudgedDocument
from resift.reranker.config import Config
from resift.reranker.search.index_sample import IndexSamples
from resift.reranker.search.meaning import meaning_of, scoped_feedback
from resift.reranker.sessions import MAX_QUERY

INDEX, _FIELD = "documents", "text"
_WORDS = 1000  # of a query that is a whole document: engines take 1024 clauses, and some are the session's


@dataclass(frozen=True)
class _Vectors:
    """What an index says of the vectors that it holds."""

    dim: int
    similarity: str
    name: str = "evaluated"
    hash: str = "0" * 16

    @property
    def space_type(self) -> str:
        """The k-NN space, as a model has it."""
        return "innerproduct" if self.similarity == "cosine" else "l2"


class ServedSearch:
    """Documents in an embedded engine of their own, which are searched as the service does by default.

    ``vectors`` (N, K) are compared by ``similarity``, ``cosine`` or ``jaccard``; ``idf`` says how rare a word is.
    ``judged``: what happens to judged documents, as :class:`resift.plugin.rewriting.rewrite.RewriteSettings` has it.
    """

    def __init__(
        self,
        documents: Sequence[str],
        vectors: Floats,
        similarity: str,
        idf: Callable[[str], float],
        judged: str = "keep",
    ) -> None:
        self.similarity, self.idf, self.judged, self.defaults = similarity, idf, judged, Config()
        self._count, self._dim = vectors.shape
        # in memory there is one connection, which one thread uses
        self._engine = SqliteEngine(":memory:")
        self._engine.create(INDEX, [_FIELD], _Vectors(self._dim, similarity))
        rows = enumerate(zip(documents, vectors, strict=True))
        self._engine.bulk(INDEX, [Document(str(row), {_FIELD: text}, vector) for row, (text, vector) in rows])
        self._info, self._samples = self._engine.info(INDEX), IndexSamples(self._engine)

    def ranking(self, asked: Asked) -> NDArray[np.int64]:
        """Positions of the documents that are found, best first; no more than an engine gives."""
        judged = [_as_kept(one) for one in asked.judged]
        learned = Feedback.from_judged(judged, self._dim, self.idf, asked.method) if judged else None
        text = " ".join(asked.text.split()[:_WORDS])
        feedback = scoped_feedback(learned, judged, asked.text, asked.vector, lambda: self._samples.of(self._info))
        meaning = replace(meaning_of(asked.text, asked.vector, feedback, judged, self.similarity), text=text)
        settings = self._settings(asked, feedback)
        body = {"query": question_clause(text, [_FIELD]), "size": max(RANKED, settings.window), "_source": False}
        hits = self._engine.search(INDEX, rewrite(body, [_FIELD], meaning, settings).body).hits
        return np.array([int(hit["_id"]) for hit in hits], np.int64)

    def _settings(self, asked: Asked, feedback: Feedback | None) -> RewriteSettings:
        alpha, window = asked.alpha, self.defaults.window
        if feedback is not None:
            alpha, window = feedback.adjusted_alpha(alpha, asked.max_alpha), self.defaults.session_window
        window = min(self._count, MAX_RESULTS) if asked.whole else window
        return RewriteSettings(alpha, window, widen=True, knn=self.defaults.knn, judged=self.judged)


def _as_kept(judged: JudgedDocument) -> JudgedDocument:
    """A judged document as sessions keep it: with the beginning of its query."""
    return replace(judged, judgement=replace(judged.judgement, query=judged.judgement.query[:MAX_QUERY]))
