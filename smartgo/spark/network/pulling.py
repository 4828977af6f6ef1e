"""Reading of one range of a queue from its broker: pulls under way at once, attempts, slaves, loss."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from smartgo.errors import BadHeader, CallFailed, PeerRefused
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.command import Command
from smartgo.schema.headers.pull import PullRequest, PullResponse
from smartgo.spark.gaps import DataLost
from smartgo.spark.network.cluster import BUSY, BoundedAttempts, Cluster
from smartgo.spark.network.networkoptions import NetworkOptions
from smartgo.spark.network.pullwindow import FILTERED_STRIDE, STRIDE, Ask, PulledPart, PullWindow
from smartgo.spark.network.queueranges import Queue, QueueRange
from smartgo.spark.network.wire import BlockingConnection, BlockingDial, IConnection, IPauseClock, MachineClock

_log: Final = logging.getLogger("smartgo.spark")
_SUBSCRIBES: Final = 0x4
"""The bit of a pull's sys flag that says that the pull brings its subscription along."""
_CONNECT: Final = 5.0
"""Seconds for one attempt to connect, at most."""


def expression(options: NetworkOptions) -> tuple[str, str]:
    """Return the filter that pulls bring along, and its type."""
    if options.sql is not None:
        return options.sql, "SQL92"
    return ("*" if options.tags is None else " || ".join(sorted(options.tags))), "TAG"


def pull_request(queue: Queue, ask: Ask, group: str, wants: tuple[str, str]) -> Command:
    """
    Return the request for messages of a queue; it is not held where there are none (docs/spec/broker#pull).

    @param wants: see L{expression}.
    """
    header = PullRequest(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=ask.offset,
        max_msg_nums=ask.most,
        sys_flag=_SUBSCRIBES,
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription=wants[0],
        expression_type=wants[1],
    )
    return Command.request(RequestCode.PULL_MESSAGE, header)


def lose(queue: Queue, reason: str, options: NetworkOptions) -> None:
    """Tell that messages that were to be read are gone. @raise DataLost: that is to be an error."""
    if options.fail_on_data_loss:
        raise DataLost(str(queue), reason)
    _log.warning("%s: %s; going on with what there is", queue, reason)


class RangePull:
    """The pulls of one range. Iterate over it once: it gives out records in the queue's order."""

    def __init__(
        self,
        part: QueueRange,
        options: NetworkOptions,
        dial: BlockingDial = BlockingConnection,
        clock: IPauseClock | None = None,
    ) -> None:
        self._part = part
        self._options = options
        self._dial = dial
        self._clock = MachineClock() if clock is None else clock
        self._wants = expression(options)
        self._window = PullWindow(part.begin, part.end, FILTERED_STRIDE if options.is_filtered else STRIDE)
        self._attempts = BoundedAttempts(self._clock, options.access.timeout)
        self._addresses = part.addresses
        self._failures = 0
        self._connection: IConnection | None = None
        self._asked: dict[int, Ask] = {}

    def __iter__(self) -> Iterator[PulledPart]:
        """
        Pull the range.

        @raise DataLost: some of it is gone, and that is to be an error.
        @raise CallFailed: no address of the broker answers, or it refuses.
        """
        try:
            while not self._window.is_done:
                try:
                    self._step()
                except PeerRefused:
                    raise
                except CallFailed as error:
                    self._disconnect(error)
                yield from self._window.ready()
        finally:
            self._close()

    # -- connection --------------------------------------------------------------------------------------------

    def _connected(self) -> IConnection:
        if self._connection is None:
            if not self._addresses:
                raise CallFailed(f"no address of broker {self._part.queue.broker} is known")
            address = self._addresses[self._failures % len(self._addresses)]
            self._connection = self._dial(address, self._options.access, min(_CONNECT, self._attempts.left))
        return self._connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        self._asked.clear()

    def _disconnect(self, error: CallFailed) -> None:
        """Go on at the next address, after a pause when all were tried. @raise CallFailed: it takes too long."""
        self._close()
        self._window.restart()
        self._failures += 1
        _log.info("%s: %s", self._part.queue, error)
        if self._failures % max(1, len(self._addresses)) == 0:
            broker = self._part.queue.broker
            self._attempts.failed(CallFailed(f"{self._part.queue}: broker {broker} does not answer: {error}"))
            self._look_up()

    def _look_up(self) -> None:
        """Ask the registry for the addresses: the broker may have moved, or have a slave by now."""
        cluster = Cluster(self._options.access, self._dial, self._clock)
        try:
            route = cluster.route(self._part.queue.topic)
        except CallFailed:
            return
        finally:
            cluster.close()
        if route is not None:
            self._addresses = route.addresses.get(self._part.queue.broker, self._addresses)

    # -- pulls -------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Send what may be sent, and take one answer. @raise CallFailed"""
        connection = self._connected()
        for ask in self._window.asks():
            request = pull_request(self._part.queue, ask, self._options.access.group, self._wants)
            self._asked[connection.send(request)] = ask
        answer = connection.receive(self._attempts.left)
        ask_of = self._asked.pop(answer.opaque, None)
        if ask_of is not None:
            self._take(ask_of, answer)

    def _take(self, ask: Ask, answer: Command) -> None:
        queue = self._part.queue
        if not self._window.is_wanted(ask):
            self._window.again(ask)
        elif answer.code in BUSY:
            self._wait(ask, PeerRefused(answer.code, f"{queue}: {answer.remark or ''}"))
        elif answer.code == ResponseCode.TOPIC_NOT_EXIST:
            lose(queue, f"the broker knows no such topic ({answer.remark or ''})", self._options)
            self._skip(ask, self._part.begin, self._part.end)
        elif answer.code in _PULLED:
            try:
                header = answer.read(PullResponse)
            except BadHeader as error:
                raise PeerRefused(answer.code, f"{queue}: the answer cannot be read: {error}") from None
            self._found(ask, answer, header)
        else:
            raise PeerRefused(answer.code, f"{queue}: {answer.remark or ''}")

    def _found(self, ask: Ask, answer: Command, header: PullResponse) -> None:
        onward = header.next_begin_offset
        if answer.code == ResponseCode.SUCCESS and onward > ask.offset:
            self._window.answer(ask, onward, answer.body)
            self._attempts.succeeded()
        elif ask.offset < header.min_offset:
            first = self._window.first_missing
            self._lost(ask, first, header.min_offset, "were removed before they were read")
        elif answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY and onward > ask.offset:
            if self._options.is_filtered:
                self._window.answer(ask, onward, b"")
                self._attempts.succeeded()
            else:
                self._lost(ask, ask.offset, onward, "are not there")
        else:
            end = header.max_offset
            error = CallFailed(
                f"{self._part.queue} ends at offset {end}, before {self._part.end}, where it ended before"
            )
            try:
                self._wait(ask, error)  # a slave may be behind its master
            except CallFailed:
                self._lost(ask, end, self._part.end, f"are not there: the queue ends at {end}")

    def _wait(self, ask: Ask, error: CallFailed) -> None:
        """Pull once more after a while. @raise CallFailed: it has taken too long."""
        self._attempts.failed(error)
        self._window.again(ask)

    def _lost(self, ask: Ask, begin: int, onward: int, why: str) -> None:
        end = min(onward, self._part.end)
        lose(self._part.queue, f"offsets {begin} to {end} {why}", self._options)
        self._skip(ask, begin, end)

    def _skip(self, ask: Ask, begin: int, onward: int) -> None:
        self._window.again(ask)
        self._window.skip(begin, onward)
        self._attempts.succeeded()


_PULLED: Final = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)
