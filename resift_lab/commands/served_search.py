"""The search that evaluation measures: the embedded engine, asked what the rewriting makes of a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from resift.arrays import Floats
from resift.contracts.documents import Document, IndexInfo
from resift.contracts.engine import Engine
from resift.embedded.engine import SqliteEngine
from resift.feedback.feedback import Feedback
from resift.feedback.judgements import JudgedDocument
from resift.query.dsl import MAX_RESULTS
from resift.rewriting.clauses import question_clause
from resift.rewriting.request import RewriteSettings, telling_words
from resift.rewriting.rewrite import rewrite
from resift.service.config import Config
from resift.service.search_service import SESSION_WINDOW
from resift.sessions.knowledge import Samples, WordValues, knowledge_of, scoped_feedback
from resift.sessions.sessions import MAX_QUERY
from resift.vectors.weights import discount_alpha
from resift_lab.evaluation.feedback.learners import learn_feedback
from resift_lab.evaluation.served import RANKED, Asked, Hits

INDEX, _FIELD = "documents", "text"


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


class IndexSearch:
    """An index of an engine, searched as the service does by default.

    ``similarity``, ``cosine`` or ``jaccard``, compares its vectors; ``idf`` says how rare a word is. ``positions``:
    id → position of the documents that count; others are left out. What ``info`` says of the index may be changed.
    """

    def __init__(
        self,
        engine: Engine,
        info: IndexInfo,
        similarity: str,
        idf: Callable[[str], float],
        positions: Mapping[str, int],
    ) -> None:
        self.similarity, self.idf, self.defaults = similarity, idf, Config()
        self._engine, self.info, self._positions = engine, info, positions
        self._samples, self._words = Samples(engine), WordValues(engine)

    def hits(self, asked: Asked) -> Hits:
        """What is found, best first; no more than an engine gives."""
        judged = [_as_kept(one) for one in asked.judged]
        # a model that was learned from documents knows their words, as Model.document_known_share has it
        dim, known = len(asked.vector), None if asked.max_alpha > asked.alpha else asked.known_share
        learned = learn_feedback(asked.method, judged, dim, self.idf, known) if judged else None
        info = self.info
        text = telling_words(asked.text, len(info.fields), self.idf)
        sample, carried = partial(self._samples.draw, info), info.tuning.carried
        feedback = scoped_feedback(learned, asked.text, asked.vector, sample, carried)
        field = None if info.model is None else info.vector_field
        terms = self._words.terms(feedback, info)
        knowledge = knowledge_of(asked.text, asked.vector, feedback, judged, self.similarity, terms, field)
        settings = self._settings(asked, feedback)
        body = {"query": question_clause(text, info.fields), "size": max(RANKED, settings.window), "_source": False}
        rewritten = rewrite(body, info.fields, replace(knowledge, text=text), settings).body
        found = [hit for hit in self._engine.search(info.name, rewritten).hits if hit["_id"] in self._positions]
        positions = np.array([self._positions[hit["_id"]] for hit in found], np.int64)
        return Hits(positions, np.array([hit["_score"] for hit in found], np.float64), settings.window)

    def _settings(self, asked: Asked, feedback: Feedback | None) -> RewriteSettings:
        known = None if asked.known_share is None else asked.known_share(asked.text)
        if feedback is None:
            alpha, window = discount_alpha(asked.alpha, known), self.defaults.window
        else:
            alpha = feedback.adjusted_alpha(asked.alpha, asked.max_alpha, known, self.info.tuning.strength)
            window = SESSION_WINDOW
        window = min(len(self._positions), MAX_RESULTS) if asked.whole else window
        return RewriteSettings(alpha, window, widen=True, knn=self.defaults.knn)


class ServedSearch(IndexSearch):
    """Documents in an embedded engine of their own, which are searched as the service does by default.

    ``vectors`` (N, K) are theirs; documents are known by their positions. ``analyzer`` cuts texts into
    words. The others: see :class:`IndexSearch`.
    """

    def __init__(
        self,
        documents: Sequence[str],
        vectors: Floats,
        similarity: str,
        idf: Callable[[str], float],
        analyzer: str = "english",
    ) -> None:
        # in memory there is one connection, which one thread uses
        engine = SqliteEngine(":memory:")
        engine.create(INDEX, [_FIELD], _Vectors(vectors.shape[1], similarity), analyzer)
        rows = enumerate(zip(documents, vectors, strict=True))
        engine.bulk(INDEX, [Document(str(row), {_FIELD: text}, vector) for row, (text, vector) in rows])
        positions = {str(row): row for row in range(len(vectors))}
        super().__init__(engine, engine.info(INDEX), similarity, idf, positions)


def _as_kept(judged: JudgedDocument) -> JudgedDocument:
    """A judged document as sessions keep it: with the beginning of its query."""
    return replace(judged, judgement=replace(judged.judgement, query=judged.judgement.query[:MAX_QUERY]))
