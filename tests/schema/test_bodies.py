"""Tests of smartgo.schema.bodies."""

from __future__ import annotations

import json
import zlib
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

from smartgo.errors import BadBody
from smartgo.schema import bodies, fastjson
from smartgo.schema.bodies import (
    Body,
    BrokerData,
    CheckClientBody,
    ConsumeFromWhere,
    ConsumerData,
    ConsumerOffsetTable,
    ConsumerStatusBody,
    ConsumeStats,
    ConsumeStatsList,
    ConsumeType,
    DataVersion,
    HeartbeatData,
    LockBatchBody,
    MessageModel,
    MessageQueue,
    OffsetWrapper,
    RegisterBrokerBody,
    RegisteredTopics,
    ResetOffsetBody,
    SubscriptionData,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicRouteData,
)
from smartgo.schema.bodies.topics import BARE_KEYS, INFLATED_LIMIT
from smartgo.schema.fastjson import loads
from tests.doctests import DocTestCase
from tests.schema.golden_wire import recorded

REQUESTS: dict[str, type[Body]] = {
    "CHECK_CLIENT_CONFIG": bodies.CheckClientBody,
    "HEART_BEAT": bodies.HeartbeatData,
    "LOCK_BATCH_MQ": bodies.LockBatchBody,
    "REGISTER_BROKER": bodies.RegisterBrokerBody,
    "RESET_CONSUMER_CLIENT_OFFSET": bodies.ResetOffsetBody,
    "UNLOCK_BATCH_MQ": bodies.LockBatchBody,
    "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP": bodies.SubscriptionGroupConfig,
}

ANSWERS: dict[str, type[Body]] = {
    "CONSUME_MESSAGE_DIRECTLY": bodies.ConsumeDirectlyResult,
    "GET_ALL_CONSUMER_OFFSET": bodies.ConsumerOffsetTable,
    "GET_ALL_DELAY_OFFSET": bodies.DelayOffsetTable,
    "GET_ALL_SUBSCRIPTIONGROUP_CONFIG": bodies.SubscriptionGroupWrapper,
    "GET_ALL_TOPIC_CONFIG": bodies.TopicConfigSerializeWrapper,
    "GET_ALL_TOPIC_LIST_FROM_NAMESERVER": bodies.TopicList,
    "GET_BROKER_CLUSTER_INFO": bodies.ClusterInfo,
    "GET_BROKER_CONSUME_STATS": bodies.ConsumeStatsList,
    "GET_BROKER_RUNTIME_INFO": bodies.KVTable,
    "GET_CONSUMER_CONNECTION_LIST": bodies.ConsumerConnection,
    "GET_CONSUMER_LIST_BY_GROUP": bodies.ConsumerList,
    "GET_CONSUMER_RUNNING_INFO": bodies.ConsumerRunningInfo,
    "GET_CONSUMER_STATUS_FROM_CLIENT": bodies.ConsumerStatusBody,
    "GET_CONSUME_STATS": bodies.ConsumeStats,
    "GET_PRODUCER_CONNECTION_LIST": bodies.ProducerConnection,
    "GET_ROUTEINFO_BY_TOPIC": bodies.TopicRouteData,
    "GET_TOPIC_STATS_INFO": bodies.TopicStatsTable,
    "INVOKE_BROKER_TO_GET_CONSUMER_STATUS": bodies.ConsumerStatusBody,
    "INVOKE_BROKER_TO_RESET_OFFSET": bodies.ResetOffsetBody,
    "LOCK_BATCH_MQ": bodies.LockBatchResult,
    "QUERY_CONSUME_QUEUE": bodies.ConsumeQueueBody,
    "QUERY_CONSUME_TIME_SPAN": bodies.ConsumeTimeSpans,
    "QUERY_TOPIC_CONSUME_BY_WHO": bodies.GroupList,
    "REGISTER_BROKER": bodies.KVTable,
    "VIEW_BROKER_STATS_DATA": bodies.BrokerStatsData,
}

# Members that Java derives from others for its readers (times as text), or that mean the same when absent.
DERIVED = {"consumeTimeStampStr", "minTimeStampStr", "maxTimeStampStr"}
ABSENT_IS_FALSE = {"withoutSub"}

QUEUE = MessageQueue("T", "b", 0)
QUEUE_KEY = r'"{\"brokerName\":\"b\",\"queueId\":0,\"topic\":\"T\"}"'


def normal(value: Any) -> Any:
    """Bring plain values into a form without the order of sets, object keys and derived members."""
    if isinstance(value, dict):
        return {
            json.dumps(json.loads(name), sort_keys=True) if name.startswith("{") else name: normal(member)
            for name, member in value.items()
            if name not in DERIVED and not (name in ABSENT_IS_FALSE and member is False)
        }
    if isinstance(value, list):
        return sorted((normal(member) for member in value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


class ExampleTests(DocTestCase, module="smartgo.schema.bodies.shape"):
    """The examples in its docstrings."""


class GoldenBodiesTests(SynchronousTestCase):
    """Bodies of official clients and servers."""

    def test_nothing_is_lost(self) -> None:
        """Every recorded JSON body is read by its class and written again with all that it held."""
        seen = set()
        for each in recorded():
            body = each.frame[4 + each.about["headerLength"] :]
            if each.cut or not body.startswith(b"{"):
                continue
            answer = each.about["kind"] == "response"
            name = each.about["reply_to"] if answer else each.about["code_name"]
            kind = (ANSWERS if answer else REQUESTS)[name]
            read = kind.decode(body)
            written = read.encode()
            self.assertEqual(normal(json.loads(written)), normal(loads(body)), each.about)
            self.assertEqual(kind.decode(written), read)
            seen.add(kind)
        self.assertEqual(seen, {*REQUESTS.values(), *ANSWERS.values()})


class EveryBodyTests(SynchronousTestCase):
    """Rules for all body classes."""

    def kinds(self) -> list[type[Body]]:
        """List all body classes."""
        found = [getattr(bodies, name) for name in bodies.__all__]
        return [each for each in found if isinstance(each, type) and issubclass(each, Body) and each is not Body]

    def test_no_shared_defaults(self) -> None:
        """Two bodies made with defaults share no list or table."""
        for kind in self.kinds():
            fields = msgspec.structs.fields(kind)
            if any(each.required for each in fields):
                continue
            one, other = kind(), kind()
            for each in fields:
                value = getattr(one, each.name)
                if isinstance(value, dict | list | Body):
                    self.assertIsNot(value, getattr(other, each.name), f"{kind.__name__}.{each.name}")

    def test_defaults_are_written(self) -> None:
        """Members that hold their default are written, those that are absent are not, and there are no blanks."""
        for kind in self.kinds():
            if any(each.required for each in msgspec.structs.fields(kind)):
                continue
            raw = kind().encode()
            self.assertNotIn(b"null", raw)
            self.assertNotIn(b" ", raw)
            self.assertEqual(kind.decode(raw), kind())
        self.assertEqual(
            json.loads(TopicConfig("T").encode()),
            {
                "order": False,
                "perm": 6,
                "readQueueNums": 16,
                "topicFilterType": "SINGLE_TAG",
                "topicName": "T",
                "topicSysFlag": 0,
                "writeQueueNums": 16,
            },
        )

    def test_not_an_object(self) -> None:
        """What is no JSON object, or no UTF-8, is refused by every class."""
        for kind in self.kinds():
            for raw in (
                b"",
                b"[]",
                b"1",
                b'"x"',
                b"null",
                b"{",
                b"\xff",
                b'{"x":"\xff"}',
                b'{"x":NaN}',
                b'{"x":"\\ud800"}',
            ):
                error = self.assertRaises(BadBody, kind.decode, raw)
                self.assertEqual(error.code, 1)

    def test_size(self) -> None:
        """What a client may send is 4 MiB at most; the rest is bounded by its frame."""
        for kind in (HeartbeatData, LockBatchBody, CheckClientBody, SubscriptionGroupConfig):
            error = self.assertRaises(BadBody, kind.decode, b" " * (4 * 1024 * 1024 + 1))
            self.assertIn("4194304", str(error))
        raw = TopicConfigSerializeWrapper({"T": TopicConfig("T")}).encode() + b" " * (4 * 1024 * 1024)
        self.assertEqual(list(TopicConfigSerializeWrapper.decode(raw).topic_config_table), ["T"])
        self.assertRaises(BadBody, TopicConfigSerializeWrapper.decode, raw.replace(b'"perm":6', b'"perm":null'))

    def test_deep(self) -> None:
        """Deep nesting is refused, not followed."""
        for kind in self.kinds():
            self.assertRaises(BadBody, kind.decode, b'{"x":' * 100000 + b"1" + b"}" * 100000)
            self.assertRaises(BadBody, kind.decode, b'{"x":' + b"[" * 100000)


class MessageQueueTests(SynchronousTestCase):
    """Queues as values and as keys."""

    def test_order(self) -> None:
        """Queues sort by topic, broker name, queue id."""
        queues = [MessageQueue(topic, broker, number) for topic in "ab" for broker in "cd" for number in (1, 2, 10)]
        self.assertEqual(sorted(set(queues)), queues)

    def test_key(self) -> None:
        """A key is the queue's JSON, and is read back whatever the names hold."""
        for topic in ("T", "%RETRY%g", 'a"b\\', "\u4e2d", "a@b"):
            queue = MessageQueue(topic, "b", 2**31 - 1)
            self.assertEqual(MessageQueue.from_key(queue.key()), queue)
        self.assertEqual(MessageQueue.from_key("a@T@b@3"), MessageQueue("a@T", "b", 3))

    def test_bad_keys(self) -> None:
        """What is no queue is refused."""
        for key in ("", "T", "T@b", "T@b@x", "T@b@1.0", "T@b@2147483648", "{", "{}", '{"topic":"T"}', "{}x", "[]"):
            self.assertRaises(BadBody, MessageQueue.from_key, key)

    def test_three_forms_of_a_table(self) -> None:
        """A table by queue is read from Java's bare keys, quoted ones and SmartGo's; quoted ones are written."""
        table = ResetOffsetBody({QUEUE: 12})
        self.assertEqual(table.encode().decode(), '{"offsetTable":{%s:12}}' % QUEUE_KEY)  # noqa: UP031
        for raw in (
            table.encode(),
            b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:12}}',
            b'{"offsetTable":{ {"topic":"T","queueId":"0","brokerName":"b","x":[]} : 12}}',
            b'{"offsetTable":{"T@b@0":"12"}}',
            b'{"offsetTable":[{"brokerName":"b","offset":12,"queueId":0,"topic":"T"}]}',
        ):
            self.assertEqual(ResetOffsetBody.decode(raw), table)
        self.assertEqual(ResetOffsetBody.decode(table.encode(as_list=True)), table)
        self.assertEqual(
            json.loads(table.encode(as_list=True)),
            {"offsetTable": [{"brokerName": "b", "offset": 12, "queueId": 0, "topic": "T"}]},
        )
        self.assertRaises(BadBody, ResetOffsetBody.decode, b'{"offsetTable":[{"topic":"T"}]}')
        self.assertRaises(BadBody, ResetOffsetBody.decode, b'{"offsetTable":[1]}')
        self.assertRaises(BadBody, ResetOffsetBody.decode, b'{"offsetTable":1}')

    def test_inner_tables(self) -> None:
        """Tables by queue within other tables are read and written too."""
        status = ConsumerStatusBody(consumer_table={"c": {QUEUE: 5}})
        self.assertEqual(ConsumerStatusBody.decode(status.encode()), status)
        stats = ConsumeStatsList([{"g": [ConsumeStats({QUEUE: OffsetWrapper(9, 8)})]}, {"h": []}], "a:1", 1)
        self.assertEqual(ConsumeStatsList.decode(stats.encode()), stats)
        for raw in (
            b'{"consumeStatsList":[1]}',
            b'{"consumeStatsList":[{"g":1}]}',
            b'{"consumeStatsList":[{"g":[1]}]}',
        ):
            self.assertRaises(BadBody, ConsumeStatsList.decode, raw)


class LenientTests(SynchronousTestCase):
    """Differences in the bodies of other clients and servers."""

    def test_enums_as_numbers(self) -> None:
        """SmartGo's numbers stand for the enum names, each in SmartGo's order; others are refused."""
        for kind, model, where, expected in (
            (0, 0, 0, ("CONSUME_ACTIVELY", "BROADCASTING", "CONSUME_FROM_LAST_OFFSET")),
            (1, 1, 1, ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_FIRST_OFFSET")),
            (1, 1, 2, ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_TIMESTAMP")),
        ):
            data = {"groupName": "g", "consumeType": kind, "messageModel": model, "consumeFromWhere": where}
            read = ConsumerData.decode(json.dumps(data).encode())
            self.assertEqual((read.consume_type, read.message_model, read.consume_from_where), expected)
            self.assertIsInstance(read.consume_type, ConsumeType)
            self.assertIsInstance(read.message_model, MessageModel)
            self.assertIsInstance(read.consume_from_where, ConsumeFromWhere)
        bad: list[Any] = [-1, 9, "NO_SUCH", 1.5, [], True]
        for name in ("consumeType", "messageModel", "consumeFromWhere"):
            for value in bad:
                self.assertRaises(BadBody, ConsumerData.decode, json.dumps({"groupName": "g", name: value}).encode())

    def test_filter_types(self) -> None:
        """A topic's filter type may be a number, and is always written as a name."""
        for value, name in ((0, "SINGLE_TAG"), (1, "MULTI_TAG"), ("MULTI_TAG", "MULTI_TAG")):
            config = TopicConfig.decode(json.dumps({"topicName": "T", "topicFilterType": value}).encode())
            self.assertEqual(json.loads(config.encode())["topicFilterType"], name)

    def test_nulls(self) -> None:
        """A null member is an absent one, at any depth: Go writes null for an empty list."""
        raw = (
            b'{"clientID":"c","producerDataSet":null,"consumerDataSet":[{"groupName":"g","subscriptionDataSet":null}]}'
        )
        self.assertEqual(HeartbeatData.decode(raw), HeartbeatData("c", consumer_data_set=[ConsumerData("g")]))
        raw = b'{"clientId":"c","group":"g","subscriptionData":{"topic":"T","expressionType":null,"subString":null}}'
        self.assertEqual(CheckClientBody.decode(raw), CheckClientBody("c", "g", SubscriptionData("T")))

    def test_codes(self) -> None:
        """Tag codes may be text, and those sent unsigned become Java ints."""
        data = SubscriptionData.decode(b'{"topic":"T","codeSet":["2598919",4294967295],"tagsSet":["TagA"]}')
        self.assertEqual(data.code_set, {2598919, -1})
        self.assertRaises(BadBody, SubscriptionData.decode, b'{"codeSet":["1e3"]}')
        self.assertRaises(BadBody, SubscriptionData.decode, b'{"codeSet":[1.0]}')

    def test_locks(self) -> None:
        """A lock request's queues may be named mq_set, or be missing."""
        queue = b'[{"topic":"T","brokerName":"b","queueId":0}]'
        for name in (b"mqSet", b"mq_set"):
            body = LockBatchBody.decode(b'{"consumerGroup":"g","clientId":"c","%s":%s}' % (name, queue))
            self.assertEqual(body, LockBatchBody("g", "c", [QUEUE]))
        self.assertEqual(LockBatchBody.decode(b'{"consumerGroup":"g","clientId":"c"}'), LockBatchBody("g", "c", []))
        self.assertRaises(BadBody, LockBatchBody.decode, b'{"clientId":"c"}')

    def test_routes(self) -> None:
        """A route's queue flag may be spelled topicSynFlag, and broker ids be bare or quoted."""
        raw = (
            b'{"orderTopicConf":"","queueDatas":[{"brokerName":"b","readQueueNums":1,"writeQueueNums":2,"perm":6,'
            b'"topicSynFlag":3}],"brokerDatas":[{"brokerName":"b","brokerAddrs":{0:"1.2.3.4:5","1":"x"}}]}'
        )
        route = TopicRouteData.decode(raw)
        self.assertEqual(route.queue_datas[0].topic_sys_flag, 3)
        self.assertEqual(route.broker_datas[0].broker_addrs, {0: "1.2.3.4:5", 1: "x"})
        self.assertIn(b'{"0":"1.2.3.4:5","1":"x"}', route.encode())
        self.assertIn(b'"topicSysFlag":3', route.encode())
        self.assertNotIn(b"topicSynFlag", route.encode())
        self.assertRaises(BadBody, BrokerData.decode, b'{"brokerAddrs":{"a":"x"}}')
        self.assertRaises(BadBody, BrokerData.decode, b'{"brokerAddrs":{99999999999999999999:"x"}}')

    def test_topic_tables(self) -> None:
        """SmartGo's extra level of a topic table is skipped, and a topic without its name gets it from the key."""
        config = {"readQueueNums": 3}
        expected = {"T": TopicConfig("T", read_queue_nums=3)}
        for table in (
            {"T": config},
            {"topicConfigs": {"T": config}},
            {"topicConfigs": {"T": config}, "SEPARATOR": "x"},
        ):
            read = TopicConfigSerializeWrapper.decode(json.dumps({"topicConfigTable": table}).encode())
            self.assertEqual(read.topic_config_table, expected)
        read = TopicConfigSerializeWrapper.decode(b'{"topicConfigTable":{"topicConfigs":{"topicName":"topicConfigs"}}}')
        self.assertEqual(list(read.topic_config_table), ["topicConfigs"])
        register = {"topicConfigSerializeWrapper": {"topicConfigTable": {"topicConfigs": {"T": config}}}}
        body = RegisterBrokerBody.decode(json.dumps(register).encode())
        self.assertEqual(body.topic_config_serialize_wrapper.topic_config_table, expected)

    def test_group_tables(self) -> None:
        """SmartGo's name for the group table is read, RocketMQ's is written."""
        for name in (b"subscriptionGroupTable", b"tables"):
            read = SubscriptionGroupWrapper.decode(b'{"%s":{"g":{"retryMaxTimes":3}}}' % name)
            self.assertEqual(read.subscription_group_table, {"g": SubscriptionGroupConfig("g", retry_max_times=3)})
            self.assertIn(b'"subscriptionGroupTable":', read.encode())
        self.assertEqual(SubscriptionGroupWrapper.decode(b"{}").subscription_group_table, {})

    def test_offset_tables(self) -> None:
        """An offset table may have bare queue ids or SmartGo's name; ids are written quoted."""
        for raw in (b'{"offsetTable":{"T@g":{0:12}}}', b'{"offsets":{"T@g":{"0":12}}}'):
            read = ConsumerOffsetTable.decode(raw)
            self.assertEqual(read.offset_table, {"T@g": {0: 12}})
            self.assertEqual(read.encode(), b'{"offsetTable":{"T@g":{"0":12}}}')
        for key in (b"01", b"1.0", b"1e1", b" 1", b"2147483648", b"x"):
            self.assertRaises(BadBody, ConsumerOffsetTable.decode, b'{"offsetTable":{"T@g":{"%s":12}}}' % key)

    def test_unknown_members(self) -> None:
        """Members of newer releases are ignored."""
        read = DataVersion.decode(b'{"counter":1,"timestamp":2,"stateVersion":3,"more":{"x":[1]}}')
        self.assertEqual(read, DataVersion(2, 1, 3))

    def test_integers(self) -> None:
        """Integers are strict in bodies too: in range, no floats."""
        for value in ("1.0", "1e3", "9223372036854775808", '"1.0"', '"x"', "true", "[]", '""', "1" * 20):
            self.assertRaises(BadBody, DataVersion.decode, b'{"counter":%s}' % value.encode())
        self.assertEqual(DataVersion.decode(b'{"counter":"5"}').counter, 5)

    def test_doubles(self) -> None:
        """Doubles may be whole numbers or text, but are finite, and what is not is never written as NaN."""
        for value in (b"3", b"3.0", b'"3"', b"3e0"):
            self.assertEqual(ConsumeStats.decode(b'{"consumeTps":%s}' % value).consume_tps, 3.0)
        for value in (b'"NaN"', b'"inf"', b'"-Infinity"', b"NaN", b"1e999", b'""'):
            self.assertRaises(BadBody, ConsumeStats.decode, b'{"consumeTps":%s}' % value)
        for number in (float("nan"), float("inf")):
            self.assertEqual(json.loads(ConsumeStats(consume_tps=number).encode())["consumeTps"], None)


class RegistrationTests(SynchronousTestCase):
    """The compressed form of a registration."""

    def test_topics_alone(self) -> None:
        """A registry skips the rest of the body, whatever it is, as long as it is JSON."""
        wrapper = TopicConfigSerializeWrapper({"T": TopicConfig("T", 4, 5, 6)}, DataVersion(7, 8))
        data = RegisterBrokerBody(wrapper, ["f:1"]).encode()
        self.assertEqual(RegisteredTopics.decode(data), RegisteredTopics(wrapper))
        self.assertEqual(RegisteredTopics.decode(data.replace(b'["f:1"]', b"[1,{}]")), RegisteredTopics(wrapper))
        self.assertEqual(RegisteredTopics.decode(b"{}"), RegisteredTopics(TopicConfigSerializeWrapper()))
        self.assertRaises(BadBody, RegisteredTopics.decode, data.replace(b'["f:1"]', b"[f:1]"))

    def test_long_with_bare_keys(self) -> None:
        """
        A long one must be standard JSON, which RocketMQ writes here: quoting keys of a hostile one takes too long. A
        short one may have bare keys.
        """
        long = b'{"topicConfigSerializeWrapper":{},"other":{%s}}' % b",".join(b"%d:0" % one for one in range(50_000))
        self.assertGreater(len(long), BARE_KEYS)
        self.patch(fastjson, "quote_keys", None)
        self.assertRaises(BadBody, RegisterBrokerBody.decode, long)
        self.assertRaises(BadBody, RegisterBrokerBody.decode, b"{" * 1_000_000)
        self.assertRaises(BadBody, TopicConfigSerializeWrapper.decode, b"{" * 1_000_000)
        self.assertRaises(TypeError, RegisterBrokerBody.decode, long[:100])  # is to be quoted

    def body(self) -> RegisterBrokerBody:
        """Make a registration with some topics."""
        table = {name: TopicConfig(name, number, 2, 6) for number, name in enumerate(("T", "%RETRY%g", "x"))}
        table["x"].attributes = {"message.type": "DELAY"}
        return RegisterBrokerBody(TopicConfigSerializeWrapper(table, DataVersion(5, 6)), ["f:1"])

    def test_round_trip(self) -> None:
        """A registration is the same after the compressed form as after JSON."""
        body = self.body()
        for compressed in (False, True):
            self.assertEqual(RegisterBrokerBody.decode(body.encode(compressed), compressed), body)

    def test_layout(self) -> None:
        """The compressed form is a zlib stream of sized pieces: version, count, topics, filter servers."""
        body = RegisterBrokerBody(TopicConfigSerializeWrapper({"T": TopicConfig("T", 4, 5, 6)}, DataVersion(7, 8)))
        raw = zlib.decompress(body.encode(compressed=True))
        version = DataVersion(7, 8).encode()
        expected = (
            len(version).to_bytes(4, "big") + version + b"\0\0\0\1" + b"\0\0\0\x12T 4 5 6 SINGLE_TAG" + b"\0\0\0\2[]"
        )
        self.assertEqual(raw, expected)

    def test_more_sections(self) -> None:
        """Sections that 5.x appends are ignored."""
        raw = zlib.decompress(self.body().encode(compressed=True)) + b"\0\0\0\5hello"
        self.assertEqual(RegisterBrokerBody.decode(zlib.compress(raw), compressed=True), self.body())

    def test_every_cut(self) -> None:
        """Cut short anywhere, compressed or within, it is refused."""
        whole = self.body().encode(compressed=True)
        raw = zlib.decompress(whole)
        for cut in range(len(raw)):
            self.assertRaises(BadBody, RegisterBrokerBody.decode, zlib.compress(raw[:cut]), True)
        for cut in range(len(whole) - 5):
            self.assertRaises(BadBody, RegisterBrokerBody.decode, whole[:cut], True)

    def test_bomb(self) -> None:
        """A stream that would inflate past the limit is refused before it has."""
        bomb = zlib.compress(b"\0" * (INFLATED_LIMIT + 1))
        self.assertIn("limit", str(self.assertRaises(BadBody, RegisterBrokerBody.decode, bomb, True)))

    def test_bad_topics(self) -> None:
        """A topic with a missing or malformed part is refused."""
        head = b"\0\0\0\2{}" + b"\0\0\0\1"
        for text in (
            b"",
            b"T",
            b"T 1 2 6",
            b" 1 2 6 SINGLE_TAG",
            b"T x 2 6 SINGLE_TAG",
            b"T 1 2 6 S {",
            b"\xff 1 2 6 S",
        ):
            raw = zlib.compress(head + len(text).to_bytes(4, "big") + text + b"\0\0\0\2[]")
            self.assertRaises(BadBody, RegisterBrokerBody.decode, raw, True)
        self.assertRaises(BadBody, RegisterBrokerBody.decode, zlib.compress(b"\0\0\0\2{}\0\0\0\0\0\0\0\2{}"), True)
        self.assertRaises(BadBody, RegisterBrokerBody.decode, zlib.compress(b"\0\0\0\2{}\xff\xff\xff\xff"), True)
