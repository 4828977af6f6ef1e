"""A connection to a registry, without one."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from smartgo.errors import CallTimedOut
from smartgo.remoting.interfaces import IPeer
from smartgo.schema.codes import ResponseCode
from smartgo.schema.command import Command, decode, encode


@implementer(IPeer)
class FakePeer:
    """
    A peer that is looked at, and may be asked whether it is alive.

    @ivar reasons: why it was closed, as often as it was.
    @ivar alive: whether it answers; where it does not, its time is over at once.
    @ivar asked: how often it was asked.
    """

    alive = True
    asked = 0

    def __init__(self, address: str = "10.0.0.1:50000", local_ip: str = "10.0.0.99") -> None:
        self.address = address
        self.local_ip = local_ip
        self.host = bytes(8)
        self.local_port = 9876
        self.certificate_names: tuple[str, ...] = ()
        self.open = True
        self.reasons: list[str] = []

    def tell(self, command: Command) -> None:
        """The registry sends nothing on its own."""
        raise AssertionError("the registry sent a request")

    def ask(self, command: Command, timeout: float) -> Deferred[Command]:
        """Answer as RocketMQ's brokers do: it is no such request."""
        self.asked += 1
        if not self.open or not self.alive:
            return fail(CallTimedOut("request", timeout))
        return succeed(Command.request(command.code).answer(ResponseCode.REQUEST_CODE_NOT_SUPPORTED))

    def close(self, reason: str) -> None:
        """Remember it."""
        self.open = False
        self.reasons.append(reason)


def received(code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", version: int = 409) -> Command:
    """Return a request as it comes from the wire."""
    command = Command.request(code, fields=fields, body=body)
    command.version = version
    command.opaque = 7
    return decode(encode(command)[4:])
