"""
Whole buffers as columns: for batch readers, tools, and hashing by the run.

Everything is derived from the schemas of the records, as in L{smartgo.schema.rows}. numpy is optional and imported when
first needed; L{java_hashes} alone works without.

Text and bodies are not copied: a field of varying length becomes two arrays of positions in the buffer, where it begins
and where it ends, which is also what Arrow's binary arrays are made of.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from construct import Construct

from smartgo.errors import SettingError
from smartgo.schema.fixed import SchemaField, flatten, runs
from smartgo.schema.message import HOSTS_MASK
from smartgo.schema.properties import java_hash
from smartgo.schema.record import (
    HEAD,
    HEAD_SIZE,
    MAGIC,
    MAGIC_V2,
    MESSAGE_MAGICS,
    RECORD,
    RECORD_MINIMUM,
    SMARTGO_MAGIC,
    start_struct,
)

if TYPE_CHECKING:
    from numpy import dtype, ndarray

_CODES: Final = {"b": "i1", "B": "u1", "h": "i2", "H": "u2", "i": "i4", "I": "u4", "q": "i8", "Q": "u8"}
_FEW: Final = 16


class Columns(NamedTuple):
    """
    Records as columns, one a field.

    @ivar values: an array for each field of fixed size, in native byte order, made when it is first asked for; byte
        strings, such as hosts, as rows of bytes, shorter ones filled up with zeros.
    @ivar spans: for each field of varying length the positions of its first byte and after its last.
    @ivar valid: false for a record that does not lie within the buffer or whose lengths do not add up; its other values
        mean nothing.
    """

    values: Mapping[str, ndarray[Any, Any]]
    spans: dict[str, tuple[ndarray[Any, Any], ndarray[Any, Any]]]
    valid: ndarray[Any, Any]

    def take(self, rows: ndarray[Any, Any]) -> Columns:
        """Return some of the records, by their numbers, in that order."""
        if isinstance(self.values, _Lazy):
            values: Mapping[str, Any] = self.values.take(rows)
        else:
            values = {name: column[rows] for name, column in self.values.items()}
        spans = {name: (begin[rows], end[rows]) for name, (begin, end) in self.spans.items()}
        return Columns(values, spans, self.valid[rows])


@lru_cache(maxsize=1)
def numpy_or_none() -> Any:
    """Return the module numpy, C{None} where it is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def _numpy() -> Any:
    found = numpy_or_none()
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


def record_positions(view: bytes | memoryview, begin: int = 0, base: int | None = None) -> ndarray[Any, Any]:
    """
    Return where the records of a log file begin, from the one at C{begin} to the last before the first non-record.

    Only sizes and magics are looked at. ConsumeQueue units tell the same faster, where they are complete.

    @param base: physical offset of the view's first byte; with it a long view is walked at many places at once, which
        takes a fifth of the time and finds the same.
    """
    np = _numpy()
    first = _walk(view, begin, _SAMPLE)
    if base is None or len(first) < _SAMPLE:
        positions: ndarray[Any, Any] = np.array(first if len(first) < _SAMPLE else _walk(view, begin), "i8")
        return positions
    found, at = _walk_in_lanes(view, begin, base, (first[-1] - begin) // (_SAMPLE - 1))
    together: ndarray[Any, Any] = np.concatenate([found, np.array(_walk(view, at), "i8")])
    return together


def _walk(view: bytes | memoryview, at: int, most: int = sys.maxsize) -> list[int]:
    """Go from record to record, up to so many."""
    last = len(view) - RECORD_MINIMUM
    unpack, room = start_struct.unpack_from, len(view)
    found: list[int] = []
    while at <= last and len(found) < most:
        size, magic = unpack(view, at)
        if magic not in MESSAGE_MAGICS or not RECORD_MINIMUM <= size <= room - at:
            break
        found.append(at)
        at += size
    return found


_SAMPLE: Final = 16
_LANE: Final = 16
"""Records of a lane, about: more make more steps, fewer more lanes to find the begin of."""
_LOOK: Final = 2
"""Where the first record of a lane is searched: within so many times the usual size of a record."""


def _walk_in_lanes(view: bytes | memoryview, begin: int, base: int, usual: int) -> tuple[ndarray[Any, Any], int]:
    """
    Walk from many records at once; return where records begin, and a record's end from which on that is unknown.

    The view is cut into lanes. The first record of each is told by its magic and by its own physical offset, then all
    lanes go on record by record, in step. A lane counts only if the one before it ends where it begins, so the walk is
    the same as one record after another, whatever looks like a record inside a body.

    @param usual: about the size of a record.
    """
    np = _numpy()
    first = _lane_begins(view, begin, base, usual)
    ends = np.append(first[1:], len(view) - start_struct.size)
    numbers = np.ndarray(len(view) - 3, ">i4", view, strides=(1,))
    steps = []
    at = first
    while True:
        steps.append(at)
        size = numbers[at]
        onward = at + size
        goes_on = (size >= RECORD_MINIMUM) & (onward <= ends)
        if not goes_on.any():
            break
        # A lane that is through, or lost, stays where it is: it counts as one more step of no length.
        at = np.where(goes_on, onward, at)
    whole = int(np.argmax(np.append(at[:-1] != ends[:-1], True))) + 1
    tracks = np.stack(steps, 1)[:whole]
    moves = np.empty(tracks.shape, bool)
    moves[:, -1] = False
    np.not_equal(tracks[:, :-1], tracks[:, 1:], out=moves[:, :-1])
    positions = tracks[moves]
    strange = ~_is_message(numbers[positions + _MAGIC_AT])
    if strange.any():
        count = int(np.argmax(strange))
        return positions[:count], int(positions[count])
    return positions, int(at[whole - 1])


def _lane_begins(view: bytes | memoryview, begin: int, base: int, usual: int) -> ndarray[Any, Any]:
    """Return C{begin}, and the first record in each of many windows that have one, all windows being equally far."""
    np = _numpy()
    stride, width = usual * _LANE, usual * _LOOK
    lanes = max(0, (len(view) - HEAD_SIZE - width - begin) // stride)
    windows = np.ndarray((lanes, width), "u1", view, (begin + stride + _MAGIC_AT) * bool(lanes), (stride, 1))
    lane, column = np.divmod(np.flatnonzero(windows == _MAGIC_BYTE), width)
    at = begin + stride * (lane + 1) + column
    numbers = np.ndarray(len(view) - 3, ">i4", view, strides=(1,))
    magic = _is_message(numbers[at + _MAGIC_AT])
    lane, at = lane[magic], at[magic]
    offsets = np.ndarray(len(view) - 7, ">i8", view, strides=(1,))
    own = offsets[at + _OFFSET_AT] == base + at
    lane, at = lane[own], at[own]
    begins: ndarray[Any, Any] = np.append(begin, at[np.diff(lane, prepend=-1) > 0])
    return begins


def _is_message(magics: ndarray[Any, Any]) -> Any:
    return (magics == MAGIC) | (magics == MAGIC_V2) | (magics == SMARTGO_MAGIC)


_MAGIC_AT: Final = 4
_MAGIC_BYTE: Final = MAGIC >> 24 & 0xFF
_OFFSET_AT: Final = 28


class _Lazy(Mapping[str, Any]):
    """Columns of a structured array, each put into native byte order when it is first asked for."""

    def __init__(self) -> None:
        self._rows: dict[str, Any] = {}
        self._made: dict[str, Any] = {}

    def add(self, rows: ndarray[Any, Any]) -> None:
        """Take more columns."""
        self._rows.update(dict.fromkeys(rows.dtype.names or (), rows))

    def take(self, rows: ndarray[Any, Any]) -> _Lazy:
        """Return columns of some of the rows."""
        taken = _Lazy()
        for whole in {id(each): each for each in self._rows.values()}.values():
            taken.add(whole[rows])
        return taken

    def __getitem__(self, name: str) -> ndarray[Any, Any]:
        made: ndarray[Any, Any] | None = self._made.get(name)
        if made is None:
            column = self._rows[name][name]
            made = self._made[name] = column.astype(column.dtype.newbyteorder("="))
        return made

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def gather(
    view: bytes | memoryview, positions: Sequence[int] | ndarray[Any, Any], schema: Construct, known: Mapping[str, Any]
) -> Columns:
    """
    Read the records of one variant that begin at C{positions}.

    @param known: decides the variant, as in L{flatten}.
    @raise SettingError: numpy is not installed.
    """
    np = _numpy()
    at = np.asarray(positions, "i8")
    valid = at >= 0
    values = _Lazy()
    spans: dict[str, Any] = {}
    for row, variable in _rows(schema, tuple(known.items())):
        valid = valid & (at <= len(view) - row.itemsize)
        if len(view) >= row.itemsize:
            # Rows as opaque bytes: copied whole, several times as fast as field by field.
            windows = np.ndarray(len(view) - row.itemsize + 1, f"V{row.itemsize}", view, strides=(1,))
            rows = windows[at if valid.all() else np.where(valid, at, 0)].view(row)
        else:
            rows = np.zeros(len(at), row)
        values.add(rows)
        at = at + row.itemsize
        if variable is not None and variable.length is not None:
            length = variable.length(values).astype("i8")
            valid = valid & (length >= 0) & (length <= len(view) - at)
            end = at + np.where(valid, length, 0)
            spans[variable.name] = (at, end)
            at = end
    return Columns(values, spans, valid)


def windows(view: Any, item: int | str) -> ndarray[Any, Any]:
    """Return an item for each place in a buffer where one can begin: so many opaque bytes, or a number of a type."""
    kind = _numpy().dtype(f"V{item}" if isinstance(item, int) else item)
    found: ndarray[Any, Any] = _numpy().ndarray((len(view) - kind.itemsize + 1,), kind, view, strides=(1,))
    return found


def heads(view: bytes | memoryview, positions: ndarray[Any, Any]) -> ndarray[Any, Any]:
    """Return the heads of records that lie within the view, hosts being IPv4, as one structured array (big-endian)."""
    row = _rows(HEAD, (("sys_flag", 0),))[0][0]
    found: ndarray[Any, Any] = windows(view, row.itemsize)[positions].view(row)
    return found


def records(view: bytes | memoryview, positions: Sequence[int] | ndarray[Any, Any]) -> Columns:
    """
    Read the CommitLog records that begin at C{positions}: all fields of L{RECORD}, hosts of both families.

    Not checked: CRCs, names, and whether a record lies where it says.

    @raise SettingError: numpy is not installed.
    """
    np = _numpy()
    at = np.asarray(positions, "i8")
    found = gather(view, at, RECORD, {"sys_flag": 0, "magic": MAGIC})
    variants = (found.values["sys_flag"] & HOSTS_MASK) | (found.values["magic"] == MAGIC_V2)
    if not variants.any():
        return _checked(found, at)
    parts = []
    for variant in np.unique(variants).tolist():
        chosen = variants == variant
        magic = MAGIC_V2 if variant & 1 else MAGIC
        parts.append(
            (chosen, _checked(gather(view, at[chosen], RECORD, {"sys_flag": variant, "magic": magic}), at[chosen]))
        )
    return _merge(parts, len(at)) if len(parts) > 1 else parts[0][1]


def _checked(found: Columns, at: ndarray[Any, Any]) -> Columns:
    """Mark what has no record's magic, and records whose lengths do not add up."""
    values = found.values
    adds_up = at + values["size"] == found.spans["properties"][1]
    return found._replace(valid=found.valid & adds_up & _is_message(values["magic"]))


def java_hashes(texts: Sequence[str]) -> list[int]:
    """Return Java's hash of each text; for more than a few at once, and with numpy, at a fraction of the cost."""
    np = numpy_or_none()
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


@lru_cache(maxsize=64)
def _rows(schema: Construct, known: tuple[tuple[str, Any], ...]) -> list[tuple[dtype[Any], SchemaField | None]]:
    """Return the runs of a schema's fields, each as the type of an array's items."""
    return [(_row(run), variable) for run, variable in runs(flatten(schema, dict(known)))]


def _row(fields: Sequence[SchemaField]) -> dtype[Any]:
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
