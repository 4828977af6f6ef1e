"""Tests of L{smartgo.broker.spans.tracedmessages}."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.spans.tracedmessages import traced_messages
from smartgo.schema import properties
from smartgo.schema.indexkeys import record_starts
from smartgo.schema.message import NewMessage
from smartgo.schema.record import encode

HOST = b"\x7f\0\0\1\0\0\x2a\x9f"
TRACE = "0af7651916cd43dd8448eb211c80319c"
SAMPLED = f"00-{TRACE}-b7ad6b7169203331-01"
UNSAMPLED = f"00-{TRACE}-b7ad6b7169203331-00"


def record(number: int = 0, body: bytes = b"body", base: int = 0, **found: str) -> bytes:
    """A record of queue 3 of T, with these properties."""
    message = NewMessage(
        "T",
        3,
        body,
        properties.encode(found),
        born_ms=1,
        born_host=HOST,
        store_host=HOST,
        reconsume_times=number % 2,
    )
    return encode(message, number, base, 1_700_000_000_000 + number)


class TracedMessagesTests(SynchronousTestCase):
    def found(self, data: bytes) -> list[int]:
        """The queue offsets of the messages that are found."""
        starts, end = record_starts(data, 0, 1000)
        self.assertEqual(end, len(data))
        views = traced_messages(memoryview(data), starts, end)
        self.assertEqual(traced_messages(data, starts, end), views)
        return [one.queue_offset for one in views]

    def test_fields(self) -> None:
        """A message with a sampled context is found with what is known of it."""
        data = record(5, b"7 apples", traceparent=SAMPLED, KEYS="k")
        (found,) = traced_messages(data, [0], len(data))
        self.assertEqual(found, ("T", 3, 5, 1_700_000_000_005, 8, 1, {"traceparent": SAMPLED, "KEYS": "k"}))

    def test_sampled_alone(self) -> None:
        """Of many records those with the sampled flag are found, whatever its other bits and the version are."""
        flags = ["01", "00", "03", "fe", "ff", "02"]
        data = b"".join(record(at, traceparent=SAMPLED[:-2] + one) for at, one in enumerate(flags))
        data += record(6) + record(7, traceparent=f"cc{SAMPLED[2:]}-more") + record(8, KEYS="k")
        self.assertEqual(self.found(data), [0, 2, 4, 7])

    def test_elsewhere(self) -> None:
        """The text of a context in a body, in another property or in one that is no context is none."""
        text = f"traceparent\x01{SAMPLED}"
        data = b"".join(
            (
                record(0, text.encode() * 3),
                record(1, text.encode(), traceparent=UNSAMPLED),
                record(2, xtraceparent=SAMPLED),
                record(3, traceparent=SAMPLED + "7"),
                record(4, traceparent=SAMPLED[:-3]),
                record(5, text.encode(), traceparent=SAMPLED),
            )
        )
        self.assertEqual(self.found(data), [5])

    def test_range(self) -> None:
        """Nothing behind the end of the records is looked at, and nothing is found where there are none."""
        data = record(0) + record(1, traceparent=SAMPLED)
        starts, end = record_starts(data, 0, 1)
        self.assertEqual(traced_messages(data, starts, end), [])
        self.assertEqual(traced_messages(data, [], 0), [])
