"""Data about a query, its session and its index, on which a rewriting is based."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from resift.arrays import Floats
from resift.contracts.documents import VectorField
from resift.feedback.evidence import evidence_share
from resift.feedback.feedback import Feedback
from resift.feedback.field_feedback import FieldFeedback, Tokens
from resift.feedback.judgements import DocumentKey, JudgedDocument
from resift.query.clause_count import ClauseCounter, FieldTypes
from resift.query.dsl import VECTOR_FIELD

# The weight of expansion words in a search without a query vector. There, nothing confirms that the documents with
# these words are relevant.
LEXICAL_WORD_WEIGHT = 0.5
# Documents with a grade of at most this value are ranked below all others. A skipped hit has the grade -0.25.
_REJECTING_GRADE = -0.5
# The factor of their scores. With 0, a ``hybrid`` query would leave them out.
_REJECTED_FACTOR = 0.001


class TextToEncode(NamedTuple):
    """A text in a query that OpenSearch must encode before the query can be rewritten.

    Attributes:
        text: The query text.
        model: The id of the model that encodes the text, or None if an analyzer encodes the text.
        analyzer: The name of the analyzer that encodes the text, or None if a model encodes the text.
        as_tokens: Whether the text is encoded as sparse token weights. Otherwise it is encoded as a dense vector.
    """

    text: str
    model: str | None
    analyzer: str | None = None
    as_tokens: bool = False


@dataclass(frozen=True, kw_only=True)
class RequiredData:
    """Data that must be loaded before a query can be rewritten.

    Attributes:
        fields: The fields whose vectors or tokens are needed for the judged documents.
        texts: The texts in the query that must be encoded.
        text_fields: The names or patterns of the fields in which the query searches for words. In an index without
            vectors of Resift, the session learns from the text in these fields. Empty for all text fields.
    """

    fields: frozenset[VectorField] = frozenset()
    texts: frozenset[TextToEncode] = frozenset()
    text_fields: frozenset[str] = frozenset()


NO_REQUIRED_DATA = RequiredData()


class JudgedTokens(NamedTuple):
    """The sparse tokens of judged documents in a field.

    Attributes:
        documents: For each document, a mapping from tokens to weights.
        grades: The relevance grade of each document: positive for relevant, negative for irrelevant.
    """

    documents: Sequence[Tokens]
    grades: Sequence[float]


@dataclass(frozen=True, kw_only=True)
class FieldKnowledge:
    """Knowledge about the index's own vector fields and sparse token fields, which were filled by other programs.

    It is needed to rewrite queries that search these fields, for example by a ``knn`` clause.

    Attributes:
        mapped: The fields with vectors or tokens, by the names that queries use.
        vectors: For each field, the feedback learned from the vectors of the judged documents. A field in which no
            judged document has a vector is missing.
        tokens: The tokens of judged documents, by the name of the field. A field in which no judged document has tokens
            is missing.
        encoded: The vector (with as many dimensions as the model has) or the token weights of each query text. A text
            that could not be encoded is missing.
    """

    mapped: Mapping[str, VectorField] = field(default_factory=dict)
    vectors: Mapping[str, FieldFeedback] = field(default_factory=dict)
    tokens: Mapping[str, JudgedTokens] = field(default_factory=dict)
    encoded: Mapping[TextToEncode, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Knowledge:
    """All data about a search on which its rewriting is based.

    The data describe the query, the feedback of the session, and the searched indices.

    Attributes:
        text: The text that the query searches for.
        fields: The text fields of the index. If empty, words are searched in the fields of the query's own text
            clauses.
        vector: The query vector, which the session may have moved, of shape (K,) for K dimensions. None for an index
            without Resift's vectors, and for a zero vector.
        vector_field: The field of the documents' vectors.
        similarity: How vectors are compared, ``cosine`` or ``jaccard``.
        mask: The weights of the dimensions that the session learned, of shape (K,). None if all dimensions count alike.
        expansion_words: The words that the session adds and their weights, heaviest first.
        has_enough_hits: Whether the query has at least ten hits by itself. Then expansion words match no further
            documents.
        related_words: For each word of a query with few hits, the nearest words of the index and their weights. See
            :meth:`resift.vectors.vocabulary.Vocabulary.related_words`.
        judged: All judged documents that can be hits. The index of a document is the name under which it was judged,
            which can be an alias.
        judged_elsewhere: The documents in ``judged`` that were judged for other queries of the session.
        unaffected: The documents in ``judged_elsewhere``, whose rank the session must not change. The values are the
            similarities to the query vector before the session moved it. Empty if no feedback applies to this query.
        judged_hits: The positions in ``documents`` of the documents in ``judged``, by the index and the id that their
            hits have. If a document was judged under a name of several indices, it has a key for each of them.
        has_several_indices: Whether several indices are searched. Then the same id can occur in each of them.
        feedback: The part of the session's feedback that concerns this query. None if no feedback does.
        documents: All judged documents of the session.
        own_fields: Knowledge about the index's own vector fields and sparse token fields.
        missing_documents: The number of judged documents that no longer exist.
        lacks_session: Whether the marks of the session are left out, because they could not be read or not in time.
        field_types: The types of the fields of each searched index. Empty if they are unknown.
        terms_per_word: The number of terms that the analyzers of the searched fields make of a word.
        notes: English sentences about knowledge that could not be loaded.
    """

    text: str
    fields: Sequence[str] = ()
    vector: Floats | None = None
    vector_field: str = VECTOR_FIELD
    similarity: str = "cosine"
    mask: Floats | None = None
    expansion_words: Mapping[str, float] = field(default_factory=dict)
    has_enough_hits: bool = False
    related_words: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    judged: Sequence[DocumentKey] = ()
    judged_elsewhere: Collection[DocumentKey] = ()
    unaffected: Mapping[DocumentKey, float] = field(default_factory=dict)
    judged_hits: Mapping[DocumentKey, int] = field(default_factory=dict)
    has_several_indices: bool = False
    feedback: Feedback | None = None
    documents: Sequence[JudgedDocument] = ()
    own_fields: FieldKnowledge = field(default_factory=FieldKnowledge)
    missing_documents: int = 0
    lacks_session: bool = False
    field_types: Sequence[FieldTypes] = ()
    terms_per_word: int = 1
    notes: Sequence[str] = ()

    @property
    def carried_words(self) -> list[str]:
        """The expansion words that come from judgements for earlier queries of the session, heaviest first."""
        carried = {} if self.feedback is None else self.feedback.carried_terms
        return [word for word in self.expansion_words if word in carried]

    @property
    def document_clause_count(self) -> int:
        """The number of clauses that OpenSearch counts for a clause that matches judged documents by their ids.

        If several indices are searched, such a clause has two inner clauses for each index: the ids and the index name.
        """
        return 2 * len({index for index, _ in self.judged}) if self.has_several_indices and self.judged else 1

    @property
    def word_weight(self) -> float:
        """The weight of expansion words (words learned from relevant documents) in the score.

        The weight is 1 with a query vector. It is 0.5 without a query vector, because then nothing confirms that
        documents with the expansion words are relevant.
        """
        return LEXICAL_WORD_WEIGHT if self.vector is None else 1.0

    @cached_property
    def clause_counter(self) -> ClauseCounter:
        """An object that counts the clauses of a query as OpenSearch counts them in the searched indices."""
        return ClauseCounter(self.field_types, self.terms_per_word)

    @cached_property
    def word_gain_factor(self) -> float:
        """The typical factor by which expansion words (words learned from relevant documents) raise the score of a hit.

        Documents that the user judged for other queries should keep their rank, so they get no score from expansion
        words. Instead, their scores are multiplied by this factor. With w for :attr:`word_weight` and v for the vector
        of the expansion words' weights, the factor is 1 + w · ‖v‖.
        """
        length: float = sum(weight**2 for weight in self.expansion_words.values()) ** 0.5
        return 1 + self.word_weight * length

    @property
    def irrelevant_factor(self) -> float:
        """A factor from 0 to 1 that reduces the scores of documents with a weak negative judgement for this query.

        The factor is 1 / (1 + e), where e is the total weight of the judgements for this query. So it is smaller if
        there are more judgements.
        """
        return 1.0 - evidence_share(0.0 if self.feedback is None else self.feedback.for_query.evidence)

    def score_factors(self, only_rejected: bool) -> dict[DocumentKey, float]:
        """Return the factors by which the scores of documents that were judged irrelevant are multiplied.

        Only judgements for this query count. Documents that a person marked irrelevant get the factor 0.001, which
        ranks them below all other hits. Skipped hits, and other documents with a weak negative judgement, get the
        :attr:`irrelevant_factor`.

        Args:
            only_rejected: Whether to leave out documents with a weak negative judgement.

        Returns:
            The factor of each document. Documents without a factor keep their scores.
        """
        factors, grades = {}, self._grades
        for document in self.judged_for_query(-1):
            if grades[document] <= _REJECTING_GRADE:
                factors[document] = _REJECTED_FACTOR
            elif not only_rejected:
                factors[document] = self.irrelevant_factor
        return factors

    def judged_for_query(self, sign: int) -> list[DocumentKey]:
        """Return the documents that the user judged relevant or irrelevant for this query.

        Args:
            sign: 1 for relevant documents, -1 for irrelevant documents.
        """
        grades = self._grades
        documents = (document for document in self.judged if document not in self.judged_elsewhere)
        return [document for document in documents if grades.get(document, 0) * sign > 0]

    @property
    def _grades(self) -> dict[DocumentKey, float]:
        return {document.judgement.key: document.judgement.grade for document in self.documents}
