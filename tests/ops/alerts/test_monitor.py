"""Alerts over REST: what a cluster brings about, badges as they come, rules, silences, restarts."""

from __future__ import annotations

import errno
from functools import partial
from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.administration.brokers import BrokerPlace
from smartgo.node.ops import LocalNode
from smartgo.ops.alerts import monitor as watch
from smartgo.ops.alerts.monitor import AlertMonitor
from smartgo.ops.alerts.table import AlertTable, RuleAdjustment, Summary
from smartgo.ops.figures.sampler import FIGURES, BrokerFigures
from smartgo.ops.reading.survey import UNKNOWN
from smartgo.schema.message import NewMessage
from smartgo.schema.refusalkind import RefusalKind
from smartgo.schema.topics import dlq_topic
from smartgo.store.refusal import Refusal
from tests.broker.fakecluster import Cluster
from tests.ops.front import HOST, Front
from tests.ops.resources.test_figures import events


class AlertsCase(SynchronousTestCase):
    """A front in the process of a broker."""

    def setUp(self) -> None:
        cluster = Cluster(maxHashSlotNum="100", maxIndexNum="400")
        self.cluster = cluster
        self.front = self.serve(cluster)
        self.patch(watch, "REST", 0)  # in memory every question takes as long as a step of the clock
        self.addCleanup(self.finish)
        self.token = self.front.admin()

    def serve(self, cluster: Cluster) -> Front:
        """Return a front in the process of the broker."""
        return Front(cluster, LocalNode(cluster.configuration, [cluster.registry, cluster.service]))

    def finish(self) -> None:
        """Stop the front that there is."""
        self.front.stop()

    @property
    def watch(self) -> AlertMonitor:
        """The one who looks."""
        return self.front.ops.alerts

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask as admin."""
        return self.front.ask(method, path, body, token=self.token)

    def alerts(self, query: str = "") -> list[tuple[str, str, str]]:
        """Rule, subject and state of alerts."""
        page = self.front.get(f"/alerts{query}", token=self.token)
        return [(one["rule"], one["subject"], one["state"]) for one in page["items"]]

    def set(self, rule: str, **body: Any) -> Any:
        """Set how a rule is applied."""
        return self.ask("PUT", f"/alerts/rules/{rule}", body)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self.cluster.pump(seconds, 1.0)


class WatchTests(AlertsCase):
    """The detection of problems."""

    def test_well(self) -> None:
        """Where all is well there is no alert."""
        self.wait(120)
        self.assertEqual(self.alerts(), [])
        self.assertEqual(
            self.front.get("/alerts/summary", token=self.token),
            {"critical": 0, "warning": 0, "silenced": 0, "pending": 0},
        )

    def test_store(self) -> None:
        """A store that takes no messages is noticed, and when it does again."""
        refusal: list[Refusal | None] = [Refusal(RefusalKind.DISK_FULL, "the disk is full")]
        self.patch(type(self.cluster.broker.store), "refusal", property(lambda store: refusal[0]))
        self.wait(11)
        self.assertEqual(self.alerts(), [("store-refuses", "", "pending")])
        self.wait(20)
        self.assertEqual(self.alerts(), [("store-refuses", "", "firing")])
        [row] = self.front.get("/alerts", token=self.token)["items"]
        self.assertEqual(row["detail"], "The disk is full.")
        self.assertEqual(self.front.ask("GET", "/ready").json["detail"], "not ready: store")
        found = self.front.ask("GET", "/ready", token=self.token).json["detail"]
        self.assertEqual(found, "not ready: store (the disk is full)")
        for subject in ("the process", "broker-a"):
            body = {"rule": "store-refuses", "subject": subject, "known": True}
            silence = self.front.ask("POST", "/alerts/silences", body, token=self.token)
            self.assertEqual(silence.status, 201, silence.content)
            self.assertEqual(self.front.get("/alerts/summary", token=self.token)["silenced"], 1, subject)
            self.front.ask("DELETE", f"/alerts/silences/{silence.json['id']}", token=self.token)
            self.assertEqual(self.front.get("/alerts/summary", token=self.token)["critical"], 1)
        refusal[0] = None
        self.wait(11)
        self.assertEqual(self.alerts(), [("store-refuses", "", "resolved")])
        page = self.front.get("/alerts/history", token=self.token)["items"]
        self.assertEqual([(one["rule"], one["severity"]) for one in page], [("store-refuses", "critical")])
        self.assertGreater(page[0]["resolvedMs"], page[0]["firedMs"])

    def test_group(self) -> None:
        """A group that has messages waiting and no member is noticed; its numbers go with it."""
        for _ in range(3):
            self.cluster.send("Orders")
        self.cluster.heartbeat("audit", "Orders")
        self.cluster.pull("Orders", consumer_group="audit", sys_flag=5, commit_offset=0)
        self.set("group-empty", seconds=0)
        self.wait(200)
        self.assertIn(("group-empty", "audit", "firing"), self.alerts("?state=firing"))
        page = self.front.get("/alerts?q=empty", token=self.token)["items"]
        self.assertEqual(
            (page[0]["kind"], page[0]["value"], page[0]["unit"], page[0]["severity"]),
            ("group", 3.0, "count", "warning"),
        )

    def test_memberless(self) -> None:
        """A group without members is one problem: that it is late follows from that, until it has members again."""
        self.cluster.send("Orders")
        self.cluster.heartbeat("audit", "Orders")
        self.cluster.pull("Orders", consumer_group="audit", sys_flag=5, commit_offset=0)
        self.set("group-late", seconds=0, threshold=30)
        self.set("group-behind", seconds=0, threshold=0.5)
        self.wait(200)
        found = {(one["rule"], one["cause"]) for one in self.front.get("/alerts", token=self.token)["items"]}
        self.assertEqual(found, {("group-late", ""), ("group-behind", ""), ("group-empty", "")})
        self.wait(400)
        found = {(one["rule"], one["cause"]) for one in self.front.get("/alerts", token=self.token)["items"]}
        caused = {("group-late", "group-empty"), ("group-behind", "group-empty")}
        self.assertEqual(found, {*caused, ("group-empty", "")})
        self.assertEqual(self.front.get("/alerts/summary", token=self.token)["warning"], 1)

    def test_dead_letters(self) -> None:
        """Dead letters fire, those from before the start too, until somebody has seen to all of them."""
        topic = dlq_topic("audit")
        self.cluster.broker.topics.create_for_group(topic, 1, 6, 0)
        self.put(topic)
        self.front.ops.view.forget()
        self.wait(70)
        self.assertEqual(self.alerts(), [("dead-letters", "audit", "firing")])
        self.put(topic)
        self.wait(700)
        (row,) = self.front.get("/alerts", token=self.token)["items"]
        self.assertEqual((row["state"], row["value"], self.watch.dead), ("firing", 2.0, {"audit": 2}))
        self.assertEqual(self.ask("POST", "/dlq/audit/acknowledge", {}).json["count"], 2)
        self.wait(40)
        self.assertEqual(self.alerts(), [("dead-letters", "audit", "resolved")])

    def put(self, topic: str) -> None:
        """Store a message as the broker does."""
        self.cluster.broker.store.append((NewMessage(topic, 0, b"x", b""),))
        self.cluster.broker.store.end_run()

    def test_registry(self) -> None:
        """A registry that does not answer is noticed, though nothing else can be asked then."""

        async def answers(address: str) -> bool:
            return False

        self.patch(self.watch, "_answers", answers)
        self.wait(100)
        self.assertEqual(self.alerts(), [("registry-down", "127.0.0.1:9876", "firing")])

    def test_down(self) -> None:
        """A broker that is registered and does not answer is down; its disk is not judged meanwhile."""
        row = BrokerFigures("c", "broker-x", 1, "192.0.2.1:1", False, disk_ratio=0.99)
        self.watch.look([row])
        self.cluster.env.clock.advance(60)
        self.watch.look([row])
        self.assertIn(("broker-down", "broker-x#1", "firing"), self.alerts("?q=broker-down"))
        self.assertEqual(self.alerts("?q=disk"), [])

    def leave(self) -> None:
        """Let a broker register, and leave."""
        memory = self.front.ops.membership
        here = self.front.ops.membership.table.places()
        memory.observe([*here, BrokerPlace("c", "broker-x", 0, "192.0.2.1:1")])
        self.cluster.env.clock.advance(1)
        memory.observe(here)

    def test_gone(self) -> None:
        """A broker that is no longer registered is critical at once, until somebody takes it out of service."""
        self.wait(2)
        self.leave()
        self.wait(10)
        self.assertEqual(self.alerts("?q=broker-x"), [("broker-gone", "broker-x", "firing")])
        self.assertEqual(self.watch.summary().critical, 1)
        self.cluster.env.clock.advance(86_400)
        self.wait(10)
        self.assertEqual(self.alerts("?q=broker-x"), [("broker-gone", "broker-x", "firing")])
        self.assertEqual(self.ask("DELETE", "/brokers/broker-x").status, 200)
        self.wait(11)
        self.assertEqual(self.alerts("?q=broker-x"), [("broker-gone", "broker-x", "resolved")])

    def test_gone_over_restart(self) -> None:
        """A broker that was missing before a restart of ours is still missing after it."""
        self.wait(2)
        self.leave()
        self.wait(10)
        self.front.stop_api()
        self.front = Front(self.cluster, LocalNode(self.cluster.configuration, []))
        self.token = self.front.ops.tokens.create("boss2", ["admin"])[1]
        self.wait(10)
        self.assertEqual(self.alerts("?q=broker-x"), [("broker-gone", "broker-x", "firing")])

    def test_masterless(self) -> None:
        """A broker of which only a slave is registered is critical at once."""
        self.wait(2)
        memory = self.front.ops.membership
        here = BrokerPlace("c", "broker-x", 1, "192.0.2.1:1")
        memory.observe([*memory.table.places(), here])
        self.watch.look([BrokerFigures("c", "broker-x", 1, "192.0.2.1:1", True)])
        self.assertIn(("master-missing", "broker-x", "firing"), self.alerts("?q=broker-x"))
        memory.observe([*memory.table.places(), BrokerPlace("c", "broker-x", 0, "192.0.2.1:2")])
        self.watch.look([BrokerFigures("c", "broker-x", 1, "192.0.2.1:1", True)])
        self.assertIn(("master-missing", "broker-x", "resolved"), self.alerts("?q=broker-x"))

    def test_one_problem(self) -> None:
        """
        A master that dies is one problem: its broker has no master for that, and its slave follows none for that. The
        alert says what works, and how it left; when it is taken out of service, the lack of a master is the problem.
        """
        self.wait(2)
        memory = self.front.ops.membership
        self.patch(self.front.ops.sampler, "_looked", lambda rows: None)  # the cluster has no such brokers
        here = memory.table.places()
        slave = BrokerPlace("c", "broker-x", 1, "192.0.2.1:1")
        memory.observe([*here, slave, BrokerPlace("c", "broker-x", 0, "192.0.2.1:2")])
        memory.observe([*here, slave], {"broker-x": {0: 1_700_000_000_000}})
        row = BrokerFigures("c", "broker-x", 1, "192.0.2.1:1", True, ha_state="CONNECTING")

        def causes() -> set[tuple[str, str, str]]:
            rows = self.front.get("/alerts?q=broker-x", token=self.token)["items"]
            return {(one["rule"], one["state"], one["cause"]) for one in rows}

        self.watch.look([row])
        [alert] = [one for one in self.watch.table.alerts() if one.rule == "broker-gone"]
        self.assertEqual(
            alert.detail,
            "It was stopped in order at 2023-11-14 22:13:20 UTC. Its messages can be read at slave 1; nothing can be"
            " stored. No master answers: every send fails.",
        )
        for _ in range(3):
            self.cluster.env.clock.advance(130)
            self.watch.look([row])
        found = causes()
        self.assertEqual(found, {("broker-gone", "firing", ""), ("master-missing", "firing", "broker-gone")})
        self.successResultOf(Deferred.fromCoroutine(memory.forget("broker-x", 0)))
        self.watch.look([row])
        found = causes()
        self.assertEqual(found, {("broker-gone", "resolved", ""), ("master-missing", "firing", "")})

    def test_unknown(self) -> None:
        """Of groups and dead letters that a broker did not tell of for a while, alerts stay as they are."""
        topic = dlq_topic("audit")
        self.cluster.broker.topics.create_for_group(topic, 1, 6, 0)
        self.cluster.send("Orders")
        self.cluster.heartbeat("audit", "Orders")
        self.cluster.pull("Orders", consumer_group="audit", sys_flag=5, commit_offset=0)
        self.set("group-empty", seconds=0)
        self.put(topic)
        self.wait(200)
        self.put(topic)
        self.wait(40)
        fires = [("dead-letters", "audit", "firing"), ("group-empty", "audit", "firing")]
        self.assertEqual(sorted(self.alerts()), fires)
        survey = self.front.ops.alerts._survey

        async def silent(name: str, view: Any) -> Any:
            return UNKNOWN

        async def nothing(view: Any, topic: Any) -> int | None:
            return None

        self.patch(survey, "one", silent)
        self.patch(watch, "count_open", nothing)
        self.wait(100)
        self.assertEqual(sorted(self.alerts()), fires)

    def test_tomorrow(self) -> None:
        """A disk that fills up is noticed before it is full, once there is an hour of its past."""
        now = self.cluster.env.clock.wall_ms()
        history = self.front.ops.sampler.history
        rows = [BrokerFigures("c", name, 0, f"{name}:1", True, disk_ratio=0.5) for name in ("new", "old")]
        for name, minutes in (("new", 55), ("old", 120)):
            for minute in range(minutes, 0, -1):
                values = [0.0, 0.0, 0.0, 0.0, 0.5 - minute * 0.0005, 0.0]
                history.add(f"broker:{name}:1", now - minute * 60_000, FIGURES, values)
        self.set("disk-full-tomorrow", seconds=0)
        self.cluster.env.clock.advance(60)
        self.watch.look(rows)
        self.assertEqual(self.alerts("?q=tomorrow"), [("disk-full-tomorrow", "old", "firing")])
        value = self.front.get("/alerts?q=tomorrow", token=self.token)["items"][0]["value"]
        self.assertAlmostEqual(value, 0.5 + 0.0005 * 24 * 60, places=2)

    def test_fault(self) -> None:
        """A look that fails by a mistake is logged, and does not keep from looking again."""

        async def wrong() -> Any:
            raise ValueError("a mistake")

        self.patch(self.watch, "_dead", wrong)
        self.wait(40)
        self.assertGreaterEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.patch(self.front.ops.sampler, "_looked", lambda rows: 1 / 0)
        self.wait(25)
        self.assertGreaterEqual(len(self.flushLoggedErrors()), 1)


class FrontedTests(AlertsCase):
    """A front in a process of its own, with no broker in it."""

    def serve(self, cluster: Cluster) -> Front:
        """Return a front without a node around it."""
        return Front(cluster)

    def test_store_of_another(self) -> None:
        """In front of a cluster the store of any broker is noticed, by the broker's name, and so is its clock."""
        refusal: list[Refusal | None] = [Refusal(RefusalKind.DISK_FULL, "the disk is full")]
        self.patch(type(self.cluster.broker.store), "refusal", property(lambda store: refusal[0]))
        self.wait(11)
        self.assertEqual(self.alerts(), [("store-refuses", "broker-a", "pending")])
        self.wait(20)
        self.assertEqual(self.alerts(), [("store-refuses", "broker-a", "firing")])
        row = self.front.get("/brokers", token=self.token)["items"][0]
        self.assertEqual((row["refusal"], row["clockOffset"]), ("the disk is full", 0.0))
        [shown] = self.front.get("/alerts", token=self.token)["items"]
        self.assertEqual(shown["detail"], "The disk is full.")
        refusal[0] = None
        self.wait(11)
        self.assertEqual(self.alerts(), [("store-refuses", "broker-a", "resolved")])


class AlertsTests(AlertsCase):
    """The handling of alerts."""

    def fire(self) -> None:
        """Let an alert fire."""
        row = BrokerFigures("c", "broker-x", 0, "192.0.2.1:1", False)
        self.set("broker-down", seconds=0)
        self.watch.look([row])

    def test_silence(self) -> None:
        """A silence takes an alert out of the count for its time, says by whom, and can be ended."""
        self.fire()
        made = self.ask("POST", "/alerts/silences", {"rule": "broker-down", "seconds": 3600, "comment": "being moved"})
        self.assertEqual((made.status, made.json["who"], made.json["comment"]), (201, "boss", "being moved"))
        self.assertEqual(self.watch.summary(), Summary(0, 0, 1, 0))
        row = self.front.get("/alerts?silenced=true", token=self.token)["items"][0]
        self.assertEqual(row["silence"]["id"], made.json["id"])
        self.assertEqual(self.alerts("?silenced=false"), [])
        entry = self.front.get("/audit", token=self.token)["items"][0]
        self.assertEqual(entry["action"], "POST /alerts/silences")
        self.assertEqual(len(self.front.get("/alerts/silences", token=self.token)), 1)
        self.assertEqual(self.ask("DELETE", f"/alerts/silences/{made.json['id']}").status, 204)
        self.assertEqual(self.watch.summary(), Summary(1, 0, 0, 0))
        self.assertEqual(self.ask("DELETE", f"/alerts/silences/{made.json['id']}").status, 404)

    def test_silence_refused(self) -> None:
        """A silence is of a rule that there is, for a minute at least and 30 days at most."""
        for body, status in (
            ({"rule": "no-such-rule"}, 404),
            ({"subject": "b", "seconds": 59}, 400),
            ({"subject": "b", "seconds": 31 * 86_400}, 400),
            ({"subject": "b", "comment": "x" * 301}, 400),
            ({"subject": "b", "who": "me"}, 400),
        ):
            self.assertEqual(self.ask("POST", "/alerts/silences", body).status, status, body)

    def test_silence_everything(self) -> None:
        """Everything is silenced by the word for that alone: who names neither rule nor subject is told so."""
        self.fire()
        for body in ({}, {"comment": "quiet"}, {"rule": "", "subject": ""}, {"all": False}):
            answer = self.ask("POST", "/alerts/silences", body)
            self.assertEqual((answer.status, answer.code), (400, "invalid-value"), body)
            self.assertIn("give a `rule`, a `subject` or both; `all` silences everything", answer.json["detail"])
        answer = self.ask("POST", "/alerts/silences", {"all": True, "subject": "broker-x"})
        self.assertEqual(answer.status, 400)
        self.assertIn("leave out `rule` and `subject`", answer.json["detail"])
        self.assertEqual(self.watch.summary(), Summary(1, 0, 0, 0))
        self.assertEqual(self.ask("POST", "/alerts/silences", {"all": True}).status, 201)
        self.assertEqual(self.watch.summary(), Summary(0, 0, 1, 0))

    def test_silence_described(self) -> None:
        """The document says what a silence must name, as the check does."""
        described = self.front.get("//openapi.json")["paths"]["/api/v1/alerts/silences"]["post"]["requestBody"]
        schema = described["content"]["application/json"]["schema"]
        named, everything = schema["oneOf"]
        self.assertEqual([one["required"] for one in named["anyOf"]], [["rule"], ["subject"]])
        self.assertEqual((everything["required"], everything["properties"]["all"]), (["all"], {"const": True}))

    def test_unkept(self) -> None:
        """What cannot be written is neither told to be done nor done: 507, and memory and file stay as they were."""
        self.fire()
        kept = self.ask("POST", "/alerts/silences", {"subject": "other"}).json
        self.set("group-late", threshold=60)
        path = "/store/ops/alerts.json"
        before = self.front.env.files.read(path)
        self.front.env.files.fail[path] = errno.ENOSPC
        for answer in (
            self.set("group-late", threshold=99),
            self.ask("POST", "/alerts/silences", {"rule": "broker-down"}),
            self.ask("DELETE", f"/alerts/silences/{kept['id']}"),
        ):
            self.assertEqual((answer.status, answer.code), (507, "not-kept"))
            self.assertIn("nothing was changed: alerts.json could not be written", answer.json["detail"])
        self.assertEqual(self.watch.table.rule("group-late").threshold, 60)
        self.assertEqual([one["id"] for one in self.ask("GET", "/alerts/silences").json], [kept["id"]])
        self.assertEqual(self.watch.summary(), Summary(1, 0, 0, 0))
        self.assertEqual(self.front.env.files.read(path), before)
        entry = self.front.get("/audit", token=self.token)["items"][0]
        self.assertEqual((entry["status"], entry["error"]), (507, "not-kept"))
        self.front.env.files.fail.clear()
        self.assertEqual(self.set("group-late", threshold=99).status, 200)

    def test_unkept_at_once(self) -> None:
        """Of two changes at once the one that could be written stays, and the other is not done."""
        results: list[Any] = []
        path = "/store/ops/alerts.json"
        self.front.env.files.fail[path] = errno.ENOSPC
        threads = self.front.env.threads
        run = threads.run
        waiting: list[Any] = []

        def later(lane: str, work: Any, *arguments: Any) -> Any:
            waiting.append((Deferred(), work, arguments))
            return waiting[-1][0]

        def written() -> None:
            fires, work, arguments = waiting.pop(0)
            run("tables", work, *arguments).addBoth(fires.callback)

        self.patch(threads, "run", later)
        for threshold in (70.0, 80.0):
            self.watch.change(
                partial(AlertTable.adjust, name="group-late", adjusted=RuleAdjustment(threshold))
            ).addBoth(results.append)
        written()
        self.assertEqual([one.value.status for one in results], [507])
        self.front.env.files.fail.clear()
        while waiting:
            written()
        self.assertEqual(len(results), 2)
        self.assertEqual(self.watch.table.rule("group-late").threshold, 80)
        self.assertIn(b"80", self.front.env.files.read(path))
        self.assertNotIn(b"70", self.front.env.files.read(path))

    def test_rules(self) -> None:
        """Rules are listed with what they came with, and set; a state has no threshold to be set."""
        answer = self.set("group-late", threshold=60, seconds=0)
        self.assertEqual(
            (answer.json["threshold"], answer.json["defaultThreshold"], answer.json["seconds"]), (60, 600, 0)
        )
        found = {one["name"]: one for one in self.front.get("/alerts/rules", token=self.token)}
        self.assertEqual((found["group-late"]["threshold"], found["disk-full"]["enabled"]), (60, True))
        self.assertEqual((found["group-late"]["grave"], found["disk-full"]["grave"]), (None, 0.88))
        self.assertEqual(self.set("group-late").json["threshold"], 600)
        self.assertEqual(self.set("broker-down", threshold=3).status, 409)
        self.assertEqual(self.set("broker-down", threshold=0, enabled=False).json["enabled"], False)
        self.assertEqual(self.set("nothing").status, 404)
        self.assertEqual(self.set("group-late", threshold=-1).status, 400)

    def test_scope(self) -> None:
        """Who may read sees alerts; rules are set and alerts silenced by admins."""
        reader = self.front.ops.tokens.create("eyes", ["read"])[1]
        self.cluster.pump()
        self.assertEqual(self.front.ask("GET", "/alerts", token=reader).status, 200)
        for method, path in (
            ("PUT", "/alerts/rules/disk-full"),
            ("POST", "/alerts/silences"),
            ("DELETE", "/alerts/silences/1"),
        ):
            body: Any = None if method == "DELETE" else {}
            self.assertEqual(self.front.ask(method, path, body, token=reader).status, 403, path)

    def test_badge(self) -> None:
        """A stream says at once how things are, and again when that changes."""
        line = self.front.connect()
        request = f"GET /api/v1/alerts/events HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {self.token}\r\n\r\n"
        cast("Any", line.transport).write(request.encode())
        self.cluster.pump()
        self.fire()
        self.watch.look([BrokerFigures("c", "broker-x", 0, "192.0.2.1:1", False)])
        self.cluster.pump()
        found = [data["critical"] for kind, data in events(line) if kind == "alerts"]
        self.assertEqual(found, [0, 1])
        cast("Any", line.transport).loseConnection()
        self.cluster.pump(1.0)
        self.assertEqual(self.watch._listeners, [])

    def test_restart(self) -> None:
        """Alerts that fire, silences and what was set are there after a restart."""
        self.fire()
        self.ask("POST", "/alerts/silences", {"subject": "broker-x"})
        self.front.stop_api()
        front = Front(
            self.cluster, LocalNode(self.cluster.configuration, [self.cluster.registry, self.cluster.service])
        )
        self.front, self.token = front, front.ops.tokens.create("boss2", ["admin"])[1]
        self.assertIn(("broker-down", "broker-x", "firing"), self.alerts())
        self.assertEqual(self.watch.summary().silenced, 1)
        self.assertEqual(self.watch.table.rule("broker-down").seconds, 0)


class OutsideTests(SynchronousTestCase):
    """A front before a cluster, in a process of its own."""

    def test_outside(self) -> None:
        """It notices what is wrong with brokers, groups and registries; it has no process to be wrong."""
        front = Front()
        self.addCleanup(front.stop)
        front.cluster.pump(5.0)
        token = front.admin()
        watched = front.ops.alerts
        watched.table.adjust("broker-down", RuleAdjustment(seconds=0))
        watched.look([BrokerFigures("c", "broker-x", 0, "192.0.2.1:1", False)])
        rows = front.get("/alerts", token=token)["items"]
        self.assertEqual([one["rule"] for one in rows], ["broker-down"])
