"""Reports of runs: one JSON object, or a table for the terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from resift_lab.evaluation import sts
from resift_lab.evaluation.protocol import Run


def run_report(run: Run, name: str, seed: int, other: Run | None = None, other_name: str = "") -> dict[str, Any]:
    """Metrics at the top, then ``intervals`` (95 %), facts, and in ``compare`` the other system with differences and p.

    A difference is this system's value less the other's.
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
    """The same for sentence pairs, with ``files`` and ``tasks`` beside the figures over all."""
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
    """A method's figures after the last round, with the first ranking's in ``compare`` and others' in ``baselines``.

    ``runs``: method → (after, before) of each round; the methods besides ``method`` are the baselines.
    """
    after, before = runs[method][-1]
    return {
        **run_report(after, method, seed, before, "before"),
        "baselines": {other: rounds[-1][0].means() for other, rounds in runs.items() if other != method},
    }


def topics_report(runs: Mapping[str, Mapping[str, Run]]) -> dict[str, Any]:
    """Two-topic sessions: for related and unrelated second queries, each way of ranking's means."""
    return {
        kind: {**ways["before"].facts, **{name: run.means() for name, run in ways.items()}}
        for kind, ways in runs.items()
    }


def topics_table(report: Mapping[str, Any], metrics: Sequence[str]) -> str:
    """A line a kind of second query and figure: without a session, with it in its scope, and with all of it.

    QUERIES are those that have figures.
    """
    rows = [["SECOND QUERY", "QUERIES", "METRIC", "BEFORE", "AFTER", "WHOLE"]]
    for kind in ("related", "unrelated"):
        entry = report[kind]
        for name in metrics:
            values = [_number(entry[way][name]) for way in ("before", "after", "whole")]
            rows.append([kind, str(entry["queries"] - entry["all_judged"]), name, *values])
    return "\n".join(_aligned(rows))


def as_json(report: Mapping[str, Any]) -> str:
    """One line of JSON; NaN, which JSON has not, as null."""
    return json.dumps(_plain(report), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_table(report: Mapping[str, Any], metrics: Sequence[str]) -> str:
    """A line a metric: value, 95 % interval and, where there is a second system, its value, the difference and p.

    Below stand the files and tasks of sentence pairs.
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
    """The cells of a figure and of its interval."""
    low, high = entry["intervals"].get(name, (None, None))
    return [_number(entry[name]), "" if low is None else f"{_number(low)} – {_number(high)}"]


def _number(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    return "" if value is None else f"{value:.4f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of cells, the columns below each other."""
    widths = [max(len(row[i]) if i < len(row) else 0 for row in rows) for i in range(max(map(len, rows)))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
