"""Emptying of topics by the REST API."""

from __future__ import annotations

from twisted.internet.defer import fail

from smartgo.errors import CallFailed
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import UpdateOffsetRequest
from tests.ops.resources.test_offsets import OffsetCase


class EmptyTests(OffsetCase):
    """Group audit stands at 1 of queue 0, group mailer at the end of queue 1; each queue has two messages."""

    def setUp(self) -> None:
        super().setUp()
        self.order("POST", "/groups", {"name": "mailer"})
        header = UpdateOffsetRequest(consumer_group="mailer", topic="Orders", queue_id=1, commit_offset=2)
        self.cluster.ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))

    def test_dry_run(self) -> None:
        """A dry run says how many messages each group would skip, and changes nothing."""
        status, found = self.order("POST", "/topics/Orders/empty", {"dryRun": True})
        self.assertEqual((status, found["messages"], found["dryRun"]), (200, 4, True))
        self.assertEqual(
            [(one["group"], one["skipped"], one["members"], one["plan"], one["error"]) for one in found["groups"]],
            [("audit", 3, 0, None, None), ("mailer", 2, 0, None, None)],
        )
        self.assertEqual(self.stands(), [1, None])
        self.assertEqual(self.get("/offsets/plans")["total"], 0)

    def test_empty(self) -> None:
        """All groups skip all messages, which stay; each move can be undone."""
        found = self.order("POST", "/topics/Orders/empty", {})[1]
        self.assertEqual([(one["skipped"], one["error"]) for one in found["groups"]], [(3, None), (2, None)])
        self.assertEqual(self.stands(), [2, 2])
        self.assertEqual(self.get("/topics/Orders")["amounts"]["messages"], 4)
        plans = {one["group"]: one for one in self.get("/offsets/plans")["items"]}
        self.assertEqual({name: one["state"] for name, one in plans.items()}, {"audit": "applied", "mailer": "applied"})
        self.assertEqual({one["plan"] for one in found["groups"]}, {one["id"] for one in plans.values()})
        self.assertEqual(self.order("POST", f"/offsets/plans/{plans['audit']['id']}/undo")[0], 200)
        self.assertEqual(self.stands()[0], 1)

    def test_failed(self) -> None:
        """The plan of a move that fails is named, in the audit log too: a part of it may be done."""
        self.patch(self.front.ops.admin.positions, "apply", lambda plan: fail(CallFailed("no answer")))
        rows = self.order("POST", "/topics/Orders/empty", {})[1]["groups"]
        plans = {one["group"]: one for one in self.get("/offsets/plans")["items"]}
        self.assertEqual({name: one["state"] for name, one in plans.items()}, {"audit": "failed", "mailer": "failed"})
        for row in rows:
            self.assertEqual(
                (row["plan"], row["error"], row["skipped"]), (plans[row["group"]]["id"], "no answer", None)
            )
        noted = self.get("/audit?q=empty")["items"][0]["detail"]["plans"]
        self.assertEqual(set(noted), {one["id"] for one in plans.values()})

    def test_refused(self) -> None:
        """Unknown and system topics are refused."""
        self.assertEqual(self.order("POST", "/topics/Nothing/empty", {})[0], 404)
        status, problem = self.order("POST", "/topics/SCHEDULE_TOPIC_XXXX/empty", {})
        self.assertEqual((status, problem["code"]), (409, "wrong-kind"))
