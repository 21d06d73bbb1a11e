"""``resift verify``: vectors that do not belong to the text beside them are found, and mended."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click

from resift.cli.failures import INTERRUPTED, NOT_RIGHT
from resift.cli.indices import count_documents
from resift.cli.options import engine_option, json_option, model_option, opened
from resift.cli.output import print_report, progress_bar
from resift.contracts.documents import IndexInfo
from resift.contracts.engine import Engine
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import BadInput, ModelMismatch
from resift.ingest.stopping import Stop
from resift.ingest.verify import Verification, choose
from resift.ingest.verify import verify as verify_index

SECONDS = 30  # between two rounds of watching


@click.command(epilog="Example: resift verify news --repair")
@click.argument("index", nargs=-1, metavar="[INDEX]...")
@click.option("--repair", is_flag=True, help="Encode documents again if their vector is missing or another text's.")
@click.option(
    "--watch",
    is_flag=False,
    flag_value=SECONDS,
    type=click.IntRange(1, 86_400),
    metavar="[SECONDS]",
    help=f"Go on until a signal ends it: repair what was written since, every {SECONDS} seconds if not given.",
)
@engine_option
@model_option
@json_option
def verify(index: tuple[str, ...], repair: bool, watch: int | None, engine: str, model: str, as_json: bool) -> None:
    """Check that every vector of --model belongs to the text beside it, by encoding all texts again.

    INDEX is an index, an alias, a data stream or a pattern, and there may be several; without any all indices that have
    vectors of the model are checked.

    The exit status is 3 if vectors are missing or stale and were not repaired.
    """
    encoder, stop = load_model(model), Stop()
    with opened(engine) as target:
        if watch is not None:
            _watch(target, encoder, index, watch, stop, as_json)
            return
        chosen, others = _chosen(target, encoder, index)
        started = time.perf_counter()
        with stop.at_signals():
            found = _verified(target, encoder, chosen, repair, stop)
    seconds = time.perf_counter() - started
    _print_found(found, others, repair, seconds, as_json)
    if stop.signal is not None:
        click.echo(f"ended by {signal.Signals(stop.signal).name}: not all documents were checked", err=True)
        sys.exit(128 + stop.signal)
    if not all(one.right for one in found):
        sys.exit(NOT_RIGHT)


def _watch(engine: Engine, model: Model, names: Sequence[str], seconds: int, stop: Stop, as_json: bool) -> None:
    """Mend until a signal comes. Raises BadInput for the embedded engine."""
    from resift.ingest.watching import Watch
    from resift.plugin.opensearch.engine import OpenSearchEngine

    if not isinstance(engine, OpenSearchEngine):
        raise BadInput(
            "the embedded engine cannot be watched: it is written to through Resift alone, with vectors",
            expected="an OpenSearch cluster; or resift verify without --watch",
        )

    def found(what: Verification) -> None:
        print_report(asdict(what), as_json, *told_lines(what, True))
        sys.stdout.flush()  # who reads a pipe is to see it now

    with stop.at_signals():
        Watch(engine, model, names, stop, found, lambda line: click.echo(line, err=True)).run(seconds)
    if stop.signal == signal.SIGINT:
        sys.exit(INTERRUPTED)


def _chosen(engine: Engine, model: Model, names: Sequence[str]) -> tuple[list[IndexInfo], dict[str, str]]:
    """The indices to check, and why others are not. Raises ModelMismatch if there is nothing to check."""
    chosen, others = choose(engine, model, names)
    if not chosen:
        told = "; ".join(f"index {name!r} has {why}" for name, why in others.items()) or "no index has any"
        raise ModelMismatch(
            f"there are no vectors of model {model.name} ({model.hash}) to check: {told}",
            value=list(others) or None,
            expected="another --model, or resift attach INDEX",
        )
    return chosen, others


def _verified(engine: Engine, model: Model, infos: Sequence[IndexInfo], repair: bool, stop: Stop) -> list[Verification]:
    """What is found in each index; those behind a stop are left out."""
    totals = [count_documents(engine, info.name) for info in infos]
    found: list[Verification] = []
    with progress_bar("verifying", "documents") as progress:
        for info in infos:
            before = sum(totals[: len(found)])

            def told(now: Verification, before: int = before) -> None:
                progress(before + now.checked, sum(totals))

            found.append(verify_index(engine, model, info.name, repair, stop, told))
            if stop.requested:
                break
    return found


def _print_found(
    found: Sequence[Verification], others: Mapping[str, str], repair: bool, seconds: float, as_json: bool
) -> None:
    numbers = ("checked", "missing", "stale", "repaired", "unrepaired")
    report: dict[str, Any] = {name: sum(getattr(one, name) for one in found) for name in numbers}
    report |= {"seconds": round(seconds, 3), "indices": [asdict(one) for one in found], "not_checked": dict(others)}
    print_report(report, as_json, *(line for one in found for line in told_lines(one, repair)))
    for name, why in others.items():
        click.echo(f"not checked: index {name} has {why}", err=True)


def told_lines(found: Verification, repair: bool) -> list[str]:
    """What was found in an index, for people."""
    where = f"index {found.index}"
    if found.fault:
        return [f"{where} cannot be checked, {found.fault}: resift status says what to do"]
    told = f"{found.checked} documents in {where}: {found.missing} without a vector, {found.stale} with a stale one"
    lines = [f"{told}; {found.repaired} repaired" if repair else told]
    if found.refused:
        first = found.refused[0]
        lines.append(f"{len(found.refused)} refused in {where}: {first.id}: {first.reason}")
    return lines
