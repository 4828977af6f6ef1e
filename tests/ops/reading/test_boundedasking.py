"""One sick broker spoils no view: each says what the others know, names who is missing, and does not wait long."""

from __future__ import annotations

import json
import struct
from typing import Any, Final, cast

from twisted.internet.protocol import Factory, Protocol

from smartgo.client.administration.asking import TIMEOUT
from smartgo.ops.reading.boundedasking import CALL_SECONDS, VIEW_SECONDS
from smartgo.schema.bodies import (
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command, decode
from smartgo.schema.headers.registry import UnregisterBrokerRequest
from tests.broker.fakecluster import BROKER, REGISTRY, heartbeat
from tests.broker.halves import send_half
from tests.ops.front import HOST, Answer, parsed
from tests.ops.resources.test_deadletters import LetterCase
from tests.ops.resources.test_messages import UNIQUE

SICK: Final = "broker-z"
PORT: Final = 20911
PATIENCE: Final = VIEW_SECONDS + 1.0
"""Seconds that a view may take."""

_MEMBER: Final = "client-1"

VIEWS: Final = {
    # What asks brokers and names who is missing.
    "/cluster": ("partial", "/cluster"),
    "/brokers": ("partial", "/brokers"),
    "/clients": ("partial", "/clients"),
    "/clients/{id}": ("partial", f"/clients/{_MEMBER}"),
    "/topics": ("partial", "/topics?amounts=true"),
    "/topics/{name}": ("partial", "/topics/Orders"),
    "/topics/{name}/queues": ("partial", "/topics/Orders/queues?ages=true"),
    "/topics/{name}/groups": ("partial", "/topics/Orders/groups"),
    "/topics/{name}/lag": ("partial", "/topics/Orders/lag"),
    "/groups": ("partial", "/groups?progress=true"),
    "/groups/{name}": ("partial", "/groups/audit"),
    "/groups/{name}/progress": ("partial", "/groups/audit/progress"),
    "/groups/{name}/topics": ("partial", "/groups/audit/topics"),
    "/groups/{name}/lag": ("partial", "/groups/audit/lag?owners=true"),
    "/groups/{name}/damage": ("partial", "/groups/audit/damage"),
    "/groups/{name}/clients": ("partial", "/groups/audit/clients"),
    "/messages": ("partial", "/messages?topic=Orders&key=all"),
    "/messages/newest": ("partial", "/messages/newest?topic=Orders"),
    "/messages/anywhere": ("partial", f"/messages/anywhere?word={UNIQUE}"),
    "/messages/{id}": ("partial", f"/messages/{UNIQUE}?topic=Orders"),
    "/messages/{id}/groups": ("partial", f"/messages/{UNIQUE}/groups?topic=Orders"),
    "/messages/{id}/explain": ("partial", f"/messages/{UNIQUE}/explain?topic=Orders&group=audit"),
    "/messages/{id}/trace": ("partial", f"/messages/{UNIQUE}/trace?traceTopic=Orders"),
    "/dlq": ("partial", "/dlq"),
    "/dlq/{name}": ("partial", "/dlq/audit"),
    "/dlq/{name}/export": ("lines", "/dlq/audit/export"),
    "/transactions": ("partial", "/transactions"),
    "/transactions/{id}": ("partial", "/transactions/TX1"),
    "/messages/at": ("partial", "/messages/at?topic=Orders&broker=broker-a&queueId=0&offset=0"),
    "/messages/peek": ("whole", "/messages/peek?topic=Orders&broker=broker-a&queueId=0"),
    "/messages/{id}/body": ("whole", f"/messages/{UNIQUE}/body?topic=Orders"),
    # What is about the sick broker alone, or may not be half: it fails soon, and says by whose fault.
    "/brokers/{name}": ("row", f"/brokers/{SICK}"),
    "/brokers/{name}/config": ("error", f"/brokers/{SICK}/config"),
    "/brokers/{name}/retention": ("error", f"/brokers/{SICK}/retention"),
    "/brokers/{name}/store": ("error", f"/brokers/{SICK}/store"),
    "/brokers/{name}/backup": ("error", f"/brokers/{SICK}/backup"),
    "/definitions": ("error", "/definitions"),
    # What clients are asked for.
    "/groups/{name}/clients/{client}": ("soon", f"/groups/audit/clients/{_MEMBER}"),
    # What registries tell, or this process.
    "/registries": ("whole", "/registries"),
    "/topics/{name}/route": ("whole", "/topics/Orders/route"),
    "/kv/{namespace}": ("whole", "/kv/N"),
    "/kv/{namespace}/{key}": ("whole", "/kv/N/k"),
    "/events": ("head", "/events?topic=Orders&group=audit"),
    "/tail": ("head", "/tail?topic=Orders"),
    "/jobs/{id}/export": ("whole", "/jobs/{job}/export"),
    "/jobs/{id}": ("whole", "/jobs/{job}"),
    "/jobs/{id}/rows": ("whole", "/jobs/{job}/rows"),
}
"""Every view that asks others, and what becomes of it."""


class SickBroker(Protocol):
    """A broker that is not well."""

    kind = ""
    delay = 0.0
    clock: Any

    def __init__(self) -> None:
        self._received = b""

    def connectionMade(self) -> None:
        """Say what is no frame, if it is of that kind."""
        if self.kind == "junk":
            self._write(b"\0\0\0\5\0\0\0\1{")

    def dataReceived(self, data: bytes) -> None:
        """Answer, or do not."""
        if self.kind in ("silent", "junk"):
            return
        self._received += data
        while len(self._received) >= 4:
            (length,) = struct.unpack_from(">I", self._received)
            if len(self._received) < 4 + length:
                return
            request, self._received = decode(self._received[4 : 4 + length]), self._received[4 + length :]
            self.clock.callLater(self.delay, self._write, self.answer(request))

    def answer(self, request: Command) -> bytes:
        """Return the answer to a request, as a frame."""
        header: dict[str, Any] = {"flag": 1, "opaque": request.opaque, "language": "JAVA", "version": 401}
        body = b""
        if self.kind == "errors":
            header |= {"code": 14, "remark": "out of order"}
        elif self.kind == "nonsense":
            header |= {"code": 0, "extFields": {"offset": "x", "nextBeginOffset": "y"}}
            body = b'{"table": 7, "topicConfigTable": 8'
        elif request.code == RequestCode.GET_ALL_TOPIC_CONFIG:
            body = TopicConfigSerializeWrapper({"Orders": TopicConfig(topic_name="Orders")}).encode()
            header |= {"code": 0}
        elif request.code == RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG:
            body = SubscriptionGroupWrapper({"audit": SubscriptionGroupConfig(group_name="audit")}).encode()
            header |= {"code": 0}
        else:
            known = request.code != RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER
            header |= {"code": 14 if known else 3, "remark": "not now"}
        head = json.dumps(header).encode()
        return struct.pack(">II", 4 + len(head) + len(body), len(head)) + head + body

    def _write(self, data: bytes) -> None:
        cast("Any", self.transport).write(data)


class SickCase(LetterCase):
    """Two brokers: one is well and has messages, members and dead letters, the other is sick."""

    def join(self, kind: str, delay: float = 0.0) -> None:
        """Register a sick broker, which takes so many seconds for an answer."""
        told = {"kind": kind, "delay": delay, "clock": self.front.env.clock}
        factory = Factory.forProtocol(type("Sick", (SickBroker,), told))
        factory.noisy = False
        if kind != "dead":
            self.front.env.network.listen(f"tcp:{PORT}", factory)
        self.register()

    def register(self) -> None:
        """Tell the registry that it is there, as brokers do again and again."""
        self.cluster.register(SICK, PORT, "Orders", "%DLQ%audit")
        self.front.ops.view.forget()

    def leave(self) -> None:
        """Have it leave the registry, and end."""
        self.front.env.network.kill(PORT)
        header = UnregisterBrokerRequest(
            broker_name=SICK, broker_addr=f"127.0.0.1:{PORT}", cluster_name="DefaultCluster", broker_id=0
        )
        answer = self.cluster.ask(Command.request(RequestCode.UNREGISTER_BROKER, header), REGISTRY)
        self.assertEqual(answer.code, 0)

    def timed(self, path: str, method: str = "GET") -> tuple[Answer, float]:
        """Ask; return the answer and how many seconds it took."""
        line = self.front.connect()
        head = f"{method} /api/v1{path} HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n"
        cast("Any", line.transport).write(f"{head}Authorization: Bearer {self.token}\r\n\r\n".encode())
        began = self.front.env.clock.seconds()
        while not line.closed and self.front.env.clock.seconds() - began < 4 * PATIENCE:
            self.cluster.pump(0.25, 0.25)
        self.assertTrue(line.closed, f"{path} took more than {4 * PATIENCE:g} s")
        return parsed(line.received), self.front.env.clock.seconds() - began

    def setUp(self) -> None:
        super().setUp()
        self.cluster.heartbeat("audit", "Orders", client_id=_MEMBER)
        send_half(self.cluster, "TX1", topic="Orders", CHECK_IMMUNITY_TIME_IN_SECONDS="9999")
        self.order("PUT", "/kv/N/k", {"value": "v"})
        job = self.order("POST", "/messages/search", {"topic": "Orders"})[1]
        self.cluster.pump(1.0)
        self.started = job["id"]


class ViewTests(SickCase):
    """Each view, beside a broker of each kind."""

    def check(self, kind: str) -> None:
        """Look at all views beside one broker of a kind."""
        self.join(kind)
        for path, (wanted, url) in VIEWS.items():
            self.cluster.pump(2 * PATIENCE, 1.0)  # what was kept of a group's progress is not shown again
            self.register()
            beat = Command.request(RequestCode.HEART_BEAT, body=heartbeat("audit", "Orders", client_id=_MEMBER))
            self.cluster.client.ask(BROKER, beat, 3.0)
            self.cluster.pump(0.5)
            target = url.replace("{job}", self.started)
            answer, took = self.timed(target, "HEAD" if wanted == "head" else "GET")
            said = f"{kind}: {path}: {answer.status} {answer.content[:300]!r} after {took:g} s"
            self.assertLessEqual(took, PATIENCE, said)
            if wanted == "partial":
                self.assertEqual(answer.status, 200, said)
                self.assertEqual([one["broker"] for one in answer.json["missing"]], [SICK], said)
                self.assertTrue(answer.json["missing"][0]["reason"], said)
            elif wanted in ("whole", "head"):
                self.assertEqual(answer.status, 200, said)
            elif wanted == "lines":
                *lines, last = map(json.loads, answer.content.splitlines())
                self.assertEqual((answer.status, len(lines)), (200, 4), said)
                self.assertEqual([one["broker"] for one in last["missing"]], [SICK], said)
            elif wanted == "row":
                self.assertEqual((answer.status, answer.json["up"]), (200, False), said)
            elif wanted == "error" and answer.status == 200:
                self.assertEqual((kind, path), ("nonsense", "/brokers/{name}/config"), said)  # any text is settings
            elif wanted == "error":
                self.assertIn(answer.status, (502, 503, 504), said)
                self.assertTrue(SICK in answer.json["detail"] or str(PORT) in answer.json["detail"], said)
            else:
                self.assertNotEqual(answer.status, 500, said)

    def test_all(self) -> None:
        """Each view that asks others is in the table of these tests."""
        asked = {one.path for one in self.front.ops.api.routes if one.method == "GET" and one.remote}
        self.assertEqual(asked - set(VIEWS), set())

    def test_silent(self) -> None:
        """A broker that does not answer (a stopped process) costs each view a moment, once."""
        self.check("silent")

    def test_junk(self) -> None:
        """One that sends what is no frame."""
        self.check("junk")

    def test_nonsense(self) -> None:
        """One whose answers cannot be read."""
        self.check("nonsense")

    def test_errors(self) -> None:
        """One that declines everything."""
        self.check("errors")

    def test_dead(self) -> None:
        """One that is registered still, and gone."""
        self.check("dead")


class LookupTests(SickCase):
    """The report about the sick broker."""

    def test_left(self) -> None:
        """A message is found beside a broker that just left, which is named."""
        self.join("well")
        self.assertEqual(self.get("/topics/Orders")["brokers"], ["broker-a", SICK])
        self.leave()
        self.cluster.pump(1.1)
        found = self.get("/messages?topic=Orders&key=order-1")
        self.assertEqual([one["broker"] for one in found["items"]], ["broker-a"])
        self.assertEqual(found["missing"], [{"broker": SICK, "reason": "it is no longer registered"}])

    def test_absent(self) -> None:
        """What only the sick broker may have is not said not to be there."""
        for path in (
            "/topics/Others",
            "/groups/others",
            "/messages/00AA?topic=Orders",
            "/clients/nobody",
            "/dlq/others",
        ):
            self.assertEqual(self.front.ask("GET", path, token=self.token).status, 404, path)
        self.join("silent")
        for path in (
            "/topics/Others",
            "/groups/others",
            "/messages/00AA?topic=Orders",
            "/clients/nobody",
            "/dlq/others",
        ):
            answer, _ = self.timed(path)
            self.assertEqual((answer.status, answer.code), (502, "brokers-missing"), path)
            self.assertIn(SICK, answer.json["detail"])

    def test_search(self) -> None:
        """A search by reading goes on without the queues of a broker that fell sick, and names it."""
        self.join("well")
        self.order("POST", "/messages/search", {"topic": "Orders"})
        job = self.order("POST", "/messages/search", {"topic": "Orders"})[1]
        self.cluster.pump(3.0)
        job = self.get(f"/jobs/{job['id']}")
        self.assertEqual((job["state"], job["rows"], job["result"]["found"]), ("done", 4, 4))
        self.assertEqual([one["broker"] for one in job["result"]["missing"]], [SICK])


class SlowTests(SickCase):
    """Brokers that are well, and slow."""

    def take_out(self) -> None:
        """Take broker-a out of service: it is not registered, and nobody expects it."""
        self.cluster.registry.routes.unregister(BROKER, "broker-a", 0)
        self.cluster.pump(1.1)
        table = self.front.ops.membership.table
        table.forget(table.members_of("broker-a"))
        self.front.ops.view.forget()

    def test_alone(self) -> None:
        """For the only broker a view waits: there is nothing to show without it."""
        self.join("well", 4.0)
        for _ in range(2):
            self.take_out()
            answer, took = self.timed("/topics")
            self.assertEqual((answer.status, answer.json["missing"]), (200, []))
            self.assertEqual([one["name"] for one in answer.json["items"]], ["Orders"])
            self.assertGreater(took, 4.0)

    def test_alone_and_silent(self) -> None:
        """The only broker that hangs is asked once a view."""
        self.join("silent")
        self.take_out()
        answer, took = self.timed("/topics?amounts=true")
        self.assertEqual(answer.status, 504)
        self.assertIn(SICK, answer.json["detail"])
        self.assertLess(took, TIMEOUT + 0.5)

    def test_beside(self) -> None:
        """For one that is slower than the other a view waits for a moment, and the next view not at all."""
        self.join("well", 4.0)
        for limit in (CALL_SECONDS + 0.5, 0.5):
            self.front.ops.view.forget()
            answer, took = self.timed("/topics")
            self.assertEqual((answer.status, [one["broker"] for one in answer.json["missing"]]), (200, [SICK]))
            self.assertLessEqual(took, limit)
