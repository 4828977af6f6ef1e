"""The official Java client while the master is gone, and clients of either kind while registries are (F15, F18)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

from tests.chaos.case import BACK, LONG, TOPIC, told
from tests.chaos.history import History
from tests.chaos.nemesis import Cut, Kill, Pause, WrongAnswers
from tests.chaos.network import NetworkFailed
from tests.chaos.rounds import Round, until
from tests.chaos.test_replicas import ReplicaCase
from tests.interop.driver import Call, Driver

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
        load = run.java_load(driver, TOPIC, pauseMicros=5000)
        reader = Driver("4.9", os.path.join(run.home, "java-reader"), network=run.hosts["client"].network)
        self.addCleanup(reader.process.kill)
        consumer = reader.start("push", name="c", group="java-readers", topics={TOPIC: "*"}, **where)
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
    """F18: two registries, a broker, and clients of both kinds."""

    def setUp(self) -> None:
        """Skip where the official client cannot run."""
        super().setUp()
        self.needs_java()

    def loaded(self, name: str) -> Round:
        """Return a round in which all nodes run, and both clients send; ours reads as well."""
        run = self.round(name)
        run.registry("registry")
        run.registry("registry-2")
        run.broker("master")
        run.start()
        run.topic(TOPIC)
        run.load(TOPIC, group="chaos-push", readers="chaos-readers")
        self.java = run.java()
        run.java_load(self.java, TOPIC, pauseMicros=20000, threads=2)
        run.await_sends(200)
        return run

    def finish(self, run: Round) -> None:
        """End all loads and judge."""
        self.java.ask("load.stop", name="java")
        run.stop_loads()
        run.pause(1)
        run.final_read("master")
        run.judge()

    def served(self, run: Round, what: str, seconds: float, refresh: float = 0.0, java: bool = True) -> None:
        """
        Let a fault last for a while; fail if a send fails.

        @param refresh: seconds before those that count, in which clients may have to find out.
        @param java: sends of the Java client count, too.
        """
        run.pause(refresh)
        since = run.recorder.now
        run.pause(seconds)
        seen = History(run.recorder.events)
        done = [
            value
            for value, invoked in seen.invoked.items()
            if since <= invoked.t < run.recorder.now - 5 and (java or invoked.who != "java")
        ]
        failed = sum(value not in seen.acked for value in done)
        after = " after the refresh" if refresh else ""
        run.figure(f"{what}: failed sends{after}", "0", f"{failed} of {len(done)}")
        self.assertEqual(failed, 0)
        self.assertGreater(len(done), 0)

    def test_one_killed(self) -> None:
        """With either of two registries dead sends of both clients go on without an error after their refresh."""
        run = self.loaded("one-registry-killed")
        for name in ("registry", "registry-2"):
            with run.fault(Kill(run.nodes[name], name)):
                self.served(run, f"{name} of two killed", 60 if LONG else 15, _REFRESH)
            run.pause(5)
        self.finish(run)

    def test_all_killed(self) -> None:
        """With all registries dead existing routes go on: no send fails. One that begins anew knows all soon."""
        run = self.loaded("all-registries-killed")
        names = ("registry", "registry-2")
        with run.fault(Kill(run.nodes[names[0]], names[0])), run.fault(Kill(run.nodes[names[1]], names[1])):
            self.served(run, "all registries killed", 180 if LONG else _REFRESH)
        whole = [until(lambda name=name: self.whole(run, name), 35, name) for name in names]  # type: ignore[misc]
        run.figure("a registry that starts empty is whole", "30 s", told(whole))
        self.finish(run)

    def whole(self, run: Round, name: str) -> bool:
        """Return whether one registry tells of the topic and its broker."""
        try:
            return "broker-a" in run.smartgo("topic", "show", TOPIC, registries=run.nodes[name].address)
        except NetworkFailed:
            return False

    def test_split(self) -> None:
        """With the broker cut off one registry, which some clients ask first, no send fails after their refresh."""
        run = self.loaded("registries-split")
        with run.fault(Cut(run.hosts["master"], run.hosts["registry"])):
            # the registry gives the broker up after 120 s
            self.served(run, "broker cut off one registry", 130 if LONG else 15, _REFRESH)
        self.finish(run)

    def test_slow(self) -> None:
        """A registry that takes requests and does not answer costs no send."""
        run = self.loaded("registry-silent")
        with run.fault(Pause(run.nodes["registry"], "registry")):
            self.served(run, "one of two registries silent", 60 if LONG else 35)
        self.finish(run)

    def test_wrong(self) -> None:
        """
        A registry that answers nonsense costs no send: what our client knows it keeps, and it asks the other one.

        The Java client takes a route without brokers for true, and stays at the registry that tells it.
        """
        run = self.loaded("registry-wrong")
        with run.fault(WrongAnswers(run.nodes["registry"], "registry")):
            with run.fault(Kill(run.nodes["registry-2"], "registry-2")):
                run.pause(_REFRESH)  # a client that asked this one asks the wrong one now
            self.served(run, "one of two registries answers nonsense", 90 if LONG else 35, _REFRESH, java=False)
        self.finish(run)
