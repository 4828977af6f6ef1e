"""Tests of L{smartgo.ha.transfer}."""

from __future__ import annotations

from random import Random

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.errors import BadRecord, FramingError, PeerTooSlow
from smartgo.ha.transfer import MasterEnd, SlaveEnd
from smartgo.schema.hatransfer import TRANSFER_LIMIT, report_struct, transfer_struct
from smartgo.store.replicatedlog import IReplicatedLog
from tests.ha.fakes import FakeLog
from tests.ha.pair import noise

report = report_struct.pack
head = transfer_struct.pack
EVERYTHING = 1 << 20


def pieces(stream: bytes) -> list[tuple[int, bytes]]:
    """Return physical offset and body of each message of a master's stream."""
    found = []
    at = 0
    while at < len(stream):
        offset, size = transfer_struct.unpack_from(stream, at)
        found.append((offset, stream[at + 12 : at + 12 + size]))
        at += 12 + size
    return found


class FakeLogTests(SynchronousTestCase):
    def test_interface(self) -> None:
        """The fake is a replicated log."""
        verifyObject(IReplicatedLog, FakeLog())


class MasterEndTests(SynchronousTestCase):
    """The master's end of the protocol."""

    def test_silent_before_report(self) -> None:
        """Nothing is sent, not even a heartbeat, before the slave has said where it stands."""
        end = MasterEnd(FakeLog(b"abc"), now=0.0)
        self.assertFalse(end.receive(report(0)[:7], 1.0))
        self.assertEqual((end.send(EVERYTHING, 6.0), end.heartbeat(6.0)), (b"", b""))
        self.assertEqual((end.confirmed, end.position), (-1, -1))

    def test_empty_slave(self) -> None:
        """A slave that has nothing gets the newest file from its start."""
        log = FakeLog(noise(250), file_size=100)
        end = MasterEnd(log, now=0.0)
        self.assertTrue(end.receive(report(0), 0.0))
        self.assertEqual(pieces(end.send(EVERYTHING, 0.0)), [(200, bytes(log.data[200:]))])
        self.assertEqual(end.confirmed, 0)

    def test_start(self) -> None:
        """Any other report is where the master goes on."""
        log = FakeLog(b"0123456789", begin=100)
        for start in range(100, 111):
            end = MasterEnd(log, now=0.0)
            end.receive(report(start), 0.0)
            self.assertEqual(b"".join(body for _, body in pieces(end.send(EVERYTHING, 0.0))), log.data[start - 100 :])
            self.assertEqual((end.confirmed, end.position), (start, 110))

    def test_start_outside(self) -> None:
        """A first report before or after our log ends the connection, and says what was asked for."""
        for wrong in (99, 111, -1, 1 << 62):
            end = MasterEnd(FakeLog(b"0123456789", begin=100), now=0.0)
            error = self.assertRaises(FramingError, end.receive, report(wrong), 0.0)
            self.assertIn(f"from {wrong} on", str(error))
            self.assertIn("from 100 to 110", str(error))

    def test_every_cut(self) -> None:
        """However reports are cut, the newest whole one counts."""
        stream = b"".join(map(report, (10, 20, 20, 30)))
        for cut in range(len(stream) + 1):
            end = MasterEnd(FakeLog(bytes(40)), now=0.0)
            end.receive(report(10), 0.0)
            end.send(EVERYTHING, 0.0)
            end.receive(stream[:cut], 0.0)
            self.assertEqual(end.confirmed, [10, 10, 20, 20, 30][cut // 8])
            end.receive(stream[cut:], 0.0)
            self.assertEqual(end.confirmed, 30)

    def test_never_back(self) -> None:
        """What a slave has confirmed it does not lose by a smaller report."""
        end = MasterEnd(FakeLog(bytes(40)), now=0.0)
        end.receive(report(30), 0.0)
        end.receive(report(20), 0.0)
        self.assertEqual(end.confirmed, 30)

    def test_too_far(self) -> None:
        """A report of more than was sent, or of a negative offset, ends the connection."""
        for wrong in (21, 41, -1):
            end = MasterEnd(FakeLog(bytes(40)), now=0.0)
            end.receive(report(10), 0.0)
            end.send(10, 0.0)
            end.receive(report(20), 0.0)
            error = self.assertRaises(FramingError, end.receive, report(wrong), 0.0)
            self.assertIn(str(wrong), str(error))
            self.assertEqual(end.confirmed, 20)

    def test_pieces(self) -> None:
        """Pieces are no longer than the batch, never cross the end of a file, and follow one another."""
        log = FakeLog(noise(1000), file_size=100)
        end = MasterEnd(log, now=0.0, batch=32)
        end.receive(report(7), 0.0)
        sent = pieces(end.send(EVERYTHING, 0.0))
        self.assertEqual(b"".join(body for _, body in sent), log.data[7:])
        position = 7
        for offset, body in sent:
            self.assertEqual(offset, position)
            self.assertLessEqual(len(body), 32)
            self.assertEqual(offset // 100, (offset + len(body) - 1) // 100)
            position += len(body)

    def test_budget(self) -> None:
        """No more of the log is sent at once than was asked for, and the next call goes on."""
        log = FakeLog(noise(1000))
        end = MasterEnd(log, now=0.0, batch=32)
        end.receive(report(1), 0.0)
        got = b""
        while part := end.send(50, 0.0):
            bodies = b"".join(body for _, body in pieces(part))
            self.assertLessEqual(len(bodies), 50)
            got += bodies
        self.assertEqual(got, log.data[1:])

    def test_cold(self) -> None:
        """What has to be read is waited for, then sent in pieces of the same length, and what follows after it."""
        log = FakeLog(noise(300), file_size=100)
        log.cold_below = 150
        end = MasterEnd(log, now=0.0, batch=32)
        end.receive(report(20), 0.0)
        got = b""
        while end.position < 300:
            got += end.send(EVERYTHING, 0.0)
            if end.cold:
                self.assertEqual(end.send(EVERYTHING, 0.0), b"")
                got += end.send_cold(self.successResultOf(log.piece_cold(end.position, 80)), 0.0)
        self.assertEqual(b"".join(body for _, body in pieces(got)), log.data[20:])
        self.assertLessEqual(max(len(body) for _, body in pieces(got)), 32)

    def test_removed(self) -> None:
        """A slave whose place in the log was removed is let go, with the reason."""
        log = FakeLog(noise(300), file_size=100)
        end = MasterEnd(log, now=0.0)
        end.receive(report(20), 0.0)
        log.forget(100)
        self.assertIn("before 100 is gone", str(self.assertRaises(FramingError, end.send, EVERYTHING, 0.0)))

    def test_heartbeat(self) -> None:
        """After 5 s in which nothing was sent there is a heartbeat with the next position, and one to begin with."""
        log = FakeLog(b"abc", begin=100)
        end = MasterEnd(log, now=0.0)
        end.receive(report(100), 0.0)
        self.assertEqual(end.heartbeat(0.0), head(100, 0))  # at once: the slave was heard
        self.assertEqual(end.heartbeat(0.0), b"")
        end.send(EVERYTHING, 10.0)
        self.assertEqual(end.due, 15.0)
        self.assertEqual(end.heartbeat(14.9), b"")
        self.assertEqual(end.heartbeat(15.0), head(103, 0))
        self.assertEqual(end.heartbeat(16.0), b"")

    def test_housekeeping(self) -> None:
        """A slave that says nothing for 20 s is given up; half a report is something."""
        end = MasterEnd(FakeLog(), now=0.0)
        end.check(19.9)
        self.assertRaises(PeerTooSlow, end.check, 20.0)
        end.receive(b"\0", 20.0)
        end.check(39.9)
        self.assertRaises(PeerTooSlow, end.check, 40.0)


class SlaveEndTests(SynchronousTestCase):
    """The slave's end of the protocol."""

    def test_first_report(self) -> None:
        """A slave says at once where it stands: 0 with no log, else its end."""
        self.assertEqual(SlaveEnd(FakeLog(), now=0.0).begin(0.0), report(0))
        self.assertEqual(SlaveEnd(FakeLog(b"abc", begin=100), now=0.0).begin(0.0), report(103))

    def test_every_cut(self) -> None:
        """However a stream is cut, the log is the same, and a report after each part never says more than there is."""
        bodies = [noise(n, seed=n) for n in (1, 40, 0, 13, 0)]
        stream = b""
        at = 103
        for body in bodies:
            stream += head(at, len(body)) + body
            at += len(body)
        for first in range(len(stream) + 1):
            for second in range(first, len(stream) + 1, 7):
                log = FakeLog(b"abc", begin=100)
                end = SlaveEnd(log, now=0.0)
                end.begin(0.0)
                last = end.reported
                for part in (stream[:first], stream[first:second], stream[second:]):
                    end.receive(part, 0.0)
                    told = end.report(0.0)
                    self.assertEqual(told, report(log.end) if log.end > last else b"")
                    last = max(last, log.end)
                self.assertEqual(log.data, b"abc" + b"".join(bodies))

    def test_appends(self) -> None:
        """What comes in one chunk is appended by the piece, not by less, and reported once."""
        log = FakeLog(b"abc")
        end = SlaveEnd(log, now=0.0)
        end.begin(0.0)
        end.receive(head(3, 5) + b"12345" + head(8, 2) + b"67" + head(10, 9) + b"8", 0.0)
        self.assertEqual(log.appended, [(3, 5), (8, 2), (10, 1)])
        self.assertEqual(end.report(0.0), report(11))
        self.assertEqual(end.report(0.0), b"")
        self.assertEqual(end.master_end, 19)

    def test_empty_begins_anywhere(self) -> None:
        """A slave with no log takes the first piece wherever it begins; heartbeats before it change nothing."""
        log = FakeLog()
        end = SlaveEnd(log, now=0.0)
        end.begin(0.0)
        end.receive(head(700, 0), 0.0)
        self.assertEqual((end.report(0.0), end.end, end.master_end), (b"", 0, 700))
        end.receive(head(700, 2), 0.0)
        self.assertEqual(end.report(0.0), b"")  # not a byte of it is here
        end.receive(b"ab", 0.0)
        self.assertEqual((log.begin, end.report(0.0)), (700, report(702)))

    def test_wrong_place(self) -> None:
        """A piece, or a heartbeat, that is not for the end of our log ends the connection; nothing is appended."""
        for start, wrong in ((103, 102), (103, 104), (103, 0), (0, -1)):
            for size in (0, 5):
                log = FakeLog(b"abc" if start else b"", begin=start and 100)
                end = SlaveEnd(log, now=0.0)
                self.assertRaises(FramingError, end.receive, head(wrong, size) + bytes(size), 0.0)
                self.assertEqual(log.appended, [])

    def test_wrong_size(self) -> None:
        """A piece of more than 4 MiB or less than nothing ends the connection before a byte of it is waited for."""
        for wrong in (TRANSFER_LIMIT + 1, (1 << 31) - 1, -1, -(1 << 31)):
            end = SlaveEnd(FakeLog(), now=0.0)
            self.assertIn(str(wrong), str(self.assertRaises(FramingError, end.receive, head(0, wrong), 0.0)))
        SlaveEnd(FakeLog(), now=0.0).receive(head(0, TRANSFER_LIMIT), 0.0)

    def test_refused(self) -> None:
        """What the log refuses is not reported."""
        log = FakeLog(b"abc")
        end = SlaveEnd(log, now=0.0)
        end.begin(0.0)
        log.refusal = BadRecord("torn")
        self.assertRaises(BadRecord, end.receive, head(3, 2) + b"ab", 0.0)
        self.assertEqual((end.end, end.report(0.0)), (3, b""))

    def test_flushed(self) -> None:
        """With acknowledgements after the flush no report says more than is flushed, nor less than the one before."""
        log = FakeLog(b"abc")
        end = SlaveEnd(log, now=0.0, ack_flushed=True)
        end.begin(0.0)
        end.receive(head(3, 2) + b"12", 0.0)
        self.assertEqual((end.report(0.0), end.check(5.0)), (b"", report(3)))
        log.flush()
        end.receive(head(5, 2) + b"34", 6.0)
        self.assertEqual(end.report(6.0), report(5))
        log.flushed = 4
        self.assertEqual((end.report(6.0), end.check(11.0)), (b"", report(5)))

    def test_heartbeat(self) -> None:
        """Every 5 s without a report the last one is said again."""
        end = SlaveEnd(FakeLog(b"abc"), now=0.0)
        end.begin(1.0)
        self.assertEqual((end.due, end.check(5.9), end.check(6.0), end.check(7.0)), (6.0, b"", report(3), b""))
        end.receive(head(3, 1) + b"1", 10.0)
        end.report(10.0)
        self.assertEqual((end.check(14.9), end.check(15.0)), (b"", report(4)))

    def test_silent_master(self) -> None:
        """A master that says nothing for 20 s is given up; half a head is something."""
        end = SlaveEnd(FakeLog(), now=0.0)
        end.begin(0.0)
        end.check(19.9)
        self.assertRaises(PeerTooSlow, end.check, 20.0)
        end.receive(b"\0", 20.0)
        end.check(39.9)


class BothEndsTests(SynchronousTestCase):
    """A master and a slave, with a wire between them that cuts and joins as it likes."""

    def follow(self, seed: int) -> None:
        """Let a slave follow a master that is written to, over one connection after another."""
        random = Random(seed)
        master = FakeLog(noise(random.randrange(3000), seed), file_size=random.choice([64, 1000]))
        slave = FakeLog()
        if master.data and random.random() < 0.5:
            slave.begin = random.randrange(max(1, master.end // 2))
            slave.data[:] = master.data[slave.begin : random.randrange(slave.begin + 1, master.end + 1)]
            slave.flushed = slave.end
        flushed = random.random() < 0.5
        for _ in range(3):
            there = MasterEnd(master, now=0.0, batch=random.randrange(1, 100))
            here = SlaveEnd(slave, now=0.0, ack_flushed=flushed)
            up, down = here.begin(0.0), b""
            for step in range(200):
                now = step * 1.0
                action = random.randrange(6)
                if action == 0:
                    master.append(noise(random.randrange(60), seed + step))
                    master.cold_below = random.randrange(master.end + 1)
                elif action == 1:
                    cut = random.randrange(len(up) + 1)
                    there.receive(up[:cut], now)
                    up = up[cut:]
                elif action == 2:
                    cut = random.randrange(len(down) + 1)
                    here.receive(down[:cut], now)
                    down = down[cut:]
                    up += here.report(now)
                elif action == 3:
                    down += there.send(random.randrange(200), now)
                elif action == 4:
                    slave.flush()
                    up += here.report(now) + here.check(here.due - 0.1)
                elif there.cold:
                    down += there.send_cold(self.successResultOf(master.piece_cold(there.position, 300)), now)
                else:
                    down += there.heartbeat(now)
                self.assertLessEqual(there.confirmed, slave.flushed if flushed else slave.end)
            slave.flush()  # before the next connection
        master.cold_below = 0
        there.receive(up + here.report(0.0), 0.0)
        if there.cold:
            down += there.send_cold(self.successResultOf(master.piece_cold(there.position, 300)), 0.0)
        here.receive(down + there.send(EVERYTHING, 0.0), 0.0)
        slave.flush()
        there.receive(here.report(0.0), 0.0)
        self.assertEqual(there.confirmed, master.end)
        self.assertEqual(slave.data, master.data[slave.begin :])

    def test_random(self) -> None:
        """Whatever the wire does, the slave's log becomes the master's, and the master believes no more than is so."""
        for seed in range(150):
            self.follow(seed)

    def test_every_cut_both_ways(self) -> None:
        """A connection lost after any byte, in either direction, is made up by the next."""
        body = noise(90)
        full = sum(len(body[n : n + 32]) + 12 for n in range(0, 90, 32))
        for cut in range(full + 1):
            for heard in range(9):
                master, slave = FakeLog(body), FakeLog(body[:5])
                there, here = MasterEnd(master, 0.0, batch=32), SlaveEnd(slave, 0.0)
                there.receive(here.begin(0.0), 0.0)
                here.receive(there.send(EVERYTHING, 0.0)[:cut], 0.0)
                there.receive(here.report(0.0)[:heard], 0.0)
                self.assertEqual(there.confirmed, slave.end if heard == 8 and cut > 12 else 5)
                self.assertEqual(slave.data, body[: slave.end])
                there, here = MasterEnd(master, 0.0, batch=32), SlaveEnd(slave, 0.0)
                there.receive(here.begin(0.0), 0.0)
                here.receive(there.send(EVERYTHING, 0.0), 0.0)
                self.assertEqual(slave.data, body)


class RubbishTests(SynchronousTestCase):
    """Bytes from elsewhere than the other end."""

    def test_master(self) -> None:
        """Whatever a slave says, a master goes on or ends the connection, and sends nothing but its log."""
        for seed in range(300):
            random = Random(seed)
            log = FakeLog(noise(500), begin=random.choice([0, 300]), file_size=100)
            end = MasterEnd(log, now=0.0, batch=64)
            try:
                for _ in range(20):
                    words = [random.choice([-1, 0, 301, 500, 801, 1 << 40, -(1 << 63)]) for _ in range(2)]
                    end.receive(b"".join(map(report, words))[random.randrange(16) :], 0.0)
                    for offset, body in pieces(end.send(random.randrange(300), 0.0)):
                        self.assertEqual(body, log.data[offset - log.begin :][: len(body)])
            except FramingError:
                pass
            self.assertLessEqual(end.confirmed, log.end)

    def test_slave(self) -> None:
        """Whatever a master says, a slave goes on or ends the connection, and appends at its end alone."""
        for seed in range(300):
            random = Random(seed)
            log = FakeLog(noise(500) if random.random() < 0.5 else b"")
            end = SlaveEnd(log, now=0.0)
            try:
                for _ in range(20):
                    offset = random.choice([end.end, end.end, end.end, 0, 501, -1, 1 << 62])
                    size = random.choice([0, 1, 70, 70, TRANSFER_LIMIT + 1, -1])
                    end.receive(head(offset, size) + random.randbytes(random.randrange(80)), 0.0)
                    end.report(0.0)
            except FramingError:
                pass
            for (offset, size), (following, _) in zip(log.appended, log.appended[1:], strict=False):
                self.assertEqual(offset + size, following)
            self.assertLessEqual(end.reported, log.end)
