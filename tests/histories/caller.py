"""A client of a history: one connection at a time, requests by their numbers, answers whenever they come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, cast

from twisted.internet.interfaces import IAddress, IProtocolFactory
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure

from smartgo.schema.command import Command, decode, encode
from tests.histories.world import World

Told: TypeAlias = Callable[[Command | None], object]

_DIALS: Final = 10  # attempts to connect: a broker may turn a connection away


class Wire(Protocol):
    """A connection to a broker."""

    def __init__(self) -> None:
        self._data = b""
        self.open = False
        self.asked: dict[int, Told] = {}

    def connectionMade(self) -> None:
        """Requests can be sent."""
        self.open = True

    def dataReceived(self, data: bytes) -> None:
        """Hand every answer to who asked."""
        self._data += data
        while len(self._data) >= 4:
            size = int.from_bytes(self._data[:4], "big")
            if len(self._data) < 4 + size:
                return
            frame, self._data = self._data[4 : 4 + size], self._data[4 + size :]
            command = decode(frame)
            told = self.asked.pop(command.opaque, None) if command.is_response else None
            if told is not None:
                told(command)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Nobody will be answered any more."""
        self.open = False
        asked, self.asked = self.asked, {}
        for told in asked.values():
            told(None)


class _Dial(Factory):
    noisy = False

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def buildProtocol(self, addr: IAddress | None) -> Wire:
        """Return the connection that is being made."""
        return self._wire


class Caller:
    """Asks the broker at one port."""

    def __init__(self, world: World, port: int) -> None:
        self._world = world
        self._wire = Wire()
        self._number = 0
        self.port = port

    def send(self, command: Command, told: Told) -> None:
        """Send a request; C{told} is called with the answer, or with C{None} when there will be none."""
        for _ in range(_DIALS):
            if self._wire.open:
                break
            self._wire = Wire()
            joined = self._world.wires.join(
                None, "127.0.0.1", self.port, cast("IProtocolFactory", _Dial(self._wire)), 3.0
            )
            joined.addErrback(lambda failure: None)
        if not self._wire.open:
            told(None)
            return
        self._number += 1
        command.opaque = self._number
        self._wire.asked[self._number] = told
        assert self._wire.transport is not None
        self._wire.transport.write(encode(command))

    def ask(self, command: Command, seconds: float = 10.0) -> Command | None:
        """Ask, and let time pass until there is an answer; C{None} where none comes."""
        found: list[Command | None] = []
        self.send(command, found.append)
        for _ in range(int(seconds * 100)):
            self._world.run()
            if found:
                return found[0]
            self._world.run(0.01)
        return None
