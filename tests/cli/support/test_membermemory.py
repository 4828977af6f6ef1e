"""What the commands say of a broker that is gone, where a REST API remembers it and where none does."""

from __future__ import annotations

import json

from twisted.internet.defer import Deferred

from smartgo.cli.support.membermemory import MemberMemoryAnswer, ask_memory
from smartgo.cli.support.rest import RestOptions
from smartgo.client.administration.brokers import BrokerPlace
from smartgo.schema.bodies import TopicConfig
from tests.broker.fakecluster import BROKER, REGISTRY
from tests.cli.case import ClusterCase
from tests.ops.front import PORT, Front

API = f"http://127.0.0.1:{PORT}"


class MemoryCase(ClusterCase):
    """A broker with ten messages in a topic of four queues, and a REST API in front of it."""

    def setUp(self) -> None:
        super().setUp()
        self.front = Front(self.cluster)
        self.addCleanup(self.front.stop_api)
        self.out("topic", "create", "Orders", "--queues", "4")
        for number in range(10):
            self.cluster.send("Orders", b"one", number % 4)
        self.cluster.pump(40.0, 1.0)

    def vanish(self) -> None:
        """End the broker's connections and take it away from the registry, as it is after a kill."""
        self.cluster.env.network.kill(10911)
        self.assertTrue(self.cluster.registry.routes.unregister(BROKER, "broker-a", 0))
        self.cluster.pump(12.0, 1.0)


class KnownTests(MemoryCase):
    """The API is at its usual address."""

    def test_list(self) -> None:
        """The list has the missing broker, says what cannot be reached, and ends with 75."""
        self.assertEqual([row["state"] for row in self.json("cluster", "ls")], ["up"])
        self.vanish()
        result = self.invoke("cluster", "ls", status=75)
        self.assertIn("missing, last seen ", result.stdout)
        self.assertIn("10 messages and 4 queues cannot be reached", result.stdout)
        self.assertEqual(result.stderr, "smartgo: missing: broker-a\n")
        (row,) = json.loads(self.invoke("cluster", "ls", "-o", "json", status=75).stdout)
        self.assertEqual((row["state"], row["unreachable_messages"], row["unreachable_queues"]), ("missing", 10, 4))

    def test_doctor(self) -> None:
        """The diagnosis calls it a problem, and ends with 1."""
        self.assertIn("brokers: none is missing", self.out("doctor"))
        self.vanish()
        out = self.invoke("doctor", status=1).stdout
        self.assertIn("X broker broker-a: is missing: it was last seen", out)
        self.assertIn("10 messages and 4 queues cannot be reached", out)
        self.assertIn("smartgo cluster forget broker-a", out)

    def test_no_registry(self) -> None:
        """While no registry answers, the API's word is told: which brokers answer. What was not checked is named."""
        self.cluster.env.network.kill(9876)
        self.cluster.pump(12.0, 1.0)
        out = self.invoke("doctor", status=1).stdout
        self.assertIn("- brokers: all that were registered before answer; whether others are missing is not known", out)
        self.assertIn("- cluster: nothing else was checked, as no registry answers", out)
        self.cluster.env.network.kill(10911)
        self.cluster.pump(12.0, 1.0)
        out = self.invoke("doctor", status=1).stdout
        self.assertIn("X broker broker-a: does not answer", out)
        self.assertNotIn("none is missing", out)
        checks = self.front.get("/ready", token=self.front.admin())["checks"]
        self.assertIn({"name": "brokers", "well": False, "detail": "not answering: broker-a"}, checks)

    def test_forget(self) -> None:
        """It is taken out of service by a command that says first what will not be mentioned any more."""
        self.assertIn("scope admin", self.refused("cluster", "forget", "broker-a", "--yes", status=77))
        self.env.host.variables["SMARTGO_TOKEN"] = self.front.admin()
        self.assertIn("is registered", self.refused("cluster", "forget", "broker-a", "--yes", status=1))
        self.vanish()
        self.assertIn("no terminal", self.refused("cluster", "forget", "broker-a", status=2))
        shown = self.out("cluster", "forget", "broker-a", "--dry-run")
        self.assertIn("broker-a at 127.0.0.1:10911, last seen ", shown)
        self.assertIn("Its 10 messages in 4 queues of 1 topic stay out of reach", shown)
        self.assertIn("missing", self.invoke("cluster", "ls", status=75).stderr)
        self.assertEqual(
            self.out("cluster", "forget", "broker-a", "--yes"), f"broker-a at {BROKER} is out of service\n"
        )
        self.assertIn("No broker is registered", self.out("cluster", "ls"))
        self.assertIn("there is no broker", self.refused("cluster", "forget", "broker-a", "--yes", status=66))


class SlaveStaysTests(ClusterCase):
    """A master is missing while its slave is registered, and is taken out of service."""

    def setUp(self) -> None:
        super().setUp()
        self.cluster.stop()
        self.cluster = type(self.cluster)(self.env, brokerRole="SLAVE", brokerId="1", storePathRootDir="/slave")
        self.front = Front(self.cluster)
        self.addCleanup(self.front.stop_api)
        self.token = self.env.host.variables["SMARTGO_TOKEN"] = self.front.admin()
        self.front.ops.membership.observe([BrokerPlace("DefaultCluster", "broker-a", 0, "192.0.2.1:1")])
        self.cluster.broker.topics.update(TopicConfig(topic_name="Orders"))
        self.cluster.pump(12.0, 1.0)

    def test_forget(self) -> None:
        """It is said what stays; then every face says that the broker has no master, and none that it is missing."""
        stays = "broker-a#1 at 127.0.0.1:10911 (up) stays in service. broker-a then has no master"
        self.assertEqual(self.invoke("cluster", "ls", status=75).stderr, "smartgo: missing: broker-a\n")
        self.assertIn(stays, self.out("cluster", "forget", "broker-a", "--dry-run"))
        self.assertIn(stays, self.out("cluster", "forget", "broker-a", "--yes"))
        self.cluster.pump(12.0, 1.0)
        result = self.invoke("cluster", "ls", "-o", "json", status=75)
        self.assertEqual(result.stderr, "smartgo: no master: broker-a\n")
        self.assertEqual([(row["id"], row["state"]) for row in json.loads(result.stdout)], [(1, "up")])
        said = self.invoke("doctor", status=1).stdout
        self.assertIn("+ brokers: none is missing", said)
        self.assertIn("X broker broker-a: has no master: it stores nothing", said)
        self.assertIn("X broker broker-a: its slave has topics that the registry does not know: ", said)
        for invented in ("start-writes", "namesrvAddr"):
            self.assertNotIn(invented, said)
        [row] = self.front.get("/brokers", token=self.token)["items"]
        self.assertEqual((row["id"], row["state"], row["brokerState"]), (1, "up", "no-master"))
        firing = {
            (one["rule"], one["subject"]) for one in self.front.get("/alerts?state=firing", token=self.token)["items"]
        }
        self.assertIn(("master-missing", "broker-a"), firing)
        self.assertNotIn(("broker-gone", "broker-a"), firing)


class UnknownTests(MemoryCase):
    """The API serves another cluster, or does not answer."""

    def test_other_cluster(self) -> None:
        """What the API of another cluster remembers is not mixed in, unless somebody names it."""
        self.vanish()
        self.front.ops.client.registries = ("10.0.0.9:9876",)
        self.assertIn("No broker is registered", self.out("cluster", "ls"))
        self.assertIn("missing, last seen", self.invoke("cluster", "ls", "--api", API, status=75).stdout)

    def test_beside(self) -> None:
        """An API that nobody named is found beside a broker of this machine, unless another one is set."""
        beside = Front(self.cluster, port=PORT + 20)
        self.addCleanup(beside.stop_api)
        self.cluster.pump(40.0, 1.0)
        self.vanish()
        port = self.env.network.ports.pop(PORT)
        self.addCleanup(self.env.network.ports.__setitem__, PORT, port)
        self.assertIsNone(self.ask(["10.0.0.7:10931", BROKER]).missing)
        missing = self.ask(["10.0.0.7:10931", "127.0.0.1:10931"]).missing
        self.assertEqual([one.broker for one in missing or ()], ["broker-a"])
        self.env.host.variables["SMARTGO_TOKEN"] = "not for a guessed address, where a wrong one is refused"
        self.assertIsNotNone(self.ask(["127.0.0.1:10931"]).missing)
        self.env.host.variables["SMARTGO_API"] = API
        self.assertIn(API, self.ask(["127.0.0.1:10931"]).reason)

    def ask(self, brokers: list[str]) -> MemberMemoryAnswer:
        """Return what is known if these brokers are registered."""
        waiting = Deferred.fromCoroutine(ask_memory(self.env, RestOptions(None, None, None), [REGISTRY], brokers))
        self.cluster.pump(1.0, 0.1)
        return self.successResultOf(waiting)

    def test_no_api(self) -> None:
        """Where no API answers, the diagnosis says that this is not known; one that was named must answer."""
        port = self.env.network.ports.pop(PORT)
        self.addCleanup(self.env.network.ports.__setitem__, PORT, port)
        self.assertIn("- brokers: brokers that were registered and are gone are not known", self.out("doctor"))
        self.assertIn(API, self.refused("cluster", "ls", "--api", API, status=75))
