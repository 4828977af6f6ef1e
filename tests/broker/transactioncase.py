"""A cluster in memory with a producer of transactions."""

from __future__ import annotations

from typing import ClassVar

from smartgo.broker.stages.transactions import Transactions
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendResponse
from smartgo.schema.headers.transaction import CheckTransactionRequest, EndTransactionRequest
from smartgo.schema.message import StoredMessage, parse_message_id
from smartgo.schema.record import decode as decode_record
from smartgo.schema.topics import HALF_TOPIC, OP_HALF_TOPIC
from smartgo.schema.transactions import TRANSACTION_GROUP
from tests.broker.doubles import FakePeer
from tests.broker.fakecluster import Cluster, ClusterCase


class TransactionCase(ClusterCase):
    """A cluster, and a producer of group PG whose check-backs are seen."""

    settings: ClassVar[dict[str, str]] = {"transactionCheckInterval": "10000"}

    def setUp(self) -> None:
        super().setUp()
        self.count = 0
        self.connect()

    def connect(self) -> None:
        """Let the producer be connected."""
        self.producer = FakePeer()
        self.cluster.broker.producers.register("PG", self.producer, "client-9", 0, 407)

    def restart(self) -> None:
        """Stop and start the broker."""
        env = self.cluster.env
        self.cluster.stop()
        self.cluster = Cluster(env, **self.settings)
        self.successResultOf(self.cluster.service.ready)
        self.connect()

    @property
    def transactions(self) -> Transactions:
        """The broker's transactions."""
        found = self.cluster.broker.transactions
        assert found is not None
        return found

    def half(self, body: bytes = b"half", queue_id: int = 1, **properties: str) -> SendResponse:
        """Send a half message that is born now."""
        self.count += 1
        asked = {"UNIQ_KEY": f"U{self.count}", "WAIT": "true", "TRAN_MSG": "true", "PGROUP": "PG", **properties}
        now = self.cluster.env.clock.wall_ms()
        answer = self.cluster.send("T", body, queue_id, properties=asked, sys_flag=4, flag=5, born_timestamp=now)
        self.assertEqual((answer.code, answer.remark), (0, None))
        return answer.read(SendResponse)

    def end(
        self, sent: SendResponse | CheckTransactionRequest, verdict: int, group: str = "PG", **more: int
    ) -> Command:
        """Send a verdict."""
        if isinstance(sent, SendResponse):
            offset, place = sent.queue_offset, parse_message_id(sent.msg_id)[1]
        else:
            offset, place = sent.tran_state_table_offset, sent.commit_log_offset
        header = EndTransactionRequest(
            producer_group=group,
            tran_state_table_offset=more.get("offset", offset),
            commit_log_offset=more.get("place", place),
            commit_or_rollback=verdict,
            msg_id="U",
            from_transaction_check=isinstance(sent, CheckTransactionRequest),
        )
        return self.cluster.ask(Command.request(RequestCode.END_TRANSACTION, header))

    def seen(self) -> list[bytes]:
        """The bodies that consumers have from all queues of the topic."""
        return [bytes(one.body) for queue in range(4) for one in self.cluster.pull("T", queue)[1]]

    def stored(self, topic: str) -> list[StoredMessage]:
        """All messages of the first queue of a topic of the broker's own."""
        store = self.cluster.broker.store
        found = []
        for unit in store.units(topic, 0, store.bounds(topic, 0)[0], 1000):
            found.append(decode_record(self.successResultOf(store.at(unit.commitlog_offset))))
        return found

    def checks(self) -> list[CheckTransactionRequest]:
        """The check-backs that the producer got since the last call."""
        told, self.producer.told = self.producer.told, []
        self.assertEqual({one.code for one in told} - {RequestCode.CHECK_TRANSACTION_STATE}, set())
        return [one.read(CheckTransactionRequest) for one in told]

    def saved(self) -> tuple[int | None, int | None]:
        """The offsets of the transactions' own group in the half and the op queue."""
        offsets = self.cluster.broker.offsets
        return offsets.query(TRANSACTION_GROUP, HALF_TOPIC, 0), offsets.query(TRANSACTION_GROUP, OP_HALF_TOPIC, 0)
