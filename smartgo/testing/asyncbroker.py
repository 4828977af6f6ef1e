"""A registry and a broker in a process of their own, for tests on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, cast

import msgspec

from smartgo.client.messages import ReceivedMessage
from smartgo.env.disk import RealFiles
from smartgo.errors import CallFailed, SmartgoError
from smartgo.testing.faultrules import FaultButtons, FaultRule
from smartgo.testing.wire import (
    LINE_LIMIT,
    QUEUES,
    BrokerCall,
    Ready,
    Reply,
    as_messages,
    command_line,
    line,
    read,
    result_of,
)

_END: Final = 10.0  # seconds that the process has to end in


class AsyncEmbeddedFault:
    """A fault in the process of a broker."""

    def __init__(self, broker: AsyncEmbeddedBroker, number: int) -> None:
        self._broker = broker
        self._number = number

    async def met(self) -> int:
        """Return the number of requests that met the fault."""
        return int(await self._broker.call("met", fault=self._number))


class AsyncEmbeddedBroker:
    """
    A registry and a broker as a process, in a loop of asyncio; C{async with EmbeddedBroker() as broker} makes one.

    The methods are those of L{EmbeddedBroker<smartgo.testing.embeddedbroker.EmbeddedBroker>}, as coroutines. Several
    may run at the same time: a test can wait for messages while it moves the clock.

    @ivar registry: C{host:port} of the registry, which clients take; C{address}: of the broker.
    @ivar directory: the temporary directory of the store.
    @ivar faults: the faults that a test can ask for; its methods are to be awaited.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """
        @param settings: settings of the broker and the registry, by name, as in a configuration file.
        """
        self._settings = settings
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._calls = 0
        self.registry = self.address = self.directory = ""
        self.faults: FaultButtons[Awaitable[AsyncEmbeddedFault], Awaitable[None]] = FaultButtons(
            self.add_fault, self.clear_faults
        )

    async def start(self) -> None:
        """
        Start the process; return when clients can connect.

        @raise CallFailed: the broker cannot start; the process's standard error says why.
        """
        pipe = asyncio.subprocess.PIPE
        process = self._process = await asyncio.create_subprocess_exec(
            *command_line(self._settings), stdin=pipe, stdout=pipe, limit=LINE_LIMIT, start_new_session=True
        )
        output = cast("asyncio.StreamReader", process.stdout)
        try:
            ready = read(await output.readline(), Ready)
        except BaseException:
            await self.stop()
            raise
        self.registry, self.address, self.directory = ready.registry, ready.broker, ready.directory
        self._reader = asyncio.create_task(self._read(output))

    async def stop(self) -> None:
        """End the process; the store is removed. Does nothing if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        cast("asyncio.StreamWriter", process.stdin).close()
        try:
            await asyncio.wait_for(process.wait(), _END)
        except TimeoutError:
            process.kill()
            await process.wait()
        if self._reader is not None:
            await self._reader
        if process.returncode and self.directory:  # it had no time to remove its store
            await asyncio.to_thread(RealFiles().remove_tree, self.directory)

    async def _read(self, output: asyncio.StreamReader) -> None:
        """Hand over replies until the process ends; then fail what still waits."""
        try:
            while True:
                reply = read(await output.readline(), Reply)
                future = self._waiting.pop(reply.id, None)
                if future is not None and not future.done():
                    _settle(future, reply)
        except CallFailed as error:
            waiting, self._waiting = self._waiting, {}
            for future in waiting.values():
                if not future.done():
                    future.set_exception(CallFailed(str(error)))

    async def call(self, do: str, **arguments: Any) -> Any:
        """
        Ask the process for something; see L{smartgo.testing.server.CALLS}.

        @raise CallFailed: it does not run.
        @raise SmartgoError: it could not do it.
        @raise ValueError: an argument is wrong.
        """
        process, reader = self._process, self._reader
        if process is None or process.stdin is None or reader is None or reader.done():
            raise CallFailed("the broker was not started, or has ended")
        self._calls += 1
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[self._calls] = future
        process.stdin.write(line(BrokerCall(self._calls, do, arguments)))
        return await future

    async def create_topic(self, name: str, queues: int = QUEUES) -> None:
        """See L{EmbeddedBroker<smartgo.testing.embeddedbroker.EmbeddedBroker>}; so for all below."""
        await self.call("create_topic", name=name, queues=queues)

    async def messages(self, topic: str, at_least: int = 0, timeout: float = 10.0) -> list[ReceivedMessage]:
        """Return the messages that are stored in a topic; wait until there are C{at_least}."""
        return as_messages(await self.call("messages", topic=topic, at_least=at_least, timeout=timeout))

    async def lag(self, group: str) -> int:
        """Return the number of messages that a group has not acknowledged."""
        return int(await self.call("lag", group=group))

    async def purge(self) -> None:
        """Remove all messages, topics, groups and faults, and take back the moves of the clock."""
        await self.call("purge")

    @asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        """Have the registry and the broker down for a while: C{async with broker.down()}."""
        await self.call("go_down")
        try:
            yield
        finally:
            await self.call("come_back")

    async def restart(self) -> None:
        """End the broker, and start it with the same store at the same addresses."""
        await self.call("restart")

    async def advance(self, seconds: float) -> None:
        """Move the broker's wall clock forward; return when what is due then is delivered."""
        await self.call("advance", seconds=seconds)

    async def add_fault(self, rule: FaultRule) -> AsyncEmbeddedFault:
        """Let requests meet a fault from now on; C{faults} has a method for each."""
        return AsyncEmbeddedFault(self, await self.call("add_fault", **msgspec.structs.asdict(rule)))

    async def clear_faults(self) -> None:
        """End all faults."""
        await self.call("clear_faults")


def _settle(future: asyncio.Future[Any], reply: Reply) -> None:
    try:
        future.set_result(result_of(reply))
    except (SmartgoError, ValueError) as error:
        future.set_exception(error)
