"""Tests of a backend whose own hybrid search is rewritten, over HTTP or in the process, and fails open."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from node_assembly import cache_folder, locked
from opensearchpy import OpenSearch
from opensearchpy.exceptions import RequestError
from ports import free_port
from served import Server, serving
from waiting import until

import resift
from resift.errors import BadInput, NotFound, Unauthorized

PATIENT = 60.0  # a timeout of resift.rewrite() in seconds that a busy machine does not exceed
JS = "3.9.0"
JARS = [
    ("org.opensearch.client", "opensearch-java", "3.9.0"),
    ("org.apache.httpcomponents.client5", "httpclient5", "5.5"),
    ("com.fasterxml.jackson.core", "jackson-databind", "2.19.2"),
]
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "backends"
TEXTS = {
    "wing": "lift of a swept wing at low speed",
    "flap": "lift of a wing with flaps",
    "heat": "heat transfer at a blunt wing nose",
    "burn": "heat transfer and ablation at a blunt nose",
    "tail": "lift of a tail",
    "nose": "blunt nose in hypersonic flow",
}
BODY: dict[str, Any] = {
    "query": {"hybrid": {"queries": [{"match": {"text": "wing nose"}}, {"term": {"section": "news"}}]}},
    "size": 5,
}
NORMALIZED = {"phase_results_processors": [{"normalization-processor": {"normalization": {"technique": "min_max"}}}]}


@dataclass
class Backend:
    """A cluster with an index that was never attached, and a service."""

    client: OpenSearch
    url: str
    server: Server

    @property
    def service(self) -> str:
        """The URL of the service."""
        return f"http://127.0.0.1:{self.server.port}"

    def ids(self, body: dict[str, Any]) -> list[str]:
        """Return the ids of the hits of a body, with the user's own pipeline."""
        answer = self.client.search(index="papers", body=body, params={"search_pipeline": "normalized"})
        return [hit["_id"] for hit in answer["hits"]["hits"]]


@pytest.fixture(scope="module")
def backend(opensearch_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """Yield a backend whose session ``anna`` has marked a text about heat as relevant to the query "wing nose"."""
    client = OpenSearch(opensearch_url)
    properties = {"text": {"type": "text", "analyzer": "english"}, "section": {"type": "keyword"}}
    client.indices.create(index="papers", body={"mappings": {"properties": properties}})
    for id, text in TEXTS.items():
        client.index(index="papers", id=id, body={"text": text, "section": "news"}, params={"refresh": "true"})
    client.http.put("/_search/pipeline/normalized", body=NORMALIZED)
    folder = tmp_path_factory.mktemp("backend")
    with serving(folder, "--engine", opensearch_url, "--workers", "1", RESIFT_STORE="sessions.db") as server:
        marks = {"session": "anna", "index": "papers", "query": "wing nose", "relevant": ["heat"]}
        assert server.request("POST /v1/feedback", marks).status == 200
        backend = Backend(client, opensearch_url, server)
        # A search waits 0.3 seconds for its session to be loaded, which takes longer on a busy machine.
        assert until(
            lambda: resift.rewrite("papers", BODY, session="anna", url=backend.service, timeout=PATIENT) is not BODY
        )
        yield backend
    client.indices.delete(index="papers")
    client.http.delete("/_search/pipeline/normalized")
    client.close()


def test_a_session_moves_a_hybrid_search_and_no_session_leaves_it_alone(backend: Backend) -> None:
    assert resift.rewrite("papers", BODY, url=backend.service, timeout=PATIENT) is BODY
    body = resift.rewrite("papers", BODY, session="anna", url=backend.service, timeout=PATIENT)
    assert "ext" not in body
    assert {name: value for name, value in body.items() if name != "query"} == {"size": 5}
    plain, moved = backend.ids(BODY), backend.ids(body)
    assert moved.index("burn") < plain.index("burn")
    assert moved.index("heat") <= plain.index("heat")


def test_the_callers_ext_is_returned_unchanged(backend: Backend) -> None:
    ext = {"rerank": {"query_context": {"query_text": "wing"}}}
    body = resift.rewrite("papers", {**BODY, "ext": ext}, session="anna", url=backend.service, timeout=PATIENT)
    assert body["ext"] == ext
    assert body["query"] != BODY["query"]


def test_over_http_in_the_process_and_in_an_event_loop_it_is_the_same(backend: Backend, tmp_path: Path) -> None:
    over_http = resift.rewrite("papers", BODY, session="anna", url=backend.service, timeout=PATIENT)
    assert (
        asyncio.run(resift.rewrite_async("papers", BODY, session="anna", url=backend.service, timeout=PATIENT))
        == over_http
    )
    with resift.open(backend.url, sessions=tmp_path / "sessions.db") as library:
        session = library.index("papers").session("anna")
        assert session.rewrite(BODY) is BODY
        session.mark(relevant=["heat"], query="wing nose")
        assert session.rewrite(BODY) == over_http


def test_an_unavailable_service_only_causes_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert resift.rewrite("papers", BODY, session="anna", url=f"http://127.0.0.1:{free_port()}") is BODY
    assert "does not answer" in caplog.text


def test_the_options_of_a_body_are_removed_if_it_is_not_rewritten(backend: Backend) -> None:
    """OpenSearch without Resift's plugin refuses a search with ``ext.resift``."""
    body = {**BODY, "ext": {"resift": {"session": "nobody"}}}
    with pytest.raises(RequestError, match="resift"):
        backend.ids(body)
    urls = {"a new session": backend.service, "no service": f"http://127.0.0.1:{free_port()}"}
    for url in urls.values():
        searched = resift.rewrite("papers", body, url=url, timeout=PATIENT)
        assert searched == BODY
        assert backend.ids(searched) == backend.ids(BODY)
    assert body["ext"] == {"resift": {"session": "nobody"}}


def test_a_body_may_contain_all_types_that_opensearch_py_accepts(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    terms = {"field": "n", "include": np.arange(2), "min_doc_count": Decimal(1)}
    given = {**BODY, "min_score": np.float32(0), "aggs": {"n": {"terms": terms}}}
    assert resift.rewrite("papers", given, session="nobody", url=backend.service, timeout=PATIENT) is given
    assert not caplog.text
    beyond = {**BODY, "from": {0}}
    assert resift.rewrite("papers", beyond, session="anna", url=backend.service, timeout=PATIENT) is beyond
    assert "the body is not JSON" in caplog.text


@pytest.mark.parametrize(
    ("wrong", "told"), [({"session": "a b"}, "session id 'a b'"), ({"window": -4}, "window is -4")]
)
def test_a_malformed_session_only_causes_a_warning(
    backend: Backend, caplog: pytest.LogCaptureFixture, wrong: dict[str, Any], told: str
) -> None:
    assert resift.rewrite("papers", BODY, url=backend.service, timeout=PATIENT, **{"session": "anna", **wrong}) is BODY
    assert "searching without the session: " in caplog.text
    assert told in caplog.text


def test_an_unknown_option_is_logged_by_the_client_and_refused_by_the_library(
    backend: Backend, caplog: pytest.LogCaptureFixture
) -> None:
    body = resift.rewrite("papers", BODY, session="anna", url=backend.service, timeout=PATIENT, bogus=1)
    assert body["query"] != BODY["query"]
    assert "ext.resift has the unknown key 'bogus'" in caplog.text
    with resift.open(backend.url, sessions=":memory:") as library:
        session = library.index("papers").session("bert")
        with pytest.raises(BadInput, match="unknown option 'bogus'"):
            session.rewrite(BODY, bogus=1)


def test_a_session_is_marked_and_forgotten_over_http(backend: Backend) -> None:
    service = {"url": backend.service, "timeout": PATIENT}
    assert not resift.forget("carl", **service)
    summary = resift.mark("papers", "wing nose", session="carl", relevant=["heat"], clicked=["burn"], **service)
    assert summary is not None
    assert (summary["session"], summary["steps"]) == ("carl", 1)
    stored = backend.server.request("GET /v1/sessions/carl").json()["judgements"]
    assert [(mark["query"], mark["document"], mark["grade"]) for mark in stored] == [
        ("wing nose", "heat", 1.0),
        ("wing nose", "burn", 0.5),
    ]
    with pytest.raises(NotFound):
        resift.mark("papers", "wing nose", session="carl", relevant=["nothing"], **service)
    with pytest.raises(BadInput):
        resift.mark("papers", "wing nose", session="carl", **service)
    assert resift.forget("carl", **service)
    assert backend.server.request("GET /v1/sessions/carl").status == 404


def test_refused_searches_say_what_to_do(
    backend: Backend, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = {"query": {"terms": {"section": ["x" * 1000] * 9000}}}
    assert resift.rewrite("papers", large, session="anna", url=backend.service, timeout=PATIENT) is large
    assert "RESIFT_MAX_BODY" in caplog.text
    assert "8388608" in caplog.text
    assert "8388609" not in caplog.text
    monkeypatch.setenv("RESIFT_API_KEY", "")
    with serving(tmp_path, "--engine", backend.url, "--workers", "1", RESIFT_API_KEY=f"rsf_{0:032}") as server:
        service = {"url": f"http://127.0.0.1:{server.port}", "key": f"rsf_{1:032}", "timeout": PATIENT}
        assert resift.rewrite("papers", BODY, session="anna", **service) is BODY
        assert "this API key is unknown" in caplog.text
        assert "Set RESIFT_API_KEY" in caplog.text
        with pytest.raises(Unauthorized):
            resift.forget("anna", **service)


@pytest.mark.parametrize("index", ["nowhere", "papers,nowhere", "nowhere-*"])
def test_an_index_that_does_not_exist_costs_nothing_but_a_warning(
    backend: Backend, caplog: pytest.LogCaptureFixture, index: str
) -> None:
    assert resift.rewrite(index, BODY, session="anna", url=backend.service, timeout=PATIENT) is BODY
    assert f"searching without the session: the index {index!r} does not exist, or it is not served" in caplog.text


def test_errors_explain_invalid_requests(backend: Backend) -> None:
    with pytest.raises(BadInput, match="body is not a search body"):
        resift.rewrite("papers", "wing", session="anna", url=backend.service, timeout=PATIENT)  # type: ignore[arg-type]


@pytest.mark.parametrize("example", ["search.py", "search.mjs", "Search.java"])
def test_the_documented_backends_return_the_same_hits(backend: Backend, example: str) -> None:
    command = {"search.py": _python, "search.mjs": _node, "Search.java": _java}[example]()
    named = {"OPENSEARCH_URL": backend.url, "RESIFT_URL": backend.service}
    asked = [*command, "wing nose", "anna", "normalized"]
    moved = backend.ids(resift.rewrite("papers", BODY, session="anna", url=backend.service, timeout=PATIENT))
    assert moved != backend.ids(BODY)

    runs = []

    def is_moved() -> bool:
        runs.append(subprocess.run(asked, env={**os.environ, **named}, capture_output=True, text=True, check=True))
        return runs[-1].stdout.split() == moved

    # The examples search without the session if the service does not answer within a second.
    assert until(is_moved), runs[-1].stdout + runs[-1].stderr


def _python() -> list[str]:
    return [sys.executable, str(EXAMPLES / "search.py")]


def _node() -> list[str]:
    folder = fetched(
        "backend-node", "node", ["npm", "install", "--silent", f"@opensearch-project/opensearch@{JS}"], "node_modules"
    )
    # packages are searched next to the file
    return ["node", shutil.copy(EXAMPLES / "search.mjs", folder)]


def _java() -> list[str]:
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(*one)
        for one in JARS
    )
    pom = (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>'
        f"<artifactId>search</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>"
    )
    command = ["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"]
    folder = fetched("backend-java", "java", command, "classpath", {"pom.xml": pom})
    # compiled once for all runs, because Java would compile the file at each run
    path, source = (folder / "classpath").read_text("utf-8"), EXAMPLES / "Search.java"
    classes = folder / hashlib.sha256(source.read_bytes() + path.encode()).hexdigest()[:16]
    if not classes.exists():
        with tempfile.TemporaryDirectory(dir=folder) as made:
            subprocess.run(["javac", "-cp", path, "-d", made, source], check=True, capture_output=True)
            shutil.copytree(made, classes, dirs_exist_ok=True)
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{classes}{os.pathsep}{path}", "Search"]


def fetched(name: str, language: str, command: list[str], result: str, given: dict[str, str] | None = None) -> Path:
    """Return the folder with the libraries that a command downloads, which runs once for all runs of the tests."""
    if not (shutil.which(language) and shutil.which(command[0])):
        pytest.skip(f"{language} and {command[0]} are missing")
    cache = cache_folder()
    folder = cache / name
    with locked(cache):
        folder.mkdir(exist_ok=True)
        for name, text in (given or {}).items():
            (folder / name).write_text(text, "utf-8")
        if not (folder / result).exists():
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder
