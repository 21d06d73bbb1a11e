"""Pairs of a query and its document for word2doc, made from the titles and keywords of the documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from resift_lab.word2doc.keywords import rake_keywords

# Keywords that are taken from a document's first sentence, before all others.
_FROM_FIRST_SENTENCE = 2
# Keywords of a document with fewer keywords than this are not held out.
_MIN_TO_HOLD_OUT = 3


@dataclass(frozen=True)
class TrainingPairs:
    """Queries for training and evaluation, each with the position of its document.

    The queries are titles and keywords of the documents. Some keywords are held out: they are not used for training.

    Attributes:
        queries: The queries to train on.
        documents: The position of the correct document of each query in ``queries``.
        validation_keywords: Held-out keywords, each with the position of its document. They are used to choose the
            weight of the retriever, whose scores the model adds to the scores of its network.
        test_keywords: Other held-out keywords, each with the position of its document. They are used to evaluate the
            model.
    """

    queries: list[str]
    documents: list[int]
    validation_keywords: dict[str, int]
    test_keywords: dict[str, int]


def training_pairs(titles: Sequence[str], bodies: Sequence[str], keywords: int, seed: int = 0) -> TrainingPairs:
    """Extract queries from documents, and exclude up to two keywords of each document from training.

    The queries of a document are its title and its keywords. The keywords are extracted by RAKE: first the best two of
    the first sentence, then those of the other sentences and of the title. The excluded keywords are used to choose the
    retriever's weight and to evaluate the model. Each of them belongs to a single document and is not among the
    training queries of any document.

    Args:
        titles: The titles of the documents.
        bodies: The bodies of the documents.
        keywords: The maximum number of keywords of a document.
        seed: The seed for the choice of held-out keywords.
    """
    keywords_of = [_keywords(title, body)[:keywords] for title, body in zip(titles, bodies, strict=True)]
    validation_keywords, test_keywords = _hold_out(titles, keywords_of, seed)
    pairs = TrainingPairs(
        queries=[], documents=[], validation_keywords=validation_keywords, test_keywords=test_keywords
    )
    for document, (title, document_keywords) in enumerate(zip(titles, keywords_of, strict=True)):
        candidates = [title, *document_keywords] if title.strip() else document_keywords
        for query in candidates:
            if query.lower() not in validation_keywords and query.lower() not in test_keywords:
                pairs.queries.append(query)
                pairs.documents.append(document)
    return pairs


def _keywords(title: str, body: str) -> list[str]:
    """Return the distinct keywords of a document.

    Args:
        title: The title of the document.
        body: The text of the document.

    Returns:
        The keywords of the first sentence, then of the other sentences, then of the title.
    """
    first, _, rest = body.partition(". ")
    # The body of a single sentence has no rest.
    of_body = chain(rake_keywords(first, _FROM_FIRST_SENTENCE), rake_keywords(rest or body))
    return list(dict.fromkeys(chain(of_body, rake_keywords(title))))


def _hold_out(
    titles: Sequence[str], keywords_of: Sequence[Sequence[str]], seed: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Hold out two random keywords of each document that has at least three keywords. Training does not use them.

    Only keywords that belong to a single document and differ from its title are chosen.

    Args:
        titles: The title of each document.
        keywords_of: The keywords of each document.
        seed: Seed of the random choice.

    Returns:
        Two dictionaries from a keyword to the position of its document: the first keywords, with which the retriever's
        weight is chosen, and the second keywords, with which the model is evaluated.
    """
    rng = np.random.default_rng(seed)
    documents_with = Counter(chain.from_iterable(keywords_of))
    validation_keywords: dict[str, int] = {}
    test_keywords: dict[str, int] = {}
    for document, (title, keywords) in enumerate(zip(titles, keywords_of, strict=True)):
        # A title is always a training query, so it cannot be held out.
        unique = [keyword for keyword in keywords if documents_with[keyword] == 1 and keyword != title.lower()]
        drawn = rng.permutation(len(unique))[:2] if len(keywords) >= _MIN_TO_HOLD_OUT else ()
        for held_out, number in zip((validation_keywords, test_keywords), drawn, strict=False):
            held_out[unique[number]] = document
    return validation_keywords, test_keywords
