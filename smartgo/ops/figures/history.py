"""
Figures over time, kept in rings: every sample for a while, minutes for a day, hours for a month. Sans I/O.

A coarser ring holds the means of what the finer samples said in its minute or hour. What is kept of a series is
bounded, and so is the number of series of each kind (the word before the colon in the name of a series); the one that
nobody added to for longest goes first.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import lt
from typing import Final, NamedTuple

import msgspec

from smartgo.errors import BadBody


class Level(NamedTuple):
    """One ring of points of the same step."""

    seconds: int
    """Of one point; 0 for every sample as it comes."""
    points: int
    """That are kept."""


LEVELS: Final = (Level(0, 900), Level(60, 1440), Level(3600, 720))
FEW_SAMPLES: Final = (Level(0, 60), *LEVELS[1:])
"""Levels of kinds with many series, which are sampled every half minute."""
SERIES: Final = 500
"""Series that are kept of each kind."""
BEHIND: Final = 60
"""
Samples in a row of an earlier time than the last point's, after which that point is taken for one of a wrong clock.
"""

_MANY: Final = frozenset({"group", "topic", "broker-lag"})

_VERSION: Final = 1


class SavedLevel(msgspec.Struct):
    """One ring of one series: times in ms as int64, and values as float32, figure by figure; little-endian."""

    seconds: int
    at: bytes
    values: list[bytes]


class SavedSeries(msgspec.Struct):
    """One series."""

    name: str
    figures: list[str]
    levels: list[SavedLevel]


class SavedHistory(msgspec.Struct):
    """All series as they are saved."""

    version: int
    series: list[SavedSeries]


class Points(NamedTuple):
    """A range of a time series."""

    step_ms: int
    """Between two points; 0: as they came."""
    at_ms: list[int]
    values: list[list[float]]
    """By figure, one a point."""


class _Ring:
    """The points of one level, the oldest first; cut at both ends now and then rather than at every point."""

    __slots__ = ("_count", "_open", "_sums", "at", "level", "values")

    def __init__(self, level: Level, figures: int) -> None:
        self.level = level
        self.at = array("q")
        self.values = [array("f") for _ in range(figures)]
        self._open = -1
        self._sums = [0.0] * figures
        self._count = 0

    def add(self, at_ms: int, values: Sequence[float]) -> None:
        """Take a sample."""
        if not self.level.seconds:
            self._put(at_ms, values)
            return
        bucket = at_ms // (self.level.seconds * 1000)
        if bucket != self._open:
            self.close()
            self._open = bucket
        for number, value in enumerate(values):
            self._sums[number] += value
        self._count += 1

    def close(self) -> None:
        """Make a point from the samples since the last point."""
        if self._count:
            at_ms = self._open * self.level.seconds * 1000
            if not self.at or at_ms > self.at[-1]:
                self._put(at_ms, [one / self._count for one in self._sums])
        self._sums = [0.0] * len(self._sums)
        self._count = 0

    def between(self, begin_ms: int, before_ms: int) -> tuple[int, int]:
        """
        Return which points stand between two times: the number of the first, and that after the last.

        @param before_ms: where finer points begin; the very first point is left out if its step reaches beyond that,
            as all that it holds may be in them.
        """
        first, last = bisect_left(self.at, begin_ms), bisect_left(self.at, before_ms)
        if last == 1 and self.at[0] + self.level.seconds * 1000 > before_ms:
            return 0, 0
        return first, last

    def cut(self, at_ms: int) -> None:
        """Remove what is of this time or later: a clock that was ahead stamped it."""
        first = bisect_left(self.at, at_ms)
        del self.at[first:]
        for column in self.values:
            del column[first:]
        if self._open * self.level.seconds * 1000 > at_ms:
            self._open = -1
            self._sums = [0.0] * len(self._sums)
            self._count = 0

    def kept(self) -> SavedLevel:
        """Return the points, with one for the samples since the last."""
        at, values = self.at[:], [column[:] for column in self.values]
        at_ms = self._open * self.level.seconds * 1000
        if self._count and (not at or at_ms > at[-1]):
            at.append(at_ms)
            for column, total in zip(values, self._sums, strict=True):
                column.append(total / self._count)
        return SavedLevel(self.level.seconds, at.tobytes(), [column.tobytes() for column in values])

    def _put(self, at_ms: int, values: Sequence[float]) -> None:
        self.at.append(at_ms)
        for column, value in zip(self.values, values, strict=True):
            column.append(value)
        if len(self.at) >= self.level.points + self.level.points // 4:
            extra = len(self.at) - self.level.points
            del self.at[:extra]
            for column in self.values:
                del column[:extra]


class _Series:
    """
    One series: its figures, and a ring a level.

    @ivar behind: samples in a row that were of an earlier time than its last point.
    """

    __slots__ = ("behind", "figures", "rings")

    def __init__(self, kind: str, figures: Sequence[str]) -> None:
        self.figures = tuple(figures)
        self.behind = 0
        self.rings = [_Ring(level, len(figures)) for level in (FEW_SAMPLES if kind in _MANY else LEVELS)]

    @property
    def last_ms(self) -> int:
        """Return the time of its last point; -1 where it has none."""
        return max((ring.at[-1] for ring in self.rings if ring.at), default=-1)


class History:
    """The recorded points of all series."""

    def __init__(self, most: int = SERIES) -> None:
        """@param most: series that are kept of each kind."""
        self._most = most
        self._kinds: dict[str, OrderedDict[str, _Series]] = {}

    def names(self) -> list[str]:
        """Return the names of all series, sorted."""
        return sorted(name for series in self._kinds.values() for name in series)

    def figures(self, name: str) -> tuple[str, ...]:
        """Return the names of a series' figures; none where there is no such series."""
        found = self._found(name)
        return () if found is None else found.figures

    def _found(self, name: str) -> _Series | None:
        kept = self._kinds.get(_kind(name))
        return None if kept is None else kept.get(name)

    def _put(self, name: str, series: _Series) -> None:
        kept = self._kinds.setdefault(_kind(name), OrderedDict())
        kept[name] = series
        while len(kept) > self._most:
            kept.popitem(last=False)

    def add(self, name: str, at_ms: int, figures: Sequence[str], values: Sequence[float]) -> None:
        """
        Add a sample to a series; a sample of other figures than the last one's begins the series anew.

        @param at_ms: wall clock; what is not after the last point is left out. Where L{BEHIND} samples in a row are
            not, the clock was ahead before and is right now: the points of later times go, and the series goes on.
        """
        series = self._found(name)
        if series is None or series.figures != tuple(figures):
            series = _Series(_kind(name), figures)
            self._put(name, series)
        self._kinds[_kind(name)].move_to_end(name)
        if at_ms <= series.last_ms:
            series.behind += 1
            if series.behind < BEHIND:
                return
            for ring in series.rings:
                ring.cut(at_ms)
        series.behind = 0
        for ring in series.rings:
            ring.add(at_ms, values)

    def points(self, name: str, begin_ms: int, end_ms: int, most: int) -> Points:
        """
        Return the points of a series between two times: the finest that there are for each part of the range.

        Where the samples do not go back to the beginning of the range, minutes stand before them, and hours before
        those. Points of different steps are averaged to the coarsest of them.

        @param most: points; more are put together by their means.
        """
        series = self._found(name)
        if series is None:
            return Points(0, [], [])
        parts: list[tuple[_Ring, int, int]] = []
        before_ms = end_ms + 1
        for ring in series.rings:
            first, last = ring.between(begin_ms, before_ms)
            if first < last:
                parts.append((ring, first, last))
            if ring.at:
                before_ms = min(before_ms, ring.at[0])
        parts.reverse()
        at = [one for ring, first, last in parts for one in ring.at[first:last]]
        columns = [
            [one for ring, first, last in parts for one in ring.values[figure][first:last]]
            for figure in range(len(series.figures))
        ]
        if not at:
            return Points(0, [], [[] for _ in columns])
        step_ms = parts[0][0].level.seconds * 1000
        if len(parts) > 1:
            step_ms *= max(1, -(-(at[-1] - at[0]) // (step_ms * max(1, most - 1))))
            groups = [list(group) for _, group in groupby(range(len(at)), lambda number: at[number] // step_ms)]
        else:
            width = -(-len(at) // most)
            step_ms *= width
            groups = [list(range(first, min(first + width, len(at)))) for first in range(0, len(at), width)]
        return Points(
            step_ms,
            [at[group[-1]] for group in groups],
            [[_mean(column, group) for group in groups] for column in columns],
        )

    # -- keeping it ------------------------------------------------------------------------------------------------

    def saved(self) -> SavedHistory:
        """Return what is worth keeping over a restart: all but the single samples. Copies; see L{saved_parts}."""
        return SavedHistory(_VERSION, [one for part in self.saved_parts(SERIES) for one in part])

    def saved_parts(self, count: int) -> Iterator[list[SavedSeries]]:
        """Yield what L{saved} returns, some series at a time, so that others can work in between."""
        for kept in list(self._kinds.values()):
            names = list(kept)
            for first in range(0, len(names), count):
                yield [
                    SavedSeries(name, list(one.figures), [ring.kept() for ring in one.rings[1:]])
                    for name in names[first : first + count]
                    if (one := kept.get(name)) is not None
                ]

    def restore(self, saved: SavedHistory) -> None:
        """Take what was kept. @raise BadBody: it does not fit together."""
        if saved.version != _VERSION:
            raise BadBody(f"history of version {saved.version}")
        for one in saved.series:
            series = _Series(_kind(one.name), one.figures)
            rings = {ring.level.seconds: ring for ring in series.rings[1:]}
            for level in one.levels:
                ring = rings.get(level.seconds)
                if ring is not None:
                    _fill(ring, level)
            self._put(one.name, series)


def _kind(name: str) -> str:
    return name.partition(":")[0] if ":" in name else ""


def _fill(ring: _Ring, level: SavedLevel) -> None:
    count, rest = divmod(len(level.at), ring.at.itemsize)
    columns = [array("f") for _ in level.values]
    if rest or len(columns) != len(ring.values) or any(len(one) != 4 * count for one in level.values):
        raise BadBody("a ring of the history does not fit together")
    ring.at.frombytes(level.at)
    if not all(map(lt, ring.at, ring.at[1:])):
        raise BadBody("a ring of the history is out of order")
    for column, data in zip(ring.values, level.values, strict=True):
        column.frombytes(data)


def _mean(column: Sequence[float], numbers: Iterable[int]) -> float:
    found = [column[number] for number in numbers]
    return sum(found) / len(found)


def decoded(data: bytes) -> SavedHistory:
    """Read what L{History.saved} gave, as msgspec wrote it. @raise BadBody: it is something else."""
    try:
        return msgspec.msgpack.decode(data, type=SavedHistory)
    except msgspec.MsgspecError as error:
        raise BadBody(str(error)) from None


def encoded(saved: SavedHistory) -> bytes:
    """Return the history as bytes."""
    return joined(encoded_part(saved.series))


def encoded_part(series: Iterable[SavedSeries]) -> list[msgspec.Raw]:
    """Return some series as bytes, for L{joined}."""
    return [msgspec.Raw(msgspec.msgpack.encode(one)) for one in series]


def joined(series: list[msgspec.Raw]) -> bytes:
    """Return a history of series that are encoded already."""
    return bytes(msgspec.msgpack.encode({"version": _VERSION, "series": series}))
