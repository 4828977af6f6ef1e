"""The metrics of the cluster's members: which are there, which are missing, what cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from smartgo.ops.membership.members import MemberStatus
from smartgo.ops.membership.memory import MemberMemory


class MembershipMetrics(Collector):
    """Metrics of the members that a process remembers; C{docs/metrics.rst} has them."""

    def __init__(self, membership: MemberMemory) -> None:
        self._membership = membership

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        statuses = self._membership.statuses()
        labels = ("cluster", "broker", "id")
        up = GaugeMetricFamily(
            "smartgo_member_up",
            "1 for a broker process that answers, 0 for one that does not or is missing.",
            labels=labels,
        )
        missing = GaugeMetricFamily(
            "smartgo_member_missing_seconds",
            "Seconds since a broker process that is no longer registered was last registered, or answered.",
            labels=labels,
        )
        seconds = self._membership.missing_seconds()
        for status in statuses:
            member = status.member
            key = (member.cluster, member.name, str(member.id))
            up.add_metric(key, float(status.state == "up"))
            if member.subject in seconds:
                missing.add_metric(key, seconds[member.subject])
        yield up
        yield missing
        yield from self._brokers(statuses)
        registries = GaugeMetricFamily(
            "smartgo_registry_up", "1 for a registry that answers, 0 for one that does not.", labels=("address",)
        )
        for one in self._membership.registries():
            if one.up is not None:
                registries.add_metric((one.address,), float(one.up))
        yield registries

    def _brokers(self, statuses: list[MemberStatus]) -> Iterator[Metric]:
        labels = ("cluster", "broker")
        headless = GaugeMetricFamily(
            "smartgo_broker_without_master",
            "1 for a broker of which only slaves are registered, or answer.",
            labels=labels,
        )
        messages = GaugeMetricFamily(
            "smartgo_unreachable_messages", "Messages of a broker of which no process answers.", labels=labels
        )
        queues = GaugeMetricFamily(
            "smartgo_unreachable_queues", "Queues of a broker of which no process answers.", labels=labels
        )
        timed = GaugeMetricFamily(
            "smartgo_unreachable_timed_messages",
            "Timed messages that wait at a broker of which no process answers.",
            labels=labels,
        )
        masterless = set(self._membership.table.masterless())
        for key, lost in {(one.member.cluster, one.member.name): one.unreachable for one in statuses}.items():
            headless.add_metric(key, float(key[1] in masterless))
            for family, count in (
                (messages, lost and lost.messages),
                (queues, lost and lost.queues),
                (timed, lost and lost.timed),
            ):
                if lost is None or count is not None:  # what is not known has no sample
                    family.add_metric(key, float(count or 0))
        yield headless
        yield messages
        yield queues
        yield timed
