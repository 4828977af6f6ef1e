"""The life of a message, from records of traces in any order."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.internal.tracetimeline import MessageTrace, TraceEvent, TraceMessage, timeline
from smartgo.schema.messagetrace import (
    ConsumeBegun,
    ConsumeCode,
    ConsumeEnded,
    MessageKind,
    Published,
    Recalled,
    TraceRecord,
    TransactionEnded,
    encode,
)

SENT = Published(
    time_ms=1000, region="R", group="pg", topic="T", message_ids=("A", "ID", "B"), tags="", keys="", store_host="h:1",
    body_length=4, cost_ms=3, kind=MessageKind.NORMAL, offset_id="O", success=True,
)  # fmt: skip


def begun(request: str, at_ms: int, retries: int = 0, message: str = "ID") -> ConsumeBegun:
    """A call that began."""
    return ConsumeBegun(
        time_ms=at_ms, region="R", group="cg", request_id=request, message_id=message, retries=retries, keys=""
    )


def ended(request: str, code: ConsumeCode = ConsumeCode.SUCCESS, at_ms: int | None = 2100) -> ConsumeEnded:
    """A call that ended."""
    well = code in (ConsumeCode.SUCCESS, ConsumeCode.TIME_OUT)
    return ConsumeEnded(
        request_id=request, message_id="ID", cost_ms=7, success=well, keys="", code=code, time_ms=at_ms, group="cg"
    )


def trace(*records: TraceRecord, more: str = "") -> MessageTrace:
    """The trace from one message with these records, each also alone in another."""
    text = "".join(encode(one) for one in records)
    return timeline("ID", [TraceMessage((text + more).encode(), "10.0.0.1", 5000)])


class TimelineTests(SynchronousTestCase):
    """Timelines."""

    def test_life(self) -> None:
        """Sends and listener calls come in the order of time, a call's end with its begin, each with its retries."""
        found = trace(
            ended("r2"),
            ended("r1", ConsumeCode.FAILED),
            begun("r2", 3000, retries=1),
            begun("r1", 2000),
            begun("other", 2500, message="A"),
            SENT,
        )
        self.assertEqual(
            found.events,
            [
                TraceEvent(
                    kind="produced", at_ms=1000, took_ms=3, group="pg", client="10.0.0.1", result="stored", broker="h:1"
                ),
                TraceEvent(
                    kind="consumed", at_ms=2000, took_ms=7, group="cg", client="10.0.0.1", result="failed", retries=0
                ),
                TraceEvent(
                    kind="consumed", at_ms=3000, took_ms=7, group="cg", client="10.0.0.1", result="success", retries=1
                ),
            ],
        )

    def test_halves(self) -> None:
        """A call without a known end is open; an end without a begin counts back from its time."""
        (event,) = trace(begun("r1", 2000)).events
        self.assertEqual((event.result, event.took_ms, event.retries), ("open", None, 0))
        (event,) = trace(ended("r1")).events
        self.assertEqual((event.result, event.at_ms, event.group, event.retries), ("success", 2093, "cg", None))
        (event,) = trace(ended("r1", at_ms=None)).events
        self.assertEqual((event.at_ms, event.group), (5000, ""))

    def test_twice(self) -> None:
        """Trace messages that were sent twice count once."""
        records: list[TraceRecord] = [SENT, begun("r1", 2000), ended("r1")]
        self.assertEqual(trace(*records, *records), trace(*records))

    def test_outcomes(self) -> None:
        """Each outcome of a listener call has its word."""
        words = {
            ConsumeCode.SUCCESS: "success",
            ConsumeCode.TIME_OUT: "timeout",
            ConsumeCode.EXCEPTION: "exception",
            ConsumeCode.RETURN_NULL: "null",
            ConsumeCode.FAILED: "failed",
        }
        for code, word in words.items():
            self.assertEqual(trace(begun("r", 1), ended("r", code)).events[0].result, word)

    def test_transaction(self) -> None:
        """The ends of a transaction and a recall are events, too."""
        end = TransactionEnded(
            time_ms=9, region="", group="pg", topic="T", message_id="ID", tags="", keys="", store_host="h:1",
            kind=MessageKind.COMMIT, transaction_id="X", state="UNKNOW", from_check=False,
        )  # fmt: skip
        recall = Recalled(time_ms=10, region="", group="pg", topic="T", message_id="ID", success=True)
        first, second = trace(end, recall).events
        self.assertEqual(
            (first.kind, first.result, first.checked, first.broker), ("transaction", "unknown", False, "h:1")
        )
        self.assertEqual((second.kind, second.result), ("recalled", "success"))

    def test_unreadable(self) -> None:
        """Records that cannot be read are counted, and the others shown; bytes that are no text do no harm."""
        found = trace(SENT, more="Pub\x01soon\x02")
        self.assertEqual((len(found.events), found.unreadable), (1, 1))
        self.assertEqual(timeline("ID", [TraceMessage(b"\xff\x02\xfe", "h", 1)]).events, [])
