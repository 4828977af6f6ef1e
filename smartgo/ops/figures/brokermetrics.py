"""
A broker's figures as Prometheus reads them (C{docs/metrics.rst} lists them).

Names and labels are RocketMQ's where it has such a figure: those of its 5.x brokers (C{rocketmq_messages_in_total}, by
C{cluster}, C{node_type} and C{node_id}) and those of rocketmq-exporter (C{rocketmq_broker_tps}, by C{cluster} and
C{broker}), so that their dashboards show this broker too. Ours begin with C{smartgo_}.

Everything is read off tables that are there anyway, at the moment somebody asks. No more topics, and no more pairs of
group and topic, are told one by one than a limit: the first ones keep their series, further ones are only counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from smartgo.broker.figures.stats import Total
from smartgo.broker.interfaces import IBroker, IBrokerService
from smartgo.broker.tables.progress import TimeQuestion
from smartgo.env.interfaces import IEnvironment
from smartgo.ha.interfaces import SlaveState
from smartgo.ops.figures.retentionmetrics import removals
from smartgo.ops.figures.spanmetrics import span_metrics
from smartgo.ops.figures.storefigures import recovery_metrics, store_figures
from smartgo.ops.figures.timermetrics import timer_metrics
from smartgo.ops.figures.transactionmetrics import transaction_metrics
from smartgo.schema.bodies import ConsumeStats
from smartgo.schema.codes import LANGUAGE_NAMES
from smartgo.schema.lag import lag_over
from smartgo.schema.topics import DLQ_PREFIX, RETRY_PREFIX, SCHEDULE_TOPIC, queue_ids
from smartgo.schema.transactions import TRANSACTION_GROUP

SERIES: Final = 500
"""Topics, and pairs of group and topic, that have series of their own: with so many, a question takes 50 to 100 ms."""

_NODE: Final = ("cluster", "node_type", "node_id")
_EXPORTED: Final = ("cluster", "broker")
_MOST_QUEUES: Final = 4096  # of all groups, for how long their oldest messages wait


class BrokerMetrics(Collector):
    """Collects the metrics of one broker; of one that is still starting only that fact."""

    def __init__(self, env: IEnvironment, service: IBrokerService, series: int = SERIES) -> None:
        """@param series: how many topics, and pairs of group and topic, are told one by one."""
        self._env = env
        self._service = service
        self._series = series
        self._metrics: OpenBrokerMetrics | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        opened = self._service.opened
        config = self._service.settings.configuration.broker
        family = GaugeMetricFamily("smartgo_broker_opened", "1 once the store is recovered.", labels=_NODE)
        node = (config.broker_cluster_name, "broker", config.broker_name)
        family.add_metric(node, float(opened is not None))
        yield family
        yield from recovery_metrics(_NODE, node, self._service.recovered_so_far)
        if opened is not None:
            if self._metrics is None:
                self._metrics = OpenBrokerMetrics(self._env, opened, self._series)
            yield from self._metrics.collect()


class OpenBrokerMetrics:
    """
    Makes the metrics of a broker whose store is open.

    How long a group's oldest message has been waiting has to be looked up in the log. Each round of questions starts
    such a look in the background and tells what the last one found: that does not change until the group moves on.
    """

    _log = Logger()

    def __init__(self, env: IEnvironment, broker: IBroker, series: int = SERIES) -> None:
        """@param series: how many topics, and pairs of group and topic, are told one by one."""
        self._env = env
        self._broker = broker
        self._series = series
        config = broker.settings.configuration.broker
        self._node = (config.broker_cluster_name, "broker", config.broker_name)
        self._exported = (config.broker_cluster_name, config.broker_name)
        self._oldest_ms: dict[tuple[str, str], int] = {}
        self._looking = False
        self._dropped = 0

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family of an open broker."""
        self._dropped = 0
        yield from self._traffic()
        yield from self._groups()
        yield from self._clients()
        yield from self._tables()
        yield from self._store()
        yield from self._replication()
        if self._broker.timed is not None:
            yield from timer_metrics(self._broker.timed, _NODE, self._node)
        if self._broker.transactions is not None:
            now_ms = self._env.clock.wall_ms()
            yield from transaction_metrics(self._broker.transactions, _NODE, self._node, now_ms)
        if self._broker.spans is not None:
            yield from span_metrics(self._broker.spans, _NODE, self._node)
        yield self._gauge(
            "smartgo_metrics_dropped", "Topics, and pairs of group and topic, without series of their own.",
            self._dropped,
        )  # fmt: skip

    # -- families ------------------------------------------------------------------------------------------

    def _gauge(self, name: str, about: str, value: float) -> Metric:
        family = GaugeMetricFamily(name, about, labels=_NODE)
        family.add_metric(self._node, value)
        return family

    def _counter(self, name: str, about: str, value: float) -> Metric:
        family = CounterMetricFamily(name, about, labels=_NODE)
        family.add_metric(self._node, value)
        return family

    def _first(self, totals: Iterable[Total], count: int) -> list[Total]:
        self._dropped += max(0, count - self._series)
        return list(islice(totals, self._series))

    # -- what goes through -----------------------------------------------------------------------------------

    def _traffic(self) -> Iterator[Metric]:
        stats = self._broker.stats
        put_rate, got_rate = stats.rates()
        for name, about, rate in (
            ("rocketmq_broker_tps", "Messages stored per second, over the last 10 s.", put_rate),
            ("rocketmq_broker_qps", "Messages delivered per second, over the last 10 s.", got_rate),
        ):
            family = GaugeMetricFamily(name, about, labels=("cluster", "brokerIP", "broker"))
            family.add_metric((self._exported[0], self._broker.identity.address, self._exported[1]), rate)
            yield family
        yield self._counter("smartgo_messages_in", "Messages stored in all topics.", stats.put.total)
        yield self._counter("smartgo_bytes_in", "Bytes of the records stored in all topics.", stats.put_size)
        yield self._counter("smartgo_messages_out", "Messages delivered to all groups.", stats.got.total)
        yield self._counter("smartgo_put_failures", "Sends that the store refused.", stats.put_failures)
        yield self._counter(
            "smartgo_stats_overflowed", "Events not counted individually: too many topics or groups.", stats.overflowed
        )
        puts, gets, backs, acks = stats.flow_counts
        yield from self._in(self._first(stats.put_totals(), puts))
        yield from self._out(self._first(stats.got_totals(), gets), self._first(stats.back_totals(), backs))
        yield self._acknowledged(self._first(stats.acknowledged_totals(), acks))

    def _in(self, puts: Sequence[Total]) -> Iterator[Metric]:
        labels = (*_NODE, "topic", "message_type")
        count = CounterMetricFamily("rocketmq_messages_in", "Messages stored.", labels=labels)
        size = CounterMetricFamily("rocketmq_throughput_in", "Bytes of the stored records.", labels=labels)
        dead = CounterMetricFamily(
            "rocketmq_send_to_dlq_messages",
            "Messages that became dead letters.",
            labels=(*_NODE, "topic", "consumer_group"),
        )
        topic_labels = (*_EXPORTED, "topic")
        rate = GaugeMetricFamily(
            "rocketmq_producer_tps", "Messages stored per second, last minute.", labels=topic_labels
        )
        flow = GaugeMetricFamily(
            "rocketmq_producer_message_size", "Bytes stored per second, last minute.", labels=topic_labels
        )
        end = GaugeMetricFamily(
            "rocketmq_producer_offset", "Sum of the maximum offsets of the queues.", labels=topic_labels
        )
        for one in puts:
            key = (*self._node, one.topic, self._kind(one.topic))
            count.add_metric(key, one.count)
            size.add_metric(key, one.size)
            if one.topic.startswith(DLQ_PREFIX):
                dead.add_metric((*self._node, one.topic, one.topic.removeprefix(DLQ_PREFIX)), one.count)
            exported = (*self._exported, one.topic)
            rate.add_metric(exported, one.minute.tps)
            flow.add_metric(exported, one.minute_size.tps)
            config = self._broker.topics.get(one.topic)
            if config is not None:
                queues = queue_ids(config.write_queue_nums)
                end.add_metric(exported, sum(self._broker.store.bounds(one.topic, queue)[1] for queue in queues))
        return iter((count, size, dead, rate, flow, end))

    def _kind(self, topic: str) -> str:
        """The label that RocketMQ gives each message, here by the topic."""
        if topic == SCHEDULE_TOPIC:
            return "delay"
        config = self._broker.topics.get(topic)
        return "fifo" if config is not None and config.order else "normal"

    def _out(self, gets: Sequence[Total], backs: Sequence[Total]) -> Iterator[Metric]:
        labels = (*_NODE, "topic", "consumer_group", "is_retry")
        count = CounterMetricFamily("rocketmq_messages_out", "Messages delivered.", labels=labels)
        size = CounterMetricFamily("rocketmq_throughput_out", "Bytes of the delivered records.", labels=labels)
        pair_labels = (*_EXPORTED, "topic", "group")
        rate = GaugeMetricFamily(
            "rocketmq_consumer_tps", "Messages delivered per second, last minute.", labels=pair_labels
        )
        flow = GaugeMetricFamily(
            "rocketmq_consumer_message_size", "Bytes delivered per second, last minute.", labels=pair_labels
        )
        back = GaugeMetricFamily(
            "rocketmq_send_back_nums", "Messages sent back for a retry per second, last minute.", labels=pair_labels
        )
        for one in gets:
            key = (*self._node, one.topic, one.group, _is_retry(one.topic))
            count.add_metric(key, one.count)
            size.add_metric(key, one.size)
            rate.add_metric((*self._exported, one.topic, one.group), one.minute.tps)
            flow.add_metric((*self._exported, one.topic, one.group), one.minute_size.tps)
        for one in backs:
            back.add_metric((*self._exported, one.topic, one.group), one.minute.tps)
        return iter((count, size, rate, flow, back))

    def _acknowledged(self, acks: Sequence[Total]) -> Metric:
        labels = (*_NODE, "topic", "consumer_group", "is_retry")
        family = CounterMetricFamily(
            "smartgo_messages_acknowledged", "Messages acknowledged and not refused.", labels=labels
        )
        for one in acks:
            family.add_metric((*self._node, one.topic, one.group, _is_retry(one.topic)), one.count)
        return family

    # -- how far groups are ------------------------------------------------------------------------------------

    def _groups(self) -> Iterator[Metric]:
        labels = (*_NODE, "topic", "consumer_group", "is_retry")
        behind = GaugeMetricFamily("rocketmq_consumer_lag_messages", "Messages not consumed.", labels=labels)
        waits = GaugeMetricFamily(
            "rocketmq_consumer_lag_latency",
            "Milliseconds since the oldest message not consumed was stored.",
            labels=labels,
        )
        pair_labels = (*_EXPORTED, "topic", "group")
        diff = GaugeMetricFamily("rocketmq_message_accumulation", "Messages not consumed.", labels=pair_labels)
        offset = GaugeMetricFamily("rocketmq_consumer_offset", "Sum of the group's offsets.", labels=pair_labels)
        latency = GaugeMetricFamily(
            "rocketmq_group_get_latency_by_storetime",
            "Milliseconds since the oldest message not consumed was stored.",
            labels=pair_labels,
        )
        now = self._env.clock.wall_ms()
        questions: list[TimeQuestion] = []
        counts = self._counts(questions)
        for (group, topic), stats in counts.items():
            key = (*self._node, topic, group, _is_retry(topic))
            exported = (*self._exported, topic, group)
            lag = lag_over(stats.offset_table.values())
            oldest_ms = self._oldest_ms.get((group, topic), 0) if lag.messages else 0  # as the last look found it
            waited_ms = lag._replace(oldest_ms=oldest_ms).waited_ms(now) or 0
            behind.add_metric(key, lag.messages)
            diff.add_metric(exported, lag.messages)
            offset.add_metric(exported, sum(one.consumer_offset for one in stats.offset_table.values()))
            waits.add_metric(key, waited_ms)
            latency.add_metric(exported, waited_ms)
        self._look(counts, [one for one in questions if one.waits][:_MOST_QUEUES])
        return iter((behind, waits, diff, offset, latency))

    def _counts(self, questions: list[TimeQuestion]) -> dict[tuple[str, str], ConsumeStats]:
        """Count what waits, by group and topic. @param questions: takes the times to look up."""
        progress = self._broker.group_progress
        found: dict[tuple[str, str], ConsumeStats] = {}
        pairs = self._broker.offsets.items()
        for group, topic, _ in pairs:
            if group == TRANSACTION_GROUP:
                continue
            stats = progress.count(group, topic, questions)
            if stats is None:
                continue
            if len(found) == self._series:
                self._dropped += 1 + sum(1 for _ in pairs)
                break
            found[group, topic] = stats
        return found

    def _look(self, counts: dict[tuple[str, str], ConsumeStats], questions: Sequence[TimeQuestion]) -> None:
        """Measure in the background how old the oldest messages not consumed are; one measurement at a time."""
        if not self._looking:
            self._looking = True
            Deferred.fromCoroutine(self._find_oldest(counts, questions)).addBoth(self._looked)

    async def _find_oldest(
        self, counts: dict[tuple[str, str], ConsumeStats], questions: Sequence[TimeQuestion]
    ) -> None:
        await self._broker.group_progress.find_times(questions)
        self._oldest_ms = {key: lag_over(one.offset_table.values()).oldest_ms or 0 for key, one in counts.items()}

    def _looked(self, result: object) -> None:
        self._looking = False
        if isinstance(result, Failure):
            self._log.failure("the age of waiting messages could not be measured", result)

    # -- who is connected, and what there is -------------------------------------------------------------------

    def _clients(self) -> Iterator[Metric]:
        broker = self._broker
        consumers: Counter[tuple[str, str, str, str]] = Counter()
        for name in islice(broker.consumers.groups(), self._series):
            group = broker.consumers.get(name)
            if group is not None:
                for member in group.members.values():
                    language = LANGUAGE_NAMES.get(member.language, "OTHER")
                    consumers[name, language, str(member.version), group.message_model.lower()] += 1
        labels = (*_NODE, "consumer_group", "language", "version", "consume_mode")
        family = GaugeMetricFamily("rocketmq_consumer_connections", "Connections of consumer groups.", labels=labels)
        for key, count in consumers.items():
            family.add_metric((*self._node, *key), count)
        yield family
        producers: dict[object, tuple[str, str]] = {}
        for name in broker.producers.groups():
            for member in broker.producers.members(name):
                producers[member.peer] = (LANGUAGE_NAMES.get(member.language, "OTHER"), str(member.version))
        family = GaugeMetricFamily(
            "rocketmq_producer_connections", "Connections of producers.", labels=(*_NODE, "language", "version")
        )
        for kind, count in Counter(producers.values()).items():
            family.add_metric((*self._node, *kind), count)
        yield family
        yield self._gauge("smartgo_connections", "Connections to the broker's ports.", broker.connections)
        yield self._gauge("smartgo_held_pulls", "Long polls that wait for messages.", broker.long_polls.count)
        for name, about in (
            ("accepted", "Connections accepted."),
            ("turned_away", "Connections refused because of a limit."),
            ("broken", "Connections closed because of malformed frames."),
            ("slow", "Connections closed because they were too slow."),
            ("idle", "Connections closed because they were idle."),
            ("unreadable", "Frames whose header could not be read."),
        ):
            yield self._counter(f"smartgo_connections_{name}", about, getattr(broker.connection_counts, name))

    def _tables(self) -> Iterator[Metric]:
        broker = self._broker
        permission = broker.settings.configuration.broker.broker_permission
        yield self._gauge("rocketmq_broker_permission", "4 read, 2 write, 6 both.", permission)
        yield self._gauge("rocketmq_topic_number", "Topics.", len(broker.topics))
        yield self._gauge("rocketmq_consumer_group_number", "Consumer groups.", len(broker.groups))
        yield self._counter(
            "smartgo_offsets_went_back", "Commits of an offset below the previous one.", broker.offsets.went_back
        )

    def _store(self) -> Iterator[Metric]:
        broker = self._broker
        first, end = broker.store.log_bounds()
        oldest_ms = broker.runtime_info.earliest_ms
        reserve = max(0, self._env.clock.wall_ms() - oldest_ms) if oldest_ms >= 0 else 0
        total, free = broker.runtime_info.disk_usage()
        for name, about, value in (
            ("rocketmq_storage_size", "Bytes of the log.", end - first),
            ("rocketmq_storage_flush_behind_bytes", "Bytes not flushed yet.", end - broker.store.flushed),
            ("rocketmq_storage_message_reserve_time", "Milliseconds since the oldest message was stored.", reserve),
            *store_figures(broker.store),
            ("smartgo_store_disk_bytes", "Bytes of the store's file system.", total),
            ("smartgo_store_disk_free_bytes", "Free bytes of the store's file system.", free),
        ):
            yield self._gauge(name, about, float(value))
        yield self._counter(
            "smartgo_store_damaged_regions_repaired", "Damaged regions put right with the bytes of another broker.",
            broker.store.damage.repaired,
        )  # fmt: skip
        unread = islice(broker.group_progress.unread_removals.totals(), self._series)
        yield from removals(_NODE, self._node, broker.store.cleaner.removed, unread)

    def _replication(self) -> Iterator[Metric]:
        now = self._broker.replication.now()
        if now.state is None:
            end = self._broker.store.log_bounds()[1]
            yield self._gauge("smartgo_replication_slaves", "Connected slaves.", len(now.slaves))
            yield self._gauge(
                "smartgo_replication_confirmed_bytes", "Physical offset that slaves have confirmed.", now.confirmed
            )
            behind = max((end - max(0, one.confirmed) for one in now.slaves), default=-1)
        else:
            family = GaugeMetricFamily(
                "smartgo_replication_state", "1 for the state that a slave is in.", labels=(*_NODE, "state")
            )
            for state in SlaveState:
                family.add_metric((*self._node, state.name), float(state is now.state))
            yield family
            if now.tables_ms >= 0:
                age = max(0, self._env.clock.wall_ms() - now.tables_ms) / 1000
                about = "Seconds since a slave's tables were equal to its master's."
                yield self._gauge("smartgo_replication_tables_age_seconds", about, age)
            behind = now.behind
        if behind >= 0:
            about = "Bytes of the log that a slave, or a master's slowest slave, does not have yet."
            yield self._gauge("smartgo_replication_behind_bytes", about, float(behind))


def _is_retry(topic: str) -> str:
    return "true" if topic.startswith(RETRY_PREFIX) else "false"
