"""The listening Service."""

from __future__ import annotations

from typing import Any, cast

from twisted.application.service import IService
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import CannotListenError, ConnectionDone
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.errors import NotConnected
from smartgo.net.admission import RefusingAdmission
from smartgo.net.limits import Limits
from smartgo.remoting.client import RemotingClient
from smartgo.remoting.dispatch import Dispatcher, LongPoll
from smartgo.remoting.server import RemotingServer
from smartgo.schema.command import Command, encode
from tests.fakes import FakeEnvironment
from tests.remoting.doubles import (
    ECHO,
    LATE,
    Doing,
    Hearing,
    Lates,
    Wire,
    echo,
    pass_seconds,
    request,
    settle,
    sweeper_of,
)

DONE = Failure(ConnectionDone())


class Case(SynchronousTestCase):
    """A server, and clients as needed."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.sweeper = sweeper_of(self.env.clock)
        self.hearing = Hearing()

    def serve(self, *processors: Any, limits: Limits | None = None, listener: Any = None) -> RemotingServer:
        """Listen at 10911."""
        server = RemotingServer(
            self.env,
            "tcp:10911",
            Dispatcher(processors),
            self.sweeper,
            listener or self.hearing,
            limits or Limits(),
        )
        server.startService()
        return server

    def arrive(self, server: RemotingServer, ip: str = "10.0.0.1", door: int = 0) -> Wire | None:
        """A client connects; its side of the wire, or C{None} where it is turned away."""
        kind = IPv6Address if ":" in ip else IPv4Address
        address = kind("TCP", ip, 5000)
        protocol = server._ports[door].buildProtocol(address)
        if protocol is None:
            return None
        wire = Wire(address)
        wire.protocol = protocol
        protocol.makeConnection(wire)
        return wire

    def ask(self, client: RemotingClient, asked: Command, port: int = 10911) -> Deferred[Command]:
        """Ask, and let it arrive."""
        answer = client.ask(f"127.0.0.1:{port}", asked)
        settle(self.env)
        return answer

    def stop(self, *what: Any) -> None:
        """Stop all of these; nothing stays in the clock."""
        done = [one.stop() if isinstance(one, RemotingClient) else one.stopService() for one in what]
        pass_seconds(self.env, 8)
        for one in done:
            self.successResultOf(one)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])


class ServiceTests(Case):
    """Starting and stopping."""

    def test_serves(self) -> None:
        """It is a Service; it answers while it runs, and does not listen before or after."""
        server = self.serve(echo())
        verifyObject(IService, server)
        client = RemotingClient(self.env, sweeper_of(self.env.clock))
        self.assertEqual(server.ports, [10911])
        self.assertEqual(self.successResultOf(self.ask(client, request(body=b"x"))).body, b"x")
        self.assertEqual(self.hearing.events, ["active", "first_frame"])
        self.assertEqual(self.hearing.heard[0][1].local_port, 10911)
        self.stop(client, server)
        self.assertEqual((self.env.network.ports, server.ports), ({}, [0]))
        self.failureResultOf(self.ask(RemotingClient(self.env, sweeper_of(self.env.clock)), request()), NotConnected)

    def test_ports_differ(self) -> None:
        """Each port has its own table of requests; limits, listener and timers are shared."""
        server = RemotingServer(
            self.env,
            "tcp:10911",
            Dispatcher([echo(), Doing(LATE, lambda _, asked: asked.answer())]),
            sweeper_of(self.env.clock),
        )
        server.add_dispatcher("tcp:10909", Dispatcher([echo(), Doing(LATE, lambda *_: None)], without={LATE}))
        self.successResultOf(server.open())
        server.startService()
        self.assertEqual(server.ports, [10911, 10909])
        client = RemotingClient(self.env, sweeper_of(self.env.clock))
        self.assertEqual(self.successResultOf(self.ask(client, request(LATE))).code, 0)
        self.assertEqual(self.successResultOf(self.ask(client, request(LATE), port=10909)).code, 3)
        self.assertEqual(self.successResultOf(self.ask(client, request(ECHO), port=10909)).code, 0)
        self.assertEqual(sorted(one.local_port for one in server.connections), [10909, 10911])
        self.stop(client, server)

    def test_taken(self) -> None:
        """Where one of its ports is taken opening fails, and none of them listens."""
        self.successResultOf(self.env.network.listen("tcp:10909", Factory()))
        server = RemotingServer(self.env, "tcp:10911", Dispatcher(), sweeper_of(self.env.clock))
        server.add_dispatcher("tcp:10909", Dispatcher())
        self.failureResultOf(server.open(), CannotListenError)
        self.assertEqual(list(self.env.network.ports), [10909])
        server.startService()
        self.assertEqual(len(self.flushLoggedErrors(CannotListenError)), 1)
        self.successResultOf(server.stopService())

    def test_stop_while_opening(self) -> None:
        """A server that is stopped while it opens does not listen afterwards."""
        listening: Deferred[Any] = Deferred()
        self.env.network.listen = lambda *_: listening  # type: ignore[method-assign]
        server = RemotingServer(self.env, "tcp:10911", Dispatcher(), sweeper_of(self.env.clock))
        opened = server.open()
        self.successResultOf(server.stopService())
        self.failureResultOf(opened)
        self.assertEqual(server.ports, [0])

    def test_stop_idle(self) -> None:
        """Connections with nothing in flight are closed at once."""
        server = self.serve(echo())
        clients = [RemotingClient(self.env, sweeper_of(self.env.clock)) for _ in range(5)]
        for client in clients:
            self.successResultOf(self.ask(client, request()))
        stopped = server.stopService()
        settle(self.env)
        self.successResultOf(stopped)
        self.assertEqual(self.hearing.events.count("closed"), 5)
        self.stop(*clients)

    def test_stop_unused(self) -> None:
        """A server that was never started, or has no connections, stops at once."""
        self.successResultOf(RemotingServer(self.env, "tcp:1", Dispatcher(), sweeper_of(self.env.clock)).stopService())
        self.successResultOf(self.serve().stopService())
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_stop_answers(self) -> None:
        """Requests in flight are answered before their connection is closed; no new ones are taken (D14)."""
        lates = Lates()
        server = self.serve(Doing(LATE, lates), echo())
        client = RemotingClient(self.env, sweeper_of(self.env.clock))
        answers = [self.ask(client, request(LATE, body=b"%d" % number)) for number in range(3)]
        stopped = server.stopService()
        self.assertEqual(self.env.network.ports, {})
        late = self.ask(client, request(ECHO))
        pass_seconds(self.env, 2)
        self.assertNoResult(stopped)
        for _ in range(3):
            lates.fire()
        settle(self.env)
        self.successResultOf(stopped)
        self.assertEqual([self.successResultOf(answer).body for answer in answers], [b"0", b"1", b"2"])
        self.failureResultOf(late, NotConnected)
        self.stop(client)

    def test_stop_fails(self) -> None:
        """Requests that have no answer after 5 s get 14, and the server stops."""
        server = self.serve(Doing(LATE, Lates()))
        client = RemotingClient(self.env, sweeper_of(self.env.clock))
        answer = client.ask("127.0.0.1:10911", request(LATE), 30.0)
        settle(self.env)
        stopped = server.stopService()
        pass_seconds(self.env, 4)
        self.assertNoResult(answer)
        pass_seconds(self.env, 1)
        self.assertEqual(self.successResultOf(answer).code, 14)
        self.successResultOf(stopped)
        self.stop(client)

    def test_stop_held(self) -> None:
        """Held answers do not hold a stop up: they are let go at once, by their holder's words or with 14."""

        def let_go(answer: Any) -> None:
            answer.callback(lates.requests[0].answer(code=19))

        lates = Lates(LongPoll, let_go)
        server = self.serve(Doing(LATE, lates), Doing(ECHO, Lates(LongPoll)))
        client = RemotingClient(self.env, sweeper_of(self.env.clock))
        answers = [self.ask(client, request(LATE)), self.ask(client, request(ECHO))]
        stopped = server.stopService()
        settle(self.env)
        self.successResultOf(stopped)
        self.assertEqual([self.successResultOf(answer).code for answer in answers], [19, 14])
        self.stop(client)

    def test_stop_stubborn(self) -> None:
        """A peer that neither reads nor goes is cut, and stopping takes no longer than 10 s."""
        server = self.serve(echo())
        wire = self.arrive(server)
        assert wire is not None
        wire.full = True
        wire.protocol.dataReceived(encode(request(body=bytes(1 << 20))))
        stopped = server.stopService()
        pass_seconds(self.env, 7)
        self.assertTrue(wire.aborted)
        wire.protocol.connectionLost(DONE)
        self.successResultOf(stopped)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_stop_twice(self) -> None:
        """A second stop changes nothing and fires with the first."""
        lates = Lates()
        server = self.serve(Doing(LATE, lates))
        client = RemotingClient(self.env, sweeper_of(self.env.clock))
        self.ask(client, request(LATE))
        first, second = server.stopService(), server.stopService()
        self.assertNoResult(second)
        lates.fire()
        settle(self.env)
        self.successResultOf(first)
        self.successResultOf(second)
        self.successResultOf(server.stopService())
        self.stop(client)


class LimitTests(Case):
    """L8: who is let in."""

    def test_connections(self) -> None:
        """Connections beyond the limit of a listener are closed at once and counted; a place is free when one goes."""
        server = self.serve(echo(), limits=Limits(connections=3))
        wires = [self.arrive(server, f"10.0.0.{number}") for number in range(5)]
        self.assertEqual([wire is None for wire in wires], [False] * 3 + [True] * 2)
        self.assertEqual((server.counts.turned_away, len(server.connections)), (2, 3))
        self.assertEqual(self.hearing.events, ["active"] * 3)
        assert wires[1] is not None
        wires[1].protocol.connectionLost(DONE)
        self.assertIsNotNone(self.arrive(server))
        self.assertIsNone(self.arrive(server))

    def test_per_address(self) -> None:
        """Connections beyond the limit of an address are closed, others of the same listener are not."""
        server = self.serve(echo(), limits=Limits(per_address=2))
        wires = [self.arrive(server, "10.0.0.1") for _ in range(4)]
        self.assertEqual([wire is None for wire in wires], [False, False, True, True])
        self.assertIsNotNone(self.arrive(server, "10.0.0.2"))
        assert wires[0] is not None
        wires[0].protocol.connectionLost(DONE)
        self.assertIsNotNone(self.arrive(server, "10.0.0.1"))
        self.assertIsNone(self.arrive(server, "10.0.0.1"))

    def test_mapped_address(self) -> None:
        """An IPv4 address in IPv6 clothing is one address with itself, coming and going."""
        server = self.serve(echo(), limits=Limits(per_address=2))
        wires = [self.arrive(server, ip) for ip in ("::ffff:10.0.0.1", "10.0.0.1", "::ffff:10.0.0.1")]
        self.assertEqual([wire is None for wire in wires], [False, False, True])
        for wire in wires[:2]:
            assert wire is not None
            wire.protocol.connectionLost(DONE)
        admission = cast("RefusingAdmission", server._ports[0]._admission)
        self.assertEqual(admission._by_ip, {})

    def test_loopback(self) -> None:
        """Loopback addresses have no limit of their own."""
        server = self.serve(echo(), limits=Limits(per_address=2))
        for ip in ("127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"):
            for _ in range(5):
                self.assertIsNotNone(self.arrive(server, ip), ip)

    def test_descriptors(self) -> None:
        """With fewer than 256 descriptors free accepting pauses, and goes on by itself when there are more."""
        server = self.serve(echo())
        port: Any = server._ports[0].port
        asked: list[str] = []
        port.pauseProducing = lambda: asked.append("pause")
        port.resumeProducing = lambda: asked.append("resume")
        self.env.host.files_open = 20000 - 255
        self.assertIsNone(self.arrive(server))
        self.assertIsNone(self.arrive(server))
        self.assertEqual((asked, server.counts.waits, server.counts.turned_away), (["pause"], 1, 2))
        pass_seconds(self.env, 3)
        self.assertEqual(asked, ["pause"])
        self.env.host.files_open = 1000
        pass_seconds(self.env, 1)
        self.assertEqual(asked, ["pause", "resume"])
        self.assertIsNotNone(self.arrive(server))
        self.assertEqual(len(self.env.clock.getDelayedCalls()), 1)
        server.connections[0].link.abort()

    def test_few_descriptors(self) -> None:
        """A process that may have few keeps a quarter of them free, and takes connections with the others."""
        server = self.serve(echo())
        self.patch(self.env.host, "open_file_limit", lambda: 256)
        self.env.host.files_open = 191
        connection = self.arrive(server)
        self.assertIsNotNone(connection)
        self.env.host.files_open = 192
        server._budget = 0
        self.assertIsNone(self.arrive(server))
        server.connections[0].link.abort()

    def test_descriptors_while_stopping(self) -> None:
        """A server that waits for descriptors stops like any other."""
        server = self.serve(echo())
        self.env.host.files_open = 20000
        self.assertIsNone(self.arrive(server))
        self.successResultOf(server.stopService())
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_descriptors_are_counted_seldom(self) -> None:
        """Counting descriptors takes time and is not done for each connection."""
        server = self.serve(echo())
        counted: list[int] = []
        self.env.host.open_files = lambda: counted.append(1) or 1000  # type: ignore[func-returns-value,method-assign]
        for number in range(500):
            self.arrive(server, f"10.0.{number % 250}.1")
        self.assertEqual(len(counted), 1)


class AskedByServerTests(Case):
    """Requests of the server to its clients."""

    def test_both_ways(self) -> None:
        """A server asks and tells the client on the client's own connection."""
        peers: list[Any] = []

        def remember(peer: Any, asked: Command) -> Command:
            peers.append(peer)
            return asked.answer()

        told = Doing(40, lambda *_: None)
        server = self.serve(Doing(ECHO, remember))
        client = RemotingClient(
            self.env,
            sweeper_of(self.env.clock),
            Dispatcher([told, Doing(307, lambda _, asked: succeed(asked.answer(body=b"me")))]),
        )
        self.successResultOf(self.ask(client, request(ECHO)))
        peers[0].tell(Command.request(40))
        answer = peers[0].ask(Command.request(307), 3.0)
        unknown = peers[0].ask(Command.request(999), 3.0)
        settle(self.env)
        self.assertEqual(self.successResultOf(answer).body, b"me")
        self.assertEqual(self.successResultOf(unknown).code, 3)
        self.assertEqual(len(told.seen), 1)
        self.stop(client, server)
