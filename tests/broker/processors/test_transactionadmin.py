"""The states of transactions that administrators ask for (30007)."""

from __future__ import annotations

from smartgo.broker.stages import transactionstates
from smartgo.schema.bodies import TransactionTable
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import ResumeCheckRequest
from smartgo.schema.headers.transaction import EndTransactionRequest, ListTransactionsRequest
from smartgo.schema.message import COMMIT, ROLLBACK, parse_message_id
from tests.broker.doubles import FakePeer
from tests.broker.fakecluster import Cluster, ClusterCase
from tests.broker.halves import OLD_MS, given_up, send_half


class StateCase(ClusterCase):
    """Questions about transactions."""

    def asked(self, **header: object) -> TransactionTable:
        """The answer to one request."""
        fields = {"count": 100, **header}
        request = Command.request(RequestCode.LIST_TRANSACTIONS, ListTransactionsRequest(**fields))  # type: ignore[arg-type]
        answer = self.cluster.ask(request)
        self.assertEqual((answer.code, answer.remark), (0, None))
        return TransactionTable.decode(answer.body)

    def ids(self, **header: object) -> list[str]:
        """The ids of one answer."""
        return [one.id for one in self.asked(**header).rows]

    def states(self, **header: object) -> dict[str, str]:
        """The states in one answer, by id."""
        return {one.id: one.state for one in self.asked(**header).rows}

    def end(self, offset_id: str, queue_offset: int, verdict: int) -> None:
        """Decide a transaction."""
        header = EndTransactionRequest(
            producer_group="PG",
            tran_state_table_offset=queue_offset,
            commit_log_offset=parse_message_id(offset_id)[1],
            commit_or_rollback=verdict,
            msg_id="U",
        )
        self.assertEqual(self.cluster.ask(Command.request(RequestCode.END_TRANSACTION, header)).code, 0)


class PendingTests(StateCase):
    """Undecided transactions."""

    def test_row(self) -> None:
        """A row has since when, how often checked, by whom, and how many producers can be asked."""
        self.cluster.broker.producers.register("PG", FakePeer(), "client-9", 0, 407)
        born_ms = self.cluster.env.clock.wall_ms()
        sent = send_half(self.cluster, "U1", CHECK_IMMUNITY_TIME_IN_SECONDS="30")
        table = self.asked()
        (row,) = table.rows
        self.assertEqual((table.pending, table.given_up, table.next), (1, 0, -1))
        self.assertEqual((table.interval, table.first, table.limit), (60.0, 6.0, 15))
        self.assertEqual((row.id, row.state, row.group, row.topic), ("U1", "pending", "PG", "T"))
        self.assertEqual((row.offset_id, row.queue_offset), (sent.msg_id, 0))
        self.assertEqual((row.born, row.given_up, row.checks, row.immunity), (born_ms, 0, 0, 30_000))
        self.assertEqual(row.producers, 1)

    def test_checked(self) -> None:
        """After a check-back the row is that of the latest copy; it goes once there is a verdict."""
        send_half(self.cluster, "U1")
        self.cluster.pump(60.5, 1.0)
        (row,) = self.asked().rows
        self.assertEqual((row.checks, row.queue_offset, row.producers), (1, 1, 0))
        self.end(row.offset_id, row.queue_offset, COMMIT)
        self.assertEqual(self.ids(), [])

    def test_filters(self) -> None:
        """Rows can be those of one group, of one topic, of one id, or with a copy of one offset id."""
        send_half(self.cluster, "U1")
        sent = send_half(self.cluster, "U2", topic="Other")
        send_half(self.cluster, "U3", group="second")
        self.assertEqual(self.ids(group="PG"), ["U1", "U2"])
        self.assertEqual(self.ids(topic="T"), ["U1", "U3"])
        self.assertEqual(self.ids(group="second", topic="Other"), [])
        self.assertEqual(self.ids(id="U3"), ["U3"])
        self.assertEqual(self.ids(id=sent.msg_id), ["U2"])
        for nothing in ("U4", "0" * 32, sent.msg_id[:-2]):
            self.assertEqual(self.ids(id=nothing), [], nothing)

    def test_id_without_index(self) -> None:
        """Without an index an undecided transaction is found by its id, too."""
        cluster = Cluster(None, messageIndexEnable="false")
        self.addCleanup(cluster.stop)
        self.cluster = cluster
        send_half(cluster, "U1")
        send_half(cluster, "U2")
        self.assertEqual(self.states(id="U2"), {"U2": "pending"})

    def test_pages(self) -> None:
        """An answer has so many rows, looks at so many half messages, and says where the next one begins."""
        for number in range(5):
            send_half(self.cluster, f"U{number}", group="odd" if number % 2 else "even")
        table = self.asked(count=2)
        self.assertEqual(([one.id for one in table.rows], table.next), (["U0", "U1"], 2))
        self.assertEqual(self.ids(count=9, begin=2), ["U2", "U3", "U4"])
        self.patch(transactionstates, "LOOKED_AT", 3)
        table = self.asked(group="odd")
        self.assertEqual(([one.id for one in table.rows], table.next), (["U1"], 3))
        self.assertEqual(self.ids(group="odd", begin=3), ["U3"])

    def test_no_rows(self) -> None:
        """Who asks for no rows gets the figures, and no place to go on from."""
        send_half(self.cluster, "U1")
        given_up(self.cluster, "U2")
        for count in (0, -1):
            for state in (False, True):
                table = self.asked(count=count, given_up=state)
                self.assertEqual((table.rows, table.next), ([], -1))
                self.assertEqual((table.pending, table.given_up), (1, 1))

    def test_slave(self) -> None:
        """A slave knows none: it refuses with 11."""
        cluster = Cluster(None, brokerRole="SLAVE", brokerId="1")
        self.addCleanup(cluster.stop)
        answer = cluster.ask(Command.request(RequestCode.LIST_TRANSACTIONS, ListTransactionsRequest()))
        self.assertEqual(answer.code, 11)


class GivenUpTests(StateCase):
    """Transactions that were given up."""

    def test_states(self) -> None:
        """Each message in TRANS_CHECK_MAX_TIME_TOPIC says what became of its transaction, the newest first."""
        given_up(self.cluster, "U1", "U2", "U3")
        rows = {one.id: one for one in self.asked(given_up=True).rows}
        self.assertEqual(list(rows), ["U3", "U2", "U1"])
        self.assertEqual({one.state for one in rows.values()}, {"givenUp"})
        self.assertGreater(min(one.given_up for one in rows.values()), rows["U1"].born + OLD_MS - 1)

    def test_decided(self) -> None:
        """A late verdict shows, and so does a check that was resumed."""
        sent = [send_half(self.cluster, f"U{number}", age_ms=OLD_MS) for number in range(3)]
        self.cluster.pump(60.5, 1.0)
        self.end(sent[0].msg_id, 0, COMMIT)
        self.end(sent[1].msg_id, 1, ROLLBACK)
        (row,) = self.asked(id="U2").rows
        answer = self.cluster.ask(
            Command.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckRequest(msg_id=row.offset_id))
        )
        self.assertEqual(answer.code, 0)
        self.assertEqual(self.states(given_up=True), {"U2": "pending", "U1": "rolledBack", "U0": "committed"})
        self.assertEqual((self.states(), self.states(id="U0")), ({"U2": "pending"}, {"U0": "committed"}))

    def test_pages(self) -> None:
        """An answer looks at so many of them, and the next one goes on with older ones."""
        given_up(self.cluster, *(f"U{number}" for number in range(5)))
        self.patch(transactionstates, "GIVEN_UP_ROWS", 2)
        table = self.asked(given_up=True)
        self.assertEqual(([one.id for one in table.rows], table.next, table.given_up), (["U4", "U3"], 3, 5))
        table = self.asked(given_up=True, begin=1)
        self.assertEqual(([one.id for one in table.rows], table.next), (["U0"], -1))
        self.assertEqual(self.ids(given_up=True, group="other"), [])
