"""Plots of docs/results/: precision–recall and precision–scope curves, the effect of K and σ, and dot plots."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from paper_rows import Part
from plotting import mark, panels, save, style

Reports = dict[str, list[dict[str, Any]]]
Plot = tuple[Path, str]  # the file of a plot, and its alternative text

# prefixes of the names of rows that are drawn, and their labels in the legend
DRAWN = {
    "linear SVM on tf-idf, T = 0.25": "linear SVM (labels)",
    "RO-BoEW,": "RO-BoEW, our variant (labels)",
    "RN-BoF, 16": "RN-BoF (labels)",
    "RO-BoEW as published, ": "RO-BoEW as published (labels)",
    "self-supervised": "adapted, without labels",
    "PV-DBOW": "paragraph vectors",
    "LSI": "LSI",
    "tf-idf, stop": "tf-idf",
    "resift-en": "resift-en, packaged",
    "BoEW, ": "BoEW, untrained",
}


DOT_PLOT = "The table as a dot plot."  # the beginning of the alternative text of dot plots


def is_drawable(found: Reports) -> bool:
    """Return whether every row that has a curve has reports."""
    return all(found[name] for name in found if label_of(name) is not None)


def label_of(row: str) -> str | None:
    """Return the label of a row's curve, or None if the row has no curve."""
    if row.endswith(", resift-en") or "Euclidean" in row or "or more" in row:
        return None
    return next((label for start, label in DRAWN.items() if row.startswith(start)), None)


def plots_of(title: str, found: Reports, folder: Path) -> list[Plot]:
    """Draw the curves of a table, if its reports contain any."""
    curves = {name: reports for name, reports in found.items() if reports and "precision_recall" in reports[0]}
    return [curves_of(title, curves, folder)] if len(curves) > 2 else []


def curves_of(title: str, found: Reports, folder: Path) -> Plot:
    """Draw precision–recall and precision–scope curves, as in figures 4 and 5 of Passalis and Tefas (2018)."""
    figure, (recall, scope) = panels(2)
    means: dict[str, float] = {}
    for number, label in enumerate(DRAWN.values()):
        for name, reports in found.items():
            if label_of(name) == label:
                levels = np.mean([report["precision_recall"] for report in reports], axis=0)
                recall.plot(np.linspace(0, 1, 11), levels, label=label, markersize=4, **style(number))
                ranks = [int(rank) for rank in reports[0]["precision_scope"]]
                values = np.mean([list(report["precision_scope"].values()) for report in reports], axis=0)
                scope.plot(ranks, values, label=label, markersize=4, **style(number))
                means[label] = 100 * float(np.mean([report["map11"] for report in reports]))
    recall.set(xlabel="recall", ylabel="interpolated precision", xlim=(0, 1), ylim=(0, 1))
    scope.set(xlabel="documents shown", ylabel="precision", ylim=(0, 1))
    for axes in (recall, scope):
        axes.grid(alpha=0.3)
    scope.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.suptitle(title)
    *_, best = worst, *_ = sorted(means, key=means.__getitem__)
    words = "Precision against recall, and against the number of documents shown. "
    words += f"The highest mAP is {means[best]:.0f} ({best}), the lowest {means[worst]:.0f} ({worst})."
    return save(figure, folder / f"{_file_name(title)}.png"), words


def sweeps(part: Part, folder: Path, draw: bool) -> Plot:
    """Return a plot of mAP in three panels: against the size of untrained vectors, the size of trained vectors, and σ.

    Args:
        part: The table, whose first column is the mAP.
        folder: The folder of the plot.
        draw: If false, the file of the plot remains as it is.
    """
    series: dict[str, list[tuple[float, float]]] = {}
    for row in part.rows:
        if match := re.fullmatch(r"(BoEW|RO-BoEW|RN-BoF), (\d+)(?:, σ ([\d.]+))?", row.name):
            key = "BoEW with 64 codewords" if match[3] else match[1]
            series.setdefault(key, []).append((float(match[3] or match[2]), number_of(row.values[0])))
    best = {name: max(points, key=lambda point: point[1]) for name, points in series.items()}
    words = "mAP against the size of the vectors, without and with labels, and against σ. Best values: "
    words += ", ".join(f"{name} {value:.1f} at {size:g}" for name, (size, value) in best.items()) + "."
    path = folder / f"{_file_name(part.title)}.png"
    if draw:
        draw_sweeps(part.title, series, path)
    return path, words


def draw_sweeps(title: str, series: Mapping[str, Sequence[tuple[float, float]]], path: Path) -> None:
    """Draw a line for each series, in three panels with logarithmic axes."""
    figure, axes = panels(3, 4.4)
    for number, (name, panel) in enumerate({"BoEW": 0, "RO-BoEW": 1, "RN-BoF": 1, "BoEW with 64 codewords": 2}.items()):
        if name in series:
            axes[panel].plot(*zip(*sorted(series[name]), strict=True), label=name, **style(number))
    titles = ("without labels", "with labels", "width of the memberships")
    labels = ("codewords K", "codewords K, or dimensions", "σ")
    for panel_axes, label, head in zip(axes, labels, titles, strict=True):
        ticks = sorted({value for line in panel_axes.lines for value in line.get_xdata()})
        panel_axes.set(xlabel=label, ylabel="mAP × 100", xscale="log", title=head)
        panel_axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        panel_axes.minorticks_off()
        panel_axes.grid(alpha=0.3)
        if ticks:
            panel_axes.legend()
    figure.suptitle(title)
    save(figure, path)


def number_of(value: str) -> float:
    """Return the number at the start of a cell, without its standard deviation, or NaN if the cell is –."""
    match = re.match(r"[\d.]+", value)
    return float(match[0]) if match else np.nan


def dots(title: str, part: Part, folder: Path, draw: bool) -> Plot:
    """Return a dot plot of a table with a panel per column. Columns without any value are left out.

    Values of Resift are filled dots, values of the paper are hollow dots.

    Args:
        title: The title of the table, which names the file.
        part: The table.
        folder: The folder of the plot.
        draw: If false, the file of the plot remains as it is.
    """
    columns = [np.array([number_of(row.values[column]) for row in part.rows]) for column in range(len(part.head))]
    shown = [column for column, ours in enumerate(columns) if not np.isnan(ours).all()]
    best = [
        f"{part.head[column]} {np.nanmax(columns[column]):.1f} ({part.rows[int(np.nanargmax(columns[column]))].name})"
        for column in shown
    ]
    words = DOT_PLOT + (" Hollow dots are the values of the paper." if any(row.paper for row in part.rows) else "")
    words += f" Highest values: {', '.join(best)}."
    path = folder / f"{_file_name(title)}.png"
    if draw:
        draw_dots(part, shown, path)
    return path, words


def draw_dots(part: Part, columns: Sequence[int], path: Path) -> None:
    """Draw a panel with the dots of our values and of the paper's values for each of the columns."""
    figure, axes = panels(len(columns), width=3.6, height=1.2 + 0.28 * len(part.rows))
    places = np.arange(len(part.rows))
    for column, panel in zip(columns, axes, strict=True):
        ours = [number_of(row.values[column]) for row in part.rows]
        paper = [number_of(row.paper[column]) if row.paper else np.nan for row in part.rows]
        panel.scatter(ours, places, label="here", **mark(0))
        if not np.isnan(paper).all():
            panel.scatter(paper, places, label="paper", facecolors="none", edgecolors=mark(1)["color"])
        panel.set(title=part.head[column], yticks=places, yticklabels=[])
        panel.invert_yaxis()
        panel.grid(alpha=0.3)
    axes[0].set_yticklabels([row.name for row in part.rows])
    if axes[0].collections[1:]:
        axes[0].legend(fontsize="small")
    save(figure, path)


def _file_name(title: str) -> str:
    """Return the file name for a title. Text in parentheses is ignored."""
    return re.sub("[^a-z0-9]+", "-", re.sub(r"\(.*\)", "", title).lower()).strip("-")


def document_map(
    vectors: Sequence[np.ndarray[Any, Any]], labels: Sequence[str], titles: Sequence[str], path: Path
) -> Plot:
    """Draw t-SNE maps (seed 0) of documents, coloured by label, with a panel for each array (n, K) of ``vectors``."""
    from sklearn.manifold import TSNE

    figure, axes = panels(len(vectors), height=5)
    names = sorted(set(labels))
    pure = []
    for panel, rows, title in zip(axes, vectors, titles, strict=True):
        flat = TSNE(random_state=0, metric="cosine", init="random").fit_transform(rows)
        pure.append(f"{100 * _same_class(flat, labels):.0f} % with {title.replace(', ', ' ')}")
        for number, name in enumerate(names):
            panel.scatter(*flat[np.array(labels) == name].T, s=8, linewidths=0, label=name, **mark(number))
        panel.set(title=title, xticks=[], yticks=[])
    axes[-1].legend(fontsize="x-small", markerscale=2, loc="center left", bbox_to_anchor=(1, 0.5))
    words = f"t-SNE map of test documents from {len(names)} classes. "
    words += "Share of documents whose nearest neighbour has the same class: "
    words += ", ".join(pure) + "."
    return save(figure, path), words


def _same_class(points: np.ndarray[Any, Any], labels: Sequence[str]) -> float:
    """Return the share of points whose nearest neighbour has the same label."""
    squares = (points**2).sum(axis=1)
    distances = squares[:, None] + squares - 2 * points @ points.T
    np.fill_diagonal(distances, np.inf)
    classes = np.array(labels)
    return float((classes[distances.argmin(axis=1)] == classes).mean())
