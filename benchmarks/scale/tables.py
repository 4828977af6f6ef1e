"""The tables of the scale benchmarks: sizes side by side, one figure a line, and the ratio of last to first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rich.table import Table

from ..spread import Spread
from .process import How, Start

_StageT = TypeVar("_StageT")
Line = tuple[str, Callable[[_StageT], float | None]]
"""What a line is called, and its figure at one size; C{None} where there is none."""


def side_by_side(title: str, sizes: Sequence[str], stages: Sequence[_StageT], lines: Iterable[Line[_StageT]]) -> Table:
    """
    Lay out the figures of all sizes.

    @param sizes: the head of each column.
    """
    made = Table(title=title, title_justify="left")
    made.add_column("")
    for size in sizes:
        made.add_column(size, justify="right")
    made.add_column("last / first", justify="right")
    for name, figure in lines:
        figures = [figure(stage) for stage in stages]
        made.add_row(name, *(_cell(each) for each in figures), _ratio(figures))
    return made


def median(figures: Sequence[float]) -> float | None:
    """Return the median, C{None} without figures."""
    return Spread.of(figures).median if figures else None


def of_start(starts: Sequence[Start], how: How, figure: Callable[[Start], float]) -> float | None:
    """Return one figure of the start of a kind, C{None} where there was none."""
    return next((figure(each) for each in starts if each.how == how), None)


def _cell(figure: float | None) -> str:
    if figure is None:
        return ""
    if figure == 0 or abs(figure) >= 1000:
        return f"{figure:,.0f}"
    return f"{figure:.1f}" if abs(figure) >= 100 else f"{figure:.2f}"


def _ratio(figures: Sequence[float | None]) -> str:
    if len(figures) < 2 or not figures[0] or figures[-1] is None:
        return ""
    return f"{figures[-1] / figures[0]:.2f}"
