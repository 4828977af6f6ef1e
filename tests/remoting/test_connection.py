"""The life of one connection, its calls, and its limits."""

from __future__ import annotations

import itertools
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address, UNIXAddress
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.errors import BadFrameLength, CallFailed, CallTimedOut, NotConnected, PeerTooSlow
from smartgo.net.endpoints import peer_address
from smartgo.net.limits import Limits
from smartgo.net.states import State
from smartgo.remoting.interfaces import IConnectionListener, IPeer
from smartgo.remoting.listeners import ListenerMux
from smartgo.schema.command import Command, encode
from tests.remoting.doubles import ECHO, LATE, Accepted, Doing, Hearing, Lates, echo, request

KIB, MIB = 1 << 10, 1 << 20
DONE = Failure(ConnectionDone())


class StatesTests(SynchronousTestCase):
    """A life, in whatever order things happen."""

    def test_every_sequence(self) -> None:
        """
        Whatever happens in whatever order: active first, then exactly one of disconnected and closed, last of all;
        the owner hears once that it leaves and once that it ended, and no timer is left.
        """
        happenings = {
            "frame": lambda one: one.hear(request()),
            "close": lambda one: one.connection.close("test"),
            "fail": lambda one: one.connection.link.fail(Failure(BadFrameLength(1, 2, 3))),
            "drain": lambda one: one.connection.link.drain(),
            "abort": lambda one: one.connection.link.abort(),
            "give up": lambda one: one.connection.link.give_up(),
            "lost": lambda one: one.protocol.connectionLost(DONE),
            "turn": lambda one: one.turn(),
            "idle": lambda one: one.clock.pump([1] * 130),
        }
        for names in itertools.product(happenings, repeat=3):
            accepted = Accepted([echo()])
            for name in names:
                happenings[name](accepted)
            accepted.protocol.connectionLost(DONE)
            events = accepted.hearing.events
            self.assertEqual(events[0], "active", names)
            self.assertIn(events[-1], ("disconnected", "closed"), names)
            self.assertEqual(sum(one in ("disconnected", "closed") for one in events), 1, names)
            self.assertLessEqual(events.count("first_frame"), 1, names)
            self.assertEqual((accepted.owner.left, accepted.owner.gone), (1, 1), names)
            self.assertEqual(accepted.clock.getDelayedCalls(), [], names)
            self.assertFalse(accepted.connection.open)


class EventTests(SynchronousTestCase):
    """The events of listeners."""

    def test_lost(self) -> None:
        """A client comes, speaks and goes: active, first_frame once, disconnected with the reason."""
        accepted = Accepted([echo()])
        self.assertEqual(accepted.hearing.events, ["active"])
        accepted.hear(request())
        accepted.hear(request())
        accepted.protocol.connectionLost(DONE)
        self.assertEqual(accepted.hearing.events, ["active", "first_frame", "disconnected"])
        self.assertEqual(accepted.hearing.heard[-1], ("disconnected", accepted.connection, DONE))

    def test_closed(self) -> None:
        """A connection that we end is reported closed, once it is gone."""
        accepted = Accepted()
        accepted.connection.close("because")
        self.assertEqual((accepted.hearing.events, accepted.connection.open), (["active"], False))
        self.assertTrue(accepted.wire.disconnecting)
        accepted.protocol.connectionLost(DONE)
        self.assertEqual(accepted.hearing.events, ["active", "closed"])

    def test_failed(self) -> None:
        """A broken stream is reported failed, then closed when it is gone."""
        accepted = Accepted()
        accepted.protocol.dataReceived(b"GET / HTTP/1.1\r\n")
        self.assertEqual(accepted.hearing.events, ["active", "failed"])
        self.assertTrue(accepted.hearing.heard[1][2].check(BadFrameLength))
        accepted.protocol.connectionLost(DONE)
        self.assertEqual(accepted.hearing.events, ["active", "failed", "closed"])
        self.assertEqual(accepted.counts.broken, 1)

    def test_closed_by_listener(self) -> None:
        """A listener may turn a peer away when it comes."""

        class Refusing(Hearing):
            def active(self, peer: IPeer) -> None:
                super().active(peer)
                peer.close("no")

        accepted = Accepted([echo()])
        hearing = Refusing()
        accepted.connection._listener = hearing
        accepted.protocol.state = State.OPEN
        accepted.connection._tell("active")
        self.assertTrue(accepted.wire.disconnecting)
        accepted.hear(request())
        self.assertEqual((accepted.wire.writes, hearing.events), ([], ["active"]))

    def test_failing_listener(self) -> None:
        """A listener that raises is logged; the connection and the other listeners go on."""

        class Failing(Hearing):
            def first_frame(self, peer: IPeer) -> None:
                raise ZeroDivisionError

        accepted = Accepted([echo()])
        other = Hearing()
        audience = ListenerMux([Failing()])
        audience.add(other)
        verifyObject(IConnectionListener, audience)
        accepted.connection._listener = audience
        accepted.hear(request())
        self.assertEqual((len(accepted.answers()), other.events), (1, ["first_frame"]))
        accepted.connection._listener = Failing()
        accepted.connection._tell("first_frame")
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 2)

    def test_audience(self) -> None:
        """An audience passes every event on, details included."""
        hearing = Hearing()
        audience = ListenerMux([hearing])
        peer: Any = object()
        for event, details in (
            ("active", ()), ("connected", ()), ("first_frame", ()), ("idle", (120.0,)), ("disconnected", (DONE,)),
            ("closed", ()), ("failed", (DONE,)),
        ):  # fmt: skip
            getattr(audience, event)(peer, *details)
            self.assertEqual(hearing.heard[-1], (event, peer, *details))


class PeerTests(SynchronousTestCase):
    """The processors' view of a connection."""

    def test_interface(self) -> None:
        """A connection is a peer."""
        accepted = Accepted()
        self.assertTrue(verifyObject(IPeer, accepted.connection))
        self.assertIn("10.1.2.3:5000", repr(accepted.connection))

    def test_addresses(self) -> None:
        """Addresses come as host:port, as IP alone and as records store them; mapped IPv4 is IPv4."""
        for address, expected in (
            (IPv4Address("TCP", "10.1.2.3", 5000), ("10.1.2.3:5000", "10.1.2.3", "0a01020300001388")),
            (IPv6Address("TCP", "::1", 5000), ("[::1]:5000", "::1", "00" * 15 + "0100001388")),
            (IPv6Address("TCP", "::ffff:10.1.2.3", 5000), ("10.1.2.3:5000", "10.1.2.3", "0a01020300001388")),
            (IPv6Address("TCP", "fe80::1%eth0", 1), ("[fe80::1]:1", "fe80::1", "fe80" + "00" * 13 + "0100000001")),
            (UNIXAddress(b"/x"), ("127.0.0.1:0", "127.0.0.1", "7f00000100000000")),
        ):
            name, ip, host = peer_address(address)
            self.assertEqual((name, ip, host.hex()), expected)
        connection = Accepted(peer=IPv6Address("TCP", "::ffff:10.1.2.3", 5000)).connection
        self.assertEqual((connection.address, connection.ip), ("10.1.2.3:5000", "10.1.2.3"))
        self.assertEqual((connection.host.hex(), connection.local_port), ("0a01020300001388", 10911))

    def test_tell(self) -> None:
        """Telling sends a one-way request at the end of the turn, and nothing once the connection has ended."""
        accepted = Accepted()
        accepted.connection.tell(Command.request(40))
        accepted.connection.tell(Command.request(40))
        self.assertEqual(accepted.wire.writes, [])
        accepted.turn()
        self.assertEqual(len(accepted.wire.writes), 1)
        told = accepted.answers()
        self.assertEqual([(one.code, one.flag) for one in told], [(40, 2), (40, 2)])
        self.assertNotEqual(told[0].opaque, told[1].opaque)
        accepted.connection.close("test")
        accepted.connection.tell(Command.request(40))
        accepted.turn()
        self.assertEqual(accepted.wire.writes, [])

    def test_told_before_closing(self) -> None:
        """What was told before closing is still sent."""
        accepted = Accepted()
        accepted.connection.tell(Command.request(40))
        accepted.connection.close("test")
        self.assertEqual([one.code for one in accepted.answers()], [40])
        self.assertTrue(accepted.wire.disconnecting)

    def test_ask(self) -> None:
        """An answer finds its call by the opaque; the peer's own opaques are another space."""
        accepted = Accepted([echo()])
        first = accepted.connection.ask(Command.request(307), 3.0)
        second = accepted.connection.ask(Command.request(307), 3.0)
        accepted.turn()
        asked = accepted.answers()
        self.assertEqual([one.opaque for one in asked], [0, 1])
        accepted.hear(request(ECHO, 0), asked[1].answer(code=206, remark="no"), asked[0].answer(body=b"x"))
        self.assertEqual(self.successResultOf(first).body, b"x")
        self.assertEqual(self.successResultOf(second).code, 206)
        accepted.connection.link.abort()
        accepted.protocol.connectionLost(DONE)
        self.assertEqual(accepted.clock.getDelayedCalls(), [])

    def test_ask_times_out(self) -> None:
        """A call without answer fails at its deadline, not before; an answer after it is dropped and counted."""
        accepted = Accepted()
        slow = accepted.connection.ask(Command.request(307), 5.0)
        fast = accepted.connection.ask(Command.request(307), 2.5)
        accepted.turn()
        asked = accepted.answers()
        accepted.clock.advance(2.4)
        self.assertNoResult(fast)
        accepted.clock.advance(0.1)
        error = self.failureResultOf(fast, CallTimedOut).value
        self.assertEqual(error.timeout, 2.5)
        self.assertIn("307", str(error))
        self.assertNoResult(slow)
        accepted.hear(asked[1].answer())
        self.assertEqual(accepted.counts.unasked, 1)
        accepted.hear(asked[0].answer())
        self.successResultOf(slow)
        self.assertTrue(accepted.connection.open)

    def test_ask_cancelled(self) -> None:
        """A cancelled call is forgotten; its answer is dropped."""
        accepted = Accepted()
        answer = accepted.connection.ask(Command.request(307), 5.0)
        accepted.turn()
        answer.cancel()
        self.failureResultOf(answer)
        accepted.hear(accepted.answers()[0].answer())
        self.assertEqual((accepted.counts.unasked, len(accepted.connection.calls)), (1, 0))

    def test_ask_lost(self) -> None:
        """Calls fail when the connection ends, and at once when it has ended."""
        accepted = Accepted()
        answer = accepted.connection.ask(Command.request(307), 5.0)
        accepted.protocol.connectionLost(DONE)
        self.assertIn("10.1.2.3:5000", str(self.failureResultOf(answer, NotConnected).value))
        self.failureResultOf(accepted.connection.ask(Command.request(307), 5.0), NotConnected)
        accepted.turn()
        self.assertEqual(accepted.clock.getDelayedCalls(), [])

    def test_ask_too_many(self) -> None:
        """Calls beyond the limit fail at once."""
        accepted = Accepted(limits=Limits(calls=2))
        answers = [accepted.connection.ask(Command.request(307), 5.0) for _ in range(3)]
        self.assertNoResult(answers[1])
        self.failureResultOf(answers[2], CallFailed)

    def test_unknown_opaque(self) -> None:
        """An answer that nobody asked for is dropped."""
        accepted = Accepted()
        accepted.hear(request(ECHO, 77).answer())
        self.assertEqual((accepted.counts.unasked, accepted.wire.writes), (1, []))
        self.assertTrue(accepted.connection.open)


class BackPressureTests(SynchronousTestCase):
    """L13: a peer that does not take its answers."""

    def answering(self, size: int, **limits: Any) -> tuple[Accepted, Doing]:
        """A peer that takes nothing, and answers of this size."""
        processor = Doing(ECHO, lambda _, asked: encode(asked.answer(body=bytes(size))))
        accepted = Accepted([processor], limits=Limits(**limits))
        accepted.wire.full = True
        return accepted, processor

    def test_stops_in_a_run(self) -> None:
        """With 1 MiB unsent no further request of the same read is taken, and nothing more is read."""
        accepted, processor = self.answering(256 * KIB)
        accepted.hear(*(request(ECHO, number) for number in range(100)))
        self.assertEqual((len(processor.seen), processor.runs), (4, [4]))
        self.assertFalse(accepted.wire.reading)
        self.assertGreater(accepted.connection.unsent, MIB)
        self.assertLess(accepted.connection.unsent, 2 * MIB)

    def test_resumes(self) -> None:
        """It goes on at 256 KiB, with the requests that waited and then with reading; all are answered in order."""
        accepted, processor = self.answering(256 * KIB)
        accepted.hear(*(request(ECHO, number) for number in range(10)))
        seen = [len(processor.seen)]
        for _ in range(40):
            if accepted.connection.unsent == 0:
                break
            paused = not accepted.wire.reading
            accepted.wire.drained()
            if paused and accepted.connection.unsent > 256 * KIB:
                accepted.turn()
                self.assertEqual(len(processor.seen), seen[-1])
                self.assertFalse(accepted.wire.reading)
            accepted.turn()
            seen.append(len(processor.seen))
        self.assertEqual([answer.opaque for answer in accepted.answers()], list(range(10)))
        self.assertTrue(accepted.wire.reading)
        self.assertEqual(sorted(set(seen)), [4, 8, 10])

    def test_quick_peer(self) -> None:
        """A peer that takes everything is never paused, however much a read asks for."""
        accepted, processor = self.answering(256 * KIB)
        accepted.wire.full = False
        accepted.hear(*(request(ECHO, number) for number in range(100)))
        accepted.turns()
        self.assertEqual((len(processor.seen), accepted.wire.reading), (100, True))
        self.assertGreater(len(accepted.wire.writes), 1)

    def test_memory(self) -> None:
        """Answers in pieces are copied when written, so that nothing of a mapped file is kept for a slow peer."""
        view = memoryview(bytearray(encode(request().answer(body=bytes(100)))))
        accepted = Accepted([Doing(ECHO, lambda *_: [view[:20], view[20:]])])
        accepted.wire.full = True
        accepted.hear(request(), request())
        self.assertEqual(accepted.connection.link.out, [])
        self.assertEqual(type(accepted.wire.writes[0]), bytes)

    def test_late_answers(self) -> None:
        """Late answers and notices are counted too; reading pauses when they pass 1 MiB."""
        lates = Lates()
        accepted = Accepted([Doing(LATE, lates)])
        accepted.wire.full = True
        accepted.hear(*(request(LATE, number, bytes(300 * KIB)) for number in range(5)))
        for _ in range(5):
            lates.fire()
        accepted.turn()
        self.assertFalse(accepted.wire.reading)

    def test_a_minute(self) -> None:
        """More than 1 MiB unsent for 60 s ends the connection."""
        accepted, _ = self.answering(256 * KIB)
        accepted.hear(*(request(ECHO, number) for number in range(10)))
        accepted.clock.pump([1] * 59)
        self.assertTrue(accepted.connection.open)
        accepted.clock.pump([1] * 4)
        self.assertEqual((accepted.connection.open, accepted.wire.aborted), (False, True))
        self.assertTrue(accepted.hearing.heard[-1][2].check(PeerTooSlow))
        self.assertEqual(accepted.counts.slow, 1)

    def test_slowly(self) -> None:
        """A peer that keeps getting below 1 MiB within 60 s stays."""
        accepted, _ = self.answering(256 * KIB)
        accepted.hear(*(request(ECHO, number) for number in range(50)))
        for _ in range(5):
            accepted.clock.pump([1] * 50)
            for _ in range(8):
                accepted.wire.drained()
                accepted.turn()
        self.assertTrue(accepted.connection.open)

    def test_far_too_much(self) -> None:
        """More than 32 MiB unsent ends the connection at once, and the memory is free."""
        lates = Lates()
        accepted = Accepted([Doing(LATE, lates)])
        accepted.wire.full = True
        accepted.hear(*(request(LATE, number, bytes(4 * MIB)) for number in range(10)))
        for _ in range(7):
            lates.fire()
        accepted.turn()
        self.assertTrue(accepted.connection.open)
        lates.fire()
        accepted.turn()
        self.assertEqual(
            (accepted.connection.open, accepted.wire.aborted, accepted.connection.unsent), (False, True, 0)
        )
        lates.fire()
        accepted.turn()
        self.assertEqual((accepted.connection.unsent, accepted.connection.link.out), (0, []))


class TimeTests(SynchronousTestCase):
    """L9 to L11."""

    def ended(self, accepted: Accepted, seconds: int) -> bool:
        """Let this time pass; whether the connection was ended."""
        accepted.clock.pump([1] * seconds)
        return not accepted.connection.open

    def test_first_frame(self) -> None:
        """A client that has not sent a whole frame after 10 s is cut (L9), with or without half a frame."""
        for data in (b"", b"\0\0"):
            accepted = Accepted()
            accepted.protocol.dataReceived(data) if data else None
            self.assertFalse(self.ended(accepted, 9))
            self.assertTrue(self.ended(accepted, 2))
            self.assertTrue(accepted.wire.aborted)
            self.assertEqual(accepted.hearing.events, ["active", "failed"])

    def test_long_first_frame(self) -> None:
        """A first frame of 4 MiB over a line of 3 Mbit/s takes 11 s and is answered (L9)."""
        accepted = Accepted([Doing(ECHO, lambda _, asked: asked.answer(body=b"%d" % len(asked.body)))])
        data = encode(request(body=bytes(4 * MIB)))
        step = 3_000_000 // 8
        for start in range(0, len(data), step):
            self.assertFalse(self.ended(accepted, 1), start)
            accepted.protocol.dataReceived(data[start : start + step])
        self.assertGreater(accepted.clock.seconds(), 11)
        self.assertEqual([one.body for one in accepted.answers()], [b"%d" % (4 * MIB)])

    def test_slow_first_frame(self) -> None:
        """A first frame that comes slower than 16 KiB/s, at once or after a good beginning, is cut (L9)."""
        for good, rest, seconds in ((0, 15 * KIB, 11), (12, 15 * KIB, 31), (12, 1, 21)):
            accepted = Accepted()
            accepted.protocol.dataReceived(b"\0\xff\xff\xff")
            while accepted.connection.open:
                self.assertLess(accepted.clock.seconds(), 60)
                accepted.protocol.dataReceived(bytes(40 * KIB if accepted.clock.seconds() < good else rest))
                accepted.clock.advance(1)
            self.assertLessEqual(accepted.clock.seconds(), seconds)
            self.assertTrue(accepted.wire.aborted)

    def test_idle(self) -> None:
        """A connection on which nothing happens for 120 s hears idle and is closed (L11)."""
        accepted = Accepted([echo()])
        accepted.hear(request())
        self.assertFalse(self.ended(accepted, 119))
        self.assertTrue(self.ended(accepted, 3))
        self.assertEqual(accepted.hearing.events, ["active", "first_frame", "idle"])
        self.assertGreaterEqual(accepted.hearing.heard[-1][2], 120)
        self.assertEqual(accepted.counts.idle, 1)
        accepted.protocol.connectionLost(DONE)
        self.assertEqual(accepted.hearing.events[-1], "closed")

    def test_not_idle(self) -> None:
        """Reading or writing alone keeps a connection from being idle."""
        reads = Accepted([Doing(ECHO, lambda *_: None)])
        writes = Accepted()
        writes.hear(request())
        for _ in range(4):
            reads.hear(request())
            writes.connection.tell(Command.request(40))
            self.assertFalse(self.ended(reads, 100))
            self.assertFalse(self.ended(writes, 100))

    def test_partial(self) -> None:
        """A frame that grows by less than 1 KiB/s over 30 s ends the connection (L10)."""
        accepted = Accepted([echo()])
        accepted.hear(request())
        accepted.protocol.dataReceived(b"\0\0\xff\xff")
        for _ in range(29):
            accepted.protocol.dataReceived(bytes(1000))
            self.assertFalse(self.ended(accepted, 1))
        self.assertTrue(self.ended(accepted, 4))
        self.assertTrue(accepted.wire.aborted)
        self.assertTrue(accepted.hearing.heard[-1][2].check(PeerTooSlow))

    def test_partial_after_silence(self) -> None:
        """A frame that is begun after a while is watched from then on."""
        accepted = Accepted([echo()])
        accepted.hear(request())
        self.assertFalse(self.ended(accepted, 60))
        accepted.protocol.dataReceived(b"\0\0\xff\xff")
        self.assertFalse(self.ended(accepted, 29))
        self.assertTrue(self.ended(accepted, 4))

    def test_partial_growing(self) -> None:
        """A frame that grows by more than that may take as long as it needs."""
        accepted = Accepted([echo()])
        accepted.hear(request())
        frame = encode(request(ECHO, 2, bytes(200 * KIB)))
        for at in range(0, len(frame), 1200):
            accepted.protocol.dataReceived(frame[at : at + 1200])
            self.assertFalse(self.ended(accepted, 1))
        self.assertEqual([answer.opaque for answer in accepted.answers()], [1, 2])

    def test_partial_again_and_again(self) -> None:
        """A stream whose reads always end within a frame is not slow: each time it is another frame."""
        accepted = Accepted([echo()])
        frame = encode(request())
        accepted.protocol.dataReceived(frame[:10])
        for _ in range(100):
            accepted.protocol.dataReceived(frame[10:] + frame[:10])
            self.assertFalse(self.ended(accepted, 1))

    def test_paused_is_not_partial(self) -> None:
        """While we do not read it is not the peer's fault that a frame does not grow."""
        lates = Lates()
        accepted = Accepted([Doing(LATE, lates)], limits=Limits(in_flight=1))
        accepted.protocol.dataReceived(encode(request(LATE, 1)) + b"\0\0\1\0")
        self.assertFalse(self.ended(accepted, 100))
        lates.fire()
        self.assertFalse(self.ended(accepted, 20))

    def test_linger(self) -> None:
        """A connection that we close and that does not go is cut after 3 s."""
        accepted = Accepted([echo()])
        accepted.hear(request())
        accepted.connection.close("test")
        accepted.clock.pump([1] * 2)
        self.assertFalse(accepted.wire.aborted)
        accepted.clock.pump([1] * 2)
        self.assertTrue(accepted.wire.aborted)

    def test_one_timer(self) -> None:
        """Any number of connections have one timer together."""
        first = Accepted()
        for _ in range(50):
            Accepted(clock=first.clock, sweeper=first.sweeper)
        self.assertEqual(len(first.clock.getDelayedCalls()), 1)


class DrainTests(SynchronousTestCase):
    """Ending politely."""

    def test_answers_first(self) -> None:
        """Draining takes no more requests, answers those in flight, then closes."""
        lates = Lates()
        accepted = Accepted([Doing(LATE, lates), echo()])
        accepted.hear(request(LATE, 1), request(LATE, 2))
        accepted.connection.link.drain()
        accepted.hear(request(ECHO, 3))
        lates.fire()
        accepted.turn()
        self.assertTrue(accepted.connection.open)
        self.assertFalse(accepted.wire.reading)
        lates.fire()
        accepted.turn()
        self.assertEqual([answer.opaque for answer in accepted.answers()], [1, 2])
        self.assertEqual((accepted.connection.open, accepted.wire.disconnecting), (False, True))

    def test_give_up(self) -> None:
        """Those that are not answered in time are answered 14; a later answer is dropped."""
        lates = Lates()
        accepted = Accepted([Doing(LATE, lates)])
        accepted.hear(request(LATE, 1), request(LATE, 2))
        accepted.connection.link.drain()
        accepted.connection.link.give_up()
        self.assertEqual([(answer.code, answer.opaque) for answer in accepted.answers()].count((14, 1)), 1)
        self.assertTrue(accepted.wire.disconnecting)
        lates.fire()
        accepted.turn()
        self.assertEqual(accepted.wire.writes, [])

    def test_slow_reader(self) -> None:
        """What is unsent when draining ends still goes out, as far as the peer takes it."""
        accepted = Accepted([Doing(ECHO, lambda _, asked: asked.answer(body=bytes(MIB)))])
        accepted.wire.full = True
        accepted.hear(request(ECHO, 1))
        accepted.connection.link.drain()
        accepted.turn()
        self.assertFalse(accepted.wire.disconnecting)
        while accepted.wire.producer is not None:
            accepted.wire.drained()
        self.assertEqual([answer.opaque for answer in accepted.answers()], [1])
        self.assertTrue(accepted.wire.disconnecting)
