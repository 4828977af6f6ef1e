"""The commands about brokers, registries, settings and clients."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed

from smartgo.broker.processors import requestprocessors
from smartgo.broker.processors.brokeradmin import BrokerAdmin
from smartgo.cli.support.embedded import surroundings
from smartgo.client.administration.brokers import Brokers
from smartgo.client.client import Client
from smartgo.client.producer import Producer
from smartgo.config.loading import BROKER as TABLES_OF_BROKER
from smartgo.config.loading import load
from smartgo.env.product import product_version
from smartgo.errors import CallFailed
from smartgo.node.options import SlaveOptions
from smartgo.schema.bodies import BrokerData, ClusterInfo
from tests.broker.fakecluster import BROKER, REGISTRY
from tests.cli.case import ClusterCase, CommandCase


class BrokerTests(ClusterCase):
    def test_list(self) -> None:
        """Brokers are listed with their rates; one that does not answer is named, and ends the command with 75."""
        self.out("topic", "create", "T")
        self.cluster.send("T")
        (row,) = self.json("cluster", "ls")
        self.assertEqual((row["broker"], row["id"], row["address"], row["put_today"]), ("broker-a", 0, BROKER, 1))
        self.assertEqual(row["failure"], None)
        self.assertIn("V4_9_8", self.out("cluster", "ls"))
        self.env.network.ports.pop(10911)  # the registry has not noticed yet
        result = self.invoke("cluster", "ls", status=75)
        self.assertIn("no answer", result.stdout)

    def test_slaves_alone(self) -> None:
        """A broker of which the registry knows only a slave is listed with a master that is missing."""
        self.cluster.stop()
        self.cluster = type(self.cluster)(self.env, brokerRole="SLAVE", brokerId="1", storePathRootDir="/slave")
        result = self.invoke("cluster", "ls", "-o", "json", status=75)
        states = {(row["broker"], row["id"]): row["state"] for row in json.loads(result.stdout)}
        self.assertEqual(states, {("broker-a", 0): "missing", ("broker-a", 1): "up"})
        self.assertIn("missing: broker-a", result.stderr)

    def test_named_slave(self) -> None:
        """A slave is named as alerts name it; a broker that is not registered may be missing."""
        self.cluster.stop()
        self.cluster = type(self.cluster)(self.env, brokerRole="SLAVE", brokerId="1", storePathRootDir="/slave")
        self.assertEqual(self.json("cluster", "show", "broker-a#1")["brokerRole"], "SLAVE")
        self.assertIn(
            "there is no broker broker-a#2; there is: broker-a#1",
            self.refused("cluster", "show", "broker-a#2", status=1),
        )
        said = self.refused("cluster", "show", "broker-a", status=1)
        self.assertIn("there is no master of broker broker-a", said)
        self.assertIn("(those that are missing: smartgo cluster ls)", said)

    def test_show(self) -> None:
        """A broker tells of itself, by its name and by its address."""
        by_name = self.json("cluster", "show", "broker-a")
        self.assertEqual(by_name["brokerVersionDesc"], "V4_9_8")
        self.assertEqual(by_name["smartgoVersion"], product_version())
        self.assertEqual(self.json("cluster", "show", BROKER).keys(), by_name.keys())
        self.assertIn("brokerVersionDesc", self.out("cluster", "show", "broker-a"))
        self.assertIn("broker-a", self.refused("cluster", "show", "nobody", status=1))

    def test_stats(self) -> None:
        """A counter is shown over three spans; what was never counted is missing."""
        self.out("topic", "create", "T")
        self.cluster.send("T")
        found = self.json("cluster", "stats", "TOPIC_PUT_NUMS", "T")
        self.assertEqual(set(found["broker-a"]), {"statsMinute", "statsHour", "statsDay"})
        lines = self.out("cluster", "stats", "TOPIC_PUT_NUMS", "T").splitlines()
        self.assertEqual([line.split()[1] for line in lines[1:]], ["minute", "hour", "day"])
        self.refused("cluster", "stats", "TOPIC_PUT_NUMS", "U", status=66)

    def test_writes(self) -> None:
        """A broker is left out by producers, and used again."""
        self.out("topic", "create", "T")
        self.assertIn("would be", self.out("cluster", "stop-writes", "broker-a", "--dry-run"))
        self.assertEqual(self.json("topic", "route", "T")["queueDatas"][0]["perm"], 6)
        self.assertIn("of broker-a are stopped", self.out("cluster", "stop-writes", "broker-a", "--yes"))
        self.assertEqual(self.json("topic", "route", "T")["queueDatas"][0]["perm"], 4)
        self.assertIn("of broker-a are allowed again", self.out("cluster", "start-writes", "broker-a"))
        self.assertEqual(self.json("topic", "route", "T")["queueDatas"][0]["perm"], 6)
        self.assertIn("--yes", self.refused("cluster", "stop-writes", "broker-a", status=2))
        self.refused("cluster", "stop-writes", "nobody", status=1)

    def test_clean(self) -> None:
        """A broker tidies up when it is told to."""
        self.assertIn("would remove", self.out("cluster", "clean", "log", "broker-a", "--dry-run"))
        for what in ("queues", "topics", "log"):
            self.assertIn("was asked to remove", self.out("cluster", "clean", what, "broker-a", "--yes"))
        self.assertIn("broker-a would remove", self.out("cluster", "clean", "log", "--dry-run"))
        self.assertIn("broker-a was asked to remove", self.out("cluster", "clean", "queues", "--yes"))
        self.invoke("cluster", "clean", "everything", "broker-a", status=2)

    def test_clean_all(self) -> None:
        """Without a name all brokers are meant, which the question says; an empty name is an error."""
        self.assertIn("empty", self.refused("cluster", "clean", "log", "", "--yes", status=2))
        asked: list[str] = []

        def clean(brokers: Brokers, broker: str) -> Deferred[None]:
            asked.append(broker)
            return succeed(None) if broker == "broker-b" else fail(CallFailed("no answer"))

        info = ClusterInfo(broker_addr_table={name: BrokerData("C", name) for name in ("broker-b", "broker-a")})
        self.patch(Brokers, "cluster", lambda brokers: succeed(info))
        self.patch(Brokers, "clean_log", clean)
        asks = "All brokers, 2 (broker-a, broker-b), will remove"
        self.assertIn(asks, self.refused("cluster", "clean", "log", status=2))
        self.assertEqual(asked, [])
        result = self.invoke("cluster", "clean", "log", "--yes", status=1)
        self.assertEqual(asked, ["broker-a", "broker-b"])
        self.assertIn("broker-b was asked to remove", result.stdout)
        self.assertIn("1 of 2 brokers not cleaned up: broker-a: no answer", result.stderr)


class DefinitionTests(ClusterCase):
    def test_there_and_back(self) -> None:
        """What one cluster exports another makes, at brokers of the same names or at others."""
        self.out("topic", "create", "Orders", "-n", "3", "--perm", "r")
        self.out("group", "create", "audit", "--retries", "2")
        self.out("kv", "put", "ORDER_TOPIC_CONFIG", "Orders", "broker-a:3")
        for name, words in (("/d.json", []), ("/d.yaml", ["-o", "yaml"])):
            text = self.out("cluster", "export", *words)
            self.env.files.create(name, text.encode())
            self.out("topic", "rm", "Orders", "--yes")
            self.out("group", "rm", "audit", "--yes")
            planned = self.json("cluster", "import", name, "--dry-run")
            self.assertEqual(
                [(one["kind"], one["name"], one["outcome"]) for one in planned],
                [("topic", "Orders", "create"), ("group", "audit", "create"), ("order", "Orders", "same")],
            )
            self.assertEqual(self.json("topic", "ls"), [])
            self.out("cluster", "import", name, "--yes")
            (row,) = self.json("topic", "ls")
            self.assertEqual((row["topic"], row["read_queues"], row["perm"]), ("Orders", 3, "r-"))
            self.assertEqual(self.json("group", "show", "audit")[0]["retryMaxTimes"], 2)
            self.assertEqual({one["outcome"] for one in self.json("cluster", "import", name)}, {"same"})

    def test_values(self) -> None:
        """Values of the namespaces that are named go with it."""
        self.out("kv", "put", "FLAGS", "k", "v")
        self.assertEqual(self.json("cluster", "export")["kv"], {})
        self.env.files.create("/d.json", self.out("cluster", "export", "--kv", "FLAGS").encode())
        self.out("kv", "put", "FLAGS", "k", "other")
        self.assertIn("value other -> v", self.out("cluster", "import", "/d.json", "--yes"))
        self.assertEqual(self.out("kv", "get", "FLAGS", "k"), "v\n")

    def test_dry_run(self) -> None:
        """A dry run says what would be changed, from what to what, and what is refused; it changes nothing."""
        self.out("topic", "create", "Orders", "-n", "3")
        self.env.files.create(
            "/d.json",
            b'{"topics": {"Orders": {"broker-a": {"readQueueNums": 5, "writeQueueNums": 3}}, "T": {"b": {}}}}',
        )
        result = self.invoke("cluster", "import", "/d.json", "--dry-run", status=1)
        self.assertIn("readQueueNums 3 -> 5", result.stdout)
        self.assertIn("there is no broker b with a master here", result.stdout)
        self.assertIn("Dry run: nothing was changed.", result.stdout)
        self.assertEqual(result.stderr, "smartgo: 1 item refused\n")
        self.assertIn("nothing was imported: ", self.refused("cluster", "import", "/d.json", "--yes", status=1))
        self.assertEqual(self.json("topic", "ls")[0]["read_queues"], 3)
        self.invoke("cluster", "import", "/d.json", "--yes", "--skip-refused", status=1)
        self.assertEqual([(one["topic"], one["read_queues"]) for one in self.json("topic", "ls")], [("Orders", 5)])

    def test_elsewhere(self) -> None:
        """Definitions of brokers that are not here need to be told where to."""
        self.env.files.create("/d.json", b'{"topics":{"T":{"other":{"topicName":"T","readQueueNums":2}}},"groups":{}}')
        self.assertIn("--broker", self.refused("cluster", "import", "/d.json", "--yes", status=1))
        self.out("cluster", "import", "/d.json", "--broker", "broker-a", "--yes")
        self.assertEqual(self.json("topic", "ls")[0]["read_queues"], 2)

    def test_wrong(self) -> None:
        """A file that is not there ends with 66, one that holds something else with 78; both are told."""
        self.assertIn("/none.json", self.refused("cluster", "import", "/none.json", status=66))
        for data in (
            b"{",
            b"[]",
            b'{"topics":{"T":{"b":{"readQueueNums":"many"}}},"groups":{}}',
            b"{1: 2}",
            b"2001-99-99",
            b"\xff",
        ):
            self.env.files.files.pop("/d.json", None)
            self.env.files.create("/d.json", data)
            said = self.refused("cluster", "import", "/d.json", "--broker", "broker-a", "--yes", status=78)
            self.assertIn("topic T at b: Expected `int" if b"many" in data else "/d.json", said)


class KVTests(ClusterCase):
    def test_values(self) -> None:
        """Values are put, listed, read and removed; a dry run changes nothing."""
        self.assertEqual(self.json("kv", "ls", "N"), [])
        self.assertIn("would be set to v", self.out("kv", "put", "N", "k", "v", "--dry-run"))
        self.refused("kv", "get", "N", "k", status=66)
        self.assertIn("not set before", self.out("kv", "put", "N", "k", "v"))
        self.assertEqual(self.out("kv", "get", "N", "k"), "v\n")
        self.assertEqual(self.json("kv", "get", "N", "k")["value"], "v")
        self.assertEqual(self.json("kv", "ls", "N"), [{"key": "k", "value": "v"}])
        self.out("kv", "rm", "N", "k", "--dry-run")
        self.out("kv", "rm", "N", "k", "--yes")
        self.assertIn("Namespace N is empty.", self.out("kv", "ls", "N"))
        self.refused("kv", "rm", "N", "k", "--yes", status=66)


class ClientTests(ClusterCase):
    def test_list(self) -> None:
        """Producers and consumers are listed by group."""
        self.assertIn("No client is connected.", self.out("client", "ls"))
        self.out("topic", "create", "T")
        self.cluster.heartbeat("cg", "T", client_id="c-1")
        client = Client(self.env, REGISTRY, instance="p")
        self.addCleanup(self.cluster.pump, 0.5)
        self.addCleanup(client.stop)
        Producer(client, "pg").start()
        client.routes.find("T")
        self.cluster.pump(1.0)
        client.heartbeat()
        self.cluster.pump(1.0)
        rows = {(row["role"], row["group"], row["client_id"]) for row in self.json("client", "ls")}
        self.assertEqual(rows, {("producer", "pg", client.id), ("consumer", "cg", "c-1")})
        self.assertEqual([row["group"] for row in self.json("client", "ls", "--role", "consumer")], ["cg"])
        self.assertEqual(self.json("client", "ls", "--group", "pg")[0]["role"], "producer")
        (shown,) = self.json("client", "show", "c-1")
        self.assertEqual(shown["brokers"], ["broker-a"])
        self.refused("client", "show", "nobody", status=66)


class ConfigTests(ClusterCase):
    def test_show(self) -> None:
        """The settings of a broker and of a registry are shown; one of both must be named."""
        rows = {row["name"]: row["value"] for row in self.json("config", "show", "broker-a")}
        self.assertEqual(rows["brokerName"], "broker-a")
        self.assertEqual(len(self.json("config", "show", "broker-a", "-f", "flushDisk")), 1)
        names = {row["name"] for row in self.json("config", "show", "--server", REGISTRY)}
        self.assertIn("kvConfigPath", names)
        self.invoke("config", "show", status=2)
        self.invoke("config", "show", "broker-a", "--server", REGISTRY, status=2)

    def test_change(self) -> None:
        """What may not be changed is refused, and a dry run refuses what the change refuses, in the same words."""
        real = self.refused("config", "set", "broker-a", "brokerPermission=4", "--yes", status=77)
        self.assertEqual(self.refused("config", "set", "broker-a", "brokerPermission=4", "--dry-run", status=77), real)
        self.assertIn("only where access control is on; smartgo's REST API can change them: --api URL", real)
        registries = ("config", "set", "--registries", "orderMessageEnable=true")
        real = self.refused(*registries, "--yes", status=77)
        self.assertEqual(self.refused(*registries, "--dry-run", status=77), real)
        self.assertIn("unknown setting", self.refused("config", "set", "broker-a", "nonsense=1", "--yes", status=78))
        self.refused("config", "set", "broker-a", "listenPort=1", "--yes", status=77)
        self.invoke("config", "set", "broker-a", status=2)
        self.invoke("config", "set", "a=b", "c=d", status=2)


class RemoteConfigTests(ClusterCase):
    """Brokers that accept changes over the remoting protocol, as RocketMQ's do."""

    def setUp(self) -> None:
        """A broker that accepts them."""

        def changeable(*arguments: Any, **named: Any) -> BrokerAdmin:
            return BrokerAdmin(*arguments, **(named | {"remote_config": True}))

        self.patch(requestprocessors, "BrokerAdmin", changeable)
        super().setUp()

    def test_dry_run(self) -> None:
        """A dry run shows what was before and what would be, and changes nothing."""
        (row,) = self.json("config", "set", "broker-a", "brokerPermission=4", "--dry-run")
        self.assertEqual((row["before"], row["after"]), ("6", "4"))
        self.assertEqual(self.json("config", "show", "broker-a", "-f", "brokerPermission")[0]["value"], "6")
        self.out("config", "set", "broker-a", "brokerPermission=4", "--yes")
        self.assertEqual(self.json("config", "show", "broker-a", "-f", "brokerPermission")[0]["value"], "4")


class CheckTests(CommandCase):
    def check(self, text: str, *more: str, name: str = "/broker.conf") -> dict[str, tuple[str, str]]:
        """Check a file; return value and origin by name of what is given."""
        self.env.files.files.pop(name, None)
        self.env.files.create(name, text.encode())
        rows = self.json("config", "check", name, "--given", *more)
        return {row["name"]: (row["value"], row["origin"]) for row in rows}

    def test_origins(self) -> None:
        """Each value of a file is shown with the line it is from; flags have the last word."""
        found = self.check("brokerName=b\nflushDiskType=SYNC_FLUSH\n", "--set", "brokerName=c")
        self.assertEqual(found["brokerName"][0], "c")
        self.assertIn("flag", found["brokerName"][1])
        self.assertEqual(found["flushDiskType"], ("SYNC_FLUSH", "file /broker.conf, line 2"))
        self.assertIn("brokerName", self.out("config", "check", "/broker.conf"))

    def test_wrong(self) -> None:
        """A file that is wrong or not there ends with 78 and says where."""
        self.env.files.create("/bad.conf", b"flushDiskType=SOMETIMES\n")
        self.assertIn("/bad.conf, line 1", self.refused("config", "check", "/bad.conf", status=78))
        self.refused("config", "check", "/nothing.conf", status=78)

    def test_describe(self) -> None:
        """Settings are explained, by a part of their names."""
        (row,) = self.json("config", "describe", "flushDiskType")
        self.assertIn("SYNC_FLUSH", row["allowed"])
        self.assertIn("[store] flushDiskType", self.out("config", "describe", "flushdisktype"))
        self.refused("config", "describe", "nonsense", status=66)

    def test_slave(self) -> None:
        """With C{--for slave} a file is read as the program of a slave does, without a warning; else as of a master."""
        for text, number in (("brokerName=a\nbrokerId=2\n", "2"), ("brokerName=a\nbrokerRole=ASYNC_MASTER\n", "1")):
            path = "/slave.conf"
            self.env.files.files.pop(path, None)
            self.env.files.create(path, text.encode())
            result = self.invoke("config", "check", path, "--for", "slave", "-o", "json")
            self.assertEqual(result.stderr, "")
            found = {row["name"]: row["value"] for row in json.loads(result.stdout)}
            self.assertEqual((found["brokerRole"], found["brokerId"]), ("SLAVE", number))
            options = SlaveOptions()
            options.parseOptions(["--config", path])
            started = load(
                surroundings(self.env), TABLES_OF_BROKER, path, text.encode(), options.flags(), options.usual
            )
            self.assertEqual((started.broker.broker_role, str(started.broker.broker_id)), ("SLAVE", number))
        self.env.files.create("/master.conf", b"brokerId=2\n")
        self.assertIn("is 0 for brokerRole=ASYNC_MASTER", self.invoke("config", "check", "/master.conf").stderr)
        self.env.files.create("/zero.conf", b"brokerId=0\n")
        self.assertIn(
            "brokerId must be above 0", self.refused("config", "check", "/zero.conf", "--for", "slave", status=78)
        )


class ContextTests(CommandCase):
    def test_life(self) -> None:
        """Contexts are made, listed, changed, used and forgotten."""
        self.assertIn("There are no contexts", self.out("context", "ls"))
        self.out("context", "set", "prod", "--registry", "10.0.0.1:9876, 10.0.0.2:9876", "--ca", "/ca.pem", "--use")
        self.out("context", "set", "dev")
        self.out("context", "set", "near", "--registry", "rocketmq://localhost")
        self.assertIn("localhost:9876", self.out("context", "show", "near"))
        self.out("context", "rm", "near")
        rows = self.json("context", "ls")
        self.assertEqual([(row["name"], row["current"]) for row in rows], [("dev", False), ("prod", True)])
        shown = self.json("context", "show")
        self.assertEqual((shown["name"], shown["registry"]), ("prod", "10.0.0.1:9876;10.0.0.2:9876"))
        self.out("context", "set", "prod", "--tls", "--ca", "")
        shown = self.json("context", "show", "prod")
        self.assertEqual((shown["tls"], shown["ca"]), (True, None))
        self.out("context", "use", "dev")
        self.assertIn("* dev", self.out("context", "ls").replace("*  dev", "* dev"))
        self.out("context", "rm", "dev")
        self.assertEqual(self.json("context", "show")["name"], None)
        self.out("context", "use", "--none")

    def test_wrong(self) -> None:
        """A name or an address that cannot be, a context that is not there, and a broken file are told."""
        self.refused("context", "set", "a b", status=78)
        self.refused("context", "set", "a", "--registry", "http://nowhere/path", status=78)
        self.refused("context", "set", "a", "--registry", " ; ", status=78)
        self.refused("context", "use", "no", status=78)
        self.refused("context", "rm", "no", status=78)
        self.invoke("context", "use", status=2)
        self.env.files.make_directories("/home/test/.config/smartgo")
        self.env.files.create("/home/test/.config/smartgo/contexts.toml", b"current = 3")
        self.assertIn("contexts.toml", self.refused("context", "ls", status=78))


class ChoiceTests(ClusterCase):
    def registry_of(self, *arguments: str) -> str:
        """Return the registry that a command asked, none of which answers."""
        return self.refused("topic", "ls", *arguments, status=75)

    def test_precedence(self) -> None:
        """An option, then a context that is named, then NAMESRV_ADDR, then the context in use, then the default."""
        self.out("context", "set", "here", "--registry", REGISTRY)
        self.out("context", "set", "used", "--registry", "h-used:1", "--use")
        self.assertIn("h-used:1", self.registry_of())
        self.env.host.variables["NAMESRV_ADDR"] = "h-variable:1"
        self.assertIn("h-variable:1", self.registry_of())
        self.assertEqual(self.json("topic", "ls", "--context", "here"), [])
        self.assertIn("h-option:1", self.registry_of("--registry", "h-option:1"))
        self.assertIn("h-option:1", self.registry_of("--registry", "h-option:1", "--context", "here"))
        self.env.host.variables["SMARTGO_CONTEXT"] = "here"
        self.assertEqual(self.json("topic", "ls"), [])
        self.refused("topic", "ls", "--context", "nowhere", status=78)

    def test_tls(self) -> None:
        """Files for TLS that cannot be read are told, and imply it."""
        self.assertIn("/no.pem", self.refused("topic", "ls", "--ca", "/no.pem", status=78))
        self.refused("topic", "ls", "--cert", "/no.pem", status=78)
