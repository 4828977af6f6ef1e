"""Asking and telling other processes: one connection an address, made when first needed, shared by all who ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.interfaces import IAddress
from twisted.internet.protocol import Factory
from twisted.python.failure import Failure

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import NotConnected
from smartgo.net.limits import CLIENT, Limits
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ClientTLS
from smartgo.remoting.connection import Connection
from smartgo.remoting.dispatch import NOTHING, Dispatcher
from smartgo.remoting.interfaces import IConnectionListener
from smartgo.remoting.listeners import ListenerMux
from smartgo.remoting.protocol import RemotingProtocol
from smartgo.schema.address import parse_address
from smartgo.schema.command import Command

TIMEOUT: Final = 3.0  # seconds, as Java's clients wait


class _Dial(Factory):
    """Makes the one protocol of an attempt to connect."""

    noisy = False

    def __init__(self, connection: Connection, limits: Limits, tls: ClientTLS | None, name: str) -> None:
        self._made: RemotingProtocol | None = RemotingProtocol(connection, limits.frame, tls, name)

    def buildProtocol(self, addr: IAddress | None) -> RemotingProtocol | None:
        """Hand the protocol over: Twisted keeps the factory longer than the connection lasts."""
        made, self._made = self._made, None
        return made

    def forget(self) -> None:
        """Let the protocol go: the attempt has failed."""
        self._made = None


class RemotingClient:
    """
    Calls to other processes.

    A connection is dialled by the first call to its address, closed when idle for C{limits.idle} seconds, and dialled
    anew by the next call. What the other side asks on it is answered by the dispatcher.

    @ivar rounds: timers and counts, shared with all connections of the process.
    """

    def __init__(
        self,
        env: IEnvironment,
        rounds: Sweeper,
        dispatcher: Dispatcher | None = None,
        listener: IConnectionListener | None = None,
        tls: ClientTLS | None = None,
        limits: Limits = CLIENT,
        reaches: Callable[[str], bool] | None = None,
    ) -> None:
        """
        @param dispatcher: answers requests of the other side; C{None}: every one with 3.
        @param tls: C{None}: plain.
        @param rounds: timers and the memory budget, shared with all connections of the process.
        @param reaches: whether a C{host:port} may be connected to, where others name the addresses; C{None}: every one.
        """
        self._env = env
        self._reaches = reaches
        self._dispatcher = NOTHING if dispatcher is None else dispatcher
        self._listener: IConnectionListener = ListenerMux() if listener is None else listener
        self._tls = tls
        self._limits = limits
        self.rounds = rounds
        self._reached: dict[str, Connection] = {}  # by address: those that take calls
        self._dials: dict[Connection, Deferred[object]] = {}
        self._alive: dict[Connection, None] = {}  # those that are not gone
        self._stopping = False
        self._empty: Deferred[None] | None = None

    @property
    def connections(self) -> list[Connection]:
        """The connections that take calls now, those being made included."""
        return list(self._reached.values())

    def ask(self, address: str, command: Command, timeout: float = TIMEOUT) -> Deferred[Command]:
        """
        Send a request and fire with the response, whatever its code.

        Cancelling is supported: the response is dropped when it comes.

        @param address: C{host:port}.
        @param timeout: seconds, the time to connect included.
        @raise CallTimedOut: through the Deferred; the request may have been done or not.
        @raise NotConnected: through the Deferred: there is no way to this address, or it was lost before the answer.
        @raise CallFailed: through the Deferred: too much is waiting on this connection already.
        """
        try:
            return self._reach(address).ask(command, timeout)
        except NotConnected:
            return fail(Failure())

    def tell(self, address: str, command: Command) -> Deferred[None]:
        """
        Send a request that wants no answer; fires when it was given to the transport. Cancelling is not supported.

        @raise NotConnected: through the Deferred: there is no way to this address.
        """
        try:
            return self._reach(address).calls.send(command) or succeed(None)
        except NotConnected:
            return fail(Failure())

    def hang_up(self, address: str, reason: str) -> None:
        """Close the connection to an address, if there is one; the next call dials anew."""
        connection = self._reached.get(address)
        if connection is not None:
            connection.close(reason)

    def stop(self) -> Deferred[None]:
        """Close all connections after what was told is sent; waiting calls fail. Fires when they are gone."""
        self._stopping = True
        empty: Deferred[None] = Deferred()
        self._empty, before = empty, self._empty
        if before is not None:
            empty.chainDeferred(before)
        for connection in list(self._alive):
            connection.end()
        for dial in list(self._dials.values()):
            dial.cancel()
        self._look_empty()
        return empty

    # -- connections -------------------------------------------------------------------------------------------

    def _reach(self, address: str) -> Connection:
        connection = self._reached.get(address)
        if connection is not None:
            return connection
        if self._stopping:
            raise NotConnected(f"cannot connect to {address}: the client has stopped")
        if self._reaches is not None and not self._reaches(address):
            raise NotConnected(f"{address} is no address that this process may connect to")
        try:
            host, port = parse_address(address)
        except ValueError as error:
            raise NotConnected(str(error)) from None
        connection = Connection(self.rounds, self._limits, self._dispatcher, self._listener, self, dial=address)
        self._reached[address] = connection
        self._alive[connection] = None
        factory = _Dial(connection, self._limits, self._tls, host)
        dial = self._env.network.connect(host, port, factory, self._limits.connect)
        self._dials[connection] = dial
        dial.addCallbacks(self._made, self._missed, callbackArgs=(connection,), errbackArgs=(connection, factory))
        return connection

    def _made(self, _: object, connection: Connection) -> None:
        self._dials.pop(connection, None)

    def _missed(self, failure: Failure, connection: Connection, factory: _Dial) -> None:
        factory.forget()
        self._dials.pop(connection, None)
        if failure.check(CancelledError):
            failure = Failure(NotConnected("the client stops"))
        connection.gone(failure)

    def leaving(self, connection: Connection) -> None:
        """It takes no more calls."""
        if self._reached.get(connection.address) is connection:
            del self._reached[connection.address]

    def ended(self, connection: Connection) -> None:
        """It is gone."""
        self._alive.pop(connection, None)
        self._look_empty()

    def _look_empty(self) -> None:
        if self._empty is not None and not self._alive:
            empty, self._empty = self._empty, None
            empty.callback(None)
