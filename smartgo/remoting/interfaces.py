"""Interfaces between the remoting layer and the code above it: request processors, and their view of a connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import Attribute, Interface

from smartgo.errors import BadHeader
from smartgo.net.link import Link
from smartgo.schema.command import Command

Encoded: TypeAlias = "bytes | Sequence[bytes | memoryview]"
"""A whole response frame, length word included, already encoded; in pieces where copying them is to be avoided."""

Answer: TypeAlias = "Command | bytes | list[bytes | memoryview] | None"
"""What a processor returns at once: a response, an encoded response frame (whole or in pieces), or nothing to send."""


class IPeer(Interface):
    """One connection, as processors and listeners see it."""

    address = Attribute("The remote address as C{host:port}.")
    host = Attribute("The remote IP address and port as a record stores them: 4 or 16 bytes, then a big-endian int32.")
    local_ip = Attribute("The IP address of ours that was dialled, empty for connections that we dialled.")
    local_port = Attribute("The port of ours that was dialled, or C{0} for connections that we dialled.")
    certificate_names = Attribute(
        "tuple[str, ...]: the names of the client certificate that TLS has verified, as "
        "L{smartgo.net.certificatenames} has them; empty where it has shown none."
    )
    open = Attribute("False once the connection has ended.")

    def tell(command: Command) -> None:
        """Send a request that wants no answer; dropped silently when the connection is gone."""

    def ask(command: Command, timeout: float) -> Deferred[Command]:
        """
        Send a request and fire with the response, whatever its code.

        @raise smartgo.errors.CallTimedOut: through the Deferred, after C{timeout} seconds.
        @raise smartgo.errors.NotConnected: through the Deferred, when the connection ends first.
        """

    def close(reason: str) -> None:
        """End the connection; C{reason} goes to the log."""


class IOutstanding(Interface):
    """A request whose answer is not there yet, or some of them, as their connection sees them."""

    count = Attribute("int: how many requests.")
    size = Attribute("int: about how many bytes are kept for it.")
    held = Attribute("bool: whether it waits because the peer wants it to (a long poll).")

    def forget() -> None:
        """Keep neither the connection nor the request: nobody wants the answer any more."""

    def cancel() -> None:
        """Let a held answer go."""

    def give_up() -> None:
        """Answer in the processor's place; what it says later is dropped."""


class IDispatchedPeer(IPeer):
    """One connection, as the dispatcher of its requests sees it."""

    link: Link = Attribute("The L{Link<smartgo.net.link.Link>} below it.")
    full = Attribute("Whether too many requests are in flight to take another one.")

    def heard(answer: Command) -> None:
        """Take an answer to a call of ours."""

    def unreadable(error: BadHeader) -> None:
        """Note a frame whose header could not be read."""

    def begun(later: IOutstanding) -> None:
        """Note a request that waits for its answer."""

    def done(later: IOutstanding) -> bool:
        """Note that an answer is there; false where nobody wants it any more."""


class IConnectionListener(Interface):
    """
    Hears what becomes of connections; called on the reactor thread, must not block.

    Every C{active} or C{connected} is followed by exactly one C{disconnected} or C{closed}.
    """

    def active(peer: IPeer) -> None:
        """A client's connection was accepted; nothing has been read."""

    def connected(peer: IPeer) -> None:
        """A connection that we dialled came up."""

    def first_frame(peer: IPeer) -> None:
        """The first whole frame arrived."""

    def idle(peer: IPeer, seconds: float) -> None:
        """Handle C{seconds} without a read or a write; the connection is closed next."""

    def disconnected(peer: IPeer, reason: Failure) -> None:
        """The connection was lost: the other side or the network ended it."""

    def closed(peer: IPeer) -> None:
        """Handle the end of a connection that we ended."""

    def failed(peer: IPeer, failure: Failure) -> None:
        """Handle a failure (a broken stream, a failed handshake); C{disconnected} or C{closed} follows."""


class IRequestProcessor(Interface):
    """Answers one family of request codes."""

    codes = Attribute("frozenset[int]: the request codes it answers.")

    def process(peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Answer one request; at once where possible, by a Deferred where not.

        @raise smartgo.errors.RequestRefused: answer with its code and message.
        """

    def refuses() -> bool:
        """True: answer SYSTEM_BUSY (2) C{[REJECTREQUEST]...} without processing."""

    def run_ended() -> None:
        """Called once after the last request of a read, or of reads in close succession, that it was given."""


class IRunSource(IRequestProcessor):
    """A processor that has runs of plain requests for the hub; see L{smartgo.net.hub.RunSource}."""

    grants = Attribute(
        "L{RunGrants<smartgo.remoting.rungrants.NoRunGrants>} | None: what its runs ask about frames; C{None}: nothing."
    )

    def ready_run() -> Any:
        """Return what takes raw frames now and answers them at once; C{None}: nothing does."""


class IRunTaker(IRunSource):
    """
    A processor that answers whole runs of plain requests faster than one by one.

    It is asked where no hook has to see each request, or the only one has given it its grants.
    """

    def take(
        peer: IDispatchedPeer,
        frames: list[bytes],
        begin: int,
        room: int,
        late: list[tuple[Command, Answer | Deferred[Answer]]],
    ) -> int:
        """
        Answer the frames from C{begin} on, up to the first that is anything but plain; that one gets L{process}.

        What is not taken has changed nothing.

        @param room: how many bytes of answers may be put into C{peer.link.out}; one answer may pass it.
        @param late: requests that were taken but are not answered yet are put here with their answers.
        @return: how many frames were taken.
        """

    def awaited() -> bool:
        """Tell whether anybody waits for what runs store, who is told of it when they end."""


class IRequestHook(Interface):
    """
    Sees every request before its processor and every answer after it.

    Those that runs of a processor take are shown to its grants alone, if the processor has the same ones.
    """

    grants = Attribute(
        "L{RunGrants<smartgo.remoting.rungrants.NoRunGrants>} | None: let pass what L{before} would; C{None}: none."
    )

    def before(peer: IPeer, request: Command) -> Deferred[None] | None:
        """Let it pass (return), or stop it. @raise smartgo.errors.RequestRefused"""

    def after(peer: IPeer, request: Command, answer: Answer) -> None:
        """The answer is about to be written."""
