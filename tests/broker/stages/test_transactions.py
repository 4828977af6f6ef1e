"""Transactions through a whole broker in memory, in virtual time: verdicts, check-backs, restarts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from twisted.internet.defer import Deferred, fail

from smartgo.broker.stages import transactions
from smartgo.broker.stages.transactions import Transactions
from smartgo.errors import NoSuchMessage, ServiceNotAvailable
from smartgo.schema import properties as names
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import ResumeCheckRequest
from smartgo.schema.headers.send import SendResponse
from smartgo.schema.headers.transaction import CheckTransactionRequest, EndTransactionRequest
from smartgo.schema.message import COMMIT, ROLLBACK, NewMessage, StoredMessage, parse_message_id
from smartgo.schema.properties import decode
from smartgo.schema.record import decode as decode_record
from smartgo.schema.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from smartgo.schema.transactions import TRANSACTION_GROUP, committed_copy
from smartgo.store.interfaces import Appended
from tests.broker.doubles import FakePeer
from tests.broker.fakecluster import Cluster, ClusterCase
from tests.fakes import FakeEnvironment
from tests.store.stores import killed, with_golden


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


class VerdictTests(TransactionCase):
    """Half messages, and what END_TRANSACTION makes of them."""

    def test_invisible(self) -> None:
        """A half message is answered with its place in the half queue, and nobody sees it."""
        sent = self.half()
        self.assertEqual((sent.queue_id, sent.queue_offset), (1, 0))
        self.assertEqual(self.seen(), [])
        (stored,) = self.stored(HALF_TOPIC)
        properties = decode(stored.properties)
        self.assertEqual((stored.sys_flag, stored.flag, stored.queue_id), (0, 5, 0))
        self.assertEqual((properties[names.REAL_TOPIC], properties[names.REAL_QID]), ("T", "1"))

    def test_commit(self) -> None:
        """A committed message is in the queue it was sent to, once, however often it is committed."""
        sent = self.half()
        for _ in range(3):
            answer = self.end(sent, COMMIT)
            self.assertEqual((answer.code, answer.remark), (0, None))
        (stored,) = self.cluster.pull("T", 1)[1]
        self.assertEqual((stored.body, stored.flag, stored.sys_flag), (b"half", 5, COMMIT))
        self.assertEqual(stored.prepared_offset, parse_message_id(sent.msg_id)[1])
        self.assertEqual([bytes(one.body) for one in self.stored(OP_HALF_TOPIC)], [b"0"])
        self.assertEqual(len(self.transactions.pending), 0)

    def test_roll_back(self) -> None:
        """A message that was rolled back is seen by nobody, not even if it is committed later."""
        sent = self.half()
        self.assertEqual(self.end(sent, ROLLBACK).code, 0)
        answer = self.end(sent, COMMIT)
        self.assertEqual(answer.code, 1)
        self.assertIn("it was rolled back", answer.remark or "")
        self.assertEqual((self.seen(), len(self.stored(OP_HALF_TOPIC))), ([], 1))

    def test_unknown(self) -> None:
        """The verdict "unknown" is not answered and changes nothing."""
        sent = self.half()
        self.assertRaises(AssertionError, self.end, sent, 0)
        self.assertEqual((len(self.transactions.pending), self.stored(OP_HALF_TOPIC)), (1, []))
        self.cluster.pump(4)

    def test_checked(self) -> None:
        """A verdict of another group, or with a wrong offset, or on what is no half message, is refused."""
        sent = self.half()
        plain = parse_message_id(self.cluster.send("T").read(SendResponse).msg_id)[1]
        for answer, remark in (
            (self.end(sent, COMMIT, group="other"), "The producer group wrong"),
            (self.end(sent, COMMIT, offset=7), "The transaction state table offset wrong"),
            (self.end(sent, COMMIT, place=plain), "Find prepared transaction message failed"),
            (self.end(sent, ROLLBACK, place=99), "Find prepared transaction message failed"),
        ):
            self.assertEqual((answer.code, answer.remark), (1, remark))
        self.assertEqual((self.seen(), len(self.transactions.pending)), ([b"body"], 1))

    def test_delayed(self) -> None:
        """A half message with a delay is refused, and stored nowhere."""
        for name, value in ((names.DELAY, "3"), (names.TIMER_DELAY_SEC, "5")):
            asked = {"UNIQ_KEY": "U", "TRAN_MSG": "true", "PGROUP": "PG", name: value}
            self.assertEqual(self.cluster.send("T", properties=asked, sys_flag=4).code, 13)
        self.assertEqual(self.stored(HALF_TOPIC), [])

    def test_flag_alone(self) -> None:
        """A message with a transaction's flag but without TRAN_MSG is refused: nobody would ever see it."""
        self.assertEqual(self.cluster.send("T", sys_flag=4).code, 16)

    def test_sent_twice(self) -> None:
        """A half message that a producer sends again, as the answer was late, is one transaction."""
        self.half(UNIQ_KEY="same")
        sent = self.half(UNIQ_KEY="same")
        self.assertEqual(len(self.transactions.pending), 1)
        self.assertEqual(self.end(sent, COMMIT).code, 0)
        self.assertEqual((self.seen(), len(self.transactions.pending)), ([b"half"], 0))


class RejectTests(TransactionCase):
    """A broker that takes no transactions."""

    settings: ClassVar[dict[str, str]] = {"rejectTransactionMessage": "true"}

    def test_rejected(self) -> None:
        """Half messages are refused, other messages are not."""
        answer = self.cluster.send("T", properties={"TRAN_MSG": "true"}, sys_flag=4)
        self.assertEqual((answer.code, self.cluster.send("T").code), (16, 0))
        self.assertIn("sending transaction message is forbidden", answer.remark or "")


class LimitTests(TransactionCase):
    """A broker that keeps few undecided transactions."""

    settings: ClassVar[dict[str, str]] = {"maxPendingTransactions": "2"}

    def test_limit(self) -> None:
        """Beyond maxPendingTransactions half messages are refused, other messages not, until one is decided."""
        sent = [self.half(), self.half()]
        asked: dict[str, Any] = {"properties": {"TRAN_MSG": "true", "UNIQ_KEY": "more"}, "sys_flag": 4}
        answer = self.cluster.send("T", **asked)
        self.assertEqual((answer.code, self.cluster.send("T").code), (14, 0))
        self.assertIn("2 transactions are undecided (maxPendingTransactions)", answer.remark or "")
        self.end(sent[0], ROLLBACK)
        self.assertEqual(self.cluster.send("T", **asked).code, 0)


class CheckBackTests(TransactionCase):
    """Rounds of check-backs, by interval and count."""

    def test_asked(self) -> None:
        """An undecided message is asked for in the first round after transactionTimeOut; the answer decides it."""
        self.half(b"asked")
        self.cluster.pump(9.5)
        self.assertEqual(self.checks(), [])
        self.cluster.pump(1)
        (check,) = self.checks()
        self.assertEqual((check.msg_id, check.transaction_id, check.tran_state_table_offset), ("U1", "U1", 1))
        copy = self.stored(HALF_TOPIC)[1]
        self.assertEqual((copy.physical_offset, copy.flag), (check.commit_log_offset, 5))
        self.assertEqual(decode(copy.properties)[names.TRANSACTION_CHECK_TIMES], "1")
        self.assertEqual(self.end(check, COMMIT).code, 0)
        self.assertEqual(self.seen(), [b"asked"])
        self.cluster.pump(30)
        self.assertEqual(self.checks(), [])

    def test_young(self) -> None:
        """A message younger than transactionTimeOut waits for the next round."""
        self.half()
        self.cluster.pump(5)
        self.half()
        self.cluster.pump(5.5)
        self.assertEqual([check.msg_id for check in self.checks()], ["U1"])
        self.cluster.pump(10)
        self.assertEqual(sorted(check.msg_id or "" for check in self.checks()), ["U1", "U2"])

    def test_immunity(self) -> None:
        """A message with an immunity of its own is asked for when that is over, and meanwhile never copied."""
        self.half(CHECK_IMMUNITY_TIME_IN_SECONDS="25")
        self.cluster.pump(24)
        self.assertEqual((self.checks(), len(self.stored(HALF_TOPIC))), ([], 1))
        self.cluster.pump(7)
        self.assertEqual(len(self.checks()), 1)

    def test_first_copy_committed(self) -> None:
        """A late commit of the first copy counts for the later one, which is not asked for again."""
        sent = self.half()
        self.cluster.pump(10.5)
        self.assertEqual(len(self.checks()), 1)
        self.assertEqual(self.end(sent, COMMIT).code, 0)
        self.assertEqual([bytes(one.body) for one in self.stored(OP_HALF_TOPIC)], [b"1"])
        self.cluster.pump(20)
        self.assertEqual((self.checks(), self.seen()), ([], [b"half"]))

    def test_without_key(self) -> None:
        """A message without a UNIQ_KEY is asked for, and decided by any of its copies, as well."""
        sent = self.half(UNIQ_KEY="")
        self.cluster.pump(20.5)
        self.assertEqual([check.tran_state_table_offset for check in self.checks()], [1, 2])
        self.assertEqual(self.end(sent, COMMIT).code, 0)
        self.cluster.pump(20.5)
        self.assertEqual((self.checks(), self.seen()), ([], [b"half"]))

    def test_many(self) -> None:
        """However many are undecided, each is asked for once a round."""
        for _ in range(150):
            self.half()
        self.cluster.pump(10.5)
        keys = [check.msg_id for check in self.checks()]
        self.assertEqual((len(keys), len(set(keys))), (150, 150))

    def test_some_a_turn(self) -> None:
        """However few are looked at in a turn, each is asked for once a round."""
        self.patch(transactions, "_LOOKED_AT", 7)
        self.patch(transactions, "_TURN", 3)
        self.test_many()

    def test_no_producer(self) -> None:
        """Without a producer the check counts all the same; whoever connects later is asked."""
        self.cluster.broker.producers.disconnected(self.producer)
        self.half()
        self.cluster.pump(20.5)
        self.assertEqual((self.transactions.unasked, self.transactions.checked), (2, 0))
        self.connect()
        self.cluster.pump(10)
        (check,) = self.checks()
        self.assertEqual(check.tran_state_table_offset, 3)

    def test_saved(self) -> None:
        """The offsets of CID_RMQ_SYS_TRANS go on to what is undecided, and an idle broker has no timer for it."""
        first, second = self.half(), self.half()
        self.end(first, COMMIT)
        self.cluster.pump(10.5)
        self.assertEqual(self.saved(), (2, 1))  # the second one's copy has offset 2
        self.end(second, ROLLBACK)
        self.cluster.pump(10.5)
        self.assertEqual(self.saved(), (3, 2))
        self.assertIsNone(self.transactions._timer)


class SynchronousCheckBackTests(CheckBackTests):
    """The same where messages are readable once they are flushed."""

    settings: ClassVar[dict[str, str]] = {**TransactionCase.settings, "flushDiskType": "SYNC_FLUSH"}


class GivenUpTests(TransactionCase):
    """Messages that are checked no more."""

    settings: ClassVar[dict[str, str]] = {"transactionCheckInterval": "10000", "transactionCheckMax": "2"}

    def given_up(self) -> StoredMessage:
        """Let a message be given up."""
        self.sent = self.half()
        self.cluster.pump(30.5)
        self.assertEqual(len(self.checks()), 2)
        (stored,) = self.stored(CHECK_MAX_TIME_TOPIC)
        return stored

    def test_moved(self) -> None:
        """After transactionCheckMax checks the message is moved away, and asked for no more."""
        stored = self.given_up()
        self.assertEqual(decode(stored.properties)[names.TRANSACTION_CHECK_TIMES], "2")
        self.cluster.pump(30)
        self.assertEqual((self.checks(), len(self.transactions.pending)), ([], 0))

    def test_late_commit(self) -> None:
        """A commit that comes after that counts still."""
        self.given_up()
        self.assertEqual(self.end(self.sent, COMMIT).code, 0)
        self.assertEqual(self.seen(), [b"half"])

    def test_resumed(self) -> None:
        """A resumed check begins from zero; only what was given up, and is not decided, can be resumed."""
        stored = self.given_up()
        self.assertEqual(self.resume(stored.message_id).code, 0)
        self.cluster.pump(10.5)
        (check,) = self.checks()
        self.assertEqual(decode(self.stored(HALF_TOPIC)[-1].properties)[names.TRANSACTION_CHECK_TIMES], "1")
        self.assertEqual(self.end(check, COMMIT).code, 0)
        self.assertEqual(self.seen(), [b"half"])
        for message_id in (stored.message_id, self.stored(HALF_TOPIC)[0].message_id, "0" * 32, "x"):
            self.assertEqual(self.resume(message_id).code, 1, message_id)

    def resume(self, message_id: str) -> Command:
        """Ask for it."""
        header = ResumeCheckRequest(msg_id=message_id)
        return self.cluster.ask(Command.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, header))


class TakenOverTests(ClusterCase):
    """The directory of a RocketMQ 4.9.7 broker."""

    def found(self, half_offset: int, op_offset: int) -> list[tuple[int, int]]:
        """Offset and checks of what is undecided in it, from these saved offsets on."""
        self.cluster.stop()
        self.cluster = Cluster(with_golden("store-a"))
        broker = self.cluster.broker
        offsets = broker.offsets
        self.assertEqual(offsets.query(TRANSACTION_GROUP, HALF_TOPIC, 0), 40)
        offsets.commit(TRANSACTION_GROUP, HALF_TOPIC, 0, half_offset)
        offsets.commit(TRANSACTION_GROUP, OP_HALF_TOPIC, 0, op_offset)
        transactions = broker.transactions
        assert transactions is not None
        transactions.stop()
        self.successResultOf(Deferred.fromCoroutine(transactions.start()))
        return [(one.offset, one.checks) for one in transactions.pending.undecided()]

    def test_nothing(self) -> None:
        """Where RocketMQ was done with everything, so are we."""
        self.assertEqual(self.found(40, 6), [])

    def test_undecided(self) -> None:
        """From earlier offsets the same messages are undecided that RocketMQ took for undecided."""
        self.assertEqual(self.found(0, 0), [(38, 15), (39, 15)])
        self.assertEqual(self.found(12, 6), [(38, 15), (39, 15)])


class RestartTests(TransactionCase):
    """What a restart finds."""

    def test_restarted(self) -> None:
        """After a restart the undecided are asked for again, and the others are as they were."""
        for number, verdict in enumerate((COMMIT, None, ROLLBACK, None)):
            sent = self.half(b"%d" % number)
            if verdict is not None:
                self.end(sent, verdict)
        self.cluster.pump(10.5)
        self.checks()
        self.restart()
        self.assertEqual([one.checks for one in self.transactions.pending.undecided()], [1, 1])
        self.cluster.pump(10.5)
        checks = self.checks()
        self.assertEqual(sorted(check.msg_id or "" for check in checks), ["U2", "U4"])
        for check in checks:
            self.assertEqual(self.end(check, COMMIT).code, 0)
        self.assertEqual(sorted(self.seen()), [b"0", b"1", b"3"])

    def test_killed_in_a_commit(self) -> None:
        """A commit whose op message was not written any more is not made again."""
        sent = self.half()
        broker = self.cluster.broker
        stored = decode_record(self.successResultOf(broker.store.at(parse_message_id(sent.msg_id)[1])))
        message = committed_copy(stored)
        assert message is not None
        broker.store.append((message,))
        broker.store.end_run()
        self.restart()
        self.assertEqual((len(self.transactions.pending), len(self.stored(OP_HALF_TOPIC))), (0, 1))
        self.assertEqual(self.end(sent, COMMIT).code, 0)
        self.assertEqual(self.seen(), [b"half"])

    def test_offsets_lost(self) -> None:
        """Without the saved offsets both queues are read from their beginning, to the same end."""
        first = self.half()
        self.half()
        self.end(first, COMMIT)
        self.cluster.pump(20.5)
        self.cluster.broker.offsets.remove_group(TRANSACTION_GROUP)
        self.restart()
        (pending,) = self.transactions.pending.undecided()
        self.assertEqual((pending.checks, pending.key), (2, ("PG", "T", "U2")))

    def test_offsets_ahead(self) -> None:
        """A slave that becomes a master with offsets that are newer than its log finds what is undecided."""
        first = self.half()
        self.half()
        self.end(first, COMMIT)
        for topic, offset in ((HALF_TOPIC, 9), (OP_HALF_TOPIC, 5)):
            self.cluster.broker.offsets.commit(TRANSACTION_GROUP, topic, 0, offset)
            self.restart()
            self.assertEqual([one.key for one in self.transactions.pending.undecided()], [("PG", "T", "U2")])
        self.cluster.pump(10.5)
        (check,) = self.checks()
        self.assertEqual(self.end(check, COMMIT).code, 0)
        self.assertEqual(self.seen(), [b"half"] * 2)


class RefusedTests(TransactionCase):
    """A store that takes nothing for a while."""

    def refuse(self, *topics: str) -> None:
        """Let the store refuse messages of these topics from now on."""
        store = self.cluster.broker.store
        append = type(store).append

        def refusing(messages: Sequence[NewMessage]) -> Appended:
            if messages[0].topic in topics:
                raise ServiceNotAvailable("full")
            return append(store, messages)

        self.patch(store, "append", refusing)

    def test_half(self) -> None:
        """A half message that the store refuses is refused, and not there."""
        self.refuse(HALF_TOPIC)
        asked = {"UNIQ_KEY": "U", "TRAN_MSG": "true", "PGROUP": "PG"}
        self.assertEqual(self.cluster.send("T", properties=asked, sys_flag=4).code, 14)
        self.assertEqual(len(self.transactions.pending), 0)

    def test_commit(self) -> None:
        """A commit that the store refuses is refused, and can be made later."""
        sent = self.half()
        self.refuse("T")
        self.assertEqual(self.end(sent, COMMIT).code, 14)
        self.assertEqual((len(self.transactions.pending), self.stored(OP_HALF_TOPIC)), (1, []))
        self.refuse()
        self.assertEqual(self.end(sent, COMMIT).code, 0)
        self.assertEqual(self.seen(), [b"half"])

    def test_op_of_a_commit(self) -> None:
        """A commit whose op message is refused counts; the op message follows in the next round that can."""
        sent = self.half()
        self.refuse(OP_HALF_TOPIC)
        for _ in range(2):
            self.assertEqual(self.end(sent, COMMIT).code, 0)
        self.cluster.pump(10.5)
        self.assertEqual((self.seen(), self.stored(OP_HALF_TOPIC), self.saved()), ([b"half"], [], (None, None)))
        self.refuse()
        self.cluster.pump(10)
        self.assertEqual([bytes(one.body) for one in self.stored(OP_HALF_TOPIC)], [b"0"])
        self.assertEqual((self.saved(), self.checks()), ((1, 1), []))

    def test_op_of_a_rollback(self) -> None:
        """A rollback whose op message is refused is refused: the producer is asked again."""
        sent = self.half()
        self.refuse(OP_HALF_TOPIC)
        self.assertEqual(self.end(sent, ROLLBACK).code, 14)
        self.cluster.pump(10.5)
        self.assertEqual(len(self.checks()), 1)

    def test_round(self) -> None:
        """A round that the store refuses asks nobody and counts nothing; the next one goes on."""
        self.half()
        self.refuse(HALF_TOPIC)
        self.cluster.pump(10.5)
        self.assertEqual((self.checks(), [one.checks for one in self.transactions.pending.undecided()]), ([], [0]))
        self.refuse()
        self.cluster.pump(10)
        self.assertEqual(len(self.checks()), 1)

    def test_lost(self) -> None:
        """A half message whose record the log no longer has is dropped, and holds nothing back."""
        self.half()
        self.half()
        store = self.cluster.broker.store
        at = type(store).at
        lost = self.transactions.pending.undecided()[0].physical_offset

        def partly(offset: int, size: int | None = None) -> Deferred[bytes]:
            return fail(NoSuchMessage("gone")) if offset == lost else at(store, offset, size)

        self.patch(store, "at", partly)
        self.cluster.pump(10.5)
        self.assertEqual(([one.msg_id for one in self.checks()], self.saved()), (["U2"], (2, 0)))


class KilledTests(TransactionCase):
    """A broker that is killed after any of its appends."""

    TRUTH: ClassVar = {b"U1": COMMIT, b"U2": ROLLBACK, b"U3": COMMIT, b"U4": ROLLBACK, b"U5": COMMIT}

    def kept(self) -> list[FakeEnvironment]:
        """Return the list that gets, from now on, the machine as a kill after each append would leave it."""
        store, env = self.cluster.broker.store, self.cluster.env
        append = type(store).append
        found: list[FakeEnvironment] = []

        def keeping(messages: Sequence[NewMessage]) -> Appended:
            appended = append(store, messages)
            found.append(killed(env))
            return appended

        self.patch(store, "append", keeping)
        return found

    def answer(self) -> None:
        """Answer the check-backs by what the producer decided."""
        for check in self.checks():
            self.assertEqual(self.end(check, self.TRUTH[(check.msg_id or "").encode()]).code, 0)

    def test_each_append(self) -> None:
        """Wherever it is killed, what was committed is seen once in the end, and what was rolled back never."""
        self.cluster.send("T", queue_id=1, body=b"plain")
        machines = self.kept()
        sent = [self.half(b"U%d" % number) for number in range(1, 6)]
        self.end(sent[0], COMMIT)
        self.end(sent[1], ROLLBACK)
        self.cluster.pump(10.5)
        self.end(sent[4], COMMIT)  # names the first copy
        self.answer_but_last()
        self.cluster.pump(20)
        self.answer()
        self.assertGreater(len(machines), 15)
        for number, machine in enumerate(machines):
            self.cluster.stop()
            self.cluster = Cluster(machine, **self.settings)
            self.successResultOf(self.cluster.service.ready)
            self.connect()
            there = {bytes(one.body) for one in self.stored(HALF_TOPIC)}
            for _ in range(3):
                self.cluster.pump(10.5)
                self.answer()
            committed = [body for body, verdict in self.TRUTH.items() if verdict == COMMIT and body in there]
            self.assertEqual(sorted(self.seen()), sorted([b"plain", *committed]), f"killed after append {number}")
            self.assertEqual(len(self.transactions.pending), 0, f"killed after append {number}")

    def answer_but_last(self) -> None:
        """Answer all check-backs but those of U4, and of U5, which is decided."""
        for check in self.checks():
            if check.msg_id not in ("U4", "U5"):
                self.assertEqual(self.end(check, self.TRUTH[(check.msg_id or "").encode()]).code, 0)
