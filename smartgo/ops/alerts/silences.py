"""
Silences: known alerts that do not count for a while. Sans I/O, without a clock.

An alert about the process that judges has no subject. It is silenced by the name L{PROCESS}, or by that of the broker
in the process; a silence without a subject is about all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import msgspec

from smartgo.errors import BadBody

SILENCES: Final = 200
"""Silences at a time."""
PROCESS: Final = "the process"
"""The subject of silences about the process that judges."""


class Silence(msgspec.Struct, frozen=True, rename="camel"):
    """
    Known alerts that are not counted for a while.

    @ivar rule: only this rule; empty: any.
    @ivar subject: only this subject; empty: any.
    @ivar until_ms: wall clock.
    """

    id: int
    rule: str
    subject: str
    until_ms: int
    who: str
    at_ms: int
    comment: str


class SilenceTable:
    """The silences that are in force."""

    def __init__(self, own: Callable[[], Collection[str]]) -> None:
        """@param own: returns the names that the process that judges has as a subject, besides L{PROCESS}."""
        self._own = own
        self._longest: dict[tuple[str, str], Silence] = {}  # by rule and subject
        self.all: list[Silence] = []

    def set(self, silences: list[Silence]) -> None:
        """Replace all silences, the oldest first."""
        self.all = silences
        self._longest = {(one.rule, one.subject): one for one in sorted(silences, key=lambda one: one.until_ms)}

    def of(self, rule: str, subject: str, now_ms: int) -> Silence | None:
        """Return the silence over an alert that lasts longest; C{None}: there is none."""
        names = ["", subject] if subject else ["", PROCESS, *self._own()]
        places = [(one, name) for one in ("", rule) for name in names]
        found = [self._longest[one] for one in places if one in self._longest]
        longest = max(found, key=lambda one: one.until_ms, default=None)
        return None if longest is None or longest.until_ms <= now_ms else longest

    def end_due(self, now_ms: int) -> None:
        """Drop the silences whose time is over."""
        left = [one for one in self.all if one.until_ms > now_ms]
        if len(left) < len(self.all):
            self.set(left)

    def add(self, silence: Silence) -> None:
        """Add a silence. @raise BadBody: there are too many."""
        self.end_due(silence.at_ms)
        if len(self.all) >= SILENCES:
            raise BadBody(f"there are {SILENCES} silences already; end some of them")
        self.set([*self.all, silence])

    def end(self, id: int) -> Silence:
        """End a silence; return it. @raise LookupError: there is none."""
        for one in self.all:
            if one.id == id:
                self.set([other for other in self.all if other is not one])
                return one
        raise LookupError(id)
