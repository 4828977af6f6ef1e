"""
The C{checkpoint} file: up to which store time each part of the store is known to be on disk.

Layout, big-endian, then zeros up to 4096 bytes::

    0   physical_ms      int64  CommitLog
    8   logical_ms       int64  ConsumeQueues
    16  index_ms         int64  index files
    24  master_flushed   int64  5.x: physical offset the master has flushed; 0 in 4.9
    32  confirmed        int64  5.x: physical offset confirmed by the replicas; 0 in 4.9

Source: C{store/StoreCheckpoint.java} of RocketMQ 4.9 and 5.x; docs/spec/store#checkpoint. It is written for RocketMQ's
sake and not trusted by smartgo (reliability S9).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from construct import Int64sb, Struct

from smartgo.schema.fixed import fixed

CHECKPOINT: Final = Struct(
    "physical_ms" / Int64sb,
    "logical_ms" / Int64sb,
    "index_ms" / Int64sb,
    "master_flushed" / Int64sb,
    "confirmed" / Int64sb,
)
FILE_SIZE: Final = 4096

_packer: Final = fixed(CHECKPOINT)
_MARGIN_MS: Final = 3000


class Checkpoint(NamedTuple):
    """The content of the file."""

    physical_ms: int = 0
    logical_ms: int = 0
    index_ms: int = 0
    master_flushed: int = 0
    confirmed: int = 0

    @classmethod
    def unpack(cls, data: bytes | memoryview) -> Checkpoint:
        """
        Read the file's content.

        @raise struct.error: it is shorter than the record.
        """
        return cls._make(_packer.unpack_from(data))

    def pack(self) -> bytes:
        """Return the L{FILE_SIZE} bytes of the file."""
        return _packer.pack(*self).ljust(FILE_SIZE, b"\0")

    @property
    def safe_ms(self) -> int:
        """Up to this store time log and queues are on disk, with RocketMQ's margin of 3 s."""
        return max(0, min(self.physical_ms, self.logical_ms) - _MARGIN_MS)

    @property
    def safe_with_index_ms(self) -> int:
        """The same for log, queues and index."""
        return min(self.safe_ms, self.index_ms)
