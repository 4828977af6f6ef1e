"""Transactions: what brokers are told of local transactions, over connections in memory and against our own broker."""

from __future__ import annotations

from typing import ClassVar, cast

from twisted.internet.defer import Deferred

from smartgo.client.consumer import PushConsumer
from smartgo.client.internal.events import ClientEvents
from smartgo.client.listening import ConsumerSettings
from smartgo.client.messages import Message, ReceivedMessage, SendStatus
from smartgo.client.producer import Producer
from smartgo.client.transactions import TransactionProducer, TransactionState
from smartgo.errors import MessageIllegal, PeerRefused
from smartgo.schema import properties
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendRequest, SendResponse
from smartgo.schema.headers.transaction import EndTransactionRequest
from smartgo.schema.message import NewMessage, message_id, pack_host
from smartgo.schema.transactions import check_request
from tests.client.doubles import ClusterTestCase, Storing, route
from tests.client.test_cluster import FIRST, ClusterCase, coroutine

STORE_HOST = pack_host("127.0.0.1", 10001)


class Keeping(Storing):
    """A broker that stores half messages at physical offset 4242, and offset 9 of the half queue."""

    def _store(self, request: Command) -> Command:
        header = request.read(SendRequest)
        answer = SendResponse(msg_id=message_id(STORE_HOST, 4242), queue_id=header.queue_id, queue_offset=9)
        return request.answer(self.code, "as told", answer)

    def ends(self) -> list[tuple[EndTransactionRequest, str | None]]:
        """What it was told of transactions, and with which remarks."""
        found = self.of(RequestCode.END_TRANSACTION)
        assert all(one.is_one_way for one in found)
        return [(one.read(EndTransactionRequest), one.remark) for one in found]


class VerdictTests(ClusterTestCase):
    def setUp(self) -> None:
        """A broker and a transaction producer, whose check answers as C{self.check} says."""
        super().setUp()
        self.broker = Keeping()
        self.listen(10001, self.broker)
        self.routes["T"] = route(("a", 10001))
        self.client_ = self.client()
        self.check: object = TransactionState.COMMIT
        self.checked: list[ReceivedMessage] = []
        self.producer = TransactionProducer(self.client_, "pg", self._checked, check_concurrency=1)
        self.result(self.producer.start())

    def tearDown(self) -> None:
        """Stopping leaves no timer behind."""
        self.ended(self.client_)

    def _checked(self, half: ReceivedMessage) -> TransactionState:
        self.checked.append(half)
        if isinstance(self.check, Exception):
            raise self.check
        return self.check  # type: ignore[return-value]

    def ask(self, unique_id: str = "U1", group: str = "pg") -> None:
        """Let the broker ask what became of a transaction, as brokers do."""
        found = {"UNIQ_KEY": unique_id, "TRAN_MSG": "true", "PGROUP": group, "REAL_TOPIC": "T", "REAL_QID": "1"}
        copy = NewMessage(
            "RMQ_SYS_TRANS_HALF_TOPIC", 0, b"x", properties.encode(found), born_host=STORE_HOST, store_host=STORE_HOST
        )
        self.broker.peers[-1].tell(check_request(copy, 77, 8888, 1))
        self.pass_time(0.5)

    def test_commit(self) -> None:
        """The broker gets a half message of the group; then what the local transaction returned, and both places."""
        told: list[tuple[Message, str]] = []
        waits: Deferred[TransactionState] = Deferred()

        def local(message: Message, transaction_id: str) -> Deferred[TransactionState]:
            told.append((message, transaction_id))
            return waits

        message = Message(topic="T", body=b"x", tag="A")
        sending = self.producer.send_in_transaction(message, local)
        self.pass_time(0.5)
        half = self.broker.of(RequestCode.SEND_MESSAGE_V2)[0].read(SendRequest)
        ((given, transaction_id),) = told
        self.assertIs(given, message)
        self.assertEqual(
            properties.decode_text(half.properties),
            {"TAGS": "A", "UNIQ_KEY": transaction_id, "TRAN_MSG": "true", "PGROUP": "pg"},
        )
        self.assertEqual((half.sys_flag, half.topic), (4, "T"))
        self.assertEqual(self.broker.ends(), [])
        waits.callback(TransactionState.COMMIT)
        result = self.result(sending)
        self.assertEqual(
            (result.state, result.error, result.message_id), (TransactionState.COMMIT, None, transaction_id)
        )
        ((end, remark),) = self.broker.ends()
        self.assertEqual((end.producer_group, end.commit_or_rollback, end.from_transaction_check), ("pg", 8, False))
        self.assertEqual((end.commit_log_offset, end.tran_state_table_offset), (4242, 9))
        self.assertEqual((end.msg_id, end.transaction_id, remark), (transaction_id, transaction_id, None))

    def test_rollback(self) -> None:
        """A local transaction may be a coroutine; one that rolls back is told so."""

        async def local(message: Message, transaction_id: str) -> TransactionState:
            return TransactionState.ROLLBACK

        result = self.result(self.producer.send_in_transaction(Message(topic="T", body=b"x"), local))
        self.assertEqual(result.state, TransactionState.ROLLBACK)
        self.assertEqual([end.commit_or_rollback for end, _ in self.broker.ends()], [12])

    def test_raises(self) -> None:
        """A local transaction that raises, or returns something else, is logged and unknown; the remark tells why."""

        def raises(message: Message, transaction_id: str) -> TransactionState:
            raise ValueError("no apples")

        result = self.result(self.producer.send_in_transaction(Message(topic="T", body=b"x"), raises))
        self.assertEqual((result.state, str(result.error)), (TransactionState.UNKNOWN, "no apples"))
        forgets = self.producer.send_in_transaction(Message(topic="T", body=b"x"), lambda *_: None)  # type: ignore[arg-type]
        self.assertEqual(self.result(forgets).state, TransactionState.UNKNOWN)
        (first, remark), (second, _) = self.broker.ends()
        self.assertEqual((first.commit_or_rollback, second.commit_or_rollback), (0, 0))
        self.assertEqual(remark, "executeLocalTransactionBranch exception: ValueError: no apples")
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        (wrong,) = self.flushLoggedErrors(TypeError)
        self.assertEqual(str(wrong.value), "return a TransactionState, not NoneType")

    def test_less_durable(self) -> None:
        """A half message that is less durable than it should be is rolled back; the local transaction does not run."""
        for status in (SendStatus.FLUSH_DISK_TIMEOUT, SendStatus.FLUSH_SLAVE_TIMEOUT, SendStatus.SLAVE_NOT_AVAILABLE):
            self.broker.code = status.value
            result = self.result(
                self.producer.send_in_transaction(Message(topic="T", body=b"x"), lambda *_: self.fail("it ran"))
            )
            self.assertEqual((result.status, result.state), (status, TransactionState.ROLLBACK))
        self.assertEqual([end.commit_or_rollback for end, _ in self.broker.ends()], [12, 12, 12])

    def test_not_sent(self) -> None:
        """Without a half message there is no transaction; the local one does not run."""
        self.broker.code = int(ResponseCode.NO_PERMISSION)
        for message, error in (
            (Message(topic="T", body=b"x"), PeerRefused),
            (Message(topic="T", body=b"x", delay_level=1), MessageIllegal),
            (Message(topic="T", body=b"x", delay=1.0), MessageIllegal),
        ):
            sending = self.producer.send_in_transaction(message, lambda *_: self.fail("it ran"))
            self.pass_time(0.5)
            self.failureResultOf(sending, error)
        self.assertEqual(self.broker.ends(), [])

    def test_unreachable(self) -> None:
        """A broker that is gone when the local transaction ends is not told; the result has the state nevertheless."""

        def local(message: Message, transaction_id: str) -> TransactionState:
            self.client_.routes.address = lambda name, broker_id=0: None  # type: ignore[assignment]
            return TransactionState.COMMIT

        result = self.result(self.producer.send_in_transaction(Message(topic="T", body=b"x"), local))
        self.assertEqual((result.state, self.broker.ends()), (TransactionState.COMMIT, []))

    def test_check(self) -> None:
        """A check-back is answered by the check, with the places that the broker named."""
        self.result(self.producer.send_in_transaction(Message(topic="T", body=b"x"), self._leave_open))
        for state, verdict in (
            (TransactionState.COMMIT, 8),
            (TransactionState.ROLLBACK, 12),
            (TransactionState.UNKNOWN, 0),
        ):
            self.check = state
            self.ask()
            end, remark = self.broker.ends()[-1]
            self.assertEqual(
                (end.producer_group, end.commit_or_rollback, end.from_transaction_check), ("pg", verdict, True)
            )
            self.assertEqual((end.commit_log_offset, end.tran_state_table_offset), (8888, 77))
            self.assertEqual((end.msg_id, end.transaction_id, remark), ("U1", "U1", None))
        self.assertEqual((self.checked[0].topic, self.checked[0].body, self.checked[0].message_id), ("T", b"x", "U1"))

    def _leave_open(self, message: Message, transaction_id: str) -> TransactionState:
        return TransactionState.UNKNOWN

    def test_check_raises(self) -> None:
        """A check that raises is logged, and leaves the transaction undecided."""
        self.result(self.producer.send_in_transaction(Message(topic="T", body=b"x"), self._leave_open))
        self.check = OSError("database is gone")
        self.ask()
        end, remark = self.broker.ends()[-1]
        self.assertEqual(end.commit_or_rollback, 0)
        self.assertEqual(remark, "checkLocalTransactionState Exception: OSError: database is gone")
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)

    def test_check_turns(self) -> None:
        """No more checks run at a time than the producer allows; the others wait."""
        self.result(self.producer.send_in_transaction(Message(topic="T", body=b"x"), self._leave_open))
        waits: Deferred[TransactionState] = Deferred()
        self.check = waits
        before = len(self.broker.ends())
        for number in range(3):
            self.ask(f"U{number}")
        self.assertEqual([half.message_id for half in self.checked], ["U0"])
        self.check = TransactionState.COMMIT
        waits.callback(TransactionState.COMMIT)
        self.pass_time(0.5)
        self.assertEqual([end.msg_id for end, _ in self.broker.ends()[before:]], ["U0", "U1", "U2"])

    def test_no_check(self) -> None:
        """A plain producer, or none of that group, cannot answer a check-back: the broker asks again later."""
        plain = Producer(self.client_, "plain")
        self.result(plain.start())
        self.result(plain.send(Message(topic="T", body=b"x")))
        for group in ("plain", "other"):
            self.ask(group=group)
        self.assertEqual((self.broker.ends(), self.checked), ([], []))

    def test_by_hand(self) -> None:
        """A message cannot be made a half message by its property."""
        for value in ("true", "TRUE"):
            sending = self.producer.send(Message(topic="T", body=b"x", properties={"TRAN_MSG": value}))
            refusal = self.failureResultOf(sending, MessageIllegal).value
            self.assertIn("send it by TransactionProducer.send_in_transaction", str(refusal))
        self.result(self.producer.send(Message(topic="T", body=b"x", properties={"TRAN_MSG": "false"})))


class _Ends(ClientEvents):
    """A listener of the client's events that keeps the ends of transactions."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def transaction_ended(self, *arguments: object) -> None:
        """Keep it."""
        self.heard.append(arguments)


class EventTests(VerdictTests):
    """Everything again, with a listener of the client's events."""

    def setUp(self) -> None:
        """Listen."""
        super().setUp()
        self.ends = _Ends()
        self.client_.events.listeners.append(self.ends)

    def test_events(self) -> None:
        """The client's listeners hear of verdicts on half messages and on checks, with the message's properties."""
        message = Message(topic="T", body=b"x", tag="A", keys="k")
        sent = self.result(self.producer.send_in_transaction(message, lambda *_: TransactionState.ROLLBACK))
        self.ask()
        found = {"TAGS": "A", "KEYS": "k", "UNIQ_KEY": sent.message_id}
        first, second = self.ends.heard
        self.assertEqual(first, ("pg", "T", found, "127.0.0.1:10001", sent.message_id, "ROLLBACK_MESSAGE", False))
        group, topic, half, _, transaction_id, state, from_check = second
        self.assertEqual((group, topic, transaction_id), ("pg", "T", "U1"))
        self.assertEqual((state, from_check), ("COMMIT_MESSAGE", True))
        self.assertEqual(cast(dict[str, str], half)["UNIQ_KEY"], "U1")


class BrokerTests(ClusterCase):
    """Against our own broker, which checks back at once."""

    settings: ClassVar[dict[str, str]] = {"transactionCheckInterval": "200", "transactionTimeOut": "100"}

    @coroutine
    async def test_outcomes(self) -> None:
        """Consumers get what was committed, at once or after a check-back by another producer of the group."""
        seen: list[bytes] = []
        checked: list[bytes] = []

        def check(half: ReceivedMessage) -> TransactionState:
            checked.append(half.body)
            return TransactionState.COMMIT if half.body == b"late" else TransactionState.ROLLBACK

        producers = [TransactionProducer(self.make_client(), "tg", check) for _ in range(2)]
        for producer in producers:
            await producer.start()
            await producer.queues("T")
        outcomes = {
            b"commit": TransactionState.COMMIT,
            b"rollback": TransactionState.ROLLBACK,
            b"late": TransactionState.UNKNOWN,
            b"never": TransactionState.UNKNOWN,
        }
        for body, state in outcomes.items():
            message = Message(topic="T", body=body)
            result = await producers[0].send_in_transaction(message, lambda message, _: outcomes[message.body])
            self.assertEqual(result.state, state)
        await producers[1].send(Message(topic="T", body=b"plain"))  # so it is connected
        await producers[0].stop()  # another one answers for it
        settings = ConsumerSettings(begin=FIRST)
        consumer = PushConsumer(
            self.make_client(), "cg", lambda messages: seen.extend(m.body for m in messages), settings
        )
        consumer.subscribe("T")
        await consumer.start()
        await self.until(lambda: len(seen) >= 3 and len(set(checked)) == 2)
        self.assertEqual(sorted(seen), [b"commit", b"late", b"plain"])
        self.assertEqual(set(checked), {b"late", b"never"})
