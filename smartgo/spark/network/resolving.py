"""Meaning of the options of a read at the moment: queues, their bounds, the offsets that positions stand for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from smartgo.errors import BadRecord, CallFailed, PeerRefused, SettingError
from smartgo.schema.bodies import CheckClientBody, SubscriptionData
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import MaxOffsetRequest, MinOffsetRequest, OffsetResponse, SearchOffsetRequest
from smartgo.schema.headers.pull import PullResponse
from smartgo.schema.record import decode
from smartgo.schema.topics import is_system
from smartgo.spark.network.cluster import Cluster
from smartgo.spark.network.networkoptions import NetworkOptions
from smartgo.spark.network.offsetforms import PositionByQueue, resolved
from smartgo.spark.network.pulling import lose, pull_request
from smartgo.spark.network.pullwindow import Ask
from smartgo.spark.network.queueranges import Queue
from smartgo.spark.network.timesearch import TimeSearch
from smartgo.spark.options import LATEST

_EVERYTHING: Final = ("*", "TAG")


class Bounds(NamedTuple):
    """
    The extent of a queue.

    @ivar minimum: offset of its first message; C{maximum} after its last.
    """

    minimum: int
    maximum: int


class Resolver:
    """
    The options of a read, looked at by asking a cluster.

    @ivar cluster: what is asked.
    """

    def __init__(self, options: NetworkOptions, cluster: Cluster) -> None:
        self.cluster = cluster
        self._options = options

    # -- queues ------------------------------------------------------------------------------------------------

    def queues(self) -> tuple[Queue, ...]:
        """
        Return the queues that the options name and that are there.

        @raise SettingError: a queue that C{assign} names is not there.
        @raise CallFailed: no registry answers.
        """
        routes = {topic: self.cluster.route(topic) for topic in self._topics()}
        found = [queue for route in routes.values() if route is not None for queue in route.queues]
        if self._options.assign is not None:
            found = list(resolved(self._options.assign, found, "assign").values())
        return tuple(sorted(found))

    def check(self, queues: Collection[Queue]) -> None:
        """
        See to it that a read can begin.

        @raise SettingError: a topic is not there, a queue named by a position is not read, or the SQL92 expression is
            wrong.
        """
        options = self._options
        missing = (options.topics or frozenset()) - {queue.topic for queue in queues}
        if missing:
            raise SettingError(f"no registry knows of queues to read of topic {', '.join(sorted(missing))}")
        if options.sql is not None:
            self._check_sql(options.sql, queues)

    def _topics(self) -> Iterable[str]:
        options = self._options
        if options.topics is not None:
            return sorted(options.topics)
        if options.assign is not None:
            return sorted({one.topic for one in options.assign})
        pattern = options.topic_pattern
        return [one for one in self.cluster.topics() if pattern and pattern.fullmatch(one) and not is_system(one)]

    def _check_sql(self, text: str, queues: Collection[Queue]) -> None:
        """Ask each broker about the expression: RocketMQ 4.9 filters nothing by one that it cannot read."""
        for broker, topic in sorted({queue.broker: queue.topic for queue in queues}.items()):
            wants = SubscriptionData(topic=topic, sub_string=text, expression_type="SQL92")
            body = CheckClientBody(client_id="spark", group=self._options.access.group, subscription_data=wants)
            answer = self.cluster.ask_broker(
                broker, [Command.request(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode())]
            )[0]
            if answer.code != ResponseCode.SUCCESS:
                raise SettingError(f"option sql: broker {broker} refuses the expression: {answer.remark}")

    # -- bounds ------------------------------------------------------------------------------------------------

    def bounds(self, queues: Iterable[Queue]) -> dict[Queue, Bounds | PeerRefused]:
        """Return the extent of each queue, or what a broker says against it. @raise CallFailed: one does not answer."""
        queues = list(queues)
        lows = self.cluster.ask_all(
            {
                one: Command.request(
                    RequestCode.GET_MIN_OFFSET, MinOffsetRequest(topic=one.topic, queue_id=one.queue_id)
                )
                for one in queues
            },
            OffsetResponse,
        )
        highs = self.maxima(queues)
        found: dict[Queue, Bounds | PeerRefused] = {}
        for queue in queues:
            low, high = lows[queue], highs[queue]
            if isinstance(low, PeerRefused):
                found[queue] = low
            elif isinstance(high, PeerRefused):
                found[queue] = high
            else:
                found[queue] = Bounds(max(0, low.offset), max(0, low.offset, high))
        return found

    def maxima(self, queues: Iterable[Queue]) -> dict[Queue, int | PeerRefused]:
        """Return the end of each queue, or what a broker says against it. @raise CallFailed: one does not answer."""
        requests = {
            one: Command.request(RequestCode.GET_MAX_OFFSET, MaxOffsetRequest(topic=one.topic, queue_id=one.queue_id))
            for one in queues
        }
        answers = self.cluster.ask_all(requests, OffsetResponse)
        return {
            queue: answer if isinstance(answer, PeerRefused) else max(0, answer.offset)
            for queue, answer in answers.items()
        }

    # -- positions ---------------------------------------------------------------------------------------------

    def offsets(self, place: PositionByQueue, option: str, bounds: Mapping[Queue, Bounds]) -> dict[Queue, int]:
        """
        Return the offset that a position stands for in each queue, within its bounds.

        @param option: the position's name for people.
        @raise SettingError: it names a queue that is not read, or no message is as new as its time.
        @raise DataLost: it lies outside of a queue, and that is to be an error.
        """
        offsets = {queue: place.offsets[one] for one, queue in resolved(place.offsets, bounds, option).items()}
        times = {queue: place.times[one] for one, queue in resolved(place.times, bounds, option).items()}
        if place.at_ms is not None:
            times = dict.fromkeys(bounds, place.at_ms)
        timed = self._at_times(times, bounds, option) if times else {}
        return {
            queue: timed[queue]
            if queue in timed
            else self._inside(queue, offsets.get(queue, place.named), bound, option)
            for queue, bound in bounds.items()
        }

    def _inside(self, queue: Queue, offset: int, bound: Bounds, option: str) -> int:
        if offset < 0:
            return bound.maximum if offset == LATEST else bound.minimum
        if offset < bound.minimum:
            lose(queue, f"option {option} is {offset}, and the queue begins at {bound.minimum}", self._options)
        elif offset > bound.maximum:
            lose(queue, f"option {option} is {offset}, and the queue ends at {bound.maximum}", self._options)
        return min(max(offset, bound.minimum), bound.maximum)

    def _at_times(self, times: Mapping[Queue, int], bounds: Mapping[Queue, Bounds], option: str) -> dict[Queue, int]:
        """Return the first message stored at or after a time in each queue, the end where there is none."""
        requests = {
            queue: Command.request(
                RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
                SearchOffsetRequest(topic=queue.topic, queue_id=queue.queue_id, timestamp=stamp),
            )
            for queue, stamp in times.items()
        }
        hints = self.cluster.ask_all(requests, OffsetResponse)
        searches = {}
        for queue, hint in hints.items():
            begin = bounds[queue].minimum if isinstance(hint, PeerRefused) else hint.offset
            searches[queue] = TimeSearch(*bounds[queue], begin)
        while probes := {queue: one.probe for queue, one in searches.items() if one.probe is not None}:
            for queue, stored in self._stored(probes).items():
                if stored is None or stored[1] >= times[queue]:
                    searches[queue].learn(probes[queue], is_older=False)
                else:
                    searches[queue].learn(stored[0], is_older=True)
        found = {queue: search.found for queue, search in searches.items()}
        if option == "startingOffsets" and not self._options.is_latest_without_match:
            for queue, offset in found.items():
                if offset >= bounds[queue].maximum:
                    raise SettingError(
                        f"{queue} has no message that was stored at or after {times[queue]} ms; set"
                        " startingOffsetsByTimestampStrategy to latest to begin at its end"
                    )
        return found

    def _stored(self, probes: Mapping[Queue, int]) -> dict[Queue, tuple[int, int] | None]:
        """Return offset and store time (ms) of the first message from an offset on, C{None} for none."""
        found: dict[Queue, tuple[int, int] | None] = {}
        by_broker: dict[str, list[Queue]] = {}
        for queue in probes:
            by_broker.setdefault(queue.broker, []).append(queue)
        for broker, queues in by_broker.items():
            group = self._options.access.group
            requests = [pull_request(one, Ask(probes[one], 1), group, _EVERYTHING) for one in queues]
            for queue, answer in zip(queues, self.cluster.ask_broker(broker, requests), strict=True):
                found[queue] = self._message_in(queue, probes[queue], answer)
        return found

    def _message_in(self, queue: Queue, offset: int, answer: Command) -> tuple[int, int] | None:
        if answer.code == ResponseCode.SUCCESS:
            try:
                message = decode(answer.body)
            except BadRecord as error:
                raise CallFailed(f"{queue}: the broker sent what is no record: {error}") from None
            return message.queue_offset, message.stored_ms
        if answer.code == ResponseCode.PULL_NOT_FOUND:
            return None
        if answer.code in (ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED):
            onward = answer.read(PullResponse).next_begin_offset
            return (onward - 1, 0) if onward > offset else None  # gone, so it is older than all that is there
        raise PeerRefused(answer.code, f"{queue}: {answer.remark or ''}")
