"""Small disks that are full, or gone, under a running broker (F8, and the dead disk of F9)."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from unittest import SkipTest

from tests.chaos import disks
from tests.chaos.case import LONG, TOPIC
from tests.chaos.diskcase import REFUSED, SMALL_LOG, SYNC, DiskCase
from tests.chaos.disks import EXT4, XFS, Disk
from tests.chaos.history import History
from tests.chaos.pulls import pull
from tests.chaos.rounds import Round

_MIB = 1 << 20
_SMALL = 64  # MiB of a disk
_XFS_SMALLEST = 300  # MiB
_BACK = 10.0  # seconds
_LIMIT = 1.0  # seconds: for the first refusal, and for each
_USED_UP = 10.0  # seconds in which the log file that has its blocks already is full of messages
_LEFT = 64 << 10  # bytes that may be left of a disk that counts as full
#: No byte has to stay free, so that the disk becomes really full; nothing is removed, so that nothing may be missing.
_FULL = {**SMALL_LOG, "diskFreeMinimum": "0", "cleanFileForciblyEnable": "false"}

#: The room on the disk is asked for after a flush: here it is full, with no block left for any file, for a long time.
_SELDOM = {"flushIntervalCommitLog": "60000"}


class MemoryDisk(Disk):
    """A disk in memory: tmpfs."""

    def __init__(self, folder: str, mib: int) -> None:
        super().__init__("tmpfs", folder, mib)
        self._size = mib

    def make(self) -> None:
        """Mount it, empty."""
        os.makedirs(self.path, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self._size}m", "tmpfs", self.path], check=True)


class DiskFull:
    """Somebody else takes all the space of a disk."""

    name = "disk full"

    def __init__(self, disk: Disk) -> None:
        self.target = f"{disk.kind} of {_SMALL} MiB"
        self._disk = disk

    def begin(self) -> None:
        self._taken = self._disk.fill()

    def end(self) -> int:
        left = self._disk.free_bytes
        self._disk.free()
        return self._taken if left <= _LEFT else 0


class DiskGone:
    """A disk takes and gives nothing any more, while everybody goes on."""

    name = "disk gone"

    def __init__(self, disk: Disk) -> None:
        self.target = disk.kind
        self._disk = disk

    def begin(self) -> None:
        self._disk.cut_power()

    def end(self) -> int:
        return int(self._disk.dead)


class SmallDiskCase(DiskCase):
    """Rounds whose broker has a small disk of its own."""

    def on_disk(self, name: str, disk: Disk, settings: Mapping[str, str]) -> Round:
        """Return a round in which registry and master run, the master on a disk, and which has a topic."""
        self.addCleanup(disk.remove)
        disk.make()
        self.addCleanup(put_right, disk)
        run = self.round(name)
        run.registry()
        node = run.broker("master", settings=settings)
        self.addCleanup(node.end)
        node.plan = replace(node.plan, store=os.path.join(disk.path, "store"))
        run.start()
        run.topic(TOPIC)
        return run

    def loop_disk(self, kind: str, mib: int) -> Disk:
        """Return a disk in a file. @raise SkipTest: it cannot be made here."""
        reason = disks.unavailable(kind)
        if reason is not None:
            raise SkipTest(f"no {kind} disk: {reason}")
        return Disk(kind, os.path.abspath(self.mktemp()), mib)


def put_right(disk: Disk) -> None:
    """Unmount a disk that a test left dead: what asks it anything is told EIO, also whether it is mounted."""
    if disk.dead:
        disk.unmount()


class FullTests(SmallDiskCase):
    """F8: the disk is full, and has room again later."""

    def full(self, disk: Disk, settings: Mapping[str, str]) -> None:
        """Fill a disk under load, free it, and check the answers."""
        name = f"full-{disk.kind}-{'-'.join(settings) or 'async'}"
        run = self.on_disk(name, disk, {**_FULL, **settings})
        node = run.nodes["master"]
        run.load(TOPIC, producers=8, attempts=1, timeout=10.0, rate=0, size=4096, group="chaos-push")
        run.await_sends(300)
        for turn in range(3 if LONG else 1):
            fault = DiskFull(disk)
            with run.fault(fault):
                begun = run.recorder.now
                first = self.await_refusal(run, begun)
                self.assert_read_again(run, f"full-{turn}")
                run.pause(3)
                told, took = pull(node, TOPIC, 0, 0)
                self.assertTrue(node.running)
                ended = run.recorder.now
            self.refused(run, begun, ended, first, _USED_UP if settings == _SELDOM else _LIMIT)
            run.figure("a pull while the disk is full", "code 0", f"{told and told.code} in {took:.3f} s")
            self.assertEqual(told and told.code, 0)
            run.await_sends(100)
            self.assert_back(run, _BACK)
        self.finish(run)
        code = node.stop()
        run.figure("exit status, no SIGBUS", "0", str(code))
        self.assertEqual(code, 0)

    def refused(self, run: Round, begun: float, ended: float, first: float, limit: float) -> None:
        """Check the refusals between two moments, the first of which came so soon after the disk was full."""
        run.figure("the first send refused with 14", f"{limit:g} s after the disk was full", f"{first:.2f} s")
        seen = History(run.recorder.events)
        refusals = [(took, why) for took, why in self.refusals_after(run, begun)]
        longest = max(took for took, _ in refusals)
        late = self.answers_between(seen, begun + first + _LIMIT, ended)
        asked = f"14 within {_LIMIT:g} s"
        run.figure("sends refused while the disk is full", asked, f"{len(refusals)}, each in {longest:.3f} s")
        run.figure("sends taken later than that", "0", str(late))
        self.assertEqual([why for _, why in refusals if not why.startswith(REFUSED)], [])
        self.assertLessEqual(first, limit)
        self.assertLessEqual(longest, _LIMIT)
        self.assertEqual(late, 0)

    def answers_between(self, seen: History, begin: float, end: float) -> int:
        """Return how many sends that began between two moments were taken before the second."""
        return sum(begin < seen.invoked[ok.value].t and ok.t < end for ok in seen.acked.values())

    def test_ext4(self) -> None:
        """A full ext4 of 64 MiB costs sends, which are answered 14; no message, no pull, and no restart."""
        for settings in (_SELDOM, {}, SYNC) if LONG else (SYNC,):
            self.full(self.loop_disk(EXT4, _SMALL), settings)

    def test_tmpfs(self) -> None:
        """The same on tmpfs, where writing to a page without a block ends a process at once."""
        for settings in (_SELDOM, {}, SYNC) if LONG else (_SELDOM,):
            self.full(MemoryDisk(os.path.abspath(self.mktemp()), _SMALL), settings)


class GoneTests(SmallDiskCase):
    """F9: the disk goes away under a living broker. What was acknowledged before is there when it is back."""

    def gone(self, kind: str, mib: int) -> None:
        """Cut the power of a disk under load; check the answers, and what is there afterwards."""
        disk = self.loop_disk(kind, mib)
        run = self.on_disk(f"gone-{kind}", disk, {**_FULL, **SYNC})
        node = run.nodes["master"]
        run.load(TOPIC, producers=8, attempts=1, timeout=10.0, rate=200, group="chaos-push")
        run.await_sends(300)
        with run.fault(DiskGone(disk)):
            begun = run.recorder.now
            first = self.await_refusal(run, begun)
            run.pause(3)
            self.assert_read_again(run, "gone")
            self.assertTrue(node.running)
        wrong = self.answers_after(run, begun)
        run.figure("the first send refused with 14", "soon", f"{first:.2f} s after the disk went")
        run.figure("code 0 for sends begun after the disk went", "0", str(len(wrong)))
        self.assertEqual(wrong, [])
        run.stop_loads()
        node.end()
        disk.unmount()
        disk.mount()
        self.finish(run, restart=True)
        node.stop()

    def test_ext4(self) -> None:
        """On ext4 nothing is answered with code 0 any more; the process lives, and reads go on."""
        self.gone(EXT4, _SMALL)

    def test_xfs(self) -> None:
        """The same on xfs."""
        self.gone(XFS, _XFS_SMALLEST)
