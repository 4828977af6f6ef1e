"""The result of an offline check of a store directory."""

from __future__ import annotations

from typing import Final

import msgspec

KEPT: Final = 200
"""Findings that are kept; further ones are only counted."""


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
    The result of checking a store.

    @ivar begin: the physical offset of the first record; C{end}: after the last.
    @ivar clean: the store was closed cleanly and not opened since.
    @ivar more: the number of findings that are not in C{findings}.
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
