"""
The writing part of a slave's store: what its master sends, where its log begins, and what is taken back or repaired.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from twisted.internet.defer import Deferred, DeferredLock
from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import ServiceNotAvailable
from smartgo.store.checkpointer import Checkpointed, Checkpointer
from smartgo.store.filecleaner import FileCleaner
from smartgo.store.integrity import LogIntegrity
from smartgo.store.interfaces import PutStatus
from smartgo.store.logrestart import LogRestart
from smartgo.store.queues.file import QueueKey
from smartgo.store.queues.removal import QueueRemoval
from smartgo.store.recovery.repair import LogRepair
from smartgo.store.replicalog import ReplicaLog


class ReplicaWriter:
    """Writes the log of one slave."""

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        parts: Checkpointed,
        checkpointer: Checkpointer,
        removal: QueueRemoval,
        cleaner: FileCleaner,
        integrity: LogIntegrity,
    ) -> None:
        self._parts = parts
        self._checkpointer = checkpointer
        self._removal = removal
        self._repairing = DeferredLock()
        self._replica = ReplicaLog(
            parts.log,
            parts.queues,
            integrity,
            self._begin,
            self._retreat,
            self._drop,
            lambda: checkpointer.marked_from,
        )
        self._repair = LogRepair(parts.log, parts.queues, parts.dispatch, parts.flusher, checkpointer, self._replica)
        self._restart = LogRestart(env, parts, checkpointer, cleaner, self._begin)

    def stop(self) -> Deferred[None]:
        """
        Truncate a record that is not whole: the master sends it again after the next start.

        @return: fires when nothing of the log is being removed.
        """
        self._replica.stop()
        return self._restart.stop()

    @property
    def doubtful_from(self) -> int:
        """See L{IReplicatedLog.doubtful_from<smartgo.store.replicatedlog.IReplicatedLog.doubtful_from>}."""
        found = self._checkpointer.doubtful_from
        return self._parts.log.end if found is None else found

    def believe(self) -> None:
        """See L{IReplicatedLog.believe<smartgo.store.replicatedlog.IReplicatedLog.believe>}."""
        self._checkpointer.doubtful_from = None

    def append(self, offset: int, data: bytes | memoryview) -> None:
        """See L{ReplicaLog.append}; the caller ends the run."""
        self._replica.append(offset, data)

    def drop_torn(self) -> None:
        """See L{IReplicatedLog.drop_torn<smartgo.store.replicatedlog.IReplicatedLog.drop_torn>}."""
        self._replica.stop()

    def expect_damage(self, offset: int, end: int) -> None:
        """See L{IReplicatedLog.expect_damage<smartgo.store.replicatedlog.IReplicatedLog.expect_damage>}."""
        self._replica.expect_damage(offset, end)

    def begun_since(self, topic: str, since: int) -> dict[QueueKey, int]:
        """See L{ReplicaLog.begun_since}."""
        return self._replica.begun_since(topic, since)

    def repair(self, records: Mapping[int, bytes]) -> Deferred[None]:
        """See L{IReplicatedLog.repair<smartgo.store.replicatedlog.IReplicatedLog.repair>}; one at a time."""
        repaired: Deferred[None] = self._repairing.run(lambda: Deferred.fromCoroutine(self._repair_log(records)))
        return repaired

    def begin_anew(self, offset: int, wanted: bool) -> Deferred[None]:
        """See L{IReplicatedLog.begin_anew<smartgo.store.replicatedlog.IReplicatedLog.begin_anew>}; one at a time."""
        begun: Deferred[None] = self._repairing.run(lambda: Deferred.fromCoroutine(self._begin_anew(offset, wanted)))
        return begun

    async def _begin_anew(self, offset: int, wanted: bool) -> None:
        self._replica.stop()
        await self._restart.restart(offset, wanted)
        self.believe()

    async def learn_marks(self, marked_from: int) -> None:
        """See L{IReplicatedLog.learn_marks<smartgo.store.replicatedlog.IReplicatedLog.learn_marks>}."""
        if marked_from != self._checkpointer.marked_from:
            self._checkpointer.marked_from = marked_from
            if await self._checkpointer.save(table=True) is not PutStatus.OK:
                raise ServiceNotAvailable("no checkpoint could be written")

    async def _repair_log(self, records: Mapping[int, bytes]) -> None:
        if self._checkpointer.doubtful_from is not None:  # else it was repaired meanwhile
            await self._repair.repair(records)
            self.believe()

    def _begin(self, offset: int) -> None:
        """Move the beginning of an empty log to a physical offset."""
        self._parts.log.restart(offset)
        self._parts.flusher.restart(offset)
        self._parts.dispatch.restart(offset)

    def _retreat(self, end: int) -> None:
        """Truncate the log at a physical offset."""
        self._parts.log.retreat(end)
        self._parts.flusher.retreat(end)

    def _drop(self, topic: str, below: int, but: Collection[QueueKey]) -> None:
        """
        Drop the queues of a topic that was deleted at the master, except those of the topic made there later.

        @raise ServiceNotAvailable: that could not be written down, and nothing was changed.
        """
        try:
            dropping = self._removal.drop(topic, below, but)
        except OSError as error:
            raise ServiceNotAvailable(f"that topic {topic} was deleted cannot be saved: {error.strerror}") from error
        self._log.info("topic {topic} was deleted at the master, and starts again at {below}", topic=topic, below=below)
        dropping.addErrback(
            lambda failure: self._log.failure("the queues of {topic} could not be removed", failure, topic=topic)
        )
