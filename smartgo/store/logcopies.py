"""Copies of stored messages, which are appended so that the log file of the originals can be removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smartgo.errors import ServiceNotAvailable
from smartgo.schema.message import NewMessage
from smartgo.schema.refusalkind import RefusalKind
from smartgo.store.commitlog import CommitLog
from smartgo.store.interfaces import Appended
from smartgo.store.queues.file import ConsumeQueues
from smartgo.store.refusal import Refusal

_FULL_SHARE: Final = 0.75  # of a log file that its copies may take where the disk is full: its removal has to make room


class LogCopies:
    """Appends copies of stored messages where others may be refused: on a full disk."""

    def __init__(
        self, log: CommitLog, queues: ConsumeQueues, refusals: Callable[[], tuple[Refusal | None, Refusal | None]]
    ) -> None:
        """@param refusals: why all messages are refused now, and why they would be if there was nothing else."""
        self._commitlog = log
        self._queues = queues
        self._refusals = refusals
        self._spent = 0, 0  # the end of the log file that is to go, and the bytes of its copies on a full disk

    @property
    def refusal(self) -> Refusal | None:
        """The reason why no copy is taken now; C{None}: copies are."""
        first, other = self._refusals()
        return other if first is None or first.kind is RefusalKind.DISK_FULL else first

    @property
    def is_disk_full(self) -> bool:
        """True while other messages are refused as the disk is full: copies should take less than what they free."""
        first, _ = self._refusals()
        return first is not None and first.kind is RefusalKind.DISK_FULL

    def spend(self, size: int, below: int) -> None:
        """
        Take note of the copy of a message that is about to be appended, so that its log file can go.

        @param size: bytes of its record.
        @param below: physical offset: the end of the log file.
        @raise ServiceNotAvailable: the disk is full, and all copies of what is in the file would take too much of it.
        """
        if self.is_disk_full:
            spent = size + (self._spent[1] if self._spent[0] == below else 0)
            if spent > _FULL_SHARE * (below - self._commitlog.minimum):
                raise ServiceNotAvailable("the disk is full, and the copies would take what the file gives back")
            self._spent = below, spent

    def append(self, message: NewMessage) -> Appended:
        """
        Append the copy of a stored message; as L{IMessageStore.append}, L{IMessageStore.end_run} has to follow.

        @raise ServiceNotAvailable: copies are refused (L{refusal}), or there is no room for a log file.
        @raise MessageIllegal: it does not fit into a record.
        """
        refusal = self.refusal
        if refusal is not None:
            raise ServiceNotAvailable(refusal.words)
        key = (message.topic, message.queue_id)
        queue = self._queues.by_key.get(key)
        if queue is None:
            queue = self._queues.create(*key)
        return self._commitlog.append((queue,), (message,))
