"""The explanation why a message did, or did not, reach a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from smartgo.client.internal.records import FoundMessage
from smartgo.client.internal.redeliveries import Attempts, FateState, age, fate_of
from smartgo.client.internal.route import READ as READABLE
from smartgo.client.internal.subscription import lets_in
from smartgo.ops.reading.content import MessageRow, row_of
from smartgo.ops.reading.deliveries import MessageDeliveries
from smartgo.ops.reading.explaintexts import TEXTS
from smartgo.ops.reading.lookup import Lookup
from smartgo.ops.reading.plans import PlanTable
from smartgo.ops.reading.queuereader import ClusterQueueReader
from smartgo.ops.reading.view import GroupEntry, PartialView
from smartgo.ops.web.partial import Partial
from smartgo.schema import properties
from smartgo.schema.bodies import ConsumerConnection, ConsumeType, MessageModel
from smartgo.schema.topics import SCHEDULE_TOPIC, dlq_topic, retry_topic

Outcome = Literal["well", "bad", "note", "unknown"]
Verdict = Literal[
    "consumed",
    "waiting",
    "filtered",
    "retrying",
    "dead",
    "skipped",
    "offline",
    "not-subscribed",
    "disabled",
    "no-permission",
    "no-message",
    "no-group",
    "unknown",
]


Details = dict[str, Any]
Values = dict[str, str | int]


_VERDICTS: Final[Mapping[FateState, Verdict]] = {
    "waiting": "retrying",
    "refused": "retrying",
    "consumed": "consumed",
    "failed": "dead",
    "unknown": "unknown",
}


class Check(msgspec.Struct, rename="camel"):
    """
    The result of one check.

    @ivar name: C{message}, C{permission}, C{group}, C{enabled}, C{members}, C{subscription}, C{filter}, C{position},
        C{retry}, C{dead}; in this order.
    @ivar outcome: C{bad} prevents delivery to the group; C{note} is information.
    @ivar detail: one sentence; C{code} and C{values} identify the sentence and its values, for translations.
    @ivar facts: measured values, by name.
    """

    name: str
    outcome: Outcome
    detail: str
    code: str
    values: Values
    facts: dict[str, Any]


class Explanation(Partial, rename="camel"):
    """
    The explanation why a message did, or did not, reach a group.

    @ivar verdict: C{consumed}: the group's offset is past it; C{waiting}: not there yet; C{filtered}: the subscription
        does not match; C{retrying}: consumption failed, it will be redelivered; C{dead}: it failed too often and is a
        dead letter; C{skipped}: an offset reset skipped it; C{offline}, C{not-subscribed}, C{disabled},
        C{no-permission}: why the group receives nothing.
    @ivar summary: the verdict in one sentence; its code is C{verdict.VERDICT}, C{values} are its values.
    @ivar message: null if it was not found.
    @ivar missing: brokers that did not answer: members or redelivered copies may be there.
    """

    verdict: Verdict
    summary: str
    values: Values
    message: MessageRow | None
    checks: list[Check]


class Explainer:
    """Finds out why one message did, or did not, reach one group."""

    def __init__(self, view: PartialView, plans: PlanTable, message: FoundMessage, group: str) -> None:
        self._view = view
        self._reader = ClusterQueueReader(view)
        self._lookup = Lookup(view)
        self._deliveries = MessageDeliveries(view)
        self._plans = plans
        self._message = message
        self._topic = message.stored.topic
        self._group = group
        self._checks: list[Check] = []
        self._keeps_back: Verdict | None = None
        self._filtered = False
        self._values: Values = {}

    async def explain(self) -> Explanation:
        """Run one check after another until the verdict is known."""
        stored = self._message.stored
        broker = self._message.broker
        facts: Values = {
            "topic": self._topic,
            "broker": broker,
            "queueId": stored.queue_id,
            "offset": stored.queue_offset,
        }
        self._values.update(facts, group=self._group)
        self._note("message", "well", "found", facts={**facts, "storedMs": stored.stored_ms})
        await self._check_permission()
        entry = (await self._view.groups.get()).get(self._group)
        if entry is None or broker not in entry.configs:
            self._note("group", "bad", "missing" if entry is None else "elsewhere")
            return self._done("no-group")
        self._note("group", "well", "known")
        self._check_enabled(entry)
        connection = await self._deliveries.connection(self._group)
        self._check_members(connection)
        if connection is not None:
            self._check_subscription(connection)
        verdict = await self._check_position(connection)
        later = await self._check_copies()
        if later is not None:
            return self._done(later)
        if self._filtered:
            return self._done("filtered")
        return self._done(verdict)

    def _note(
        self,
        name: str,
        outcome: Outcome,
        word: str,
        keeps: Verdict | None = None,
        facts: Details | None = None,
        **values: str | int,
    ) -> None:
        code = f"{name}.{word}"
        values = {**self._values, **values}
        self._checks.append(Check(name, outcome, said(code, values), code, values, facts or {}))
        if keeps is not None and self._keeps_back is None:
            self._keeps_back = keeps

    def _done(self, verdict: Verdict) -> Explanation:
        summary = said(f"verdict.{verdict}", self._values)
        return Explanation(verdict, summary, self._values, row_of(self._message), self._checks)

    # -- what lets it through, or does not ---------------------------------------------------------------------

    async def _check_permission(self) -> None:
        entry = await self._view.topic(self._topic)
        config = entry.configs.get(self._message.broker)
        perm = config.perm if config is not None else 0
        if perm & READABLE:
            self._note("permission", "well", "readable", facts={"perm": perm})
        else:
            self._note("permission", "bad", "unreadable", "no-permission", {"perm": perm})

    def _check_enabled(self, entry: GroupEntry) -> None:
        config = entry.configs[self._message.broker]
        if config.consume_enable:
            self._note("enabled", "well", "yes")
        else:
            self._note("enabled", "bad", "no", "disabled")

    def _check_members(self, connection: ConsumerConnection | None) -> None:
        if connection is None or not connection.connection_set:
            self._note("members", "bad", "none", "offline", {"members": 0})
            return
        names = sorted(one.client_id for one in connection.connection_set)
        facts = {"members": len(names), "clients": names[:20]}
        self._note("members", "well", "one" if len(names) == 1 else "many", facts=facts, members=len(names))

    def _check_subscription(self, connection: ConsumerConnection) -> None:
        wants = connection.subscription_table.get(self._topic)
        if wants is None:
            topics = sorted(connection.subscription_table)
            self._note("subscription", "bad", "missing", "not-subscribed", {"topics": topics[:20]})
            return
        expression = {"expression": wants.sub_string, "type": wants.expression_type}
        self._note("subscription", "well", "there", facts=expression, wants=wants.sub_string)
        tag = self._message.tag
        let_in = lets_in(wants, tag)
        if let_in is None:
            self._note("filter", "unknown", "unknown", facts={"tag": tag}, wants=wants.sub_string)
        elif let_in:
            self._note("filter", "well", "passed", facts={"tag": tag})
        else:
            self._filtered = True
            word = "tag" if tag else "untagged"
            self._note("filter", "bad", word, facts={"tag": tag}, wants=wants.sub_string, tag=tag or "")

    # -- how far the group is ----------------------------------------------------------------------------------

    async def _check_position(self, connection: ConsumerConnection | None) -> Verdict:
        offset = self._message.stored.queue_offset
        if connection is not None and connection.message_model is MessageModel.BROADCASTING:
            self._note("position", "unknown", "broadcast")
            return "unknown"
        position = await self._reader.committed(self._group, self._message.queue)
        facts = {"position": position, "offset": offset}
        if position is None:
            starts = None if connection is None else str(connection.consume_from_where)
            self._note("position", "note", "missing", facts={**facts, "starts": starts})
            return self._keeps_back or ("unknown" if connection is None else "waiting")
        if position <= offset:
            ahead = offset - position
            word = "ahead" if ahead else "next"
            self._note("position", "note", word, facts={**facts, "ahead": ahead}, position=position, ahead=ahead)
            return self._keeps_back or "waiting"
        plan = self._skipping()
        if plan is not None:
            self._note("position", "bad", "moved", facts={**facts, "plan": plan}, plan=plan)
            return "skipped"
        pulls = connection is not None and connection.consume_type is ConsumeType.CONSUME_ACTIVELY
        self._note("position", "well", "pulled" if pulls else "past", facts=facts, position=position)
        return "consumed"

    def _skipping(self) -> str | None:
        """Return the id of the offset plan that moved the group past the message."""
        offset = self._message.stored.queue_offset
        for kept in self._plans.all():
            plan = kept.plan
            if kept.state == "applied" and (plan.group, plan.topic) == (self._group, self._topic):
                for one in plan.moves:
                    here = (one.broker, one.queue_id) == (self._message.broker, self._message.stored.queue_id)
                    begin = one.minimum if one.before is None else one.before
                    if here and begin <= offset < one.after:
                        return kept.id
        return None

    # -- copies of it ------------------------------------------------------------------------------------------

    async def _check_copies(self) -> Verdict | None:
        """
        Search for copies made when the message was given back; return their meaning, or C{None} if there are none.
        """
        retry = retry_topic(self._group)
        delayed = [
            one for one in await self._copies(SCHEDULE_TOPIC) if one.properties.get(properties.REAL_TOPIC) == retry
        ]
        retries = await self._copies(retry)
        letters = await self._copies(dlq_topic(self._group))
        attempts = Attempts(delayed, retries, letters)
        fate = await fate_of(attempts, self._is_acknowledged)
        newest = max([*delayed, *retries], key=age, default=None)
        if newest is None:
            self._note("retry", "well", "none")
        else:
            facts: Details = {
                "times": newest.stored.reconsume_times,
                "copies": len(delayed) + len(retries),
                **_place(newest),
            }
            coming = fate is not None and fate.state in ("refused", "waiting")
            self._note("retry", "bad" if coming else "note", "coming" if coming else "over", facts=facts)
        if letters:
            self._note("dead", "bad", "letter", facts=_place(letters[-1]))
        else:
            self._note("dead", "well", "none")
        return None if fate is None else _VERDICTS[fate.state]

    async def _is_acknowledged(self, copy: FoundMessage) -> bool:
        position = await self._reader.committed(self._group, copy.queue)
        return position is not None and position > copy.stored.queue_offset

    async def _copies(self, topic: str) -> list[FoundMessage]:
        unique = self._message.properties.get(properties.UNIQ_KEY)
        if unique is None or topic == self._topic or topic not in await self._view.topics.get():
            return []
        return await self._lookup.by_unique_key(topic, unique)


def _place(one: FoundMessage) -> Details:
    return {"topic": one.stored.topic, "offsetId": one.stored.message_id, "storedMs": one.stored.stored_ms}


def said(code: str, values: Values) -> str:
    """Return the sentence of a code with its values filled in."""
    return TEXTS[code].format_map(values)


def not_found(reason: str, group: str) -> Explanation:
    """Return the explanation where there is no such message."""
    values: Values = {"reason": reason, "group": group}
    check = Check("message", "bad", said("message.missing", values), "message.missing", values, {})
    return Explanation("no-message", said("verdict.no-message", values), values, None, [check])
