"""The profile of a seed, drawn before all else: the modes of its cluster, and which faults befall it how often."""

from __future__ import annotations

from dataclasses import dataclass

from tests.sim.seeds import Streams


@dataclass(frozen=True)
class Profile:
    """
    What a seed draws first.

    @ivar sync_flush: a send waits for its flush.
    @ivar sync_master: a send waits for the slave.
    @ivar ack_flush: a slave confirms what it has flushed, not what it has appended.
    @ivar log_file_size: length of a CommitLog file, in bytes.
    @ivar queue_file_size: length of a ConsumeQueue file, in bytes.
    """

    sync_flush: bool
    sync_master: bool
    ack_flush: bool
    log_file_size: int
    queue_file_size: int

    @classmethod
    def draw(cls, streams: Streams) -> Profile:
        """Draw the profile of a seed."""
        chance = streams.of("profile")
        return cls(
            sync_flush=chance.random() < 0.4,
            sync_master=chance.random() < 0.6,
            ack_flush=chance.random() < 0.4,
            log_file_size=chance.choice((16384, 65536, 262144)),
            queue_file_size=chance.choice((400, 2000)),
        )
