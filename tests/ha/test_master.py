"""Tests of L{smartgo.ha.master}, L{smartgo.ha.feed} and L{smartgo.ha.confirmations}."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred
from twisted.internet.error import CannotListenError
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from zope.interface.verify import verifyObject

from smartgo.ha.feed import Feed, Refused
from smartgo.ha.interfaces import IReplicating
from smartgo.ha.master import Master
from smartgo.net.link import Link
from smartgo.net.states import State
from smartgo.schema.hatransfer import report_struct
from smartgo.store.interfaces import PutStatus
from tests.ha.fakes import FakeLog
from tests.ha.pair import PORT, PairCase, accept, noise
from tests.ha.test_transfer import pieces

KIB = 1024
SWEEPER = 1  # timer of the sweeper, for all links of the process
report = report_struct.pack


class Transport(StringTransport):
    """A transport of Twisted's kind: full with 64 KiB, and what was aborted is gone when L{Wired.gone} says so."""

    room = 64 * KIB

    def write(self, data: bytes) -> None:
        """Say that it is enough."""
        super().write(data)
        if self.producer is not None and len(self.value()) >= self.room:
            self.producer.pauseProducing()

    def setTcpNoDelay(self, enabled: bool) -> None:
        """There is no network."""

    def unregisterProducer(self) -> None:
        """Harmless where there is none."""
        self.producer = None


class Wired:
    """One connection to a master, whose other end the test is."""

    def __init__(self, master: Master, address: Any = None) -> None:
        address = IPv4Address("TCP", "10.1.2.3", 5000) if address is None else address
        self.transport = Transport(peerAddress=address)
        link = accept(master, address)
        assert link is not None
        assert isinstance(link.session, Feed)
        self.link = link
        self.feed = link.session
        link.makeConnection(self.transport)

    def say(self, offset: int) -> None:
        """Report."""
        self.link.dataReceived(report(offset))

    def take(self) -> bytes:
        """Take what was written, which makes room."""
        data: bytes = self.transport.value()
        self.transport.clear()
        if self.transport.producer is not None:
            self.transport.producer.resumeProducing()
        return data

    @property
    def cut(self) -> bool:
        """Tell whether the master has ended the connection."""
        return bool(self.transport.disconnecting or self.transport.disconnected)

    def gone(self) -> None:
        """The connection is lost."""
        self.link.connectionLost(Failure(ConnectionError("gone")))


class MasterCase(PairCase):
    """With connections whose other end is the test."""

    def setUp(self) -> None:
        """None yet."""
        super().setUp()
        self._wires: list[Wired] = []

    def wire(self, master: Master, first: int | None = None, address: Any = None) -> Wired:
        """Connect, and say where we are."""
        wired = Wired(master, address)
        self._wires.append(wired)
        if first is not None:
            wired.say(first)
        return wired

    def assert_refused(self, master: Master, address: Any) -> None:
        """Hold that a peer is not let in, and not closed at once either; it leaves."""
        link = accept(master, address)
        assert link is not None
        self.assertIsInstance(link.session, Refused)
        link.makeConnection(Transport(peerAddress=address))
        link.connectionLost()

    def tearDown(self) -> None:
        """They go before the master does."""
        for wired in self._wires:
            if wired.link.state not in (State.CLOSED, State.LOST):
                wired.gone()
        super().tearDown()


class ServingTests(MasterCase):
    """The bytes that slaves get."""

    def test_interface(self) -> None:
        """A master is what the broker knows it by."""
        verifyObject(IReplicating, self.make_master())

    def test_pushes(self) -> None:
        """What is written is sent at once; nobody polls, and between writes there are one timer and the sweeper's."""
        master = self.make_master()
        slave = self.wire(master, 1000)
        slave.take()
        self.assertEqual(len(self.clock.getDelayedCalls()), 1 + SWEEPER)
        self.there.append(b"new")
        self.assertEqual(pieces(slave.take()), [(1000, b"new")])
        (seen,) = master.slaves()
        self.assertEqual((seen.address, seen.confirmed, seen.sent), ("10.1.2.3:5000", 1000, 1003))

    def test_positions(self) -> None:
        """Retention hears which bytes each slave is sent next; one that has not said where to begin is sent none."""
        master = self.make_master()
        self.wire(master, 1000)
        self.wire(master)
        gone = self.wire(master, 1000)
        self.there.append(b"new")
        self.assertEqual(master.positions(), [1003, 1003])
        gone.gone()
        self.assertEqual(master.positions(), [1003])

    def test_bug(self) -> None:
        """A bug in sending to one slave ends that slave's connection; others get the log, and the append goes on."""
        master = self.make_master()
        broken, other = self.wire(master, 1000), self.wire(master, 1000)
        self.patch(broken.feed, "push", lambda: 1 / 0)
        other.take()
        self.there.append(b"new")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)
        self.assertEqual((broken.cut, pieces(other.take())), (True, [(1000, b"new")]))
        self.assertEqual(len(master.slaves()), 1)

    def test_first_word(self) -> None:
        """A slave that has everything hears at once that it was heard, then a heartbeat every 5 s."""
        slave = self.wire(self.make_master(), 1000)
        self.assertEqual(pieces(slave.take()), [(1000, b"")])
        self.clock.advance(4.9)
        self.assertEqual(slave.take(), b"")
        self.clock.advance(0.1)
        self.assertEqual(pieces(slave.take()), [(1000, b"")])
        for _ in range(10):
            slave.say(1000)
            self.clock.advance(5)
            self.assertEqual(pieces(slave.take()), [(1000, b"")])

    def test_one_timer(self) -> None:
        """Many slaves share one timer, and each gets its heartbeat in time."""
        master = self.make_master()
        slaves = []
        for _ in range(5):
            slaves.append(self.wire(master, 1000))
            slaves[-1].take()
            self.clock.advance(0.5)
        self.assertEqual(len(self.clock.getDelayedCalls()), 1 + SWEEPER)
        self.clock.pump([0.5] * 10)
        self.assertEqual([len(slave.take()) for slave in slaves], [12] * 5)

    def test_silent_slave(self) -> None:
        """A slave that says nothing for 20 s is let go, before its first report as well."""
        master = self.make_master()
        slaves = [self.wire(master), self.wire(master, 1000)]
        self.clock.pump([4.0, 4.0, 4.0, 4.0, 3.9])
        self.assertEqual([slave.cut for slave in slaves], [False, False])
        self.clock.advance(0.1)
        self.assertEqual([slave.cut for slave in slaves], [True, True])
        self.assertEqual(master.slaves(), [])
        self.assertIn("has said nothing for 20 s", self.said.sentences[-1])

    def test_lies(self) -> None:
        """A slave that asks for what there is not, or has more than was sent, is let go, and what it said is void."""
        master = self.make_master()
        for first, second in ((1001, None), (500, 501)):
            slave = Wired(master)
            cast("Any", slave.transport.producer).pauseProducing()
            slave.say(first)
            if second is not None:
                slave.say(second)
            self.assertTrue(slave.cut)
            self.there.append(b"more")
            slave.say(1000)
            self.assertEqual(slave.take(), b"")
            slave.gone()
        self.assertEqual(len(self.said.sentences), 2)
        self.assertEqual(master.confirmed, 500)

    def test_full_transport(self) -> None:
        """A slave that does not read holds a MiB of ours and no more, heartbeats included."""
        self.there.data[:] = noise(5 * KIB * KIB)
        self.there.file_size = 1 << 30
        slave = self.wire(self.make_master(), 1)
        for _ in range(3):
            self.there.append(noise(10000))
            self.clock.pump([1.0] * 6)
            slave.say(1)
        unread = len(slave.transport.value())
        self.assertLess(unread, 1200 * KIB)
        got = b""
        while part := slave.take():
            self.assertLess(len(part), 1200 * KIB)  # in each turn
            got += part
        self.assertEqual(b"".join(body for _, body in pieces(got)), self.there.data[1:])

    def test_shares_turns(self) -> None:
        """Where the transport never has enough, a slave far behind still leaves turns to others."""
        self.there.data[:] = noise(4 * KIB * KIB)
        self.there.file_size = 1 << 30
        slave = self.wire(self.make_master())
        slave.transport.room = 1 << 40
        slave.say(1)
        turns = [len(slave.take())]
        while self.clock.calls[0].getTime() <= self.clock.seconds():
            self.clock.calls.pop(0).func()
            turns.append(len(slave.take()))
        self.assertEqual(len(turns), 4)
        self.assertLess(max(turns), 1200 * KIB)

    def test_cold(self) -> None:
        """What lies on the disk is read in threads: others are served meanwhile, and what is new waits for its turn."""
        self.there.cold_below = 500
        self.there.held = []
        master = self.make_master()
        behind, near = self.wire(master, 100), self.wire(master, 1000)
        near.take()
        self.assertEqual(pieces(behind.take()), [(100, b"")])
        self.there.append(b"new")
        self.assertEqual((behind.take(), pieces(near.take())), (b"", [(1000, b"new")]))
        got = b""
        for _ in range(10):
            self.there.release()
            self.clock.advance(0)
            got += behind.take()
        self.assertEqual(b"".join(body for _, body in pieces(got)), self.there.data[100:])

    def test_cold_and_gone(self) -> None:
        """A slave that leaves while the disk is read for it is no trouble."""
        self.there.cold_below = 500
        self.there.held = []
        slave = self.wire(self.make_master(), 100)
        slave.take()
        slave.gone()
        self.there.release()
        self.assertEqual(slave.take(), b"")

    def test_cold_and_unreadable(self) -> None:
        """A slave whose place cannot be read is let go with the reason, while others go on."""
        self.there.cold_below = 500
        self.there.held = []
        master = self.make_master()
        near, slave = self.wire(master, 1000), self.wire(master, 100)
        ((reading, _),) = self.there.held
        reading.errback(OSError(5, "Input/output error"))
        self.assertTrue(slave.cut)
        self.assertFalse(near.cut)
        self.assertIn("Input/output error", self.said.sentences[-1])

    def test_unreadable(self) -> None:
        """Nor does it trouble a send, or other slaves, that a file of the log cannot be opened, or worse."""
        master = self.make_master()
        for error in (OSError(24, "Too many open files"), ZeroDivisionError("a bug")):
            slave, other = self.wire(master, self.there.end), self.wire(master)

            def piece(offset: int, limit: int, error: Exception = error) -> memoryview:
                raise error

            self.patch(self.there, "piece", piece)
            self.there.append(b"new")
            self.assertEqual((slave.cut, other.cut), (True, False))
        self.assertIn("Too many open files", self.said.sentences[0])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def test_removed(self) -> None:
        """A slave whose place in the log is removed is let go."""
        self.there.data[:] = noise(4 * KIB * KIB)
        self.there.file_size = 1 << 30
        slave = self.wire(self.make_master(), 100)
        self.there.forget(2 * KIB * KIB)
        while slave.take():  # what was read before
            pass
        self.assertTrue(slave.cut)
        self.assertIn("is gone", self.said.sentences[-1])

    def test_removed_at_once(self) -> None:
        """What a slave says with which nothing can be begun does not count."""
        master = self.make_master(sync=True)
        self.patch(self.there, "piece", lambda offset, limit: self.there._slice(-1, limit))
        slave = self.wire(master, 400)
        self.assertTrue(slave.cut)
        self.assertEqual((master.confirmed, master.slaves()), (0, []))

    def test_bytewise(self) -> None:
        """Reports may come byte by byte."""
        master = self.make_master()
        slave = self.wire(master)
        for byte in report(400) + report(700):
            slave.link.dataReceived(bytes([byte]))
        self.assertEqual(master.confirmed, 700)


class DoorTests(MasterCase):
    """The admission of slaves."""

    def test_networks(self) -> None:
        """Who is in no allowed network is turned away, counted, and complained of."""
        master = self.make_master(allow=["10.1.0.0/16", "fd00::/8", "192.168.7.7"])
        for good in ("10.1.2.3", "192.168.7.7", "fd00::1", "::ffff:10.1.2.3"):
            kind = IPv6Address if ":" in good else IPv4Address
            self.wire(master, address=kind("TCP", good, 4000))
        for bad in ("10.2.2.3", "192.168.7.8", "fe80::1%eth0", "::1", "127.0.0.1"):
            kind = IPv6Address if ":" in bad else IPv4Address
            self.assert_refused(master, kind("TCP", bad, 4000))
        self.assertEqual(master.turned_away, 5)
        self.assertEqual(self.said.sentences[0], "not replicating to 10.2.2.3: haAllow does not name it")
        self.assertEqual([seen.address for seen in master.slaves()][2:], ["[fd00::1]:4000", "10.1.2.3:4000"])
        self.assertRaises(ValueError, self.make_master, allow=["10.1.0.0/33"])

    def test_few_descriptors(self) -> None:
        """A slave is let in with the descriptors that clients must leave free."""
        master = self.make_master()
        self.env.host.files_open = self.env.host.open_file_limit() - 100
        self.wire(master, 1000)
        self.assertEqual(len(master.slaves()), 1)

    def test_many(self) -> None:
        """There is a limit to connections; who leaves makes room."""
        master = self.make_master()
        slaves = [self.wire(master) for _ in range(256)]
        self.assert_refused(master, IPv4Address("TCP", "10.0.0.2", 4000))
        slaves[0].gone()
        self.wire(master)

    def refuse(self, master: Master) -> tuple[Link, Transport]:
        """Connect from where nobody may."""
        refused = accept(master, IPv4Address("TCP", "10.9.9.9", 4000))
        assert refused is not None
        self.assertIsInstance(refused.session, Refused)
        transport = Transport()
        refused.makeConnection(transport)
        return refused, transport

    def test_refused(self) -> None:
        """Who is not let in waits 5 s in vain, since a RocketMQ slave would be back at once, and is not a slave."""
        master = self.make_master(allow=["10.1.0.0/16"])
        refused, transport = self.refuse(master)
        refused.dataReceived(report(0))
        self.clock.advance(4.9)
        self.assertEqual((transport.producerState, transport.disconnecting), ("paused", False))
        self.clock.advance(0.1)
        self.assertTrue(transport.disconnected)
        self.assertEqual((transport.value(), master.slaves()), (b"", []))
        refused.connectionLost()

    def test_refused_by_the_hundred(self) -> None:
        """Beyond a number of them who is not let in is closed at once; who leaves early makes room."""
        master = self.make_master(allow=["10.1.0.0/16"])
        waiting = [self.refuse(master) for _ in range(256)]
        self.assertIsNone(accept(master, IPv4Address("TCP", "10.9.9.9", 4000)))
        self.wire(master)
        waiting[0][0].connectionLost()
        self.refuse(master)[0].connectionLost()
        for refused, _ in waiting[1:]:
            refused.connectionLost()

    def test_refused_and_stopped(self) -> None:
        """Who waits in vain does not keep a master from stopping."""
        master = self.make_master(allow=["10.1.0.0/16"])
        refused, transport = self.refuse(master)
        stopping = master.stopService()
        self.assertTrue(transport.disconnected)
        refused.connectionLost()
        self.successResultOf(stopping)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_port(self) -> None:
        """Opening fires when the port listens, whose number is known then, and tells where it cannot be had."""
        first = Master(self.env, self.there, f"tcp:{PORT}", self.sweeper)
        self.assertEqual(first.port, 0)
        self.successResultOf(first.open())
        self.assertEqual(first.port, PORT)
        first.startService()  # does not listen twice
        second = Master(self.env, self.there, f"tcp:{PORT}", self.sweeper)
        self.failureResultOf(second.open(), CannotListenError)
        second = Master(self.env, self.there, f"tcp:{PORT}", self.sweeper)
        second.startService()
        self.assertEqual(len(self.flushLoggedErrors(CannotListenError)), 1)
        self.stop(second)
        self.stop(first)

    def test_stops_while_opening(self) -> None:
        """A port that comes when nobody wants it any more is closed."""
        listen = self.env.network.listen
        waiting = []

        def later(description: str, factory: Any) -> Any:
            opened = listen(description, factory)
            opened.pause()
            waiting.append(opened)
            return opened

        self.patch(self.env.network, "listen", later)
        master = Master(self.env, self.there, f"tcp:{PORT}", self.sweeper)
        master.startService()
        self.stop(master)
        waiting[0].unpause()
        self.assertEqual(self.env.network.ports, {})


class StoppingTests(MasterCase):
    """The stop of a master."""

    def test_last_words(self) -> None:
        """Slaves get what was written last before their connections are closed in peace."""
        master = self.make_master()
        slave = self.wire(master, 1000)
        slave.take()
        self.there.data += b"last"  # written, and not told of yet
        stopping = master.stopService()
        self.assertNoResult(stopping)
        self.assertEqual(pieces(slave.take()), [(1000, b"last")])
        self.assertTrue(slave.transport.disconnecting)
        slave.gone()
        self.successResultOf(stopping)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stuck(self) -> None:
        """A slave that does not read its last words is cut off after a second."""
        master = self.make_master()
        slave = self.wire(master, 1)
        cuts: list[bool] = []
        self.patch(slave.transport, "abortConnection", lambda: cuts.append(True))
        stopping = master.stopService()
        self.clock.advance(0.9)
        self.assertEqual(cuts, [])
        self.clock.advance(0.1)
        self.assertEqual(cuts, [True])
        slave.gone()
        self.successResultOf(stopping)


class DurableTests(MasterCase):
    """The condition of sends under SYNC_MASTER."""

    def wait(self, master: Master, end: int) -> Deferred[PutStatus]:
        """Send, where it has to be waited for."""
        waiting = master.durable(end)
        assert waiting is not None
        return waiting

    def test_async(self) -> None:
        """An ASYNC_MASTER demands nothing, slave or no slave."""
        master = self.make_master()
        self.assertIsNone(master.durable(1000))
        self.wire(master, 500)
        self.assertIsNone(master.durable(1000))
        self.assertTrue(master.may_wait())

    def test_no_slave(self) -> None:
        """Without a slave that has reported sends learn so at once."""
        master = self.make_master(sync=True)
        self.assertFalse(master.may_wait())
        self.assertEqual(self.successResultOf(self.wait(master, 1000)), PutStatus.SLAVE_NOT_AVAILABLE)
        slave = self.wire(master)
        self.assertEqual(self.successResultOf(self.wait(master, 1000)), PutStatus.SLAVE_NOT_AVAILABLE)
        slave.say(900)
        self.assertNoResult(self.wait(master, 1000))
        slave.gone()
        self.assertEqual(self.successResultOf(self.wait(master, 1000)), PutStatus.SLAVE_NOT_AVAILABLE)

    def test_far_behind(self) -> None:
        """A slave that is too far behind is none."""
        master = self.make_master(sync=True, fallbehind_max=100)
        self.wire(master, 900)
        self.assertEqual(self.successResultOf(self.wait(master, 1000)), PutStatus.SLAVE_NOT_AVAILABLE)
        self.assertNoResult(self.wait(master, 999))

    def test_confirmed(self) -> None:
        """Sends are told OK when a slave has reported their end, not a byte before; what is there needs no wait."""
        master = self.make_master(sync=True)
        slave = self.wire(master, 900)
        waiting = [self.wait(master, end) for end in (950, 1000)]
        slave.say(949)
        self.assertNoResult(waiting[0])
        slave.say(950)
        self.assertEqual(self.successResultOf(waiting[0]), PutStatus.OK)
        self.assertNoResult(waiting[1])
        slave.say(1000)
        self.assertEqual(self.successResultOf(waiting[1]), PutStatus.OK)
        self.assertIsNone(master.durable(1000))

    def test_any_slave(self) -> None:
        """The slave that is farthest counts, and one that leaves takes along what it was farther than the others."""
        master = self.make_master(sync=True, fallbehind_max=100)
        slow, fast = self.wire(master, 100), self.wire(master, 900)
        waiting = self.wait(master, 990)
        slow.say(200)
        self.assertNoResult(waiting)
        fast.say(990)
        self.assertEqual(self.successResultOf(waiting), PutStatus.OK)
        fast.gone()
        self.assertEqual(master.confirmed, 990)
        self.assertEqual(self.successResultOf(self.wait(master, 1000)), PutStatus.SLAVE_NOT_AVAILABLE)

    def test_timeout(self) -> None:
        """Who has waited 3 s is told so, each in its time, by one timer."""
        master = self.make_master(sync=True)
        slave = self.wire(master, 900)
        before = len(self.clock.getDelayedCalls())
        first = self.wait(master, 950)
        self.clock.advance(1)
        second = self.wait(master, 1000)
        self.assertEqual(len(self.clock.getDelayedCalls()), before + 1)
        self.clock.advance(1.9)
        self.assertNoResult(first)
        self.clock.advance(0.1)
        self.assertEqual(self.successResultOf(first), PutStatus.FLUSH_SLAVE_TIMEOUT)
        self.assertNoResult(second)
        self.clock.advance(1)
        self.assertEqual(self.successResultOf(second), PutStatus.FLUSH_SLAVE_TIMEOUT)
        slave.say(1000)
        self.assertIsNone(master.durable(1000))

    def test_slave_comes_back(self) -> None:
        """When the last slave is lost, sends wait on for it; when it is back in time they are told OK."""
        master = self.make_master(sync=True)
        slave = self.wire(master, 900)
        first, second = self.wait(master, 950), self.wait(master, 1000)
        slave.gone()
        self.assertNoResult(first)
        self.clock.advance(2)
        self.wire(master, 960)
        self.assertEqual(self.successResultOf(first), PutStatus.OK)
        self.clock.advance(1)
        self.assertEqual(self.successResultOf(second), PutStatus.FLUSH_SLAVE_TIMEOUT)

    def test_began_later(self) -> None:
        """A slave that began empty confirms nothing that lies before the file it began with, back again or not."""
        master = self.make_master(sync=True)  # the last file begins at 800
        old = self.wire(master, 700)
        early, late = self.wait(master, 790), self.wait(master, 1000)
        new = self.wire(master, 0)
        new.say(1000)
        self.assertNoResult(early)
        self.assertEqual(self.successResultOf(late), PutStatus.OK)
        self.assertIsNone(master.durable(1000))
        again = self.wait(master, 795)
        new.gone()
        self.wire(master, 1000)
        self.assertNoResult(early)
        self.clock.advance(2)
        old.say(790)
        self.assertEqual(self.successResultOf(early), PutStatus.OK)
        self.assertNoResult(again)
        self.clock.advance(1)
        self.assertEqual(self.successResultOf(again), PutStatus.FLUSH_SLAVE_TIMEOUT)

    def test_comes_back_beside_empty(self) -> None:
        """Where no slave began empty behind what is waited for, one that comes back confirms all that it reports."""
        master = self.make_master(sync=True)
        old = self.wire(master, 820)
        self.wire(master, 0)  # it begins at 800
        waiting = self.wait(master, 990)
        old.gone()
        self.wire(master, 990)
        self.assertEqual(self.successResultOf(waiting), PutStatus.OK)

    def test_cancelled(self) -> None:
        """Who gave up waiting is passed over."""
        master = self.make_master(sync=True)
        slave = self.wire(master, 900)
        first, second, third = (self.wait(master, end) for end in (950, 960, 1000))
        for one in (first, third):
            one.addErrback(lambda failure: None)
            one.cancel()
        slave.say(960)
        self.assertEqual(self.successResultOf(second), PutStatus.OK)
        self.clock.advance(3)

    def test_stop(self) -> None:
        """Who still waits when all ends is told so, and no timer is left."""
        master = self.make_master(sync=True)
        slave = self.wire(master, 900)
        again: list[Any] = []
        waiting = self.wait(master, 1000)
        waiting.addCallback(lambda status: again.append((status, self.wait(master, 1000))))
        slave.gone()
        self.successResultOf(master.stopService())
        ((status, after),) = again
        self.assertEqual(status, PutStatus.FLUSH_SLAVE_TIMEOUT)
        self.assertEqual(self.successResultOf(after), PutStatus.SLAVE_NOT_AVAILABLE)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_empty_log(self) -> None:
        """A master without a message has slaves, too, and its first message is waited for."""
        log = FakeLog()
        master = self.make_master(log, sync=True)
        slave = self.wire(master, 0)
        slave.take()
        log.append(b"first")
        waiting = self.wait(master, 5)
        self.assertEqual(pieces(slave.take()), [(0, b"first")])
        slave.say(5)
        self.assertEqual(self.successResultOf(waiting), PutStatus.OK)
