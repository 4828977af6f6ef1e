"""
Disks that are files of this machine's own: made, mounted by a loop device, and made to fail.

Needs root, C{mount}, C{umount} and C{losetup}, and C{mkfs.ext4} or C{mkfs.xfs}; for bad blocks C{debugfs}. A disk
keeps everything it was sent before its power was cut; what the file system had not yet sent is lost, as is its
journal's unwritten part.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

EXT4: Final = "ext4"
XFS: Final = "xfs"
KINDS: Final = (EXT4, XFS)

_SHUTDOWN: Final = 0x8004587D
"""C{_IOR('X', 125, __u32)}: C{EXT4_IOC_SHUTDOWN} and C{XFS_IOC_GOINGDOWN}."""
_NO_LOG_FLUSH: Final = 2
"""C{EXT4_GOING_FLAGS_NOLOGFLUSH}, C{XFS_FSOP_GOING_FLAGS_NOLOGFLUSH}: what the journal has in memory is lost."""

_OPTIONS: Final = {EXT4: "errors=remount-ro", XFS: "defaults"}
_MAKE: Final = {EXT4: ("mkfs.ext4", "-q", "-F", "-m", "0"), XFS: ("mkfs.xfs", "-q", "-f")}
_MIB: Final = 1 << 20
_LAST: Final = 64  # blocks at the end of a disk of which the bad ones are
_FILLING: Final = "filling"


class DiskFailed(Exception):
    """A command that arranges a disk did not do so; the text holds it and what it said."""


def unavailable(kind: str) -> str | None:
    """Return why disks of a kind (C{ext4} or C{xfs}) cannot be made here; C{None} where they can."""
    if os.geteuid() != 0:
        return "loop mounts need root"
    tools = ("mount", "umount", "losetup", _MAKE[kind][0])
    absent = [tool for tool in tools if shutil.which(tool) is None]
    if absent:
        return f"not installed: {', '.join(absent)}"
    if not os.path.exists("/dev/loop-control"):
        return "no loop devices"
    known = Path("/proc/filesystems").read_text().split()
    if kind not in known and subprocess.run(["modprobe", "-q", kind], check=False).returncode:
        return f"the kernel has no {kind}"
    return None


def bad_blocks_unavailable() -> str | None:
    """Return why no disk with bad blocks can be made here; C{None} where one can."""
    return unavailable(EXT4) or (None if shutil.which("debugfs") else "not installed: debugfs")


class Disk:
    """
    One disk with one file system.

    @ivar kind: C{ext4} or C{xfs}.
    @ivar path: where it is mounted.
    """

    def __init__(self, kind: str, folder: str, mib: int = 512) -> None:
        """
        @param folder: gets the image, C{disk.img}, and the mount point, C{disk}.
        @param mib: the size of the disk; xfs has at least 300.
        """
        self.kind = kind
        self.path = os.path.join(folder, "disk")
        self._image = os.path.join(folder, "disk.img")
        self._mib = mib
        self._device = ""
        self._bad: dict[int, bytes] = {}  # what stands in bad blocks, by where they begin on the disk

    def make(self) -> None:
        """
        Make the disk and mount it.

        @raise DiskFailed: a command failed.
        """
        os.makedirs(self.path, exist_ok=True)
        with open(self._image, "wb") as image:
            image.truncate(self._mib * _MIB)
        _run(*_MAKE[self.kind], self._image)
        self._device = _run("losetup", "--find", "--show", self._image).strip()
        self.mount()

    def mount(self) -> None:
        """
        Mount the disk; the file system replays its journal.

        @raise DiskFailed: it cannot be mounted.
        """
        _run("mount", "-t", self.kind, "-o", _OPTIONS[self.kind], self._device, self.path)

    def unmount(self) -> None:
        """
        Unmount the disk; nobody may have a file of it open.

        @raise DiskFailed: somebody has.
        """
        _run("umount", self.path)

    def remove(self) -> None:
        """Leave nothing of the disk; for clean-up."""
        with contextlib.suppress(DiskFailed):  # nobody can ask a dead xfs whether it is mounted
            self.unmount()
        if self._device:
            _run("losetup", "--detach", self._device)
            self._device = ""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._image)

    def cut_power(self) -> None:
        """
        Let the file system send nothing to the disk any more, its journal included.

        Whoever writes from now on is told EIO, or nothing at all. The file system is to be unmounted next.

        @raise OSError: the file system refuses.
        """
        root = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(root, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(root)

    def break_blocks(self, path: str, places: Iterable[int]) -> None:
        """
        Let every read of some blocks of a file on ext4 fail with EIO, until L{heal}.

        The blocks are moved to the end of the disk, and the image is cut off there: a loop device answers reads of
        what its image lacks with EIO. The disk is unmounted and mounted for that: nobody may have a file of it open.

        @param places: a byte of each of the blocks, by its place in the file; all were written.
        @raise DiskFailed: a command failed, or the reads do not.
        """
        with open(path, "rb") as file:
            inode, size = os.fstat(file.fileno()).st_ino, os.fstatvfs(file.fileno()).f_bsize
            numbers = sorted({place // size for place in places})
            blocks = [os.pread(file.fileno(), size, number * size) for number in numbers]
        self.unmount()
        end = self._mib * _MIB // size
        told = _run("debugfs", "-R", f"ffb {len(numbers)} {end - _LAST}", self._device)
        free = [int(word) for word in told.partition("found:")[2].split("\n")[0].split()]
        if len(free) != len(numbers) or min(free) < end - _LAST:
            raise DiskFailed(f"the end of the disk is in use: {told.strip()}")
        with open(self._image, "r+b") as image:
            for number, block in zip(free, blocks, strict=True):
                image.seek(number * size)
                image.write(block)
                self._bad[number * size] = block
            os.fsync(image.fileno())
        moves = [f"set_bmap {number} {place}" for number, place in zip(numbers, free, strict=True)]
        commands = "\n".join([f"extent_open <{inode}>", *moves, "extent_close"])
        _run("debugfs", "-w", "-f", "-", self._device, told=commands)
        os.truncate(self._image, min(self._bad))
        self.mount()
        with open(path, "rb") as file:
            for number in numbers:
                try:
                    os.pread(file.fileno(), size, number * size)
                except OSError as error:
                    if error.errno != errno.EIO:
                        raise
                else:
                    raise DiskFailed("a loop device reads what its image lacks")

    def heal(self) -> None:
        """Let the blocks that L{break_blocks} took be read again; files may be open meanwhile."""
        os.truncate(self._image, self._mib * _MIB)
        with open(self._image, "r+b") as image:
            for place, block in self._bad.items():
                image.seek(place)
                image.write(block)
        self._bad.clear()

    @property
    def dead(self) -> bool:
        """Tell whether the file system refuses a new file with EIO: its power was cut."""
        return self._refusal() == errno.EIO

    def fail_read_only(self) -> None:
        """
        Let ext4 find an error in itself, upon which it refuses all writes, as C{errors=remount-ro} says.

        The kernel refuses an ordinary C{mount -o remount,ro} with EBUSY as long as a file is open for writing, so
        this is how a disk under a running broker gets read-only.

        @raise OSError: the kernel cannot be asked for an error; xfs never can.
        """
        name = os.path.basename(self._device)
        Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("an error for a test\n")

    @property
    def read_only(self) -> bool:
        """Tell whether the file system refuses a new file with EROFS."""
        return self._refusal() == errno.EROFS

    def fill(self, leave: int = 0) -> int:
        """
        Take all space but some bytes and return how many bytes were taken.

        @param leave: bytes that stay free; as near to it as blocks allow.
        """
        path = os.path.join(self.path, _FILLING)
        taken = 0
        with open(path, "ab") as file:
            for step in (64 * _MIB, _MIB, 4096):
                while (free := self.free_bytes) - step >= leave and free > 0:
                    try:
                        os.posix_fallocate(file.fileno(), taken, step)
                    except OSError as error:
                        if error.errno != errno.ENOSPC:
                            raise
                        break
                    taken += step
        return taken

    def free(self) -> None:
        """Give back the space that L{fill} took."""
        os.remove(os.path.join(self.path, _FILLING))

    @property
    def free_bytes(self) -> int:
        """The bytes that can still be written; nothing is kept back for root."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def _refusal(self) -> int:
        """Return the error number of an attempt to make a file; 0 where it can be made."""
        path = os.path.join(self.path, ".attempt")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
            os.remove(path)
        except OSError as error:
            return error.errno or 0
        return 0


def _run(*command: str, told: str | None = None) -> str:
    done = subprocess.run(command, input=told, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise DiskFailed(f"{' '.join(command)}: {done.stdout.strip()}")
    return done.stdout
