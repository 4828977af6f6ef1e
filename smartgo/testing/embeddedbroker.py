"""A registry and a broker in a process of their own, for tests that block."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Any, Final, Self, cast

import msgspec

from smartgo.client.messages import ReceivedMessage
from smartgo.env.disk import RealFiles
from smartgo.errors import CallFailed
from smartgo.testing.asyncbroker import AsyncEmbeddedBroker
from smartgo.testing.faultrules import FaultButtons, FaultRule
from smartgo.testing.wire import QUEUES, BrokerCall, Ready, Reply, as_messages, command_line, line, read, result_of

_END: Final = 10.0  # seconds that the process has to end in


class EmbeddedFault:
    """A fault in the process of a broker."""

    def __init__(self, broker: EmbeddedBroker, number: int) -> None:
        self._broker = broker
        self._number = number

    def met(self) -> int:
        """Return the number of requests that met the fault."""
        return int(self._broker.call("met", fault=self._number))


class EmbeddedBroker:
    """
    A registry and a broker on free ports, with a temporary store, as a process that ends with this one.

        >>> with EmbeddedBroker() as broker:  # doctest: +SKIP
        ...     broker.create_topic("Orders")

    In asyncio, C{async with EmbeddedBroker() as broker} has the same methods as coroutines
    (L{AsyncEmbeddedBroker<smartgo.testing.asyncbroker.AsyncEmbeddedBroker>}). The methods may be called from any
    thread; one call waits for the other. Each raises L{CallFailed} if the process has ended.

    @ivar registry: C{host:port} of the registry, which clients take; C{address}: of the broker.
    @ivar directory: the temporary directory of the store.
    @ivar faults: the faults that a test can ask for.
    @ivar has_faults: whether one was asked for since the last time that they were cleared.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        """
        @param settings: settings of the broker and the registry, by name, as in a configuration file.
        """
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._input: IO[bytes]
        self._output: IO[bytes]
        self._asynchronous: AsyncEmbeddedBroker | None = None
        self._lock = threading.Lock()
        self._calls = 0
        self.registry = self.address = self.directory = ""
        self.has_faults = False
        self.faults: FaultButtons[EmbeddedFault, None] = FaultButtons(self.add_fault, self.clear_faults)

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """
        Start the process; return when clients can connect. Does nothing if it runs.

        @raise CallFailed: the broker cannot start; the process's standard error says why.
        """
        if self._process is not None:
            return
        process = self._process = subprocess.Popen(  # noqa: S603 - our own program
            command_line(self._settings), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self._input, self._output = cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout)
        try:
            ready = read(self._output.readline(), Ready)
        except BaseException:
            self.stop()
            raise
        self.registry, self.address, self.directory = ready.registry, ready.broker, ready.directory

    def stop(self) -> None:
        """End the process; the store is removed. Does nothing if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            self._input.close()
        except OSError:
            pass  # it has ended
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._output.close()
        if process.returncode and self.directory:  # it had no time to remove its store
            RealFiles().remove_tree(self.directory)

    def __enter__(self) -> Self:
        """Start; see L{start}."""
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End; see L{stop}."""
        self.stop()

    async def __aenter__(self) -> AsyncEmbeddedBroker:
        """Start in the running loop of asyncio; return the broker whose methods are coroutines."""
        self._asynchronous = AsyncEmbeddedBroker(self._settings)
        await self._asynchronous.start()
        return self._asynchronous

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End what was started for asyncio."""
        if self._asynchronous is not None:
            await self._asynchronous.stop()

    def call(self, do: str, **arguments: Any) -> Any:
        """
        Ask the process for something; see L{smartgo.testing.server.CALLS}.

        @raise CallFailed: it does not run.
        @raise SmartgoError: it could not do it.
        @raise ValueError: an argument is wrong.
        """
        with self._lock:
            if self._process is None:
                raise CallFailed("the broker was not started, or was stopped")
            self._calls += 1
            try:
                self._input.write(line(BrokerCall(self._calls, do, arguments)))
                self._input.flush()
            except OSError:
                raise CallFailed("the process of the broker has ended; its standard error says why") from None
            while True:
                reply = read(self._output.readline(), Reply)
                if reply.id == self._calls:  # others are of calls that were interrupted
                    return result_of(reply)

    # -- topics and messages ---------------------------------------------------------------------------------------

    def create_topic(self, name: str, queues: int = QUEUES) -> None:
        """
        Create a topic; return when clients can find it.

        @raise BadName: the name cannot be that of a topic.
        """
        self.call("create_topic", name=name, queues=queues)

    def messages(self, topic: str, at_least: int = 0, timeout: float = 10.0) -> list[ReceivedMessage]:
        """
        Return the messages that are stored in a topic, queue by queue; none for an unknown topic.

        Messages whose delay is not over are not in their topic yet. The dead letters of a group are in the topic
        C{%DLQ%} and its name.

        @param at_least: wait until there are as many.
        @param timeout: seconds of real time for that.
        @raise CallFailed: there were fewer when the time was over.
        """
        return as_messages(self.call("messages", topic=topic, at_least=at_least, timeout=timeout))

    def lag(self, group: str) -> int:
        """
        Return the number of messages that a group has not acknowledged, its retries included.

        Consumers commit their offsets every 5 s, and when they stop.
        """
        return int(self.call("lag", group=group))

    def purge(self) -> None:
        """
        Remove all messages, topics, groups and faults, and take back the moves of the clock.

        The broker starts again with an empty store at the same addresses: clients lose their connections, and connect
        again.
        """
        self.call("purge")

    @contextmanager
    def down(self) -> Iterator[None]:
        """
        Have the registry and the broker down for a while: C{with broker.down()}.

        Nobody listens at their addresses, and connections end. Afterwards both are back there, with their store. Faults
        end; the clock can be moved meanwhile.
        """
        self.call("go_down")
        try:
            yield
        finally:
            self.call("come_back")

    def restart(self) -> None:
        """End the broker as an upgrade does, and start it with the same store at the same addresses; faults end."""
        self.call("restart")

    # -- time and faults -------------------------------------------------------------------------------------------

    def advance(self, seconds: float) -> None:
        """
        Move the broker's wall clock forward; return when all messages that are due then are delivered to their topics.

        Delays, retries, timed messages and check-backs of transactions follow it. Connections, leases and the client's
        own clock do not.

        @raise ValueError: C{seconds} is negative.
        """
        self.call("advance", seconds=seconds)

    def add_fault(self, rule: FaultRule) -> EmbeddedFault:
        """Let requests meet a fault from now on; C{faults} has a method for each."""
        self.has_faults = True
        return EmbeddedFault(self, self.call("add_fault", **msgspec.structs.asdict(rule)))

    def clear_faults(self) -> None:
        """End all faults."""
        self.call("clear_faults")
        self.has_faults = False
