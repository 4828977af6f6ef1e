"""
The output of Apache's benchmark programs, and the figures read from it.

Both print a line every report interval, beginning after ten seconds: figures of the last ten samples, which are taken
once a second, so of the last nine seconds. Before that they print nothing.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Sequence

import msgspec

WINDOW = 9
"""Seconds a printed rate is an average of."""

_LINE = re.compile(r"Current Time: (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) \| (?P<rest>.*)")
_FIELD = re.compile(r"(?P<name>[^|:]+): (?P<value>[^|]+)")


class Line(msgspec.Struct, frozen=True):
    """One line: when it was printed (seconds since the epoch), and its figures by the program's own names."""

    at: float
    figures: dict[str, float]

    @property
    def rate(self) -> float:
        """Messages a second over the last L{WINDOW} seconds."""
        return self.figures["Send TPS"] if "Send TPS" in self.figures else self.figures["Consume TPS"]

    @property
    def failed(self) -> int:
        """Failures of any kind, since the start of the program."""
        names = ("Send Failed", "Response Failed", "Consume Fail")
        return int(sum(self.figures.get(name, 0.0) for name in names))


def parse(output: str) -> list[Line]:
    """
    Read all figures from what a program printed; everything else is passed over.

    >>> parse("Current Time: 2026-11-21 13:31:18,687 | Send TPS: 2337 | Send Failed: 0")[0].rate
    2337.0
    """
    return [line for text in output.splitlines() if (line := parse_line(text)) is not None]


def parse_line(text: str) -> Line | None:
    """Read one line; C{None} when it is not one of figures, or is cut off."""
    matched = _LINE.search(text)
    if matched is None:
        return None
    when = datetime.datetime.strptime(matched["time"], "%Y-%m-%d %H:%M:%S,%f").astimezone()
    figures: dict[str, float] = {}
    for field in _FIELD.finditer(matched["rest"]):
        value = _number(field["value"].strip())
        if value is None:
            return None
        figures[field["name"].strip()] = value
    if not {"Send TPS", "Consume TPS"} & figures.keys():
        return None
    return Line(when.timestamp(), figures)


def _number(text: str) -> float | None:
    try:
        return math.nan if text == "NaN" else float(text.replace(",", "."))
    except ValueError:
        return None


class Progress(msgspec.Struct, frozen=True):
    """The state of a consumer at one of its samples."""

    at: float
    """Seconds since the epoch."""
    consumed: float


def drained(lines: Sequence[Line]) -> bool:
    """Tell whether the consumer has come to the end: it consumed, and now a whole window held nothing."""
    return len(lines) > 1 and lines[-1].rate == 0 and any(line.rate > 0 for line in lines)


def progress(lines: Sequence[Line], total: int) -> list[Progress]:
    """
    Work out, second by second, how many messages a consumer had consumed; lines are one a second until L{drained}.

    A line tells how many came in its window. In the last one nothing did, so the count at both its ends is the total;
    going backwards, the count at the start of each window is that at its end, less what came in it. So even what
    happened before the first line, ten seconds after the start, is known.

    @return: oldest first, one a second; the first is one window before the first line.
    @raise ValueError: the lines do not reach until the end.
    """
    if not drained(lines):
        raise ValueError("the consumer had not come to the end")
    counts = {len(lines) - 1 + ahead: float(total) for ahead in range(WINDOW + 1)}
    for index in range(len(lines) - 2, -1, -1):
        counts[index] = counts[index + WINDOW] - lines[index].rate * WINDOW
    return [
        Progress(lines[max(0, index - WINDOW)].at - max(0, WINDOW - index), counts[index]) for index in sorted(counts)
    ]


def steady_rate(course: Sequence[Progress], total: int) -> float | None:
    """
    Return messages a second between a tenth and nine tenths of the backlog: no start-up, no running dry.

    @return: C{None} when the backlog was too small for two samples between.
    """
    middle = [point for point in course if 0.1 * total <= point.consumed <= 0.9 * total]
    if len(middle) < 2:
        return None
    return (middle[-1].consumed - middle[0].consumed) / (middle[-1].at - middle[0].at)


def end_of(course: Sequence[Progress], total: int) -> float:
    """Return when the last message had been consumed, in seconds since the epoch, to a second and not too early."""
    return next(point.at for point in course if point.consumed >= total - 0.5)
