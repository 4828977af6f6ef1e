"""Every request of administrators with every field and any value: refused in words, or answered, never a bug."""

from __future__ import annotations

import random
from typing import Final

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from tests.broker.fakecluster import BROKER, REGISTRY, Cluster

READING: Final = {
    RequestCode.GET_ALL_TOPIC_CONFIG: (),
    RequestCode.GET_BROKER_CONFIG: (),
    RequestCode.GET_BROKER_RUNTIME_INFO: (),
    RequestCode.GET_ALL_CONSUMER_OFFSET: (),
    RequestCode.GET_ALL_DELAY_OFFSET: (),
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: (),
    RequestCode.GET_TOPIC_STATS_INFO: ("topic",),
    RequestCode.GET_CONSUMER_CONNECTION_LIST: ("consumerGroup",),
    RequestCode.GET_PRODUCER_CONNECTION_LIST: ("producerGroup",),
    RequestCode.GET_CONSUME_STATS: ("consumerGroup", "topic", "topicList"),
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: ("topic", "group", "clientAddr"),
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: ("topic",),
    RequestCode.QUERY_CONSUME_TIME_SPAN: ("topic", "group"),
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: (),
    RequestCode.GET_CONSUMER_RUNNING_INFO: ("consumerGroup", "clientId", "jstackEnable"),
    RequestCode.QUERY_CORRECTION_OFFSET: ("topic", "compareGroup", "filterGroups"),
    RequestCode.VIEW_BROKER_STATS_DATA: ("statsName", "statsKey"),
    RequestCode.GET_BROKER_CONSUME_STATS: ("isOrder",),
    RequestCode.QUERY_CONSUME_QUEUE: ("topic", "queueId", "index", "count", "consumerGroup"),
    RequestCode.GET_ALL_PRODUCER_INFO: (),
    RequestCode.QUERY_TOPICS_BY_CONSUMER: ("group",),
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER: ("group", "topic"),
    RequestCode.GET_RETENTION: (),
    RequestCode.BACKUP_STORE: ("name",),
    RequestCode.GET_STORE_STATE: (),
    RequestCode.LIST_TRANSACTIONS: ("givenUp", "begin", "count", "group", "topic", "id"),
    RequestCode.FIND_MISSING_QUEUES: (),
    RequestCode.GET_TOPIC_CONFIG: ("topic",),
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: ("group",),
}
"""What looks, with the fields that it takes."""

CHANGING: Final = {
    RequestCode.UPDATE_AND_CREATE_TOPIC: (
        "topic", "defaultTopic", "readQueueNums", "writeQueueNums", "perm", "topicFilterType", "topicSysFlag", "order",
        "attributes", "force",
    ),
    RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: (),
    RequestCode.UPDATE_BROKER_CONFIG: (),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (),
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (),
    RequestCode.DELETE_SUBSCRIPTIONGROUP: ("groupName", "removeOffset", "cleanOffset"),
    RequestCode.DELETE_TOPIC_IN_BROKER: ("topic",),
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ("topic", "group", "timestamp", "isForce", "queueId", "offset"),
    RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: (),
    RequestCode.CLONE_GROUP_OFFSET: ("srcGroup", "destGroup", "topic", "offline"),
    RequestCode.CLEAN_UNUSED_TOPIC: (),
    RequestCode.DELETE_EXPIRED_COMMITLOG: (),
    RequestCode.TRIGGER_DELETE_FILES: (),
    RequestCode.SCRUB_STORE: ("running",),
}  # fmt: skip
"""What changes something."""

REGISTRY_CODES: Final = {
    RequestCode.PUT_KV_CONFIG: ("namespace", "key", "value"),
    RequestCode.GET_KV_CONFIG: ("namespace", "key"),
    RequestCode.DELETE_KV_CONFIG: ("namespace", "key"),
    RequestCode.GET_KV_CONFIG_BY_VALUE: ("namespace", "key"),
    RequestCode.DELETE_KV_CONFIG_BY_VALUE: ("namespace", "key"),
    RequestCode.GET_KVLIST_BY_NAMESPACE: ("namespace",),
    RequestCode.GET_BROKER_CLUSTER_INFO: (),
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: ("brokerName",),
    RequestCode.ADD_WRITE_PERM_OF_BROKER: ("brokerName",),
    RequestCode.DELETE_TOPIC_IN_NAMESRV: ("topic", "clusterName"),
    RequestCode.GET_TOPICS_BY_CLUSTER: ("cluster",),
    RequestCode.UPDATE_NAMESRV_CONFIG: (),
    RequestCode.GET_NAMESRV_CONFIG: (),
}

VALUES: Final = (
    "", " ", "0", "1", "-1", "2147483647", "-9223372036854775808", "9223372036854775807", "9" * 30, "1e5", "x", "T",
    "T", "T@0", "T@g", "g", "g", "h", "nowhere", "TBW102", "%RETRY%g", "../..", "a\x01b\x02", "a" * 300, "true", "TAG",
    "TOPIC_PUT_NUMS", "QUEUE_PUT_SIZE", "GROUP_GET_SIZE", "BROKER_PUT_NUMS", "DefaultCluster", "broker-a",
    "\u6807\u7b7e",
)  # fmt: skip
BODIES: Final = (b"", b"{}", b"[]", b"null", b"\xff" * 9, b"=", b"listenPort=1", b"a=\\u00zz",
                 b'{"topicConfigList":[{"topicName":"N"},{}]}', b'{"groupConfigList":[{"groupName":1}]}',
                 b'{"groupName":"g2","retryQueueNums":-1}', b'{"topicConfigList":[{"topicName":"a/b"}]}')  # fmt: skip

KNOWN: Final = frozenset({0, 1, 3, 16, 17, 22, 26, 206, 207})


class FuzzCase(SynchronousTestCase):
    """A cluster with a topic, a connected group and one that is not."""

    def setUp(self) -> None:
        self.chance = random.Random(20261121)
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)
        for number in range(5):
            self.cluster.send("T", b"%d" % number, queue_id=number % 2)
        self.cluster.heartbeat("g", "T")
        for group in "gh":
            self.cluster.pull("T", consumer_group=group, commit_offset=1, sys_flag=5)

    def asked(self, code: RequestCode, fields: tuple[str, ...], address: str = BROKER) -> Command | None:
        """One answer; C{None} where the client that we are would have to answer first."""
        texts = {name: self.chance.choice(VALUES) for name in fields if self.chance.random() < 0.95}
        command = Command.request(code, fields=texts, body=self.chance.choice(BODIES))
        found: list[object] = []
        asking: Deferred[Command] = self.cluster.client.ask(address, command, 3.0)
        asking.addBoth(found.append)
        self.cluster.pump()
        if not found:
            self.assertIn(
                code, (RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS)
            )
            self.cluster.pump(4, step=1)
            return None
        (answer,) = found
        assert isinstance(answer, Command), (code, texts, answer)
        self.assertIn(answer.code, KNOWN, (code, texts, answer.remark))
        return answer

    def no_bugs(self) -> None:
        """Nothing was answered as a bug of ours, which is logged."""
        self.assertEqual(self.flushLoggedErrors(), [])


class BrokerFuzzTests(FuzzCase):
    """The broker."""

    def test_looking_changes_nothing(self) -> None:
        """Whatever is asked for, topics, groups, offsets, settings and queues stay as they are (X19)."""
        broker = self.cluster.broker

        def state() -> object:
            return (
                broker.topics.wrapper().encode(), broker.groups.wrapper().encode(), broker.offsets.wrapper().encode(),
                broker.settings.version, sorted(broker.store.queues()), broker.store.log_bounds(),
            )  # fmt: skip

        before = state()
        good = 0
        for code, fields in READING.items():
            for _ in range(60 if fields else 2):
                answer = self.asked(code, fields)
                good += answer is not None and answer.code == 0
        self.assertGreater(good, 200)
        self.assertEqual(state(), before)
        self.no_bugs()

    def test_changes(self) -> None:
        """Whatever is to be changed to whatever, it is done or refused in words, and the traffic goes on."""
        good = 0
        for code, fields in CHANGING.items():
            for _ in range(60):
                answer = self.asked(code, fields)
                good += answer is not None and answer.code == 0
        self.assertGreater(good, 100)
        self.assertEqual(self.cluster.send("Fresh").code, 0)
        self.assertEqual(self.cluster.pull("Fresh", consumer_group="fresh")[0].code, 0)
        self.no_bugs()


class RegistryFuzzTests(FuzzCase):
    """The registry."""

    def test_any(self) -> None:
        """Whatever is asked, it is answered or refused in words, and brokers and routes stay."""
        for code, fields in REGISTRY_CODES.items():
            for _ in range(40):
                self.asked(code, fields, REGISTRY)
        self.assertEqual(len(self.cluster.registry.routes.brokers()), 1)
        self.no_bugs()
