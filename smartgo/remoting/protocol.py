"""The Twisted protocol: a thin skin between a transport, TLS where it is spoken, and a L{Connection}."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import ITCPTransport
from twisted.internet.protocol import Protocol, connectionDone
from twisted.protocols.tls import TLSMemoryBIOFactory
from twisted.python.failure import Failure

from smartgo.errors import FramingError, NotConnected
from smartgo.net.tls import (
    CLIENT_HELLO,
    ClientTLS,
    HandshakeFailed,
    Mode,
    PlainRefused,
    ServerTLS,
    TLSRefused,
    readable,
    wrap,
)
from smartgo.remoting.connection import Connection
from smartgo.remoting.framing import LengthFieldDecoder
from smartgo.remoting.plainrefusal import refusal
from smartgo.schema.message import pack_host

SHORTEST: Final = 4  # bytes of a frame: its header word


def peer_address(address: object) -> tuple[str, str, bytes]:
    """
    Return an address as C{host:port}, its IP alone, and as a record stores it.

    What is no IP address (a UNIX socket, a test's) counts as the loopback interface, port 0.
    """
    if isinstance(address, IPv6Address):
        ip = address.host.partition("%")[0]
        mapped = ip.removeprefix("::ffff:")
        if mapped != ip and "." in mapped:
            return f"{mapped}:{address.port}", mapped, pack_host(mapped, address.port)
        return f"[{ip}]:{address.port}", ip, pack_host(ip, address.port)
    if isinstance(address, IPv4Address):
        return f"{address.host}:{address.port}", address.host, pack_host(address.host, address.port)
    return "127.0.0.1:0", "127.0.0.1", pack_host("127.0.0.1", 0)


class _Discards(LengthFieldDecoder):
    """A decoder for a connection that is over: nothing comes out of it, and nothing stays in it."""

    def frames(self, data: bytes) -> list[bytes]:
        """Drop a chunk."""
        return []


_DISCARDS: Final = _Discards(0)


class RemotingProtocol(Protocol):
    """
    One connection's protocol.

    What C{dataReceived} is depends on what was heard: a listener that may speak TLS looks at the first byte, then
    the attribute is replaced by the method that is right from there on. So the plain path pays nothing for it.
    """

    transport: Any

    def __init__(self, connection: Connection, limit: int, tls: ServerTLS | ClientTLS | None, name: str = "") -> None:
        """
        @param limit: the longest frame accepted, in bytes.
        @param tls: C{None}: plain only.
        @param name: the host name that was dialled, which its certificate must have.
        """
        self.connection = connection
        self._decoder = LengthFieldDecoder(limit, SHORTEST)
        self._sniffs = tls if isinstance(tls, ServerTLS) and tls.mode is not Mode.DISABLED else None
        self._speaks = tls if isinstance(tls, ClientTLS) else None
        self._name = name
        self._layer: Any = None  # TLS, once it is there

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished frame are here."""
        return self._decoder.pending

    def connectionMade(self) -> None:
        """Greet the connection, and find out whether it wants TLS."""
        transport = self.transport
        if ITCPTransport.providedBy(transport):
            transport.setTcpNoDelay(True)
        local = transport.getHost()
        port = local.port if isinstance(local, (IPv4Address, IPv6Address)) else 0
        _, here, _ = peer_address(local)
        address, ip, host = peer_address(transport.getPeer())
        sniffs, speaks = self._sniffs, self._speaks
        self.connection.up(self, address, ip, host, port, sniffs is not None or speaks is not None, here)
        if speaks is not None:
            self._secure(speaks.factory(self._name))
        elif sniffs is not None:
            self.dataReceived = partial(self._sniff, sniffs)  # type: ignore[method-assign]
        else:
            self.connection.ready(transport, False)

    def dataReceived(self, data: bytes) -> None:
        """Hand over every whole frame; end the connection where the stream is broken."""
        connection = self.connection
        decoder = self._decoder
        try:
            frames = decoder.frames(data)
            connection.heard_chunk(decoder.pending, bool(frames))
            if frames:
                connection.receive(frames)
                if decoder.broken is not None:
                    raise decoder.broken
        except FramingError as broken:  # whose traceback would lead back to this frame and the decoder
            reason: FramingError = broken.with_traceback(None)
            if data[0] == CLIENT_HELLO and not connection.frames and not connection.dialled:
                reason = TLSRefused("it speaks TLS, which is off here (tls.server.mode, tls.server.certPath)")
            connection.fail(Failure(reason))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        """Tell the connection."""
        if self._layer is not None:
            self._layer.connectionLost(reason)  # comes back to lost()
        else:
            self.lost(reason)

    def lost(self, reason: Failure) -> None:
        """
        The transport, and TLS on it, are gone.

        What leads in a circle is cut here, so that the connection and its buffers are freed now and not when the
        garbage collector comes by.
        """
        self.connection.gone(self._explained(readable(reason)))
        self.stop_taking()
        self._layer = None
        vars(self).pop("dataReceived", None)

    def _explained(self, reason: Failure) -> Failure:
        """Guess why a peer that we dialled has closed the connection before it said anything."""
        connection = self.connection
        if not connection.dialled or not connection.open or not reason.check(ConnectionDone, ConnectionLost):
            return reason
        if self._speaks is not None and not connection.secure:
            return Failure(HandshakeFailed("it was closed before TLS was agreed on; does the port speak TLS?"))
        if self._speaks is None and not connection.frames:
            return Failure(NotConnected("it was closed before anything was answered; does the port want TLS?"))
        return reason

    def stop_taking(self) -> None:
        """Throw away what was gathered of a frame, and whatever still comes."""
        self._decoder = _DISCARDS
        if self._layer is None:  # no more looking at first bytes
            vars(self).pop("dataReceived", None)

    # -- reading ---------------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Take nothing from the socket any more."""
        self.transport.pauseProducing()

    def resume_reading(self) -> None:
        """Go on."""
        self.transport.resumeProducing()

    # -- TLS -------------------------------------------------------------------------------------------------

    def _sniff(self, tls: ServerTLS, data: bytes) -> None:
        """Look at the first byte of all."""
        if data[0] == CLIENT_HELLO:
            self._secure(tls.factory())
            self.dataReceived(data)
        elif tls.mode is Mode.ENFORCING:
            self.transport.write(refusal(data))
            self.connection.fail(Failure(PlainRefused("it speaks no TLS, which is enforced here (tls.server.mode)")))
        else:
            del self.dataReceived
            self.connection.ready(self.transport, False)
            self.dataReceived(data)

    def _secure(self, factory: TLSMemoryBIOFactory) -> None:
        """Put TLS between the transport and us."""
        self.connection.handshake_begun()
        self._layer = wrap(factory, self.plain_received, self.secured, self.lost)
        self.dataReceived = self._layer.dataReceived  # type: ignore[method-assign]
        self._layer.makeConnection(self.transport)

    def secured(self) -> None:
        """The handshake succeeded; the peer is who it must be."""
        self.connection.ready(self._layer, True)

    def plain_received(self, data: bytes) -> None:
        """Take what TLS deciphered."""
        RemotingProtocol.dataReceived(self, data)
