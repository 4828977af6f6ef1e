"""The reconciliation as one HTML page for people, in the style of the report on stores."""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import UTC
from typing import Any, Final

from smartgo.spark.export.reconciling import Reconciliation
from smartgo.spark.reportcharts import NOTHING
from smartgo.spark.reportpage import SCRIPT, STYLE

_POLICY: Final = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
)
_LISTED: Final = 1000
_COLUMNS: Final = (
    ("store", "Store", False),
    ("topic", "Topic", False),
    ("queue_id", "Queue", True),
    ("first", "First offset", True),
    ("last", "Last offset", True),
    ("source", "In the store", True),
    ("rows", "Rows", True),
    ("missing", "Missing", True),
    ("twice", "Twice", True),
    ("foreign", "Foreign", True),
)


def page(found: Reconciliation) -> str:
    """Return the page; queues that do not agree come first."""
    made = found.made.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    tables = ", ".join(f"<code>{_text(name)}</code>" for name in found.tables)
    stores = ", ".join(f"<code>{_text(path)}</code>" for path in found.stores)
    verdict = "Every message is there once" if found.is_good else "Stores and tables do not agree"
    tiles = [
        ("In the stores", found.total("source"), "messages before the bookmark", ""),
        ("In the tables", found.total("rows"), "rows of them", ""),
        *(
            (title, found.total(name), more, "bad" if found.total(name) else "good")
            for title, name, more in (
                ("Missing", "missing", "in a store, in no table"),
                ("Twice", "twice", "rows too many"),
                ("Foreign", "foreign", "in a table, in no store"),
            )
        ),
    ]
    cells = "".join(
        f'<div class="tile {state}"><div class="name">{name}</div><div class="value">{value:,}</div>'
        f'<div class="more">{more}</div></div>'
        for name, value, more, state in tiles
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{verdict}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<header><div><h1>{verdict}</h1><p class="about">{stores} → {tables}</p></div>'
        '<button class="theme" type="button">light / dark</button></header>\n'
        f'<div class="tiles">{cells}</div>\n{_bookmark(found.bookmark)}{_queues(found)}'
        f"<footer>Created {made} UTC by <code>smartgo-spark export</code>. Stores and tables were read anew for it."
        '</footer>\n</main>\n<script type="application/json" id="charts">{}</script>\n'
        f"<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )


def _bookmark(bookmark: Mapping[str, int]) -> str:
    lines = "".join(
        f'<tr><td class="name">{_text(store)}</td><td class="number">{offset:,}</td></tr>'
        for store, offset in bookmark.items()
    )
    return (
        '<section><h2>Bookmark</h2><p class="note">The next run begins at this physical offset of each store.</p>'
        f'<div class="scroll"><table><tbody>{lines}</tbody></table></div></section>\n'
    )


def _queues(found: Reconciliation) -> str:
    rows = sorted(found.queues, key=lambda row: not (row["missing"] or row["twice"] or row["foreign"]))
    head = "".join(f'<th data-sort="none"{_class(number)}>{title}</th>' for _, title, number in _COLUMNS)
    lines = "".join(
        f"<tr>{''.join(_cell(row[name], number) for name, _, number in _COLUMNS)}</tr>\n" for row in rows[:_LISTED]
    )
    left = len(rows) - _LISTED
    more = (
        f'<p class="note">{left:,} more queues, which agree or are like these, are in the JSON.</p>' if left > 0 else ""
    )
    return (
        '<section><h2>Queues</h2><p class="note">Offsets are those of the queue, in the store.</p>'
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>{more}'
        "</section>\n"
    )


def _cell(value: Any, number: bool) -> str:
    if number:
        shown = NOTHING if value is None else f"{value:,}"
        return f'<td class="number" data-value="{"" if value is None else value}">{shown}</td>'
    return f'<td class="name" title="{_text(value)}">{_text(value)}</td>'


def _class(number: bool) -> str:
    return ' class="number"' if number else ""


def _text(value: object) -> str:
    return html.escape(str(value))
