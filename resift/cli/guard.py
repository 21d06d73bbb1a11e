"""``resift guard``: searches that do not wait for a reranker that hangs."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

import click

from resift.cli.cluster import with_installed

if TYPE_CHECKING:
    from resift.plugin.cluster.install import Installer


@click.command(epilog="Example: resift guard --engine http://127.0.0.1:9200")
@with_installed
def guard(installer: Installer) -> None:
    """Watch the reranker, and stop the cluster from calling it while it does not answer.

    A reranker that hangs costs each search a second. This asks it each second, and after two answers that did not come
    switches the cluster's remote models off, until it answers again. Run it on another machine than the reranker, until
    a signal ends it; it then switches them on.
    """
    from resift.plugin.cluster.guard import Guard

    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    Guard(installer.cluster, installer.name, installer.url).watch(ended.wait, lambda line: click.echo(line))
