"""Verdicts of producers, and resumed checks, as requests to a broker in memory."""

from __future__ import annotations

from typing import ClassVar

from smartgo.schema import properties as names
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import ResumeCheckRequest
from smartgo.schema.headers.send import SendResponse
from smartgo.schema.message import COMMIT, ROLLBACK, StoredMessage, parse_message_id
from smartgo.schema.properties import decode
from smartgo.schema.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, OP_HALF_TOPIC
from tests.broker.transactioncase import TransactionCase


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
