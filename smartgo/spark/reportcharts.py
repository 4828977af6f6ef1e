"""
The charts of the job's report, as plain values that plotly draws.

Colours are not in here: a trace says C{role}, the number of its colour or a name, and the page fills in what suits its
theme. Texts come from messages, and plotly reads some HTML in texts: L{plain} makes it none.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

Row = Mapping[str, Any]
Chart = dict[str, Any]

NOTHING: Final = "\N{EN DASH}"
"""Stands where there is no value."""
OTHERS: Final = "others"
_MINUS: Final = "\N{MINUS SIGN}"
_UNITS: Final = (
    (48 * 3_600_000, 24 * 3_600_000, "d"),
    (3_600_000, 3_600_000, "h"),
    (60_000, 60_000, "min"),
    (1000, 1000, "s"),
    (0, 1, "ms"),
)
"""From how many milliseconds on a unit is used, its milliseconds, and its name."""
_SERIES: Final = 7
_BARS: Final = 15
_LABEL: Final = 34
_TREE: Final = 60
_KIB: Final = 1024


def plain(text: object, limit: int | None = None) -> str:
    """Return a text as plotly is to show it, letter by letter; cut to C{limit} characters."""
    words = str(text)
    if limit is not None and len(words) > limit:
        words = words[: limit - 1] + "…"
    return html.escape(words)


def size_text(count: float) -> str:
    """Return a number of bytes for people: C{1.5 MiB}."""
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < _KIB or unit == "TiB":
            break
        value /= _KIB
    digits = 0 if unit == "B" or value >= 100 or value == int(value) else 1
    return f"{value:,.{digits}f} {unit}"


def span_text(milliseconds: float | None) -> str:
    """Return a duration for people: C{12 ms}, C{1.5 s}, C{3.2 h}; a dash for C{None}."""
    if milliseconds is None:
        return NOTHING
    value = abs(float(milliseconds))
    size, unit = next((size, unit) for least, size, unit in _UNITS if value >= least)
    value /= size
    sign = _MINUS if milliseconds < 0 else ""
    digits = 0 if size == 1 or value >= 100 or value == int(value) else 1
    return f"{sign}{value:,.{digits}f} {unit}"


def timeline(rows: Sequence[Row], width: int) -> Chart:
    """
    Messages over time, topics on top of one another, those with the fewest together.

    @param rows: C{at}, C{topic}, C{messages}.
    @param width: seconds of a column.
    """
    times = sorted({row["at"] for row in rows})
    sums: dict[str, int] = {}
    for row in rows:
        sums[row["topic"]] = sums.get(row["topic"], 0) + row["messages"]
    named = sorted(sums, key=lambda topic: (-sums[topic], topic))
    named = named if len(named) <= _SERIES + 1 else named[:_SERIES]
    series: dict[str | None, dict[datetime, int]] = {topic: {} for topic in named}
    for row in rows:
        values = series.setdefault(row["topic"] if row["topic"] in series else None, {})
        values[row["at"]] = values.get(row["at"], 0) + row["messages"]
    return {
        "data": [
            {
                "type": "bar",
                "name": OTHERS if topic is None else plain(topic, _LABEL),
                "x": [_moment(at) for at in times],
                "y": [values.get(at, 0) for at in times],
                "width": width * 1000 * 0.94,
                "role": "quiet" if topic is None else number,
                "hovertemplate": "%{y:,} messages",
            }
            for number, (topic, values) in enumerate(series.items())
        ],
        "layout": {
            "barmode": "stack",
            "hovermode": "x unified",
            "xaxis": {"type": "date"},
            "yaxis": {"title": {"text": f"messages in {span_text(width * 1000)}"}, "rangemode": "tozero"},
            "legend": {"orientation": "h", "y": -0.18},
        },
        "height": 340,
    }


def lag_over_time(rows: Sequence[Row]) -> Chart:
    """
    Return the chart of the time from birth to storing, over time: the median, and the slowest hundredth.

    @param rows: C{at}, C{lag_p50}, C{lag_p99}; one row a time, of plain topics.
    """
    times = [_moment(row["at"]) for row in rows]
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": label,
                "x": times,
                "y": [row[name] for row in rows],
                "role": role,
                "line": {"width": 2},
                "marker": {"size": 5},
                "hovertemplate": "%{y:,} ms",
            }
            for name, label, role in (("lag_p99", "99 %", 7), ("lag_p50", "median", 0))
        ],
        "layout": {
            "hovermode": "x unified",
            "xaxis": {"type": "date"},
            "yaxis": {"title": {"text": "ms from creation to storing"}, "rangemode": "tozero"},
            "legend": {"orientation": "h", "y": -0.22},
        },
        "height": 300,
    }


def lag_steps(rows: Sequence[Row]) -> Chart:
    """
    Return the histogram of the time from birth to storing, plain topics only.

    @param rows: C{from_ms} and C{messages}, in order; -1 for clocks that disagree.
    """
    labels = ["negative" if row["from_ms"] < 0 else span_text(row["from_ms"]) for row in rows]
    return _columns(labels, [row["messages"] for row in rows], "lag of at least", 0, "%{x}: %{y:,} messages")


def body_sizes(rows: Sequence[Row]) -> Chart:
    """Return the histogram of body sizes. @param rows: C{up_to_bytes} and C{messages}, in order."""
    labels = [size_text(row["up_to_bytes"]) for row in rows]
    return _columns(labels, [row["messages"] for row in rows], "body of at most", 1, "at most %{x}: %{y:,} messages")


def largest_topics(rows: Sequence[Row]) -> Chart:
    """
    The topics with the most messages.

    @param rows: C{topic}, C{messages}, C{bytes}; the largest first.
    """
    shown = list(reversed(rows[:_BARS]))
    return {
        "data": [
            {
                "type": "bar",
                "orientation": "h",
                "y": [plain(row["topic"], _LABEL) for row in shown],
                "x": [row["messages"] for row in shown],
                "text": [f"{row['messages']:,} · {size_text(row['bytes'])}" for row in shown],
                "textposition": "outside",
                "cliponaxis": False,
                "role": 0,
                "hovertemplate": "%{y}<br>%{text}<extra></extra>",
            }
        ],
        "layout": {
            "xaxis": {"title": {"text": "messages"}, "rangemode": "tozero"},
            "yaxis": {"automargin": True, "showgrid": False, "type": "category"},
            "margin": {"r": 130},
            "bargap": 0.35,
        },
        "height": 90 + 26 * max(len(shown), 2),
    }


def tags(rows: Sequence[Row]) -> Chart:
    """
    Topics, and within them tags, as areas of so many messages.

    @param rows: C{topic}, C{tag}, C{messages}; the largest first.
    """
    ids, labels, parents, values, roles = [], [], [], [], []
    topics: dict[str, int] = {}
    for row in rows[:_TREE]:
        topics[row["topic"]] = topics.get(row["topic"], 0) + row["messages"]
    for number, (topic, messages) in enumerate(topics.items()):
        ids.append(f"t{number}")
        labels.append(plain(topic, _LABEL))
        parents.append("")
        values.append(messages)
        roles.append(number)
    places = {topic: number for number, topic in enumerate(topics)}
    for number, row in enumerate(rows[:_TREE]):
        ids.append(f"g{number}")
        labels.append("no tag" if row["tag"] is None else plain(row["tag"], _LABEL))
        parents.append(f"t{places[row['topic']]}")
        values.append(row["messages"])
        roles.append(places[row["topic"]])
    return {
        "data": [
            {
                "type": "treemap",
                "ids": ids,
                "labels": labels,
                "parents": parents,
                "values": values,
                "branchvalues": "total",
                "roles": roles,
                "tiling": {"pad": 2},
                "pathbar": {"visible": False},
                "texttemplate": "%{label}<br>%{value:,}",
                "hovertemplate": "%{label}<br>%{value:,} messages<extra></extra>",
            }
        ],
        "layout": {"margin": {"l": 0, "r": 0, "t": 4, "b": 4}, "uniformtext": {"minsize": 11, "mode": "hide"}},
        "height": 340,
    }


def _columns(labels: Iterable[str], values: Iterable[int], title: str, role: int, hover: str) -> Chart:
    return {
        "data": [
            {
                "type": "bar",
                "x": list(labels),
                "y": list(values),
                "role": role,
                "hovertemplate": hover + "<extra></extra>",
            }
        ],
        "layout": {
            "xaxis": {"type": "category", "title": {"text": title}},
            "yaxis": {"title": {"text": "messages"}, "rangemode": "tozero"},
            "bargap": 0.12,
        },
        "height": 300,
    }


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
