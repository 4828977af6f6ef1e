"""The figures that bound what one peer may take (reliability, section 4), and nothing else."""

from __future__ import annotations

from typing import Final

import msgspec

from smartgo.net.memorybudget import Kind

KIB: Final = 1024
MIB: Final = 1024 * KIB
NEVER: Final = float("inf")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """
    Limits of one connection, or of all connections of a listener.

    @ivar frame: longest frame, its length word excluded, in bytes (L1).
    @ivar connections: accepted connections of one listener (L8).
    @ivar per_address: of those, from one IP address; loopback has no such limit (L8).
    @ivar spare_descriptors: with fewer than this many free, accepting pauses (L8); with fewer than a quarter of all
        where that is less.
    @ivar first_frame: seconds from the connection, or from the end of the TLS handshake, to the first whole frame (L9).
    @ivar first_rate: a first frame that is long may take longer while it grows by so many bytes a second over each
        C{first_frame} seconds: 4 MiB need more than 10 s on many a line (L9).
    @ivar handshake: seconds for the TLS handshake (L9).
    @ivar partial: seconds after which a frame that was begun must have grown enough (L10).
    @ivar partial_rate: how much that is, in bytes a second over C{partial} seconds (L10).
    @ivar idle: seconds with nothing read and nothing written (L11).
    @ivar in_flight: requests whose answers are outstanding, held ones not counted; reading goes on at half (L12).
    @ivar unsent_pause: unsent bytes at which no more requests are read (L13).
    @ivar unsent_resume: unsent bytes at which reading goes on (L13).
    @ivar unsent_seconds: how long more than C{unsent_pause} may be unsent (L13).
    @ivar unsent_close: unsent bytes at which the connection is given up (L13).
    @ivar slice: bytes that are handed to the transport at a time.
    @ivar smallest_slice: the same in L{tightest}.
    @ivar reads_on: read the peer however much it has not taken, as is done with every link that we dialled.
    @ivar unit_kind: what the memory budget counts a frame as that is not whole.
    @ivar calls: requests of ours on one connection that wait for their answers.
    @ivar silence: seconds; a call of at least this time-out that ends without a byte read condemns the connection.
    @ivar connect: seconds for a connection to be made.
    @ivar stop: seconds that requests in flight get to be answered when a server stops (D14).
    @ivar linger: seconds that a connection we end gets to take what is unsent, before it is cut.
    """

    frame: int = 16 * MIB
    connections: int = 10_000
    per_address: int = 1_024
    spare_descriptors: int = 256
    first_frame: float = 10.0
    first_rate: int = 16 * KIB
    handshake: float = 10.0
    partial: float = 30.0
    partial_rate: int = 1 * KIB
    idle: float = 120.0
    in_flight: int = 1_024
    unsent_pause: int = 1 * MIB
    unsent_resume: int = 256 * KIB
    unsent_seconds: float = 60.0
    unsent_close: int = 32 * MIB
    slice: int = 256 * KIB
    smallest_slice: int = 16
    reads_on: bool = False
    unit_kind: Kind = Kind.UNFINISHED_FRAMES
    calls: int = 65_535
    silence: float = NEVER
    connect: float = 3.0
    stop: float = 5.0
    linger: float = 3.0

    @property
    def tightest(self) -> Limits:
        """The same limits with the smallest buffers, and no room for a second request, that a link works with."""
        return msgspec.structs.replace(self, in_flight=1, unsent_pause=64, unsent_resume=0, slice=self.smallest_slice)


SERVER: Final = Limits()
"""For connections that were accepted."""

CLIENT: Final = Limits(first_frame=NEVER, unsent_seconds=NEVER, silence=3.0)
"""
For connections that we dial. The peer need not speak first, and a producer may keep the line full for as long as it
likes: beyond C{unsent_close} its calls fail, the connection stays.
"""
