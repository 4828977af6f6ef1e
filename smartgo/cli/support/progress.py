"""Progress of long work on standard error: one changing line for people, JSON lines for programs."""

from __future__ import annotations

import sys
from typing import Final

import click

from smartgo.cli.support.output import json_line, span
from smartgo.env.interfaces import IClock

INTERVAL: Final = 0.25  # seconds between two lines for people
INTERVAL_JSON: Final = 1.0  # for programs

_BAR: Final = 24


class ProgressLine:
    """
    The progress of one piece of work.

    Use it in a C{with} statement. Nothing is written in the first interval, so that short work stays silent.
    """

    def __init__(self, clock: IClock, what: str, total: int | None = None, terminal: bool | None = None) -> None:
        """
        @param what: the work in a word or two.
        @param total: how much there is to do, if that is known.
        @param terminal: whether standard error is a terminal; detected by default.
        """
        self._clock = clock
        self._what = what
        self._total = total
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._interval = INTERVAL if self._terminal else INTERVAL_JSON
        self._begin = self._told = clock.seconds()
        self._written = False
        self.done = 0

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._written and not self._terminal:
            self._tell(ended=failure[0] is None)
        elif self._written:
            click.echo("\r\x1b[K", nl=False, err=True)

    def advance(self, count: int = 1) -> None:
        """Add C{count} to what is done."""
        self.to(self.done + count)

    def to(self, done: int, total: int | None = None, what: str | None = None) -> None:
        """
        Set how much is done.

        @param what: the present phase of the work; its time starts when it is first given.
        """
        self.done = done
        if total is not None:
            self._total = total
        if what is not None and what != self._what:
            self._what = what
            self._begin = self._clock.seconds()
        if self._clock.seconds() - self._told >= self._interval:
            self._tell()

    def eta(self) -> float | None:
        """Return the seconds left at the rate so far; C{None} if it is unknown."""
        seconds = self._clock.seconds() - self._begin
        if not self._total or not self.done or self.done > self._total:
            return None
        return seconds * (self._total - self.done) / self.done

    def _tell(self, ended: bool = False) -> None:
        self._told = self._clock.seconds()
        self._written = True
        seconds = self._told - self._begin
        eta = self.eta()
        if not self._terminal:
            line = {
                "progress": self._what,
                "done": self.done,
                "total": self._total,
                "seconds": round(seconds, 3),
                "eta_seconds": None if eta is None else round(eta, 1),
                "ended": ended,
            }
            click.echo(json_line(line), err=True)
            return
        words = f"{self._what} {self.done:,}"
        if self._total:
            full = min(_BAR, _BAR * self.done // self._total)
            words = f"{self._what} [{'#' * full}{'.' * (_BAR - full)}] {self.done:,}/{self._total:,}"
        words += f"  {self.done / max(seconds, 0.001):,.0f}/s"
        if eta is not None:
            words += f"  {span(eta)} left"
        click.echo(f"\r{words}\x1b[K", nl=False, err=True)
