"""Tests of docs/recipes.md: other tools search an attached index in a session, on a node with Resift's plugin."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import uuid
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from native_node import NativeNode, RealService, real_service
from service_app import post
from test_backends import fetched
from ubi_events import new_names

from resift import Model
from resift.cli.main import main
from resift.contracts.ubi import EVENTS, QUERIES
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.service.connect import open_ubi_log

DOCS = Path(__file__).parents[2] / "docs"
PACKAGES = {
    "instantsearch.mjs": ("searchkit@4.16.0", "@searchkit/instantsearch-client@4.15.0"),
    "search-ui.mjs": ("@elastic/search-ui-elasticsearch-connector@1.24.2",),
}
PRODUCTS = {
    "B01": "Inkjet printer with scanner",
    "B02": "Laser printer, black and white",
    "B03": "Printer paper, 500 sheets",
    "B04": "Toner cartridge for a laser printer",
    "B05": "Photo printer for phones",
    "B06": "Laser toner, black",
    "B07": "Office chair",
}
QUERY = "printer"


class Shop:
    """An attached index with fields of Chorus.

    The session ``anna`` marked a laser printer, and the client ``CLIENT-1`` put it into the cart.
    """

    def __init__(self, engine: OpenSearchEngine, url: str, service: RealService, names: tuple[str, str]) -> None:
        self.engine, self.url, self.service, self.names = engine, url, service, names
        self.index = f"ecommerce-{uuid.uuid4().hex[:8]}"

    def search(self, session: str | None = None, **body: Any) -> list[str]:
        """Return the ids of the hits of a search."""
        ext = {"ext": {"resift": {"session": session}}} if session else {}
        params = {"search_pipeline": f"resift-{self.index}"}
        body = {"query": {"multi_match": {"query": QUERY, "fields": ["title"]}}, **ext, **body}
        answer = self.engine.client.search(index=self.index, body=body, params=params)
        return [hit["_id"] for hit in answer["hits"]["hits"]]

    def log_clicks(self) -> None:
        """Write what the shop of Chorus writes if a client searches, and puts the second hit into the cart."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        shared = {"application": "Chorus", "client_id": "CLIENT-1", "query_id": "q-1", "user_query": QUERY}
        item = {"object_id": "B02", "object_id_field": "asin", "description": PRODUCTS["B02"]}
        attributes = {"object": item, "position": {"ordinal": 2}}
        events = [
            {**shared, "session_id": "SESSION-1", "action_name": name, "timestamp": now, "event_attributes": attributes}
            for name in ("click", "add_to_cart")
        ]
        with closing(open_ubi_log(self.url, *self.names)) as log:
            log.add(QUERIES, [{**shared, "timestamp": now}])
            log.add(EVENTS, events)
        for name in self.names:
            self.engine.refresh(name)


@pytest.fixture(scope="module")
def shop(
    native_node: NativeNode, native_engine: OpenSearchEngine, packaged: Model, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shop]:
    """Yield the shop, and delete it at the end."""
    store, names = tmp_path_factory.mktemp("recipes") / "sessions.db", new_names()
    settings: dict[str, Any] = {"ubi_events": names[0], "ubi_queries": names[1], "engine": native_node.url}
    with real_service(native_engine, packaged, store, **settings) as service:
        shop = Shop(native_engine, native_node.url, service, names)
        properties = {"asin": {"type": "keyword"}, "title": {"type": "text", "analyzer": "english"}}
        native_engine.client.indices.create(index=shop.index, body={"mappings": {"properties": properties}})
        for asin, title in PRODUCTS.items():
            native_engine.client.index(index=shop.index, id=asin, body={"asin": asin, "title": title})
        native_engine.refresh(shop.index)
        shop.log_clicks()  # before the service looks for the log: it remembers for half a second that there is none
        resift("attach", shop.index, "--yes", "--engine", shop.url, "--service", service.url)
        marks = {"session": "anna", "query": QUERY, "relevant": ["B02"]}
        post(service.app.test_client(), "/v1/feedback", index=shop.index, **marks)
        yield shop
        resift("detach", shop.index, "--yes", "--engine", shop.url)
        for name in (shop.index, *names):
            native_engine.drop_if_exists(name)


def resift(*arguments: str) -> str:
    """Run a command, and return its standard output."""
    ran = CliRunner().invoke(main, list(arguments))
    assert ran.exit_code == 0, ran.output
    return ran.stdout


def test_the_clicks_that_chorus_logs_change_the_clients_next_search(shop: Shop) -> None:
    before, after = shop.search(), shop.search("CLIENT-1")
    assert after[0] == "B02"
    assert after.index("B04") < before.index("B04")


def test_the_workbench_compares_the_same_queries_with_and_without_sessions(shop: Shop) -> None:
    """The Workbench fills in the query, wraps it and sends it through the pipeline of the search configuration."""
    configurations = {
        flags: json.loads(resift("export", "search-configuration", shop.index, "--engine", shop.url, *flags))
        for flags in ((), ("--with-sessions",))
    }
    plain, with_sessions = configurations.values()
    assert plain["name"] != with_sessions["name"]
    assert {one["searchPipeline"] for one in configurations.values()} == {f"resift-{shop.index}"}
    template = with_sessions["query"]
    parameters = {"queryText": QUERY, "session": "anna"}
    client = shop.engine.client
    filled = client.render_search_template(body={"source": template, "params": parameters})["template_output"]
    for text, session in ((plain["query"].replace("%SearchText%", QUERY), None), (json.dumps(filled), "anna")):
        body = json.loads(text)
        wrapped = {"wrapper": {"query": b64encode(json.dumps(body["query"]).encode()).decode()}}
        params = {"search_pipeline": plain["searchPipeline"]}
        found = client.search(index=shop.index, body={**body, "query": wrapped, "size": 10}, params=params)
        expected = shop.search(session, query=body["query"])
        assert [hit["_id"] for hit in found["hits"]["hits"]] == expected
    assert shop.search("anna", query=body["query"]) != shop.search(query=body["query"])


@pytest.mark.parametrize("example", PACKAGES)
def test_libraries_for_web_pages_show_the_hits_of_the_session(shop: Shop, example: str) -> None:
    install = ["npm", "install", "--silent", *PACKAGES[example]]
    folder = fetched(f"recipes-{example.removesuffix('.mjs')}", "node", install, "node_modules")
    script = shutil.copy(DOCS / "examples" / "recipes" / example, folder)

    def hits(session: str) -> list[str]:
        command = ["node", script, shop.index, QUERY, session]
        environment = {**os.environ, "OPENSEARCH_URL": shop.url}
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return ran.stdout.split()

    marked, unmarked = hits("anna"), hits("nobody")
    assert marked[0] == "B02"
    assert set(marked) >= set(unmarked)
    assert marked.index("B04") < unmarked.index("B04")


@pytest.fixture(scope="module")
def visualizations() -> dict[str, dict[str, Any]]:
    """Return the Vega specification of each visualization in the saved objects for OpenSearch Dashboards, by id."""
    lines = (DOCS / "monitoring" / "ubi-dashboard.ndjson").read_text("utf-8").splitlines()
    *made, dashboard = map(json.loads, lines)
    assert [one["id"] for one in dashboard["references"]] == [one["id"] for one in made]
    panels = json.loads(dashboard["attributes"]["panelsJSON"])
    assert [one["panelRefName"] for one in panels] == [one["name"] for one in dashboard["references"]]
    return {one["id"]: json.loads(json.loads(one["attributes"]["visState"])["params"]["spec"]) for one in made}


def test_the_dashboard_shows_the_fields_that_events_have(shop: Shop, visualizations: dict[str, dict[str, Any]]) -> None:
    """Each panel's search finds the client's events, and each encoded field is in its answer."""
    indices = {"ubi_events": shop.names[0], "ubi_queries": shop.names[1]}
    for id, specification in visualizations.items():
        url, path = specification["data"]["url"], specification["data"]["format"]["property"].split(".")
        found = shop.engine.client.search(index=indices[url["index"]], body=url["body"])
        for name in path:
            found = found[name]
        assert found, id
        for channel in specification["encoding"].values():
            value: Any = found[0]
            for name in channel["field"].split("."):
                value = value[name]
            assert value is not None, (id, channel)


def test_the_page_shows_lines_of_the_examples() -> None:
    page = (DOCS / "recipes.md").read_text("utf-8")
    blocks = re.findall(r"```js\n(.*?)```", page, re.DOTALL)
    for example, block in zip(PACKAGES, blocks, strict=True):
        lines = (DOCS / "examples" / "recipes" / example).read_text("utf-8").splitlines()
        assert set(block.splitlines()) <= set(lines), example
