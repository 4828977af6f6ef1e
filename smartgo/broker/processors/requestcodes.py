"""
Every request code that RocketMQ's protocol has: who of us answers it, and how a slave answers.

This is the one list. The processors, the slave's refusals and the second port read it. Tests hold it equal to what
broker, registry and client answer, and to the table in C{docs/request-codes.rst}. A code that nobody answers is known
and not built: whoever sends it gets 3 (REQUEST_CODE_NOT_SUPPORTED).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from smartgo.schema.codes import RequestCode, ResponseCode


class RequestRow(NamedTuple):
    """The row of one request code."""

    code: RequestCode
    broker: str = ""
    """The module beside this one whose processor answers it in a broker; empty where a broker answers 3."""
    slave: ResponseCode | None = None
    """With what a slave refuses it; C{None}: a slave answers as a master does."""
    second_port: bool = True
    """Whether it is answered on the broker's second port, too."""
    registry: bool = False
    """Whether the registry answers it (L{smartgo.registry.requests})."""
    client: bool = False
    """Whether clients answer it (L{smartgo.client.internal.served})."""


_REFUSED: Final = ResponseCode.SYSTEM_ERROR  # with a remark: ask the master
_UNAVAILABLE: Final = ResponseCode.SERVICE_NOT_AVAILABLE  # a producer then tries another broker
_NO_SLAVE: Final = ResponseCode.SLAVE_NOT_AVAILABLE

REQUESTS: Final = (
    RequestRow(RequestCode.SEND_MESSAGE, broker="send", slave=_UNAVAILABLE),
    RequestRow(RequestCode.PULL_MESSAGE, broker="pull", second_port=False),
    RequestRow(RequestCode.QUERY_MESSAGE, broker="query"),
    RequestRow(RequestCode.QUERY_BROKER_OFFSET),
    RequestRow(RequestCode.QUERY_CONSUMER_OFFSET, broker="offsets"),
    RequestRow(RequestCode.UPDATE_CONSUMER_OFFSET, broker="offsets"),
    RequestRow(RequestCode.UPDATE_AND_CREATE_TOPIC, broker="topicadmin", slave=_REFUSED),
    RequestRow(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, broker="topicadmin", slave=_REFUSED),
    RequestRow(RequestCode.GET_ALL_TOPIC_CONFIG, broker="topicadmin"),
    RequestRow(RequestCode.GET_TOPIC_CONFIG_LIST),
    RequestRow(RequestCode.GET_TOPIC_NAME_LIST),
    RequestRow(RequestCode.UPDATE_BROKER_CONFIG, broker="brokeradmin"),
    RequestRow(RequestCode.GET_BROKER_CONFIG, broker="brokeradmin"),
    RequestRow(RequestCode.TRIGGER_DELETE_FILES, broker="queueadmin"),
    RequestRow(RequestCode.GET_BROKER_RUNTIME_INFO, broker="brokeradmin"),
    RequestRow(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, broker="offsets"),
    RequestRow(RequestCode.GET_MAX_OFFSET, broker="offsets"),
    RequestRow(RequestCode.GET_MIN_OFFSET, broker="offsets"),
    RequestRow(RequestCode.GET_EARLIEST_MSG_STORETIME, broker="offsets"),
    RequestRow(RequestCode.VIEW_MESSAGE_BY_ID, broker="query"),
    RequestRow(RequestCode.HEART_BEAT, broker="heartbeat"),
    RequestRow(RequestCode.UNREGISTER_CLIENT, broker="heartbeat"),
    RequestRow(RequestCode.CONSUMER_SEND_MSG_BACK, broker="sendback", slave=_UNAVAILABLE),
    RequestRow(RequestCode.END_TRANSACTION, broker="endtransaction", slave=_NO_SLAVE),
    RequestRow(RequestCode.GET_CONSUMER_LIST_BY_GROUP, broker="heartbeat"),
    RequestRow(RequestCode.CHECK_TRANSACTION_STATE, client=True),
    RequestRow(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, client=True),
    RequestRow(RequestCode.LOCK_BATCH_MQ, broker="queuelocks"),
    RequestRow(RequestCode.UNLOCK_BATCH_MQ, broker="queuelocks"),
    RequestRow(RequestCode.GET_ALL_CONSUMER_OFFSET, broker="progressadmin"),
    RequestRow(RequestCode.GET_ALL_DELAY_OFFSET, broker="progressadmin"),
    RequestRow(RequestCode.CHECK_CLIENT_CONFIG, broker="heartbeat"),
    RequestRow(RequestCode.GET_CLIENT_CONFIG),
    RequestRow(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, broker="accessadmin"),
    RequestRow(RequestCode.DELETE_ACL_CONFIG, broker="accessadmin"),
    RequestRow(RequestCode.GET_BROKER_CLUSTER_ACL_INFO, broker="accessadmin"),
    RequestRow(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, broker="accessadmin"),
    RequestRow(RequestCode.GET_TIMER_CHECK_POINT, broker="storeadmin"),
    RequestRow(RequestCode.GET_TIMER_METRICS),
    RequestRow(RequestCode.PUT_KV_CONFIG, registry=True),
    RequestRow(RequestCode.GET_KV_CONFIG, registry=True),
    RequestRow(RequestCode.DELETE_KV_CONFIG, registry=True),
    RequestRow(RequestCode.REGISTER_BROKER, registry=True),
    RequestRow(RequestCode.UNREGISTER_BROKER, registry=True),
    RequestRow(RequestCode.GET_ROUTEINFO_BY_TOPIC, registry=True),
    RequestRow(RequestCode.GET_BROKER_CLUSTER_INFO, registry=True),
    RequestRow(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, broker="groupadmin", slave=_REFUSED),
    RequestRow(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, broker="groupadmin"),
    RequestRow(RequestCode.GET_TOPIC_STATS_INFO, broker="topicadmin"),
    RequestRow(RequestCode.GET_CONSUMER_CONNECTION_LIST, broker="groupadmin"),
    RequestRow(RequestCode.GET_PRODUCER_CONNECTION_LIST, broker="groupadmin"),
    RequestRow(RequestCode.WIPE_WRITE_PERM_OF_BROKER, registry=True),
    RequestRow(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, registry=True),
    RequestRow(RequestCode.DELETE_SUBSCRIPTIONGROUP, broker="groupadmin", slave=_REFUSED),
    RequestRow(RequestCode.GET_CONSUME_STATS, broker="progressadmin"),
    RequestRow(RequestCode.SUSPEND_CONSUMER),
    RequestRow(RequestCode.RESUME_CONSUMER),
    RequestRow(RequestCode.RESET_CONSUMER_OFFSET_IN_CONSUMER),
    RequestRow(RequestCode.RESET_CONSUMER_OFFSET_IN_BROKER),
    RequestRow(RequestCode.ADJUST_CONSUMER_THREAD_POOL),
    RequestRow(RequestCode.WHO_CONSUME_THE_MESSAGE),
    RequestRow(RequestCode.DELETE_TOPIC_IN_BROKER, broker="topicadmin", slave=_REFUSED),
    RequestRow(RequestCode.DELETE_TOPIC_IN_NAMESRV, registry=True),
    RequestRow(RequestCode.REGISTER_TOPIC_IN_NAMESRV, registry=True),
    RequestRow(RequestCode.DELETE_KV_CONFIG_BY_VALUE, registry=True),
    RequestRow(RequestCode.GET_KVLIST_BY_NAMESPACE, registry=True),
    RequestRow(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, client=True),
    RequestRow(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, client=True),
    RequestRow(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, broker="clientadmin", slave=_REFUSED),
    RequestRow(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, broker="clientadmin"),
    RequestRow(RequestCode.GET_TOPICS_BY_CLUSTER, registry=True),
    RequestRow(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, broker="groupadmin", slave=_REFUSED),
    RequestRow(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, broker="topicadmin"),
    RequestRow(RequestCode.REGISTER_FILTER_SERVER),
    RequestRow(RequestCode.REGISTER_MESSAGE_FILTER_CLASS),
    RequestRow(RequestCode.QUERY_CONSUME_TIME_SPAN, broker="progressadmin"),
    RequestRow(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS, registry=True),
    RequestRow(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, broker="topicadmin"),
    RequestRow(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, broker="queueadmin"),
    RequestRow(RequestCode.GET_CONSUMER_RUNNING_INFO, broker="clientadmin", client=True),
    RequestRow(RequestCode.QUERY_CORRECTION_OFFSET, broker="progressadmin"),
    RequestRow(RequestCode.CONSUME_MESSAGE_DIRECTLY, broker="query", client=True),
    RequestRow(RequestCode.SEND_MESSAGE_V2, broker="send", slave=_UNAVAILABLE),
    RequestRow(RequestCode.GET_UNIT_TOPIC_LIST, registry=True),
    RequestRow(RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST, registry=True),
    RequestRow(RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST, registry=True),
    RequestRow(RequestCode.CLONE_GROUP_OFFSET, broker="progressadmin", slave=_REFUSED),
    RequestRow(RequestCode.VIEW_BROKER_STATS_DATA, broker="brokeradmin"),
    RequestRow(RequestCode.CLEAN_UNUSED_TOPIC, broker="queueadmin", slave=_REFUSED),
    RequestRow(RequestCode.GET_BROKER_CONSUME_STATS, broker="progressadmin"),
    RequestRow(RequestCode.UPDATE_NAMESRV_CONFIG, registry=True),
    RequestRow(RequestCode.GET_NAMESRV_CONFIG, registry=True),
    RequestRow(RequestCode.SEND_BATCH_MESSAGE, broker="send", slave=_UNAVAILABLE),
    RequestRow(RequestCode.QUERY_CONSUME_QUEUE, broker="queueadmin"),
    RequestRow(RequestCode.QUERY_DATA_VERSION, registry=True),
    RequestRow(RequestCode.RESUME_CHECK_HALF_MESSAGE, broker="endtransaction", slave=_UNAVAILABLE),
    RequestRow(RequestCode.SEND_REPLY_MESSAGE, broker="reply", slave=_UNAVAILABLE),
    RequestRow(RequestCode.SEND_REPLY_MESSAGE_V2, broker="reply", slave=_UNAVAILABLE),
    RequestRow(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, client=True),
    RequestRow(RequestCode.ADD_WRITE_PERM_OF_BROKER, registry=True),
    RequestRow(RequestCode.GET_ALL_PRODUCER_INFO, broker="groupadmin"),
    RequestRow(RequestCode.DELETE_EXPIRED_COMMITLOG, broker="queueadmin"),
    RequestRow(RequestCode.QUERY_TOPICS_BY_CONSUMER, broker="progressadmin"),
    RequestRow(RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, broker="groupadmin"),
    RequestRow(RequestCode.GET_TOPIC_CONFIG, broker="topicadmin"),
    RequestRow(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, broker="groupadmin"),
    RequestRow(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN),
    RequestRow(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS),
    RequestRow(RequestCode.EXPORT_ROCKSDB_CONFIG_TO_JSON),
    RequestRow(RequestCode.LITE_PULL_MESSAGE, broker="pull", second_port=False),
    RequestRow(RequestCode.RECALL_MESSAGE, broker="messagerecall", slave=_NO_SLAVE),
    RequestRow(RequestCode.QUERY_ASSIGNMENT),
    RequestRow(RequestCode.SET_MESSAGE_REQUEST_MODE),
    RequestRow(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE),
    RequestRow(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC),
    RequestRow(RequestCode.GET_BROKER_MEMBER_GROUP),
    RequestRow(RequestCode.ADD_BROKER),
    RequestRow(RequestCode.REMOVE_BROKER),
    RequestRow(RequestCode.BROKER_HEARTBEAT),
    RequestRow(RequestCode.NOTIFY_MIN_BROKER_ID_CHANGE),
    RequestRow(RequestCode.EXCHANGE_BROKER_HA_INFO),
    RequestRow(RequestCode.GET_BROKER_HA_STATUS),
    RequestRow(RequestCode.RESET_MASTER_FLUSH_OFFSET),
    RequestRow(RequestCode.CONTROLLER_ALTER_SYNC_STATE_SET),
    RequestRow(RequestCode.CONTROLLER_ELECT_MASTER),
    RequestRow(RequestCode.CONTROLLER_REGISTER_BROKER),
    RequestRow(RequestCode.CONTROLLER_GET_REPLICA_INFO),
    RequestRow(RequestCode.CONTROLLER_GET_METADATA_INFO),
    RequestRow(RequestCode.CONTROLLER_GET_SYNC_STATE_DATA),
    RequestRow(RequestCode.GET_BROKER_EPOCH_CACHE),
    RequestRow(RequestCode.NOTIFY_BROKER_ROLE_CHANGED),
    RequestRow(RequestCode.UPDATE_CONTROLLER_CONFIG),
    RequestRow(RequestCode.GET_CONTROLLER_CONFIG),
    RequestRow(RequestCode.CLEAN_BROKER_DATA),
    RequestRow(RequestCode.CONTROLLER_GET_NEXT_BROKER_ID),
    RequestRow(RequestCode.CONTROLLER_APPLY_BROKER_ID),
    RequestRow(RequestCode.BROKER_CLOSE_CHANNEL_REQUEST),
    RequestRow(RequestCode.CHECK_NOT_ACTIVE_BROKER_REQUEST),
    RequestRow(RequestCode.GET_BROKER_LIVE_INFO_REQUEST),
    RequestRow(RequestCode.GET_SYNC_STATE_DATA_REQUEST),
    RequestRow(RequestCode.RAFT_BROKER_HEART_BEAT_EVENT_REQUEST),
    RequestRow(RequestCode.UPDATE_COLD_DATA_FLOW_CTR_CONFIG),
    RequestRow(RequestCode.REMOVE_COLD_DATA_FLOW_CTR_CONFIG),
    RequestRow(RequestCode.GET_COLD_DATA_FLOW_CTR_INFO),
    RequestRow(RequestCode.SET_COMMITLOG_READ_MODE),
    RequestRow(RequestCode.AUTH_CREATE_USER, broker="useradmin"),
    RequestRow(RequestCode.AUTH_UPDATE_USER, broker="useradmin"),
    RequestRow(RequestCode.AUTH_DELETE_USER, broker="useradmin"),
    RequestRow(RequestCode.AUTH_GET_USER, broker="useradmin"),
    RequestRow(RequestCode.AUTH_LIST_USER, broker="useradmin"),
    RequestRow(RequestCode.AUTH_CREATE_ACL, broker="useradmin"),
    RequestRow(RequestCode.AUTH_UPDATE_ACL, broker="useradmin"),
    RequestRow(RequestCode.AUTH_DELETE_ACL, broker="useradmin"),
    RequestRow(RequestCode.AUTH_GET_ACL, broker="useradmin"),
    RequestRow(RequestCode.AUTH_LIST_ACL, broker="useradmin"),
    RequestRow(RequestCode.GET_LOG_TAIL, broker="logend"),
    RequestRow(RequestCode.GET_RETENTION, broker="queueadmin"),
    RequestRow(RequestCode.BACKUP_STORE, broker="storeadmin"),
    RequestRow(RequestCode.GET_STORE_STATE, broker="storeadmin"),
    RequestRow(RequestCode.SCRUB_STORE, broker="storeadmin"),
    RequestRow(RequestCode.FIND_MISSING_QUEUES, broker="queueadmin"),
    RequestRow(RequestCode.LIST_TRANSACTIONS, broker="transactionadmin", slave=_NO_SLAVE),
    RequestRow(RequestCode.POP_MESSAGE),
    RequestRow(RequestCode.ACK_MESSAGE),
    RequestRow(RequestCode.PEEK_MESSAGE),
    RequestRow(RequestCode.CHANGE_MESSAGE_INVISIBLETIME),
    RequestRow(RequestCode.NOTIFICATION),
    RequestRow(RequestCode.POLLING_INFO),
    RequestRow(RequestCode.POP_ROLLBACK),
    RequestRow(RequestCode.BATCH_ACK_MESSAGE),
)
"""By their numbers."""

SLAVE_TAKES_NO_MESSAGES: Final = {
    int(row.code): row.slave for row in REQUESTS if row.slave in (_UNAVAILABLE, _NO_SLAVE)
}
"""What a slave refuses because it would store a message, and the code that it answers with."""

MAIN_PORT_ALONE: Final = frozenset(int(row.code) for row in REQUESTS if row.broker and not row.second_port)
"""What is answered on the broker's main port alone."""


def answered_by(module: str) -> frozenset[int]:
    """Return the request codes that the processor of a module beside this one answers."""
    return frozenset(int(row.code) for row in REQUESTS if row.broker == module)
