"""
Connections over real pairs of sockets on a virtual clock: what a hub reads, without a reactor.

L{SocketNetwork} takes the place of L{FakeNetwork<tests.fakes.FakeNetwork>}; C{pump} is its reactor.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.python.failure import Failure

from tests.fakes import FakeNetwork


class SocketPoller:
    """An epoll instance that L{SocketNetwork.pump} asks."""

    def __init__(self, ready: Callable[[], None], gone: Callable[[SocketPoller], object]) -> None:
        self._epoll = select.epoll()
        self.around = select.epoll()
        self.around.register(self._epoll.fileno(), select.EPOLLIN)
        self.spares = 1000.0
        self.ready = ready
        self._gone = gone

    def fileno(self) -> int:
        """The epoll instance's."""
        return self._epoll.fileno()

    def watched(self) -> int:
        """Return what stands for the reactor's."""
        return self.around.fileno()

    def spare(self) -> float:
        """Return what a test has set."""
        return self.spares

    def add(self, fd: int) -> None:
        """Add a socket."""
        self._epoll.register(fd, select.EPOLLIN)

    def remove(self, fd: int) -> None:
        """Remove a socket."""
        self._epoll.unregister(fd)

    def readable(self, limit: int) -> list[int]:
        """Those that can be read."""
        return [fd for fd, _ in self._epoll.poll(0, limit)]

    def close(self) -> None:
        """Leave the network."""
        self.around.close()
        self._epoll.close()
        self._gone(self)


class SocketTransport:
    """The accepted end of a pair of sockets: as much of a transport of Twisted's as a link uses."""

    def __init__(self, end: socket.socket, host: Any, peer: Any) -> None:
        self._socket = end
        self._host = host
        self._peer = peer
        self._unsent = b""
        self._producer: Any = None
        self._aborted = False
        self.protocol: Any = None
        self.reading = True
        self.disconnecting = False
        self.connected = True

    def getHandle(self) -> socket.socket:
        return self._socket

    def fileno(self) -> int:
        return self._socket.fileno()

    def getHost(self) -> Any:
        return self._host

    def getPeer(self) -> Any:
        return self._peer

    def setTcpNoDelay(self, on: bool) -> None:
        """There is no such delay."""

    def stopReading(self) -> None:
        self.reading = False

    pauseProducing = stopReading

    def startReading(self) -> None:
        self.reading = True

    def resumeProducing(self) -> None:
        if self.connected and not self.disconnecting:
            self.reading = True

    def writeSomeData(self, data: bytes) -> int | Exception:
        """Offer bytes to the socket."""
        try:
            return self._socket.send(data, socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return 0
        except OSError as error:
            return error

    def write(self, data: bytes) -> None:
        self._unsent += data

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        self._producer = producer
        if not streaming:
            producer.resumeProducing()

    def unregisterProducer(self) -> None:
        self._producer = None

    def loseConnection(self) -> None:
        self.disconnecting = True
        self.reading = False

    def abortConnection(self) -> None:
        self._aborted = True
        self.reading = False

    def pump(self) -> bool:
        """Do what a reactor would; return whether there was something to do."""
        if not self.connected:
            return False
        if self._aborted:
            return self._end(ConnectionLost())
        done = False
        if self._unsent:
            sent = self.writeSomeData(self._unsent)
            if not isinstance(sent, int):
                return self._end(ConnectionLost())
            self._unsent = self._unsent[sent:]
            done = sent > 0
        if not self._unsent:
            if self._producer is not None:
                self._producer.resumeProducing()
                done = True
            elif self.disconnecting:
                return self._end(ConnectionDone())
        if self.reading:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return done
            if not data:
                return self._end(ConnectionDone())
            self.protocol.dataReceived(data)
            done = True
        return done

    def _end(self, reason: Exception) -> bool:
        self.connected = False
        self.reading = False
        self.protocol.connectionLost(Failure(reason))
        self._socket.close()
        return True


class SocketNetwork(FakeNetwork):
    """A L{FakeNetwork} to which sockets can be joined, too."""

    def __init__(self) -> None:
        super().__init__()
        self.pollers: list[SocketPoller] = []
        self.transports: list[SocketTransport] = []

    def poller(self, ready: Callable[[], None]) -> Any:
        """Make one that L{pump} asks."""
        self.pollers.append(SocketPoller(ready, self.pollers.remove))
        return self.pollers[-1]

    def join(self, port: int) -> socket.socket:
        """Connect to a port; return the client's socket, which does not block."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        self._next_port += 1
        family = IPv6Address if ":" in self.client_ip else IPv4Address
        peer = family("TCP", self.client_ip, self._next_port)
        listening = self.ports[port]
        protocol: Any = listening.factory.buildProtocol(peer)
        transport = SocketTransport(theirs, listening.getHost(), peer)
        transport.protocol = protocol
        self.transports.append(transport)
        protocol.makeConnection(transport)
        return ours

    def pump(self) -> int:
        """Move bytes until none moves."""
        rounds = super().pump()
        while True:
            done = [transport.pump() for transport in self.transports]
            for poller in self.pollers[:]:
                if poller.readable(1):
                    poller.ready()
                    done.append(True)
            self.transports = [one for one in self.transports if one.connected]
            if not any(done):
                return rounds
            rounds += 1 + super().pump()
