"""The wishes about a backup: its rate, and which older ones are removed once it is complete."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Final

import msgspec

from smartgo.env.interfaces import IFiles

ABOUT: Final = "smartgo.backup.json"
"""The file in a backup that describes it, written last: without it the backup is not complete."""


COPY: Final = 4 << 20
"""Bytes that are copied at once."""
_SLICE: Final = 64 << 20  # bytes after which the lane is left for a moment
_RATE_SECONDS: Final = 0.25  # of copying at the rate that is asked for, after which there is a pause


class BackupOptions(msgspec.Struct, frozen=True):
    """
    The wishes about one backup.

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
        return max(COPY, min(_SLICE, int(self.rate * _RATE_SECONDS))) if self.rate else _SLICE


NO_WISHES: Final = BackupOptions()


class BackupAbout(msgspec.Struct):
    """
    The content of L{ABOUT}.

    @ivar store: the directory of the store; C{end}: physical offset up to which the log is in the backup.
    """

    name: str
    store: str
    begun_ms: int
    end: int


def outdated(found: Sequence[BackupAbout], options: BackupOptions, now_ms: int) -> list[str]:
    """
    Return the names of the backups that go, the oldest first: those that neither C{keep} nor C{keep_seconds} keeps.

    Where C{keep} is 0 and there is an age, all but the newest may go.

    @param found: the complete backups of one store; C{now_ms}: the wall clock.
    """
    if not options.keep and not options.keep_seconds:
        return []
    newest = sorted(found, key=lambda one: one.begun_ms, reverse=True)
    oldest_ms = now_ms - options.keep_seconds * 1000 if options.keep_seconds else now_ms
    return [one.name for one in reversed(newest[max(1, options.keep) :]) if one.begun_ms < oldest_ms]


def prune(files: IFiles, directory: str, root: str, options: BackupOptions, now_ms: int) -> list[str]:
    """
    Remove old complete backups of a store; return their names. Blocks.

    One that is not complete, or of another store, is left alone.

    @param directory: in which the backups lie; C{root}: the directory of the store.
    @raise OSError: one could not be removed as a whole.
    """
    if not options.keep and not options.keep_seconds:
        return []
    found = []
    for name in files.list(directory):
        try:
            about = msgspec.json.decode(files.read(posixpath.join(directory, name, ABOUT)), type=BackupAbout)
        except (OSError, msgspec.DecodeError):
            continue
        if about.store == root:
            found.append(msgspec.structs.replace(about, name=name))
    names = outdated(found, options, now_ms)
    for name in names:
        path = posixpath.join(directory, name)
        files.remove(posixpath.join(path, ABOUT))  # what a failure leaves behind is not taken for a backup
        files.remove_tree(path)
    if names:
        files.sync_directory(directory)
    return names
