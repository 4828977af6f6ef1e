"""A wall clock that is set while a broker and its registry run (F12; reliability H8, H9)."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from unittest import SkipTest

from tests.chaos import clocks
from tests.chaos.case import LONG, TOPIC, ChaosCase, told
from tests.chaos.clocks import ClockJumps, ClockSet, WallClock, stored_times
from tests.chaos.diskcase import SMALL_LOG, SYNC, HeartBeats, log_files
from tests.chaos.history import Fail, History, Info, Read
from tests.chaos.nemesis import Kill
from tests.chaos.rounds import Round, until
from tests.interop.peers import Node, answer

_HOUR = 3600
_DAY = 24 * _HOUR
_SEARCH_OFFSET = 29
_DELIVERED = 10.0  # seconds from an acknowledgement to a push consumer
_SETTLING = 600.0  # seconds after a jump in which no file may expire
_EVERY_HOUR = ";".join(f"{hour:02}" for hour in range(24))
#: Log files of 1 MiB that expire after an hour, at any hour of the day, looked for every second.
_EXPIRING = {
    **SMALL_LOG,
    **SYNC,
    "fileReservedTime": "1",
    "deleteWhen": _EVERY_HOUR,
    "cleanResourceInterval": "1000",
}


class ClockTests(ChaosCase):
    """A master and a registry, both on a machine whose clock is set."""

    def setUp(self) -> None:
        """Skip where no clock can be set."""
        super().setUp()
        reason = clocks.unavailable()
        if reason is not None:
            raise SkipTest(f"no clock that can be set: {reason}")

    def clocked(self, name: str) -> tuple[Round, WallClock]:
        """Return a round in which broker and registry have one clock, and a log of several files."""
        run = self.round(name)
        clock = WallClock(os.path.join(run.home, "clock"))
        clock.give(run.registry())
        clock.give(run.broker("master", settings=_EXPIRING))
        run.start()
        run.topic(TOPIC)
        run.load(TOPIC, label="old", producers=8, rate=0, size=4096, limit=600).wait(60)
        run.load(TOPIC, attempts=1, timeout=10.0, rate=50, group="chaos-push", readers="chaos-readers")
        run.await_sends(100)
        return run, clock

    def test_set(self) -> None:
        """Set back an hour, forward a day, or to and fro each second, the clock disturbs neither clients nor files."""
        run, clock = self.clocked("clock")
        master = run.nodes["master"]
        files = log_files(run)
        self.assertGreater(len(files), 2)
        for fault, seconds in (
            (ClockSet(clock, -_HOUR, master), 60 if LONG else 12),
            (ClockJumps(clock, 5, 1, master), 60 if LONG else 12),
            (ClockSet(clock, _DAY, master), 0.95 * _SETTLING if LONG else 15),
        ):
            beats = HeartBeats(master)
            begun = run.recorder.now
            with run.fault(fault):
                run.pause(seconds)
            beats.stop()
            self.judged(run, fault.target, begun, beats)
            kept = [path for path in files if os.path.exists(path)]
            run.figure(f"{fault.target}: log files kept", f"all {len(files)}", str(len(kept)))
            self.assertEqual(kept, files)
        self.assertIn("broker-a", run.smartgo("topic", "show", TOPIC))
        run.stop_loads()
        self.assert_searches(run, master)
        run.final_read("master")
        run.judge()

    def judged(self, run: Round, what: str, begun: float, beats: HeartBeats) -> None:
        """Check what clients got between a moment and now."""
        seen = History(run.recorder.events)
        wrong = [event for event in run.recorder.events if isinstance(event, Fail | Info) and event.t > begun]
        answers = [ok for ok in seen.acked.values() if seen.invoked[ok.value].t > begun]
        weak = [ok for ok in answers if ok.code]
        run.figure(f"{what}: sends not answered with 0", "0", f"{len(wrong) + len(weak)} of {len(answers)}")
        self.assertEqual((wrong, weak), ([], []))
        took = [ok.t - seen.invoked[ok.value].t for ok in answers]
        run.figure(f"{what}: answers", "none waits for the clock", told(took))
        run.figure(f"{what}: heartbeats", "all answered", f"{len(beats.answered)}, {told(beats.answered)}")
        self.assertEqual(beats.missed, 0)
        ended = run.recorder.now
        until(lambda: not self.undelivered(run, begun, ended), _DELIVERED, "the messages of the fault delivered")
        late = self.latenesses(run, begun)
        run.figure(f"{what}: from the answer to the consumer", f"{_DELIVERED:g} s", told(late))
        self.assertLess(max(late), _DELIVERED)

    def undelivered(self, run: Round, begun: float, ended: float) -> set[str]:
        """Return what was acknowledged between two moments and has not reached the push consumer."""
        seen = History(list(run.recorder.events))
        read = {event.value for event in seen.reads if event.who == "chaos-push"}
        return {value for value, ok in seen.acked.items() if begun < ok.t < ended} - read

    def latenesses(self, run: Round, begun: float) -> list[float]:
        """Return the seconds from each acknowledgement since a moment to the message's arrival at the consumer."""
        events = list(run.recorder.events)
        read = {event.value: event.t for event in events if isinstance(event, Read) and event.who == "chaos-push"}
        acked = History(events).acked
        return [read[value] - ok.t for value, ok in acked.items() if ok.t > begun and value in read]

    def assert_searches(self, run: Round, broker: Node) -> None:
        """
        Fail unless searches by time keep the contract of a binary search.

        With C{LOWER} (5.x) the answer is an offset whose message is not older than asked, or the queue's end. Without a
        boundary RocketMQ's rule is the nearer of two neighbours: that one, or the next, or none is not older.
        """
        queues: dict[tuple[str, int], list[int]] = defaultdict(list)
        for key, at, stored, _ in stored_times(broker):
            if key[0] == TOPIC:
                self.assertEqual(at, len(queues[key]), key)
                queues[key].append(stored)
        backwards = sum(later < earlier for times in queues.values() for earlier, later in itertools.pairwise(times))
        self.assertGreater(backwards, 0, "stored times never went back")
        asked = 0
        for (topic, queue), times in queues.items():
            end = len(times)
            for wanted in {*times[:: max(1, end // 50)], min(times) - 1, max(times), max(times) + 1}:
                fields = {"topic": topic, "queueId": str(queue), "timestamp": str(wanted)}
                lower = self.found(broker, {**fields, "boundaryType": "LOWER"})
                self.assertTrue(lower == end or times[lower] >= wanted, f"queue {queue}, {wanted}, LOWER: {lower}")
                near = self.found(broker, fields)
                self.assertTrue(near >= end - 1 or max(times[near : near + 2]) >= wanted, f"queue {queue}: {near}")
                asked += 1
        run.figure("searches by time, where stored times went back", "a message not older, or the end", f"{asked} so")

    def found(self, broker: Node, fields: dict[str, str]) -> int:
        """Return the offset that a search by time answers."""
        told = answer(broker.plan, _SEARCH_OFFSET, fields)
        assert told is not None
        self.assertEqual(told.code, 0)
        return int(told.fields["offset"])

    def test_killed_while_set_back(self) -> None:
        """Killed and restarted while its clock is an hour behind, a broker has all that was acknowledged (S9)."""
        run, clock = self.clocked("clock-kill")
        master = run.nodes["master"]
        with run.fault(ClockSet(clock, -_HOUR, master)):
            run.await_sends(100)
            for _ in range(5 if LONG else 1):
                with run.fault(Kill(master, "master, its clock an hour behind")):
                    pass
                run.await_sends(100)
        run.await_sends(100)
        with run.fault(Kill(master, "master, its clock right again")):
            pass
        run.await_sends(100)
        run.stop_loads()
        run.final_read("master")
        run.judge()
