"""The lag of a stream over time, as an SVG picture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log10
from typing import NamedTuple

_WIDTH, _HEIGHT = 960, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 20, 56, 44
_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


class Lag(NamedTuple):
    """
    The age of the messages of a micro-batch when all of them were in the sink.

    @ivar at: seconds since the load began.
    @ivar half: seconds; half of them were younger, C{oldest} none was older.
    @ivar rows: how many they were.
    """

    at: float
    half: float
    oldest: float
    rows: int


def svg(title: str, lags: Sequence[Lag], marks: Sequence[tuple[float, str]]) -> str:
    """
    Draw the oldest and the middle message of each micro-batch over time; lags by their logarithm.

    @param marks: moments, in seconds since the load began, and what happened then.
    """
    last = max(lag.at for lag in lags)
    low, high = min(lag.half for lag in lags), max(lag.oldest for lag in lags)
    bottom = max([one for one in _STEPS if one <= low], default=_STEPS[0])
    top = min([one for one in _STEPS if one >= high], default=_STEPS[-1])
    minutes = next(one for one in (5, 10, 15, 30, 60, 120, 300, 600, 3600) if last / one <= 11)

    def x(seconds: float) -> float:
        return round(_LEFT + seconds / last * (_WIDTH - _LEFT - _RIGHT), 1)

    def y(seconds: float) -> float:
        part = log10(max(seconds, bottom) / bottom) / log10(top / bottom)
        return round(_HEIGHT - _BOTTOM - part * (_HEIGHT - _TOP - _BOTTOM), 1)

    box = f'viewBox="0 0 {_WIDTH} {_HEIGHT}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="13">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fcfcfb"/>',
        f'<text x="{_LEFT}" y="22" font-size="15" font-weight="600" fill="#14140f">{title}</text>',
    ]
    for line in _STEPS[_STEPS.index(bottom) : _STEPS.index(top) + 1]:
        at = y(line)
        parts.append(f'<path d="M{_LEFT} {at}H{_WIDTH - _RIGHT}" stroke="#e3e2dd"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{at + 4}" text-anchor="end" fill="#57564f">{line:g} s</text>')
    for tick in range(0, int(last) + 1, minutes):
        clock = f"{tick // 60}:{tick % 60:02}"
        parts.append(f'<text x="{x(tick)}" y="{_HEIGHT - 22}" text-anchor="middle" fill="#57564f">{clock}</text>')
    for at, words in marks:
        parts.append(f'<path d="M{x(at)} {_TOP}V{_HEIGHT - _BOTTOM}" stroke="#8a8981" stroke-dasharray="4 4"/>')
        parts.append(f'<text x="{x(at) + 6}" y="{_TOP + 12}" fill="#57564f">{words}</text>')
    of: tuple[tuple[str, str, Callable[[Lag], float]], ...] = (
        ("#e34948", "oldest message of a micro-batch", lambda lag: lag.oldest),
        ("#2a78d6", "half of its messages are younger", lambda lag: lag.half),
    )
    for number, (color, name, value) in enumerate(of):
        points = " ".join(f"{x(lag.at)},{y(value(lag))}" for lag in lags)
        parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.6"/>')
        at = _LEFT + number * 260
        parts.append(f'<path d="M{at} 40h18" stroke="{color}" stroke-width="3"/>')
        parts.append(f'<text x="{at + 24}" y="44" fill="#57564f">{name}</text>')
    parts.append(
        f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 6}" text-anchor="end" fill="#8a8981">minutes of load</text></svg>\n'
    )
    return "\n".join(parts)
