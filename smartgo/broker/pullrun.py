"""
Runs of plain pulls: from frames to answers, without an object for any request; compiled only.

A run takes a frame only when it is sure of all of it: the group, the topic and the subscription are as they were
learned, and there are messages to be read. Whatever else there is (an unknown name, a subscription that is older than
the client's, nothing found, a read from the disk) is not taken and has changed nothing: the processor goes on at that
frame. The answers are the very bytes that the processor would write. Without the core there is nothing to gain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from smartgo.core import choose
from smartgo.remoting.rungrants import RunGrants
from smartgo.schema.responses import FoundPieces
from smartgo.store.interfaces import IMessageFilter, ReadLimit, ReadResult, ReadStatus


class PullSource(NamedTuple):
    """
    The common figures of all pulls of a group from a topic.

    @ivar queues: the topic's read queues: their ids are below this.
    @ivar near: the broker to ask next; C{far}: that where a slave is suggested.
    @ivar version: of the group's subscription in ms; C{None}: it has none that is in order and by tags.
    @ivar filter: of the group's subscription; C{None}: everything passes.
    """

    group: str
    topic: str
    queues: int
    near: int
    far: int
    version: int | None
    filter: IMessageFilter | None


@dataclass(frozen=True)
class PullWork:
    """
    The parts of a broker that a run of pulls asks.

    @ivar learn: returns what is known of a group (first) and a topic (second); C{None}: their pulls are not plain.
    @ivar find_filter: returns the filter of an expression type and an expression; raises where there can be none.
    @ivar read: see L{IMessageStore.read<smartgo.store.interfaces.IMessageStore.read>}.
    @ivar count: see L{BrokerStats.found<smartgo.broker.figures.stats.BrokerStats.found>}.
    @ivar commit: stores the offset of a group, topic and queue that came with a pull; C{None}: these are ignored.
    @ivar limit: the most messages and bytes of an answer.
    @ivar status: of a read that found messages; others are not taken.
    @ivar pieces: what such answers have in common.
    """

    learn: Callable[[str, str], PullSource | None]
    find_filter: Callable[[str | None, str | None], IMessageFilter | None]
    read: Callable[[str, int, int, ReadLimit, IMessageFilter | None], ReadResult]
    count: Callable[[str, str, int, int, int], None]
    commit: Callable[[str, str, int, int], None] | None
    limit: ReadLimit
    status: ReadStatus
    pieces: FoundPieces


class NoPullRun:
    """The interface of runs of pulls; takes nothing."""

    def __init__(self, work: PullWork, grants: RunGrants | None = None) -> None:
        """
        @param work: what the compiled one asks of the broker.
        @param grants: lets frames pass; C{None}: all pass.
        """

    def forget(self) -> None:
        """Learn everything anew: a topic, a group, a subscription or a setting has changed."""

    def answer(self, frame: bytes) -> bytes | None:
        """Answer a frame, without its length word, as the hub does; C{None}: it is not taken. For tests."""
        return None


if TYPE_CHECKING:
    PullRun = NoPullRun
else:
    PullRun = choose("PullRun", NoPullRun)
