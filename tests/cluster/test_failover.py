"""Tests of a cluster with several addresses that are killed, frozen and restored: no write is lost, no search hangs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest
from engine_documents import documents, ids
from listening import running
from opensearchpy.exceptions import TransportError
from tcp_proxy import Proxy
from waiting import until

from resift import Model
from resift.contracts.engine import failover_allowed
from resift.contracts.session_store import SessionRecord
from resift.contracts.ubi import EVENTS
from resift.errors import BadInput, EngineError, EngineUnavailable
from resift.feedback.judgements import Judgement
from resift.ingest.indexing import DeadLetters, Indexer
from resift.ingest.readers import Record
from resift.plugin.opensearch import failover
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.opensearch.mappings import ANALYSIS, mappings
from resift.plugin.opensearch.ubi import OpenSearchUbiLog
from resift.reranker import Config, create_app
from resift.service.connect import open_engine, open_session_store
from resift.sessions.sessions import Sessions

ROOT = Path(__file__).parents[2]
EVERYTHING: dict[str, Any] = {"match_all": {}}
# Processes that send requests alternately and simultaneously: on a shared connection they would mix up responses.
FORKING = """
import os, sys
from engine_documents import ids
from resift.plugin.opensearch.engine import OpenSearchEngine

def right(engine):
    return all(ids(engine, sys.argv[2], {"ids": {"values": [str(n)]}}) == [str(n)] for n in [1, 2, 3, 4] * 10)

engine = OpenSearchEngine(sys.argv[1])
assert right(engine)
children = []
for _ in range(3):
    children.append(os.fork())
    if not children[-1]:
        os._exit(0 if right(engine) else 1)
assert right(engine)
assert [os.waitpid(child, 0)[1] for child in children] == [0, 0, 0]
engine.close()
"""


@pytest.fixture(scope="module")
def patience() -> None:
    """Override the patient timeouts of other tests, because these tests measure waiting."""


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time limits of nodes that do not answer."""
    monkeypatch.setattr(failover, "PATIENCE_SECONDS", 1.0)
    monkeypatch.setattr(failover, "_DEAD_SECONDS", 0.2)


@pytest.fixture
def unhurried(short_limits: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Extend the time limits again, for tests that count the requests to a node that always answers in the end."""
    monkeypatch.setattr(failover, "PATIENCE_SECONDS", 30.0)
    for module in ("sessions", "ubi"):
        monkeypatch.setattr(f"resift.plugin.opensearch.{module}._TIMEOUT", 60.0)


@pytest.fixture
def two(opensearch_url: str) -> Iterator[tuple[Proxy, Proxy]]:
    """Yield two addresses of a node."""
    both = Proxy(opensearch_url), Proxy(opensearch_url)
    yield both
    for proxy in both:
        proxy.kill()


@pytest.fixture
def engine(two: tuple[Proxy, Proxy]) -> Iterator[OpenSearchEngine]:
    """Yield an engine with both addresses."""
    opened = OpenSearchEngine(f"{two[0].url}, {two[1].url}", timeout=4)
    yield opened
    opened.close()


@pytest.fixture
def index(cluster: OpenSearchEngine) -> Iterator[str]:
    """Yield a unique index name. The index is deleted without the proxies, which many tests do not start."""
    name = f"resift-test-{uuid.uuid4().hex[:12]}"
    yield name
    cluster.drop_if_exists(name)


def test_forked_processes_have_connections_of_their_own(
    cluster: OpenSearchEngine, two: tuple[Proxy, Proxy], index: str, model: Model
) -> None:
    cluster.create(index, ["title", "text"], model)
    cluster.bulk(index, documents(model))
    cluster.refresh(index)
    command = [sys.executable, "-c", FORKING, f"{two[0].url}, {two[1].url}", index]
    environment = {**os.environ, "PYTHONPATH": "tests/support"}
    ran = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("fault", ["kill", "freeze"])
@pytest.mark.parametrize("which", [0, 1])
def test_searches_continue_if_one_of_two_nodes_fails(
    cluster: OpenSearchEngine,
    two: tuple[Proxy, Proxy],
    index: str,
    model: Model,
    fault: str,
    which: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A slow machine must not take the node that lives for the frozen one.
    monkeypatch.setattr(failover, "PATIENCE_SECONDS", 5.0)
    engine = OpenSearchEngine(f"{two[0].url}, {two[1].url}", timeout=60)
    cluster.create(index, ["title", "text"], model)
    engine.bulk(index, documents(model))
    engine.refresh(index)
    getattr(two[which], fault)()
    for _ in range(6):  # in turn: half of the requests go to each address first
        assert len(ids(engine, index, EVERYTHING)) == 5
        assert engine.get(index, "1")[0]["year"] == 2001
    two[which].thaw() if fault == "freeze" else two[which].start()
    two[1 - which].kill()
    assert len(ids(engine, index, EVERYTHING)) == 5
    engine.close()
    two[1 - which].start()


def test_a_failing_node_is_tried_if_the_other_node_fails(
    two: tuple[Proxy, Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover, "PATIENCE_SECONDS", 1.5)
    monkeypatch.setattr(failover, "_DEAD_SECONDS", 0.05)
    engine = OpenSearchEngine(f"{two[0].url}, {two[1].url}", timeout=60)
    two[0].freeze()
    for seconds in [0.2] * 6 + [0, 0]:  # half of the requests go to it, and so did the last request
        time.sleep(seconds)
        assert engine.ping()
    two[0].thaw()
    two[1].kill()
    assert engine.ping()
    engine.close()


def test_two_unreachable_addresses_raise_an_error(engine: OpenSearchEngine, two: tuple[Proxy, Proxy]) -> None:
    for proxy in two:
        proxy.kill()
    with pytest.raises(EngineUnavailable, match="no answer from OpenSearch"):
        engine.ping()
    for proxy in two:
        proxy.start()
        proxy.freeze()
    with pytest.raises(EngineUnavailable, match="no answer from OpenSearch"):
        engine.ping()
    two[1].thaw()
    assert engine.ping().startswith("opensearch")


def test_a_frozen_cluster_costs_a_search_its_own_deadline(
    two: tuple[Proxy, Proxy],
    cluster: OpenSearchEngine,
    index: str,
    model: Model,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A search fails soon. A write waits until the cluster answers again."""
    monkeypatch.setenv("RESIFT_SEARCH_TIMEOUT", "0.5")
    cluster.create(index, ["title", "text"], model)
    engine = OpenSearchEngine(f"{two[0].url}, {two[1].url}")
    client = create_app(Config(store=str(tmp_path / "s.db")), engine=engine, model=model).test_client()
    assert engine.bulk(index, documents(model)[:1]) == []
    for proxy in two:
        proxy.freeze()
    for ask in (lambda: engine.search(index, {"query": EVERYTHING}), lambda: engine.info(index), engine.ping):
        with pytest.raises(EngineUnavailable, match=r"none within 0\.5 seconds"):
            ask()
    answer = client.post("/v1/search", json={"index": index, "query": "fire"})
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (503, "engine_unavailable")
    for proxy in two:
        threading.Timer(1.5, proxy.thaw).start()
    assert engine.bulk(index, documents(model)) == []
    engine.refresh(index)
    assert len(ids(cluster, index, EVERYTHING)) == 5
    assert until(lambda: bool(engine.ping()))
    engine.close()


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon", "1e9"])
def test_the_deadline_of_searches_is_checked(nowhere: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESIFT_SEARCH_TIMEOUT", value)
    with pytest.raises(BadInput, match="RESIFT_SEARCH_TIMEOUT is"):
        open_engine(nowhere)


@pytest.mark.parametrize(("kind", "answer"), [("text/html", b"<p>Welcome"), ("application/json", b"[]")])
def test_an_invalid_search_response_is_not_returned(kind: str, answer: bytes) -> None:
    class Stranger(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None: ...

    with running(ThreadingHTTPServer(("127.0.0.1", 0), Stranger)) as url:
        engine = OpenSearchEngine(url)
        with pytest.raises(EngineError, match="is not from OpenSearch"):
            engine.search("news", {"query": {"match_all": {}}})
        engine.close()


def test_indexing_continues_while_nodes_fail_and_return(
    engine: OpenSearchEngine,
    cluster: OpenSearchEngine,
    two: tuple[Proxy, Proxy],
    index: str,
    model: Model,
    tmp_path: Path,
) -> None:
    is_away, lock = threading.Event(), threading.Lock()

    def outage() -> None:
        two[1].kill()
        is_away.set()

    def sleep(seconds: float) -> None:
        """Wait before a request is repeated. The outage ends when the first request has failed."""
        with lock:
            if is_away.is_set():
                two[1].start()
                is_away.clear()
        time.sleep(seconds)

    changes = {700: two[0].kill, 1400: two[0].start, 2100: two[1].freeze, 3700: two[1].thaw, 4300: two[0].kill}
    changes[4900] = outage

    def records() -> Iterator[Record]:
        for number in range(6000):
            changes.get(number, lambda: None)()
            yield Record("f", number, str(number), {"text": f"fire {number}"})

    cluster.create(index, ["text"], model)
    indexer = Indexer(engine, model, index, DeadLetters(tmp_path / "dead.jsonl"), sleep=sleep)
    report = indexer.run(records(), ["text"])
    two[0].start()
    assert report.retries
    assert (report.indexed, report.refused) == (6000, 0)
    found = cluster.search(index, {"size": 0, "track_total_hits": True})
    assert found.response["hits"]["total"]["value"] == 6000


class LosesAnswers:
    """A proxy that drops the response to each request that contains ``mark``, after the server has executed it.

    If ``dies`` is True, the proxy stops listening at the first such request.
    """

    def __init__(self, target: str, mark: bytes, times: int = 1, dies: bool = False) -> None:
        self.dies, self.silent = dies, False  # silent: the connection stays open, and no response arrives
        parts = urlsplit(target)
        self.target = (str(parts.hostname), int(parts.port or 0))
        self.mark, self.times, self.seen = mark, times, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self.listener.accept()[0],), daemon=True).start()

    def close(self) -> None:
        """Stop accepting connections."""
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # wakes up the thread that waits for connections
        self.listener.close()

    def _serve(self, client: socket.socket) -> None:
        with client, socket.create_connection(self.target) as server:
            lost = threading.Event()
            back = threading.Thread(target=self._answer, args=(server, client, lost))
            back.start()
            with suppress(OSError):
                while request := client.recv(2**20):
                    if self.mark in request:
                        self.seen += 1
                        if self.seen <= self.times:
                            lost.set()
                            if self.dies:
                                self.close()
                    server.sendall(request)
                server.shutdown(socket.SHUT_RDWR)
            back.join()

    def _answer(self, server: socket.socket, client: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while (answer := server.recv(2**20)) and not lost.is_set():
                client.sendall(answer)
            if not self.silent:
                client.shutdown(socket.SHUT_RDWR)


@pytest.mark.usefixtures("unhurried")
def test_a_mark_whose_response_is_lost_counts_once(opensearch_url: str, cluster: OpenSearchEngine, index: str) -> None:
    lossy = LosesAnswers(opensearch_url, b"/_create/")
    store = open_session_store(f"{lossy.url},{lossy.url}", index)
    assert Sessions(store).add("anna", "fire", [Judgement("news", "1", 1.0)]).steps == 1
    lossy.mark, lossy.seen = b"if_seq_no", 0
    session = Sessions(store).add("anna", "fire", [Judgement("news", "2", 1.0)])
    assert (lossy.seen, session.steps, len(session.judgements)) == (2, 2, 2)
    other = store.read("s")
    assert other is None
    assert store.write("s", SessionRecord({"a": 1}, 10.0, ["news"], None))
    assert not store.write("s", SessionRecord({"a": 2}, 10.0, ["news"], None))
    store.close()
    lossy.close()


@pytest.mark.usefixtures("unhurried")
def test_a_mark_waits_for_its_session_and_a_search_does_not(
    cluster: OpenSearchEngine, two: tuple[Proxy, Proxy], index: str, model: Model
) -> None:
    cluster.create(index, ["title", "text"], model)
    cluster.bulk(index, documents(model))
    cluster.refresh(index)
    config = Config(store=two[0].url, session_index=f"{index}-sessions")
    client = create_app(config, engine=cluster, model=model).test_client()
    marks = {"session": "anna", "index": index, "query": "fire", "relevant": ["1"]}
    assert client.post("/v1/feedback", json=marks).status_code == 200
    two[0].freeze()
    found = client.post("/v1/search", json={"index": index, "query": "fire", "session": "anna"}).get_json()
    assert "sessions" in found["resift"]["reason"]
    threading.Timer(1.5, two[0].thaw).start()
    marked = client.post("/v1/feedback", json={**marks, "relevant": ["2"]})
    assert marked.status_code == 200
    assert marked.get_json()["steps"] == 2
    cluster.drop(f"{index}-sessions")


def test_unreadable_documents_are_not_treated_as_missing(cluster: OpenSearchEngine, index: str, model: Model) -> None:
    """While a shard is unassigned, as after its node was killed, a mark of its documents fails temporarily."""
    nodes = len(cluster.client.nodes.info(metric="os")["nodes"])
    settings = {"number_of_shards": nodes + 1, "number_of_replicas": 0}
    settings["routing.allocation.total_shards_per_node"] = 1
    body = {
        "settings": {"index": {"knn": True, "analysis": ANALYSIS, **settings}},
        "mappings": mappings(["title", "text"], model),
    }
    cluster.client.indices.create(index=index, body=body, params={"wait_for_active_shards": "0"})
    cluster.client.cluster.health(index=index, params={"wait_for_active_shards": str(nodes)})
    with pytest.raises(EngineError, match=r"1 shards of .* did not answer") as refused:
        cluster.documents(index, ["1", "2"])
    assert refused.value.status == 503


def test_a_scan_never_skips_a_page(opensearch_url: str, cluster: OpenSearchEngine, index: str, model: Model) -> None:
    """If the response to a scroll is lost, sending the request again would skip a page."""
    cluster.create(index, ["text"], model)
    lossy = LosesAnswers(opensearch_url, b"POST /_search/scroll")
    engine = OpenSearchEngine(f"{lossy.url},{opensearch_url}")
    engine.bulk(index, documents(model))
    engine.refresh(index)
    found: list[Any] = []
    with suppress(EngineUnavailable):
        found = list(engine.scan(index))
    assert len(found) in (0, 5)
    assert lossy.seen <= 1
    engine.close()
    lossy.close()


@pytest.fixture
def failing(opensearch_url: str) -> Iterator[Callable[..., list[LosesAnswers]]]:
    """Return a function that creates two proxies of the node, which fail for requests that contain a mark."""
    made: list[LosesAnswers] = []

    def make(mark: bytes, dies: bool) -> list[LosesAnswers]:
        made.extend(LosesAnswers(opensearch_url, mark, 100, dies) for _ in range(2))
        return made

    yield make
    for node in made:
        node.close()


def seen(nodes: Sequence[LosesAnswers]) -> int:
    """Return the number of requests with the mark that all proxies have received."""
    return sum(node.seen for node in nodes)


@pytest.fixture
def searched(cluster: OpenSearchEngine, index: str, model: Model, tmp_path: Path) -> Callable[..., Any]:
    """Return a function that creates a client of a service, whose node has five documents."""
    cluster.create(index, ["title", "text"], model)
    cluster.bulk(index, documents(model))
    cluster.refresh(index)

    def opened(nodes: Sequence[LosesAnswers]) -> Any:
        engine = OpenSearchEngine(",".join(node.url for node in nodes), timeout=10)
        client = create_app(Config(store=str(tmp_path / "s.db")), engine=engine, model=model).test_client()
        marks = {"session": "anna", "index": index, "query": "fire", "relevant": ["1"]}
        assert client.post("/v1/feedback", json=marks).status_code == 200
        return lambda **asked: client.post("/v1/search", json={"index": index, **asked})

    return opened


CLAUSE = {"match": {"text": {"query": "fire", "boost": 1.25}}}
OWN_QUERIES = [
    {"query": CLAUSE},
    {"query": {"query": CLAUSE, "size": 3}},
    {"query": "fire", "filter": CLAUSE},
    {"query": CLAUSE, "session": "anna", "reasons": True},
    {"query": CLAUSE, "facets": ["year"]},
]


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("asked", OWN_QUERIES)
def test_a_callers_query_is_sent_to_a_single_node(
    failing: Any, searched: Any, asked: dict[str, Any], dies: bool
) -> None:
    nodes = failing(b'"boost":1.25', dies)
    answer = searched(nodes)(**asked)
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (503, "engine_unavailable")
    assert seen(nodes) == 1


def test_a_callers_query_is_sent_to_a_single_frozen_node(
    failing: Any, searched: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of a caller's search may be the reason why the node is frozen."""
    monkeypatch.setattr(failover, "PATIENCE_SECONDS", 0.3)
    monkeypatch.setenv("RESIFT_SEARCH_TIMEOUT", "3")
    nodes = failing(b'"boost":1.25', False)
    for node in nodes:
        node.silent = True
    began = time.monotonic()
    answer = searched(nodes)(query=CLAUSE)
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (503, "engine_unavailable")
    assert seen(nodes) == 1
    assert time.monotonic() - began > 2  # the search had the whole time, because no other node could be asked


def test_a_text_is_searched_on_another_node_where_the_first_lives(failing: Any, searched: Any) -> None:
    nodes = failing(b"marked", dies=False)
    nodes[0].times = nodes[1].times = 0
    search = searched(nodes)
    assert search(query="marked fire").status_code == 200
    for node in nodes:
        node.times, node.seen = 1, 0
    for node in nodes[1:]:
        node.times = 0
    answers = [search(query="marked fire") for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert nodes[0].seen > 0


def test_a_node_that_dies_takes_along_what_it_was_searching_and_no_more(failing: Any, searched: Any) -> None:
    nodes = failing(b"marked", dies=True)
    search = searched(nodes)
    answer = search(query="marked fire")
    assert (answer.status_code, answer.get_json()["error"]["code"]) == (503, "engine_unavailable")
    assert seen(nodes) == 1
    assert [search(query="fire").status_code for _ in range(5)] == [200] * 5


class Gateway(BaseHTTPRequestHandler):
    """A server that answers as a proxy whose node has died."""

    protocol_version = "HTTP/1.1"
    status = 502
    asked: ClassVar[list[str]] = []

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.asked.append(f"{self.command} {self.path}")
        self.send_response(self.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_POST = do_PUT = do_HEAD = do_GET = do_DELETE = _answer

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def gateways() -> Iterator[OpenSearchEngine]:
    """Yield an engine with two addresses, both of which are a :class:`Gateway`."""
    Gateway.asked.clear()
    with running(ThreadingHTTPServer(("127.0.0.1", 0), Gateway)) as url:
        engine = OpenSearchEngine(f"{url},{url}")
        yield engine
        engine.close()


def test_a_gateway_that_lost_its_node_is_no_node_that_answers(
    gateways: OpenSearchEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for status in (502, 504):
        monkeypatch.setattr(Gateway, "status", status)
        for ask in (gateways.search, lambda *asked: gateways.search_all(asked[0], [asked[1]])):
            Gateway.asked.clear()
            with pytest.raises(EngineError):
                ask("news", {"query": EVERYTHING, "search_pipeline": "_none"})
            assert [one for one in Gateway.asked if one.startswith("POST")] == Gateway.asked[:1]
    # the node itself answers 503: it is alive, but has not started completely
    monkeypatch.setattr(Gateway, "status", 503)
    Gateway.asked.clear()
    with pytest.raises(EngineError):
        gateways.search("news", {"query": EVERYTHING, "search_pipeline": "_none"})
    assert len(Gateway.asked) == 2
    with failover_allowed(False), pytest.raises(EngineError):
        gateways.search("news", {"query": EVERYTHING, "search_pipeline": "_none"})
    assert len(Gateway.asked) == 3


POSTS = [
    "/INDEX/_doc",
    "/INDEX/_update/1",
    "/INDEX/_update_by_query",
    "/INDEX/_rollover",
    "/_reindex",
    "/_aliases",
    "/_search/scroll",
    "/_plugins/_ml/models/_register",
    "/_plugins/_ml/models/m/_predict",
]


@pytest.mark.parametrize("path", POSTS)
def test_writes_that_are_not_idempotent_are_never_repeated(
    failing: Any, gateways: OpenSearchEngine, index: str, path: str
) -> None:
    nodes = failing(b"POST ", dies=False)
    engine = OpenSearchEngine(",".join(node.url for node in nodes))
    with pytest.raises(TransportError):
        engine.client.transport.perform_request("POST", path.replace("INDEX", index), body={})
    assert seen(nodes) == 1
    engine.close()
    with pytest.raises(TransportError):
        gateways.client.transport.perform_request("POST", path, body={})
    assert len(Gateway.asked) == 1


@pytest.mark.usefixtures("unhurried")
def test_idempotent_writes_are_repeated(failing: Any, cluster: OpenSearchEngine, index: str) -> None:
    nodes = failing(b"/marked", dies=False)
    engine = OpenSearchEngine(",".join(node.url for node in nodes))
    paths = [("PUT", f"/{index}/_doc/marked"), ("DELETE", f"/{index}/_doc/marked")]
    for method, path in paths:
        for node in nodes:
            node.mark, node.seen, node.times = f"{method} {path}".encode(), 0, 1
        with suppress(TransportError):
            engine.client.transport.perform_request(method, path, body={} if method == "PUT" else None)
        assert seen(nodes) == 2
    engine.close()


@pytest.mark.usefixtures("unhurried")
def test_an_event_whose_response_is_lost_is_stored_once(failing: Any, cluster: OpenSearchEngine, index: str) -> None:
    nodes = failing(b"/_bulk", dies=False)
    nodes[1].times = 0
    nodes[0].times = 1
    log = OpenSearchUbiLog(",".join(node.url for node in nodes), index, f"{index}-queries")
    for _ in range(3):
        assert log.add(EVENTS, [{"action_name": "click"}]) == 0
    assert seen(nodes) == 4
    cluster.refresh(index)
    assert cluster.search(index, {"size": 0}).response["hits"]["total"]["value"] == 3


def test_where_the_cluster_does_not_tell_the_default_pipeline_it_runs(
    failing: Any, searched: Any, cluster: OpenSearchEngine, index: str
) -> None:
    """The pipeline may be the part that hides documents from searches."""
    shown = {"request_processors": [{"filter_query": {"query": {"ids": {"values": ["1"]}}}}]}
    cluster.client.transport.perform_request("PUT", f"/_search/pipeline/{index}", body=shown)
    setting = {"index.search.default_pipeline": index}
    cluster.client.indices.put_settings(index=index, body=setting)
    nodes = failing(f"/{index}/_settings".encode(), dies=False)
    answer = searched(nodes)(query={"match_all": {}})
    assert [hit["_id"] for hit in answer.get_json()["hits"]["hits"]] == ["1"]
    assert seen(nodes)
    cluster.client.indices.put_settings(index=index, body={"index.search.default_pipeline": None})
    cluster.client.transport.perform_request("DELETE", f"/_search/pipeline/{index}")
