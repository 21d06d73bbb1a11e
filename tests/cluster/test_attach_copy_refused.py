"""What cannot be copied, is refused before anything is changed; and a copy for another model."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from attached_index import Index, assert_right, other, own, run
from test_attach_copy import Behind, contents

from resift import Model
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

    assert "expected: --alias" in message("--copy-to", name)
    assert f"--alias {alias} without --copy-to" in message("--alias", alias)
    assert "'a b' is not a valid index name" in message("--copy-to", "a b", "--alias", alias)
    assert "'A' is not a valid index name" in message("--copy-to", name, "--alias", "A")
    assert "one of them" in message("--copy-to", name, "--alias", alias, "--field", "v")
    assert "exists, and is no copy" in message("--copy-to", shop.name, "--alias", alias)
    assert "is the name of an index" in message("--copy-to", name, "--alias", name)
    found = message("--copy-to", name, "--alias", shop.name)
    assert "is the name of an index, and cannot be an alias beside that" in found
    assert f"POST /_aliases adds one to {shop.name}" in found
    assert shop.cluster.find(f"/{name}") is None


def test_indices_and_aliases_of_somebody_else(
    shop: Index, own: tuple[Model, str], opensearch_url: str, cluster: OpenSearchEngine
) -> None:
    stranger = Index(cluster, count=1)
    try:
        flags = ("--copy-to", stranger.name, "--alias", f"{shop.name}-odd")
        assert "exists, and is no copy" in refused(shop, opensearch_url, own[1], *flags)
        flags = ("--copy-to", f"{shop.name}-copy", "--alias", f"{stranger.name}-odd")
        assert f"stands for {stranger.name}, not for {shop.name}" in refused(shop, opensearch_url, own[1], *flags)
    finally:
        stranger.close()


@pytest.mark.parametrize(
    ("gives", "told"),
    [
        ({"aliases": {"shop-of-a-template": {}}}, "-copy' shop-of-a-template"),
        ({"mappings": {"properties": {"more": {"type": "keyword"}}}}, "-copy' properties"),
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
    assert "writes      get 403 (cluster_block_exception) while they are copied" in output
    assert f"{shop.name}-odd: stays with {shop.name}" in output
    assert json.loads(run("attach", shop.name, opensearch_url, *flags, "--json").output)["documents"] == 40
    assert (shop.mapping(), shop.settings(), shop.aliases()) == before
    assert shop.cluster.find(f"/{name}") is None


def test_a_copy_for_another_model_and_what_becomes_of_it(
    shop: Index, own: tuple[Model, str], other: tuple[Model, str], opensearch_url: str
) -> None:
    name, alias = f"{shop.name}-copy", f"{shop.name}-new"
    copy, flags = Behind(shop, name), ("--copy-to", name, "--alias", alias)
    before = contents(shop)
    run("attach", shop.name, opensearch_url, "--model", own[1])
    run("attach", shop.name, opensearch_url, "--model", other[1], *flags)
    assert contents(copy) == contents(shop)
    assert_right(copy, other[0], list(copy.engine.info(name).fields), "resift_vector")
    assert_right(shop, own[0], list(shop.engine.info(shop.name).fields))
    assert set(copy.aliases()[name]["aliases"]) == {alias}
    # it is not made again while it serves
    assert "exists, and is no copy that was interrupted" in refused(shop, opensearch_url, own[1], *flags)
    for one in (alias, shop.name):
        run("detach", one, opensearch_url)
    assert contents(copy) == contents(shop) == before
    assert not any("resift_vector" in text for text in [*copy.documents().values(), *shop.documents().values()])
