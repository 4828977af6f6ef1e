"""Brokers that do not answer a client: a line in the log when one stops answering, and one when it answers again."""

from __future__ import annotations

from typing import Final

from twisted.logger import Logger

from smartgo.env.interfaces import IClock

SILENCE: Final = 1.0
"""Seconds of a failed call after which its broker counts as silent."""


class BrokerOutages:
    """
    The brokers that did not answer the last call of a client.

    A consumer has a pull, an offset and a heartbeat for each queue and broker that fail together; the log has one line
    for all of them.

    @ivar down: their names.
    """

    _log = Logger()

    def __init__(self) -> None:
        self.down: set[str] = set()

    def failed(self, broker: str, error: Exception) -> None:
        """Note that a broker did not answer a call; log it if it is the first one."""
        if broker not in self.down:
            self.down.add(broker)
            self._log.warn("broker {broker} does not answer; trying again: {error}", broker=broker, error=error)

    def answered(self, broker: str) -> None:
        """Note that a broker answered; log it if it did not before."""
        if broker in self.down:
            self.down.discard(broker)
            self._log.info("broker {broker} answers again", broker=broker)


class SilentBrokers:
    """
    The brokers that a pass over many queues need not call again: a call to one failed, and took long.

    Calls for other queues of the same broker would take as long each, and all other brokers would wait for them.
    """

    def __init__(self, clock: IClock) -> None:
        self._clock = clock
        self._names: set[str] = set()

    def __contains__(self, broker: str) -> bool:
        """Tell whether a broker is not to be called again in this pass."""
        return broker in self._names

    def failed(self, broker: str, begun: float) -> None:
        """
        Note that a call to a broker failed now.

        @param begun: when the call began, in seconds of the monotonic clock.
        """
        if self._clock.seconds() - begun >= SILENCE:
            self._names.add(broker)
