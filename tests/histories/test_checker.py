"""The judges of histories see every kind of fault, and nothing where there is none."""

from __future__ import annotations

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from tests.histories.brokermodel import BrokerModel, Seen, Sent, State
from tests.histories.history import Violation
from tests.histories.storemodel import Found, Key, StoreModel

KEY: Key = ("T", 0)


class JudgeCase(SynchronousTestCase):
    """With a way to say which fault is seen."""

    def sees(self, kind: str, judge: Callable[..., object], *args: object) -> None:
        """The judge finds this fault."""
        violation = self.assertRaises(Violation, judge, *args)
        self.assertEqual(violation.kind, kind, str(violation))


class StoreModelTests(JudgeCase):
    """Messages 1 to 4 in one queue, the last two as a batch, 100 bytes each."""

    def setUp(self) -> None:
        """Append them."""
        self.model = StoreModel()
        self.model.append(KEY, [(1, b"1:a")], 0, [0], 100)
        self.model.append(KEY, [(2, b"2:b")], 1, [100], 200)
        self.model.append(KEY, [(3, b"3:c"), (4, b"4:d")], 2, [200, 300], 400)
        self.found = [Found(place, place * 100, body) for place, body in enumerate((b"1:a", b"2:b", b"3:c", b"4:d"))]

    def test_right(self) -> None:
        """What was appended is what is right, whole or in part."""
        self.model.check(KEY, 0, 4, self.found)
        self.model.check(KEY, 0, 3, self.found[1:2], False)
        self.model.cut(400, 400)
        self.model.settle(KEY, 0, [0, 100, 200, 300])
        self.model.check(KEY, 0, 4, self.found)

    def test_offsets(self) -> None:
        """An offset that is given twice, or left out, and a record that lies before the log's end are seen."""
        for offset in (3, 5):
            self.sees("offset", self.model.append, KEY, [(5, b"5:")], offset, [400], 500)
        self.sees("offset", self.model.append, KEY, [(5, b"5:")], 4, [390], 500)

    def test_reads(self) -> None:
        """Messages that are missing, too many, others or elsewhere are seen."""
        self.sees("lost", self.model.check, KEY, 0, 3, self.found[:3])
        self.sees("hidden", self.model.check, KEY, 1, 4, self.found[1:])
        self.sees("phantom", self.model.check, KEY, 0, 5, self.found)
        self.sees("phantom", self.model.check, KEY, 0, 4, [Found(4, 400, b"5:")])
        self.sees("hole", self.model.check, KEY, 0, 4, self.found[:2] + self.found[3:])
        self.sees("wrong body", self.model.check, KEY, 0, 4, [self.found[0]._replace(body=b"1:x")])
        self.sees("moved", self.model.check, KEY, 0, 4, [self.found[0]._replace(physical=8)])

    def test_cut(self) -> None:
        """A log that lost what was promised is seen, and half a batch."""
        self.sees("lost", self.model.cut, 200, 300)
        self.sees("half a batch", self.model.cut, 300, 0)

    def test_lost_suffix(self) -> None:
        """A suffix that was not promised may go; the queue has the rest."""
        self.model.cut(200, 200)
        self.sees("lost", self.model.settle, KEY, 0, [0])
        self.model.settle(KEY, 0, [0, 100])
        self.model.check(KEY, 0, 2, self.found[:2])
        self.sees("phantom", self.model.check, KEY, 0, 4, self.found)

    def test_begins_late(self) -> None:
        """A queue that does not begin at 0 after a restart is seen."""
        self.model.cut(400, 400)
        self.sees("hole", self.model.settle, KEY, 4, [])

    def test_deletion_confirmed(self) -> None:
        """Messages of a topic whose deletion was confirmed must not be seen again."""
        self.model.delete("T").confirmed = True
        self.sees("phantom", self.model.check, KEY, 0, 4, self.found)
        self.model.cut(400, 400)
        self.sees("deleted message", self.model.settle, KEY, 0, [0, 100, 200, 300])
        self.model.settle(KEY, 0, [])

    def test_deletion_not_confirmed(self) -> None:
        """Before a deletion is confirmed a crash leaves all messages or none, and that remains so."""
        for places in ([], [0, 100, 200, 300]):
            self.setUp()
            self.model.delete("T")
            self.model.cut(400, 400)
            self.sees("deleted message", self.model.settle, KEY, 0, [0])
            self.model.settle(KEY, 0, places)
            self.model.cut(400, 400)
            self.sees("lost" if places else "deleted message", self.model.settle, KEY, 0, [] if places else [0])

    def test_made_anew(self) -> None:
        """A message of the topic that was made anew must stay, and the old ones must not come instead."""
        self.model.delete("T")
        self.model.append(KEY, [(5, b"5:e")], 0, [400], 500)
        self.model.cut(500, 500)
        self.sees("deleted message", self.model.settle, KEY, 0, [0, 100, 200, 300])
        self.sees("lost", self.model.settle, KEY, 0, [])
        self.model.settle(KEY, 0, [400])
        self.model.check(KEY, 0, 1, [Found(0, 400, b"5:e")])

    def test_made_anew_by_chance(self) -> None:
        """One that nobody was promised may be there by chance, without the deletion: the old ones may come instead."""
        for confirmed in (False, True):
            self.setUp()
            self.model.delete("T").confirmed = confirmed
            self.model.append(KEY, [(5, b"5:e")], 0, [400], 500)
            self.model.cut(500, 400)
            if confirmed:
                self.sees("deleted message", self.model.settle, KEY, 0, [0, 100, 200, 300])
            else:
                self.model.settle(KEY, 0, [0, 100, 200, 300])
                self.model.check(KEY, 0, 4, self.found)


class BrokerModelTests(JudgeCase):
    """Message 1 is answered, message 2 is delayed by 5 s, 3 and 4 are a batch; all sent at 10 s."""

    def setUp(self) -> None:
        """Send them."""
        self.model = BrokerModel()
        for number in range(1, 5):
            sent = Sent(number, KEY, b"%d:x" % number, 10.0, 10_000, max(3, number) if number > 2 else number, 0)
            sent.batch = 3 if number > 2 else number
            self.model.sent[number] = sent
        self.model.sent[2].delay = 5.0
        for number, physical, offset in ((1, 0, 0), (2, 100, 0), (3, 200, 1), (4, 300, 2)):
            self.model.answered(self.model.sent[number], 0, physical, offset, physical + 1)
        self.found = [self.seen(0, 0, 1), self.seen(1, 200, 3), self.seen(2, 300, 4), self.seen(3, 400, 2, 15.0)]

    def seen(self, offset: int, physical: int, number: int, at: float = 10.0) -> Seen:
        """One message as a consumer gets it."""
        return Seen(offset, physical, b"%d:x" % number, round(at * 1000), at)

    def check(self, found: list[Seen], quiet: bool = True, readable: bool = True) -> None:
        """Judge."""
        self.model.check({KEY: found}, lambda key: readable, quiet, 40.0)

    def test_right(self) -> None:
        """What was sent is what is right; what is not due yet may be missing until all is quiet."""
        self.check(self.found)
        self.check(self.found[:3], False)

    def test_lost(self) -> None:
        """A message that was answered with code 0 is missed; one that nobody was told of is not."""
        self.sees("lost", self.check, [])
        self.model.sent[1].state = State.UNKNOWN
        one = Sent(5, KEY, b"5:x", 10.0, 10_000, 5, 0)
        self.model.sent[5] = one
        self.check(self.found)
        self.assertIs(one.state, State.GONE)

    def test_late(self) -> None:
        """A delayed message that is due is missed when all is quiet; when it was seen once, always."""
        self.sees("late", self.check, self.found[:3])
        self.model.saved()
        self.check(self.found)
        self.sees("lost", self.check, self.found[:3], False)

    def test_early(self) -> None:
        """A delayed message may come a tick before its time by the clock that is never set, or by the wall clock."""
        for at in (14.0, 14.85):
            self.sees("early", self.check, [*self.found[:3], self.seen(3, 400, 2, at)])
        self.check([*self.found[:3], self.seen(3, 400, 2, 14.95)])
        self.check([*self.found[:3], self.seen(3, 400, 2, 12.0)._replace(stored_ms=15_000)])

    def test_twice(self) -> None:
        """No message is there twice, but a delayed one after a crash, and then no more once positions are saved."""
        again = self.seen(4, 500, 2, 16.0)
        self.sees("twice", self.check, [*self.found, again])
        self.model.cut(600, power=False)
        self.check([*self.found, again])
        self.model.saved()
        self.check([*self.found, again])
        self.model.cut(600, power=False)
        self.sees("twice", self.check, [*self.found, again, self.seen(5, 600, 2, 17.0)])
        self.model.sent[1].offset = -1
        self.sees("twice", self.check, [self.found[0], *self.found[1:], self.seen(4, 500, 1)])

    def test_places(self) -> None:
        """A hole, an order that is not the log's, another place, body or queue are seen."""
        self.sees("hole", self.check, [self.found[0], *self.found[2:]])
        self.sees("hole", self.check, [one._replace(offset=one.offset + 1) for one in self.found])
        self.sees("order", self.check, [*self.found[:3], self.found[3]._replace(physical=250)])
        self.sees("moved", self.check, [self.found[0]._replace(physical=50), *self.found[1:]])
        self.sees("wrong body", self.check, [self.found[0]._replace(body=b"1:y"), *self.found[1:]])
        self.sees("wrong body", self.check, [self.found[0]._replace(body=b"what")])
        self.sees("wrong queue", self.model.check, {("T", 1): self.found[:1]}, lambda key: True, True, 40.0)
        self.sees("phantom", self.check, [*self.found, self.seen(4, 500, 9)])

    def test_half_a_batch(self) -> None:
        """Of a batch all messages are there, or none."""
        for number in (3, 4):
            self.model.sent[number].state = State.UNKNOWN
            self.model.sent[number].offset = -1
        self.sees("half a batch", self.check, [self.found[0], self.found[1], self.seen(2, 400, 2, 15.0)])

    def test_refused(self) -> None:
        """A message that was refused must not be there."""
        one = self.model.sent[5] = Sent(5, KEY, b"5:x", 10.0, 10_000, 5, 0)
        self.model.answered(one, 14, -1, -1, -1)
        self.sees("deleted message", self.check, [*self.found, self.seen(4, 500, 5)])

    def test_deleted(self) -> None:
        """After a deletion that was answered nothing is there; before, all or none, and that remains so."""
        self.model.deleted("T", {1, 3, 4}, certain=True)
        self.sees("deleted message", self.check, self.found)
        self.check([])
        self.setUp()
        self.model.deleted("T", {1, 3, 4}, certain=False)
        self.check([])
        self.sees("deleted message", self.check, self.found)

    def test_hidden(self) -> None:
        """A queue that was taken from its topic need not be readable."""
        self.model.resized("T", 0)
        self.check([], False, readable=False)
        self.sees("lost", self.check, [], False)

    def test_crashes(self) -> None:
        """A kill takes nothing that was answered; a power cut nothing that was durable."""
        self.sees("lost", self.model.cut, 200, False)
        self.setUp()
        self.model.required = 301
        self.sees("lost", self.model.cut, 300, True)
        self.setUp()
        self.model.required = 100
        self.model.cut(300, power=True)
        self.assertIs(self.model.sent[4].state, State.GONE)
        self.assertIs(self.model.sent[3].state, State.OWED)

    def test_promotion(self) -> None:
        """A slave that is promoted has what was confirmed; else it may lack what it has not got."""
        self.model.sent[4].confirmed = True
        self.sees("lost", self.model.promoted, 0, 300)
        self.setUp()
        self.model.sent[1].confirmed = True
        self.sees("lost", self.model.promoted, 100, 400)
        self.setUp()
        self.model.promoted(100, 300)
        states = [self.model.sent[number].state for number in range(1, 5)]
        self.assertEqual(states, [State.GONE, State.OWED, State.OWED, State.GONE])
