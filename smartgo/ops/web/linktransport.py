"""The transport of Twisted's HTTP channel, over a link of ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from OpenSSL.crypto import X509
from twisted.internet.interfaces import IAddress, IConsumer, IPushProducer, ITransport
from zope.interface import implementer

from smartgo.net.link import IN_FLIGHT, Link

_FULL: Final = 64 * 1024  # bytes that are put together before they are written


@implementer(ITransport, IConsumer, IPushProducer)
class LinkTransport:
    """
    Passes on what an HTTP channel asks of its transport; the link has the socket, and all limits on it.

    @ivar disconnecting: whether the channel wrote its last.
    @ivar secure: whether there is TLS on the link.
    """

    def __init__(self, link: Link) -> None:
        self._link: Link | None = link
        self._peer: IAddress = link.transport.getPeer()
        self._host: IAddress = link.transport.getHost()
        self.secure = link.secure
        self._producer: Any = None
        self._paused = False
        self.disconnecting = False

    # -- out ---------------------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Send bytes with the next write of the link; pause the producer while the peer does not take them."""
        link = self._link
        if link is None or self.disconnecting or not link.open:
            return
        link.put(data)
        if link.unsent > _FULL:
            link.flush()
            if link.unsent and not self._paused and self._producer is not None:
                self._paused = True
                self._producer.pauseProducing()

    def writeSequence(self, data: Iterable[bytes]) -> None:
        """Send bytes that are in pieces."""
        self.write(b"".join(data))

    def written(self) -> None:
        """Let the producer go on, or the link end: the peer has taken everything."""
        if self.disconnecting:
            self._end()
        elif self._paused:
            self._paused = False
            if self._producer is not None:
                self._producer.resumeProducing()

    def loseConnection(self) -> None:
        """End the link once the peer has taken what was written, however long that takes while it takes some."""
        if not self.disconnecting:
            self.disconnecting = True
            if self._link is not None:
                self._link.flush()
                self._end()

    def _end(self) -> None:
        if self._link is not None and not self._link.unsent:
            self._link.end()

    def abortConnection(self) -> None:
        """End the link at once."""
        self.disconnecting = True
        if self._link is not None:
            self._link.abort()

    def forget(self) -> None:
        """Keep no reference to the link and the producer: the connection is gone."""
        self.disconnecting = True
        self._link = None
        self._producer = None

    # -- the producer of what is written -------------------------------------------------------------------------

    def registerProducer(self, producer: Any, streaming: bool) -> None:
        """Pause and resume this push producer."""
        self._producer = producer

    def unregisterProducer(self) -> None:
        """Pause and resume no producer any more."""
        self._producer = None

    # -- in ------------------------------------------------------------------------------------------------------

    def pauseProducing(self) -> None:
        """Read no more from the peer."""
        if self._link is not None:
            self._link.block(IN_FLIGHT)

    def resumeProducing(self) -> None:
        """Read on, at the end of this turn."""
        if self._link is not None:
            self._link.unblock(IN_FLIGHT)

    def stopProducing(self) -> None:
        """End the link."""
        self.loseConnection()

    # -- who is there ----------------------------------------------------------------------------------------------

    def getPeer(self) -> IAddress:
        """Return the address of the peer."""
        return self._peer

    def getHost(self) -> IAddress:
        """Return the address of ours that was dialled."""
        return self._host

    def getPeerCertificate(self) -> X509 | None:
        """Return the certificate of the peer that TLS has verified; C{None} where it has shown none."""
        return None if self._link is None else self._link.certificate
