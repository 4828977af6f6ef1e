"""Bar charts of the ratios of a comparison, as SVG files that need no script."""

from __future__ import annotations

from pathlib import Path

from ..errors import BenchmarkError
from .results import Comparison
from .rows import UNITS, Quantity

CHARTS: dict[str, tuple[Quantity, str]] = {
    "speed-cpu.svg": ("cpu_us", "less is better"),
    "speed-rate.svg": ("rate", "more is better"),
}
"""File -> the quantity drawn, and how it is read."""

_COLORS = ("#2a78d6", "#e0a030", "#57564f", "#7a3fb0")
_BAR = 0.36


def draw(results: Comparison, folder: Path) -> list[Path]:
    """
    Write one chart for each of L{CHARTS}: a bar for each row and broker, from least to most by a thin line.

    The same results give the same bytes.

    @return: the files.
    @raise BenchmarkError: matplotlib is not installed.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError:
        raise BenchmarkError("charts need matplotlib: pip install matplotlib") from None
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, (quantity, reading) in CHARTS.items():
        targets = [each for each in results.names if each != results.reference]
        rows = [row for row in results.rows if any(results.ratio(row, target, quantity) for target in targets)]
        with rc_context({"svg.hashsalt": "smartgo", "font.size": 9, "font.family": "sans-serif"}):
            figure = Figure(figsize=(8, 1.2 + _BAR * len(rows) * max(1, len(targets))), layout="constrained")
            axes = figure.add_subplot()
            height = 0.8 / max(1, len(targets))
            for number, target in enumerate(targets):
                found = [
                    (at, spread) for at, row in enumerate(rows) if (spread := results.ratio(row, target, quantity))
                ]
                medians = [spread.median for _, spread in found]
                axes.barh(
                    [at + (number - (len(targets) - 1) / 2) * height for at, _ in found],
                    medians,
                    height=height * 0.9,
                    color=_COLORS[number % len(_COLORS)],
                    label=target,
                    xerr=[
                        [spread.median - spread.minimum for _, spread in found],
                        [spread.maximum - spread.median for _, spread in found],
                    ],
                    error_kw={"elinewidth": 0.8, "ecolor": "#14140f"},
                )
            axes.set_yticks(range(len(rows)), rows)
            axes.invert_yaxis()
            axes.axvline(1, color="#8a8981", linestyle="--", linewidth=0.8)
            axes.set_xlim(left=0)
            axes.set_title(f"{UNITS[quantity]}, by that of {results.reference} ({reading})", loc="left")
            axes.spines[["top", "right"]].set_visible(False)
            if rows:
                axes.legend(loc="best", frameon=False)
            path = folder / name
            figure.savefig(path, format="svg", metadata={"Date": None})
        paths.append(path)
    return paths
