"""Connections between masters and slaves leave nothing in memory, without the garbage collector: over real sockets."""

from __future__ import annotations

import socket
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from smartgo.env.real import RealEnvironment
from smartgo.ha.interfaces import SlaveState
from smartgo.ha.master import Master, MasterSettings
from smartgo.ha.slave import Slave
from smartgo.net.tls import ClientTLS, KeyFiles, ServerTLS
from smartgo.schema.hatransfer import report_struct
from tests.ha.fakes import FakeLog, FakeTail, Said
from tests.ha.pair import MAIN, noise
from tests.remoting.certificates import Authority
from tests.remoting.doubles import sweeper_of
from tests.remoting.lifetime import LifetimeCase, cut, dial

MIB = 1 << 20


class Links(dict[Any, None]):
    """The connections of a master, and how many there were ever: one may come and go between two looks."""

    ever = 0

    def __setitem__(self, link: Any, value: None) -> None:
        self.ever += 1
        super().__setitem__(link, value)


class Case(LifetimeCase):
    """A master on a free port."""

    def setUp(self) -> None:
        self.env = RealEnvironment(reactor)
        authority = Authority()
        self.paths = []
        for data in (*authority.issue("localhost", "127.0.0.1"), authority.pem):
            self.paths.append(self.mktemp())
            self.env.files.create(self.paths[-1], data)
        self.there = FakeLog(noise(MIB) * 8, file_size=16 * MIB)

    async def serve(self, **options: Any) -> None:
        """Listen."""
        tls = ServerTLS(self.env, KeyFiles(self.paths[0], self.paths[1]))
        self.sweeper = sweeper_of(self.env.clock)
        self.sweeper.peer_warnings = Said()
        settings = MasterSettings(**options)
        self.master = Master(self.env, self.there, "tcp:0:interface=127.0.0.1", self.sweeper, settings, tls)
        self.links = self.master._listener._ports[0].links = Links()
        await self.master.open()
        self.master.startService()

    def tearDown(self) -> Deferred[None]:  # type: ignore[override]
        """Stop all."""
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        await self.master.stopService()
        await self.env.threads.stop()

    def nobody(self) -> bool:
        """Tell whether no connection is left at the master."""
        return not self.links


class MasterTests(Case):
    """The master's objects of a slave's connection."""

    async def one(self, hello: bytes, wait: int, secure: bool, reset: bool) -> None:
        """Connect, say something, take some of the answer, and go."""
        before = self.links.ever
        peer: socket.socket = await self.in_thread(dial, self.master.port, secure)
        if hello:
            await self.in_thread(peer.sendall, hello)
        while wait > 0:
            wait -= len(await self.in_thread(peer.recv, 65536))
        await self.until(lambda: self.links.ever > before, "no connection")
        await self.in_thread(cut if reset else socket.socket.close, peer)
        await self.until(self.nobody, "it is still there")
        await self.turn(3)

    async def test_slaves(self) -> None:
        """A slave goes: while the log is being sent, before it has said a word, after rubbish, within a handshake."""
        await self.serve()
        begin = report_struct.pack(0)
        ways = [(begin, MIB, secure, reset) for secure in (False, True) for reset in (False, True)]
        ways += [(b"", 0, False, False), (b"\xff" * 100, 0, False, True), (b"\x16\x03\x01\x02\x00\x01", 0, False, True)]
        for way in ways:
            await self.one(*way)
        self.watch_memory()
        for way in ways:
            await self.one(*way)
            await self.assert_freed(repr(way))

    async def test_refused(self) -> None:
        """One that is not let in waits and goes."""
        await self.serve(allow=["10.0.0.0/8"])
        await self.one(report_struct.pack(0), 0, False, False)
        self.watch_memory()
        await self.one(report_struct.pack(0), 0, False, False)
        await self.assert_freed("a refusal")


class SlaveTests(Case):
    """The objects of both ends of a connection that ends."""

    async def test_both(self) -> None:
        """A slave follows and stops, or its master cuts it: nothing is left on either side."""
        await self.serve()
        here = FakeLog(bytes(self.there.data), file_size=16 * MIB)
        for tls in (None, ClientTLS(self.env, trust=self.paths[2])):
            slave = Slave(self.env, here, FakeTail({MAIN: self.there}), self.sweeper, tls=tls)
            address = f"127.0.0.1:{self.master.port}"
            for again in (False, True):
                if again:
                    self.watch_memory()
                slave.startService()
                slave.follow(address, MAIN)
                await self.until(lambda one=slave: one.state is SlaveState.FOLLOWING, "not following")  # type: ignore[misc]
                for feed in list(self.master._feeds):
                    feed.link.abort()
                del feed
                await self.until(self.nobody, "it is still there")
                await slave.stopService()
                slave.startService()
                await self.until(lambda one=slave: one.state is SlaveState.FOLLOWING, "not following")  # type: ignore[misc]
                await slave.stopService()
                await self.until(self.nobody, "it is still there")
                await self.turn(3)
            await self.assert_freed(f"following, {'TLS' if tls else 'plain'}")
