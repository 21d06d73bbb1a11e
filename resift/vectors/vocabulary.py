"""Other words: of those that an index has, the nearest to a query's, for a query whose own words find little in it.

What a query finds, and which words there are, is estimated from a sample of the index's documents; which words are near
is a look-up in static word vectors. The constants were chosen on the collections that ``benchmarks/other_words.py``
measures, so that its figures are not of data that nobody tuned on.
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

# A query finds enough if a fiftieth of the documents, or this many, have half of its words' idf, and little if fewer
# have even three tenths of it. More words than that find enough.
ENOUGH_DOCUMENTS, ENOUGH_SHARE, LOW_SHARE, MAX_QUERY_WORDS = 10, 0.5, 0.3, 16
# How many other words a word of a query gets at most, and their weight at a cosine of 1 where that finds little, and
# where it finds more.
MAX_NEAREST, STRONG_WEIGHT, WEAK_WEIGHT = 4, 0.85, 0.4
# How near other words are at least, what counts that the query's other words are near to them, and how many forms each
# has where the index does not stem.
MIN_COSINE, CONTEXT_WEIGHT, MAX_FORMS = 0.3, 0.3, 2
_MAX_VOCABULARY, _PROBED, _CANDIDATES = 30_000, 64, 100
_MAX_PAIRS = 12


class Vocabulary:
    """The words of a sample of an index's documents.

    ``documents``: the words of each, once; ``total``: how many documents the index has; ``stems``: whether to the index
    inflections of a word are the same; ``table``: the word vectors, (V, D).
    """

    def __init__(self, documents: Sequence[Sequence[str]], total: int, stems: bool, table: WordVectors) -> None:
        self.size, self.total, self.stems, self.table = len(documents), max(total, len(documents)), stems, table
        forms = {word: self._term(word) for word in dict.fromkeys(chain.from_iterable(documents))}
        self._terms = {term: row for row, term in enumerate(dict.fromkeys(forms.values()))}
        owned = [{self._terms[forms[word]] for word in document} for document in documents]
        flat = np.fromiter((term for terms in owned for term in terms), np.int32)
        rows = np.repeat(np.arange(self.size, dtype=np.int32), [len(terms) for terms in owned])
        self._documents = rows[np.argsort(flat, kind="stable")]
        self._offsets = np.concatenate([[0], np.cumsum(np.bincount(flat, minlength=len(self._terms)))])
        counts = Counter(word for document in documents for word in document if _is_content(word))
        known = [word for word, _ in counts.most_common() if table.index[word] >= 0][:_MAX_VOCABULARY]
        self.words, self._stems = known, [stem(word) for word in known]
        self._rows = np.array([table.index[word] for word in known], np.int32)
        # what the first dimensions, the principal ones, say of all words, is enough to know which may be near
        self._probes = unit_rows(table.rows(self._rows))[:, :_PROBED].copy() if known else None

    def _term(self, word: str) -> str:
        return stem(word) if self.stems else word

    def other_words(self, text: str) -> dict[str, dict[str, float]]:
        """Word of a text → the words nearest to it and what they weigh beside it, 0 to 1, nearest first.

        Nothing where the text's own words find enough: ten documents, or a fiftieth of all, as far as the sample tells,
        that have half of its words, each as much as it is rare. Weak ones where so many have three tenths.
        """
        words = [word for word in dict.fromkeys(tokenize(text)) if word not in FUNCTION_WORDS]
        near = [word for word in words if _is_content(word) and self.table.index[word] >= 0]
        if self._probes is None or not near or len(words) > MAX_QUERY_WORDS:
            return {}
        share = self._share_found(words)
        if share >= ENOUGH_SHARE:
            return {}
        weight = STRONG_WEIGHT if share < LOW_SHARE else WEAK_WEIGHT
        rows = [self.table.index[word] for word in near]
        vectors = unit_rows(self.table.rows(rows))
        context = unit_rows(self.table.weights[rows] @ vectors)
        probed = self._probes @ vectors[:, :_PROBED].T
        found = {
            word: {other: weight * cosine for other, cosine in self._nearest(word, vector, context, scores)}
            for word, vector, scores in zip(near, vectors, probed.T, strict=True)
        }
        return {word: others for word, others in found.items() if others}

    def _share_found(self, words: Sequence[str]) -> float:
        """The largest share of the words' idf that enough documents have, 1 where nothing finds anything."""
        held, whole = np.zeros(self.size), 0.0
        for term, word in {self._term(word): word for word in words}.items():
            row = self._terms.get(term, -1)
            if row < 0 and self.table.index[word] < 0:
                continue  # nothing finds anything for such a word
            documents = self._documents[slice(*self._offsets[row : row + 2])] if row >= 0 else self._documents[:0]
            rarity = float(np.log(1 + (self.size - len(documents) + 0.5) / (len(documents) + 0.5)))
            held[documents] += rarity
            whole += rarity
        enough = int(np.ceil(min(ENOUGH_DOCUMENTS, max(1, self.total // 50)) * self.size / self.total - 1e-9))
        return float(np.partition(held, -enough)[-enough]) / whole + 1e-9 if whole else 1.0

    def _nearest(self, word: str, vector: Floats, context: Floats, scores: Floats) -> Iterator[tuple[str, float]]:
        """The words nearest to one with a ``vector`` (D,), and their cosines; of one stem, one or two.

        ``context`` (D,) is the query's direction, and ``scores`` (V,) what the probes say.
        """
        likely = (
            np.argpartition(-scores, _CANDIDATES)[:_CANDIDATES] if len(scores) > _CANDIDATES else np.arange(len(scores))
        )
        rows = unit_rows(self.table.rows(self._rows[likely]))
        cosines = rows @ vector
        taken = Counter[str]()
        own = stem(word)
        for at in np.argsort(-(cosines + CONTEXT_WEIGHT * (rows @ context)), kind="stable"):
            row, cosine = likely[at], float(cosines[at])
            root = self._stems[row]
            if cosine < MIN_COSINE or self.words[row] == word or (self.stems and root == own):
                continue
            if taken[root] >= (1 if self.stems else MAX_FORMS) or (not taken[root] and len(taken) >= MAX_NEAREST):
                continue
            taken[root] += 1
            yield self.words[row], cosine


def inflected_pairs(documents: Sequence[Sequence[str]]) -> list[tuple[str, str]]:
    """Frequent pairs of words with the same stem, such as "charge" and "charged": an index to which they are the same
    finds as many documents by either."""
    counts = Counter(word for document in documents for word in document if _is_content(word))
    pairs, first = list[tuple[str, str]](), dict[str, str]()
    for word, _ in counts.most_common(_MAX_VOCABULARY):
        other = first.setdefault(stem(word), word)
        if other != word and counts[other] != counts[word]:
            pairs.append((other, word))
    return pairs[:_MAX_PAIRS]


def _is_content(word: str) -> bool:
    return len(word) > 1 and word not in FUNCTION_WORDS and not any(map(str.isdigit, word))
