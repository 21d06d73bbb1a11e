"""Pairs of a query and its document for word2doc, from titles and keywords of the documents themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from resift_lab.word2doc.keywords import rake

_OF_FIRST_SENTENCE = 2
_MIN_TO_HOLD_BACK = 3


@dataclass(frozen=True)
class TrainingPairs:
    """Queries and the positions of their documents.

    ``queries`` and ``documents``, of one length, are to learn from. ``choosing`` and ``judging``, keyword → document,
    are held back: the one chooses the retriever's weight, the other judges.
    """

    queries: list[str]
    documents: list[int]
    choosing: dict[str, int]
    judging: dict[str, int]


def training_pairs(titles: Sequence[str], bodies: Sequence[str], keywords: int, seed: int = 0) -> TrainingPairs:
    """Training pairs, and two held-back keywords of each document, one to choose with and one to judge with.

    A document's keywords are RAKE's best two of its first sentence and its best of the whole, as many as ``keywords``
    all together; its title is a query too. A keyword that stands for several documents is not held back, and no
    query that is learnt is the held-back one of any document.
    """
    keywords_of = [_keywords(title, body)[:keywords] for title, body in zip(titles, bodies, strict=True)]
    choosing, judging = _held_back(titles, keywords_of, seed)
    pairs = TrainingPairs([], [], choosing, judging)
    for document, (title, found) in enumerate(zip(titles, keywords_of, strict=True)):
        for query in [*([title] if title.strip() else []), *found]:
            if query.lower() not in choosing and query.lower() not in judging:
                pairs.queries.append(query)
                pairs.documents.append(document)
    return pairs


def _keywords(title: str, body: str) -> list[str]:
    """A document's keywords, each once: of the first sentence, of the rest, of the title."""
    first, _, rest = body.partition(". ")
    # a body of one sentence has no rest
    return list(dict.fromkeys(chain(rake(first, _OF_FIRST_SENTENCE), rake(rest or body), rake(title))))


def _held_back(
    titles: Sequence[str], keywords_of: Sequence[Sequence[str]], seed: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Keywords of one document alone to choose with and to judge with, one each of a document with three or more."""
    rng = np.random.default_rng(seed)
    documents_with = Counter(chain.from_iterable(keywords_of))
    choosing: dict[str, int] = {}
    judging: dict[str, int] = {}
    for document, (title, keywords) in enumerate(zip(titles, keywords_of, strict=True)):
        # a title is learnt, so it cannot be unseen
        own = [keyword for keyword in keywords if documents_with[keyword] == 1 and keyword != title.lower()]
        drawn = rng.permutation(len(own))[:2] if len(keywords) >= _MIN_TO_HOLD_BACK else ()
        for unseen, number in zip((choosing, judging), drawn, strict=False):
            unseen[own[number]] = document
    return choosing, judging
