"""The command line. ``resift COMMAND --help`` explains each command; this module only says where each is."""

from __future__ import annotations

import click

from resift.cli.failures import Resift
from resift.version import __version__

_COMMANDS = {
    "index": "resift.cli.documents:index",
    "verify": "resift.cli.indices:verify",
    "search": "resift.cli.search:search",
    "mark": "resift.cli.search:mark",
    "indices": "resift.cli.indices:indices",
    "drop": "resift.cli.indices:drop",
    "review": "resift.cli.review:review",
    "sessions": "resift.cli.sessions:sessions",
    "serve": "resift.cli.serve:serve",
    "mcp": "resift.cli.mcp:mcp",
    "keys": "resift.cli.keys:keys",
    "attach": "resift.cli.cluster:attach",
    "detach": "resift.cli.cluster:detach",
    "install": "resift.cli.cluster:install",
    "uninstall": "resift.cli.cluster:uninstall",
    "doctor": "resift.cli.cluster:doctor",
    "guard": "resift.cli.cluster:guard",
    "role": "resift.cli.cluster:role_command",
    "demo": "resift.cli.demo:demo",
}
_FIRST = ("demo", "attach", "search", "serve", "doctor")  # what a newcomer is shown


class _Main(Resift):
    """The group of all commands, whose help shows the first five, or all with ``--help-all``."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands that are shown, a line each."""
        names = self.list_commands(ctx) if ctx.meta.get("all") else _FIRST
        found = {name: command for name in names if (command := self.get_command(ctx, name)) is not None}
        limit = formatter.width - 6 - max(map(len, found))
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(limit)) for name, command in found.items()])


def _help_all(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Option callback: print the help with all commands."""
    if value:
        context.meta["all"] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


@click.group(
    cls=_Main,
    lazy=_COMMANDS,
    group="resift.commands",
    epilog="Example: resift index corpus.jsonl --index news && resift search news 'bush fire'\n\n"
    "resift --help-all shows all commands.",
)
@click.option(
    "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_help_all, help="Show all commands."
)
@click.version_option(__version__, prog_name="resift")
def main() -> None:
    """Meaning at BM25's cost and session feedback for OpenSearch.

    The exit status is 0 if all is well, 2 for arguments that do not fit, 3 if a command was done but something is not
    right (it says what), 1 if something failed on the way, and 130 after Ctrl-C.
    """
