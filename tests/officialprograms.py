"""
The official programs that drive each request code, and the tests of it: the source of docs/official-programs.rst.

C{tests/golden/codes.json} has the codes that RocketMQ's clients (P0), and its tools, dashboard and slaves (P1) send.
C{python -m tests.officialprograms} writes the page.
"""

from __future__ import annotations

import json
import os
from typing import Final, NamedTuple

from smartgo.broker.processors.requestcodes import REQUESTS

_ROOT: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE: Final = os.path.join(_ROOT, "docs", "official-programs.rst")

_HEAD: Final = """Official programs
=================

The request codes that RocketMQ's clients send (P0), and its tools, dashboard and slaves (P1): who of us answers each, a
test of that, the official program that sends it, and the test that runs this program against smartgo. The programs are
those of RocketMQ 4.9.7, where nothing else is said. A client that is *asked* or *told* gets the request from us.

The page is written by ``python -m tests.officialprograms``. ``tests/test_officialprograms.py`` holds it and checks that
each test is there; ``python -m tests.interop.driven`` runs those tests of the last column, and reads from the packets
that the program sends the code. :doc:`request-codes` has all codes.
"""


class CodeCoverage(NamedTuple):
    """
    One request code.

    @ivar test: a test of ours; C{driven}: the tests that run the official program, C{program}.
    """

    name: str
    test: str
    program: str
    driven: tuple[str, ...]


COVERAGE: Final = (
    CodeCoverage(
        "SEND_MESSAGE",
        "tests.broker.processors.test_send.SendTests.test_long_names",
        "client 4.9 with ``sendSmartMsg=false``",
        ("tests.interop.test_protocol.LongNameTests.test_sends_and_replies",),
    ),
    CodeCoverage(
        "PULL_MESSAGE",
        "tests.broker.processors.test_pull.PullTests.test_view",
        "push consumers",
        ("tests.interop.test_clients.Client49JsonTests.test_concurrent_members",),
    ),
    CodeCoverage(
        "QUERY_MESSAGE",
        "tests.broker.processors.test_query.QueryTests.test_found",
        "``mqadmin queryMsgByKey``",
        ("tests.interop.test_search.LiveSearchTests.test_at_once",),
    ),
    CodeCoverage(
        "QUERY_CONSUMER_OFFSET",
        "tests.broker.processors.test_offsets.OffsetProcessorTests.test_made_up_groups",
        "push consumers",
        ("tests.interop.test_clients.Client49JsonTests.test_concurrent_members",),
    ),
    CodeCoverage(
        "UPDATE_CONSUMER_OFFSET",
        "tests.broker.processors.test_offsets.OffsetProcessorTests.test_queue_ids",
        "push consumers",
        ("tests.interop.test_clients.Client49JsonTests.test_concurrent_members",),
    ),
    CodeCoverage(
        "UPDATE_AND_CREATE_TOPIC",
        "tests.broker.processors.test_brokeradmin.TopicAdminTests.test_create_told",
        "``mqadmin updateTopic``",
        ("tests.interop.test_mqadmin.MqadminTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_ALL_TOPIC_CONFIG",
        "tests.broker.processors.test_brokeradmin.TopicAdminTests.test_all",
        "a slave of RocketMQ",
        ("tests.interop.test_ha.RealSlaveTests.test_tables",),
    ),
    CodeCoverage(
        "UPDATE_BROKER_CONFIG",
        "tests.broker.processors.test_brokeradmin.BrokerAdminTests.test_change",
        "``mqadmin updateBrokerConfig``",
        ("tests.interop.test_access.AccessTests.test_settings",),
    ),
    CodeCoverage(
        "GET_BROKER_CONFIG",
        "tests.broker.processors.test_brokeradmin.BrokerAdminTests.test_settings",
        "``mqadmin getBrokerConfig``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_BROKER_RUNTIME_INFO",
        "tests.broker.processors.test_brokeradmin.BrokerAdminTests.test_runtime",
        "``mqadmin brokerStatus``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "SEARCH_OFFSET_BY_TIMESTAMP",
        "tests.broker.processors.test_offsets.OffsetProcessorTests.test_search",
        "``MQAdmin.searchOffset``",
        ("tests.interop.test_protocol.LibraryTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_MAX_OFFSET",
        "tests.broker.processors.test_offsets.OffsetProcessorTests.test_bounds",
        "``MQAdmin.maxOffset``",
        ("tests.interop.test_protocol.LibraryTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_MIN_OFFSET",
        "tests.broker.processors.test_offsets.OffsetProcessorTests.test_bounds",
        "``MQAdmin.minOffset``",
        ("tests.interop.test_protocol.LibraryTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_EARLIEST_MSG_STORETIME",
        "tests.broker.processors.test_offsets.OffsetProcessorTests.test_earliest",
        "``MQAdmin.earliestMsgStoreTime``",
        ("tests.interop.test_protocol.LibraryTests.test_4_9",),
    ),
    CodeCoverage(
        "VIEW_MESSAGE_BY_ID",
        "tests.broker.processors.test_pull.PullTests.test_view",
        "``mqadmin queryMsgById``",
        ("tests.interop.test_mqadmin.MqadminTests.test_4_9",),
    ),
    CodeCoverage(
        "HEART_BEAT",
        "tests.broker.processors.test_heartbeat.RefusedTests.test_nonsense",
        "producers and consumers",
        ("tests.interop.test_clients.Client49JsonTests.test_concurrent_members",),
    ),
    CodeCoverage(
        "UNREGISTER_CLIENT",
        "tests.broker.processors.test_heartbeat.LeavingTests.test_farewell",
        "clients that shut down",
        ("tests.interop.test_clients.Client49JsonTests.test_concurrent_members",),
    ),
    CodeCoverage(
        "CONSUMER_SEND_MSG_BACK",
        "tests.broker.processors.test_send.DurableTopicTests.test_given_back",
        "push consumers that fail",
        ("tests.interop.test_retry.FailingListenerTests.test_retried_then_dead",),
    ),
    CodeCoverage(
        "END_TRANSACTION",
        "tests.broker.processors.test_endtransaction.VerdictTests.test_commit",
        "``TransactionMQProducer``",
        ("tests.interop.test_transactions.TransactionTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_CONSUMER_LIST_BY_GROUP",
        "tests.broker.processors.test_heartbeat.ConsumerTests.test_list",
        "push consumers",
        ("tests.interop.test_clients.Client49JsonTests.test_concurrent_members",),
    ),
    CodeCoverage(
        "CHECK_TRANSACTION_STATE",
        "tests.client.test_transactions.VerdictTests.test_check",
        "``TransactionMQProducer``, asked; a broker 4.9, asking",
        (
            "tests.interop.test_transactions.TransactionTests.test_4_9",
            "tests.interop.test_ownclient.TransactionTests.test_rocketmq",
        ),
    ),
    CodeCoverage(
        "NOTIFY_CONSUMER_IDS_CHANGED",
        "tests.client.internal.test_assignment.SilentBrokerTests.test_members",
        "push consumers, told",
        ("tests.interop.test_clients.Client49JsonTests.test_concurrent_members",),
    ),
    CodeCoverage(
        "LOCK_BATCH_MQ",
        "tests.broker.processors.test_queuelocks.RebalanceProcessorTests.test_lock_and_unlock",
        "orderly consumers",
        ("tests.interop.test_clients.Client49JsonTests.test_orderly_members",),
    ),
    CodeCoverage(
        "UNLOCK_BATCH_MQ",
        "tests.broker.processors.test_queuelocks.RebalanceProcessorTests.test_lock_and_unlock",
        "orderly consumers",
        ("tests.interop.test_clients.Client49JsonTests.test_orderly_members",),
    ),
    CodeCoverage(
        "GET_ALL_CONSUMER_OFFSET",
        "tests.broker.processors.test_progressadmin.ProgressTests.test_all_offsets",
        "a slave of RocketMQ",
        ("tests.interop.test_ha.RealSlaveTests.test_tables",),
    ),
    CodeCoverage(
        "GET_ALL_DELAY_OFFSET",
        "tests.broker.processors.test_progressadmin.ProgressTests.test_all_delays",
        "a slave of RocketMQ",
        ("tests.interop.test_ha.RealSlaveTests.test_tables",),
    ),
    CodeCoverage(
        "CHECK_CLIENT_CONFIG",
        "tests.broker.processors.test_heartbeat.ParserTests.test_check",
        "consumers with an SQL92 filter",
        ("tests.interop.test_transactions.SqlTests.test_4_9",),
    ),
    CodeCoverage(
        "PUT_KV_CONFIG",
        "tests.registry.test_requests.AdministrationTests.test_values",
        "``mqadmin updateKvConfig``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_KV_CONFIG",
        "tests.registry.test_requests.AdministrationTests.test_values",
        "``mqadmin updateOrderConf -m get``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "DELETE_KV_CONFIG",
        "tests.registry.test_requests.AdministrationTests.test_values",
        "``mqadmin deleteKvConfig``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "REGISTER_BROKER",
        "tests.registry.test_requests.RegisterTests.test_master",
        "a slave of RocketMQ",
        ("tests.interop.test_ha.RealSlaveTests.test_registry_restarted",),
    ),
    CodeCoverage(
        "UNREGISTER_BROKER",
        "tests.registry.test_requests.RegisterTests.test_unregister",
        "a slave of RocketMQ that stops",
        ("tests.interop.test_ha.RealSlaveTests.test_registers",),
    ),
    CodeCoverage(
        "GET_ROUTEINFO_BY_TOPIC",
        "tests.registry.test_requests.RouteTests.test_route",
        "every client; ``mqadmin topicRoute``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_BROKER_CLUSTER_INFO",
        "tests.registry.test_requests.RouteTests.test_cluster_info",
        "``mqadmin clusterList``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP",
        "tests.broker.processors.test_brokeradmin.GroupAdminTests.test_update",
        "``mqadmin updateSubGroup``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_ALL_SUBSCRIPTIONGROUP_CONFIG",
        "tests.broker.processors.test_brokeradmin.GroupAdminTests.test_update",
        "a slave of RocketMQ",
        ("tests.interop.test_ha.RealSlaveTests.test_tables",),
    ),
    CodeCoverage(
        "GET_TOPIC_STATS_INFO",
        "tests.broker.processors.test_brokeradmin.TopicAdminTests.test_state",
        "``mqadmin topicStatus``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_CONSUMER_CONNECTION_LIST",
        "tests.broker.processors.test_brokeradmin.GroupAdminTests.test_consumer_connections",
        "``mqadmin consumerConnection``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_PRODUCER_CONNECTION_LIST",
        "tests.broker.processors.test_brokeradmin.GroupAdminTests.test_producer_connections",
        "``mqadmin producerConnection``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "WIPE_WRITE_PERM_OF_BROKER",
        "tests.registry.test_requests.AdministrationTests.test_permissions",
        "``mqadmin wipeWritePerm``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_ALL_TOPIC_LIST_FROM_NAMESERVER",
        "tests.registry.test_requests.AdministrationTests.test_topic_lists",
        "``mqadmin topicList``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "DELETE_SUBSCRIPTIONGROUP",
        "tests.broker.processors.test_brokeradmin.GroupAdminTests.test_delete",
        "``mqadmin deleteSubGroup``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_CONSUME_STATS",
        "tests.broker.processors.test_progressadmin.ProgressTests.test_progress",
        "``mqadmin consumerProgress``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "DELETE_TOPIC_IN_BROKER",
        "tests.broker.processors.test_brokeradmin.TopicAdminTests.test_delete",
        "``mqadmin deleteTopic``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "DELETE_TOPIC_IN_NAMESRV",
        "tests.registry.test_requests.AdministrationTests.test_delete_topic",
        "``mqadmin deleteTopic``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_KVLIST_BY_NAMESPACE",
        "tests.registry.test_requests.AdministrationTests.test_values",
        "``getKVListByNamespace``",
        ("tests.interop.test_protocol.LibraryTests.test_4_9",),
    ),
    CodeCoverage(
        "RESET_CONSUMER_CLIENT_OFFSET",
        "tests.broker.processors.test_clientadmin.ResetTests.test_tells_every_member",
        "consumers, told by ``mqadmin resetOffsetByTime``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_CONSUMER_STATUS_FROM_CLIENT",
        "tests.client.test_directly.StatusTests.test_offsets",
        "consumers, asked by ``getConsumeStatus``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "INVOKE_BROKER_TO_RESET_OFFSET",
        "tests.broker.processors.test_clientadmin.ResetTests.test_tells_every_member",
        "``mqadmin resetOffsetByTime``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "INVOKE_BROKER_TO_GET_CONSUMER_STATUS",
        "tests.broker.processors.test_clientadmin.StatusTests.test_all",
        "``getConsumeStatus``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_TOPICS_BY_CLUSTER",
        "tests.registry.test_requests.AdministrationTests.test_topic_lists",
        "``fetchTopicsByCLuster``",
        ("tests.interop.test_protocol.LibraryTests.test_4_9",),
    ),
    CodeCoverage(
        "QUERY_TOPIC_CONSUME_BY_WHO",
        "tests.broker.processors.test_brokeradmin.TopicAdminTests.test_consumers",
        "``mqadmin statsAll``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "QUERY_CONSUME_TIME_SPAN",
        "tests.broker.processors.test_progressadmin.TimeSpanTests.test_spans",
        "``queryConsumeTimeSpan``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_SYSTEM_TOPIC_LIST_FROM_NS",
        "tests.registry.test_requests.AdministrationTests.test_topic_lists",
        "``getSystemTopicList``",
        ("tests.interop.test_protocol.LibraryTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_SYSTEM_TOPIC_LIST_FROM_BROKER",
        "tests.broker.processors.test_brokeradmin.TopicAdminTests.test_system",
        "``mqadmin exportMetadata``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "CLEAN_EXPIRED_CONSUMEQUEUE",
        "tests.broker.processors.test_queueadmin.QueueAdminTests.test_clean_expired",
        "``mqadmin cleanExpiredCQ``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_CONSUMER_RUNNING_INFO",
        "tests.broker.processors.test_clientadmin.RunningInfoTests.test_relayed",
        "``mqadmin consumerStatus``, and consumers",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "QUERY_CORRECTION_OFFSET",
        "tests.broker.processors.test_progressadmin.CorrectionTests.test_correction",
        "``queryCorrectionOffset``",
        ("tests.interop.test_protocol.LibraryTests.test_4_9",),
    ),
    CodeCoverage(
        "CONSUME_MESSAGE_DIRECTLY",
        "tests.broker.processors.test_query.ConsumeDirectlyTests.test_relayed",
        "``mqadmin queryMsgById -g -d``, and consumers",
        ("tests.interop.test_search.LiveSearchTests.test_consume_directly",),
    ),
    CodeCoverage(
        "SEND_MESSAGE_V2",
        "tests.broker.processors.test_send.DurableTopicTests.test_given_back",
        "producers",
        ("tests.interop.test_clients.Client49JsonTests.test_every_way_to_send",),
    ),
    CodeCoverage(
        "CLONE_GROUP_OFFSET",
        "tests.broker.processors.test_progressadmin.CloneTests.test_one_topic",
        "``MQClientAPIImpl.cloneGroupOffset``",
        ("tests.interop.test_protocol.LibraryTests.test_4_9",),
    ),
    CodeCoverage(
        "VIEW_BROKER_STATS_DATA",
        "tests.broker.processors.test_brokeradmin.BrokerAdminTests.test_statistics",
        "``mqadmin statsAll``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "CLEAN_UNUSED_TOPIC",
        "tests.broker.processors.test_queueadmin.QueueAdminTests.test_clean_unused",
        "``mqadmin cleanUnusedTopic``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_BROKER_CONSUME_STATS",
        "tests.broker.processors.test_progressadmin.AllGroupsTests.test_all",
        "``mqadmin brokerConsumeStats``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "UPDATE_NAMESRV_CONFIG",
        "tests.registry.test_requests.RemoteConfigTests.test_allowed",
        "``mqadmin updateNamesrvConfig``",
        ("tests.interop.test_access.AccessTests.test_settings",),
    ),
    CodeCoverage(
        "GET_NAMESRV_CONFIG",
        "tests.registry.test_requests.AdministrationTests.test_get_config",
        "``mqadmin getNamesrvConfig``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "SEND_BATCH_MESSAGE",
        "tests.broker.stages.test_timed.TimedTests.test_batch",
        "producers",
        ("tests.interop.test_clients.Client49JsonTests.test_every_way_to_send",),
    ),
    CodeCoverage(
        "QUERY_CONSUME_QUEUE",
        "tests.broker.processors.test_queueadmin.QueueAdminTests.test_units",
        "``mqadmin queryCq``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "QUERY_DATA_VERSION",
        "tests.registry.test_requests.RegisterTests.test_data_version",
        "a slave of RocketMQ with ``forceRegister=false``",
        ("tests.interop.test_ha.RealSlaveTests.test_registers",),
    ),
    CodeCoverage(
        "RESUME_CHECK_HALF_MESSAGE",
        "tests.broker.processors.test_endtransaction.GivenUpTests.test_resumed",
        "``resumeCheckHalfMessage``",
        ("tests.interop.test_transactions.ResumeTests.test_side_by_side",),
    ),
    CodeCoverage(
        "SEND_REPLY_MESSAGE",
        "tests.broker.processors.test_reply.PushTests.test_long_names",
        "client 4.9 with ``sendSmartMsg=false``",
        ("tests.interop.test_protocol.LongNameTests.test_sends_and_replies",),
    ),
    CodeCoverage(
        "SEND_REPLY_MESSAGE_V2",
        "tests.broker.processors.test_reply.PushTests.test_pushed_and_stored",
        "consumers that reply",
        ("tests.interop.test_transactions.RequestTests.test_request",),
    ),
    CodeCoverage(
        "PUSH_REPLY_MESSAGE_TO_CLIENT",
        "tests.broker.processors.test_reply.GoldenTests.test_push_of_real_broker",
        "producers, told",
        ("tests.interop.test_transactions.RequestTests.test_request",),
    ),
    CodeCoverage(
        "ADD_WRITE_PERM_OF_BROKER",
        "tests.registry.test_requests.AdministrationTests.test_permissions",
        "``mqadmin addWritePerm``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_ALL_PRODUCER_INFO",
        "tests.broker.processors.test_brokeradmin.GroupAdminTests.test_all_producers",
        "``mqadmin producer``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_5_3",),
    ),
    CodeCoverage(
        "DELETE_EXPIRED_COMMITLOG",
        "tests.broker.processors.test_queueadmin.QueueAdminTests.test_delete_expired",
        "``mqadmin deleteExpiredCommitLog``",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_4_9",),
    ),
    CodeCoverage(
        "GET_TOPIC_CONFIG",
        "tests.broker.processors.test_brokeradmin.TopicAdminTests.test_one",
        "``mqadmin topicStatus`` of 5.3",
        ("tests.interop.test_mqadmin_sidebyside.SideBySideTests.test_5_3",),
    ),
    CodeCoverage(
        "GET_SUBSCRIPTIONGROUP_CONFIG",
        "tests.broker.processors.test_brokeradmin.GroupAdminTests.test_one",
        "``getSubscriptionGroupConfig`` of client 5.3",
        ("tests.interop.test_protocol.LibraryTests.test_5_3",),
    ),
    CodeCoverage(
        "LITE_PULL_MESSAGE",
        "tests.broker.processors.test_pull.PullTests.test_view",
        "lite pull consumer of 5.3",
        ("tests.interop.test_clients.Client53JsonTests.test_lite_pull",),
    ),
)
"""By their numbers."""


def codes() -> dict[str, dict[str, str | int]]:
    """Return the codes that have to be covered, by name, with number, priority and receiver."""
    with open(os.path.join(_ROOT, "tests", "golden", "codes.json"), encoding="utf-8") as file:
        found: dict[str, dict[str, str | int]] = json.load(file)
    return found


def page() -> str:
    """Return the page."""
    known = codes()
    handlers = {
        row.code.name: [
            *([f"broker.processors.{row.broker}"] if row.broker else []),
            *(["registry.requests"] if row.registry else []),
            *(["client.internal.served"] if row.client else []),
        ]
        for row in REQUESTS
    }
    lines = [_HEAD, ".. list-table::", "   :header-rows: 1", ""]
    rows = [["Code", "Name", "", "Answered by", "Test", "Official program", "Run by"]]
    for one in COVERAGE:
        rows.append(
            [
                str(known[one.name]["code"]),
                one.name,
                str(known[one.name]["priority"]),
                ", ".join(f"``{handler}``" for handler in handlers[one.name]),
                f"``{one.test.removeprefix('tests.')}``",
                one.program,
                ", ".join(f"``{test.removeprefix('tests.interop.')}``" for test in one.driven),
            ]
        )
    for cells in rows:
        lines += [f"{'   * -' if at == 0 else '     -'} {cell}".rstrip() for at, cell in enumerate(cells)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(page())
