"""Tests of L{smartgo.node.accesscontrol}: a registry and a broker with access control."""

from __future__ import annotations

import json
from errno import EMFILE
from typing import Any
from unittest.mock import patch

from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.rulefiles import RuleFiles
from smartgo.errors import SettingError
from smartgo.node.accesscontrol import PERIOD, AccessService
from smartgo.schema.bodies import HeartbeatData, ProducerData
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headerfields import Header
from smartgo.schema.headers.messages import ResumeCheckRequest
from smartgo.schema.headers.registry import RouteInfoRequest
from smartgo.schema.headers.send import SendBackRequest, SendResponse
from smartgo.schema.headers.transaction import EndTransactionRequest
from smartgo.schema.message import message_id, parse_message_id
from smartgo.schema.record import decode
from smartgo.schema.signature import AccessKey
from smartgo.schema.transactions import given_up_copy, read_half
from tests.broker.fakecluster import BROKER, REGISTRY, pull_command, send_command
from tests.fakes import FakeEnvironment
from tests.node.securedcluster import ADMIN, FILE, RULES, SENDER, STRANGER, SecuredCluster, lay


def service(env: FakeEnvironment, key: AccessKey | None = None) -> AccessService:
    """Return access control by the file."""
    return AccessService(env, RuleFiles(env.files, FILE.rpartition("/")[0]), key)


class FollowingTests(SynchronousTestCase):
    """The rules follow their file."""

    def setUp(self) -> None:
        self.env = FakeEnvironment()
        lay(self.env, RULES)

    def names(self) -> list[str]:
        """Return the accounts of the file that are in force."""
        return sorted(name for name in self.access.control.rules.accounts if not name.startswith("smartgo-"))

    def pass_period(self) -> None:
        """Let the service look at its file twice: at once, it may be half written."""
        for _ in range(2):
            self.env.clock.advance(PERIOD)
            self.env.clock.advance(0)

    def test_follows(self) -> None:
        """A change is in force a second later; a file that cannot be used changes nothing, and is logged once."""
        self.access = service(self.env)
        self.access.startService()
        self.addCleanup(self.access.stopService)
        self.assertEqual(self.names(), ["a-sender", "an-admin"])
        lay(self.env, RULES.replace("a-sender", "the-seller"))
        self.pass_period()
        self.assertEqual((self.names(), self.access.control.problem), (["an-admin", "the-seller"], ""))
        lay(self.env, "accounts: [")
        for _ in range(3):
            self.pass_period()
        self.assertEqual(self.names(), ["an-admin", "the-seller"])
        self.assertIn("the access control file is no YAML", self.access.control.problem)
        lay(self.env, RULES)
        self.pass_period()
        self.assertEqual((self.names(), self.access.control.problem), (["a-sender", "an-admin"], ""))

    def test_put_back(self) -> None:
        """A file that is put back as it was, its time of change as well, leaves no problem."""
        self.access = service(self.env)
        self.access.startService()
        self.addCleanup(self.access.stopService)
        stamp = self.access.files.stamp()
        lay(self.env, "accounts: [")
        self.pass_period()
        self.assertIn("no YAML", self.access.control.problem)
        with patch.object(RuleFiles, "stamp", return_value=stamp):
            self.pass_period()
            self.assertEqual(self.access.control.problem, "")

    def test_half_written(self) -> None:
        """A file that changes from look to look is read when it has stayed the same for one."""
        self.access = service(self.env)
        self.access.startService()
        self.addCleanup(self.access.stopService)
        for text in ("", "accounts:\n- {accessKey: an-admin, secretKey: an-admin-secret}\n"):
            lay(self.env, text)
            self.env.clock.advance(PERIOD)
            self.env.clock.advance(0)
            self.assertEqual(self.names(), ["a-sender", "an-admin"])
        self.env.clock.advance(PERIOD)
        self.env.clock.advance(0)
        self.assertEqual(self.names(), ["an-admin"])

    def test_unreadable_once(self) -> None:
        """A file that cannot be read for want of descriptors, or by a disk's error, is tried again."""
        self.access = service(self.env)
        self.access.startService()
        self.addCleanup(self.access.stopService)
        lay(self.env, RULES.replace("a-sender", "the-seller"))
        with patch.object(RuleFiles, "read", side_effect=OSError(EMFILE, "too many")):
            self.pass_period()
        self.assertEqual(self.names(), ["a-sender", "an-admin"])
        self.assertEqual(len(self.flushLoggedErrors(OSError)), 1)
        self.pass_period()
        self.assertEqual(self.names(), ["an-admin", "the-seller"])

    def test_reload(self) -> None:
        """SIGHUP reads the file at once, and tells what is wrong with it."""
        self.access = service(self.env)
        lay(self.env, "accounts: [")
        self.assertIn(FILE, str(self.assertRaises(SettingError, self.access.reload)))
        self.assertEqual(self.names(), ["a-sender", "an-admin"])
        lay(self.env, RULES.replace("a-sender", "the-seller"))
        self.access.reload()
        self.assertEqual((self.names(), self.access.control.problem), (["an-admin", "the-seller"], ""))

    def test_own_key(self) -> None:
        """Where no key is set, one is made that nobody else has; it stays in force when the file changes."""
        self.access = service(self.env)
        own = self.access.key
        self.assertIs(self.access.control.rules.accounts[own.access_key].key, own)
        lay(self.env, RULES.replace("a-sender", "the-seller"))
        self.access.reload()
        self.assertTrue(self.access.control.rules.accounts[own.access_key].rights.unlimited)
        self.assertNotEqual(service(self.env).key.access_key, own.access_key)
        self.access = service(self.env, ADMIN)
        self.assertIs(self.access.key, ADMIN)
        self.assertEqual(sorted(self.access.control.rules.accounts), ["an-admin", "the-seller"])


class SecuredTests(SynchronousTestCase):
    """Requests to a registry and a broker with access control."""

    def setUp(self) -> None:
        self.cluster = SecuredCluster()
        self.addCleanup(self.cluster.stop)

    def refused(self, said: str, *asked: Any) -> None:
        """Check that a request is refused with 1 and a remark."""
        code, remark = self.cluster.signed(*asked)
        self.assertEqual(code, 1, remark)
        self.assertIn(said, remark)

    def test_broker(self) -> None:
        """A broker takes a send from who may publish to its topic, and from nobody else."""
        self.assertEqual(self.cluster.signed(SENDER, send_command("orders")), (0, ""))
        self.assertEqual(self.cluster.signed(ADMIN, send_command("other")), (0, ""))
        self.refused("No accessKey is configured", None, send_command("orders"))
        self.refused("Check signature failed for accessKey=a-stranger", STRANGER, send_command("orders"))
        forger = AccessKey("an-admin", "a-wrong-secret")
        self.refused("Check signature failed for accessKey=an-admin", forger, send_command("orders"))
        self.refused("No permission for topic other", SENDER, send_command("other"))
        get_config = RequestCode.GET_BROKER_CONFIG
        self.refused("Need admin permission", SENDER, Command.request(get_config))
        self.assertEqual(self.cluster.signed(ADMIN, Command.request(get_config))[0], 0)

    def test_second_port(self) -> None:
        """The second port asks for keys, too."""
        fast = f"127.0.0.1:{self.cluster.configuration.broker.fast_listen_port}"
        self.refused("No accessKey is configured", None, send_command("orders"), fast)
        self.assertEqual(self.cluster.signed(SENDER, send_command("orders"), fast), (0, ""))

    def test_registry(self) -> None:
        """The broker has registered by its own key; routes are for all who have a key, changes for administrators."""
        self.cluster.signed(SENDER, send_command("orders"))
        self.cluster.pump(1)

        def route() -> Command:
            return Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteInfoRequest(topic="orders"))

        self.assertEqual(self.cluster.signed(SENDER, route(), REGISTRY), (0, ""))
        self.refused("No accessKey is configured", None, route(), REGISTRY)
        self.refused("Check signature failed", STRANGER, route(), REGISTRY)
        fields = {"namespace": "N", "key": "k", "value": "v"}

        def put() -> Command:
            return Command.request(RequestCode.PUT_KV_CONFIG, fields=fields)

        self.refused("Need admin permission", SENDER, put(), REGISTRY)
        self.assertEqual(self.cluster.signed(ADMIN, put(), REGISTRY), (0, ""))

    def test_forged(self) -> None:
        """Nobody but an administrator registers a broker, or removes one."""
        for code in (RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER):
            self.refused("No accessKey is configured", None, Command.request(code), REGISTRY)
            self.refused("Need admin permission", SENDER, Command.request(code), REGISTRY)

    def test_changed_settings(self) -> None:
        """With access control an administrator changes settings over the network (reliability X7)."""

        def change(code: int) -> Command:
            return Command.request(code, body=b"autoCreateTopicEnable=false")

        self.assertEqual(self.cluster.signed(ADMIN, change(RequestCode.UPDATE_BROKER_CONFIG)), (0, ""))
        self.assertFalse(self.cluster.broker.settings.current.broker.auto_create_topic_enable)
        self.refused("Need admin permission", SENDER, change(RequestCode.UPDATE_BROKER_CONFIG))

    def test_sent_back(self) -> None:
        """A group gives back messages of topics that it may read, and copies no others into its own retry topic."""
        sent = send_command("orders")
        ADMIN.sign(sent)
        offset = parse_message_id(self.cluster.ask(sent).read(SendResponse).msg_id)[1]

        def back() -> Command:
            header = SendBackRequest(offset=offset, group="billing", delay_level=0, origin_topic="invoices")
            return Command.request(RequestCode.CONSUMER_SEND_MSG_BACK, header)

        account = "- {accessKey: a-reader, secretKey: a-reader-secret, groupPerms: [billing=SUB], topicPerms: [%s]}\n"
        reader = AccessKey("a-reader", "a-reader-secret")
        lay(self.cluster.env, RULES + account % "invoices=SUB")
        self.cluster.pump(2 * PERIOD)
        self.refused("No permission for topic orders", reader, back())
        lay(self.cluster.env, RULES + account % "invoices=SUB, orders=SUB")
        self.cluster.pump(2 * PERIOD)
        self.assertEqual(self.cluster.signed(reader, back()), (0, ""))

    def change(self, code: int, **fields: str) -> tuple[int, str]:
        """Ask for a change of the files."""
        command = Command.request(code, fields=fields)
        ADMIN.sign(command)
        answers: list[object] = []
        self.cluster.client.ask(BROKER, command, 3.0).addBoth(answers.append)
        self.cluster.pump(0.2)
        (answer,) = answers
        assert isinstance(answer, Command), answer
        return answer.code, answer.remark or ""

    def test_accounts_changed(self) -> None:
        """An administrator creates, changes and deletes accounts; that holds at once, and the secrets stay secret."""
        newcomer = AccessKey("newcomer", "newcomer-secret")
        self.refused("Check signature failed", newcomer, send_command("orders"))
        fields = {"accessKey": "newcomer", "secretKey": "newcomer-secret", "topicPerms": "orders=PUB,other=SUB"}
        self.refused("Need admin permission", SENDER, Command.request(50, fields=fields))
        self.assertEqual(self.change(50, **fields), (0, ""))
        self.assertEqual(self.cluster.signed(newcomer, send_command("orders")), (0, ""))
        self.refused("No permission for topic other", newcomer, send_command("other"))
        self.assertEqual(self.change(50, accessKey="newcomer", secretKey="", defaultTopicPerm="PUB")[0], 0)
        self.assertEqual(self.cluster.signed(newcomer, send_command("fresh")), (0, ""))
        code, remark = self.change(50, accessKey="newcomer", secretKey="short")
        self.assertEqual(code, 209)
        self.assertIn("account 3: secretKey has to have 7 characters or more", remark)
        self.assertEqual(self.cluster.signed(newcomer, send_command("fresh")), (0, ""))
        self.assertEqual(self.change(51, accessKey="newcomer"), (0, ""))
        self.refused("Check signature failed", newcomer, send_command("orders"))
        code, remark = self.change(51, accessKey="newcomer")
        self.assertEqual((code, remark), (210, "there is no account with accessKey=newcomer"))
        self.assertEqual(self.cluster.signed(SENDER, send_command("orders")), (0, ""))

    def test_white_addresses(self) -> None:
        """The addresses without signatures are replaced; one that matches all is refused, and so is another file."""
        self.assertEqual(self.change(53, globalWhiteAddrs="10.0.0.1, 127.0.0.1"), (0, ""))
        wrong = AccessKey("a-sender", "a-wrong-secret")
        self.assertEqual(self.cluster.signed(wrong, send_command("orders")), (0, ""))
        self.assertEqual(self.change(53, globalWhiteAddrs="*")[0], 211)
        code, remark = self.change(53, globalWhiteAddrs="10.0.0.1", aclFileFullPath="/etc/passwd")
        self.assertEqual((code, remark), (211, "the file that is named is none of the access control files"))
        self.assertEqual(self.change(53, globalWhiteAddrs="10.0.0.1", aclFileFullPath=FILE), (0, ""))
        self.refused("Check signature failed", wrong, send_command("orders"))

    def test_versions(self) -> None:
        """Each change counts; files are named without their directory, and nothing of them is told."""
        command = Command.request(52)
        ADMIN.sign(command)
        before = self.cluster.ask(command).fields
        self.assertEqual(json.loads(before["version"])["counter"], 0)
        self.change(53, globalWhiteAddrs="10.0.0.1")
        self.change(53, globalWhiteAddrs="10.0.0.2")
        after = self.cluster.ask(command).fields
        self.assertEqual(json.loads(after["version"])["counter"], 2)
        self.assertEqual(json.loads(after["allAclFileVersion"]), {"plain_acl.yml": json.loads(after["version"])})
        self.assertEqual((after["brokerName"], after["clusterName"]), ("broker-a", "DefaultCluster"))
        self.assertNotIn("secret", str(after))

    def test_held_pull(self) -> None:
        """A pull that waits gets nothing once its account may not read any more, and what is sent if it may."""
        account = "- {accessKey: a-reader, secretKey: a-reader-secret, groupPerms: [CG=SUB], topicPerms: [%s]}\n"
        reader = AccessKey("a-reader", "a-reader-secret")
        self.cluster.signs = True
        self.cluster.send("orders")
        for permission, code in (("orders=SUB", 0), ("orders=PUB", 1), ("orders=SUB", 0)):
            lay(self.cluster.env, RULES + account % "orders=SUB")
            self.cluster.pump(2 * PERIOD)
            end = self.cluster.broker.store.bounds("orders", 0)[1]
            held = pull_command("orders", 0, end, sys_flag=6)
            reader.sign(held)
            answers: list[Any] = []
            self.cluster.client.ask(BROKER, held, 60.0).addBoth(answers.append)
            self.cluster.pump()
            self.assertEqual(answers, [])
            lay(self.cluster.env, RULES + account % permission)
            self.cluster.pump(2 * PERIOD)
            self.assertEqual(answers, [])
            sent = send_command("orders")
            ADMIN.sign(sent)
            self.cluster.client.ask(BROKER, sent, 3.0)
            self.cluster.pump()
            (answer,) = answers
            self.assertEqual(answer.code, code, answer.remark)
        lay(self.cluster.env, RULES + account % "orders=SUB")

    def test_producer_groups(self) -> None:
        """Every account joins a producer group; where that is checked, one with PUB for the group."""
        rules = RULES + "- {accessKey: a-member, secretKey: a-member-secret, groupPerms: [shop=PUB]}\n"
        member = AccessKey("a-member", "a-member-secret")
        for checks in (False, True):
            cluster = SecuredCluster(None, rules, aclCheckProducerGroups=str(checks).lower())
            self.addCleanup(cluster.stop)
            body = HeartbeatData(client_id="c", producer_data_set=[ProducerData(group_name="shop")]).encode()
            for key, denied in ((member, False), (ADMIN, False), (SENDER, checks)):
                code, remark = cluster.signed(key, Command.request(RequestCode.HEART_BEAT, body=body))
                self.assertEqual(code, int(denied), remark)
                if denied:
                    self.assertIn("No permission for group shop: PUB is needed", remark)

    def ask_users(self, key: AccessKey, code: int, body: object = None, **fields: str) -> tuple[int, str, Any]:
        """Ask for a change of the users; return code, remark and the body of the answer."""
        command = Command.request(code, fields=fields, body=b"" if body is None else json.dumps(body).encode())
        key.sign(command)
        answers: list[Any] = []
        self.cluster.client.hang_up(BROKER, "the next caller is another one")
        self.cluster.pump()
        self.cluster.client.ask(BROKER, command, 3.0).addBoth(answers.append)
        self.cluster.pump(0.2)
        (answer,) = answers
        return answer.code, answer.remark or "", json.loads(answer.body) if answer.body else None

    def test_users(self) -> None:
        """Users of RocketMQ 5 and their policies are made by requests, and hold at once; no password is told."""
        alice, other = AccessKey("alice", "alice-secret"), {"password": "x", "userType": "Super"}
        self.assertEqual(self.ask_users(ADMIN, 3001, {"password": "alice-secret"}, username="alice")[0], 0)
        self.refused("User:alice has no permission to access Topic:orders", alice, send_command("orders"))
        policy: dict[str, Any] = {"resource": "Topic:ord*", "actions": ["Pub"], "decision": "Allow"}
        acl = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [policy]}]}
        self.assertEqual(self.ask_users(ADMIN, 3006, acl, subject="User:alice")[0], 0)
        self.assertEqual(self.cluster.signed(alice, send_command("orders")), (0, ""))
        self.refused("User:alice has no permission to access Topic:other", alice, send_command("other"))
        self.assertEqual(self.ask_users(ADMIN, 3009, subject="User:alice"), (0, "", acl))
        self.assertEqual(self.ask_users(ADMIN, 3010, subjectFilter="", resourceFilter="ord"), (0, "", [acl]))
        told = {"username": "alice", "userType": "Normal", "userStatus": "enable"}
        self.assertEqual(self.ask_users(ADMIN, 3004, username="alice"), (0, "", told))
        self.assertEqual(self.ask_users(ADMIN, 3005, filter="a"), (0, "", [told]))
        self.refused("User:alice has no permission to access Cluster:DefaultCluster", alice, Command.request(3005))
        policy.update(resource="Cluster:*", actions=["All"])
        self.assertEqual(self.ask_users(ADMIN, 3007, acl, subject="User:alice")[0], 0)
        said = "The super user can only be create by super user"
        self.assertEqual(self.ask_users(alice, 3001, other, username="root"), (16, said, None))
        self.assertEqual(self.ask_users(alice, 3001, {"password": "x"}, username="bob")[0], 0)
        self.assertEqual(self.ask_users(ADMIN, 3001, other, username="root")[0], 0)
        self.assertEqual(self.ask_users(AccessKey("root", "x"), 3001, other, username="root2")[0], 0)
        for code, remark, asked, body, fields in (
            (29, "The username is blank", 3001, {"password": "x"}, {}),
            (29, "The username is blank", 3004, None, {}),
            (29, "The body of acl is null", 3006, None, {"subject": "User:x"}),
            (16, "The user is existed", 3001, {"password": "x"}, {"username": "bob"}),
        ):
            self.assertEqual(self.ask_users(ADMIN, asked, body, **fields), (code, remark, None))
        self.assertEqual(self.ask_users(ADMIN, 3008, subject="User:alice", resource="Topic:ord*")[0], 0)
        self.refused("User:alice has no permission to access Topic:orders", alice, send_command("orders"))
        self.assertEqual(self.ask_users(ADMIN, 3002, {"userStatus": "disable"}, username="alice")[0], 0)
        self.refused("Check signature failed for accessKey=alice", alice, send_command("orders"))
        self.assertEqual(self.ask_users(ADMIN, 3003, username="alice")[0], 0)
        self.assertEqual(self.ask_users(ADMIN, 3004, username="alice"), (0, "", None))

    def test_transactions(self) -> None:
        """A half message is committed by who may publish to its topic, whatever topic the request names (37)."""
        properties = {"UNIQ_KEY": "U", "TRAN_MSG": "true", "PGROUP": "PG"}
        half = send_command("other", properties=properties, sys_flag=4)
        ADMIN.sign(half)
        answer = self.cluster.ask(half)
        self.assertEqual(answer.code, 0, answer.remark)
        sent = answer.read(SendResponse)

        def commit() -> Command:
            header = EndTransactionRequest(
                producer_group="PG",
                tran_state_table_offset=sent.queue_offset,
                commit_log_offset=parse_message_id(sent.msg_id)[1],
                commit_or_rollback=8,
                msg_id="U",
                topic="orders",
            )
            return Command.request(RequestCode.END_TRANSACTION, header)

        self.refused("No permission for topic other", SENDER, commit())
        self.assertEqual(self.cluster.signed(ADMIN, commit()), (0, ""))

    def test_resumed(self) -> None:
        """A check is resumed by who may change the topic of the half message, whatever the request names (323)."""
        alice = AccessKey("alice", "alice-secret")
        self.assertEqual(self.ask_users(ADMIN, 3001, {"password": "alice-secret"}, username="alice")[0], 0)
        policy: dict[str, Any] = {"resource": "Topic:mine", "actions": ["Update"], "decision": "Allow"}
        acl = {"subject": "User:alice", "policies": [{"policyType": "Custom", "entries": [policy]}]}
        self.assertEqual(self.ask_users(ADMIN, 3006, acl, subject="User:alice")[0], 0)
        half = send_command("other", properties={"UNIQ_KEY": "U", "TRAN_MSG": "true", "PGROUP": "PG"}, sys_flag=4)
        ADMIN.sign(half)
        place = parse_message_id(self.cluster.ask(half).read(SendResponse).msg_id)[1]
        broker = self.cluster.broker
        transactions, stored = broker.transactions, decode(self.successResultOf(broker.store.at(place)))
        assert transactions is not None
        given_up = broker.store.append((given_up_copy(stored, 1),))
        transactions.pending.give_up(read_half(stored))
        broker.store.end_run()

        def resume(topic: str | None) -> Command:
            header = ResumeCheckRequest(message_id(transactions.host, given_up.offset), topic)
            return Command.request(RequestCode.RESUME_CHECK_HALF_MESSAGE, header)

        for topic in ("mine", "other"):
            self.refused("User:alice has no permission to access Topic:other", alice, resume(topic))
        self.refused("User:alice has no permission to access Cluster:DefaultCluster", alice, resume(None))
        policy["resource"] = "Topic:other"
        self.assertEqual(self.ask_users(ADMIN, 3006, acl, subject="User:alice")[0], 0)
        self.assertEqual(self.cluster.signed(alice, resume("other")), (0, ""))

    def test_replaced(self) -> None:
        """New rules hold for open connections."""
        send = send_command("orders")
        SENDER.sign(send)
        self.assertEqual(self.cluster.ask(send).code, 0)
        lay(self.cluster.env, RULES.replace("orders=PUB", "orders=DENY"))
        self.cluster.pump(2 * PERIOD)
        answer = self.cluster.ask(send)
        self.assertIn("No permission for topic orders", str(answer.remark))

    def test_set_key(self) -> None:
        """A key that is set signs what the broker asks; one that is no administrator's keeps it from registering."""
        for key, code in (("an-admin", 0), ("a-sender", 17)):
            cluster = SecuredCluster(accessKey=key, secretKey=f"{key}-secret")
            header: Header = RouteInfoRequest(topic="TBW102")
            asked = Command.request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
            self.assertEqual(cluster.signed(ADMIN, asked, REGISTRY)[0], code, key)
            cluster.stop()
