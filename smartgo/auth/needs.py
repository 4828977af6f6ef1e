"""
The table of request codes: the role and the permissions that each one needs (docs/spec/reliability#X3).

A code that the table does not list is denied. Sources: C{PlainAccessValidator} and C{Permission} of RocketMQ 4.9.7 for
what needs PUB, SUB and an administrator; the annotations C{RocketMQAction} and C{RocketMQResource} of 5.3.3 for what
4.9 leaves unchecked; X3 where it asks for more than both. What 5.x calls GET of a topic is PUB or SUB here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from smartgo.auth.accounts import Permission
from smartgo.errors import BadBody
from smartgo.schema.bodies.clients import CheckClientBody, HeartbeatData, LockBatchBody
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.fastjson import loads
from smartgo.schema.topics import retry_topic

ANY: Final = Permission.ANY
PUB: Final = Permission.PUB
SUB: Final = Permission.SUB

_SEPARATORS_OF_TOPICS: Final = ";,"
_SEPARATORS_OF_GROUPS: Final = ","


class Role(Enum):
    """The kind of account that may send a request, besides the permissions for the resources that it names."""

    HEALTH = "health"
    """Every account."""
    RESOURCE = "resource"
    """Whoever has the permissions for all topics and groups that the request names."""
    PUBLISHER = "publisher"
    """As C{RESOURCE}; without a topic in the request, whoever may publish to some topic."""
    ADMIN = "admin"
    """Administrators."""


ResourceNeed: TypeAlias = "tuple[str, Permission]"
"""A topic, or the retry topic of a group, and the permission that is needed for it."""


class FieldNeed(NamedTuple):
    """
    An ext field of a request that names a topic or a group.

    @ivar name: the ext field.
    @ivar permission: what is needed for the resource.
    @ivar group: the field names a group.
    @ivar required: a request without it is denied.
    @ivar separators: each of these characters stands between names in the field; empty where it holds one name.
    """

    name: str
    permission: Permission
    group: bool = False
    required: bool = True
    separators: str = ""

    def names(self, value: str) -> list[str]:
        """Return the names that the field holds."""
        for one in self.separators[1:]:
            value = value.replace(one, self.separators[0])
        return value.split(self.separators[0]) if self.separators else [value]


class CodeNeed(NamedTuple):
    """
    The role and the permissions that one request code needs.

    @ivar role: who may send it.
    @ivar fields: the ext fields that name what permissions are needed for.
    @ivar body: reads the same from the body.
    """

    role: Role
    fields: tuple[FieldNeed, ...] = ()
    body: Callable[[bytes], Iterator[ResourceNeed]] | None = None


class MissingResource(BadBody):
    """A request that does not say for which topic or group it is meant."""


def _topic(permission: Permission, name: str = "topic", required: bool = True, separators: str = "") -> FieldNeed:
    return FieldNeed(name, permission, False, required, separators)


def _group(name: str = "consumerGroup", required: bool = True, separators: str = "") -> FieldNeed:
    return FieldNeed(name, SUB, True, required, separators)


def _resource(*fields: FieldNeed) -> CodeNeed:
    return CodeNeed(Role.RESOURCE, fields)


def _heartbeat(body: bytes) -> Iterator[ResourceNeed]:
    """Yield the consumer groups of a client and the topics that they subscribe to; producers need nothing yet."""
    for consumer in HeartbeatData.decode(body).consumer_data_set:
        yield retry_topic(consumer.group_name), SUB
        for subscription in consumer.subscription_data_set:
            yield subscription.topic, SUB


def _locks(body: bytes) -> Iterator[ResourceNeed]:
    """Yield the group that locks queues and their topics."""
    request = LockBatchBody.decode(body)
    yield retry_topic(request.consumer_group), SUB
    for queue in request.mq_set:
        yield queue.topic, SUB


def _subscription(body: bytes) -> Iterator[ResourceNeed]:
    """Yield the group and the topic of a subscription that is to be checked."""
    request = CheckClientBody.decode(body)
    yield retry_topic(request.group), SUB
    if request.subscription_data is not None:
        yield request.subscription_data.topic, SUB


def _assignment(body: bytes) -> Iterator[ResourceNeed]:
    """Yield the group and the topic whose queues are asked for (400)."""
    request = loads(body)
    if not isinstance(request, dict):
        raise BadBody("the body is no JSON object")
    for name, of in (("consumerGroup", retry_topic), ("topic", str)):
        value = request.get(name)
        if not isinstance(value, str) or not value:
            raise MissingResource(f"the request does not name its {name}")
        yield of(value), SUB


_ADMIN: Final = CodeNeed(Role.ADMIN)
_HEALTH: Final = CodeNeed(Role.HEALTH)
_PULL: Final = _resource(_topic(SUB), _group())
_OFFSET: Final = _resource(_topic(ANY))

_BY_CODE: Final[dict[int, CodeNeed]] = {
    # messages
    RequestCode.SEND_MESSAGE: _resource(_topic(PUB)),
    RequestCode.SEND_MESSAGE_V2: _resource(_topic(PUB, "b")),
    RequestCode.SEND_BATCH_MESSAGE: _resource(_topic(PUB, "b")),
    RequestCode.SEND_REPLY_MESSAGE: _resource(_topic(PUB)),
    RequestCode.SEND_REPLY_MESSAGE_V2: _resource(_topic(PUB, "b")),
    RequestCode.RECALL_MESSAGE: _resource(_topic(PUB)),
    RequestCode.END_TRANSACTION: CodeNeed(Role.PUBLISHER, (_topic(PUB, required=False),)),
    RequestCode.PULL_MESSAGE: _PULL,
    RequestCode.LITE_PULL_MESSAGE: _PULL,
    RequestCode.POP_MESSAGE: _PULL,
    RequestCode.PEEK_MESSAGE: _PULL,
    RequestCode.ACK_MESSAGE: _PULL,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: _PULL,
    RequestCode.NOTIFICATION: _PULL,
    RequestCode.POLLING_INFO: _PULL,
    RequestCode.CONSUMER_SEND_MSG_BACK: _resource(_group("group"), _topic(SUB, "originTopic", required=False)),
    RequestCode.QUERY_MESSAGE: _resource(_topic(SUB)),
    RequestCode.VIEW_MESSAGE_BY_ID: _ADMIN,  # any message, by its place in the log
    # clients and their offsets
    RequestCode.HEART_BEAT: CodeNeed(Role.RESOURCE, body=_heartbeat),
    RequestCode.UNREGISTER_CLIENT: _resource(_group(required=False)),
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: _resource(_group()),
    RequestCode.CHECK_CLIENT_CONFIG: CodeNeed(Role.RESOURCE, body=_subscription),
    RequestCode.LOCK_BATCH_MQ: CodeNeed(Role.RESOURCE, body=_locks),
    RequestCode.UNLOCK_BATCH_MQ: CodeNeed(Role.RESOURCE, body=_locks),
    RequestCode.QUERY_ASSIGNMENT: CodeNeed(Role.RESOURCE, body=_assignment),
    RequestCode.QUERY_CONSUMER_OFFSET: _PULL,
    RequestCode.UPDATE_CONSUMER_OFFSET: _PULL,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: _OFFSET,
    RequestCode.GET_MAX_OFFSET: _OFFSET,
    RequestCode.GET_MIN_OFFSET: _OFFSET,
    RequestCode.GET_EARLIEST_MSG_STORETIME: _OFFSET,
    # what tools ask about one topic or group
    RequestCode.GET_TOPIC_STATS_INFO: _OFFSET,
    RequestCode.GET_TOPIC_CONFIG: _OFFSET,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: _OFFSET,
    RequestCode.QUERY_CONSUME_QUEUE: _resource(_topic(ANY), _group(required=False)),
    RequestCode.QUERY_CONSUME_TIME_SPAN: _resource(_topic(ANY), _group("group")),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: _resource(_topic(ANY), _group("group")),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: _resource(_topic(ANY), _group("group")),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: _resource(_group("group")),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: _resource(_group("group")),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: _resource(_group()),
    RequestCode.GET_CONSUMER_RUNNING_INFO: _resource(_group()),
    RequestCode.GET_CONSUME_STATS: _resource(
        _group(),
        _topic(ANY, required=False, separators=_SEPARATORS_OF_TOPICS),  # the broker splits either
        _topic(ANY, "topicList", required=False, separators=_SEPARATORS_OF_TOPICS),
    ),
    RequestCode.QUERY_CORRECTION_OFFSET: _resource(
        _topic(ANY), _group("compareGroup"), _group("filterGroups", False, _SEPARATORS_OF_GROUPS)
    ),
    # routes and lists of names; nobody learns a setting or another one's messages
    RequestCode.GET_ROUTEINFO_BY_TOPIC: _HEALTH,
    RequestCode.GET_BROKER_CLUSTER_INFO: _HEALTH,
    RequestCode.GET_BROKER_RUNTIME_INFO: _HEALTH,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _HEALTH,
    RequestCode.GET_TOPICS_BY_CLUSTER: _HEALTH,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: _HEALTH,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _HEALTH,
    RequestCode.GET_UNIT_TOPIC_LIST: _HEALTH,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: _HEALTH,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _HEALTH,
}

_NAMED_BY_ADMINS: Final[dict[int, tuple[FieldNeed, ...]]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: (_topic(ANY, required=False),),
    RequestCode.DELETE_TOPIC_IN_BROKER: (_topic(ANY, required=False),),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: (_group("groupName", required=False),),
    RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN: (_topic(ANY, required=False), _group("group", required=False)),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: (_topic(ANY, required=False), _group("group", required=False)),
    RequestCode.CLONE_GROUP_OFFSET: (_topic(ANY, required=False), _group("destGroup", required=False)),
    RequestCode.RESUME_CHECK_HALF_MESSAGE: (_topic(ANY, required=False),),
}
"""Of requests of administrators, what they name: users of RocketMQ 5 may do them for certain topics and groups."""

_OF_ADMINS: Final = (
    # changes of topics, groups, offsets and stored files
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    RequestCode.SET_MESSAGE_REQUEST_MODE, RequestCode.CONSUME_MESSAGE_DIRECTLY,
    RequestCode.TRIGGER_DELETE_FILES, RequestCode.DELETE_EXPIRED_COMMITLOG,
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, RequestCode.CLEAN_UNUSED_TOPIC,
    # settings and everything that a slave copies
    RequestCode.UPDATE_BROKER_CONFIG, RequestCode.GET_BROKER_CONFIG, RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS,
    # figures of a whole broker
    RequestCode.GET_PRODUCER_CONNECTION_LIST, RequestCode.GET_ALL_PRODUCER_INFO,
    RequestCode.VIEW_BROKER_STATS_DATA, RequestCode.GET_BROKER_CONSUME_STATS,
    # access control
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, RequestCode.DELETE_ACL_CONFIG,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER, RequestCode.AUTH_DELETE_USER,
    RequestCode.AUTH_GET_USER, RequestCode.AUTH_LIST_USER, RequestCode.AUTH_CREATE_ACL,
    RequestCode.AUTH_UPDATE_ACL, RequestCode.AUTH_DELETE_ACL, RequestCode.AUTH_GET_ACL,
    RequestCode.AUTH_LIST_ACL,
    # the registry
    RequestCode.PUT_KV_CONFIG, RequestCode.GET_KV_CONFIG, RequestCode.DELETE_KV_CONFIG,
    RequestCode.GET_KV_CONFIG_BY_VALUE, RequestCode.DELETE_KV_CONFIG_BY_VALUE,
    RequestCode.GET_KVLIST_BY_NAMESPACE, RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER,
    RequestCode.QUERY_DATA_VERSION, RequestCode.WIPE_WRITE_PERM_OF_BROKER,
    RequestCode.ADD_WRITE_PERM_OF_BROKER, RequestCode.DELETE_TOPIC_IN_NAMESRV,
    RequestCode.UPDATE_NAMESRV_CONFIG, RequestCode.GET_NAMESRV_CONFIG,
    # smartgo's own
    RequestCode.GET_LOG_TAIL, RequestCode.GET_RETENTION, RequestCode.BACKUP_STORE,
    RequestCode.GET_STORE_STATE, RequestCode.SCRUB_STORE, RequestCode.FIND_MISSING_QUEUES,
    RequestCode.LIST_TRANSACTIONS,
)  # fmt: skip

NEEDS: Final[Mapping[int, CodeNeed]] = MappingProxyType(
    {int(code): need for code, need in _BY_CODE.items()}
    | {int(code): _ADMIN for code in _OF_ADMINS}
    | {int(code): CodeNeed(Role.ADMIN, fields) for code, fields in _NAMED_BY_ADMINS.items()}
)
"""What each code needs; one that is not here is denied."""


def resource_needs(need: CodeNeed, request: Command) -> list[ResourceNeed]:
    """
    Return what permissions a request needs for the topics and groups that it names.

    A send to the retry topic of a group needs SUB of the group, which gave the message back.

    @raise smartgo.errors.BadBody: its body cannot be read, or it names no resource where it has to.
    @raise smartgo.errors.BadHeader: its ext fields cannot be read.
    """
    found: list[ResourceNeed] = []
    for one in need.fields:
        value = request.fields.get(one.name)
        if not value:
            if one.required:
                raise MissingResource(f"the request does not name its {'group' if one.group else 'topic'}")
            continue
        for name in one.names(value):
            if name:
                found.append(_needed(retry_topic(name) if one.group else name, one.permission))
    if need.body is not None:
        found.extend(need.body(request.body))
    return found


def producer_group_needs(body: bytes) -> list[ResourceNeed]:
    """
    Return what a heartbeat needs for the producer groups that it joins, where that is asked for: PUB for each group.

    @raise smartgo.errors.BadBody: it cannot be read.
    """
    return [(retry_topic(one.group_name), PUB) for one in HeartbeatData.decode(body).producer_data_set]


def named_needs(need: CodeNeed, topic: str | None, group: str | None) -> list[ResourceNeed]:
    """
    Return what permissions a request needs that names one topic, one group, or both.

    @raise smartgo.errors.BadBody: it has to name the other, too.
    """
    found: list[ResourceNeed] = []
    for one in need.fields:
        name = group if one.group else topic
        if name:
            found.append(_needed(retry_topic(name) if one.group else name, one.permission))
        elif one.required:
            raise MissingResource(f"the request does not name its {'group' if one.group else 'topic'}")
    if need.body is not None:
        found += [(retry_topic(group), SUB)] if group else []
        found += [(topic, SUB)] if topic else []
    return found


def _needed(resource: str, permission: Permission) -> ResourceNeed:
    return resource, SUB if permission is PUB and resource.startswith(retry_topic("")) else permission
