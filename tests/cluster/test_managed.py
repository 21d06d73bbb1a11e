"""Tests of a cluster that Amazon manages: installing, attaching and searching without access to cluster settings."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from listening import listening
from managed_front import ACCESS, REGION, SECRET, Front, ManagedDomain
from node_security import Certificates

from resift import Model
from resift.cli.main import main
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.settings import PRIVATE_ADDRESSES, TRUSTED_ADDRESSES
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.reranker import Config, create_app

ARN = f"arn:aws:secretsmanager:{REGION}:123456789012:secret:resift-AbCdEf"
ROLE = "arn:aws:iam::123456789012:role/resift-reads-its-key"
KEY = "rsf_" + "k" * 43


def resift(*arguments: str) -> Result:
    """Run a command as an operator types it."""
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def trusting(cluster: OpenSearchEngine) -> Iterator[Cluster]:
    """Give the node the settings that Amazon presets: endpoints of customers may be called."""
    rest = Cluster(cluster)
    before = {name: rest.persistent_settings().get(name) for name in (PRIVATE_ADDRESSES, TRUSTED_ADDRESSES)}
    rest.update_settings({PRIVATE_ADDRESSES: "true", TRUSTED_ADDRESSES: ["^http://127\\.0\\.0\\.1:.*$"]})
    yield rest
    rest.update_settings(before)


@pytest.fixture
def service(opensearch_url: str, packaged: Model, tmp_path: Path) -> Iterator[str]:
    """Yield the address of a service with a key, without TLS."""
    config = Config(engine=opensearch_url, store=str(tmp_path / "sessions.db"), api_key=KEY)
    with listening(create_app(config, model=packaged)) as url:
        yield url


@pytest.fixture
def fronts(
    trusting: Cluster, opensearch_url: str, service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[ManagedDomain, Front]]:
    """Yield the domain and the HTTPS address of the service. The environment variables of AWS are set."""
    pytest.importorskip("botocore")
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    made = Certificates.make(tmp_path)
    files = tmp_path / "node.pem", tmp_path / "node.key"
    endpoint = Front(service, *files)
    domain = ManagedDomain(opensearch_url, *files, {ARN: {"resift_api_key": KEY}}, {endpoint.url: service})
    settings = {
        "OPENSEARCH_AWS_REGION": REGION,
        "AWS_ACCESS_KEY_ID": ACCESS,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "OPENSEARCH_CA_CERTS": made.path("ca.pem"),
        "SSL_CERT_FILE": made.path("ca.pem"),
        "OPENSEARCH_URL": domain.url,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    yield domain, endpoint
    domain.close()
    endpoint.close()


def test_a_managed_domain_is_used_without_its_settings(
    fronts: tuple[ManagedDomain, Front], cluster: OpenSearchEngine
) -> None:
    domain, endpoint = fronts
    name = f"resift-{uuid.uuid4().hex[:8]}"
    index = f"{name}-blog"
    cluster.client.index(index=index, id="1", body={"title": "fire in the hills"}, refresh="true")
    cluster.client.index(index=index, id="2", body={"title": "fire of the army, ä%41"}, refresh="true")
    managed = ["--managed", "aws", "--key", ARN, "--role", ROLE]
    try:
        refused = resift("install", "--name", name, "--settings")
        assert "resift install --managed aws" in refused.stderr
        assert "resift install --managed aws" in resift("attach", index, "--yes").stderr
        plain = resift("install", "--name", name, *managed)
        assert "call only HTTPS" in plain.stderr

        installed = resift("install", "--name", name, *managed, "--service", endpoint.url)
        assert installed.exit_code == 0, installed.output
        assert "cluster setting" not in installed.output
        attached = resift("attach", index, "--yes")
        assert attached.exit_code == 0, attached.output
        assert "next: start resift serve" not in attached.output  # the domain has called the service with its key
        marks = {"session": "anna", "index": index, "query": "fire", "relevant": ["2"]}
        assert _post(endpoint, "/v1/feedback", marks)["session"] == "anna"
        body = {"query": {"match": {"title": "fire"}}, "ext": {"ml_inference": {"session": "anna"}}}
        found = cluster.client.search(index=index, body=body, params={"search_pipeline": f"resift-{index}"})
        hits = found["hits"]["hits"]
        assert (hits[0]["_id"], hits[0]["matched_queries"]) == ("2", ["resift"])

        again = resift("install", "--name", name)
        assert (again.exit_code, again.output) == (0, "nothing to do\n")
        checked = resift("doctor", "--json", "--name", name)
        parts = json.loads(checked.stdout)["parts"]
        assert [part for part in parts if part["fix"] and part["kind"] != "index"] == []
        asked = {"cluster": domain.url, "service": endpoint.url, "connector": endpoint.url}
        assert {part["kind"]: part["name"] for part in parts if part["kind"] in asked} == asked
    finally:
        assert resift("detach", index, "--yes").exit_code == 0
        assert resift("uninstall", "--yes", "--name", name).exit_code == 0
        cluster.client.indices.delete(index=index)
    assert domain.settings_asked("GET", "PUT") == []
    assert domain.refused == []


def _post(endpoint: Front, path: str, body: dict[str, Any]) -> Any:
    headers = {"Content-Type": "application/json", "X-Api-Key": KEY}
    status, answer = endpoint.answer("POST", path, headers, json.dumps(body).encode())
    assert status == 200, answer
    return json.loads(answer)


def test_the_front_refuses_what_such_domains_refuse(fronts: tuple[ManagedDomain, Front]) -> None:
    """Check the front itself, so that the test above is meaningful."""
    domain, _ = fronts
    asked = OpenSearchEngine(domain.url).client.transport.perform_request
    for method, path, body in (
        ("PUT", "/_cluster/settings", {"persistent": {PRIVATE_ADDRESSES: "true"}}),
        ("POST", "/_plugins/_ml/connectors/_create", {"credential": {"key": KEY}, "actions": []}),
        ("POST", "/_plugins/_ml/connectors/_create", {"credential": {"secretArn": ARN}, "actions": []}),
    ):
        with pytest.raises(Exception, match="403"):
            asked(method, path, body=body)
    assert domain.answer("GET", "/", {}, b"")[0] == 403
    assert domain.settings_asked("PUT") == [("PUT", "/_cluster/settings")]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--managed", "aws"], "--key must be the ARN"),
        (["--managed", "aws", "--key", KEY], "--key must be the ARN"),
        (["--managed", "aws", "--key", ARN], "--role must be the ARN"),
        (["--managed", "aws", "--key", ARN, "--role", "arn:aws:iam::1:user/anna"], "user/anna is not the ARN"),
        (["--managed", "azure"], "is not one of 'aws', 'other'"),
    ],
)
def test_what_a_managed_installation_needs(
    cluster: OpenSearchEngine, opensearch_url: str, options: list[str], told: str
) -> None:
    refused = resift("install", "--engine", opensearch_url, *options)
    assert refused.exit_code == 2
    assert told in refused.stderr
    assert KEY not in refused.stderr
