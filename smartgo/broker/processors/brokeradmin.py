"""
Requests of administrators about the broker as a whole: its settings (25, 26), its runtime information (28) and its
counters (315).

Paths are shown to clients on this machine alone: the values of settings that are paths, and the figures by path of the
runtime information.

Rules: docs/spec/broker#statistics, reliability X7, X8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from zope.interface import implementer

from smartgo.broker.figures.queuestats import QueueStats
from smartgo.broker.figures.stats import BrokerStats, Counted
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.broker.settings.changes import Asked, Who
from smartgo.broker.settings.live import LiveSettings
from smartgo.config.properties import parse, render
from smartgo.errors import BadBody, NoPermission, RequestRefused, SettingError
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.origin import is_local
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies import BrokerStatsData, KVTable, StatsItem
from smartgo.schema.codes import VERSION, RequestCode, Version
from smartgo.schema.command import Command
from smartgo.schema.headers.admin import BrokerConfigResponse, BrokerStatsRequest

CHANGES_LIMIT = 32 * 1024
"""Bytes of the settings of one request; all that a broker has take a tenth of it."""

RUNTIME_DEFAULTS: Mapping[str, str] = {
    "brokerActive": "true",
    "brokerVersion": str(int(VERSION)),
    "brokerVersionDesc": Version(VERSION).name,
    "commitLogDirCapacity": "Total : 0 B, Free : 0 B.",
    "commitLogDiskRatio": "0.0",
    "commitLogMaxOffset": "0",
    "commitLogMinOffset": "0",
    "consumeQueueDiskRatio": "0.0",
    "dispatchBehindBytes": "0",
    "dispatchMaxBuffer": "0",
    "earliestMessageTimeStamp": "-1",
    "EndTransactionQueueSize": "0",
    "EndTransactionThreadPoolQueueCapacity": "100000",
    "getMessageEntireTimeMax": "0",
    "pageCacheLockTimeMills": "0",
    "pullThreadPoolQueueCapacity": "100000",
    "pullThreadPoolQueueHeadWaitTimeMills": "0",
    "pullThreadPoolQueueSize": "0",
    "putLatency99": "0.00",
    "putLatency999": "0.00",
    "putMessageDistributeTime": "",
    "putMessageEntireTimeMax": "0",
    "queryThreadPoolQueueCapacity": "20000",
    "queryThreadPoolQueueHeadWaitTimeMills": "0",
    "queryThreadPoolQueueSize": "0",
    "remainHowManyDataToCommit": "0 B",
    "remainHowManyDataToFlush": "0 B",
    "remainTransientStoreBufferNumbs": "2147483647",
    "sendThreadPoolQueueCapacity": "10000",
    "sendThreadPoolQueueHeadWaitTimeMills": "0",
    "sendThreadPoolQueueSize": "0",
    "startAcceptSendRequestTimeStamp": "0",
}
"""
What tools expect to find and no part of this broker measures: it has no thread pools, and requests do not queue.

Tools parse these texts without looking (the dashboard fails where one is missing), so each is always there.
"""

BY_PATH = "commitLogDiskRatio_"
"""How names of the runtime information begin that go on with a path."""


@implementer(IRequestProcessor)
class BrokerAdmin(Processor):
    """Show and change the broker's settings, and show how it is doing."""

    codes = answered_by("brokeradmin")

    def __init__(
        self,
        stats: BrokerStats,
        settings: LiveSettings,
        queues: QueueStats,
        more_info: Iterable[Callable[[], Mapping[str, str]]] = (),
        remote_config: bool = False,
    ) -> None:
        """
        @param more_info: what other parts (the store first) know; each overrides what is known before it.
        @param remote_config: whether 25 may change settings: only where access control is on (X7).
        """
        self._stats = stats
        self._settings = settings
        self._queues = queues
        self._more_info = tuple(more_info)
        self._remote_config = remote_config

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Answer at once, except where the store has to be asked.

        @raise RequestRefused: 315 of what was never counted; 25 of what cannot be changed.
        """
        if request.code == RequestCode.GET_BROKER_CONFIG:
            header = BrokerConfigResponse(version=self._settings.version.encode().decode())
            return request.answer(header=header, body=render(self._settings.shown(is_local(peer))).encode())
        if request.code == RequestCode.UPDATE_BROKER_CONFIG:
            return self._change(peer, request)
        if request.code == RequestCode.GET_BROKER_RUNTIME_INFO:
            table = self.runtime()
            if not is_local(peer):
                table = {name: value for name, value in table.items() if not name.startswith(BY_PATH)}
            return request.answer(body=KVTable(table=table).encode())
        return self._counter(request, request.read(BrokerStatsRequest))

    def _change(self, peer: IPeer, request: Command) -> Deferred[Answer]:
        """Change settings for good, as RocketMQ does; whoever keeps a log of that hears of it, done or declined."""
        who = Who(peer.address, peer.address)
        changes: dict[str, str] = {}
        before: dict[str, str] = {}

        def tell(result: object) -> object:
            error = result.value if isinstance(result, Failure) else None
            self._settings.requested.tell(Asked(who, changes, before, error))
            return result

        try:
            changes.update(_changes(request))
            if not self._remote_config:
                raise NoPermission("settings can be changed over the network only where access control is on")
            before.update((one.setting.name, one.before) for one in self._settings.plan(changes.items(), keep=True))
            changing = self._settings.change(changes.items(), who, keep=True)
        except RequestRefused:
            tell(Failure())
            raise
        return changing.addBoth(tell).addCallback(lambda _: request.answer())

    def _counter(self, request: Command, header: BrokerStatsRequest) -> Answer | Deferred[Answer]:
        if self._queues.knows(header.stats_name):
            return Deferred.fromCoroutine(self._look(request, header))
        return _statistics(request, header, self._stats.counted(header.stats_name, header.stats_key))

    async def _look(self, request: Command, header: BrokerStatsRequest) -> Answer:
        return _statistics(request, header, await self._queues.counted(header.stats_name, header.stats_key))

    def runtime(self) -> dict[str, str]:
        """Return the runtime information as 28 is answered."""
        table = {**RUNTIME_DEFAULTS, **self._stats.runtime()}
        for more in self._more_info:
            table.update(more())
        return table


def _changes(request: Command) -> dict[str, str]:
    """Return the settings that a request names, by name. @raise BadBody: it cannot be read, or is too long."""
    if len(request.body) > CHANGES_LIMIT:
        raise BadBody(f"settings of {len(request.body)} B exceed the limit of {CHANGES_LIMIT} B")
    try:
        return {one.key: one.value for one in parse(request.body, "request")}
    except SettingError as error:
        raise BadBody(str(error)) from None


def _statistics(request: Command, header: BrokerStatsRequest, counted: Counted | None) -> Answer:
    if counted is None:
        raise RequestRefused(f"The stats <{header.stats_name}> <{header.stats_key}> not exist")
    spans = zip(counted.values, counted.calls, strict=True)
    body = BrokerStatsData(
        *(StatsItem(value.sum, value.tps, value.sum / calls.sum if calls.sum else 0.0) for value, calls in spans)
    )
    return request.answer(body=body.encode())
