"""The entry point of the command line: a table of all commands and their modules."""

from __future__ import annotations

import warnings

import click

from resift.cli.failures import ResiftGroup
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
    "attach": "resift.cli.attach:attach",
    "detach": "resift.cli.attach:detach",
    "install": "resift.cli.cluster:install",
    "uninstall": "resift.cli.cluster:uninstall",
    "doctor": "resift.cli.cluster:doctor",
    "guard": "resift.cli.cluster:guard",
    "role": "resift.cli.role:role_command",
    "demo": "resift.cli.demo:demo",
}
# The commands in the short help. All others appear with --help-all.
_FIRST = ("demo", "index", "search", "mark", "serve", "install", "attach", "detach", "doctor", "guard")


class _Main(ResiftGroup):
    """The group of all ``resift`` commands. Its help lists ten commands, or all with ``--help-all``."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the name and a short description of each command to the help text.

        Args:
            ctx: The click context. ``ctx.meta["all"]`` is True after the option ``--help-all``.
            formatter: The help text to extend.
        """
        names = self.list_commands(ctx) if ctx.meta.get("all") else _FIRST
        commands = {name: command for name in names if (command := self.get_command(ctx, name)) is not None}
        limit = formatter.width - 6 - max(map(len, commands))
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(limit)) for name, command in commands.items()])


def _help_all(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    """Print the help text with all commands and exit (click option callback).

    Args:
        context: The click context.
        parameter: The option ``--help-all``.
        value: Whether the user passed the option. If False, nothing happens.
    """
    if value:
        context.meta["all"] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


@click.group(
    cls=_Main,
    locations=_COMMANDS,
    entry_point_group="resift.commands",
    epilog="Example: resift index corpus.jsonl --index news && resift search news 'bush fire'\n\n"
    "resift --help-all shows all commands.",
)
@click.option(
    "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_help_all, help="Show all commands."
)
@click.version_option(__version__, prog_name="resift")
def main() -> None:
    """Relevance feedback for OpenSearch: marks and clicks in a session improve its next searches.

    Exit status: 0 for success, 1 if something failed, 2 for invalid arguments, 3 if the command finished but reported a
    problem, 130 after Ctrl-C.
    """
    # opensearch-py prints the warnings of OpenSearch, which are in its deprecation log, too. Here they would appear
    # between the lines of a table, or of a log in JSON.
    warnings.filterwarnings("ignore", module=r"opensearchpy\.")
