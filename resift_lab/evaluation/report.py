"""Print runs as a JSON object or as a table for the terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from resift_lab.evaluation import sts
from resift_lab.evaluation.protocol import Run


def run_report(run: Run, name: str, seed: int, other: Run | None = None, other_name: str = "") -> dict[str, Any]:
    """Summarise a run, and optionally compare it with the run of a second system.

    Args:
        run: The metrics of a system for each query.
        name: Name of the system.
        seed: Seed of the bootstrap and of the randomisation test.
        other: A run of the second system on the same queries, or None.
        other_name: Name of the second system.

    Returns:
        A dictionary for JSON with the mean and the 95 % interval of each metric. With ``other``, its key ``compare``
        contains the second system's means and intervals, the differences (first system minus second system) and
        p-values.
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
            "p": run.p_values(other, seed),
        }
    return report


def sts_report(
    tasks: Sequence[sts.StsTask], name: str, seed: int, other: Sequence[sts.StsTask] | None = None, other_name: str = ""
) -> dict[str, Any]:
    """Summarise predicted sentence similarities: the correlations over all pairs, for each file and for each task.

    Args:
        tasks: The predictions of a system, by task.
        name: Name of the system.
        seed: Seed of the bootstrap and of the randomisation test.
        other: The predictions of a second system for the same pairs, or None.
        other_name: Name of the second system.

    Returns:
        A dictionary for JSON. With ``other``, its key ``compare`` contains the second system's correlations and
        intervals, the differences (first system minus second system) and p-values.
    """
    own = sts.correlations(tasks)
    report = {"system": name, **own, "intervals": sts.intervals(tasks, seed), "seed": seed}
    if other is not None:
        summary = sts.correlations(other)
        report["compare"] = {
            "system": other_name,
            **summary,
            "intervals": sts.intervals(other, seed),
            "difference": {key: own[key] - summary[key] for key in sts.METRICS},
            "p": sts.p_values(tasks, other, seed),
        }
    return report


def feedback_report(runs: Mapping[str, Sequence[tuple[Run, Run]]], method: str, seed: int) -> dict[str, Any]:
    """Summarise the last round of a simulation of relevance feedback.

    In each round, a simulated user judges some hits, and the documents that the user has not judged are ranked again.

    Args:
        runs: For each method and each round, the run with the round's feedback and the run without feedback.
        method: Name of the feedback method to report. All other methods in ``runs`` are reported as baselines.
        seed: Seed of the bootstrap and of the randomisation test.

    Returns:
        A dictionary for JSON with the mean and the 95 % interval of each metric, the comparison with the run without
        feedback in ``compare``, and the means of the other methods in ``baselines``.
    """
    after, before = runs[method][-1]
    return {
        **run_report(after, method, seed, before, "before"),
        "baselines": {other: rounds[-1][0].means() for other, rounds in runs.items() if other != method},
    }


def topics_report(runs: Mapping[str, Mapping[str, Run]]) -> dict[str, Any]:
    """Summarise simulated sessions in which a user searches for two topics, one after the other.

    Args:
        runs: The runs of the second query, ``runs[kind][ranking]``. The kind is ``related`` if the second query is on
            the topic of the first query, and ``unrelated`` otherwise. The ranking is ``before`` (without a session),
            ``after`` (with the session), or ``whole`` (with a session that uses all judgements of the first query, even
            if they do not suit the second query).

    Returns:
        A dictionary for JSON. For each kind, it contains the number of queries and similar facts, and the mean metrics
        of each ranking.
    """
    return {
        kind: {**ways["before"].facts, **{name: run.means() for name, run in ways.items()}}
        for kind, ways in runs.items()
    }


def topics_table(report: Mapping[str, Any], metrics: Sequence[str]) -> str:
    """Format the report of :func:`topics_report` as a table for the terminal.

    In the report, a user first judges documents for a topic, and then searches with a second query, which is related or
    unrelated to this topic. The table has a line for each of these two kinds and each metric. It has these columns:

    - QUERIES: the number of queries that have values
    - BEFORE: the metric without a session
    - AFTER: the metric with the session
    - WHOLE: the metric with a session that gives all judgements their full weight, even if they do not suit the second
      query

    Args:
        report: A report that :func:`topics_report` returned.
        metrics: Names of the metrics to show.
    """
    rows = [["SECOND QUERY", "QUERIES", "METRIC", "BEFORE", "AFTER", "WHOLE"]]
    for kind in ("related", "unrelated"):
        entry = report[kind]
        for name in metrics:
            values = [_number(entry[way][name]) for way in ("before", "after", "whole")]
            rows.append([kind, str(entry["queries"] - entry["all_judged"]), name, *values])
    return "\n".join(_aligned_lines(rows))


def as_json(report: Mapping[str, Any]) -> str:
    """Return a report as one line of JSON. NaN becomes null."""
    return json.dumps(_to_json(report), ensure_ascii=False, allow_nan=False)


def _to_json(value: Any) -> Any:
    """Convert a value of a report to types that JSON supports. NaN and infinity become None."""
    if isinstance(value, Mapping):
        return {str(key): _to_json(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_table(report: Mapping[str, Any], metrics: Sequence[str]) -> str:
    """Format an evaluation report as a table for the terminal.

    The table has a line for each metric, with the value and its 95 % interval. If the report compares two systems, the
    line continues with the value of the second system, its interval, the difference and the p-value. A report on
    sentence pairs is followed by a table of files and a table of tasks.

    Args:
        report: A report from another function of this module, such as :func:`run_report`.
        metrics: Names of the metrics to show.
    """
    compare = report.get("compare")
    alone = {f"{name} alone": entry for name, entry in report.get("alone", {}).items()} | report.get("baselines", {})
    head = ["METRIC", report["system"], "95 %", *alone]
    rows = [head + ([compare["system"], "95 %", "DIFFERENCE", "P"] if compare else [])]
    for name in metrics:
        row = [name, *_interval_cells(report, name), *(_number(entry[name]) for entry in alone.values())]
        if compare:
            row += _interval_cells(compare, name)
            if name in compare["p"]:
                row += [f"{compare['difference'][name]:+.4f}", f"{compare['p'][name]:.4f}"]
        rows.append(row)
    lines = _aligned_lines(rows)
    for kind in ("files", "tasks"):
        if entries := report.get(kind):
            columns = list(next(iter(entries.values())))
            body = [[key, *(_number(entry[column]) for column in columns)] for key, entry in entries.items()]
            lines += ["", *_aligned_lines([[kind.upper(), *columns], *body])]
    return "\n".join(lines)


def _interval_cells(entry: Mapping[str, Any], name: str) -> list[str]:
    """Return two cells of a table for a metric: its value, and the limits of its 95 % interval.

    Args:
        entry: The values of a system by metric, with their intervals under the key ``intervals``.
        name: The name of the metric. If it has no interval, the second cell is empty.
    """
    low, high = entry["intervals"].get(name, (None, None))
    return [_number(entry[name]), "" if low is None else f"{_number(low)} – {_number(high)}"]


def _number(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    return "" if value is None else f"{value:.4f}"


def _aligned_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """Format the rows of a table, which consist of text cells, as lines of text with aligned columns."""
    widths = [max(len(row[i]) if i < len(row) else 0 for row in rows) for i in range(max(map(len, rows)))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)).rstrip() for row in rows]
