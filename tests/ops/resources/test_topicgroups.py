"""The groups of a topic, with their lag."""

from __future__ import annotations

from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import UpdateOffsetRequest
from tests.ops.resources.test_messages import MessageCase


class TopicGroupTests(MessageCase):
    """Orders, with four messages in two queues."""

    def commit(self, group: str, offset: int, topic: str = "Orders") -> None:
        """Let a group have consumed a queue up to an offset."""
        for queue in range(2):
            header = UpdateOffsetRequest(consumer_group=group, topic=topic, queue_id=queue, commit_offset=offset)
            self.cluster.ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))

    def test_lag(self) -> None:
        """Each group stands with what waits for it in this topic, and in no other."""
        self.order("POST", "/topics", {"name": "Bills", "readQueues": 2, "writeQueues": 2})
        for number in range(6):
            self.send(number, "Bills")
        for group in ("audit", "billing"):
            self.cluster.heartbeat(group, "Orders")
        self.commit("audit", 2)
        self.commit("billing", 1)
        self.commit("audit", 0, "Bills")
        rows = {one["group"]: one for one in self.get("/topics/Orders/lag")["items"]}
        self.assertEqual(sorted(rows), ["audit", "billing"])
        self.assertEqual((rows["audit"]["lag"], rows["audit"]["lagMs"], rows["audit"]["members"]), (0, 0, 1))
        self.assertEqual((rows["billing"]["lag"], rows["billing"]["queues"]), (2, 2))
        oldest = min(self.at(queue, 1)["storedMs"] for queue in range(2))
        self.assertEqual(rows["billing"]["lagMs"], self.front.env.clock.wall_ms() - oldest)
        self.cluster.pump(150.0)  # until all groups were surveyed again
        for sort, names in (
            ("-lag", ["billing", "audit"]),
            ("lagMs", ["audit", "billing"]),
            ("-group", ["billing", "audit"]),
        ):
            page = self.get(f"/topics/Orders/lag?sort={sort}")
            self.assertEqual([one["group"] for one in page["items"]], names, sort)
        page = self.get("/topics/Orders/lag?q=bill&limit=1")
        self.assertEqual((page["total"], page["items"][0]["group"]), (1, "billing"))

    def test_none(self) -> None:
        """A topic without groups has none; one that does not exist is not found."""
        self.assertEqual(self.get("/topics/Orders/lag")["items"], [])
        self.assertEqual(self.order("GET", "/topics/Nowhere/lag")[0], 404)


class AnywhereTests(MessageCase):
    """Keys and ids of any topic."""

    def test_found(self) -> None:
        """Messages with a key or a unique id are found in whatever topic, the newest first."""
        self.order("POST", "/topics", {"name": "Bills", "readQueues": 2, "writeQueues": 2})
        for number in range(2, 6):
            self.send(number, "Bills")
        page = self.get("/messages/anywhere?word=order-3")
        self.assertEqual(
            [(one["topic"], one["keys"][0]) for one in page["items"]], [("Bills", "order-3"), ("Orders", "order-3")]
        )
        self.assertEqual((page["searched"], page["missing"]), (page["topics"], []))
        one = self.get("/messages/at?topic=Bills&broker=broker-a&queueId=1&offset=1")
        self.assertEqual(one["keys"][0], "order-5")
        for word in (one["messageId"], "order-5"):
            items = self.get(f"/messages/anywhere?word={word}")["items"]
            self.assertEqual([row["offsetId"] for row in items], [one["offsetId"]])
        self.assertEqual(self.get("/messages/anywhere?word=nothing")["items"], [])
        self.assertEqual(len(self.get("/messages/anywhere?word=all&limit=3")["items"]), 3)

    def test_show(self) -> None:
        """A message is shown by its unique id alone; one that nobody has is not found, after all topics were asked."""
        one = self.at(1, 1)
        self.assertEqual(self.get(f"/messages/{one['messageId']}")["offsetId"], one["offsetId"])
        status, problem = self.order("GET", f"/messages/{'AB' * 16}")
        self.assertEqual((status, problem["detail"]), (404, f"there is no message {'AB' * 16}"))
