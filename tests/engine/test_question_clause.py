"""What somebody typed as a query clause: its subject counts, and not the form of the question."""

from __future__ import annotations

from typing import Any

import pytest
from engine_documents import ids

from resift import Model
from resift.contracts.documents import Document
from resift.contracts.engine import Engine
from resift.query.body import TextQuery, parse
from resift.query.dsl import MAX_OWN_CLAUSES
from resift.query.questions import question_clause, shorten_to_distinctive_words
from resift.rewriting.clauses import WIDENED_NAME
from resift.rewriting.knowledge import Knowledge
from resift.rewriting.options import Options
from resift.rewriting.rewrite import rewrite


def weights(text: str) -> dict[str, float]:
    """The words of a text's clause, and what they weigh."""
    clause = question_clause(text, ["text"])
    clauses = clause["bool"]["should"] if "bool" in clause else [clause]
    asked = [one["multi_match"] for one in clauses]
    assert all(one["fields"] == ["text"] for one in asked)
    return {word: one.get("boost", 1.0) for one in asked for word in one["query"].split()}


def test_function_words_weigh_a_tenth() -> None:
    assert weights("What is the heat-shield made of?") == {
        **{"What": 0.1, "is": 0.1, "the": 0.1, "of?": 0.1},
        **{"heat-shield": 1.0, "made": 0.1},
    }


@pytest.mark.parametrize("text", ["heat shield", "to be or not to be", "The Who", "", "  ", "热防护 系统"])
def test_texts_of_a_single_kind_of_word_become_one_clause(text: str) -> None:
    assert set(weights(text).values()) <= {1.0}
    assert question_clause(text, [])["multi_match"] == {"query": text, "fields": ["*"], "lenient": True}


def test_a_function_word_in_capitals_is_a_name() -> None:
    assert weights("the US economy") == {"the": 0.1, "US": 1.0, "economy": 1.0}
    assert weights("A budget I had") == {"A": 0.1, "budget": 1.0, "I": 0.1, "had": 0.1}
    assert weights("WHAT IS FIRE") == {"WHAT": 0.1, "IS": 0.1, "FIRE": 1.0}


def test_the_same_documents_match_and_the_subject_decides(engine: Engine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model, "standard")
    texts = {"form": "how can you do what", "subject": "a fire in forests of pine and oak", "other": "river"}
    assert engine.bulk(index, [Document(id, {"text": text}) for id, text in texts.items()]) == []
    engine.refresh(index)
    whole: dict[str, Any] = {"multi_match": {"query": "what can you do about fire", "fields": ["text"]}}
    assert ids(engine, index, whole) == ["form", "subject"]
    assert ids(engine, index, question_clause("what can you do about fire", ["text"])) == ["subject", "form"]


def test_hits_that_other_words_alone_find_say_so(engine: Engine, index: str, model: Model) -> None:
    engine.create(index, ["text"], model, "standard")
    texts = {"own": "billing", "both": "billing twice", "first": "paid twice", "second": "charged", "none": "river"}
    assert engine.bulk(index, [Document(id, {"text": text}) for id, text in texts.items()]) == []
    engine.refresh(index)
    near = {"double": {"twice": 0.5}, "billing": {"charged": 0.5}}
    known = Knowledge(text="double billing", fields=["text"], related_words=near)
    options = Options(alpha=0.0, window=100, widen=True)
    body = rewrite(parse({"query": {"match": {"text": "double billing"}}}), known, options).body
    found = {hit["_id"]: WIDENED_NAME in hit["matched_queries"] for hit in engine.search(index, body).hits}
    assert found == {"own": False, "both": False, "first": True, "second": True}


def test_such_a_query_can_be_widened() -> None:
    clause = question_clause("what is fire", ["text"])
    assert "bool" in clause
    assert text_query(clause) == TextQuery(clause, [], [])
    condition = {"term": {"year": 2001}}
    assert text_query({"bool": {"must": [clause], "filter": [condition]}}) == TextQuery(clause, [condition], [])
    for other in ({"bool": {"should": []}}, {"bool": {"should": [clause, condition]}}, {"bool": {"should": "fire"}}):
        assert text_query(other) is None
        assert text_query({"bool": {"must": [other]}}) is None


def text_query(clause: dict[str, Any]) -> TextQuery | None:
    """Return the parts of a query that may be widened."""
    return parse({"query": clause}).text_query


def rarity(word: str) -> float:
    """As if longer words were rarer."""
    return float(len(word))


def test_the_distinctive_words_of_a_long_text_are_searched() -> None:
    many = [f"w{number}" for number in range(2 * MAX_OWN_CLAUSES)]
    short = " ".join(many[: MAX_OWN_CLAUSES // 2])
    assert shorten_to_distinctive_words(short, 2, rarity) == short
    assert shorten_to_distinctive_words(" ".join(many), 0, rarity) == " ".join(many)  # whose fields nobody knows
    text = f"Extraordinary fire. {' '.join(many)} FIRE Fire fire, because of the fire"
    kept = shorten_to_distinctive_words(text, 2, rarity).split()
    assert len(kept) == len(set(kept)) == 100
    assert kept[:2] == ["extraordinary", "fire"]
    assert {"because", "of", "the"}.isdisjoint(kept)
    assert len(shorten_to_distinctive_words(text, 20, rarity).split()) == 25
    # one line without blanks, as of a log
    assert len(shorten_to_distinctive_words(",".join(f'"{word}":1' for word in many), 2, rarity).split()) == 100


def test_a_long_text_without_spaces_between_its_words_keeps_runs_of_them() -> None:
    text = "".join(f"东京塔的{'高' * (number % 9 + 1)}，" for number in range(300)) + "铁" * 200
    kept = shorten_to_distinctive_words(text, 1, rarity)
    assert kept == "铁" * 100  # of the longest, as many as are looked for
    assert shorten_to_distinctive_words(text, 1, lambda word: 1.0).split()[0] == "东京塔的高"
