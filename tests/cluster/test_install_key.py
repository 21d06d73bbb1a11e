"""Tests of the API key in the connectors of an installation."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner
from opensearch_fixture import service_host
from served import serving

from resift import Model
from resift.cli.main import main
from resift.errors import BadInput
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.doctor import status_rows

URL = "http://127.0.0.1:1"
KEY, OTHER = "rsf_" + "k" * 43, "rsf_" + "o" * 43


def test_the_key_of_an_installation(cluster: OpenSearchEngine, packaged: Model) -> None:
    name, rest = f"resift-{uuid.uuid4().hex[:8]}", Cluster(cluster)

    def installer(key: str | None = None, url: str = URL) -> Installer:
        return Installer(cluster, Installation(name, packaged, ("text",), url), key)

    def states(installer: Installer) -> set[str]:
        return {row.state for row in status_rows(installer) if row.kind == "remote model"}

    installer().install()
    try:
        assert states(installer(KEY)) == {"no key"}
        assert any("(no key)" in step for step in installer(KEY).install())
        known = states(installer(KEY))
        assert states(installer()) == known
        assert not known & {"no key", "other key", "changed"}
        assert installer(KEY).install() == installer().install() == []
        assert states(installer(OTHER)) == {"other key"}
        with pytest.raises(BadInput, match="contains an API key") as caught:
            installer(url=f"{URL}2").install()
        assert "--key" in str(caught.value.expected)
        assert installer(KEY).install() == []
        found = rest.request("POST", "/_plugins/_ml/connectors/_search", {"query": {"match_all": {}}, "size": 1000})
        connectors = [hit["_source"] for hit in found["hits"]["hits"] if hit["_source"]["name"].startswith(name)]
        assert connectors
        for connector in connectors:
            assert KEY not in json.dumps(connector)
            assert connector["actions"][0]["headers"]["Authorization"] == "Bearer ${credential.key}"
    finally:
        installer().uninstall()


def test_whose_refusal_it_is_is_told_where_the_service_knows_another_key(
    cluster: OpenSearchEngine, packaged: Model, pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    keys = str(tmp_path / "keys.jsonl")
    made = CliRunner().invoke(main, ["keys", "create", "page", "--scopes", "search"], env={"RESIFT_KEYS": keys})
    with serving(tmp_path, RESIFT_KEYS=keys) as server:
        url, name = f"http://{service_host(pytestconfig)}:{server.port}", f"resift-{uuid.uuid4().hex[:8]}"
        for key, told in (
            (KEY, "this API key is unknown (401)"),
            (made.stdout.strip(), "API key 'page' does not have the scope 'embed' (403)"),
        ):
            installer = Installer(cluster, Installation(name, packaged, ("text",), url), key)
            installer.install()
            try:
                (row,) = [row for row in status_rows(installer) if row.kind == "connector"]
                assert row.state == "the cluster gets no answer"
                assert "--key KEY" in row.fix
                assert row.fix.endswith(f"(the service of a remote model answered: {told})")
            finally:
                installer.uninstall()
