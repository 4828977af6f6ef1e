"""The findings and the result of a check of a store."""

from __future__ import annotations

from typing import Final

import msgspec

KEPT: Final = 200
"""Findings that are kept; further ones are only counted."""

DAMAGE: Final = "damage"
REPAIR: Final = "repair"
NOTE: Final = "note"


class StoreFinding(msgspec.Struct, frozen=True):
    """
    One problem of a store.

    @ivar weight: C{damage}: messages are lost or unreadable; C{repair}: the next start of a broker repairs it; C{note}:
        nothing needs to be done.
    @ivar where: the file or the queue.
    """

    weight: str
    where: str
    what: str


class StoreCheckResult(msgspec.Struct, kw_only=True):
    """
    The result of a check of a store.

    @ivar begin: the physical offset of the first record; C{end}: after the last.
    @ivar clean: the store was closed cleanly and not opened since.
    @ivar more: the number of findings that are not in C{findings}.
    @ivar tables: the number of files of tables that were read.
    """

    store: str
    clean: bool = True
    log_files: int = 0
    begin: int = 0
    end: int = 0
    records: int = 0
    queues: int = 0
    units: int = 0
    index_files: int = 0
    index_entries: int = 0
    findings: list[StoreFinding] = []
    more: int = 0
    damaged: bool = False
    tables: int = 0

    def find(self, weight: str, where: str, what: str) -> None:
        """Add a finding."""
        self.damaged = self.damaged or weight == DAMAGE
        if len(self.findings) < KEPT:
            self.findings.append(StoreFinding(weight, where, what))
        else:
            self.more += 1


def queue_name(key: tuple[str, int]) -> str:
    """Return a queue's name, for people."""
    return f"topic {key[0]}, queue {key[1]}"
