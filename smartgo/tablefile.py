"""
A table kept as one JSON file, replaced as a whole and durably (reliability S12).

RocketMQ's C{config/*.json} and C{kvConfig.json} are such files. They are written as strict JSON with quoted keys,
which RocketMQ reads back, and read leniently, as RocketMQ writes integer keys bare. The previous content stays beside
the file as C{.bak}. When neither can be read the start is refused: an empty table would make consumers skip or repeat
whole topics.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import BadBody, BrokenTable, SmartgoError
from smartgo.observer import Waiters
from smartgo.schema import fastjson

T = TypeVar("T")

LANE = "tables"
"""The thread lane that writes."""

SIZE_LIMIT = 256 * 1024 * 1024
"""The longest file that is read, in bytes."""

_UNREADABLE = (SmartgoError, OSError, msgspec.MsgspecError, ValueError, TypeError, KeyError, AttributeError)


def read_object(data: bytes) -> dict[str, Any]:
    """
    Read a JSON object, bare keys allowed.

    @raise BadBody: it is something else.
    """
    value = fastjson.loads(data)
    if not isinstance(value, dict):
        raise BadBody("it holds no object")
    return value


def holding(read: Callable[[bytes], T], *members: str) -> Callable[[bytes], T]:
    """
    Return a reader that takes only an object in which the table is: without any of C{members} it is not this table, or
    not whole, and to take it for an empty one would lose what was in it.

    @param read: reads the table once that is known. What comes back raises BadBody otherwise.
    """

    def check(data: bytes) -> T:
        found = read_object(data)
        if not any(member in found for member in members):
            raise BadBody(f"it has no {members[0]}")
        return read(data)

    return check


class TableFile:
    """
    One table's file. All methods are called on the reactor thread.

    @ivar path: the main file; the previous content is at C{path + ".bak"}.
    @ivar from_backup: the last L{load} had to take the C{.bak}.
    """

    _log = Logger()

    def __init__(self, env: IEnvironment, path: str) -> None:
        self._env = env
        self.path = path
        self.from_backup = False
        self._busy = False
        self._is_wanted = False  # a save of C{_value} was asked for, and has not begun
        self._value: Any = None
        self._saved: Waiters[None] = Waiters()
        self._settled: Waiters[None] = Waiters()
        self._serial = 0

    # -- reading -------------------------------------------------------------------------------------------

    def load(self, read: Callable[[bytes], Any] = read_object) -> Any:
        """
        Return the table, from the main file or else from its backup; C{None} where there is neither. Blocking.

        @param read: turns the file's bytes into the table; what it raises makes the file unreadable.
        @raise BrokenTable: something is there, and nothing of it can be read.
        """
        self.from_backup = False
        reasons = []
        for path in (self.path, self.path + ".bak"):
            if not self._env.files.exists(path):
                continue
            try:
                table = read(self._content(path))
            except _UNREADABLE as error:
                reasons.append(f"{posixpath.basename(path)}: {error}")
                continue
            self.from_backup = path != self.path
            if self.from_backup:
                self._log.warn("took {path}, as the main file is {state}", path=path, state=reasons or "missing")
            return table
        if reasons:
            raise BrokenTable(self.path, "; ".join(reasons))
        return None

    def set_aside(self) -> list[str]:
        """
        Move file and backup out of the way, so that the table begins anew (C{--reset-broken}); blocking.

        @return: where they are now.
        """
        moved = []
        for path in (self.path, self.path + ".bak"):
            if self._env.files.exists(path):
                aside = f"{path}.broken-{self._env.clock.wall_ms()}"
                self._env.files.rename(path, aside)
                moved.append(aside)
        if moved:
            self._env.files.sync_directory(posixpath.dirname(self.path))
        return moved

    def _content(self, path: str) -> bytes:
        data: bytes = self._env.files.read(path, SIZE_LIMIT + 1)
        if len(data) > SIZE_LIMIT:
            raise BadBody(f"it is longer than {SIZE_LIMIT} B")
        if not data:
            raise BadBody("it is empty")
        return data

    # -- writing -------------------------------------------------------------------------------------------

    def save(self, value: Any) -> Deferred[None]:
        """
        Write the table; fires when it is durable. Cancelling ends the waiting, and not the writing.

        Saves asked for while one runs are done once, after it, with the value given last. A value is turned into JSON
        when its writing begins: a mutable one is written as it is then.

        @raise OSError: through the Deferred; the file is as it was.
        """
        waiter = self._saved.wait()
        self._value = value
        self._is_wanted = True
        if not self._busy:
            self._begin()
        return waiter

    def save_now(self, value: Any) -> None:
        """
        Write the table before returning; for the end of a process. Saves that wait are done with by this one; where
        one is being written, wait for L{settled} before.

        @raise OSError: the file is as it was.
        """
        self._serial += 1
        self._is_wanted = False
        try:
            self._write(self._serial, _encode(value), not self.from_backup)
        except OSError:
            self._saved.fire(Failure())
            raise
        self.from_backup = False
        self._saved.fire(None)

    def settled(self) -> Deferred[None]:
        """Fire when nothing is being written and nothing waits to be; never errs."""
        return self._settled.wait() if self._busy else succeed(None)

    def _begin(self) -> None:
        saved, self._saved = self._saved, Waiters()
        value, self._value = self._value, None
        self._is_wanted = False
        self._busy = True
        self._serial += 1
        try:
            data = _encode(value)
        except TypeError:
            self._ended(Failure(), saved)
            return
        backup = not self.from_backup and not self._env.buggify("table.no-backup")
        written = self._env.threads.run(LANE, self._write, self._serial, data, backup)
        written.addBoth(self._ended, saved)

    def _write(self, serial: int, data: bytes, backup: bool) -> None:
        if serial != self._serial:
            return  # save_now has written something newer
        directory = posixpath.dirname(self.path)
        if directory and not self._env.files.is_directory(directory):
            self._env.files.make_directories(directory)
        # After a start from the backup the main file is broken: it must not become the backup.
        self._env.files.replace(self.path, msgspec.json.format(data, indent=2), backup)

    def _ended(self, result: object, saved: Waiters[None]) -> None:
        self._busy = False
        if not isinstance(result, Failure):
            self.from_backup = False
        if self._is_wanted:
            self._begin()
        saved.fire(result if isinstance(result, Failure) else None)
        if not self._busy:
            self._settled.fire(None)


def _encode(value: Any) -> bytes:
    return msgspec.json.encode(value)
