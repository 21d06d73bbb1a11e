"""Print runs as a JSON object or as a table for the terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from resift_lab.evaluation import sts
from resift_lab.evaluation.protocol import Run


def run_report(run: Run, name: str, seed: int, other: Run | None = None, other_name: str = "") -> dict[str, Any]:
    """Return a report of a run: means, 95 % intervals and facts.

    Args:
        run: The run.
        name: Name of the system.
        seed: Seed of the bootstrap and of the randomisation test.
        other: A run of another system on the same queries. The report then has the key ``compare`` with the other
            means, the differences (this system minus the other one) and p values.
        other_name: Name of the other system.
    """
    means = run.means()
    report = {"system": name, **means, "intervals": run.intervals(seed), **run.facts, "seed": seed}
    if other is not None:
        other_means = other.means()
        report["compare"] = {
            "system": other_name,
            **other_means,
            "intervals": other.intervals(seed),
            "difference": {key: value - other_means[key] for key, value in means.items()},
            "p": run.against(other, seed),
        }
    return report


def sts_report(
    tasks: Sequence[sts.StsTask], name: str, seed: int, other: Sequence[sts.StsTask] | None = None, other_name: str = ""
) -> dict[str, Any]:
    """Return a report of sentence pairs, with the correlations of each file and each task.

    The arguments are those of :func:`run_report`.
    """
    own = sts.summary(tasks)
    report = {"system": name, **own, "intervals": sts.intervals(tasks, seed), "seed": seed}
    if other is not None:
        summary = sts.summary(other)
        report["compare"] = {
            "system": other_name,
            **summary,
            "intervals": sts.intervals(other, seed),
            "difference": {key: own[key] - summary[key] for key in sts.METRICS},
            "p": sts.significance(tasks, other, seed),
        }
    return report


def feedback_report(runs: Mapping[str, Sequence[tuple[Run, Run]]], method: str, seed: int) -> dict[str, Any]:
    """Return a report of a feedback method after the last round.

    Args:
        runs: For each method, the runs after and before each round. Methods other than ``method`` are baselines.
        method: Name of the reported method.
        seed: Seed of the bootstrap and of the randomisation test.
    """
    after, before = runs[method][-1]
    return {
        **run_report(after, method, seed, before, "before"),
        "baselines": {other: rounds[-1][0].means() for other, rounds in runs.items() if other != method},
    }


def topics_report(runs: Mapping[str, Mapping[str, Run]]) -> dict[str, Any]:
    """Return the means of two-topic sessions, by the kind of the second query and the way of ranking."""
    return {
        kind: {**ways["before"].facts, **{name: run.means() for name, run in ways.items()}}
        for kind, ways in runs.items()
    }


def topics_table(report: Mapping[str, Any], metrics: Sequence[str]) -> str:
    """Return a table of two-topic sessions.

    It has one line for each kind of second query and each metric, with the value without a session, with the session,
    and with all judgements of the session counting fully. QUERIES counts the queries that have values.
    """
    rows = [["SECOND QUERY", "QUERIES", "METRIC", "BEFORE", "AFTER", "WHOLE"]]
    for kind in ("related", "unrelated"):
        entry = report[kind]
        for name in metrics:
            values = [_number(entry[way][name]) for way in ("before", "after", "whole")]
            rows.append([kind, str(entry["queries"] - entry["all_judged"]), name, *values])
    return "\n".join(_aligned(rows))


def as_json(report: Mapping[str, Any]) -> str:
    """Return a report as one line of JSON. NaN becomes null."""
    return json.dumps(_plain(report), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """Convert a value to types that JSON supports."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_table(report: Mapping[str, Any], metrics: Sequence[str]) -> str:
    """Return a report as a table.

    It has one line for each metric: the value, its 95 % interval and, if there is a second system, its value, the
    difference and p. For sentence pairs, the files and tasks follow below.
    """
    compare = report.get("compare")
    alone = {f"{name} alone": entry for name, entry in report.get("alone", {}).items()} | report.get("baselines", {})
    head = ["METRIC", report["system"], "95 %", *alone]
    rows = [head + ([compare["system"], "95 %", "DIFFERENCE", "P"] if compare else [])]
    for name in metrics:
        row = [name, *_with_interval(report, name), *(_number(entry[name]) for entry in alone.values())]
        if compare:
            row += _with_interval(compare, name)
            if name in compare["p"]:
                row += [f"{compare['difference'][name]:+.4f}", f"{compare['p'][name]:.4f}"]
        rows.append(row)
    lines = _aligned(rows)
    for kind in ("files", "tasks"):
        if entries := report.get(kind):
            columns = list(next(iter(entries.values())))
            body = [[key, *(_number(entry[column]) for column in columns)] for key, entry in entries.items()]
            lines += ["", *_aligned([[kind.upper(), *columns], *body])]
    return "\n".join(lines)


def _with_interval(entry: Mapping[str, Any], name: str) -> list[str]:
    """Return the cells of a value and its interval."""
    low, high = entry["intervals"].get(name, (None, None))
    return [_number(entry[name]), "" if low is None else f"{_number(low)} – {_number(high)}"]


def _number(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    return "" if value is None else f"{value:.4f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Join the cells of each row with aligned columns."""
    widths = [max(len(row[i]) if i < len(row) else 0 for row in rows) for i in range(max(map(len, rows)))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
