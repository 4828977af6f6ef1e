"""The shape of a loss, from histories made by hand."""

from __future__ import annotations

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from tests.chaos.checker import Kind, Verdict, check
from tests.chaos.history import Bounds, Event, Fault, Final, Invoke, Ok, Plan, Read
from tests.chaos.losses import Loss, forgiven, power_loss

QUEUE = "T@b:0"


def history(there: str, acked: str = "abcd") -> list[Event]:
    """
    Return a run: a message for each letter, acknowledged at 1, 2, 3 ... seconds, a cut at 4.5, and a final read.

    @param there: the letters that are read at last, at offsets 0, 1, 2 ...
    """
    events: list[Event] = [Fault(t=4.5, name="power cut", target="m", on=True)]
    events += [Fault(t=4.8, name="power cut", target="m", on=False, count=1)]
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
        """What is acknowledged after the cut is no part of the loss, there or not."""
        self.assertEqual(power_loss(history("abe", "abcdefg"), "power cut"), Loss(("c", "d"), 1.5, 0))

    def test_no_fault(self) -> None:
        """Without such a fault there is no such loss."""
        self.assertRaises(ValueError, power_loss, history("ab"), "kill")

    def test_not_read(self) -> None:
        """A queue that was not read to its end shows no loss; the checker gives no verdict on it."""
        events = [event for event in history("ab") if not isinstance(event, Bounds)]
        self.assertEqual(power_loss(events, "power cut"), Loss())


class ForgivenTests(SynchronousTestCase):
    """A history without what the power took."""

    def test_suffix(self) -> None:
        """A forgiven loss leaves nothing for the checker to find, even where its places hold later messages."""
        events = history("abe")
        events += [Invoke(t=6, who="p", value="e"), Ok(t=7, who="p", value="e", queue=QUEUE, offset=2)]
        found = check(events)
        self.assertEqual(found.kinds[Kind.LOST], 2)
        self.assertEqual(found.kinds[Kind.INCONSISTENT_OFFSET], 1)
        self.assertEqual(check(forgiven(events, "power cut")).verdict, Verdict.VALID)

    def test_weak(self) -> None:
        """So does one of a message that was answered with a weaker code."""
        events = [
            msgspec.structs.replace(event, code=10) if isinstance(event, Ok) and event.value == "d" else event
            for event in history("abce")
        ]
        events += [Invoke(t=6, who="p", value="e"), Ok(t=7, who="p", value="e", queue=QUEUE, offset=3)]
        self.assertEqual(check(events).kinds[Kind.INCONSISTENT_OFFSET], 1)
        self.assertEqual(check(forgiven(events, "power cut")).verdict, Verdict.VALID)

    def test_shown(self) -> None:
        """What consumers were shown before the cut may be gone, unless a flush is waited for before."""
        events = history("abce")
        events += [Invoke(t=6, who="p", value="e"), Ok(t=7, who="p", value="e", queue=QUEUE, offset=3)]
        events.append(Read(t=4.2, who="c", queue=QUEUE, offset=3, value="d"))
        self.assertEqual(check(forgiven(events, "power cut")).verdict, Verdict.VALID)
        found = check(forgiven(events, "power cut", seen=False))
        self.assertEqual(found.kinds, {Kind.INCONSISTENT_OFFSET: 1})

    def test_lost_later(self) -> None:
        """What was acknowledged after the cut and is not there stays lost."""
        found = check(forgiven(history("ab", "abcdefg"), "power cut"))
        self.assertEqual(found.kinds[Kind.LOST], 3)
