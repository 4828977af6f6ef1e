"""The loads that each client is measured with."""

from __future__ import annotations

from typing import Literal

import msgspec

from .programs.meter import Order

Kind = Literal["pipelined", "one", "consume"]
Quantity = Literal["cpu_us", "rate", "p50_ms", "p99_ms", "resident_mb"]

UNITS: dict[Quantity, str] = {
    "cpu_us": "CPU a message",
    "rate": "messages/s",
    "p50_ms": "p50",
    "p99_ms": "p99",
    "resident_mb": "resident memory",
}
"""Names of the quantities; all are those of the client's process."""

IN_FLIGHT = 64
"""Sends that wait for their answers at any time, where they are pipelined."""
_FILLED_BY = 500  # sends in flight while a backlog is stored
_FILL_SECONDS = 300.0
_NO_LIMIT = 1 << 60


class Row(msgspec.Struct, frozen=True):
    """A load, and the size of its bodies."""

    name: str
    about: str
    kind: Kind
    body: int

    @property
    def topic(self) -> str:
        """The topic of the load; that of a backlog is read only."""
        return f"ClientCost-{'backlog' if self.kind == 'consume' else 'send'}-{self.body}"

    def order(self, warm_up: float, seconds: float, backlog: int, group: str) -> Order:
        """
        Return what a program is asked for.

        @param warm_up: seconds of load before the window; of a consumer, the first tenth of the backlog is.
        @param seconds: those of the window; a consumer's ends before the last tenth of the backlog at the latest.
        @param group: the new consumer group.
        """
        if self.kind == "consume":
            skip, limit = backlog // 10, backlog - backlog // 10
            return Order("consume", self.topic, group, self.body, 1, skip, limit, 0.0, seconds)
        in_flight = 1 if self.kind == "one" else IN_FLIGHT
        return Order("send", self.topic, "-", self.body, in_flight, 0, _NO_LIMIT, warm_up, seconds)

    def filling(self, backlog: int) -> Order:
        """Return the order that stores the backlog of a consumer."""
        return Order("send", self.topic, "-", self.body, _FILLED_BY, 0, backlog, 0.0, _FILL_SECONDS)


def _rows(body: int, words: str) -> tuple[Row, ...]:
    size = f"{body // 1024}k" if body >= 1024 else str(body)
    return (
        Row(f"pipelined-{size}", f"sends of {words}, {IN_FLIGHT} in flight", "pipelined", body),
        Row(f"one-by-one-{size}", f"sends of {words}, each waits for the answer to the last", "one", body),
        Row(f"consume-{size}", f"a push consumer on a backlog of messages of {words}", "consume", body),
    )


ROWS = (*_rows(1024, "1 KiB"), *_rows(128, "128 B"))
NAMES = tuple(row.name for row in ROWS)
