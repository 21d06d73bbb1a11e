"""The trained reranker: put into service and taken out, in searches, rerank and score, and learned from sessions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from flask.testing import FlaskClient
from test_train_reranker import collection
from test_train_reranker import table as table

from resift import Model, WordVectors
from resift.cli.main import main
from resift.contracts.engine import Engine
from resift.encoders.late_interaction import RERANKER_FILE, LateInteraction, ScoringParameters, score_factors
from resift.encoders.registry import load_model
from resift.errors import CorruptModel, ModelNotFound
from resift.feedback.judgements import Judgement
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.reranker import Config, create_app
from resift.service.connect import open_engine, open_session_store
from resift.service.reranking import ServedReranker
from resift.sessions.sessions import Sessions
from resift_lab.commands.reranker import put_into_service, remove_from_service
from resift_lab.fingerprints import fingerprints, fingerprints_in

FIRE = {"match": {"text": "fire"}}
TEXTS = {
    "bush": "fire in the bush with smoke",
    "army": "fire of the army with a gun",
    "rain": "rain water in the river",
    "none": "zzz qqq fire",
}


@pytest.fixture
def late(vectors: WordVectors, tmp_path: Path) -> LateInteraction:
    """A reranker for which "fire" is the army's alone, in a folder that is not in service."""
    rows = np.eye(len(vectors.words), dtype=np.float32)
    words = WordVectors(vectors.words, rows, np.ones(len(rows), np.float32))
    shift = {"fire": rows[vectors.index["army"]] * 3 - rows[vectors.index["fire"]]}
    found = LateInteraction("late", words, shift, ScoringParameters(mean_length=6, alpha=0.9))
    found.save(tmp_path / "made")
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("RESIFT_RERANKER", str(tmp_path / "service"))
    return str(tmp_path / "service")


@pytest.fixture
def client(engine: Engine, index: str, model: Model, folder: str, tmp_path: Path) -> FlaskClient:
    """The application over an engine of either kind, with four documents."""
    records = [Record("f", i, id, {"text": text, "n": i}) for i, (id, text) in enumerate(TEXTS.items())]
    assert Indexer(engine, model, index, DeadLetters(tmp_path / "dead")).run(records, ["text"]).refused == 0
    config = Config(store=str(tmp_path / "sessions.db"), reranker=folder)
    return create_app(config, engine=engine, model=model).test_client()


def restart(client: FlaskClient) -> None:
    """Read the reranker anew, as a service does when it starts."""
    service = client.application.extensions["resift"]
    service.served_reranker = service.runner.served_reranker = ServedReranker(service.config.reranker)


def serve(client: FlaskClient, source: Path, indices: Sequence[str] = ()) -> None:
    """Put a reranker into service."""
    put_into_service(str(source), client.application.extensions["resift"].config.reranker, indices)
    restart(client)


def post(client: FlaskClient, path: str, status: int = 200, **body: Any) -> dict[str, Any]:
    response = client.post(path, json=body)
    answer: dict[str, Any] = response.get_json()
    assert response.status_code == status, answer
    return answer


def resift(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_a_search_follows_the_reranker_while_it_is_in_service(
    client: FlaskClient, index: str, late: LateInteraction, folder: str, tmp_path: Path
) -> None:
    def first(**more: Any) -> tuple[str, str]:
        answer = post(client, "/v1/search", index=index, query="fire", **more)
        return answer["hits"]["hits"][0]["_id"], answer["resift"]["method"]

    assert first()[1] == "vectors"
    assert resift("reranker", "use", tmp_path / "made").exit_code == 0
    assert first()[1] == "vectors"
    restart(client)
    assert first() == ("army", "late")
    assert first(method="vectors")[1] == "vectors"
    body = {"query": {"match": {"text": "fire"}}, "_source": ["n"]}
    answer = post(client, "/v1/search", index=index, query=body)
    assert answer["hits"]["hits"][0]["_id"] == "army"
    assert answer["hits"]["hits"][0]["_source"] == {"n": 1}
    assert answer["hits"]["hits"][0]["resift"]["reranker"] == pytest.approx(
        late.discounted_scores("fire", [TEXTS["army"]])[0], abs=1e-4
    )
    assert resift("reranker", "drop").exit_code == 0
    restart(client)
    assert first()[1] == "vectors"
    post(client, "/v1/search", 404, index=index, query="fire", method="late")
    assert resift("reranker", "drop").exit_code == 2


@pytest.mark.parametrize("settings", [{}, {"alpha": 0.6}, {"session": "s"}, {"query": {"match": {"text": "fire"}}}])
def test_the_reranker_multiplies_the_original_scores(
    client: FlaskClient, index: str, late: LateInteraction, folder: str, tmp_path: Path, settings: dict[str, Any]
) -> None:
    serve(client, tmp_path / "made")
    post(client, "/v1/feedback", session="s", index=index, query="fire", relevant=["bush"])
    asked = {"index": index, "query": "fire", **settings}
    hits = post(client, "/v1/search", **asked)["hits"]
    without = post(client, "/v1/search", **asked, method="vectors")["hits"]["hits"]
    factors = score_factors(late.discounted_scores("fire", [TEXTS[hit["_id"]] for hit in without]), late.alpha)
    expected = {hit["_id"]: hit["_score"] * factor for hit, factor in zip(without, factors, strict=True)}
    assert np.ptp(factors) > 1
    assert {hit["_id"]: hit["_score"] for hit in hits["hits"]} == pytest.approx(expected, rel=1e-4)
    assert [hit["_id"] for hit in hits["hits"]] == sorted(expected, key=expected.__getitem__, reverse=True)
    assert hits["max_score"] == hits["hits"][0]["_score"]


def test_a_query_of_unknown_words_is_not_reranked(
    client: FlaskClient, index: str, late: LateInteraction, folder: str, tmp_path: Path
) -> None:
    serve(client, tmp_path / "made")
    for query in ("zzz", "zzz qqq unbekannte wörter"):
        hits, without = (
            post(
                client, "/v1/search", index=index, query={"bool": {"should": [{"match": {"text": query}}, FIRE]}}, **how
            )
            for how in ({}, {"method": "vectors"})
        )
        assert hits["resift"]["method"] == "late"
        assert [hit["_id"] for hit in hits["hits"]["hits"]] == [hit["_id"] for hit in without["hits"]["hits"]]
    half = late.discounted_scores("fire zzz", ["fire zzz", "zzz fire zzz"])
    assert 0 < half.max() < late.scores("fire zzz", ["fire zzz"])[0]


def test_a_reranker_applies_to_the_indices_it_was_trained_on(
    client: FlaskClient, index: str, late: LateInteraction, folder: str, tmp_path: Path
) -> None:
    def method(**more: Any) -> str:
        return str(post(client, "/v1/search", index=index, query="fire", **more)["resift"]["method"])

    serve(client, tmp_path / "made", [index])
    assert (method(), LateInteraction.load(folder).indices) == ("late", (index,))
    late.info["indices"] = ["others"]
    late.save(tmp_path / "of-others")
    serve(client, tmp_path / "of-others")
    assert (method(), method(method="late")) == ("vectors", "late")
    assert post(client, "/v1/rerank", query="fire", documents=["the army"])["results"]
    ran = resift("reranker", "use", tmp_path / "of-others", "--index", index)
    assert f"for {index}" in ran.output
    restart(client)
    assert method() == "late"


def test_warnings_about_a_reranker(late: LateInteraction, folder: str, tmp_path: Path) -> None:
    def used(**info: Any) -> Result:
        late.info = info
        late.save(tmp_path / "judged")
        return resift("reranker", "use", tmp_path / "judged")

    report = {"better": True}
    packaged = load_model().hash
    assert used(report=report, beside=packaged).stderr == ""
    assert "was not evaluated" in used().stderr
    assert f"vectors of model 0123, but the service uses model {packaged}" in used(report=report, beside="0123").stderr
    ran = used(report={**report, "better": False}, beside=packaged)
    assert (ran.exit_code, "did not improve searches when it was evaluated" in ran.stderr) == (2, True)
    assert LateInteraction.load(folder).info["beside"] == "0123"


def test_a_session_still_counts(client: FlaskClient, index: str, late: Any, folder: str, tmp_path: Path) -> None:
    serve(client, tmp_path / "made")
    before = post(client, "/v1/search", index=index, query="fire")
    post(client, "/v1/feedback", session="s", index=index, query="fire", relevant=["bush"], irrelevant=["army"])
    after = post(client, "/v1/search", index=index, query="fire", session="s")
    assert after["resift"]["method"] == "late"
    assert after["resift"]["session"] == "s"
    ranks = [[hit["_id"] for hit in answer["hits"]["hits"]].index("bush") for answer in (before, after)]
    assert ranks[1] <= ranks[0]


def test_rerank(client: FlaskClient, late: LateInteraction, folder: str, tmp_path: Path) -> None:
    documents = ["fire bush", "the army", ""]
    post(client, "/v1/rerank", 404, query="fire", documents=documents, method="late")
    vectors = post(client, "/v1/rerank", query="fire", documents=documents)
    serve(client, tmp_path / "made")
    scores = late.scores("fire", documents)
    found = post(client, "/v1/rerank", query="fire", documents=documents)["results"]
    assert found[0]["index"] == 1
    for result in found:
        assert result["relevance_score"] == pytest.approx(scores[result["index"]], abs=1e-4)
    assert post(client, "/v1/rerank", query="fire", documents=documents, method="vectors") == vectors


def test_a_broken_reranker_does_not_come_into_service(late: LateInteraction, folder: str, tmp_path: Path) -> None:
    served = ServedReranker(folder)
    assert served.get() is None
    with pytest.raises(ModelNotFound):
        served.get("late")
    put_into_service(str(tmp_path / "made"), folder)
    served = ServedReranker(folder)
    (Path(folder) / RERANKER_FILE).write_text("{", "utf-8")
    found = served.get("late")
    assert found is not None
    assert found.hash == late.hash
    with pytest.raises(CorruptModel, match="cannot be read"):
        ServedReranker(folder)
    remove_from_service(folder)
    assert ServedReranker(folder).get() is None
    with pytest.raises(ModelNotFound):
        put_into_service(str(tmp_path / "none"), folder)


def test_learning_from_what_sessions_judged(
    engine_url: str, index: str, model: Model, table: WordVectors, tmp_path: Path
) -> None:
    found = collection()
    engine, store = open_engine(engine_url), str(tmp_path / "sessions.db")
    records = [
        Record("f", i, id, {"text": t})
        for i, (id, t) in enumerate(zip(found.document_ids, found.documents, strict=True))
    ]
    Indexer(engine, model, index, DeadLetters(tmp_path / "dead")).run(records, ["text"])
    engine.refresh(index)
    opened = open_session_store(store, "sessions")
    sessions = Sessions(opened)
    for number, (query, grades) in enumerate(zip(found.queries, found.grades, strict=True)):
        (wanted,) = grades
        marks = [
            Judgement(index, found.document_ids[wanted], 0.5),
            Judgement(index, found.document_ids[wanted ^ 1], -0.25),
        ]
        sessions.add(f"s{number}", query, marks)
    sessions.add("bad", "no luck", [Judgement(index, "d0", -1), Judgement(index, "deleted", 1)])
    sessions.add("gone", "when was it", [Judgement(index, "deleted", 1)])
    opened.close()
    table.save(tmp_path / "vectors")
    out = tmp_path / "out"
    train = ["train", "reranker", "--engine", engine_url, "--store", store, "--vectors", tmp_path / "vectors"]
    options = ("epochs=4", "rate=0.003", "pool=20", "negatives=8", "frequent=5", "shift_rate=0.05")
    train += [*(part for option in options for part in ("--set", option)), "--out", out]
    ran = resift(*train, "--from-feedback", index)
    assert (ran.exit_code, "has vectors of model" in ran.stderr) == (2, True)
    model.save(tmp_path / "model")
    train += ["--model", tmp_path / "model"]
    ran = resift(*train, "--from-feedback", index)
    assert ran.exit_code == 0, ran.output
    assert "400 queries with a relevant document (skipped: 2 queries without" in ran.output
    assert "2 judgements of deleted documents)" in ran.output
    right = LateInteraction.load(out)
    assert set(fingerprints_in(right.info)) == set(fingerprints(found.queries))
    assert (right.indices, right.info["beside"]) == ((index,), model.hash)
    ran = resift(*train, "--from-feedback", index, "--collection", tmp_path)
    assert "exactly one of" in ran.stderr
    open_session_store(str(tmp_path / "other.db"), "").close()
    empty = [*train[:5], str(tmp_path / "other.db"), *train[6:]]
    ran = resift(*empty, "--from-feedback", index)
    assert "nobody found a document" in ran.stderr
    engine.close()
