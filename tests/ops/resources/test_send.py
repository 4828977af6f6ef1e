"""Test sends."""

from __future__ import annotations

import base64
from typing import Any

from smartgo.client.messages import BODY_LIMIT
from smartgo.schema.recallhandle import RecallHandle
from tests.ops.resources.test_messages import MessageCase


class SendTests(MessageCase):
    """Sending over the API."""

    def send_over(self, **order: Any) -> tuple[int, Any]:
        """Send to Orders."""
        return self.order("POST", "/send", {"topic": "Orders", **order})

    def sent(self, **order: Any) -> Any:
        """The message that was stored."""
        status, sent = self.send_over(**order)
        self.assertEqual((status, sent["status"]), (200, "SEND_OK"), sent)
        self.cluster.pump(1.0)
        one = self.get(f"/messages/{sent['offsetId']}")
        for name in ("messageId", "offsetId", "topic", "broker", "queueId", "queueOffset"):
            self.assertEqual(one[name], sent[name])
        return one

    def test_whole(self) -> None:
        """Everything that is said of a message is stored."""
        one = self.sent(
            text="Grüße",
            tag="new",
            keys=["a", "b"],
            properties={"region": "north"},
            flag=-7,
            queue={"broker": "broker-a", "queueId": 1},
        )
        self.assertEqual((one["body"]["text"], one["tag"], one["keys"]), ("Grüße", "new", ["a", "b"]))
        self.assertEqual((one["properties"]["region"], one["flag"], one["queueId"]), ("north", -7, 1))

    def test_bytes(self) -> None:
        """A body may be any bytes."""
        self.assertEqual(self.sent(base64=base64.b64encode(b"\xff\x00").decode())["body"]["kind"], "binary")

    def test_delayed(self) -> None:
        """A message may be delivered later."""
        status, sent = self.send_over(text="later", delayLevel=1, keys=["late"])
        self.assertEqual(status, 200, sent)
        self.cluster.pump(0.5)
        self.assertEqual(self.get("/messages?topic=Orders&key=late")["total"], 0)
        self.cluster.pump(2.0)
        self.assertEqual(self.get("/messages?topic=Orders&key=late")["total"], 1)

    def test_timed(self) -> None:
        """A message may have a delivery time or a delay; it is delivered then, and has no place before."""
        now_ms = self.cluster.env.clock.wall_ms()
        for order, due_ms in (({"delayMs": 60_000}, None), ({"deliverAtMs": now_ms + 60_000}, now_ms + 60_000)):
            status, sent = self.send_over(text="later", keys=["timed"], **order)
            self.assertEqual((status, sent["queueOffset"], bool(sent["recallHandle"])), (200, None, True), sent)
            self.assertEqual(sent["dueMs"], due_ms or sent["dueMs"])
            self.assertTrue(now_ms < sent["dueMs"] <= self.cluster.env.clock.wall_ms() + 60_000)
        self.assertEqual(self.get("/messages?topic=Orders&key=timed")["total"], 0)
        self.cluster.pump(61.0, 1.0)
        self.assertEqual(self.get("/messages?topic=Orders&key=timed")["total"], 2)
        status, sent = self.send_over(text="now")
        self.assertEqual((sent["recallHandle"], sent["dueMs"], sent["queueOffset"] is None), (None, None, False))

    def test_recall(self) -> None:
        """A message that waits can be recalled by its handle; one that was due cannot, which is said in words."""
        handles = [self.send_over(text="later", keys=["timed"], delayMs=60_000)[1]["recallHandle"] for _ in range(2)]
        status, recalled = self.order("POST", "/recall", {"handle": handles[0]})
        self.assertEqual((status, bool(recalled["messageId"])), (200, True))
        self.cluster.pump(62.0, 1.0)
        self.assertEqual(self.get("/messages?topic=Orders&key=timed")["total"], 1)
        status, problem = self.order("POST", "/recall", {"handle": handles[1]})
        self.assertEqual((status, problem["code"]), (409, "too-late"))
        self.assertIn("it is too late to recall it: it was due at 20", problem["detail"])
        self.assertEqual(self.order("POST", "/recall", {"handle": "nonsense"})[0], 409)

    def test_recall_open(self) -> None:
        """A handle that somebody made recalls no message of a system topic, unless he is an admin."""
        publisher = self.front.ops.tokens.create("writer", ["publish", "read"])[1]
        due_ms = self.cluster.env.clock.wall_ms() + 60_000
        for topic, status, code in (("TBW102", 403, "scope-missing"), ("Other", 404, "topic-not-found")):
            order = {"handle": RecallHandle(topic, "broker-a", str(due_ms), "00").format()}
            answer = self.front.ask("POST", "/recall", order, token=publisher)
            self.assertEqual((answer.status, answer.code), (status, code), topic)
        order = {"handle": self.send_over(text="later", delayMs=60_000)[1]["recallHandle"]}
        self.assertEqual(self.front.ask("POST", "/recall", order, token=publisher).status, 200)

    def test_recall_audit(self) -> None:
        """A recall stands in the audit log with the topic and the unique id of the message."""
        sent = self.send_over(text="later", delayMs=60_000)[1]
        self.order("POST", "/recall", {"handle": sent["recallHandle"]})
        detail = self.get("/audit?q=recall")["items"][0]["detail"]
        self.assertEqual((detail["topic"], detail["recalled"]), ("Orders", sent["messageId"]))

    def test_too_far(self) -> None:
        """A time that is too far ahead is refused with the limit in words, and two times at once are."""
        for order in ({"delayMs": 41 * 86_400_000}, {"deliverAtMs": 4_000_000_000_000}):
            status, problem = self.send_over(text="later", **order)
            self.assertEqual((status, problem["code"]), (400, "too-far-ahead"), problem)
            self.assertIn("up to 40 days ahead", problem["detail"])
        self.assertEqual(self.send_over(text="a", delayMs=1, delayLevel=1)[1]["code"], "invalid-value")
        self.assertEqual(self.send_over(text="a", deliverAtMs=1 << 53)[1]["code"], "invalid-value")

    def test_limits(self) -> None:
        """A body of 4 MiB is taken, one byte more is not; nor is a request that is longer than any such message."""
        one = self.sent(text="x" * BODY_LIMIT)
        whole = self.front.ask("GET", f"/messages/{one['offsetId']}/body", token=self.token)
        self.assertEqual((whole.status, whole.content == b"x" * BODY_LIMIT), (200, True))
        status, problem = self.send_over(text="x" * (BODY_LIMIT + 1))
        self.assertEqual((status, "exceeds the limit" in problem["detail"]), (400, True), problem)
        self.assertEqual(self.send_over(text="x" * (BODY_LIMIT + 65536))[0], 413)

    def test_refused(self) -> None:
        """What is no message, or has no place to go to, is refused in words."""
        for order, status, code in (
            ({}, 400, "invalid-value"),
            ({"text": "a", "base64": "YQ=="}, 400, "invalid-value"),
            ({"base64": "no base64!"}, 400, "invalid-value"),
            ({"text": ""}, 400, "bad-request"),
            ({"text": "a", "keys": ["a b"]}, 400, "bad-request"),
            ({"text": "a", "properties": {"UNIQ_KEY": "mine"}}, 400, "invalid-value"),
            ({"text": "a", "properties": {"n": "a\u0001b"}}, 400, "bad-request"),
            ({"text": "a", "topic": "Other"}, 404, "topic-not-found"),
            ({"text": "a", "queue": {"broker": "broker-a", "queueId": 9}}, 404, "queue-not-found"),
            ({"text": "a", "queue": {"broker": "broker-x", "queueId": 0}}, 404, "queue-not-found"),
        ):
            found = self.send_over(**order)
            self.assertEqual((found[0], found[1]["code"]), (status, code), order)
        self.assertNotIn("Other", [one["name"] for one in self.get("/topics")["items"]])

    def test_read_only(self) -> None:
        """A topic that cannot be written takes nothing."""
        self.order("PUT", "/topics/Orders", {"readQueues": 2, "writeQueues": 2, "perm": "read"})
        for queue in (None, {"broker": "broker-a", "queueId": 0}):
            status, problem = self.send_over(text="a", queue=queue)
            self.assertEqual((status, problem["code"]), (403, "no-permission"), problem)

    def test_declined(self) -> None:
        """What the broker declines comes back in its words."""
        status, problem = self.send_over(topic="OFFSET_MOVED_EVENT", text="a")
        expected = (403, "no-permission", "Sending message to topic[OFFSET_MOVED_EVENT] is forbidden.")
        self.assertEqual((status, problem["code"], problem["detail"]), expected)

    def test_system(self) -> None:
        """Topics of the system take messages of admins alone: the templates, and those with the broker's names."""
        publisher = self.front.ops.tokens.create("writer", ["publish", "read"])[1]
        for topic in ("TBW102", "broker-a", "DefaultCluster", "OFFSET_MOVED_EVENT"):
            answer = self.front.ask("POST", "/send", {"topic": topic, "text": "a"}, token=publisher)
            self.assertEqual((answer.status, answer.code), (403, "scope-missing"), topic)
        self.assertEqual(self.send_over(topic="TBW102", text="a")[0], 200)
        self.assertEqual(self.front.ask("POST", "/send", {"topic": "Orders", "text": "a"}, token=publisher).status, 200)
        held = next(one["items"][0] for one in self.ends("TBW102") if one["items"])
        again = {"topic": "TBW102", "dryRun": True}
        place = f"/messages/{held['offsetId']}/resend"
        self.assertEqual(self.front.ask("POST", place, again, token=publisher).code, "scope-missing")
        self.assertEqual(self.order("POST", place, again)[0], 200)

    def ends(self, topic: str) -> list[Any]:
        """The ends of all queues of a topic."""
        queues = self.get(f"/topics/{topic}/queues")["items"]
        return [
            self.get(f"/messages/peek?topic={topic}&broker=broker-a&queueId={one['queueId']}&count=1") for one in queues
        ]

    def test_audit(self) -> None:
        """A send stands in the audit log with the id of what was stored."""
        one = self.sent(text="a")
        entry = self.get("/audit?q=send")["items"][0]
        self.assertEqual((entry["action"], entry["detail"]["sent"]), ("POST /send", one["offsetId"]))

    def test_idle(self) -> None:
        """Before the first send the API is no producer; after it, it is."""
        self.assertEqual(self.get("/clients?q=smartgo-ops")["total"], 0)
        self.sent(text="a")
        self.cluster.pump(36.0, 1.0)
        self.assertEqual(self.get("/clients?q=smartgo-ops")["items"][0]["role"], "producer")
