"""
The output of commands: tables for people; JSON, JSON lines or YAML for programs.

Programs read the fields of the printed values by name; a table shows some of them as text. Where standard output is no
terminal, tables are as wide as they need to be.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, TypeVar

import click
import msgspec

from smartgo.schema.bodies import MessageQueue

T = TypeVar("T")

TEXT: Final = "text"
FORMATS: Final = (TEXT, "json", "jsonl", "yaml")

OUTPUT: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(FORMATS),
    default=TEXT,
    show_default=True,
    help="Output format: json is one document, jsonl one line for each item.",
)

_CONTROLS: Final = re.compile("[\x7f-\x9f]")
NOT_WRAPPED: Final[Mapping[str, int]] = MappingProxyType({})
_WIDE: Final = 4000  # columns, where no terminal sets a limit


Columns = Mapping[str, Callable[[T], object]]
"""By heading, the function that returns the cell of a row: a text, a number (printed with separators) or C{None}."""


def plain(value: Any) -> Any:
    """Return a value as dicts, lists, texts and numbers."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=_plain_other))


def _plain_other(value: object) -> object:
    if isinstance(value, MessageQueue):
        return value.key()
    raise TypeError(f"{type(value).__name__} cannot be printed")


def print_rows(
    output: str,
    rows: Sequence[T],
    columns: Columns[T],
    nothing: str | Callable[[], object] = "Nothing found.",
    wrapped: Mapping[str, int] = NOT_WRAPPED,
) -> None:
    """
    Print rows.

    @param output: one of L{FORMATS}.
    @param nothing: the sentence to print if there are no rows, or what is called then.
    @param wrapped: by heading, the width of columns whose texts take several lines.
    """
    if output != TEXT:
        print_value(output, [plain(row) for row in rows])
    elif rows:
        print_table(rows, columns, wrapped)
    elif isinstance(nothing, str):
        click.echo(nothing)
    else:
        nothing()


def print_value(output: str, value: Any) -> None:
    """Print a plain value for programs; C{jsonl} prints one line for each item of a list."""
    if output == "jsonl":
        for one in value if isinstance(value, list) else [value]:
            click.echo(json_line(one))
    elif output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True), nl=False)
    else:
        click.echo(_safe(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()))


def print_streamed(output: str, value: Any) -> None:
    """Print one value of a stream: a line of JSON, or a YAML document."""
    if output == "yaml":
        import yaml

        click.echo(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, explicit_start=True), nl=False)
    else:
        click.echo(json_line(value))


def json_line(value: Any) -> str:
    """Return a plain value as one line of JSON."""
    return _safe(msgspec.json.encode(value).decode())


def _safe(text: str) -> str:
    """Escape the control characters that JSON does not escape."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_table(rows: Iterable[T], columns: Columns[T], wrapped: Mapping[str, int] = NOT_WRAPPED) -> None:
    """
    Print a table for people, without blanks at the ends of lines; no heading line if no column has a heading.

    @param wrapped: as L{print_rows}.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False, show_header=any(heading.strip() for heading in columns))
    cells = [[value(row) for value in columns.values()] for row in rows]
    for at, heading in enumerate(columns):
        numbers = any(isinstance(line[at], int | float) and not isinstance(line[at], bool) for line in cells)
        table.add_column(
            heading, justify="right" if numbers else "left", overflow="fold", max_width=wrapped.get(heading)
        )
    for line in cells:
        table.add_row(*(in_words(cell) for cell in line))
    screen = console()
    with screen.capture() as printed:
        screen.print(table)
    click.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def print_members(output: str, value: Any, members: Mapping[str, object]) -> None:
    """
    Print one object.

    @param value: the whole object, for programs.
    @param members: what people see, by heading.
    """
    if output != TEXT:
        print_value(output, plain(value))
        return
    print_table(
        [(name, in_words(one)) for name, one in members.items()], {"": lambda row: row[0], " ": lambda row: row[1]}
    )


def console() -> Any:
    """Return the console that tables are printed on; without a terminal its lines are practically unlimited."""
    from rich.console import Console

    if sys.stdout.isatty():
        return Console(highlight=False, markup=False, emoji=False)
    return Console(highlight=False, markup=False, emoji=False, width=_WIDE, no_color=True)


def in_words(value: object) -> str:
    """Return the text of a table cell."""
    if value is None or value == "":
        return "-"
    if value is True or value is False:
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, list | tuple | set | frozenset):
        return printable(", ".join(str(one) for one in value)) or "-"
    return printable(str(value))


def printable(text: str, keep: str = "") -> str:
    """
    Return a text with all unprintable characters escaped, so that it cannot control a terminal.

    @param keep: characters to leave as they are, such as line ends.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in keep else one.encode("unicode_escape").decode() for one in text)


def moment(stamp_ms: int | None) -> str | None:
    """Return a wall-clock time as local time for people; C{None} for none."""
    if stamp_ms is None or stamp_ms <= 0:
        return None
    try:
        return datetime.fromtimestamp(stamp_ms / 1000).astimezone().isoformat(" ", "milliseconds")
    except (OverflowError, OSError, ValueError):
        return str(stamp_ms)


def span(seconds: float | None) -> str | None:
    """Return a duration with three digits and a unit: C{12 s}, C{3 min}, C{5.2 h}, C{4 d}."""
    if seconds is None:
        return None
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds / 86400:.3g} d"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun in the singular or the plural: C{1 message}, C{2,000 messages}, C{2 registries}."""
    if count != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}es" if noun.endswith("ss") else f"{noun}s"
    return f"{count:,} {noun}"
