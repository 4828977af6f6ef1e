"""A master and its slave over TLS, on real sockets and files."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.protocol import Factory
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from smartgo.broker.broker import Broker
from smartgo.broker.network import BrokerSecurity
from smartgo.broker.openbroker import OpenBroker
from smartgo.cli.support.embedded import configuration_of
from smartgo.env.real import RealEnvironment
from smartgo.ha.interfaces import SlaveState
from smartgo.node.process import client_tls, server_tls
from smartgo.remoting.client import CallSecurity, RemotingClient
from tests.broker.cluster.test_replicationkey import Plain
from tests.broker.fakecluster import opened, send_command
from tests.remoting.certificates import Authority
from tests.remoting.doubles import sweeper_of

AUTHORITY = Authority()


class SocketsTests(TestCase):
    """One certificate for both, which is asked for in both directions."""

    timeout = 120

    def setUp(self) -> None:
        """Certificates, and nobody there yet."""
        from twisted.internet import reactor

        self.env = RealEnvironment(reactor)
        self.addCleanup(self.env.threads.stop)
        self.port, self.ha_port = self.env.network.free_port(), self.env.network.free_port()
        folder = os.path.abspath(self.mktemp())
        os.makedirs(folder)
        certificate, key = AUTHORITY.issue("127.0.0.1")
        paths = {"ca": AUTHORITY.pem, "pem": certificate, "key": key}
        for name, data in paths.items():
            path = os.path.join(folder, name)
            with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                file.write(data)
        self.trust, self.certificate, self.key = (os.path.join(folder, name) for name in paths)

    async def start(self, name: str, **settings: str) -> OpenBroker:
        """Start a broker."""
        flags = {
            "storePathRootDir": os.path.join(self.mktemp(), name),
            "mappedFileSizeCommitLog": "1048576", "maxHashSlotNum": "100", "maxIndexNum": "400",
            "brokerName": "broker-a", "fastPort": "false", "opsListen": "off",
            "broker.listenPort": str(self.port), "haListenPort": str(self.ha_port),
            "tls.server.certPath": self.certificate, "tls.server.keyPath": self.key,
            "tls.server.trustCertPath": self.trust, "tls.server.need.client.auth": "require",
            "tls.enable": "true", "tls.client.trustCertPath": self.trust,
            **settings,
        }  # fmt: skip
        configuration = configuration_of(self.env, flags)
        tls, towards = server_tls(self.env, configuration.tls), client_tls(self.env, configuration.tls)
        broker = Broker(self.env, configuration, sweeper_of(self.env.clock), BrokerSecurity(tls, towards))
        broker.startService()
        self.addCleanup(broker.stopService)
        await broker.ready
        return opened(broker)

    async def slave(self, name: str, **settings: str) -> OpenBroker:
        """Start a slave of the master."""
        own = {"broker.listenPort": str(self.env.network.free_port()), "haListenPort": "0"}
        address = {"haMasterAddress": f"127.0.0.1:{self.ha_port}", "masterAddress": f"127.0.0.1:{self.port}"}
        return await self.start(name, brokerRole="SLAVE", brokerId="1", **own, **address, **settings)

    async def until(self, condition: Any) -> None:
        """Wait until something holds."""
        while not condition():
            await deferLater(self.env.clock, 0.05)

    def test_pair(self) -> Deferred[None]:
        """A slave that shows a certificate gets the log; one without, and a plain connection, not a byte of it."""
        return ensureDeferred(self._pair())

    async def _pair(self) -> None:
        master = await self.start("master")
        plain = Plain()
        await self.env.network.connect("127.0.0.1", self.ha_port, Factory.forProtocol(lambda: plain), 10.0)
        shown = {"tls.client.certPath": self.certificate, "tls.client.keyPath": self.key}
        flags = {"tls.enable": "true", "tls.client.trustCertPath": self.trust, **shown}
        towards = client_tls(self.env, configuration_of(self.env, flags).tls)
        client = RemotingClient(self.env, sweeper_of(self.env.clock), security=CallSecurity(towards))
        self.addCleanup(client.stop)
        for number in range(100):
            sent = await client.ask(f"127.0.0.1:{self.port}", send_command("T", b"%d" % number * 900), 10.0)
            self.assertEqual(sent.code, 0)
        slave = await self.slave("slave", **shown)
        bare = await self.slave("bare")
        end = master.store.log_bounds()[1]
        await self.until(lambda: slave.store.log_bounds()[1] == end)
        await self.until(lambda: slave.replication.now().state is SlaveState.FOLLOWING)
        await self.until(lambda: "TLS: the other side wants a client certificate" in bare.replication.now().reason)
        self.assertEqual(bare.store.log_bounds()[1], 0)
        self.assertEqual(len(master.replication.now().slaves), 1)
        self.assertEqual(plain.heard, b"")
        await plain.gone
        self.assertEqual(plain.heard, b"")
