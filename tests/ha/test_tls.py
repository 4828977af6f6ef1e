"""Replication over TLS: who gets the log, and whom it is taken from."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.address import IPv4Address
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.internet.testing import StringTransport
from twisted.logger import capturedLogs
from twisted.python.failure import Failure
from twisted.test.iosim import FakeTransport

from smartgo.ha.feed import Feed
from smartgo.ha.interfaces import SlaveState
from smartgo.ha.master import Master
from smartgo.net.link import Link
from smartgo.net.tls import ClientCertificates, ClientTLS, KeyFiles, Mode, ServerTLS
from smartgo.schema.hatransfer import report_struct
from tests.ha.fakes import FakeLog
from tests.ha.pair import MAIN, PORT, PairCase, accept, noise
from tests.remoting.certificates import Authority, place

AUTHORITY = Authority()
OTHER_AUTHORITY = Authority("somebody else")


class Plain(Protocol):
    """A slave of RocketMQ: reports, and reads."""

    transport: Any

    def __init__(self) -> None:
        self.heard = b""
        self.over = False

    def connectionMade(self) -> None:
        """Ask for all that comes after 800."""
        self.transport.write(report_struct.pack(800))

    def dataReceived(self, data: bytes) -> None:
        """Keep it."""
        self.heard += data

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Note the end of the connection."""
        self.over = True


class TLSCase(PairCase):
    """With certificates."""

    def setUp(self) -> None:
        """One authority for both ends."""
        super().setUp()
        files = self.env.files
        self.trust = place(files, "/ca.pem", AUTHORITY.pem)
        self.certificate, self.key = self.issue("master", "127.0.0.1")

    def issue(self, file: str, name: str, authority: Authority = AUTHORITY) -> tuple[str, str]:
        """Place a certificate and its key; return their paths."""
        certificate, key = authority.issue(name)
        files = self.env.files
        return place(files, f"/{file}.pem", certificate), place(files, f"/{file}.key", key)

    def server_tls(self, mode: Mode = Mode.PERMISSIVE, **options: Any) -> ServerTLS:
        """The master's."""
        return ServerTLS(self.env, KeyFiles(self.certificate, self.key), mode=mode, **options)

    def client_tls(self, **options: Any) -> ClientTLS:
        """A slave's, which trusts the authority."""
        return ClientTLS(self.env, **{"trust": self.trust, **options})

    def plain(self) -> Plain:
        """Connect without TLS, and ask for the log."""
        made = Plain()
        self.env.network.connect("127.0.0.1", PORT, Factory.forProtocol(lambda: made), 5.0)
        self.settle()
        return made


class PairTests(TLSCase):
    """A master and a slave."""

    def test_followed(self) -> None:
        """A slave with TLS gets the log whole, and what is written later, from a master in either mode."""
        for mode in (Mode.PERMISSIVE, Mode.ENFORCING):
            self.there, self.here = FakeLog(noise(3_000_000), file_size=1 << 22), FakeLog()
            self.tail.logs[MAIN] = self.there
            master = self.make_master(tls=self.server_tls(mode), sync=True)
            slave = self.make_slave(tls=self.client_tls())
            self.assertEqual(slave.state, SlaveState.FOLLOWING)
            self.assertEqual(self.here.data, self.there.data)
            self.there.append(noise(50_000, 2))
            self.settle()
            self.assertEqual(self.here.data, self.there.data)
            self.assertEqual([one.confirmed for one in master.slaves()], [self.there.end])
            self.assertEqual(master.confirmed, self.there.end)
            self.settle(60)  # heartbeats of both pass, too
            self.assertEqual(slave.state, SlaveState.FOLLOWING)
            for one in (slave, master):
                self.stop(one)
                self._services.remove(one)

    def test_secret(self) -> None:
        """Nothing of the log goes over the wire as it is."""
        heard: list[bytes] = []
        write = FakeTransport.write

        def listening(transport: Any, data: bytes) -> None:
            heard.append(data)
            write(transport, data)

        self.patch(FakeTransport, "write", listening)
        self.make_master(tls=self.server_tls())
        self.make_slave(tls=self.client_tls())
        self.assertEqual(self.here.data, self.there.data[800:])
        said = b"".join(heard)
        self.assertGreater(len(said), len(self.here.data))
        for at in range(0, 192, 16):
            self.assertNotIn(bytes(self.here.data[at : at + 16]), said)

    def test_disabled(self) -> None:
        """A slave with TLS gets nothing from a master without, and both say why."""
        for tls in (None, self.server_tls(Mode.DISABLED)):
            master = self.make_master(tls=tls)
            slave = self.make_slave(tls=self.client_tls())
            self.settle(6)
            self.assertEqual(self.here.data, b"")
            self.assertIn("does the master speak TLS", slave.reason)
            self.assertIn(
                "speaks TLS, which is off here (tls.server.mode, tls.server.certPath)", self.said.sentences[0]
            )
            self.assertEqual((master.slaves(), master.confirmed), ([], 0))
            for one in (slave, master):
                self.stop(one)
                self._services.remove(one)

    def test_names(self) -> None:
        """A slave follows a master alone whose certificate is of its authority and for the host it dialled."""
        for certificate, why in (
            (self.issue("elsewhere", "example.org"), "the certificate is not for the host that was dialled"),
            (self.issue("foreign", "127.0.0.1", OTHER_AUTHORITY), "certificate verify failed"),
        ):
            master = self.make_master(tls=ServerTLS(self.env, KeyFiles(*certificate)))
            slave = self.make_slave(tls=self.client_tls())
            self.assertEqual(self.here.data, b"")
            self.assertEqual(slave.state, SlaveState.CONNECTING)
            self.assertIn(why, slave.reason)
            self.settle(1)
            self.assertEqual((master.slaves(), master.confirmed), ([], 0))
            for one in (slave, master):
                self.stop(one)
                self._services.remove(one)

    def test_client_certificates(self) -> None:
        """Where client certificates are required a slave without one, or with a foreign one, gets nothing."""
        own, foreign = self.issue("slave", "slave"), self.issue("foreign", "slave", OTHER_AUTHORITY)
        for shown, good in ((own, True), (None, False), (foreign, False)):
            self.here = FakeLog()
            tls = self.server_tls(Mode.ENFORCING, clients=ClientCertificates.REQUIRE, trust=self.trust)
            master = self.make_master(tls=tls)
            more = {} if shown is None else {"certificate": shown[0], "key": shown[1]}
            slave = self.make_slave(tls=self.client_tls(**more))
            self.assertEqual(bool(self.here.data), good)
            self.assertEqual(len(master.slaves()), good)
            if not good:
                self.assertIn("TLS: ", slave.reason)
                self.assertIn("not replicating to 127.0.0.1:", self.said.sentences[-1])
                self.assertEqual(master.turned_away, 1)
            for one in (slave, master):
                self.stop(one)
                self._services.remove(one)

    def test_rocketmq(self) -> None:
        """A RocketMQ master, which does not know our question, is followed without TLS, and the log says so."""
        self.make_master()
        self.tail.logs[MAIN] = None
        with capturedLogs() as events:
            self.make_slave(tls=self.client_tls())
        self.assertEqual(self.here.data, self.there.data[800:])
        self.assertTrue([one for one in events if "without TLS" in str(one.get("log_format"))])

    def test_reload(self) -> None:
        """A certificate that is read anew is for the next connection."""
        tls = self.server_tls()
        self.make_master(tls=tls)
        slave = self.make_slave(tls=self.client_tls())
        self.issue("master", "example.org")
        tls.reload()
        self.settle(6)
        self.assertEqual(slave.state, SlaveState.FOLLOWING)
        self.stop(slave)
        self._services.remove(slave)
        self.assertIn("not for the host", self.make_slave(tls=self.client_tls()).reason)

    def test_slow_handshake(self) -> None:
        """A slave waits 10 s for a master to agree on TLS."""

        class Silent(Protocol):
            """Says nothing."""

        self.successResultOf(self.env.network.listen(f"tcp:{PORT}", Factory.forProtocol(Silent)))
        slave = self.make_slave(tls=self.client_tls())
        self.settle(9)
        self.assertEqual(slave.state, SlaveState.CATCHING_UP)
        self.settle(2)
        self.assertIn("there is no TLS within 10 s", slave.reason)
        self.stop(slave)
        self._services.remove(slave)
        self.env.network.ports[PORT].stopListening()


class PlainTests(TLSCase):
    """A slave of RocketMQ's kind, which knows no TLS."""

    def test_permissive(self) -> None:
        """It gets the log where TLS is off or permissive."""
        for tls in (None, self.server_tls(Mode.DISABLED), self.server_tls()):
            master = self.make_master(tls=tls)
            slave = self.plain()
            self.assertTrue(slave.heard.endswith(bytes(self.there.data[800:])))
            self.assertEqual(len(master.slaves()), 1)
            self.stop(master)
            self._services.remove(master)

    def test_enforcing(self) -> None:
        """Where TLS is enforced its hello gets nothing, and it is let go after a while; the log says why."""
        master = self.make_master(tls=self.server_tls(Mode.ENFORCING))
        slave = self.plain()
        self.assertEqual((slave.heard, slave.over, master.slaves()), (b"", False, []))
        self.there.append(b"more")
        self.settle(6)
        self.assertEqual((slave.heard, slave.over), (b"", True))
        self.assertIn("it speaks no TLS, which is enforced here", self.said.sentences[0])
        self.assertEqual((master.confirmed, master.turned_away), (0, 1))


class DoorTests(TLSCase):
    """The limits on peers that have not been identified."""

    def wire(self, master: Master) -> tuple[Link, StringTransport]:
        """Connect."""
        link = accept(master, IPv4Address("TCP", "10.1.2.3", 5000))
        assert link is not None

        class Wire(StringTransport):
            def setTcpNoDelay(self, enabled: bool) -> None:
                """There is no network."""

            def unregisterProducer(self) -> None:
                self.producer = None

        wire = Wire()
        link.makeConnection(wire)
        return link, wire

    def test_silent(self) -> None:
        """Who says nothing, or begins a handshake and does not end it, counts for nothing and is let go."""
        master = self.make_master(tls=self.server_tls(), sync=True)
        for said in (b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01"):
            link, wire = self.wire(master)
            feed = cast("Feed", link.session)
            if said:
                link.dataReceived(said)
            self.assertEqual((master.slaves(), feed.admitted), ([], False))
            self.there.append(b"more")
            self.settle(26)
            self.assertEqual(wire.value(), b"")
            self.assertTrue(wire.disconnecting)
            link.connectionLost()

    def test_rubbish(self) -> None:
        """Rubbish behind the first byte of TLS ends the connection, and is no bug."""
        master = self.make_master(tls=self.server_tls())
        for said in (b"\x16" * 50, b"\x16\x03\x01\0\x05hello", b"\x16\xff\xff\xff\xff" + bytes(300)):
            link, wire = self.wire(master)
            link.dataReceived(said)
            self.assertTrue(wire.disconnecting)
            link.connectionLost()
            self.assertEqual((master.slaves(), self.flushLoggedErrors()), ([], []))

    def test_makes_room(self) -> None:
        """Those that have not ended their handshakes leave when others want to come."""
        master = self.make_master(tls=self.server_tls())
        waiting = [self.wire(master) for _ in range(256)]
        newest, _ = self.wire(master)
        self.assertTrue(newest.open)
        self.assertFalse(waiting[0][0].open)
        self.assertTrue(waiting[1][0].open)
        for link, _ in [*waiting, (newest, None)]:
            link.connectionLost()

    def test_nothing_stays(self) -> None:
        """A connection that is gone keeps neither its layer of TLS nor what was replaced for it."""
        master = self.make_master(tls=self.server_tls())
        self.make_slave(tls=self.client_tls())
        (feed,) = list(master._feeds)
        self.stop(master)
        self._services.remove(master)
        self.assertIsNone(feed.link._layer)
        self.assertNotIn("dataReceived", vars(feed.link))
