"""Tests of L{smartgo.spark.network.wire} on sockets."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor

from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import CallFailed, CallTimedOut, NotConnected, SettingError
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.signature import AccessKey
from smartgo.spark.network.access import ClusterAccess, TLSFileNames
from smartgo.spark.network.wire import BlockingConnection, MachineClock, tls_context

ACCESS = ClusterAccess(("r:1",), key=("name", "secret"))


class WireTests(SynchronousTestCase):
    def setUp(self) -> None:
        """A server that this test plays."""
        self.server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.server.close)
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"

    def connected(self) -> tuple[BlockingConnection, socket.socket]:
        """Return both ends of a connection."""
        connection = BlockingConnection(self.address, ACCESS, 5)
        self.addCleanup(connection.close)
        peer, _ = self.server.accept()
        self.addCleanup(peer.close)
        return connection, peer

    def test_exchange(self) -> None:
        """A request is signed and numbered; answers are read whole, however they are cut."""
        connection, peer = self.connected()
        numbers = [
            connection.send(Command.request(RequestCode.GET_MAX_OFFSET, fields={"topic": "T"})) for _ in range(2)
        ]
        self.assertEqual(numbers, [1, 2])
        data = b""
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
            data += peer.recv(100)
        request = decode(data[4 : 4 + int.from_bytes(data[:4], "big")])
        self.assertTrue(AccessKey("name", "secret").signed(request))
        whole = encode(request.answer(body=b"x" * 1000))
        for at in range(0, len(whole), 300):
            peer.sendall(whole[at : at + 300])
        answer = connection.receive(5)
        self.assertEqual((answer.opaque, answer.body), (1, b"x" * 1000))

    def test_silence(self) -> None:
        """A peer that does not answer is given up after the time-out."""
        connection, _ = self.connected()
        self.assertRaises(CallTimedOut, connection.receive, 0.01)

    def test_closed(self) -> None:
        """A connection that the peer closes is an error that names the peer."""
        connection, peer = self.connected()
        peer.sendall(b"\0\0")
        peer.close()
        error = self.assertRaises(NotConnected, connection.receive, 5)
        self.assertIn(f"{self.address} closed the connection", str(error))

    def test_nonsense(self) -> None:
        """What is no answer ends the connection."""
        for sent in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x05\0\0\0\x01x", bytes(8)):
            connection, peer = self.connected()
            peer.sendall(sent)
            self.assertRaises(CallFailed, connection.receive, 5)

    def test_refused(self) -> None:
        """An address that nobody listens at is told."""
        self.server.close()
        error = self.assertRaises(NotConnected, BlockingConnection, self.address, ACCESS, 5)
        self.assertIn(f"{self.address} cannot be reached: Connection refused", str(error))
        self.assertRaises(NotConnected, BlockingConnection, "nowhere", ACCESS, 5)

    def test_no_tls(self) -> None:
        """A peer that does not speak TLS is told."""
        access = ClusterAccess(("r:1",), tls=TLSFileNames())
        with ThreadPoolExecutor(1) as threads:

            def answer() -> None:
                peer, _ = self.server.accept()
                with peer:
                    peer.recv(1)
                    peer.sendall(b"no TLS here")

            done = threads.submit(answer)
            error = self.assertRaises(NotConnected, BlockingConnection, self.address, access, 5)
            done.result()
        self.assertIn(f"TLS with {self.address} failed", str(error))

    def test_files(self) -> None:
        """A file for TLS that is missing, or a key that others may read, is refused."""
        self.assertIn("/no/such.pem", str(self.assertRaises(SettingError, tls_context, TLSFileNames("/no/such.pem"))))
        key = os.path.abspath(self.mktemp())
        with open(key, "w") as file:
            file.write("no key")
        os.chmod(key, 0o644)
        names = TLSFileNames(certificate=key, key=key)
        self.assertIn("chmod 600", str(self.assertRaises(SettingError, tls_context, names)))
        os.chmod(key, 0o600)
        self.assertIn("cannot be used", str(self.assertRaises(SettingError, tls_context, names)))

    def test_clock(self) -> None:
        """The clock goes on while it pauses."""
        clock = MachineClock()
        begin = clock.seconds()
        clock.pause(0.001)
        self.assertGreaterEqual(clock.seconds() - begin, 0.001)
