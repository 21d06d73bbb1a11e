"""Tests of deploy/: Kubernetes manifests, the systemd unit, Terraform and Docker Compose."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

from resift import __version__
from resift.cli.main import main
from resift.reranker import Config
from resift.schema import fields_of

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
RENDERED = DEPLOY / "kubernetes.yaml"
FOREIGN = {"ServiceMonitor"}
"""Kinds of Prometheus's operator, which are not in Kubernetes' schemas."""


def manifests() -> dict[str, dict[str, Any]]:
    """Return the manifests of the chart with all options enabled, by kind."""
    return {manifest["kind"]: manifest for manifest in yaml.safe_load_all(RENDERED.read_text("utf-8"))}


def test_manifests_are_valid() -> None:
    found = manifests()
    assert set(found) > FOREIGN
    assert {"Deployment", "Service", "NetworkPolicy", "PodDisruptionBudget", "Ingress", "ServiceAccount"} < set(found)
    for kind in set(found) - FOREIGN:
        kubernetes_validate.validate(found[kind], "1.30", strict=True)


def test_the_deployment_is_hardened_and_matches_its_selectors() -> None:
    found = manifests()
    spec = found["Deployment"]["spec"]
    pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"/data", "/tmp"} < {
        one["mountPath"] for one in container["volumeMounts"]
    }  # the only folders that are written to
    selectors = [
        spec["selector"]["matchLabels"],
        found["Service"]["spec"]["selector"],
        found["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        found["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]
    assert all(one.items() <= labels.items() and one for one in selectors)
    known = {f"RESIFT_{name.upper()}" for name in fields_of(Config)} | {"OPENSEARCH_URL", "OPENSEARCH_CA_CERTS"}
    assert {one["name"] for one in container["env"]} <= known
    assert container["image"].endswith(f":{__version__}")
    (way,) = found["ServiceMonitor"]["spec"]["endpoints"]
    assert way["authorization"]["credentials"]["name"], "/metrics wants a key"


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((DEPLOY / "helm" / "resift" / "Chart.yaml").read_text("utf-8"))
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_the_terraform_role_equals_the_printed_role() -> None:
    printed = CliRunner().invoke(main, ["role", "serve", "--indices", "blog"]).stdout
    assert json.loads((DEPLOY / "terraform" / "serve.json").read_text("utf-8")) == json.loads(printed)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = (DEPLOY / "systemd" / "resift.service").read_text("utf-8")
    (tmp_path / "resift.service").write_text(unit.replace("/opt/resift/bin/resift", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "resift.service")], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_containers_of_docker_compose_may_write_to_their_volume_alone() -> None:
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text("utf-8"))["services"]
    service = services["resift"]
    assert (service["read_only"], service["tmpfs"], service["cap_drop"]) == (True, "/tmp", ["ALL"])
    assert service["environment"]["RESIFT_INDEX"] == "resift-demo"
