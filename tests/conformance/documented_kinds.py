"""The table in ``docs/rewriting.md`` of what a session does to each kind of search."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FILE = Path(__file__).parents[2] / "docs" / "rewriting.md"
_BEGIN, _END = "<!-- kinds: begin -->\n", "<!-- kinds: end -->\n"
_ROW = re.compile(r"^\| ([^|`]*) \| ([^|`]*) \| (`.*`) \|$", re.MULTILINE)
VARIANTS = ("without our vectors", "with our vectors")

Effects = Mapping[str, Mapping[str, str]]
"""The effect of a session by the name of the kind of search, and by the variant of the index."""


@cache
def documented_effects() -> Effects:
    """Return the effects that the documentation states."""
    table = FILE.read_text("utf-8").partition(_BEGIN)[2].partition(_END)[0]
    return {
        kind: dict(zip(VARIANTS, (row[1], row[2]), strict=True))
        for row in _ROW.finditer(table)
        for kind in re.findall("`([^`]+)`", row[3])
    }


def write_effects(effects: Effects) -> None:
    """Write the table.

    Raises:
        KeyError: A search was not run in both indices.
        ValueError: The file has no place for the table.
    """
    rows: dict[tuple[str, ...], list[str]] = {}
    for kind, by_variant in effects.items():
        rows.setdefault(tuple(by_variant[variant] for variant in VARIANTS), []).append(kind)
    lines = [f"| {' | '.join(VARIANTS)} | kinds of searches |", "|---|---|---|"]
    for key, kinds in sorted(rows.items(), key=lambda row: -len(row[1])):
        lines.append(f"| {' | '.join(key)} | {', '.join(f'`{kind}`' for kind in kinds)} |")
    text = FILE.read_text("utf-8")
    before, after = text[: text.index(_BEGIN)], text[text.index(_END) :]
    FILE.write_text(f"{before}{_BEGIN}" + "\n".join(lines) + f"\n{after}", "utf-8")
