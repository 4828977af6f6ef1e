"""The checks of C{smartgo doctor} on consumer groups: lag, members, subscriptions."""

from __future__ import annotations

from typing import Final

from smartgo.cli.support.deadletters import count_all
from smartgo.cli.support.diagnosisresults import OK, PROBLEM, DiagnosisFinding, FindingStream, judged
from smartgo.cli.support.output import counted, span
from smartgo.cli.support.progress import ProgressLine
from smartgo.cli.support.session import ClusterSession
from smartgo.client.administration.groups import BUILT_IN
from smartgo.errors import CallFailed
from smartgo.schema.bodies import ConsumerConnection
from smartgo.schema.lag import acknowledged_tps, lag_over

_MEMBERS_ASKED: Final = 50
_ACKNOWLEDGING: Final = 60.0  # seconds over which brokers measure what a group acknowledges


class GroupDiagnosis:
    """Checks all consumer groups of a cluster."""

    def __init__(self, session: ClusterSession) -> None:
        self._env = session.env
        self._admin = session.admin

    async def run(self) -> FindingStream:
        """Yield the findings about all groups, and one for those without any."""
        names = [name for name in await self._admin.groups.names() if name not in BUILT_IN]
        well = 0
        with ProgressLine(self._env.clock, "groups", len(names)) as progress:
            for name in names:
                found = [one async for one in self._group(name)]
                well += not found
                for one in found:
                    yield one
                progress.advance()
        if well:
            yield DiagnosisFinding(
                OK,
                "groups",
                f"{well} of {counted(len(names), 'group')} healthy: no lag without a consumer, subscriptions agree",
            )

    async def _group(self, name: str) -> FindingStream:
        subject = f"group {name}"
        progress = await self._admin.groups.progress(name)
        lag = lag_over(progress.offset_table.values())
        removed = sum(one.removed for one in progress.offset_table.values())
        for one in judged("group-lost-messages", subject, removed, f"{removed:,}"):
            yield one
        connection = await self._admin.groups.connections(name)
        if connection is None:
            if lag.messages:
                for one in judged("group-empty", subject, lag.messages, counted(lag.messages, "message")):
                    yield one
            return
        waited_s = (lag.waited_ms(self._env.clock.wall_ms()) or 0) / 1000
        if acknowledged_tps(progress):
            for one in judged("group-late", subject, waited_s, str(span(waited_s))):
                yield one
        elif waited_s >= _ACKNOWLEDGING:
            for one in judged("group-stopped", subject, lag.messages, counted(lag.messages, "message")):
                yield one
        wants = await self._wants(name, connection)
        topics = sorted({topic for one in wants.values() for topic in one})
        for topic in topics:
            by_text: dict[str | None, list[str]] = {}
            for client, table in wants.items():
                by_text.setdefault(table.get(topic), []).append(client)
            if len(by_text) > 1:
                words = "; ".join(f"{clients[0]} wants {text or 'nothing'}" for text, clients in by_text.items())
                yield DiagnosisFinding(
                    PROBLEM,
                    subject,
                    f"its members do not want the same of {topic}: {words}",
                    "all members of a group must subscribe alike, or messages are lost to some; use a group each",
                )

    async def _wants(self, name: str, connection: ConsumerConnection) -> dict[str, dict[str, str]]:
        """Return the subscriptions of each member; members that do not answer are left out."""
        found = {}
        for member in connection.connection_set[:_MEMBERS_ASKED]:
            if len(connection.connection_set) == 1:
                break
            try:
                info = await self._admin.groups.running_info(name, member.client_id)
            except CallFailed:
                continue
            found[member.client_id] = {
                one.topic: f"{one.sub_string} ({one.expression_type})" for one in info.subscription_set
            }
        return found


async def dead_letters(session: ClusterSession) -> list[DiagnosisFinding]:
    """Return the findings about dead letters: those that were neither resent nor acknowledged are a warning."""
    found = []
    closed = in_retry = 0
    for one in await count_all(session):
        found += judged("dead-letters", f"group {one.group}", one.open, counted(one.open, "dead letter"))
        closed += one.messages - one.open
        in_retry += one.in_retry
    if closed and not found:
        more = f"; {in_retry:,} in retry" if in_retry else ""
        words = f"{counted(closed, 'dead letter')}, all resent or acknowledged{more}"
        found.append(DiagnosisFinding(OK, "groups", words))
    return found
