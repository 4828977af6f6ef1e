"""
The actions that policies of RocketMQ 5 need to name for each request code.

Source: the annotations C{RocketMQAction} of C{rocketmq-remoting} 5.3.3.
"""

from __future__ import annotations

from typing import Final

from smartgo.auth.accounts import Permission
from smartgo.schema.codes import RequestCode

_READ: Final = frozenset(
    {
        RequestCode.QUERY_MESSAGE, RequestCode.QUERY_CONSUMER_OFFSET, RequestCode.GET_CONSUMER_LIST_BY_GROUP,
        RequestCode.GET_CONSUMER_CONNECTION_LIST, RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.GET_CONSUME_STATS,
        RequestCode.QUERY_CONSUME_TIME_SPAN, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, RequestCode.QUERY_TOPICS_BY_CONSUMER,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, RequestCode.QUERY_CONSUME_QUEUE, RequestCode.QUERY_CORRECTION_OFFSET,
        RequestCode.POLLING_INFO,
    }
)  # fmt: skip
"""Codes of consumers and tools that are C{Get} in RocketMQ 5; C{Sub} is enough as well, as a consumer needs them."""

_ADMIN_READ: Final = frozenset(
    {
        RequestCode.GET_BROKER_CONFIG, RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_ALL_CONSUMER_OFFSET, RequestCode.GET_ALL_DELAY_OFFSET, RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
        RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS, RequestCode.GET_PRODUCER_CONNECTION_LIST,
        RequestCode.GET_ALL_PRODUCER_INFO, RequestCode.VIEW_BROKER_STATS_DATA, RequestCode.GET_BROKER_CONSUME_STATS,
        RequestCode.GET_BROKER_CLUSTER_ACL_INFO, RequestCode.GET_KV_CONFIG, RequestCode.GET_KV_CONFIG_BY_VALUE,
        RequestCode.GET_KVLIST_BY_NAMESPACE, RequestCode.QUERY_DATA_VERSION, RequestCode.GET_NAMESRV_CONFIG,
        RequestCode.AUTH_GET_USER, RequestCode.AUTH_LIST_USER, RequestCode.AUTH_GET_ACL, RequestCode.AUTH_LIST_ACL,
        RequestCode.GET_RETENTION, RequestCode.GET_STORE_STATE, RequestCode.FIND_MISSING_QUEUES,
        RequestCode.LIST_TRANSACTIONS,
    }
)  # fmt: skip
"""Codes of administrators that change nothing, and tell no message."""

SUPER_ONLY: Final = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, RequestCode.DELETE_ACL_CONFIG,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    }
)  # fmt: skip
"""Codes that no policy allows, other than in RocketMQ 5: accounts of 4.x that they make may be administrators without
limits, as super users are, and addresses that they name need no signature."""

_ADMIN_ACTIONS: Final[dict[int, str]] = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: "Create",
    RequestCode.DELETE_TOPIC_IN_BROKER: "Delete",
    RequestCode.DELETE_SUBSCRIPTIONGROUP: "Delete",
}


def actions_for(code: int, permission: Permission) -> tuple[str, ...]:
    """Return the actions of which one is enough for a permission that a request needs."""
    if permission & Permission.ANY:
        return ("Get", "Pub", "Sub")
    if permission & Permission.PUB:
        return ("Pub",)
    return ("Sub", "Get") if code in _READ else ("Sub",)


def admin_actions(code: int) -> tuple[str, ...]:
    """Return the action that a request of administrators needs, for what it names or else for the cluster."""
    return (_ADMIN_ACTIONS.get(code, "Get" if code in _ADMIN_READ else "Update"),)
