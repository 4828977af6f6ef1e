"""The trace of a message over REST."""

from __future__ import annotations

import zlib
from typing import Any

from smartgo.schema.message import COMPRESSED
from smartgo.schema.messagetrace import MessageKind, Published, encode
from smartgo.schema.topics import TRACE_TOPIC
from tests.client.internal.test_tracetimeline import begun, ended
from tests.ops.resources.test_messages import UNIQUE, MessageCase


def sent(*ids: str) -> str:
    """The record of a send."""
    return encode(
        Published(
            time_ms=1000, region="R", group="pg", topic="Orders", message_ids=ids, tags="", keys="", store_host="h:1",
            body_length=4, cost_ms=3, kind=MessageKind.NORMAL, offset_id="O", success=True,
        )
    )  # fmt: skip


class TraceTests(MessageCase):
    """Traces."""

    def write(self, text: str, keys: str, topic: str = TRACE_TOPIC, **more: Any) -> None:
        """Let a client write a trace message."""
        body = more.pop("body", text.encode())
        self.cluster.send(topic, body, 0, properties={"KEYS": keys, "UNIQ_KEY": f"{len(text):032X}"}, **more)
        self.cluster.pump(5.0)  # the list of topics is read again

    def test_trace(self) -> None:
        """The events of a message are read by its unique id or its offset id, from compressed bodies too."""
        calls = "".join(encode(one) for one in (begun("r", 2000, message=UNIQUE), ended("r"))).replace("ID", UNIQUE)
        self.write(sent("X", UNIQUE), f"X {UNIQUE} order-0")
        self.write("", UNIQUE, body=zlib.compress(calls.encode()), sys_flag=COMPRESSED)
        found = self.get(f"/messages/{UNIQUE}/trace")
        self.assertEqual([one["kind"] for one in found["items"]], ["produced", "consumed"])
        self.assertEqual(
            found["items"][0],
            {
                "kind": "produced", "atMs": 1000, "tookMs": 3, "group": "pg", "client": "127.0.0.1", "result": "stored",
                "retries": None, "broker": "h:1", "checked": False,
            },
        )  # fmt: skip
        self.assertEqual((found["exists"], found["more"], found["unreadable"]), (True, False, 0))
        offset_id = self.at(0, 0)["offsetId"]
        self.assertEqual(self.get(f"/messages/{offset_id}/trace")["items"], found["items"])
        self.assertEqual(self.get(f"/messages/{UNIQUE}/trace?traceTopic=Orders")["items"], [])

    def test_none(self) -> None:
        """Without a topic of traces, or without traces in it, there are no events."""
        found = self.get(f"/messages/{UNIQUE}/trace")
        self.assertEqual((found["items"], found["exists"], found["topic"]), ([], False, TRACE_TOPIC))
        self.order("POST", "/topics", {"name": "Mine", "readQueues": 1, "writeQueues": 1})
        found = self.get(f"/messages/{UNIQUE}/trace?traceTopic=Mine")
        self.assertEqual((found["items"], found["exists"], found["topic"]), ([], True, "Mine"))
        self.assertEqual(self.order("GET", f"/messages/{UNIQUE}/trace?traceTopic=no%20good")[0], 400)

    def test_hostile(self) -> None:
        """Of trace messages that anybody may write, what cannot be read is counted; no more than 1 MiB is unpacked."""
        self.write(sent(UNIQUE) + "Pub\x01soon\x02", UNIQUE)
        self.write("", UNIQUE, body=zlib.compress(b"A" * (2 << 20)), sys_flag=COMPRESSED)
        self.write("", UNIQUE, body=b"no zlib stream", sys_flag=COMPRESSED)
        found = self.get(f"/messages/{UNIQUE}/trace")
        self.assertEqual((len(found["items"]), found["unreadable"]), (1, 3))

    def test_many(self) -> None:
        """The answer says that a broker may have more trace messages than it returned."""
        for number in range(65):
            self.cluster.send(TRACE_TOPIC, sent(UNIQUE).encode(), 0, properties={"KEYS": UNIQUE, "N": str(number)})
        self.cluster.pump(5.0)
        found = self.get(f"/messages/{UNIQUE}/trace")
        self.assertEqual((len(found["items"]), found["more"]), (1, True))
