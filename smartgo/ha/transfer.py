"""
The two ends of the replication protocol, as pure logic; no socket, no clock.

A slave reports how far its log goes; a master sends what comes after it, in pieces, and heartbeats while there is
nothing. The messages are those of L{smartgo.schema.hatransfer}, the rules those of docs/spec/ha#wire and of
reliability H1 and H2. Times are seconds of any clock that is never set. When a method raises, the connection is over:
L{PeerTooSlow} for silence, other kinds of L{FramingError} for what cannot be true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smartgo.errors import FramingError, NoSuchMessage, PeerTooSlow
from smartgo.ha.doubt import Doubt
from smartgo.schema.hatransfer import (
    TICKET_MARK,
    TICKET_SIZE,
    TRANSFER_BATCH,
    TRANSFER_HEAD_SIZE,
    TRANSFER_LIMIT,
    last_report,
    report_struct,
    ticket_struct,
    transfer_struct,
)
from smartgo.store.replicatedlog import IReplicatedLog

HEARTBEAT: Final = 5.0
"""Seconds without a word of ours before a heartbeat (C{haSendHeartbeatInterval})."""
HOUSEKEEPING: Final = 20.0
"""Seconds without a word of the other end's before the connection is ended (C{haHousekeepingInterval})."""

_NEGATIVE: Final = 0x80  # first byte of a number below 0, big-endian


class MasterEnd:
    """
    The master's end of one connection.

    @ivar confirmed: physical offset up to which the slave says it has the log; -1 before its first report.
    @ivar begun_empty: its first report said that it has nothing.
    @ivar position: physical offset of what is sent next; -1 before the first report.
    @ivar cold: what is sent next has to be read from the disk: L{send} waits for L{send_cold}.
    """

    def __init__(
        self,
        log: IReplicatedLog,
        now: float,
        batch: int = TRANSFER_BATCH,
        heartbeat: float = HEARTBEAT,
        housekeeping: float = HOUSEKEEPING,
        admits: Callable[[bytes], bool] | None = None,
    ) -> None:
        """
        @param batch: the longest piece, in bytes.
        @param admits: whether a ticket with this word is good; C{None}: none is asked for, and one is no report.
        """
        self._log = log
        self._batch = batch
        self._heartbeat = heartbeat
        self._housekeeping = housekeeping
        self._heard_at = now
        self._wrote_at = now
        self._admits = admits
        self._pending = b""  # the beginning of a ticket or a report
        self.confirmed = -1
        self.begun_empty = False
        self.position = -1
        self.cold = False

    # -- in ------------------------------------------------------------------------------------------------------

    @property
    def admitted(self) -> bool:
        """Tell whether the slave may be sent the log: it has shown its ticket, or needs none."""
        return self._admits is None

    def receive(self, data: bytes, now: float) -> bool:
        """
        Read bytes, cut anywhere; return whether they completed a report. The newest counts.

        @raise FramingError: the first asks for what our log does not have, or a later one is for what was not sent; or
            what should be a ticket is none.
        """
        self._heard_at = now
        if self._pending:
            data = self._pending + data
        if self._admits is not None:
            self._pending = data
            if not _shows_ticket(data, self._admits):
                return False
            self._admits = None
            data = data[TICKET_SIZE:]
        report, used = last_report(data)
        self._pending = data[used:]
        if report is None:
            return False
        if self.position < 0:
            self.position = self._start(report)
            self.begun_empty = not report
            self._wrote_at = now - self._heartbeat  # RocketMQ's begins with one, too
        elif not 0 <= report <= self.position:
            raise FramingError(f"reports {report}, but was sent the log only up to {self.position}")
        self.confirmed = max(self.confirmed, report)
        return True

    def _start(self, report: int) -> int:
        """Return where the stream begins; an empty slave gets the newest file alone, so that it is soon of use."""
        minimum, end = self._log.log_bounds()
        start = report or self._log.last_file()
        if not minimum <= start <= end:
            raise FramingError(f"asks for the log from {start} on, but the log is from {minimum} to {end}")
        return start

    # -- out -----------------------------------------------------------------------------------------------------

    def send(self, budget: int, now: float) -> bytes:
        """
        Return what is to be sent next, C{budget} bytes of the log at most; nothing where there is nothing, or C{cold}.

        @raise FramingError: the log has lost its oldest file, and the slave had not come so far.
        """
        if self.position < 0 or self.cold:
            return b""
        end = self._log.log_bounds()[1]
        parts: list[bytes | memoryview] = []
        position = self.position
        try:
            while position < end and budget > 0:
                piece = self._log.piece(position, min(self._batch, budget))
                if piece is None:
                    self.cold = True
                    break
                parts += (transfer_struct.pack(position, len(piece)), piece)
                position += len(piece)
                budget -= len(piece)
            data = b"".join(parts)
        except NoSuchMessage:
            raise self._removed() from None
        finally:
            for part in parts:
                if isinstance(part, memoryview):
                    part.release()  # else it keeps the file mapped
        if data:
            self.position = position
            self._wrote_at = now
        return data

    def send_cold(self, read: bytes, now: float) -> bytes:
        """Return what is to be sent next, given the log from C{position} on as it was read from the disk."""
        self.cold = False
        parts: list[bytes] = []
        for at in range(0, len(read), self._batch):
            piece = read[at : at + self._batch]
            parts += (transfer_struct.pack(self.position, len(piece)), piece)
            self.position += len(piece)
        self._wrote_at = now
        return b"".join(parts)

    def _removed(self) -> FramingError:
        return FramingError(f"is at {self.position}, and the log before {self._log.log_bounds()[0]} is gone")

    @property
    def more(self) -> bool:
        """Tell whether there is something to send."""
        return 0 <= self.position < self._log.log_bounds()[1]

    # -- time ----------------------------------------------------------------------------------------------------

    @property
    def due(self) -> float:
        """The earliest time at which L{check} and L{heartbeat} are due."""
        return min(self._heard_at + self._housekeeping, self._wrote_at + self._heartbeat)

    def check(self, now: float) -> None:
        """
        Check that the slave is alive.

        @raise PeerTooSlow: it has said nothing for too long.
        """
        if now - self._heard_at >= self._housekeeping:
            raise PeerTooSlow(f"has said nothing for {now - self._heard_at:.0f} s")

    def heartbeat(self, now: float) -> bytes:
        """
        Return a heartbeat where nothing was sent for long, else nothing.

        It is worth asking right after the first report, too, before the first piece is sent.
        """
        if now - self._wrote_at < self._heartbeat:
            return b""
        self._wrote_at = now
        return b"" if self.position < 0 else transfer_struct.pack(self.position, 0)


def _shows_ticket(data: bytes, admits: Callable[[bytes], bool]) -> bool:
    """
    Tell whether a ticket is whole.

    @raise FramingError: it is none, or not good.
    """
    if data and data[0] < _NEGATIVE:
        raise FramingError("shows no ticket (RocketMQ slaves never do), but this master has a haAccessKey")
    if len(data) < TICKET_SIZE:
        return False
    mark, word = ticket_struct.unpack_from(data)
    if mark != TICKET_MARK or not admits(word):
        raise FramingError("shows a ticket that is not ours, is used up, or is too old")
    return True


class SlaveEnd:
    """
    The slave's end of one connection.

    Where part of our log is in doubt, it is compared first (L{smartgo.ha.doubt}); what is compared counts as received.

    @ivar end: physical offset after the last byte that was appended to our log, or is known to be as the master's.
    @ivar doubt: what is being compared; C{None} where nothing is, or all was.
    @ivar reported: what the master was told last; -1 for nothing.
    @ivar master_end: how far the master's log goes at least, as heard here.
    """

    def __init__(
        self,
        log: IReplicatedLog,
        now: float,
        ack_flushed: bool = False,
        heartbeat: float = HEARTBEAT,
        housekeeping: float = HOUSEKEEPING,
        ticket: bytes = b"",
        oldest: int = 0,
    ) -> None:
        """
        @param oldest: physical offset of the first byte of the master's log, as far as known.
        @param ticket: the word of the ticket to show; empty for none.
        @param ack_flushed: report what is flushed, not what is appended. As the first report says where we go on, all
            of the log is flushed already when the connection begins.
        """
        self._log = log
        self._ack_flushed = ack_flushed
        self._heartbeat = heartbeat
        self._housekeeping = housekeeping
        self._heard_at = now
        self._spoke_at = now
        self._ticket = ticket_struct.pack(TICKET_MARK, ticket) if ticket else b""
        self._head = b""  # the beginning of a head
        self._place = 0  # physical offset of the next byte of the piece
        self._missing = 0  # bytes of it that have not come yet
        self.doubt: Doubt | None = Doubt(log, max(log.doubtful_from, oldest))
        self.end: int = self.doubt.position
        if self.doubt.done:
            self.doubt = None
        self.reported = -1
        self.master_end = 0

    # -- in ------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes, now: float) -> None:
        """
        Append what came to our log, as it came, cut anywhere. L{report} is due afterwards.

        @raise FramingError: a piece that does not begin where our log ends, or of an impossible length.
        @raise smartgo.errors.SmartgoError: as L{IReplicatedLog.append_raw} and L{Doubt.take} do.
        """
        self._heard_at = now
        view = memoryview(data)
        at = 0
        while at < len(data):
            if self._missing:
                part = view[at : at + self._missing]
                if self.doubt is None:
                    self._log.append_raw(self._place, part)
                else:
                    part = self._compare(self.doubt, part)
                self._place += len(part)
                self._missing -= len(part)
                self.end = self._place
                at += len(part)
                continue
            wanted = TRANSFER_HEAD_SIZE - len(self._head)
            head = self._head + view[at : at + wanted]
            at += wanted
            if len(head) < TRANSFER_HEAD_SIZE:
                self._head = head
            else:
                self._head = b""
                self._begin_piece(*transfer_struct.unpack(head))

    def _compare(self, doubt: Doubt, part: memoryview) -> memoryview:
        """Compare what of C{part} our log should have, and return that."""
        part = part[: doubt.take(part)]
        if doubt.done:
            self._log.believe()
            self.doubt = None
        return part

    def _begin_piece(self, offset: int, size: int) -> None:
        if offset < 0 or (offset != self.end and self.end):  # one that has nothing may begin anywhere
            raise FramingError(f"sends the log from {offset} on, but ours ends at {self.end}")
        if not 0 <= size <= TRANSFER_LIMIT:
            raise FramingError(f"announces a piece of {size} B; the limit is {TRANSFER_LIMIT} B")
        self._place = offset
        self._missing = size
        self.master_end = max(self.master_end, offset + size)

    # -- out -----------------------------------------------------------------------------------------------------

    def begin(self, now: float) -> bytes:
        """Return the first report, which asks for what comes after our log, behind the ticket."""
        self.reported = self.end
        self._spoke_at = now
        return self._ticket + report_struct.pack(self.end)

    def report(self, now: float) -> bytes:
        """Return a report where there is more to tell than before, else nothing."""
        reached = min(self._log.flushed, self.end) if self._ack_flushed else self.end
        if reached <= self.reported:
            return b""
        self.reported = reached
        self._spoke_at = now
        return report_struct.pack(reached)

    # -- time ----------------------------------------------------------------------------------------------------

    @property
    def due(self) -> float:
        """The earliest time at which L{check} is due."""
        return min(self._heard_at + self._housekeeping, self._spoke_at + self._heartbeat)

    def check(self, now: float) -> bytes:
        """
        Return the last report once more where none was sent for long, else nothing.

        @raise PeerTooSlow: the master has said nothing for too long.
        """
        if now - self._heard_at >= self._housekeeping:
            raise PeerTooSlow(f"has said nothing for {now - self._heard_at:.0f} s")
        if now - self._spoke_at < self._heartbeat:
            return b""
        self._spoke_at = now
        return report_struct.pack(self.reported)
