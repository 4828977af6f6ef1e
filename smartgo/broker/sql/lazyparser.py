"""The parser of SQL92 filters, loaded when the first expression comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from smartgo.broker.sql.expressions import Expression
from smartgo.env.interfaces import IThreads
from smartgo.observer import Waiters

_LANE: Final = "filters"

_Parse = Callable[[str], Expression]


class LazyParser:
    """
    The parser of SQL92 filters of one broker.

    Its library takes some tenths of a second to load, so a broker without such filters never loads it, and one that
    hears of the first of them in a heartbeat or a check loads it in a thread.
    """

    def __init__(self, threads: IThreads) -> None:
        self._threads = threads
        self._parse: _Parse | None = None
        self._loading = False
        self._waiters: Waiters[None] = Waiters()

    def prepare(self) -> Deferred[None] | None:
        """
        Load the parser in a thread.

        @return: a Deferred that fires when that is done, and fails where it cannot be loaded; C{None}: it is there.
        """
        if self._parse is not None:
            return None
        waits = self._waiters.wait()
        if not self._loading:
            self._loading = True
            self._threads.run(_LANE, _load).addBoth(self._loaded)
        return waits

    def parse(self, text: str) -> Expression:
        """
        Parse an expression; load the parser first where that was not done yet.

        @raise smartgo.errors.SubscriptionParseFailed: see L{smartgo.broker.sql.parser.SelectorParser.parse}.
        """
        if self._parse is None:
            self._parse = _load()
        return self._parse(text)

    def _loaded(self, result: _Parse | Failure) -> None:
        self._loading = False
        if isinstance(result, Failure):
            self._waiters.fire(result)
        else:
            self._parse = result
            self._waiters.fire(None)


def _load() -> _Parse:
    from smartgo.broker.sql.parser import SelectorParser

    return SelectorParser().parse
