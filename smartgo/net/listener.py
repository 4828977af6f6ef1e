"""
The listening Service: one or more ports, the limits on their links (L8), and a stop that lets the links finish.

What the bytes of a link mean is for the session that each port's C{sessions} makes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.interfaces import IAddress, IDelayedCall, IListeningPort, IReactorCore
from twisted.internet.protocol import Factory
from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.net.admission import Admission, RefusingAdmission
from smartgo.net.counts import Counts
from smartgo.net.endpoints import PeerAddress, peer_address, port_number
from smartgo.net.limits import SERVER, Limits
from smartgo.net.link import Link
from smartgo.net.session import ISession
from smartgo.net.sweeper import INTERVAL, Sweeper
from smartgo.net.tls import ServerTLS
from smartgo.observer import OneShotObserver

_MEASURE_LEAST: Final = 16  # links between two counts of the descriptors, which take a millisecond or more
_LAST_WORDS: Final = 1.0  # seconds for what is unsent, after the time for answers is over


Screen = Callable[[PeerAddress], Callable[[Link], ISession] | None]
"""Looks at the address of a peer: returns what makes its session, or C{None} to turn it away."""


class ListeningPort(Factory):
    """
    A listening port: makes links, or turns peers away (L8).

    @ivar description: the endpoint description it listens at.
    @ivar port: what listens, once it does.
    @ivar links: those it let in and are not gone.
    @ivar counts: what happened to the links of all ports of the listener.
    """

    noisy = False

    def __init__(self, server: Listener, description: str, screen: Screen) -> None:
        self._server = server
        self.counts = server.counts
        self.description = description
        self._screen = screen
        self.port: IListeningPort | None = None
        self.links: dict[Link, None] = {}
        self._admission = server.admission(server.limits)

    @property
    def number(self) -> int:
        """The port number, C{0} while it does not listen or where there is no such thing."""
        return 0 if self.port is None else port_number(self.port.getHost())

    def buildProtocol(self, addr: IAddress | None) -> Link | None:
        """Accept a peer; C{None} makes Twisted close the socket at once."""
        server = self._server
        remote = peer_address(addr)
        ip = remote.ip
        if not (self._admission.admit(ip) and server.may_accept()) or server.buggify("listener.turn-away"):
            server.counts.turned_away += 1
            server.sweeper.peer_warnings.warn(
                ip, "turned {peer} away: {count} connections on {endpoint}", peer=ip, count=len(self.links),
                endpoint=self.description,
            )  # fmt: skip
            return None
        sessions = self._screen(remote)
        if sessions is None:
            return None
        limits = server.limits.tightest if server.buggify("listener.small-buffers") else server.limits
        link = Link(sessions, limits, server.sweeper, self, server.tls)
        self.links[link] = None
        self._admission.add(link, ip)
        return link

    def leaving(self, link: Link) -> None:
        """Wait: its place is free when it is gone."""

    def ended(self, link: Link) -> None:
        """Free the place of a link that ended."""
        del self.links[link]
        self._admission.discard(link)
        self._server.one_ended()


class Listener(Service):
    """
    Listens at one or more places.

    @ivar limits: what links may take.
    @ivar tls: C{None} for plain only.
    @ivar admission: makes what decides, at each port, whether one more link is let in.
    @ivar sweeper: timers and the memory budget, shared with all links of the process.
    @ivar counts: what happened to the links of all its ports.
    @ivar buggify: see L{IEnvironment.buggify}.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        sweeper: Sweeper,
        limits: Limits = SERVER,
        tls: ServerTLS | None = None,
        admission: Callable[[Limits], Admission] = RefusingAdmission,
    ) -> None:
        """
        @param sweeper: timers and the memory budget, shared with all links of the process.
        @param admission: makes what decides, at each port, whether one more link is let in.
        """
        self._env = env
        self.buggify = env.buggify
        self.sweeper = sweeper
        self.counts = Counts()
        self.limits = limits
        self.tls = tls
        self.admission = admission
        self._ports: list[ListeningPort] = []
        self._opening: Deferred[None] | None = None
        self._opened: OneShotObserver[None] | None = None
        self._stopped: OneShotObserver[None] | None = None
        self._empty: Deferred[None] | None = None
        self._budget = 0  # links to let in before the descriptors are counted again
        self._waits = False
        self.check_at = 0.0

    def add_port(self, description: str, sessions: Callable[[Link], ISession]) -> None:
        """
        Listen at one more place; before L{open}.

        @param description: a server endpoint, such as C{tcp:10911:interface=127.0.0.1}; port 0 takes a free one.
        @param sessions: makes the session of each link.
        """
        self.add_screened(description, lambda _: sessions)

    def add_screened(self, description: str, screen: Screen) -> None:
        """Add a port as L{add_port} does; C{screen} chooses the session of each peer, or turns it away."""
        self._ports.append(ListeningPort(self, description, screen))

    @property
    def ports(self) -> list[int]:
        """The port numbers, in the order the places were given; C{0} for those that do not listen."""
        return [port.number for port in self._ports]

    @property
    def links(self) -> list[Link]:
        """The links there are now."""
        return [link for port in self._ports for link in port.links]

    @property
    def stopping(self) -> bool:
        """True once L{stopService} was called."""
        return self._stopped is not None

    # -- starting ----------------------------------------------------------------------------------------------

    def open(self) -> Deferred[None]:
        """
        Begin to listen; fires when all ports do. A second call gives the same result.

        @raise twisted.internet.error.CannotListenError: through the Deferred: an address is taken or not ours; none
            of the ports listens then.
        """
        if self._opened is None:
            self._opening = Deferred.fromCoroutine(self._open())
            self._opened = OneShotObserver.of(self._opening)
        return self._opened.when()

    async def _open(self) -> None:
        try:
            for port in self._ports:
                listening = await self._env.network.listen(port.description, port)
                if self._stopped is not None:  # meanwhile
                    await maybeDeferred(listening.stopListening)
                    return
                port.port = listening
        except BaseException:
            await self._close_ports()
            raise

    def startService(self) -> None:
        """Begin to listen, unless L{open} was called before."""
        super().startService()
        self.open().addErrback(
            lambda failure: self._log.failure("the listener could not open its ports", failure=failure)
        )

    def run(self, reactor: IReactorCore) -> Deferred[None]:
        """
        Begin to listen, and stop with the reactor, which waits for it; for programs that are nothing else.

        @return: fires never; fails as L{open}.
        """
        reactor.addSystemEventTrigger("before", "shutdown", self.stopService)
        return self.open().addCallback(lambda _: Deferred())

    # -- the limits on accepting -------------------------------------------------------------------------------

    def may_accept(self) -> bool:
        """Tell whether there are file descriptors for one more link; if not, accepting waits until there are."""
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
        """Return how many descriptors are not for links: a quarter of all where the process may have few."""
        limit: int = self._env.host.open_file_limit()
        return min(self.limits.spare_descriptors, limit // 4)

    def _wait(self) -> None:
        self._waits = True
        self.counts.waits += 1
        self._log.warn("too few descriptors are free; no connections are accepted for now")
        self.check_at = self.sweeper.clock.seconds() + INTERVAL
        self.sweeper.join(self)
        self._set_accepting(False)

    def check(self, now: float) -> None:
        """Resume accepting if file descriptors were freed."""
        if self._free_descriptors() < self._kept_descriptors() + _MEASURE_LEAST:
            self.check_at = now + INTERVAL
            return
        self._waits = False
        self._budget = 0
        self.sweeper.leave(self)
        self._log.info("connections are accepted again")
        self._set_accepting(True)

    def _set_accepting(self, on: bool) -> None:
        for one in self._ports:
            port: Any = one.port
            # A listening socket of Twisted's is a producer of connections, though its interface does not say so.
            # What has no such method is turned away one by one.
            change = getattr(port, "resumeProducing" if on else "pauseProducing", None)
            if change is not None:
                change()

    # -- stopping ----------------------------------------------------------------------------------------------

    def stopService(self) -> Deferred[None]:
        """
        Stop listening, let sessions finish what is in flight, close all links; fires when they are gone.

        Sessions that are busy after C{limits.stop} seconds are told to give up; a second later what is left is cut. A
        second call gives the same result.
        """
        super().stopService()
        if self._stopped is None:
            self._stopped = OneShotObserver.of(Deferred.fromCoroutine(self._stop()))
        return self._stopped.when()

    async def _stop(self) -> None:
        self.sweeper.leave(self)
        if self._opening is not None and self._opened is not None and not self._opened.happened:
            self._opening.cancel()
        await self._close_ports()
        if not self.links:
            return
        empty: Deferred[None] = Deferred()
        self._empty = empty
        timers: list[IDelayedCall] = [
            self._env.clock.callLater(self.limits.stop, self._give_up),
            self._env.clock.callLater(self.limits.stop + _LAST_WORDS, self._cut),
        ]
        for link in self.links:
            link.drain()
        await empty
        for timer in timers:
            if timer.active():
                timer.cancel()

    def _give_up(self) -> None:
        for link in self.links:
            link.give_up()

    def _cut(self) -> None:
        for link in self.links:
            link.abort()

    def one_ended(self) -> None:
        """Note that a link is gone."""
        if self._empty is not None and not self.links:
            empty, self._empty = self._empty, None
            empty.callback(None)

    async def _close_ports(self) -> None:
        for one in self._ports:
            port, one.port = one.port, None
            if port is not None:
                await maybeDeferred(port.stopListening)
