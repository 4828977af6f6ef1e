"""Tests of L{smartgo.registry.requests}: by hand, and against what was recorded of RocketMQ 4.9.7."""

from __future__ import annotations

import errno
import json
import lzma
import os
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import capturedLogs, formatEvent
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.config.settings import RegistryConfig
from smartgo.errors import (
    BadBody,
    BadHeader,
    BadName,
    CodeNotSupported,
    NoPermission,
    QueryNotFound,
    RequestRefused,
    TopicNotExist,
)
from smartgo.registry.livebrokers import MASTER_WAIT
from smartgo.registry.service import RegistryService
from smartgo.remoting.interfaces import IConnectionListener, IRequestProcessor
from smartgo.schema import fastjson
from smartgo.schema.bodies import ClusterInfo, DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper
from smartgo.schema.command import Command, decode
from tests.fakes import FakeEnvironment
from tests.registry.peers import FakePeer, received

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "golden", "registry", "exchanges.jsonl.xz")
KV_PATH = "/home/namesrv/kvConfig.json"
A1, A2 = "10.0.0.1:10911", "10.0.0.2:10911"
BROKER = {
    "brokerName": "broker-a",
    "brokerAddr": A1,
    "clusterName": "C",
    "haServerAddr": "10.0.0.1:10912",
    "brokerId": "0",
}


def wrapper(*names: str, counter: int = 1, **more: Any) -> TopicConfigSerializeWrapper:
    """A broker's topic table."""
    table = {name: TopicConfig(topic_name=name, read_queue_nums=4, write_queue_nums=4, **more) for name in names}
    return TopicConfigSerializeWrapper(table, DataVersion(timestamp=1700000000000, counter=counter))


def registration(*names: str, counter: int = 1, **more: Any) -> bytes:
    """The body of a registration."""
    return RegisterBrokerBody(wrapper(*names, counter=counter, **more)).encode()


class RegistryTests(SynchronousTestCase):
    """A registry that is asked one request after another."""

    remote_config = False

    def setUp(self) -> None:
        """An empty registry, and one connection to it."""
        self.env = FakeEnvironment()
        self.service = RegistryService(
            self.env, RegistryConfig(kv_config_path=KV_PATH, admin_allow=("10.0.0.0/24",)), self.remote_config
        )
        self.service.load()
        self.peer = FakePeer()

    def answer_to(self, request: Command) -> Command:
        """What the processor answers, at once or by a Deferred."""
        answer = self.service.processor.process(self.peer, request)
        if isinstance(answer, Deferred):
            answer = self.successResultOf(answer)
        assert isinstance(answer, Command)
        self.assertEqual((answer.opaque, answer.is_response), (request.opaque, True))
        return answer

    def ask(
        self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", version: int = 409
    ) -> tuple[dict[str, str], bytes]:
        """Ext fields and body of a good answer."""
        answer = self.answer_to(received(code, fields, body, version))
        self.assertEqual(answer.code, 0)
        return answer.fields, answer.body

    def ask_json(self, code: int, fields: Mapping[str, str] | None = None) -> Any:
        """The body of a good answer, by a strict parser."""
        return json.loads(self.ask(code, fields)[1])

    def register(
        self, *names: str, counter: int = 1, more: Mapping[str, str] | None = None, **topic: Any
    ) -> dict[str, str]:
        """Register the broker with these topics; its answer's fields."""
        return self.ask(103, {**BROKER, **(more or {})}, registration(*names, counter=counter, **topic))[0]

    def refused(
        self, kind: type[RequestRefused], code: int, fields: Mapping[str, str] | None = None, body: bytes = b""
    ) -> str:
        """The remark with which a request is refused."""
        return str(self.assertRaises(kind, self.service.processor.process, self.peer, received(code, fields, body)))


class InterfaceTests(RegistryTests):
    """What a server needs of a registry."""

    def test_interfaces(self) -> None:
        """Processor and listener provide their interfaces."""
        verifyObject(IRequestProcessor, self.service.processor)
        verifyObject(IConnectionListener, self.service.listener)
        self.assertFalse(self.service.processor.refuses())

    def test_codes(self) -> None:
        """Every code of the registry in RocketMQ 4.9 is answered, and SmartGo's questions by value."""
        expected = {100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 219, 224, 304, 311, 312, 313, 318, 319, 322, 327}
        self.assertEqual(self.service.processor.codes, expected | {217, 218})

    def test_binary_encoding(self) -> None:
        """An answer has the encoding of its request."""
        self.register("T")
        request = received(105, {"topic": "T"})
        request.encoding = 1
        self.assertEqual(self.answer_to(request).encoding, 1)


class RegisterTests(RegistryTests):
    """103, 104, 322."""

    def test_master(self) -> None:
        """A master's registration is answered without fields and body."""
        self.assertEqual(self.ask(103, BROKER, registration("T")), ({}, b""))

    def test_slave(self) -> None:
        """A slave is told its master and where to replicate from."""
        self.register("T")
        fields = self.register(more={"brokerId": "1", "brokerAddr": A2})
        self.assertEqual(fields, {"masterAddr": A1, "haServerAddr": "10.0.0.1:10912"})

    def test_order_topics(self) -> None:
        """The answer's body is the namespace of order topics, empty or not, once there is one."""
        self.ask(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"})
        self.assertEqual(self.ask(103, BROKER, registration("T"))[1], b'{"table":{"T":"broker-a:4"}}')
        self.ask(102, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T"})
        self.assertEqual(self.ask(103, BROKER, registration("T"))[1], b'{"table":{}}')

    def test_crc(self) -> None:
        """A body that does not match its CRC is refused; 0 and absence mean unchecked."""
        body = registration("T")
        crc = zlib.crc32(body) & 0x7FFFFFFF
        self.ask(103, {**BROKER, "bodyCrc32": str(crc)}, body)
        self.ask(103, {**BROKER, "bodyCrc32": "0"}, body)
        remark = self.refused(RequestRefused, 103, {**BROKER, "bodyCrc32": str(crc ^ 1)}, body)
        self.assertEqual(remark, "crc32 not match")

    def test_crc_without_sign(self) -> None:
        """The CRC is compared without its sign bit."""
        number = next(n for n in range(64) if zlib.crc32(registration("T", counter=n)) >> 31)
        body = registration("T", counter=number)
        self.ask(103, {**BROKER, "bodyCrc32": str(zlib.crc32(body) & 0x7FFFFFFF)}, body)
        self.refused(RequestRefused, 103, {**BROKER, "bodyCrc32": str(zlib.crc32(body) - (1 << 32))}, body)

    def test_compressed(self) -> None:
        """The compressed form is understood where the header says so, with what 5.x appends to a topic."""
        config = TopicConfig(topic_name="T", read_queue_nums=3, perm=4, attributes={"+message.type": "NORMAL"})
        body = RegisterBrokerBody(TopicConfigSerializeWrapper({"T": config})).encode(compressed=True)
        self.ask(103, {**BROKER, "compressed": "true"}, body)
        [queue] = self.ask_json(105, {"topic": "T"})["queueDatas"]
        self.assertEqual((queue["readQueueNums"], queue["writeQueueNums"], queue["perm"]), (3, 16, 4))
        self.refused(BadBody, 103, BROKER, body)
        self.refused(BadBody, 103, {**BROKER, "compressed": "true"}, registration("T"))

    def test_old_form(self) -> None:
        """Below version 37 the body is the plain topic table, as SmartGo sends it too."""
        self.ask(103, BROKER, wrapper("T").encode(), version=36)
        self.assertEqual(self.ask_json(206)["topicList"], ["T"])
        config = b'{"topicConfigTable":{"topicConfigs":{"U":{"topicFilterType":0}}},"dataVersion":{"counter":9}}'
        self.ask(103, BROKER, config, version=1)
        self.assertEqual(self.ask_json(206)["topicList"], ["T", "U"])
        self.ask(103, BROKER, registration("V", counter=10), version=37)
        self.assertEqual(self.ask_json(206)["topicList"], ["T", "U", "V"])

    def test_no_body(self) -> None:
        """Without a body the table is empty and its version 0."""
        self.ask(103, BROKER)
        body = self.ask(322, BROKER, b'{"counter":0,"timestamp":0}')
        self.assertEqual(body, ({"changed": "false"}, b'{"timestamp":0,"counter":0}'))

    def test_bad_body(self) -> None:
        """A body that cannot be read is refused and registers nothing."""
        for body in (b"{", b"[]", b"\xff", b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":1}}}'):
            self.refused(BadBody, 103, BROKER, body)
        self.assertEqual(self.ask_json(106)["brokerAddrTable"], {})

    def test_bad_header(self) -> None:
        """A field that is missing or malformed is named."""
        for name in BROKER:
            remark = self.refused(BadHeader, 103, {key: BROKER[key] for key in BROKER if key != name})
            self.assertIn(name, remark)
        self.assertIn("brokerId", self.refused(BadHeader, 103, {**BROKER, "brokerId": "x"}))

    def test_rival(self) -> None:
        """A second master of the name is refused with its reason (reliability H6)."""
        self.register("T")
        answer = self.answer_to(received(103, {**BROKER, "brokerAddr": A2}))
        self.assertIn("is the master of broker broker-a", answer.remark or "")
        self.assertEqual((answer.code, answer.fields), (1, {"smartgoNameTaken": BROKER["brokerAddr"]}))
        self.assertEqual(json.loads(self.ask(106, {})[1])["contenders"], {"broker-a": [A2]})
        self.env.clock.advance(100)
        self.assertNotIn("contenders", json.loads(self.ask(106, {})[1]))

    def test_stopped(self) -> None:
        """One that has unregistered is named, with its time, until it registers again; one that broke off is not."""
        self.register("T")
        self.ask(104, {**BROKER, "brokerAddr": A2})
        self.assertNotIn("unregistered", json.loads(self.ask(106, {})[1]))
        self.ask(104, BROKER)
        now = self.env.clock.wall_ms()
        self.env.clock.advance(100)
        self.assertEqual(json.loads(self.ask(106, {})[1])["unregistered"], {"broker-a": {"0": now}})
        self.assertEqual(ClusterInfo.decode(self.ask(106, {})[1]).unregistered, {"broker-a": {0: now}})
        self.register("T")
        self.assertNotIn("unregistered", json.loads(self.ask(106, {})[1]))

    def test_unregister(self) -> None:
        """A farewell removes the broker; one of a stranger is answered alike and removes nothing."""
        self.register("T")
        self.assertEqual(self.ask(104, {**BROKER, "brokerAddr": A2}), ({}, b""))
        self.assertEqual(self.ask_json(206)["topicList"], ["T"])
        self.assertEqual(self.ask(104, BROKER), ({}, b""))
        self.assertEqual(self.ask_json(206)["topicList"], [])

    def test_data_version(self) -> None:
        """322 tells whether a registration is needed, with the version that is known; unknown means changed."""
        same, other = b'{"counter":1,"timestamp":1700000000000}', b'{"counter":2,"timestamp":1700000000000}'
        self.assertEqual(self.ask(322, BROKER, same), ({"changed": "true"}, b""))
        self.register("T")
        fields, body = self.ask(322, BROKER, same)
        self.assertEqual((fields, json.loads(body)), ({"changed": "false"}, json.loads(same)))
        fields, body = self.ask(322, BROKER, other)
        self.assertEqual((fields, json.loads(body)), ({"changed": "true"}, json.loads(same)))
        self.refused(BadBody, 322, BROKER)

    def test_data_version_keeps_alive(self) -> None:
        """An unchanged version counts as a sign of life, a changed one does not."""
        self.register("T")
        self.env.clock.advance(100)
        self.ask(322, BROKER, b'{"counter":2,"timestamp":1}')
        self.assertEqual(self.service.routes.brokers()[0].age, 100)
        self.ask(322, BROKER, b'{"counter":1,"timestamp":1700000000000}')
        self.assertEqual(self.service.routes.brokers()[0].age, 0)

    def test_repeated(self) -> None:
        """A registration like the last one is a sign of life, and its topics are not even read."""
        self.register("T")
        self.env.clock.advance(100)
        self.patch(RegisterBrokerBody, "decode", None)
        self.peer.alive = False
        self.peer = FakePeer("10.0.0.1:50001")
        self.register("T")
        self.assertEqual(self.service.routes.brokers()[0].age, 0)
        self.assertEqual(len(self.service.routes.channel_gone(self.peer)), 1)

    def test_slave_stands_in(self) -> None:
        """The topics of a repetition are read, and 322 asks for them, once a slave's name had no master for long."""
        same, slave = b'{"counter":1,"timestamp":1700000000000}', {**BROKER, "brokerId": "1"}
        self.ask(103, slave, registration("T"))
        self.assertEqual(self.ask(322, slave, same)[0], {"changed": "false"})
        self.env.clock.advance(MASTER_WAIT)
        self.assertEqual(self.ask(322, slave, same)[0], {"changed": "true"})
        self.ask(103, slave, registration("T"))
        self.assertEqual(self.ask_json(206)["topicList"], ["T"])
        self.assertEqual(self.ask(322, slave, same)[0], {"changed": "false"})
        self.patch(RegisterBrokerBody, "decode", None)
        self.ask(103, slave, registration("T"))

    def test_hardly_repeated(self) -> None:
        """The same body in another form, under another id or after an end of the connection is read."""
        body = registration("T")
        self.ask(103, {**BROKER, "brokerId": "1"}, body)
        self.assertEqual(self.ask_json(206)["topicList"], [])
        self.ask(103, BROKER, body)
        self.assertEqual(self.ask_json(206)["topicList"], ["T"])
        self.refused(BadBody, 103, {**BROKER, "compressed": "true"}, body)
        self.service.listener.closed(self.peer)
        self.ask(103, BROKER, body)
        self.assertEqual(self.ask_json(206)["topicList"], ["T"])

    def test_new_ha_address(self) -> None:
        """A changed HA address is told to slaves although no topic changed."""
        self.register("T")
        self.register("T", more={"haServerAddr": "10.0.0.1:1"})
        self.assertEqual(self.register(more={"brokerId": "1", "brokerAddr": A2})["haServerAddr"], "10.0.0.1:1")
        self.refused(BadName, 103, {**BROKER, "haServerAddr": "nowhere"}, registration("T"))

    def test_logged(self) -> None:
        """Coming and going of a broker is logged, its heartbeats are not."""
        with capturedLogs() as events:
            self.register("T")
            self.register("T")
            self.service.listener.closed(self.peer)
            self.service.listener.closed(self.peer)
        self.assertEqual([event["log_format"].partition(" ")[0] for event in events], ["broker", "broker"])


class RouteTests(RegistryTests):
    """105 and 106."""

    def test_route(self) -> None:
        """A route is compact JSON with quoted keys and no nulls, whatever the client's version."""
        self.register("T")
        self.register(more={"brokerId": "1", "brokerAddr": A2})
        expected = {
            "brokerDatas": [{"brokerAddrs": {"0": A1, "1": A2}, "brokerName": "broker-a", "cluster": "C"}],
            "filterServerTable": {},
            "queueDatas": [
                {"brokerName": "broker-a", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 4}
            ],
        }
        for version in (1, 317, 409, 479):
            body = self.ask(105, {"topic": "T"}, version=version)[1]
            self.assertEqual(json.loads(body), expected)
            self.assertNotIn(b" ", body)
            self.assertNotIn(b"null", body)

    def test_no_route(self) -> None:
        """An unknown topic is refused with 17 and RocketMQ's words; one whose broker left likewise."""
        remark = self.refused(TopicNotExist, 105, {"topic": "Nope"})
        self.assertEqual(
            remark,
            "No topic route info in name server for the topic: Nope"
            "\nSee http://rocketmq.apache.org/docs/faq/ for further details.",
        )
        self.assertEqual(TopicNotExist.code, 17)
        self.register("T")
        self.service.listener.closed(self.peer)
        self.refused(TopicNotExist, 105, {"topic": "T"})
        self.assertIn("topic", self.refused(BadHeader, 105))

    def test_order(self) -> None:
        """The queue order of an order topic goes along where that is switched on, and only if there is one."""
        self.register("T", "U")
        self.ask(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "broker-a:4"})
        self.assertNotIn("orderTopicConf", self.ask_json(105, {"topic": "T"}))
        self.service.processor.config = RegistryConfig(kv_config_path=KV_PATH, order_message_enable=True)
        self.assertEqual(self.ask_json(105, {"topic": "T"})["orderTopicConf"], "broker-a:4")
        self.assertNotIn("orderTopicConf", self.ask_json(105, {"topic": "U"}))

    def test_cluster_info(self) -> None:
        """Brokers by name, names by cluster."""
        self.register("T")
        self.assertEqual(
            self.ask_json(106),
            {
                "brokerAddrTable": {"broker-a": {"brokerAddrs": {"0": A1}, "brokerName": "broker-a", "cluster": "C"}},
                "clusterAddrTable": {"C": ["broker-a"]},
            },
        )


class AdvertisedTests(RegistryTests):
    """Which address of a broker is told to whom."""

    ADVERTISED = "10.0.0.0/8=10.0.0.1:1;192.0.2.0/24=192.0.2.1:2;@10.0.0.98=here:3"

    def told(self, ip: str, at: str = "10.0.0.99") -> dict[str, str]:
        """The broker's addresses in a route and in the view of the cluster, as one who asks is told."""
        self.peer = FakePeer(f"{ip}:50000", at)
        route = self.ask_json(105, {"topic": "T"})["brokerDatas"][0]["brokerAddrs"]
        self.assertEqual(self.ask_json(106)["brokerAddrTable"]["broker-a"]["brokerAddrs"], route)
        return dict(route)

    def test_by_asker(self) -> None:
        """By the asker's address or the one he asked at; who fits nowhere is told the usual one, as all others are."""
        self.register("T", more={"smartgoAdvertised": self.ADVERTISED})
        self.assertEqual(self.told("10.1.2.3"), {"0": "10.0.0.1:1"})
        self.assertEqual(self.told("192.0.2.77"), {"0": "192.0.2.1:2"})
        self.assertEqual(self.told("192.0.2.77", "10.0.0.98"), {"0": "here:3"})
        self.assertEqual(self.told("203.0.113.9"), {"0": A1})
        self.assertEqual(self.told("[2001:db8::1]"), {"0": A1})
        route = self.service.routes.route("T")
        assert route is not None
        self.assertEqual(route.broker_datas[0].broker_addrs, {0: A1})

    def test_each_its_own(self) -> None:
        """Master and slave advertise each their own; a slave is told its master's address as anybody else."""
        self.register("T", more={"smartgoAdvertised": "10.0.0.0/8=master:1"})
        fields = self.register(more={"brokerId": "1", "brokerAddr": A2, "smartgoAdvertised": "192.0.2.0/24=slave:2"})
        self.assertEqual(fields["masterAddr"], "master:1")
        self.assertEqual(self.told("10.9.9.9"), {"0": "master:1", "1": A2})
        self.assertEqual(self.told("192.0.2.9"), {"0": A1, "1": "slave:2"})

    def test_slaves(self) -> None:
        """A slave is told where to replicate from by where it asks; who fits nowhere, the usual place."""
        self.register("T", more={"smartgoAdvertisedHa": "10.0.0.0/8=replica:1;@10.0.0.98=there:2"})

        def told(ip: str, at: str = "10.0.0.99") -> tuple[str, str]:
            master, self.peer = self.peer, FakePeer(f"{ip}:50000", at)
            fields = self.register(more={"brokerId": "1", "brokerAddr": A2})
            self.service.listener.closed(self.peer)
            self.peer = master
            return fields["masterAddr"], fields["haServerAddr"]

        self.assertEqual(told("10.1.2.3"), (A1, "replica:1"))
        self.assertEqual(told("10.1.2.3", "10.0.0.98"), (A1, "there:2"))
        self.assertEqual(told("192.0.2.1"), (A1, BROKER["haServerAddr"]))
        self.register("T", more={"smartgoAdvertisedHa": "0.0.0.0/0=moved:3"})
        self.assertEqual(told("192.0.2.1"), (A1, "moved:3"))
        self.assertNotIn("haServerAddr", self.register("T"))
        self.assertEqual(self.told("10.1.2.3")["0"], A1)

    def test_changed(self) -> None:
        """A list that is changed counts from the next registration on, though nothing else is new."""
        broker = self.peer
        for address in ("one:1", "two:2"):
            for _ in range(2):
                self.peer = broker
                self.register("T", more={"smartgoAdvertised": f"0.0.0.0/0={address}"})
                self.assertEqual(self.told("10.1.2.3"), {"0": address})
        self.peer = broker
        self.register("T")
        self.assertEqual(self.told("10.1.2.3"), {"0": A1})

    def test_refused(self) -> None:
        """A list that cannot be read is refused with what is wrong with it, and nothing is registered."""
        for name in "smartgoAdvertised", "smartgoAdvertisedHa":
            fields = {**BROKER, name: "eth0=h:1"}
            self.assertIn("eth0 is not a network", self.refused(BadName, 103, fields, registration("T")))
        self.assertEqual(self.service.routes.brokers(), [])

    def test_farewell(self) -> None:
        """A broker leaves by its usual address."""
        self.register("T", more={"smartgoAdvertised": self.ADVERTISED})
        self.ask(104, BROKER)
        self.assertEqual(self.service.routes.brokers(), [])


class AdministrationTests(RegistryTests):
    """What tools ask."""

    def test_permissions(self) -> None:
        """205 and 327 tell how many topics they touched, of an unknown broker 0."""
        self.register("T", "U", perm=7)
        self.assertEqual(self.ask(205, {"brokerName": "broker-a"}), ({"wipeTopicCount": "2"}, b""))
        self.assertEqual(self.ask_json(105, {"topic": "T"})["queueDatas"][0]["perm"], 5)
        self.assertEqual(self.ask(327, {"brokerName": "broker-a"}), ({"addTopicCount": "2"}, b""))
        self.assertEqual(self.ask_json(105, {"topic": "T"})["queueDatas"][0]["perm"], 6)
        self.assertEqual(self.ask(205, {"brokerName": "x"})[0], {"wipeTopicCount": "0"})

    def test_topic_lists(self) -> None:
        """206, 224, 304 and 311 to 313 list topics; only 304 tells an address."""
        self.assertEqual(self.ask_json(206), {"topicList": []})
        self.assertEqual(self.ask_json(304), {"topicList": []})
        self.register("T", topic_sys_flag=1)
        self.register("U", counter=2, topic_sys_flag=2)
        self.assertEqual(self.ask_json(206), {"topicList": ["T", "U"]})
        self.assertEqual(self.ask_json(224, {"cluster": "C"}), {"topicList": ["T", "U"]})
        self.assertEqual(self.ask_json(224, {"cluster": "D"}), {"topicList": []})
        self.assertEqual(self.ask_json(304), {"topicList": ["C", "broker-a"], "brokerAddr": A1})
        self.assertEqual([self.ask_json(code)["topicList"] for code in (311, 312, 313)], [["T"], ["U"], ["U"]])

    def test_delete_topic(self) -> None:
        """216 removes a topic, of one cluster where named; an empty name means all."""
        self.register("T", "U")
        self.ask(216, {"topic": "T", "clusterName": "D"})
        self.assertEqual(self.ask_json(206)["topicList"], ["T", "U"])
        self.ask(216, {"topic": "T", "clusterName": "C"})
        self.ask(216, {"topic": "U", "clusterName": ""})
        self.assertEqual(self.ask_json(206)["topicList"], [])

    def test_log_lines(self) -> None:
        """Names that nobody checked appear in the log on one line, escaped and cut (reliability B9)."""
        name = "x\n\x1b[31m" + "y" * 1000
        with capturedLogs() as events:
            self.ask(205, {"brokerName": name})
            self.ask(327, {"brokerName": name})
        self.assertEqual(len(events), 2)
        for event in events:
            text = formatEvent(event)
            self.assertIn("x\\n\\x1b[31my", text)
            self.assertNotIn("\n", text)
            self.assertLess(len(text), 400)

    def test_values(self) -> None:
        """100 to 102 and 219 keep values; what is not there is 22 in RocketMQ's words."""
        self.assertEqual(
            self.refused(QueryNotFound, 101, {"namespace": "N", "key": "K"}), "No config item, Namespace: N Key: K"
        )
        self.assertEqual(self.refused(QueryNotFound, 219, {"namespace": "N"}), "No config item, Namespace: N")
        self.assertEqual(self.ask(100, {"namespace": "N", "key": "K", "value": "v"}), ({}, b""))
        self.assertEqual(self.ask(101, {"namespace": "N", "key": "K"}), ({"value": "v"}, b""))
        self.assertEqual(self.ask(219, {"namespace": "N"})[1], b'{"table":{"K":"v"}}')
        self.assertEqual(self.ask(102, {"namespace": "N", "key": "K"}), ({}, b""))
        self.assertEqual(self.ask(219, {"namespace": "N"})[1], b'{"table":{}}')
        self.assertIn("value", self.refused(BadHeader, 100, {"namespace": "N", "key": "K"}))

    def test_by_value(self) -> None:
        """217 tells which keys have a value, 218 removes them; 217 of 5.x, about a topic, is answered 3."""
        for key, value in (("a", "v"), ("b", "w"), ("c", "v")):
            self.ask(100, {"namespace": "N", "key": key, "value": value})
        asked = {"namespace": "N", "key": "v"}
        self.assertEqual(self.ask(217, asked), ({"value": "a;c"}, b""))
        self.ask(218, asked)
        self.assertEqual(self.refused(QueryNotFound, 217, asked), "No config item, Namespace: N Value: v")
        self.assertEqual(self.ask(101, {"namespace": "N", "key": "b"})[0], {"value": "w"})
        self.refused(QueryNotFound, 217, {"namespace": "M", "key": "v"})
        self.assertEqual(self.refused(CodeNotSupported, 217, {"topic": "T"}), " request type 217 not supported")

    def test_answered_when_saved(self) -> None:
        """A value is answered when it is safe on disk; when it is not, the answer says so."""
        self.env.threads.held.add("tables")
        request = received(100, {"namespace": "N", "key": "K", "value": "v"})
        answer = self.service.processor.process(self.peer, request)
        assert isinstance(answer, Deferred)
        self.assertNoResult(answer)
        self.env.threads.release("tables")
        saved = self.successResultOf(answer)
        assert isinstance(saved, Command)
        self.assertEqual(saved.code, 0)
        self.env.files.fail[KV_PATH] = errno.ENOSPC
        answer = self.service.processor.process(self.peer, request)
        assert isinstance(answer, Deferred)
        self.env.threads.release("tables")
        self.assertIn("lost with the next restart", str(self.failureResultOf(answer, RequestRefused).value))

    def test_get_config(self) -> None:
        """319 tells the settings in RocketMQ's names and units, a line each."""
        lines = self.ask(319)[1].decode().splitlines()
        for line in ("listenPort=9876", "serverChannelMaxIdleTimeSeconds=120", "orderMessageEnable=false"):
            self.assertIn(line, lines)
        self.assertIn(f"kvConfigPath={KV_PATH}", lines)

    def test_no_remote_config(self) -> None:
        """318 is refused with 16 where nobody has to say who he is (reliability X7)."""
        self.refused(NoPermission, 318, body=b"orderMessageEnable=true\n")
        self.assertEqual(NoPermission.code, 16)
        self.assertFalse(self.service.processor.config.order_message_enable)


class RemoteConfigTests(RegistryTests):
    """318 where access control is on."""

    remote_config = True

    def test_allowed(self) -> None:
        """A setting of the allow-list is changed, in effect at once, and noted with who, from where, old and new."""
        with capturedLogs() as events:
            self.assertEqual(self.ask(318, body=b"orderMessageEnable=true\n"), ({}, b""))
        self.assertTrue(self.service.processor.config.order_message_enable)
        [event] = [event for event in events if "old" in event]
        self.assertEqual(
            (event["peer"], event["name"], event["old"], event["new"]),
            ("10.0.0.1:50000", "orderMessageEnable", "false", "true"),
        )

    def test_not_allowed(self) -> None:
        """Paths, ports, addresses and whatever is unknown are refused with 16, and nothing of the request is done."""
        for name in ("kvConfigPath", "listenPort", "bindAddress", "allowInsecure", "rocketmqHome", "nonsense"):
            body = f"orderMessageEnable=true\n{name}=1\n".encode()
            self.assertIn(name, self.refused(NoPermission, 318, body=body))
        self.assertFalse(self.service.processor.config.order_message_enable)

    def test_bad_value(self) -> None:
        """A value that is not allowed, or no properties, is refused with what is allowed."""
        self.assertIn("true or false", self.refused(BadBody, 318, body=b"orderMessageEnable=yes"))
        self.refused(BadBody, 318, body=b"orderMessageEnable=\\u12")

    def test_nothing(self) -> None:
        """An empty request changes nothing."""
        self.assertEqual(self.ask(318), ({}, b""))


class RecordedTests(RegistryTests):
    """What RocketMQ's registry answered to its own brokers, clients and tools, we answer too."""

    SKIPPED = ("GET_NAMESRV_CONFIG", "UPDATE_NAMESRV_CONFIG")
    """They tell and take settings of the Java process."""

    COUNTING = ("GET_ALL_TOPIC_LIST_FROM_NAMESERVER", "WIPE_WRITE_PERM_OF_BROKER", "ADD_WRITE_PERM_OF_BROKER")
    """Their answers depend on all topics that were ever registered."""

    def replay(self, session: str, whole: bool = True) -> Counter[str]:
        """
        Ask all requests of a session; return how many answers were compared, by the request's name.

        @param whole: whether all registrations of the session were recorded whole.
        """
        compared: Counter[str] = Counter()
        self.setUp()
        for name, request, theirs in exchanges(session):
            code, fields, body = self.result(request)
            if theirs is None or name in self.SKIPPED:
                continue
            if name == "GET_ROUTEINFO_BY_TOPIC" and code != theirs.code:
                continue  # the recorder lost the end of the registration that brought the topic
            about = f"{session} {name} {request.fields}"
            self.assertEqual(code, theirs.code, about)
            if name in self.COUNTING and not whole:
                self.assertEqual(set(fields), set(theirs.fields), about)
            elif name == "GET_ALL_TOPIC_LIST_FROM_NAMESERVER":
                self.assertEqual(sorted(values(body)["topicList"]), sorted(values(theirs.body)["topicList"]), about)
            elif name == "REGISTER_BROKER":
                self.assertEqual(fields, theirs.fields, about)
                self.assertIn(theirs.body, (body, b'{"table":{}}'), about)  # of a namespace left by an earlier session
            else:
                self.assertEqual(fields, theirs.fields, about)
                self.assertEqual(values(body), values(theirs.body), about)
            compared[name] += 1
        return compared

    def result(self, request: Command) -> tuple[int, dict[str, str], bytes]:
        """Code, fields and body of our answer."""
        try:
            answer = self.answer_to(request)
        except RequestRefused as error:
            return error.code, {}, b""
        return answer.code, answer.fields, answer.body

    def test_brokers(self) -> None:
        """Start, heartbeats, a slave and stops, in both encodings; in the end nobody is left."""
        compared = self.replay("servers")
        self.assertEqual(compared, {"REGISTER_BROKER": 2, "UNREGISTER_BROKER": 4})
        self.assertEqual(self.service.routes.brokers(), [])

    def test_clients(self) -> None:
        """Routes, clusters, values and permissions, for two generations of clients."""
        for session in ("client-4.9-json", "client-5.3-json"):
            compared = self.replay(session)
            self.assertGreater(compared["GET_ROUTEINFO_BY_TOPIC"], 20, session)
            self.assertGreater(compared["GET_BROKER_CLUSTER_INFO"], 5, session)
            for name in ("PUT_KV_CONFIG", "GET_KV_CONFIG", "DELETE_KV_CONFIG", "WIPE_WRITE_PERM_OF_BROKER"):
                self.assertGreaterEqual(compared[name], 1, session)

    def test_binary(self) -> None:
        """Binary requests are answered the same; most registrations of these sessions were recorded in part only."""
        for session in ("client-4.9-binary", "client-5.3-binary"):
            compared = self.replay(session, whole=False)
            self.assertGreater(compared["GET_ROUTEINFO_BY_TOPIC"], 2, session)
            self.assertGreaterEqual(compared["GET_KV_CONFIG"], 1, session)


def exchanges(session: str) -> Iterator[tuple[str, Command, Command | None]]:
    """Name, request and answer of what was recorded; see tests/golden/registry/README.md."""
    with lzma.open(GOLDEN, "rt", encoding="utf-8") as lines:
        for line in lines:
            one = json.loads(line)
            if one["file"] == session:
                request, answer = (one[key] and decode(bytes.fromhex(one[key])[4:]) for key in ("request", "answer"))
                yield one["name"], request, answer


def values(body: bytes) -> Any:
    """A body as values, Java's bare keys quoted."""
    return fastjson.loads(body) if body else None
