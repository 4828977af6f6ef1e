"""Transactions through a whole broker in memory, in virtual time: check-backs, restarts, refusals, kills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from twisted.internet.defer import Deferred, fail

from smartgo.broker.stages import transactions
from smartgo.errors import NoSuchMessage, ServiceNotAvailable
from smartgo.schema import properties as names
from smartgo.schema.message import COMMIT, ROLLBACK, NewMessage, parse_message_id
from smartgo.schema.properties import decode
from smartgo.schema.record import decode as decode_record
from smartgo.schema.topics import HALF_TOPIC, OP_HALF_TOPIC
from smartgo.schema.transactions import TRANSACTION_GROUP, committed_copy
from smartgo.store.interfaces import Appended
from tests.broker.fakecluster import Cluster, ClusterCase
from tests.broker.transactioncase import TransactionCase
from tests.fakes import FakeEnvironment
from tests.store.stores import killed, with_golden


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

    def test_op_owed_at_a_kill(self) -> None:
        """A commit whose op message the store refused, and then took others, is not made again after a kill."""
        sent = [self.half(b"one"), self.half(b"two"), self.half(b"three")]
        self.refuse(OP_HALF_TOPIC)
        for one in sent[:2]:
            self.assertEqual(self.end(one, COMMIT).code, 0)
        self.cluster.send("T", b"later", queue_id=2)
        self.restart_killed()
        self.assertEqual(len(self.transactions.pending), 3)
        self.assertEqual(self.end(sent[0], COMMIT).code, 0)  # by a verdict
        self.cluster.pump(10.5)  # by the round of check-backs
        self.assertEqual([one.msg_id for one in self.checks()], ["U3"])
        self.assertEqual(sorted(self.seen()), [b"later", b"one", b"two"])
        self.assertEqual(sorted(bytes(one.body) for one in self.stored(OP_HALF_TOPIC)), [b"0", b"1"])
        self.assertEqual(self.end(sent[2], COMMIT).code, 0)
        self.assertEqual(sorted(self.seen()), [b"later", b"one", b"three", b"two"])

    def test_sent_again(self) -> None:
        """A message that is sent again with its UNIQ_KEY after a restart is committed as well, also after another."""
        for body, checks in ((b"first", []), (b"second", []), (b"third", ["U"])):
            sent = self.half(body, UNIQ_KEY="U")
            self.restart()
            self.cluster.pump(10.5 if checks else 0)
            self.assertEqual([one.msg_id for one in self.checks()], checks)
            self.assertEqual(self.end(sent, COMMIT).code, 0)
            self.cluster.pump(20.5)  # how far both queues are done with is saved
            self.restart()
        self.assertEqual(self.seen(), [b"first", b"second", b"third"])

    def test_op_owed_without_index(self) -> None:
        """Without an index such a commit is found if it is the last record of the log, and made again if not."""
        self.cluster.stop()
        self.cluster = Cluster(None, **self.settings, messageIndexEnable="false")
        self.connect()
        sent = self.half()
        self.refuse(OP_HALF_TOPIC)
        self.assertEqual(self.end(sent, COMMIT).code, 0)
        self.restart_killed()
        self.assertEqual((len(self.transactions.pending), self.seen()), (0, [b"half"]))

    def restart_killed(self) -> None:
        """Start the broker on the machine as a kill would leave it now."""
        machine = killed(self.cluster.env)
        self.cluster.stop()
        self.cluster = Cluster(machine, **self.settings)
        self.successResultOf(self.cluster.service.ready)
        self.connect()

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
