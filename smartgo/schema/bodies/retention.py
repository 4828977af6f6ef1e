"""The answer to smartgo's own request for what retention would remove (30002)."""

from __future__ import annotations

from smartgo.schema.bodies.shape import Body, always
from smartgo.schema.headerfields import Int64


class ExpiringFile(Body):
    """
    A log file that would be removed now.

    @ivar name: its name in the directory of the CommitLog.
    @ivar size: bytes.
    @ivar modified: when it was last changed, in milliseconds since the epoch.
    @ivar reason: C{expired}, C{disk} or C{size}.
    @ivar why: the same with its numbers, in words.
    """

    name: str
    size: Int64 = always(0)
    modified: Int64 = always(0)
    reason: str = always("")
    why: str = always("")


class RetentionReport(Body):
    """
    The log files that would be removed if somebody asked for it now, the oldest first.

    @ivar kept: why the next one stays, in words.
    @ivar removed_files: how many log files were removed since the broker started, C{removed_bytes} their bytes.
    """

    files: list[ExpiringFile] = always([])
    kept: str = always("")
    removed_files: Int64 = always(0)
    removed_bytes: Int64 = always(0)
