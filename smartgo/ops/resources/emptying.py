"""
The resource that empties a topic: its groups skip all messages that it has.

The bytes stay: a log file holds messages of many topics, and retention removes it as a whole.
"""

from __future__ import annotations

import msgspec

from smartgo.client.administration.topics import EMPTIED
from smartgo.errors import CallFailed
from smartgo.ops.problems import Problem
from smartgo.ops.reading.view import ClusterView, each
from smartgo.ops.resources.names import TopicPath
from smartgo.ops.resources.offsets import OffsetsApi
from smartgo.ops.web.partial import MissingBroker
from smartgo.ops.web.routes import ADMIN, RouteCall, route


class EmptyOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The wish that a topic is emptied; C{dry_run}: only say what that would do."""

    dry_run: bool = False


class SkippingGroup(msgspec.Struct, rename="camel"):
    """
    One group of an emptied topic.

    @ivar skipped: messages that it will not receive; null where that is not known.
    @ivar members: clients that were connected for the group.
    @ivar plan: the id of the offset plan, which can be undone, also where it failed in part; null for none.
    @ivar error: why the group was not moved; null if it was, or would be.
    """

    group: str
    skipped: int | None
    members: int
    plan: str | None
    error: str | None


class EmptiedTopic(msgspec.Struct, rename="camel"):
    """
    The outcome of emptying a topic, or of a dry run.

    @ivar messages: messages of the topic; they stay on the disk until retention removes their log files.
    @ivar missing: brokers whose queues are left out: their groups receive what is there once the broker is back.
    """

    topic: str
    dry_run: bool
    messages: int
    groups: list[SkippingGroup]
    missing: list[MissingBroker] = []


class EmptyingApi:
    """Emptying of topics."""

    def __init__(self, view: ClusterView, offsets: OffsetsApi) -> None:
        self._view = view
        self._offsets = offsets

    @route(
        "POST",
        "/topics/{name}/empty",
        scope=ADMIN,
        path_type=TopicPath,
        body=EmptyOrder,
        answer=EmptiedTopic,
        refuses={404: "There is no such topic.", 409: "The topic is not for that kind of use."},
    )
    async def empty(self, call: RouteCall[TopicPath, None, EmptyOrder]) -> EmptiedTopic:
        """
        Move the offsets of all groups of a topic behind its last message, so that they skip what it has.

        The messages stay until retention removes their log files; searches and new groups find them. Each move can be
        undone. With `dryRun` nothing is changed.
        """
        entry = await self._view.topic(call.path.name)
        if entry.kind not in EMPTIED:
            raise Problem(
                409,
                f"{entry.name} is a {entry.kind} topic; only normal and dead letter topics are emptied",
                "wrong-kind",
            )
        await self._view.note_unreached(call.missing)
        topics = self._view.admin.topics
        bounds = (await topics.stats(entry.name)).offset_table.values()
        who = None if call.body.dry_run else call.principal.name
        groups = await topics.groups(entry.name)
        rows = await each(groups, lambda group: self._skip(group, entry.name, who))
        call.noted["plans"] = [one.plan for one in rows if one.plan]
        messages = sum(one.max_offset - one.min_offset for one in bounds)
        return EmptiedTopic(entry.name, call.body.dry_run, messages, rows)

    async def _skip(self, group: str, topic: str, who: str | None) -> SkippingGroup:
        try:
            plan, kept, why = await self._offsets.skip_all(group, topic, who)
        except (CallFailed, Problem) as error:
            return SkippingGroup(group, None, 0, None, str(error))
        skipped = None if why else sum(max(0, one.change) for one in plan.moves)
        return SkippingGroup(group, skipped, plan.members, kept, why)
