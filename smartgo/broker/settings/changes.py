"""
Changes of settings while the broker runs: their record, and the part of it that survives a restart. Sans I/O.

Both stand in one file, C{config/changedSettings.json} of the store: a change and its record are written at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from smartgo.errors import BadBody

KEPT: Final = 500
"""Changes that are remembered; the oldest are forgotten first."""


class Who(NamedTuple):
    """The person or connection that asks for a change."""

    name: str
    """As the audit log has it."""
    address: str = ""
    """From where: an IP address, or C{host:port} of a connection."""

    def __str__(self) -> str:
        return self.name if self.address in ("", self.name) else f"{self.name}, {self.address},"


class Asked(NamedTuple):
    """
    A change of settings that somebody asked for over remoting.

    @ivar changes: values as in a file, by name; empty where what came cannot be read.
    @ivar before: what the values were; empty where nothing could be changed.
    @ivar error: why it was declined.
    """

    who: Who
    changes: dict[str, str]
    before: dict[str, str]
    error: BaseException | None


class Kept(msgspec.Struct, frozen=True, rename="camel"):
    """
    A value that holds after a restart, too.

    @ivar value: as in a file.
    """

    value: str
    who: str
    address: str
    at_ms: int


class Change(msgspec.Struct, frozen=True, rename="camel"):
    """
    One setting that was changed.

    @ivar at_ms: wall clock.
    @ivar before: its value before, as in a file; C{after} since.
    @ivar kept_before: what was kept over restarts before; null where nothing was; C{kept_after} since.
    @ivar undoes: the change that this one took back.
    """

    id: int
    at_ms: int
    who: str
    address: str
    table: str
    name: str
    before: str
    after: str
    kept_before: Kept | None = None
    kept_after: Kept | None = None
    undoes: int | None = None

    @property
    def key(self) -> str:
        """The name under which its value is kept."""
        return f"{self.table}.{self.name}"


class Changes(msgspec.Struct, rename="camel"):
    """
    All changes, and the values that are kept over a restart.

    @ivar kept: by C{table.name}.
    @ivar history: the oldest first, L{KEPT} of them at most.
    """

    kept: dict[str, Kept]
    history: list[Change]

    def add(self, change: Change) -> None:
        """Remember a change, with the value that it keeps over a restart."""
        self.history.append(change)
        del self.history[:-KEPT]
        self.keep(change.key, change.kept_after)

    def keep(self, key: str, kept: Kept | None) -> None:
        """Keep a value over a restart, or no longer."""
        if kept is None:
            self.kept.pop(key, None)
        else:
            self.kept[key] = kept

    @property
    def next_id(self) -> int:
        """The id of the next change."""
        return self.history[-1].id + 1 if self.history else 1

    def replace(self, old: Sequence[Change], new: Sequence[Change]) -> None:
        """Put changes in place of others with the same ids."""
        by_id = {one.id: one for one in new}
        self.history = [by_id.get(one.id, one) if one in old else one for one in self.history]


def read_changes(data: bytes) -> Changes:
    """Read the file. @raise BadBody: it is something else."""
    try:
        return msgspec.json.decode(data, type=Changes)
    except msgspec.MsgspecError as error:
        raise BadBody(f"it holds no changed settings: {error}") from None


def written(at_ms: int) -> str:
    """Return a time as people read it, in UTC."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"
