"""Style of the plots in the documentation: colours, markers, and axes with plain numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

# the palette of Okabe and Ito, which is distinguishable with any kind of colour vision; grey replaces yellow, which is
# hard to see on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#888888")
MARKERS = "os^DvPX"


def mark(number: int) -> dict[str, Any]:
    """Return colour and marker of a group by its number. From the ninth group, colours repeat with other markers."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "marker": MARKERS[(number + number // len(COLOURS)) % len(MARKERS)],
    }


def style(number: int) -> dict[str, Any]:
    """Return colour, marker and line style of a line by its number. Lines are dashed from the ninth."""
    return mark(number) | {"linestyle": "-" if number < len(COLOURS) else "--"}


def panels(count: int, width: float = 6.0, height: float = 4.0) -> tuple[Any, list[Any]]:
    """Create a figure with ``count`` axes side by side, ``width`` × ``height`` inches each."""
    figure, axes = plt.subplots(1, count, figsize=(width * count, height), layout="constrained", squeeze=False)
    return figure, list(axes[0])


def logarithmic(axes: Any, what: str = "xy") -> None:
    """Make the axes ``what`` logarithmic, with plain numbers instead of powers of ten."""
    plain = FuncFormatter(lambda value, _: f"{value:,g}" if value < 1e6 else f"{value / 1e6:g} million")
    for name in what:
        axis = axes.xaxis if name == "x" else axes.yaxis
        (axes.set_xscale if name == "x" else axes.set_yscale)("log")
        axis.set_major_formatter(plain)
        low, high = sorted(axes.get_xlim() if name == "x" else axes.get_ylim())
        axis.set_minor_formatter(plain if high < 20 * low else NullFormatter())


def save(figure: Any, path: Path) -> Path:
    """Save a figure as PNG without metadata, so that identical figures give identical files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    plt.close(figure)
    return path
