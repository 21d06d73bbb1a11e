"""Tests of attaching in a cluster without an installation: the plan shows what it installs, and the user must agree."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from attached_index import Index, shop
from click.testing import CliRunner, Result
from cluster_snapshot import snapshot
from fixed_port import alone_at
from opensearchpy import OpenSearch, helpers

import resift
from resift.cli.main import main
from resift.plugin.cluster.settings import PRIVATE_ADDRESSES, TRUSTED_ADDRESSES

__all__ = ["shop"]

ROOT = Path(__file__).parents[2]
# The reader's shell, in an empty environment; it stops the service that it started. The commands are run sooner after
# each other than a person reads the plan, so WAIT waits for the service.
SHELL = """
exec 2>&1
export PIP_NO_COMPILE=1 PIP_DISABLE_PIP_VERSION_CHECK=1  # most of what is installed is never imported
trap 'kill $(jobs -p) 2>/dev/null; wait 2>/dev/null' EXIT
# without a pip of its own, which takes seconds to install
{python} -m venv --without-pip .venv && . .venv/bin/activate
# uv installs the same packages with a fifth of the CPU time of pip, but does not read the configuration of pip
pip() {{
  {python} -m uv pip "$1" --python .venv/bin/python "${{@:2}}" || {python} -m pip --python .venv/bin/python "$@"
}}
"""
WAIT = "for _ in $(seq 1200); do curl -sf http://127.0.0.1:8080/healthz > /dev/null && break; sleep 0.1; done"
# A search does not wait long for a session that is not loaded yet. On a busy machine, the first search may be plain.
REPEATED = """
search() {{
{search}
}}
for _ in $(seq 300); do
  answer=$(search)
  case $answer in *matched_queries*) break ;; esac
  sleep 0.2
done
echo "$answer"
"""
POSTS = {
    "1": ("The strike of the railway workers goes on", [0.9, 0.2, 0.1]),
    "2": ("Nurses end their strike after a week", [0.8, 0.3, 0.1]),
    "3": ("Lightning may strike twice in a thunderstorm", [0.1, 0.9, 0.3]),
    "4": ("A striker scores late, and the match is lost", [0.1, 0.1, 0.9]),
    "5": ("How thunderstorms form, and where to hide from lightning", [0.1, 0.8, 0.4]),
    "6": ("Bread rises in a warm kitchen", [0.3, 0.3, 0.3]),
}


@pytest.fixture(autouse=True)
def bare(shop: Index, opensearch_url: str) -> None:
    """Skip the tests on a cluster in which others may have installed Resift."""
    assert resift.install(opensearch_url).installer.cluster.ml_objects("models", "resift-rewrite") == []


def attach(index: str, url: str, answer: str, *flags: str) -> Result:
    """Attach an index, and answer the question of the command."""
    return CliRunner().invoke(main, ["attach", index, "--engine", url, *flags], input=answer)


@pytest.mark.parametrize("answer", ["n\n", ""])
def test_nothing_is_changed_without_confirmation(shop: Index, opensearch_url: str, answer: str) -> None:
    before = snapshot(shop.cluster), shop.settings(), shop.mapping()
    refused = attach(shop.name, opensearch_url, answer)
    assert refused.exit_code == 2
    assert "install     first, for the service at http://127.0.0.1:8080" in refused.output
    assert "create remote model resift-rewrite" in refused.output
    assert "route       ml_inference of ML Commons, because the nodes lack Resift's plugin" in refused.output
    assert "bin/opensearch-plugin install file:///PATH/resift-" in refused.output
    assert (
        f"set {PRIVATE_ADDRESSES} from false to true: by default, ML Commons refuses private addresses"
        in refused.output
    )
    assert "not confirmed: nothing was changed" in refused.output
    assert (snapshot(shop.cluster), shop.settings(), shop.mapping()) == before


def test_confirmed_changes_are_made_and_undone(shop: Index, opensearch_url: str) -> None:
    before = snapshot(shop.cluster), shop.settings(), shop.mapping()
    done = attach(shop.name, opensearch_url, "y\n")
    assert done.exit_code == 3, done.output  # no service runs yet
    assert "next: start resift serve so that the nodes reach it at http://127.0.0.1:8080" in done.output
    assert "install     first" not in attach(shop.name, opensearch_url, "", "--dry-run").output
    resift.detach(opensearch_url, shop.name).run()
    resift.uninstall(opensearch_url).run()
    assert (snapshot(shop.cluster), shop.settings(), shop.mapping()) == before


def test_doctor_reports_an_unused_cluster_in_one_row(shop: Index, opensearch_url: str) -> None:
    def rows() -> list[tuple[str, str, str]]:
        report = CliRunner().invoke(main, ["doctor", "--engine", opensearch_url, "--json"])
        assert report.exit_code == 3, report.output
        parts = json.loads(report.stdout)["parts"]
        return [(row["kind"], row["state"], row["fix"]) for row in parts if row["kind"] not in ("cluster", "clock")]

    state, fix = "Resift is not installed, and no index is attached", "resift attach INDEX, or resift install"
    assert rows() == [("installation", state, fix)]
    resift.attach(opensearch_url, shop.name).run()
    assert len(rows()) > 1
    resift.detach(opensearch_url, shop.name).run()
    resift.uninstall(opensearch_url).run()
    assert rows() == [("installation", state, fix)]


def test_install_asks_before_it_changes_settings_of_the_cluster(shop: Index, opensearch_url: str) -> None:
    before = snapshot(shop.cluster)
    refused = CliRunner().invoke(main, ["install", "--engine", opensearch_url], input="n\n")
    assert (refused.exit_code, snapshot(shop.cluster)) == (2, before)
    assert f"would set {PRIVATE_ADDRESSES} from false to true: " in refused.output
    assert f"would append ^http://127\\.0\\.0\\.1:8080/.*$ to {TRUSTED_ADDRESSES}, which has " in refused.output
    assert "Change these settings of the whole cluster, and do the rest?" in refused.output
    planned = json.loads(
        CliRunner().invoke(main, ["install", "--engine", opensearch_url, "--dry-run", "--json"]).stdout
    )
    assert any("(cluster setting)" in step for step in planned["steps"])


def test_no_question_and_no_change_if_the_settings_suffice(shop: Index, opensearch_url: str) -> None:
    cluster = shop.cluster
    before = {name: cluster.persistent_settings().get(name) for name in (PRIVATE_ADDRESSES, TRUSTED_ADDRESSES)}
    allowed = {PRIVATE_ADDRESSES: "true", TRUSTED_ADDRESSES: ["^https?://127\\.0\\.0\\.1:80.*$"]}
    cluster.update_settings(allowed)
    try:
        done = CliRunner().invoke(main, ["install", "--engine", opensearch_url])
        assert done.exit_code == 0, done.output
        assert "(cluster setting)" not in done.output
        assert cluster.persistent_settings().items() >= allowed.items()
        resift.uninstall(opensearch_url).run()
        assert cluster.persistent_settings().items() >= allowed.items()
    finally:
        cluster.update_settings(before)


@pytest.fixture
def blog(opensearch_url: str) -> Iterator[OpenSearch]:
    """Yield the client of a team with an index for its own hybrid searches."""
    vectors = {"type": "knn_vector", "dimension": 3, "method": {"name": "hnsw", "engine": "lucene"}}
    properties = {"body": {"type": "text"}, "embedding": vectors}
    settings = {"index.knn": True, "number_of_shards": 1, "index.search.default_pipeline": "blog-hybrid"}
    documents = [
        {"_index": "blog", "_id": one, "body": body, "embedding": vector} for one, (body, vector) in POSTS.items()
    ]
    normalized = {"phase_results_processors": [{"normalization-processor": {}}]}
    with closing(OpenSearch(opensearch_url, timeout=60)) as client:
        client.transport.perform_request("PUT", "/_search/pipeline/blog-hybrid", body=normalized)
        client.indices.create(index="blog", body={"settings": settings, "mappings": {"properties": properties}})
        helpers.bulk(client, documents, refresh=True)
        yield client
        client.indices.delete(index="blog")
        client.transport.perform_request("DELETE", "/_search/pipeline/blog-hybrid")
        resift.uninstall(opensearch_url).run()


def without_counts(text: str) -> str:
    """Replace the number of ML Commons' default patterns, which depends on the version of OpenSearch."""
    return re.sub(r"\d+ patterns", "… patterns", text)


def test_five_commands_from_an_empty_cluster_lead_to_a_search_that_follows_its_session(
    blog: OpenSearch, here: Path, opensearch_url: str
) -> None:
    page = (ROOT / "docs" / "attach.md").read_text("utf-8").partition("### Five commands")[2]
    first, plan, search = re.findall(r"```\n(.*?)```", page, re.DOTALL)[:3]
    wanted = json.loads(search.partition("-d '")[2].rstrip().removesuffix("'"))
    before = [hit["_id"] for hit in blog.search(index="blog", body=wanted)["hits"]["hits"]]
    assert before[0] != "3"
    for package in ("resift", "resift_lab"):
        shutil.copytree(ROOT / package, here / package, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, here)
    served = re.sub(r"^resift serve &.*$", f"resift serve 2> serve.log &\n{WAIT}", first, flags=re.MULTILINE)
    script = SHELL.format(python=sys.executable) + served + REPEATED.format(search=search)
    script = script.replace("http://localhost:9200", opensearch_url)
    with alone_at(8080):
        done = subprocess.run(["bash", "-e", "-c", script], input="y\n", capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout
    plan = plan.replace("resift-3.6.0.zip", f"resift-{blog.info()['version']['number']}.zip")
    assert without_counts(plan.rstrip()) in without_counts(done.stdout)
    hits = json.loads(done.stdout.splitlines()[-1])["hits"]["hits"]
    assert (hits[0]["_id"], hits[0]["matched_queries"]) == ("3", ["resift"])
    assert {hit["_id"] for hit in hits} >= {"3", "5"}
