"""A log in memory, as replication sees one."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from zope.interface import implementer

from smartgo.errors import MessagesKept, NoSuchMessage, NotConnected, OutOfPlace
from smartgo.ha.interfaces import IMasterTail, Tail
from smartgo.net.ratelimitedlog import RateLimitedLog
from smartgo.store.replicatedlog import FoundDamage, IReplicatedLog


@implementer(IReplicatedLog)
class FakeLog:
    """
    Bytes in files of a fixed size.

    @ivar begin: physical offset of the first byte.
    @ivar data: what there is from there on.
    @ivar cold_below: what lies below this physical offset has to be read from the disk.
    @ivar held: cold reads that wait for L{release}; C{None} for none that waits.
    @ivar flushed: moved by L{flush} alone.
    @ivar doubt: physical offset from which on it is in doubt; C{None} for nothing.
    @ivar repaired: what was put in place of torn records.
    @ivar kept: why it does not begin anew unless that is wanted; empty: it does.
    @ivar appended: (offset, size) of each raw append.
    @ivar refusal: raised by the next raw append.
    @ivar damaged: offset and length of each damaged region; C{expected}: begin and end of those of its master.
    """

    def __init__(self, data: bytes = b"", begin: int = 0, file_size: int = 1 << 20) -> None:
        self.begin = begin
        self.data = bytearray(data)
        self.file_size = file_size
        self.cold_below = 0
        self.held: list[tuple[Deferred[bytes], bytes]] | None = None
        self.flushed = begin + len(data)
        self.doubt: int | None = None
        self.repaired: dict[int, bytes] = {}
        self.kept = ""
        self.marked_from = 0
        self.appended: list[tuple[int, int]] = []
        self.refusal: Exception | None = None
        self.damaged: list[tuple[int, int]] = []
        self.expected: list[tuple[int, int]] = []
        self._listeners: list[Callable[[int], None]] = []
        self._flush_listeners: list[Callable[[int], None]] = []

    # -- for tests ---------------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """Physical offset after the last byte."""
        return self.begin + len(self.data)

    def append(self, data: bytes) -> None:
        """Append as a master does."""
        self.data += data
        for listener in self._listeners:
            listener(self.end)

    def flush(self) -> None:
        """All is durable now."""
        self.flushed = self.end
        for listener in self._flush_listeners:
            listener(self.flushed)

    def forget(self, begin: int) -> None:
        """Remove what lies before a physical offset."""
        del self.data[: begin - self.begin]
        self.begin = begin

    def release(self) -> None:
        """Let cold reads be done."""
        held, self.held = self.held or [], []
        for told, data in held:
            told.callback(data)

    # -- IReplicatedLog ----------------------------------------------------------------------------------------

    def log_bounds(self) -> tuple[int, int]:
        """As set."""
        return self.begin, self.end

    def last_file(self) -> int:
        """The start of the file of the last byte."""
        return max(self.begin, self.end - self.end % self.file_size)

    def _slice(self, offset: int, limit: int) -> bytes:
        if not self.begin <= offset < self.end:
            raise NoSuchMessage(f"{offset} is not in {self.begin} to {self.end}")
        limit = min(limit, self.file_size - offset % self.file_size)
        return bytes(self.data[offset - self.begin : offset - self.begin + limit])

    def piece(self, offset: int, limit: int) -> memoryview | None:
        """Part of a file."""
        piece = self._slice(offset, limit)
        return None if offset < self.cold_below else memoryview(piece)

    def piece_cold(self, offset: int, limit: int) -> Deferred[bytes]:
        """Part of a file, at once or when told."""
        try:
            piece = self._slice(offset, limit)
        except NoSuchMessage:
            return fail()
        if self.held is None:
            return succeed(piece)
        told: Deferred[bytes] = Deferred()
        self.held.append((told, piece))
        return told

    def crc(self, begin: int, end: int) -> Deferred[int]:
        """CRC-32."""
        if not self.begin <= begin <= end <= self.end:
            return fail(NoSuchMessage(f"{begin} to {end}"))
        return succeed(zlib.crc32(self.data[begin - self.begin : end - self.begin]))

    def begin_anew(self, offset: int, wanted: bool = False) -> Deferred[None]:
        """At once, or C{kept}."""
        if self.kept and not wanted:
            return fail(MessagesKept(self.kept))
        self.data.clear()
        self.begin = self.flushed = offset
        return succeed(None)

    def learn_marks(self, marked_from: int) -> Deferred[None]:
        """Remember it."""
        self.marked_from = marked_from
        return succeed(None)

    def expect_damage(self, offset: int, end: int) -> None:
        """Remember it."""
        self.expected.append((offset, end))

    def drop_torn(self) -> int:
        """All of it is whole."""
        return self.end

    def find_damage(self, begin: int, end: int) -> Deferred[list[FoundDamage]]:
        """As set."""
        return succeed([FoundDamage(*one) for one in self.damaged if one[0] < end and begin < one[0] + one[1]])

    @property
    def doubtful_from(self) -> int:
        """As set."""
        return self.end if self.doubt is None else self.doubt

    def stored(self, offset: int, size: int) -> memoryview:
        """Bytes of it."""
        return memoryview(bytes(self.data))[offset - self.begin : offset - self.begin + size]

    def believe(self) -> None:
        """Nothing is in doubt."""
        self.doubt = None

    def repair(self, records: Mapping[int, bytes]) -> Deferred[None]:
        """Put them in place."""
        self.repaired.update(records)
        for offset, record in records.items():
            self.data[offset - self.begin : offset - self.begin + len(record)] = record
        self.believe()
        return succeed(None)

    def follow(self, listener: Callable[[int], None]) -> None:
        """Remember it."""
        self._listeners.append(listener)

    def follow_flushes(self, listener: Callable[[int], None]) -> None:
        """Remember it."""
        self._flush_listeners.append(listener)

    def append_raw(self, offset: int, data: bytes | memoryview) -> None:
        """Append as a slave does."""
        if self.refusal is not None:
            refusal, self.refusal = self.refusal, None
            raise refusal
        if self.data and offset != self.end:
            raise OutOfPlace(f"{offset} is not {self.end}")
        if not self.data:
            self.begin = offset
        self.appended.append((offset, len(data)))
        self.append(bytes(data))


@implementer(IMasterTail)
class FakeTail:
    """
    Asks logs in memory.

    @ivar logs: main address -> log; C{None} for a RocketMQ; an address that is not here cannot be reached.
    @ivar asked: (master, begin, end) of each question.
    @ivar give: makes the word of a ticket for who is about to follow; C{None} for none.
    """

    def __init__(self, logs: dict[str, IReplicatedLog | None]) -> None:
        self.logs = logs
        self.asked: list[tuple[str, int, int]] = []
        self.give: Callable[[], bytes] | None = None

    def ask(
        self, master: str, begin: int, end: int, follow: bool = False, read: bool = False, check: bool = False
    ) -> Deferred[Tail | None]:
        """Answer at once."""
        self.asked.append((master, begin, end))
        if master not in self.logs:
            return fail(NotConnected(f"cannot connect to {master}"))
        log = self.logs[master]
        if log is None:
            return succeed(None)
        minimum, last = log.log_bounds()

        found: list[FoundDamage] = []

        def tell(crc: int | None) -> Tail:
            data = bytes(log.stored(begin, end - begin)) if read and crc is not None else b""
            damaged: tuple[FoundDamage, ...] = ()
            if check:
                log.find_damage(begin, end).addCallback(found.extend)
                damaged = tuple(found)
            return Tail(minimum, last, crc, self.give() if follow and self.give is not None else b"", data, damaged)

        if not minimum <= begin < end <= last:
            return succeed(tell(None))
        return log.crc(begin, end).addCallback(tell)


class Said(RateLimitedLog):
    """Sentences about peers, kept."""

    def __init__(self) -> None:
        super().__init__(Clock())
        self.sentences: list[str] = []

    def warn(self, ip: str, sentence: str, **fields: object) -> None:
        """Keep it, filled in."""
        self.sentences.append(sentence.format(**fields))
