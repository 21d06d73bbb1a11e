"""Plots of docs/results.md: precision–recall and precision–scope curves, and the effect of K and σ."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt

Reports = dict[str, list[dict[str, Any]]]

STYLES = {
    "tf-idf, stop": "0.6",
    "LSI": "tab:brown",
    "PV-DBOW": "tab:purple",
    "resift-en": "tab:cyan",
    "BoEW": "tab:orange",
    "RO-BoEW,": "tab:red",
    "RO-BoEW as published": "tab:pink",
    "RN-BoF": "tab:blue",
    "self-supervised": "tab:green",
}


def plots_of(title: str, found: Reports, folder: Path) -> list[Path]:
    """Draw what a table's reports allow; the files."""
    if title.startswith("Effect of"):
        return [sweeps(title, found, folder)] if any(found.values()) else []
    curves = {name: reports for name, reports in found.items() if reports and "precision_recall" in reports[0]}
    return [curves_of(title, curves, folder)] if len(curves) > 2 else []


def curves_of(title: str, found: Reports, folder: Path) -> Path:
    """Figures 4 and 5 of paper 000, side by side."""
    figure, (recall, scope) = plt.subplots(1, 2, figsize=(12, 4), layout="constrained")
    for start, colour in STYLES.items():
        for name, reports in found.items():
            if name.startswith(start) and not name.endswith(", resift-en"):
                levels = np.mean([report["precision_recall"] for report in reports], axis=0)
                recall.plot(np.linspace(0, 1, 11), levels, color=colour, label=name, marker=".")
                ranks = [int(rank) for rank in reports[0]["precision_scope"]]
                values = np.mean([list(report["precision_scope"].values()) for report in reports], axis=0)
                scope.plot(ranks, values, color=colour, label=name, marker=".")
    recall.set(xlabel="recall", ylabel="interpolated precision", xlim=(0, 1), ylim=(0, 1))
    scope.set(xlabel="scope (documents shown)", ylabel="precision", ylim=(0, 1))
    scope.legend(fontsize="small", loc="center left", bbox_to_anchor=(1, 0.5))
    figure.suptitle(title)
    return save(figure, folder, title)


def sweeps(title: str, found: Reports, folder: Path) -> Path:
    """mAP against the vectors' size, untrained and trained, and against σ."""
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    series: dict[str, list[tuple[float, float]]] = {}
    for name, reports in found.items():
        if reports and (match := re.fullmatch(r"(BoEW|RO-BoEW|RN-BoF), (?:N_R )?(\d+)(?:, σ ([\d.]+))?", name)):
            key = "σ" if match[3] else match[1]
            series.setdefault(key, []).append((float(match[3] or match[2]), 100 * reports[0]["map11"]))
    panels = {"BoEW": 0, "RO-BoEW": 1, "RN-BoF": 1, "σ": 2}
    for name, points in series.items():
        axes[panels[name]].plot(
            *zip(*sorted(points), strict=True), marker="o", label="BoEW, 64" if name == "σ" else name
        )
    for axis, label in zip(axes, ("codewords K", "codewords K, or size N_R", "σ"), strict=True):
        ticks = sorted({value for line in axis.lines for value in line.get_xdata()})
        axis.set(xlabel=label, ylabel="mAP × 100", xscale="log")
        axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
        if ticks:
            axis.legend()
    figure.suptitle(title)
    return save(figure, folder, title)


def save(figure: Any, folder: Path, title: str) -> Path:
    """A PNG named by the title."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{re.sub('[^a-z0-9]+', '-', title.lower()).strip('-')}.png"
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return path


def document_map(
    vectors: Sequence[np.ndarray[Any, Any]], labels: Sequence[str], titles: Sequence[str], path: Path
) -> None:
    """Documents on two t-SNE axes (seed 0), one panel for each of ``vectors`` (n, K), coloured by label."""
    from sklearn.manifold import TSNE

    figure, axes = plt.subplots(1, len(vectors), figsize=(6 * len(vectors), 5), layout="constrained", squeeze=False)
    names = sorted(set(labels))
    colours = plt.get_cmap("tab20")(np.linspace(0, 1, len(names)))
    for axis, rows, title in zip(axes[0], vectors, titles, strict=True):
        flat = TSNE(random_state=0, metric="cosine", init="random").fit_transform(rows)
        for name, colour in zip(names, colours, strict=True):
            axis.scatter(*flat[np.array(labels) == name].T, s=3, color=colour, label=name)
        axis.set(title=title, xticks=[], yticks=[])
    axes[0][-1].legend(fontsize="x-small", markerscale=3, loc="center left", bbox_to_anchor=(1, 0.5))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
