"""
The audit log: who changed what, from where, when, and with what result (reliability X7).

One JSON object a line, in C{audit.jsonl}; at L{SIZE} bytes it becomes C{audit.jsonl.1}, which replaces the one before,
so that two files at most are kept. Writing is done by a thread, and fails with a line in the log.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.net.tokenbuckets import TokenBuckets
from smartgo.observer import Waiters
from smartgo.ops.security.principals import is_secret

LANE: Final = "tables"
SIZE: Final = 4 * 1024 * 1024
"""Bytes of a file."""
KEPT: Final = 2000
"""Entries in memory, for the API."""
COMMON: Final = 60
"""Entries at once of one name whom anything is refused."""
COMMON_SECONDS: Final = 10.0
"""Until there is room for one more."""

_CUT: Final = 512  # characters of one value or name
_MEMBERS: Final = 32
_DEPTH: Final = 3
_LINK: Final = "code"  # what a login link holds


class AuditEntry(msgspec.Struct, frozen=True, rename="camel"):
    """
    One change, or an attempt at one.

    @ivar at_ms: wall clock.
    @ivar action: the route: C{PUT /topics/{name}}.
    @ivar subject: the names in its path.
    @ivar detail: the request's parameters, with secrets hidden, shortened.
    @ivar status: what was answered.
    @ivar error: the problem's code, where it was one.
    """

    at_ms: int
    request_id: str
    who: str
    address: str
    action: str
    subject: dict[str, str]
    detail: dict[str, Any]
    status: int
    error: str = ""


class AuditLog:
    """The log and its newest entries. Called on the reactor thread."""

    _log = Logger()

    def __init__(self, env: IEnvironment, path: str) -> None:
        self._env = env
        self._path = path
        self._newest: deque[AuditEntry] = deque(maxlen=KEPT)
        self._waiting: list[bytes] = []
        self._settled: Waiters[None] = Waiters()
        self._busy = False
        self._common = TokenBuckets(1 / COMMON_SECONDS, COMMON)
        self._left_out = 0

    def load(self) -> None:
        """Read the newest entries back; blocking. What cannot be read is left out."""
        for path in (self._path + ".1", self._path):
            if not self._env.files.exists(path):
                continue
            for line in self._env.files.read(path, 2 * SIZE).splitlines():
                try:
                    self._newest.append(msgspec.json.decode(line, type=AuditEntry))
                except (msgspec.MsgspecError, UnicodeDecodeError):
                    continue

    def entries(self) -> list[AuditEntry]:
        """Return the newest entries, the newest first."""
        return list(reversed(self._newest))

    def add(self, entry: AuditEntry) -> None:
        """Keep an entry, and write it soon."""
        self._newest.append(entry)
        self._waiting.append(msgspec.json.encode(entry) + b"\n")
        if not self._busy:
            self._begin()

    def add_common(self, entry: AuditEntry) -> None:
        """
        Add an entry of a sender without special rights, unless there are too many under its name.

        Otherwise whoever may do nothing could push out the record of what was done. The next entry says C{leftOut}: how
        many are missing.
        """
        if not self._common.take(entry.who, self._env.clock.seconds()):
            self._left_out += 1
            return
        if self._left_out:
            entry = msgspec.structs.replace(entry, detail={**entry.detail, "leftOut": self._left_out})
            self._left_out = 0
        self.add(entry)

    def settled(self) -> Deferred[None]:
        """Fire when all is written that was added before; never fails."""
        return self._settled.wait() if self._busy else succeed(None)

    def _begin(self) -> None:
        lines, self._waiting = b"".join(self._waiting), []
        self._busy = True
        self._env.threads.run(LANE, self._write, lines).addErrback(self._failed).addCallback(self._written)

    def _failed(self, failure: Any) -> None:
        self._log.failure("the audit log {path} was not written", failure, path=self._path)

    def _written(self, _: object) -> None:
        self._busy = False
        if self._waiting:
            self._begin()
        else:
            self._settled.fire(None)

    def _write(self, lines: bytes) -> None:
        files = self._env.files
        if files.exists(self._path) and files.size(self._path) + len(lines) > SIZE:
            files.rename(self._path, self._path + ".1")
        files.append(self._path, lines)


def shown(value: Any, depth: int = 0) -> Any:
    """Return a value for the log: secrets hidden, long texts, names and lists cut, what is nested deep left out."""
    value = msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value
    if value and depth >= _DEPTH and isinstance(value, dict | list | tuple):
        return "…"
    if isinstance(value, dict):
        items = list(value.items())[:_MEMBERS]
        return {_cut_text(str(name)): hidden(str(name), shown(member, depth + 1)) for name, member in items}
    if isinstance(value, list | tuple):
        return [shown(one, depth + 1) for one in list(value)[:_MEMBERS]]
    return _cut_text(value) if isinstance(value, str) else value


def _cut_text(text: str) -> str:
    return text if len(text) <= _CUT else f"{text[:_CUT]}… ({len(text)} characters)"


def hidden(name: str, value: Any) -> Any:
    """Return a value, or C{***} where its name says that it is secret (reliability X8)."""
    return "***" if value and (is_secret(name) or _LINK in name.lower()) else value
