"""Tests of L{smartgo.ha.slave} and L{smartgo.ha.compare}."""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred, fail, maybeDeferred, succeed
from twisted.internet.error import ConnectingCancelledError
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import LogLevel, capturedLogs
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from smartgo.errors import BadRecord, PeerRefused, ServiceNotAvailable
from smartgo.ha.interfaces import IFollowing, IMasterTail, SlaveState, Tail
from smartgo.ha.slave import Slave
from smartgo.schema.codes import ResponseCode
from smartgo.schema.hatransfer import TAIL_LIMIT, last_report, report_struct, transfer_struct
from smartgo.store.replicatedlog import FoundDamage
from tests.ha.fakes import FakeLog
from tests.ha.pair import HERE, MAIN, PORT, PairCase, noise

head = transfer_struct.pack


class Peer(Protocol):
    """A master's end that says what the test says."""

    transport: Any
    heard = b""

    def dataReceived(self, data: bytes) -> None:
        """Keep reports."""
        self.heard += data


class Ending(Deferred[Any]):
    """An attempt to connect that ends with an error when it is cancelled."""

    def __init__(self, error: Exception, *dialled: object) -> None:
        super().__init__(lambda attempt: attempt.errback(error))


class SlaveCase(PairCase):
    """With a listening port whose connections are the test's."""

    def listen(self) -> list[Peer]:
        """Take connections at L{HERE}; return the list they are put into."""
        peers: list[Peer] = []

        class Taking(Factory):
            noisy = False

            def buildProtocol(self, addr: Any) -> Peer:
                peers.append(Peer())
                return peers[-1]

        port = self.successResultOf(self.env.network.listen(f"tcp:{PORT}", Taking()))
        self.addCleanup(port.stopListening)
        self.port = port
        return peers

    def tearDown(self) -> None:
        """The port goes first."""
        if hasattr(self, "port"):
            self.port.stopListening()
        super().tearDown()


class FollowingTests(SlaveCase):
    """A slave of a master of ours."""

    def test_interface(self) -> None:
        """A slave is what the broker knows it by."""
        verifyObject(IFollowing, self.make_slave())
        verifyObject(IMasterTail, self.tail)

    def test_follows(self) -> None:
        """An empty slave gets the newest file, then all that is written, and the master hears of it."""
        master = self.make_master()
        slave = self.make_slave()
        self.assertEqual((slave.state, slave.reason, slave.behind, slave.master), (SlaveState.FOLLOWING, "", 0, HERE))
        self.assertEqual((self.here.begin, self.here.data), (800, self.there.data[800:]))
        self.there.append(noise(100000))
        self.settle()
        self.assertEqual(self.here.data, self.there.data[800:])
        self.assertEqual(master.confirmed, self.there.end)

    def test_equal(self) -> None:
        """A slave that has all there is follows at once, and is still following when nothing was written for long."""
        self.here.data[:] = self.there.data
        master = self.make_master()
        slave = self.make_slave()
        self.assertEqual((slave.state, slave.behind, master.confirmed), (SlaveState.FOLLOWING, 0, 1000))
        changes: list[SlaveState] = []
        slave.when_changed(lambda: changes.append(slave.state))
        self.settle(200)
        self.assertEqual(changes, [])

    def test_from_the_middle(self) -> None:
        """A slave goes on where its log ends, be it inside a record, and never gets a byte twice."""
        self.here.data[:] = self.there.data[:777]
        self.make_master(batch=50)
        self.make_slave()
        self.assertEqual(self.here.data, self.there.data)
        self.assertEqual(sum(size for _, size in self.here.appended), 223)

    def test_broken_callback(self) -> None:
        """A callback that fails is logged, and disturbs nothing."""
        self.make_master()
        slave = Slave(self.env, self.here, self.tail, self.sweeper)
        self._services.append(slave)

        def broken() -> None:
            raise ZeroDivisionError

        slave.when_changed(broken)
        slave.startService()
        slave.follow(HERE, MAIN)
        self.settle()
        self.assertEqual(slave.state, SlaveState.FOLLOWING)
        self.assertGreater(len(self.flushLoggedErrors(ZeroDivisionError)), 2)
        slave._changes.remove(broken)

    def test_master_restarts(self) -> None:
        """When the master comes back, what was written meanwhile is made up."""
        master = self.make_master()
        slave = self.make_slave()
        self.stop(master)
        self._services.remove(master)
        self.settle(5)
        self.assertEqual(slave.state, SlaveState.CONNECTING)
        self.assertIn("efused", slave.reason)
        self.there.append(noise(3000))
        self.make_master()
        self.settle(31)
        self.assertEqual((slave.state, self.here.data), (SlaveState.FOLLOWING, self.there.data[800:]))

    def test_catching_up(self) -> None:
        """It says how far it is behind, for which it asks how far the master is, and when it has caught up."""
        peers = self.listen()
        self.here.data[:] = self.there.data[:400]
        slave = self.make_slave()
        self.assertEqual((slave.state, slave.behind), (SlaveState.CATCHING_UP, 600))
        peers[0].transport.write(head(400, 600) + self.there.data[400:])
        self.settle()
        self.assertEqual((slave.state, slave.behind), (SlaveState.FOLLOWING, 0))
        self.there.append(bytes(2 << 20))
        self.settle(5)
        self.assertEqual((slave.state, slave.behind), (SlaveState.CATCHING_UP, 2 << 20))
        self.assertEqual(self.tail.asked[-1], (MAIN, 1000, 1000))

    def test_end_unknown(self) -> None:
        """That the master cannot be asked in between disturbs nothing; what is wrong with asking is logged."""
        self.make_master()
        slave = self.make_slave()
        del self.tail.logs[MAIN]
        self.settle(12)
        self.assertEqual(slave.state, SlaveState.FOLLOWING)
        self.patch(self.tail, "ask", lambda *asked, **how: 1 / 0)
        self.settle(6)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual(slave.state, SlaveState.FOLLOWING)

    def test_reports(self) -> None:
        """A slave reports when it connects, after each chunk once, and every 5 s."""
        peers = self.listen()
        self.here.data[:] = self.there.data[:400]
        self.make_slave()
        peers[0].transport.write(head(400, 10) + self.there.data[400:410] + head(410, 90) + self.there.data[410:450])
        self.settle()
        peers[0].transport.write(bytes(self.there.data[450:500]))
        self.settle(6)
        reports = [one for (one,) in report_struct.iter_unpack(peers[0].heard)]
        self.assertEqual(reports, [400, 450, 500, 500])

    def test_silent_master(self) -> None:
        """A master that says nothing for 20 s is left, and dialled anew."""
        peers = self.listen()
        slave = self.make_slave()
        self.settle(19)
        self.assertEqual((len(peers), slave.state), (1, SlaveState.CATCHING_UP))
        self.settle(1)
        self.assertEqual(slave.reason, f"{HERE}: has said nothing for 20 s")
        self.settle(2)
        self.assertEqual(len(peers), 2)

    def test_slave_of_an_empty_master(self) -> None:
        """Master and slave may both begin with nothing."""
        del self.there.data[:]
        self.make_master()
        slave = self.make_slave()
        self.assertEqual(slave.state, SlaveState.FOLLOWING)
        self.there.append(b"first")
        self.settle()
        self.assertEqual((self.here.begin, self.here.data), (0, b"first"))


class ComparingTests(SlaveCase):
    """The questions before the stream, and their results."""

    def assert_diverged(self, slave: Slave, *parts: str) -> None:
        """Check that the slave does nothing, and says why."""
        self.assertEqual(slave.state, SlaveState.DIVERGED)
        for part in parts:
            self.assertIn(part, slave.reason)
        self.assertEqual(self.here.appended, [])
        self.assertEqual(self.env.network.pump(), 0)

    def reported(self, peers: list[Peer]) -> int | None:
        """Return the slave's last report in its first connection."""
        return last_report(peers[0].heard)[0]

    def test_minimum(self) -> None:
        """A slave knows where its master's log begins once it has all of it; nothing of one with another log."""
        self.there.data[:] = noise(100000)
        self.there.file_size = 1 << 30
        self.here.data[:] = self.there.data[:90000]
        self.there.forget(30000)
        self.make_master()
        slave = self.make_slave()
        self.assertEqual(slave.minimum.value, 0)
        self.settle(1)
        self.assertEqual((slave.state, slave.minimum.value), (SlaveState.FOLLOWING, 0))
        self.here.flush()
        self.assertEqual(slave.minimum.value, 30000)
        self.there.forget(40000)
        self.settle(6)
        self.assertEqual(slave.minimum.value, 40000)
        slave.follow("127.0.0.1:999", "127.0.0.1:998")
        self.assertEqual(slave.minimum.value, 0)

    def test_minimum_of_rocketmq(self) -> None:
        """A master that does not know the question lets us go by our own rules, once it has sent something."""
        self.there.data[:] = noise(100000)
        self.there.file_size = 1 << 30
        self.here.data[:] = self.there.data[:90000]
        self.tail.logs[MAIN] = None
        slave = self.make_slave()
        self.settle(2)
        self.assertEqual((slave.state, slave.minimum.value), (SlaveState.CONNECTING, 0))
        self.make_master()
        self.settle(8)
        self.assertEqual((slave.state, slave.minimum.value), (SlaveState.FOLLOWING, None))

    def test_damage(self) -> None:
        """What differs in a damaged region of either log is no other history; what differs beside it is."""
        self.there.data[:] = noise(100000)
        self.there.file_size = 1 << 30
        self.here.data[:] = self.there.data[:90000]
        self.here.data[60000] ^= 1
        self.here.damaged = [(59000, 2000)]
        self.there.data[89999] ^= 1
        self.there.damaged = [(89000, 3000)]
        self.make_master()
        slave = self.make_slave()
        self.settle(1)
        self.assertEqual((slave.state, len(self.here.data)), (SlaveState.FOLLOWING, 100000))

    def test_damage_and_another_history(self) -> None:
        """A difference beside damage stops all, and so does one in a range that is all damaged."""
        self.there.data[:] = noise(100000)
        self.there.file_size = 1 << 30
        for damaged, other in (([(59000, 2000)], 61000), ([(0, 100000)], 60000)):
            self.here.data[:] = self.there.data[:90000]
            self.here.data[other] ^= 1
            self.here.damaged = damaged
            self.assert_diverged(self.make_slave(), "differ between 24464 and 90000")

    def test_all_damaged(self) -> None:
        """Where the last 64 KiB are all damaged, those before the damage decide, however far back they are."""
        self.there.data[:] = noise(400000)
        self.there.file_size = 1 << 30
        self.there.damaged = [(90000, 100000), (190000, 110000)]
        self.make_master()
        for other in (None, 89999, 100000):
            self.here.data[:] = self.there.data[:300000]
            self.here.data[90000:] = bytes(210000)
            if other is not None:
                self.here.data[other] ^= 1
            slave = self.make_slave()
            self.settle(1)
            expected = SlaveState.DIVERGED if other == 89999 else SlaveState.FOLLOWING
            self.assertEqual(slave.state, expected, f"at {other}: {slave.reason}")

    def test_nothing_but_damage(self) -> None:
        """A log that is all damaged, as the master's is there, goes on."""
        self.there.data[:] = noise(100000)
        self.there.file_size = 1 << 30
        self.here.data[:] = bytes(90000)
        self.here.damaged = self.there.damaged = [(0, 90000)]
        self.make_master()
        slave = self.make_slave()
        self.settle(1)
        self.assertEqual((slave.state, len(self.here.data)), (SlaveState.FOLLOWING, 100000))

    def test_differs(self) -> None:
        """A byte that differs in the last 64 KiB stops all, is logged each minute, and heals when it is put right."""
        self.there.data[:] = noise(100000)
        self.there.file_size = 1 << 30
        self.here.data[:] = self.there.data[:90000]
        self.here.data[90000 - TAIL_LIMIT] ^= 1
        peers = self.listen()
        with capturedLogs() as logged:
            slave = self.make_slave()
            self.assert_diverged(slave, "differ between 24464 and 90000")
            self.settle(59)
            self.assertEqual(len(self.tail.asked), 1)
            self.settle(61)
            self.assertEqual(len(self.tail.asked), 3)
        errors = [event for event in logged if event["log_level"] is LogLevel.error]
        self.assertEqual(len(errors), 3)
        self.assertEqual(peers, [])
        self.here.data[90000 - TAIL_LIMIT] ^= 1
        self.port.stopListening()
        self.make_master()
        self.settle(60)
        self.assertEqual((slave.state, self.here.data), (SlaveState.FOLLOWING, self.there.data))

    def test_in_doubt(self) -> None:
        """What is in doubt is not compared by the question, but by the stream; until then the slave follows nobody."""
        self.here.data[:] = self.there.data[:900]
        self.here.doubt = 500
        peers = self.listen()
        slave = self.make_slave()
        self.assertEqual(self.tail.asked, [(MAIN, 0, 500)])
        self.assertEqual((slave.state, self.reported(peers)), (SlaveState.CONNECTING, 500))
        peers[0].transport.write(transfer_struct.pack(500, 300) + bytes(self.there.data[500:800]))
        self.settle()
        self.assertEqual((slave.state, self.reported(peers)), (SlaveState.CONNECTING, 800))
        peers[0].transport.write(transfer_struct.pack(800, 200) + bytes(self.there.data[800:]))
        self.settle()
        self.assertEqual((slave.state, self.reported(peers)), (SlaveState.FOLLOWING, 1000))
        self.assertEqual((self.here.data, self.here.appended), (self.there.data, [(900, 100)]))
        self.assertEqual(self.here.doubtful_from, 1000)

    def test_in_doubt_and_different(self) -> None:
        """What is in doubt and of another history stops all, each minute anew; what was right before goes on."""
        self.there.data[:] = bytes(self.there.data).replace(b"\0", b"\1")
        self.here.data[:] = self.there.data[:900]
        self.here.data[700] ^= 2
        self.here.doubt = 500
        self.make_master()
        slave = self.make_slave()
        states = set()
        slave.when_changed(lambda: states.add(slave.state))
        for _ in range(3):
            self.assert_diverged(slave, "differ between 500 and 900")
            self.settle(60, step=0.5)
        self.assertEqual(states & {SlaveState.CATCHING_UP, SlaveState.FOLLOWING}, set())
        self.here.data[700] ^= 2
        self.settle(60)
        self.assertEqual(slave.state, SlaveState.FOLLOWING)

    def test_in_doubt_from_the_start(self) -> None:
        """A slave whose whole log is in doubt does not ask as one that has nothing: that would be for the last file."""
        self.here.data[:] = self.there.data[:900]
        self.here.doubt = 0
        self.make_master()
        slave = self.make_slave()
        self.assertEqual((slave.state, self.here.data), (SlaveState.FOLLOWING, self.there.data))

    def test_in_doubt_and_removed(self) -> None:
        """What the master has removed cannot be compared any more; the rest is."""
        self.here.data[:] = self.there.data[:900]
        self.here.doubt = 200
        self.there.forget(400)
        self.make_master()
        slave = self.make_slave()
        self.assertEqual((slave.state, self.here.data[400:]), (SlaveState.FOLLOWING, self.there.data))

    def test_differs_before(self) -> None:
        """What lies further back is not compared."""
        self.there.data[:] = noise(100000)
        self.here.data[:] = self.there.data[:90000]
        self.here.data[90000 - TAIL_LIMIT - 1] ^= 1
        self.make_master()
        self.assertEqual(self.make_slave().state, SlaveState.FOLLOWING)

    def test_longer(self) -> None:
        """A slave that has more than its master, which has lost it, stops."""
        self.here.data[:] = self.there.data + b"lost by the master"
        self.make_master()
        self.assert_diverged(self.make_slave(), "our log goes to 1018, the master's only to 1000")

    def test_too_old(self) -> None:
        """A slave that ends before the master's log begins stops while its messages are kept."""
        self.here.data[:] = self.there.data[:399]
        self.here.kept = "they are young"
        self.there.forget(400)
        self.make_master()
        slave = self.make_slave()
        self.assert_diverged(slave, "our log ends at 399", "nothing before 400", "they are young", "haBeginAnew=true")
        self.here.kept = ""
        self.env.clock.advance(60)
        self.env.network.pump()
        self.assertEqual(slave.state, SlaveState.FOLLOWING)

    def test_begins_anew(self) -> None:
        """A slave whose messages expired, or may go, begins where the master's log does."""
        for kept, wanted in (("", False), ("they are young", True)):
            self.setUp()
            self.here.data[:] = noise(399, seed=7)  # nobody can compare it
            self.here.kept = kept
            self.there.forget(400)
            self.make_master()
            slave = self.make_slave(begin_anew=lambda wanted=wanted: wanted)
            self.assertEqual(slave.state, SlaveState.FOLLOWING)
            self.assertEqual(self.here.log_bounds(), self.there.log_bounds())
            self.assertEqual(self.here.data, self.there.data)
            self.tearDown()

    def test_oldest_removed(self) -> None:
        """Where the master has removed its oldest file, what both have is compared."""
        for flip, state in ((401, SlaveState.DIVERGED), (399, SlaveState.FOLLOWING)):
            self.setUp()
            self.here.data[:] = self.there.data[:500]
            self.here.data[flip] ^= 1
            self.there.forget(400)
            self.make_master()
            self.assertEqual(self.make_slave().state, state)
            self.assertEqual(self.tail.asked[:2], [(MAIN, 0, 500), (MAIN, 400, 500)])
            self.tearDown()

    def test_nothing_in_common(self) -> None:
        """A slave that ends where the master's log begins has nothing to compare, and goes on."""
        self.here.data[:] = noise(400, seed=7)
        self.there.forget(400)
        self.make_master()
        self.assertEqual(self.make_slave().state, SlaveState.FOLLOWING)

    def test_empty(self) -> None:
        """A slave with nothing asks as well: a master that wants to know its slaves hears of it."""
        self.make_master()
        self.make_slave()
        self.assertEqual(self.tail.asked, [(MAIN, 0, 0)])

    def test_rocketmq(self) -> None:
        """A master that does not know the question is followed by offsets alone, and not asked again meanwhile."""
        self.tail.logs[MAIN] = None
        self.here.data[:] = noise(500, seed=7)
        self.make_master()
        slave = self.make_slave()
        self.assertEqual((slave.state, self.here.data[500:]), (SlaveState.FOLLOWING, self.there.data[500:]))
        self.settle(30)
        self.assertEqual(len(self.tail.asked), 1)

    def test_no_main_port(self) -> None:
        """Where only the replication port is known nothing is asked."""
        self.make_master()
        slave = self.make_slave()
        slave.follow(HERE, None)
        self.settle()
        self.assertEqual((slave.state, len(self.tail.asked)), (SlaveState.FOLLOWING, 1))

    def test_unreachable(self) -> None:
        """Where the question cannot be asked nothing is copied, and it is asked again, every 5 s at least."""
        peers = self.listen()
        del self.tail.logs[MAIN]
        slave = self.make_slave()
        self.assertEqual((slave.state, slave.reason), (SlaveState.CONNECTING, f"cannot connect to {MAIN}"))
        self.settle(70, step=0.25)
        self.assertEqual((len(peers), len(self.tail.asked)), (0, 17))
        self.tail.logs[MAIN] = self.there
        self.settle(5.25)
        self.assertEqual(slave.state, SlaveState.CATCHING_UP)

    def test_refused(self) -> None:
        """A slave that may not replicate asks again after longer and longer pauses; after other answers it does not."""
        for code, least, most in ((ResponseCode.NO_PERMISSION, 6, 8), (ResponseCode.SYSTEM_BUSY, 15, 19)):
            asked: list[object] = []

            def ask(
                *question: object, asked: list[object] = asked, code: int = code, **how: object
            ) -> Deferred[Tail | None]:
                asked.append(question)
                return fail(PeerRefused(code, "not you"))

            self.patch(self.tail, "ask", ask)
            slave = self.make_slave()
            self.assertEqual((slave.state, slave.reason), (SlaveState.CONNECTING, f"response code {code}: not you"))
            self.settle(70, step=0.25)
            self.assertTrue(least <= len(asked) <= most, len(asked))
            self.stop(slave)

    def test_evasive(self) -> None:
        """A master that has the range and does not say what is in it is not followed."""
        answer: Deferred[Tail | None] = Deferred()
        self.here.data[:] = self.there.data[:500]
        self.patch(self.tail, "ask", lambda *asked, **how: answer)
        slave = self.make_slave()
        answer.callback(Tail(0, 1000, None))
        self.assertEqual(slave.state, SlaveState.CONNECTING)
        self.assertIn("does not say what its log has from 0 to 500", slave.reason)

    def test_doubt_about_the_unreadable(self) -> None:
        """Where the master cannot read what ours has to be compared with, the reason says so, and the way out."""
        region = FoundDamage(600, 100, is_unreadable=True)
        ask = self.tail.ask
        for known in ((), (region,)):
            peers = self.listen()
            self.here.data[:] = self.there.data[:1000]
            self.here.doubt = 600

            def asked(
                master: str, begin: int, end: int, known: tuple[FoundDamage, ...] = known, **how: bool
            ) -> Deferred[Tail | None]:
                return succeed(Tail(0, 2000, None, damaged=known)) if begin >= 600 else ask(master, begin, end, **how)

            self.patch(self.tail, "ask", asked)
            slave = self.make_slave()
            for number in range(3):
                said = slave.reason
                peers[number].transport.loseConnection()
                self.settle(6, step=0.25)
                self.assertEqual("the disk of" in said, number == 2, said)
            self.assertEqual(slave.state, SlaveState.CONNECTING)
            self.assertIn(f"the disk of {MAIN} cannot read its log at 600", slave.reason)
            self.assertIn("smartgo store repair --from", slave.reason)
            self.stop(slave)
            self.successResultOf(maybeDeferred(self.port.stopListening))

    def test_diverged_and_gone(self) -> None:
        """That the master cannot be asked for a while does not make the logs agree."""
        self.here.data[:] = noise(500, seed=7)
        slave = self.make_slave()
        del self.tail.logs[MAIN]
        self.settle(61)
        self.assert_diverged(slave, "differ between 0 and 500")

    def test_bug(self) -> None:
        """What should not happen is logged, and tried again."""
        self.patch(self.tail, "ask", lambda *asked, **how: 1 / 0)
        self.make_master()
        slave = self.make_slave()
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertIn("ZeroDivisionError", slave.reason)
        del self.tail.ask
        self.settle(2)
        self.assertEqual(slave.state, SlaveState.FOLLOWING)


class BrokenStreamTests(SlaveCase):
    """Streams that end badly."""

    def test_wrong_place(self) -> None:
        """Log that is for another place than our end is not appended: the connection is dropped and dialled anew."""
        self.tail.logs[MAIN] = None
        self.here.data[:] = noise(500)
        peers = self.listen()
        slave = self.make_slave()
        peers[0].transport.write(head(501, 3) + b"abc")
        self.settle()
        self.assertTrue(peers[0].transport.disconnected)
        self.assertEqual((slave.state, self.here.appended), (SlaveState.CONNECTING, []))
        self.assertEqual(slave.reason, f"{HERE}: sends the log from 501 on, but ours ends at 500")

    def test_pauses(self) -> None:
        """After streams that end at once pauses grow to 5 s; one that brought something resets them."""
        self.here.data[:] = self.there.data[:400]
        peers = self.listen()
        self.make_slave()
        times = []
        for _ in range(7):
            peers[-1].transport.loseConnection()
            began, count = self.clock.seconds(), len(peers)
            while len(peers) == count:
                self.settle(0.25)
            times.append(self.clock.seconds() - began)
        for time, least in zip(times, (1, 2, 4, 4, 4, 4, 4), strict=True):
            self.assertTrue(least <= time <= 5.25, times)
        peers[-1].transport.write(head(400, 1) + self.there.data[400:401])
        self.settle()
        peers[-1].transport.loseConnection()
        self.settle(1.5)
        self.assertEqual(len(peers), 9)

    def test_bad_record(self) -> None:
        """After bytes that are no record it is dialled again after a second, from where our log ends."""
        self.here.data[:] = self.there.data[:400]
        peers = self.listen()
        slave = self.make_slave()
        self.here.refusal = BadRecord("the body's checksum is wrong")
        peers[0].transport.write(head(400, 9) + b"bad bytes" + head(409, 9) + b"and more.")
        self.settle()
        self.assertEqual(slave.reason, f"{HERE}: the body's checksum is wrong")
        self.assertEqual(self.here.appended, [])
        self.settle(1.5)
        self.assertEqual(peers[1].heard, report_struct.pack(400))

    def test_disk_full(self) -> None:
        """When our own store takes nothing, that is said, and tried again until it does."""
        self.here.data[:] = self.there.data[:400]
        self.make_master()
        self.here.refusal = ServiceNotAvailable("the disk is full")
        slave = self.make_slave()
        self.assertEqual(slave.state, SlaveState.CONNECTING)
        self.assertEqual(slave.reason, "our own store takes nothing: the disk is full")
        self.settle(2)
        self.assertEqual((slave.state, self.here.data), (SlaveState.FOLLOWING, self.there.data))

    def test_bad_address(self) -> None:
        """An address that is none is said to be none."""
        slave = self.make_slave()
        for bad in ("nowhere", "10.0.0.1:", ":10912", "10.0.0.1:ten"):
            slave.follow(bad, None)
            self.assertEqual(slave.reason, f"{bad!r} is not an address of the form host:port")


class ChangingTests(SlaveCase):
    """Whom it follows, and until when."""

    def test_no_master(self) -> None:
        """Without a master it waits for one; the same one twice changes nothing; none ends it."""
        slave = Slave(self.env, self.here, self.tail, self.sweeper)
        self._services.append(slave)
        self.assertEqual((slave.state, slave.behind), (SlaveState.STOPPED, -1))
        slave.startService()
        self.assertEqual((slave.state, slave.reason), (SlaveState.NO_MASTER, "no master is known"))
        self.make_master()
        slave.follow(HERE, MAIN)
        self.settle()
        changes: list[SlaveState] = []
        slave.when_changed(lambda: changes.append(slave.state))
        slave.follow(HERE, MAIN)
        self.settle(5)
        self.assertEqual(changes, [])
        slave.follow(None, None)
        self.there.append(b"not for us")
        self.settle(5)
        self.assertEqual((changes, slave.behind, self.here.end), ([SlaveState.NO_MASTER], -1, 1000))

    def test_before_start(self) -> None:
        """A master told before the start is followed from the start on."""
        self.make_master()
        slave = Slave(self.env, self.here, self.tail, self.sweeper)
        self._services.append(slave)
        slave.follow(HERE, MAIN)
        self.settle()
        self.assertEqual((slave.state, self.tail.asked), (SlaveState.STOPPED, []))
        slave.startService()
        self.settle()
        self.assertEqual(slave.state, SlaveState.FOLLOWING)

    def test_another_master(self) -> None:
        """Another master is followed at once, and what still comes from the old one is not appended."""
        peers = self.listen()
        self.here.data[:] = self.there.data[:400]
        slave = self.make_slave()
        peers[0].transport.write(head(400, 5) + b"wrong")
        slave.follow(HERE, None)
        self.settle()
        self.assertEqual((len(peers), self.here.end, slave.state), (2, 400, SlaveState.CATCHING_UP))
        self.assertTrue(peers[0].transport.disconnected)

    def test_stop_while_asking(self) -> None:
        """It can be stopped while the master is asked."""
        answer: Deferred[Tail | None] = Deferred()
        self.patch(self.tail, "ask", lambda *asked, **how: answer)
        slave = self.make_slave()
        self.stop(slave)
        self.assertEqual((slave.state, slave.reason), (SlaveState.STOPPED, "stopped"))

    def test_stop_while_dialling(self) -> None:
        """It can be stopped while it connects, whatever a cancelled attempt ends with."""
        for error in (ConnectingCancelledError(None), Refused(), ValueError()):
            self.patch(self.env.network, "connect", partial(Ending, error))
            slave = self.make_slave()
            self.stop(slave)
            self.assertEqual(slave.state, SlaveState.STOPPED)
            self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stop_while_computing(self) -> None:
        """It can be stopped while the checksum of our own log is computed, which goes on undisturbed."""
        self.here.data[:] = self.there.data[:400]
        sums = [Deferred(), Deferred()]  # type: list[Deferred[int]]
        waiting = iter(sums[:])
        self.patch(self.here, "crc", lambda begin, end: next(waiting))
        for result in (1, Failure(OSError(5, "Input/output error"))):
            slave = self.make_slave()
            self.stop(slave)
            self.assertFalse(sums[0].called)
            sums.pop(0).callback(result)

    def test_unreadable_log(self) -> None:
        """Where our own log cannot be read, that is said."""
        self.here.data[:] = self.there.data[:400]
        sums: Deferred[int] = Deferred()
        self.patch(self.here, "crc", lambda begin, end: sums)
        slave = self.make_slave()
        sums.errback(OSError(5, "Input/output error"))
        self.assertIn("Input/output error", slave.reason)

    def test_stop_while_following(self) -> None:
        """It can be stopped while it follows: nothing is appended afterwards, and no connection is left."""
        self.make_master()
        slave = self.make_slave()
        stopping = slave.stopService()
        self.there.append(b"too late")
        self.settle()
        self.successResultOf(stopping)
        self.assertEqual(self.here.end, 1000)

    def test_stop_while_connection_hangs(self) -> None:
        """A connection that does not end in peace is cut after a second."""
        self.make_master()
        slave = self.make_slave()
        stopping = slave.stopService()
        self.assertNoResult(stopping)
        self.clock.advance(1)
        self.settle()
        self.successResultOf(stopping)

    def test_stop_while_waiting(self) -> None:
        """It can be stopped between two attempts."""
        slave = self.make_slave()
        self.settle(0.5)
        self.assertEqual(slave.state, SlaveState.CONNECTING)
        self.stop(slave)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class FlushTests(SlaveCase):
    """Acknowledgements after the flush."""

    def test_reports_flushed(self) -> None:
        """The master hears of what is flushed, when it is, and of no more."""
        master = self.make_master()
        self.make_slave(ack_flushed=True)
        self.assertEqual((self.here.end, master.confirmed), (1000, 0))
        self.here.flush()
        self.settle()
        self.assertEqual(master.confirmed, 1000)
        self.there.append(bytes(10))
        self.settle(6)
        self.assertEqual((self.here.end, master.confirmed), (1010, 1000))

    def test_begins_flushed(self) -> None:
        """As its first report counts, it waits until all of its log is flushed."""
        master = self.make_master()
        self.here.data[:] = self.there.data[:400]
        self.here.flushed = 100
        slave = self.make_slave(ack_flushed=True)
        self.assertEqual((slave.state, master.slaves()), (SlaveState.CONNECTING, []))
        self.here.flush()
        self.settle()
        self.assertEqual(slave.state, SlaveState.FOLLOWING)

    def test_stop_while_unflushed(self) -> None:
        """It can be stopped while it waits for that."""
        self.here.data[:] = self.there.data[:400]
        self.here.flushed = 100
        slave = self.make_slave(ack_flushed=True)
        self.stop(slave)
        self.here.flush()
        self.assertEqual(slave.state, SlaveState.STOPPED)


class SeveralTests(SlaveCase):
    """More than one slave."""

    def test_two(self) -> None:
        """Each gets all of it, and the one that is farther is what the master counts."""
        other = FakeLog()
        master = self.make_master(sync=True)
        self.make_slave()
        self.make_slave(other)
        self.there.append(noise(300000))
        waiting = master.durable(self.there.end)
        assert waiting is not None
        self.settle()
        self.assertEqual(self.here.data, self.there.data[800:])
        self.assertEqual(other.data, self.there.data[800:])
        self.successResultOf(waiting)
        self.assertEqual([seen.confirmed for seen in master.slaves()], [self.there.end] * 2)
