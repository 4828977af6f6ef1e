"""
Any record schema as a row codec: one record, a mapping of its fields.

For tools and for readers of formats that have no codec of their own; several times as fast as construct, and derived
from the same schema, so that there is nothing to keep in step. A message's way through the broker has
L{smartgo.schema.record}.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from construct import Construct

from smartgo.errors import BadRecord
from smartgo.schema.fixed import SchemaField, flatten, runs


class RowCodec:
    """
    Reads and writes one variant of a record.

    @ivar names: the fields, in order.
    """

    def __init__(self, schema: Construct, known: Mapping[str, Any] | None = None) -> None:
        """
        @param known: decides between variants, see L{flatten}.
        @raise ValueError: C{schema} is no plain record.
        """
        fields = flatten(schema, known or {})
        self.names = tuple(field.name for field in fields)
        self._steps = [_step(run, variable) for run, variable in runs(fields)]

    def unpack(self, data: bytes | memoryview, at: int = 0) -> tuple[dict[str, Any], int]:
        """
        Return the record that starts at byte C{at}, and where it ends.

        @raise BadRecord: fewer bytes remain than it needs, or a length is negative.
        """
        values: dict[str, Any] = {}
        for packer, names, variable in self._steps:
            if at + packer.size > len(data):
                raise BadRecord(f"the data ends within {', '.join(names)}")
            values.update(zip(names, packer.unpack_from(data, at), strict=True))
            at += packer.size
            if variable is not None and variable.length is not None:
                length = variable.length(values)
                if not 0 <= length <= len(data) - at:
                    raise BadRecord(f"field {variable.name} of {length} B with {len(data) - at} B left")
                values[variable.name] = bytes(data[at : at + length])
                at += length
        return values, at

    def pack(self, values: Mapping[str, Any]) -> bytes:
        """
        Return the bytes of a record.

        @raise BadRecord: a value is out of range, or a length does not agree with what it is the length of.
        """
        parts = []
        for packer, names, variable in self._steps:
            try:
                parts.append(packer.pack(*[values[name] for name in names]))
            except struct.error as error:
                raise BadRecord(f"one of {', '.join(names)}: {error}") from None
            if variable is not None and variable.length is not None:
                value = values[variable.name]
                if len(value) != variable.length(values):
                    raise BadRecord(f"field {variable.name} has {len(value)} B, not {variable.length(values)} B")
                parts.append(value)
        return b"".join(parts)


def _step(
    run: list[SchemaField], variable: SchemaField | None
) -> tuple[struct.Struct, tuple[str, ...], SchemaField | None]:
    packer = struct.Struct(">" + "".join([field.code for field in run]))
    return packer, tuple([field.name for field in run]), variable
