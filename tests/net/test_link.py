"""Tests of L{smartgo.net.link} with a session that knows no frames; those of remoting test the rest."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, cast

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.errors import FramingError
from smartgo.ha.feed import Feed, Refused
from smartgo.ha.stream import Stream
from smartgo.net.limits import NEVER, SERVER, Limits
from smartgo.net.link import IN_FLIGHT, Link
from smartgo.net.session import OVER, ISession, NullSession
from smartgo.net.states import State
from tests.remoting.doubles import Accepted, Owning, Wire, sweeper_of

DONE = Failure(ConnectionDone())


class Telling(NullSession):
    """
    A session that remembers what it is told.

    @ivar told: the names of the calls, in order.
    @ivar heard: all bytes that came.
    @ivar waits: how many units wait for their turn.
    @ivar unfinished: what C{busy} says.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.told: list[str] = []
        self.heard = b""
        self.waits = 0
        self.unfinished = False
        self.stays = False

    def connected(self) -> None:
        """Remember."""
        self.told.append("connected")

    def opened(self) -> None:
        """Remember."""
        self.told.append("opened")

    def received(self, data: bytes) -> None:
        """Remember; C{bad} is no unit, C{bug} a bug."""
        self.heard += data
        if data == b"bad":
            raise FramingError("it is bad")
        if data == b"bug":
            raise ZeroDivisionError

    def turn(self) -> int:
        """Process one unit."""
        self.told.append("turn")
        self.waits -= 1
        if not self.waits:
            self.link.unblock(4)
        return 1

    def writable(self) -> None:
        """Remember."""
        self.told.append("writable")

    def busy(self) -> bool:
        """As told."""
        return self.unfinished

    def draining(self) -> None:
        """Remember."""
        self.told.append("draining")

    def give_up(self) -> None:
        """Remember, and say a last word."""
        self.told.append("give up")
        self.link.put(b"sorry")

    def ending(self) -> None:
        """Remember."""
        self.told.append("ending")

    def failed(self, failure: Failure) -> bool:
        """Remember."""
        self.told.append("failed")
        return False

    def idle(self, seconds: float) -> bool:
        """Remember."""
        self.told.append("idle")
        return self.stays

    def lost(self, reason: Failure) -> None:
        """Remember."""
        self.told.append("lost")


class LinkCase(SynchronousTestCase):
    """With links on wires."""

    def make(self, limits: Limits = SERVER, dial: str = "") -> tuple[Link, Telling, Wire]:
        """Return a link that is not connected, its session, and a wire for it."""
        self.clock = Clock()
        self.sweeper = sweeper_of(self.clock)
        self.owner = Owning()
        link = Link(Telling, limits, self.sweeper, self.owner, dial=dial)
        return link, cast("Telling", link.session), Wire()

    def connect(self, limits: Limits = SERVER) -> tuple[Link, Telling, Wire]:
        """Return one that is connected."""
        link, session, wire = self.make(limits)
        link.makeConnection(wire)
        return link, session, wire


class LifeTests(LinkCase):
    """From its beginning to its end."""

    def test_accepted(self) -> None:
        """An accepted link is open as soon as it is connected, where there is no TLS; its end is told once."""
        link, session, wire = self.make()
        self.assertIs(link.state, State.HANDSHAKING)
        link.makeConnection(wire)
        self.assertEqual((link.state, session.told), (State.OPEN, ["connected", "opened"]))
        self.assertEqual((link.address, link.local_port), ("10.1.2.3:5000", 10911))
        link.dataReceived(b"hello")
        self.assertEqual((session.heard, link.chunks), (b"hello", 1))
        link.connectionLost(DONE)
        self.assertEqual((link.state, session.told[2:]), (State.LOST, ["ending", "lost"]))
        self.assertIs(link.session, OVER)
        self.assertEqual((self.owner.left, self.owner.gone, self.clock.getDelayedCalls()), (1, 1, []))

    def test_put_early(self) -> None:
        """What is put before the transport is there leaves when it is."""
        link, session, wire = self.make(dial="10.9.9.9:80")
        self.assertIs(link.state, State.DIALLING)
        link.put(b"early")
        self.clock.advance(0)
        link.put(b" too")
        link.makeConnection(wire)
        self.clock.advance(0)
        self.assertEqual(b"".join(wire.writes), b"early too")
        self.assertEqual((link.address, session.told), ("10.9.9.9:80", ["connected", "opened"]))
        link.connectionLost(DONE)

    def test_never_reached(self) -> None:
        """A dialled link whose peer is not there is lost."""
        link, session, _ = self.make(dial="10.9.9.9:80")
        self.assertFalse(link.reached)
        link.missed(Failure(ConnectionRefusedError()))
        self.assertEqual((link.state, session.told), (State.LOST, ["ending", "lost"]))
        self.assertEqual((self.owner.gone, self.clock.getDelayedCalls()), (1, []))

    def test_closed_while_dialling(self) -> None:
        """A link that is closed while it is being dialled is cut when it comes up."""
        link, session, wire = self.make(dial="10.9.9.9:80")
        link.end()
        link.makeConnection(wire)
        self.assertTrue(wire.aborted)
        link.connectionLost(DONE)
        self.assertEqual((link.state, session.told), (State.CLOSED, ["ending", "connected", "lost"]))

    def test_last_words(self) -> None:
        """What was put before the end is sent; what comes after it is not taken."""
        link, session, wire = self.connect()
        link.put(b"bye")
        link.close("test")
        self.assertEqual((wire.writes, wire.disconnecting, link.state), ([b"bye"], True, State.CLOSING))
        link.dataReceived(b"more")
        self.assertEqual(session.heard, b"")
        link.connectionLost(DONE)
        self.assertIs(link.state, State.CLOSED)

    def test_cut(self) -> None:
        """A peer that does not let a closed link go is cut after a while."""
        link, _, wire = self.connect(Limits(linger=3.0))
        link.close("test")
        self.clock.pump([1.0] * 2)
        self.assertFalse(wire.aborted)
        self.clock.pump([1.0] * 2)
        self.assertTrue(wire.aborted)
        link.connectionLost(DONE)

    def test_hold(self) -> None:
        """A link that is held neither reads nor writes, until it is aborted."""
        link, session, wire = self.connect()
        link.hold()
        link.put(b"never sent")
        link.dataReceived(b"never heard")
        self.clock.pump([1.0] * 200)
        self.assertEqual((wire.writes, session.heard, wire.reading, wire.aborted), ([], b"", False, False))
        link.abort()
        self.assertTrue(wire.aborted)
        link.connectionLost(DONE)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_broken(self) -> None:
        """A broken stream and a bug of the session end the link; the peer's fault is a warning, ours a failure."""
        for said, failures in ((b"bad", 0), (b"bug", 1)):
            link, session, wire = self.connect()
            link.dataReceived(said)
            self.assertEqual((link.state, wire.disconnecting), (State.CLOSING, True))
            self.assertEqual(session.told[2:], ["failed", "ending"])
            self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), failures)
            self.assertEqual(self.owner.counts.broken, 1 - failures)
            link.connectionLost(DONE)

    def test_every_sequence(self) -> None:
        """Whatever happens in whatever order, the end is told once, last of all, and nothing is left behind."""
        happenings: dict[str, Callable[[Link], Any]] = {
            "bytes": lambda link: link.dataReceived(b"x"),
            "bad": lambda link: link.dataReceived(b"bad"),
            "block": lambda link: link.block(IN_FLIGHT),
            "unblock": lambda link: link.unblock(IN_FLIGHT),
            "put": lambda link: link.put(b"x"),
            "drain": lambda link: link.drain(),
            "give up": lambda link: link.give_up(),
            "close": lambda link: link.close("test"),
            "hold": lambda link: link.hold(),
            "abort": lambda link: link.abort(),
            "lost": lambda link: link.connectionLost(DONE),
            "turn": lambda link: self.clock.advance(0),
        }
        for names in itertools.product(happenings, repeat=3):
            link, session, _ = self.connect()
            for name in names:
                happenings[name](link)
            link.connectionLost(DONE)
            self.assertEqual((session.told.count("ending"), session.told.count("lost")), (1, 1), names)
            self.assertEqual(session.told[-1], "lost", names)
            self.assertEqual((self.owner.left, self.owner.gone), (1, 1), names)
            self.assertEqual((self.clock.getDelayedCalls(), self.sweeper.budget.used), ([], 0), names)


class FlowTests(LinkCase):
    """The reading from the peer."""

    def test_block(self) -> None:
        """It is read again when the last reason is gone, at the end of the turn."""
        link, _, wire = self.connect()
        link.block(IN_FLIGHT)
        link.block(8)
        self.assertEqual((link.state, wire.reading, link.stopped), (State.BLOCKED, False, True))
        link.unblock(IN_FLIGHT)
        self.clock.advance(0)
        self.assertFalse(wire.reading)
        link.unblock(8)
        self.assertFalse(wire.reading)
        self.clock.advance(0)
        self.assertEqual((link.state, wire.reading), (State.OPEN, True))
        link.connectionLost(DONE)

    def test_backlog(self) -> None:
        """Units that wait are processed a turn each, and nothing is read until they are."""
        link, session, wire = self.connect()
        session.waits = 3
        link.backlog()
        self.assertEqual((link.state, link.stopped), (State.BLOCKED, False))
        for turns in (1, 2):
            self.clock.calls.pop(0).func()  # alone: advancing the clock makes all turns that are due
            self.assertEqual((session.told.count("turn"), wire.reading), (turns, False))
        self.clock.advance(0)
        self.assertEqual((session.told.count("turn"), wire.reading), (3, True))
        link.connectionLost(DONE)

    def test_writable(self) -> None:
        """A session hears when its peer has taken what was unsent."""
        link, session, wire = self.connect(Limits(unsent_pause=100, unsent_resume=10))
        wire.full = True
        link.send(b"x" * 50)
        link.send(b"x" * 100)
        self.assertEqual((link.state, link.unsent, wire.reading), (State.BLOCKED, 150, False))
        self.assertNotIn("writable", session.told)
        wire.drained()
        wire.full = False
        wire.drained()
        self.assertEqual((link.unsent, session.told[-1]), (0, "writable"))
        self.clock.advance(0)
        self.assertTrue(wire.reading)
        link.connectionLost(DONE)

    def test_reads_on(self) -> None:
        """Where that is asked for, a peer is read however much it has not taken."""
        link, _, wire = self.connect(Limits(unsent_pause=100, reads_on=True))
        wire.full = True
        link.send(b"x" * 50)
        link.send(b"x" * 1000)
        self.assertEqual((link.state, wire.reading), (State.OPEN, True))
        link.connectionLost(DONE)

    def test_never_idle(self) -> None:
        """Without deadlines nothing happens to a silent peer."""
        link, session, _ = self.connect(Limits(first_frame=NEVER, idle=NEVER))
        self.clock.pump([1.0] * 500)
        self.assertEqual((link.state, session.told), (State.OPEN, ["connected", "opened"]))
        link.connectionLost(DONE)


class DrainTests(LinkCase):
    """A stop that lets the session finish."""

    def test_waits(self) -> None:
        """It ends when the session is busy no more; nothing is read meanwhile."""
        link, session, wire = self.connect()
        session.unfinished = True
        link.drain()
        self.clock.advance(0)
        self.assertEqual((link.state, wire.reading, session.told[-1]), (State.DRAINING, False, "draining"))
        session.unfinished = False
        link.put(b"done")
        self.clock.advance(0)
        self.assertEqual((wire.writes, wire.disconnecting), ([b"done"], True))
        link.connectionLost(DONE)

    def test_gives_up(self) -> None:
        """A session whose time is over has the last word."""
        link, session, wire = self.connect()
        session.unfinished = True
        link.drain()
        link.give_up()
        self.assertEqual((wire.writes, wire.disconnecting), ([b"sorry"], True))
        link.connectionLost(DONE)


class SessionTests(LinkCase):
    """Sessions."""

    def test_interface(self) -> None:
        """All sessions have what a link calls."""
        link, session, _ = self.make()
        master: Any = type("Master", (), {"clock": self.clock, "sweeper": self.sweeper})()
        end: Any = None
        sessions = (
            session, OVER, Accepted().connection, Feed(link, master, end), Refused(link, master),
            Stream(link, cast("Any", self.clock), end, lambda: None),
        )  # fmt: skip
        for one in sessions:
            self.assertTrue(verifyObject(ISession, one))
