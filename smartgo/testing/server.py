"""The process of a broker for tests: prints its addresses, does what it is asked, ends with its standard input."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import ITransport
from twisted.internet.protocol import connectionDone
from twisted.logger import Logger
from twisted.protocols.basic import LineOnlyReceiver
from twisted.python.failure import Failure

from smartgo.testing.faultrules import ActiveFault, FaultRule
from smartgo.testing.inprocess import InProcessBroker
from smartgo.testing.wire import LINE_LIMIT, QUEUES, BrokerCall, Ready, Reply, as_text, failed, line


class CommandedBroker:
    """A broker and the faults that were asked for, by their numbers."""

    def __init__(self, broker: InProcessBroker) -> None:
        self._broker = broker
        self._active: list[ActiveFault] = []

    @property
    def ready(self) -> Ready:
        """The first line of the process."""
        return Ready(self._broker.registry, self._broker.address, self._broker.directory)

    async def answer(self, call: BrokerCall) -> Reply:
        """Do what a call asks for; return its reply, that of a failure too."""
        try:
            method = getattr(self, call.do if call.do in CALLS else "unknown")
            return Reply(call.id, await method(**call.arguments))
        except Exception as error:
            return failed(call, error)

    async def unknown(self, **arguments: Any) -> None:
        """@raise ValueError: always: a call that is none."""
        raise ValueError(f"no such call; there are: {', '.join(CALLS)}")

    async def create_topic(self, name: str, queues: int = QUEUES) -> None:
        """See L{InProcessBroker.create_topic}."""
        await self._broker.create_topic(name, queues)

    async def messages(self, topic: str, at_least: int = 0, timeout: float = 10.0) -> list[str]:
        """Return the stored records, in base64; see L{InProcessBroker.messages}."""
        if at_least:
            await self._broker.messages(topic, at_least, timeout)
        return as_text(await self._broker.records(topic))

    async def bodies(self, topic: str, at_least: int = 0, timeout: float = 10.0) -> list[str]:
        """Return the bodies of the messages as text, for tests in other languages."""
        found = await self._broker.messages(topic, at_least, timeout)
        return [message.body.decode("utf-8", "replace") for message in found]

    async def lag(self, group: str) -> int:
        """See L{InProcessBroker.lag}."""
        return self._broker.lag(group)

    async def purge(self) -> None:
        """See L{InProcessBroker.purge}."""
        await self._broker.purge()

    async def go_down(self) -> None:
        """See L{InProcessBroker.go_down}."""
        await self._broker.go_down()

    async def come_back(self) -> None:
        """See L{InProcessBroker.come_back}."""
        await self._broker.come_back()

    async def restart(self) -> None:
        """See L{InProcessBroker.restart}."""
        await self._broker.restart()

    async def advance(self, seconds: float) -> None:
        """See L{InProcessBroker.advance}."""
        await self._broker.advance(seconds)

    async def add_fault(self, **rule: Any) -> int:
        """Let requests meet a fault; return its number. The arguments are the fields of L{FaultRule}."""
        try:
            asked = msgspec.convert(rule, FaultRule)
        except msgspec.ValidationError as error:
            raise ValueError(str(error)) from None
        self._active.append(self._broker.add_fault(asked))
        return len(self._active) - 1

    async def met(self, fault: int) -> int:
        """Return the number of requests that met a fault."""
        return self._active[fault].met()

    async def clear_faults(self) -> None:
        """End all faults."""
        self._broker.faults.clear()


CALLS: Final = (
    "create_topic", "messages", "bodies", "lag", "purge", "go_down", "come_back", "restart", "advance", "add_fault",
    "met", "clear_faults",
)  # fmt: skip
"""What can be asked for."""


class CallReceiver(LineOnlyReceiver):
    """
    The standard input and output of the process.

    @ivar ended: fires when the input has ended.
    """

    transport: ITransport
    delimiter = b"\n"
    MAX_LENGTH = LINE_LIMIT
    _log = Logger()

    def __init__(self, broker: CommandedBroker) -> None:
        self._broker = broker
        self.ended: Deferred[None] = Deferred()

    def connectionMade(self) -> None:
        """Say that the broker is ready."""
        self._write(self._broker.ready)

    def lineReceived(self, line: bytes) -> None:
        """Answer a call, as soon as it is done."""
        try:
            call = msgspec.json.decode(line, type=BrokerCall)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._write(Reply(-1, error=f"not a call: {error}", kind="ValueError"))
            return
        Deferred.fromCoroutine(self._broker.answer(call)).addCallbacks(self._write, self._bug)

    def _write(self, value: msgspec.Struct) -> None:
        if not self.ended.called:
            self.transport.write(line(value))

    def _bug(self, failure: Failure) -> None:
        self._log.failure("a call was not answered", failure)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell that the input has ended."""
        if not self.ended.called:
            self.ended.callback(None)
