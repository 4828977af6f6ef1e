"""TLS on the remoting port."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionLost
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import NotConnected, SettingError
from smartgo.net import tls as tls_module
from smartgo.net.tls import (
    ClientCertificates,
    ClientTLS,
    KeyFiles,
    Mode,
    PlainRefused,
    ServerTLS,
    TLSRefused,
)
from smartgo.remoting.client import CallSecurity, RemotingClient
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.plainrefusal import REMARK
from smartgo.remoting.server import RemotingServer
from smartgo.schema.codes import ResponseCode
from smartgo.schema.command import Command, encode
from smartgo.schema.commandlayout import BINARY
from tests.fakes import FakeEnvironment
from tests.remoting.certificates import Authority, place
from tests.remoting.doubles import ECHO, Accepted, Hearing, echo, pass_seconds, request, settle, sweeper_of

AUTHORITY = Authority()
OTHER_AUTHORITY = Authority("somebody else")


class Case(SynchronousTestCase):
    """A world with certificates in it."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.trust = place(self.env.files, "/ca.pem", AUTHORITY.pem)
        certificate, key = AUTHORITY.issue("localhost", "127.0.0.1")
        self.certificate = place(self.env.files, "/server.pem", certificate)
        self.key = place(self.env.files, "/server.key", key)

    def server_tls(self, **options: Any) -> ServerTLS:
        """For a server with the certificate made above."""
        return ServerTLS(self.env, KeyFiles(self.certificate, self.key), **options)


class HandshakeTests(Case):
    """Servers and clients that speak TLS, or not."""

    def serve(self, tls: ServerTLS | None) -> None:
        """Listen at port 10911."""
        self.hearing = Hearing()
        self.server = RemotingServer(
            self.env, "tcp:10911", Dispatcher([echo()]), sweeper_of(self.env.clock), self.hearing, tls=tls
        )
        self.server.startService()

    def ask(self, tls: ClientTLS | None, address: str = "127.0.0.1:10911") -> Deferred[Command]:
        """Ask the server with a client of its own."""
        self.client = RemotingClient(self.env, sweeper_of(self.env.clock), security=CallSecurity(tls))
        answer = self.client.ask(address, request(body=b"hello"))
        settle(self.env)
        return answer

    def finish(self) -> None:
        """Stop both; nothing stays."""
        done = [self.client.stop(), self.server.stopService()]
        pass_seconds(self.env, 7)
        for one in done:
            self.successResultOf(one)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])

    def trusting(self, **options: Any) -> ClientTLS:
        """A client that trusts the authority."""
        return ClientTLS(self.env, trust=self.trust, **options)

    def test_permissive(self) -> None:
        """On one port of a permissive server TLS and plain clients are both answered."""
        self.serve(self.server_tls())
        for tls in (self.trusting(), None):
            answer = self.successResultOf(self.ask(tls))
            self.assertEqual(answer.body, b"hello")
            self.assertEqual([one.secure for one in self.server.connections], [tls is not None])
            self.client.stop()
            pass_seconds(self.env, 5)
            self.assertEqual(self.server.connections, [])
        self.finish()

    def test_many_requests(self) -> None:
        """Large requests and answers pass through TLS whole."""
        self.serve(self.server_tls())
        self.successResultOf(self.ask(self.trusting()))
        bodies = [bytes([number]) * size for number, size in enumerate((1, 20_000, 3_000_000, 7))]
        answers = [self.client.ask("127.0.0.1:10911", request(body=body)) for body in bodies]
        settle(self.env)
        self.assertEqual([self.successResultOf(answer).body for answer in answers], bodies)
        self.finish()

    def test_enforcing(self) -> None:
        """An enforcing server tells plain clients that it wants TLS, closes, and answers TLS ones."""
        self.serve(self.server_tls(mode=Mode.ENFORCING))
        self.successResultOf(self.ask(self.trusting()))
        self.client.stop()
        pass_seconds(self.env, 5)
        answer = self.successResultOf(self.ask(None))
        self.assertEqual((answer.code, answer.remark, answer.body), (ResponseCode.SYSTEM_ERROR, REMARK, b""))
        self.assertEqual(self.hearing.events[-2:], ["failed", "closed"])
        self.assertTrue(self.hearing.heard[-2][2].check(PlainRefused))
        self.finish()

    def test_refused_in_words(self) -> None:
        """A plain client that sends a whole request which wants an answer gets one, in its own encoding."""
        other = request(body=b"x" * 900)
        other.encoding = BINARY
        binary = encode(other)
        for data, told in (
            (encode(request(ECHO, 5)), True), (encode(request(ECHO, 5)) * 3, True), (binary, True),
            (encode(request(ECHO, 5))[:-1], False), (encode(request(one_way=True)), False),
            (encode(request(body=bytes(100_000))), False), (encode(request().answer()), False), (b"\0", False),
            (b"GET / HTTP/1.1\r\n\r\n", False), (bytes(100), False), (b"\0\0\0\x0a\0\0\0\x06rubish", False),
        ):  # fmt: skip
            accepted = Accepted([echo()], tls=self.server_tls(mode=Mode.ENFORCING))
            accepted.protocol.dataReceived(data)
            self.assertFalse(accepted.connection.open)
            answers = accepted.answers()
            self.assertEqual([(one.code, one.remark) for one in answers], [(1, REMARK)] if told else [], data[:40])
            self.assertEqual(accepted.hearing.events[1:2], ["failed"])

    def test_guessed(self) -> None:
        """A client whose connection is closed before anything was said asks whether TLS is missing, or too much."""

        class Closing(Protocol):
            """Hears something, and closes."""

            def dataReceived(self, data: bytes) -> None:
                """Close."""
                assert self.transport is not None
                self.transport.loseConnection()

        for tls, why in ((None, "does the port want TLS?"), (self.trusting(), "does the port speak TLS?")):
            port = self.successResultOf(self.env.network.listen("tcp:10911", Factory.forProtocol(Closing)))
            error = self.failureResultOf(self.ask(tls), NotConnected).value
            self.assertIn(why, str(error))
            self.client.stop()
            port.stopListening()

    def test_disabled(self) -> None:
        """A server without TLS, or with TLS disabled, closes a connection that begins a handshake."""
        for tls in (None, self.server_tls(mode=Mode.DISABLED)):
            accepted = Accepted([echo()], tls=tls)
            accepted.protocol.dataReceived(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
            self.assertFalse(accepted.connection.open)
            failure = accepted.hearing.heard[1][2]
            self.assertTrue(failure.check(TLSRefused))
            self.assertIn("it speaks TLS, which is off here", failure.getErrorMessage())
            plain = Accepted([echo()], tls=tls)
            plain.hear(request(ECHO, 3))
            self.assertEqual([answer.opaque for answer in plain.answers()], [3])

    def test_names(self) -> None:
        """A certificate must have the name or address that was dialled, or the one the client was told instead."""
        self.serve(self.server_tls())
        for address, tls, good in (
            ("127.0.0.1:10911", self.trusting(), True),
            ("localhost:10911", self.trusting(), True),
            ("127.0.0.2:10911", self.trusting(), False),
            ("example.org:10911", self.trusting(), False),
            ("example.org:10911", self.trusting(name="localhost"), True),
            ("localhost:10911", self.trusting(name="example.org"), False),
        ):
            answer = self.ask(tls, address)
            if good:
                self.assertEqual(self.successResultOf(answer).body, b"hello")
            else:
                error = self.failureResultOf(answer, NotConnected).value
                self.assertIn("the certificate is not for the host that was dialled", str(error))
            self.client.stop()
            pass_seconds(self.env, 5)
        self.finish()

    def test_trust(self) -> None:
        """A certificate of an authority that the client does not trust is refused; both sides hear it failed."""
        self.serve(self.server_tls())
        place(self.env.files, "/other.pem", OTHER_AUTHORITY.pem)
        error = self.failureResultOf(self.ask(ClientTLS(self.env, trust="/other.pem")), NotConnected).value
        self.assertIn("TLS: certificate verify failed", str(error))
        pass_seconds(self.env, 1)
        self.assertEqual(self.hearing.events, ["active", "failed", "disconnected"])
        self.failureResultOf(self.ask(ClientTLS(self.env)), NotConnected)  # the system's authorities
        self.finish()

    def test_client_certificates(self) -> None:
        """A server may demand client certificates, or accept clients with and without, never a foreign one."""
        files = self.env.files
        certificate, key = AUTHORITY.issue("client")
        place(files, "/client.pem", certificate)
        place(files, "/client.key", key)
        certificate, key = OTHER_AUTHORITY.issue("client")
        place(files, "/foreign.pem", certificate)
        place(files, "/foreign.key", key)
        own = self.trusting(certificate="/client.pem", key="/client.key")
        foreign = self.trusting(certificate="/foreign.pem", key="/foreign.key")
        for clients, tls, good in (
            (ClientCertificates.REQUIRE, own, True),
            (ClientCertificates.REQUIRE, self.trusting(), False),
            (ClientCertificates.REQUIRE, foreign, False),
            (ClientCertificates.OPTIONAL, own, True),
            (ClientCertificates.OPTIONAL, self.trusting(), True),
            (ClientCertificates.OPTIONAL, foreign, False),
            (ClientCertificates.NONE, foreign, True),
        ):
            self.serve(self.server_tls(clients=clients, trust=self.trust))
            answer = self.ask(tls)
            if good:
                self.assertEqual(self.successResultOf(answer).body, b"hello", clients)
            else:
                self.failureResultOf(answer, NotConnected)
            self.finish()

    def test_reload(self) -> None:
        """A reload is for new connections; the old ones stay; a failed reload changes nothing."""
        tls = self.server_tls()
        self.serve(tls)
        self.successResultOf(self.ask(self.trusting()))
        first = self.client
        place(self.env.files, self.certificate, b"rubbish")
        self.assertRaises(SettingError, tls.reload)
        self.successResultOf(self.ask(self.trusting()))
        self.client.stop()
        certificate, key = AUTHORITY.issue("example.org")
        place(self.env.files, self.certificate, certificate)
        place(self.env.files, self.key, key)
        tls.reload()
        self.failureResultOf(self.ask(self.trusting()), NotConnected)
        self.client.stop()
        self.successResultOf(self.ask(self.trusting(name="example.org")))
        old = first.ask("127.0.0.1:10911", request(body=b"still"))
        settle(self.env)
        self.assertEqual(self.successResultOf(old).body, b"still")
        first.stop()
        self.finish()

    def test_reload_client(self) -> None:
        """A client may change whom it trusts."""
        self.serve(self.server_tls())
        tls = self.trusting()
        self.successResultOf(self.ask(tls))
        self.client.stop()
        pass_seconds(self.env, 5)
        place(self.env.files, self.trust, b"rubbish")
        self.assertRaises(SettingError, tls.reload)
        self.successResultOf(self.ask(tls))
        self.client.stop()
        place(self.env.files, self.trust, OTHER_AUTHORITY.pem)
        tls.reload()
        self.failureResultOf(self.ask(tls), NotConnected)
        self.finish()

    def test_handshake_time(self) -> None:
        """A client that begins a handshake and does not end it is cut after 10 s, and one that is silent too (L9)."""
        for data in (b"", b"\x16\x03\x01"):
            accepted = Accepted([echo()], tls=self.server_tls(), clock=self.env.clock)
            if data:
                accepted.protocol.dataReceived(data)
            for _ in range(9):
                accepted.clock.advance(1)
            self.assertFalse(accepted.wire.aborted)
            accepted.clock.pump([1, 1])
            self.assertTrue(accepted.wire.aborted)

    def test_rubbish(self) -> None:
        """Rubbish behind the first byte of TLS ends the connection, and is no bug."""
        for data in (b"\x16" * 50, b"\x16\x03\x01\0\x05hello", b"\x16\xff\xff\xff\xff" + bytes(300)):
            accepted = Accepted([echo()], tls=self.server_tls(), clock=self.env.clock)
            accepted.protocol.dataReceived(data)
            accepted.protocol.connectionLost(Failure(ConnectionLost()))
            self.assertEqual(accepted.hearing.events[0], "active")
            self.assertEqual(accepted.hearing.events[-1], "disconnected")
            self.assertEqual(self.flushLoggedErrors(), [])

    def test_nothing_said(self) -> None:
        """A client that goes without a byte is no failed handshake, one that goes in the midst of it is."""
        for data, events in ((b"", ["active", "disconnected"]), (b"\x16\x03", ["active", "failed", "disconnected"])):
            accepted = Accepted([echo()], tls=self.server_tls(), clock=self.env.clock)
            if data:
                accepted.protocol.dataReceived(data)
            accepted.protocol.connectionLost(Failure(ConnectionLost()))
            self.assertEqual(accepted.hearing.events, events)

    def test_first_byte_alone(self) -> None:
        """The first byte may come alone, in plain and in TLS."""
        accepted = Accepted([echo()], tls=self.server_tls(), clock=self.env.clock)
        frame = encode(request(ECHO, 5))
        accepted.protocol.dataReceived(frame[:1])
        accepted.protocol.dataReceived(frame[1:])
        self.assertEqual([answer.opaque for answer in accepted.answers()], [5])

    def test_told_before_it_is_known(self) -> None:
        """What is told to a client before its first byte leaves once it is known how."""
        accepted = Accepted([echo()], tls=self.server_tls(), clock=self.env.clock)
        accepted.connection.tell(Command.request(40))
        accepted.turn()
        self.assertEqual(accepted.wire.writes, [])
        accepted.hear(request(ECHO, 5))
        accepted.turn()
        self.assertEqual([one.code for one in accepted.answers()], [40, 0])

    def test_many_names(self) -> None:
        """What is kept for the hosts that were dialled is bounded."""
        tls = self.trusting()
        first = tls.factory("host-0")
        self.assertIs(tls.factory("host-0"), first)
        self.patch(tls_module, "_NAMES_KEPT", 3)
        for number in range(1, 10):
            tls.factory(f"host-{number}")
        self.assertLessEqual(len(tls._factories), 3)
        self.assertIsNot(tls.factory("host-0"), first)

    def test_no_reactor(self) -> None:
        """TLS layers have timers of the environment's clock alone, if any."""
        self.assertIs(self.server_tls().factory()._clock, self.env.clock)
        self.assertIs(self.trusting().factory("localhost")._clock, self.env.clock)
