"""Attaching in a cluster that has no installation: what it would install is shown, and done only if it is agreed to."""

from __future__ import annotations

import pytest
from attached_index import Index, shop
from click.testing import CliRunner, Result
from cluster_snapshot import snapshot

import resift
from resift.cli.main import main

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
    assert "set plugins.ml_commons.only_run_on_ml_node to false (cluster setting)" in refused.output
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
    assert "would set plugins.ml_commons.only_run_on_ml_node to false" in refused.output
    assert "Change these settings of the cluster, and do the rest?" in refused.output
