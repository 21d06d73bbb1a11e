"""How the documentation's plots look: one unit an axis, a colour and a marker a line, plain numbers on the axes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

# Okabe and Ito's colours, which people with any kind of colour vision tell apart; grey for yellow, which white swallows
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#888888")
MARKERS = "os^DvPX"


def mark(number: int) -> dict[str, Any]:
    """Colour and marker of the group of this number; after eight the colours come again with other markers."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
    }


def style(number: int) -> dict[str, Any]:
    """The same for a line, which is dashed after eight."""
    return mark(number) | {"linestyle": "-" if number < len(COLOURS) else "--"}


def panels(count: int, width: float = 6.0, height: float = 4.0) -> tuple[Any, list[Any]]:
    """A figure with so many axes side by side."""
    figure, axes = plt.subplots(1, count, figsize=(width * count, height), layout="constrained", squeeze=False)
    return figure, list(axes[0])


def logarithmic(axes: Any, what: str = "xy") -> None:
    """Make axes logarithmic, with numbers that need no powers of ten read."""
    plain = FuncFormatter(lambda value, _: f"{value:,g}" if value < 1e6 else f"{value / 1e6:g} million")
    for name in what:
        axis = axes.xaxis if name == "x" else axes.yaxis
        (axes.set_xscale if name == "x" else axes.set_yscale)("log")
        axis.set_major_formatter(plain)
        low, high = sorted(axes.get_xlim() if name == "x" else axes.get_ylim())
        axis.set_minor_formatter(plain if high < 20 * low else NullFormatter())


def save(figure: Any, path: Path) -> Path:
    """Write a PNG that is the same whenever the same is drawn."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return path
