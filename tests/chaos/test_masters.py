"""Two brokers that would be the master of one name: at no moment do both take messages (H6, F13)."""

from __future__ import annotations

import time
from unittest import SkipTest

from tests.chaos.case import BACK, LONG, TOPIC, ChaosCase
from tests.chaos.nemesis import Cut, Pause
from tests.chaos.rounds import Round, until
from tests.interop.peers import Node, ask

_SEND = 10
_LEASE = 120.0
"""Seconds for which a registry keeps a name for a master it no longer hears of."""


def takes(node: Node) -> bool:
    """Return whether a broker takes a message that is sent to it, whatever the registries say."""
    fields = {
        "producerGroup": "probe",
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": "4",
        "queueId": "0",
        "sysFlag": "0",
        "bornTimestamp": str(int(time.time() * 1000)),
        "flag": "0",
        "properties": "",
        "reconsumeTimes": "0",
        "unitMode": "false",
        "batch": "false",
    }
    return ask(node.plan, _SEND, fields, b"probe", 2.0) is not None


class TwoMastersTests(ChaosCase):
    """The replacement has a store of its own, so that messages taken by both would be at one place."""

    def started(self, name: str) -> Round:
        """Return a round in which a registry and a master run, and a replacement is ready to be started."""
        run = self.one_broker(name)
        run.broker("replacement")
        return run

    def watch(self, run: Round, seconds: float) -> tuple[int, int, int]:
        """Ask both for a while; return how often the master, the replacement, and both of them took a message."""
        master, replacement = run.nodes["master"], run.nodes["replacement"]
        counts = [0, 0, 0]
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            taken = takes(master), takes(replacement)
            counts = [count + one for count, one in zip(counts, (*taken, all(taken)), strict=True)]
            run.pause(0.1)
        return counts[0], counts[1], counts[2]

    def test_second(self) -> None:
        """A second one takes nothing while the first lives, everything soon after its end, and keeps the name then."""
        run = self.started("second-master")
        master, replacement = run.nodes["master"], run.nodes["replacement"]
        replacement.start()
        ours, theirs, both = self.watch(run, 8)
        run.figure("messages taken by a second master beside the first", "0", f"{theirs}, by the first {ours}")
        self.assertEqual((theirs, both), (0, 0))
        self.assertGreater(ours, 0)
        master.kill()
        took = until(lambda: takes(replacement), BACK, "the replacement takes messages")
        run.figure("a replacement takes messages after the master was killed", f"{BACK:g} s", f"{took:.2f} s")
        master.start()
        ours, theirs, both = self.watch(run, 8)
        run.figure("messages taken by the first when it comes back", "0", f"{ours}, by the replacement {theirs}")
        self.assertEqual((ours, both), (0, 0))
        self.assertGreater(theirs, 0)

    def test_paused(self) -> None:
        """A master that stood still for longer than its name was kept, and was replaced, takes nothing any more."""
        if not LONG:
            raise SkipTest("takes three minutes: a registry keeps a name for 120 s; set SMARTGO_CHAOS=long")
        run = self.started("replaced-master")
        replacement = run.nodes["replacement"]
        pause = Pause(run.nodes["master"], "master")
        with run.fault(pause):
            replacement.start()
            took = until(lambda: takes(replacement), _LEASE + BACK, "the replacement takes messages")
            run.figure("a replacement takes messages after the master stopped", f"{_LEASE + BACK:g} s", f"{took:.2f} s")
        ours, theirs, both = self.watch(run, 30)
        run.figure("messages taken by the one that stood still", "0", f"{ours}, by the replacement {theirs}")
        self.assertEqual((ours, both), (0, 0))
        self.assertGreater(theirs, 0)

    def test_cut(self) -> None:
        """A master that was cut off the registry until it was replaced stands back soon after it is heard again."""
        if not LONG:
            raise SkipTest("takes three minutes: a registry keeps a name for 120 s; set SMARTGO_CHAOS=long")
        run = self.started("cut-off-master")
        master, replacement = run.nodes["master"], run.nodes["replacement"]
        with run.fault(Cut(run.hosts["master"], run.hosts["registry"])):
            replacement.start()
            took = until(lambda: takes(replacement), _LEASE + BACK, "the replacement takes messages")
            run.figure(
                "a replacement takes messages after the master was cut off", f"{_LEASE + BACK:g} s", f"{took:.2f} s"
            )
        took = until(lambda: not (takes(master) and takes(replacement)), BACK, "one of them stands back")
        run.figure("one of two masters stands back after the link was healed", f"{BACK:g} s", f"{took:.2f} s")
        ours, theirs, both = self.watch(run, 20)
        run.figure("messages taken by both from then on", "0", f"{both}; by one {ours}, by the other {theirs}")
        self.assertEqual(both, 0)
