"""Access control: the official clients and tools with right and wrong keys."""

from __future__ import annotations

import os
from typing import Any

from tests.interop.case import Cluster, InteropCase, driver
from tests.interop.certificates import Certificates
from tests.interop.driver import CommandFailed, Driver, rocketmq_home
from tests.interop.peers import SMARTGO, chosen

ADMIN, PRODUCER, CONSUMER = (("an-admin", "admin-secret"), ("a-producer", "prod-secret"), ("a-consumer", "cons-secret"))
FORGER = ("an-admin", "wrong-secret")
RULES = """
accounts:
- {accessKey: an-admin, secretKey: admin-secret, admin: true}
- {accessKey: a-producer, secretKey: prod-secret, topicPerms: [orders=PUB]}
- {accessKey: a-consumer, secretKey: cons-secret, topicPerms: [orders=SUB], groupPerms: [billing=SUB]}
"""


class AccessTests(InteropCase):
    """A broker with access control; a registry with it as well, where the registry is ours."""

    def _running(self, registry: bool) -> Cluster:
        home = self.home
        settings = {"aclEnable": "true"}
        folder = os.path.join(rocketmq_home(home), "conf")
        with open(os.path.join(folder, "plain_acl.yml"), "w") as file:
            file.write(RULES)
        more = {"aclPath": folder, "accessKey": ADMIN[0], "secretKey": ADMIN[1]}
        if chosen() is SMARTGO:
            settings |= more
        cluster = Cluster(chosen(), home, settings, settings if registry else None, key=ADMIN)
        self.addCleanup(cluster.end)
        cluster.start()
        return cluster

    def _with(self, generation: str, key: tuple[str, str]) -> Driver:
        java = Driver(generation, self.home, "JSON", key=key)
        self.addCleanup(java.process.kill)
        return java

    def _refused(self, java: Driver, what: str, **arguments: Any) -> str:
        """Check that a command fails, and return why."""
        return str(self.assertRaises(CommandFailed, java.ask, what, retries=0, timeoutMs=5000, **arguments))

    def _round_trip(self, generation: str, cluster: Cluster) -> None:
        where = {"namesrv": cluster.namesrv}
        admin, producer, consumer = (self._with(generation, key) for key in (ADMIN, PRODUCER, CONSUMER))
        for topic in ("orders", "other"):
            admin.ask("topic", topic=topic, queues=2, address=cluster.broker.address, **where)
        self.assertEqual(len(producer.start("send", topic="orders", count=5, **where).all_of("sent")), 5)
        pushed = consumer.start("push", name="c", group="billing", topics={"orders": "*"}, fromFirst=True, **where)
        pushed.wait_for("message", 5, 60)
        consumer.ask("push.stop", name="c")
        for java, topic in ((producer, "other"), (consumer, "orders")):
            said = self._refused(java, "send", topic=topic, **where)
            self.assertIn("CODE: 1 ", said)
            self.assertIn("ermission", said)
        refused, given = (java.mqadmin(f"updateTopic -n {cluster.namesrv} -b {cluster.broker.address} -t fresh")[0]
                          for java in (producer, admin))  # fmt: skip
        self.assertNotIn("success", refused)
        self.assertIn("success", given, admin.process.tail)
        for java in (admin, producer, consumer):
            java.close()

    def _strangers(self, generation: str, cluster: Cluster) -> list[str]:
        """Return why a client with a wrong secret and one without a key may not send."""
        forger = self._with(generation, FORGER)
        told = [
            self._refused(java, "send", topic="orders", namesrv=cluster.namesrv)
            for java in (forger, driver(generation))
        ]
        forger.close()
        self._forget(cluster.namesrv)
        return told

    def test_certificate(self) -> None:
        """A client without a key has the rights of the account that names its certificate."""
        if chosen() is not SMARTGO:
            self.skipTest("accounts with certificates are smartgo's own")
        made = Certificates.make(os.path.join(self.home, "certificates"))
        folder = os.path.join(rocketmq_home(self.home), "conf")
        more = "- {accessKey: the-orders, secretKey: orders-secret, certificate: CN=orders-client, %s}\n"
        with open(os.path.join(folder, "plain_acl.yml"), "w") as file:
            file.write(RULES + more % "topicPerms: [orders=PUB|SUB], groupPerms: [billing=SUB]")
        settings = {
            "aclEnable": "true", "aclPath": folder, "accessKey": ADMIN[0], "secretKey": ADMIN[1],
            "tls.server.need.client.auth": "optional", "tls.server.trustCertPath": made.authority,
        }  # fmt: skip
        cluster = Cluster(chosen(), self.home, settings, settings, tls=made, key=ADMIN)
        self.addCleanup(cluster.end)
        cluster.start()
        where = {"namesrv": cluster.namesrv}
        for generation in ("4.9", "5.3"):
            admin = Driver(generation, self.home, "JSON", tls=made.client, key=ADMIN)
            client, nobody = (Driver(generation, self.home, "JSON", tls=one) for one in (made.identity, made.client))
            for java in (admin, client, nobody):
                self.addCleanup(java.process.kill)
            for topic in ("orders", "other"):
                admin.ask("topic", topic=topic, queues=2, address=cluster.broker.address, **where)
            self.assertEqual(len(client.start("send", topic="orders", count=5, **where).all_of("sent")), 5)
            pushed = client.start("push", name="c", group="billing", topics={"orders": "*"}, fromFirst=True, **where)
            pushed.wait_for("message", 5, 60)
            client.ask("push.stop", name="c")
            self.assertIn("No permission for topic other", self._refused(client, "send", topic="other", **where))
            said = self._refused(nobody, "send", topic="orders", **where)
            self.assertIn("No route info", said)  # the registry refuses to tell
            for java in (admin, client, nobody):
                java.close()

    def test_broker(self) -> None:
        """Behind a registry that everybody may ask, the broker decides by key, topic and group."""
        cluster = self._running(registry=False)
        for generation in ("4.9", "5.3"):
            self._round_trip(generation, cluster)
            for said, reason in zip(
                self._strangers(generation, cluster),
                ("Check signature failed for accessKey=an-admin", "No accessKey is configured"),
                strict=True,
            ):
                self.assertIn("CODE: 1 ", said)
                self.assertIn(reason, said)

    def test_users(self) -> None:
        """mqadmin of 5.3 makes users and policies; a producer of 5.3 may do what they say, and no more."""
        if chosen() is not SMARTGO:
            return  # 4.9 has none
        cluster = self._running(registry=False)
        admin, alice = self._with("5.3", ADMIN), self._with("5.3", ("alice", "alice-secret"))
        at = f"-n {cluster.namesrv} -b {cluster.broker.address}"
        for topic in ("orders", "other"):
            admin.ask("topic", topic=topic, queues=2, address=cluster.broker.address, namesrv=cluster.namesrv)
        told = admin.mqadmin(
            f"createUser {at} -u alice -p alice-secret -t Normal",
            f"createUser {at} -u bob -p bob-secret -t Super",
            f"createUser {at} -u bob -p bob-secret",
            f"createAcl {at} -s User:alice -r Topic:ord* -a Pub -d Allow",
            f"updateUser {at} -u bob -s disable",
            f"listUser {at}",
            f"getUser {at} -u bob",
            f"createAcl {at} -s User:carol -r Topic:T -a Pub -d Allow",
            f"createAcl {at} -s User:alice -r Group:g* -a Sub,Get -i 10.0.0.0/8,127.0.0.1 -d Deny",
            f"listAcl {at}",
            f"getAcl {at} -s User:alice",
        )
        self.assertIn("create user to", told[0])
        self.assertNotIn("create user to", told[2])
        self.assertIn("create acl to", told[3])
        for text in told[5:7]:
            self.assertRegex(text, r"bob +null +Super +disable")
        self.assertRegex(told[5], r"alice +null +Normal +enable")
        self.assertNotIn("create acl to", told[7])
        for text in told[9:]:
            self.assertRegex(text, r"User:alice +Custom +Topic:ord\* +\[Pub\] +null +Allow")
            self.assertRegex(text, r"User:alice +Custom +Group:g\* +\[Sub, Get\] +\[10.0.0.0/8, 127.0.0.1\] +Deny")
        where = {"namesrv": cluster.namesrv}
        self.assertEqual(len(alice.start("send", topic="orders", count=5, **where).all_of("sent")), 5)
        self.assertIn(
            "User:alice has no permission to access Topic:other", self._refused(alice, "send", topic="other", **where)
        )
        admin.mqadmin(f"deleteAcl {at} -s User:alice -r Topic:ord*")
        self.assertIn("has no permission to access Topic:orders", self._refused(alice, "send", topic="orders", **where))
        admin.mqadmin(f"deleteUser {at} -u alice")
        self.assertIn("Check signature failed", self._refused(alice, "send", topic="orders", **where))
        for java in (admin, alice):
            java.close()

    def test_registry(self) -> None:
        """A registry with access control gives routes to those with a key alone."""
        if chosen() is not SMARTGO:
            return  # it has none
        cluster = self._running(registry=True)
        for generation in ("4.9", "5.3"):
            self._round_trip(generation, cluster)
            for said in self._strangers(generation, cluster):
                self.assertNotIn("sent", said.split(":")[0])

    def test_settings(self) -> None:
        """mqadmin changes settings of a broker and a registry that have access control."""
        if chosen() is not SMARTGO:
            return  # its registry has none
        cluster = self._running(registry=True)
        admin = self._with("4.9", ADMIN)
        for command in (
            f"updateBrokerConfig -n {cluster.namesrv} -b {cluster.broker.address} -k brokerPermission -v 6",
            f"updateNamesrvConfig -n {cluster.namesrv} -k orderMessageEnable -v true",
        ):
            (printed,) = admin.mqadmin(command)
            self.assertIn("success", printed, f"{command}: {admin.process.tail}")
        admin.close()
