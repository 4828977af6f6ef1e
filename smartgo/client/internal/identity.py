"""Unique names: the id of a client, and the ids of the messages that it sends."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from typing import Final

from smartgo.env.interfaces import IEnvironment

DEFAULT_INSTANCE: Final = "DEFAULT"

_COUNTER_MASK: Final = 0xFFFF


def client_id(env: IEnvironment, address: str, instance: str | None) -> str:
    """
    Return the id of a client: C{address@instance}.

    @param address: our IP address as brokers see it.
    @param instance: the application's name for this client; by default process id and a number that no other client
        of the process has, as Java's C{pid#nanoTime}.
    """
    if instance is None:
        instance = f"{env.host.pid}#{int.from_bytes(env.random.token(7), 'big')}"
    return f"{address}@{instance}"


class UniqueIds:
    """
    Makes unique ids of messages, see L{smartgo.schema.message}.

    The process id keeps 16 bits, as in Java; in place of Java's class loader hash stands a number by chance, so that
    two clients of a process differ. The month begins in UTC.
    """

    def __init__(self, env: IEnvironment, address: str) -> None:
        """
        @param address: our IP address.
        """
        self._clock = env.clock
        raw = ipaddress.ip_address(address).packed + (env.host.pid & 0xFFFF).to_bytes(2, "big") + env.random.token(4)
        self._prefix = raw.hex().upper()
        self._counter = 0
        self._begin_ms = 0
        self._end_ms = 0

    def next(self) -> str:
        """Return a new unique id: 32 hex digits, or 56 if the client's address is IPv6."""
        now = self._clock.wall_ms()
        if not self._begin_ms <= now < self._end_ms:
            self._turn_month(now)
        self._counter = counter = (self._counter + 1) & _COUNTER_MASK
        return f"{self._prefix}{now - self._begin_ms:08X}{counter:04X}"

    def _turn_month(self, now: int) -> None:
        first = datetime.fromtimestamp(now / 1000, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        following = first.replace(year=first.year + first.month // 12, month=first.month % 12 + 1)
        self._begin_ms = round(first.timestamp()) * 1000
        self._end_ms = round(following.timestamp()) * 1000
