"""
The job's report: one HTML file with everything in it, for people.

Names, keys and paths in it come from messages that anybody may have sent: all of them are escaped, and the page forbids
itself to load or to send anything.
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from smartgo.spark import reportcharts as charts
from smartgo.spark.reportcharts import NOTHING, Chart, Row, size_text, span_text
from smartgo.spark.reportpage import SCRIPT, STYLE

REPORT: Final = "report.html"
"""The name of the file that holds the page."""
_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
_LISTED: Final = 200
_KEYS: Final = 25
_MINUTES: Final = len("2026-03-14 15:09")
_IN_A_SCRIPT: Final = {ord(one): f"\\u{ord(one):04x}" for one in "<>&\u2028\u2029"}


class Report(NamedTuple):
    """
    The content of the report.

    @ivar stores: the directories, as they were given.
    @ivar made: when.
    @ivar width: seconds of a column of the charts over time.
    @ivar tables: rows by name of the table, see L{smartgo.spark.jobtables}; C{timeline} by topic, C{lag_timeline} and
        C{lags} of plain topics alone, C{sizes} of all topics together.
    """

    stores: Sequence[str]
    made: datetime
    width: int
    tables: Mapping[str, Sequence[Row]]


class _Column(NamedTuple):
    title: str
    cell: Callable[[Row], str]
    """Makes the whole cell, escaped."""
    number: bool = False


def page(report: Report, plotly: str) -> str:
    """
    Return the report as HTML.

    @param plotly: the source of plotly's script.
    """
    totals = report.tables["totals"][0]
    figures: dict[str, Chart] = {}
    body = "".join(_sections(report, totals, figures))
    drawn = json.dumps(figures, ensure_ascii=False).translate(_IN_A_SCRIPT)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{_text(_title(report))}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"{_header(report, totals)}{_tiles(report, totals)}{body}{_footer(report)}"
        f'</main>\n<script type="application/json" id="charts">{drawn}</script>\n'
        f"<script>{plotly}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


# -- parts -----------------------------------------------------------------------------------------------------


def _title(report: Report) -> str:
    what = "Contents of the message store" if len(report.stores) == 1 else "Contents of the message stores"
    return f"{what} {', '.join(report.stores)}"


def _header(report: Report, totals: Row) -> str:
    first, last = totals["first_stored"], totals["last_stored"]
    period = "no messages" if first is None else f"stored {_time(first)} to {_time(last)} UTC"
    plural = "" if len(report.stores) == 1 else "s"
    paths = ", ".join(f"<code>{_text(path)}</code>" for path in report.stores)
    return (
        f"<header><div><h1>Contents of the message store{plural}</h1>"
        f'<p class="about">{paths} · {period}</p></div>'
        '<button class="theme" type="button">light / dark</button></header>\n'
    )


def _tiles(report: Report, totals: Row) -> str:
    tables = report.tables
    damaged = sum(row["length"] for row in tables["corrupt"])
    count = len(tables["corrupt"])
    mean = totals["body_bytes"] / totals["messages"] if totals["messages"] else 0
    tiles = [
        ("Messages", f"{totals['messages']:,}", f"in {totals['topics']:,} topics", ""),
        ("Stored", size_text(totals["bytes"]), f"bodies {size_text(mean)} on average", ""),
        ("Period", _period(totals), _rate(totals), ""),
        (
            "Lag",
            span_text(totals["lag_p50"]),
            f"median; 99 % within {span_text(totals['lag_p99'])}",
            "",
        ),
        ("Sent back", f"{totals['retries']:,}", "in retry topics", ""),
        ("Dead letters", f"{totals['dead']:,}", "no longer retried", "bad" if totals["dead"] else ""),
        (
            "Damage",
            f"{count:,} {'place' if count == 1 else 'places'}" if count else "none",
            f"{size_text(damaged)} unreadable" if count else "every record is whole",
            "bad" if count else "good",
        ),
    ]
    cells = "".join(
        f'<div class="tile {state}"><div class="name">{name}</div><div class="value">{value}</div>'
        f'<div class="more">{more}</div></div>'
        for name, value, more, state in tiles
    )
    return f'<div class="tiles">{cells}</div>\n'


def _sections(report: Report, totals: Row, figures: dict[str, Chart]) -> Iterable[str]:
    tables = report.tables
    if tables["corrupt"]:
        yield _damage(tables["corrupt"])
    if totals["messages"]:
        column = span_text(report.width * 1000)
        yield _section(
            "Messages over time",
            f"By store time, UTC; each column is {column}. The {charts.OTHERS} are topics with fewer messages.",
            _chart(figures, "time", charts.timeline(tables["timeline"], report.width)),
        )
        yield _section(
            "Topics",
            "Retry, dead-letter, delay and transaction topics are the broker's own; lag is from creation at the "
            "producer to storing, by two clocks. Click a heading to sort.",
            _chart(figures, "topics", charts.largest_topics(tables["by_topic"])),
            _topics(tables["by_topic"]),
        )
        yield '<div class="pair">'
        yield _section(
            "Tags",
            "The area of a tag is proportional to its number of messages.",
            _chart(figures, "tags", charts.tags(tables["by_tag"])),
        )
        yield _section(
            "Bodies by size",
            "Size as stored: compressed bodies count with their compressed size.",
            _chart(figures, "sizes", charts.body_sizes(tables["sizes"])),
        )
        yield '</div><div class="pair">'
        yield _lag_sections(tables, figures)
        yield "</div>"
        yield '<div class="pair">'
        yield _section("Retries and dead letters", "Messages that groups sent back.", _retries(tables["retries"]))
        yield _section(
            "Keys with the most messages",
            "Plain topics only. A key with far more messages than others may be a constant that should be an id.",
            _keys(tables["top_keys"][:_KEYS]),
        )
        yield "</div>"
    if not tables["corrupt"]:
        yield _damage(())
    if len(tables["by_store"]) > 1:
        yield _section("Stores", "", _stores(tables["by_store"]))


def _lag_sections(tables: Mapping[str, Sequence[Row]], figures: dict[str, Chart]) -> str:
    if not tables["lags"]:
        return _section("Lag", "", '<p class="none">No plain topic has messages.</p>')
    return _section(
        "Lag over time",
        "Plain topics: milliseconds from creation at the producer to storing.",
        _chart(figures, "lag", charts.lag_over_time(tables["lag_timeline"])),
    ) + _section(
        "Distribution of the lag",
        "Plain topics: from creation to storing. A negative lag means that the clocks of producer and broker disagree.",
        _chart(figures, "steps", charts.lag_steps(tables["lags"])),
    )


def _damage(rows: Sequence[Row]) -> str:
    if not rows:
        return _section("Damage", "", '<p class="none good">Every record was read, and every checksum is correct.</p>')
    columns = [
        _Column("Store", lambda row: _name(row["store"])),
        _Column("File", lambda row: _name(row["file"].rpartition("/")[2])),
        _Column("Physical offset", lambda row: _number(row["offset"]), True),
        _Column("Bytes", lambda row: _number(row["length"]), True),
        _Column("Reason", lambda row: f'<td class="words">{_text(row["reason"])}</td>'),
    ]
    return _section(
        "Damage",
        "Parts of the log that could not be read and are not in the figures, such as an end cut short by a crash.",
        _table(columns, rows),
    )


def _topics(rows: Sequence[Row]) -> str:
    columns = [
        _Column("Topic", _topic_cell),
        _Column("Messages", lambda row: _number(row["messages"]), True),
        _Column("Stored", lambda row: _valued(row["bytes"], size_text(row["bytes"])), True),
        _Column("Body, mean", lambda row: _valued(row["body_mean"], size_text(row["body_mean"] or 0)), True),
        _Column("Queues", lambda row: _number(row["queues"]), True),
        _Column("Tags", lambda row: _number(row["tags"]), True),
        _Column("Lag, median", lambda row: _valued(row["lag_p50"], span_text(row["lag_p50"])), True),
        _Column("99 %", lambda row: _valued(row["lag_p99"], span_text(row["lag_p99"])), True),
        _Column("Maximum", lambda row: _valued(row["lag_max"], span_text(row["lag_max"])), True),
        _Column("Last stored", lambda row: _moment(row["last_stored"])),
    ]
    return _table(columns, rows)


def _retries(rows: Sequence[Row]) -> str:
    if not rows:
        return '<p class="none good">No consumer group sent a message back.</p>'
    columns = [
        _Column("Group", lambda row: _name(row["group"])),
        _Column("From topic", lambda row: _name(row["topic"] or NOTHING)),
        _Column("Sent back", lambda row: _number(row["retries"]), True),
        _Column("Dead letters", lambda row: _number(row["dead"]), True),
        _Column("Maximum retries", lambda row: _number(row["most_times"]), True),
        _Column("Last", lambda row: _moment(row["last_stored"])),
    ]
    return _table(columns, rows)


def _keys(rows: Sequence[Row]) -> str:
    if not rows:
        return '<p class="none">No message has keys.</p>'
    most = max(row["messages"] for row in rows)
    columns = [
        _Column("Key", lambda row: _name(row["key"])),
        _Column("Topic", lambda row: _name(row["topic"])),
        _Column("Messages", lambda row: _number(row["messages"]), True),
        _Column("", lambda row: _bar(row["messages"] / most)),
    ]
    return _table(columns, rows)


def _stores(rows: Sequence[Row]) -> str:
    columns = [
        _Column("Store", lambda row: _name(row["store"])),
        _Column("Messages", lambda row: _number(row["messages"]), True),
        _Column("Topics", lambda row: _number(row["topics"]), True),
        _Column("Stored", lambda row: _valued(row["bytes"], size_text(row["bytes"])), True),
        _Column("From", lambda row: _moment(row["first_stored"])),
        _Column("To", lambda row: _moment(row["last_stored"])),
    ]
    return _table(columns, rows)


def _footer(report: Report) -> str:
    return (
        f"<footer>Created {_time(report.made)} UTC by <code>smartgo-spark</code>. All rows of these figures are "
        "in Parquet files beside this one.</footer>\n"
    )


# -- pieces ----------------------------------------------------------------------------------------------------


def _section(title: str, note: str, *parts: str) -> str:
    said = f'<p class="note">{note}</p>' if note else ""
    return f"<section><h2>{title}</h2>{said}{''.join(parts)}</section>\n"


def _chart(figures: dict[str, Chart], name: str, chart: Chart) -> str:
    figures[name] = chart
    return f'<div class="chart" id="{name}" style="min-height: {chart["height"]}px"></div>'


def _table(columns: Sequence[_Column], rows: Sequence[Row]) -> str:
    head = "".join(
        f"<th{' class=number' if column.number else ''}{' data-sort=none' if column.title else ''}>{column.title}</th>"
        for column in columns
    )
    lines = "".join(f"<tr>{''.join(column.cell(row) for column in columns)}</tr>\n" for row in rows[:_LISTED])
    left = len(rows) - _LISTED
    more = f'<p class="note">{left:,} more are in the Parquet files.</p>' if left > 0 else ""
    return f'<div class="scroll tall"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>{more}'


def _topic_cell(row: Row) -> str:
    kind = "" if row["kind"] == "plain" else f' <span class="kind">{_text(row["kind"])}</span>'
    return f'<td class="name" title="{_text(row["topic"])}">{_text(row["topic"])}{kind}</td>'


def _name(text: str) -> str:
    return f'<td class="name" title="{_text(text)}">{_text(text)}</td>'


def _number(value: int) -> str:
    return _valued(value, f"{value:,}")


def _valued(value: Any, shown: str) -> str:
    return f'<td class="number" data-value="{"" if value is None else value}">{shown}</td>'


def _moment(at: datetime | None) -> str:
    return f'<td title="{_time(at)} UTC">{_time(at)[:_MINUTES]}</td>'


def _bar(part: float) -> str:
    return f'<td><span class="bar" style="width: {max(1, round(90 * part))}px"></span></td>'


def _text(text: object) -> str:
    return html.escape(str(text))


def _time(moment: datetime | None) -> str:
    return NOTHING if moment is None else moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def _milliseconds(totals: Row) -> float:
    if totals["first_stored"] is None:
        return 0.0
    return float((totals["last_stored"] - totals["first_stored"]).total_seconds() * 1000)


def _period(totals: Row) -> str:
    return span_text(_milliseconds(totals)) if totals["messages"] else NOTHING


def _rate(totals: Row) -> str:
    span = _milliseconds(totals)
    if not span:
        return "no time passed"
    rate = totals["messages"] * 1000 / span
    return f"{rate:,.0f} messages a second" if rate >= 10 else f"{rate:,.2f} messages a second"
