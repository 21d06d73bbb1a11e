"""Tests of the record of an installation in the cluster, of its status, and of reasons that prevent its removal."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from waiting import until

from resift import Model
from resift.cli.main import main
from resift.errors import BadInput, EngineError, NotFound
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation, find_installations
from resift.plugin.cluster.remote_model import DEPLOYS_LAZILY
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.doctor import status_rows
from resift.plugin.operations.status_row import StatusRow

URL = "http://127.0.0.1:18090"


@pytest.fixture(scope="module")
def rest(cluster: OpenSearchEngine) -> Cluster:
    """Return a client for the REST requests of installations."""
    return Cluster(cluster)


@pytest.fixture(scope="module")
def installed(cluster: OpenSearchEngine, packaged: Model) -> Iterator[Installer]:
    """Yield an installation with the packaged model, whose service does not run."""
    installer = Installer(cluster, Installation(f"resift-{uuid.uuid4().hex[:8]}", packaged, ("text",), URL))
    installer.install()
    yield installer
    installer.uninstall()


def test_options_are_remembered_and_can_be_overridden(
    here: Path,
    opensearch_url: str,
    cluster: OpenSearchEngine,
    rest: Cluster,
    model: Model,
    packaged: Model,
    installed: Installer,
) -> None:
    name, folder = f"resift-{uuid.uuid4().hex[:8]}", str(model.save(here / "small"))

    def resift(command: str, *flags: str, status: int = 0) -> str:
        agreed = ["--yes"] if command == "install" else []
        result = CliRunner().invoke(main, [command, "--engine", opensearch_url, *agreed, *flags])
        assert result.exit_code == status, result.output
        return result.output

    def own(status: str) -> set[str]:
        # no service runs
        others = ("service", "cluster", "clock", "connector")
        return {part["state"] for part in json.loads(status)["parts"] if part["kind"] not in others}

    resift("install", "--name", name, "--model", folder, "--fields", "body,head", "--service", URL)
    shutil.rmtree(folder)  # the cluster's record of the model is sufficient
    try:
        assert resift("install", "--name", name) == "nothing to do\n"
        assert own(resift("doctor", "--name", name, "--json", status=3)) == {"ok"}
        changed = resift("install", "--name", name, "--service", "http://127.0.0.1:18091")
        assert f"change the service's address from {URL} to http://127.0.0.1:18091" in changed
        assert "fields" not in changed
        assert resift("install", "--name", name) == "nothing to do\n"
        found = find_installations(rest)[name]
        assert (found.fields, found.url, found.model.hash) == (("body", "head"), "http://127.0.0.1:18091", model.hash)
        ambiguous = CliRunner().invoke(main, ["uninstall", "--engine", opensearch_url])
        assert ambiguous.exit_code
        assert name in ambiguous.output
        assert installed.name in ambiguous.output
        unconfirmed = CliRunner().invoke(main, ["uninstall", "--engine", opensearch_url, "--name", name])
        assert (unconfirmed.exit_code, "nothing was changed" in unconfirmed.output) == (2, True)
        assert name in find_installations(rest)
    finally:
        resift("uninstall", "--yes", "--name", name)
    assert name not in find_installations(rest)
    assert resift("uninstall", "--name", name) == "nothing to do\n"


def test_a_model_that_deploys_when_first_used(rest: Cluster, installed: Installer) -> None:
    id = rest.ml_objects("models", f"{installed.name}-embed")[0][0]
    rest.request("POST", f"/_plugins/_ml/models/{id}/_undeploy")
    # the node may store the state after its response
    assert until(lambda: rest.request("GET", f"/_plugins/_ml/models/{id}")["model_state"] == "UNDEPLOYED")
    state = {row.name: row for row in status_rows(installed)}[f"{installed.name}-embed"]
    assert (state.state, state.in_order) == (DEPLOYS_LAZILY, True)
    assert installed.install() == []

    def deploy_again() -> bool:
        try:
            rest.request("POST", f"/_plugins/_ml/models/{id}/_deploy")
        except EngineError as error:  # the node may still be storing the state of the undeployed model
            if "version conflict" not in error.message:
                raise
            return False
        return True

    assert until(deploy_again)


SEARCHES = {"index.search.default_pipeline": "hybrid"}
USES: list[tuple[str, str, dict[str, Any]]] = [
    ("/_index_template/NAME", "index template", {"index_patterns": ["NAME*"], "template": {"settings": SEARCHES}}),
    (
        "/_component_template/NAME",
        "component template",
        {"template": {"settings": {"index": {"final_pipeline": "ingest"}}}},
    ),
    ("/_template/NAME", "legacy template", {"index_patterns": ["NAME*"], "settings": {"default_pipeline": "ingest"}}),
    ("/_ingest/pipeline/NAME", "ingest pipeline", {"processors": [{"pipeline": {"name": "ingest"}}]}),
    ("/NAME", "index", {"settings": {"index.hidden": True, "index.final_pipeline": "ingest"}}),
]


@pytest.mark.parametrize(("path", "kind", "body"), USES, ids=[use[1] for use in USES])
@pytest.mark.filterwarnings("ignore:legacy template")
def test_uninstall_refuses_while_something_names_a_pipeline(
    rest: Cluster, installed: Installer, path: str, kind: str, body: dict[str, Any]
) -> None:
    name = f"uses-{uuid.uuid4().hex[:8]}"

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: named(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [named(inner) for inner in value]
        if value in ("ingest", "hybrid"):
            return f"{installed.name}-{value}"
        return value.replace("NAME", name) if isinstance(value, str) else value

    path = path.replace("NAME", name)
    rest.request("PUT", path, named(body))
    try:
        with pytest.raises(EngineError, match=f"of {kind} {name} is {installed.name}-"):
            installed.uninstall()
    finally:
        rest.request("DELETE", path)
    assert installed.install() == []


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://h", "http://anna:secret@h:1", "http://"])
def test_the_services_address_is_checked(cluster: OpenSearchEngine, model: Model, url: str) -> None:
    with pytest.raises(BadInput) as caught:
        Installer(cluster, Installation("resift", model, ("text",), url))
    assert "secret" not in f"{caught.value} {caught.value.to_dict()}"


def test_steps_as_json(here: Path, opensearch_url: str, installed: Installer) -> None:
    where = ["--engine", opensearch_url, "--name", installed.name, "--json"]
    for flags, steps in ([], []), (["--fields", "body", "--dry-run"], ["change the fields from text to body"]):
        result = CliRunner().invoke(main, ["install", *where, *flags])
        assert result.exit_code == 0, result.output
        report = json.loads(result.stdout)
        assert report["dry_run"] == ("--dry-run" in flags)
        assert set(report["steps"]) >= set(steps)
        assert bool(report["steps"]) == bool(steps)


def test_an_unknown_installation_is_not_listed(rest: Cluster) -> None:
    assert "resift-never" not in find_installations(rest)
    with pytest.raises(NotFound):
        rest.request("GET", "/_index_template/resift-never")


@pytest.fixture
def fresh(cluster: OpenSearchEngine) -> Iterator[str]:
    """Yield the name of an index, which is deleted at the end if it exists."""
    name = f"fresh-{uuid.uuid4().hex[:8]}"
    yield name
    cluster.drop_if_exists(name)


def pipeline_row(installer: Installer, index: str) -> StatusRow | None:
    """Return the status row of the search pipeline of an index."""
    own = f"resift-{index}"
    return next((row for row in status_rows(installer) if (row.kind, row.name) == ("search pipeline", own)), None)


def test_resift_index_makes_the_pipeline_of_a_new_index(
    here: Path, opensearch_url: str, rest: Cluster, installed: Installer, fresh: str, model: Model
) -> None:
    (here / "docs.jsonl").write_text('{"id": "1", "text": "fire"}\n')
    other = str(model.save(here / "small"))

    def index(name: str, *flags: str) -> str:
        command = ["index", "docs.jsonl", "--index", name, "--engine", opensearch_url, *flags]
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 0, result.output
        return result.output

    own = f"resift-{fresh}"
    assert f"search pipeline {own} created" in index(fresh)
    assert (row := pipeline_row(installed, fresh)) is not None
    assert row.state == "fails open"  # the service does not run
    rest.request("DELETE", f"/_search/pipeline/{own}")
    # the index is not new, and a user may have removed the pipeline on purpose
    assert "search pipeline" not in index(fresh)
    assert (row := pipeline_row(installed, fresh)) is not None
    assert (row.state, row.fix) == ("missing", "resift install")
    installed.engine.drop(fresh)
    assert own not in index(fresh, "--model", other)
    assert pipeline_row(installed, fresh) is None


def test_an_install_that_is_refused_leaves_the_settings_of_the_cluster(
    cluster: OpenSearchEngine, rest: Cluster, installed: Installer
) -> None:
    before = rest.persistent_settings()
    another = Installer(
        cluster, Installation(f"{installed.name}-b", installed.model, ("text",), "http://127.0.0.1:18091")
    )
    # the index pattern NAME-* of the first installation's template also covers that of the second
    with pytest.raises(EngineError, match="index template"):
        another.install()
    assert rest.persistent_settings() == before
    another.uninstall()


def test_a_pipeline_of_a_deleted_index_is_reported(
    cluster: OpenSearchEngine, rest: Cluster, installed: Installer, packaged: Model, fresh: str
) -> None:
    own = f"resift-{fresh}"
    path = f"/_search/pipeline/{own}"
    cluster.create(fresh, ["text"], packaged)
    assert f"create search pipeline {own}" in installed.install()
    setting = {"index.search.default_pipeline": own}
    cluster.client.indices.put_settings(index=fresh, body=setting)
    with pytest.raises(EngineError, match=f"index.search.default_pipeline of index {fresh} is {own}") as refused:
        installed.uninstall()
    assert refused.value.expected == f"resift detach {fresh}, or unset it first"
    # a search that names the pipeline still works, because the pipeline stays
    cluster.drop_if_exists(fresh)
    assert (row := pipeline_row(installed, fresh)) is not None
    assert (row.state, row.fix) == (f"no index {fresh}", f"resift detach {fresh}")
    (left,) = (row for row in status_rows(installed) if (row.kind, row.name) == ("ingest pipeline", own))
    assert left.state == f"no index {fresh} with vectors of this model"
    assert left.fix == f"DELETE /_ingest/pipeline/{own}"
    assert not any(own in step for step in installed.install())
    removal = f"remove search pipeline {own}, which rewrites searches of {fresh}: clients must first stop sending"
    assert any(step.startswith(f"{removal} search_pipeline={own}") for step in installed.uninstall(dry_run=True))
    rest.request("DELETE", path)
    assert pipeline_row(installed, fresh) is None


def test_what_else_has_the_name_of_a_pipeline_is_left_alone(
    cluster: OpenSearchEngine, rest: Cluster, installed: Installer, packaged: Model, fresh: str
) -> None:
    path = f"/_search/pipeline/resift-{fresh}"
    cluster.create(fresh, ["text"], packaged)
    installed.install()
    ours = rest.get_or_none(path, f"resift-{fresh}")
    theirs = [{"description": "mine", "request_processors": []}, {**ours, "request_processors": []}]
    for body in theirs:
        rest.request("PUT", path, body)
        assert (row := pipeline_row(installed, fresh)) is not None
        assert row.state == "foreign"
        with pytest.raises(EngineError, match="was not created by Resift"):
            installed.install()
    ours["request_processors"][0]["ml_inference"]["ignore_failure"] = False
    rest.request("PUT", path, ours)
    assert (row := pipeline_row(installed, fresh)) is not None
    assert (row.state, row.fix) == ("changed", "resift install")
    assert f"replace search pipeline resift-{fresh} (changed)" in installed.install()
    rest.request("DELETE", path)


@pytest.mark.parametrize("index", ["hybrid", "rerank", "ingest"])
def test_an_index_with_the_name_of_another_pipeline_has_none(
    here: Path, opensearch_url: str, cluster: OpenSearchEngine, installed: Installer, index: str
) -> None:
    (here / "docs.jsonl").write_text('{"id": "1", "text": "fire"}\n')
    command = ["index", "docs.jsonl", "--index", index, "--engine", opensearch_url]
    try:
        said = CliRunner().invoke(main, command)
        assert (said.exit_code, f"index {index!r} cannot have a pipeline" in said.output) == (0, True)
        assert not any(index in step for step in installed.install())
    finally:
        cluster.drop_if_exists(index)
