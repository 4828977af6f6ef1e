"""Ways around access control: messages of topics that an account may not read, or may not write."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.accounts import Permission, Rights
from smartgo.auth.policies import PolicyRights, Resource, ResourceKind, read_entry
from smartgo.remoting.client import RemotingClient
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.messages import QueryMessageRequest
from smartgo.schema.signature import AccessKey
from tests.broker.fakecluster import BROKER, pull_command, records, send_command
from tests.node.securedcluster import ADMIN, SecuredCluster
from tests.remoting.doubles import sweeper_of

READER = AccessKey("a-reader", "a-reader-secret")
RULES = """
accounts:
- {accessKey: an-admin, secretKey: an-admin-secret, admin: true}
- accessKey: a-reader
  secretKey: a-reader-secret
  defaultTopicPerm: PUB|SUB
  topicPerms: [secrets=DENY]
  groupPerms: [readers=SUB]
"""
LONG = ("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp",
        "flag", "properties", "reconsumeTimes", "unitMode", "batch")  # fmt: skip
HOLDERS = ("SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC",
           "TRANS_CHECK_MAX_TIME_TOPIC")  # fmt: skip


def java_hash(text: str) -> int:
    """Return the hash of a text as Java has it, without a sign."""
    found = 0
    for one in text:
        found = (31 * found + ord(one)) % 2**32
    return found


def colliding(topic: str, target: str) -> str:
    """Return a key whose index entry in a topic has the hash of another entry: C{TOPIC#KEY}."""
    size = 7
    wanted = (java_hash(target) - java_hash(f"{topic}#") * 31**size) % 2**32
    least = 33 * sum(31**at for at in range(size))
    while wanted < least:
        wanted += 2**32
    text = ""
    for at in range(size - 1, -1, -1):
        rest = 33 * sum(31**one for one in range(at))
        digit = min(126, (wanted - rest) // 31**at)
        text += chr(digit)
        wanted -= digit * 31**at
    return text


class AroundTests(SynchronousTestCase):
    """An account that may use all topics but one."""

    def setUp(self) -> None:
        self.cluster = SecuredCluster(None, RULES)
        self.addCleanup(self.cluster.stop)
        for topic in ("orders", "secrets"):
            self.assertEqual(
                self.sent(ADMIN, send_command(topic, f"of {topic}".encode(), properties={"KEYS": "k-1"})), 0
            )
        self.cluster.pump(1)

    def sent(self, key: AccessKey, command: Command) -> int:
        """Return the code of an answer."""
        return self.cluster.signed(key, command)[0]

    def found(self, topic: str, word: str) -> list[bytes]:
        """Return the bodies of the messages that a query of the account finds."""
        command = Command.request(RequestCode.QUERY_MESSAGE, QueryMessageRequest(topic, word, 32, 0, 2**62))
        READER.sign(command)
        self.cluster.client.hang_up(BROKER, "anew")
        self.cluster.pump()
        answer = self.cluster.ask(command)
        return [bytes(one.body) for one in records(answer.body)] if answer.code == 0 else []

    def test_same_hash(self) -> None:
        """A query for a key that has the hash of another topic's key does not find the other topic's messages."""
        self.assertEqual(self.found("orders", "k-1"), [b"of orders"])
        word = colliding("orders", "secrets#k-1")
        self.assertEqual(java_hash(f"orders#{word}"), java_hash("secrets#k-1"))
        self.assertEqual(self.found("orders", word), [])

    def test_waiting(self) -> None:
        """The default permission does not hold for the topics in which messages of all topics wait."""
        self.assertEqual(self.sent(ADMIN, send_command("secrets", properties={"DELAY": "3"})), 0)
        for topic in HOLDERS:
            command = pull_command(topic, consumer_group="readers")
            code, remark = self.cluster.signed(READER, command)
            self.assertEqual((code, "No permission for topic" in remark), (1, True), topic)
            self.assertEqual(self.sent(READER, send_command(topic)), 1, topic)
        self.assertEqual(self.cluster.signed(READER, pull_command("orders", consumer_group="readers"))[0], 0)

    def test_dead_letters(self) -> None:
        """The dead letters of a group are for who may consume in it, unless the topic is named."""
        for group, allowed in (("readers", True), ("others", False)):
            _, remark = self.cluster.signed(READER, pull_command(f"%DLQ%{group}", consumer_group="readers"))
            self.assertEqual("No permission" not in remark, allowed, group)
        named = Rights(resources={"%DLQ%others": Permission.SUB})
        self.assertTrue(named.of("%DLQ%others")[0].covers(Permission.SUB))

    def test_listed(self) -> None:
        """Each topic of a list is checked, whatever separates them, in the field for one topic as well."""
        for fields, allowed in (
            ({"topic": "orders"}, True), ({"topicList": "orders;orders"}, True),
            ({"topicList": "orders,secrets"}, False), ({"topicList": "orders;secrets"}, False),
            ({"topic": "orders,secrets"}, False),
            ({"topic": "secrets;orders", "topicList": "orders"}, False),
        ):  # fmt: skip
            command = Command.request(RequestCode.GET_CONSUME_STATS, fields={"consumerGroup": "readers", **fields})
            _, remark = self.cluster.signed(READER, command)
            self.assertEqual("No permission" not in remark, allowed, fields)

    def test_real_topic(self) -> None:
        """The properties that say where a waiting message goes are the broker's: a sender's own do not count."""
        other = {"REAL_TOPIC": "secrets", "REAL_QID": "0"}
        for more in ({"DELAY": "1"}, {"TIMER_DELAY_MS": "1500"}, {"DELAY": "1", **other},
                     {"TIMER_DELAY_SEC": "1", **other}):  # fmt: skip
            self.assertEqual(self.sent(READER, send_command("orders", properties=more)), 0)
        before = self.cluster.broker.store.bounds("secrets", 0)
        self.cluster.pump(10.0)
        self.assertEqual(self.cluster.broker.store.bounds("secrets", 0), before)
        self.assertGreater(sum(self.cluster.broker.store.bounds("orders", one)[1] for one in range(4)), 4)

    def test_long_names(self) -> None:
        """A send with short field names goes to the topic that was checked, whatever its long names say."""
        for code, short, long in (
            (RequestCode.SEND_MESSAGE_V2, "b", "topic"),
            (RequestCode.SEND_MESSAGE, "topic", "b"),
        ):
            values = ("PG", "orders", "TBW102", "4", "0", "0", "1600000000000", "0", "", "0", "false", "false")
            names = "abcdefghijkm" if short == "b" else LONG
            command = Command.request(
                code, fields={**dict(zip(names, values, strict=True)), long: "secrets"}, body=b"x"
            )
            before = self.cluster.broker.store.bounds("secrets", 0)
            self.sent(READER, command)
            self.cluster.pump(1)
            self.assertEqual(self.cluster.broker.store.bounds("secrets", 0), before)
            command = Command.request(code, fields={**command.fields, short: "secrets", long: "orders"}, body=b"x")
            self.assertEqual(self.sent(READER, command), 1)

    def test_unregister(self) -> None:
        """A connection takes only itself out of a group, whatever client id it names."""
        self.cluster.signs = True
        self.cluster.heartbeat("readers", "orders", client_id="the-member")
        fields = {"clientID": "the-member", "consumerGroup": "readers"}
        command = Command.request(RequestCode.UNREGISTER_CLIENT, fields=fields)
        READER.sign(command)
        other = RemotingClient(self.cluster.env, sweeper_of(self.cluster.env.clock))
        answers: list[Command] = []
        other.ask(BROKER, command, 3.0).addCallback(answers.append)
        self.cluster.pump(1)
        self.assertEqual([one.code for one in answers], [0])
        group = self.cluster.broker.consumers.get("readers")
        assert group is not None
        self.assertEqual(group.client_ids(), ["the-member"])
        other.stop()
        self.cluster.pump(1)


class PolicyTests(SynchronousTestCase):
    """Users of RocketMQ 5 whose policies allow all topics."""

    def test_everything(self) -> None:
        """A beginning of names stands neither for topics with waiting messages nor for others' dead letters."""
        entries = [read_entry("Topic:*", ["All"], [], "Allow", "Custom"),
                   read_entry("*", ["Sub"], [], "Allow", "Default"),
                   read_entry("Topic:secrets", ["All"], [], "Deny", "Custom"),
                   read_entry("Group:*", ["All"], [], "Deny", "Custom"),
                   read_entry("Group:readers", ["Sub"], [], "Allow", "Custom")]  # fmt: skip
        rights = PolicyRights(entries)

        def reads(topic: str) -> bool:
            return rights.decide(Resource(ResourceKind.TOPIC, topic), ("Sub", "Get"), "10.0.0.1")[0]

        self.assertEqual([reads(one) for one in ("orders", "secrets", "%DLQ%readers", "%DLQ%others")],
                         [True, False, True, False])  # fmt: skip
        self.assertEqual({reads(one) for one in HOLDERS}, {False})
        named = PolicyRights([read_entry(f"Topic:{one}", ["Sub"], [], "Allow", "Custom") for one in HOLDERS])
        for one in HOLDERS:
            self.assertTrue(named.decide(Resource(ResourceKind.TOPIC, one), ("Sub",), "10.0.0.1")[0])
