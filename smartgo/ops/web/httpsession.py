"""
One HTTP connection: a session on a link.

The link has what every protocol needs: TLS, the count of what is unsent, the memory budget, the time for a handshake
and for silence, the end. Twisted's HTTP channel reads the requests and writes the answers. What is left for the session
are the deadlines of HTTP, which end in an answer in place of a cut (reliability L22).
"""

from __future__ import annotations

from typing import Final, Protocol

from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.net.limits import NEVER
from smartgo.net.link import Link
from smartgo.net.session import ISession, NullSession
from smartgo.net.sweeper import Sweeper
from smartgo.ops.problems import Problem, as_response
from smartgo.ops.web.channel import Channel, Site
from smartgo.ops.web.linktransport import LinkTransport

REQUEST_SECONDS: Final = 30.0
FIRST_SECONDS: Final = 10.0
"""For the head of the first request of a connection."""
PLAIN_DETAIL: Final = "this port speaks only HTTPS, and the request is plain HTTP: use https:// in the address"

_LINGER_SECONDS: Final = 2.0


class ServingSite(Site, Protocol):
    """A site, as its sessions see it."""

    secure: bool
    sweeper: Sweeper

    def used(self, link: Link) -> None:
        """Note a request of a connection."""


@implementer(ISession)
class HttpSession(NullSession):
    """
    The requests of one link.

    @ivar channel: reads the requests.
    """

    def __init__(self, link: Link, site: ServingSite) -> None:
        self._link = link
        self._site = site
        self._sweeper = site.sweeper
        self._transport: LinkTransport | None = None
        self._first_due = NEVER  # the head of the first request
        self._request_due = NEVER  # the request that has begun
        self._leave_due = NEVER  # the end, after an answer that refused what came
        self._kept = 0  # bytes of the request that is served
        self._frames_before = 0  # when L{read_on} was last called
        self.channel = Channel(site, self)

    # -- what the channel tells ------------------------------------------------------------------------------------

    def head_complete(self) -> None:
        """Stop the timer of the first request: its head is complete."""
        self._first_due = NEVER
        self._site.used(self._link)

    def request_complete(self, size: int) -> None:
        """Stop the timer of a request: it is complete, and C{size} bytes of it are kept until it is answered."""
        self.frames += 1
        self._request_due = NEVER
        self._kept = size
        self._link.account.begin(size, False)

    def request_done(self) -> None:
        """Keep nothing of a request that was answered."""
        kept, self._kept = self._kept, 0
        self._link.account.end(kept, False)
        self._site.used(self._link)

    def refused(self) -> None:
        """Close in a while: what the client still sends is thrown away, else the answer may be lost with it."""
        self._first_due = self._request_due = NEVER
        self._leave_due = self._sweeper.clock.seconds() + _LINGER_SECONDS
        self._sweeper.expect(self, self._leave_due)

    # -- the link's calls ------------------------------------------------------------------------------------------

    def opened(self) -> None:
        """Connect the channel; start the timer for the first request: the sender is not known yet."""
        if self._site.secure and not self._link.secure:
            self._link.put(self.refusal(b""))
            self._link.end()
            return
        self._transport = LinkTransport(self._link)
        self.channel.makeConnection(self._transport)
        self._first_due = self._sweeper.clock.seconds() + FIRST_SECONDS
        self._sweeper.expect(self, self._first_due)

    def refusal(self, data: bytes) -> bytes:
        """Return what a client without TLS is told where nothing but HTTPS is spoken."""
        return as_response(Problem(400, PLAIN_DETAIL), "")

    def received(self, data: bytes) -> None:
        """Let the channel read, see L{read_on}."""
        self.channel.dataReceived(data)
        self.read_on()

    def read_on(self) -> None:
        """Count what is not whole, and start the timer of a request that has begun."""
        channel, link = self.channel, self._link
        if link.state.over:
            return
        held = channel.held
        if held or self.pending:
            self.pending = held
            link.gathered(held, self.frames != self._frames_before)
            self._frames_before = self.frames
        if self._request_due == NEVER and channel.has_begun and not channel.is_served and self._leave_due == NEVER:
            self._request_due = self._sweeper.clock.seconds() + REQUEST_SECONDS
            self._sweeper.expect(self, self._request_due)

    def writable(self) -> None:
        """Let the channel write on: the peer has taken everything."""
        if self._transport is not None:
            self._transport.written()

    def busy(self) -> bool:
        """Return whether a request is being served."""
        return self.channel.is_served

    def give_up(self) -> None:
        """Cut the answer that is not complete."""
        self._link.abort()

    def idle(self, seconds: float) -> bool:
        """Return whether the link stays: a request is served, which has time limits of its own."""
        return self.busy()

    def lost(self, reason: Failure) -> None:
        """Tell the channel and its requests; keep nothing that leads back to the link."""
        self._sweeper.no_more(self)
        if self._transport is not None:
            self._transport.forget()
            self._transport = None
            self.channel.connectionLost(reason)
        self.channel.forget()

    # -- time --------------------------------------------------------------------------------------------------------

    def expire(self, now: float) -> float:
        """Answer a request that took too long, or close; return the earliest deadline that is left."""
        channel = self.channel
        if now >= self._leave_due:
            self._leave_due = NEVER
            channel.loseConnection()
        elif now >= self._first_due:
            self._first_due = NEVER
            if channel.has_begun:
                channel.refuse(408, f"the headers of the first request were not complete within {FIRST_SECONDS:g} s")
            else:
                self._link.abort()
        elif now >= self._request_due and self._link.account.paused:  # it is we who do not read
            self._request_due = now + REQUEST_SECONDS
        elif now >= self._request_due:
            self._request_due = NEVER
            channel.refuse(408, f"the request was not complete within {REQUEST_SECONDS:g} s")
        return min(self._first_due, self._request_due, self._leave_due)
