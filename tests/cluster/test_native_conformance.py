"""Searches of every kind get the same answers through Resift's own plugin as by running the rewritten body."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from answers import Answer, exact_differences
from native_node import NativeNode, RealService, Searches, real_service
from service_app import post
from test_clauses import CASES, COUNT, MAPPING, Case, document
from three_ways import OpenSearchClient

from resift import Model
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.query.body import parse

pytestmark = pytest.mark.filterwarnings("ignore::opensearchpy.exceptions.OpenSearchWarning")

MIXED = {"phase_results_processors": [{"normalization-processor": {}}]}


class Routes:
    """Ways to send a search to an index with documents of all kinds.

    Args:
        client: Sends requests to the cluster, and returns errors as answers.
        searches: Names the index and its pipelines.
        service: The service, in whose sessions documents of the index are marked, for the text of each search.
    """

    def __init__(self, client: OpenSearchClient, searches: Searches, service: RealService) -> None:
        self._client, self._service, self.index = client, service, searches.index
        self._sessions: dict[str, str] = {}
        self._without = f"{self.index}-without"
        self._native, self._failing = f"{self.index}-native", f"{self.index}-failing"
        searches.ask("PUT", f"/_search/pipeline/{self._without}", MIXED)
        for pipeline, url in ((self._native, service.url), (self._failing, f"{service.url}/nowhere")):
            processor = {"resift": {"url": url, "timeout": "60s"}}
            searches.ask("PUT", f"/_search/pipeline/{pipeline}", {**MIXED, "request_processors": [processor]})
        searches.pipelines += [self._without, self._native, self._failing]

    def plain(self, case: Case) -> Answer:
        """Search without Resift."""
        return self._search(case, self._body(case), self._without)

    def without_session(self, case: Case) -> Answer:
        """Search through the plugin, without a session."""
        return self._search(case, self._body(case), self._native)

    def in_session(self, case: Case) -> Answer:
        """Search through the plugin, in a session."""
        return self._search(case, self._body_in_session(case), self._native)

    def failing(self, case: Case) -> Answer:
        """Search through the plugin, in a session, with an address at which the service refuses all requests."""
        return self._search(case, self._body_in_session(case), self._failing)

    def rewritten(self, case: Case) -> Answer:
        """Search with the body that the service returns for the session."""
        body = self._body_in_session(case)
        answer = post(self._service.app.test_client(), "/v1/rewrite", index=self.index, body=body, hide_vectors=True)
        return self._search(case, answer["body"], self._without)

    def _body(self, case: Case) -> dict[str, Any]:
        return {**case.body, "indices_boost": [{self.index: 2}]} if "indices_boost" in case.body else case.body

    def _body_in_session(self, case: Case) -> dict[str, Any]:
        body = self._body(case)
        return {**body, "ext": {**body.get("ext", {}), "resift": {"session": self._session(parse(body).text)}}}

    def _session(self, text: str) -> str:
        """Return the session whose documents are marked for a query."""
        if text not in self._sessions:
            session = self._sessions[text] = f"session-{len(self._sessions)}"
            marks = {"session": session, "query": text, "relevant": ["0", "4"], "irrelevant": ["1"]}
            post(self._service.app.test_client(), "/v1/feedback", index=self.index, **marks)
        return self._sessions[text]

    def _search(self, case: Case, body: dict[str, Any], pipeline: str) -> Answer:
        params = {**dict(case.params), "search_pipeline": pipeline}
        return self._client.request("POST", f"{self.index}/_search", body, **params)


@pytest.fixture(scope="module")
def routes(
    native_node: NativeNode, native_engine: OpenSearchEngine, packaged: Model, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Routes]:
    """Yield the routes to a filled index."""
    searches = Searches(native_engine, f"native-{uuid.uuid4().hex[:8]}")
    if not searches.has_plugin("opensearch-knn"):
        pytest.skip("the node has no k-NN plugin")
    client, random = OpenSearchClient(native_node.url), np.random.default_rng(5)
    settings = {"index.knn": True, "number_of_shards": 1, "number_of_replicas": 0}
    searches.ask("PUT", f"/{searches.index}", {"settings": settings, "mappings": {"properties": MAPPING}})
    lines = [line for n in range(COUNT) for line in ({"index": {"_id": str(n)}}, document(n, random))]
    assert not client.request("POST", f"{searches.index}/_bulk", lines, refresh=True).body["errors"]
    store: Path = tmp_path_factory.mktemp("conformance") / "sessions.db"
    with real_service(native_engine, packaged, store) as served:
        yield Routes(client, searches, served)
    searches.delete()


def test_every_kind_of_search_has_the_same_answer(routes: Routes) -> None:
    differences, rewritten = dict[str, Any](), 0
    for name, case in CASES.items():
        plain = routes.plain(case)
        if case.index != "INDEX" or exact_differences(plain, routes.plain(case)):
            continue  # random scores differ each time
        in_session = routes.in_session(case)
        rewritten += in_session.is_success and bool(exact_differences(plain, in_session))
        found = exact_differences(plain, routes.without_session(case))
        if plain.is_success:  # the text of an error names a position in the body
            found += exact_differences(plain, routes.failing(case))
            found += exact_differences(routes.rewritten(case), in_session)
        if found:
            differences[name] = found
    assert differences == {}
    assert rewritten > len(CASES) / 4
