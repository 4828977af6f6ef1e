"""Resources about messages: looked up, shown, consumed and sent again."""

from __future__ import annotations

import base64
import zlib
from typing import Any, cast

import lz4.frame
import zstandard

from smartgo.ops.reading import content
from smartgo.ops.reading.content import SHOWN
from smartgo.remoting.client import RemotingClient
from smartgo.remoting.dispatch import Dispatcher
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.compression import LZ4, ZLIB, ZSTD, beginning
from smartgo.schema.headers.offsets import UpdateOffsetRequest
from smartgo.schema.message import COMPRESSED
from tests.broker.fakecluster import BROKER, REGISTRY, heartbeat, records
from tests.broker.processors.test_query import Consumer
from tests.ops.front import HOST
from tests.ops.resources.test_cluster import ClusterCase
from tests.remoting.doubles import sweeper_of

UNIQUE = "AC100001000318B4AAC2135F4A5A0000"


class MessageCase(ClusterCase):
    """A topic with four messages in two queues."""

    def setUp(self) -> None:
        super().setUp()
        self.order("POST", "/topics", {"name": "Orders", "readQueues": 2, "writeQueues": 2})
        self.cluster = self.front.cluster
        for number in range(4):
            self.send(number)
        self.cluster.pump(1.0)

    def send(self, number: int, topic: str = "Orders", **more: Any) -> None:
        """Send one message; its number stands in id, key, tag and body."""
        properties = {
            "UNIQ_KEY": f"{UNIQUE[:-1]}{number}",
            "KEYS": f"order-{number} all",
            "TAGS": "even" if number % 2 == 0 else "odd",
            "region": "north" if number < 2 else "south",
        }
        body = more.pop("body", b'{"order": %d}' % number)
        self.cluster.send(topic, body, number % 2, properties=properties, **more)
        self.cluster.pump(0.1)

    def at(self, queue_id: int = 0, offset: int = 0, topic: str = "Orders") -> Any:
        """One message, whole."""
        return self.get(f"/messages/at?topic={topic}&broker=broker-a&queueId={queue_id}&offset={offset}")


class LookupTests(MessageCase):
    """Single messages."""

    def test_place(self) -> None:
        """The message at a place of a queue is shown whole; at no place there is none."""
        one = self.at(1, 1)
        self.assertEqual((one["messageId"], one["queueOffset"], one["tag"]), (f"{UNIQUE[:-1]}3", 1, "odd"))
        self.assertEqual(one["keys"], ["order-3", "all"])
        self.assertEqual(one["properties"]["region"], "south")
        status, problem = self.order("GET", "/messages/at?topic=Orders&broker=broker-a&queueId=0&offset=7")
        self.assertEqual((status, problem["code"]), (404, "message-not-found"))

    def test_ids(self) -> None:
        """A message is found by its offset id, and by its unique id, whether or not the topic is said."""
        one = self.at(0, 1)
        self.assertEqual(self.get(f"/messages/{one['offsetId']}")["messageId"], one["messageId"])
        self.assertEqual(self.get(f"/messages/{one['offsetId'].lower()}")["messageId"], one["messageId"])
        self.assertEqual(self.get(f"/messages/{one['messageId']}?topic=Orders")["offsetId"], one["offsetId"])
        self.assertEqual(self.get(f"/messages/{one['offsetId']}?broker=broker-a")["offsetId"], one["offsetId"])
        self.assertEqual(self.order("GET", f"/messages/{one['messageId']}")[1]["queueOffset"], one["queueOffset"])
        self.assertEqual(self.order("GET", "/messages/no-such-id?topic=Orders")[0], 404)
        self.assertEqual(self.order("GET", "/messages/no-such-id?topic=Other")[1]["code"], "topic-not-found")

    def test_waiting(self) -> None:
        """Of a message that waits for its time of delivery nobody says that there is none; delivered, it is found."""
        unique = f"{UNIQUE[:-1]}9"
        self.cluster.send("Orders", b"timed", properties={"UNIQ_KEY": unique, "TIMER_DELAY_SEC": "120"})
        self.cluster.pump(2.0)
        for path in (unique, f"{unique}?topic=Orders"):
            status, problem = self.order("GET", f"/messages/{path}")
            self.assertEqual((status, problem["code"]), (404, "message-not-found"))
            self.assertIn(
                f"message {unique} is not in topic Orders yet: it waits for its delivery at", problem["detail"]
            )
        self.cluster.pump(130.0, 1.0)
        self.assertEqual(self.get(f"/messages/{unique}")["topic"], "Orders")

    def test_elsewhere(self) -> None:
        """An id that names an address outside of the cluster is asked of the cluster's brokers alone."""
        one = self.at()["offsetId"]
        foreign = "0A000009" + one[8:]
        remoting = self.front.ops.client.remoting
        asked: list[str] = []

        def ask(address: str, *more: Any) -> Any:
            asked.append(address)
            return RemotingClient.ask(remoting, address, *more)

        self.patch(remoting, "ask", ask)
        self.assertEqual(self.order("GET", f"/messages/{foreign}")[1]["code"], "message-not-found")
        self.assertEqual(set(asked) - {REGISTRY}, {BROKER})

    def test_keys(self) -> None:
        """Messages are listed by key or unique id, the oldest first."""
        page = self.get("/messages?topic=Orders&key=all")
        self.assertEqual([one["keys"][0] for one in page["items"]], [f"order-{number}" for number in range(4)])
        self.assertEqual(self.get("/messages?topic=Orders&key=order-2")["total"], 1)
        self.assertEqual(self.get("/messages?topic=Orders&key=order-9")["items"], [])
        self.assertEqual(len(self.get("/messages?topic=Orders&key=all&limit=2")["items"]), 2)
        stored = page["items"][2]["storedMs"]
        self.assertEqual(self.get(f"/messages?topic=Orders&key=all&fromMs={stored}")["total"], 2)
        self.assertEqual(self.get(f"/messages?topic=Orders&key=all&untilMs={stored}")["total"], 3)
        self.assertEqual(self.get(f"/messages?topic=Orders&uniqueKey={UNIQUE[:-1]}3")["items"][0]["queueId"], 1)
        self.assertEqual(self.order("GET", "/messages?topic=Orders")[0], 400)
        self.assertEqual(self.order("GET", "/messages?topic=Other&key=x")[1]["code"], "topic-not-found")

    def test_record(self) -> None:
        """A record is shown field by field, as the schema has it, and the fields are all its bytes."""
        one = self.at()
        fields = {field["name"]: field for field in one["record"]}
        self.assertEqual(sum(field["size"] for field in one["record"]), one["recordBytes"])
        self.assertEqual(int(fields["size"]["value"]), one["recordBytes"])
        self.assertEqual(fields["magic"]["value"], "0xDAA320A7")
        self.assertEqual(bytes.fromhex(fields["body"]["hex"]), b'{"order": 0}')
        self.assertEqual(fields["topic"]["value"], "Orders")
        self.assertIn("region=north", fields["properties"]["value"])
        self.assertEqual(fields["store_host"]["value"], "127.0.0.1:10911")
        self.assertEqual(fields["store_host"]["value"], one["storeHost"])


class BodyTests(MessageCase):
    """Bodies in all their forms."""

    def body(self, body: bytes, **more: Any) -> Any:
        """Return a body as it is shown."""
        self.send(4, body=body, **more)
        self.cluster.pump(1.0)
        return self.at(0, 2)["body"]

    def test_json(self) -> None:
        """JSON is shown indented, its numbers as they were written."""
        shown = self.body(b'{"amount": 1.10, "big": 12345678901234567890}')
        self.assertEqual(shown["json"], '{\n  "amount": 1.10,\n  "big": 12345678901234567890\n}')
        self.assertEqual((shown["kind"], shown["compression"], shown["truncated"]), ("json", None, False))
        self.assertTrue(shown["hex"].startswith("00000000  7b 22 61 6d 6f 75 6e 74  22 3a 20"))

    def test_text(self) -> None:
        """Text is shown as text, and its bytes as base64."""
        shown = self.body("Grüße {".encode())
        self.assertEqual((shown["kind"], shown["text"], shown["json"]), ("text", "Grüße {", None))
        self.assertEqual(base64.b64decode(shown["base64"]).decode(), "Grüße {")

    def test_binary(self) -> None:
        """Bytes that are no text are shown in hex and as base64, and can be fetched as they are."""
        shown = self.body(b"\xff\x00\x01")
        self.assertEqual((shown["kind"], shown["text"], shown["json"]), ("binary", None, None))
        answer = self.front.ask("GET", f"/messages/{self.at(0, 2)['offsetId']}/body", token=self.token)
        self.assertEqual((answer.status, answer.content), (200, b"\xff\x00\x01"))
        self.assertEqual(answer.headers["content-type"], "application/octet-stream")
        self.assertTrue(answer.headers["content-disposition"].startswith("attachment;"))

    def test_compressed(self) -> None:
        """A compressed body is shown unpacked."""
        packed = zlib.compress(b"x" * 5000)
        shown = self.body(packed, sys_flag=COMPRESSED)
        self.assertEqual((shown["sizeBytes"], shown["storedBytes"], shown["compression"]), (5000, len(packed), "zlib"))
        self.assertEqual(shown["text"], "x" * 5000)
        self.assertEqual(len(shown["hex"].split("\n")), 4096 // 16)

    def test_previews(self) -> None:
        """The beginning of a compressed body is shown in lists, and no more of it is unpacked than that."""
        plain = b"preview " * 1000
        for number, (packed, method) in enumerate(
            (
                (zlib.compress(plain), 0),
                (zlib.compress(plain), ZLIB),
                (lz4.frame.compress(plain), LZ4),
                (zstandard.ZstdCompressor().compress(plain), ZSTD),
            )
        ):
            self.body(packed, sys_flag=COMPRESSED | method)
            patched = self.patch(content, "decompress_body", None)
            row = self.get(f"/messages/peek?topic=Orders&broker=broker-a&queueId=0&offset={2 + number}")["items"][0]
            self.assertEqual((row["preview"], row["sizeBytes"]), (plain[:200].decode(), len(packed)))
            patched.restore()

    def test_broken(self) -> None:
        """A body that cannot be unpacked is shown as it is stored, with why; it is not given out nor sent again."""
        shown = self.body(b"no zlib stream", sys_flag=COMPRESSED)
        self.assertEqual((shown["text"], shown["sizeBytes"]), ("no zlib stream", 14))
        self.assertIn("zlib", shown["error"])
        place = f"/messages/{self.at(0, 2)['offsetId']}"
        self.assertEqual(self.order("GET", f"{place}/body")[1]["code"], "body-unreadable")
        self.assertEqual(self.order("POST", f"{place}/resend", {})[1]["code"], "body-unreadable")

    def test_long(self) -> None:
        """Of a long body the beginning is shown, never half a character."""
        shown = self.body("é".encode() * 32769 + b"x")
        self.assertEqual((shown["truncated"], shown["sizeBytes"]), (True, 65539))
        self.assertEqual(len(base64.b64decode(shown["base64"])), 64 * 1024)
        self.assertEqual((shown["text"], shown["json"]), ("é" * 32768, None))
        shown = self.at(0, 2)
        self.assertEqual(shown["preview"], "é" * 200)

    def test_bomb(self) -> None:
        """Of a compressed body no more is unpacked than is shown, and the answer says so; all of it is downloaded."""
        plain = b"A" * (8 << 20)
        for flag, packed in (
            (ZLIB, zlib.compress(plain)),
            (LZ4, lz4.frame.compress(plain)),
            (ZSTD, zstandard.ZstdCompressor().compress(plain)),
        ):
            unpacked: list[int] = []

            def counted(body: bytes, sys_flag: int, size: int, into: list[int] = unpacked) -> bytes:
                found = beginning(body, sys_flag, size)
                into.append(len(found))
                return found

            self.send(4, body=packed, sys_flag=COMPRESSED | flag)
            self.cluster.pump(1.0)
            number = self.get("/topics/Orders/queues")["items"][0]["maxOffset"] - 1
            patched = self.patch(content, "beginning", counted)
            one = self.at(0, number)
            patched.restore()
            self.assertEqual((one["body"]["truncated"], one["body"]["sizeBytes"]), (True, None))
            self.assertEqual(one["body"]["text"], "A" * SHOWN)
            self.assertLessEqual(max(unpacked), SHOWN + 1)
            threads = self.front.env.threads
            threads.held.add("inflate")
            line = self.front.connect()
            place = f"/api/v1/messages/{one['offsetId']}/body"
            head = f"GET {place} HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {self.token}\r\n\r\n"
            cast("Any", line.transport).write(head.encode())
            self.cluster.pump()
            self.assertEqual(line.received, b"")
            threads.held.clear()
            threads.release("inflate")
            self.cluster.pump()
            self.assertEqual(line.received.partition(b"\r\n\r\n")[2], plain)


class DeliveryTests(MessageCase):
    """Groups, and their members."""

    def commit(self, offset: int, group: str = "audit", queue_id: int = 0) -> None:
        """Let a group stand somewhere."""
        header = UpdateOffsetRequest(consumer_group=group, topic="Orders", queue_id=queue_id, commit_offset=offset)
        self.cluster.ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))

    def states(self) -> dict[str, str]:
        """Return the delivery states of the message at 1 of queue 0."""
        rows = self.get(f"/messages/{self.at(0, 1)['offsetId']}/groups")["items"]
        return {row["group"]: row["state"] for row in rows}

    def test_states(self) -> None:
        """For each group that reads the topic it is told what became of a message there."""
        for group, tags in (("audit", "*"), ("odd", "odd"), ("late", "*")):
            self.cluster.heartbeat(group, "Orders", client_id=f"{group}-1", tags=tags)
        for group, offset in (("audit", 2), ("odd", 2), ("late", 1), ("gone", 2)):
            self.commit(offset, group)
        self.assertEqual(self.states(), {"audit": "consumed", "odd": "filtered", "late": "waiting", "gone": "offline"})
        page = self.get(f"/messages/{self.at(0, 1)['offsetId']}/groups?limit=1&sort=-group")
        self.assertEqual(([one["group"] for one in page["items"]], page["total"]), (["odd"], 4))

    def test_directly(self) -> None:
        """A connected member consumes a message at once; one that is not connected is not found."""
        consumer = Consumer()
        member = RemotingClient(self.front.env, sweeper_of(self.front.env.clock), Dispatcher([consumer]))
        beat = Command.request(RequestCode.HEART_BEAT, body=heartbeat("audit", "Orders", client_id="c1"))
        member.ask(BROKER, beat, 3.0)
        self.cluster.pump()
        path = f"/messages/{self.at(0, 1)['offsetId']}/consume"
        status, answer = self.order("POST", path, {"group": "audit", "clientId": "c1"})
        self.assertEqual((status, answer["result"], answer["well"]), (200, "CR_SUCCESS", True))
        (asked,) = consumer.asked
        self.assertEqual(records(asked.body)[0].queue_offset, 1)
        status, problem = self.order("POST", path, {"group": "audit", "clientId": "c2"})
        self.assertEqual((status, problem["code"]), (404, "client-not-found"))
        consumer.remark = "busy"
        self.assertEqual(self.order("POST", path, {"group": "audit", "clientId": "c1"})[0], 409)
        consumer.silent = True
        answer = self.front.ask(
            "POST", path, {"group": "audit", "clientId": "c1", "seconds": 3}, token=self.token, seconds=5.0
        )
        self.assertEqual(answer.status, 504)
        member.stop()

    def test_resend(self) -> None:
        """A copy has body, tag, keys and own properties of the message, an id of its own, and says whose copy it is."""
        one = self.at(0, 1)
        status, dry = self.order("POST", f"/messages/{one['offsetId']}/resend", {"dryRun": True})
        self.assertEqual((status, dry["status"], dry["topic"], dry["messageId"]), (200, "DRY_RUN", "Orders", None))
        self.assertEqual(self.get("/messages?topic=Orders&key=order-2")["total"], 1)
        status, sent = self.order("POST", f"/messages/{one['offsetId']}/resend", {})
        self.assertEqual((status, sent["status"], sent["topic"]), (200, "SEND_OK", "Orders"))
        self.cluster.pump(1.0)
        copy = self.get(f"/messages/{sent['offsetId']}")
        self.assertEqual(copy["properties"].pop("RESENT_FROM"), one["offsetId"])
        self.assertNotEqual(copy["properties"].pop("UNIQ_KEY"), one["properties"].pop("UNIQ_KEY"))
        self.assertEqual(copy["properties"], one["properties"])
        self.assertEqual((copy["body"], copy["tag"], copy["keys"]), (one["body"], one["tag"], one["keys"]))
        status, problem = self.order("POST", f"/messages/{one['offsetId']}/resend", {"topic": "Other"})
        self.assertEqual((status, problem["code"]), (404, "topic-not-found"))

    def test_scopes(self) -> None:
        """Who may read only neither sends nor has anything consumed."""
        reader = self.front.ops.tokens.create("reader", ["read"])[1]
        self.cluster.pump()
        place = f"/messages/{self.at(0, 1)['offsetId']}"
        for path, body in (
            (f"{place}/resend", {}),
            (f"{place}/consume", {"group": "audit", "clientId": "c1"}),
            ("/send", {"topic": "Orders", "text": "x"}),
            ("/dlq/audit/resend", {}),
            ("/offsets/reset", {"group": "audit", "topic": "Orders", "to": "earliest"}),
        ):
            answer = self.front.ask("POST", path, body, token=reader)
            self.assertEqual((answer.status, answer.code), (403, "scope-missing"), path)
