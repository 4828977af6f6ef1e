"""
The offsets of a push consumer's group: at the brokers, or in a file for a broadcast consumer.

Source: C{client/consumer/store/RemoteBrokerOffsetStore.java}, C{LocalFileOffsetStore.java}.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import Interface, implementer

from smartgo.client.client import Client
from smartgo.client.internal.outages import SilentBrokers
from smartgo.client.pullconsumer import QueueCalls
from smartgo.errors import BrokenTable, CallFailed
from smartgo.schema.bodies import MessageQueue, ResetOffsetBody
from smartgo.tablefile import TableFile


class IOffsetStore(Interface):
    """The offsets of a group in its queues."""

    def load() -> None:
        """Read the offsets that were saved on this machine; may block, so call it only at the start."""

    def read(queue: MessageQueue) -> Deferred[int | None]:
        """
        Return the saved offset of a queue; C{None} if there is none.

        @raise smartgo.errors.CallFailed: through the Deferred: who knows cannot be reached.
        """

    def known(queue: MessageQueue) -> int | None:
        """Return the offset that was updated or read last; C{None} if there is none."""

    def update(queue: MessageQueue, offset: int) -> None:
        """Set the offset of a queue; the next L{persist} saves it."""

    def persist(queues: Iterable[MessageQueue]) -> Deferred[None]:
        """Save the offsets of these queues that were updated; fires when that is done or given up, and never fails."""

    def forget(queue: MessageQueue) -> None:
        """Forget a queue that is no longer assigned to this consumer."""


@implementer(IOffsetStore)
class RemoteOffsets:
    """Offsets that the brokers store: for groups whose members share the messages."""

    def __init__(self, client: Client, group: str) -> None:
        self._calls = QueueCalls(client, group)
        self._outages = client.outages
        self._clock = client.env.clock
        self._offsets: dict[MessageQueue, int] = {}
        self._told: dict[MessageQueue, tuple[int, str | None]] = {}  # and whom

    def load(self) -> None:
        """Do nothing: the offsets are at the brokers."""

    def read(self, queue: MessageQueue) -> Deferred[int | None]:
        """Ask the broker for the offset."""
        return Deferred.fromCoroutine(self._calls.committed(queue))

    def known(self, queue: MessageQueue) -> int | None:
        """Return the offset that was updated last."""
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Remember the offset until it is sent to the broker."""
        self._offsets[queue] = offset

    def persist(self, queues: Iterable[MessageQueue]) -> Deferred[None]:
        """
        Send the updated offsets to the brokers, one way.

        That is the master, or a slave in its place; who comes in its place, or back, is told anew. A broker that
        cannot be reached is told nothing more this time.
        """
        return Deferred.fromCoroutine(self._persist(list(queues)))

    async def _persist(self, queues: list[MessageQueue]) -> None:
        silent = SilentBrokers(self._clock)
        for queue in queues:
            offset = self._offsets.get(queue)
            keeper = self._calls.keeper(queue)
            if offset is None or self._told.get(queue) == (offset, keeper) or queue.broker_name in silent:
                continue
            begun = self._clock.seconds()
            try:
                await self._calls.tell_commit(queue, offset)
            except CallFailed as error:
                self._outages.failed(queue.broker_name, error)
                silent.failed(queue.broker_name, begun)
            else:
                self._told[queue] = (offset, keeper)

    def forget(self, queue: MessageQueue) -> None:
        """Forget the offset: another member continues from the broker's."""
        self._offsets.pop(queue, None)
        self._told.pop(queue, None)


@implementer(IOffsetStore)
class LocalOffsets:
    """Offsets in a file: for groups whose members each get all messages."""

    _log = Logger()

    def __init__(self, client: Client, group: str, directory: str | None = None) -> None:
        """
        @param directory: where offsets of all clients are kept; by default C{.rocketmq_offsets} in the user's home.
        """
        root = directory or posixpath.join(client.env.host.home(), ".rocketmq_offsets")
        self._file = TableFile(client.env, posixpath.join(root, client.stable_id, group, "offsets.json"))
        self._offsets: dict[MessageQueue, int] = {}
        self._changed = False

    def load(self) -> None:
        """
        Read the file, written by this or by Java's client.

        One that cannot be read is set aside: the group begins as a new one does.
        """
        try:
            table = self._file.load(ResetOffsetBody.decode)
        except BrokenTable as error:
            self._log.error("{error}; beginning anew", error=error)
            self._file.set_aside()
            table = None
        if table is not None:
            self._offsets = dict(table.offset_table)

    def read(self, queue: MessageQueue) -> Deferred[int | None]:
        """Return the offset of the file, or the one that was updated since."""
        return succeed(self._offsets.get(queue))

    def known(self, queue: MessageQueue) -> int | None:
        """Return the same without a Deferred."""
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Remember the offset until it is saved."""
        if self._offsets.get(queue) != offset:
            self._offsets[queue] = offset
            self._changed = True

    def persist(self, queues: Iterable[MessageQueue]) -> Deferred[None]:
        """Save the offsets of all queues if any has changed."""
        if not self._changed:
            return succeed(None)
        self._changed = False
        table = {"offsetTable": {queue.key(): offset for queue, offset in self._offsets.items()}}
        return self._file.save(table).addErrback(self._not_saved)

    def _not_saved(self, failure: Failure) -> None:
        self._changed = True
        failure.trap(OSError)
        self._log.error("the offsets could not be saved: {error}", error=failure.value)

    def forget(self, queue: MessageQueue) -> None:
        """Keep the offset: no other member continues from it."""


def offset_store(client: Client, group: str, shares: bool, directory: str | None) -> IOffsetStore:
    """
    Return the store of a group's offsets.

    @param shares: whether the members share the messages; else each has its offsets in a file.
    @param directory: of such files; see L{LocalOffsets}.
    """
    return RemoteOffsets(client, group) if shares else LocalOffsets(client, group, directory)
