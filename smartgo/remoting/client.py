"""Asking and telling other processes: one connection an address, made when first needed, shared by all who ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.python.failure import Failure

from smartgo.env.interfaces import IEnvironment
from smartgo.errors import NotConnected
from smartgo.net.counts import Counts
from smartgo.net.dial import Dial
from smartgo.net.limits import CLIENT, Limits
from smartgo.net.link import Link
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ClientTLS
from smartgo.observer import OneShotObserver
from smartgo.remoting.connection import Connection, connections
from smartgo.remoting.dispatch import NOTHING, Dispatcher
from smartgo.remoting.interfaces import IConnectionListener
from smartgo.remoting.listeners import ListenerMux
from smartgo.schema.address import parse_address
from smartgo.schema.command import Command

TIMEOUT: Final = 3.0  # seconds, as Java's clients wait


@dataclass(frozen=True, slots=True)
class CallSecurity:
    """
    The protection of a client's calls.

    @ivar tls: the certificates for TLS with the other side; C{None}: plain.
    @ivar reaches: whether a C{host:port} may be connected to, where others name the addresses; C{None}: every one.
    @ivar sign: signs each request before it is sent, for access control; C{None}: requests are not signed.
    """

    tls: ClientTLS | None = None
    reaches: Callable[[str], bool] | None = None
    sign: Callable[[Command], object] | None = None


UNPROTECTED: Final = CallSecurity()
"""Plain, to every address, without signatures."""


class RemotingClient:
    """
    A client for calls to other processes.

    A connection is dialled by the first call to its address, closed when idle for C{limits.idle} seconds, and dialled
    anew by the next call. What the other side asks on it is answered by the dispatcher.

    @ivar sweeper: timers and the memory budget, shared with all connections of the process.
    @ivar counts: what happened to its connections.
    """

    def __init__(
        self,
        env: IEnvironment,
        sweeper: Sweeper,
        dispatcher: Dispatcher | None = None,
        listener: IConnectionListener | None = None,
        security: CallSecurity = UNPROTECTED,
        limits: Limits = CLIENT,
    ) -> None:
        """
        @param dispatcher: answers requests of the other side; C{None}: every one with 3.
        @param sweeper: timers and the memory budget, shared with all connections of the process.
        """
        self._env = env
        self._reaches = security.reaches
        self._sign = security.sign
        self._dispatcher = NOTHING if dispatcher is None else dispatcher
        self._listener: IConnectionListener = ListenerMux() if listener is None else listener
        self._tls = security.tls
        self._limits = limits
        self.sweeper = sweeper
        self.counts = Counts()
        self._sessions = connections(sweeper, limits, self._dispatcher, self._listener)
        self._reached: dict[str, Connection] = {}  # by address: those that take calls
        self._dials: dict[Link, Deferred[object]] = {}
        self._alive: dict[Link, None] = {}  # those that are not gone
        self._stopping = False
        self._gone: OneShotObserver[None] = OneShotObserver()

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
        if self._sign is not None:
            self._sign(command)
        try:
            return self._reach(address).ask(command, timeout)
        except NotConnected:
            return fail(Failure())

    def tell(self, address: str, command: Command) -> Deferred[None]:
        """
        Send a request that wants no answer; fires when it was given to the transport. Cancelling is not supported.

        @raise NotConnected: through the Deferred: there is no way to this address.
        """
        if self._sign is not None:
            self._sign(command)
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
        for link in list(self._alive):
            link.end()
        for dial in list(self._dials.values()):
            dial.cancel()
        self._look_empty()
        return self._gone.when()

    # -- connections -------------------------------------------------------------------------------------------

    def _reach(self, address: str) -> Connection:
        connection = self._reached.get(address)
        if connection is not None:
            return connection
        if self._stopping:
            raise NotConnected(f"cannot connect to {address}: the client has stopped")
        if self._reaches is not None and not self._reaches(address):
            raise NotConnected(f"{address} is not an address that this process may connect to")
        try:
            host, port = parse_address(address)
        except ValueError as error:
            raise NotConnected(str(error)) from None
        link = Link(self._sessions, self._limits, self.sweeper, self, self._tls, address)
        made = cast("Connection", link.session)
        self._reached[address] = made
        self._alive[link] = None
        factory = Dial(link)
        dial = self._env.network.connect(host, port, factory, self._limits.connect)
        self._dials[link] = dial
        dial.addCallbacks(self._made, self._missed, callbackArgs=(link,), errbackArgs=(link, factory))
        return made

    def _made(self, _: object, link: Link) -> None:
        self._dials.pop(link, None)
        if self._env.buggify("client.hang-up"):
            link.end()

    def _missed(self, failure: Failure, link: Link, factory: Dial) -> None:
        factory.forget()
        self._dials.pop(link, None)
        if failure.check(CancelledError):
            failure = Failure(NotConnected("the client stops"))
        link.missed(failure)

    def leaving(self, link: Link) -> None:
        """Give its address to another connection: it takes no more calls."""
        connection = self._reached.get(link.address)
        if connection is not None and connection.link is link:
            del self._reached[link.address]

    def ended(self, link: Link) -> None:
        """Forget it: it is gone."""
        self._alive.pop(link, None)
        self._look_empty()

    def _look_empty(self) -> None:
        if self._stopping and not self._alive and not self._gone.happened:
            self._gone.fire(None)
