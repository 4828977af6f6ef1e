"""The official clients over TLS, with certificates made by the test."""

from __future__ import annotations

from tests.interop.case import Cluster, InteropCase, driver, ids, ids_of
from tests.interop.certificates import Certificates
from tests.interop.driver import CommandFailed, Driver


class TlsTests(InteropCase):
    """Registry and broker with one certificate, the clients knowing its authority."""

    def _running(self, mode: str) -> Cluster:
        self.certificates = Certificates.make(self.home)
        cluster = self.cluster(tls=self.certificates, tls_mode=mode)
        cluster.start()
        return cluster

    def _secure(self, generation: str, settings: str, encoding: str = "JSON") -> Driver:
        secure = Driver(generation, self.home, encoding, tls=settings)
        self.addCleanup(secure.process.kill)
        return secure

    def _round_trip(self, client: Driver, cluster: Cluster, topic: str) -> None:
        where = {"namesrv": cluster.namesrv}
        client.ask("topic", topic=topic, queues=2, address=cluster.broker.address, **where)
        sent = client.start("send", topic=topic, count=10, **where).all_of("sent")
        sent += client.start("send", topic=topic, count=3, first=100, size=1_000_000, **where).all_of("sent")
        consumer = client.start("push", name=topic, group=topic, topics={topic: "*"}, **where)
        expected = ids_of(sent)
        consumer.wait(lambda: ids(consumer) >= expected, 60, "13 messages")
        read = client.start("read", topics=[topic], **where).all_of("message")
        self.assert_stored(sent, read)
        client.ask("push.stop", name=topic)

    def test_enforcing(self) -> None:
        """Both generations produce and consume over TLS alone; a plain client and a wrong authority get nowhere."""
        cluster = self._running("enforcing")
        where = {"namesrv": cluster.namesrv}
        for generation, encoding in (("4.9", "JSON"), ("5.3", "ROCKETMQ")):
            client = self._secure(generation, self.certificates.client, encoding)
            self._round_trip(client, cluster, f"secure-{generation[0]}")
            client.close()
        stranger = self._secure("5.3", self.certificates.stranger)
        for client in (driver("4.9"), stranger):
            self.assertRaises(CommandFailed, client.ask, "send", topic="secure-4", retries=0, timeoutMs=3000, **where)

    def test_permissive(self) -> None:
        """A plain client and one with TLS use the same ports at the same time."""
        cluster = self._running("permissive")
        self._round_trip(driver("4.9"), cluster, "plain")
        self._round_trip(self._secure("4.9", self.certificates.client), cluster, "secure")
