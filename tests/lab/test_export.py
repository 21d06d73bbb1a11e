"""Tests of ``resift export``: judgements of sessions and clicks, in the formats of other tools."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from service_app import RECORDS
from ubi_events import NOW, ODD_EVENTS, event, query

from resift import Model
from resift.cli.main import main
from resift.contracts.ubi import EVENTS, QUERIES
from resift.errors import BadInput
from resift.feedback.judgements import Judgement
from resift.ingest.indexing import DeadLetters, Indexer
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.service.connect import open_engine, open_session_store, open_ubi_log
from resift.sessions.sessions import Sessions
from resift_lab.evaluation.data import read_collection
from resift_lab.evaluation.data.workbench import judgment_list, query_set, read_judgment_list

LIST = {"name": "n", "judgmentRatings": [{"query": "fire", "ratings": [{"docId": "a", "rating": "0.500"}]}]}


@pytest.fixture
def filled(
    here: Path, engine_url: str, index: str, model: Model, ubi_names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> str:
    """Create an index, sessions with marks, and a UBI log with clicks, and return the name of the index."""
    engine = open_engine(engine_url)
    assert Indexer(engine, model, index, DeadLetters(here / "dead")).run(RECORDS, ["text"]).refused == 0
    engine.close()
    store = open_session_store(str(here / "sessions.db"), "")
    for name, marks in (("anna", {"tree": 1.0, "army": -1.0}), ("bob", {"tree": 0.5, "wood": 0.25})):
        Sessions(store).add(name, "bush fire", [Judgement(index, id, grade) for id, grade in marks.items()])
    Sessions(store).add("carl", 'the "war"', [Judgement(index, "war", 1.0), Judgement("other", "tree", 1.0)])
    Sessions(store).add("dora", "", [Judgement(index, "rain", 1.0)])
    store.close()
    monkeypatch.setenv("RESIFT_ENGINE", engine_url)
    monkeypatch.setenv("RESIFT_STORE", str(here / "sessions.db"))
    monkeypatch.setenv("RESIFT_UBI_EVENTS", ubi_names[0])
    monkeypatch.setenv("RESIFT_UBI_QUERIES", ubi_names[1])
    log = open_ubi_log(engine_url if engine_url.startswith("http") else str(here / "sessions.db"), *ubi_names)
    log.add(QUERIES, [query("fire"), query("rain", "q2", client_id="bob")])
    for client in ("anna", "bob"):
        log.add(EVENTS, [_clicked("impression", "army", 1, client), _clicked("click", "wood", 2, client)])
    log.add(EVENTS, [_clicked("purchase", "rain", 1, "bob", query_id="q2"), *ODD_EVENTS])
    log.close()
    return index


def _clicked(action: str, id: str, ordinal: int, client: str, **fields: Any) -> dict[str, Any]:
    attributes = {"object": {"object_id": id}, "position": {"ordinal": ordinal}}
    return event(action, at=NOW, client_id=client, event_attributes=attributes, **fields)


def resift(*arguments: str | Path, status: int = 0) -> Result:
    """Run a command that must end with this status, and return its result."""
    ran = CliRunner().invoke(main, list(map(str, arguments)))
    assert ran.exit_code == status, ran.output
    return ran


def exported(*arguments: str | Path) -> Any:
    """Return the JSON that ``resift export`` prints."""
    return json.loads(resift("export", *arguments).stdout)


def ratings(body: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return the ratings of a judgement list, by query and document."""
    rated = {one["query"]: one["ratings"] for one in body["judgmentRatings"]}
    return {query: {each["docId"]: each["rating"] for each in found} for query, found in rated.items()}


def test_judgements_of_sessions_are_exported_as_a_judgement_list(filled: str) -> None:
    body = exported("judgments", filled)
    assert (body["type"], body["name"]) == ("IMPORT_JUDGMENT", f"{filled} judgements")
    assert ratings(body) == {
        "bush fire": {"army": "0.000", "tree": "1.500", "wood": "0.250"},
        'the "war"': {"war": "1.000"},
    }


def test_clicks_of_clients_are_exported_as_a_judgement_list(filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = exported("judgments", filled, "--from-ubi")
    assert (body["name"], body["description"]) == (
        f"{filled} clicks",
        f"Exported by Resift from clicks (UBI) in {filled}",
    )
    found = ratings(body)
    assert found["rain"] == {"rain": "1.000"}
    assert found["fire"]["army"] == "0.000"
    assert 1 < float(found["fire"]["wood"]) < 2
    monkeypatch.setenv("RESIFT_UBI_ACTIONS", "click=-1,purchase=0.5")
    counted = ratings(exported("judgments", filled, "--from-ubi"))
    assert counted == {"fire": {"wood": "0.000"}, "rain": {"rain": "0.500"}}
    for actions, message in (("click", "ACTION=GRADE"), ("wink=1", "there are no judgements of documents")):
        monkeypatch.setenv("RESIFT_UBI_ACTIONS", actions)
        assert message in CliRunner().invoke(main, ["export", "judgments", filled, "--from-ubi"]).stderr


@pytest.mark.parametrize("engine_url", ["sqlite"], indirect=True)
def test_an_exported_list_is_evaluated_and_read_back(filled: str, here: Path) -> None:
    resift("export", "judgments", filled, "--out", "list.json")
    resift("export", "judgments", filled, "--out", "beir", "--format", "beir")
    assert read_judgment_list("list.json")["bush fire"] == {"army": 0, "tree": 1.5, "wood": 0.25}
    beir, rated = read_collection("beir"), read_collection("beir", judgments="list.json")
    assert set(beir.document_ids) == {record.id for record in RECORDS}
    assert beir.queries == rated.queries == ["bush fire", 'the "war"']
    by_id = [{rated.document_ids[place]: grade for place, grade in grades.items()} for grades in beir.grades]
    assert by_id == [{"army": 0, "tree": 2, "wood": 1}, {"war": 2}]
    ran = resift("eval", "retrieval", "beir", "--judgments", "list.json", "--encoder", "bm25", "--json")
    assert json.loads(ran.stdout)["queries"] == 2
    with pytest.raises(BadInput, match="part dev and a judgement list"):
        read_collection("beir", "dev", "list.json")
    assert (here / "list.json").stat().st_mode & 0o77 == 0


@pytest.mark.parametrize("engine_url", ["sqlite"], indirect=True)
def test_only_folders_of_earlier_exports_are_replaced(filled: str, here: Path) -> None:
    resift("export", "judgments", filled, "--format", "trec", "--out", "out")
    before = (here / "out" / "qrels.txt").read_text("utf-8")
    resift("export", "judgments", filled, "--from-ubi", "--format", "trec", "--out", "out")
    assert (here / "out" / "qrels.txt").read_text("utf-8") != before
    resift("export", "judgments", filled, "--format", "beir", "--out", "out")
    assert {path.name for path in (here / "out").iterdir()} == {"corpus.jsonl", "queries.jsonl", "qrels", "resift.json"}
    for name in ("resift.json", "dataset.json"):  # a folder of BEIR's without our marker file is not replaced
        (here / "out" / "resift.json").replace(here / "kept")
        if name != "resift.json":
            (here / "out" / name).write_text("{}")
        refused = resift("export", "judgments", filled, "--format", "beir", "--out", "out", status=2)
        assert re.search(r"out'? contains other files", refused.stderr)
        (here / "kept").replace(here / "out" / "resift.json")


@pytest.mark.parametrize("engine_url", ["sqlite"], indirect=True)
def test_judgements_are_exported_as_trec_qrels(filled: str, here: Path) -> None:
    resift("export", "judgments", filled, "--format", "trec", "--out", "trec")
    assert (here / "trec" / "qrels.txt").read_text("utf-8").splitlines() == [
        "q1 0 army 0",
        "q1 0 tree 2",
        "q1 0 wood 1",
        "q2 0 war 2",
    ]
    assert (here / "trec" / "topics.tsv").read_text("utf-8") == 'q1\tbush fire\nq2\tthe "war"\n'


@pytest.mark.parametrize("engine_url", ["sqlite"], indirect=True)
def test_queries_that_the_workbench_rejects_are_not_exported(filled: str) -> None:
    ran = resift("export", "query-set", filled)
    assert json.loads(ran.stdout)["querySetQueries"] == [{"queryText": "bush fire"}]
    assert "1 queries; 1 queries that the Workbench rejects were skipped" in ran.stderr
    rows = exported("query-set", filled, "--with-sessions")["querySetQueries"]
    assert rows == [{"queryText": "bush fire", "session": "anna"}, {"queryText": "bush fire", "session": "bob"}]
    rows = exported("query-set", filled, "--with-sessions", "--from-ubi")["querySetQueries"]
    assert [(row["queryText"], row["session"]) for row in rows] == [("fire", "anna"), ("fire", "bob"), ("rain", "bob")]


@pytest.mark.parametrize("engine_url", ["sqlite"], indirect=True)
def test_a_search_configuration_finds_what_the_pipeline_finds(filled: str) -> None:
    body = exported("search-configuration", filled)
    assert {key: body[key] for key in ("name", "index", "searchPipeline")} == {
        "name": f"resift-{filled}",
        "index": filled,
        "searchPipeline": f"resift-{filled}",
    }
    assert json.loads(body["query"]) == {"query": {"multi_match": {"query": "%SearchText%", "fields": ["text"]}}}
    with_sessions = exported("search-configuration", filled, "--with-sessions")
    assert with_sessions["name"] == f"resift-{filled} sessions"
    assert json.loads(with_sessions["query"])["ext"] == {"resift": {"session": "{{session}}"}}


@pytest.mark.parametrize("engine_url", ["opensearch"], indirect=True)
def test_a_templates_placeholders_are_filled_in_by_a_cluster(filled: str, engine_url: str) -> None:
    engine = OpenSearchEngine(engine_url)
    source = exported("search-configuration", filled, "--with-sessions")["query"]
    params = {"queryText": "the \\army", "session": "anna"}
    rendered = engine.client.render_search_template(body={"source": source, "params": params})["template_output"]
    assert rendered["query"]["multi_match"]["query"] == "the \\army"
    assert rendered["ext"] == {"resift": {"session": "anna"}}
    engine.close()


@pytest.mark.parametrize("engine_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["judgments", "INDEX", "--format", "trec"], "--out DIR"),
        (["judgments", "INDEX", "--out", "."], "is a folder"),
        (["judgments", "INDEX", "--format", "beir", "--out", "sessions.db"], "is a file"),
        (["query-set", "INDEX", "--store", "none.db"], "none.db does not exist"),
        (["query-set", "INDEX", "--store", "none.db", "--from-ubi"], "none.db does not exist"),
        (
            ["query-set", "INDEX", "--store", "empty.db"],
            "there are no judgements of documents in INDEX in FOLDER/empty.db",
        ),
        (["judgments", "INDEX", "--store", "empty.db", "--from-ubi"], "in INDEX in FOLDER/empty.db"),
        (["judgments", "no-such-index"], "no-such-index"),
        (["search-configuration", "no-such-index"], "no-such-index"),
    ],
)
def test_an_export_that_fails_prints_one_error(filled: str, arguments: list[str], message: str) -> None:
    open_session_store("empty.db", "").close()
    arguments = [filled if one == "INDEX" else one for one in arguments]
    ran = CliRunner().invoke(main, ["export", *arguments])
    assert ran.exit_code in (1, 2)
    assert message.replace("INDEX", filled).replace("FOLDER", os.getcwd()) in ran.stderr
    assert "Traceback" not in ran.output
    assert not os.path.exists("none.db")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "no judgmentRatings"),
        ('{"judgmentRatings": []}', "no judgmentRatings"),
        ('{"judgmentRatings": [3]}', "has no ratings"),
        ('{"judgmentRatings": [{"query": "a", "ratings": []}, {"query": "a", "ratings": []}]}', "twice"),
        ('{"judgmentRatings": [{"query": "a", "ratings": [{"docId": 5, "rating": "1"}]}]}', "docId is 5"),
        ('{"judgmentRatings": [{"query": "a", "ratings": [{"docId": "5", "rating": "high"}]}]}', "score 'high'"),
        ('{"judgmentRatings": [{"query": "a", "ratings": [{"docId": "5", "rating": true}]}]}', "is True"),
    ],
)
def test_a_malformed_list_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "list.json"
    path.write_text(text, "utf-8")
    with pytest.raises(BadInput, match=message):
        read_judgment_list(path)


def test_a_judgement_list_is_read_from_the_workbenchs_response(tmp_path: Path) -> None:
    path = tmp_path / "list.json"
    for body in (LIST, {"hits": {"total": {"value": 1}, "hits": [{"_id": "x", "_source": LIST}]}}):
        path.write_text(json.dumps(body, indent=1), "utf-8")
        assert read_judgment_list(path) == {"fire": {"a": 0.5}}
    assert judgment_list("n", "d", {"fire": {"a": 0.5}})["judgmentRatings"] == LIST["judgmentRatings"]


@pytest.mark.parametrize("text", ['say "x"', "a\\b", "<b>", "a#b", "a: b", "two\nlines", "", "x" * 2001])
def test_texts_that_the_workbench_rejects_are_left_out(text: str) -> None:
    body, left_out = query_set(
        "n", "d", [{"queryText": text}, {"queryText": "fire", "session": text}, {"queryText": "a"}]
    )
    assert (body["querySetQueries"], left_out) == ([{"queryText": "a"}], 2)
