"""Tests of a second model in a cluster: it must not replace the model that other attached indices need."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from attached_index import Index, other, own, run, shop
from click.testing import CliRunner
from listening import listening
from opensearch_fixture import service_host
from test_attach_models import QUERY, Served, old, write
from waiting import until

import resift
from resift import Model
from resift.cli.main import main
from resift.plugin.cluster.installation import find_installations
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.search_status import search_rows
from resift.reranker import Config, create_app

__all__ = ["old", "other", "own", "shop"]


@pytest.fixture
def second(cluster: OpenSearchEngine) -> Iterator[Index]:
    """Yield another index. It is deleted at the end."""
    with closing(Index(cluster)) as index:
        yield index


def install(old: Served, url: str, folder: str, *flags: str, status: int = 0) -> str:
    """Run ``resift install`` for a model in the existing installation, and return its output."""
    command = ["install", "--name", old.installer.name, "--model", folder, "--engine", url, *flags]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == status, result.output
    return result.output


def problems(old: Served, url: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the rows of ``resift doctor`` with advice, by kind and name."""
    result = CliRunner().invoke(main, ["doctor", "--name", old.installer.name, "--engine", url, "--json"])
    assert result.exit_code in (0, 3), result.output
    return {(row["kind"], row["name"]): row for row in json.loads(result.stdout)["parts"] if row["fix"]}


def is_rewritten(index: Index, **params: str) -> bool:
    """Return whether Resift rewrites a search of an index. On a busy machine, the first search may be plain."""

    def follows() -> bool:
        hits = index.cluster.request("POST", f"/{index.name}/_search", QUERY, **params)["hits"]["hits"]
        return bool(hits) and all("resift" in hit.get("matched_queries", ()) for hit in hits)

    return until(follows)


def test_the_commands_of_attach_install_a_second_model_beside_the_first(
    shop: Index,
    second: Index,
    old: Served,
    other: tuple[Model, str],
    opensearch_url: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    model, folder = other
    run("attach", shop.name, opensearch_url, "--model", old.folder, "--default-pipelines")
    told = run("attach", second.name, opensearch_url, "--model", folder).output
    (command,) = re.findall("next: .* and resift (install .*) --service URL, once for the cluster", told)
    name = command.rpartition("--name ")[2]
    app = create_app(Config(store=str(tmp_path / "sessions.db")), engine=shop.engine, model=model)
    with listening(app, service_host(request.config)) as url:
        flags = ["--service", url, "--yes", "--engine", opensearch_url]
        installed = CliRunner().invoke(main, [*command.split(), *flags])
        assert installed.exit_code == 0, installed.output
        try:
            assert is_rewritten(shop)
            assert is_rewritten(second, search_pipeline=f"resift-{second.name}")
            assert (
                f"searches through resift-{second.name} are rewritten"
                in run("attach", second.name, opensearch_url, "--model", folder).output
            )
            assert not {("index", shop.name), ("index", second.name)} & problems(old, opensearch_url).keys()
            run("detach", second.name, opensearch_url)
        finally:
            resift.uninstall(opensearch_url, name=name).run()
    run("detach", shop.name, opensearch_url)


def test_the_model_of_an_attached_index_is_not_replaced_silently(
    shop: Index, second: Index, old: Served, other: tuple[Model, str], opensearch_url: str
) -> None:
    name, folder, installed = shop.name, other[1], find_installations(shop.cluster)[old.installer.name]
    run("attach", name, opensearch_url, "--model", old.folder, "--default-pipelines")
    assert ("index", name) not in problems(old, opensearch_url)

    told = run("attach", second.name, opensearch_url, "--model", folder).output
    assert "note        other indices use the model of the installed service" in told
    both = f"resift serve --model {folder} --port PORT and resift install --model {folder} --name resift --service URL"
    assert f"next: a second service, beside the service that other indices need: {both}" in told

    for flags in ([], ["--settings"]):
        refused = install(old, opensearch_url, folder, *flags, status=2)
        assert f"would end the rewriting of searches of {name}, and the encoding of their new documents" in refused
        assert f"Replace the model that {name} need?" in refused
        assert "not confirmed: nothing was changed" in refused
        assert "expected: y, or --yes" in refused
        assert find_installations(shop.cluster)[old.installer.name] == installed
    assert is_rewritten(shop)

    install(old, opensearch_url, folder, "--yes")
    write(shop, 10_001)  # without a vector, which is the smaller problem
    rows = problems(old, opensearch_url)
    row = rows["index", name]
    assert "which no installation serves: searches are not rewritten, and new documents get no vector" in row["state"]
    assert row["fix"].startswith("resift serve and resift install --name NAME, both with --model DIR of that model")
    pipeline = rows["ingest pipeline", f"resift-{name}"]
    assert pipeline["state"].endswith(f", but index.final_pipeline of index {name} is resift-{name}")
    assert pipeline["fix"] == f"a service with the model of {name}, or resift detach {name}"

    install(old, opensearch_url, old.folder, "--yes")
    run("attach", name, opensearch_url, "--model", old.folder, "--default-pipelines")
    assert not {("index", name), ("ingest pipeline", f"resift-{name}")} & problems(old, opensearch_url).keys()
    for index in (second.name, name):
        run("detach", index, opensearch_url)


def test_an_alias_that_moves_to_an_index_without_vectors_is_reported(
    shop: Index, second: Index, old: Served, opensearch_url: str
) -> None:
    alias = f"{shop.name}-odd"
    run("attach", alias, opensearch_url, "--model", old.folder)
    assert not any(row.kind == "index" for row in search_rows(shop.cluster))
    move = [{"remove": {"index": shop.name, "alias": alias}}, {"add": {"index": second.name, "alias": alias}}]
    shop.cluster.request("POST", "/_aliases", {"actions": move})
    (row,) = (row for row in search_rows(shop.cluster) if row.kind == "index")
    assert row.name == second.name
    assert row.state == (
        f"has no vectors of model {old.model.hash}, with which {alias} is attached: sessions use words alone"
    )
    assert row.fix == f"resift attach {alias} --vectors --model DIR of that model"
    run("attach", alias, opensearch_url, "--model", old.folder)
    assert not any(row.kind == "index" for row in search_rows(shop.cluster))
    run("detach", alias, opensearch_url)
    run("detach", shop.name, opensearch_url)
