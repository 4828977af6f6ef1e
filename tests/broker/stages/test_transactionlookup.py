"""What became of transactions before a restart, through a whole broker in memory."""

from __future__ import annotations

from typing import Any, ClassVar

from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import ResumeCheckRequest
from smartgo.schema.headers.send import SendResponse
from smartgo.schema.message import COMMIT, ROLLBACK, StoredMessage
from smartgo.schema.topics import CHECK_MAX_TIME_TOPIC
from tests.broker.transactioncase import TransactionCase


class GivenUpCase(TransactionCase):
    """A broker that gives up after one check-back."""

    settings: ClassVar[dict[str, str]] = {"transactionCheckInterval": "10000", "transactionCheckMax": "1"}

    def given_up(self, **properties: Any) -> tuple[SendResponse, StoredMessage]:
        """Let a message be given up; return the answer to its send, and what is stored of it now."""
        sent = self.half(**properties)
        self.cluster.pump(30.5)
        self.checks()
        self.assertEqual(len(self.transactions.pending), 0)
        return sent, self.stored(CHECK_MAX_TIME_TOPIC)[-1]

    def resume(self, stored: StoredMessage) -> Command:
        """Ask for a resumed check."""
        header = ResumeCheckRequest(msg_id=stored.message_id)
        return self.cluster.ask(Command.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, header))


class VerdictTests(GivenUpCase):
    """Verdicts on what was decided, or given up, before a restart."""

    def test_committed(self) -> None:
        """A message that was given up before a restart can be committed after it, and is seen once."""
        sent, _ = self.given_up()
        self.restart()
        for _ in range(2):
            answer = self.end(sent, COMMIT)
            self.assertEqual((answer.code, answer.remark), (0, None))
            self.restart()
        self.assertEqual(self.end(sent, ROLLBACK).code, 1)
        self.assertEqual(self.seen(), [b"half"])

    def test_rolled_back(self) -> None:
        """One that is rolled back after a restart is never seen, also not if it is committed after another one."""
        sent, _ = self.given_up()
        self.half(b"other", UNIQ_KEY="other")
        self.restart()
        self.assertEqual(self.end(sent, ROLLBACK).code, 0)
        self.restart()
        answer = self.end(sent, COMMIT)
        self.assertEqual(answer.code, 1)
        self.assertIn("it was rolled back", answer.remark or "")
        self.assertEqual(self.seen(), [])

    def test_others(self) -> None:
        """A commit after a restart of what was committed is confirmed, and of what was rolled back is refused."""
        first, second = self.half(), self.half()
        self.end(first, COMMIT)
        self.end(second, ROLLBACK)
        self.restart()
        self.assertEqual((self.end(first, COMMIT).code, self.end(second, COMMIT).code), (0, 1))
        self.assertEqual(self.end(first, ROLLBACK).code, 1)
        self.assertEqual(self.seen(), [b"half"])

    def test_same_key_of_another_group(self) -> None:
        """A message of another producer group with the same UNIQ_KEY is another transaction."""
        sent, _ = self.given_up(UNIQ_KEY="same", PGROUP="PG2")
        self.end(self.half(b"mine", UNIQ_KEY="same"), COMMIT)
        self.restart()
        self.assertEqual(self.end(sent, COMMIT, group="PG2").code, 0)
        self.assertEqual(sorted(self.seen()), [b"half", b"mine"])

    def test_without_key(self) -> None:
        """Without a UNIQ_KEY there is nothing to be looked up by: the verdict is refused."""
        sent = self.half(UNIQ_KEY="")
        self.end(sent, COMMIT)
        self.restart()
        self.assertEqual(self.end(sent, COMMIT).code, 1)
        self.assertEqual(self.seen(), [b"half"])


class ResumedTests(GivenUpCase):
    """Resumed checks after a restart."""

    def test_twice(self) -> None:
        """A check is resumed once, also if a restart lies between the two requests."""
        _, stored = self.given_up()
        self.restart()
        self.assertEqual(self.resume(stored).code, 0)
        self.assertEqual(len(self.transactions.pending), 1)
        for _ in range(2):
            answer = self.resume(stored)
            self.assertEqual(answer.code, 1)
            self.assertIn("is checked again already", answer.remark or "")
            self.restart()
        self.cluster.pump(10.5)
        (check,) = self.checks()
        self.assertEqual(self.end(check, COMMIT).code, 0)
        self.restart()
        answer = self.resume(stored)
        self.assertEqual(answer.code, 1)
        self.assertIn("was committed meanwhile", answer.remark or "")
        self.assertEqual(self.seen(), [b"half"])

    def test_given_up_again(self) -> None:
        """One that is given up again can be resumed again."""
        _, stored = self.given_up()
        self.assertEqual(self.resume(stored).code, 0)
        self.cluster.pump(30.5)
        self.restart()
        self.assertEqual(len(self.transactions.pending), 0)
        self.assertEqual(self.resume(self.stored(CHECK_MAX_TIME_TOPIC)[-1]).code, 0)
        self.assertEqual(len(self.transactions.pending), 1)

    def test_rolled_back(self) -> None:
        """What was given up, and rolled back then, is not checked again after a restart."""
        sent, stored = self.given_up()
        self.end(sent, ROLLBACK)
        self.restart()
        answer = self.resume(stored)
        self.assertEqual(answer.code, 1)
        self.assertIn("was rolled back meanwhile", answer.remark or "")
