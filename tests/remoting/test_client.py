"""Asking and telling other processes."""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionAborted
from twisted.internet.interfaces import IProtocolFactory
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import CallFailed, CallTimedOut, NotConnected
from smartgo.net.limits import CLIENT
from smartgo.remoting.client import CallSecurity, RemotingClient
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.framing import LengthFieldDecoder
from smartgo.remoting.origin import Networks
from smartgo.remoting.server import RemotingServer
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.signature import AccessKey
from tests.fakes import FakeEnvironment
from tests.remoting.doubles import LATE, Doing, Hearing, Lates, Wire, echo, pass_seconds, request, settle, sweeper_of

HERE = "127.0.0.1:10911"


class Case(SynchronousTestCase):
    """A client and a server."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.hearing = Hearing()
        self.client = RemotingClient(self.env, sweeper_of(self.env.clock), listener=self.hearing)

    def serve(self, *processors: Any) -> RemotingServer:
        """Listen where the client asks."""
        server = RemotingServer(self.env, "tcp:10911", Dispatcher(processors), sweeper_of(self.env.clock))
        server.startService()
        return server


class ClientTests(Case):
    """Over connections in memory."""

    def test_shared(self) -> None:
        """One connection is dialled by the first call and shared by all others to the same address."""
        server = self.serve(echo())
        answers = [self.client.ask(HERE, request(body=b"%d" % number)) for number in range(10)]
        settle(self.env)
        self.assertEqual([self.successResultOf(answer).body for answer in answers], [b"%d" % n for n in range(10)])
        self.assertEqual((len(server.connections), self.hearing.events), (1, ["connected", "first_frame"]))
        self.assertEqual(self.hearing.heard[0][1].address, HERE)
        self.assertEqual(self.hearing.heard[0][1].local_port, 0)

    def test_signed(self) -> None:
        """Each request is signed, whether an answer is awaited or not; one that another key has signed stays so."""
        doing = Doing(7, lambda _, request: request.answer())
        self.serve(doing)
        mine, other = AccessKey("my-key", "my-secret"), AccessKey("other-key", "other-secret")
        client = RemotingClient(self.env, sweeper_of(self.env.clock), security=CallSecurity(sign=mine.sign_unsigned))
        client.ask(HERE, Command.request(7, fields={"topic": "T"})).addErrback(lambda _: None)
        client.tell(HERE, Command.request(7, fields={"topic": "T"}))
        signed = Command.request(7, fields={"topic": "T"})
        other.sign(signed)
        client.tell(HERE, signed)
        settle(self.env)
        heard = doing.seen
        self.assertEqual([mine.signed(one) for one in heard], [True, True, False])
        self.assertTrue(other.signed(heard[2]))

    def test_reaches(self) -> None:
        """What may not be connected to is not."""
        self.serve(echo())
        networks = Networks(("192.0.2.0/24", "2001:db8::/32"))
        for reached in (
            "127.0.0.1:10911", "localhost:10911", "192.0.3.1:10911", "[::1]:10911", "2001:db8::1", "192.0.2.1@h:1",
        ):  # fmt: skip
            self.assertFalse(networks.reaches(reached))
        self.assertTrue(networks.reaches("192.0.2.1:10911"))
        self.assertTrue(networks.reaches("[2001:db8::1]:10911"))
        client = RemotingClient(self.env, sweeper_of(self.env.clock), security=CallSecurity(reaches=networks.reaches))
        why = self.failureResultOf(client.ask(HERE, request()), NotConnected).value
        self.assertEqual(str(why), f"{HERE} is not an address that this process may connect to")
        self.failureResultOf(client.tell(HERE, request()), NotConnected)
        self.assertEqual(client.connections, [])

    def test_coalesced(self) -> None:
        """Calls of one turn leave in one write."""
        self.serve(echo())
        self.client.ask(HERE, request())
        settle(self.env)
        (connection,) = self.client.connections
        written: list[bytes] = []
        connection.link.transport.write = written.append
        for _ in range(5):
            self.client.ask(HERE, request())
            self.client.tell(HERE, request())
        self.env.clock.advance(0)
        self.assertEqual(len(written), 1)
        self.assertEqual(len(LengthFieldDecoder(1 << 24).frames(written[0])), 10)

    def test_tell(self) -> None:
        """Telling sends a one-way request."""
        processor = echo()
        self.serve(processor)
        self.successResultOf(self.client.tell(HERE, request(body=b"x")))
        settle(self.env)
        self.assertEqual([(one.body, one.is_one_way) for one in processor.seen], [(b"x", True)])

    def test_unreachable(self) -> None:
        """Where nobody listens calls fail with the address in their words, and the next call tries again."""
        error = self.failureResultOf(self.client.ask(HERE, request()), NotConnected).value
        self.assertIn(f"cannot connect to {HERE}", str(error))
        self.failureResultOf(self.client.tell(HERE, request()), NotConnected)
        self.assertEqual((self.client.connections, self.hearing.events), ([], []))
        self.serve(echo())
        answer = self.client.ask(HERE, request())
        settle(self.env)
        self.successResultOf(answer)

    def test_bad_address(self) -> None:
        """What is no address cannot be reached."""
        self.failureResultOf(self.client.ask("nowhere", request()), NotConnected)
        self.failureResultOf(self.client.tell("nowhere", request()), NotConnected)

    def test_reconnects(self) -> None:
        """When a connection is lost its calls fail, and the next call dials anew."""
        server = self.serve(Doing(LATE, Lates()), echo())
        waiting = self.client.ask(HERE, request(LATE))
        settle(self.env)
        server.connections[0].link.abort()
        settle(self.env)
        self.failureResultOf(waiting, NotConnected)
        self.assertEqual((self.hearing.events[-1], self.client.connections), ("disconnected", []))
        answer = self.client.ask(HERE, request())
        settle(self.env)
        self.successResultOf(answer)
        self.assertEqual(self.hearing.events.count("connected"), 2)

    def test_asks_again_from_errback(self) -> None:
        """A call made because another was lost goes over a new connection."""
        server = self.serve(Doing(LATE, Lates()), echo())
        again: list[Deferred[Command]] = []
        waiting = self.client.ask(HERE, request(LATE))
        waiting.addErrback(lambda _: again.append(self.client.ask(HERE, request())))
        settle(self.env)
        server.connections[0].link.abort()
        settle(self.env)
        self.assertEqual(self.successResultOf(again[0]).code, 0)

    def test_hang_up(self) -> None:
        """A connection may be closed by its address; the next call dials anew."""
        self.serve(echo())
        self.client.hang_up(HERE, "there is none")
        self.client.ask(HERE, request())
        settle(self.env)
        self.client.hang_up(HERE, "test")
        self.assertEqual(self.client.connections, [])
        answer = self.client.ask(HERE, request())
        settle(self.env)
        self.successResultOf(answer)
        self.assertEqual(self.hearing.events.count("closed"), 1)

    def test_idle(self) -> None:
        """A connection on which nothing happens for 120 s is closed by the client, and dialled anew when needed."""
        server = self.serve(echo())
        self.client.ask(HERE, request())
        settle(self.env)
        server.limits = CLIENT
        self.client.connections[0].link._limits = CLIENT
        for connection in server.connections:  # a server that is more patient than the client
            connection.link._deadlines.moved_at = connection.link._deadlines.heard_at = 1000.0
        pass_seconds(self.env, 125)
        self.assertEqual(self.hearing.events[-2:], ["idle", "closed"])
        self.assertEqual((server.connections, self.env.clock.getDelayedCalls()), ([], []))
        answer = self.client.ask(HERE, request())
        settle(self.env)
        self.successResultOf(answer)

    def test_many_addresses(self) -> None:
        """Each address has its own connection, and its own opaques."""
        self.serve(echo())
        other = RemotingServer(self.env, "tcp:10921", Dispatcher([echo()]), sweeper_of(self.env.clock))
        other.startService()
        answers = [self.client.ask(f"127.0.0.1:{port}", request(body=b"%d" % port)) for port in (10911, 10921)]
        settle(self.env)
        self.assertEqual([self.successResultOf(answer).body for answer in answers], [b"10911", b"10921"])
        self.assertEqual(len(self.client.connections), 2)

    def test_stop(self) -> None:
        """Stopping sends what was told, fails calls that wait, closes all, and refuses further calls."""
        processor = echo()
        self.serve(processor, Doing(LATE, Lates()))
        waiting = self.client.ask(HERE, request(LATE))
        settle(self.env)
        self.client.tell(HERE, request(body=b"goodbye"))
        stopped = [self.client.stop(), self.client.stop()]
        settle(self.env)
        for one in stopped:
            self.successResultOf(one)
        self.failureResultOf(waiting, NotConnected)
        self.assertEqual([one.body for one in processor.seen], [b"goodbye"])
        self.assertEqual((self.hearing.events[-1], self.env.clock.getDelayedCalls()), ("closed", []))
        self.failureResultOf(self.client.ask(HERE, request()), NotConnected)
        self.failureResultOf(self.client.tell(HERE, request()), NotConnected)

    def test_stop_unused(self) -> None:
        """A client that never asked stops at once."""
        self.successResultOf(self.client.stop())


class SlowNetwork:
    """
    A network that connects when told.

    @ivar dials: the Deferreds, with the factories.
    """

    def __init__(self) -> None:
        self.dials: list[tuple[Deferred[Any], IProtocolFactory, float]] = []
        self.cancelled = 0

    def connect(self, host: str, port: int, factory: IProtocolFactory, timeout: float) -> Deferred[Any]:
        """Wait."""
        dial: Deferred[Any] = Deferred(self._cancel)
        self.dials.append((dial, factory, timeout))
        return dial

    def _cancel(self, _: object) -> None:
        self.cancelled += 1

    def arrive(self) -> Wire:
        """The last one comes up; its wire."""
        dial, factory, _ = self.dials[-1]
        protocol: Any = factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 10911))
        wire = Wire()
        protocol.makeConnection(wire)
        wire.protocol = protocol
        dial.callback(protocol)
        return wire


class DialCase(SynchronousTestCase):
    """A client whose connections come up when told."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.network = self.env.network = SlowNetwork()  # type: ignore[assignment]
        self.hearing = Hearing()
        self.client = RemotingClient(self.env, sweeper_of(self.env.clock), listener=self.hearing)

    def sent(self, wire: Wire) -> list[Command]:
        """Return the commands that went over the wire."""
        self.env.clock.advance(0)
        written, wire.writes = b"".join(wire.writes), []
        return [decode(frame) for frame in LengthFieldDecoder(1 << 24).frames(written)]


class DialTests(DialCase):
    """While a connection is being made."""

    def test_waits(self) -> None:
        """Calls made while dialling leave in order when the connection is there, after one attempt of 3 s at most."""
        answers = [self.client.ask(HERE, request(body=b"%d" % number)) for number in range(3)]
        told = self.client.tell(HERE, request(body=b"told"))
        self.assertEqual((len(self.network.dials), self.network.dials[0][2]), (1, 3.0))
        self.assertNoResult(told)
        wire = self.network.arrive()
        self.successResultOf(told)
        sent = self.sent(wire)
        self.assertEqual([one.body for one in sent], [b"0", b"1", b"2", b"told"])
        wire.protocol.dataReceived(encode(sent[1].answer(body=b"yes")))
        self.assertEqual(self.successResultOf(answers[1]).body, b"yes")

    def test_fails(self) -> None:
        """Where the attempt fails all that waited for it fail."""
        waiting = [self.client.ask(HERE, request()), self.client.tell(HERE, request())]
        self.network.dials[0][0].errback(OSError("no route"))
        for one in waiting:
            self.assertIn("no route", str(self.failureResultOf(one, NotConnected).value))
        self.assertEqual((self.client.connections, self.env.clock.getDelayedCalls()), ([], []))

    def test_time_runs(self) -> None:
        """The time-out of a call runs while dialling, and a call that timed out is not sent any more."""
        short = self.client.ask(HERE, request(body=b"short"), 1.0)
        long = self.client.ask(HERE, request(body=b"long"), 10.0)
        self.env.clock.advance(1)
        self.failureResultOf(short, CallTimedOut)
        wire = self.network.arrive()
        self.assertEqual([one.body for one in self.sent(wire)], [b"long"])
        self.assertNoResult(long)
        self.assertTrue(self.client.connections[0].open)

    def test_cancelled(self) -> None:
        """A call cancelled while dialling is not sent."""
        answer = self.client.ask(HERE, request())
        answer.cancel()
        self.failureResultOf(answer)
        self.assertEqual(self.sent(self.network.arrive()), [])

    def test_stopped(self) -> None:
        """Stopping gives the attempt up."""
        answer = self.client.ask(HERE, request())
        stopped = self.client.stop()
        self.successResultOf(stopped)
        self.failureResultOf(answer, NotConnected)
        self.assertEqual((self.network.cancelled, self.hearing.events), (1, []))
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_hung_up(self) -> None:
        """A connection given up while dialling is cut when it comes up; listeners hear a connection and its end."""
        answer = self.client.ask(HERE, request())
        self.client.hang_up(HERE, "test")
        wire = self.network.arrive()
        self.assertTrue(wire.aborted)
        wire.protocol.connectionLost()
        self.assertEqual((wire.writes, self.hearing.events), ([], ["connected", "closed"]))
        self.failureResultOf(answer, NotConnected)
        self.env.clock.advance(0)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])


class SilenceTests(DialCase):
    """A peer that has gone without a word."""

    def test_silent(self) -> None:
        """A call of 3 s that ends without a byte read ends the connection, so that the next call dials anew."""
        answer = self.client.ask(HERE, request())
        other = self.client.ask(HERE, request(), 9.0)
        wire = self.network.arrive()
        self.env.clock.pump([1] * 3)
        self.failureResultOf(answer, CallTimedOut)
        self.assertTrue(wire.aborted)
        self.assertEqual(self.client.connections, [])
        wire.protocol.connectionLost(Failure(ConnectionAborted()))
        self.assertEqual(str(self.failureResultOf(other, NotConnected).value), f"lost {HERE}: it was given up")
        self.client.ask(HERE, request())
        self.assertEqual(len(self.network.dials), 2)

    def test_not_silent(self) -> None:
        """A time-out on a connection where other bytes came, or one that was short, leaves it alone."""
        self.client.ask(HERE, request()).addErrback(lambda _: None)
        wire = self.network.arrive()
        sent = self.sent(wire)
        wire.protocol.dataReceived(encode(sent[0].answer()))
        short = self.client.ask(HERE, request(), 1.0)
        self.env.clock.advance(1)
        self.failureResultOf(short, CallTimedOut)
        slow = self.client.ask(HERE, request(), 3.0)
        other = self.client.ask(HERE, request(), 9.0)
        self.env.clock.advance(1)
        wire.protocol.dataReceived(encode(self.sent(wire)[2].answer()))
        self.successResultOf(other)
        self.env.clock.advance(2)
        self.failureResultOf(slow, CallTimedOut)
        self.assertTrue(self.client.connections[0].open)

    def test_reads_while_full(self) -> None:
        """However much is unsent, a client goes on reading: both ends waiting for the other to read would not end."""
        self.client.ask(HERE, request())
        wire = self.network.arrive()
        self.sent(wire)
        wire.full = True
        answers = [self.client.ask(HERE, request(body=bytes(1 << 20)), 30.0) for _ in range(8)]
        self.env.clock.advance(0)
        self.assertGreater(self.client.connections[0].unsent, 7 << 20)
        self.assertTrue(wire.reading)
        for answer in answers:
            self.assertNoResult(answer)

    def test_too_much_unsent(self) -> None:
        """Calls fail while more than half of what closes a connection is unsent; the connection stays."""
        self.client.ask(HERE, request(), 200.0)
        wire = self.network.arrive()
        wire.full = True
        answers = [self.client.ask(HERE, request(body=bytes(1 << 20)), 200.0) for _ in range(30)]
        self.failureResultOf(answers[-1], CallFailed)
        self.assertNoResult(answers[10])
        for answer in answers:
            answer.addErrback(lambda _: None)
        self.env.clock.pump([1] * 70)
        self.assertTrue(self.client.connections[0].open)
