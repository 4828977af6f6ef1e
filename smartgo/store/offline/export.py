"""
Exports the records of a store directory as JSON lines or as Parquet.

Both have the same columns, those of L{RecordRow<smartgo.store.offline.rows.RecordRow>}. A summary tells how many
records were written, and a digest that is the same for both formats of the same records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

import msgspec

from smartgo.env.interfaces import IFiles
from smartgo.errors import SettingError, StoreError
from smartgo.schema.message import StoredMessage
from smartgo.store.damagefill import is_fill
from smartgo.store.offline.directory import OfflineStore
from smartgo.store.offline.logwalk import LogDamage, LogWalk
from smartgo.store.offline.rows import RecordFilter, RecordRow, json_members, row_of

FORMATS: Final = ("jsonl", "parquet")
_ROWS: Final = 10_000  # of a row group
_BYTES: Final = 8 << 20  # of bodies and properties that are held at most before they are written


class ExportSummary(msgspec.Struct, kw_only=True):
    """
    The result of an export.

    @ivar damaged: ranges of the log that hold no valid record, and C{damaged_bytes} in them.
    @ivar sha256: of all records in order: for each its physical offset and the length of its body (int64, big-endian
        both), and its body as exported.
    """

    file: str
    format: str
    records: int = 0
    body_bytes: int = 0
    damaged: int = 0
    damaged_bytes: int = 0
    sha256: str = ""


class RowWriter(Protocol):
    """Writes rows to a file."""

    def write(self, rows: list[RecordRow]) -> None:
        """Write some rows, in order."""

    def close(self) -> None:
        """End the file."""


class JsonLinesWriter:
    """Writes one JSON object a line; bodies that are no UTF-8 text stand as base64 in C{body_base64}."""

    def __init__(self, append: Callable[[bytes], None]) -> None:
        self._append = append

    def write(self, rows: list[RecordRow]) -> None:
        """See L{RowWriter.write}."""
        self._append(b"".join(msgspec.json.encode(json_members(row)) + b"\n" for row in rows))

    def close(self) -> None:
        """See L{RowWriter.close}."""


class _Sink:
    """A file for pyarrow to write to, which is only appended to."""

    closed = False

    def __init__(self, append: Callable[[bytes], None]) -> None:
        self._append = append
        self._at = 0

    def write(self, data: Any) -> int:
        """Append bytes."""
        raw = bytes(data)
        self._append(raw)
        self._at += len(raw)
        return len(raw)

    def tell(self) -> int:
        """Return the position."""
        return self._at

    def flush(self) -> None:
        """Do nothing: all was written."""

    def close(self) -> None:
        """Do nothing: no file is open."""

    def writable(self) -> bool:
        """Return C{True}."""
        return True

    def readable(self) -> bool:
        """Return C{False}."""
        return False

    def seekable(self) -> bool:
        """Return C{False}."""
        return False


class ParquetWriter:
    """Writes Parquet with zstd compression; bodies are binary, timestamps are in UTC to the millisecond."""

    def __init__(self, append: Callable[[bytes], None]) -> None:
        """@raise SettingError: pyarrow is not installed."""
        try:
            import pyarrow as pa
            from pyarrow import parquet
        except ImportError:
            raise SettingError(
                'export to Parquet needs pyarrow, which is not installed: pip install "smartgo[export]"'
            ) from None
        stamp = pa.timestamp("ms", tz="UTC")
        kinds = {int: pa.int64(), bytes: pa.binary(), list[str]: pa.list_(pa.string())}
        narrow = ("queue_id", "body_size", "size", "flag", "sys_flag", "reconsume_times", "crc")
        fields = []
        for field in msgspec.structs.fields(RecordRow):
            kind = kinds.get(field.type, pa.string())
            if field.name.endswith("_timestamp"):
                kind = stamp
            elif field.name == "properties":
                kind = pa.map_(pa.string(), pa.string())
            elif field.name in narrow:
                kind = pa.int32()
            fields.append(pa.field(field.name, kind))
        self._schema = pa.schema(fields)
        self._table = pa.Table
        self._writer = parquet.ParquetWriter(_Sink(append), self._schema, compression="zstd")

    def write(self, rows: list[RecordRow]) -> None:
        """See L{RowWriter.write}."""
        columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in rows] for name in self._schema.names}
        columns["properties"] = [list(pairs.items()) for pairs in columns["properties"]]
        self._writer.write_table(self._table.from_pydict(columns, schema=self._schema))

    def close(self) -> None:
        """See L{RowWriter.close}."""
        self._writer.close()


_WRITERS: Final[dict[str, Callable[[Callable[[bytes], None]], RowWriter]]] = {
    "jsonl": JsonLinesWriter,
    "parquet": ParquetWriter,
}


class StoreExport:
    """
    One export of one store. L{run} blocks.

    @ivar cancelled: set from another thread to make L{run} stop soon.
    """

    def __init__(self, store: OfflineStore, wanted: RecordFilter, inflate: bool, told: Callable[[int], None]) -> None:
        """
        @param inflate: write bodies decompressed.
        @param told: called often with the number of records so far.
        """
        self._store = store
        self._wanted = wanted
        self._inflate = inflate
        self._told = told
        self._digest = hashlib.sha256()
        self.cancelled = False

    def run(self, files: IFiles, path: str, form: str) -> ExportSummary:
        """
        Write the wanted records to a new file.

        @param form: one of L{FORMATS}.
        @raise SettingError: pyarrow is not installed; then no file is made.
        @raise FileExistsError: there is such a file.
        @raise OSError: as the system says.
        """
        summary = ExportSummary(file=path, format=form)
        pending: list[bytes] = []
        writer = _WRITERS[form](pending.append)
        files.create(path, b"")
        for rows in self._portions(summary):
            writer.write(rows)
            files.append(path, b"".join(pending))
            pending.clear()
            self._told(summary.records)
        writer.close()
        files.append(path, b"".join(pending))
        summary.sha256 = self._digest.hexdigest()
        return summary

    def _portions(self, summary: ExportSummary) -> Iterator[list[RecordRow]]:
        rows: list[RecordRow] = []
        size = 0
        for one in self._wanted.select(iter(LogWalk(self._store, self._check_cancelled, self._wanted.begin))):
            if isinstance(one, LogDamage):
                summary.damaged += 1
                summary.damaged_bytes += one.end - one.begin
                continue
            if is_fill(one):
                continue
            rows.append(self._row(one, summary))
            size += one.size
            if len(rows) >= _ROWS or size >= _BYTES:
                yield rows
                rows, size = [], 0
        if rows:
            yield rows

    def _row(self, message: StoredMessage, summary: ExportSummary) -> RecordRow:
        row = row_of(message, self._inflate)
        summary.records += 1
        summary.body_bytes += len(row.body)
        self._digest.update(row.physical_offset.to_bytes(8, "big") + len(row.body).to_bytes(8, "big") + row.body)
        return row

    def _check_cancelled(self) -> None:
        if self.cancelled:
            raise StoreError("interrupted")
