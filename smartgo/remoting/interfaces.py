"""What the remoting layer asks of the code above it, and what a processor may ask of a connection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import Attribute, Interface

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
        """Nothing was read or written for so long; the connection is closed next."""

    def disconnected(peer: IPeer, reason: Failure) -> None:
        """The connection was lost: the other side or the network ended it."""

    def closed(peer: IPeer) -> None:
        """We ended the connection."""

    def failed(peer: IPeer, failure: Failure) -> None:
        """Something went wrong on it (a broken stream, a failed handshake); C{disconnected} or C{closed} follows."""


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
        """Called once after the last request of one read that was given to this processor."""


class IRequestHook(Interface):
    """Sees every request before its processor and every answer after it."""

    def before(peer: IPeer, request: Command) -> Deferred[None] | None:
        """Let it pass (return), or stop it. @raise smartgo.errors.RequestRefused"""

    def after(peer: IPeer, request: Command, answer: Answer) -> None:
        """The answer is about to be written."""


class ICompressor(Interface):
    """One method of body compression."""

    flag = Attribute("The bits 8-10 of the sys flag that name the method.")

    def compress(body: bytes, level: int) -> bytes:
        """Compress."""

    def decompress(body: bytes, limit: int) -> bytes:
        """
        Decompress at most C{limit} bytes, stopping there rather than after.

        @raise smartgo.errors.BodyTooLong: there would be more.
        @raise smartgo.errors.BadCompression: not this method's bytes.
        """
