"""Tests for L{benchmarks.proc}."""

from __future__ import annotations

import os
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from benchmarks import proc
from benchmarks.errors import BenchmarkError

STATUS = """\
Name:\tpython
VmPeak:\t  300000 kB
VmHWM:\t   90000 kB
VmRSS:\t   80000 kB
RssAnon:\t   50000 kB
RssFile:\t   30000 kB
Threads:\t4
"""


class ProcTests(SynchronousTestCase):
    """The kernel's texts become figures."""

    def test_cpu(self) -> None:
        """User and system time are added, whatever the program is called."""
        for name in ("python", "a) b (c", "x y"):
            stat = f"7163 ({name}) S 1 7163 7163 0 -1 4194560 9 8 7 6 250 150 11 12 20 0 57 0 1 2 3"
            self.assertAlmostEqual(proc.cpu_seconds(stat) * os.sysconf("SC_CLK_TCK"), 400)

    def test_machine_cpu(self) -> None:
        """Idle and waiting time of the processors do not count as busy."""
        stat = "cpu  100 20 30 4000 500 6 7 8 9 10\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
        self.assertAlmostEqual(proc.machine_cpu_seconds(stat) * os.sysconf("SC_CLK_TCK"), 163)

    def test_memory(self) -> None:
        """Resident, anonymous and peak memory are in bytes."""
        self.assertEqual(proc.memory(STATUS), proc.Memory(80000 << 10, 50000 << 10, 90000 << 10))

    def test_no_memory(self) -> None:
        """A process that is ending has no memory to tell of."""
        self.assertRaises(ValueError, proc.memory, "Name:\tx\nState:\tZ (zombie)\n")

    def test_this_process(self) -> None:
        """A living process has used some time and has some memory."""
        self.assertGreater(proc.read_cpu(os.getpid()), 0)
        memory = proc.read_memory(os.getpid())
        self.assertTrue(0 < memory.anonymous <= memory.resident <= memory.peak)

    def test_threads(self) -> None:
        """The main thread's time is a part of the whole; two readings are subtracted part by part."""
        found = proc.read_threads(os.getpid())
        self.assertTrue(0 < found.main <= found.total + 0.02)
        self.assertEqual(proc.Cpu(5.0, 3.0).since(proc.Cpu(1.0, 0.5)), proc.Cpu(4.0, 2.5))

    def test_resident_outside(self) -> None:
        """Mapped files below the folder do not count, removed ones neither; all else does."""
        smaps = (
            "7f00-7f10 rw-s 00000000 08:01 12                         /s/store/commitlog/0000 1\n"
            "Size:               1000 kB\nRss:                 500 kB\nPss:                 500 kB\n"
            "7f10-7f20 rw-s 00000000 08:01 12                         /s/store/index/1 (deleted)\n"
            "Rss:                 50 kB\n"
            "7f20-7f30 r-xp 00000000 08:01 13                         /s/storehouse/lib.so\n"
            "Rss:                 7 kB\n"
            "7f30-7f40 rw-p 00000000 00:00 0 \n"
            "Rss:                 4 kB\nVmFlags: rd wr mr mw me ac \n"
            "7f40-7f50 rw-p 00000000 00:00 0                          [heap]\n"
            "Rss:                 2 kB\n"
        )
        self.assertEqual(proc.resident_outside(smaps, Path("/s/store")), 13 << 10)

    def test_foreign_cores(self) -> None:
        """Others kept busy what the machine spent and ours did not; it is never less than nothing."""
        self.assertEqual(proc.foreign_cores((10.0, 4.0), (14.0, 6.0), 2.0), 1.0)
        self.assertEqual(proc.foreign_cores((10.0, 4.0), (14.0, 9.0), 2.0), 0.0)

    def test_gone(self) -> None:
        """A process that is gone is said to be so."""
        self.assertRaises(BenchmarkError, proc.read_cpu, 1 << 30)
        self.assertRaises(BenchmarkError, proc.read_memory, 1 << 30)

    def test_file_system(self) -> None:
        """A path lies on the innermost mount around it, a later one over an earlier one."""
        mounts = [
            "/dev/a / ext4 rw 0 0",
            "tmpfs /run tmpfs rw 0 0",
            "b /run/with\\040blank xfs rw 0 0",
            "c / btrfs rw 0 0",
        ]
        self.assertEqual(proc.file_system(Path("/run/with blank/x"), mounts), "xfs")
        self.assertEqual(proc.file_system(Path("/run/x"), mounts), "tmpfs")
        self.assertEqual(proc.file_system(Path("/running"), mounts), "btrfs")
