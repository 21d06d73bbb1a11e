"""Writes the tables of docs/ that say what may be said, and openapi.json: ``python docs/reference.py``.

Each table stands below a comment that names what it is of. All is made of the declarations that requests and settings
are checked by, and a test holds the committed files to what this would write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from api_document import document

from resift.contracts.search_options import SearchRequest
from resift.plugin.opensearch.client import ClientSettings
from resift.reranker import config, request_bodies
from resift.schema import Field, fields_of, schema_of

DOCS = Path(__file__).resolve().parent
OPENAPI = DOCS.parent / "resift" / "reranker" / "openapi.json"
PAGES = ("http.md", "serving.md")
_DECLARED: dict[str, type[msgspec.Struct]] = {
    "SearchRequest": SearchRequest,
    "FeedbackRequest": request_bodies.FeedbackRequest,
}
_TABLE = re.compile(r"(<!-- docs/reference.py: (\w+) -->\n)(?:\|.*\n)*")


def page_with_tables(text: str) -> str:
    """A page with each of its tables as it is to be."""
    return _TABLE.sub(lambda found: found[1] + "".join(map(_line, _rows(found[2]))), text)


def _line(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |\n".replace("|  |", "| |")


def _rows(name: str) -> Iterator[tuple[str, ...]]:
    settings = name == "settings"
    yield from (("variable" if settings else "field", "default", ""), ("---", "---", "---"))
    kinds = (config.Config, ClientSettings) if settings else (_DECLARED[name],)
    fields = [item for kind in kinds for item in fields_of(kind).items()]
    for said, field in sorted(fields, key=lambda item: not item[1].required):
        also = f" or `{config.ALSO[said]}`" if settings and said in config.ALSO else ""
        shown = f"`RESIFT_{said.upper()}`{also}" if settings else f"`{said}`"
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


def openapi() -> str:
    """The text of openapi.json."""
    return json.dumps(document(), ensure_ascii=False, indent=1) + "\n"


def main() -> None:
    """Write the tables and openapi.json."""
    OPENAPI.write_text(openapi(), "utf-8")
    for name in PAGES:
        path = DOCS / name
        path.write_text(page_with_tables(path.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
