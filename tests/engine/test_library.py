"""Tests of the Python library on both engines: documented examples, results as from the service, sessions, errors."""

from __future__ import annotations

import ast
import asyncio
import datetime
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transcripts import assert_prints

import resift
from resift import Model, WordVectors
from resift.errors import (
    BadInput,
    EngineUnavailable,
    IndexNotFound,
    ModelMismatch,
    NotFound,
    SessionNotFound,
    TextTooLong,
)
from resift.library import Hits, Index, Library
from resift.reranker import Config, create_app
from resift.service.connect import open_engine

ROOT = Path(__file__).parents[2]
DOCUMENTS = [
    {"_id": "bush", "text": "fire in the bush with smoke", "n": 1},
    {"_id": "wood", "text": "fire in the forest with flame", "n": 2},
    {"_id": "tree", "text": "fire of tree and forest and smoke and bush", "n": 3},
    {"_id": "army", "text": "fire of the army with a gun", "n": 4},
    {"_id": "war", "text": "fire of a soldier in the war", "n": 5},
    {"_id": "rain", "text": "rain water in the river", "n": 6},
]


@pytest.fixture
def library(engine_url: str, model: Model, session_index: str) -> Iterator[Library]:
    """Return a library over both kinds of engines, with a small model. Sessions are kept in the engine's file."""
    with resift.open(engine_url, model, sessions=engine_url, session_index=session_index) as library:
        yield library


@pytest.fixture
def news(library: Library, index: str) -> Index:
    """Return an index with six documents."""
    found = library.index(index, fields=["text"])
    assert (found.add(DOCUMENTS).indexed, found.fields) == (6, ("text",))
    return found


def ids(hits: Hits) -> list[str]:
    """Return the ids of hits."""
    return [hit.id for hit in hits]


def blocks(path: str) -> list[tuple[str, str]]:
    """Return the Python code blocks of a document, each with the output block that follows it, or ""."""
    found = re.findall(r"```python\n(.*?)```\n(?:\n```\n(.*?)```\n)?", (ROOT / path).read_text("utf-8"), re.DOTALL)
    assert found
    return found


def test_a_rewriting_refuses_misspelt_options(news: Index) -> None:
    session, body = news.session("anna"), {"query": {"match": {"text": "fire"}}}
    with pytest.raises(BadInput, match=r"unknown option 'judge'.*expected window \| "):
        session.rewrite(body, judge="hide")
    with pytest.raises(BadInput, match=r"judged is 'nope' \(expected demote"):
        session.rewrite(body, judged="nope")
    with pytest.raises(BadInput, match="unknown option 'without_'"):
        asyncio.run(session.rewrite_async(body, without_=["smoke"]))
    assert session.rewrite(body, judged="hide", query="fire")["query"]


@pytest.mark.parametrize("path", ["docs/python.md", "docs/long-documents.md", "docs/reviews.md", "README.md"])
def test_documented_lines_print_what_the_document_says(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for code, expected in blocks(path):
        with redirect_stdout(StringIO()) as output:
            exec(code, names)
        assert_prints(output.getvalue(), expected)


def test_the_notebook_shows_what_its_file_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    notebook = json.loads((ROOT / "docs/notebook.ipynb").read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if "outputs" in cell]
    for cell in cells:
        *statements, last = ast.parse("".join(cell["source"])).body
        with redirect_stdout(StringIO()) as output:
            exec(compile(ast.Module(statements, []), "cell", "exec"), names)
            assert isinstance(last, ast.Expr)
            shown = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        kept = {kind: "".join(lines) for one in cell["outputs"] for kind, lines in one.get("data", one).items()}
        assert_prints(output.getvalue(), kept.get("text", ""))
        assert_prints("" if shown is None else repr(shown), kept.get("text/plain", ""))
        if "text/html" in kept:
            assert_prints(shown._repr_html_(), kept["text/html"])
    assert len(cells) == 7


def test_an_event_loop_goes_on_meanwhile(tmp_path: Path) -> None:
    async def searched() -> tuple[list[resift.Hits], bool]:
        with resift.open(tmp_path / "engine.db") as library:
            index = library.index("news", fields=["text"])
            index.add([{"id": "1", "text": "bush fire"}, {"id": "2", "text": "army fire"}])
            anna = index.session("anna")
            await asyncio.gather(*(index.search_async("fire", size=n) for n in (1, 2)))
            await anna.mark_async(relevant=["1"], query="fire")
            body = {"query": {"match": {"text": "fire"}}}
            hits = await asyncio.gather(index.search_async("fire"), anna.search_async("fire"))
            return hits, await anna.rewrite_async(body) != body

    (plain, followed), is_rewritten = asyncio.run(searched())
    assert ([hit.id for hit in plain], [hit.id for hit in followed]) == (["2", "1"], ["1", "2"])
    assert is_rewritten


@pytest.mark.since(3, "scores of words are 2.2 times as high")
def test_the_first_lines_run_on_either_engine(engine_url: str, index: str, session_index: str) -> None:
    code, expected = blocks("docs/python.md")[0]
    code = code.replace(
        '"docs.db"', f'"{engine_url}", sessions="{engine_url}", session_index="{session_index}"'
    ).replace('"news"', f'"{index}"')
    with redirect_stdout(StringIO()) as output:
        exec(code, {})
    assert_prints(output.getvalue(), expected)


def test_importing_resift_is_light(tmp_path: Path) -> None:
    heavy = {"flask", "opensearchpy", "torch", "scipy", "gensim", "sentence_transformers", "click"}
    code = f"import sys, resift; resift.load_model; print({heavy} & set(sys.modules)); resift.open('a.db')"
    code += "; print({'flask', 'opensearchpy', 'torch'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stdout.split() == ["set()", "set()"]
    assert {getattr(resift, name).__module__ for name in ("Hits", "Session")} == {"resift.library"}
    with pytest.raises(AttributeError, match="nothing"):
        _ = resift.nothing  # type: ignore[attr-defined]


@settings(deadline=None, max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    words=st.lists(st.sampled_from(["fire", "bush", "army", "water", "zzz", "of", "smoke"]), max_size=4),
    size=st.integers(0, 7),
    start=st.integers(0, 3),
    alpha=st.none() | st.sampled_from([0.0, 0.5, 1.0]),
    session=st.none() | st.just("anna"),
)
def test_the_library_returns_the_services_order(
    news: Index, words: list[str], size: int, start: int, alpha: float | None, session: str | None
) -> None:
    library = news.library
    anna = news.session("anna")
    if not anna.explain()["judgements"]:
        anna.mark(relevant=["wood"], irrelevant=["army"], query="fire")
    service = library.service
    app = create_app(service.config, engine=library.engine, model=library.model)
    for one in (service, app.extensions["resift"]):
        one.words.wait_seconds = 60.0  # otherwise searches are only widened from the second one
    query = " ".join(words)
    body = {"index": news.name, "query": query, "size": size, "from": start, "alpha": alpha, "session": session}
    body["reasons"] = True
    answer = app.test_client().post("/v1/search", json=body).get_json()
    options: Any = {"start": start, "alpha": alpha, "reasons": True}
    hits = news.search(query, size, **options) if session is None else anna.search(query, size, **options)
    assert [(hit.id, hit.score, hit.because) for hit in hits] == [
        (hit["_id"], hit["_score"], hit["resift"].get("because") if "resift" in hit else None)
        for hit in answer["hits"]["hits"]
    ]
    assert hits.total == answer["hits"]["total"]["value"]
    app.extensions["resift"].sessions.store.close()


def test_hits(news: Index) -> None:
    hits = news.search("fire bush", size=3)
    first = hits[0]
    assert (hits.total, len(hits), first.id, first.source["n"]) == (5, 3, first["_id"], first["_source"]["n"])
    assert first.score == first["_score"] == hits.response["hits"]["hits"][0]["_score"]
    assert first.because is None
    assert repr(first) == f"<Hit '{first.id}', score {first.score:.4g}>"
    assert repr(hits).splitlines()[0] == f"  1. {first.score:<6.4g}  {first.id}: {first.source['text']}"
    assert repr(news.search("fire", start=4)).startswith("  5. ")
    assert repr(news.search("qqq zzz")) == "no hits"
    unscored = Hits({"hits": {"hits": [{"_id": "1", "_score": None}]}, "resift": {}})[0]
    assert (unscored.score, repr(unscored)) == (None, "<Hit '1', score ->")
    assert news.search({"query": {"match_all": {}}, "_source": False, "track_total_hits": False})[0].source == {}
    assert ids(news.search("fire", filter={"term": {"n": 4}})) == ["army"]
    meant = Hits({"hits": {"hits": []}, "resift": {"did_you_mean": "fire"}})
    assert (meant.did_you_mean, meant.total, repr(meant)) == ("fire", None, "did you mean: fire")


def test_documents_come_in_and_the_refused_come_back(news: Index) -> None:
    added = news.add(
        document
        for document in (
            {"id": 7, "text": "peace"},
            "a text",
            {"id": "8", "text": {"an": "object"}},
            {"text": "ceasefire"},
            {"text": datetime.timedelta(1)},
            {"id": "9", "text": "gun", "raw": b"gun"},
            {"_id": "bush", "text": "river"},
        )
    )
    assert added.indexed == 3
    assert [one.position for one in added.refused] == [1, 2, 4, 5]
    assert [one.status for one in added.refused] == [400] * 4
    reasons = [one.reason for one in added.refused]
    assert reasons[0] == "str, expected a dictionary"
    assert re.search(r"'text' is an object|failed to parse field \[text\]", reasons[1])
    expected = "field 'text' contains a timedelta, which JSON cannot represent: expected a text, number, date"
    assert reasons[2].startswith(expected)
    assert reasons[3] == "field 'raw' contains a bytes, which JSON cannot represent: decode it to a text"
    assert added.refused[1].document["text"] == {"an": "object"}
    assert news.get("7") == news.get(7) == {"id": 7, "text": "peace"}
    assert news.get("bush") == {"text": "river"}
    (hashed,) = news.search({"match": {"text": "ceasefire"}})
    assert len(hashed.id) == 20
    with pytest.warns(UserWarning, match="no document was indexed: documents is empty"):
        assert news.add([]).indexed == 0
    with pytest.warns(UserWarning, match="no document was indexed: all 2 were refused, the first for: str, expected"):
        assert news.add(["a text", "another"]).indexed == 0
    assert news.delete([7, "none"]) == 1  # the document has the id in its fields
    with pytest.raises(NotFound, match=f"no document '7' in '{news.name}'"):
        news.get("7")


def test_other_objects_than_documents_are_refused(news: Index) -> None:
    wrong: list[Any] = [{"id": "1"}, "text", b"text", 3, None]
    for documents in wrong:
        with pytest.raises(BadInput, match="documents is a"):
            news.add(documents)


def test_an_index_has_the_fields_it_was_created_with(library: Library, news: Index, vectors: WordVectors) -> None:
    assert library.index(news.name).fields == library.index(news.name, ["text"]).fields == ("text",)
    with pytest.raises(BadInput, match=re.escape("has the fields ['text'], not ['title', 'text']")):
        library.index(news.name, ["title", "text"])
    with pytest.raises(BadInput, match="fields is a string"):
        library.index(news.name, "text")
    with pytest.raises(IndexNotFound, match="pass its text fields"):
        library.index(f"{news.name}-2")
    for fields in ([], ()):
        with pytest.raises(BadInput, match="no text fields"):
            library.index(f"{news.name}-2", fields)
    for wrong in (None, 1, "", "a..b", "_id", "resift_vector", "text"):
        with pytest.raises(BadInput, match=f"{wrong!r} cannot be a text field"):
            library.index(f"{news.name}-2", ["text", wrong])  # type: ignore[list-item]
    with pytest.raises(BadInput, match="is not a valid index name"):
        library.index("Two Words", ["text"])
    with pytest.raises(BadInput, match="url is None"):
        resift.open(None)  # type: ignore[arg-type]
    other = resift.build_model("sfbow", vectors)
    with (
        resift.open(library.service.config.engine, other, sessions=":memory:") as wrong,
        pytest.raises(ModelMismatch),
    ):
        wrong.index(news.name)


def test_a_session_follows_its_marks_and_goes_back(news: Index) -> None:
    anna = news.session("anna")
    before = anna.search("fire")
    nothing = anna.explain()
    assert (nothing["judgements"], nothing["learned"], nothing["steps"]) == ([], None, 0)
    assert repr(nothing) == "session anna: judgements 0, steps 0"
    marked = anna.mark(relevant=[before[-1]], irrelevant=[before[0].id], explain=True)
    assert marked == anna.explain()
    assert [one["query"] for one in marked["judgements"]] == ["fire"] * 2
    assert anna.search("fire")[0].because is None
    learned = anna.search("fire", reasons=True)
    assert learned[0].id == before[-1].id
    assert learned[0].because is not None
    assert learned[0].because["document"] == before[-1].id
    clicked = anna.mark(clicked=["rain"], query="water")
    assert (set(clicked), clicked["steps"]) == ({"session", "created", "expires", "steps"}, 2)
    assert repr(clicked) == "session anna: steps 2"
    assert anna.explain()["judgements"][-1]["query"] == "water"
    assert anna.undo()["steps"] == 1
    assert anna.search("fire", reasons=True) == learned
    assert anna.undo()["judgements"] == []
    assert anna.search("fire") == before
    with pytest.raises(BadInput, match="no step to undo"):
        anna.undo()
    anna.forget()
    with pytest.raises(SessionNotFound):
        anna.undo()
    with pytest.raises(SessionNotFound):
        anna.forget()


def test_marks_belong_to_the_query_of_the_hits(news: Index) -> None:
    anna = news.session("anna")
    anna.search({"query": {"bool": {"must": {"match": {"text": "bush smoke"}}}}})
    assert anna.mark(relevant=["bush"], explain=True)["judgements"][0]["query"] == "bush smoke"
    assert news.session("anna").mark(skipped=["war"], explain=True)["judgements"][1]["query"] == ""
    assert anna.mark(neutral=["bush"], explain=True)["judgements"][-1]["grade"] == 0


def test_a_model_judges_within_its_budget(news: Index) -> None:
    session, asked = news.session("judged"), []

    def score(query: str, texts: list[str]) -> list[float]:
        asked.append((query, len(texts)))
        return [1 - 2 * place for place in range(len(texts))]

    hits = session.search("fire")
    assert len(hits) >= 3
    grades = {one["document"]: one["grade"] for one in session.judge(hits, score, 2, explain=True)["judgements"]}
    assert grades == {hits[0].id: 1, hits[1].id: -1}
    session.judge(session.search("fire"), score, budget=2)
    session.judge(session.search("fire"), score, budget=3)
    assert asked == [("fire", 2), ("fire", 1)], "nothing is judged twice, and no more than the budget"
    with pytest.raises(BadInput, match="0 scores for 1 texts"):
        news.session("other").judge(news.session("other").search("fire")[:1], lambda query, texts: [])


def test_an_explanation_reads_as_it_was(news: Index) -> None:
    anna = news.session("anna")
    anna.mark(relevant=["wood"], skipped=["war"], query="fire")
    text = str(anna.explain())
    assert text == f"\n{anna.explain()!r}"
    lines = text.splitlines()[1:]
    assert lines[0] == "session anna: judgements 2, steps 1"
    assert lines[1].startswith("   +1  wood: fire in the forest with flame (")
    assert lines[2].startswith("-0.25  war: fire of a soldier in the war (")
    assert [line.partition(":")[0] for line in lines[3:]] == ["towards", "away from", "also asked"]


def test_documents_that_change_or_go_teach_at_once_what_they_are_now(news: Index) -> None:
    session = news.session("ivan")
    session.mark(relevant=["bush"], query="fire")
    news.add([{"id": "bush", "text": "smoke"}])
    assert session.explain()["learned"]["because"][0]["title"] == "smoke"
    news.delete(["bush"])
    assert session.explain()["learned"] is None


def test_two_sessions_never_mix(news: Index) -> None:
    news.add([{"_id": "known", "text": "smoke gun"}, {"_id": "more", "text": "smoke gun qqq"}])
    anna, bob = news.session("anna"), news.session("bob")
    plain = bob.search("fire")
    anna.mark(relevant=["more"], query="smoke")
    assert bob.explain()["judgements"] == []
    assert bob.search("fire") == plain
    bob.mark(relevant=["known"], query="smoke")
    # Both documents have the same vector, since the last word is unknown to the model.
    assert set(anna.explain()["learned"]["asked"]) == {"smoke", "gun", "qqq"}
    assert set(bob.explain()["learned"]["asked"]) == {"smoke", "gun"}
    anna.forget()
    assert bob.explain()["steps"] == 1


def test_what_was_written_is_there_later(
    engine_url: str, model: Model, index: str, session_index: str, tmp_path: Path
) -> None:
    with resift.open(engine_url, model, sessions=engine_url, session_index=session_index) as library:
        library.index(index, ["text"]).add(DOCUMENTS)
        library.index(index).session("anna").mark(relevant=["war"], query="fire")
        hits = library.index(index).session("anna").search("fire")
    with resift.open(engine_url, model, sessions=engine_url, session_index=session_index) as library:
        anna = library.index(index).session("anna")
        assert anna.explain()["steps"] == 1
        assert [(hit.id, hit.score) for hit in anna.search("fire")] == [(hit.id, hit.score) for hit in hits]
    elsewhere = tmp_path / "elsewhere.db"
    with resift.open(engine_url, model, sessions=elsewhere) as library:
        assert library.index(index).session("anna").explain()["steps"] == 0
    assert elsewhere.exists()


def test_several_threads(news: Index) -> None:
    def work(number: int) -> list[str]:
        news.add([{"_id": f"t{number}", "text": "peace"}])
        session = news.session(f"s{number}")
        session.search("fire")
        session.mark(relevant=[DOCUMENTS[number % 5]["_id"]])
        return ids(session.search("fire"))

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(8)))
    assert [one[0] for one in found] == [DOCUMENTS[number % 5]["_id"] for number in range(8)]
    assert len(news.search("peace")) == 8


def test_bad_options(news: Index) -> None:
    bad: list[Any] = [
        {"size": -1},
        {"size": 10_001},
        {"size": 2.5},
        {"size": "ten"},
        {"size": True},
        {"start": -1},
        {"window": 0},
        {"alpha": 2},
        {"knn": -1},
        {"method": "magic"},
        {"judged": "away"},
        {"widen": "yes"},
        {"reasons": 1},
        {"filter": "n:1"},
    ]
    for options in bad:
        with pytest.raises(BadInput, match=f"{next(iter(options))} is "):
            news.search("fire", **options)


def test_numbers_of_numpy_and_none_are_understood(news: Index) -> None:
    plain = news.search("fire", 2, alpha=0.5)
    assert news.search("fire", np.int64(2), alpha=np.float64(0.5), window=None) == plain  # type: ignore[arg-type]
    assert news.search("fire", None) == news.search("fire")  # type: ignore[arg-type]


def test_an_unknown_option_is_named(news: Index) -> None:
    with pytest.raises(BadInput, match=r"unknown option 'top_k' \(expected query \| size \| window \| alpha"):
        news.search("fire", top_k=3)  # type: ignore[call-arg]


def test_bad_input(news: Index, tmp_path: Path, model: Model) -> None:
    anna = news.session("anna")
    for query in (None, 3, ["fire"], b"fire"):
        with pytest.raises(BadInput, match=r"query is (missing|3|\[|b)"):
            news.search(query)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="lone surrogate"):
        news.search("fire \ud800")
    with pytest.raises(TextTooLong):
        news.search("a" * 1_000_001)
    with pytest.raises(BadInput, match="malformed session id"):
        news.session("a b")
    with pytest.raises(BadInput, match="relevant is not a list"):
        anna.mark(relevant="bush")
    for wrong in ([3.5], [True], [""], [None]):
        with pytest.raises(BadInput, match="irrelevant contains a value that is not a document id"):
            anna.mark(irrelevant=wrong)  # type: ignore[arg-type]
    with pytest.raises(BadInput, match="no document is marked"):
        anna.mark()
    with pytest.raises(BadInput, match="'bush' has two different marks"):
        anna.mark(relevant=["bush"], irrelevant=["bush"])
    with pytest.raises(BadInput, match="query is not a text"):
        anna.mark(relevant=["bush"], query=3)  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="no document 'none'"):
        anna.mark(relevant=["bush", "none"])
    assert anna.explain()["steps"] == 0
    with pytest.raises(BadInput, match="unknown setting 'colour'"):
        resift.open(tmp_path / "new.db", model, colour="red")
    with pytest.raises(BadInput, match="alpha is 3"):
        resift.open(tmp_path / "new.db", model, alpha=3)


def test_an_unavailable_engine(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineUnavailable, match="cannot be opened"):
        resift.open(tmp_path / "no folder" / "docs.db", model)
    monkeypatch.setattr("resift.ingest.writing.ATTEMPTS", 1)
    with resift.open(tmp_path / "docs.db", model) as library:
        index = library.index("news", ["text"])

        def away(*_: Any) -> Any:
            raise EngineUnavailable("away")

        monkeypatch.setattr(library.engine, "bulk", away)
        with pytest.raises(EngineUnavailable, match="did not accept") as caught:
            index.add([{"text": "fire"}])
        assert caught.value.expected == "add the documents again when the engine is back"


def test_closing_a_library_closes_all_stores(tmp_path: Path, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = list[str]()
    with resift.open(tmp_path / "docs.db", model) as library:
        reviews, sessions, engine = library.service.reviews, library.service.sessions, library.engine
        assert reviews.list() == []
        for name, opened in (("reviews", reviews._store), ("sessions", sessions.store), ("engine", engine)):
            monkeypatch.setattr(opened, "close", partial(closed.append, name))
    assert sorted(closed) == ["engine", "reviews", "sessions"]


def test_the_service_reads_what_the_library_wrote(tmp_path: Path, model: Model) -> None:
    file = str(tmp_path / "docs.db")
    with resift.open(file, model) as library:
        news = library.index("news", ["text"])
        news.add(DOCUMENTS)
        news.session("anna").mark(relevant=["war"], query="fire")
    engine = open_engine(file)
    client = create_app(Config(store=file), engine=engine, model=model).test_client()
    assert client.get("/v1/sessions/anna").get_json()["judgements"][0]["document"] == "war"
    engine.close()


def test_an_explanation_begins_with_japanese_words_of_titles(library: Library, index: str) -> None:
    texts = {"viewer": "画像ビューア\n" + "高速 軽量 " * 5, "game": "ゲーム\n高速", "maker": "ゲーム\n画像"}
    library.index(index, ["text"]).add([{"_id": id, "text": text} for id, text in texts.items()])
    session = library.index(index).session("ja")
    session.search("高速")
    session.mark(relevant=["viewer"])
    assert session.explain()["learned"]["asked"] == ["画像", "ビューア", "高速", "軽量"]
