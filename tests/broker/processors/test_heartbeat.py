"""Clients that come, stay and go."""

from __future__ import annotations

import errno
import json
import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from smartgo.broker.processors.heartbeat import HeartbeatProcessor, split_tags
from smartgo.broker.sql.lazyparser import LazyParser
from smartgo.errors import BadBody, BadHeader, BadName, RequestRefused, ServiceNotAvailable, SubscriptionParseFailed
from smartgo.remoting.interfaces import IRequestProcessor
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command, decode
from smartgo.schema.properties import tag_code
from tests.broker.doubles import FakeBroker, FakePeer, body_of, received, request
from tests.fakes import FakeEnvironment

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "..", "golden", "wire")


def subscription(topic: str, text: str = "*", version: int = 1, **more: Any) -> dict[str, Any]:
    """A subscription as a Java client sends it."""
    tags = split_tags(text)
    return {
        "classFilterMode": False, "codeSet": [tag_code(tag) for tag in tags], "expressionType": "TAG",
        "subString": text, "subVersion": version, "tagsSet": list(tags), "topic": topic,
    } | more  # fmt: skip


def consumer(group: str, *subscriptions: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A consumer group as a Java client sends it."""
    return {
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "consumeType": "CONSUME_PASSIVELY", "groupName": group,
        "messageModel": "CLUSTERING", "subscriptionDataSet": list(subscriptions), "unitMode": False,
    } | more  # fmt: skip


class HeartbeatCase(SynchronousTestCase):
    """A processor with its tables."""

    sync = False
    auto_create = True
    filters = True

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        self.silent: set[str] = set()
        broker = FakeBroker(
            self.env,
            sync=self.sync,
            may_notify=lambda group: group not in self.silent,
            auto_create_subscription_group=self.auto_create,
        )
        self.topics, self.groups = broker.topics, broker.groups
        self.producers, self.consumers = broker.producers, broker.consumers
        self.processor = HeartbeatProcessor(broker, self.compile_filter if self.filters else None)

    def compile_filter(self, text: str) -> None:
        """Understand everything that does not begin with an exclamation mark."""
        if text.startswith("!"):
            raise SubscriptionParseFailed(f"cannot read {text}")

    def ask(self, peer: FakePeer, code: int, body: Any = b"", **fields: str) -> Command:
        """Ask, and return the answer as it is read."""
        answer = self.processor.process(peer, request(code, None, body, **fields))
        return received(self.successResultOf(answer) if isinstance(answer, Deferred) else answer)

    def beat(self, peer: FakePeer, client: str, consumers: Any = (), producers: Any = (), **more: Any) -> Command:
        """A heartbeat."""
        body = {
            "clientID": client,
            "consumerDataSet": list(consumers),
            "producerDataSet": [{"groupName": name} for name in producers],
        } | more
        return self.ask(peer, RequestCode.HEART_BEAT, body)


class ConsumerTests(HeartbeatCase):
    """Consumers of a group."""

    def test_first(self) -> None:
        """A consumer's first heartbeat makes its group and retry topic, and tells it to share out the queues."""
        verifyObject(IRequestProcessor, self.processor)
        peer = FakePeer()
        answer = self.beat(peer, "c1", [consumer("g", subscription("T", "A || B", 5))])
        self.assertEqual((answer.code, answer.version >= 232), (0, True))
        self.assertEqual(peer.notified(), ["g"])
        group = self.consumers.get("g")
        assert group is not None
        self.assertEqual(
            (group.consume_type, group.message_model, group.consume_from_where),
            ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_LAST_OFFSET"),
        )
        found = group.subscription("T")
        assert found is not None
        self.assertEqual((found.sub_string, found.sub_version, set(found.tags_set)), ("A || B", 5, {"A", "B"}))
        self.assertIsNone(group.subscription("U"))
        self.assertIn("g", self.groups)
        retry = self.topics.get("%RETRY%g")
        assert retry is not None
        self.assertEqual((retry.read_queue_nums, retry.perm, retry.topic_sys_flag), (1, 6, 0))

    def test_unit_mode(self) -> None:
        """The retry topic of a group in unit mode carries the unit-sub flag."""
        self.beat(FakePeer(), "c1", [consumer("g", unitMode=True)])
        retry = self.topics.get("%RETRY%g")
        assert retry is not None
        self.assertEqual(retry.topic_sys_flag, 2)

    def test_only_changes_are_told(self) -> None:
        """A new member, a new topic and one that is dropped are told to all members; a mere beat is not."""
        one, two = FakePeer("192.0.2.1:1"), FakePeer("192.0.2.2:1")
        beats = subscription("T"), subscription("U")
        self.beat(one, "c1", [consumer("g", *beats)])
        one.notified()
        for wanted, peer, client, subscriptions in (
            (0, one, "c1", beats),
            (1, two, "c2", beats),
            (0, two, "c2", beats),
            (1, two, "c2", (*beats, subscription("V"))),
            (1, one, "c1", beats),
            (0, one, "c1", (subscription("T", "A", 2), beats[1])),
        ):
            self.beat(peer, client, [consumer("g", *subscriptions)])
            self.assertEqual(one.notified(), ["g"] * wanted)
            self.assertIn(len(two.notified()), (0, wanted))

    def test_switched_off(self) -> None:
        """A group whose settings forbid it is not told."""
        self.silent.add("g")
        peer = FakePeer()
        self.beat(peer, "c1", [consumer("g", subscription("T"))])
        self.assertEqual(peer.told, [])

    def test_subscription_versions(self) -> None:
        """An older subscription never overwrites a newer one; a newer one does."""
        peer = FakePeer()
        for version, text in (5, "A"), (4, "B"), (5, "C"):
            self.beat(peer, "c1", [consumer("g", subscription("T", text, version))])
            self.assertEqual(self.text("g", "T"), "A")
        self.beat(peer, "c1", [consumer("g", subscription("T", "D", 6))])
        self.assertEqual(self.text("g", "T"), "D")

    def text(self, group: str, topic: str) -> str | None:
        """The expression of a subscription."""
        known = self.consumers.get(group)
        found = known.subscription(topic) if known is not None else None
        return found.sub_string if found is not None else None

    def test_one_table_for_the_group(self) -> None:
        """The last heartbeat's topics are the group's, and stay when the member that sent them leaves."""
        one, two = FakePeer("192.0.2.1:1"), FakePeer("192.0.2.2:1")
        self.beat(one, "c1", [consumer("g", subscription("T"))])
        self.beat(two, "c2", [consumer("g", subscription("U"))])
        self.assertEqual((self.text("g", "T"), self.text("g", "U")), (None, "*"))
        self.processor.disconnected(two)
        self.assertEqual((self.text("g", "T"), self.text("g", "U")), (None, "*"))
        self.processor.disconnected(one)
        self.assertIsNone(self.consumers.get("g"))

    def test_hashes(self) -> None:
        """Tag hashes are the broker's own: client-go sends others as strings, some clients none at all."""
        for tags, codes, text in (
            (["\u4e2d\u6587"], ["123"], "\u4e2d\u6587"),
            ([], [], "\u4e2d\u6587"),
            (None, None, " \u4e2d\u6587 || "),
        ):
            data = subscription("T", text, codeSet=codes, tagsSet=tags)
            peer = FakePeer()
            self.beat(peer, "c1", [consumer("g", {name: one for name, one in data.items() if one is not None})])
            group = self.consumers.get("g")
            assert group is not None
            found = group.subscription("T")
            assert found is not None
            self.assertEqual((set(found.code_set), set(found.tags_set)), ({646394}, {"\u4e2d\u6587"}))
            self.processor.disconnected(peer)

    def test_everything(self) -> None:
        """Star, blank and absent expressions want all: no tags."""
        for text in ("*", "", None):
            self.assertEqual(list(split_tags(text)), [])
        self.assertEqual(split_tags("a|| b ||||c "), ["a", "b", "c"])

    def test_list(self) -> None:
        """38 lists each client id once, also where it has two connections."""
        for client, peer in ("c1", "192.0.2.1:1"), ("c2", "192.0.2.2:1"), ("c1", "192.0.2.1:2"):
            self.beat(FakePeer(peer), client, [consumer("g", subscription("T"))])
        answer = self.processor.process(FakePeer(), request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="g"))
        self.assertEqual(body_of(answer), {"consumerIdList": ["c1", "c2"]})
        with self.assertRaises(RequestRefused) as caught:
            self.ask(FakePeer(), RequestCode.GET_CONSUMER_LIST_BY_GROUP, consumerGroup="h")
        self.assertEqual((caught.exception.code, str(caught.exception)), (1, "no consumer for this group, h"))

    def test_find_connection(self) -> None:
        """A group's connection is found by the client id, and by that of another group it is not."""
        peer = FakePeer()
        self.beat(peer, "c1", [consumer("g")])
        group = self.consumers.get("g")
        assert group is not None
        self.assertIs(group.peer_of("c1"), peer)
        self.assertIsNone(group.peer_of("c2"))

    def test_smartgo_numbers(self) -> None:
        """SmartGo's numbers are understood: 1 is clustering and passive, 2 a timestamp."""
        data = consumer("g", consumeType=1, messageModel=1, consumeFromWhere=2)
        self.beat(FakePeer(), "c1", [data])
        group = self.consumers.get("g")
        assert group is not None
        self.assertEqual(
            (group.consume_type, group.message_model, group.consume_from_where),
            ("CONSUME_PASSIVELY", "CLUSTERING", "CONSUME_FROM_TIMESTAMP"),
        )

    def test_without_subscriptions(self) -> None:
        """A heartbeat of 5.x that leaves its subscriptions out changes none."""
        peer = FakePeer()
        self.beat(peer, "c1", [consumer("g", subscription("T"))])
        peer.notified()
        self.beat(peer, "c1", [consumer("g")], withoutSub=True)
        self.assertEqual((self.text("g", "T"), peer.notified()), ("*", []))

    def test_bad_topic(self) -> None:
        """A subscription to what is no topic's name is left out."""
        self.beat(FakePeer(), "c1", [consumer("g", subscription("a/b"), subscription("T"))])
        group = self.consumers.get("g")
        assert group is not None
        self.assertEqual(list(group.subscriptions), ["T"])

    def test_long_group(self) -> None:
        """A group whose name leaves no room for the retry topic's prefix can consume all the same."""
        name = "g" * 255
        self.assertEqual(self.beat(FakePeer(), "c1", [consumer(name, subscription("T"))]).code, 0)
        self.assertIsNotNone(self.consumers.get(name))
        self.assertEqual(len(self.topics), 0)


class RefusedTests(HeartbeatCase):
    """Heartbeats that are not taken."""

    def test_nonsense(self) -> None:
        """A heartbeat that cannot be read, without a client id, or with a bad group changes nothing."""
        peer = FakePeer()
        with self.assertRaises(BadBody):
            self.ask(peer, RequestCode.HEART_BEAT, b"nonsense")
        for client in ("", "x" * 513):
            with self.assertRaises(RequestRefused):
                self.beat(peer, client, producers=["p"])
        for consumers, producers in ([consumer("ok"), consumer("a/b")], []), ([], ["ok", ""]):
            with self.assertRaises(BadName):
                self.beat(peer, "c1", consumers, producers)
        self.assertEqual((len(self.consumers), len(self.producers), len(self.groups)), (0, 0, 0))

    def test_connection_gone(self) -> None:
        """A heartbeat that is taken up after its connection ended leaves nothing behind."""
        peer = FakePeer()
        peer.open = False
        answer = self.processor.process(
            peer, request(RequestCode.HEART_BEAT, body={"clientID": "c", "producerDataSet": [{"groupName": "p"}]})
        )
        self.assertIsNone(answer)
        self.assertEqual((len(self.producers), self.env.clock.getDelayedCalls()), (0, []))

    def test_too_many(self) -> None:
        """One connection may be a member of so many groups and no more."""
        peer = FakePeer()
        self.beat(peer, "c1", producers=[f"p{number}" for number in range(1024)])
        with self.assertRaises(RequestRefused):
            self.beat(peer, "c1", producers=["one more"[:3]])

    def test_tables_are_bounded(self) -> None:
        """The tables hold so many groups and no more; members of known groups still get in."""
        self.producers._shares._limit = self.consumers._shares._limit = lambda: 1
        self.beat(FakePeer(), "c1", [consumer("g")], ["p"])
        for consumers, producers in ([consumer("h")], []), ([], ["q"]):
            with self.assertRaises(RequestRefused):
                self.beat(FakePeer(), "c2", consumers, producers)
        self.beat(FakePeer(), "c3", [consumer("g")], ["p"])

    def test_groups_are_shared(self) -> None:
        """One address takes half of the groups that may be; what leaves makes room."""
        self.producers._shares._limit = self.consumers._shares._limit = lambda: 10
        peers = [FakePeer(f"192.0.2.7:{number + 1}") for number in range(20)]
        answers = []
        for number, peer in enumerate(peers):
            try:
                answers.append(self.beat(peer, f"c{number}", [consumer(f"g{number}")], [f"p{number}"]).code)
            except RequestRefused as refusal:
                answers.append(refusal.code)
        self.assertEqual((answers.count(0), len(self.consumers), len(self.producers)), (5, 5, 5))
        self.beat(FakePeer("192.0.2.8:1"), "d", [consumer("h")], ["q"])
        for peer in peers:
            self.processor.disconnected(peer)
        self.assertEqual((len(self.consumers), len(self.producers)), (1, 1))
        self.beat(peers[9], "c", [consumer("x")], ["y"])

    def test_members_are_shared(self) -> None:
        """Members of groups are limited and shared too, however they leave."""
        self.producers._member_shares._limit = self.consumers._member_shares._limit = lambda: 10
        peers = [FakePeer(f"192.0.2.7:{number + 1}") for number in range(6)]
        for peer in peers[:5]:
            for _ in range(3):
                self.beat(peer, peer.address, [consumer("g")], ["p"])
        self.assertRaises(RequestRefused, self.beat, peers[5], "c", [consumer("g")])
        self.assertRaises(RequestRefused, self.beat, peers[5], "c", [], ["p"])
        self.beat(FakePeer("192.0.2.8:1"), "d", [consumer("g")], ["p"])
        self.ask(peers[0], RequestCode.UNREGISTER_CLIENT, clientID="c", producerGroup="p", consumerGroup="g")
        self.beat(peers[5], "c", [consumer("g")], ["p"])
        self.env.clock.pump([10.0] * 14)
        for table in (self.producers, self.consumers):
            self.assertEqual((table._member_shares.total, table._shares.total), (0, 0))

    def test_subscriptions_are_shared(self) -> None:
        """The memory of subscriptions is limited and shared; what changes or leaves is counted anew."""
        self.consumers._sizes._limit = lambda: 100_000
        peer = FakePeer()
        tags = "||".join(f"t{number}" for number in range(100))
        many = [subscription(f"T{number}", tags) for number in range(10)]
        self.beat(peer, "c", [consumer("g", subscription("A", tags))])
        full = self.consumers._sizes.total
        self.assertGreater(full, 20_000)
        self.beat(peer, "c", [consumer("g", subscription("A", tags, version=2))])
        self.assertEqual(self.consumers._sizes.total, full)
        self.assertRaises(RequestRefused, self.beat, peer, "c", [consumer("g", *many)])
        self.assertRaises(RequestRefused, self.beat, peer, "c", [consumer("h", *many)])
        self.assertEqual((self.consumers._sizes.total, len(self.consumers)), (full, 1))
        self.assertEqual((self.consumers._member_shares.total, self.consumers._shares.total), (1, 1))
        self.beat(peer, "c", [consumer("g", subscription("A"))])
        self.assertLess(self.consumers._sizes.total, 2000)
        self.processor.disconnected(peer)
        self.assertEqual((self.consumers._sizes.total, self.consumers._member_shares.total), (0, 0))

    def test_some_refused(self) -> None:
        """Groups for which there is no room do not keep the other groups of their heartbeat out."""
        peer = FakePeer()
        names = [f"g{number}" for number in range(130)]
        for _ in range(2):
            self.assertRaises(RequestRefused, self.beat, peer, "c", [consumer(name) for name in names], ["p"])
            self.assertEqual((len(self.consumers), len(self.groups), len(self.producers)), (100, 100, 1))
        self.env.clock.advance(4)
        self.beat(peer, "c", [consumer(name) for name in names], ["p"])
        self.assertEqual((len(self.consumers), len(self.groups)), (130, 130))

    def test_groups_of_a_connection(self) -> None:
        """How many groups a connection may be a member of is a setting."""
        self.processor._groups_a_peer = 2
        peer = FakePeer()
        self.beat(peer, "c", [consumer("g"), consumer("h")])
        self.assertRaises(RequestRefused, self.beat, peer, "c", [consumer("i")])


class NoAutoCreateTests(HeartbeatCase):
    """A broker that does not create groups."""

    auto_create = False

    def test_unknown_group(self) -> None:
        """An unknown group's members are known all the same, without settings or retry topic."""
        self.assertEqual(self.beat(FakePeer(), "c1", [consumer("g", subscription("T"))]).code, 0)
        self.assertIsNotNone(self.consumers.get("g"))
        self.assertEqual((len(self.groups), len(self.topics)), (0, 0))


class SyncTests(HeartbeatCase):
    """A broker under SYNC_FLUSH."""

    sync = True

    def test_durable_first(self) -> None:
        """A heartbeat that made a group is answered once group and retry topic are on disk; later ones at once."""
        self.env.threads.held.add("tables")
        peer = FakePeer()
        beat = request(RequestCode.HEART_BEAT, body={"clientID": "c", "consumerDataSet": [consumer("g")]})
        answer = self.processor.process(peer, beat)
        assert isinstance(answer, Deferred)
        self.assertNoResult(answer)
        self.env.threads.release("tables", 1)
        self.assertNoResult(answer)
        self.env.threads.release("tables")
        self.assertEqual(received(self.successResultOf(answer)).code, 0)
        self.assertNotIsInstance(self.processor.process(peer, beat), Deferred)

    def test_not_saved(self) -> None:
        """Where the group cannot be saved the heartbeat is answered 14."""
        self.env.files.fail["/c/groups.json"] = errno.ENOSPC
        self.env.threads.held.add("tables")
        beat = request(RequestCode.HEART_BEAT, body={"clientID": "c", "consumerDataSet": [consumer("g")]})
        answer = self.processor.process(FakePeer(), beat)
        assert isinstance(answer, Deferred)
        self.env.threads.release("tables")
        failure = self.failureResultOf(answer, ServiceNotAvailable)
        self.assertEqual(failure.value.code, 14)
        self.flushLoggedErrors(OSError)


class ProducerTests(HeartbeatCase):
    """Producers of a group."""

    def test_members(self) -> None:
        """A producer is a member of its groups with what its heartbeat said."""
        peer = FakePeer()
        self.beat(peer, "c1", producers=["p", "q"])
        (member,) = self.producers.members("p")
        self.assertEqual((member.peer, member.client_id, member.seen_ms), (peer, "c1", self.env.clock.wall_ms()))
        self.assertEqual(self.producers.groups(), ["p", "q"])
        self.assertEqual(self.producers.members("r"), [])
        self.assertEqual(self.groups.names(), [])

    def test_pick(self) -> None:
        """Open members are picked in turn; a group without any has none."""
        peers = [FakePeer(f"192.0.2.1:{port}") for port in range(1, 4)]
        for peer in peers:
            self.beat(peer, peer.address, producers=["p"])
        self.assertEqual({self.producers.pick("p") for _ in range(3)}, set(peers))
        for peer in peers[1:]:
            peer.open = False
        self.assertEqual([self.producers.pick("p") for _ in range(3)], [peers[0]] * 3)
        peers[0].open = False
        self.assertIsNone(self.producers.pick("p"))
        self.assertIsNone(self.producers.pick("q"))

    def test_by_client_id(self) -> None:
        """A client id leads to its latest connection, until that has left its last group."""
        old, new = FakePeer("192.0.2.1:1"), FakePeer("192.0.2.1:2")
        self.beat(old, "c1", producers=["p", "q"])
        self.assertIs(self.producers.peer_of("c1"), old)
        self.beat(new, "c1", producers=["p"])
        self.assertIs(self.producers.peer_of("c1"), new)
        self.processor.disconnected(old)
        self.assertIs(self.producers.peer_of("c1"), new)
        self.ask(new, RequestCode.UNREGISTER_CLIENT, clientID="c1", producerGroup="p")
        self.assertIsNone(self.producers.peer_of("c1"))

    def test_renamed(self) -> None:
        """A connection that changes its client id leaves no trace of the old one."""
        peer = FakePeer()
        self.beat(peer, "c1", producers=["p", "q"])
        self.beat(peer, "c2", producers=["p"])
        self.assertEqual((self.producers.peer_of("c1"), self.producers.peer_of("c2")), (peer, peer))
        self.beat(peer, "c2", producers=["q"])
        self.assertEqual((self.producers.peer_of("c1"), self.producers.peer_of("c2")), (None, peer))
        self.processor.disconnected(peer)
        self.assertEqual((self.producers._by_id, self.producers._memberships, len(self.producers)), ({}, {}, 0))


class LeavingTests(HeartbeatCase):
    """Clients that go."""

    def test_farewell(self) -> None:
        """35 leaves the groups it names and no others; who stays is told."""
        one, two = FakePeer("192.0.2.1:1"), FakePeer("192.0.2.2:1")
        for peer in (one, two):
            self.beat(peer, peer.address, [consumer("g"), consumer("h")], ["p"])
        one.notified(), two.notified()
        answer = self.ask(one, RequestCode.UNREGISTER_CLIENT, clientID="x", consumerGroup="g", producerGroup="p")
        self.assertEqual(answer.code, 0)
        self.assertEqual((one.notified(), two.notified()), ([], ["g"]))
        self.assertEqual(self.consumers.groups_of(one), {"h"})
        self.assertEqual([member.peer for member in self.producers.members("p")], [two])
        self.ask(two, RequestCode.UNREGISTER_CLIENT, clientID="x", consumerGroup="g")
        self.assertIsNone(self.consumers.get("g"))

    def test_farewell_of_a_stranger(self) -> None:
        """35 for groups one is not in is answered 0 and does nothing, creating no group."""
        answer = self.ask(FakePeer(), RequestCode.UNREGISTER_CLIENT, clientID="x", consumerGroup="g", producerGroup="p")
        self.assertEqual((answer.code, len(self.groups)), (0, 0))
        with self.assertRaises(BadHeader):
            self.ask(FakePeer(), RequestCode.UNREGISTER_CLIENT, consumerGroup="g")

    def test_disconnected(self) -> None:
        """A connection that ends leaves all its groups; who stays is told once a group."""
        one, two = FakePeer("192.0.2.1:1"), FakePeer("192.0.2.2:1")
        for peer in (one, two):
            self.beat(peer, peer.address, [consumer("g"), consumer("h")], ["p", "q"])
        one.notified(), two.notified()
        self.processor.disconnected(one)
        self.assertEqual((one.told, sorted(two.notified())), ([], ["g", "h"]))
        self.processor.disconnected(two)
        self.processor.disconnected(FakePeer())
        self.assertEqual((len(self.consumers), len(self.producers)), (0, 0))
        self.assertEqual((self.consumers._memberships, self.producers._memberships), ({}, {}))

    def test_silence(self) -> None:
        """A client that sent no heartbeat for 120 s is removed and closed, and who stays is told."""
        quiet, lively = FakePeer("192.0.2.1:1"), FakePeer("192.0.2.2:1")
        for peer in (quiet, lively):
            self.beat(peer, peer.address, [consumer("g")], ["p"])
        for _ in range(11):
            self.env.clock.advance(10)
            self.beat(lively, lively.address, [consumer("g")], ["p"])
        lively.notified()
        self.assertEqual(quiet.closed_because, [])
        for _ in range(3):
            self.env.clock.advance(10)
        self.assertEqual(len(quiet.closed_because), 1)
        self.assertEqual((lively.closed_because, lively.notified()), ([], ["g"]))
        self.assertEqual([member.peer for member in self.producers.members("p")], [lively])

    def test_silent_group_of_a_lively_connection(self) -> None:
        """A group that a connection no longer mentions loses it; the connection stays for its other groups."""
        peer = FakePeer()
        self.beat(peer, "c1", [consumer("g"), consumer("h")], ["p"])
        for _ in range(14):
            self.env.clock.advance(10)
            self.beat(peer, "c1", [consumer("h")])
        self.assertEqual((self.consumers.groups_of(peer), self.producers.groups_of(peer)), ({"h"}, frozenset()))
        self.assertEqual(peer.closed_because, [])

    def test_timer(self) -> None:
        """There is a timer while there are clients, and none otherwise or after stop."""
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        peer = FakePeer()
        self.beat(peer, "c1", producers=["p"])
        self.assertEqual(len(self.env.clock.getDelayedCalls()), 1)
        self.processor.disconnected(peer)
        self.env.clock.advance(10)
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.beat(peer, "c1", producers=["p"])
        self.processor.stop()
        self.assertEqual(self.env.clock.getDelayedCalls(), [])
        self.beat(peer, "c1", producers=["p"])
        self.assertEqual(self.env.clock.getDelayedCalls(), [])


class CheckTests(HeartbeatCase):
    """Request 46."""

    def check(self, kind: str | None, text: str) -> int:
        """The answer's code."""
        data = subscription("T", text, expressionType=kind)
        body = {"clientId": "c", "group": "g", "subscriptionData": data}
        return self.ask(FakePeer(), RequestCode.CHECK_CLIENT_CONFIG, body).code

    def test_expressions(self) -> None:
        """Tags are always fine, an SQL92 expression when it can be read: else 23."""
        for kind, text in (("TAG", "!"), (None, "a || b"), ("SQL92", "a > 5")):
            self.assertEqual(self.check(kind, text), 0)
        with self.assertRaises(SubscriptionParseFailed) as caught:
            self.check("SQL92", "!")
        self.assertEqual(caught.exception.code, 23)
        self.assertRaises(SubscriptionParseFailed, self.check, "XPATH", "a > 5")


class ParserTests(HeartbeatCase):
    """The first SQL92 expression waits for the parser; nothing else does."""

    def setUp(self) -> None:
        super().setUp()
        self.threads = self.env.threads
        self.threads.held.add("filters")
        parser = LazyParser(self.threads)
        self.processor = HeartbeatProcessor(FakeBroker(self.env), parser.parse, parser.prepare)

    def raw(self, code: int, body: Any) -> Any:
        """Ask; a Deferred may come back."""
        return self.processor.process(FakePeer(), request(code, None, body))

    def test_heartbeat(self) -> None:
        """A heartbeat with one is answered when the parser is there, one with tags at once."""
        for kind in ("TAG", None):
            body = {"clientID": "c", "consumerDataSet": [consumer("g", subscription("T", "A", expressionType=kind))]}
            answer = self.raw(RequestCode.HEART_BEAT, body)
            self.assertEqual(received(self.successResultOf(answer) if isinstance(answer, Deferred) else answer).code, 0)
        self.assertNotIn("filters", self.threads.waiting)
        body = {"clientID": "c", "consumerDataSet": [consumer("s", subscription("T", "n > 5", expressionType="SQL92"))]}
        waits = self.raw(RequestCode.HEART_BEAT, body)
        self.assertNoResult(waits)
        self.assertEqual(self.threads.release("filters"), 1)
        self.assertEqual(received(self.successResultOf(waits)).code, 0)

    def test_check(self) -> None:
        """A check waits as well, and fails then where the expression is wrong; later ones are answered at once."""

        def check(text: str) -> Any:
            return self.raw(
                RequestCode.CHECK_CLIENT_CONFIG,
                {"clientId": "c", "group": "g", "subscriptionData": subscription("T", text, expressionType="SQL92")},
            )

        right, wrong = check("n > 5"), check("n >")
        self.assertNoResult(right)
        self.assertEqual(self.threads.release("filters"), 1)
        self.assertEqual(received(self.successResultOf(right)).code, 0)
        self.failureResultOf(wrong, SubscriptionParseFailed)
        self.assertEqual(received(check("n > 6")).code, 0)


class NoFilterTests(CheckTests):
    """A broker that does not filter by properties."""

    filters = False

    def test_expressions(self) -> None:
        """Tags are fine, SQL92 is not: 1."""
        self.assertEqual(self.check("TAG", "a"), 0)
        with self.assertRaises(RequestRefused) as caught:
            self.check("SQL92", "a > 5")
        self.assertEqual(caught.exception.code, 1)


class RecordedTests(HeartbeatCase):
    """Recorded heartbeats of official clients."""

    def test_recorded(self) -> None:
        """Every recorded heartbeat and farewell of 4.9 and 5.3 clients is understood, JSON and binary."""
        count = 0
        peer = FakePeer()
        for name in sorted(os.listdir(GOLDEN)):
            if not name.startswith("client"):
                continue
            with open(os.path.join(GOLDEN, name), encoding="utf-8") as lines:
                recorded = [json.loads(line) for line in lines]
            for one in recorded:
                if one["kind"] == "request" and one["code_name"] in (
                    "HEART_BEAT",
                    "UNREGISTER_CLIENT",
                    "CHECK_CLIENT_CONFIG",
                ):
                    command = decode(bytes.fromhex(one["hex"])[4:])
                    answer = self.processor.process(peer, command)
                    assert isinstance(answer, Command)
                    self.assertEqual((answer.code, answer.opaque), (0, command.opaque))
                    count += 1
        self.assertGreater(count, 10)
        self.assertIn("WaPullGroup", self.groups.names())
