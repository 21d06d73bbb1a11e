"""Tests of the services that Resift's native plugin calls for searches of an index. No cluster is needed."""

from __future__ import annotations

from typing import Any

import pytest

from resift.errors import IndexNotFound
from resift.plugin.cluster.search_pipelines import Rewriter
from resift.plugin.operations import index_status
from resift.plugin.operations.service_status import ServedModel

OWN, SYSTEM, SILENT = "http://own:8080", "http://system:8080", "http://silent:8080"
MODELS = {OWN: ServedModel("adapted", "0123"), SYSTEM: ServedModel("resift-en", "4567")}
REWRITERS = {
    "resift-blogs": Rewriter("", "blogs", urls=(OWN,)),
    "resift-mute": Rewriter("", "mute", urls=(SILENT,)),
    "resift-gone": Rewriter("", "gone", urls=(OWN,)),
    "resift-shop": Rewriter("resift", "shop", model="4567"),
}


class FakeCluster:
    """A cluster with the aliases ``blogs`` and ``mute``, whose engine is this object."""

    def __init__(self) -> None:
        self.engine = self

    def resolve(self, name: str) -> list[str]:
        """Return the indices of an alias."""
        if name == "gone":
            raise IndexNotFound(name)
        return {"blogs": ["blog-1", "blog-2"]}.get(name, [name])


@pytest.fixture
def requested_urls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the cluster have search pipelines and a cluster setting, and return the list of requests."""
    requests: list[str] = []

    def urls_for_searches_without_pipeline(cluster: Any) -> list[str]:
        requests.append("settings")
        return [SYSTEM, SILENT]

    def served_model(url: str) -> ServedModel | None:
        requests.append(url)
        return MODELS.get(url)

    monkeypatch.setattr(index_status, "find_rewriters", lambda cluster: REWRITERS)
    monkeypatch.setattr(index_status, "urls_for_searches_without_pipeline", urls_for_searches_without_pipeline)
    monkeypatch.setattr(index_status, "served_model", served_model)
    return requests


def test_an_index_with_its_own_processor_does_not_use_the_service_of_the_cluster_setting(
    requested_urls: list[str],
) -> None:
    cluster: Any = FakeCluster()
    indices = {"blog-1", "blog-2", "mute", "shop", "plain"}
    own, system = {OWN: MODELS[OWN]}, {SYSTEM: MODELS[SYSTEM]}
    assert index_status._native_services(cluster, indices) == {
        "blog-1": own,
        "blog-2": own,
        "mute": {},  # its own service does not answer here
        "shop": system,
        "plain": system,
    }
    # The settings and each service are read once, not once for each index.
    assert sorted(requested_urls) == sorted(["settings", OWN, SYSTEM, SILENT])


def test_without_vectors_no_request_is_sent(requested_urls: list[str]) -> None:
    cluster: Any = FakeCluster()
    assert index_status._native_services(cluster, set()) == {}
    assert requested_urls == []
