"""The answer to smartgo's own request for a backup of a broker's store (30003)."""

from __future__ import annotations

from smartgo.schema.bodies.shape import Body, always
from smartgo.schema.headerfields import Int64


class BackupReport(Body):
    """
    The last backup that a broker made since its start; all fields are empty if there is none.

    @ivar name: its name; C{directory} on the broker's machine.
    @ivar state: C{running}, C{done}, C{failed} or C{cancelled}; empty for none.
    @ivar begun: wall clock in milliseconds since the epoch; C{ended} 0 while it runs.
    @ivar files: so far; C{linked}: of them are hard links; C{copied}: bytes that were copied.
    @ivar end: physical offset up to which the log is in the backup.
    @ivar size: bytes of all that is to be copied, holes of files left out, 0 until that is known; C{done}: of them are.
    @ivar removed: names of older backups that were removed after it was complete.
    @ivar error: why it failed.
    """

    name: str = always("")
    directory: str = always("")
    state: str = always("")
    begun: Int64 = always(0)
    ended: Int64 = always(0)
    files: Int64 = always(0)
    linked: Int64 = always(0)
    copied: Int64 = always(0)
    end: Int64 = always(0)
    size: Int64 = always(0)
    done: Int64 = always(0)
    removed: list[str] = always([])
    error: str = always("")
