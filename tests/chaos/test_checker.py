"""The checker, judged by histories made by hand, one for each promise, and by mutations of valid ones."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias, TypeVar

from msgspec.structs import replace
from twisted.trial.unittest import SynchronousTestCase

from tests.chaos.checker import check
from tests.chaos.history import (
    TURNS,
    Bounds,
    Commit,
    Crash,
    Decided,
    Dropped,
    Event,
    Fail,
    Fault,
    Final,
    Group,
    Info,
    Invoke,
    Jump,
    Logs,
    Note,
    Ok,
    Plan,
    Read,
    Stored,
    Stuck,
)
from tests.chaos.judgement import Judgement, Kind, Verdict

Mutation: TypeAlias = Callable[[Random, list[Event]], list[Event]]
E = TypeVar("E", bound=Event)
QUEUE = "Orders@broker-a:0"
OTHER = "Orders@broker-a:1"


def sent(value: str, offset: int, t: float, queue: str = QUEUE, code: int = 0, who: str = "p0") -> list[Event]:
    """Return a send that began at C{t} and was answered half a second later."""
    return [
        Invoke(t=t, who=who, value=value, digest=crc(value)),
        Ok(t=t + 0.5, who=who, value=value, code=code, queue=queue, offset=offset),
    ]


def crc(value: str) -> int:
    """Return what stands for the CRC of a message's body."""
    return sum(value.encode())


def read_finally(
    values: list[str], replica: str = "master", queue: str = QUEUE, begin: int = 0, whole: bool = True
) -> list[Event]:
    """Return a final read, both turns of it, that finds these values from C{begin} on."""
    end = begin + len(values)
    events: list[Event] = [Plan(t=900, replica=replica, queues=[queue])]
    for turn in TURNS:
        events.append(Bounds(t=950, replica=replica, turn=turn, queue=queue, begin=begin, end=end, whole=whole))
        for offset, value in enumerate(values, begin):
            events.append(
                Final(t=940, replica=replica, turn=turn, queue=queue, offset=offset, value=value, digest=crc(value))
            )
    return events


class KindCase(SynchronousTestCase):
    """Tests of hand-made histories."""

    def judge(self, *parts: list[Event]) -> Judgement:
        """Check the events of all parts together."""
        return check([event for part in parts for event in part])

    def assert_found(self, judgement: Judgement, *kinds: Kind) -> None:
        """Fail unless exactly these kinds were found."""
        self.assertEqual(set(judgement.kinds), set(kinds), judgement.anomalies)
        self.assertIs(judgement.verdict, Verdict.INVALID)

    def assert_valid(self, judgement: Judgement) -> None:
        """Fail unless nothing was found and everything was looked at."""
        self.assertEqual((judgement.anomalies, judgement.unknown), ([], []))
        self.assertIs(judgement.verdict, Verdict.VALID)


class KindTests(KindCase):
    """One history for each kind of anomaly, and its neighbours that are none."""

    def test_valid(self) -> None:
        """What was acknowledged is there, in its place, once: valid."""
        judgement = self.judge(sent("a", 0, 1), sent("b", 1, 2), read_finally(["a", "b"]))
        self.assert_valid(judgement)
        self.assertEqual(judgement.counts["ok"], 2)

    def test_lost(self) -> None:
        """A value acknowledged with code 0 that the final read does not find is lost, and the loss's shape is told."""
        judgement = self.judge(
            sent("a", 0, 1), sent("b", 1, 2), sent("c", 2, 3), sent("d", 1, 4), read_finally(["a", "d"])
        )
        self.assertEqual(judgement.kinds[Kind.LOST], 2)
        self.assertIn("in all 2 within 1000 ms, 1 survivors", judgement.anomalies[0].text)
        self.assertEqual(judgement.counts["survivors behind the first lost at master"], 1)

    def test_weakly_acknowledged(self) -> None:
        """A value stored with code 10, 11 or 12 may be missing in the end, and may be there."""
        weak = sent("b", 1, 2, code=12)
        self.assert_valid(self.judge(sent("a", 0, 1), weak, read_finally(["a"])))
        self.assert_valid(self.judge(sent("a", 0, 1), weak, read_finally(["a", "b"])))

    def test_unknown_send(self) -> None:
        """A send that failed, was never answered or whose answer is unknown is neither required nor forbidden."""
        for end in ([Fail(t=2, value="b")], [Info(t=2, value="b")], []):
            begun: list[Event] = [Invoke(t=1.8, who="p0", value="b", digest=crc("b")), *end]
            self.assert_valid(self.judge(sent("a", 0, 1), begun, read_finally(["a"])))
            self.assert_valid(self.judge(sent("a", 0, 1), begun, read_finally(["a", "b"])))

    def test_lost_at_a_replica(self) -> None:
        """Every replica that is read in the end must have what was acknowledged."""
        whole = [*sent("a", 0, 1), *sent("b", 1, 2), *read_finally(["a", "b"])]
        self.assert_valid(self.judge(whole, read_finally(["a", "b"], "slave")))
        self.assert_found(self.judge(whole, read_finally(["a"], "slave")), Kind.LOST, Kind.REPLICA_DIFFERS)

    def test_emptied_replica(self) -> None:
        """A replica that was emptied may begin later, and must have everything from there on."""
        whole = [*sent("a", 0, 1), *sent("b", 1, 2), *sent("c", 2, 3), *read_finally(["a", "b", "c"])]
        self.assert_valid(self.judge(whole, read_finally(["b", "c"], "slave", begin=1, whole=False)))
        self.assert_found(self.judge(whole, read_finally(["b", "c"], "slave", begin=1)), Kind.LOST)

    def test_absent_queue(self) -> None:
        """A replica that was emptied may lack a queue of a deleted topic whose messages lie before its log begins."""
        dropped: list[Event] = [Dropped(t=5, who="tool", topic=QUEUE.partition("@")[0], begun=5, certain=False)]
        there = [*sent("a", 0, 1), *dropped, *read_finally(["a"])]
        self.assert_valid(self.judge(there, read_finally([], "slave", whole=False)))
        self.assert_found(self.judge(there, read_finally([], "slave")), Kind.REPLICA_DIFFERS)
        self.assert_found(
            self.judge(sent("a", 0, 1), read_finally(["a"]), read_finally([], "slave", whole=False)), Kind.LOST
        )

    def test_queue_before_the_log(self) -> None:
        """A replica that was emptied may lack a queue whose messages were stored before all that it has, no others."""
        first, later = sent("a", 0, 1), sent("b", 5, 3, OTHER)
        master = [*read_finally(["a"]), *read_finally(["b"], queue=OTHER, begin=5)]

        def slave(whole: bool = False) -> list[Event]:
            """Return the final read of a slave that has the second queue alone."""
            parts = [*read_finally([], "slave", whole=whole), *read_finally(["b"], "slave", OTHER, 5, whole)]
            plan = Plan(t=900, replica="slave", queues=[QUEUE, OTHER])
            return [plan, *(event for event in parts if not isinstance(event, Plan))]

        self.assert_valid(self.judge(first, later, master, slave()))
        self.assert_found(self.judge(first, later, master, slave(whole=True)), Kind.LOST, Kind.REPLICA_DIFFERS)
        self.assert_found(self.judge(sent("a", 0, 4), later, master, slave()), Kind.LOST)

    def test_phantom(self) -> None:
        """A value that nobody sent is a phantom, whoever saw it."""
        self.assert_found(self.judge(sent("a", 0, 1), read_finally(["a", "x"])), Kind.PHANTOM)
        read: list[Event] = [Read(t=5, who="c0", queue=QUEUE, offset=1, value="x")]
        self.assert_found(self.judge(sent("a", 0, 1), read, read_finally(["a"])), Kind.PHANTOM)

    def test_corrupt_body(self) -> None:
        """A value whose body is not the one that was sent is corrupt."""
        read: list[Event] = [Read(t=5, who="c0", queue=QUEUE, offset=0, value="a", digest=crc("a") + 1)]
        self.assert_found(self.judge(sent("a", 0, 1), read, read_finally(["a"])), Kind.CORRUPT_BODY)

    def test_duplicate(self) -> None:
        """A value is there twice although it was requested once."""
        self.assert_found(self.judge(sent("a", 0, 1), read_finally(["a", "a"])), Kind.DUPLICATE)

    def test_copies_of_retries(self) -> None:
        """As many copies as requests may have been made are counted, not blamed."""
        retried: list[Event] = [
            Invoke(t=1, who="p0", value="a", digest=crc("a"), attempts=2),
            Ok(t=2, who="p0", value="a", queue=QUEUE, offset=1),
        ]
        judgement = self.judge(retried, read_finally(["a", "a"]))
        self.assert_valid(judgement)
        self.assertEqual(judgement.counts["copies at master"], 1)

    def test_ids(self) -> None:
        """The copies of a send have one id, and no other message has it."""
        read: list[Event] = [Read(t=5, who="c0", queue=QUEUE, offset=0, value="a", digest=crc("a"), id="1")]
        whole = [*sent("a", 0, 1), *sent("b", 1, 2), *read_finally(["a", "b"])]
        self.assert_valid(self.judge(whole, read, [replace(read[0], t=6)]))
        self.assert_found(self.judge(whole, read, [replace(read[0], t=6, id="2")]), Kind.DUPLICATE)
        same = Read(t=6, who="c0", queue=QUEUE, offset=1, value="b", digest=crc("b"), id="1")
        self.assert_found(self.judge(whole, read, [same]), Kind.DUPLICATE)

    def test_inconsistent_offset(self) -> None:
        """A place that was read as one message and later as another is inconsistent."""
        read: list[Event] = [
            Invoke(t=1, who="p1", value="b", digest=crc("b")),
            Read(t=3, who="c0", queue=QUEUE, offset=0, value="b", digest=crc("b")),
        ]
        self.assert_found(self.judge(sent("a", 0, 4), read, read_finally(["a"])), Kind.INCONSISTENT_OFFSET)

    def test_two_acknowledged_at_one_place(self) -> None:
        """Two messages acknowledged at one place are inconsistent, and one of them is lost."""
        judgement = self.judge(sent("a", 0, 1), sent("b", 0, 1, who="p1"), read_finally(["b"]))
        self.assert_found(judgement, Kind.INCONSISTENT_OFFSET, Kind.LOST)

    def test_moved(self) -> None:
        """A value acknowledged at one offset and found at another has moved."""
        self.assert_found(self.judge(sent("a", 0, 1), sent("b", 5, 2), read_finally(["a", "b"])), Kind.MOVED)

    def test_hole(self) -> None:
        """An offset between begin and end of a queue at which nothing is found is a hole."""
        events = [
            event
            for event in [*sent("a", 0, 1), *sent("c", 2, 2), *read_finally(["a", "b", "c"])]
            if not (isinstance(event, Final) and event.offset == 1)
        ]
        self.assert_found(check(events), Kind.HOLE)

    def test_nonmonotonic_read(self) -> None:
        """Within a session no offset of a queue comes twice or after a later one; a new session may begin anywhere."""
        reads = [
            Read(t=t, who="c0", session="1", queue=QUEUE, offset=offset, value=value, digest=crc(value))
            for t, offset, value in ((5, 0, "a"), (6, 1, "b"), (7, 0, "a"))
        ]
        whole = [*sent("a", 0, 1), *sent("b", 1, 2), *read_finally(["a", "b"])]
        self.assert_found(self.judge(whole, [*reads]), Kind.NONMONOTONIC_READ)
        again = self.judge(whole, [*reads[:2], replace(reads[2], session="2")])
        self.assert_valid(again)
        self.assertEqual(again.counts["delivered again"], 1)
        self.assert_valid(self.judge(whole, [replace(read, session="") for read in reads]))

    def test_second_read(self) -> None:
        """What the first final read found and the second does not was not read monotonically."""
        events = [
            replace(event, end=1) if isinstance(event, Bounds) and event.turn == 2 else event
            for event in [*sent("a", 0, 1), *read_finally(["a", "b"]), Invoke(t=2, value="b", digest=crc("b"))]
            if not (isinstance(event, Final) and event.turn == 2 and event.offset == 1)
        ]
        self.assert_found(check(events), Kind.NONMONOTONIC_READ)

    def test_order(self) -> None:
        """A producer's message sent after the answer to another must lie behind it in their queue."""
        self.assert_found(self.judge(sent("a", 1, 1), sent("b", 0, 2), read_finally(["b", "a"])), Kind.ORDER)

    def test_overlapping_sends(self) -> None:
        """Sends that were under way together, or from two producers, may lie in either order."""
        self.assert_valid(self.judge(sent("a", 1, 1), sent("b", 0, 1.4), read_finally(["b", "a"])))
        self.assert_valid(self.judge(sent("a", 1, 1), sent("b", 0, 2, who="p1"), read_finally(["b", "a"])))

    def test_stale_commit(self) -> None:
        """A stored position may be older than the last one sent, never ahead of all that had been sent by then."""
        whole = [*sent("a", 0, 1), *read_finally(["a"])]
        commits: list[Event] = [Commit(t=t, group="g", queue=QUEUE, offset=offset) for t, offset in ((3, 5), (8, 9))]
        older = Stored(t=6, group="g", queue=QUEUE, offset=3)
        self.assert_valid(self.judge(whole, commits, [older]))
        self.assert_found(self.judge(whole, commits, [replace(older, offset=7)]), Kind.STALE_COMMIT)
        self.assert_valid(self.judge(whole, commits, [replace(older, offset=7, t=9)]))

    def test_early_delay(self) -> None:
        """A delayed message may come a tick early, no earlier."""
        delayed: list[Event] = [
            Invoke(t=1, who="p0", value="a", digest=crc("a"), delay=5),
            Ok(t=1.2, who="p0", value="a"),
        ]
        read = Read(t=5.95, who="c0", queue=QUEUE, offset=0, value="a", digest=crc("a"))
        self.assert_valid(self.judge(delayed, [read], read_finally(["a"])))
        self.assert_found(self.judge(delayed, [replace(read, t=5.85)], read_finally(["a"])), Kind.EARLY_DELAY)

    def test_delayed_lost(self) -> None:
        """A delayed message, acknowledged without a place, must be found somewhere."""
        delayed: list[Event] = [
            Invoke(t=1, who="p0", value="a", digest=crc("a"), delay=5),
            Ok(t=1.2, who="p0", value="a"),
        ]
        self.assert_found(self.judge(delayed, sent("b", 0, 2), read_finally(["b"])), Kind.LOST)
        emptied = read_finally(["b"], begin=5, whole=False)
        self.assert_valid(self.judge(delayed, sent("b", 5, 2), emptied))

    def test_aborted_visible(self) -> None:
        """A half message that was rolled back is never shown; one that was committed must be."""
        half: list[Event] = [
            Invoke(t=1, who="p0", value="a", digest=crc("a"), half=True),
            Ok(t=1.2, who="p0", value="a"),
        ]
        other = sent("b", 0, 5)
        back = Decided(t=2, who="p0", value="a", commit=False)
        self.assert_valid(self.judge(half, [back], other, read_finally(["b"])))
        self.assert_found(self.judge(half, [back], other, read_finally(["b", "a"])), Kind.ABORTED_VISIBLE)
        self.assert_valid(self.judge(half, other, read_finally(["b"])))
        done = replace(back, commit=True)
        self.assert_found(self.judge(half, [done], other, read_finally(["b"])), Kind.LOST)
        self.assert_valid(self.judge(half, [done], other, read_finally(["b", "a"])))

    def test_replica_differs(self) -> None:
        """Replicas must end at the same offset of a queue, hold the same there, and have equal logs."""
        begun: list[Event] = [Invoke(t=2, who="p0", value="b", digest=crc("b"))]
        whole = [*sent("a", 0, 1), *begun, *read_finally(["a", "b"])]
        shorter = self.judge(whole, read_finally(["a"], "slave"))
        self.assert_found(shorter, Kind.REPLICA_DIFFERS)
        logs = Logs(t=990, one="master", other="slave", begin=0, end=200, differs=100)
        same = read_finally(["a", "b"], "slave")
        self.assert_found(self.judge(whole, same, [logs]), Kind.REPLICA_DIFFERS)
        self.assert_valid(self.judge(whole, same, [replace(logs, differs=-1)]))
        third: list[Event] = [Invoke(t=3, who="p0", value="c", digest=crc("c"))]
        differing = self.judge(whole, third, read_finally(["a", "c"], "slave"))
        self.assert_found(differing, Kind.REPLICA_DIFFERS, Kind.INCONSISTENT_OFFSET)


class CrashTests(KindCase):
    """What a crash may take, and what it may not."""

    def setUp(self) -> None:
        """Three messages are acknowledged, one after another, and the power fails at 4."""
        self.three = [*sent("a", 0, 1), *sent("b", 1, 2), *sent("c", 2, 3)]
        self.power = Crash(t=4, broker="broker-a", window=1.0, cause="power")

    def test_lost_with_the_power(self) -> None:
        """What was acknowledged within the window before may be gone, whatever takes its place; it is counted."""
        judgement = self.judge(self.three, [self.power], read_finally(["a", "b"]))
        self.assert_valid(judgement)
        self.assertEqual(judgement.counts["lost with the power of broker-a"], 1)
        self.assert_valid(self.judge(self.three, [self.power], read_finally(["a", "b", "c"])))
        self.assert_valid(self.judge(self.three, [self.power], sent("d", 2, 6), read_finally(["a", "b", "d"])))
        read: list[Event] = [Read(t=3.6, who="c0", queue=QUEUE, offset=2, value="c", digest=crc("c"))]
        self.assert_valid(self.judge(self.three, read, [self.power], sent("d", 2, 6), read_finally(["a", "b", "d"])))

    def test_before_the_window(self) -> None:
        """What was acknowledged before the window is required."""
        self.assert_found(self.judge(self.three, [self.power], read_finally(["a"])), Kind.LOST)
        early = replace(self.power, t=4.6)
        self.assert_found(self.judge(self.three, [early], read_finally(["a", "b"])), Kind.LOST)

    def test_after_the_crash(self) -> None:
        """What was sent after the crash is required."""
        self.assert_found(self.judge(self.three, [self.power], sent("d", 2, 5), read_finally(["a", "b"])), Kind.LOST)

    def test_killed(self) -> None:
        """A process that is killed loses nothing."""
        killed = Crash(t=4, broker="broker-a")
        self.assert_found(self.judge(self.three, [killed], read_finally(["a", "b"])), Kind.LOST)

    def test_another_broker(self) -> None:
        """The crash of another broker excuses nothing."""
        other = replace(self.power, broker="broker-b")
        self.assert_found(self.judge(self.three, [other], read_finally(["a", "b"])), Kind.LOST)

    def test_flushed(self) -> None:
        """A broker that flushes before it acknowledges may lose weaker answers and sends that did not wait alone."""
        power = replace(self.power, flushes=True, window=60.0)
        self.assert_found(self.judge(self.three, [power], read_finally(["a", "b"])), Kind.LOST)
        two, late = [*sent("a", 0, 1), *sent("b", 1, 2), power], sent("d", 2, 6)
        begun, ok = sent("c", 2, 3)
        assert isinstance(begun, Invoke)
        hasty: list[Event] = [replace(begun, wait=False), ok]
        weak = sent("c", 2, 3, code=10)
        self.assert_valid(self.judge(two, hasty, late, read_finally(["a", "b", "d"])))
        self.assert_valid(self.judge(two, weak, late, read_finally(["a", "b", "d"])))

    def test_replicated(self) -> None:
        """Where the slave takes the place of what was lost, only weaker answers and deliveries may be gone."""
        power = replace(self.power, replicates=True)
        self.assert_found(self.judge(self.three, [power], read_finally(["a", "b"])), Kind.LOST)
        weak = [*sent("a", 0, 1), *sent("b", 1, 2), *sent("c", 2, 3, code=11)]
        read: list[Event] = [Read(t=3.6, who="c0", queue=QUEUE, offset=2, value="c", digest=crc("c"))]
        self.assert_valid(self.judge(weak, [power], sent("d", 2, 6), read_finally(["a", "b", "d"])))
        self.assert_valid(self.judge(weak, read, [power], sent("d", 2, 6), read_finally(["a", "b", "d"])))

    def test_branch(self) -> None:
        """Where the slave's log takes the place of what was stored since the crash, all of that alone may be gone."""
        later = replace(sent("d", 2, 6)[0], wait=False)
        hasty: list[Event] = [later, Ok(t=6, who="p0", value="d", queue=QUEUE, offset=2)]
        taken: list[Event] = [replace(self.power, replicates=True), replace(self.power, t=9, window=5, replicates=True)]
        self.assert_valid(self.judge(self.three, taken, hasty, read_finally(["a", "b", "c"])))
        self.assert_found(self.judge(self.three, taken, hasty, read_finally(["a", "b"])), Kind.LOST)

    def test_slaves_more(self) -> None:
        """What a broker had not flushed may be given by its slave once it has crashed, and not before."""
        power = replace(self.power, flushes=True, window=60.0)
        weak = [*sent("a", 0, 1), *sent("b", 1, 2), *sent("c", 2, 3, code=10)]
        read = Read(t=4.1, who="c0", queue=QUEUE, offset=2, value="c", digest=crc("c"))
        end = [*sent("d", 2, 6), *read_finally(["a", "b", "d"])]
        self.assert_valid(self.judge(weak, [power, read], end))
        early = replace(read, t=3.6)
        self.assert_found(self.judge(weak, [power, early], end), Kind.INCONSISTENT_OFFSET)

    def test_no_suffix(self) -> None:
        """Nothing that lies behind a lost message, in its queue or by its time, may survive."""
        power = replace(self.power, window=3.0)
        self.assert_valid(self.judge(self.three, [power], read_finally(["a"])))
        absent = [e for e in read_finally(["a", "b", "c"]) if not (isinstance(e, Final) and e.value == "b")]
        self.assert_found(self.judge(self.three, [power], absent), Kind.LOST, Kind.HOLE)
        elsewhere = sent("d", 0, 3.1, queue=OTHER)
        both = [*read_finally(["a"]), *read_finally(["d"], queue=OTHER)]
        self.assert_found(self.judge(self.three, [power], elsewhere, both), Kind.LOST)

    def test_delayed(self) -> None:
        """A delayed message, whose place is not told, may be lost with its broker's power, and with no other's."""
        delayed: list[Event] = [
            Invoke(t=3, who="p1", value="x", digest=crc("x"), delay=5),
            Ok(t=3.5, who="p1", value="x", broker="broker-a"),
        ]
        whole = read_finally(["a", "b", "c"])
        self.assert_valid(self.judge(self.three, delayed, [self.power], whole))
        other = replace(self.power, broker="broker-b")
        self.assert_found(self.judge(self.three, delayed, [other], whole), Kind.LOST)

    def test_delayed_elsewhere(self) -> None:
        """What another broker has of a request before is neither what a crash took nor what stands for it."""
        delayed: list[Event] = [
            Invoke(t=3, who="p1", value="x", digest=crc("x"), delay=5, attempts=2),
            Ok(t=3.5, who="p1", value="x", broker="broker-a"),
        ]
        elsewhere = read_finally(["x"], replica="other", queue="Orders@broker-b:0")
        here = read_finally(["a", "b", "c"])
        self.assert_valid(self.judge(self.three, delayed, [self.power], here, elsewhere))
        self.assert_found(self.judge(self.three, delayed, here, elsewhere), Kind.LOST)
        after = replace(self.power, t=4.6)
        self.assert_found(self.judge(self.three, delayed, [after], here, elsewhere), Kind.LOST)
        slave = read_finally(["a", "b", "c", "x"], replica="slave")
        master = read_finally(["a", "b", "c", "x"])
        self.assert_valid(self.judge(self.three, delayed, [self.power], master, slave, elsewhere))

    def test_delivered_again(self) -> None:
        """A delayed message may be there once more for each crash of its broker, a plain one may not."""
        delayed: list[Event] = [
            Invoke(t=3, who="p1", value="x", digest=crc("x"), delay=5),
            Ok(t=3.5, who="p1", value="x", broker="broker-a"),
        ]
        killed = Crash(t=4, broker="broker-a")
        twice = read_finally(["a", "b", "c", "x", "x"])
        self.assert_valid(self.judge(self.three, delayed, [killed], twice))
        self.assert_found(self.judge(self.three, delayed, twice), Kind.DUPLICATE)
        self.assert_found(self.judge(self.three, delayed, [replace(killed, broker="broker-b")], twice), Kind.DUPLICATE)
        self.assert_found(self.judge(self.three, [killed], read_finally(["a", "b", "c", "c"])), Kind.DUPLICATE)


class DeletedTopicTests(KindCase):
    """Topics that are deleted while a run goes on."""

    def test_deleted(self) -> None:
        """What was in a deleted topic is not required; what was there before it was deleted must be gone."""
        queue = "Brief@broker-a:0"
        brief = [*sent("x", 0, 1, queue), *sent("a", 0, 1)]
        dropped: Event = Dropped(t=3, topic="Brief", begun=2)
        whole = read_finally(["a"])
        self.assert_found(self.judge(brief, whole, read_finally([], queue=queue)), Kind.LOST)
        self.assert_valid(self.judge(brief, [dropped], whole, read_finally([], queue=queue)))
        self.assert_found(self.judge(brief, [dropped], whole, read_finally(["x"], queue=queue)), Kind.PHANTOM)
        doubtful: Event = Dropped(t=3, topic="Brief", begun=2, certain=False)
        self.assert_valid(self.judge(brief, [doubtful], whole, read_finally(["x"], queue=queue)))
        power = Crash(t=3.5, broker="broker-a", window=1.0)
        self.assert_valid(self.judge(brief, [dropped, power], whole, read_finally(["x"], queue=queue)))
        other = replace(power, broker="broker-b")
        self.assert_found(self.judge(brief, [dropped, other], whole, read_finally(["x"], queue=queue)), Kind.PHANTOM)
        flushed = replace(power, flushes=True)
        self.assert_found(self.judge(brief, [dropped, flushed], whole, read_finally(["x"], queue=queue)), Kind.PHANTOM)


class GroupTests(KindCase):
    """What groups of push consumers are promised."""

    def setUp(self) -> None:
        """Two messages are sent and there in the end; a group is to get them."""
        self.whole = [*sent("a", 0, 1), *sent("b", 1, 2), *read_finally(["a", "b"])]
        self.group = Group(group="g", topics=["Orders"])
        self.reads = [self.read("a", 0, 3), self.read("b", 1, 4)]

    def read(self, value: str, offset: int, t: float, failed: bool = False, queue: str = QUEUE) -> Read:
        """Return the delivery of a message to the group."""
        return Read(t=t, who="c", group="g", queue=queue, offset=offset, value=value, digest=crc(value), failed=failed)

    def test_undelivered(self) -> None:
        """A group gets every message that is in its topics in the end, wherever it was delivered from."""
        self.assert_valid(self.judge(self.whole, [self.group], [*self.reads]))
        self.assert_found(self.judge(self.whole, [self.group], [self.reads[0]]), Kind.UNDELIVERED)
        retried = self.read("b", 7, 9, queue="%RETRY%g@broker-a:0")
        self.assert_valid(self.judge(self.whole, [self.group], [self.reads[0], retried]))
        self.assert_valid(self.judge(self.whole, [replace(self.group, topics=["Others"])], []))
        other = [replace(read, group="h") for read in self.reads]
        self.assert_found(self.judge(self.whole, [self.group], [*other]), Kind.UNDELIVERED)

    def test_commits(self) -> None:
        """A group is at most behind what it was given."""
        stored = Stored(t=5, group="g", queue=QUEUE, offset=2)
        self.assert_valid(self.judge(self.whole, [self.group], [*self.reads], [stored]))
        early = replace(stored, t=3.5)
        self.assert_found(self.judge(self.whole, [self.group], [*self.reads], [early]), Kind.STALE_COMMIT)

    def test_refused(self) -> None:
        """A message that a consumer refused must come again, unless a crash may have lost that."""
        refused = [self.reads[0], self.read("b", 1, 4, failed=True)]
        self.assert_found(self.judge(self.whole, [self.group], [*refused]), Kind.UNDELIVERED)
        self.assert_valid(self.judge(self.whole, [self.group], [*refused, self.read("b", 1, 5)]))
        power = Crash(t=8, broker="broker-a", window=1.0)
        self.assert_valid(self.judge(self.whole, [self.group], [*refused], [power]))
        copy_elsewhere = replace(power, broker="broker-b")
        self.assert_valid(self.judge(self.whole, [self.group], [*refused], [copy_elsewhere]))
        retried = self.read("b", 0, 4.5, queue="%RETRY%g@broker-a:0")
        before = replace(power, t=2.4, window=0.1)
        self.assert_valid(self.judge(self.whole, [self.group], [*refused], [retried], [before]))
        for crash in replace(power, t=3.9), replace(power, t=15.1):
            self.assert_found(self.judge(self.whole, [self.group], [*refused], [crash]), Kind.UNDELIVERED)

    def test_stood_behind(self) -> None:
        """A consumer that stood behind places that a crash gave back may miss who took them."""
        lost = sent("x", 1, 1.2, who="p1")
        power = Crash(t=1.8, broker="broker-a", window=1.0)
        self.assert_valid(self.judge(self.whole, [self.group], [self.reads[0]], lost, [power]))

    def test_stood_before(self) -> None:
        """A consumer must get what lies before the places that a crash gave back, also if it is orderly."""
        lost = [*sent("x", 2, 3), *sent("y", 4, 3.1, who="p1")]
        power = Crash(t=4, broker="broker-a", window=1.0)
        self.assert_valid(self.judge(self.whole, [self.group], [*self.reads], lost, [power]))
        self.assert_found(self.judge(self.whole, [self.group], [self.reads[1]], lost, [power]), Kind.UNDELIVERED)
        orderly = replace(self.group, orderly=True)
        swapped = [self.read("b", 1, 3), self.read("a", 0, 4)]
        self.assert_found(self.judge(self.whole, [orderly], [*swapped], lost, [power]), Kind.ORDER)

    def test_orderly(self) -> None:
        """An orderly group is given no message before the one in front of it was consumed."""
        orderly = replace(self.group, orderly=True)
        self.assert_valid(self.judge(self.whole, [orderly], [*self.reads]))
        again = [*self.reads, self.read("a", 0, 5), self.read("b", 1, 6)]
        self.assert_valid(self.judge(self.whole, [orderly], [*again]))
        swapped = [self.read("b", 1, 3), self.read("a", 0, 4)]
        self.assert_found(self.judge(self.whole, [orderly], [*swapped]), Kind.ORDER)
        self.assert_valid(self.judge(self.whole, [self.group], [*swapped]))
        skipped = [self.read("a", 0, 3, failed=True), self.read("b", 1, 4), self.read("a", 0, 5)]
        self.assert_found(self.judge(self.whole, [orderly], [*skipped]), Kind.ORDER)


class BatchTests(KindCase):
    """Batches are stored whole, side by side, or not at all."""

    def setUp(self) -> None:
        """A batch of three is sent; its answer is unknown."""
        self.batch: list[Event] = [
            Invoke(t=2, who="p", value=value, digest=crc(value), batch="1", part=part, attempts=2)
            for part, value in enumerate("xyz")
        ]
        self.whole = [*sent("a", 0, 1), *self.batch]

    def test_whole(self) -> None:
        """All of it, none of it, or all of it twice."""
        for values in ("a", "axyz", "axyzxyz"):
            self.assert_valid(self.judge(self.whole, read_finally([*values])))

    def test_half(self) -> None:
        """A part of it, or messages that do not lie side by side."""
        for values in ("axy", "ayz", "axzy", "axyzx"):
            self.assert_found(self.judge(self.whole, read_finally([*values])), Kind.HALF_BATCH)

    def test_cut_short(self) -> None:
        """A slave that takes a lost master's place has no half batch either."""
        lost = Crash(t=3, broker="broker-a", window=1e9, replicates=True)
        self.assert_found(self.judge(self.whole, [lost], read_finally([*"axy"])), Kind.HALF_BATCH)

    def test_parted(self) -> None:
        """Another message between those of a batch."""
        between = sent("b", 2, 3)
        self.assert_found(self.judge(self.whole, between, read_finally([*"axbyz"])), Kind.HALF_BATCH)


class OtherPromisesTests(KindCase):
    """Clocks that are set, and what must go on when all faults are over."""

    def test_clock_set_forward(self) -> None:
        """A delayed message may come as much early as the clock of its broker was set forward meanwhile."""
        delayed: list[Event] = [
            Invoke(t=1, who="p0", value="a", digest=crc("a"), delay=5),
            Ok(t=1.2, who="p0", value="a", broker="broker-a"),
            Read(t=3.0, who="c0", queue=QUEUE, offset=0, value="a", digest=crc("a")),
            *read_finally(["a"]),
        ]
        forward = Jump(t=2, target="broker-a-0", by=3.0)
        self.assert_valid(self.judge(delayed, [forward]))
        for jump in replace(forward, by=2.0), replace(forward, t=0.5, by=60.0):
            self.assert_found(self.judge(delayed, [jump]), Kind.EARLY_DELAY)
        for target in "broker-b-0", "registry-0", "broker-a-1":
            self.assert_found(self.judge(delayed, [replace(forward, target=target)]), Kind.EARLY_DELAY)
        unanswered: list[Event] = [event for event in delayed if not isinstance(event, Ok)]
        self.assert_valid(self.judge(unanswered, sent("b", 0, 1, OTHER), read_finally(["b"], queue=OTHER), [forward]))

    def test_clock_set_to_and_fro(self) -> None:
        """A delayed message may be early by what the clock went forward at most, between any two moments."""
        delayed: list[Event] = [
            Invoke(t=1, who="p0", value="a", digest=crc("a"), delay=5),
            Ok(t=1.2, who="p0", value="a", broker="broker-a"),
            Read(t=3.0, who="c0", queue=QUEUE, offset=0, value="a", digest=crc("a")),
            *read_finally(["a"]),
        ]

        def jumps(*steps: float) -> list[Event]:
            """Return jumps of the clock, one after another, while the message waits."""
            return [Jump(t=1.5 + number / 10, target="broker-a-0", by=by) for number, by in enumerate(steps)]

        for steps in ((3.0, -3600.0), (-3600.0, 3.0), (2.0, -0.5, 1.5)):
            self.assert_valid(self.judge(delayed, jumps(*steps)))
        for steps in ((2.0, -2.0, 2.0), (2.0, -3600.0, 2.0)):
            self.assert_found(self.judge(delayed, jumps(*steps)), Kind.EARLY_DELAY)

    def test_given_back(self) -> None:
        """The copy that a consumer gave back, to any broker, is no delivery that can be early; the one before it is."""
        retry = "%RETRY%g@broker-b:0"
        delayed: list[Event] = [
            Invoke(t=1, who="p0", value="a", digest=crc("a"), delay=20),
            Ok(t=1.2, who="p0", value="a", broker="broker-a"),
            *read_finally(["a"]),
        ]
        first = Read(t=3, who="c", group="g", queue=QUEUE, offset=0, value="a", digest=crc("a"), failed=True)
        again = replace(first, t=13, queue=retry, failed=False)
        forward: Event = Jump(t=2, target="broker-a-0", by=3600.0)
        self.assert_valid(self.judge(delayed, [forward, first, again]))
        self.assert_found(self.judge(delayed, [first, again]), Kind.EARLY_DELAY)
        for other in replace(first, failed=False), replace(first, group="h"), replace(first, t=14):
            self.assert_found(self.judge(delayed, [forward, other, again]), Kind.EARLY_DELAY)
        self.assert_found(self.judge(delayed, [forward, again]), Kind.EARLY_DELAY)
        for queue in "%RETRY%h@broker-b:0", "Orders@broker-b:0":
            self.assert_found(self.judge(delayed, [forward, first, replace(again, queue=queue)]), Kind.EARLY_DELAY)
        copy: list[Event] = [Crash(t=3.5, broker="broker-a", window=3.0), *sent("b", 0, 30), *read_finally(["b"])]
        self.assert_valid(self.judge([*delayed[:2], forward, first, again], copy))

    def test_clock_set_back(self) -> None:
        """A delayed message is late by as much as the clock of its broker was set back meanwhile."""
        delayed: list[Event] = [
            Invoke(t=1, who="p0", value="x", digest=crc("x"), delay=5, timed=True),
            Ok(t=1.2, who="p0", value="x", broker="broker-a"),
        ]
        whole = [*delayed, *sent("a", 0, 1), *read_finally(["a"])]
        back = Jump(t=2, target="broker-a-0", by=-3600.0)
        self.assert_valid(self.judge(whole, [back]))
        self.assert_found(self.judge(whole, [replace(back, target="broker-b-0")]), Kind.LOST)
        self.assert_found(self.judge(whole, [replace(back, t=0.5)]), Kind.LOST)
        self.assert_found(self.judge(whole, [replace(back, by=-60.0)]), Kind.LOST)
        level = [replace(event, timed=False) if isinstance(event, Invoke) else event for event in whole]
        self.assert_found(self.judge(level, [back]), Kind.LOST)
        self.assert_found(self.judge(whole, [back, replace(back, t=3, by=3600.0)]), Kind.LOST)
        slave = replace(back, target="broker-a-1")
        self.assert_found(self.judge(whole, [slave]), Kind.LOST)
        self.assert_valid(self.judge(whole, [back, replace(slave, t=3, by=3600.0)]))

    def test_stuck(self) -> None:
        """What did not go on in time breaks a promise."""
        stuck: list[Event] = [Stuck(t=100, text="broker-a takes no sends")]
        self.assert_found(self.judge(sent("a", 0, 1), read_finally(["a"]), stuck), Kind.NOT_LIVE)


class UnknownTests(SynchronousTestCase):
    """Runs without a verdict, which must never count as valid."""

    def assert_unknown(self, events: list[Event], why: str) -> None:
        """Fail unless there is no verdict, for this reason."""
        judgement = check(events)
        self.assertIs(judgement.verdict, Verdict.UNKNOWN, judgement.anomalies)
        self.assertTrue(any(why in reason for reason in judgement.unknown), judgement.unknown)

    def test_nothing_acknowledged(self) -> None:
        """A run in which no send was answered with code 0 shows nothing."""
        self.assert_unknown([Invoke(t=1, value="a"), *read_finally([])], "nothing was acknowledged")
        self.assert_unknown([*sent("a", 0, 1, code=11), *read_finally(["a"])], "nothing was acknowledged")

    def test_no_final_read(self) -> None:
        """Without a final read nothing is known."""
        self.assert_unknown(sent("a", 0, 1), "there was no final read")

    def test_incomplete_final_read(self) -> None:
        """A queue whose end was not reached in either turn, or that nobody planned to read, leaves all open."""
        whole = [*sent("a", 0, 1), *read_finally(["a"])]
        for turn in TURNS:
            cut = [event for event in whole if not (isinstance(event, Bounds) and event.turn == turn)]
            self.assert_unknown(cut, f"turn {turn}, did not get to the end")
        self.assert_unknown([*whole, *sent("b", 0, 2, queue=OTHER)], f"left out {OTHER}")

    def test_fault_that_never_happened(self) -> None:
        """A fault that was ordered and not seen to happen makes the run worthless, and so does one without an end."""
        whole = [*sent("a", 0, 1), *read_finally(["a"])]
        begin = Fault(t=1, name="cut", target="link a", on=True)
        self.assert_unknown([*whole, begin, Fault(t=2, name="cut", target="link a", on=False)], "never happened")
        self.assert_unknown([*whole, begin], "nobody saw the end")
        judgement = check([*whole, begin, Fault(t=2, name="cut", target="link a", on=False, count=3)])
        self.assertIs(judgement.verdict, Verdict.VALID)

    def test_missing(self) -> None:
        """A note that something is missing, such as a broker that did not come up, leaves no verdict."""
        whole = [*sent("a", 0, 1), *read_finally(["a"])]
        self.assert_unknown([*whole, Note(t=5, text="master did not come up", missing=True)], "did not come up")
        self.assertIs(check([*whole, Note(t=5, text="all is well")]).verdict, Verdict.VALID)

    def test_found_all_the_same(self) -> None:
        """What was found is invalid, however much is unknown beside it."""
        events = [*sent("a", 0, 1), *read_finally(["x"]), Note(t=5, text="no", missing=True)]
        self.assertIs(check(events).verdict, Verdict.INVALID)

    def test_empty(self) -> None:
        """A history without events has no verdict."""
        self.assertIs(check([]).verdict, Verdict.UNKNOWN)


def valid_history(random: Random) -> list[Event]:
    """Draw a valid run: producers, two queues, consumers with sessions, a slave, sends without an answer."""
    events: list[Event] = []
    queues: dict[str, list[str]] = {QUEUE: [], OTHER: []}
    t = 1.0
    for number in range(random.randrange(20, 60)):
        t += random.random()
        value = f"v{number}"
        who = f"p{random.randrange(3)}"
        queue = random.choice((QUEUE, OTHER))
        events.append(Invoke(t=t, who=who, value=value, digest=crc(value)))
        outcome = random.random()
        if outcome < 0.8 or number == 0:
            events.append(Ok(t=t + 0.01, who=who, value=value, queue=queue, offset=len(queues[queue])))
            queues[queue].append(value)
        elif outcome < 0.9:
            events.append(Info(t=t + 0.01, who=who, value=value))
            if random.random() < 0.5:
                queues[queue].append(value)
        else:
            events.append(Fail(t=t + 0.01, who=who, value=value))
    events += _batch(queues[QUEUE], t + 1)
    events.append(Group(t=1, group="g", topics=["Orders"], orderly=True))
    t += 2
    for queue, values in queues.items():
        for offset, value in enumerate(values):
            t += 0.01
            events.append(Read(t=t, who="c0", queue=queue, offset=offset, value=value, digest=crc(value), group="g"))
            events.append(Commit(t=t, group="g", queue=queue, offset=offset + 1))
        if values:
            events.append(Stored(t=t + 1, group="g", queue=queue, offset=random.randrange(len(values) + 1)))
        for replica in ("master", "slave"):
            events += read_finally(values, replica, queue)
    events.append(Logs(t=999, one="master", other="slave", begin=0, end=5000))
    random.shuffle(events)
    return events


def _batch(values: list[str], t: float) -> list[Event]:
    """Return the sends of a batch of three to a queue, which is acknowledged, and add it to the queue."""
    events: list[Event] = []
    for part, value in enumerate(["b0", "b1", "b2"]):
        events.append(Invoke(t=t, who="pb", value=value, digest=crc(value), batch="b", part=part))
        events.append(Ok(t=t + 0.01, who="pb", value=value, queue=QUEUE, offset=len(values)))
        values.append(value)
    return events


def _pick(random: Random, events: list[Event], kind: type[E]) -> E:
    return random.choice([event for event in events if isinstance(event, kind)])


def _forget_acked(random: Random, events: list[Event]) -> list[Event]:
    ok = _pick(random, events, Ok)
    return [event for event in events if not (isinstance(event, Final) and event.value == ok.value)]


def _unsent(random: Random, events: list[Event]) -> list[Event]:
    gone = _pick(random, events, Final)
    return [event for event in events if not (isinstance(event, Invoke) and event.value == gone.value)]


def _changed(kind: type[Event], **fields: object) -> Mutation:
    def mutate(random: Random, events: list[Event]) -> list[Event]:
        chosen = _pick(random, events, kind)
        return [replace(event, **fields) if event is chosen else event for event in events]

    return mutate


def _delayed(random: Random, events: list[Event]) -> list[Event]:
    """Have a message that a consumer had been sent with a delay longer than the run."""
    read = _pick(random, events, Read)
    return [
        replace(event, delay=10_000) if isinstance(event, Invoke) and event.value == read.value else event
        for event in events
    ]


def _swapped(random: Random, events: list[Event]) -> list[Event]:
    """Have two messages of a queue change places in everything that was read at the end."""
    one = _pick(random, events, Ok)
    other = random.choice(
        [e for e in events if isinstance(e, Ok) and e.queue == one.queue and e.offset != one.offset] or [one]
    )
    places = {one.value: other.offset, other.value: one.offset}
    return [
        replace(event, offset=places[event.value]) if isinstance(event, Final) and event.value in places else event
        for event in events
        if not isinstance(event, Read)
    ]


def _copied(random: Random, events: list[Event]) -> list[Event]:
    """Add one message a second time, behind the end of its queue, at every replica."""
    chosen = _pick(random, events, Ok)
    end = next(event.end for event in events if isinstance(event, Bounds) and event.queue == chosen.queue)
    copies: list[Event] = [
        replace(event, offset=end) for event in events if isinstance(event, Final) and event.value == chosen.value
    ]
    longer = [
        replace(event, end=end + 1) if isinstance(event, Bounds) and event.queue == chosen.queue else event
        for event in events
    ]
    return longer + copies


def _half(random: Random, events: list[Event]) -> list[Event]:
    """Have one message of the batch in no replica."""
    gone = random.choice(["b0", "b1", "b2"])
    return [event for event in events if not (isinstance(event, Final) and event.value == gone)]


def _never_consumed(random: Random, events: list[Event]) -> list[Event]:
    gone = _pick(random, events, Read)
    return [event for event in events if event is not gone]


def _consumed_early(random: Random, events: list[Event]) -> list[Event]:
    """Have the last message of a queue consumed before all others."""
    queue = _pick(random, [event for event in events if isinstance(event, Read) and event.offset], Read).queue
    last = max((e for e in events if isinstance(e, Read) and e.queue == queue), key=lambda read: read.offset)
    first = min(event.t for event in events if isinstance(event, Read))
    return [replace(event, t=first - 0.005) if event is last else event for event in events]


def _without_end(random: Random, events: list[Event]) -> tuple[list[Event], Ok]:
    """Take the end of the log away, from a random acknowledged message on; nobody has read anything of it."""
    acked = [event for event in events if isinstance(event, Ok)]
    first = random.choice(acked)
    ends = {}
    for queue in (QUEUE, OTHER):
        lost = [ok.offset for ok in acked if ok.queue == queue and ok.t >= first.t]
        whole = next((e.end for e in events if isinstance(e, Bounds) and e.queue == queue), 0)
        ends[queue] = min(lost, default=whole)
    kept: list[Event] = []
    for event in events:
        if isinstance(event, (Read, Group, Commit, Stored)):
            continue
        if isinstance(event, Final) and event.offset >= ends[event.queue]:
            continue
        kept.append(replace(event, end=ends[event.queue]) if isinstance(event, Bounds) else event)
    return kept, first


class MutationTests(SynchronousTestCase):
    """Valid histories, and what becomes of them when one thing is changed."""

    def test_valid(self) -> None:
        """Nothing is found in valid histories, whatever the seed and in whatever order the events are told."""
        for seed in range(100):
            judgement = check(valid_history(Random(seed)))
            self.assertEqual((judgement.verdict, judgement.anomalies), (Verdict.VALID, []), f"seed {seed}")

    def test_mutations(self) -> None:
        """Each change to a valid history is called by its name."""
        cases: list[tuple[Mutation, Kind]] = [
            (_forget_acked, Kind.LOST),
            (_forget_acked, Kind.HOLE),
            (_unsent, Kind.PHANTOM),
            (_changed(Final, digest=1), Kind.CORRUPT_BODY),
            (_changed(Read, digest=1), Kind.CORRUPT_BODY),
            (_changed(Final, value="elsewhere"), Kind.PHANTOM),
            (_changed(Ok, offset=10_000), Kind.MOVED),
            (_copied, Kind.DUPLICATE),
            (_changed(Stored, offset=10_000), Kind.STALE_COMMIT),
            (_changed(Logs, differs=77), Kind.REPLICA_DIFFERS),
            (_delayed, Kind.EARLY_DELAY),
            (_half, Kind.HALF_BATCH),
            (_never_consumed, Kind.UNDELIVERED),
            (_consumed_early, Kind.ORDER),
        ]
        for mutate, kind in cases:
            for seed in range(25):
                random = Random(seed)
                judgement = check(mutate(random, valid_history(random)))
                self.assertIn(kind, judgement.kinds, f"{kind.value}, seed {seed}: {judgement.anomalies}")

    def test_swapped(self) -> None:
        """Two messages that change places have moved and make their places inconsistent."""
        for seed in range(25):
            random = Random(seed)
            kinds = check(_swapped(random, valid_history(random))).kinds
            self.assertLessEqual({Kind.MOVED, Kind.INCONSISTENT_OFFSET}, set(kinds), f"seed {seed}")

    def test_power_cut(self) -> None:
        """The end of a log that is gone is excused by a crash with a window that covers it, and by no shorter one."""
        for seed in range(50):
            random = Random(seed)
            events, first = _without_end(random, valid_history(random))
            at = max(event.t for event in events if isinstance(event, (Invoke, Ok))) + 1
            for slack, verdict in ((0.001, Verdict.VALID), (-0.001, Verdict.INVALID)):
                crash = Crash(t=at, broker="broker-a", window=at - first.t + slack, cause="power")
                judgement = check([*events, crash])
                if judgement.unknown:  # everything is gone, and nothing was acknowledged but that
                    continue
                self.assertIs(judgement.verdict, verdict, f"seed {seed}: {judgement.anomalies}")
            self.assertIn(Kind.LOST, check([*events, Crash(t=at, broker="broker-a")]).kinds)
