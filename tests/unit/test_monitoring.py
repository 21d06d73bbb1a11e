"""Tests that the Grafana dashboard and the Prometheus alerts use existing metrics, labels and label values."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from flask.testing import FlaskClient
from service_app import config as config
from service_app import plain as plain

from resift.reranker.access.requests import count_rewrite, count_search, count_ubi
from resift.rewriting.outcome import Outcome

FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text("utf-8"))
ALERTS = yaml.safe_load((FOLDER / "prometheus-alerts.yml").read_text("utf-8"))
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
BY_PROMETHEUS = {"job", "instance"}  # labels that Prometheus adds to all series
EXPRESSIONS = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
EXPRESSIONS += [rule["expr"] for rule in RULES]


@pytest.fixture
def series(plain: FlaskClient) -> list[tuple[str, dict[str, str]]]:
    """Return the names and labels of all series in /metrics after one event of each kind."""
    with plain.application.app_context():
        for outcome in Outcome:
            count_rewrite(outcome)
        for metadata in ({"reranked": True}, {"reranked": False}, {"reranked": True, "reason": "no session"}):
            count_search(metadata)
        for events in ("events_stored", "events_refused"):
            count_ubi(events, 1)
    for path in ("search", "feedback", "rewrite"):
        plain.post(f"/v1/{path}", json={})
    plain.get("/readyz")
    lines = [line for line in plain.get("/metrics").text.splitlines() if not line.startswith("#")]
    matches = [re.fullmatch(r"(\w+)\{(.*)\} \S+", line) for line in lines]
    assert all(matches)
    return [(match[1], dict(re.findall(r'(\w+)="([^"]*)"', match[2]))) for match in matches if match]


def selectors(expression: str) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return the metrics in an expression, and their label conditions."""
    metrics = re.findall(r"(resift_\w+|\bup\b)(?:\{([^}]*)\})?", expression)
    return [(name, re.findall(r'(\w+)(=~|=|!=)"([^"]*)"', conditions)) for name, conditions in metrics]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_label_and_value_exists(series: list[tuple[str, dict[str, str]]], expression: str) -> None:
    for name, conditions in selectors(expression):
        labelled = [labels for known, labels in series if known == name]
        assert labelled or name == "up", name
        for label, operator, value in conditions:
            if label in BY_PROMETHEUS:
                continue
            values = {labels[label] for labels in labelled}
            pattern = value if operator == "=~" else re.escape(value)
            # errors with status 500 do not occur in this test
            assert label == "status" or any(re.fullmatch(pattern, text) for text in values), (label, value, values)
    for grouped in re.findall(r"\bby \(([^)]*)\)", expression):
        known = BY_PROMETHEUS | {label for _, labels in series for label in labels}
        assert set(grouped.split(", ")) <= known


def test_the_dashboard_shows_every_metric(series: list[tuple[str, dict[str, str]]]) -> None:
    shown = {name for expression in EXPRESSIONS for name, _ in selectors(expression)}
    counted = {re.sub("_(bucket|sum|count|created|total)$", "", name) for name, _ in series}
    assert counted == {re.sub("_(bucket|sum|count|created|total)$", "", name) for name in shown - {"up"}}


def test_the_dashboards_panels_fit() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__rate_interval", "__all"}
    assert used <= variables
    places = [place(panel["gridPos"]) for panel in DASHBOARD["panels"]]
    assert sum(map(len, places)) == len(set().union(*places))  # panels do not overlap
    assert all(panel["title"] and panel["description"] for panel in DASHBOARD["panels"])


def place(at: dict[str, Any]) -> set[tuple[int, int]]:
    """Return the grid cells of a panel."""
    assert at["x"] + at["w"] <= 24
    return {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}


def test_alerts_have_descriptions() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES) >= 5
    for rule in RULES:
        assert re.fullmatch(r"\d+m", rule["for"])
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert set(rule["annotations"]) == {"summary", "description"}
        text = (FOLDER.parent / "monitoring.md").read_text("utf-8")
        assert f"`{rule['alert']}`" in text
