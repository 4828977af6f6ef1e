"""The workload: its clients do what they are for, and break nothing in a cluster without faults."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from tests.chaos.checker import check
from tests.chaos.history import Commit, Dropped, Event, Fail, Final, Invoke, Ok, Read, Stored, Stuck, topic_of
from tests.chaos.judgement import Verdict
from tests.sim.clients import LEVELS, ORDERLY, ORDERS, PLAIN, READERS, TIMED, WATCHERS
from tests.sim.run import Simulation


class WorkloadTests(SynchronousTestCase):
    """One run without faults, looked at from all sides."""

    events: tuple[Event, ...] = ()

    def setUp(self) -> None:
        """Run it once for all tests."""
        if not self.events:
            simulation = Simulation(17, minutes=2)
            outcome = simulation.run()
            self.assertEqual((outcome.verdict, outcome.violations), ("valid", ()))
            type(self).events = tuple(simulation.recorder.events)

    def tearDown(self) -> None:
        """Drop what dead processes leave behind."""
        gc.collect()

    def test_valid(self) -> None:
        """Everything was acknowledged, and everything is known."""
        judgement = check(self.events)
        self.assertIs(judgement.verdict, Verdict.VALID)
        self.assertEqual(judgement.unknown, [])
        self.assertGreater(judgement.counts["ok"], 50)
        self.assertEqual([event for event in self.events if isinstance(event, Fail)], [])

    def test_sends(self) -> None:
        """Plain and one-way sends, batches, orders, messages by delay level and by time."""
        invoked = [event for event in self.events if isinstance(event, Invoke)]
        senders = Counter(event.who for event in invoked)
        self.assertLessEqual({"plain", "order", "batch", "timed", "tool", "operator"}, set(senders))
        self.assertTrue(any(event.batch and event.part for event in invoked))
        self.assertTrue(any(event.delay in LEVELS for event in invoked))
        self.assertTrue(any(event.delay and event.delay not in LEVELS for event in invoked))
        self.assertTrue(any(not event.wait for event in invoked))

    def test_consumption(self) -> None:
        """Groups get everything, refuse some of it and get it again; sessions read and commit."""
        reads = [event for event in self.events if isinstance(event, Read)]
        self.assertEqual({event.group for event in reads}, {READERS, WATCHERS, ORDERLY, ""})
        self.assertTrue(any(event.failed for event in reads if event.group == READERS))
        self.assertTrue(any(event.queue.startswith("%RETRY%") for event in reads))
        self.assertEqual({topic_of(event.queue) for event in reads if event.group == ORDERLY}, {ORDERS})
        self.assertTrue(any(isinstance(event, Commit) for event in self.events))
        self.assertTrue(any(isinstance(event, Stored) and event.offset for event in self.events))

    def test_topics(self) -> None:
        """Topics are created and deleted meanwhile."""
        dropped = [event for event in self.events if isinstance(event, Dropped)]
        self.assertTrue(dropped)
        self.assertTrue(all({event.topic: event.certain for event in dropped}.values()))
        asked = {event.topic for event in dropped if not event.certain and event.t - event.begun < 1e-5}
        self.assertEqual(asked, {event.topic for event in dropped})  # whoever asks may never hear the answer
        filled = {topic_of(event.queue) for event in self.events if isinstance(event, Ok)}
        self.assertTrue(filled & {event.topic for event in dropped})

    def test_final_read(self) -> None:
        """All four brokers are read."""
        finals = [event for event in self.events if isinstance(event, Final)]
        self.assertEqual(len({event.replica for event in finals}), 4)
        self.assertEqual({topic_of(event.queue) for event in finals}, {PLAIN, ORDERS, TIMED})


class QuietTests(SynchronousTestCase):
    """What is late when all faults are over is found."""

    def tearDown(self) -> None:
        """Drop what dead processes leave behind."""
        gc.collect()
        self.flushLoggedErrors()

    def stuck(self, pair: Callable[[Simulation], tuple[str, str]], since: float) -> list[str]:
        """
        Run with a link cut from some moment on, and return what is recorded as stuck.

        @param since: seconds after the phase of faults.
        """
        simulation = Simulation(3, minutes=0.2)
        simulation.kernel.later(12 + since, lambda: simulation.cluster.world.network.block(*pair(simulation)))
        simulation.kernel.later(12 + since + 20, lambda: simulation.cluster.world.network.unblock(*pair(simulation)))
        self.assertEqual(simulation.run().verdict, "invalid")
        return [event.text for event in simulation.recorder.events if isinstance(event, Stuck)]

    def test_delivery(self) -> None:
        """A group that gets its messages late."""

        def link(simulation: Simulation) -> tuple[str, str]:
            return simulation.cluster.master("a").machine.address, simulation.cluster.clients["watcher"].address

        found = self.stuck(link, since=65)
        self.assertTrue(any("group watchers was not given" in text for text in found), found)
        self.assertFalse(any("group readers" in text for text in found), found)

    def test_consumption(self) -> None:
        """A group that consumes nothing for longer than it has."""
        simulation = Simulation(3, minutes=0.2)

        def pause() -> None:
            for name in ("reader-0", "reader-1"):
                life = simulation.cluster.clients[name].life
                assert life is not None
                life.paused_until = simulation.kernel.now + 85

        simulation.kernel.later(12.1, pause)
        found = simulation.run().violations
        self.assertTrue(any("group readers has not consumed everything" in text for text in found), found)

    def test_acknowledgement(self) -> None:
        """A broker that acknowledges late."""

        def link(simulation: Simulation) -> tuple[str, str]:
            return simulation.cluster.master("b").machine.address, simulation.cluster.clients["operator"].address

        found = self.stuck(link, since=65)
        self.assertTrue(any("a send to Plain@broker-b:0 took" in text for text in found), found)
        self.assertFalse(any("a send to Plain@broker-a:0 took" in text for text in found), found)
