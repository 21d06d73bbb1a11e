"""The commands of docs/install.md lead from the plugin's archive to a search that follows its session.

There are also tests of a cluster in which only some nodes have the plugin.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from fixed_port import alone_at
from opensearch_fixture import NEEDS, required
from test_attach_uninstalled import POSTS, REPEATED, WAIT
from waiting import until

import resift
from resift import Model
from resift.cli.main import main
from resift.errors import EngineError
from resift.plugin.cluster.client import Cluster
from resift.plugin.cluster.install import Installer
from resift.plugin.cluster.installation import Installation
from resift.plugin.cluster.native_plugin import NativePlugin
from resift.plugin.cluster.remote_model import RemoteModel
from resift.plugin.opensearch.engine import OpenSearchEngine
from resift.plugin.operations.attach_searches import SearchAttachment
from resift.plugin.operations.native_status import native_rows

ROOT = Path(__file__).parents[2]
KEY = "rsf_" + "1" * 64
SHELL = """
exec 2>&1
export PATH=$PWD/bin:$PATH
trap 'kill $(jobs -p) 2>/dev/null; wait 2>/dev/null' EXIT
"""


@contextmanager
def needed() -> Iterator[Any]:
    """Yield the module that starts nodes. Skip the test if no node can be started, or fail if nodes are required."""
    node = pytest.importorskip("node", reason="nodes are started on systems with file locks")
    from node_releases import NodeUnavailable

    try:
        yield node
    except NodeUnavailable as error:
        if required():
            raise
        pytest.skip(f"{NEEDS} with Resift's plugin: {error}")


def assembled_home() -> Path:
    """Return the folder of the distribution without the plugin."""
    from node_assembly import assemble, cache_folder, locked
    from node_releases import release

    wanted, cache = release(), cache_folder()
    with locked(cache):
        return assemble(cache, wanted)


@dataclass(frozen=True)
class Distribution:
    """A distribution of OpenSearch without the plugin, which the test may change.

    Attributes:
        home: Its folder.
        version: The version of OpenSearch.
        variables: The environment variables of its scripts.
    """

    home: Path
    version: str
    variables: dict[str, str]

    def run(self, commands: str, variables: Mapping[str, str], **user: Any) -> None:
        """Run commands of a shell in the folder.

        Args:
            commands: The commands.
            variables: Further environment variables.
            **user: Arguments that let ``subprocess`` run them as another user.
        """
        environment = {**self.variables, **variables}
        done = subprocess.run(
            ["bash", "-ec", commands], cwd=self.home, env=environment, capture_output=True, text=True, **user
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def distribution() -> Iterator[Distribution]:
    """Yield a copy of the distribution that the tests assemble, into which the page's command installs the plugin."""
    with needed():
        from native_plugin import plugin_archive
        from node_assembly import environment, find_java
        from node_releases import NEWEST, release

        assembled, wanted = assembled_home(), release()
        java, archive = find_java(wanted), plugin_archive(wanted.version)
    home = assembled.parent / f"commands-{os.getpid()}"
    shutil.copytree(assembled, home, copy_function=os.link)
    copied = Distribution(home, wanted.version, environment(home, home / "config", java))
    with tempfile.TemporaryDirectory() as folder:
        named = shutil.copy(archive, f"{folder}/resift-{wanted.version}.zip")
        install = page()[0].partition("#")[0].replace(f"file:///tmp/resift-{NEWEST}.zip", f"file://{named}")
        copied.run(install, {})
    yield copied
    shutil.rmtree(home)


def page() -> tuple[str, str, str, str]:
    """Return the commands of the page: the installation, three further commands, a search, and those for a key."""
    section = (ROOT / "docs" / "install.md").read_text("utf-8").partition("Four commands")[2]
    commands, search, keystore = re.findall(r"```\n(.*?)```", section, re.DOTALL)[:3]
    install, *others = commands.strip().splitlines()
    assert len(others) == 3
    return install, "\n".join(others), search, keystore


@pytest.fixture(scope="module")
def nodes(distribution: Distribution) -> Iterator[list[Any]]:
    """Yield two nodes of a cluster, both with the plugin until a test restarts them.

    The cluster has the index ``blog``, and the index ``spread`` with a shard on each node.
    """
    with needed() as node:
        started = node.start_cluster(2, heap="512m", home=distribution.home)
    with closing(OpenSearchEngine(started[0].url)) as engine:
        engine.client.indices.create(index="blog", body={"settings": {"number_of_replicas": 0}})
        for one, (body, _) in POSTS.items():
            engine.client.index(index="blog", id=one, body={"body": body}, refresh=True)
        settings = {"number_of_shards": 2, "number_of_replicas": 0, "routing.allocation.total_shards_per_node": 1}
        engine.client.indices.create(index="spread", body={"settings": settings})
        engine.client.index(index="spread", id="1", body={"body": "strike"}, refresh=True)
    yield started
    for one in started:
        one.stop()


def test_four_commands_from_the_archive_to_a_search_that_follows_its_session(
    distribution: Distribution, nodes: list[Any], here: Path
) -> None:
    from node_assembly import node_user

    _, others, search, keystore = page()
    served = others.replace("resift serve &", f"resift serve 2> serve.log &\n{WAIT}")
    program = here / "bin" / "resift"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m resift "$@"\n')
    program.chmod(0o755)
    with alone_at(8080):
        # The node has started without a key, and reads it when the keystore is loaded again. The other node, which a
        # test restarts without the plugin, would then refuse to start with the key.
        url, config = nodes[0].url, str(nodes[0].run / "config")
        variables = {"OPENSEARCH_PATH_CONF": config, "OPENSEARCH_URL": url, "RESIFT_API_KEY": KEY}
        distribution.run(keystore, variables, **node_user())
        try:
            done = subprocess.run(
                ["bash", "-e", "-c", SHELL + served + REPEATED.format(search=search)],
                env={**os.environ, "OPENSEARCH_URL": url, "RESIFT_API_KEY": KEY},
                capture_output=True,
                text=True,
                timeout=900,
            )
            assert done.returncode == 0, done.stdout
            assert "route       Resift's plugin, which all nodes have" in done.stdout
            hits = json.loads(done.stdout.splitlines()[-1])["hits"]["hits"]
            assert (hits[0]["_id"], hits[0]["matched_queries"]) == ("3", ["resift"])
            # The service requires the key, so the node has it.
            with closing(OpenSearchEngine(url)) as engine:
                stats = Cluster(engine).request("GET", "/_plugins/_resift/stats")
            assert stats["searches"]["failed"]["unauthorized"] == 0
        finally:  # the other tests use the same nodes
            resift.detach(url, "blog").run()


def restart(node: Any, home: Path) -> None:
    """Restart a node with another distribution."""
    node.kill()
    node.how = replace(node.how, home=home)
    node.launch()
    node.wait(2)


def attach(url: str, *flags: str) -> str:
    """Attach the index, and return the output of the command."""
    with alone_at(8080):  # so that no other test runs a service there
        done = CliRunner().invoke(main, ["attach", "spread", "--engine", url, *flags])
    # The status is 3 because no service runs.
    assert done.exit_code == (0 if "--dry-run" in flags else 3), done.output
    return done.output


def search(url: str, **ext: Any) -> None:
    """Search both shards through the pipeline of the index."""
    with closing(OpenSearchEngine(url)) as engine:
        body = {"query": {"match": {"body": "strike"}}, **({"ext": ext} if ext else {})}
        answer = Cluster(engine).request("POST", "/spread/_search", body, search_pipeline="resift-spread")
        assert [hit["_id"] for hit in answer["hits"]["hits"]] == ["1"]
        assert (answer["_shards"]["total"], answer["_shards"]["failed"]) == (2, 0)


@pytest.fixture(scope="module")
def installer(nodes: list[Any], packaged: Model) -> Iterator[Installer]:
    """Yield an installation in the cluster, whose second node has lost the plugin.

    The plugin was on all nodes when the index ``spread`` was attached. At its restart without the plugin, the second
    node also forgot the key with which ML Commons encrypts, and cannot read it again.
    """
    first, second = nodes
    with closing(OpenSearchEngine(first.url, timeout=60)) as engine:
        installer = Installer(engine, Installation("late", packaged, ("body",), "http://127.0.0.1:8080"), KEY)
        installer.install()
        assert "route       Resift's plugin, which all nodes have" in attach(first.url, "--yes")
        for one in nodes:
            search(one.url)
        hide_encryption_key(installer.cluster, True)
        restart(second, assembled_home())
        yield installer


def hide_encryption_key(cluster: Cluster, is_hidden: bool) -> None:
    """Hide the key with which ML Commons encrypts from nodes that have not read it yet, or show it again."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "this request accesses system indices")
        cluster.update_index_settings(".plugins-ml-config", {"index.blocks.read": is_hidden or None})


def test_a_model_is_deployed_on_a_node_that_reads_the_encryption_key_late(installer: Installer) -> None:
    remote = RemoteModel(installer.cluster, "query", installer.template_values)
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(remote.create)

        def is_partially_deployed() -> bool:
            if deployment(remote) == "PARTIALLY_DEPLOYED":
                return True
            assert not made.done()
            return False

        assert until(is_partially_deployed)
        hide_encryption_key(installer.cluster, False)
        made.result()
    assert (deployment(remote), remote.state()) == ("DEPLOYED", "ok")


def deployment(remote: RemoteModel) -> str:
    """Return the deployment state of a model in the cluster, or "" if the model does not exist."""
    model = remote.cluster.get_or_none(f"{remote.path}/models/{remote.model_id}")
    return model["model_state"] if model else ""


def test_the_plugin_must_be_on_all_nodes(nodes: list[Any], installer: Installer, here: Path) -> None:
    (first, second), cluster = nodes, installer.cluster
    hide_encryption_key(cluster, False)
    installer.uninstall()
    assert NativePlugin.read(cluster).nodes_without == ["node-1"]
    with pytest.raises(
        EngineError, match=r"Processor type \[resift\] is not installed on node|Invalid processor type resift"
    ):
        SearchAttachment(cluster, "spread").run_native(("http://127.0.0.1:8080",))
    # the first node removes ext.resift, which the shard on the second node could not read
    for options in ({"session": "anna"}, {"session": None}, {"query": "strike"}):
        search(first.url, resift=options)
    planned = attach(first.url, "--dry-run")
    assert "route       ml_inference of ML Commons, because these nodes lack Resift's plugin: node-1" in planned
    with pytest.raises(EngineError, match="resift-spread"):
        search(second.url)
    rows = {row.name: row for row in native_rows(cluster)}
    assert rows["resift on node-0"].fix == ""
    assert rows["resift on node-1"].state.startswith("missing: pipelines with its processor fail on this node")
    assert "bin/opensearch-plugin install file:///PATH/resift-" in rows["resift on node-1"].fix
    assert rows["resift-spread"].state == "needs Resift's plugin, which is missing on 1 of 2 nodes"
    # attaching again helps without the plugin
    assert "moved       from Resift's plugin, which rewrites these searches now" in attach(first.url, "--yes")
    for one in nodes:
        search(one.url)
