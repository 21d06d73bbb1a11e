"""Attaching in a cluster that has no installation: what it would install is shown, and done only if it is agreed to."""

from __future__ import annotations

import json

import pytest
from attached_index import Index, shop
from click.testing import CliRunner, Result
from cluster_snapshot import snapshot

import resift
from resift.cli.main import main
from resift.plugin.cluster.settings import PRIVATE, TRUSTED

__all__ = ["shop"]


@pytest.fixture(autouse=True)
def bare(shop: Index, opensearch_url: str) -> None:
    """A cluster that others may have installed something in has to be another one."""
    assert resift.install(opensearch_url).installer.cluster.named("models", "resift-rewrite") == []


def attach(index: str, url: str, answer: str, *flags: str) -> Result:
    """Attach an index, and answer its question."""
    return CliRunner().invoke(main, ["attach", index, "--engine", url, *flags], input=answer)


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_nothing_is_done_that_is_not_agreed_to(shop: Index, opensearch_url: str, answer: str) -> None:
    before = snapshot(shop.cluster), shop.settings(), shop.mapping()
    refused = attach(shop.name, opensearch_url, answer)
    assert refused.exit_code == 2
    assert "install     first, for the reranker at http://127.0.0.1:8080" in refused.output
    assert "create remote model resift-rewrite" in refused.output
    assert f"set {PRIVATE} from false to true: ML Commons calls no private address" in refused.output
    assert "not confirmed: nothing was changed" in refused.output
    assert (snapshot(shop.cluster), shop.settings(), shop.mapping()) == before


def test_what_is_agreed_to_is_installed_and_taken_back(shop: Index, opensearch_url: str) -> None:
    before = snapshot(shop.cluster), shop.settings(), shop.mapping()
    done = attach(shop.name, opensearch_url, "y\n")
    assert done.exit_code == 0, done.output
    assert "next: resift serve, where the nodes reach it as http://127.0.0.1:8080" in done.output
    assert "install     first" not in attach(shop.name, opensearch_url, "", "--dry-run").output
    resift.detach(opensearch_url, shop.name).run()
    resift.uninstall(opensearch_url).run()
    assert (snapshot(shop.cluster), shop.settings(), shop.mapping()) == before


def test_install_asks_before_it_changes_settings_of_the_cluster(shop: Index, opensearch_url: str) -> None:
    before = snapshot(shop.cluster)
    refused = CliRunner().invoke(main, ["install", "--engine", opensearch_url], input="n\n")
    assert (refused.exit_code, snapshot(shop.cluster)) == (2, before)
    assert f"would set {PRIVATE} from false to true: " in refused.output
    assert f"would append ^http://127\\.0\\.0\\.1:8080/.*$ to {TRUSTED}, which has " in refused.output
    assert "Change these settings of the whole cluster, and do the rest?" in refused.output
    planned = json.loads(
        CliRunner().invoke(main, ["install", "--engine", opensearch_url, "--dry-run", "--json"]).stdout
    )
    assert any("(cluster setting)" in step for step in planned["steps"])


def test_nothing_is_asked_or_written_where_settings_allow_what_is_needed(shop: Index, opensearch_url: str) -> None:
    cluster = shop.cluster
    before = {name: cluster.persistent().get(name) for name in (PRIVATE, TRUSTED)}
    allowed = {PRIVATE: "true", TRUSTED: ["^https?://127\\.0\\.0\\.1:80.*$"]}
    cluster.set(allowed)
    try:
        done = CliRunner().invoke(main, ["install", "--engine", opensearch_url])
        assert done.exit_code == 0, done.output
        assert "(cluster setting)" not in done.output
        assert cluster.persistent().items() >= allowed.items()
        resift.uninstall(opensearch_url).run()
        assert cluster.persistent().items() >= allowed.items()
    finally:
        cluster.set(before)
