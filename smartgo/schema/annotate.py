"""
The bytes of the store's files told to people: field by field as their construct schemas have them, and in hex.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from construct import Struct

from smartgo.schema import properties
from smartgo.schema.message import host_text
from smartgo.schema.record import RECORD

_LINE: Final = 16  # bytes
_UNSIGNED: Final = 0xFFFFFFFF
_BITS: Final = (
    (0x1, "compressed"),
    (0x2, "several tags"),
    (0x10, "producer by IPv6"),
    (0x20, "broker by IPv6"),
    (0x40, "to be unwrapped"),
    (0x80, "batch inside"),
)
_TRANSACTION: Final[Mapping[int, str]] = {0x4: "prepared", 0x8: "committed", 0xC: "rolled back"}


class AnnotatedField(NamedTuple):
    """
    One field of a record, or of another structure of the store.

    @ivar at: where in it it begins, C{size} how long it is, in bytes.
    @ivar raw: its bytes, C{value} what they are parsed to.
    """

    name: str
    at: int
    size: int
    raw: bytes
    value: object

    def in_words(self, limit: int) -> str:
        """
        Return what the field says.

        @param limit: characters of a body or a topic at most; properties come whole.
        """
        value = self.value
        if isinstance(value, bytes):
            if self.name.endswith("_host"):
                return host_text(value)
            if self.name == "properties":
                return ", ".join(f"{name}={word}" for name, word in properties.decode(value).items())
            return in_a_line(value, limit)
        if self.name in ("magic", "crc") and isinstance(value, int):
            return f"0x{value & _UNSIGNED:08X}"
        if self.name == "sys_flag" and isinstance(value, int):
            return ", ".join((f"0x{value:X}", *flags_in_words(value)))
        return str(value)


def fields_of(record: bytes, schema: Struct = RECORD) -> Iterator[AnnotatedField]:
    """
    Yield the fields of a structure in their order; together they are all its bytes.

    @param schema: what the structure is; a CommitLog record where nothing is said.
    @raise construct.ConstructError: the bytes are too few, or a length in them is negative.
    """
    values = schema.parse(record)
    at = 0
    for part in schema.subcons:
        size = part.sizeof(**values)
        yield AnnotatedField(part.name, at, size, record[at : at + size], values[part.name])
        at += size


def flags_in_words(sys_flag: int) -> list[str]:
    """Return what the bits of a message's system flag say."""
    words = [word for bit, word in _BITS if sys_flag & bit]
    state = _TRANSACTION.get(sys_flag & 0xC)
    return [*words, state] if state is not None else words


def in_a_line(data: bytes, limit: int) -> str:
    """
    Return the beginning of some bytes as text: what is no UTF-8 is escaped, control characters are blanks.

    @param limit: characters at most.
    """
    text = data[: limit * 4].decode("utf-8", "backslashreplace")[:limit]
    return "".join(one if one.isprintable() else " " for one in text)


def hex_lines(data: bytes) -> Iterator[str]:
    """Yield lines of 16 bytes: position, hex, and what of it is readable."""
    for at in range(0, len(data), _LINE):
        piece = data[at : at + _LINE]
        text = "".join(chr(one) if 32 <= one < 127 else "." for one in piece)
        yield f"{at:08x}  {piece[:8].hex(' '):23}  {piece[8:].hex(' '):23}  {text}"
