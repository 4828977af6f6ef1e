"""Measure subjects in a snapshot: functions that return one number for each broker, group, registry or process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from smartgo.health.snapshot import BrokerSnapshot, ClusterSnapshot, GroupSnapshot, Values

Measure = Callable[[ClusterSnapshot], Values | None]
"""Returns a number for each subject; C{None} where the snapshot has nothing about such subjects."""

FOLLOWING: Final = ("FOLLOWING", "CATCHING_UP")
"""Replication states of a slave that copies its master's log."""
STOPPED: Final = 900.0
"""Seconds without an acknowledgement after which consumers that are connected have stopped."""


def down(snapshot: ClusterSnapshot) -> Values | None:
    """Return 1 for each broker that does not answer."""
    return None if snapshot.brokers is None else {name: float(not one.up) for name, one in snapshot.brokers.items()}


def registries_down(snapshot: ClusterSnapshot) -> Values | None:
    """Return 1 for each registry that does not answer."""
    if snapshot.registries is None:
        return None
    return {address: float(not up) for address, up in snapshot.registries.items()}


def of_brokers(value: Callable[[BrokerSnapshot], float | None]) -> Measure:
    """Measure the brokers that answer; one where C{value} is C{None} is left out."""

    def measure(snapshot: ClusterSnapshot) -> Values | None:
        brokers = snapshot.brokers
        if brokers is None:
            return None
        values = {name: value(one) if one.up else None for name, one in brokers.items()}
        return {name: number for name, number in values.items() if number is not None or not brokers[name].up}

    return measure


def of_slaves(value: Callable[[BrokerSnapshot], float | None]) -> Measure:
    """Measure the slaves that answer."""
    return of_brokers(lambda one: None if one.state is None else value(one))


def alone(snapshot: ClusterSnapshot) -> Values | None:
    """
    Return 1 for each slave that follows no master although there is one.

    Where the master is missing, the slave has none to follow: that is the only problem, and C{broker-gone} or
    C{master-missing} tells it. Where the master does not answer, it is unknown.
    """
    values = of_slaves(lambda one: float(one.state not in FOLLOWING))(snapshot)
    if values is None or snapshot.brokers is None:
        return None
    masterless = {name for name, value in (snapshot.masterless or {}).items() if value}
    found: dict[str, float | None] = {}
    for subject, value in values.items():
        name = subject.partition("#")[0]
        master = snapshot.brokers.get(name)
        if name in masterless:
            value = 0.0
        elif value and master is not None and not master.up:
            value = None
        found[subject] = value
    return found


def of_groups(value: Callable[[GroupSnapshot], float | None]) -> Measure:
    """Measure consumer groups."""

    def measure(snapshot: ClusterSnapshot) -> Values | None:
        if snapshot.groups is None:
            return None
        return {name: None if one is None else value(one) for name, one in snapshot.groups.items()}

    return measure


def lateness(one: GroupSnapshot) -> float | None:
    """
    Return the seconds that a group is behind.

    More consumers do not help a group whose consumers acknowledge nothing: as long as that may pass it is not judged,
    and from L{STOPPED} on it counts as not late, but stopped.
    """
    if one.idle:
        return None if one.idle_seconds < STOPPED else 0.0
    return one.lag_seconds


def of_process(figure: str, limit: str = "") -> Measure:
    """
    Measure one figure of processes, or its share of the figure C{limit}.

    The subject of the process that judges is the empty text; that of another is its broker's name.
    """

    def measure(snapshot: ClusterSnapshot) -> Values | None:
        if snapshot.process is None and snapshot.remote is None:
            return None
        processes = dict(snapshot.remote or {})
        if snapshot.process is not None:
            processes[""] = snapshot.process
        values = {name: _figure(figures, figure, limit) for name, figures in processes.items()}
        return None if all(value is None for value in values.values()) and values else values

    return measure


def _figure(figures: Mapping[str, float] | None, figure: str, limit: str) -> float | None:
    """Return one figure, or its share of another; C{None} if it is unknown."""
    if figures is None or figure not in figures:
        return None
    return figures[figure] / (figures.get(limit) or 1.0) if limit else figures[figure]
