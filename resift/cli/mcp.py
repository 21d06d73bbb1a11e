"""``resift mcp``: an MCP server over an index, for agents."""

from __future__ import annotations

import os
import signal

import click

from resift.cli.failures import TERMINATED
from resift.cli.options import engine_option, library_at, model_option, store_option


@click.command(epilog="Example: resift mcp news --about 'Reports on bush fires, 2001 to 2024'")
@click.argument("index")
@click.option("--about", default="", metavar="TEXT", help="What the documents are, told to agents with the search.")
@click.option(
    "--http",
    "port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve http://127.0.0.1:PORT/mcp, to this machine alone, instead of standard input and output.",
)
@engine_option
@model_option
@store_option
def mcp(index: str, about: str, port: int | None, engine: str, model: str, store: str) -> None:
    """Serve tools to search INDEX, and to screen its reviews, to an agent, by the Model Context Protocol.

    An agent's host starts this itself and talks to it by standard input and output, until it closes that.
    """
    from resift.integrations.mcp import server

    with library_at(engine, model, index, store) as opened:
        opened.service.info(index)  # as resift search does
        served = server(opened.index(index), about)
        if port is None:
            # what reads the standard input waits for its next line, and would let no exception through
            signal.signal(signal.SIGTERM, lambda *_: os._exit(TERMINATED))
            served.run()
        else:
            served.run("streamable-http", port=port, stateless_http=True)
