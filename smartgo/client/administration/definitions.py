"""
Export and import of definitions: the settings of topics and groups, and values of registries.

An import merges: it creates and updates what the definitions name, leaves the rest alone and never deletes. It can be
previewed: for each setting a plan says whether it would be created, changed, is the same already, or is refused and
why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec
from twisted.internet.task import deferLater

from smartgo.client.administration.asking import Asking, deferred
from smartgo.client.administration.definitionfile import FIELDS, MOST_QUEUES, NAME_LIMIT, C, DefinitionSet, read_steps
from smartgo.client.administration.groups import BUILT_IN, Groups
from smartgo.client.administration.registries import ORDER_NAMESPACE, Registries
from smartgo.client.administration.topics import TopicKind, Topics, kind_of
from smartgo.errors import CallFailed, PeerRefused, RequestRefused
from smartgo.schema.bodies import SubscriptionGroupConfig, TopicConfig

_DIGITS: Final = len(str(MOST_QUEUES))

Kind = Literal["topic", "group", "order", "kv"]
Outcome = Literal["create", "change", "same", "refused", "created", "changed", "failed", "left"]

_GROUP_FIELDS: Final = FIELDS[SubscriptionGroupConfig]
_SENT: Final = {
    name: attribute for name, attribute in FIELDS[TopicConfig].items() if name not in ("topicName", "attributes")
}
"""Those of a topic that the request has which makes topics (17)."""
_TURN: Final = 200
"""Settings that are read or compared at a time."""
_DONE: Final[Mapping[Outcome, Outcome]] = {"create": "created", "change": "changed"}
_WHOSE: Final = {
    TopicKind.SYSTEM: "a topic of the brokers' own",
    TopicKind.RETRY: "a group's topic: it comes with the group",
    TopicKind.DEAD: "a group's topic: it comes with its first dead letter",
}


class Item(msgspec.Struct, rename="camel"):
    """
    One setting to be imported, with the outcome.

    @ivar name: the topic or group; for a value of registries NAMESPACE/KEY.
    @ivar broker: the broker; null for values of registries.
    @ivar outcome: C{create}, C{change}, C{same} or C{refused} before; then C{created}, C{changed}, C{failed}, or
        C{left} if the import ended before it.
    @ivar changes: changed members, each with its old and new value.
    @ivar reason: why it is refused or failed, or what was left out.
    """

    kind: Kind
    name: str
    broker: str | None
    outcome: Outcome
    changes: dict[str, tuple[Any, Any]] = {}
    reason: str = ""

    @property
    def words(self) -> str:
        """Kind, name and broker of the setting."""
        return f"{self.kind} {self.name}" + (f" at {self.broker}" if self.broker else "")


class Step(NamedTuple):
    """An item, and what it is to be set to."""

    item: Item
    wanted: TopicConfig | SubscriptionGroupConfig | str

    @property
    def due(self) -> bool:
        """Tell whether the step has something to write."""
        return self.item.outcome in _DONE


class Definitions:
    """Exports definitions of a cluster and imports them. Fails as L{smartgo.client.admin.Admin} says."""

    def __init__(self, asking: Asking, topics: Topics, groups: Groups, registries: Registries) -> None:
        """@param asking: with the other parts, one that does without no broker: half of what there is means nothing."""
        self._asking = asking
        self._topics = topics
        self._groups = groups
        self._registries = registries

    @deferred
    async def export(self, part: str = "", namespaces: Collection[str] = ()) -> DefinitionSet:
        """
        Return the definitions of applications; system topics and groups, retry and dead letter topics are left out.

        @param part: only those whose name contains this; values by their key.
        @param namespaces: the namespaces of registry values to include; registries cannot list them.
        """
        system = await self._topics.system_names()
        topics = _by_name(
            await self._topics.configs(), lambda name: part in name and kind_of(name, system) is TopicKind.NORMAL
        )
        groups = _by_name(await self._groups.configs(), lambda name: part in name and name not in BUILT_IN)
        order = await self._registries.values(ORDER_NAMESPACE)
        values = {one: await self._registries.values(one) for one in sorted(set(namespaces)) if one != ORDER_NAMESPACE}
        return DefinitionSet(
            topics=topics,
            groups=groups,
            order={key: value for key, value in sorted(order.items()) if part in key},
            kv={
                one: {key: value for key, value in sorted(found.items()) if part in key}
                for one, found in values.items()
            },
        )

    @deferred
    async def plan(self, wanted: DefinitionSet, brokers: Collection[str] | None = None) -> list[Step]:
        """
        Return the preview of an import, setting by setting.

        @param brokers: topics and groups go to these, each with its settings of the broker of that name, else of the
            first; by default to those that they are of. An order setting of one other broker is written for a single
            one of these.
        """
        info = await self._asking.cluster()
        masters = {name for name, data in info.broker_addr_table.items() if 0 in data.broker_addrs}
        system = await self._topics.system_names()
        topics, groups = await self._topics.configs(), await self._groups.configs()
        ordered = await self._registries.values(ORDER_NAMESPACE)
        steps: list[Step] = []
        for number, (name, broker, topic) in enumerate(_placed(wanted.topics, brokers)):
            await self._turn(number)
            kind = kind_of(name, system)
            refused = _missing(broker, masters) or ("" if kind is TopicKind.NORMAL else f"it is {_WHOSE[kind]}")
            known = topics.get(broker, {}).get(name)
            if known and (ordered or wanted.order):  # by these brokers mark each of their topics, soon after
                topic = msgspec.structs.replace(topic, order=known.order)
            item = _item("topic", name, broker, known, topic, _SENT, refused)
            if topic.attributes and topic.attributes != (known and known.attributes) and not refused:
                item.reason = "its attributes are left out: no request carries them"
            steps.append(Step(item, topic))
        for number, (name, broker, group) in enumerate(_placed(wanted.groups, brokers)):
            await self._turn(number)
            refused = _missing(broker, masters) or ("it is a group of the brokers' own" if name in BUILT_IN else "")
            known_group = groups.get(broker, {}).get(name)
            item = _item("group", name, broker, known_group, group, _GROUP_FIELDS, refused)
            steps.append(Step(item, group))
        for name, one in wanted.order.items():
            steps.append(_order_step(name, ordered.get(name), one, masters, brokers))
        for namespace, table in wanted.kv.items():
            found = await self._registries.values(namespace)
            steps += [Step(_value("kv", f"{namespace}/{key}", found.get(key), one), one) for key, one in table.items()]
        return steps

    @deferred
    async def read(self, value: Any) -> DefinitionSet:
        """Return the definitions that plain values state; others have their turn meanwhile."""
        found = DefinitionSet()
        for number, _ in enumerate(read_steps(found, value)):
            await self._turn(number)
        return found

    async def _turn(self, number: int) -> None:
        """Return control to the reactor after every C{_TURN} settings."""
        if number % _TURN == _TURN - 1:
            await deferLater(self._asking.client.env.clock, 0)

    @deferred
    async def write(self, step: Step) -> None:
        """Import one setting and note the outcome in its item; a refusal is noted there too, not raised."""
        item, wanted = step
        try:
            if isinstance(wanted, TopicConfig):
                await self._topics.update(wanted, [str(item.broker)])
            elif isinstance(wanted, SubscriptionGroupConfig):
                await self._groups.update(wanted, [str(item.broker)])
            elif item.kind == "order":
                await self._registries.put(ORDER_NAMESPACE, item.name, wanted)
            else:
                namespace, _, key = item.name.partition("/")
                await self._registries.put(namespace, key, wanted)
        except (CallFailed, RequestRefused) as error:
            item.outcome = "failed"
            item.reason = error.remark if isinstance(error, PeerRefused) else str(error)
        else:
            item.outcome = _DONE[item.outcome]


def leave(steps: Collection[Step]) -> None:
    """Mark the steps that are still due as left out."""
    for step in steps:
        if step.due:
            step.item.outcome = "left"


def counts_of(steps: Collection[Step]) -> dict[str, int]:
    """Return how many items have which outcome."""
    found: dict[str, int] = {}
    for step in steps:
        found[step.item.outcome] = found.get(step.item.outcome, 0) + 1
    return found


# -- comparing -------------------------------------------------------------------------------------------------


def _by_name(tables: Mapping[str, Mapping[str, C]], wanted: Any) -> dict[str, dict[str, C]]:
    """Settings by name and broker, of settings by broker and name."""
    found: dict[str, dict[str, C]] = {}
    for broker, table in tables.items():
        for name, config in table.items():
            if wanted(name):
                found.setdefault(name, {})[broker] = config
    return dict(sorted(found.items()))


def _placed(table: Mapping[str, Mapping[str, C]], brokers: Collection[str] | None) -> Iterator[tuple[str, str, C]]:
    for name, at in table.items():
        for broker in at if brokers is None else dict.fromkeys(brokers):
            yield name, broker, at.get(broker) or next(iter(at.values()))


def _missing(broker: str, masters: Collection[str]) -> str:
    return "" if broker in masters else f"there is no broker {broker} with a master here"


def _item(
    kind: Kind, name: str, broker: str, known: C | None, wanted: C, fields: Mapping[str, str], refused: str
) -> Item:
    if refused:
        return Item(kind, name, broker, "refused", {}, refused)
    if known is None:
        return Item(kind, name, broker, "create")
    if known == wanted:
        return Item(kind, name, broker, "same")
    pairs = {one: (getattr(known, attribute), getattr(wanted, attribute)) for one, attribute in fields.items()}
    changes = {one: pair for one, pair in pairs.items() if pair[0] != pair[1]}
    return Item(kind, name, broker, "change" if changes else "same", changes)


def _order_step(
    name: str, known: str | None, wanted: str, masters: Collection[str], brokers: Collection[str] | None
) -> Step:
    refused, reason = _malformed(wanted) or _unplaced(wanted, masters), ""
    named = {part.partition(":")[0] for part in _parts(wanted)}
    others = sorted(named.difference(brokers or ()))
    stands = known == wanted and not refused
    if brokers is not None and others and not stands and not _malformed(wanted):
        if len(named) == len(set(brokers)) == 1:
            (chosen,) = set(brokers)
            wanted = ";".join(f"{chosen}:{part.partition(':')[2]}" for part in _parts(wanted))
            refused, reason = _unplaced(wanted, masters), f"{chosen} stands there in place of {others[0]}"
        else:
            refused = f"it names {', '.join(others)}, not among the brokers that are chosen"
    item = _value("order", name, known, wanted, refused)
    item.reason = item.reason or reason
    return Step(item, wanted)


def _parts(order: str) -> list[str]:
    """Return the part of an order setting about each broker."""
    return order.rstrip(";").split(";") if order else []


def _malformed(order: str) -> str:
    """Return why no client could read an order setting; empty if clients can read it."""
    for part in _parts(order):
        broker, _, count = part.partition(":")
        if not broker or not count.isdecimal() or len(count) > _DIGITS:
            return f"{part[:NAME_LIMIT]!r} is not BROKER:QUEUES"
    return ""


def _unplaced(order: str, masters: Collection[str]) -> str:
    """Return why clients could not send to the queues that an order setting names; empty where they can."""
    for part in _parts(order):
        broker = part.partition(":")[0]
        if broker not in masters:
            return _missing(broker, masters)
    return ""


def _value(kind: Kind, name: str, known: str | None, wanted: str, refused: str = "") -> Item:
    if refused and known != wanted:
        return Item(kind, name, None, "refused", {}, refused)
    if known is None:
        return Item(kind, name, None, "create")
    if known == wanted:
        return Item(kind, name, None, "same")
    return Item(kind, name, None, "change", {"value": (known, wanted)})
