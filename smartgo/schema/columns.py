"""
Whole buffers as columns: for batch readers, tools, and hashing by the run.

Everything is derived from the schemas of the records, as in L{smartgo.schema.rows}. numpy is optional and imported when
first needed; L{java_hashes} alone works without.

Text and bodies are not copied: a field of varying length becomes two arrays of positions in the buffer, where it begins
and where it ends, which is also what Arrow's binary arrays are made of.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from construct import Construct

from smartgo.errors import SettingError
from smartgo.schema.fixed import Field, flatten, runs
from smartgo.schema.message import HOSTS_MASK
from smartgo.schema.properties import java_hash
from smartgo.schema.record import HEAD, MAGIC, MAGIC_V2, MESSAGE_MAGICS, RECORD, RECORD_MINIMUM, start_struct

if TYPE_CHECKING:
    from numpy import dtype, ndarray

_CODES: Final = {"b": "i1", "B": "u1", "h": "i2", "H": "u2", "i": "i4", "I": "u4", "q": "i8", "Q": "u8"}
_FEW: Final = 16


class Columns(NamedTuple):
    """
    Records, by field.

    @ivar values: an array for each field of fixed size, in native byte order; byte strings, such as hosts, as rows of
        bytes, shorter ones filled up with zeros.
    @ivar spans: for each field of varying length the positions of its first byte and after its last.
    @ivar valid: false for a record that does not lie within the buffer or whose lengths do not add up; its other values
        mean nothing.
    """

    values: dict[str, ndarray[Any, Any]]
    spans: dict[str, tuple[ndarray[Any, Any], ndarray[Any, Any]]]
    valid: ndarray[Any, Any]


@lru_cache(maxsize=1)
def _numpy_or_none() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _numpy() -> Any:
    found = _numpy_or_none()
    if found is None:
        raise SettingError("reading by columns needs numpy, which is not installed")
    return found


def table(view: bytes | memoryview, schema: Construct) -> ndarray[Any, Any]:
    """
    Return fixed-size records that lie back to back as one structured array over the same memory (big-endian, no copy).

    Bytes at the end that are no whole record are left out.
    """
    row = _row(flatten(schema))
    found: ndarray[Any, Any] = _numpy().frombuffer(view, row, len(view) // row.itemsize)
    return found


def record_positions(view: bytes | memoryview, begin: int = 0) -> ndarray[Any, Any]:
    """
    Return where the records of a log file begin, from the one at C{begin} to the last before the first non-record.

    Only sizes and magics are looked at. ConsumeQueue units tell the same much faster.
    """
    last = len(view) - RECORD_MINIMUM
    unpack, room = start_struct.unpack_from, len(view)
    found = []
    at = begin
    while at <= last:
        size, magic = unpack(view, at)
        if magic not in MESSAGE_MAGICS or not RECORD_MINIMUM <= size <= room - at:
            break
        found.append(at)
        at += size
    positions: ndarray[Any, Any] = _numpy().array(found, "i8")
    return positions


def gather(
    view: bytes | memoryview, positions: Sequence[int] | ndarray[Any, Any], schema: Construct, known: Mapping[str, Any]
) -> Columns:
    """
    Read the records of one variant that begin at C{positions}.

    @param known: decides the variant, as in L{flatten}.
    @raise SettingError: numpy is not installed.
    """
    np = _numpy()
    data = np.frombuffer(view, "u1")
    at = np.asarray(positions, "i8")
    valid = at >= 0
    values: dict[str, Any] = {}
    spans: dict[str, Any] = {}
    for run, variable in runs(flatten(schema, known)):
        row = _row(run)
        valid = valid & (at <= len(data) - row.itemsize)
        if len(data) >= row.itemsize:
            windows = np.lib.stride_tricks.sliding_window_view(data, row.itemsize)
            rows = windows[np.where(valid, at, 0)].view(row)[:, 0]
        else:
            rows = np.zeros(len(at), row)
        for field in run:
            column = rows[field.name]
            values[field.name] = column.astype(column.dtype.newbyteorder("="))
        at = at + row.itemsize
        if variable is not None and variable.length is not None:
            length = variable.length(values).astype("i8")
            valid = valid & (length >= 0) & (length <= len(data) - at)
            end = at + np.where(valid, length, 0)
            spans[variable.name] = (at, end)
            at = end
    return Columns(values, spans, valid)


def records(view: bytes | memoryview, positions: Sequence[int] | ndarray[Any, Any]) -> Columns:
    """
    Read the CommitLog records that begin at C{positions}: all fields of L{RECORD}, hosts of both families.

    Not checked: CRCs, names, and whether a record lies where it says.

    @raise SettingError: numpy is not installed.
    """
    np = _numpy()
    at = np.asarray(positions, "i8")
    heads = gather(view, at, HEAD, {"sys_flag": 0})
    known = heads.valid & np.isin(heads.values["magic"], list(MESSAGE_MAGICS))
    variants = (heads.values["sys_flag"] & HOSTS_MASK) | (heads.values["magic"] == MAGIC_V2)
    parts = []
    for variant in np.unique(variants).tolist():
        chosen = variants == variant
        magic = MAGIC_V2 if variant & 1 else MAGIC
        part = gather(view, at[chosen], RECORD, {"sys_flag": variant, "magic": magic})
        adds_up = at[chosen] + part.values["size"] == part.spans["properties"][1]
        parts.append((chosen, part._replace(valid=part.valid & adds_up & known[chosen])))
    if len(parts) > 1:
        return _merge(parts, len(at))
    return parts[0][1] if parts else gather(view, at, RECORD, {"sys_flag": 0, "magic": MAGIC})


def java_hashes(texts: Sequence[str]) -> list[int]:
    """Return Java's hash of each text; for more than a few at once, and with numpy, at a fraction of the cost."""
    np = _numpy_or_none()
    if np is None or len(texts) < _FEW:
        return [java_hash(text) for text in texts]
    together = "".join(texts)
    if together.isascii():
        units = np.frombuffer(together.encode(), "u1")
        lengths = np.fromiter(map(len, texts), "i8", len(texts))
    else:
        order = "le" if sys.byteorder == "little" else "be"
        encoded = [text.encode(f"utf-16-{order}", "surrogatepass") for text in texts]
        units = np.frombuffer(b"".join(encoded), "u2")
        lengths = np.fromiter(map(len, encoded), "i8", len(texts)) // 2
    ends = np.cumsum(lengths)
    exponents = np.repeat(ends, lengths) - np.arange(1, len(units) + 1)
    sums = np.zeros(len(units) + 1, "u4")
    np.cumsum(units * _powers(np, int(lengths.max()))[exponents], dtype="u4", out=sums[1:])
    found: list[int] = (sums[ends] - sums[ends - lengths]).view("i4").tolist()
    return found


def _powers(np: Any, count: int) -> Any:
    """Return the first powers of 31, modulo 2^32; at least one."""
    powers = np.full(max(count, 1), 31, "u4")
    powers[0] = 1
    return np.cumprod(powers, dtype="u4")


def _row(fields: Sequence[Field]) -> dtype[Any]:
    columns: list[Any] = []
    for field in fields:
        if field.code in _CODES:
            columns.append((field.name, ">" + _CODES[field.code]))
        elif field.code.endswith("s"):
            columns.append((field.name, "u1", (int(field.code[:-1]),)))
        else:
            raise ValueError(f"field {field.name} has no column type")
    row: dtype[Any] = _numpy().dtype(columns)
    return row


def _merge(parts: Sequence[tuple[Any, Columns]], count: int) -> Columns:
    """Put variants together, each record at its place."""
    np = _numpy()
    values: dict[str, Any] = {}
    for name in parts[0][1].values:
        columns = [part.values[name] for _, part in parts]
        width = max(column.shape[1] if column.ndim > 1 else 0 for column in columns)
        whole = np.zeros((count, width) if width else count, np.result_type(*columns))
        for (chosen, _), column in zip(parts, columns, strict=True):
            if width:
                whole[chosen, : column.shape[1]] = column
            else:
                whole[chosen] = column
        values[name] = whole
    spans = {name: (np.zeros(count, "i8"), np.zeros(count, "i8")) for name in parts[0][1].spans}
    valid = np.zeros(count, bool)
    for chosen, part in parts:
        valid[chosen] = part.valid
        for name, span in part.spans.items():
            for whole, positions in zip(spans[name], span, strict=True):
                whole[chosen] = positions
    return Columns(values, spans, valid)
