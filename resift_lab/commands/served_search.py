"""Searches for evaluations, rewritten as in the service and run by an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from resift.arrays import Floats
from resift.contracts.documents import Document, IndexInfo
from resift.contracts.engine import Engine
from resift.embedded.engine import SqliteEngine
from resift.feedback.judgements import JudgedDocument
from resift.query.body import parse
from resift.query.dsl import MAX_RESULTS
from resift.query.questions import question_clause, shorten_to_distinctive_words
from resift.rewriting.knowledge import Knowledge
from resift.rewriting.options import Options
from resift.rewriting.rewrite import rewrite
from resift.service.config import Config
from resift.service.rewriter import min_session_window
from resift.sessions.knowledge import EncodedQuery, collect_knowledge, scoped_feedback
from resift.sessions.samples import BackgroundSampler, WordSelector
from resift.sessions.sessions import MAX_QUERY
from resift.vectors.weights import discount_alpha
from resift_lab.evaluation.feedback.learners import learn_feedback
from resift_lab.evaluation.served import RANKED, Hits, SimulatedSearch

# The index of a temporary engine, and its text field.
INDEX = "documents"
_FIELD = "text"


@dataclass(frozen=True)
class _ModelStandIn:
    """A stand-in for a model, with the attributes that an engine reads when it creates an index.

    Attributes:
        dim: The number of dimensions of the vectors.
        similarity: The similarity of the vectors, ``cosine`` or ``jaccard``.
        name: The name that the index stores for its model.
        hash: The hash that the index stores for its model.
        bags: None, because the vectors are those of texts.
    """

    dim: int
    similarity: str
    name: str = "evaluated"
    hash: str = "0" * 16
    bags: str | None = None

    @property
    def space_type(self) -> str:
        """The space type of the ``knn_vector`` field, which is how OpenSearch names the similarity of vectors."""
        return "innerproduct" if self.similarity == "cosine" else "l2"


class IndexSearch:
    """Searches an existing index, with the same hits as the service with its default settings.

    Args:
        engine: The engine with the index.
        info: A description of the index. The attribute ``info`` may be replaced later, for example to change the
            ranking constants.
        similarity: The similarity of the index's vectors, ``cosine`` or ``jaccard``.
        idf: A function that returns the inverse document frequency of a word.
        positions: The position of each document of the test collection, by document id. Documents with other ids are
            removed from the hits.
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
        self._samples, self._word_selector = BackgroundSampler(engine), WordSelector(engine)

    def hits(self, search: SimulatedSearch) -> Hits:
        """Run a search. If it has relevance judgements, it runs like a search in a session with these judgements.

        Args:
            search: The query, the judgements and the weights of the vectors.

        Returns:
            The hits, best first. At least 1,000 hits are requested from the engine.
        """
        judged = [_with_shortened_query(document) for document in search.judged]
        # max_alpha > alpha tells that a model was trained on the documents. It knows nearly all of their words (see
        # Model.document_known_share), so the share of known words is not computed.
        known_share = None if search.max_alpha > search.alpha else search.known_share
        learned = learn_feedback(search.method, judged, len(search.vector), self.idf, known_share) if judged else None
        info = self.info
        query = EncodedQuery(search.text, search.vector, self.similarity)
        sample, carried = partial(self._samples.draw, info), info.tuning.carried
        feedback = scoped_feedback(learned, query, sample, carried)
        text = shorten_to_distinctive_words(search.text, len(info.fields), self.idf)
        clause = question_clause(text, info.fields)
        words = self._word_selector.select(feedback, info)
        knowledge = replace(
            collect_knowledge(info, query, feedback, judged, judged),
            text=text,
            expansion_words=words,
            has_enough_hits=bool(words) and self._word_selector.has_enough_hits(clause, info),
        )
        options = self._options(search, knowledge)
        size = max(RANKED, options.window_size)
        body = {"query": clause, "size": size, "_source": False}
        rewritten = rewrite(parse(body), knowledge, options).body
        hits = [hit for hit in self._engine.search(info.name, rewritten).hits if hit["_id"] in self._positions]
        positions = np.array([self._positions[hit["_id"]] for hit in hits], np.int64)
        return Hits(positions, np.array([hit["_score"] for hit in hits], np.float64), options.window_size)

    def _options(self, search: SimulatedSearch, knowledge: Knowledge) -> Options:
        """Choose the weight of the vectors and the size of the rescore window for a search.

        Args:
            search: The simulated search.
            knowledge: The knowledge about the search, with the feedback of its session.

        Returns:
            The options for rewriting the query.
        """
        known = None if search.known_share is None else search.known_share(search.text)
        feedback = knowledge.feedback
        if feedback is None:
            alpha, window = discount_alpha(search.alpha, known), self.defaults.window
        else:
            alpha = feedback.adjusted_alpha(search.alpha, search.max_alpha, known, self.info.tuning.strength)
            window = min_session_window(knowledge)
        window = min(len(self._positions), MAX_RESULTS) if search.whole else window
        return Options(alpha=alpha, window=window, widen=True, knn=self.defaults.knn)


class ServedSearch(IndexSearch):
    """Searches a temporary index of some documents, with the same hits as the service with its default settings.

    Creating the object indexes the documents in memory, in an embedded engine (a search engine without a server).

    Args:
        documents: The texts of the N documents.
        vectors: The vectors of the documents, shape (N, K) for K dimensions.
        similarity: The similarity of the vectors, ``cosine`` or ``jaccard``.
        idf: A function that returns the inverse document frequency of a word.
        analyzer: The name of the analyser that splits the texts into words.
    """

    def __init__(
        self,
        documents: Sequence[str],
        vectors: Floats,
        similarity: str,
        idf: Callable[[str], float],
        analyzer: str = "english",
    ) -> None:
        # A database in memory has a single connection, so a single thread must use it.
        engine = SqliteEngine(":memory:")
        engine.create(INDEX, [_FIELD], _ModelStandIn(vectors.shape[1], similarity), analyzer)
        rows = enumerate(zip(documents, vectors, strict=True))
        engine.bulk(INDEX, [Document(str(row), {_FIELD: text}, vector) for row, (text, vector) in rows])
        positions = {str(row): row for row in range(len(vectors))}
        super().__init__(engine, engine.info(INDEX), similarity, idf, positions)


def _with_shortened_query(judged: JudgedDocument) -> JudgedDocument:
    """Return a copy of a judged document whose query is cut to the maximum length that sessions store."""
    return replace(judged, judgement=replace(judged.judgement, query=judged.judgement.query[:MAX_QUERY]))
