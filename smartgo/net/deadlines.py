"""Deadlines of a connection: L9 to L11 and the time of L13. Sans-IO: time stamps are compared."""

from __future__ import annotations

from typing import Final

from smartgo.net.limits import NEVER, Limits

AT_ONCE: Final = 0.0  # before any time of a clock


class Deadlines:
    """
    The stamps of one connection, all in seconds of the caller's clock.

    @ivar heard_at: when bytes last came.
    @ivar moved_at: when bytes last went out.
    @ivar full_since: since when more is unsent than should be; infinity while that is not so.
    @ivar look_at: when to look next; may be set to L{AT_ONCE}.
    """

    __slots__ = (
        "_due", "_first", "_first_size", "_late", "_limits", "_partial_at", "_partial_frames", "_partial_size",
        "full_since", "heard_at", "look_at", "moved_at",
    )  # fmt: skip

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.heard_at = 0.0
        self.moved_at = 0.0
        self.full_since = NEVER
        self.look_at = AT_ONCE
        self._due = NEVER  # when what is expected first must have come
        self._late = ""
        self._first = False  # it is the first frame that is expected
        self._first_size = 0  # how much of it was there when its time was last over
        self._partial_at = NEVER  # when the frame that is unfinished was first seen, or last found growing
        self._partial_frames = 0
        self._partial_size = 0

    def expect_handshake(self, now: float) -> None:
        """Set the deadline of the TLS handshake: the transport is up."""
        self.heard_at = self.moved_at = now
        self._expect(now + self._limits.handshake, f"no TLS handshake within {self._limits.handshake:g} s")

    def expect_frame(self, now: float) -> None:
        """Set the deadline of the first frame."""
        self.heard_at = self.moved_at = now
        self._first = True
        self._expect(now + self._limits.first_frame, f"no whole frame within {self._limits.first_frame:g} s")

    def expect_nothing(self) -> None:
        """Drop the deadline of the first frame: it has come."""
        self._first = False
        self._expect(NEVER, "")

    def not_read(self, now: float) -> None:
        """Restart the time of the first frame: it is we who do not read at the moment."""
        if self._due != NEVER:
            self._due = max(self._due, now + self._limits.first_frame)

    def _expect(self, due: float, late: str) -> None:
        self._due = due
        self._late = late
        self.look_at = AT_ONCE

    def idle_for(self, now: float) -> float:
        """Return the seconds since the last activity; at most zero right after some."""
        return now - max(self.heard_at, self.moved_at)

    def look(self, now: float, frames: int, partial: int, unsent: int) -> str:
        """
        Return what the peer did not do in time; empty if nothing is late. Sets C{look_at} anew.

        @param frames: how many whole frames came so far.
        @param partial: how many bytes of an unfinished one, C{0} while we are not reading.
        @param unsent: bytes that it has not taken.
        """
        limits = self._limits
        if now >= self._due and not self._goes_on(now, partial):
            return self._late
        if now - self.full_since >= limits.unsent_seconds:
            return f"{unsent} B unsent for {limits.unsent_seconds:g} s"
        if self._grows_too_slowly(now, frames, partial):
            return f"a frame grew by less than {limits.partial_rate} B/s for {limits.partial:g} s"
        if self._partial_at != NEVER or self.full_since != NEVER:
            self.look_at = AT_ONCE
        else:
            self.look_at = min(self._due, max(self.heard_at, self.moved_at) + limits.idle)
        return ""

    def _goes_on(self, now: float, partial: int) -> bool:
        """
        Tell whether the first frame keeps arriving fast enough; if so, give it another C{first_frame} seconds.

        Who sends it slower, or byte by byte, gets none; and no frame is longer than the limit, so it comes to an end.
        """
        grown = partial - self._first_size
        if not self._first or grown < self._limits.first_rate * self._limits.first_frame:
            return False
        self._first_size = partial
        self._due = now + self._limits.first_frame
        return True

    def _grows_too_slowly(self, now: float, frames: int, partial: int) -> bool:
        """Tell whether an unfinished frame grows too slowly (L10)."""
        if not partial:
            self._partial_at = NEVER
            return False
        if self._partial_at == NEVER or frames != self._partial_frames:
            self._partial_at = now
            self._partial_frames = frames
            self._partial_size = partial
            return False
        if now - self._partial_at < self._limits.partial:
            return False
        grown = partial - self._partial_size
        self._partial_at = now
        self._partial_size = partial
        return grown < self._limits.partial_rate * self._limits.partial
