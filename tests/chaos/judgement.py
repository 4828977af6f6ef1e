"""What the checker says of a run: a verdict, the broken promises by kind, and figures."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import Enum


class Kind(Enum):
    """The kinds of broken promises."""

    LOST = "lost"
    PHANTOM = "phantom"
    CORRUPT_BODY = "corrupt-body"
    DUPLICATE = "duplicate"
    INCONSISTENT_OFFSET = "inconsistent-offset"
    MOVED = "moved"
    HOLE = "hole"
    NONMONOTONIC_READ = "nonmonotonic-read"
    ORDER = "order"
    STALE_COMMIT = "stale-commit"
    EARLY_DELAY = "early-delay"
    ABORTED_VISIBLE = "aborted-visible"
    REPLICA_DIFFERS = "replica-differs"
    HALF_BATCH = "half-batch"
    UNDELIVERED = "undelivered"
    NOT_LIVE = "not-live"


class Verdict(Enum):
    """Of a whole run."""

    VALID = "valid"
    INVALID = "invalid"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Anomaly:
    """One broken promise; the text names messages and places."""

    kind: Kind
    text: str


@dataclass
class Judgement:
    """
    The judgement of a run.

    @ivar unknown: why there is no verdict; empty where there is one.
    @ivar counts: sends by outcome, messages read, copies that retries explain, deliveries that came again.
    """

    anomalies: list[Anomaly] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def verdict(self) -> Verdict:
        """Invalid if anything was found; unknown if not everything was looked at; else valid."""
        if self.anomalies:
            return Verdict.INVALID
        return Verdict.UNKNOWN if self.unknown else Verdict.VALID

    @property
    def kinds(self) -> Counter[Kind]:
        """The number of anomalies of each kind."""
        return Counter(anomaly.kind for anomaly in self.anomalies)
