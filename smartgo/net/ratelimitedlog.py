"""Log lines about peers, rationed: who sends rubbish a thousand times a second gets one line a minute."""

from __future__ import annotations

from twisted.internet.interfaces import IReactorTime
from twisted.logger import Logger

_EVERY = 60.0  # seconds
_REMEMBERED = 4096  # addresses
_TEXT = 256  # characters


def _shown(value: object) -> object:
    """Return text that a peer may have had a hand in as one short line (reliability B9)."""
    if not isinstance(value, str):
        return value
    return "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in value[:_TEXT])


class RateLimitedLog:
    """
    A log with at most one WARN a peer address and minute (reliability L1).

    @ivar suppressed: how many were not logged.
    """

    _log = Logger()

    def __init__(self, clock: IReactorTime) -> None:
        self._clock = clock
        self._logged: dict[str, float] = {}  # IP address -> when last logged, in that order
        self.suppressed = 0

    def warn(self, ip: str, sentence: str, **fields: object) -> None:
        """
        Log a sentence about a peer, unless there was one in the last minute.

        @param ip: the address that warnings are counted by; a port would change with each connection.
        @param sentence: a fixed log format; C{fields} are its names.
        """
        now = self._clock.seconds()
        last = self._logged.get(ip)
        if last is not None:
            if now - last < _EVERY:
                self.suppressed += 1
                return
            del self._logged[ip]
        elif len(self._logged) >= _REMEMBERED:
            del self._logged[next(iter(self._logged))]
        self._logged[ip] = now
        self._log.warn(sentence, **{name: _shown(value) for name, value in fields.items()})
