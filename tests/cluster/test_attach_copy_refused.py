"""What cannot be copied, or taken back, is refused before anything is changed; and a copy for another model."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from attached_index import Index, assert_right, other, own, run, source
from test_attach_copy import Behind, contents

from resift import Model
from resift.ingest.verify import verify
from resift.plugin.opensearch.engine import OpenSearchEngine

__all__ = ["other", "own"]


@pytest.fixture
def shop(cluster: OpenSearchEngine) -> Iterator[Index]:
    index = Index(cluster, count=40)
    yield index
    for name in (f"{index.name}-copy", index.name):
        Behind(index, name).close()


@pytest.fixture
def template(shop: Index) -> Iterator[str]:
    """An index template that matches the name of the copy; what it gives is to be put."""
    yield f"/_index_template/{shop.name}"
    shop.cluster.request("DELETE", f"/_index_template/{shop.name}")


def refused(shop: Index, url: str, folder: str, *flags: str) -> str:
    """The message of a command that changes nothing."""
    before = shop.mapping(), shop.settings(), shop.aliases(), shop.documents()
    message = run("attach", shop.name, url, "--model", folder, *flags, status=2).output
    assert (shop.mapping(), shop.settings(), shop.aliases(), shop.documents()) == before
    assert "Traceback" not in message
    return " ".join(message.split("Error: ")[1].split())


def test_names_that_do_not_fit(shop: Index, own: tuple[Model, str], opensearch_url: str) -> None:
    folder, name, alias = own[1], f"{shop.name}-copy", f"{shop.name}-odd"

    def message(*flags: str) -> str:
        return refused(shop, opensearch_url, folder, *flags)

    assert "expected: --alias NAME" in message("--copy-to", name)
    assert f"--alias {alias} without --copy-to" in message("--alias", alias)
    assert "'a b' cannot name an index" in message("--copy-to", "a b", "--alias", alias)
    assert "'A' cannot name an index" in message("--copy-to", name, "--alias", "A")
    assert "one of them" in message("--copy-to", name, "--alias", alias, "--field", "v")
    assert "exists, and is not a copy" in message("--copy-to", shop.name, "--alias", alias)
    assert "the copy itself is named" in message("--copy-to", name, "--alias", name)
    found = message("--copy-to", name, "--alias", shop.name)
    assert "is the name of an index, and cannot be an alias while that is there" in found
    assert f"POST /_aliases adds one to {shop.name}" in found
    assert shop.cluster.find(f"/{name}") is None


def test_indices_and_aliases_of_somebody_else(
    shop: Index, own: tuple[Model, str], opensearch_url: str, cluster: OpenSearchEngine
) -> None:
    stranger = Index(cluster, count=1)
    try:
        flags = ("--copy-to", stranger.name, "--alias", f"{shop.name}-odd")
        assert "exists, and is not a copy" in refused(shop, opensearch_url, own[1], *flags)
        flags = ("--copy-to", f"{shop.name}-copy", "--alias", f"{stranger.name}-odd")
        assert f"stands for {stranger.name}, not for {shop.name}" in refused(shop, opensearch_url, own[1], *flags)
    finally:
        stranger.close()


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ({"aliases": {"shop-of-a-template": {}}}, "-copy' shop-of-a-template"),
        ({"mappings": {"properties": {"more": {"type": "keyword"}}}}, "-copy' properties.more.type"),
        ({"settings": {"index.analysis.analyzer.more.tokenizer": "standard"}}, "index.analysis.analyzer.more"),
    ],
)
def test_a_name_that_an_index_template_has_made_otherwise(
    shop: Index, template: str, own: tuple[Model, str], opensearch_url: str, gives: dict[str, object], told: str
) -> None:
    name = f"{shop.name}-copy"
    shop.cluster.request("PUT", template, {"index_patterns": [name], "template": gives, "priority": 900})
    message = refused(shop, opensearch_url, own[1], "--copy-to", name, "--alias", f"{shop.name}-odd")
    assert told in message
    assert "expected: a name that no index template matches" in message
    assert shop.cluster.find(f"/{name}") is None


def test_a_plan_changes_nothing(shop: Index, own: tuple[Model, str], opensearch_url: str) -> None:
    name, before = f"{shop.name}-copy", (shop.mapping(), shop.settings(), shop.aliases())
    flags = ("--copy-to", name, "--alias", f"{shop.name}-new", "--model", own[1], "--dry-run")
    output = run("attach", shop.name, opensearch_url, *flags).output
    assert "writes      then get 403 (cluster_block_exception)" in output
    assert f"{shop.name}-odd: stays with {shop.name}" in output
    assert json.loads(run("attach", shop.name, opensearch_url, *flags, "--json").output)["documents"] == 40
    assert (shop.mapping(), shop.settings(), shop.aliases()) == before
    assert shop.cluster.find(f"/{name}") is None


def test_a_copy_for_another_model_and_what_becomes_of_it(
    shop: Index, own: tuple[Model, str], other: tuple[Model, str], opensearch_url: str
) -> None:
    name, alias = f"{shop.name}-copy", f"{shop.name}-new"
    copy, flags = Behind(shop, name), ("--copy-to", name, "--alias", alias)
    run("attach", shop.name, opensearch_url, "--model", own[1])
    run("attach", shop.name, opensearch_url, "--model", other[1], *flags)
    assert contents(copy) == contents(shop)
    assert_right(copy, other[0], list(copy.engine.info(name).fields), "resift_vector")
    assert set(copy.aliases()[name]["aliases"]) == {alias}
    # it is not made again while it serves
    assert "nothing to do" in run("attach", shop.name, opensearch_url, "--model", own[1], *flags).output
    # what was written by the index's own name cannot be told from what was deleted in the copy
    Behind(shop, alias).bulk([json.dumps({"index": {"_id": "100"}}), json.dumps(source(100))])
    shop.write([101])
    found = run("detach", alias, opensearch_url, status=2).output
    assert "was written to by its own name" in found
    output = run("detach", alias, opensearch_url, "--no-copy-back").output
    assert f"{alias} stands for {shop.name} again" in output
    assert {"100", "101"} & set(shop.documents()) == {"101"}
    assert "does not stand for" in run("detach", name, opensearch_url, status=2).output
    # the copy may serve again, but not while it has what the index has not
    assert "was written to, and may have what" in refused(shop, opensearch_url, other[1], *flags)
    assert run("drop", name, opensearch_url).exit_code == 0
    run("attach", shop.name, opensearch_url, "--model", other[1], *flags)
    assert contents(copy) == contents(shop)
    assert "is the index itself" in refused(copy, opensearch_url, other[1], *flags)
    copy.write([102])
    assert f"resift verify {shop.name} --repair" in run("detach", name, opensearch_url).output
    assert contents(copy) == contents(shop)
    assert verify(shop.engine, own[0], shop.name, repair=True).missing == 2
    assert_right(shop, own[0], list(shop.engine.info(shop.name).fields))


def test_an_index_that_is_gone_is_not_gone_back_to(shop: Index, own: tuple[Model, str], opensearch_url: str) -> None:
    name, alias = f"{shop.name}-copy", f"{shop.name}-odd"
    run("attach", shop.name, opensearch_url, "--model", own[1], "--copy-to", name, "--alias", alias)
    shop.engine.drop(shop.name)
    assert "is not there any more" in run("detach", name, opensearch_url, status=2).output
