"""The listening Service: one or more ports that answer requests, with the limits on their connections."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IAddress, IDelayedCall, IListeningPort
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.env.interfaces import IEnvironment
from smartgo.net.limits import SERVER, Limits
from smartgo.net.sweeper import INTERVAL, Sweeper
from smartgo.net.tls import ServerTLS
from smartgo.remoting.connection import Connection
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.interfaces import IConnectionListener
from smartgo.remoting.listeners import ListenerMux
from smartgo.remoting.origin import is_loopback
from smartgo.remoting.protocol import RemotingProtocol, peer_address

_MEASURE_LEAST: Final = 16  # connections between two counts of the descriptors, which take a millisecond or more
_LAST_WORDS: Final = 1.0  # seconds for what is unsent, after the time for answers is over


class _Once:
    """Something that is done once, and whose result is given to everybody who asks."""

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._waiting: list[Deferred[None]] = []
        self._failure: Failure | None = None
        self.done = False
        self._running = Deferred.fromCoroutine(work)
        self._running.addCallbacks(self._finished, self._finished)

    def _finished(self, result: Failure | None) -> None:
        self.done = True
        self._failure = result
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self._give(one)

    def _give(self, one: Deferred[None]) -> None:
        if self._failure is None:
            one.callback(None)
        else:
            one.errback(self._failure)

    def result(self) -> Deferred[None]:
        """Fire when it is done."""
        one: Deferred[None] = Deferred()
        if self.done:
            self._give(one)
        else:
            self._waiting.append(one)
        return one

    def cancel(self) -> None:
        """Give it up, if it is not done."""
        if not self.done:
            self._running.cancel()


class Listener(Factory):
    """
    One listening port: makes connections, or turns them away (L8).

    @ivar description: the endpoint description it listens at.
    @ivar port: what listens, once it does.
    @ivar connections: those it let in and are not gone, with their IP addresses.
    """

    noisy = False
    _log = Logger()

    def __init__(self, server: RemotingServer, description: str, dispatcher: Dispatcher) -> None:
        self._server = server
        self.description = description
        self._dispatcher = dispatcher
        self.port: IListeningPort | None = None
        self.connections: dict[Connection, str] = {}
        self._by_ip: dict[str, int] = {}

    @property
    def number(self) -> int:
        """The port number, C{0} while it does not listen or where there is no such thing."""
        address = None if self.port is None else self.port.getHost()
        return address.port if isinstance(address, (IPv4Address, IPv6Address)) else 0

    def buildProtocol(self, addr: IAddress | None) -> RemotingProtocol | None:
        """Let a client in; C{None} makes Twisted close the socket at once."""
        server = self._server
        limits = server.limits
        _, ip, _ = peer_address(addr)
        if (
            len(self.connections) >= limits.connections
            or (self._by_ip.get(ip, 0) >= limits.per_address and not is_loopback(ip))
            or not server.may_accept()
        ):
            server.rounds.counts.turned_away += 1
            server.rounds.complaints.warn(
                ip, "turned {peer} away: {count} connections on {door}", peer=ip, count=len(self.connections),
                door=self.description,
            )  # fmt: skip
            return None
        connection = Connection(server.rounds, limits, self._dispatcher, server.listener, self)
        self.connections[connection] = ip
        self._by_ip[ip] = self._by_ip.get(ip, 0) + 1
        return RemotingProtocol(connection, limits.frame, server.tls)

    def leaving(self, connection: Connection) -> None:
        """It is being closed; its place is free when it is gone."""

    def ended(self, connection: Connection) -> None:
        """It is gone."""
        ip = self.connections.pop(connection)
        left = self._by_ip[ip] - 1
        if left:
            self._by_ip[ip] = left
        else:
            del self._by_ip[ip]
        self._server.one_ended()


class RemotingServer(Service):
    """
    Listens at one or more places and answers requests there.

    @ivar limits: what connections may take.
    @ivar listener: hears what becomes of them.
    @ivar tls: C{None} for plain only.
    @ivar rounds: timers and counts, shared with all connections of the process.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        description: str,
        dispatcher: Dispatcher,
        rounds: Sweeper,
        listener: IConnectionListener | None = None,
        limits: Limits = SERVER,
        tls: ServerTLS | None = None,
    ) -> None:
        """
        @param description: a server endpoint, such as C{tcp:10911:interface=127.0.0.1}; port 0 takes a free one.
        @param dispatcher: answers what comes there.
        @param rounds: timers and the memory budget, shared with all connections of the process.
        """
        self._env = env
        self.limits = limits
        self.listener: IConnectionListener = ListenerMux() if listener is None else listener
        self.tls = tls
        self.rounds = rounds
        self._doors = [Listener(self, description, dispatcher)]
        self._opened: _Once | None = None
        self._stopped: _Once | None = None
        self._empty: Deferred[None] | None = None
        self._budget = 0  # connections to let in before the descriptors are counted again
        self._waits = False
        self.check_at = 0.0

    def add_door(self, description: str, dispatcher: Dispatcher) -> None:
        """Listen at another place too, with its own table of requests; before L{open}."""
        self._doors.append(Listener(self, description, dispatcher))

    @property
    def ports(self) -> list[int]:
        """The port numbers, in the order the places were given; C{0} for those that do not listen."""
        return [door.number for door in self._doors]

    @property
    def connections(self) -> list[Connection]:
        """The connections there are now."""
        return [connection for door in self._doors for connection in door.connections]

    # -- starting ----------------------------------------------------------------------------------------------

    def open(self) -> Deferred[None]:
        """
        Begin to listen; fires when all ports do. A second call gives the same result.

        @raise twisted.internet.error.CannotListenError: through the Deferred: an address is taken or not ours; none
            of the ports listens then.
        """
        if self._opened is None:
            self._opened = _Once(self._open())
        return self._opened.result()

    async def _open(self) -> None:
        try:
            for door in self._doors:
                door.port = await self._env.network.listen(door.description, door)
        except BaseException:
            await self._close_ports()
            raise

    def startService(self) -> None:
        """Begin to listen, unless L{open} was called before."""
        super().startService()
        self.open().addErrback(lambda failure: self._log.failure("the server does not listen", failure=failure))

    # -- the limits on accepting -------------------------------------------------------------------------------

    def may_accept(self) -> bool:
        """Whether there are descriptors for one more connection; where not, accepting waits until there are."""
        if self._waits:
            return False
        if self._budget <= 0:
            spare = self._free_descriptors() - self._kept_descriptors()
            if spare <= 0:
                self._wait()
                return False
            self._budget = max(_MEASURE_LEAST, spare // 2)
        self._budget -= 1
        return True

    def _free_descriptors(self) -> int:
        host = self._env.host
        free: int = host.open_file_limit() - host.open_files()
        return free

    def _kept_descriptors(self) -> int:
        """Return how many descriptors are not for connections: a quarter of all where the process may have few."""
        limit: int = self._env.host.open_file_limit()
        return min(self.limits.spare_descriptors, limit // 4)

    def _wait(self) -> None:
        self._waits = True
        self.rounds.counts.waits += 1
        self._log.warn("too few descriptors are free; no connections are accepted for now")
        self.check_at = self.rounds.clock.seconds() + INTERVAL
        self.rounds.join(self)
        self._set_accepting(False)

    def check(self, now: float) -> None:
        """See whether descriptors were freed."""
        if self._free_descriptors() < self._kept_descriptors() + _MEASURE_LEAST:
            self.check_at = now + INTERVAL
            return
        self._waits = False
        self._budget = 0
        self.rounds.leave(self)
        self._log.info("connections are accepted again")
        self._set_accepting(True)

    def _set_accepting(self, on: bool) -> None:
        for door in self._doors:
            port: Any = door.port
            # A listening socket of Twisted's is a producer of connections, though its interface does not say so.
            # What has no such method is turned away one by one.
            change = getattr(port, "resumeProducing" if on else "pauseProducing", None)
            if change is not None:
                change()

    # -- stopping ----------------------------------------------------------------------------------------------

    def stopService(self) -> Deferred[None]:
        """
        Stop listening, answer what is in flight, close all connections; fires when they are gone.

        Requests that have no answer after C{limits.stop} seconds get 14; a second later what is left is cut. A
        second call gives the same result.
        """
        super().stopService()
        if self._stopped is None:
            self._stopped = _Once(self._stop())
        return self._stopped.result()

    async def _stop(self) -> None:
        self.rounds.leave(self)
        if self._opened is not None:
            self._opened.cancel()
        await self._close_ports()
        if not self.connections:
            return
        empty: Deferred[None] = Deferred()
        self._empty = empty
        timers: list[IDelayedCall] = [
            self._env.clock.callLater(self.limits.stop, self._give_up),
            self._env.clock.callLater(self.limits.stop + _LAST_WORDS, self._cut),
        ]
        for connection in self.connections:
            connection.drain()
        await empty
        for timer in timers:
            if timer.active():
                timer.cancel()

    def _give_up(self) -> None:
        for connection in self.connections:
            connection.give_up()

    def _cut(self) -> None:
        for connection in self.connections:
            connection.abort()

    def one_ended(self) -> None:
        """A connection is gone."""
        if self._empty is not None and not self.connections:
            empty, self._empty = self._empty, None
            empty.callback(None)

    async def _close_ports(self) -> None:
        for door in self._doors:
            port, door.port = door.port, None
            if port is not None:
                await maybeDeferred(port.stopListening)
