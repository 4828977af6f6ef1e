"""The listening Service of remoting: one or more ports that answer requests."""

from __future__ import annotations

from typing import cast

from smartgo.env.interfaces import IEnvironment
from smartgo.net.limits import SERVER, Limits
from smartgo.net.link import Link
from smartgo.net.listener import Listener
from smartgo.net.sweeper import Sweeper
from smartgo.net.tls import ServerTLS
from smartgo.remoting.connection import Connection
from smartgo.remoting.dispatch import Dispatcher
from smartgo.remoting.interfaces import IConnectionListener
from smartgo.remoting.listeners import ListenerMux


class RemotingServer(Listener):
    """
    Listens at one or more places and answers requests there.

    Where it stops, requests that have no answer after C{limits.stop} seconds get 14.

    @ivar listener: hears what becomes of connections.
    """

    def __init__(
        self,
        env: IEnvironment,
        description: str,
        dispatcher: Dispatcher,
        sweeper: Sweeper,
        listener: IConnectionListener | None = None,
        limits: Limits = SERVER,
        tls: ServerTLS | None = None,
    ) -> None:
        """
        @param description: a server endpoint, such as C{tcp:10911:interface=127.0.0.1}; port 0 takes a free one.
        @param dispatcher: answers what comes there.
        @param sweeper: timers and the memory budget, shared with all connections of the process.
        """
        super().__init__(env, sweeper, limits, tls)
        self.listener: IConnectionListener = ListenerMux() if listener is None else listener
        self.add_dispatcher(description, dispatcher)

    def add_dispatcher(self, description: str, dispatcher: Dispatcher) -> None:
        """Listen at another place too, with its own table of requests; before C{open}."""

        def session(link: Link) -> Connection:
            return Connection(link, self.sweeper, self.limits, dispatcher, self.listener)

        self.add_port(description, session)

    @property
    def connections(self) -> list[Connection]:
        """The connections there are now."""
        return [cast("Connection", link.session) for link in self.links]
