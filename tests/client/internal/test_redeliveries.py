"""What became of refused messages, by their records."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.internal.records import FoundMessage
from smartgo.client.internal.redeliveries import CONSUMED, FAILED, WAITING, Attempts, Fate, age, fate_of, fate_text
from smartgo.client.internal.search import UNIQUE_LIMIT
from smartgo.schema.message import StoredMessage


def record(at_ms: int, times: int, broker: str = "a") -> FoundMessage:
    """Return a record that was stored at a time, of a message that was refused so often before."""
    host = b"\x7f\0\0\1\0\0\x2a\x9f"
    stored = StoredMessage(0, 0, 0, 0, 0, at_ms, at_ms, 0, 0, host, at_ms, host, times, 0, b"", "T", b"")
    return FoundMessage(broker, b"", stored)


class FateTests(SynchronousTestCase):
    """The newest of a message's records decides, and the group's offset where that is in the retry topic."""

    def fate(self, attempts: Attempts, *acknowledged: FoundMessage) -> Fate | None:
        """Return what became of a message whose retries were acknowledged, or not."""

        async def is_past(one: FoundMessage) -> bool:
            return one in acknowledged

        coroutine = fate_of(attempts, is_past)
        try:
            coroutine.send(None)
        except StopIteration as end:
            found: Fate | None = end.value
            return found
        raise AssertionError("it waits for something")

    def test_never(self) -> None:
        """Without records the group never refused it."""
        self.assertIsNone(self.fate(Attempts([], [], [])))

    def test_resent(self) -> None:
        """The copy of a dead letter waits until it is acknowledged."""
        copy = record(10, 0)
        self.assertEqual(self.fate(Attempts([], [copy], [record(1, 16)])), WAITING)
        self.assertEqual(self.fate(Attempts([], [copy], [record(1, 16)]), copy), CONSUMED)

    def test_chain(self) -> None:
        """It is refused from the give-back to the acknowledgement of the retry, whatever was acknowledged before."""
        copy, first, retry = record(10, 0), record(20, 1), record(30, 1)
        self.assertEqual(self.fate(Attempts([first], [copy], []), copy), Fate("refused", 1))
        self.assertEqual(self.fate(Attempts([first], [copy, retry], []), copy), Fate("refused", 1))
        self.assertEqual(self.fate(Attempts([first], [copy, retry], []), copy, retry), CONSUMED)
        second = record(40, 2)
        self.assertEqual(self.fate(Attempts([first, second], [copy, retry], []), copy, retry), Fate("refused", 2))
        self.assertEqual(self.fate(Attempts([first, second], [copy, retry], [record(50, 3)]), copy, retry), FAILED)

    def test_another_broker(self) -> None:
        """A give-back that another broker took is not the one that this broker has delivered."""
        elsewhere, here = record(20, 1, "b"), record(21, 1)
        attempts = Attempts([elsewhere, here], [record(30, 1)], [])
        self.assertEqual(attempts.to_come, [elsewhere])
        self.assertEqual(self.fate(attempts, *attempts.retries), Fate("refused", 1))

    def test_many(self) -> None:
        """Records that a broker no longer brings, as it has too many of the message, are not missed."""
        copies = [record(1000 * cycle, 0) for cycle in range(3)]  # of a dead letter that was sent again twice
        delayed = [record(1000 * cycle + 10 * times, times) for cycle in range(2) for times in range(1, 17)]
        moved = [record(one.stored.stored_ms + 5, one.stored.reconsume_times) for one in delayed]
        retries = sorted([*copies, *moved], key=age)[-UNIQUE_LIMIT:]
        letters = [record(1000 * cycle + 500, 17) for cycle in range(2)]
        attempts = Attempts(delayed[-UNIQUE_LIMIT:], retries, letters)
        self.assertEqual(self.fate(attempts, *retries), CONSUMED)
        waits = record(2100, 1)
        attempts = Attempts([*delayed, waits][-UNIQUE_LIMIT:], retries, letters)
        self.assertEqual(self.fate(attempts, *retries), Fate("refused", 1))

    def test_words(self) -> None:
        """The most retries are named where they are known, and can be."""
        self.assertEqual(fate_text(Fate("refused", 2), 16), "refused, tried again (waits for retry 2 of 16)")
        self.assertEqual(fate_text(Fate("refused", 2)), "refused, tried again (waits for retry 2)")
        self.assertEqual(fate_text(Fate("refused", 2), 1), "refused, tried again (waits for retry 2)")
        self.assertEqual(fate_text(FAILED), "failed again")
