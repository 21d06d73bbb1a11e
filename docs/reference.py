"""Write the reference tables in docs/, and openapi.json: ``python docs/reference.py``.

Each table follows a comment with its name. Tables and openapi.json are generated from the declarations that check
requests and settings. A test checks that the committed files are current. The page with the options of all commands is
only part of the website (``docs/site.py``), since ``--help`` prints the same text in a terminal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

import click
import msgspec
from api_document import document

from resift.cli.main import main as command_line
from resift.contracts.search_options import SearchRequest
from resift.plugin.opensearch.client import ClientSettings
from resift.reranker import request_bodies
from resift.rewriting.outcome import Outcome
from resift.schema import Field, fields_of, schema_of
from resift.service import config

DOCS = Path(__file__).resolve().parent
OPENAPI = DOCS.parent / "resift" / "reranker" / "openapi.json"
PAGES = ("http.md", "settings.md", "codes.md")
_DECLARED: dict[str, type[msgspec.Struct]] = {
    "SearchRequest": SearchRequest,
    "FeedbackRequest": request_bodies.FeedbackRequest,
}
_TABLE = re.compile(r"(<!-- docs/reference.py: (\w+) -->\n)(?:\|.*\n)*")


def page_with_tables(text: str) -> str:
    """Return a Markdown page with its tables updated."""
    return _TABLE.sub(lambda match: match[1] + "".join(map(_line, _rows(match[2]))), text)


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |\n".replace("|  |", "| |")


def _rows(table: str) -> Iterator[tuple[str, ...]]:
    if table == "routes":
        by_scope: dict[str, list[str]] = {}
        for path, methods in document()["paths"].items():
            for method, route in methods.items():
                if method == "parameters":
                    continue
                scopes = {scope for way in route["security"] for scope in way.get("key", ())}
                scope = ", ".join(f"`{name}`" for name in sorted(scopes)) or "none"
                by_scope.setdefault(scope, []).append(f"`{method.upper()} {path}`")
        yield from (("scope", "routes"), ("---", "---"))
        yield from ((scope, ", ".join(routes)) for scope, routes in by_scope.items())
        return
    if table == "outcomes":
        yield from (("outcome", "`reason`"), ("---", "---"))
        for outcome in Outcome:
            yield f"`{outcome.code}`", outcome.english.format("…") if outcome.english else ""
        return
    settings = table == "settings"
    yield from (("variable" if settings else "field", "default", ""), ("---", "---", "---"))
    kinds = (config.Config, ClientSettings) if settings else (_DECLARED[table],)
    fields = [item for kind in kinds for item in fields_of(kind).items()]
    for name, field in sorted(fields, key=lambda item: not item[1].required):
        shown = f"`RESIFT_{name.upper()}`" if settings else f"`{name}`"
        if settings and name in config.ALTERNATIVE_VARIABLES:
            shown += f" or `{config.ALTERNATIVE_VARIABLES[name]}`"
        schema = schema_of(field.type)
        yield shown, _default(field, settings), schema["description"] + _range(schema)


def _default(field: Field, settings: bool) -> str:
    schema = schema_of(field.type)
    if field.required or "x-default" in schema:
        return "required" if field.required else str(schema["x-default"])
    value: Any = field.default
    if isinstance(value, bool) or value is None:
        return "none" if value is None else str(value).lower()
    if isinstance(value, (int, float)):
        return f"{value:.15g}"
    text = ",".join(value) if isinstance(value, tuple) else value
    return f"`{text}`" if text else "" if settings else '`""`'


def _range(schema: dict[str, Any]) -> str:
    for part in (schema, *schema.get("anyOf", ())):
        if part.get("maximum", 10**9) < 10**9:
            return f" ({part['minimum']:,} to {part['maximum']:,.15g})"
    return ""


def options() -> str:
    """Return a Markdown page with the options of all commands."""
    sections = [
        "# Commands and options",
        "`resift COMMAND --help` prints the same text.",
    ]
    return "\n\n".join([*sections, *_commands(command_line, click.Context(command_line, info_name="resift"))]) + "\n"


def _commands(command: click.Command, context: click.Context) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            if subcommand is not None and not subcommand.hidden:
                yield from _commands(subcommand, click.Context(subcommand, parent=context, info_name=name))
        return
    arguments = [param.make_metavar(context) for param in command.params if isinstance(param, click.Argument)]
    yield f"## {' '.join([context.command_path, *arguments])}"
    yield command.get_short_help_str(1000)
    records = [param.get_help_record(context) for param in command.params if isinstance(param, click.Option)]
    cells = [
        [escape(cell).replace("|", "&#124;").replace("  ", " ") for cell in record] for record in records if record
    ]
    if cells:
        yield "\n".join(
            [
                "| option | |",
                "|---|---|",
                *(f"| <code>{name}</code> | {words} |" for name, words in filter(None, cells)),
            ]
        )


def openapi() -> str:
    """Return the text of openapi.json."""
    return json.dumps(document(), ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    """Write the tables and openapi.json."""
    OPENAPI.write_text(openapi(), "utf-8")
    for name in PAGES:
        path = DOCS / name
        path.write_text(page_with_tables(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
