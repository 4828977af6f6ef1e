"""Transactions by the REST API."""

from __future__ import annotations

from typing import Any

from smartgo.ops.resources import transactions
from tests.broker.halves import commit_half, given_up, send_half
from tests.ops.resources.test_cluster import ClusterCase


class TransactionTests(ClusterCase):
    """What the API tells of transactions, and the check that it resumes."""

    def ids(self, query: str = "") -> list[str]:
        """The ids of a list."""
        return [one["id"] for one in self.get(f"/transactions{query}")["items"]]

    def resume(self, id: str) -> tuple[int, Any]:
        """Have a transaction checked again."""
        return self.order("POST", f"/transactions/{id}/resume", {})

    def test_pending(self) -> None:
        """Undecided transactions are listed with age, checks and producers; by pages, filtered and sorted."""
        born_ms = self.front.cluster.env.clock.wall_ms() - 30_000
        sent = send_half(self.front.cluster, "U1", age_ms=30_000)
        send_half(self.front.cluster, "U2", group="second", topic="Other", CHECK_IMMUNITY_TIME_IN_SECONDS="60")
        page = self.get("/transactions")
        self.assertEqual((page["total"], page["pending"], page["givenUp"], page["truncated"]), (2, 2, 0, False))
        expected = {
            "id": "U1",
            "state": "pending",
            "broker": "broker-a",
            "group": "PG",
            "topic": "T",
            "offsetId": sent.msg_id,
            "queueOffset": 0,
            "bornMs": born_ms,
            "givenUpMs": None,
            "checks": 0,
            "checkLimit": 15,
            "firstCheckMs": 6_000,
            "producers": 0,
        }
        self.assertEqual(page["items"][0], expected)
        self.assertEqual(page["items"][1]["firstCheckMs"], 60_000)
        self.assertEqual(self.ids("?sort=-bornMs"), ["U2", "U1"])
        self.assertEqual(
            (self.ids("?group=second"), self.ids("?topic=T"), self.ids("?q=oth")), (["U2"], ["U1"], ["U2"])
        )
        first = self.get("/transactions?limit=1")
        self.assertEqual(self.ids(f"?limit=1&cursor={first['next']}"), ["U2"])
        self.assertEqual(self.order("GET", "/transactions?sort=offsetId")[1]["code"], "invalid-value")

    def test_truncated(self) -> None:
        """Of each broker a limited number is read, and the answer says so."""
        self.patch(transactions, "LIMIT", 2)
        for number in range(3):
            send_half(self.front.cluster, f"U{number}")
        page = self.get("/transactions")
        self.assertEqual((len(page["items"]), page["total"], page["pending"], page["truncated"]), (2, 2, 3, True))

    def test_message(self) -> None:
        """The id of a message that was committed names the message, not the half message, which was stored first."""
        sent = send_half(self.front.cluster, "U1")
        self.assertEqual(self.get("/messages/U1")["topic"], "RMQ_SYS_TRANS_HALF_TOPIC")
        self.front.cluster.pump(1.0)
        commit_half(self.front.cluster, sent)
        self.assertEqual(self.get("/messages/U1")["topic"], "T")

    def test_resume(self) -> None:
        """One that was given up is resumed once; the audit log says who did that; others are refused."""
        given_up(self.front.cluster, "U1", "U2")
        send_half(self.front.cluster, "U3")
        page = self.get("/transactions?state=givenUp")
        self.assertEqual([(one["id"], one["state"]) for one in page["items"]], [("U1", "givenUp"), ("U2", "givenUp")])
        self.assertEqual((page["givenUp"], page["pending"]), (2, 1))
        status, done = self.resume("U1")
        offset_id = page["items"][0]["offsetId"]
        self.assertEqual((status, done), (200, {"id": "U1", "broker": "broker-a", "offsetId": offset_id}))
        self.assertEqual(self.get("/transactions/U1")["items"][0]["state"], "pending")
        entry = self.get("/audit")["items"][0]
        self.assertEqual((entry["action"], entry["subject"]), ("POST /transactions/{id}/resume", {"id": "U1"}))
        for again in ("U1", offset_id, "U3"):
            status, problem = self.resume(again)
            self.assertEqual((status, problem["code"]), (409, "not-given-up"))
        self.assertEqual(self.resume(self.get("/transactions/U2")["items"][0]["offsetId"])[0], 200)

    def test_unknown(self) -> None:
        """An id that no broker knows is answered 404, and no reader may resume a check."""
        for method, path in (("GET", "/transactions/none"), ("POST", "/transactions/none/resume")):
            status, problem = self.order(method, path, {} if method == "POST" else None)
            self.assertEqual((status, problem["code"]), (404, "transaction-not-found"))
        self.assertEqual(self.front.ask("POST", "/transactions/none/resume", {}).status, 401)
