"""Plots of docs/results/: precision–recall and precision–scope curves, and the effect of K and σ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from plotting import mark, panels, save, style

Reports = dict[str, list[dict[str, Any]]]
Plot = tuple[Path, str]  # a file, and what it shows in words

# how the rows that are drawn begin, and what the legend calls them
DRAWN = {
    "RO-BoEW,": "RO-BoEW (labels)",
    "RN-BoF, 16": "RN-BoF (labels)",
    "RO-BoEW as published": "RO-BoEW as published (labels)",
    "self-supervised": "adapted, without labels",
    "PV-DBOW": "paragraph vectors",
    "LSI": "LSI",
    "tf-idf, stop": "tf-idf",
    "resift-en": "resift-en, packaged",
    "BoEW": "BoEW, untrained",
}


def plots_of(title: str, found: Reports, folder: Path) -> list[Plot]:
    """Draw what a table's reports allow."""
    if title.startswith("Effect of"):
        return [sweeps(title, found, folder)] if any(found.values()) else []
    curves = {name: reports for name, reports in found.items() if reports and "precision_recall" in reports[0]}
    return [curves_of(title, curves, folder)] if len(curves) > 2 else []


def curves_of(title: str, found: Reports, folder: Path) -> Plot:
    """Figures 4 and 5 of Passalis and Tefas (2018), side by side; in words, the best and the worst mAP."""
    figure, (recall, scope) = panels(2)
    means: dict[str, float] = {}
    for number, (start, label) in enumerate(DRAWN.items()):
        for name, reports in found.items():
            if name.startswith(start) and not name.endswith(", resift-en"):
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
    words = "Precision over recall, and over the number of documents shown. "
    words += f"By mAP from {best} {means[best]:.0f} down to {worst} {means[worst]:.0f}."
    return save(figure, folder / f"{_file_name(title)}.png"), words


def sweeps(title: str, found: Reports, folder: Path) -> Plot:
    """mAP against the vectors' size, untrained and trained, and against σ."""
    figure, axes = panels(3, 4.4)
    series: dict[str, list[tuple[float, float]]] = {}
    for name, reports in found.items():
        if reports and (match := re.fullmatch(r"(BoEW|RO-BoEW|RN-BoF), (\d+)(?:, σ ([\d.]+))?", name)):
            key = "BoEW with 64 codewords" if match[3] else match[1]
            series.setdefault(key, []).append((float(match[3] or match[2]), 100 * reports[0]["map11"]))
    for number, (name, panel) in enumerate({"BoEW": 0, "RO-BoEW": 1, "RN-BoF": 1, "BoEW with 64 codewords": 2}.items()):
        if name in series:
            axes[panel].plot(*zip(*sorted(series[name]), strict=True), label=name, **style(number))
    titles = ("without labels", "with labels", "width of the memberships")
    for one, label, head in zip(axes, ("codewords K", "codewords K, or dimensions", "σ"), titles, strict=True):
        ticks = sorted({value for line in one.lines for value in line.get_xdata()})
        one.set(xlabel=label, ylabel="mAP × 100", xscale="log", title=head)
        one.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        one.minorticks_off()
        one.grid(alpha=0.3)
        if ticks:
            one.legend()
    figure.suptitle(title)
    best = {name: max(points, key=lambda point: point[1]) for name, points in series.items()}
    words = "mAP over the size of the vectors, without labels and with them, and over σ. Best: "
    words += ", ".join(f"{name} {value:.1f} at {size:g}" for name, (size, value) in best.items()) + "."
    return save(figure, folder / f"{_file_name(title)}.png"), words


def dots(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], folder: Path) -> Plot:
    """A table's cells as dots, a panel a column: ours filled, the paper's hollow; of several figures the first."""
    figure, axes = panels(len(head), width=3.6, height=1.2 + 0.28 * len(rows))
    best = []
    for column, (name, one) in enumerate(zip(head, axes, strict=True), 1):
        ours = [float(found[0]) if (found := re.match(r"[\d.]+", row[column])) else np.nan for row in rows]
        paper = [float(found[1]) if (found := re.search(r"\(([\d.]+)\)", row[column])) else np.nan for row in rows]
        places = np.arange(len(rows))
        one.scatter(ours, places, label="here", **mark(0))
        if not np.isnan(paper).all():
            one.scatter(paper, places, label="paper", facecolors="none", edgecolors=mark(1)["color"])
        one.set(title=name, yticks=places, yticklabels=[row[0] for row in rows] if column == 1 else [])
        one.invert_yaxis()
        one.grid(alpha=0.3)
        best.append(f"{name} {np.nanmax(ours):.1f} ({rows[int(np.nanargmax(ours))][0]})")
    if axes[0].collections[1:]:
        axes[0].legend(fontsize="small")
    words = f"The table's figures as dots, the paper's hollow. Highest: {', '.join(best)}."
    return save(figure, folder / f"{_file_name(title)}.png"), words


def _file_name(title: str) -> str:
    """A title without what stands in brackets, as the name of a file."""
    return re.sub("[^a-z0-9]+", "-", re.sub(r"\(.*\)", "", title).lower()).strip("-")


def document_map(
    vectors: Sequence[np.ndarray[Any, Any]], labels: Sequence[str], titles: Sequence[str], path: Path
) -> Plot:
    """Documents on two t-SNE axes (seed 0), one panel for each of ``vectors`` (n, K), coloured by label."""
    from sklearn.manifold import TSNE

    figure, axes = panels(len(vectors), height=5)
    names = sorted(set(labels))
    pure = []
    for one, rows, title in zip(axes, vectors, titles, strict=True):
        flat = TSNE(random_state=0, metric="cosine", init="random").fit_transform(rows)
        pure.append(f"{100 * _same_class(flat, labels):.0f} % with {title.replace(', ', ' ')}")
        for number, name in enumerate(names):
            one.scatter(*flat[np.array(labels) == name].T, s=8, linewidths=0, label=name, **mark(number))
        one.set(title=title, xticks=[], yticks=[])
    axes[-1].legend(fontsize="x-small", markerscale=2, loc="center left", bbox_to_anchor=(1, 0.5))
    words = f"Test documents of {len(names)} classes as points. The nearest one is of the same class: "
    words += ", ".join(pure) + "."
    return save(figure, path), words


def _same_class(points: np.ndarray[Any, Any], labels: Sequence[str]) -> float:
    """The share of points whose nearest other point has the same label."""
    squares = (points**2).sum(axis=1)
    distances = squares[:, None] + squares - 2 * points @ points.T
    np.fill_diagonal(distances, np.inf)
    classes = np.array(labels)
    return float((classes[distances.argmin(axis=1)] == classes).mean())
