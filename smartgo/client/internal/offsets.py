"""
Where a push consumer's group stands: at the brokers, or in a file where every member reads everything.

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
from smartgo.client.pullconsumer import QueueCalls
from smartgo.errors import BrokenTable, CallFailed
from smartgo.schema.bodies import MessageQueue, ResetOffsetBody
from smartgo.tablefile import TableFile


class IOffsetStore(Interface):
    """Remembers where a group stands in its queues."""

    def load() -> None:
        """Read what was kept here; may block, for the start alone."""

    def read(queue: MessageQueue) -> Deferred[int | None]:
        """
        Return where the group stood when it was last kept; C{None} where nothing is known.

        @raise smartgo.errors.CallFailed: through the Deferred: who knows cannot be reached.
        """

    def known(queue: MessageQueue) -> int | None:
        """Return what was updated or read last; C{None} for nothing."""

    def update(queue: MessageQueue, offset: int) -> None:
        """The group stands there now; kept by the next L{persist}."""

    def persist(queues: Iterable[MessageQueue]) -> Deferred[None]:
        """Keep what was updated of these queues; fires when that is done or given up, and never fails."""

    def forget(queue: MessageQueue) -> None:
        """The queue is no longer ours."""


@implementer(IOffsetStore)
class RemoteOffsets:
    """The brokers keep the offsets: for groups whose members share the messages."""

    _log = Logger()

    def __init__(self, client: Client, group: str) -> None:
        self._calls = QueueCalls(client, group)
        self._offsets: dict[MessageQueue, int] = {}
        self._told: dict[MessageQueue, tuple[int, str | None]] = {}  # and whom

    def load(self) -> None:
        """Nothing is kept here."""

    def read(self, queue: MessageQueue) -> Deferred[int | None]:
        """Ask the broker."""
        return Deferred.fromCoroutine(self._calls.committed(queue))

    def known(self, queue: MessageQueue) -> int | None:
        """What was updated last."""
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Remember until it is told."""
        self._offsets[queue] = offset

    def persist(self, queues: Iterable[MessageQueue]) -> Deferred[None]:
        """
        Tell the brokers, one way, of what they have not been told.

        That is the master, or a slave in its place; who comes in its place, or back, is told anew.
        """
        return Deferred.fromCoroutine(self._persist(list(queues)))

    async def _persist(self, queues: list[MessageQueue]) -> None:
        for queue in queues:
            offset = self._offsets.get(queue)
            keeper = self._calls.keeper(queue)
            if offset is None or self._told.get(queue) == (offset, keeper):
                continue
            try:
                await self._calls.tell_commit(queue, offset)
            except CallFailed as error:
                self._log.warn(
                    "offset {offset} of {queue} is not told: {error}", offset=offset, queue=queue, error=error
                )
            else:
                self._told[queue] = (offset, keeper)

    def forget(self, queue: MessageQueue) -> None:
        """Another member goes on from what was told."""
        self._offsets.pop(queue, None)
        self._told.pop(queue, None)


@implementer(IOffsetStore)
class LocalOffsets:
    """A file keeps the offsets: for groups whose members each read everything."""

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
        """What the file said, or what was updated since."""
        return succeed(self._offsets.get(queue))

    def known(self, queue: MessageQueue) -> int | None:
        """The same at once."""
        return self._offsets.get(queue)

    def update(self, queue: MessageQueue, offset: int) -> None:
        """Remember until it is saved."""
        if self._offsets.get(queue) != offset:
            self._offsets[queue] = offset
            self._changed = True

    def persist(self, queues: Iterable[MessageQueue]) -> Deferred[None]:
        """Save the file, of all queues, if anything changed."""
        if not self._changed:
            return succeed(None)
        self._changed = False
        table = {"offsetTable": {queue.key(): offset for queue, offset in self._offsets.items()}}
        return self._file.save(table).addErrback(self._not_saved)

    def _not_saved(self, failure: Failure) -> None:
        self._changed = True
        failure.trap(OSError)
        self._log.error("the offsets are not saved: {error}", error=failure.value)

    def forget(self, queue: MessageQueue) -> None:
        """Nobody else goes on: the offset stays for the next time."""
