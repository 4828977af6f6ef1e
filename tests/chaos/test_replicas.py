"""A master and its slave under faults (F13 to F16): what was acknowledged as safe is never lost."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from tests.chaos.case import LONG, TOPIC, ChaosCase, times, told
from tests.chaos.history import History
from tests.chaos.nemesis import Delay, DiskDeleted, Emptied, Kill, Pause, SlowLink, link_faults
from tests.chaos.rounds import Round, until
from tests.interop import logs

_PAUSES = (5, 60, 180) if LONG else (5,)  # seconds
_MIB = 1 << 20
_SAFE = {"brokerRole": "SYNC_MASTER", "flushDiskType": "SYNC_FLUSH"}
_WEAKLY = 3.0 + 0.5  # seconds: slaveTimeout, and some for a loaded machine


class ReplicaCase(ChaosCase):
    """Rounds with a registry, a master and a slave."""

    def replicas(self, name: str, settings: Mapping[str, str] | None = None, size: int = 16 * _MIB) -> Round:
        """
        Return a round whose nodes are not started yet.

        @param settings: of the master.
        @param size: of a file of the log, in bytes; the same for both, as pieces begin and end with files.
        """
        run = self.round(name)
        run.registry()
        both = {"mappedFileSizeCommitLog": str(size)}
        run.broker("master", settings={**both, **(settings or {})})
        run.broker("slave", settings=both, slave=True)
        return run

    def running(self, name: str, settings: Mapping[str, str] | None = None, size: int = 16 * _MIB) -> Round:
        """Return a round in which all nodes run, there is a topic, and the slave follows; as L{replicas} has it."""
        run = self.replicas(name, settings, size)
        run.start()
        self.follow(run)
        return run

    def follow(self, run: Round) -> None:
        """Create the topic and wait until the slave has what the master has."""
        run.topic(TOPIC)
        seed = run.load(TOPIC, label="seed", limit=20)
        seed.wait(60)
        stores = run.stores("master", "slave")
        until(lambda: logs.log_end(stores[0]) == logs.log_end(stores[1]), 60, "the slave's first bytes")

    def safe(self, run: Round) -> None:
        """Wait for a send that begins from now on and is answered with code 0."""
        now = run.recorder.now

        def taken() -> bool:
            seen = History(run.recorder.events[-1000:])
            return any(
                ok.code == 0 and value in seen.invoked and seen.invoked[value].t > now
                for value, ok in seen.acked.items()
            )

        until(taken, 120, "a send answered with code 0")

    def ended(self, run: Round, whole: bool = True) -> None:
        """End the loads, compare the logs, read both replicas and judge."""
        run.stop_loads()
        took = run.equal("master", "slave")
        run.figure("byte-equal logs after the last send", "yes", f"compared {took:.1f} s after it")
        run.final_read("master")
        run.final_read("slave", whole=whole)
        run.judge()


class SlaveTests(ReplicaCase):
    """F14: whatever becomes of the slave, the master goes on, and the slave's log is equal in the end."""

    def test_killed(self) -> None:
        """A slave that is killed, again and again, during sends costs none, and has the same bytes in the end."""
        run = self.running("slave-killed")
        run.load(TOPIC, group="chaos-push", readers="chaos-readers")
        for _ in range(times(2, 20)):
            run.await_sends(self.random.randrange(50, 400))
            with run.fault(Kill(run.nodes["slave"], "slave")):
                run.await_sends(self.random.randrange(50, 400))
        run.await_sends(100)
        self.ended(run)

    def test_emptied(self) -> None:
        """A slave that loses its store during sends begins with the master's last file and has the same bytes."""
        run = self.running("slave-emptied", size=_MIB)
        run.load(TOPIC, group="chaos-push", size=2048)
        for _ in range(times(1, 5)):
            run.await_sends(600)
            with run.fault(Emptied(run.nodes["slave"], "slave")):
                run.await_sends(200)
        run.await_sends(300)
        self.ended(run, whole=False)

    def test_behind(self) -> None:
        """A slave that is far behind catches up faster than sends go on, and has the same bytes in the end."""
        behind = (1024 if LONG else 64) * _MIB
        size = 64 << 10
        run = self.running("slave-behind", size=64 * _MIB)
        slave = run.nodes["slave"]
        slave.stop()
        run.load(TOPIC, label="lag", producers=8, rate=0, size=size, limit=behind // size).wait(600)
        stores = run.stores("master", "slave")
        run.load(TOPIC, producers=8, rate=320, size=size)  # 20 MiB/s, or what the machine does
        run.await_sends(50)
        slave.start()
        begin, ends = run.recorder.now, [logs.log_end(store) for store in stores]
        until(lambda: logs.log_end(stores[0]) - logs.log_end(stores[1]) < _MIB, 900, "less than 1 MiB behind")
        took = run.recorder.now - begin
        sent, copied = ((logs.log_end(store) - end) / took / _MIB for store, end in zip(stores, ends, strict=True))
        run.figure("lag at the slave's start", f"{behind // _MIB} MiB", f"{(ends[0] - ends[1]) / _MIB:.0f} MiB")
        run.figure(
            "rate of catching up while sends go on",
            "at least 2 times theirs, at 20 MiB/s",
            f"{copied:.1f} MiB/s, sends {sent:.1f} MiB/s ({copied / sent:.1f} times); made up in {took:.1f} s",
        )
        self.ended(run)
        self.assertGreaterEqual(copied, (2 if LONG else 1) * sent)

    def test_weak_answers(self) -> None:
        """While a SYNC_MASTER's slave is gone sends are answered 11 or 12, soon; with code 0 when it is back (F14)."""
        run = self.running("slave-gone", {"brokerRole": "SYNC_MASTER"})
        run.load(TOPIC, timeout=10.0, attempts=1)
        run.await_sends(100)
        with run.fault(Kill(run.nodes["slave"], "slave")):
            begin = run.recorder.now
            run.await_sends(100)
            gone = run.recorder.now
        run.await_sends(100)
        seen = History(run.recorder.events)
        begun = {value: invoked.t for value, invoked in seen.invoked.items()}
        weak = [ok.t - begun[ok.value] for ok in seen.acked.values() if ok.code]
        safe = [ok for ok in seen.acked.values() if not ok.code and begin + 0.5 < begun[ok.value] < gone]
        self.assertEqual(safe, [], "answered with code 0 without a slave")
        run.figure("answers 11 or 12 without a slave", f"within {_WEAKLY:g} s", told(weak))
        self.assertLessEqual(max(weak), _WEAKLY)
        self.assert_back(run)
        self.ended(run)


class MasterLostTests(ReplicaCase):
    """F15: the master is killed and its disk deleted."""

    def test_disk_deleted(self) -> None:
        """Under SYNC_MASTER and SYNC_FLUSH the slave holds every message that was answered with code 0."""
        count = times(2, 30)
        safe = lost = 0
        for number in range(count):
            run = self.running(f"disk-deleted-{number}", _SAFE)
            run.load(TOPIC, producers=8, rate=0)
            run.await_sends(self.random.randrange(100, 600))
            with run.fault(DiskDeleted(run.nodes["master"], "master")):
                run.pause(0.5)
            run.stop_loads()
            run.final_read("slave")
            judgement = run.judge()
            safe += judgement.counts["ok"]
            lost += judgement.counts["lost at slave"]
            run.close()
        run.figure("rounds in which the master's disk was deleted", str(count), str(count))
        run.figure("messages answered with code 0 and lost", "0", f"{lost} of {safe}")


class DivergedTests(ReplicaCase):
    """H3: a master that comes back with another log than the slave has."""

    def came_back(self, run: Round) -> None:
        """The master runs with a wrong log: nothing counts as safe, and the slave keeps every byte it has."""
        slave = run.nodes["slave"]
        kept = logs.digest(slave.plan.store)
        until(lambda: "nothing is copied or removed until" in slave.tail(), 60, "the slave says that the logs differ")
        run.load(TOPIC, label="late", attempts=1, timeout=10.0)
        run.await_sends(50)
        run.pause(5)
        run.stop_loads()
        codes = {ok.code for ok in History(run.recorder.events).acked.values() if ok.value.startswith("late-")}
        run.figure("answers of SYNC_MASTER while the logs differ", "11 or 12", str(sorted(codes)))
        self.assertTrue(codes)
        self.assertLessEqual(codes, {11, 12})
        self.assertEqual(logs.digest(slave.plan.store), kept, "the slave's log changed")

    def test_older(self) -> None:
        """A master that lost the end of its log and went on is not followed; the slave keeps what it alone has."""
        run = self.running("diverged-older", {"brokerRole": "SYNC_MASTER"})
        master = run.nodes["master"]
        master.stop()
        older = master.plan.store + "-older"
        shutil.copytree(master.plan.store, older)
        master.start()
        run.load(TOPIC, label="kept")
        self.safe(run)
        run.stop_loads()
        run.equal("master", "slave")
        master.kill()
        shutil.rmtree(master.plan.store)
        os.rename(older, master.plan.store)
        master.start()
        self.came_back(run)
        self.judged(run)

    def test_empty(self) -> None:
        """A master that comes back with nothing is not followed; the slave keeps its log and its topics."""
        run = self.running("diverged-empty", _SAFE)
        run.load(TOPIC, label="kept")
        self.safe(run)
        run.stop_loads()
        run.nodes["master"].kill()
        shutil.rmtree(run.nodes["master"].plan.store)
        run.nodes["master"].start()
        self.came_back(run)
        self.judged(run)

    def judged(self, run: Round) -> None:
        """Read the slave, without the messages that came to the wrong master: it has everything that was safe."""
        run.final_read("slave")
        run.judge(without="late-")


class PauseTests(ReplicaCase):
    """F13: master, slave or registry stand still."""

    def paused(self, what: str) -> None:
        """Have one of them stand still for each of the times; nothing is lost, and there is one master."""
        run = self.running(f"pause-{what}", {"brokerRole": "SYNC_MASTER"})
        run.load(TOPIC, group="chaos-push", readers="chaos-readers")
        run.await_sends(100)
        for seconds in _PAUSES:
            with run.fault(Pause(run.nodes[what], f"{what} for {seconds} s")):
                run.pause(seconds)
            self.safe(run)
            run.await_sends(100)
        self.assert_back(run)
        self.ended(run)

    def test_master(self) -> None:
        """A master that stands still is the master again afterwards, and has lost nothing."""
        self.paused("master")

    def test_slave(self) -> None:
        """A slave that stands still follows again afterwards."""
        self.paused("slave")

    def test_registry(self) -> None:
        """A registry that stands still gives nobody up afterwards."""
        self.paused("registry")


class LinkTests(ReplicaCase):
    """F16: the link between master and slave."""

    def test_links(self) -> None:
        """A link that is cut, one-way, lossy or slow costs answers of 11 and 12; the logs are equal afterwards."""
        run = self.replicas("replica-links", {"brokerRole": "SYNC_MASTER"})
        delay = Delay(run.hosts["slave"], run.home)
        self.addCleanup(delay.close)
        run.start()
        self.follow(run)
        master, slave = run.hosts["master"], run.hosts["slave"]
        run.load(TOPIC, producers=16, size=2048, timeout=10.0, attempts=1, group="chaos-push")
        run.await_sends(100)
        for fault in (*link_faults(master, slave), SlowLink(master), delay):
            with run.fault(fault):
                run.pause(30 if LONG else 6)
            self.safe(run)
        self.assert_back(run)
        self.ended(run)
