"""The interface of sessions: the protocols over a L{Link<smartgo.net.link.Link>}, without a socket."""

from __future__ import annotations

from typing import Final

from twisted.python.failure import Failure
from zope.interface import Attribute, Interface, implementer

from smartgo.net.hub import KeptAnswers, RunSource


class ISession(Interface):
    """
    The protocol spoken over one link. It is made with the link, before there is a transport; called on the reactor
    thread, must not block. The session sends bytes by L{Link.put}.
    """

    frames = Attribute("int: how many whole frames, lines or other units have come.")
    pending = Attribute("int: how many bytes of a unit that is not whole are kept; C{0} between two units.")
    missing = Attribute("int: how many bytes such a unit lacks; C{-1} while that is not known, C{0} between two units.")
    run_sources = Attribute("tuple[L{RunSource<smartgo.net.hub.RunSource>}, ...]: what takes runs of its units.")
    in_flight = Attribute("int: how many requests wait for their answers, those not counted that want to wait (L12).")

    def connected() -> None:
        """Prepare for a peer: the transport is up, but a TLS handshake may come first, so write nothing yet."""

    def opened() -> None:
        """Begin to talk to the peer: the TLS handshake is over, where there is one."""

    def received(data: bytes) -> None:
        """
        Take bytes of the peer, deciphered where there is TLS.

        @raise smartgo.errors.FramingError: the stream is broken; the link is closed and the peer noted in the log.
        """

    def begun(later: KeptAnswers) -> None:
        """Note requests that were taken in a run, and whose answers wait."""

    def done(later: KeptAnswers) -> bool:
        """Note that these answers may leave; false where nobody wants them any more."""

    def turn() -> int:
        """Process some of what waits, as C{link.backlog} has announced; return how many units."""

    def writable() -> None:
        """Go on writing: the peer has taken what was unsent, or nearly all of it."""

    def busy() -> bool:
        """Tell whether the session has unfinished work that a draining link waits for."""

    def draining() -> None:
        """Drop what would never end: the link accepts nothing more."""

    def give_up() -> None:
        """Answer what is unfinished as well as possible: the time to finish it is over."""

    def refusal(data: bytes) -> bytes:
        """Return what a peer without TLS is told where TLS is enforced; C{data} is what it has said first."""

    def ending() -> None:
        """Drop what came and waits: the link ends. Called once, before L{lost}; what is put still leaves."""

    def failed(failure: Failure) -> bool:
        """
        Handle a failure (a broken stream, a limit passed, a failed handshake); L{lost} follows.

        @return: whether the session has put it in the log; else the link does.
        """

    def explained(reason: Failure) -> Failure:
        """Return why the transport is gone, in better words where the session has them; before L{lost}."""

    def idle(seconds: float) -> bool:
        """Handle C{seconds} without a read or a write; return whether the link stays open, else it is closed next."""

    def lost(reason: Failure) -> None:
        """Free everything: the transport is gone, or was never reached. Last call; C{link.state} says who ended it."""


@implementer(ISession)
class NullSession:
    """An L{ISession} that ignores everything; protocols override what they have a use for."""

    frames = 0
    pending = 0
    missing = 0
    in_flight = 0
    run_sources: tuple[RunSource, ...] = ()

    def connected(self) -> None:
        """Do nothing."""

    def opened(self) -> None:
        """Do nothing."""

    def received(self, data: bytes) -> None:
        """Ignore the bytes."""

    def begun(self, later: KeptAnswers) -> None:
        """Do nothing: there are no runs."""

    def done(self, later: KeptAnswers) -> bool:
        """Return false: nobody wants answers."""
        return False

    def turn(self) -> int:
        """Return 0: nothing waits."""
        return 0

    def writable(self) -> None:
        """Do nothing."""

    def busy(self) -> bool:
        """Return false: nothing is unfinished."""
        return False

    def draining(self) -> None:
        """Do nothing."""

    def give_up(self) -> None:
        """Do nothing."""

    def refusal(self, data: bytes) -> bytes:
        """Return nothing to be said."""
        return b""

    def ending(self) -> None:
        """Do nothing."""

    def failed(self, failure: Failure) -> bool:
        """Leave it to the link to log it."""
        return False

    def explained(self, reason: Failure) -> Failure:
        """Return it as it is."""
        return reason

    def idle(self, seconds: float) -> bool:
        """Return false: the link is closed."""
        return False

    def lost(self, reason: Failure) -> None:
        """Do nothing."""


OVER: Final[ISession] = NullSession()
"""Takes the place of a session when its link is gone, so that neither leads to the other."""
