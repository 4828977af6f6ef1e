"""Brokers that do not answer a client: a line in the log when one stops answering, and one when it answers again."""

from __future__ import annotations

from twisted.logger import Logger


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
