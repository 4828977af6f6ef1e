"""The metrics of a process at C{/metrics}: of its broker, its registry, its reactor (C{docs/metrics.rst})."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from smartgo.broker.interfaces import IBrokerService
from smartgo.core import IS_COMPILED
from smartgo.env.interfaces import IEnvironment
from smartgo.env.product import product_version
from smartgo.net.memorybudget import Kind, MemoryBudget
from smartgo.net.slowturns import SlowTurns
from smartgo.ops.figures.brokermetrics import BrokerMetrics
from smartgo.registry.interfaces import IRoutes
from smartgo.schema.codes import VERSION, Version


class Stalls(NamedTuple):
    """Stalls of the reactor."""

    count: int  # type: ignore[assignment]
    longest: float
    """Seconds."""


def metrics_of(
    env: IEnvironment,
    broker: IBrokerService | None = None,
    routes: IRoutes | None = None,
    stalls: Callable[[], Stalls] | None = None,
    budget: MemoryBudget | None = None,
    slow: SlowTurns | None = None,
) -> CollectorRegistry:
    """
    Return what Prometheus is to be shown of a process; ask for it on the reactor thread.

    @param routes: of the registry in this process.
    @param stalls: tells when the reactor stood still, where somebody watches that.
    @param slow: what held the reactor up.
    @param budget: the memory that peers of the process may make it keep.
    """
    registry = CollectorRegistry()
    registry.register(ProcessMetrics(env, stalls))
    if slow is not None:
        registry.register(TurnMetrics(slow))
    if budget is not None:
        registry.register(MemoryMetrics(budget))
    if broker is not None:
        registry.register(BrokerMetrics(env, broker))
    if routes is not None:
        registry.register(RegistryMetrics(routes))
    return registry


class ProcessMetrics(Collector):
    """Metrics of the process itself."""

    def __init__(self, env: IEnvironment, stalls: Callable[[], Stalls] | None) -> None:
        self._clock = env.clock
        self._stalls = stalls
        self._began = env.clock.seconds()
        self._product = product_version()

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        yield InfoMetricFamily(
            "smartgo", "The RocketMQ release whose protocol is spoken.", {"version": Version(VERSION).name}
        )
        yield InfoMetricFamily("smartgo_product", "The version of smartgo itself.", {"version": self._product})
        yield GaugeMetricFamily("smartgo_core_compiled", "1 where the compiled core is used.", float(IS_COMPILED))
        yield GaugeMetricFamily("smartgo_up_seconds", "Seconds since the start.", self._clock.seconds() - self._began)
        if self._stalls is not None:
            stalls = self._stalls()
            yield CounterMetricFamily(
                "smartgo_reactor_stalls", "How often the reactor was blocked for 0.25 s or longer.", stalls.count
            )
            yield GaugeMetricFamily(
                "smartgo_reactor_longest_stall_seconds", "Seconds of the longest stall of the reactor.", stalls.longest
            )


class TurnMetrics(Collector):
    """Metrics of slow reactor turns."""

    def __init__(self, slow: SlowTurns) -> None:
        self._slow = slow

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        family = CounterMetricFamily(
            "smartgo_reactor_slow_turns",
            "Reactor turns of more than 50 ms, by the function that took the time.",
            labels=("name",),
        )
        for name, count in self._slow.counts.items():
            family.add_metric((name,), count)
        yield family
        yield CounterMetricFamily(
            "smartgo_reactor_slow_turns_seconds", "Seconds spent in slow reactor turns.", self._slow.seconds
        )


class MemoryMetrics(Collector):
    """Metrics of the memory that a process keeps for peers."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        budget = self._budget
        yield GaugeMetricFamily(
            "smartgo_memory_budget_bytes", "Bytes that the process may keep for peers.", budget.limit
        )
        used = GaugeMetricFamily(
            "smartgo_memory_used_bytes", "Bytes that the process keeps for peers.", labels=("kind",)
        )
        for kind in Kind:
            used.add_metric((kind.name.lower(),), budget.taken(kind))
        yield used
        yield GaugeMetricFamily(
            "smartgo_memory_paused", "Connections that are not read because memory is short.", budget.paused
        )
        yield CounterMetricFamily(
            "smartgo_memory_pauses", "How often a connection was not read because memory was short.", budget.pauses
        )
        yield CounterMetricFamily(
            "smartgo_memory_refused", "Connections closed because memory was short.", budget.refused
        )


class RegistryMetrics(Collector):
    """Metrics of a registry's tables."""

    def __init__(self, routes: IRoutes) -> None:
        self._routes = routes

    def collect(self) -> Iterator[Metric]:
        """Yield every metric family."""
        brokers = GaugeMetricFamily(
            "smartgo_registry_brokers", "Registered broker addresses.", labels=("cluster", "role")
        )
        oldest = GaugeMetricFamily(
            "smartgo_registry_broker_silence_seconds", "Seconds since the last heartbeat of the most silent broker.",
            labels=("cluster",),
        )  # fmt: skip
        counts: dict[tuple[str, str], int] = {}
        ages: dict[str, float] = {}
        for one in self._routes.brokers():
            key = (one.cluster, "master" if one.broker_id == 0 else "slave")
            counts[key] = counts.get(key, 0) + 1
            ages[one.cluster] = max(one.age, ages.get(one.cluster, 0.0))
        for key, count in sorted(counts.items()):
            brokers.add_metric(key, count)
        for cluster, age in sorted(ages.items()):
            oldest.add_metric((cluster,), age)
        yield brokers
        yield oldest
        yield GaugeMetricFamily("smartgo_registry_topics", "Topics that brokers serve.", len(self._routes.topics()))
