"""
From a construct schema to the fast packer: formats are written down once.

construct is the definition, the document and the oracle of the tests, but 40 to 60 times too slow for a message's
way through the broker. L{fixed} turns a schema of fixed-size fields into a C{struct.Struct}; L{flatten} lists the
fields of any record schema for the packers of L{smartgo.schema.rows} and L{smartgo.schema.columns}.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from construct import Bytes, Construct, FormatField, IfThenElse, Renamed, Struct

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_PLAIN = {"l": "i", "L": "I"}  # construct's letters for 32 bits, which are 64 wide in native layouts


class SchemaField(NamedTuple):
    """
    One field of a flattened schema.

    @ivar name: its name; fields of a nested structure carry the names above them, joined with a dot.
    @ivar code: its C{struct} code, such as C{q} or C{8s}; empty where the length varies.
    @ivar length: for a field of varying length: from the values before it to its length in bytes.
    """

    name: str
    code: str
    length: Callable[[Mapping[str, Any]], Any] | None = None


def flatten(schema: Construct, known: Mapping[str, Any] = _NOTHING) -> list[SchemaField]:
    """
    List the fields of a big-endian record schema, in order.

    @param known: values that decide between variants of the record, such as C{sys_flag}; a length or a choice that
        depends on nothing else becomes fixed.
    @raise ValueError: the schema holds something that has no place in a plain record (an adapter, an array, a
        little-endian number), or a choice that C{known} does not decide.
    """
    return list(_walk(schema, "", known))


def fixed(schema: Construct, known: Mapping[str, Any] = _NOTHING) -> struct.Struct:
    """
    Derive the packer of a schema whose fields all have a fixed size.

    @param known: as in L{flatten}.
    @raise ValueError: a field has no fixed size, or C{schema} is no plain big-endian record.
    """
    codes = []
    for field in flatten(schema, known):
        if field.length is not None:
            raise ValueError(f"field {field.name} has no fixed size")
        codes.append(field.code)
    return struct.Struct(">" + "".join(codes))


def runs(fields: Iterable[SchemaField]) -> list[tuple[list[SchemaField], SchemaField | None]]:
    """Group fields: each run of fixed ones with the field of varying length that ends it, C{None} for the last."""
    groups: list[tuple[list[SchemaField], SchemaField | None]] = []
    run: list[SchemaField] = []
    for field in fields:
        if field.length is None:
            run.append(field)
        else:
            groups.append((run, field))
            run = []
    if run:
        groups.append((run, None))
    return groups


def _walk(schema: Construct, name: str, known: Mapping[str, Any]) -> list[SchemaField]:
    if isinstance(schema, Renamed):
        return _walk(schema.subcon, f"{name}.{schema.name}" if name else schema.name, known)
    if isinstance(schema, Struct):
        return [field for part in schema.subcons for field in _walk(part, name, known)]
    if isinstance(schema, IfThenElse):
        return _walk(schema.thensubcon if _decide(schema.condfunc, name, known) else schema.elsesubcon, name, known)
    if isinstance(schema, FormatField):
        if schema.fmtstr[0] != ">" and schema.length != 1:
            raise ValueError(f"field {name} is not big-endian")
        return [SchemaField(name, _PLAIN.get(schema.fmtstr[1:], schema.fmtstr[1:]))]
    if isinstance(schema, Bytes):
        if not callable(schema.length):
            return [SchemaField(name, f"{schema.length}s")]
        try:
            return [SchemaField(name, f"{schema.length(known)}s")]
        except KeyError:
            return [SchemaField(name, "", schema.length)]
    raise ValueError(f"field {name or schema!r}: no packer can be derived from {type(schema).__name__}")


def _decide(condition: Any, name: str, known: Mapping[str, Any]) -> bool:
    try:
        return bool(condition(known) if callable(condition) else condition)
    except KeyError as error:
        raise ValueError(f"field {name} depends on {error}, which is not given") from None
