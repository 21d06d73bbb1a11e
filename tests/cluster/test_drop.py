"""Tests of ``resift drop``: an index is deleted after confirmation, and hidden indices are refused."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from engine_documents import documents

from resift import Model
from resift.cli.main import main
from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionRecord
from resift.errors import IndexNotFound
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.index_pipelines import pipeline_kinds
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.service.connect import open_session_store


def drop(*arguments: str, status: int, input: str = "") -> Result:
    """Run ``resift drop``, and check its exit status."""
    result = CliRunner().invoke(main, ["drop", *arguments], input=input)
    assert result.exit_code == status, result.output
    return result


def test_nothing_is_deleted_without_confirmation(here: Path, engine: Engine, engine_url: str, indexed: str) -> None:
    for answer in ("", "\n", "n\n", "no\n"):
        result = drop(indexed, "--engine", engine_url, status=2, input=answer)
        assert f"Delete index {indexed} with its 5 documents?" in result.stderr
        assert "--yes" in result.stderr
        assert engine.info(indexed).fields


def test_confirmation_deletes_only_the_named_index(
    here: Path, engine: Engine, engine_url: str, indexed: str, model: Model
) -> None:
    where = ["--engine", engine_url]
    engine.create(f"{indexed}-2", ["title", "text"], model)
    said = drop(indexed, *where, status=0, input="y\n").stdout
    assert f"{indexed} deleted, 5 documents" in said
    with pytest.raises(IndexNotFound):
        engine.info(indexed)
    assert "0 documents" in drop(f"{indexed}-2", *where, "--yes", status=0).stdout
    assert indexed in drop(indexed, *where, "--yes", status=2).stderr


@pytest.mark.parametrize("name", [".kibana", "*", "_all", "news,docs", "-news", "", "<x-{now}>", "resift_sessions"])
def test_reserved_names_cannot_be_deleted(here: Path, engine_url: str, name: str) -> None:
    assert "expected: " in drop("--engine", engine_url, "--yes", "--", name, status=2).stderr


@pytest.fixture
def prefix(cluster: OpenSearchEngine) -> Iterator[str]:
    """Yield a unique prefix. Indices with this prefix are deleted at the end."""
    name = f"resift-test-{uuid.uuid4().hex[:8]}"
    yield name
    for kind in ("sessions", "docs", "closed"):
        cluster.drop_if_exists(f"{name}-{kind}")


def test_aliases_and_hidden_and_closed_indices_stay(
    here: Path, cluster: OpenSearchEngine, opensearch_url: str, model: Model, prefix: str
) -> None:
    # this index may store the sessions of another service
    store = open_session_store(opensearch_url, f"{prefix}-sessions")
    assert store.write("anna", SessionRecord({"a": 1}, 2e9, ["news"]))
    for kind in ("docs", "closed"):
        cluster.create(f"{prefix}-{kind}", ["title", "text"], model)
    cluster.bulk(f"{prefix}-docs", documents(model))
    cluster.client.indices.put_alias(index=f"{prefix}-docs", name=f"{prefix}-alias")
    cluster.client.indices.close(index=f"{prefix}-closed")
    for kind in ("sessions", "alias", "closed"):
        refused = drop(f"{prefix}-{kind}", "--engine", opensearch_url, "--yes", status=2).stderr
        assert "is an alias, or a hidden or closed index" in refused
    assert store.read("anna") is not None
    store.close()
    drop(f"{prefix}-docs", "--engine", opensearch_url, "--yes", status=0)


def test_dropping_an_index_deletes_its_pipelines(
    here: Path, cluster: OpenSearchEngine, opensearch_url: str, model: Model, prefix: str
) -> None:
    index, other, rest = f"{prefix}-docs", f"{prefix}-closed", Cluster(cluster)
    installer = Installer(cluster, Installation(f"own-{prefix}", model, ("text",), "http://127.0.0.1:9"))
    for name in (index, other):
        cluster.create(name, ["title", "text"], model)
    installer.install()
    try:
        cluster.client.indices.put_settings(index=other, body={"index.final_pipeline": f"resift-{index}"})
        dropped = drop(index, "--engine", opensearch_url, "--yes", status=0).stdout
        assert f"search pipeline resift-{index} removed\n" in dropped
        assert f"ingest pipeline resift-{index} stays: index.final_pipeline of index {other} names it" in dropped
        assert pipeline_kinds(rest, index) == ["ingest"]
        assert pipeline_kinds(rest, other) == ["search", "ingest"]
        said = drop(other, "--engine", opensearch_url, "--yes", status=0).stdout
        assert all(f"{kind} pipeline resift-{other} removed" in said for kind in ("search", "ingest"))
        assert pipeline_kinds(rest, other) == []
        left = [one.name for one in installer.resources() if one.state() == "ok"]
        assert f"own-{prefix}-ingest" in left, "what is the installation's stays"
    finally:
        removed = installer.uninstall()
    assert f"remove ingest pipeline resift-{index}" in removed
