"""The official Java client while the master is gone, and clients of either kind while registries are (F15, F18)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tests.chaos.case import BACK, LONG, told
from tests.chaos.history import History
from tests.chaos.nemesis import Cut, Kill, Pause, WrongAnswers
from tests.chaos.network import NetworkFailed
from tests.chaos.rounds import Round, until
from tests.chaos.test_replicas import ReplicaCase
from tests.interop.driver import Call, Driver

_TOPIC = "Chaos"
_REFRESH = 40.0
"""Seconds after which every client has refreshed its routes: they do every 30 s."""


def texts(*calls: Call) -> set[str]:
    """Return the short bodies that consumers have had so far."""
    return {event.get("text", "") for call in calls for event in call.of("message")}


class JavaTests(ReplicaCase):
    """F15 as the official 4.9 client sees it."""

    def setUp(self) -> None:
        """Skip where it cannot run."""
        super().setUp()
        self.needs_java()

    def test_master_gone(self) -> None:
        """Its consumer reads on from the slave, nothing is missing, and it goes back when the master returns."""
        run = self.running("java-master-gone", {"brokerRole": "SYNC_MASTER"})
        driver = run.java()
        where = {"namesrv": run.registries}
        load = run.java_load(driver, _TOPIC, pauseMicros=5000)
        reader = Driver("4.9", os.path.join(run.home, "java-reader"), network=run.hosts["client"].network)
        self.addCleanup(reader.process.kill)
        consumer = reader.start("push", name="c", group="java-readers", topics={_TOPIC: "*"}, **where)
        consumer.wait_for("message", 300, 60)

        # a reader that stands still when the master goes has something left that the slave alone can give it
        os.kill(reader.process.pid, signal.SIGSTOP)
        run.await_sends(200)
        run.recorder.note("the reader stands still")
        kill = Kill(run.nodes["master"], "master")
        with run.fault(kill):
            safe = {value for value, ok in History(run.recorder.events).acked.items() if ok.code == 0}
            safe = {value for value in safe if value.startswith("java-")}
            os.kill(reader.process.pid, signal.SIGCONT)
            unread = safe - texts(consumer)
            self.assertGreater(len(unread), 50)
            served = self.waits(lambda: safe <= texts(consumer), "what only the slave has")
            run.figure("the Java consumer has all that was safe, from the slave", f"{BACK:g} s", f"{served:.2f} s")
            run.pause(5)
        self.safe(run)
        self.assert_back(run)
        # it went back if it is served while it cannot reach the slave
        with run.fault(Cut(run.hosts["client"], run.hosts["slave"])):
            begin = run.recorder.now
            run.await_sends(50)
            fresh = {
                value
                for value, ok in History(run.recorder.events).acked.items()
                if ok.t > begin and ok.code == 0 and value.startswith("java-")
            }
            served = self.waits(lambda: fresh <= texts(consumer), "what was sent after the master's return")
            run.figure("the Java consumer is served by the master again", f"{BACK:g} s", f"{served:.2f} s")
            run.pause(6)
        driver.ask("load.stop", name="java")
        load.result()
        safe = {value for value, ok in History(run.recorder.events).acked.items() if value.startswith("java-")}
        self.waits(lambda: safe <= texts(consumer), "everything acknowledged")
        self.ended(run)

    def waits(self, true: Callable[[], bool], what: str) -> float:
        """Wait for something for as long as it may take; return the seconds that it took."""
        return until(true, BACK, what)


class RegistryTests(ReplicaCase):
    """F18: two registries."""

    def two(self, name: str) -> Round:
        """Return a round with two registries and a broker, all running, a topic, and a load of ours."""
        run = self.round(name)
        run.registry("registry")
        run.registry("registry-2")
        run.broker("master")
        run.start()
        run.topic(_TOPIC)
        return run

    def errors(self, run: Round, begin: float) -> int:
        """Return how many sends that began after a moment were not taken."""
        seen = History(run.recorder.events)
        later = [value for value, invoked in seen.invoked.items() if invoked.t >= begin]
        done = [value for value in later if seen.invoked[value].t < run.recorder.now - 5]
        return sum(value not in seen.acked for value in done)

    def test_one_killed(self) -> None:
        """With one of two registries dead sends of both clients go on without an error after their refresh."""
        run = self.two("one-registry-killed")
        run.load(_TOPIC, group="chaos-push", readers="chaos-readers")
        java = self.java(run)
        run.await_sends(200)
        for name in ("registry", "registry-2"):
            with run.fault(Kill(run.nodes[name], name)):
                begin = run.recorder.now
                run.pause(_REFRESH)
                refreshed = run.recorder.now
                run.pause(60 if LONG else 15)
                errors = self.errors(run, refreshed)
                run.figure(f"{name} of two killed: failed sends after the refresh", "0", str(errors))
                run.figure(f"{name} of two killed: failed sends before it", "no figure", str(self.errors(run, begin)))
                self.assertEqual(errors, 0)
            run.pause(5)
        self.finish(run, java)

    def test_all_killed(self) -> None:
        """With all registries dead existing routes go on: no send fails."""
        run = self.two("all-registries-killed")
        run.load(_TOPIC, group="chaos-push", readers="chaos-readers")
        java = self.java(run)
        run.await_sends(200)
        with (
            run.fault(Kill(run.nodes["registry"], "registry")),
            run.fault(Kill(run.nodes["registry-2"], "registry-2")),
        ):
            begin = run.recorder.now
            run.pause(180 if LONG else _REFRESH)
            errors = self.errors(run, begin)
            run.figure("all registries killed: failed sends", "0", str(errors))
            self.assertEqual(errors, 0)
        # a registry that starts empty is whole within 30 s: brokers register at the latest then
        whole = [
            until(lambda node=node: self.whole(run, node), 35, f"{node} is whole")  # type: ignore[misc]
            for node in ("registry", "registry-2")
        ]
        run.figure("a registry that starts empty is whole", "30 s", told(whole))
        self.finish(run, java)

    def whole(self, run: Round, name: str) -> bool:
        """Return whether one registry tells of the topic and its broker."""
        try:
            return "broker-a" in run.smartgo("topic", "show", _TOPIC, registries=run.nodes[name].address)
        except NetworkFailed:
            return False

    def test_split(self) -> None:
        """With the broker cut off one registry, which some clients ask first, no send fails after their refresh."""
        run = self.two("registries-split")
        run.load(_TOPIC)
        java = self.java(run)
        run.await_sends(200)
        with run.fault(Cut(run.hosts["master"], run.hosts["registry"])):
            run.pause(_REFRESH)
            refreshed = run.recorder.now
            run.pause(130 if LONG else 15)  # the registry gives the broker up after 120 s
            errors = self.errors(run, refreshed)
            run.figure("broker cut off one registry: failed sends after the refresh", "0", str(errors))
            self.assertEqual(errors, 0)
        self.finish(run, java)

    def test_slow(self) -> None:
        """A registry that takes requests and does not answer costs no send."""
        run = self.two("registry-silent")
        run.load(_TOPIC)
        java = self.java(run)
        run.await_sends(200)
        with run.fault(Pause(run.nodes["registry"], "registry")):
            begin = run.recorder.now
            run.pause(60 if LONG else 35)
            errors = self.errors(run, begin)
            run.figure("one of two registries silent: failed sends", "0", str(errors))
            self.assertEqual(errors, 0)
        self.finish(run, java)

    def test_wrong(self) -> None:
        """A registry that answers nonsense costs no send: what clients know they keep, and the other one is asked."""
        run = self.two("registry-wrong")
        run.load(_TOPIC)
        java = self.java(run)
        run.await_sends(200)
        with run.fault(WrongAnswers(run.nodes["registry"], "registry")):
            run.pause(_REFRESH)
            refreshed = run.recorder.now
            run.pause(90 if LONG else 35)
            errors = self.errors(run, refreshed)
            run.figure("one of two registries answers nonsense: failed sends after the refresh", "0", str(errors))
            self.assertEqual(errors, 0)
        self.finish(run, java)

    def java(self, run: Round) -> Driver:
        """Begin a load of the official client as well."""
        self.needs_java()
        driver = run.java()
        run.java_load(driver, _TOPIC, pauseMicros=20000, threads=2)
        return driver

    def finish(self, run: Round, java: Driver) -> None:
        """End all loads and judge."""
        java.ask("load.stop", name="java")
        run.stop_loads()
        run.pause(1)
        run.final_read("master")
        run.judge()
