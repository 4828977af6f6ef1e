"""Tests of smartgo.schema.headers and smartgo.schema.headerfields."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import msgspec
from twisted.trial.unittest import SynchronousTestCase

import smartgo.schema.headers
from smartgo.errors import BadHeader
from smartgo.schema import headerfields
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command, decode, encode
from smartgo.schema.headerfields import Header, from_fields, parse_bool, parse_int, to_fields
from smartgo.schema.headers import (
    admin,
    consumers,
    groups,
    ha,
    messages,
    offsets,
    pull,
    registry,
    send,
    topics,
    transaction,
)
from tests.schema.golden_wire import recorded

REQUESTS: dict[str, type[Header]] = {
    "ADD_WRITE_PERM_OF_BROKER": registry.AddWritePermRequest,
    "CHECK_TRANSACTION_STATE": transaction.CheckTransactionRequest,
    "CONSUMER_SEND_MSG_BACK": send.SendBackRequest,
    "CONSUME_MESSAGE_DIRECTLY": consumers.ConsumeDirectlyRequest,
    "DELETE_KV_CONFIG": registry.DeleteKVConfigRequest,
    "DELETE_SUBSCRIPTIONGROUP": groups.DeleteGroupRequest,
    "DELETE_TOPIC_IN_BROKER": topics.DeleteTopicRequest,
    "DELETE_TOPIC_IN_NAMESRV": registry.DeleteTopicRouteRequest,
    "END_TRANSACTION": transaction.EndTransactionRequest,
    "GET_BROKER_CONSUME_STATS": admin.BrokerConsumeStatsRequest,
    "GET_CONSUMER_CONNECTION_LIST": consumers.ConsumerConnectionRequest,
    "GET_CONSUMER_LIST_BY_GROUP": consumers.ConsumerListRequest,
    "GET_CONSUMER_RUNNING_INFO": consumers.RunningInfoRequest,
    "GET_CONSUMER_STATUS_FROM_CLIENT": consumers.ConsumerStatusRequest,
    "GET_CONSUME_STATS": groups.ConsumeStatsRequest,
    "GET_EARLIEST_MSG_STORETIME": offsets.EarliestStoreTimeRequest,
    "GET_KV_CONFIG": registry.GetKVConfigRequest,
    "GET_MAX_OFFSET": offsets.MaxOffsetRequest,
    "GET_MIN_OFFSET": offsets.MinOffsetRequest,
    "GET_PRODUCER_CONNECTION_LIST": consumers.ProducerConnectionRequest,
    "GET_ROUTEINFO_BY_TOPIC": registry.RouteInfoRequest,
    "GET_TOPIC_CONFIG": topics.TopicConfigRequest,
    "GET_TOPIC_STATS_INFO": topics.TopicStatsRequest,
    "INVOKE_BROKER_TO_GET_CONSUMER_STATUS": consumers.ConsumerStatusRequest,
    "INVOKE_BROKER_TO_RESET_OFFSET": consumers.ResetOffsetRequest,
    "LITE_PULL_MESSAGE": pull.PullRequest,
    "NOTIFY_CONSUMER_IDS_CHANGED": consumers.NotifyConsumerIdsChangedRequest,
    "PULL_MESSAGE": pull.PullRequest,
    "PUSH_REPLY_MESSAGE_TO_CLIENT": send.PushReplyRequest,
    "PUT_KV_CONFIG": registry.PutKVConfigRequest,
    "QUERY_CONSUMER_OFFSET": offsets.QueryOffsetRequest,
    "QUERY_CONSUME_QUEUE": messages.QueryConsumeQueueRequest,
    "QUERY_CONSUME_TIME_SPAN": consumers.ConsumeTimeSpanRequest,
    "QUERY_MESSAGE": messages.QueryMessageRequest,
    "QUERY_TOPIC_CONSUME_BY_WHO": topics.TopicConsumersRequest,
    "REGISTER_BROKER": registry.RegisterBrokerRequest,
    "RESET_CONSUMER_CLIENT_OFFSET": consumers.ResetOffsetRequest,
    "RESUME_CHECK_HALF_MESSAGE": messages.ResumeCheckRequest,
    "SEARCH_OFFSET_BY_TIMESTAMP": offsets.SearchOffsetRequest,
    "SEND_BATCH_MESSAGE": send.SendRequest,
    "SEND_MESSAGE_V2": send.SendRequest,
    "SEND_REPLY_MESSAGE_V2": send.SendRequest,
    "UNREGISTER_BROKER": registry.UnregisterBrokerRequest,
    "UNREGISTER_CLIENT": consumers.UnregisterClientRequest,
    "UPDATE_AND_CREATE_TOPIC": topics.CreateTopicRequest,
    "UPDATE_CONSUMER_OFFSET": offsets.UpdateOffsetRequest,
    "VIEW_BROKER_STATS_DATA": admin.BrokerStatsRequest,
    "VIEW_MESSAGE_BY_ID": messages.ViewMessageRequest,
    "WIPE_WRITE_PERM_OF_BROKER": registry.WipeWritePermRequest,
}

RESPONSES: dict[str, type[Header]] = {
    "ADD_WRITE_PERM_OF_BROKER": registry.AddWritePermResponse,
    "GET_BROKER_CONFIG": admin.BrokerConfigResponse,
    "GET_EARLIEST_MSG_STORETIME": offsets.StoreTimeResponse,
    "GET_KV_CONFIG": registry.GetKVConfigResponse,
    "GET_MAX_OFFSET": offsets.OffsetResponse,
    "GET_MIN_OFFSET": offsets.OffsetResponse,
    "PULL_MESSAGE": pull.PullResponse,
    "QUERY_CONSUMER_OFFSET": offsets.OffsetResponse,
    "QUERY_MESSAGE": messages.QueryMessageResponse,
    "REGISTER_BROKER": registry.RegisterBrokerResponse,
    "SEARCH_OFFSET_BY_TIMESTAMP": offsets.OffsetResponse,
    "SEND_BATCH_MESSAGE": send.SendResponse,
    "SEND_MESSAGE_V2": send.SendResponse,
    "SEND_REPLY_MESSAGE_V2": send.SendResponse,
    "WIPE_WRITE_PERM_OF_BROKER": registry.WipeWritePermResponse,
}


def header_types() -> list[type[Header]]:
    """List every header class of the package."""
    found = []
    for module in pkgutil.iter_modules(smartgo.schema.headers.__path__):
        for value in vars(importlib.import_module(f"smartgo.schema.headers.{module.name}")).values():
            if isinstance(value, type) and issubclass(value, Header) and value is not Header:
                found.append(value)
    return found


class RecordedHeadersTests(SynchronousTestCase):
    """The header classes against what official clients and servers say."""

    def test_requests(self) -> None:
        """Every recorded request's ext fields are read by its class, all of them, and written as they came."""
        for each in recorded():
            if each.about["kind"] == "response" or not each.header.get("extFields"):
                continue
            fields = {name: text for name, text in each.header["extFields"].items() if name != "ReqT"}
            if not fields:
                continue
            header = decode(each.frame).read(REQUESTS[each.about["code_name"]])
            written = to_fields(header)
            for name, text in each.header["extFields"].items():
                self.assertEqual(written.pop(name), text, (each.about, name))
            # What was not there may be written with the default that its absence means.
            self.assertLessEqual(set(written.values()), {"false", "0", ""})

    def test_responses(self) -> None:
        """So are those of every recorded answer."""
        for each in recorded():
            if each.about["kind"] == "response" and each.header.get("extFields"):
                header = decode(each.frame).read(RESPONSES[each.about["reply_to"]])
                self.assertEqual(to_fields(header), each.header["extFields"])


class EveryClassTests(SynchronousTestCase):
    """Rules for all header classes."""

    def test_round_trip(self) -> None:
        """A header with every field set is read back from what is written."""
        kinds: dict[str, Any] = {"text": "t", "boolean": True, "int32": -(2**31), "int64": 2**63 - 1}
        types = header_types()
        self.assertGreater(len(types), 60)
        for header_type in types:
            plan = headerfields._plan(header_type)
            header = header_type(**{each.attribute: kinds[each.kind] for each in plan})
            fields = to_fields(header)
            self.assertEqual(len(fields), len(plan), header_type)
            self.assertEqual(from_fields(fields, header_type), header)
            self.assertEqual(from_fields(fields | {"unknown": "x"}, header_type), header)

    def test_required(self) -> None:
        """Without a required field the class is refused, with the field's name; without the others it is read."""
        kinds = {"text": "t", "boolean": "true", "int32": "1", "int64": "1"}
        for header_type in header_types():
            plan = headerfields._plan(header_type)
            required = {each.name: kinds[each.kind] for each in plan if each.required}
            from_fields(required, header_type)
            for name in required:
                fields = {other: text for other, text in required.items() if other != name}
                error = self.assertRaises(BadHeader, from_fields, fields, header_type)
                self.assertEqual(str(error), f"the custom field <{name}> is null")

    def test_ranges(self) -> None:
        """Every number is held to its range and to plain digits, every boolean to Java's reading."""
        kinds = {"text": "t", "boolean": "true", "int32": "1", "int64": "1"}
        ranges = {"int32": 2**31, "int64": 2**63}
        for header_type in header_types():
            plan = headerfields._plan(header_type)
            fields = {each.name: kinds[each.kind] for each in plan}
            for each in plan:
                if each.kind == "boolean":
                    for text, truth in (("TRUE", True), ("1", False), ("yes", False)):
                        header = from_fields(fields | {each.name: text}, header_type)
                        self.assertIs(getattr(header, each.attribute), truth)
                elif each.kind != "text":
                    limit = ranges[each.kind]
                    for value in (limit - 1, -limit):
                        header = from_fields(fields | {each.name: str(value)}, header_type)
                        self.assertEqual(getattr(header, each.attribute), value)
                    for text in (
                        str(limit),
                        str(-limit - 1),
                        "1.0",
                        "1e3",
                        "+1",
                        " 1",
                        "1_0",
                        "\u0661",
                        "",
                        "0x1",
                        "inf",
                        "NaN",
                    ):
                        error = self.assertRaises(BadHeader, from_fields, fields | {each.name: text}, header_type)
                        self.assertIn(f"<{each.name}>", str(error))

    def test_null(self) -> None:
        """The text null is no number where one is required, and absent where one is not."""
        self.assertRaises(BadHeader, from_fields, {"offset": "null"}, messages.ViewMessageRequest)
        for more in ({}, {"unknown": "", "count": "007"}):
            header = from_fields({"queueId": "null", "index": "NULL", **more}, messages.QueryConsumeQueueRequest)
            self.assertEqual((header.queue_id, header.index), (0, 0))

    def test_mutable(self) -> None:
        """Headers are values that may be changed and compared."""
        for header_type in header_types():
            config = header_type.__struct_config__
            self.assertTrue(config.eq)
            self.assertFalse(config.frozen)


class TailTests(SynchronousTestCase):
    """The question of a slave before it follows."""

    def test_wire(self) -> None:
        """A range is asked about, and bounds and checksum are answered; no checksum where not all of it is there."""
        asked = Command.request(RequestCode.GET_LOG_TAIL, ha.TailRequest(1 << 40, (1 << 40) + 65536))
        heard = decode(encode(asked)[4:])
        self.assertEqual(heard.fields, {"begin": "1099511627776", "end": "1099511693312"})
        for answer in (ha.TailAnswer(5, 1 << 41, 0xFFFFFFFF), ha.TailAnswer(5, 1 << 41, 0), ha.TailAnswer(5, 7)):
            told = decode(encode(heard.answer(header=answer))[4:])
            self.assertEqual(told.read(ha.TailAnswer), answer)
            self.assertEqual("crc32" in told.fields, answer.crc is not None)


class ScalarTests(SynchronousTestCase):
    """Single ext field values."""

    def test_parse_int(self) -> None:
        """Numbers are ASCII digits perhaps after a minus, within their range; the error is short."""
        self.assertEqual([parse_int(text, "n") for text in ("0", "-1", "0007", "2147483647")], [0, -1, 7, 2**31 - 1])
        self.assertEqual(parse_int("-9223372036854775808", "n", "int64"), -(2**63))
        for text in ("2147483648", "1" * 20, "9" * 10**6, "--1", "1-", "\uff11", "1\n"):
            error = self.assertRaises(BadHeader, parse_int, text, "n")
            self.assertLess(len(str(error)), 120)
            self.assertIn("<n>", str(error))

    def test_parse_bool(self) -> None:
        """Booleans are the word true in any case."""
        self.assertEqual(
            [parse_bool(text) for text in ("true", "True", "false", "1", "", "yes")], [True, True] + [False] * 4
        )

    def test_defaults(self) -> None:
        """What is C{None} is not written."""
        self.assertEqual(to_fields(registry.RegisterBrokerResponse()), {})
        self.assertEqual(to_fields(messages.ViewMessageRequest(5)), {"offset": "5"})

    def test_enums(self) -> None:
        """An enum member for a number is written as its number."""
        self.assertEqual(to_fields(messages.ViewMessageRequest(RequestCode.PULL_MESSAGE)), {"offset": "11"})

    def test_strict_types(self) -> None:
        """The integer types refuse what msgspec's lax mode would round, and take what it takes rightly."""
        kind: type[int] = headerfields.Int32
        for text in ("1.0", "1e3", "1.5", "-0.0", "1E+2", "inf", "-Infinity", "nan", "1e400", 1.0, 1e3):
            self.assertRaises(msgspec.ValidationError, msgspec.convert, text, kind, strict=False)
            raw = msgspec.json.encode(text)
            self.assertRaises(msgspec.ValidationError, msgspec.json.decode, raw, type=kind, strict=False)
        self.assertEqual(msgspec.convert("-0", kind, strict=False), 0)
