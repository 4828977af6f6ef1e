"""The options of a backup: its rate, and which older ones are removed once it is complete."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Final

import msgspec
from twisted.logger import Logger

from smartgo.env.interfaces import IClock, IFiles
from smartgo.store.retention import AgreeingClocks

ABOUT: Final = "smartgo.backup.json"
"""The file in a backup that describes it, written last: without it the backup is not complete."""

COPY: Final = 4 << 20
"""Bytes that are copied at once."""
_LEAST: Final = 4096  # bytes of a portion at a very low rate
_SLICE: Final = 64 << 20  # bytes after which the lane is left for a moment
_RATE_SECONDS: Final = 0.25  # of copying at the rate that is asked for, after which there is a pause


class BackupOptions(msgspec.Struct, frozen=True):
    """
    The options of one backup.

    @ivar rate: bytes per second that it copies at most; 0 for no limit.
    @ivar keep: how many of the newest complete backups of the store stay, this one included; 0: all of them,
        unless C{keep_seconds} is given.
    @ivar keep_seconds: backups that are younger stay, too; 0: only those that C{keep} names. Where it is given and
        C{keep} is 0, all that are older go, but the newest.
    """

    rate: int = 0
    keep: int = 0
    keep_seconds: float = 0.0

    @property
    def portion(self) -> int:
        """Bytes that are copied before the lane is left, and a pause is made where there is a rate."""
        return max(_LEAST, min(_SLICE, int(self.rate * _RATE_SECONDS))) if self.rate else _SLICE


NO_OPTIONS: Final = BackupOptions()


class BackupAbout(msgspec.Struct):
    """
    The content of L{ABOUT}.

    @ivar store: the directory of the store; C{end}: physical offset up to which the log is in the backup.
    """

    name: str
    store: str
    begun_ms: int
    end: int


def outdated(found: Sequence[BackupAbout], new: BackupAbout, options: BackupOptions, now_ms: int) -> list[str]:
    """
    Return the names of the backups that go, the oldest first: those that neither C{keep} nor C{keep_seconds} keeps.

    Where C{keep} is 0 and there is an age, all but the new one may go. One that seems to have begun after the new one
    stays: the clock was wrong at one of the two.

    @param found: the complete backups of one store; C{new}: the one that was just made, which stays.
    @param now_ms: the wall clock.
    """
    if not options.keep and not options.keep_seconds:
        return []
    older = [one for one in found if one.name != new.name and one.begun_ms < new.begun_ms]
    older.sort(key=lambda one: one.begun_ms, reverse=True)
    oldest_ms = now_ms - options.keep_seconds * 1000 if options.keep_seconds else now_ms
    return [one.name for one in reversed(older[max(0, options.keep - 1) :]) if one.begun_ms < oldest_ms]


class BackupPruning:
    """
    Removes old backups of one store.

    @ivar stopped: set by L{stop}.
    """

    _log = Logger()

    def __init__(self, files: IFiles, clock: IClock) -> None:
        self._files = files
        self._clock = clock
        self._clocks = AgreeingClocks()
        self.stopped = False
        self.believes_ages()

    def believes_ages(self) -> bool:
        """Read the clocks; return whether the wall clock was not set lately (docs/spec/reliability#H9)."""
        return self._clocks.read(self._clock.seconds(), self._clock.wall_ms())

    def stop(self) -> None:
        """Remove nothing more."""
        self.stopped = True

    def prune(self, directory: str, new: BackupAbout, options: BackupOptions) -> list[str]:
        """
        Remove old complete backups of a store; return their names. Blocks.

        One that is not complete, of another store, or that somebody renamed or copied, is left alone. One that cannot
        be removed spoils nothing.

        @param directory: in which the backups lie; C{new}: the backup that was just made, which stays.
        """
        if not options.keep and not options.keep_seconds:
            return []
        if not self.believes_ages() and options.keep_seconds:
            self._log.warn("no old backup is removed: the clock was set lately, so that their ages are not believed")
            return []
        removed: list[str] = []
        try:
            for name in outdated(self._complete(directory, new.store), new, options, self._clock.wall_ms()):
                if self.stopped:
                    break
                path = posixpath.join(directory, name)
                self._files.remove(
                    posixpath.join(path, ABOUT)
                )  # what a failure leaves behind is not taken for a backup
                self._files.remove_tree(path)
                removed.append(name)
                self._log.info("the old backup {name} was removed", name=name)
            if removed:
                self._files.sync_directory(directory)
        except OSError as error:
            self._log.warn("old backups could not be removed: {error}", error=str(error))
        return removed

    def remove(self, directory: str) -> None:
        """Remove what there is of a backup that was cancelled. Blocks."""
        try:
            self._files.remove_tree(directory)
        except OSError as error:
            self._log.warn("{path} could not be removed: {error}", path=directory, error=str(error))

    def _complete(self, directory: str, root: str) -> list[BackupAbout]:
        """Return the complete backups of a store that still have the names under which they were made."""
        found = []
        for name in self._files.list(directory):
            try:
                about = msgspec.json.decode(self._files.read(posixpath.join(directory, name, ABOUT)), type=BackupAbout)
            except (OSError, msgspec.DecodeError):
                continue
            if about.store == root and about.name == name:
                found.append(about)
        return found
