"""
The content of an exported definitions file, and how it is read and checked.

A file states settings of topics and groups, and values of registries. Members that are not known, names that cannot be
and values out of range are refused with the item that has them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from smartgo.client.administration.registries import ORDER_NAMESPACE
from smartgo.errors import BadBody, BadName
from smartgo.schema.bodies import SubscriptionGroupConfig, TopicConfig
from smartgo.schema.bodies.topics import MULTI_TAG, SINGLE_TAG
from smartgo.schema.topics import check_group, check_topic

VERSION: Final = 1
MOST_QUEUES: Final = 65_536
VALUE_LIMIT: Final = 32_768
"""Characters of a value of a registry."""
NAME_LIMIT: Final = 255

_MEMBERS: Final = ("version", "topics", "groups", "order", "kv")
FIELDS: Final[Mapping[type, Mapping[str, str]]] = {
    kind: {one.encode_name: one.name for one in msgspec.structs.fields(kind)}
    for kind in (TopicConfig, SubscriptionGroupConfig)
}
"""The attributes of settings by their names in a file."""

C = TypeVar("C", TopicConfig, SubscriptionGroupConfig)


class DefinitionSet(msgspec.Struct, kw_only=True):
    """
    Definitions of a cluster, as a file holds them.

    @ivar topics: settings by topic, then by broker name; C{groups} likewise.
    @ivar order: where the queues of topics consumed in order are, by topic.
    @ivar kv: other values of registries, by namespace and key.
    """

    version: int = VERSION
    topics: dict[str, dict[str, TopicConfig]] = {}
    groups: dict[str, dict[str, SubscriptionGroupConfig]] = {}
    order: dict[str, str] = {}
    kv: dict[str, dict[str, str]] = {}


def read_definitions(value: Any) -> DefinitionSet:
    """
    Return the definitions that plain values state.

    @raise BadBody: they are no definitions, or a value is not allowed; the message names the item.
    """
    found = DefinitionSet()
    for _ in read_steps(found, value):
        pass
    return found


def read_steps(found: DefinitionSet, value: Any) -> Iterator[None]:
    """Read plain values into definitions, a setting a step, so that a caller can let others have their turn."""
    table = _object(value, "definitions")
    for name in table:
        if name not in _MEMBERS:
            raise BadBody(f"{name!r} is not a member of definitions; the members are {', '.join(_MEMBERS)}")
    version = table.get("version", VERSION)
    if version != VERSION:
        raise BadBody(f"definitions of version {version!r} are not supported, only of version {VERSION}")
    yield from _read_settings("topic", table.get("topics", {}), found.topics, check_topic, _read_topic)
    yield from _read_settings("group", table.get("groups", {}), found.groups, check_group, _read_group)
    found.order = _read_values("order", table.get("order", {}))
    for namespace, values in _object(table.get("kv", {}), "kv").items():
        if namespace == ORDER_NAMESPACE:
            raise BadBody(f"kv {namespace}: the values of this namespace belong under 'order'")
        found.kv[_name("namespace", namespace)] = _read_values(f"kv {namespace}/", values)


def count_of(value: Any, brokers: Collection[str] | None) -> int:
    """
    Return how many settings plain values hold, as far as they are definitions.

    @param brokers: as L{smartgo.client.administration.definitions.Definitions.plan} takes them.
    """
    table = value if isinstance(value, dict) else {}
    placed = [one for name in ("topics", "groups") for one in _values_of(table.get(name))]
    at = sum(len(_values_of(one)) for one in placed) if brokers is None else len(placed) * len(brokers)
    return at + len(_values_of(table.get("order"))) + sum(len(_values_of(one)) for one in _values_of(table.get("kv")))


def _values_of(value: Any) -> Collection[Any]:
    return value.values() if isinstance(value, dict) else ()


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(name.__class__ is str for name in value):
        raise BadBody(f"{what}: not a JSON object")
    return value


def _name(what: str, name: str) -> str:
    if not 0 < len(name) <= NAME_LIMIT or not name.isprintable() or "/" in name:
        raise BadBody(f"{what} {name[:NAME_LIMIT]!r}: not a valid name")
    return name


def _read_settings(
    kind: str,
    value: Any,
    found: dict[str, dict[str, C]],
    check: Callable[[str], None],
    read: Callable[[str, dict[str, Any], str], C],
) -> Iterator[None]:
    for name, at in _object(value, f"{kind}s").items():
        try:
            check(_name(kind, name))
        except BadName as error:
            raise BadBody(f"{kind} {name}: {error}") from None
        if not _object(at, f"{kind} {name}"):
            raise BadBody(f"{kind} {name}: no broker is listed")
        found[name] = {}
        for broker, settings in at.items():
            where = f"{kind} {name} at {_name('broker', broker)}"
            try:
                found[name][broker] = read(name, _object(settings, where), where)
            except msgspec.ValidationError as error:
                raise BadBody(f"{where}: {error}") from None
            yield


def _read(kind: type[C], named: str, name: str, settings: dict[str, Any], where: str) -> C:
    for member in settings.keys() - FIELDS[kind].keys():
        raise BadBody(f"{where}: there is no setting {member!r}")
    if settings.get(named, name) != name:
        raise BadBody(f"{where}: {named} is another name, {settings[named]!r}")
    return msgspec.convert({**settings, named: name}, kind)


def _read_topic(name: str, settings: dict[str, Any], where: str) -> TopicConfig:
    found = _read(TopicConfig, "topicName", name, settings, where)
    for member, number in (("readQueueNums", found.read_queue_nums), ("writeQueueNums", found.write_queue_nums)):
        if not 0 <= number <= MOST_QUEUES:
            raise BadBody(f"{where}: {member} is {number}, not 0 to {MOST_QUEUES}")
    if not 0 <= found.perm <= 7:
        raise BadBody(f"{where}: perm is {found.perm}, not 0 to 7")
    if found.topic_filter_type not in (SINGLE_TAG, MULTI_TAG):
        raise BadBody(f"{where}: topicFilterType is neither {SINGLE_TAG} nor {MULTI_TAG}")
    return found


def _read_group(name: str, settings: dict[str, Any], where: str) -> SubscriptionGroupConfig:
    found = _read(SubscriptionGroupConfig, "groupName", name, settings, where)
    if found.retry_queue_nums < 0 or found.retry_max_times < -1:
        raise BadBody(f"{where}: retryQueueNums is negative, or retryMaxTimes is below -1")
    return found


def _read_values(what: str, value: Any) -> dict[str, str]:
    found = _object(value, what)
    for key, one in found.items():
        where = f"{what}{key}" if what.endswith("/") else f"{what} {key}"
        _name(what.rstrip("/"), key)
        if not isinstance(one, str) or len(one) > VALUE_LIMIT:
            raise BadBody(f"{where}: not a text of at most {VALUE_LIMIT} characters")
    return found
