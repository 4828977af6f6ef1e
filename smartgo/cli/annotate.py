"""The bytes of a stored record, field by field, as the schema tells them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from smartgo.cli.output import moment, printable
from smartgo.schema import properties
from smartgo.schema.message import unpack_host
from smartgo.schema.record import RECORD

_PREVIEW: Final = 48  # bytes of a long field that are shown


class Field(msgspec.Struct, frozen=True):
    """
    One field of a record.

    @ivar at: where in the record it begins, C{size} how long it is, in bytes.
    @ivar hex: its bytes, the first of them where they are many.
    @ivar value: what they say.
    """

    at: int
    size: int
    name: str
    hex: str
    value: str


def annotated(record: bytes) -> list[Field]:
    """Return the fields of a record in their order."""
    return list(_fields(record))


def _fields(record: bytes) -> Iterator[Field]:
    values = RECORD.parse(record)
    at = 0
    for part in RECORD.subcons:
        length = part.sizeof(**values)
        raw = record[at : at + length]
        shown = raw[:_PREVIEW].hex(" ") + (" ..." if length > _PREVIEW else "")
        yield Field(at, length, part.name, shown, _value(part.name, values[part.name]))
        at += length


def _value(name: str, value: object) -> str:
    if name in ("magic", "crc", "sys_flag") and isinstance(value, int):
        return f"0x{value & 0xFFFFFFFF:X}"
    if name.endswith("_ms") and isinstance(value, int):
        return f"{value} ({moment(value) or 'none'})"
    if isinstance(value, bytes):
        if name.endswith("_host"):
            return "{}:{}".format(*unpack_host(value))
        if name == "properties":
            return ", ".join(f"{key}={word}" for key, word in properties.decode(value).items())
        return printable(value[:_PREVIEW].decode("utf-8", "backslashreplace")) + (
            " ..." if len(value) > _PREVIEW else ""
        )
    return str(value)


def hex_dump(data: bytes, begin: int = 0) -> Iterator[str]:
    """Yield lines of 16 bytes: position, hex, and what of it is readable."""
    for at in range(0, len(data), 16):
        piece = data[at : at + 16]
        text = "".join(chr(one) if 32 <= one < 127 else "." for one in piece)
        yield f"{begin + at:08x}  {piece[:8].hex(' '):23}  {piece[8:].hex(' '):23}  {text}"
