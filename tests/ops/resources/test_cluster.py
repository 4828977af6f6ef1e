"""Resources about the cluster: what lists and pages show, what changes do."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.administration.brokers import Brokers
from smartgo.errors import CallFailed
from smartgo.ops.reading.view import FRESH, Cached
from smartgo.ops.web.partial import Missing
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import UpdateOffsetRequest
from tests.fakes import FakeClock
from tests.ops.front import Front


class ClusterCase(SynchronousTestCase):
    """A front with an admin."""

    def setUp(self) -> None:
        self.front = Front()
        self.addCleanup(self.front.stop)
        self.token = self.front.admin()

    def get(self, path: str) -> Any:
        """Ask as admin."""
        return self.front.get(path, token=self.token)

    def order(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Change something as admin; return status and body."""
        answer = self.front.ask(method, path, body, token=self.token)
        return answer.status, answer.json if answer.content else None


class TopicTests(ClusterCase):
    """Topics."""

    def test_life(self) -> None:
        """A topic can be made, shown, changed and deleted."""
        made = self.order("POST", "/topics", {"name": "Orders", "readQueues": 4, "writeQueues": 4})
        self.assertEqual(made, (201, {"brokers": ["broker-a"], "missing": []}))
        self.front.cluster.send("Orders", b"one", 1)
        self.front.cluster.pump(1.0)
        shown = self.get("/topics/Orders")
        self.assertEqual(
            {name: shown[name] for name in ("kind", "readQueues", "perm", "brokers", "order")},
            {"kind": "normal", "readQueues": 4, "perm": "read-write", "brokers": ["broker-a"], "order": False},
        )
        self.assertEqual(shown["amounts"]["messages"], 1)
        self.assertEqual(shown["settings"][0]["writeQueues"], 4)
        changed = self.order("PUT", "/topics/Orders", {"readQueues": 2, "writeQueues": 1, "perm": "read"})
        self.assertEqual(changed, (200, {"brokers": ["broker-a"], "missing": []}))
        self.assertEqual(self.get("/topics/Orders")["settings"][0]["perm"], "read")
        self.assertEqual(self.order("DELETE", "/topics/Orders"), (200, {"brokers": ["broker-a"], "missing": []}))
        self.assertEqual(self.order("GET", "/topics/Orders")[1]["code"], "topic-not-found")

    def test_retention(self) -> None:
        """A cleanup of the log can be looked at before it is asked for, and is done."""
        self.assertEqual(
            self.get("/brokers/broker-a/retention"),
            {"files": [], "kept": "the log has no file", "removedFiles": 0, "removedBytes": 0},
        )
        for what in ("log", "queues", "topics"):
            status, _ = self.order("POST", "/brokers/broker-a/clean", {"what": what})
            self.assertEqual(status, 204)
        self.assertEqual(self.order("GET", "/brokers/nobody/retention")[0], 404)

    def test_taken(self) -> None:
        """A topic is not made twice, nor at brokers that are not there."""
        self.order("POST", "/topics", {"name": "Orders"})
        status, problem = self.order("POST", "/topics", {"name": "Orders"})
        self.assertEqual((status, problem["code"]), (409, "topic-exists"))
        status, problem = self.order("POST", "/topics", {"name": "Other", "brokers": ["broker-x"]})
        self.assertEqual((status, problem["code"]), (404, "broker-not-found"))

    def test_queues(self) -> None:
        """Queues are listed with what is in them."""
        self.order("POST", "/topics", {"name": "Orders", "readQueues": 2, "writeQueues": 2})
        self.front.cluster.send("Orders", b"one", 1)
        self.front.cluster.pump(1.0)
        page = self.get("/topics/Orders/queues?sort=-messages")
        self.assertEqual([(one["queueId"], one["messages"]) for one in page["items"]], [(1, 1), (0, 0)])
        self.assertEqual([one["firstMs"] for one in page["items"]], [None, None])
        page = self.get("/topics/Orders/queues?sort=-messages&ages=true")
        self.assertEqual([one["firstMs"] == one["lastMs"] for one in page["items"]], [True, True])
        self.assertGreater(page["items"][0]["firstMs"], 0)
        self.assertEqual(self.get("/topics/Orders/route")["queues"][0]["writeQueues"], 2)

    def test_list(self) -> None:
        """Topics are filtered, sorted and cut on the server, and the amounts are those of the page."""
        for name, queues in (("OrdersA", 1), ("OrdersB", 3), ("Payments", 2)):
            self.order("POST", "/topics", {"name": name, "readQueues": queues, "writeQueues": queues})
        page = self.get("/topics?kind=normal&sort=-readQueues&limit=2&amounts=true&q=orders")
        self.assertEqual([one["name"] for one in page["items"]], ["OrdersB", "OrdersA"])
        self.assertEqual((page["total"], page["next"]), (2, None))
        self.assertEqual(page["items"][0]["amounts"]["messages"], 0)
        first = self.get("/topics?kind=normal&limit=1")
        second = self.get(f"/topics?kind=normal&limit=1&cursor={first['next']}")
        self.assertEqual([first["items"][0]["name"], second["items"][0]["name"]], ["OrdersA", "OrdersB"])
        kinds = {one["kind"] for one in self.get("/topics?kind=system&limit=200")["items"]}
        self.assertEqual(kinds, {"system"})

    def test_system(self) -> None:
        """What a broker refuses comes back in its words."""
        status, problem = self.order("DELETE", "/topics/SCHEDULE_TOPIC_XXXX")
        self.assertEqual(status, 409)
        self.assertIn("SCHEDULE_TOPIC_XXXX", problem["detail"])


class GroupTests(ClusterCase):
    """Consumer groups."""

    def test_life(self) -> None:
        """A group can be made, shown, changed and deleted."""
        self.assertEqual(self.order("POST", "/groups", {"name": "audit", "retryMax": 3})[0], 201)
        self.assertEqual(self.get("/groups/audit")["settings"][0]["retryMax"], 3)
        self.assertEqual(self.order("POST", "/groups", {"name": "audit"})[1]["code"], "group-exists")
        self.assertEqual(self.order("PUT", "/groups/audit", {"consumeEnabled": False})[0], 200)
        self.assertFalse(self.get("/groups/audit")["consumeEnabled"])
        self.assertEqual(self.order("DELETE", "/groups/audit")[0], 200)
        self.assertEqual(self.order("GET", "/groups/audit")[1]["code"], "group-not-found")

    def commit(self, offset: int) -> None:
        """Commit an offset of group audit in the queue of Orders."""
        header = UpdateOffsetRequest(consumer_group="audit", topic="Orders", queue_id=0, commit_offset=offset)
        self.front.cluster.ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))

    def let_wait(self) -> None:
        """Let three messages wait for group audit, which has a member and has consumed nothing."""
        self.order("POST", "/topics", {"name": "Orders", "readQueues": 1, "writeQueues": 1})
        self.front.cluster.heartbeat("audit", "Orders")
        self.commit(0)
        for _ in range(3):
            self.front.cluster.send("Orders")

    def test_lag(self) -> None:
        """Lag is told by group, topic and queue."""
        self.let_wait()
        self.front.cluster.pump(1.0)
        self.assertEqual(self.get("/groups/audit/progress")["lag"], 3)
        rows = {(one["topic"], one["lag"]) for one in self.get("/groups/audit/lag?behind=true")["items"]}
        self.assertEqual(rows, {("Orders", 3)})
        topics = self.get("/groups/audit/topics?sort=-lag")["items"]
        self.assertEqual((topics[0]["topic"], topics[0]["lag"], topics[0]["queues"]), ("Orders", 3, 1))
        row = self.get("/groups?q=audit&progress=true")["items"][0]
        self.assertEqual((row["members"], row["progress"]["lag"], row["model"]), (1, 3, "CLUSTERING"))
        self.assertEqual(self.get("/topics/Orders/groups")["items"], ["audit"])

    def test_hanging_group(self) -> None:
        """A group that acknowledges nothing: its time lag counts from the first message, and no end is told."""
        cluster = self.front.cluster
        self.let_wait()
        cluster.broker.stats.found("audit", "Orders", 3, 600)
        cluster.pump(30.0)
        progress = self.get("/groups/audit/progress")
        self.assertTrue(30_000 <= progress["lagMs"] < 32_000, progress)
        self.assertEqual((progress["lag"], progress["consumeTps"], progress["drainSeconds"]), (3, 0.0, None))
        for view in ("lag", "topics"):
            row = self.get(f"/groups/audit/{view}?sort=-lagMs")["items"][0]
            self.assertTrue(30_000 <= row["lagMs"] < 32_000, row)
        for offset in (1, 3, 2):
            self.commit(offset)
        totals = [(one.topic, one.count) for one in cluster.broker.stats.acknowledged_totals()]
        self.assertEqual(totals, [("Orders", 3)])

    def test_by_lag(self) -> None:
        """Groups are sorted by how they are over all pages; those of which nobody tells stand at the lower end."""
        cluster = self.front.cluster
        self.order("POST", "/topics", {"name": "Orders", "readQueues": 1, "writeQueues": 1})
        for _ in range(5):
            cluster.send("Orders")
        for number, group in enumerate(("far", "near", "done"), 1):
            header = UpdateOffsetRequest(
                consumer_group=group, topic="Orders", queue_id=0, commit_offset=number * 5 // 3
            )
            cluster.ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))
            self.order("POST", "/groups", {"name": group})
        cluster.heartbeat("near", "Orders")
        cluster.pump(1.0)

        def names(sort: str, more: str = "") -> list[str]:
            return [one["name"] for one in self.get(f"/groups?sort={sort}{more}")["items"]]

        self.assertEqual(names("-lag", "&limit=2"), ["far", "near"])
        self.assertEqual(names("-lag", "&limit=1&offset=1"), ["near"])
        self.assertEqual(names("-members", "&limit=1"), ["near"])
        self.assertEqual(names("lag", "&q=ne")[-2:], ["done", "near"])
        self.assertEqual(names("consumeTps", "&q=near"), ["near"])
        row = self.get("/groups?sort=-lag&limit=1")["items"][0]
        self.assertEqual((row["progress"]["lag"], row["members"]), (4, 0))

    def test_members(self) -> None:
        """Members are listed, and those that are not there are not found."""
        self.front.cluster.heartbeat("audit", "Orders", client_id="10.0.0.1@7")
        self.assertEqual(self.get("/groups/audit/clients")["items"][0]["clientId"], "10.0.0.1@7")
        self.assertEqual(self.get("/groups/audit")["subscriptions"][0]["topic"], "Orders")
        self.front.cluster.heartbeat("audit", "Orders", client_id="10.0.0.1@7", version=2, tags="n > 5", kind="SQL92")
        (shown,) = self.get("/groups/audit")["subscriptions"]
        self.assertEqual((shown["expression"], shown["type"]), ("n > 5", "SQL92"))
        self.assertEqual(self.get("/clients/10.0.0.1%407")["items"][0]["group"], "audit")
        self.assertEqual(self.get("/clients?role=consumer&q=audit")["total"], 1)
        for broker, total in (("broker-a", 1), ("broker-b", 0)):
            self.assertEqual(self.get(f"/clients?role=consumer&broker={broker}")["total"], total)
        self.assertEqual(self.order("GET", "/groups/audit/clients/nobody")[1]["code"], "client-not-found")
        self.assertEqual(self.order("GET", "/clients/nobody")[1]["code"], "client-not-found")


class BrokerTests(ClusterCase):
    """Brokers and registries."""

    def test_brokers(self) -> None:
        """Brokers are listed with their figures; one has all that it tells."""
        row = self.get("/brokers")["items"][0]
        self.assertEqual((row["name"], row["up"], row["id"]), ("broker-a", True, 0))
        self.assertIn("bootTimestamp", self.get("/brokers/broker-a")["runtime"])
        self.assertEqual(self.order("GET", "/brokers/broker-x")[1]["code"], "broker-not-found")

    def test_config(self) -> None:
        """A broker's settings are listed."""
        page = self.get("/brokers/broker-a/config?q=brokername")
        self.assertEqual(page["items"], [{"name": "brokerName", "value": "broker-a"}])

    def test_secrets(self) -> None:
        """What any broker tells of a setting whose name says that it is secret is hidden (X8)."""

        def settings(_: Brokers, address: str) -> Deferred[dict[str, str]]:
            return succeed({"aclSecretKey": "word", "adminPassword": "", "brokerName": "broker-a"})

        self.patch(Brokers, "settings", settings)
        found = {one["name"]: one["value"] for one in self.get("/brokers/broker-a/config")["items"]}
        self.assertEqual(found, {"aclSecretKey": "***", "adminPassword": "", "brokerName": "broker-a"})

    def test_down(self) -> None:
        """The log says once a minute that a broker does not answer, not at every look."""
        with capturedLogs() as logs:
            for _ in range(3):
                self.front.ops._missing("broker-a", CallFailed("no"))
            self.front.ops._missing("broker-b", CallFailed("no"))
            self.front.env.clock.advance(61)
            self.front.ops._missing("broker-a", CallFailed("no"))
        warned = [one["broker"] for one in logs if "does not answer" in str(one.get("log_format"))]
        self.assertEqual(warned, ["broker-a", "broker-b", "broker-a"])

    def test_totals(self) -> None:
        """The cluster in a few numbers."""
        found = self.get("/cluster")
        own = self.get("/groups?system=false")
        self.assertEqual(own["total"], found["applicationGroups"])
        self.assertEqual([one for one in own["items"] if one["system"]], [])
        self.assertEqual(self.get("/groups")["total"], found["groups"])
        self.assertIn(
            "TOOLS_CONSUMER", [one["name"] for one in self.get("/groups?limit=200")["items"] if one["system"]]
        )
        self.assertEqual(self.get("/topics?kind=normal")["total"], found["applicationTopics"])
        self.assertEqual(found["clusters"], [{"name": "DefaultCluster", "brokers": ["broker-a"]}])
        self.assertEqual((found["brokers"], found["brokersDown"]), (1, 0))
        self.assertGreater(found["topics"], 3)

    def test_registries(self) -> None:
        """Registries are listed, and whether they answer."""
        row = self.get("/registries")[0]
        self.assertEqual((row["address"], row["up"], row["brokers"]), ("127.0.0.1:9876", True, 1))

    def test_writable(self) -> None:
        """A broker is taken out of use for producers and brought back."""
        self.order("POST", "/topics", {"name": "Orders"})
        self.assertEqual(self.order("PUT", "/brokers/broker-a/writable", {"writable": False})[0], 200)
        self.assertEqual(self.get("/topics/Orders/route")["queues"][0]["perm"], "read")
        self.assertEqual(self.order("PUT", "/brokers/broker-a/writable", {"writable": True})[0], 200)
        self.assertEqual(self.get("/topics/Orders/route")["queues"][0]["perm"], "read-write")

    def test_values(self) -> None:
        """Values of registries are put, listed and removed."""
        self.assertEqual(self.order("PUT", "/kv/N/k", {"value": "v"}), (200, {"name": "k", "value": "v"}))
        self.assertEqual(self.get("/kv/N")["items"], [{"name": "k", "value": "v"}])
        self.assertEqual(self.get("/kv/N/k")["value"], "v")
        self.assertEqual(self.order("DELETE", "/kv/N/k"), (204, None))
        self.assertEqual(self.order("GET", "/kv/N/k")[1]["code"], "value-not-found")
        self.assertEqual(self.order("DELETE", "/kv/N/k")[0], 404)

    def test_secret_values(self) -> None:
        """Values whose name, or whose namespace's, looks like a secret's are shown to admins alone (X8)."""
        reader = self.front.ops.tokens.create("watcher", ["read"])[1]
        for place, shown in (("N/plain", "v"), ("N/db_PASSWORD", "***"), ("TokensOf/plain", "***")):
            self.order("PUT", f"/kv/{place}", {"value": "v"})
            namespace, name = place.split("/")
            for token, value in ((self.token, "v"), (reader, shown)):
                self.assertEqual(self.front.get(f"/kv/{place}", token=token)["value"], value, place)
                rows = self.front.get(f"/kv/{namespace}?q={name}", token=token)["items"]
                self.assertEqual([one["value"] for one in rows], [value], place)


class CachedTests(SynchronousTestCase):
    """Answers that are kept for a moment."""

    def setUp(self) -> None:
        self.clock = FakeClock()
        self.asked: list[Deferred[int]] = []
        self.cached: Cached[int] = Cached(self.clock, self.ask)

    async def ask(self, missing: Missing) -> int:
        """A question that the test answers."""
        self.asked.append(Deferred())
        return await self.asked[-1]

    def test_shared(self) -> None:
        """Who asks while another waits waits with him; who asks soon after gets the same."""
        first, second = self.cached.get(), self.cached.get()
        self.asked[0].callback(1)
        self.assertEqual((self.successResultOf(first), self.successResultOf(second)), (1, 1))
        self.assertEqual((self.successResultOf(self.cached.get()), len(self.asked)), (1, 1))
        self.clock.advance(FRESH + 0.1)
        self.cached.get()
        self.assertEqual(len(self.asked), 2)

    def test_costly(self) -> None:
        """What took long to answer is kept ten times as long."""
        self.cached.get()
        self.clock.advance(3.0)
        self.asked[0].callback(1)
        self.clock.advance(29.0)
        self.assertEqual(self.successResultOf(self.cached.get()), 1)
        self.clock.advance(2.0)
        self.assertNoResult(self.cached.get())

    def test_forget(self) -> None:
        """After a change nobody gets what was asked for before, not even where that is still under way."""
        before = self.cached.get()
        self.cached.forget()
        after = self.cached.get()
        self.asked[0].callback(1)
        self.assertEqual(self.successResultOf(before), 1)
        self.assertNoResult(after)
        self.asked[1].callback(2)
        self.assertEqual((self.successResultOf(after), self.successResultOf(self.cached.get())), (2, 2))

    def test_failed(self) -> None:
        """A failure is told to all who wait, and not kept; a cancelled wait does no harm."""
        first, second = self.cached.get(), self.cached.get()
        second.cancel()
        self.failureResultOf(second)
        self.asked[0].errback(CallFailed("no"))
        self.failureResultOf(first, CallFailed)
        self.cached.get()
        self.assertEqual(len(self.asked), 2)
