"""Clients whose connections are closed."""

from __future__ import annotations

from typing import Any

from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.client import Client
from smartgo.client.messages import Message
from smartgo.client.producer import Producer
from smartgo.node.ops import LocalNode
from tests.broker.fakecluster import REGISTRY, Cluster
from tests.ops.front import Front


class CloseTests(SynchronousTestCase):
    """A front in the process of a broker, and a client of it."""

    def setUp(self) -> None:
        self.cluster = Cluster(maxHashSlotNum="100", maxIndexNum="400")
        self.front = Front(
            self.cluster, LocalNode(self.cluster.configuration, [self.cluster.registry, self.cluster.service])
        )
        self.addCleanup(self.front.stop)
        self.token = self.front.admin()
        self.cluster.send("Orders")
        self.client = Client(self.cluster.env, REGISTRY, "mine")
        self.producer = Producer(self.client, "makers")
        self.wait(self.producer.start())
        self.addCleanup(lambda: self.wait(self.client.stop()))
        self.wait(self.producer.send(Message(topic="Orders", body=b"one")))
        self.cluster.pump(31.0, 1.0)  # its heartbeat

    def wait(self, asked: Any) -> Any:
        """Let time pass until it is there."""
        self.cluster.pump(3.0)
        return self.successResultOf(asked)

    def close(self, name: str, query: str = "", token: str | None = None) -> Any:
        """Close a client's connections."""
        return self.front.ask("DELETE", f"/clients/{name}{query}", token=self.token if token is None else token)

    @property
    def connected(self) -> list[str]:
        """The groups that the client produces for, as the broker sees it."""
        table = self.cluster.broker.producers
        return [one for one in table.groups() if any(member.client_id == self.name for member in table.members(one))]

    @property
    def name(self) -> str:
        """The client's id."""
        return self.client.id

    def test_closed(self) -> None:
        """The connections of a client are closed, and told with their groups; the logs say by whom and why."""
        self.cluster.heartbeat("audit", "Orders", client_id="other")
        self.assertEqual(self.connected, ["makers"])
        (member,) = self.cluster.broker.producers.members("makers")
        with capturedLogs() as events:
            answer = self.close(self.name, "?reason=hangs%20since%20noon")
        self.assertEqual(answer.status, 200)
        (one,) = answer.json["connections"]
        self.assertEqual((one["broker"], one["producerGroups"], one["consumerGroups"]), ("broker-a", ["makers"], []))
        self.assertEqual(one["address"], member.peer.address)
        self.assertEqual(answer.json["elsewhere"], [])
        self.assertFalse(member.peer.open)
        self.assertEqual(self.connected, [])
        entry = self.front.get("/audit", token=self.token)["items"][0]
        self.assertEqual((entry["action"], entry["subject"]["id"]), ("DELETE /clients/{id}", self.name))
        self.assertEqual(entry["detail"], {"query": {"reason": "hangs since noon"}, "closed": [one["address"]]})
        said = f"boss closed client {self.name}: hangs since noon"
        self.assertIn(said, [event.get("reason") for event in events])
        self.assertIsNotNone(self.cluster.broker.consumers.get("audit"))

    def test_again(self) -> None:
        """A client of ours connects again by itself: it sends at once, and is in its group with its next heartbeat."""
        self.close(self.name)
        sent = self.wait(self.producer.send(Message(topic="Orders", body=b"two")))
        self.assertEqual(sent.queue.topic, "Orders")
        self.cluster.pump(31.0, 1.0)
        self.assertEqual(self.connected, ["makers"])

    def test_consumer(self) -> None:
        """A consumer leaves its groups with its connection, so that others have its queues."""
        self.cluster.heartbeat("audit", "Orders", client_id="gone")
        self.cluster.heartbeat("mail", "Orders", client_id="gone")
        self.assertEqual(self.front.ask("GET", "/clients/gone", token=self.token).status, 200)
        (one,) = self.close("gone").json["connections"]
        self.assertEqual((one["producerGroups"], one["consumerGroups"]), ([], ["audit", "mail"]))
        self.assertIsNone(self.cluster.broker.consumers.get("audit"))
        self.assertEqual(self.front.ask("GET", "/clients/gone", token=self.token).status, 404)

    def test_refused(self) -> None:
        """A client that is not connected is none; nobody but an admin closes one; reasons are short and plain."""
        answer = self.close("nobody")
        self.assertEqual((answer.status, answer.code), (404, "client-not-found"))
        reader = self.front.ops.tokens.create("eyes", ["read", "publish"])[1]
        self.cluster.pump()
        self.assertEqual(self.close(self.name, token=reader).status, 403)
        self.assertEqual(self.close(self.name, "?reason=one%0atwo").status, 400)
        self.assertEqual(self.close(self.name, f"?reason={'x' * 301}").status, 400)
        self.assertEqual(self.connected, ["makers"])

    def test_elsewhere(self) -> None:
        """What is connected to brokers of other processes alone is said to be there, and not closed."""
        front = Front(self.cluster, port=10914)
        self.addCleanup(front.stop_api)
        token = front.ops.tokens.create("chief", ["admin"])[1]
        self.cluster.pump()
        host = {"Host": "127.0.0.1:10914"}
        self.assertEqual(front.ask("GET", "/clients", token=token, headers=host).json["total"], 1)
        self.cluster.heartbeat("audit", "Orders", client_id="late")
        self.assertEqual(front.ask("DELETE", "/clients/late", token=token, headers=host).code, "not-local")
        answer = front.ask("DELETE", f"/clients/{self.name}", token=token, headers=host)
        self.assertEqual((answer.status, answer.code), (409, "not-local"))
        self.assertIn("is connected to broker-a, not to a broker of this process", answer.json["detail"])
        self.assertEqual(self.connected, ["makers"])
