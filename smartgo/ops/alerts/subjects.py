"""The subjects that alerts can be about: brokers and their processes, registries, groups, topics."""

from __future__ import annotations

from collections.abc import Iterable

from smartgo.errors import CallFailed
from smartgo.ops.alerts.silences import PROCESS
from smartgo.ops.alerts.table import AlertTable
from smartgo.ops.reading.view import ClusterView


class KnownSubjects:
    """Finds whether anything has a name that alerts are silenced for."""

    def __init__(self, view: ClusterView, table: AlertTable, registries: Iterable[str]) -> None:
        """@param registries: C{host:port} of each registry of the cluster."""
        self._view = view
        self._table = table
        self._registries = frozenset(registries)

    async def has(self, subject: str) -> bool:
        """
        Return whether an alert, now or in the history, a broker or one of its processes, a registry, a group or a topic
        has this name, or it stands for the process that judges. Groups and topics of brokers that do not answer are not
        known.
        """
        members = [one.member for one in self._view.membership.statuses()]
        if subject == PROCESS or subject in self._registries:
            return True
        if subject in {name for one in members for name in (one.name, one.subject)}:
            return True
        alerts, past = self._table.alerts(), self._table.history
        if subject in {one.subject for one in alerts} | {one.subject for one in past}:
            return True
        for source in (self._view.groups, self._view.topics):
            try:
                if subject in await source.get():
                    return True
            except CallFailed:
                continue
        return False
