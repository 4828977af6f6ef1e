"""Disks that lose power or become read-only under a broker (F3, F10), on ext4 and xfs."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from unittest import SkipTest

from tests.chaos import disks
from tests.chaos.case import TOPIC, ChaosCase, times
from tests.chaos.disks import EXT4, XFS, Disk
from tests.chaos.history import Crash, Fail, History, Read
from tests.chaos.judgement import Judgement, Kind, Verdict
from tests.chaos.losses import Loss, power_loss
from tests.chaos.nemesis import PowerCut, ReadOnly
from tests.chaos.rounds import Round, until
from tests.chaos.test_kills import told_kinds
from tests.interop.peers import Node

_WINDOW = 1.0  # seconds: what an ASYNC_FLUSH broker may lose (reliability 1)
_SETTLED = 3.0  # seconds after which an ASYNC_FLUSH broker, too, must have seen a flush fail
_REFUSING = 3.0  # seconds of sends to a broker that must refuse them
_YOUNG = (1.0, 10.0)  # seconds between a topic's creation and the cut
_CUTS_EACH = 10  # of a cluster and its disk
_RATE = 600  # sends a second, so that a round takes seconds; each fifth is without a limit
_UNLIMITED_EACH = 5
_MIB = 3072  # of a disk: a broker wants 1 GiB free, the image takes what is written to it


@dataclass(frozen=True)
class PowerRound:
    """
    One round: a new topic, 16 producers, a cut.

    @ivar age: seconds from the topic's first acknowledgement to the cut.
    @ivar window: of the loss, in seconds.
    @ivar others: anomalies beside the loss, in words.
    """

    verdict: str
    age: float
    acked: int
    lost: int
    window: float
    survivors: int
    phantom: int
    corrupt: int
    boot: float
    others: str


class OwnDiskCase(ChaosCase):
    """Rounds with a registry, and a master whose store is on a disk of its own."""

    def with_disk(self, name: str, kind: str, flush: str) -> tuple[Round, Disk]:
        """Return a round in which registry and master run, and the master's disk."""
        reason = disks.unavailable(kind)
        if reason is not None:
            raise SkipTest(f"no {kind} disk: {reason}")
        run = self.round(name)
        disk = Disk(kind, run.home, _MIB)
        self.addCleanup(disk.remove)
        disk.make()
        run.registry()
        run.broker("master", settings={"flushDiskType": flush}, store=os.path.join(disk.path, "store"))
        self.addCleanup(run.nodes["master"].end)
        run.start()
        return run, disk


class PowerTests(OwnDiskCase):
    """F3: the machine of a broker loses power while 16 producers send to a topic that is some seconds old."""

    def cut(self, kind: str, flush: str) -> None:
        """Cut the power as often as is asked for; the flush mode says what may be missing then."""
        left = count = times(1, 50)
        rounds: list[PowerRound] = []
        while left:
            turns = min(left, _CUTS_EACH)
            left -= turns
            run, disk = self.with_disk(f"power-{kind}-{flush}-{left}", kind, flush)
            for turn in range(turns):
                if turn:
                    run.forget()
                rounds.append(self.one_cut(run, disk, turn))
            run.nodes["master"].kill()
            disk.remove()
            run.close()
        boots = sorted(each.boot for each in rounds)
        asked = "0 lost" if flush == "SYNC_FLUSH" else f"a suffix of at most {_WINDOW:g} s lost"
        run.figure(
            f"{kind} {flush}: {count} rounds",
            f"{asked}, 0 phantom, 0 corrupt, the start succeeds",
            f"{sum(each.acked for each in rounds)} acknowledged, {sum(each.lost for each in rounds)} lost in"
            f" {sum(each.lost > 0 for each in rounds)} rounds, window {max(each.window for each in rounds):.2f} s"
            f" at most, {sum(each.survivors for each in rounds)} survivors behind a loss,"
            f" {sum(each.phantom for each in rounds)} phantom, {sum(each.corrupt for each in rounds)} corrupt,"
            f" ready after {boots[len(boots) // 2]:.2f} s in the middle, {boots[-1]:.2f} s at most",
        )
        self.assertEqual({each.verdict for each in rounds}, {Verdict.VALID.value}, rounds)
        self.assertLessEqual(max(each.window for each in rounds), _WINDOW)
        self.assertEqual(sum(each.survivors for each in rounds), 0)
        if flush == "SYNC_FLUSH":
            self.assertEqual(sum(each.lost for each in rounds), 0)

    def one_cut(self, run: Round, disk: Disk, turn: int) -> PowerRound:
        """
        Have a topic made by its first send, cut the power some seconds later, and judge what is there then.

        In every other round nobody sends after the cut, so that no send makes the topic anew (reliability D15): the
        next round shows that sends are taken again.
        """
        master = run.nodes["master"]
        topic = f"Power{turn}"
        age = self.random.triangular(*_YOUNG, _YOUNG[0])
        run.load(topic, producers=16, rate=_RATE if turn % _UNLIMITED_EACH else 0)
        run.await_sends(1)
        run.pause(age)
        with run.fault(PowerCut(master, disk, "master")):
            run.recorder.add(_crash(master, _WINDOW, PowerCut.name))
            if turn % 2:
                run.stop_loads()
        if not turn % 2:
            run.await_sends(16)
            run.stop_loads()
        run.final_read("master")
        loss = power_loss(run.recorder.events, PowerCut.name)
        judgement = run.judgement()
        made = _power_round(judgement, loss, age, master.boot)
        with open(os.path.join(os.path.dirname(run.home), "rounds.jsonl"), "a") as file:
            file.write(json.dumps({"round": run.name, "topic": topic, **asdict(made)}) + "\n")
        run.keep(judgement, topic)
        return made

    def test_ext4_async(self) -> None:
        """ext4, ASYNC_FLUSH: a suffix is lost, of a second at most."""
        self.cut(EXT4, "ASYNC_FLUSH")

    def test_ext4_sync(self) -> None:
        """ext4, SYNC_FLUSH: nothing is lost."""
        self.cut(EXT4, "SYNC_FLUSH")

    def test_xfs_async(self) -> None:
        """xfs, ASYNC_FLUSH."""
        self.cut(XFS, "ASYNC_FLUSH")

    def test_xfs_sync(self) -> None:
        """xfs, SYNC_FLUSH."""
        self.cut(XFS, "SYNC_FLUSH")


class ReadOnlyTests(OwnDiskCase):
    """F10: the disk of a running broker becomes read-only."""

    def refused(self, flush: str) -> None:
        """
        No send is answered with code 0 from the first failed flush on, what was acknowledged can be read, and a
        restart on the mended disk brings the broker back.
        """
        run, disk = self.with_disk(f"read-only-{flush}", EXT4, flush)
        master = run.nodes["master"]
        run.load(TOPIC, producers=16, rate=_RATE, attempts=1)
        run.await_sends(1000)
        begun = run.recorder.now
        with run.fault(ReadOnly(master, disk, "master")):
            if flush == "ASYNC_FLUSH":
                run.pause(_SETTLED)
            late = self.late_sends(run)
            known = sum(ok.code == 0 for ok in History(run.recorder.events).acked.values())
            run.load(TOPIC, label="late", producers=0, readers="late-readers")
            until(lambda: run.recorder.counts[Read] >= known, 60, f"{known} messages read")
            self.assertTrue(master.running, f"the broker ended:\n{master.tail()}")
            run.recorder.add(_crash(master, _WINDOW + run.recorder.now - begun, ReadOnly.name))
        run.figure(f"{flush}: sends answered with code 0 once the disk is read-only", "0", str(late))
        run.figure(f"{flush}: messages read while the disk is read-only", str(known), str(run.recorder.counts[Read]))
        self.assertEqual(late, 0)
        run.await_sends(16)
        self.assert_back(run)
        run.stop_loads()
        run.final_read("master")
        loss = power_loss(run.recorder.events, ReadOnly.name)
        judgement = run.judgement()
        run.keep(judgement, flush)
        run.figure(
            f"{flush}: acknowledged messages that are gone with the disk's unwritten pages",
            "0" if flush == "SYNC_FLUSH" else f"a suffix of at most {_WINDOW:g} s",
            f"{len(loss.values)}, window {loss.window:.2f} s, {loss.survivors} survivors behind the first;"
            f" {judgement.verdict.value}: {told_kinds(judgement.kinds)}",
        )
        self.assertEqual((judgement.verdict, judgement.unknown), (Verdict.VALID, []))
        self.assertEqual(loss.survivors, 0)
        self.assertLessEqual(loss.window, 0 if flush == "SYNC_FLUSH" else _WINDOW)

    def late_sends(self, run: Round) -> int:
        """Let sends go on for a while and return how many that began meanwhile were answered with code 0."""
        begun = run.recorder.now
        run.pause(_REFUSING)
        seen = History(run.recorder.events)
        refused = sum(event.t > begun for event in run.recorder.events if isinstance(event, Fail))
        self.assertGreater(refused, 0, "no send was refused")
        return sum(ok.code == 0 and seen.invoked[ok.value].t > begun for ok in seen.acked.values())

    def test_async(self) -> None:
        """ASYNC_FLUSH."""
        self.refused("ASYNC_FLUSH")

    def test_sync(self) -> None:
        """SYNC_FLUSH."""
        self.refused("SYNC_FLUSH")


def _crash(node: Node, window: float, cause: str) -> Crash:
    """Return the event that a broker lost what it had not flushed within some seconds before now."""
    flushes = node.plan.settings["flushDiskType"] == "SYNC_FLUSH"
    return Crash(broker=node.plan.name, window=window, flushes=flushes, cause=cause)


def _power_round(judgement: Judgement, loss: Loss, age: float, boot: float) -> PowerRound:
    return PowerRound(
        judgement.verdict.value,
        round(age, 2),
        judgement.counts["ok"],
        len(loss.values),
        round(loss.window, 3),
        loss.survivors,
        judgement.kinds[Kind.PHANTOM],
        judgement.kinds[Kind.CORRUPT_BODY],
        round(boot, 2),
        "; ".join([told_kinds(judgement.kinds), *judgement.unknown[:3]]),
    )
