"""``resift status``: what a cluster has and lacks, and how it stands with the vectors of each index."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from resift.cli.cluster import with_installer
from resift.cli.failures import NOT_RIGHT
from resift.cli.options import json_option
from resift.cli.output import print_report, print_table
from resift.contracts.query_dsl import is_ours
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import IndexNotFound
from resift.ingest.verify import stale_share
from resift.plugin.addresses import without_credentials
from resift.vectors.packaged import DEFAULT

if TYPE_CHECKING:
    from resift.plugin.cluster.index_health import IndexHealth
    from resift.plugin.cluster.install import Installer, StatusRow

_SAMPLE = 100  # documents of an index whose texts are encoded again
_HEAD = ["INDEX", "DOCUMENTS", "VECTORS", "STALE", "MODEL", "PIPELINES", "UNENCODED"]


@dataclass(frozen=True)
class _Line:
    """What is shown of the vectors of one model in an index, ``at_hand`` or not; ``sampled`` is 0 where it is not."""

    health: IndexHealth
    sampled: int
    stale: int
    fault: tuple[str, str] | None  # what is wrong, and what to do about it
    at_hand: bool

    @property
    def cells(self) -> list[str]:
        """The line of the table."""
        health = self.health
        documents = "closed" if health.documents is None else str(health.documents)
        # rounded down: one that is missing is not to be 100%
        share = f"{health.covered * 1000 // health.documents / 10:g}%" if health.documents else "-"
        stale = f"{self.stale} of {self.sampled}" if self.sampled else "-"
        pipelines = [f"{kind}*" if kind in health.defaults else kind for kind in health.pipelines]
        # of another model the hash is what resift detach takes, and two models may have one name
        model = f"{health.entry.model_name}{'' if self.at_hand else f' ({health.entry.model})'}"
        return [health.entry.name, documents, share, stale, model, ", ".join(pipelines) or "-", str(health.unencoded)]

    @property
    def report(self) -> dict[str, Any]:
        """The same for programs."""
        health, entry = self.health, self.health.entry
        return {
            "index": entry.name,
            "model": entry.model,
            "model_name": entry.model_name,
            "vector_field": entry.vector_field,
            "documents": health.documents,
            "with_vector": health.covered,
            "sampled": self.sampled,
            "stale": self.stale,
            "pipelines": list(health.pipelines),
            "default_pipelines": list(health.defaults),
            "unencoded": health.unencoded,
            "state": self.fault[0] if self.fault else "ok",
            "fix": self.fault[1] if self.fault else "",
        }


@click.command(epilog="Example: resift status --engine http://127.0.0.1:9200")
@json_option
@with_installer
def status(installer: Installer, as_json: bool) -> None:
    """Print what a cluster has, lacks, or has of another version or model, and how to fix it.

    Compared is with what was installed, or with the options that are given. A second table has a line for each index
    with vectors: how many documents have one, and, where the model is at hand, how many of a hundred random ones
    have one that belongs to another text. A star marks the pipelines that an index uses by default, and UNENCODED is
    how many documents its ingest pipeline has written without a vector since the nodes started.

    The exit status is 3 unless everything is in order.
    """
    found = installer.status()
    lines = list(_lines(installer, {row.name: row for row in found if row.kind == "index"}))
    ok = all(row.in_order for row in found) and not any(line.fault for line in lines)
    if as_json:
        parts = [{"kind": row.kind, "name": row.name, "state": row.state, "fix": _pasted(row.fix)} for row in found]
        print_report({"ok": ok, "parts": parts, "indices": [line.report for line in lines]}, as_json)
    else:
        _print_tables(found, lines)
    if not ok:
        sys.exit(NOT_RIGHT)


def _lines(installer: Installer, rows: Mapping[str, StatusRow]) -> Iterator[_Line]:
    """A line for each model's vectors in each index; ``rows`` are the states of the indices."""
    from resift.plugin.cluster.index_health import index_healths

    given = click.get_current_context().params["model"]
    model = load_model(given or DEFAULT)
    for health in index_healths(installer.cluster):
        entry, row, sample = health.entry, rows.get(health.entry.name), (0, 0)
        # What the installation finds wrong with an index is in the way of anything else.
        wrong = row is not None and not row.in_order and not health.filling
        if entry.model == model.hash and is_ours(entry.vector_field) and health.covered and not wrong:
            with suppress(IndexNotFound):  # deleted since it was listed
                sample = stale_share(installer.engine, model, entry, _SAMPLE)
        fault = (
            (row.state, _pasted(row.fix) + (_flags(model, health) if row.fix.startswith("resift attach") else ""))
            if row is not None and wrong
            else _fault(health, *sample, _flags(model, health))
        )
        yield _Line(health, *sample, fault, entry.model == model.hash)


def _fault(health: IndexHealth, sampled: int, stale: int, flags: str) -> tuple[str, str] | None:
    """What is wrong with vectors, and what to do about it; None if nothing is."""
    name, mend = health.entry.name, f"resift verify {health.entry.name} --repair{flags}"
    if health.filling:
        return f"attaching was interrupted: {health.missing} documents lack a vector", f"resift attach {name}{flags}"
    if health.missing and is_ours(health.entry.vector_field):
        return f"{health.missing} documents lack a vector", mend
    return (f"{stale} of {sampled} vectors belong to another text", mend) if stale else None


def _print_tables(found: list[StatusRow], lines: list[_Line]) -> None:
    parts = [row for row in found if row.kind != "index"]
    notes = [f"fix: {_pasted(row.fix)}" if row.fix else "" for row in parts]
    print_table(["KIND", "NAME", "STATE"], [[row.kind, row.name, row.state] for row in parts], notes)
    if lines:
        click.echo()
        print_table(_HEAD, [line.cells for line in lines], [_told(line.fault) for line in lines])
    shown = {line.health.entry.name for line in lines}
    for row in found:
        if row.kind == "index" and row.name not in shown:
            click.echo(f"index {row.name}: {row.state}" + (f"\n  fix: {_pasted(row.fix)}" if row.fix else ""))


def _told(fault: tuple[str, str] | None) -> str:
    return f"{fault[0]}\n  fix: {fault[1]}" if fault else ""


def _flags(model: Model, health: IndexHealth) -> str:
    """The options that a command needs to mend these vectors."""
    given = click.get_current_context().params["model"]
    # of another model no more is known here than its name
    folder = "DIR" if health.entry.model != model.hash else given
    return (f" --model {folder}" if folder else "") + _engine_flag()


def _engine_flag() -> str:
    """``--engine``, where this command was given it, and not the environment."""
    context = click.get_current_context()
    given = context.get_parameter_source("url") == ParameterSource.COMMANDLINE
    return f" --engine {without_credentials(context.params['url'])}" if given else ""


def _pasted(fix: str) -> str:
    """A fix whose command has the options that this one was given: without them it would be of another installation."""
    given = {name: click.get_current_context().params[name] for name in ("model", "fields", "reranker", "name")}
    if " --reranker " in fix:
        given["reranker"] = None
    flags = [f" --{name} {','.join(value) if name == 'fields' else value}" for name, value in given.items() if value]
    more = "".join(flags) + _engine_flag()
    # what a cluster says of an error may have several lines
    return re.sub(r"resift (install|guard)\b", lambda found: found[0] + more, " ".join(fix.split()), count=1)
