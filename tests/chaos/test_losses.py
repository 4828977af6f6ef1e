"""The shape of a loss, from histories made by hand."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from tests.chaos.history import Bounds, Crash, Event, Fault, Final, Invoke, Ok, Plan
from tests.chaos.losses import Loss, power_loss

QUEUE = "T@b:0"


def history(there: str, acked: str = "abcd") -> list[Event]:
    """
    Return a run: a message for each letter, acknowledged at 1, 2, 3 ... seconds, a cut at 4.5, and a final read.

    @param there: the letters that are read at last, at offsets 0, 1, 2 ...
    """
    events: list[Event] = [Fault(t=4.5, name="power cut", target="m", on=True)]
    events += [Fault(t=4.8, name="power cut", target="m", on=False, count=1)]
    events += [Crash(t=4.6, broker="b", window=10)]
    events += [Plan(t=20, replica="m", queues=[QUEUE])]
    for number, value in enumerate(acked):
        events.append(Invoke(t=number + 0.5, who="p", value=value))
        events.append(Ok(t=number + 1.0, who="p", value=value, queue=QUEUE, offset=number))
    for turn in (1, 2):
        for offset, value in enumerate(there):
            events.append(Final(t=21, replica="m", turn=turn, queue=QUEUE, offset=offset, value=value))
        events.append(Bounds(t=22, replica="m", turn=turn, queue=QUEUE, begin=0, end=len(there)))
    return events


class PowerLossTests(SynchronousTestCase):
    """What a power cut took."""

    def test_nothing(self) -> None:
        """Where all is there, nothing was lost."""
        self.assertEqual(power_loss(history("abcd"), "power cut"), Loss())

    def test_suffix(self) -> None:
        """A suffix has no survivors; its window goes from its first acknowledgement to the cut."""
        self.assertEqual(power_loss(history("ab"), "power cut"), Loss(("c", "d"), 1.5, 0))

    def test_survivor(self) -> None:
        """What was acknowledged after the first message lost, and is there, is counted."""
        self.assertEqual(power_loss(history("abd"), "power cut"), Loss(("c",), 1.5, 1))

    def test_later_sends(self) -> None:
        """What is acknowledged after the crash, even before the fault's end, is no part of the loss, there or not."""
        late: list[Event] = [Invoke(t=4.65, value="e"), Ok(t=4.7, value="e", queue=QUEUE, offset=2)]
        self.assertEqual(power_loss([*history("abe", "abcdfg"), *late], "power cut"), Loss(("c", "d"), 1.5, 0))

    def test_no_fault(self) -> None:
        """Without such a fault there is no such loss."""
        self.assertRaises(ValueError, power_loss, history("ab"), "kill")

    def test_not_read(self) -> None:
        """A queue that was not read to its end shows no loss; the checker gives no verdict on it."""
        events = [event for event in history("ab") if not isinstance(event, Bounds)]
        self.assertEqual(power_loss(events, "power cut"), Loss())
