"""The binary (ROCKETMQ) header <-> values; layout in L{smartgo.schema.commandlayout}."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

from smartgo.errors import BadHeader
from smartgo.schema.codes import LANGUAGE_NAMES, LanguageCode
from smartgo.schema.commandlayout import BINARY, FIELD_LIMIT, binary_head_struct

_unpack_head = binary_head_struct.unpack_from
_HEAD_SIZE = binary_head_struct.size
_unpack_int = struct.Struct(">i").unpack_from
_unpack_short = struct.Struct(">h").unpack_from
_pack_int = struct.Struct(">i").pack
_pack_short = struct.Struct(">h").pack

_OTHER = int(LanguageCode.OTHER)


class BinaryHeader(NamedTuple):
    """The content of a binary header; C{fields} is never C{None}."""

    code: int
    language: int
    version: int
    opaque: int
    flag: int
    remark: str | None
    fields: dict[str, str]


def decode_binary(raw: bytes) -> BinaryHeader:
    """
    Read a binary header. A field that comes twice keeps its last value; bytes after the last field are ignored.

    @raise BadHeader: a length inside it does not fit, a text is not UTF-8, or there are too many fields.
    """
    try:
        code, language, version, opaque, flag, remark_length = _unpack_head(raw)
    except struct.error:
        raise BadHeader(f"binary header of {len(raw)} B is too short", encoding=BINARY) from None
    try:
        at = _HEAD_SIZE + remark_length
        if remark_length < 0 or at > len(raw):
            raise BadHeader(f"remark of {remark_length} B does not fit the header")
        remark = raw[_HEAD_SIZE:at].decode() if remark_length else None
        fields = _decode_fields(raw, at)
    except BadHeader as error:
        raise BadHeader(str(error), opaque, flag, BINARY) from None
    except struct.error:
        raise BadHeader("binary header ends within a field", opaque, flag, BINARY) from None
    except UnicodeDecodeError:
        raise BadHeader("binary header holds a text that is not UTF-8", opaque, flag, BINARY) from None
    return BinaryHeader(code, language if language in LANGUAGE_NAMES else _OTHER, version, opaque, flag, remark, fields)


def _decode_fields(raw: bytes, at: int) -> dict[str, str]:
    (size,) = _unpack_int(raw, at)
    at += 4
    end = at + size
    if size < 0 or end > len(raw):
        raise BadHeader(f"ext fields of {size} B do not fit the header")
    fields: dict[str, str] = {}
    count = 0
    while at < end:
        begin = at + 2
        (length,) = _unpack_short(raw, at)
        at = begin + length
        begin_value = at + 4
        if length < 0 or begin_value > end:
            raise BadHeader(f"the name of ext field {count} does not fit the header")
        (value_length,) = _unpack_int(raw, at)
        at = begin_value + value_length
        if value_length < 0 or at > end:
            raise BadHeader(f"the value of ext field {count} does not fit the header")
        count += 1
        if count > FIELD_LIMIT:
            raise BadHeader(f"more than {FIELD_LIMIT} ext fields")
        fields[raw[begin : begin + length].decode()] = raw[begin_value:at].decode()
    return fields


def encode_binary(
    code: int, language: int, version: int, opaque: int, flag: int, remark: str | None, fields: Mapping[str, str]
) -> bytes:
    """
    Write a binary header. Lone surrogates of a text, which UTF-8 cannot carry, become question marks.

    @raise BadHeader: the code or version does not fit 16 bits, or a name is longer than 32767 bytes.
    """
    remark_bytes = remark.encode("utf-8", "replace") if remark else b""
    parts: list[bytes] = []
    for name, value in fields.items():
        name_bytes = name.encode("utf-8", "replace")
        value_bytes = value.encode("utf-8", "replace")
        if len(name_bytes) > 0x7FFF:
            raise BadHeader(f"the name of ext field {name[:40]} is too long for the binary encoding")
        parts += (_pack_short(len(name_bytes)), name_bytes, _pack_int(len(value_bytes)), value_bytes)
    block = b"".join(parts)
    try:
        head = binary_head_struct.pack(code, language, version, opaque, flag, len(remark_bytes))
    except struct.error as error:
        raise BadHeader(
            f"code {code}, version {version} or opaque {opaque} does not fit the binary encoding: {error}"
        ) from None
    return b"".join((head, remark_bytes, _pack_int(len(block)), block))
