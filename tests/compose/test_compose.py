"""Test ``docker compose up`` with real containers, if Docker or podman is installed."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from containers import Containers, NoContainers, find_containers, opensearch_image, python_image
from native_plugin import plugin_archive
from node_releases import NEWEST, NodeUnavailable
from ports import free_ports

ROOT = Path(__file__).parents[2]
PLUGIN_IMAGE = "deploy/opensearch/Dockerfile"
COPIED = ("docker-compose.yml", "Dockerfile", ".dockerignore", "pyproject.toml", "requirements-core.lock")
KEY = f"rsf_{secrets.token_hex(32)}"
MAX_IMAGE_BYTES = 200e6


@dataclass
class Composed:
    """The services that docker-compose.yml started, and the URLs of two of them."""

    containers: Containers
    folder: Path
    opensearch: str
    resift: str

    def shell(self, service: str, script: str) -> str:
        """Return the output of a script in a service's container. The script may fail."""
        container = self.containers.of_service(self.folder, service)
        return self.containers.run("exec", container, "sh", "-c", script, check=False).strip()


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    """Start all services in a copy of this repository, on free ports."""
    # The folder's name is the name of the project.
    folder = tmp_path_factory.mktemp(f"resift{uuid.uuid4().hex[:8]}", numbered=False)
    try:
        containers = find_containers(tmp_path_factory.mktemp("engine"))
        compose, dockerfile = ((ROOT / name).read_text("utf-8") for name in COPIED[:2])
        (base,) = re.findall(r"^FROM (\S+) AS base$", dockerfile, re.MULTILINE)
        with_plugin = (ROOT / PLUGIN_IMAGE).read_text("utf-8")
        (opensearch_base,) = re.findall(r"^FROM (\S+)$", with_plugin, re.MULTILINE)
        python, opensearch = python_image(containers, base), opensearch_image(containers, opensearch_base)
        archive = plugin_archive(NEWEST)
    except (NoContainers, NodeUnavailable) as error:
        pytest.skip(f"needs containers: {error}")
    for name in (*COPIED, "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    for package in ("resift", "resift_lab"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    ports = dict(zip(("9200", "8080"), free_ports(2), strict=True))
    (folder / "Dockerfile").write_text(dockerfile.replace(base, python))
    for path in (folder / PLUGIN_IMAGE, folder / f"build/native/resift-{NEWEST}.zip"):
        path.parent.mkdir(parents=True)
    (folder / PLUGIN_IMAGE).write_text(with_plugin.replace(opensearch_base, opensearch))
    shutil.copy(archive, folder / f"build/native/resift-{NEWEST}.zip")
    published = re.sub(r"127\.0\.0\.1:(\d+):", lambda match: f"127.0.0.1:{ports[match[1]]}:", compose)
    (folder / "docker-compose.yml").write_text(published)
    containers.environment["RESIFT_API_KEY"] = KEY
    try:
        containers.composed(folder, "build")
        for service in ("opensearch", "resift"):
            containers.composed(folder, "up", "-d", service)
            containers.wait_until_healthy(containers.of_service(folder, service))
        containers.composed(folder, "up", "-d", "setup")
        setup = containers.of_service(folder, "setup")
        assert containers.run("wait", setup).strip() == "0", containers.run("logs", setup, check=False)
        yield Composed(containers, folder, *(f"http://127.0.0.1:{port}" for port in ports.values()))
    finally:
        containers.composed(folder, "down", "-v")
        # Docker and podman name images differently. Their layers stay cached for the next build.
        images = [
            f"{folder.name}{between}{service}" for between in "-_" for service in ("opensearch", "resift", "setup")
        ]
        containers.run("rmi", "-f", *images, check=False)


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    """Return the response to a request with the API key."""
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {KEY}"}
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers)
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.load(response)


def test_a_session_changes_a_search_of_the_cluster(composed: Composed) -> None:
    search = f"{composed.opensearch}/resift-demo/_search?search_pipeline=resift-resift-demo"
    body = {"query": {"match": {"text": "divorce"}}, "ext": {"resift": {"session": "anna"}}}
    before = [hit["_id"] for hit in ask(search, body)["hits"]["hits"]]
    marked = {"session": "anna", "index": "resift-demo", "query": "divorce", "relevant": [before[-1]]}
    assert ask(f"{composed.resift}/v1/feedback", marked)["steps"] == 1
    # On a busy machine, the cluster's request to the service may time out. The search then runs unchanged.
    deadline = time.monotonic() + 120
    while "matched_queries" not in (hits := ask(search, body)["hits"]["hits"])[0] and time.monotonic() < deadline:
        time.sleep(1)
    assert (hits[0]["_id"], hits[0]["matched_queries"]) == (before[-1], ["resift"])


def test_the_image_is_small_and_its_container_may_do_little(composed: Composed) -> None:
    containers = composed.containers
    container = json.loads(containers.run("inspect", containers.of_service(composed.folder, "resift")))[0]
    (image,) = json.loads(containers.run("image", "inspect", container["Image"]))
    assert image["Size"] <= MAX_IMAGE_BYTES
    assert composed.shell("resift", "id -u") == "1000"
    assert "Read-only" in composed.shell("resift", "touch /opt/resift/x")
    assert composed.shell("resift", "for one in gcc cc pip apt dpkg perl; do command -v $one; done") == ""
    assert composed.shell("resift", "touch /data/x /tmp/x && echo written") == "written"
