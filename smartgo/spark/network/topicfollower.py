"""
A stream over topics: where it begins, how far it may go, what a micro-batch is, what is committed. Without Spark.

An offset of the stream is a queue offset for each queue: all before it was read. Spark keeps it in its checkpoint, asks
for the next, and has what lies between two of them read, again if need be.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from smartgo.errors import CallFailed, PeerRefused, SettingError
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import UpdateOffsetRequest
from smartgo.spark.network.cluster import Cluster
from smartgo.spark.network.networkoptions import NetworkOptions
from smartgo.spark.network.pulling import expression, lose, pull_request
from smartgo.spark.network.pullwindow import Ask
from smartgo.spark.network.queueranges import Offsets, Queue, QueueRange, cut, ranges, share
from smartgo.spark.network.resolving import Resolver
from smartgo.spark.network.wire import BlockingConnection, BlockingDial, IPauseClock, MachineClock

_log: Final = logging.getLogger("smartgo.spark")
_REFRESH: Final = 5.0
"""Seconds between two looks at the registries."""
_COMMIT: Final = 5.0
"""Seconds that the commit of a group's offsets to one broker may take."""
_AGAIN: Final = 10.0
"""Seconds between a commit that failed and the next."""


def check_network_stream(options: NetworkOptions) -> None:
    """
    Refuse options that have no meaning for a stream.

    @raise SettingError: it names the option.
    """
    if options.ending != NetworkOptions(options.access).ending:
        raise SettingError("a stream has no end: endingOffsets, endingTimestamp and the like are for batch reads")


class SparkTopicFollower:
    """
    The topics that the options name, followed.

    Queues and topics that appear later are read from their beginning, as with Kafka's source.
    """

    def __init__(
        self, options: NetworkOptions, dial: BlockingDial = BlockingConnection, clock: IPauseClock | None = None
    ) -> None:
        self._options = options
        self._clock = MachineClock() if clock is None else clock
        self._cluster = Cluster(options.access, dial, self._clock)
        self._resolver = Resolver(options, self._cluster)
        self._queues: tuple[Queue, ...] = ()
        self._looked_at: float | None = None
        self._reached: dict[Queue, int] = {}
        self._target: dict[Queue, int] | None = None
        self._triggered_at: float | None = None
        self._is_checked = False
        self._committed: dict[Queue, int] = {}
        self._next_commit = 0.0
        self._told: set[tuple[Queue, str]] = set()

    def close(self) -> None:
        """Close all connections."""
        self._cluster.close()

    # -- where the stream is -----------------------------------------------------------------------------------

    def initial(self) -> dict[Queue, int]:
        """
        Return where a new stream begins.

        @raise SettingError: the options name what is not there.
        @raise DataLost: a position lies outside of its queue, and that is to be an error.
        @raise CallFailed: a registry or a broker does not answer.
        """
        queues = self._resolver.queues()
        self._resolver.check(queues)
        known = {}
        for queue, bounds in self._resolver.bounds(queues).items():
            if isinstance(bounds, PeerRefused):
                raise bounds
            known[queue] = bounds
        return self._resolver.offsets(self._options.starting, "startingOffsets", known)

    def latest(self, start: Offsets, limit: int | None) -> dict[Queue, int]:
        """
        Return where the next micro-batch ends.

        @param start: where the last one ended.
        @param limit: messages, about; C{None} for all there are.
        @raise DataLost: what was to be read next is gone, and that is to be an error.
        @raise CallFailed: a registry does not answer.
        """
        if not self._is_checked:
            self._begin(start)
        # Spark asks for the next micro-batch when the last one is done, but calls commit only when there is a next one.
        self.commit(start)
        begins, ends = self._waiting(start)
        if self._is_too_little(begins, ends):
            return dict(start)
        found = share(begins, ends, limit)
        self._triggered_at = self._clock.seconds()
        return {**found, **{queue: start[queue] for queue in start.keys() - found.keys()}}

    def reached(self) -> dict[Queue, int]:
        """Return the ends of the queues, as of the last look."""
        return dict(self._reached)

    def stop_at_the_end(self) -> None:
        """Go no further than the queues go now."""
        queues = self._known_queues()
        self._target = {
            queue: end for queue, end in self._resolver.maxima(queues).items() if not isinstance(end, PeerRefused)
        }

    def ranges(self, start: Offsets, end: Offsets) -> list[QueueRange]:
        """
        Return what a micro-batch has to read, cut into partitions.

        @raise CallFailed: a broker does not answer.
        """
        if not self._queues:
            self._known_queues()
        new = [queue for queue in end if queue not in start]
        begins = {**start, **self._minima(new)}
        found = [replace(one, addresses=self._cluster.addresses(one.queue.broker)) for one in ranges(begins, end)]
        return cut(found, self._options.min_partitions, self._options.max_records)

    def commit(self, offsets: Offsets) -> None:
        """
        Commit offsets for the group of the options, if there is one, so that the group's lag can be seen.

        Nothing depends on them: an error is a warning, and the next commit makes good for it.
        """
        group = self._options.group
        if group is None or self._clock.seconds() < self._next_commit:
            return
        if not self._queues:
            self._known_queues()
        by_broker: dict[str, list[Queue]] = {}
        for queue, offset in offsets.items():
            if self._committed.get(queue) != offset and self._cluster.addresses(queue.broker):
                by_broker.setdefault(queue.broker, []).append(queue)
        for broker, queues in by_broker.items():
            requests = [
                Command.request(
                    RequestCode.UPDATE_CONSUMER_OFFSET,
                    UpdateOffsetRequest(
                        consumer_group=group, topic=one.topic, queue_id=one.queue_id, commit_offset=offsets[one]
                    ),
                )
                for one in queues
            ]
            try:
                answers = self._cluster.ask_broker(broker, requests, _COMMIT)
            except CallFailed as error:
                _log.warning("group %s: offsets are not committed: %s", group, error)
                self._next_commit = self._clock.seconds() + _AGAIN
                continue
            for queue, answer in zip(queues, answers, strict=True):
                if answer.code == ResponseCode.SUCCESS:
                    self._committed[queue] = offsets[queue]
                else:
                    _log.warning("group %s, %s: offset is not committed: %s", group, queue, answer.remark)
                    self._next_commit = self._clock.seconds() + _AGAIN

    # -- inside ------------------------------------------------------------------------------------------------

    def _begin(self, start: Offsets) -> None:
        """See to it, once, that the queues still have what is to be read next."""
        for queue, minimum in self._minima(queue for queue in start if queue in self._known_queues()).items():
            if start[queue] < minimum:
                reason = f"offsets {start[queue]} to {minimum} were removed before they were read"
                self._lose(queue, reason)
        if self._options.group is not None:
            self._introduce(self._options.group, start)
        self._is_checked = True

    def _introduce(self, group: str, start: Offsets) -> None:
        """Pull once from each broker, which brings the group about: RocketMQ 5 refuses commits of an unknown one."""
        for queue in {queue.broker: queue for queue in start if self._cluster.addresses(queue.broker)}.values():
            request = pull_request(queue, Ask(start[queue], 1), group, expression(self._options))
            try:
                self._cluster.ask_broker(queue.broker, [request], _COMMIT)
            except CallFailed as error:
                _log.warning("group %s: %s", group, error)

    def _known_queues(self) -> tuple[Queue, ...]:
        """Return the queues that are there, as the registries said some seconds ago at most."""
        now = self._clock.seconds()
        if self._looked_at is None or now - self._looked_at >= _REFRESH:
            self._queues = self._resolver.queues()
            self._looked_at = now
        return self._queues

    def _minima(self, queues: Iterable[Queue]) -> dict[Queue, int]:
        """Return the first offset of each queue whose broker tells it."""
        found = {}
        for queue, bounds in self._resolver.bounds(queues).items():
            if isinstance(bounds, PeerRefused):
                self._lose(queue, f"its broker refuses to tell where it begins: {bounds}")
            else:
                found[queue] = bounds.minimum
        return found

    def _waiting(self, start: Offsets) -> tuple[dict[Queue, int], dict[Queue, int]]:
        """Return what there is to read in each queue, as (from, to)."""
        queues = self._known_queues()
        ends = self._ends(queues)
        new = self._minima(queue for queue in ends if queue not in start)
        begins = {queue: start.get(queue, new.get(queue, 0)) for queue in ends if queue in start or queue in new}
        for queue in start.keys() - set(queues):
            self._lose(queue, "no registry knows of this queue any more")
        for queue, begin in begins.items():
            end = ends[queue]
            if end < begin:
                if self._cluster.is_master(queue.broker):
                    reason = f"the queue ends at offset {end}, before {begin}, up to where it was read"
                    self._lose(queue, reason)
                    begins[queue] = end
                else:  # a slave that is behind its master
                    ends[queue] = begin
        self._reached = {**start, **ends}
        if self._target is not None:
            ends = {queue: min(end, self._target.get(queue, 0)) for queue, end in ends.items()}
        return begins, {queue: max(begin, ends[queue]) for queue, begin in begins.items()}

    def _ends(self, queues: tuple[Queue, ...]) -> dict[Queue, int]:
        """Return the ends of queues; without those of a broker that does not answer, if that is to be no error."""
        found: dict[Queue, int] = {}
        for broker in sorted({queue.broker for queue in queues}):
            own = [queue for queue in queues if queue.broker == broker]
            try:
                answers = self._resolver.maxima(own)
            except CallFailed as error:
                if self._options.fail_on_data_loss:
                    raise
                _log.warning("%s; going on with the queues of other brokers", error)
                continue
            for queue, end in answers.items():
                if isinstance(end, PeerRefused):
                    self._lose(queue, f"its broker refuses to tell where it ends: {end}")
                else:
                    found[queue] = end
        return found

    def _lose(self, queue: Queue, reason: str) -> None:
        """Tell, once, that something is gone. @raise DataLost: that is to be an error."""
        if (queue, reason) not in self._told:
            lose(queue, reason, self._options)
            self._told.add((queue, reason))

    def _is_too_little(self, begins: Offsets, ends: Offsets) -> bool:
        """Tell whether to wait for more messages, as C{minOffsetsPerTrigger} asks for."""
        least = self._options.min_offsets
        if least is None or self._target is not None or self._triggered_at is None:
            return False
        if sum(end - begins[queue] for queue, end in ends.items()) >= least:
            return False
        return self._clock.seconds() - self._triggered_at < self._options.max_delay
