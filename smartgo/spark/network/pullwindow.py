"""
The pulls of one range of a queue, several under way at once: what to ask next, and what came, in order. No I/O.

A range is cut into blocks of so many offsets. Each block is asked for from its begin on; an answer that ends before the
block does (a broker bounds the bytes of an answer, docs/spec/broker#pull) leads to one more pull for the rest. Several
blocks are asked for at the same time, and their answers may come in any order. A block's records are given out when all
blocks before it are through. When much is kept for that, only the first block goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

PULL_LIMIT: Final = 32
"""Messages of one pull: brokers give no more (reliability L17)."""
STRIDE: Final = PULL_LIMIT
"""Offsets of a block where every message is wanted: one pull, if the messages are small."""
FILTERED_STRIDE: Final = 800
"""Offsets of a block where the broker filters: what one pull scans at least."""
DEPTH: Final = 16
"""Pulls under way at once."""
KEPT: Final = 32 << 20
"""Bytes that came before what is in front of them, beyond which nothing new is asked for."""


class Ask(NamedTuple):
    """
    A pull.

    @ivar offset: queue offset to begin at.
    @ivar most: messages wanted.
    """

    offset: int
    most: int


class PulledPart(NamedTuple):
    """
    Records of a queue.

    @ivar begin: queue offset from which on they were asked for; C{end} from which on they do not count.
    @ivar body: the records, one after another.
    """

    begin: int
    end: int
    body: bytes


class _Block:
    """
    Offsets that are asked for one after another.

    @ivar at: from which offset on the rest is to be asked for.
    @ivar waits: an answer is awaited.
    """

    def __init__(self, begin: int, end: int) -> None:
        self.at = begin
        self.end = end
        self.waits = False
        self.parts: list[PulledPart] = []


class PullWindow:
    """The state of the pulls of one range."""

    def __init__(self, begin: int, end: int, stride: int = STRIDE, depth: int = DEPTH, kept: int = KEPT) -> None:
        """
        @param begin: the first queue offset wanted; C{end} after the last.
        @param stride: offsets of a block.
        @param depth: pulls under way at most.
        @param kept: bytes kept at most before nothing new is asked for.
        """
        self._next = begin
        self._end = end
        self._stride = stride
        self._depth = depth
        self._most = kept
        self._kept = 0
        self._blocks: deque[_Block] = deque()
        self._asked: dict[int, _Block] = {}

    @property
    def is_done(self) -> bool:
        """Tell whether all was given out."""
        return not self._blocks and self._next >= self._end

    def asks(self) -> Iterator[Ask]:
        """Give out the pulls to send now; each counts as sent."""
        for block in self._blocks:
            if self._is_full(block):
                return
            if not block.waits and block.at < block.end:
                yield self._ask(block)
        while self._next < self._end:
            block = _Block(self._next, min(self._next + self._stride, self._end))
            if self._is_full(block):
                return
            self._next = block.end
            self._blocks.append(block)
            yield self._ask(block)

    def answer(self, ask: Ask, next_offset: int, body: bytes) -> None:
        """
        Take what a pull brought.

        @param next_offset: the broker's C{nextBeginOffset}: behind what it looked at. Behind C{ask.offset}.
        @param body: the records, none if no message matches the filter.
        """
        block = self._asked.pop(ask.offset)
        block.waits = False
        end = min(next_offset, block.end)
        block.parts.append(PulledPart(ask.offset, end, body))
        self._kept += len(body)
        block.at = end

    def is_wanted(self, ask: Ask) -> bool:
        """Tell whether what a pull asked for was not skipped meanwhile."""
        return self._asked[ask.offset].at <= ask.offset

    @property
    def first_missing(self) -> int:
        """The first offset that was not answered for."""
        return next((block.at for block in self._blocks if block.at < block.end), self._next)

    def skip(self, begin: int, onward: int) -> None:
        """Take note that what was not answered for of the offsets from C{begin} up to C{onward} is not there.

        @param begin: the first such offset of a pull, or one from which on nothing is there up to the end of the range.
        """
        for block in self._blocks:
            if block.at < begin:
                block.end = min(block.end, max(begin, block.at))
            else:
                block.at = min(max(onward, block.at), block.end)
        self._next = max(self._next, min(onward, self._end))

    def again(self, ask: Ask) -> None:
        """Take back a pull that was not answered, to be sent again."""
        self._asked.pop(ask.offset).waits = False

    def restart(self) -> None:
        """Take back all pulls that were not answered: the connection is gone."""
        for block in self._asked.values():
            block.waits = False
        self._asked.clear()

    def ready(self) -> Iterator[PulledPart]:
        """Give out what came and has nothing missing in front of it."""
        while self._blocks:
            block = self._blocks[0]
            for part in block.parts:
                self._kept -= len(part.body)
                yield part
            block.parts = []
            if block.at < block.end:
                return
            self._blocks.popleft()

    def _ask(self, block: _Block) -> Ask:
        block.waits = True
        self._asked[block.at] = block
        return Ask(block.at, min(PULL_LIMIT, block.end - block.at))

    def _is_full(self, block: _Block) -> bool:
        is_first = not self._blocks or block is self._blocks[0]
        return len(self._asked) >= self._depth or (self._kept >= self._most and not is_first)
