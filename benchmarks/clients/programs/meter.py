"""
The window of a load: when it opens and closes, what is counted in it, and the CPU time of this process.

C{ClientLoad.java} has the same window for Java.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, cast, get_args

Kind = Literal["send", "consume"]

_TICKS = os.sysconf("SC_CLK_TCK")

now = time.perf_counter
"""The clock of windows and latencies, in seconds."""


class Order(NamedTuple):
    """
    A load that a program is asked for: one line of its standard input.

    @ivar kind: C{send} messages to a topic, or C{consume} those of a topic as a new group.
    @ivar topic: the topic; C{group}: the consumer group, C{-} where messages are sent.
    @ivar body: bytes of each body.
    @ivar in_flight: sends that wait for their answers at any time.
    @ivar skip: messages before the window opens; C{warm_up}: seconds before it opens.
    @ivar limit: messages after which the load ends; C{seconds}: those of the window after which it ends.
    """

    kind: Kind
    topic: str
    group: str
    body: int
    in_flight: int
    skip: int
    limit: int
    warm_up: float
    seconds: float

    def line(self) -> str:
        """
        Return the order as a line, without its end.

        >>> Order("send", "T", "-", 128, 64, 0, 1000, 0.5, 2.0).line()
        'send T - 128 64 0 1000 0.5 2.0'
        """
        return " ".join(map(str, self))

    @classmethod
    def of(cls, line: str) -> Order:
        """
        Read what L{line} wrote.

        >>> Order.of("send T - 128 64 0 1000 0.5 2.0").in_flight
        64

        @raise ValueError: the line is no order.
        """
        kind, topic, group, *numbers = line.split()
        body, in_flight, skip, limit = map(int, numbers[:-2])
        if kind not in get_args(Kind):
            raise ValueError(f"{kind!r} is no load")
        warm_up, seconds = map(float, numbers[-2:])
        return cls(cast("Kind", kind), topic, group, body, in_flight, skip, limit, warm_up, seconds)


def own_cpu() -> float:
    """Return the CPU seconds of this process, user and system, all its threads ever, as the kernel counts them."""
    stat = Path("/proc/self/stat").read_text()
    after_name = stat[stat.rindex(")") + 2 :].split()
    return (int(after_name[11]) + int(after_name[12])) / _TICKS


def quantile(ordered: Sequence[float], share: float) -> float:
    """
    Return a quantile of some ordered numbers, one of them; 0 for none.

    >>> quantile([1.0, 2.0, 3.0, 4.0], 0.5)
    2.0
    """
    if not ordered:
        return 0.0
    return ordered[max(0, -int(-len(ordered) * share // 1) - 1)]


class Meter:
    """
    Counts the messages of a load in its window. Any thread may note one.

    The message that opens the window is not counted in it. Latencies are kept where one message is in flight at a time.
    """

    def __init__(
        self,
        order: Order,
        ended: Callable[[], object] = lambda: None,
        clock: Callable[[], float] = now,
        cpu: Callable[[], float] = own_cpu,
    ) -> None:
        """
        @param ended: called once when the window closes, by the one that notes its last message.
        """
        self._order = order
        self._ended = ended
        self._clock = clock
        self._cpu = cpu
        self._lock = threading.Lock()
        self._keeps_latencies = order.in_flight == 1 and order.kind == "send"
        self._latencies: list[float] = []
        self._total = 0
        self._opens_at = clock() + order.warm_up
        self._opened_at = 0.0
        self._closes_at = float("inf")
        self._before = 0  # messages until the window opened
        self._began_cpu = 0.0
        self._cpu_used = 0.0
        self._seconds = 0.0
        self._open = False
        self._over = False

    def note(self, began: float = 0.0) -> bool:
        """
        Count a message that was acknowledged or consumed; return whether the load goes on.

        @param began: when its send began, by L{now}.
        """
        with self._lock:
            if self._over:
                return False
            moment = self._clock()
            self._total += 1
            if self._open:
                if self._keeps_latencies:
                    self._latencies.append(moment - began)
            elif self._total > self._order.skip and moment >= self._opens_at:
                self._open = True
                self._before = self._total
                self._opened_at = moment
                self._closes_at = moment + self._order.seconds
                self._began_cpu = self._cpu()
            if moment < self._closes_at and self._total < self._order.limit:
                return True
            if self._open:
                self._cpu_used = self._cpu() - self._began_cpu
                self._seconds = moment - self._opened_at
            self._over = True
        self._ended()
        return False

    def answer(self) -> dict[str, float]:
        """Return what the window held: messages, seconds, CPU seconds, latencies in ms."""
        ordered = sorted(self._latencies)
        return {
            "total": self._total,
            "messages": self._total - self._before if self._open else 0,
            "seconds": self._seconds,
            "cpu_s": self._cpu_used,
            "p50_ms": quantile(ordered, 0.5) * 1e3,
            "p99_ms": quantile(ordered, 0.99) * 1e3,
        }
