"""Disks that are files: what stays after a power cut, and what they refuse."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest import SkipTest

from tests.chaos import disks
from tests.chaos.case import ChaosCase
from tests.chaos.disks import EXT4, KINDS, Disk


class DiskTests(ChaosCase):
    """Each kind of disk."""

    def disk(self, kind: str) -> Disk:
        """Return a disk that is mounted; nothing of it is left after the test."""
        reason = disks.unavailable(kind)
        if reason is not None:
            raise SkipTest(f"no {kind} disk: {reason}")
        path: str = self.mktemp()
        disk = Disk(kind, os.path.abspath(path), 512)
        self.addCleanup(disk.remove)
        disk.make()
        return disk

    def test_power_cut(self) -> None:
        """What was flushed is there after a power cut, what was not is gone; meanwhile every access fails."""
        for kind in KINDS:
            disk = self.disk(kind)
            root = Path(disk.path)
            with open(root / "flushed", "wb") as file:
                file.write(b"kept" * 10000)
                file.flush()
                os.fsync(file.fileno())
            (root / "written").write_bytes(b"gone")
            self.assertFalse(disk.dead)
            disk.cut_power()
            self.assertTrue(disk.dead)
            disk.unmount()
            disk.mount()
            self.assertFalse(disk.dead)
            self.assertEqual((root / "flushed").read_bytes(), b"kept" * 10000)
            self.assertFalse((root / "written").exists(), kind)

    def test_removed_dead(self) -> None:
        """A dead disk leaves neither mount nor loop device nor image."""
        for kind in KINDS:
            disk = self.disk(kind)
            disk.cut_power()
            disk.remove()
            self.assertNotIn(disk.path, Path("/proc/mounts").read_text())
            self.assertEqual(os.listdir(os.path.dirname(disk.path)), ["disk"])

    def test_read_only(self) -> None:
        """ext4 that found an error refuses writes and can be read; mounted anew it takes writes."""
        disk = self.disk(EXT4)
        (Path(disk.path) / "there").write_bytes(b"read")
        self.assertFalse(disk.read_only)
        disk.fail_read_only()
        self.assertTrue(disk.read_only)
        self.assertEqual((Path(disk.path) / "there").read_bytes(), b"read")
        disk.unmount()
        disk.mount()
        self.assertFalse(disk.read_only)

    def test_bad_blocks(self) -> None:
        """Blocks of a file that went bad cannot be read, those beside them can; healed, all is as it was."""
        reason = disks.bad_blocks_unavailable()
        if reason is not None:
            raise SkipTest(f"no bad blocks: {reason}")
        disk = self.disk(EXT4)
        path = os.path.join(disk.path, "file")
        data = self.random.randbytes(1 << 20)
        Path(path).write_bytes(data)
        disk.break_blocks(path, (5000, 5001, 300_000))
        for at in (4096, 299_008):
            with open(path, "rb") as file:
                self.assertEqual(os.pread(file.fileno(), 4096, at - 4096), data[at - 4096 : at])
                with self.assertRaises(OSError) as failed:
                    os.pread(file.fileno(), 4096, at)
                self.assertEqual(failed.exception.errno, errno.EIO)
                self.assertEqual(os.pread(file.fileno(), 4096, at + 4096), data[at + 4096 : at + 8192])
        disk.heal()
        self.assertEqual(Path(path).read_bytes(), data)

    def test_full(self) -> None:
        """A filled disk has as little room as asked for, and gives it back."""
        for kind in KINDS:
            disk = self.disk(kind)
            before = disk.free_bytes
            self.assertGreater(disk.fill(1 << 20), before // 2)
            self.assertLess(disk.free_bytes, 3 << 20)
            disk.free()
            disk.fill()
            with (
                self.assertRaises(OSError) as refused,
                open(os.path.join(disk.path, "more"), "wb") as file,
            ):
                os.posix_fallocate(file.fileno(), 0, 1 << 20)
            self.assertEqual(refused.exception.errno, errno.ENOSPC)
