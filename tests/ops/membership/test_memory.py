"""The memory of members behind the API: what REST, readiness and alerts say of a broker that is gone."""

from __future__ import annotations

import errno
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.administration.brokers import BrokerPlace
from smartgo.errors import BrokenTable, CallFailed
from smartgo.ops.membership.members import TopicContent
from smartgo.ops.membership.memory import REGISTERS, MemberMemory
from smartgo.ops.problems import Problem
from smartgo.schema.bodies import BrokerData, ClusterInfo
from smartgo.tablefile import LANE, TableFile
from tests.broker.fakecluster import BROKER, Cluster
from tests.fakes import FakeEnvironment
from tests.ops.front import Front
from tests.store.stores import held

PATH = "/store/ops/members.json"


class MemoryCase(SynchronousTestCase):
    """A front in another process than the broker, which has four queues with 10 messages."""

    def setUp(self) -> None:
        self.front = Front(Cluster(maxHashSlotNum="100", maxIndexNum="400"))
        self.cluster = self.front.cluster
        self.addCleanup(self.finish)
        self.token = self.front.admin()
        self.order("POST", "/topics", {"name": "Orders", "readQueues": 4, "writeQueues": 4})
        for number in range(10):
            self.cluster.send("Orders", b"one", number % 4)
        self.cluster.pump(40.0, 1.0)  # it was counted, and registers again only in 20 s

    def finish(self) -> None:
        """Stop the front that there is."""
        self.front.stop()

    def get(self, path: str) -> Any:
        """Ask as admin."""
        return self.front.get(path, token=self.token)

    def order(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Change something as admin; return status and body."""
        answer = self.front.ask(method, path, body, token=self.token)
        return answer.status, answer.json if answer.content else None

    def vanish(self) -> None:
        """End the broker's connections and take it away from the registry, as it is after a kill."""
        self.cluster.env.network.kill(10911)
        self.assertTrue(self.cluster.registry.routes.unregister(BROKER, "broker-a", 0))
        self.cluster.pump(12.0, 1.0)


class GoneTests(MemoryCase):
    """A broker that is no longer registered."""

    def test_timed(self) -> None:
        """Timed messages that waited there are told, too."""
        due_ms = self.cluster.env.clock.wall_ms() + 3_600_000
        sent = self.cluster.send("Orders", b"later", properties={"UNIQ_KEY": "7F", "TIMER_DELIVER_MS": str(due_ms)})
        self.assertEqual(sent.code, 0, sent.remark)
        self.cluster.pump(12.0, 1.0)
        self.vanish()
        [row] = self.get("/brokers")["items"]
        self.assertEqual((row["unreachable"]["messages"], row["unreachable"]["timed"]), (10, 1))
        self.assertEqual(self.get("/cluster")["unreachable"]["timed"], 1)
        self.assertIn("4 queues cannot be reached, nor 1 timed message that waits for delivery.", row["effect"])

    def test_brokers(self) -> None:
        """Lists, the broker's own page and the totals show it as missing, with what cannot be reached."""
        before = self.get("/brokers")["items"][0]
        self.assertEqual((before["up"], before["state"], before["brokerState"]), (True, "up", "up"))
        self.assertEqual(self.get("/cluster")["unreachable"], None)
        self.vanish()
        [row] = self.get("/brokers")["items"]
        self.assertEqual((row["up"], row["state"], row["brokerState"]), (False, "missing", "missing"))
        lost = {name: row["unreachable"][name] for name in ("queues", "messages")}
        self.assertEqual(lost, {"queues": 4, "messages": 10})
        self.assertGreater(row["lastSeenMs"], row["firstSeenMs"])
        page = self.get("/brokers/broker-a")
        self.assertEqual((page["state"], page["runtime"], len(page["members"])), ("missing", {}, 1))
        self.assertEqual(page["content"], page["unreachable"])
        totals = self.get("/cluster")
        self.assertEqual((totals["brokers"], totals["brokersDown"], totals["brokersMissing"]), (1, 1, 1))
        self.assertEqual(totals["unreachable"]["messages"], 10)
        self.assertEqual(totals["uncounted"], ["broker-a"])

    def test_topics(self) -> None:
        """Topics say what of them cannot be reached; those that no other broker has stay in the list."""
        self.vanish()
        page = self.get("/topics?kind=normal&amounts=true&q=Orders")
        [row] = page["items"]
        self.assertEqual(row["unreachable"], [{"broker": "broker-a", "queues": 4, "messages": 10}])
        self.assertEqual((row["brokers"], row["amounts"]), ([], None))
        self.assertEqual([one["broker"] for one in page["missing"]], ["broker-a"])
        self.assertIn("missing", page["missing"][0]["reason"])
        self.assertEqual(self.get("/topics/Orders")["unreachable"], row["unreachable"])
        status, problem = self.order("GET", "/topics/Nothing")
        self.assertEqual((status, problem["code"]), (502, "brokers-missing"))

    def test_groups(self) -> None:
        """Every view of groups names the broker that is missing from it."""
        self.vanish()
        self.assertEqual([one["broker"] for one in self.get("/groups")["missing"]], ["broker-a"])

    def test_ready(self) -> None:
        """Readiness names it to those who may read, and stays 200: this process serves."""
        self.assertEqual(
            {one["name"]: one["well"] for one in self.get("/ready")["checks"]}, {"brokers": True, "registries": True}
        )
        self.vanish()
        self.cluster.pump(8.0, 1.0)
        checks = {one["name"]: one for one in self.get("/ready")["checks"]}
        self.assertEqual(checks["brokers"], {"name": "brokers", "well": False, "detail": "missing: broker-a"})

    def test_registry(self) -> None:
        """While no registry answers, the brokers that were registered are shown nevertheless, and none is missing."""

        async def cluster() -> Any:
            raise CallFailed("no registry answers")

        self.patch(self.front.ops.view.admin.brokers, "cluster", cluster)
        self.cluster.pump(12.0, 1.0)
        [row] = self.get("/brokers")["items"]
        self.assertEqual((row["up"], row["state"]), (True, "up"))
        self.assertEqual(self.front.ops.membership.table.missing(), [])
        now_ms = self.cluster.env.clock.wall_ms()
        self.assertLess(now_ms - row["lastSeenMs"], 6000)
        unknown = "whether others are missing is not known: no registry answers"
        [check, _] = self.get("/ready")["checks"]
        self.assertEqual((check["well"], check["detail"]), (True, f"all that were registered before answer; {unknown}"))
        self.cluster.env.network.kill(10911)
        self.cluster.pump(12.0, 1.0)
        [check, _] = self.get("/ready")["checks"]
        self.assertEqual((check["well"], check["detail"]), (False, "not answering: broker-a"))
        [row] = self.get("/brokers")["items"]
        self.assertEqual(row["state"], "down")
        self.assertLess(row["lastSeenMs"], now_ms + 2000)


class RegistryRestartTests(MemoryCase):
    """A registry that was started anew, which has brokers only when they have registered again."""

    def setUp(self) -> None:
        super().setUp()
        self.registered: list[BrokerPlace] = []

        async def cluster() -> ClusterInfo:
            table: dict[str, BrokerData] = {}
            for one in self.registered:
                table.setdefault(one.name, BrokerData(one.cluster, one.name, {})).broker_addrs[one.id] = one.address
            return ClusterInfo(broker_addr_table=table)

        self.patch(self.front.ops.view.admin.brokers, "cluster", cluster)

    def states(self, seconds: float) -> list[str]:
        """Return the states of all broker processes after a time."""
        self.cluster.pump(seconds, 1.0)
        return [one["state"] for one in self.get("/brokers")["items"]]

    def test_answers(self) -> None:
        """A broker that answers is not missing, and no alert fires, until it had the time to register again."""
        self.assertEqual(self.states(20.0), ["up"])
        self.assertEqual(self.states(REGISTERS - 30.0), ["up"])
        self.assertEqual(self.get("/alerts?q=broker")["items"], [])
        self.assertEqual(self.states(30.0), ["missing"])

    def test_back(self) -> None:
        """One that registered again has all the time anew."""
        self.assertEqual(self.states(REGISTERS - 10.0), ["up"])
        self.registered = self.front.ops.membership.table.places()
        self.assertEqual(self.states(20.0), ["up"])
        self.registered = []
        self.assertEqual(self.states(REGISTERS - 10.0), ["up"])

    def test_killed(self) -> None:
        """One that ends before it has registered again is missing."""
        self.assertEqual(self.states(3.0), ["up"])
        self.cluster.env.network.kill(10911)
        self.assertEqual(self.states(12.0), ["missing"])

    def test_unrouted(self) -> None:
        """Of a broker without a master it is known whether the registries know the topics of its slaves."""
        self.registered = [
            BrokerPlace("c", "broker-a", 1, "192.0.2.1:1"),
            BrokerPlace("c", "broker-x", 1, "192.0.2.1:2"),
        ]
        self.cluster.pump(12.0, 1.0)
        routed = {(one["name"], one["id"]): one["routed"] for one in self.get("/brokers")["items"]}
        self.assertEqual(routed, {("broker-a", 0): True, ("broker-a", 1): True, ("broker-x", 1): False})

    def test_address_taken(self) -> None:
        """One whose address another process has registered is missing: a slave that became the master."""
        memory = self.front.ops.membership
        memory.observe([BrokerPlace("c", "broker-x", 1, "a:1"), BrokerPlace("c", "broker-x", 2, "a:2")])
        left = memory.absent([BrokerPlace("c", "broker-x", 0, "a:1")])
        self.assertEqual([(one.id, one.address) for one in left], [(2, "a:2")])


class ForgetTests(MemoryCase):
    """Taking a missing broker out of service."""

    def test_forget(self) -> None:
        """A dry run says what would be lost from view; the order does it, for good, and is in the audit log."""
        self.vanish()
        status, shown = self.order("DELETE", "/brokers/broker-a?dryRun=true")
        self.assertEqual((status, shown["dryRun"], shown["unreachable"]["messages"]), (200, True, 10))
        self.assertEqual([(one["name"], one["id"]) for one in shown["members"]], [("broker-a", 0)])
        self.assertEqual(self.get("/cluster")["brokersMissing"], 1)
        status, done = self.order("DELETE", "/brokers/broker-a")
        self.assertEqual((status, done["dryRun"], done["unreachable"]["messages"]), (200, False, 10))
        self.assertEqual(self.get("/brokers")["items"], [])
        self.assertEqual(self.order("GET", "/brokers/broker-a")[0], 404)
        self.assertEqual(self.order("DELETE", "/brokers/broker-a")[0], 404)
        entry = next(one for one in self.get("/audit")["items"] if one["status"] == 200)
        self.assertEqual(entry["action"], "DELETE /brokers/{name}")
        self.restart()
        self.assertEqual(self.get("/brokers")["items"], [])

    def test_refused(self) -> None:
        """A broker that is registered is not taken out, and nobody without the scope admin does it."""
        for path in ("/brokers/broker-a", "/brokers/broker-a?dryRun=true", "/brokers/broker-a?id=0"):
            status, problem = self.order("DELETE", path)
            self.assertEqual((status, problem["code"]), (409, "member-present"), path)
        self.assertEqual(self.order("DELETE", "/brokers/broker-x")[0], 404)
        self.assertEqual(self.order("DELETE", "/brokers/broker-a?id=7")[0], 404)
        self.vanish()
        self.assertIn(self.front.ask("DELETE", "/brokers/broker-a").status, (401, 403))
        self.assertEqual(len(self.get("/brokers")["items"]), 1)

    def test_unkept(self) -> None:
        """Where it cannot be written the answer is 507, and the broker is still missing."""
        self.vanish()
        self.front.env.files.fail[PATH] = errno.ENOSPC
        status, problem = self.order("DELETE", "/brokers/broker-a")
        self.assertEqual((status, problem["code"]), (507, "not-kept"))
        self.front.env.files.fail.clear()
        self.assertEqual(self.get("/brokers")["items"][0]["unreachable"]["messages"], 10)

    def test_registers_meanwhile(self) -> None:
        """A broker that registers while an order is being written, and cannot be, is remembered as any."""
        env = FakeEnvironment()
        memory = MemberMemory(env, TableFile(env, "/members.json"), [])
        memory.observe([BrokerPlace("c", "broker-a", 0, "a:1"), BrokerPlace("c", "broker-b", 0, "b:1")])
        memory.counted("broker-b", {"T": TopicContent(4, 10)}, ["T"])
        memory.groups_counted({"audit": {"broker-b": 7}})
        memory.observe([BrokerPlace("c", "broker-a", 0, "a:1")])
        env.files.fail["/members.json"] = errno.ENOSPC
        with held(env, LANE):
            forgetting = Deferred.fromCoroutine(memory.forget("broker-b", None))
            memory.observe([BrokerPlace("c", "broker-a", 0, "a:1"), BrokerPlace("c", "broker-c", 0, "c:1")])
        self.failureResultOf(forgetting, Problem)
        self.assertEqual([one.name for one in memory.table.places()], ["broker-a", "broker-c"])
        self.assertEqual([one.name for one in memory.table.missing()], ["broker-b"])
        self.assertEqual(memory.table.lost()["broker-b"].messages, 10)
        self.assertEqual([one.messages for one in memory.unreachable_lag("audit")], [7])

    def test_restart(self) -> None:
        """What is missing is still missing after a restart of the API, with what cannot be reached."""
        self.vanish()
        self.restart()
        [row] = self.get("/brokers")["items"]
        self.assertEqual((row["state"], row["unreachable"]["messages"]), ("missing", 10))

    def restart(self) -> None:
        """Start the API anew."""
        self.front.stop_api()
        self.front = Front(self.cluster)
        self.token = self.front.ops.tokens.create("boss2", ["admin"])[1]
        self.cluster.pump(12.0, 1.0)


class FileTests(SynchronousTestCase):
    """The file of members."""

    def test_damaged(self) -> None:
        """A damaged file is replaced by its backup; where both are damaged the start is refused."""
        env = FakeEnvironment()
        memory = MemberMemory(env, TableFile(env, "/members.json"), [])
        for name in ("broker-a", "broker-b"):
            memory.observe([BrokerPlace("c", name, 0, "a:1")])
            env.clock.advance(1)
        env.files.replace("/members.json", b"{", False)
        again = MemberMemory(env, TableFile(env, "/members.json"), [])
        again.load()
        self.assertEqual([one.name for one in again.table.places()], ["broker-a"])
        env.files.replace("/members.json.bak", b"[1]", False)
        self.assertRaises(BrokenTable, MemberMemory(env, TableFile(env, "/members.json"), []).load)
