"""The command ``resift mcp``, an MCP server that gives agents access to an index."""

from __future__ import annotations

import os
import signal

import click

from resift.cli.failures import TERMINATED
from resift.cli.options import engine_option, library_at, model_option, store_option


@click.command(epilog="Example: resift mcp news --about 'Reports on bush fires, 2001 to 2024'")
@click.argument("index")
@click.option("--about", default="", metavar="TEXT", help="A description of the documents for the agents.")
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
def mcp(index: str, about: str, port: int | None, engine: str, model: str, store: str) -> None:
    """Give AI agents tools to search INDEX and to screen documents for reviews, over the Model Context Protocol (MCP).

    The agent's host, for example a chat application, starts this command and communicates with it over standard input
    and output. The command exits when the host closes the input.
    """
    from resift.integrations.mcp import create_server

    with library_at(engine, model, index, store) as opened_library:
        opened_library.service.info(index)  # raises IndexNotFound if the index does not exist
        mcp_server = create_server(opened_library.index(index), about)
        if port is None:
            # The reader of standard input blocks in a read and would not let an exception through.
            signal.signal(signal.SIGTERM, lambda *_: os._exit(TERMINATED))
            mcp_server.run()
        else:
            mcp_server.run("streamable-http", port=port, stateless_http=True)
