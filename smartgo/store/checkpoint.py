"""
The checkpoint: facts known to be on disk, so that recovery need not read the whole log.

Three files in the store's root, and the empty file C{abort}, there while a store is in use:

 - C{smartgo.checkpoint}: positions, in two slots that are written in turn, each with a CRC, so that a torn write
   leaves the other. Recovery begins here (reliability S9).
 - C{smartgo.queues}: how far every queue went at least, so that a queue that is gone is missed; exact after a clean
   stop.
 - C{checkpoint}: RocketMQ's three timestamps, for RocketMQ. What is in it also tells whether a RocketMQ broker had the
   store since we did: then our own positions are stale and are not used.

Layout of a slot, big-endian, 124 bytes, at 0 and 2048 of a file of 4096 bytes::

    0    magic          8 bytes  C{SMARTGO1}
    8    sequence       int64    the valid slot with the higher one counts
    16   clean          int64    1: written by a clean stop, 0: by a running store
    24   position       int64    physical offset; below it all is in the queues, and both are durable
    32   flushed        int64    physical offset; below it the log is durable. Less than C{position} in a slave's store
                                 that crashed: what lies between is to be compared with its master's log still
    40   marked_from    int64    physical offset; from there on batches carry our mark; C{UNMARKED} in a slave's store
    48   log_file_size  int64    bytes
    56   queue_file_size  int64  bytes
    64   written        3 int64  RocketMQ's timestamps as they are written after this slot
    88   before         3 int64  the same as they were before
    112  indexed        int64    physical offset; see L{smartgo.store.index.recovery.KnownIndex}
    120  crc            int32    CRC-32 of the bytes before, as signed
"""

from __future__ import annotations

import posixpath
from typing import Final, NamedTuple
from zlib import crc32

import msgspec
from construct import Bytes, Int32sb, Int64sb, Struct

from smartgo.env.interfaces import IFiles, IMapping
from smartgo.schema import checkpoint as peer
from smartgo.schema.fixed import fixed

UNMARKED: Final = 1 << 62
"""Physical offset behind every log: no batch is known to carry our mark."""

_MAGIC: Final = b"SMARTGO1"
_TABLE_MAGIC: Final = b"SMARTGOQ"
_FILE_SIZE: Final = peer.FILE_SIZE
SLOT_DISTANCE: Final = 2048

SLOT = Struct(
    "magic" / Bytes(8),
    "sequence" / Int64sb,
    "clean" / Int64sb,
    "position" / Int64sb,
    "flushed" / Int64sb,
    "marked_from" / Int64sb,
    "log_file_size" / Int64sb,
    "queue_file_size" / Int64sb,
    "written_log_ms" / Int64sb,
    "written_queue_ms" / Int64sb,
    "written_index_ms" / Int64sb,
    "before_log_ms" / Int64sb,
    "before_queue_ms" / Int64sb,
    "before_index_ms" / Int64sb,
    "indexed" / Int64sb,
)
_slot = fixed(SLOT)
_crc = fixed(Struct("crc" / Int32sb))


class Timestamps(NamedTuple):
    """
    RocketMQ's three timestamps, see L{smartgo.schema.checkpoint}: up to which store timestamps log, queues
    and index are on the disk.
    """

    log_ms: int
    queue_ms: int
    index_ms: int

    @classmethod
    def of(cls, data: bytes) -> Timestamps:
        """Read the file's content, however much of it there is."""
        return cls._make(peer.Checkpoint.unpack(data.ljust(_FILE_SIZE, b"\0"))[: len(cls._fields)])

    @property
    def safe_ms(self) -> int:
        """Store timestamp up to which RocketMQ takes both log and queues for durable."""
        return peer.Checkpoint(*self).safe_ms

    def overwrite(self, view: memoryview) -> None:
        """Write the timestamps into the file, and leave the rest of it."""
        size = len(self) * 8
        view[:size] = peer.Checkpoint(*self).pack()[:size]


class CheckpointSlot(NamedTuple):
    """One slot of C{smartgo.checkpoint}; the module's table explains the fields."""

    clean: bool
    position: int
    flushed: int
    marked_from: int
    log_file_size: int
    queue_file_size: int
    written: Timestamps
    before: Timestamps
    indexed: int = 0


class QueueEntry(msgspec.Struct, array_like=True, gc=False):
    """One queue: logical offset of its first readable message, and of the next one."""

    topic: str
    queue_id: int
    minimum: int
    next_offset: int


class IndexEntry(msgspec.Struct, array_like=True, gc=False):
    """One index file: its name, and the physical offset of the last message in it."""

    name: str
    end_offset: int


class QueueTable(msgspec.Struct, array_like=True):
    """
    All queues, and the files of the index.

    @ivar position: physical offset; the queues hold at least what the log has below it.
    @ivar log_minimum: physical offset of the oldest log file then.
    @ivar deleted: topics that were deleted, each with the log's end then: records below it are of the deleted topic.
    @ivar begun: physical offset at which a slave's log began anew, see L{smartgo.store.logrestart}; 0: it never did.
        It counts once the checkpoint's position has reached it: log files below are left over, and none is missing.
    @ivar told: of a slave: physical offset from which on batches carry our mark, as its master said.
    """

    position: int
    log_minimum: int
    queues: list[QueueEntry]
    deleted: dict[str, int]
    index: list[IndexEntry] = []
    begun: int = 0
    told: int = UNMARKED


class CheckpointFiles:
    """The checkpoint files of a store. All methods block; one thread at a time."""

    def __init__(self, files: IFiles, root: str) -> None:
        self._files = files
        self._path = posixpath.join(root, "smartgo.checkpoint")
        self._table_path = posixpath.join(root, "smartgo.queues")
        self._peer_path = posixpath.join(root, "checkpoint")
        self._abort_path = posixpath.join(root, "abort")
        self._root = root
        self._sequence = 0
        self._mapping: IMapping | None = None
        self._peer_mapping: IMapping | None = None
        self._peer = Timestamps(0, 0, 0)

    # -- reading -----------------------------------------------------------------------------------------------

    def load(self) -> CheckpointSlot | None:
        """
        Return our last checkpoint; C{None} if there is none, none is whole, or a RocketMQ broker used the store since.

        @raise OSError: as the system says.
        """
        self._peer = self.load_peer()
        if not self._files.exists(self._path):
            return None
        data = self._files.read(self._path, _FILE_SIZE)
        best: CheckpointSlot | None = None
        for at in (0, SLOT_DISTANCE):
            raw = data[at : at + _slot.size]
            if len(data) < at + _slot.size + _crc.size or raw[: len(_MAGIC)] != _MAGIC:
                continue
            if _crc.unpack_from(data, at + _slot.size)[0] != _signed(crc32(raw)):
                continue
            _, sequence, clean, position, flushed, marked, log_size, queue_size, *times, indexed = _slot.unpack(raw)
            if sequence >= self._sequence:
                self._sequence = sequence
                written = Timestamps._make(times[:3])
                before = Timestamps._make(times[3:])
                best = CheckpointSlot(
                    clean == 1, position, flushed, marked, log_size, queue_size, written, before, indexed
                )
        if best is not None and self._files.exists(self._peer_path) and self._peer not in (best.written, best.before):
            return None
        return best

    def load_peer(self) -> Timestamps:
        """Return RocketMQ's timestamps, zeros where there are none. @raise OSError"""
        if not self._files.exists(self._peer_path):
            return Timestamps(0, 0, 0)
        return Timestamps.of(self._files.read(self._peer_path, _FILE_SIZE))

    def load_table(self) -> QueueTable | None:
        """Return the table of queues, C{None} where there is none or it is damaged. @raise OSError"""
        if not self._files.exists(self._table_path):
            return None
        data = self._files.read(self._table_path)
        raw = data[len(_TABLE_MAGIC) + _crc.size :]
        if data[: len(_TABLE_MAGIC)] != _TABLE_MAGIC or len(data) < len(_TABLE_MAGIC) + _crc.size:
            return None
        if _crc.unpack_from(data, len(_TABLE_MAGIC))[0] != _signed(crc32(raw)):
            return None
        try:
            return msgspec.msgpack.decode(raw, type=QueueTable)
        except msgspec.DecodeError:
            return None

    # -- the abort marker --------------------------------------------------------------------------------------

    def is_aborted(self) -> bool:
        """Tell whether the store was not stopped cleanly, by us or by RocketMQ: the marker is there."""
        return self._files.exists(self._abort_path)

    def set_abort(self) -> None:
        """Create the abort marker, an empty file as in RocketMQ 4.9. @raise OSError"""
        if not self.is_aborted():
            self._files.create(self._abort_path, b"")

    def remove_abort(self) -> None:
        """Remove the abort marker durably. @raise OSError"""
        self._files.remove(self._abort_path)
        self._files.sync_directory(self._root)

    # -- writing -----------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Map the files, made if they are missing. @raise OSError"""
        if self._mapping is None:
            self._mapping = self._open(self._path)
            self._peer_mapping = self._open(self._peer_path)

    def _open(self, path: str) -> IMapping:
        if self._files.exists(path) and self._files.size(path) != _FILE_SIZE:
            self._files.remove(path)
        if not self._files.exists(path):
            self._files.create(path, bytes(_FILE_SIZE))
        mapping: IMapping = self._files.map(path)
        return mapping

    def save(self, checkpoint: CheckpointSlot) -> None:
        """
        Write the next slot durably, then RocketMQ's file; its fields C{before} are filled in here.

        @raise OSError: what was written may be lost.
        """
        if self._mapping is None or self._peer_mapping is None:
            raise ValueError("the checkpoints are not open")
        self._sequence += 1
        raw = _slot.pack(
            _MAGIC,
            self._sequence,
            int(checkpoint.clean),
            checkpoint.position,
            checkpoint.flushed,
            checkpoint.marked_from,
            checkpoint.log_file_size,
            checkpoint.queue_file_size,
            *checkpoint.written,
            *self._peer,
            checkpoint.indexed,
        )
        at = SLOT_DISTANCE * (self._sequence % 2)
        self._mapping.view[at : at + len(raw) + _crc.size] = raw + _crc.pack(_signed(crc32(raw)))
        self._mapping.sync()
        checkpoint.written.overwrite(self._peer_mapping.view)
        self._peer_mapping.sync()
        self._peer = checkpoint.written

    def save_table(self, table: QueueTable) -> None:
        """Replace the table of queues durably. @raise OSError: the old one is still there."""
        raw = msgspec.msgpack.encode(table)
        self._files.replace(self._table_path, _TABLE_MAGIC + _crc.pack(_signed(crc32(raw))) + raw, backup=False)

    def close(self) -> None:
        """Unmap the files."""
        for mapping in (self._mapping, self._peer_mapping):
            if mapping is not None:
                mapping.close()
        self._mapping = self._peer_mapping = None


def _signed(value: int) -> int:
    """Return 32 bits as a signed number."""
    return value - ((value & 0x80000000) << 1)
