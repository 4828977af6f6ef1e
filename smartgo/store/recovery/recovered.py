"""The results of recovery for a store that opens."""

from __future__ import annotations

from typing import NamedTuple

from smartgo.schema.regions import Region
from smartgo.store.filequeue import FileQueue
from smartgo.store.index.recovery import KeptIndex
from smartgo.store.logposition import LogPosition
from smartgo.store.queues.file import ConsumeQueues


class RecoveredCheckpoint(NamedTuple):
    """
    The checkpoint that recovery wrote, and the values that the next ones continue.

    @ivar position: of that checkpoint, a physical offset.
    @ivar marked_from: physical offset from which on batches carry our mark.
    @ivar index_ms: RocketMQ's timestamp of its index.
    @ivar deleted: see L{QueueTable<smartgo.store.checkpoint.QueueTable>}.
    @ivar table_saved: the table of queues holds that.
    @ivar doubtful_from: of a slave, see L{IReplicatedLog<smartgo.store.replicatedlog.IReplicatedLog>}; else C{None}.
    @ivar begun: see L{QueueTable<smartgo.store.checkpoint.QueueTable>}.
    """

    position: int
    marked_from: int
    index_ms: int
    deleted: dict[str, int]
    table_saved: bool
    doubtful_from: int | None
    begun: int = 0


class RecoveredStore(NamedTuple):
    """
    The result of recovery: the parts of the store that is opened.

    @ivar log_files: of the CommitLog.
    @ivar log_position: where its writer goes on.
    @ivar kept_index: what there is of the index, C{None} if none is wanted.
    @ivar verified_from: physical offset from which on recovery checked every record.
    @ivar damage: the damaged regions that are known.
    """

    log_files: FileQueue
    queues: ConsumeQueues
    log_position: LogPosition
    checkpoint: RecoveredCheckpoint
    kept_index: KeptIndex | None
    verified_from: int
    damage: list[Region]
