"""Find related words of an index for queries whose own words match few documents.

The vocabulary of the index, and the number of documents that a query matches, are estimated from a sample of documents.
Related words are the words of the vocabulary whose static word vectors are nearest to those of the query's words. The
constants were chosen on the same collections that ``benchmarks/other_words.py`` measures, so the benchmark does not
measure held-out data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from resift.arrays import Floats
from resift.porter import stem
from resift.text import FUNCTION_WORDS, tokenize
from resift.vectors.similarity import unit_rows
from resift.vectors.table import WordVectors

ENOUGH_DOCUMENTS = 10
"""A query matches enough if this many documents, or a fiftieth of the index, contain ENOUGH_SHARE of its words."""

ENOUGH_SHARE = 0.5
"""Share of the query's words, weighted by idf, that a matching document contains."""

LOW_SHARE = 0.3
"""Below this share, related words get STRONG_WEIGHT. From it to ENOUGH_SHARE they get WEAK_WEIGHT."""

MAX_QUERY_WORDS = 16
"""Queries with more words than this get no related words."""

MAX_NEAREST = 4
"""Maximum number of related words for each query word, not counting further forms of the same word."""

STRONG_WEIGHT = 0.85
"""Weight of a related word of cosine 1 if the query matches few documents."""

WEAK_WEIGHT = 0.4
"""Weight of a related word of cosine 1 if the query matches more documents."""

MIN_COSINE = 0.3
"""Minimum cosine of a related word and the query word."""

CONTEXT_WEIGHT = 0.3
"""Weight of the cosine with the whole query when related words are ranked."""

MAX_FORMS = 2
"""Maximum number of forms of a related word in an index that does not stem."""

_MAX_VOCABULARY = 30_000
_PROBE_DIMENSIONS = 64
_CANDIDATES = 100
_MAX_PAIRS = 12


class Vocabulary:
    """The words in a sample of an index's documents, with their vectors. It finds related words for queries.

    Args:
        documents: The distinct words of each sampled document.
        total: The number of documents in the index.
        stems: Whether the index's analyzer stems words, so that inflected forms of a word match each other.
        table: The word vectors, by which related words are found.

    Attributes:
        size: The number of sampled documents.
        words: The content words of the sample that have a vector, most frequent first.
    """

    def __init__(self, documents: Sequence[Sequence[str]], total: int, stems: bool, table: WordVectors) -> None:
        self.size, self.total, self.stems, self.table = len(documents), max(total, len(documents)), stems, table
        self._build_postings(documents)
        counts = Counter(word for document in documents for word in document if _is_content_word(word))
        known = [word for word, _ in counts.most_common() if table.index[word] >= 0]
        self.words = known[:_MAX_VOCABULARY]
        self._stems = [stem(word) for word in self.words]
        self._rows = np.array([table.index[word] for word in self.words], np.int32)
        # The first dimensions are the principal components. They are enough to select candidates.
        self._probes = unit_rows(table.rows(self._rows))[:, :_PROBE_DIMENSIONS].copy() if known else None

    def _build_postings(self, documents: Sequence[Sequence[str]]) -> None:
        """Build an inverted index of the sampled documents.

        For each term, the index lists the documents that contain the term. The numbers of the documents that contain
        term ``i`` are in ``_postings[_offsets[i]:_offsets[i + 1]]``.

        Args:
            documents: The distinct words of each sampled document.
        """
        terms = {word: self._indexed_form(word) for word in dict.fromkeys(chain.from_iterable(documents))}
        self._term_rows = {term: row for row, term in enumerate(dict.fromkeys(terms.values()))}
        document_terms = [{self._term_rows[terms[word]] for word in document} for document in documents]
        flat = np.fromiter((row for rows in document_terms for row in rows), np.int32)
        owners = np.repeat(np.arange(self.size, dtype=np.int32), [len(rows) for rows in document_terms])
        self._postings = owners[np.argsort(flat, kind="stable")]
        self._offsets = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=len(self._term_rows)))])

    def _indexed_form(self, word: str) -> str:
        """Return the form in which the index stores a word: the stem if its analyzer stems words, else the word."""
        return stem(word) if self.stems else word

    def related_words(self, text: str) -> dict[str, dict[str, float]]:
        """Return related words for the words of a query that matches few documents.

        Related words are the words of the index with the nearest word vectors. They are added to the query so that it
        matches more documents.

        The weights of the related words depend on the largest share of the query's words that occur together in enough
        documents, as estimated from the sample. The share counts words by their inverse document frequency. From a
        share of 0.5 on, the query needs no related words. From 0.3 to 0.5, the related words get low weights, and below
        0.3 high weights.

        Args:
            text: The query text.

        Returns:
            For each word of the query, its related words with their weights in (0, 1), best first. Empty if the query
            needs no related words, or has too many words.
        """
        words = [word for word in dict.fromkeys(tokenize(text)) if word not in FUNCTION_WORDS]
        known = [word for word in words if _is_content_word(word) and self.table.index[word] >= 0]
        if self._probes is None or not known or len(words) > MAX_QUERY_WORDS:
            return {}
        share = self._matched_share(words)
        if share >= ENOUGH_SHARE:
            return {}
        weight = STRONG_WEIGHT if share < LOW_SHARE else WEAK_WEIGHT
        rows = [self.table.index[word] for word in known]
        vectors = unit_rows(self.table.rows(rows))
        context = unit_rows(self.table.weights[rows] @ vectors)
        probe_scores = self._probes @ vectors[:, :_PROBE_DIMENSIONS].T
        related = {}
        for word, vector, scores in zip(known, vectors, probe_scores.T, strict=True):
            nearest = self._nearest_words(word, vector, context, scores)
            if weights := {candidate: weight * cosine for candidate, cosine in nearest}:
                related[word] = weights
        return related

    def _matched_share(self, words: Sequence[str]) -> float:
        """Return the largest share of a query's words, from 0 to 1, that enough documents contain together.

        For example, the share for "fast train japan" is about two thirds if enough documents contain two of the words,
        but too few documents contain all three. Two percent of the indexed documents are enough, and so are
        :data:`ENOUGH_DOCUMENTS` documents. Their number is estimated from the sample. Words are weighted by their
        inverse document frequency.

        The share is 1 if no word of the query occurs in the sample or has a vector, because related words cannot help
        such a query.

        Args:
            words: The words of the query.
        """
        matched, total_idf = np.zeros(self.size), 0.0
        for term, word in {self._indexed_form(word): word for word in words}.items():
            row = self._term_rows.get(term, -1)
            if row < 0 and self.table.index[word] < 0:
                continue  # neither the word nor related words can match
            documents = self._postings[slice(*self._offsets[row : row + 2])] if row >= 0 else self._postings[:0]
            idf = float(np.log(1 + (self.size - len(documents) + 0.5) / (len(documents) + 0.5)))
            matched[documents] += idf
            total_idf += idf
        if not total_idf:
            return 1.0
        # Documents of the sample that stand for enough documents of the index
        enough = int(np.ceil(min(ENOUGH_DOCUMENTS, max(1, self.total // 50)) * self.size / self.total - 1e-9))
        return float(np.partition(matched, -enough)[-enough]) / total_idf + 1e-9

    def _nearest_words(self, word: str, vector: Floats, context: Floats, scores: Floats) -> Iterator[tuple[str, float]]:
        """Yield the words that are nearest to a query word, with their cosine similarities to this word.

        The words are in the order of their similarity to the query word, plus 0.3 times their similarity to the whole
        query, largest first.

        Args:
            word: The query word.
            vector: The vector of the query word, of shape (n_dimensions,) and unit length.
            context: The mean vector of the whole query, of shape (n_dimensions,) and unit length.
            scores: The approximate similarity of the query word to each word of the vocabulary, of shape (n_words,),
                used to select candidates.
        """
        candidates = np.arange(len(scores))
        if len(scores) > _CANDIDATES:
            candidates = np.argpartition(-scores, _CANDIDATES)[:_CANDIDATES]
        rows = unit_rows(self.table.rows(self._rows[candidates]))
        cosines = rows @ vector
        forms = Counter[str]()  # number of yielded words by stem
        max_forms = 1 if self.stems else MAX_FORMS
        own_stem = stem(word)
        for position in np.argsort(-(cosines + CONTEXT_WEIGHT * (rows @ context)), kind="stable"):
            row, cosine = candidates[position], float(cosines[position])
            candidate_stem = self._stems[row]
            is_same_word = self.words[row] == word or (self.stems and candidate_stem == own_stem)
            if cosine < MIN_COSINE or is_same_word or forms[candidate_stem] >= max_forms:
                continue
            if not forms[candidate_stem] and len(forms) >= MAX_NEAREST:
                continue
            forms[candidate_stem] += 1
            yield self.words[row], cosine


def inflected_pairs(documents: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Return frequent pairs of words that have the same stem but occur in different numbers of documents.

    An example is "charge" and "charged". The pairs can be used to test whether the analyzer of an index stems words: if
    it does, searches for the two words have the same number of hits.

    Args:
        documents: The distinct words of each sampled document.
    """
    counts = Counter(word for document in documents for word in document if _is_content_word(word))
    pairs, first_words = list[tuple[str, str]](), dict[str, str]()
    for word, _ in counts.most_common(_MAX_VOCABULARY):
        first_word = first_words.setdefault(stem(word), word)
        if first_word != word and counts[first_word] != counts[word]:
            pairs.append((first_word, word))
    return pairs[:_MAX_PAIRS]


def _is_content_word(word: str) -> bool:
    """Return whether a word says something about the topic of a text. Function words, letters and numbers do not."""
    return len(word) > 1 and word not in FUNCTION_WORDS and not any(map(str.isdigit, word))
