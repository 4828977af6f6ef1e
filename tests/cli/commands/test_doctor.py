"""The command that finds out what is wrong."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure

from smartgo.auth.accounts import AccessRules
from smartgo.auth.connections import AccessControl
from smartgo.broker.broker import Broker
from smartgo.broker.settings.changes import Who
from smartgo.cli.support.diagnosisresults import NOTE, OK, PROBLEM, WARNING, refusal, replication, unwritable
from smartgo.cli.support.portprobe import PortReply, probe
from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.config.loading import Surroundings, load
from smartgo.health.judgements import JUDGEMENTS
from smartgo.node.registryserver import Registry
from smartgo.registry.registration import Registration
from smartgo.schema.bodies import DataVersion, TopicConfig
from smartgo.schema.refusalkind import RefusalKind
from smartgo.schema.regions import Region
from smartgo.store.queues.expiry import ExpiredUnits
from tests.broker.fakecluster import BROKER, REGISTRY, SMALL, Cluster
from tests.cli.case import ClusterCase, CommandCase
from tests.ops.front import Front
from tests.remoting.doubles import sweeper_of


class Says(Protocol):
    """Says one thing to whoever speaks, and closes if it has nothing to say."""

    def __init__(self, words: bytes | None) -> None:
        self._words = words

    def dataReceived(self, data: bytes) -> None:
        """Answer."""
        assert self.transport is not None
        if self._words is None:
            return
        self.transport.write(self._words)
        if not self._words:
            self.transport.loseConnection()


def port(case: CommandCase, number: int, words: bytes | None) -> None:
    """Let something foreign listen."""
    factory = Factory()
    factory.buildProtocol = lambda addr: Says(words)  # type: ignore[method-assign]
    case.env.network.listen(f"tcp:{number}", factory)


HTTP2 = bytes.fromhex("000006040000000000000400ffffff")


class Examining(ClusterCase):
    """Tests that examine a cluster."""

    def examine(self, *arguments: str, status: int = 0) -> dict[tuple[str, str], str]:
        """Return the findings by verdict and subject, in words with the advice."""
        result = self.invoke("doctor", "-o", "json", *arguments, status=status)
        return {
            (one["verdict"], one["subject"]): f"{one['what']} | {one['advice']}" for one in json.loads(result.stdout)
        }


class DoctorTests(Examining):
    def test_well(self) -> None:
        """A cluster that is well has no problem, and says what was looked at."""
        self.addCleanup(Front(self.cluster).stop_api)
        found = self.examine()
        self.assertEqual({verdict for verdict, _ in found}, {"ok"})
        self.assertIn(("ok", "broker broker-a"), found)
        self.assertIn("No problem", self.out("doctor"))
        self.assertEqual(self.examine("--quiet"), {})

    def test_no_registry(self) -> None:
        """A registry that does not answer is told with what its port does."""
        for words, hint in (
            (HTTP2, "gRPC"),
            (b"HTTP/1.1 400 Bad\r\n\r\n", "an HTTP port"),
            (b"\x15\x03\x01\x00\x02\x02\x46\x00\x00", "TLS"),
        ):
            port(self, 7000, words)
            found = self.examine("--registry", "127.0.0.1:7000", status=1)
            self.assertIn(hint, found["problem", "registry 127.0.0.1:7000"])
            del self.env.network.ports[7000]
        found = self.examine("--registry", "127.0.0.1:7000", status=1)
        self.assertIn("is it running", found["problem", "registry 127.0.0.1:7000"])

    def test_unreachable(self) -> None:
        """A broker whose advertised address cannot be reached is a problem, with what to set."""
        self.env.network.ports.pop(10911)
        found = self.examine(status=1)
        self.assertIn("brokerIP1", found["problem", "broker broker-a"])

    def test_expected(self) -> None:
        """A broker that should be there is looked for in the registry."""
        found = self.examine("--broker", BROKER)
        self.assertIn("is registered", found["ok", f"broker {BROKER}"])
        self.assertIn(
            "is it running", self.examine("--broker", "127.0.0.1:7001", status=1)["problem", "broker 127.0.0.1:7001"]
        )
        self.assertTrue(self.cluster.registry.routes.unregister(BROKER, "broker-a", 0))
        found = self.examine("--broker", BROKER, status=1)
        self.assertIn("is not registered here", found["problem", f"broker {BROKER}"])
        self.assertIn("no broker is registered", found["problem", "registry"])

    def test_clock(self) -> None:
        """A broker whose clock differs is a warning; so is a disk that fills up, and a full one is a problem."""
        self.env.files.free = self.env.files.total // 10
        self.cluster.pump(15.0)
        found = self.examine(status=1)
        self.assertIn("90% full", found["problem", "broker broker-a"])

        def skewed() -> int:
            return 1_700_000_000_000 + 90_000 + round(self.env.clock.seconds() * 1000)

        self.env.files.free = self.env.files.total // 5
        self.patch(self.env.clock, "wall_ms", skewed)
        self.cluster.pump(15.0)
        warnings = [what for (verdict, _), what in self.examine().items() if verdict == "warning"]
        self.assertTrue(any("80% full" in one or "clock" in one for one in warnings), warnings)

    def test_slave(self) -> None:
        """A slave that follows no master, as its broker has none, is no problem of its own; that of its broker is."""
        self.cluster.stop()
        self.cluster = type(self.cluster)(self.env, brokerRole="SLAVE", brokerId="1", storePathRootDir="/slave")
        found = self.examine(status=1)
        self.assertIn("follows no master", found["note", "broker broker-a#1"])
        self.assertIn("has no master: it stores nothing", found["problem", "broker broker-a"])
        self.assertEqual([subject for verdict, subject in found if verdict == "warning" and "slave" in subject], [])
        self.assertIn("only once the registries know", found["note", "broker broker-a#1"])
        self.assertNotIn(("warning", "broker broker-a"), found)

    def test_slave_routed(self) -> None:
        """The messages of a slave without a master can be read once a registry has taken its topics."""
        self.cluster.stop()
        self.cluster = type(self.cluster)(self.env, brokerRole="SLAVE", brokerId="1")
        found = self.examine(status=1)
        self.assertIn("its slave has topics that the registry does not know", str(found))
        self.cluster.pump(90.0, 1.0)
        found = self.examine(status=1)
        self.assertNotIn("its slave has topics", str(found))
        self.assertTrue(found["note", "broker broker-a#1"].endswith("its messages can be read | "), found)
        self.assertNotIn(("warning", "broker broker-a"), found)

    def test_route_of_others(self) -> None:
        """Of a broker whose topics the registry does not know no removed write permission is told."""
        self.cluster.pump(5.0)
        routes = self.cluster.registry.routes
        for topic in routes.topics():
            routes.delete_topic(topic)
        routes.register(
            Registration(
                "DefaultCluster",
                "broker-x",
                0,
                "192.0.2.1:1",
                "",
                DataVersion(),
                {one: TopicConfig(topic_name=one) for one in ("TBW102", "SELF_TEST_TOPIC")},
            ),
            object(),
        )
        found = self.examine(status=1)
        self.assertNotIn("write permission", str(found))

    def test_replication(self) -> None:
        """A slave with another log is a problem, one far behind, or no slave, a warning."""
        self.assertEqual(replication("b", {"brokerRole": "SYNC_MASTER", "haSlaveCount": "1"}), [])
        self.assertEqual(replication("b", {"brokerRole": "ASYNC_MASTER", "haSlaveCount": "0"}), [])
        [found] = replication("b", {"brokerRole": "SYNC_MASTER", "haSlaveCount": "0"})
        self.assertEqual(found.verdict, WARNING)
        told = {"haState": "DIVERGED", "haReason": "our log goes to 9, the master's only to 0", "haBehindBytes": "0"}
        [found] = replication("b", told)
        self.assertEqual(found.verdict, PROBLEM)
        self.assertIn("only to 0", found.what)
        [found] = replication("b", {"haState": "CONNECTING", "haReason": "response code 16"})
        self.assertEqual((found.verdict, "response code 16" in found.what), (WARNING, True))
        self.assertIn("haAccessKey", found.advice)
        [found] = replication("b", {"haState": "CONNECTING", "haReason": "refused"}, masterless=True)
        self.assertEqual((found.verdict, found.advice), (NOTE, ""))
        self.assertNotIn("only once", found.what)
        [found] = replication("b", {"haState": "CATCHING_UP", "haBehindBytes": str(300 << 20)})
        self.assertEqual((found.verdict, found.what), (WARNING, "is 300 MiB behind its master"))
        [found] = replication("b", {"haState": "FOLLOWING", "haBehindBytes": "0", "haMasterAddress": "10.0.0.1:10912"})
        self.assertEqual((found.verdict, found.what), (OK, "follows 10.0.0.1:10912, 0 B behind"))

    def test_template(self) -> None:
        """Where sends do not create topics that is noted."""
        self.cluster.stop()
        self.cluster = type(self.cluster)(self.env, autoCreateTopicEnable="false", storePathRootDir="/other")
        self.assertIn("no template", self.examine()["note", "topics"])

    def test_topics(self) -> None:
        """Topics that nobody can write to are told, and brokers left out by the registry."""
        self.out("topic", "create", "Shut", "--perm", "r")
        found = self.examine(status=1)
        self.assertEqual(
            found["problem", "topics"], "nobody can write to Shut | to allow it: smartgo topic set NAME --perm rw"
        )
        self.out("topic", "set", "Shut", "--perm", "rw")
        self.assertNotIn(("problem", "topics"), self.examine())
        self.out("cluster", "stop-writes", "broker-a", "--yes")
        self.assertIn("start-writes broker-a", self.examine()["warning", "broker broker-a"])

    def test_some_brokers(self) -> None:
        """What only some brokers do not take is noted, or warned of; what none that has it takes is a problem."""
        open_, shut = TopicConfig(topic_name="T", perm=6), TopicConfig(topic_name="T", perm=4)
        [found] = unwritable({"a": {"T": open_}, "b": {"T": shut}}, {"a", "b"})
        self.assertEqual((found.verdict, found.subject, found.what), (NOTE, "broker b", "accepts no messages for T"))
        found, _ = unwritable({"a": {"T": open_}, "b": {"T": shut}}, {"b"})
        self.assertEqual((found.verdict, found.subject), (PROBLEM, "topics"))
        self.assertIn("nobody can write to T: no broker that has it", found.what)
        self.assertEqual(unwritable({"a": {"T": open_}, "b": {}}, {"a"}), [])
        self.assertEqual(unwritable({"a": {"T": open_}}, set()), [])  # why that is was told of the broker
        [found] = unwritable({"a": {"T": shut}, "b": {"T": shut}}, {"a", "b"})
        self.assertEqual((found.verdict, found.what), (PROBLEM, "nobody can write to T"))

    def permit(self, broker: Broker, permission: int) -> None:
        """Change what a broker allows as a whole."""
        broker.settings.change([("brokerPermission", str(permission))], Who("boss"))
        self.cluster.pump(0.1)

    def test_permission(self) -> None:
        """A broker whose own permission forbids writing is a problem where no other one takes messages."""
        self.addCleanup(Front(self.cluster).stop_api)
        self.out("topic", "create", "T")
        self.permit(self.cluster.service, 4)
        found = self.examine(status=1)
        words = found["problem", "broker broker-a"]
        self.assertIn("its brokerPermission is 4, and no other broker", words)
        self.assertIn("smartgo config set broker-a brokerPermission=6", words)
        self.assertEqual({subject for verdict, subject in found if verdict != "ok"}, {"broker broker-a"})
        self.assertNotIn("start-writes", " ".join(found.values()))
        self.assertNotIn("autoCreateTopicEnable", " ".join(found.values()))
        self.permit(self.cluster.service, 6)
        self.assertEqual({verdict for verdict, _ in self.examine()}, {"ok"})

    def test_permission_of_one(self) -> None:
        """A broker that may not be written is a warning while another takes messages; what it alone has, a problem."""
        flags = {"brokerName": "broker-b", "listenPort": "11911", "haListenPort": "11912", "storePathRootDir": "/b"}
        other = Broker(self.env, self.cluster.configure(flags), sweeper_of(self.env.clock))
        other.startService()
        self.addCleanup(self.cluster.pump, 7.0)
        self.addCleanup(other.stopService)
        self.cluster.pump(1.0)
        self.permit(other, 4)
        found = self.examine()
        self.assertIn("config set broker-b brokerPermission=6", found["warning", "broker broker-b"])
        self.assertIn("the first send to a new topic creates it", found["ok", "topics"])
        self.assertNotIn(("problem", "topics"), found)  # but for the brokers' own topics
        self.out("topic", "create", "Lonely", "--broker", "broker-b")
        self.assertIn("nobody can write to Lonely", self.examine(status=1)["problem", "topics"])
        self.cluster.broker.store.hold_back("registry x does not let this broker be a master: y")
        shown = self.invoke("doctor", status=1).stdout
        self.assertIn("X broker broker-a: takes no messages now: registry x does not let", shown)
        self.assertIn("X broker broker-b: accepts no messages: its brokerPermission is 4, and no other", shown)

    def test_refusing(self) -> None:
        """A broker whose store takes no messages is a problem, with the store's own words and what to do."""
        self.assertNotIn("storeRefusal", self.cluster.broker.runtime_info.entries())
        self.cluster.stop()
        self.env.files.free = 109_027_328
        self.cluster = type(self.cluster)(self.env, storePathRootDir="/narrow")
        reason = self.cluster.broker.store.refusal
        assert reason is not None
        self.assertEqual(reason.kind, RefusalKind.DISK_FULL)
        self.assertIn("only 104 MiB are free on the disk of the store, 1 GiB are demanded", reason.words)
        result = self.invoke("doctor", status=1)
        self.assertIn(f"X broker broker-a: takes no messages now: {reason.words}", result.stdout)
        self.assertIn("Make room on its disk", result.stdout)
        self.assertNotIn("the first send to a new topic creates it", result.stdout)
        self.assertNotIn("No problem", result.stdout)
        for kind, told, advice in (
            ("failed", "the store failed: No space left on device", "restart"),
            ("noRoom", "no room for a CommitLog file of 9 B: no", "Make room"),
            ("notMaster", "registry 10.0.0.1:9876 does not let this broker be a master: x", "another master"),
            ("closed", "the store is closed", "its log"),
        ):
            [found] = refusal("b", {"storeRefusal": told, "storeRefusalKind": kind})
            self.assertEqual((found.verdict, found.what), (PROBLEM, f"takes no messages now: {told}"))
            self.assertIn(advice, found.advice)
        self.assertEqual(refusal("b", {}), [])

    def test_retention_obstacle(self) -> None:
        """A log file that retention cannot remove is a warning, with the reason."""
        broker = self.cluster.broker
        self.assertNotIn("retentionObstacle", broker.runtime_info.entries())
        broker.store.cleaner.obstacle = "timed messages wait in it"
        table = broker.runtime_info.entries()
        [found] = refusal("b", table)
        self.assertEqual(
            (found.verdict, found.what),
            (WARNING, "retention cannot remove the oldest log file: timed messages wait in it"),
        )

    def test_slaves_do_not_refuse(self) -> None:
        """A slave that takes nothing because it is one says nothing of that."""
        self.cluster.stop()
        self.cluster = type(self.cluster)(self.env, brokerRole="SLAVE", brokerId="1", storePathRootDir="/slave")
        self.assertNotIn("storeRefusal", self.cluster.broker.runtime_info.entries())
        self.assertNotIn("takes no messages", str(self.examine(status=1)))

    def test_last_line(self) -> None:
        """The last line counts what is to be looked at."""
        self.assertTrue(self.out("doctor").endswith("\nNo problems.\n"))
        self.patch(self.env.files, "free", self.env.files.total // 5)
        self.cluster.pump(15.0)
        shown = self.out("doctor", "--quiet")
        self.assertIn("! broker broker-a: the disk is 80% full", shown)
        self.assertTrue(shown.endswith("\nNo problems, 1 warning.\n"), shown)
        self.out("group", "create", "cg")
        self.out("topic", "create", "T", "-n", "1")
        self.cluster.send("T")
        self.cluster.pump(1.0)
        self.out("group", "reset", "cg", "T", "--to", "0", "--yes", "--plan", "/p")
        self.assertTrue(self.out("doctor").endswith("\nNo problems, 2 warnings.\n"))
        self.out("topic", "create", "Shut", "--perm", "r")
        self.assertIn("1 problem, 2 warnings", self.invoke("doctor", status=1).stderr)

    def test_damaged(self) -> None:
        """Known damage in a broker's log is a problem, with the advice of the alert."""
        self.assertNotIn("damagedRegions", self.cluster.broker.runtime_info.entries())
        self.cluster.broker.store.damage.add([Region(5, 7, "body CRC differs", "T", 1, 2, 3, "x")])
        self.flushLoggedErrors()
        self.assertEqual(self.cluster.broker.runtime_info.entries()["damagedBytes"], "7")
        said = self.examine(status=1)["problem", "broker broker-a"]
        self.assertEqual(said, f"damaged regions in its log: 1 | {JUDGEMENTS['log-damaged'].advice}")
        self.assertIn("1 problem", self.invoke("doctor", status=1).stderr)

    def test_refused_access_files(self) -> None:
        """Access control files that a broker refused are a warning, with the advice of the alert."""
        access = AccessControl(AccessRules())
        self.patch(self.cluster.broker.runtime_info, "_access", access)
        self.assertNotIn("access control", str(self.examine()))
        access.problem = "/conf/plain_acl.yml: the access control file is no YAML"
        advice = JUDGEMENTS["access-files-refused"].advice
        said = self.examine()["warning", "broker broker-a"]
        self.assertEqual(said, f"refused its access control files: the rules from before stay in force | {advice}")

    def test_removed_unread(self) -> None:
        """A group whose messages were removed before it read them is told how many it lost."""
        self.out("topic", "create", "T", "-n", "1")
        self.cluster.send("T")
        self.cluster.pump(1.0)
        self.out("group", "create", "cg")
        self.cluster.broker.offsets.commit("cg", "T", 0, 1)
        progress = self.cluster.broker.group_progress
        self.cluster.broker.offsets.commit("cg", "T", 0, 0)
        progress.unread_removals.expired(ExpiredUnits("T", 0, 0, 1204))
        self.cluster.broker.offsets.commit("cg", "T", 0, 1)
        said = self.examine()["warning", "group cg"]
        self.assertIn("1,204 messages were removed before this group read them", said)

    def test_hanging_group(self) -> None:
        """A group whose consumer is connected and hangs at its first message acknowledges nothing: one line says so."""
        self.out("topic", "create", "T", "-n", "1")
        self.cluster.heartbeat("cg", "T")
        self.cluster.broker.offsets.commit("cg", "T", 0, 0)
        self.cluster.send("T")
        self.cluster.pump(1.0)
        self.assertNotIn(("warning", "group cg"), self.examine())
        self.cluster.pump(60.0, step=10.0)
        self.cluster.heartbeat("cg", "T")
        stopped = "1 message waiting, and its consumers acknowledge none"
        self.assertIn(stopped, self.examine()["warning", "group cg"])
        self.assertNotIn("behind", self.examine()["warning", "group cg"])
        for _ in range(10):
            self.cluster.pump(60.0, step=10.0)
            self.cluster.heartbeat("cg", "T")
        said = self.out("doctor")
        self.assertIn(stopped, said)
        self.assertNotIn("behind", said)  # more consumers would not help
        self.cluster.send("T")
        self.cluster.pump(1.0)
        self.cluster.broker.offsets.commit("cg", "T", 0, 1)
        self.cluster.broker.stats.acknowledged("cg", "T", 1)
        self.cluster.pump(15.0)
        self.assertNotIn("acknowledge none", self.out("doctor"))

    def test_groups(self) -> None:
        """A group that messages wait for and nobody is in, and dead letters, are told."""
        self.out("topic", "create", "T", "-n", "1")
        self.cluster.send("T")
        self.cluster.pump(1.0)
        self.out("group", "create", "cg")
        self.out("group", "reset", "cg", "T", "--to", "0", "--yes", "--plan", "/p")
        found = self.examine()
        self.assertIn("1 message waiting, no consumer connected", found["warning", "group cg"])
        self.assertNotIn(("ok", "groups"), found)
        self.cluster.send("%RETRY%cg", reconsume_times=16, max_reconsume_times=16)
        letters = ("warning", "group cg", "1 dead letter neither resent nor acknowledged")
        self.assertIn(letters, [(one["verdict"], one["subject"], one["what"]) for one in self.json("doctor")])
        self.cluster.send("%RETRY%cg", reconsume_times=16, max_reconsume_times=16)
        self.cluster.broker.topics.create_for_group("%DLQ%empty", 1, 6, 0)
        self.assertIn("2 dead letters neither resent nor acknowledged", self.out("doctor"))

    def test_subscriptions(self) -> None:
        """Members of one group that want different things are a problem."""
        self.out("topic", "create", "T", "-n", "1")
        for number, tag in enumerate(("A", "B")):
            client = Client(self.env, REGISTRY, instance=f"c{number}")
            self.addCleanup(self.cluster.pump, 0.5)
            self.addCleanup(client.stop)
            consumer = PushConsumer(client, "cg", lambda messages: None)
            consumer.subscribe("T", tag)
            consumer.start()
            self.cluster.pump(2.0)
        found = self.examine(status=1)["problem", "group cg"]
        self.assertIn("wants A (TAG)", found)
        self.assertIn("wants B (TAG)", found)

    def test_disk(self) -> None:
        """The disk of a store on this machine is measured, and left as it was."""
        self.env.files.make_directories("/data")
        found = self.examine("--store", "/data")
        self.assertIn("durable writes", found["ok", "disk of /data"])
        self.assertEqual(self.env.files.list("/data"), [])
        self.examine("--store", "/nowhere", status=1)
        create = self.env.files.create

        def slowly(path: str, data: bytes, sync: bool = True) -> None:
            create(path, data, sync)
            self.env.clock.advance(0.2)

        self.patch(self.env.files, "create", slowly)
        self.assertIn("200.0 ms", self.examine("--store", "/data", status=1)["problem", "disk of /data"])

    def test_descriptors(self) -> None:
        """A low limit of open files is noted."""
        self.patch(self.env.host, "open_file_limit", lambda: 1024)
        self.assertIn("1,024", self.examine()["note", "this machine"])


class TwoRegistriesTests(Examining):
    """Two registries."""

    def setUp(self) -> None:
        """One of them at first, and the broker."""
        CommandCase.setUp(self)
        self.names = f"{REGISTRY};127.0.0.1:9877"
        self.cluster = Cluster(self.env, namesrvAddr=self.names, advertisedAddresses="@:9877=localhost:10911")
        self.addCleanup(self.cluster.stop)

    def second(self) -> None:
        """Start the other."""
        flags = {**SMALL, "registry.listenPort": "9877", "kvConfigPath": "/kv2.json"}
        registry = Registry(
            self.env,
            load(Surroundings("testhost", "/home/test", lambda _: None), flags=flags),
            sweeper_of(self.env.clock),
        )
        registry.startService()
        self.addCleanup(self.cluster.pump, 7.0)
        self.addCleanup(registry.stopService)

    def test_missing(self) -> None:
        """A broker that one of the registries does not know is named."""
        self.second()
        self.cluster.broker.registrar.running = 0  # it tells nobody
        found = self.examine("-r", self.names, status=1)
        self.assertIn("does not know broker-a", found["problem", "registry 127.0.0.1:9877"])

    def test_each_its_address(self) -> None:
        """That they tell different addresses of a broker, as it wants, is no fault."""
        self.second()
        self.addCleanup(Front(self.cluster).stop_api)
        self.cluster.pump(11.0)
        found = self.examine("-r", self.names)
        self.assertEqual({verdict for verdict, _ in found}, {"ok"})
        found = self.examine("-r", "127.0.0.1:9877", "--broker", BROKER)
        self.assertIn("is registered as localhost:10911", found["ok", f"broker {BROKER}"])


class ProbeTests(CommandCase):
    def probed(self, words: bytes | None) -> PortReply:
        """Return the reply of a port that sends some bytes."""
        self.env.network.ports.clear()
        port(self, 7000, words)
        results: list[Any] = []
        Deferred.fromCoroutine(probe(self.env, "127.0.0.1:7000")).addBoth(results.append)
        self.env.network.pump()
        self.env.clock.advance(3.0)
        self.env.network.pump()
        if isinstance(results[0], Failure):
            results[0].raiseException()
        answer: PortReply = results[0]
        return answer

    def test_answers(self) -> None:
        """A port is known by what it says to an HTTP/2 client."""
        self.assertIs(self.probed(HTTP2), PortReply.HTTP2)
        self.assertIs(self.probed(b"HTTP/1.1 400 Bad Request\r\n"), PortReply.HTTP1)
        self.assertIs(self.probed(b"\x15\x03\x03\x00\x02\x02\x46\x00\x00"), PortReply.TLS)
        self.assertIs(self.probed(b"hello, who are you?"), PortReply.OTHER)
        self.assertIs(self.probed(b""), PortReply.CLOSED)
        self.assertIs(self.probed(None), PortReply.SILENT)
