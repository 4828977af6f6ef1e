"""Interfaces between the store and the code above it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from twisted.internet.defer import Deferred
from zope.interface import Attribute, Interface

from smartgo.schema.consumequeue import Unit
from smartgo.schema.message import NewMessage
from smartgo.store.tails import QueueTail


class PutStatus(IntEnum):
    """The result of an append, with the response code for the client (docs/spec/broker#send)."""

    OK = 0
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12


class ReadStatus(IntEnum):
    """The result of a read (docs/spec/store#read). The names are sent as remarks."""

    FOUND = 0
    NO_MATCHED_MESSAGE = 1
    MESSAGE_WAS_REMOVING = 2
    OFFSET_FOUND_NULL = 3
    OFFSET_OVERFLOW_BADLY = 4
    OFFSET_OVERFLOW_ONE = 5
    OFFSET_TOO_SMALL = 6
    NO_MATCHED_LOGIC_QUEUE = 7
    NO_MESSAGE_IN_QUEUE = 8
    COLD = 9
    """Not on the wire: the messages lie too far back to be read without waiting for the disk; use C{read_cold}."""


class Appended(NamedTuple):
    """The place of the records of one append: adjacent records of one queue, in one log file."""

    offset: int
    """Physical offset of the first record."""
    end: int
    """Physical offset after the last record."""
    queue_offset: int
    """Logical offset of the first; the others follow one by one."""
    stored_ms: int
    offsets: Sequence[int]
    """Physical offset of each record."""


class ReadLimit(NamedTuple):
    """The limits of one read; one message is always returned."""

    count: int = 32  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    size: int = 262144
    """Bytes."""


class ReadResult(NamedTuple):
    """The messages that a read found, and the offsets around them."""

    status: ReadStatus
    next_offset: int
    """Logical offset to ask for next."""
    minimum: int
    """The queue's first logical offset."""
    maximum: int
    """The queue's next logical offset to be written."""
    parts: list[memoryview]
    """
    Stored records, back to back, in offset order; runs that lie side by side are one piece. Release or write them soon.
    """
    count: int  # type: ignore[assignment]
    """How many messages C{parts} holds."""
    size: int
    """Bytes in C{parts}."""
    suggest_slave: bool
    """The last message scanned lies further behind the log's end than memory holds."""


class QueryResult(NamedTuple):
    """The result of a search by key."""

    records: list[bytes]
    """Stored records, oldest first. Of some the hash of the key alone is the one asked for."""
    last_ms: int
    """How far the index has come: store timestamp of the last message in it."""
    last_offset: int
    """Its physical offset."""


class IMessageFilter(Interface):
    """A message filter in two steps: by the queue unit, which is cheap, then by the message."""

    def by_unit(unit: Unit) -> bool:
        """Tell whether the unit's tag hash may match; true may still be wrong."""

    def by_content(properties: Mapping[str, str], body: memoryview) -> bool:
        """Tell whether the message matches; asked only where C{needs_content} is true."""

    def needs_content() -> bool:
        """Tell whether C{by_content} has to be asked at all."""

    def hashes() -> frozenset[int] | None:
        """The tag hashes that C{by_unit} lets in, C{None} where it lets in all: lets a reader test units in bulk."""


class IQueue(Interface):
    """
    A queue that a CommitLog appends to: a sequence of units that lead to records; a record may be in several queues.

    Called on the reactor thread, for each append.
    """

    topic_part = Attribute("Length and name of the topic, as they stand in a record.")

    overhead = Attribute("Bytes of a record that are neither body nor properties, with IPv4 hosts.")

    def claim(count: int) -> int:
        """
        Return the logical offset that the next message gets, after making room for the units of C{count} messages.

        Nothing is given out by this: without a L{stage} the next call returns the same offset.

        @raise smartgo.errors.ServiceNotAvailable: there is no room; nothing changed.
        """

    def stage(first: int, units: bytes, codes: Sequence[int], stored_ms: int) -> None:
        """
        Take the units of messages whose records are in the log now; they become readable after the end of the run.

        @param first: what L{claim} returned for them.
        @param units: packed, one a message; C{codes} are their third fields.
        @param stored_ms: store timestamp of the records.
        """


class IDispatcher(Interface):
    """
    A set of files that is derived from the log, and fed from it: the index, later timers, leases and light queues.

    It holds nothing that the log does not, so nobody waits for it to be durable. It is made from what recovery found,
    and takes each record at its own pace, perhaps twice after an unclean stop. Called on the reactor thread.
    """

    name = Attribute("What it is, for the log.")

    position = Attribute("Physical offset up to which the records of the log are in the files.")

    def start() -> None:
        """Begin to take records from C{position} on: the store is open. Called once."""

    def dispatch(end: int) -> None:
        """
        Take note that the records below physical offset C{end} can be read; cheap.

        Called at the end of each run that made records readable. A lower C{end} than before: a slave's records from
        there on are being repaired, and are not to be read meanwhile.
        """

    def recover(position: int) -> None:
        """Go on at a physical offset: the log, which was empty, begins there."""

    def expire(minimum: int) -> None:
        """
        Remove what leads to records below physical offset C{minimum} alone, off the reactor: the log begins there now.

        Called after log files were removed for good; a call may be missing after an unclean stop, so L{start} does the
        same for the log as it is then.
        """

    def stop() -> None:
        """Take no more records at the reactor's leisure; L{flush} may still."""

    def flush() -> Deferred[bool]:
        """
        After L{stop}: take what is missing, as far as that does not take long, and bring all to the disk.

        @return: whether the files hold all up to C{position}, and all of it is on the disk; never fails.
        """

    def close() -> None:
        """Let go of all files; after L{flush}, whether it has ended or not."""


class ILogNeed(Interface):
    """A need of old log files, which holds whatever the rules of retention say; asked on the reactor thread."""

    def release(end: int) -> bool:
        """Tell whether the log is not needed below a physical offset; if it is, begin what has to be done before."""

    def obstacle(end: int) -> str | None:
        """Return why L{release} can do nothing about the log below a physical offset; C{None}: it can, or need not."""


class IArrivalListener(Interface):
    """Is told of new messages, once a run and queue; called on the reactor thread, must not block."""

    def arrived(topic: str, queue_id: int, next_offset: int, tag_codes: Sequence[int], stored_ms: int) -> None:
        """
        Messages became readable: the queue ends at C{next_offset} now.

        @param tag_codes: the third field of the new ConsumeQueue units, oldest first.
        @param stored_ms: store timestamp of the newest.
        """


class IFlushPolicy(Interface):
    """The moment at which appended bytes may be acknowledged."""

    def durable(end: int) -> Deferred[PutStatus] | None:
        """C{None}: now. Else fires when the log is safe up to physical offset C{end}, or with what happened instead."""

    def may_wait() -> bool:
        """
        Tell whether the end of a run may wait for more to be appended.

        It may where nothing begins with it: work is under way that what was appended waits for, or nothing waits.
        """


class IMessageStore(Interface):
    """The message store, as the broker sees it. Called on the reactor thread."""

    cleaner = Attribute("Removes old files: L{FileCleaner<smartgo.store.filecleaner.FileCleaner>}.")

    backup = Attribute("Copies the store while it runs: L{StoreBackup<smartgo.store.backup.StoreBackup>}.")

    damage = Attribute("The damaged regions of the log that are known (L{smartgo.store.damage.DamageTable}).")

    index_behind = Attribute("Bytes of readable log whose keys are not in the index yet; 0 where none is kept.")

    ack_policy = Attribute("When appended messages may be acknowledged: L{IFlushPolicy}.")

    log_tail = Attribute("The end of the log (L{LogTail<smartgo.store.tails.LogTail>}), to append to while C{accepts}.")

    accepts = Attribute("Whether messages are appended: false where L{append} raises ServiceNotAvailable at once.")

    def queue_tail(topic: str, queue_id: int) -> QueueTail | None:
        """
        The end of a queue that is there (L{QueueTail<smartgo.store.tails.QueueTail>}), to append to while C{accepts}
        and until it is C{dropped}; C{None} also where its units are not what an append makes.
        """

    scrub = Attribute("Checks all of the log from time to time (L{smartgo.store.scrub.Scrub}).")

    def append(messages: Sequence[NewMessage]) -> Appended:
        """
        Append records, all or none, to one queue of one topic; not yet visible to readers until L{end_run}.

        @param messages: all of the same topic and queue id.
        @raise smartgo.errors.MessageIllegal: topic, properties, body or batch over a limit.
        @raise smartgo.errors.ServiceNotAvailable: closing, failed, disk full, or no file could be allocated.
        """

    def durable(appended: Appended) -> Deferred[PutStatus] | None:
        """C{None}: may be acknowledged now as PUT_OK. Else fires with the status; never errs."""

    def end_run() -> None:
        """After the last append of one read: dispatch to the queues, tell the listeners once. Cheap when idle."""

    def read(topic: str, queue_id: int, offset: int, limit: ReadLimit, filter: IMessageFilter | None) -> ReadResult:
        """Read messages of one queue from a logical offset; never waits for the disk, status COLD where it would."""

    def read_cold(
        topic: str, queue_id: int, offset: int, limit: ReadLimit, filter: IMessageFilter | None
    ) -> Deferred[ReadResult]:
        """The same through the reader threads."""

    def at(offset: int, size: int | None = None) -> Deferred[bytes]:
        """
        The stored record at a physical offset.

        @raise smartgo.errors.NoSuchMessage: through the Deferred: nothing readable starts there.
        """

    def bounds(topic: str, queue_id: int) -> tuple[int, int]:
        """[first, next) logical offsets of a queue; (0, 0) where there is none."""

    def offset_at(topic: str, queue_id: int, timestamp_ms: int, boundary: str | None = None) -> Deferred[int]:
        """
        The logical offset whose store time is nearest (docs/spec/store#read).

        @param boundary: C{LOWER} or C{UPPER} pick a side (5.x), C{None} the nearer neighbour.
        """

    def stored_ms(topic: str, queue_id: int, offset: int) -> Deferred[int]:
        """Store timestamp of the message at a logical offset; -1 where there is none."""

    def stored_times(places: Sequence[tuple[str, int, int]]) -> Deferred[list[int]]:
        """Store timestamps of the messages at (topic, queue id, logical offset); -1 where there is none."""

    def is_far_back(topic: str, queue_id: int, offset: int) -> bool:
        """
        Tell whether the message at this logical offset is "on disk": further behind the log's end than memory holds.
        """

    def units(topic: str, queue_id: int, offset: int, count: int) -> list[Unit]:
        """At most C{count} units of a queue from a logical offset, fewer at its end; never waits for the disk long."""

    def query(topic: str, key: str, count: int, begin_ms: int, end_ms: int) -> Deferred[QueryResult]:
        """
        Messages that may have a key, or a unique key: their hash is the same (docs/spec/search#broker).

        Where there are more than C{count} the newest are taken. What was readable before the call is found, unless the
        index is far behind. A time is exact to the second, cut off: ask from 1 s before a known one.

        @param begin_ms: store timestamps from this on, to C{end_ms}.
        """

    def flush() -> Deferred[PutStatus]:
        """Fires when all that is appended by now is durable (queues included), or with what happened instead."""

    def queues() -> Iterable[tuple[str, int]]:
        """All queues that have units, as (topic, queue id)."""

    def has_queue(topic: str, queue_id: int) -> bool:
        """Tell whether a queue has had a message, readable or not, since its topic was last deleted."""

    def last_at(topic: str, queue_id: int) -> int:
        """Physical offset of the last message of a queue; -1 where it has none."""

    def delete_topic(topic: str, since: int | None = None) -> Deferred[None]:
        """
        Drop the queues of a topic; the records stay in the log.

        @param since: of a slave: queues whose first message lies at this physical offset or behind stay, as they may be
            of a topic of the same name that the master made later. C{None}: all go.
        """

    async def deletions_saved() -> None:
        """
        Return when all deletions of topics are durable.

        @raise ServiceNotAvailable: one could not be made durable, or the store is closed.
        """

    def subscribe(listener: IArrivalListener) -> None:
        """Tell C{listener} of arrivals from now on."""

    def add_ack_policy(policy: IFlushPolicy) -> None:
        """
        Acknowledge messages only when this policy agrees, too (SYNC_MASTER); both are waited for side by side.

        Where both fall short the status of this one is told, not that of the disk (docs/spec/ha#synchronous).
        """
