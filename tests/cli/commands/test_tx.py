"""C{smartgo tx}: what it prints, and how it ends."""

from __future__ import annotations

from smartgo.client.administration import transactions
from tests.broker.doubles import FakePeer
from tests.broker.halves import given_up, send_half
from tests.cli.case import ClusterCase


class TransactionCommandTests(ClusterCase):
    """Transactions of a broker in memory."""

    def test_ls(self) -> None:
        """Undecided transactions are listed with age, check-backs and producers; one can choose and limit them."""
        self.assertEqual(self.out("tx", "ls"), "No transaction is undecided.\n")
        self.cluster.broker.producers.register("PG", FakePeer(), "client-9", 0, 407)
        send_half(self.cluster, "U1", topic="Orders", age_ms=90_000)
        send_half(self.cluster, "U2", group="second")
        first, second = self.out("tx", "ls").splitlines()[1:]
        for words in ("U1", "pending", "PG", "Orders", "broker-a", "90", "0 of 15"):
            self.assertIn(words, first)
        self.assertTrue(first.endswith(" 1") and second.endswith(" 0"), (first, second))
        self.assertEqual([one["id"] for one in self.json("tx", "ls", "--group", "second")], ["U2"])
        self.assertEqual([one["id"] for one in self.json("tx", "ls", "--topic", "Orders")], ["U1"])
        result = self.invoke("tx", "ls", "-n", "1")
        self.assertIn("broker broker-a has more than these 1 row; use -n", result.stderr)

    def test_many(self) -> None:
        """More of them than one answer has are asked for one after another."""
        for number in range(450):
            send_half(self.cluster, f"U{number}")
        self.assertEqual(len(self.json("tx", "ls", "-n", "500")), 450)
        self.patch(transactions, "_REQUESTS", 1)
        self.assertEqual(len(self.json("tx", "ls", "-n", "500")), 400)

    def test_show(self) -> None:
        """One is shown by its id or by the offset id of its half message; an unknown one ends with 66."""
        sent = send_half(self.cluster, "U1", CHECK_IMMUNITY_TIME_IN_SECONDS="30")
        for word in ("U1", sent.msg_id):
            printed = self.out("tx", "show", word)
            for words in ("pending", sent.msg_id, "0 of 15", "30 s", "60 s"):
                self.assertIn(words, printed)
        self.assertIn("no broker knows a transaction U2", self.refused("tx", "show", "U2", status=66))

    def test_resume(self) -> None:
        """One that was given up is checked again; one that was not is refused."""
        given_up(self.cluster, "U1")
        (row,) = self.json("tx", "ls", "--given-up")
        self.assertEqual((row["state"], row["checks"]), ("givenUp", 1))
        self.assertGreater(row["givenUpMs"], row["bornMs"])
        self.assertIn("given up", self.out("tx", "ls", "--given-up"))
        printed = self.out("tx", "resume", "U1")
        for words in ("U1", "broker-a", "connected producers"):
            self.assertIn(words, printed)
        self.assertEqual([(one["id"], one["checks"]) for one in self.json("tx", "ls")], [("U1", 0)])
        self.assertIn("transaction U1 was not given up", self.refused("tx", "resume", "U1", status=1))

    def test_doctor(self) -> None:
        """C{doctor} warns of a transaction that has been undecided for more than ten minutes."""
        send_half(self.cluster, "U1", age_ms=700_000)
        found = [one for one in self.json("doctor") if "undecided" in one["what"]]
        self.assertEqual([(one["verdict"], one["subject"]) for one in found], [("warning", "broker broker-a")])
        self.assertIn("the oldest undecided transaction is 11.7 min old", found[0]["what"])

    def test_doctor_young(self) -> None:
        """A younger one is no problem."""
        send_half(self.cluster, "U1", age_ms=500_000)
        self.assertNotIn("undecided", self.out("doctor"))
