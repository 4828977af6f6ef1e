"""The gateway of the documentation: a session on a link is all that a protocol needs."""

from __future__ import annotations

import os
import runpy
from typing import Any

from twisted.internet.protocol import Factory, Protocol
from twisted.internet.ssl import Certificate, optionsForClientTLS, trustRootFromCertificates
from twisted.internet.testing import MemoryReactorClock
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.trial.unittest import SynchronousTestCase

from smartgo.net.link import Link
from smartgo.net.listener import Listener
from smartgo.net.states import State
from smartgo.net.tls import KeyFiles, ServerTLS
from tests.fakes import FakeEnvironment
from tests.remoting.certificates import Authority, place
from tests.remoting.doubles import Wire, pass_seconds, settle

EXAMPLE = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "docs", "examples", "echo_gateway.py")


class Talker(Protocol):
    """A client that remembers what comes back."""

    def __init__(self) -> None:
        self.heard = b""
        self.lost = False

    def dataReceived(self, data: bytes) -> None:
        """Remember."""
        self.heard += data

    def connectionLost(self, reason: Any = None) -> None:
        """Remember."""
        self.lost = True


class EchoGatewayTests(SynchronousTestCase):
    """A gateway of at most 60 lines."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.example = runpy.run_path(EXAMPLE, run_name="example")

    def serve(self, tls: ServerTLS | None = None) -> Listener:
        """Start the gateway."""
        gateway: Listener = self.example["gateway"](self.env, tls)
        gateway.startService()
        self.assertEqual(gateway.ports, [7007])
        return gateway

    def dial(self, wrap: Any = None) -> Talker:
        """Connect a client, with TLS where C{wrap} makes it."""
        talker = Talker()
        factory: Any = Factory.forProtocol(lambda: talker)
        self.env.network.connect("127.0.0.1", 7007, factory if wrap is None else wrap(factory), 3.0)
        settle(self.env)
        return talker

    def say(self, talker: Talker, data: bytes) -> None:
        """Let a client send something, and all that follows happen."""
        talker.transport.write(data)  # type: ignore[union-attr]
        settle(self.env)

    def stop(self, gateway: Listener) -> None:
        """Stop; nothing is left behind."""
        stopped = gateway.stopService()
        pass_seconds(self.env, 7)
        self.successResultOf(stopped)
        self.assertEqual((gateway.links, gateway.sweeper.budget.used), ([], 0))
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_length(self) -> None:
        """It has at most 60 lines."""
        with open(EXAMPLE, encoding="utf-8") as file:
            self.assertLessEqual(len(file.readlines()), 60)

    def test_echo(self) -> None:
        """Lines come back, however they were cut; several clients at once; what is no whole line waits."""
        gateway = self.serve()
        one, other = self.dial(), self.dial()
        for piece in (b"he", b"llo\nwor", b"ld\n\nre"):
            self.say(one, piece)
        self.say(other, b"hi\n")
        self.assertEqual((one.heard, other.heard), (b"hello\nworld\n\n", b"hi\n"))
        self.assertEqual(gateway.sweeper.budget.used, len(b"re"))
        self.say(one, b"st\n")
        self.assertEqual(one.heard, b"hello\nworld\n\nrest\n")
        self.stop(gateway)

    def test_too_long(self) -> None:
        """A line that is too long ends its connection, and no other."""
        gateway = self.serve()
        one, other = self.dial(), self.dial()
        self.say(one, b"x" * 5000)
        self.say(other, b"still there\n")
        self.assertEqual((one.lost, other.lost, other.heard), (True, False, b"still there\n"))
        self.assertEqual(gateway.counts.broken, 1)
        self.stop(gateway)

    def test_idle(self) -> None:
        """Who says nothing for a minute is closed, and who never said a line after ten seconds."""
        gateway = self.serve()
        silent, talker, busy = self.dial(), self.dial(), self.dial()
        self.say(talker, b"once\n")
        self.say(busy, b"once\n")
        pass_seconds(self.env, 12)
        self.assertEqual((silent.lost, talker.lost), (True, False))
        for _ in range(5):
            self.say(busy, b"again\n")
            pass_seconds(self.env, 11)
        self.assertEqual((talker.lost, busy.lost), (True, False))
        self.assertEqual((gateway.counts.idle, gateway.counts.slow), (1, 1))
        self.stop(gateway)

    def test_slow_client(self) -> None:
        """A client that takes no answers is read no more, and cut after ten seconds; its bytes are given back."""
        gateway = self.serve()
        link = self.accept(gateway)
        wire: Any = link.transport
        wire.full = True
        line = b"x" * 4000 + b"\n"
        for _ in range(30):
            link.dataReceived(line)
            self.env.clock.advance(0)
        self.assertEqual((link.state, wire.reading, wire.aborted), (State.BLOCKED, False, False))
        self.assertLess(link.unsent, 130_000)
        pass_seconds(self.env, 13)
        self.assertTrue(wire.aborted)
        link.connectionLost()
        self.assertEqual((gateway.counts.slow, gateway.sweeper.budget.used), (1, 0))
        self.stop(gateway)

    def test_slow_for_a_while(self) -> None:
        """A client that takes its answers in time is read on, and gets all of them."""
        gateway = self.serve()
        link = self.accept(gateway)
        wire: Any = link.transport
        wire.full = True
        for _ in range(30):
            link.dataReceived(b"x" * 4000 + b"\n")
            self.env.clock.advance(0)
        self.assertFalse(wire.reading)
        pass_seconds(self.env, 5)
        wire.full = False
        wire.drained()
        self.env.clock.advance(0)
        self.assertEqual((link.state, wire.reading, link.unsent), (State.OPEN, True, 0))
        self.assertEqual(len(b"".join(wire.writes)), 30 * 4001)
        link.connectionLost()
        self.stop(gateway)

    def accept(self, gateway: Listener) -> Link:
        """Return a link whose peer can be made to take nothing."""
        link = gateway._ports[0].buildProtocol(None)
        assert link is not None
        link.makeConnection(Wire())
        return link

    def test_stop_drains(self) -> None:
        """What was answered is sent before the gateway stops; nobody is let in meanwhile, and nothing stays."""
        gateway = self.serve()
        link = self.accept(gateway)
        wire: Any = link.transport
        link.dataReceived(b"last words\n")
        stopped = gateway.stopService()
        self.assertEqual((self.env.network.ports, link.state), ({}, State.DRAINING))
        self.env.clock.advance(0)
        self.assertEqual((wire.writes, wire.disconnecting), ([b"last words\n"], True))
        self.assertNoResult(stopped)
        link.connectionLost()
        self.successResultOf(stopped)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_run(self) -> None:
        """It can be run by itself: it listens, and a reactor that is stopped waits until it has drained."""
        gateway: Listener = self.example["gateway"](self.env)
        reactor = MemoryReactorClock()
        running = gateway.run(reactor)
        talker = self.dial()
        self.say(talker, b"hello\n")
        self.assertEqual(talker.heard, b"hello\n")
        self.assertNoResult(running)
        ((function, args, kwargs),) = reactor.triggers["before"]["shutdown"]
        stopped = function(*args, **kwargs)
        settle(self.env)
        self.successResultOf(stopped)
        self.assertTrue(talker.lost)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def test_tls(self) -> None:
        """The same port takes TLS and plain clients."""
        authority = Authority()
        certificate, key = authority.issue("localhost", "127.0.0.1")
        files = self.env.files
        own = KeyFiles(place(files, "/c.pem", certificate), place(files, "/k.pem", key))
        tls = ServerTLS(self.env, own)
        gateway = self.serve(tls)
        trust = trustRootFromCertificates([Certificate.loadPEM(authority.pem)])
        options = optionsForClientTLS("localhost", trustRoot=trust)
        secure = self.dial(lambda factory: TLSMemoryBIOFactory(options, True, factory, self.env.clock))
        plain = self.dial()
        self.say(secure, b"secret\n")
        self.say(plain, b"open\n")
        self.assertEqual((secure.heard, plain.heard), (b"secret\n", b"open\n"))
        self.assertEqual([link.secure for link in gateway.links], [True, False])
        self.stop(gateway)
