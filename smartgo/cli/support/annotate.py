"""The fields of a stored record, as C{smartgo msg show --as record} and C{smartgo store hexdump} show them."""

from __future__ import annotations

from typing import Final

import msgspec

from smartgo.cli.support.output import moment
from smartgo.schema.annotate import AnnotatedField, fields_of

_PREVIEW: Final = 48  # bytes of a long field that are shown
_SHOWN: Final = 48  # characters of a value, or of 16 bytes in hexadecimal, in a table
_TEXTS: Final = frozenset({"topic", "body"})


class FieldRow(msgspec.Struct, frozen=True):
    """
    One field of a record, or of another structure.

    @ivar at: its first byte's position in the record; C{size} its length in bytes.
    @ivar hex: its bytes in hexadecimal; only the first ones of a long field.
    @ivar value: its value as text.
    """

    at: int
    size: int
    name: str
    hex: str
    value: str


def shortened(text: str) -> str:
    """Return a field's bytes or value for a table: no longer than leaves room for both in a line."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN].removesuffix(' ')} ..."


def annotated(record: bytes) -> list[FieldRow]:
    """Return the fields of a record in the order of their bytes."""
    return [field_row(field) for field in fields_of(record)]


def field_row(field: AnnotatedField) -> FieldRow:
    """Return a field as a row of a table."""
    more = " ..." if field.size > _PREVIEW else ""
    words = field.in_words(_PREVIEW)
    if field.name.endswith("_ms") and isinstance(field.value, int):
        words += f" ({moment(field.value) or 'none'})"
    elif field.name in _TEXTS:
        words += more
    return FieldRow(field.at, field.size, field.name, field.raw[:_PREVIEW].hex(" ") + more, words)
