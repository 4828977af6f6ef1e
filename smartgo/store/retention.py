"""
The decisions about which CommitLog files are removed, and why; pure: no clock, no disk, no thread.

The oldest files go first, each as a whole, and never the one that is written to. RocketMQ's conditions are age, at an
hour of the day or above a use of the disk, and above a higher use any age. Ours are, besides, the total size of the
log and free bytes; and the next log file counts as used, so that the disk does not pass the ratio when that is made.
Source: C{store/DefaultMessageStore.java},
C{CleanCommitLogService}; C{MappedFileQueue.deleteExpiredFileByTime}; docs/spec/store#deletion and
docs/spec/reliability#D13.

A file is not removed for the sake of a disk that would be too full for new messages even without it: what fills such a
disk is not the log, and its messages can still be read.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final, NamedTuple

import msgspec

from smartgo.schema.sizes import size_text

BATCH: Final = 10
"""Log files that one run removes at most (C{DELETE_FILES_BATCH_MAX})."""

_FIRST_LOOK: Final = 60.0  # seconds
_FIRST_LOOK_AT_SIZE: Final = 10.0
_GIB: Final = 1 << 30
_HOUR: Final = 3600.0
_CLOCKS_APART: Final = 60.0
"""Seconds by which the wall clock may differ from the monotonic one between two readings."""
_SETTLING: Final = 600.0
"""Seconds for which no age is believed after the wall clock was set (docs/spec/reliability#H9)."""


class RetentionRules(msgspec.Struct, frozen=True, kw_only=True):
    """
    The settings of retention. Times are seconds, sizes bytes, ratios shares of the file system.

    @ivar reserved: how long a file is kept after its last change (C{fileReservedTime}).
    @ivar hours: hours of the local day at which files of that age are removed (C{deleteWhen}).
    @ivar used_ratio: disk use above which they are removed at any hour (C{diskMaxUsedSpaceRatio}).
    @ivar forcible: remove files of any age where the disk is nearly full (C{cleanFileForciblyEnable}).
    @ivar forcible_ratio: disk use that the next log file must not pass (C{diskSpaceCleanForciblyRatio}).
    @ivar full_ratio: disk use from which on the store takes no messages (C{diskSpaceWarningLevelRatio}).
    @ivar free_minimum: free space below which it takes none (reliability L20).
    @ivar log_size: total size of the log files above which the oldest go, whatever their age; C{None}: any size.
    @ivar interval: from one look at the disk to the next (C{cleanResourceInterval}).
    @ivar file_pause: between the removals of two log files (C{deleteCommitLogFilesInterval}).
    @ivar queue_file_pause: between the removals of two batches of queue files (C{deleteConsumeQueueFilesInterval}).
    @ivar longest_hold: how long a file that somebody reads is kept (C{destroyMapedFileIntervalForcibly}).
    """

    reserved: float = 72 * _HOUR
    hours: tuple[int, ...] = (4,)
    used_ratio: float = 0.75
    forcible: bool = True
    forcible_ratio: float = 0.85
    full_ratio: float = 0.90
    free_minimum: int = _GIB
    log_size: int | None = None
    interval: float = 10.0
    file_pause: float = 0.1
    queue_file_pause: float = 0.1
    longest_hold: float = 120.0

    @property
    def first_look(self) -> float:
        """Return the time from the start to the first look. Slaves are back within 5 s: their files are known then."""
        return _FIRST_LOOK if self.log_size is None else _FIRST_LOOK_AT_SIZE


class RemovalReason(Enum):
    """The reasons for which a log file is removed. Tools read the values: they stay as they are."""

    EXPIRED = "expired"
    """It is older than the time that files are kept."""
    DISK = "disk"
    """The disk is nearly full."""
    SIZE = "size"
    """The log is larger than it may be."""


class LogFile(NamedTuple):
    """A file of the log, as far as a decision needs it."""

    path: str
    base: int
    """Physical offset of its first byte."""
    size: int
    """Bytes."""
    modified_ms: int
    """When it was last changed."""


class DiskSpace(NamedTuple):
    """The file system of the log."""

    total: int
    """Bytes."""
    free: int
    """Bytes."""
    ahead: int = 0
    """Bytes that the next log file will take; 0 where it has its blocks already."""

    @property
    def used(self) -> float:
        """Return the share in use."""
        return (self.total - self.free) / self.total if self.total else 0.0

    @property
    def soon(self) -> float:
        """Return the share in use once the next log file has its blocks."""
        return (self.total - self.free + self.ahead) / self.total if self.total else 0.0


class RetentionMoment(NamedTuple):
    """The time, the disk and the wishes that a decision depends on beside the files and the rules."""

    now_ms: int
    """The wall clock, in milliseconds since the epoch."""
    hour: int
    """Of the local day."""
    disk: DiskSpace
    keep_from: int
    """Physical offset; a file that goes beyond it is needed: it is written to, or by the next recovery."""
    asked: bool = False
    """Somebody asked for the removal of expired files now."""
    clocks_agree: bool = True
    """The wall clock was not set lately, so that ages can be believed."""
    clocks_compared: bool = True
    """There are two readings of the clocks to compare; before that they do not agree."""
    master_minimum: int | None = None
    """Of a slave: where its master's log begins; what that still has does not expire here. C{None}: anything may."""


class Removal(NamedTuple):
    """A log file that goes."""

    file: LogFile
    reason: RemovalReason
    words: str
    """The reason with its numbers, after "because"."""


class RetentionPlan(NamedTuple):
    """
    The files that go now, oldest first, and why the next one stays.

    @ivar kept: the reason, after "because".
    """

    removals: list[Removal]
    kept: str


def decide(files: Sequence[LogFile], moment: RetentionMoment, rules: RetentionRules) -> RetentionPlan:
    """
    Decide which log files go now.

    @param files: all files of the log, oldest first; the last one always stays.
    """
    removable = [file for file in files[:-1] if file.base + file.size <= moment.keep_from]
    left = sum(file.size for file in files)
    possible = sum(file.size for file in removable)
    disk = moment.disk
    removals: list[Removal] = []
    for file in removable:
        found = _of_size(left, rules) or _of_disk(disk, possible, rules) or _of_age(file, moment, rules)
        if isinstance(found, str):
            return RetentionPlan(removals, found)
        removals.append(Removal(file, *found))
        left -= file.size
        possible -= file.size
        disk = disk._replace(free=min(disk.total, disk.free + file.size))
    if len(removable) < len(files) - 1:
        return RetentionPlan(removals, "the next start may need it")
    return RetentionPlan(removals, "the log is written there" if files else "the log has no file")


_Due = tuple[RemovalReason, str]


def _of_size(left: int, rules: RetentionRules) -> _Due | None:
    if rules.log_size is None or left <= rules.log_size:
        return None
    return RemovalReason.SIZE, f"the log has {left} B, and {rules.log_size} B are allowed (maxLogTotalSize)"


def _of_disk(disk: DiskSpace, possible: int, rules: RetentionRules) -> _Due | None:
    """@param possible: bytes that can be had by removing files."""
    words = shortage(disk, rules) if rules.forcible else None
    if words is None:
        return None
    after = disk._replace(free=min(disk.total, disk.free + possible))
    if after.soon > rules.full_ratio or after.free < rules.free_minimum:
        return None  # it would be too full without any of them
    return RemovalReason.DISK, words


def shortage(disk: DiskSpace, rules: RetentionRules) -> str | None:
    """
    Return what the disk is short of, for which files of any age go; C{None} where there is room.

    There has to be room for the next log file, too, so that the disk stays below the ratio when that is made.
    """
    if disk.soon > rules.forcible_ratio:
        return (
            f"the disk will be {disk.soon:.1%} full with the next log file, and files of any age go above"
            f" {rules.forcible_ratio:.0%} (diskSpaceCleanForciblyRatio)"
        )
    if disk.total and disk.free - disk.ahead < rules.free_minimum:
        return (
            f"the disk will have {size_text(disk.free - disk.ahead)} free with the next log file, and"
            f" {size_text(rules.free_minimum)} are demanded (diskFreeMinimum)"
        )
    return None


def _of_age(file: LogFile, moment: RetentionMoment, rules: RetentionRules) -> _Due | str:
    """Return why a file goes, or why it stays."""
    age = (moment.now_ms - file.modified_ms) / 1000
    kept = f"it was last changed {age / _HOUR:.1f} h ago, and files are kept for {rules.reserved / _HOUR:g} h"
    if age < rules.reserved:
        return kept
    doubt = doubt_of_age(moment.clocks_compared, moment.clocks_agree)
    if doubt is not None:
        return doubt
    if moment.master_minimum is not None and file.base + file.size > moment.master_minimum:
        return "this is a slave, and its master is not known to have removed the same file"
    if not moment.asked and moment.hour not in rules.hours and moment.disk.used <= rules.used_ratio:
        hours = ", ".join(f"{hour:02}" for hour in rules.hours)
        return (
            f"{kept}, but expired files go at the hours {hours} (deleteWhen) or above {rules.used_ratio:.0%} disk use"
        )
    return RemovalReason.EXPIRED, f"{kept} (fileReservedTime)"


def doubt_of_age(compared: bool, agree: bool) -> str | None:
    """Return why an age is not believed yet, C{None} where it is; the arguments are those of L{AgreeingClocks}."""
    if not compared:
        return "its age is not believed yet: the broker has just begun to compare its clocks, which takes some seconds"
    return None if agree else "the clock was set lately, so that its age is not believed yet"


class AgreeingClocks:
    """
    Compares the wall clock with the monotonic one, so that a wall clock that is set expires no file.

    No age is believed before two readings agreed, nor within ten minutes after two that did not
    (docs/spec/reliability#H9).

    @ivar compared: whether there were two readings.
    """

    def __init__(self) -> None:
        self._last: tuple[float, int] | None = None
        self._set_at: float | None = None
        self.compared = False

    def read(self, seconds: float, wall_ms: int) -> bool:
        """
        Take a reading of both; return whether ages can be believed.

        @param seconds: of the monotonic clock.
        """
        last, self._last = self._last, (seconds, wall_ms)
        if last is None:
            return False
        self.compared = True
        if abs((wall_ms - last[1]) / 1000 - (seconds - last[0])) > _CLOCKS_APART:
            self._set_at = seconds
        return self._set_at is None or seconds - self._set_at >= _SETTLING
