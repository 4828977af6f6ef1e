"""The profile of a seed, drawn before all else: the modes of its cluster, and which faults befall it how often."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tests.sim.seeds import Streams

KINDS: Final = (
    "kill",
    "power",
    "stop",
    "crash-in-write",
    "pause",
    "partition",
    "one-way",
    "isolate",
    "cut",
    "half-open",
    "stall",
    "slow-network",
    "slow-disk",
    "failing-sync",
    "failing-disk",
    "full-disk",
    "clock",
)
"""The kinds of faults, see L{tests.sim.nemesis}."""
PAIRED: Final = ("power-pair", "lost-machine", "storm")
"""Those of a whole pair."""
LINKS: Final = ("breaking", "trickle")
"""Those of a machine's connections that last."""
FAR: Final = 2**31 - 4096
"""Where a log begins that is to pass 2 GiB: an offset in bytes, before it is rounded to the size of a file."""

_NO_FAULTS: Final = 0.08  # of the seeds
_ENABLED: Final = 0.45  # of the kinds, in the others
_FAR_LOGS: Final = 0.15  # of the seeds
_FEW_KINDS: Final = 0.3  # of the seeds: few kinds of faults, which happen more often
_FEW: Final = 3  # kinds, in these
_CALLS: Final = (0.002, 0.002, 0.01, 0.05)  # seconds


@dataclass(frozen=True)
class Profile:
    """
    What a seed draws first.

    @ivar sync_flush: a send waits for its flush.
    @ivar sync_master: a send waits for the slave.
    @ivar ack_flush: a slave confirms what it has flushed, not what it has appended.
    @ivar log_file_size: length of a CommitLog file, in bytes.
    @ivar queue_file_size: length of a ConsumeQueue file, in bytes.
    @ivar latency: seconds that bytes travel, on average.
    @ivar split: probability that a delivery is cut into pieces.
    @ivar short: probability that a write takes only a part of the bytes.
    @ivar call: seconds that a call of a thread, such as a flush, takes at most while the disk is not slow.
    @ivar names_apart: a directory that was not synced may lose its last changes whatever other ones keep.
    @ivar drift: share by which a process's clock runs fast or slow, at most.
    @ivar rare_paths: the product takes rare paths on purpose.
    @ivar log_begins: the physical offset at which the log of a master begins.
    @ivar kinds: the faults that befall it.
    @ivar interval: seconds between two faults, on average.
    """

    sync_flush: bool
    sync_master: bool
    ack_flush: bool
    log_file_size: int
    queue_file_size: int
    latency: float
    split: float
    short: float
    call: float
    names_apart: bool
    drift: float
    rare_paths: bool
    log_begins: int
    kinds: tuple[str, ...]
    interval: float

    @classmethod
    def draw(cls, streams: Streams) -> Profile:
        """Draw the profile of a seed."""
        chance = streams.of("profile")
        far = streams.of("profile log begins").random() < _FAR_LOGS
        further = tuple(one for one in (*LINKS, *PAIRED) if streams.of(f"profile {one}").random() < _ENABLED)
        drawn = cls(
            sync_flush=chance.random() < 0.4,
            sync_master=chance.random() < 0.6,
            ack_flush=chance.random() < 0.4,
            log_file_size=chance.choice((16384, 65536, 262144)),
            queue_file_size=chance.choice((400, 2000)),
            latency=chance.choice((0.0003, 0.0003, 0.002, 0.02)),
            split=chance.choice((0.0, 0.05, 0.3)),
            short=chance.choice((0.0, 0.05, 0.3)),
            call=streams.of("profile call").choice(_CALLS),
            names_apart=streams.of("profile names").random() < 0.5,
            drift=chance.choice((0.0, 0.00001, 0.001)),
            rare_paths=chance.random() < 0.7,
            log_begins=0,
            kinds=() if chance.random() < _NO_FAULTS else tuple(one for one in KINDS if chance.random() < _ENABLED),
            interval=chance.choice((8.0, 15.0, 30.0)),
        )
        kinds, interval = (*drawn.kinds, *further) if drawn.kinds else (), drawn.interval
        few = streams.of("profile few")
        if few.random() < _FEW_KINDS and len(kinds) > _FEW:
            kinds, interval = kinds[-1:] + tuple(few.sample(kinds[:-1], _FEW - 1)), 10.0
        return replace(drawn, log_begins=FAR - FAR % drawn.log_file_size if far else 0, kinds=kinds, interval=interval)

    @property
    def async_flush(self) -> bool:
        """Tell whether a send is answered before its flush."""
        return not self.sync_flush

    def has(self, name: str) -> bool:
        """
        Tell whether this profile has a kind of fault, or a property that is true or not zero.

        @param name: of the kind, or of an attribute.
        @raise AttributeError: there is neither.
        """
        return name in self.kinds if name in (*KINDS, *LINKS, *PAIRED) else bool(getattr(self, name))

    def __str__(self) -> str:
        """Return the profile in one line."""
        modes = [
            "SYNC_FLUSH" if self.sync_flush else "ASYNC_FLUSH",
            "SYNC_MASTER" if self.sync_master else "ASYNC_MASTER",
            "ack after flush" if self.ack_flush else "ack after append",
            f"log files {self.log_file_size} B from {self.log_begins} on",
            f"queue files {self.queue_file_size} B",
            f"latency {self.latency * 1000:g} ms",
            f"split {self.split:g}",
            f"short {self.short:g}",
            f"calls of threads {self.call * 1000:g} ms",
            "directories apart" if self.names_apart else "directories in a journal",
            f"drift {self.drift:g}",
            "rare paths" if self.rare_paths else "no rare paths",
        ]
        faults = f"a fault every {self.interval:g} s of {', '.join(self.kinds)}" if self.kinds else "no faults"
        return f"{', '.join(modes)}; {faults}"
