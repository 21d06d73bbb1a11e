"""Tests of installing: all resources are created, checked and removed, and nothing else is changed."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from cluster_snapshot import snapshot

from resift import Model, WordVectors, build_model
from resift.errors import EngineError
from resift.plugin.cluster import remote_model
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.cluster.remote_model import REMOTE_MODELS
from resift.plugin.cluster.settings import TRUSTED_ADDRESSES
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.doctor import status_rows


def own_states(installer: Installer) -> set[str]:
    """Return the states of all resources and settings of an installation whose service does not run."""
    rows = [row for row in status_rows(installer) if row.kind not in ("service", "connector")]
    return {"ok" if row.state == "fails open" else row.state for row in rows}


@pytest.fixture
def indices(cluster: OpenSearchEngine, packaged: Model) -> Iterator[list[str]]:
    """Yield two indices with the packaged model."""
    names = [f"docs-{uuid.uuid4().hex[:8]}", f"ä.b_{uuid.uuid4().hex[:8]}%41"]
    for index in names:
        cluster.create(index, ["text"], packaged)
    yield names
    for index in names:
        cluster.drop(index)


def test_connectors_that_have_to_stay_go_with_the_last_model(
    cluster: OpenSearchEngine, packaged: Model, nowhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSearch 2 may regard the models of other connectors as users of a connector."""
    rest, deleted, send = Cluster(cluster), set[str](), Cluster.request
    before = snapshot(rest)
    installer = Installer(cluster, Installation(f"resift-{uuid.uuid4().hex[:8]}", packaged, ("text",), nowhere))
    installer.install()

    def request(self: Cluster, method: str, path: str, *args: Any, **options: Any) -> Any:
        if method == "DELETE" and "/models/" in path:
            deleted.add(path)
        elif method == "DELETE" and "/connectors/" in path and len(deleted) < len(REMOTE_MODELS):
            raise EngineError("1 models are still using this connector", status=409)
        return send(self, method, path, *args, **options)

    monkeypatch.setattr(Cluster, "request", request)
    monkeypatch.setattr("resift.plugin.cluster.remote_model._FORGET_SECONDS", 0)
    installer.uninstall()
    assert snapshot(rest) == before


def test_install_status_uninstall_leaves_nothing(
    cluster: OpenSearchEngine, packaged: Model, vectors: WordVectors, nowhere: str, indices: list[str]
) -> None:
    name = f"resift-{uuid.uuid4().hex[:8]}"
    rest = Cluster(cluster)
    before = snapshot(rest)
    installer = Installer(cluster, Installation(name, packaged, ("text",), nowhere))
    planned = installer.install(dry_run=True)
    assert snapshot(rest) == before
    assert {row.state for row in status_rows(installer) if row.name.startswith(name)} == {"missing"}
    assert installer.install() == planned
    assert installer.install() == []
    assert own_states(installer) == {"ok"}
    during = snapshot(rest)
    made = {"scripts": 2, "templates": 1, "models": 4, "connectors": 4, "model_groups": 1}
    assert {kind: len(during[kind]) - len(before[kind]) for kind in made} == made
    # there are also pipelines for other indices with the packaged model
    of_indices = {f"resift-{one}" for one in indices}
    for kind, own in (("ingest", ["ingest"]), ("search", ["hybrid", "rerank"])):
        assert {*(f"{name}-{one}" for one in own), *of_indices} <= {*during[kind]} - {*before[kind]}

    other = Installer(cluster, Installation(name, build_model("boew:4", vectors), ("text",), nowhere))
    assert f"other model {packaged.hash}" in {row.state for row in status_rows(other)}
    assert all(
        row.fix == "resift install"
        for row in status_rows(other)
        if row.state.startswith("other model") and row.kind != "index"
    )
    moved = Installer(cluster, Installation(name, packaged, ("text",), "http://127.0.0.1:18081"))
    assert {row.state for row in status_rows(moved) if row.kind == "remote model"} == {"changed"}
    rest.request("DELETE", f"/_search/pipeline/{name}-hybrid")
    assert [row.name for row in status_rows(installer) if row.state == "missing"] == [f"{name}-hybrid"]
    assert moved.install()
    assert own_states(moved) == {"ok"}

    planned = moved.uninstall(dry_run=True)
    assert own_states(moved) == {"ok"}
    assert moved.uninstall() == planned
    assert snapshot(rest) == before
    assert moved.uninstall() == []


def test_cluster_settings_of_other_applications_are_preserved(cluster: OpenSearchEngine, packaged: Model) -> None:
    rest, name = Cluster(cluster), f"resift-{uuid.uuid4().hex[:8]}"
    was = rest.persistent_settings().get(TRUSTED_ADDRESSES)
    # ML Commons accepts the second pattern before 3.7. See also tests/unit/test_cluster_settings.py.
    foreign = ["^https://own\\.example/.*$", "^https://([a-z]+\\.)+example/(a*)+$"]
    later = "^https://later\\.example/.*$"
    rest.update_settings({TRUSTED_ADDRESSES: foreign})
    installer = Installer(cluster, Installation(name, packaged, ("text",), "http://127.0.0.1:18082"))
    installer.install()
    own = "^http://127\\.0\\.0\\.1:18082/.*$"
    assert rest.effective_settings()[TRUSTED_ADDRESSES] == [*foreign, own]
    rest.update_settings({TRUSTED_ADDRESSES: [*foreign, own, later]})
    assert installer.install() == []
    installer.uninstall()
    assert rest.effective_settings()[TRUSTED_ADDRESSES] == [*foreign, later]
    rest.update_settings({TRUSTED_ADDRESSES: was})


def test_settings_stay_until_the_last_installation_goes(cluster: OpenSearchEngine, packaged: Model) -> None:
    rest, url = Cluster(cluster), "http://127.0.0.1:18084"
    before = rest.persistent_settings()
    first, second = (
        Installer(cluster, Installation(f"resift-{uuid.uuid4().hex[:8]}", packaged, ("text",), url)) for _ in range(2)
    )
    first.install()
    second.install()
    during = rest.persistent_settings()
    assert any("leave the cluster's settings" in step for step in first.uninstall())
    assert rest.persistent_settings() == during
    assert own_states(second) == {"ok"}
    second.uninstall()
    assert rest.persistent_settings() == before


def test_resources_of_other_applications_are_not_changed(cluster: OpenSearchEngine, packaged: Model) -> None:
    rest, name = Cluster(cluster), f"resift-{uuid.uuid4().hex[:8]}"
    path = f"/_ingest/pipeline/{name}-ingest"
    rest.request("PUT", path, {"description": "mine", "processors": []})
    installer = Installer(cluster, Installation(name, packaged, ("text",), "http://127.0.0.1:18083"))
    with pytest.raises(EngineError, match="was not created by Resift"):
        installer.install()
    assert "foreign" in {row.state for row in status_rows(installer)}
    installer.uninstall()
    assert rest.get_or_none(path, f"{name}-ingest")["description"] == "mine"
    rest.request("DELETE", path)


def test_a_model_that_a_cluster_did_not_deploy_at_first_is_deployed_once_more(
    cluster: OpenSearchEngine, packaged: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    installer = Installer(
        cluster, Installation(f"resift-{uuid.uuid4().hex[:8]}", packaged, ("text",), "http://127.0.0.1:9")
    )
    request = installer.cluster.request

    def without_deploying(method: str, path: str, body: Any = None, **params: Any) -> Any:
        return request(method, path, body, **{name: value for name, value in params.items() if name != "deploy"})

    monkeypatch.setattr(installer.cluster, "request", without_deploying)
    monkeypatch.setattr(remote_model, "_STUCK_SECONDS", 0.2)
    installer.install()
    try:
        assert own_states(installer) == {"ok"}
        models = [
            id
            for which in REMOTE_MODELS
            for id, _ in installer.cluster.ml_objects("models", f"{installer.name}-{which}")
        ]
        states = [request("GET", f"/_plugins/_ml/models/{id}")["model_state"] for id in models]
        assert states == ["DEPLOYED"] * len(REMOTE_MODELS)
    finally:
        installer.uninstall()
