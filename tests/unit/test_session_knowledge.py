"""Tests of the knowledge that a session has about a search."""

from __future__ import annotations

import numpy as np

from resift.contracts.documents import IndexInfo
from resift.feedback.judgements import JudgedDocument, Judgement
from resift.sessions.knowledge import EncodedQuery, collect_knowledge
from resift.sessions.sessions import effective_judgements

INFO = IndexInfo("papers-1", (), None, None, None, indices=("papers-1",))
QUERY = EncodedQuery("fire", np.zeros(2, np.float32), "cosine")


def counted(*judgements: Judgement) -> list[tuple[str, float]]:
    """Return the index name and the grade of the judgements that count in a search of the index ``papers-1``."""
    documents = [
        JudgedDocument(judgement, np.zeros(2, np.float32), "fire") for judgement in effective_judgements(judgements)
    ]
    judged = collect_knowledge(INFO, QUERY, None, documents, documents).judged
    grades = {document.judgement.key: document.judgement.grade for document in documents}
    return [(index, grades[index, id]) for index, id in judged]


def test_the_latest_judgement_of_a_document_counts_under_any_of_its_names() -> None:
    alias, index = Judgement("papers", "1", 1, step=1), Judgement("papers-1", "1", -1, step=2)
    assert counted(alias, index) == [("papers-1", -1)]
    assert counted(alias, index, Judgement("papers", "1", 0.5, step=3)) == [("papers", 0.5)]
    click = Judgement("papers", "1", 0.5, at=9, step=3, source="click")
    assert counted(index, click) == [("papers-1", -1)]
