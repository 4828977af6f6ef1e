"""C{smartgo store dump} and C{hexdump}: the content of a store directory, record by record and byte by byte."""

from __future__ import annotations

import os.path
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, Final

import click

from smartgo.cli.support.annotate import field_row, shortened
from smartgo.cli.support.output import (
    OUTPUT,
    TEXT,
    json_line,
    moment,
    plain,
    print_streamed,
    print_table,
    print_value,
    printable,
)
from smartgo.cli.support.running import USAGE, CommandError
from smartgo.cli.support.session import do
from smartgo.cli.support.storefiles import CONFIG, SET, Reading, directory_settings, filter_options
from smartgo.cli.support.texts import examples
from smartgo.env.interfaces import IEnvironment
from smartgo.store import damagefill
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.dump import SOURCES, Row
from smartgo.store.offline.hexdump import Hexdump, dump_checkpoints, dump_index, dump_record, dump_unit
from smartgo.store.offline.rows import RecordFilter

_PREVIEW: Final = 60  # characters of a body
_PORTION: Final = 500  # rows that the thread reads before they are printed


@click.command(
    epilog=examples(
        "smartgo store dump ~/store --topic Orders --queue 3 --from-offset 100 -n 20",
        "smartgo store dump ~/store --key 4711 -o jsonl",
        "smartgo store dump ~/store units --topic Orders",
        "smartgo store dump ~/store index -n 50",
        "smartgo store dump ~/store tables",
    )
)
@click.argument("directory", metavar="DIRECTORY")
@click.argument(
    "what",
    type=click.Choice(list(SOURCES)),
    default="records",
)
@filter_options
@click.option("-n", "--count", type=click.IntRange(1), help="Stop after this many rows.")
@CONFIG
@SET
@OUTPUT
def dump(
    directory: str,
    what: str,
    wanted: RecordFilter,
    count: int | None,
    path: str | None,
    flags: Mapping[str, str],
    output: str,
) -> None:
    """Print what is in the store in DIRECTORY: its records (one line each), the units of its queues, the headers and
    entries of its index, its checkpoints, or its tables.

    Damaged parts of the log are printed where they lie.
    """

    async def work(env: IEnvironment) -> None:
        root = os.path.abspath(directory)
        reading = Reading(env, root, directory_settings(env, root, path, flags))
        await reading.open()
        rows = islice(SOURCES[what](reading.store, wanted, reading.check_cancelled), count)
        printed = 0
        while some := await reading.run(lambda: list(islice(rows, _PORTION))):
            for row in some:
                _print_row(row, output, printed)
                printed += 1
        if output == "json":
            click.echo("]" if printed else "[]")
        elif not printed and output == TEXT:
            click.echo("Nothing found.")

    do(work)


def _print_row(row: Row, output: str, number: int) -> None:
    """Print a row; with C{json} all rows are one document."""
    if output == TEXT:
        click.echo(printable(_line(row)))
    elif output == "json":
        click.echo(f"{',' if number else '['}{json_line(row)}")
    else:
        print_streamed(output, row)


def _line(row: Row) -> str:
    """Return a row as one line for people."""
    if row["kind"] == "record":
        words = [f"{row['physical_offset']:>12}", f"{row['topic']} {row['queue_id']}:{row['queue_offset']}"]
        words += [moment(row["store_timestamp"]) or "-", f"{row['size']} B"]
        words += [f"[{row['tags']}]"] if row["tags"] else []
        words += [f"keys {' '.join(row['keys'])}"] if row["keys"] else []
        reason = row["properties"].get(damagefill.REASON)
        if row["topic"] == damagefill.TOPIC and reason is not None:
            return "  ".join((*words, f"stands for damage that was repaired: {reason}"))
        body = row["body"] if row["body"] is not None else f"base64 {row['body_base64']}"
        return "  ".join((*words, body[:_PREVIEW] + ("..." if len(body) > _PREVIEW else "")))
    if row["kind"] == "damage":
        place = f"{row['physical_offset']:>12}  {row['size']} B" if "physical_offset" in row else row["file"]
        return f"{place}  DAMAGED: {row['reason']}"
    if row["kind"] == "table":
        return f"{row['file']}: {json_line(row['content'])}"
    members = {name: value for name, value in row.items() if name != "kind" and value is not None}
    return f"{row['kind']}  " + "  ".join(f"{name} {_word(name, value)}" for name, value in members.items())


def _word(name: str, value: object) -> str:
    if isinstance(value, int) and name.endswith(("_ms", "_timestamp")):
        return moment(value) or "-"
    return str(value)


_FORMS: Final = {
    "record": (1, "record OFFSET, its physical offset"),
    "unit": (3, "unit TOPIC QUEUE NUMBER"),
    "index": (1, "index FILE, or index FILE slot NUMBER, or index FILE entry NUMBER"),
    "checkpoint": (0, "checkpoint"),
}


@click.command(
    epilog=examples(
        "smartgo store hexdump ~/store record 1048576",
        "smartgo store hexdump ~/store unit Orders 0 12",
        "smartgo store hexdump ~/store index 20300521101500123",
        "smartgo store hexdump ~/store index 20300521101500123 entry 7",
        "smartgo store hexdump ~/store checkpoint",
    )
)
@click.argument("directory", metavar="DIRECTORY")
@click.argument("what", type=click.Choice(list(_FORMS)))
@click.argument("place", nargs=-1)
@CONFIG
@SET
@OUTPUT
def hexdump(
    directory: str, what: str, place: tuple[str, ...], path: str | None, flags: Mapping[str, str], output: str
) -> None:
    """Print the bytes of one structure of the store in DIRECTORY with the name and the value of every field.

    WHAT and PLACE are: record OFFSET (a physical offset); unit TOPIC QUEUE NUMBER; index FILE for the header of an
    index file, index FILE slot NUMBER, index FILE entry NUMBER; checkpoint for both checkpoint files.
    """
    least, form = _FORMS[what]
    if len(place) not in ((1, 3) if what == "index" else (least,)):
        raise click.UsageError(f"write: {form}")
    if what == "index" and len(place) > 1 and place[1] not in ("slot", "entry"):
        raise click.UsageError(f"write: {form}")

    async def work(env: IEnvironment) -> None:
        root = os.path.abspath(directory)
        reading = Reading(env, root, directory_settings(env, root, path, flags))
        await reading.open()
        dumps = await reading.run(lambda: _dumps(reading.store, what, place))
        if output != TEXT:
            print_value(output, [_members(one) for one in dumps])
            return
        for one in dumps:
            click.echo(f"{one.title}  {one.path}, byte {one.at}")
            print_table(
                [field_row(field) for field in one.fields],
                {
                    "at": lambda row: row.at,
                    "size": lambda row: row.size,
                    "field": lambda row: row.name,
                    "bytes": lambda row: shortened(row.hex),
                    "value": lambda row: shortened(row.value),
                },
            )
            if one.fault:
                click.echo(f"not valid: {one.fault}")

    do(work)


def _dumps(store: OfflineStore, what: str, place: Sequence[str]) -> list[Hexdump]:
    """Return the structures that the command names."""
    if what == "record":
        return [dump_record(store, _number(place[0]))]
    if what == "unit":
        return [dump_unit(store, (place[0], _number(place[1])), _number(place[2]))]
    if what == "checkpoint":
        return dump_checkpoints(store)
    return [dump_index(store, place[0], *((place[1], _number(place[2])) if len(place) > 1 else ()))]


def _number(text: str) -> int:
    if not text.isdecimal():
        raise CommandError(f"{text} is not a number", USAGE)
    return int(text)


def _members(one: Hexdump) -> dict[str, Any]:
    fields = [plain(field_row(field)) for field in one.fields]
    return {"structure": one.title, "file": one.path, "at": one.at, "fault": one.fault or None, "fields": fields}
