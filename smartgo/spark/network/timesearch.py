"""The first message of a queue that was stored at or after a time: a search by looks at single messages. No I/O."""

from __future__ import annotations


class TimeSearch:
    """
    The search in one queue. The messages of a queue are stored in the order of their times.

    Brokers have a search of their own (29), but RocketMQ's answers with the nearest message, before or after, and with
    any one of those that have the same time. Its answer is where this search begins.

    @ivar found: the offset: the end of the queue where everything is older.
    """

    def __init__(self, minimum: int, maximum: int, hint: int) -> None:
        """
        @param minimum: the queue's first offset; C{maximum} after its last.
        @param hint: about where it is.
        """
        self._low = minimum  # what lies before is older
        self._high = self.found = maximum  # what lies there is not, if anything does
        self._hint = hint
        self._step = 1

    @property
    def probe(self) -> int | None:
        """The offset of the message to look at next, C{None} when the search is over."""
        if self._low >= self._high:
            return None
        return min(max(self._hint, self._low), self._high - 1)

    def learn(self, offset: int, is_older: bool) -> None:
        """
        Take what a look found.

        @param offset: of the message looked at: C{probe}, or behind it where that one is gone.
        @param is_older: it was stored before the time; false where there is none from C{probe} on.
        """
        if is_older:
            self._low = max(self._low, offset + 1)
            guess = self._low + self._step
        else:
            self._high = self.found = min(self._high, offset)
            guess = self._high - 1 - self._step
        # From the hint on in steps that double, and by halves once they lead out of what is left.
        self._step *= 2
        inside = self._low <= guess < self._high
        self._hint = guess if inside and self._step < self._high - self._low else (self._low + self._high) // 2
