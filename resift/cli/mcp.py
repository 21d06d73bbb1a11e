"""The command ``resift mcp``, an MCP server that gives agents access to an index."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack
from pathlib import Path
from threading import Lock

import click

from resift.cli.failures import TERMINATED
from resift.cli.options import engine_option, library_at, model_option, store_option
from resift.errors import EngineError, EngineUnavailable
from resift.library import Index


@click.command(epilog="Example: resift mcp news --engine http://127.0.0.1:9200 --store ~/sessions.db")
@click.argument("index")
@click.option("--about", default="", metavar="TEXT", help="A description of the documents for the agents.")
@click.option(
    "--body",
    "template",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON file with the search body of each search, such as a hybrid query. The query replaces '$query'.",
)
@click.option(
    "--http",
    "port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve http://127.0.0.1:PORT/mcp, for this machine only, instead of standard input and output.",
)
@engine_option
@model_option
@store_option
def mcp(index: str, about: str, template: Path | None, port: int | None, engine: str, model: str, store: str) -> None:
    """Give AI agents tools to search INDEX and to screen documents for reviews, over the Model Context Protocol (MCP).

    The agent's host, for example a chat application, starts this command and communicates with it over standard input
    and output. The command exits when the host closes the input. If the engine does not answer, the tools return an
    error until it does.
    """
    from resift.integrations.mcp import create_server, read_template

    body = None if template is None else read_template(template)
    with ExitStack() as stack:
        opener = _IndexOpener(index, engine, model, store, stack)
        try:
            opener.open()
        except (EngineError, EngineUnavailable) as error:
            # The host starts the server only once, and the engine may be available later.
            click.echo(f"Warning: index {index!r} cannot be searched yet: {error}", err=True)
        mcp_server = create_server(index, opener.open, about, body)
        if port is None:
            # The reader of standard input blocks in a read and would not let an exception through.
            signal.signal(signal.SIGTERM, lambda *_: os._exit(TERMINATED))
            mcp_server.run()
        else:
            mcp_server.run("streamable-http", port=port, stateless_http=True)


class _IndexOpener:
    """Opens an index when it is needed, and again after a failure.

    Args:
        index: The name of the index.
        engine: The URL of a cluster, or the path of an SQLite file.
        model: The folder or the name of a model.
        store: The address of the session store.
        stack: Closes the library at its end.
    """

    def __init__(self, index: str, engine: str, model: str, store: str, stack: ExitStack) -> None:
        self._name, self._arguments, self._stack = index, (engine, model, index, store), stack
        self._index: Index | None = None
        self._lock = Lock()

    def open(self) -> Index:
        """Return the index. It is opened only once.

        Raises:
            ResiftError: If the index cannot be opened, for example because the engine does not answer.
        """
        with self._lock:
            if self._index is None:
                # The model depends on the index, so the library is opened again after a failure.
                with ExitStack() as stack:
                    library = stack.enter_context(library_at(*self._arguments))
                    self._index = library.index(self._name)
                    self._stack.push(stack.pop_all())
            return self._index
