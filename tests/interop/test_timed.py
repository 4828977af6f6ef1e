"""Messages of any delivery time, and their recall, by the client of RocketMQ 5 (docs/spec/broker#timer)."""

from __future__ import annotations

import time

from tests.interop.case import TIMED, InteropCase, driver
from tests.interop.driver import CommandFailed, Event
from tests.interop.peers import SMARTGO

_WAYS = ("setDelayTimeSec", "setDelayTimeMs", "setDeliverTimeMs")
_SECONDS = 3
_PATIENCE = 60_000  # ms; how late anything may be on a machine that has other things to do


class TimedTests(InteropCase):
    """One queue of the shared cluster; the real broker of 4.9 does not know timed messages."""

    def setUp(self) -> None:
        """Create a topic."""
        super().setUp()
        if self.shared().peer is not SMARTGO:
            self.skipTest("RocketMQ 4.9 delivers them at once")
        self.client = driver("5.3")
        self.topic = self.name("timed")
        self.where = {"namesrv": self.shared().namesrv}
        self.client.ask("topic", topic=self.topic, queues=1, address=self.shared().broker.address, **self.where)

    def send(self, way: str, first: int, seconds: float) -> tuple[Event, float]:
        """Send a message by one of the client's calls; return its event, and when it is due at the earliest, in ms."""
        begun = time.time() * 1000
        delay = {"setDelayTimeSec": seconds, "setDelayTimeMs": seconds * 1000}
        moment = delay.get(way, begun + seconds * 1000)
        call = self.client.start(
            "send", topic=self.topic, first=first, timed=way, time=round(moment), retries=0, **self.where
        )
        (event,) = call.all_of("sent")
        return event, begun + seconds * 1000

    def delivered(self, count: int) -> dict[int, Event]:
        """Hold pulls open until as many messages are delivered; by the number in their bodies."""
        found: list[Event] = []
        while len(found) < count:
            call = self.client.start("await", topic=self.topic, offset=len(found), waitMs=60_000, **self.where)
            found += call.result(90)["messages"]
        self.assertEqual(len(found), count)
        return {int(event["text"].rpartition("-")[2]): event for event in found}

    def test_on_time(self) -> None:
        """Each of the client's three calls: whole, never early, and soon after its time."""
        sent = {number: self.send(way, number, _SECONDS) for number, way in enumerate(_WAYS)}
        delivered = self.delivered(len(sent))
        late = [delivered[number]["storedMs"] - due for number, (_, due) in sent.items()]
        self.assertGreaterEqual(min(late), -1, "early")
        # a delay begins when the broker has the message, which a cold JVM may send late
        self.assertLessEqual((max if TIMED else min)(late), 1100, f"late {late}")
        self.assertLessEqual(max(late), _PATIENCE)
        for number, (event, _) in sent.items():
            self.assertEqual((event["status"], bool(event["recallHandle"])), ("SEND_OK", True))
            self.assertEqual(delivered[number]["sha256"], event["sha256"])

    def test_recalled(self) -> None:
        """A recalled message is not delivered, the one behind it is; a handle that is none is refused."""
        recalled, _ = self.send("setDelayTimeMs", 0, _SECONDS)
        self.send("setDelayTimeMs", 1, _SECONDS)
        answer = self.client.ask("recall", topic=self.topic, handle=recalled["recallHandle"], **self.where)
        self.assertEqual(answer["msgId"], recalled["msgId"])
        self.assertEqual(list(self.delivered(1)), [1])
        for handle in ("nonsense", recalled["recallHandle"][:-4]):
            error = self.assertRaises(
                CommandFailed, self.client.ask, "recall", topic=self.topic, handle=handle, **self.where
            )
            self.assertIn("recall", str(error))
