"""Receivers of a whole process: what is sent when, REST, metrics, restarts; over memory, with real HTTP."""

from __future__ import annotations

import json
from typing import Any, cast

from prometheus_client import generate_latest
from prometheus_client.registry import CollectorRegistry
from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.catalog import show
from smartgo.errors import BadBody, SettingError
from smartgo.health.snapshot import BrokerSnapshot, ClusterSnapshot
from smartgo.ops.alerts.noticemetrics import NoticeMetrics
from smartgo.ops.alerts.notifier import AlertNotifier, read_notices
from tests.broker.fakecluster import Cluster
from tests.ops.alerts.receivers import HttpReceiver
from tests.ops.front import Front

SETTING = (
    "team slack url=http://hooks.example.com:8080/SECRET;"
    "page webhook url=http://hooks.example.com:8080/page severity=critical"
)


class NotifierCase(SynchronousTestCase):
    """A front, and an HTTP server in memory."""

    def setUp(self) -> None:
        self.cluster = Cluster(maxHashSlotNum="100", maxIndexNum="400")
        self.server = HttpReceiver()
        self.server.listen_in(self.cluster.env, 8080)
        self.front = self.begin()
        self.addCleanup(self.finish)

    def finish(self) -> None:
        """Stop the front that there is."""
        self.front.stop()

    def begin(self) -> Front:
        """Start a front."""
        front = Front(self.cluster, alertReceivers=SETTING, alertSource="site-a")
        self.patch(front.ops.sampler, "_looked", lambda rows: None)  # the cluster has no such brokers
        front.ops.notifier.look()
        if not front.ops.tokens.any:
            self.token = front.admin()
        return front

    def restart(self, seconds: float) -> None:
        """Stop the front, and start it after a time."""
        self.front.stop_api()
        self.cluster.pump(seconds)
        self.front = self.begin()

    @property
    def notifier(self) -> AlertNotifier:
        """The one of the front."""
        return self.front.ops.notifier

    def wait(self, seconds: float) -> None:
        """Let time pass, in which the broker is looked at every second."""
        self.cluster.pump(seconds, 1.0)

    def down(self, *names: str) -> None:
        """Let brokers be down for so long that alerts fire; all others are up."""
        look = ClusterSnapshot(brokers={name: BrokerSnapshot(False, 0.0) for name in names})
        table, clock = self.front.ops.alerts.table, self.front.env.clock
        for seconds in (0, 61):
            table.observe(look, clock.wall_ms(), clock.seconds() + seconds)
        self.front.ops.alerts.save()
        self.notifier.look()

    def sent(self, path: str) -> list[Any]:
        """The bodies that one receiver got."""
        return [json.loads(one[2]) for one in self.server.requests if one[0] == path]

    def row(self, name: str) -> dict[str, Any]:
        """The state of a receiver over REST."""
        rows = self.front.get("/alerts/receivers", token=self.token)
        return next(cast("dict[str, Any]", one) for one in rows if one["name"] == name)


class NotifierTests(NotifierCase):
    """Notices."""

    def test_told(self) -> None:
        """One message to each receiver tells of all alerts of a moment, and one later that they are over."""
        self.assertEqual(self.row("team")["state"], "unused")
        self.down("broker-x", "broker-y")
        self.assertEqual((self.row("team")["pending"], self.row("team")["nextMs"] is None), (2, False))
        self.wait(6)
        (slack,), (page,) = self.sent("/SECRET"), self.sent("/page")
        self.assertIn("2 alerts firing (critical): broker-down broker-x, broker-down broker-y", slack["text"])
        self.assertEqual([one["subject"] for one in page["alerts"]], ["broker-x", "broker-y"])
        row = self.row("team")
        self.assertEqual((row["state"], row["sent"], row["pending"], row["nextMs"]), ("delivered", 1, 0, None))
        self.down()
        self.wait(70)
        self.assertIn("2 alerts resolved", self.sent("/SECRET")[1]["text"])
        self.assertEqual(len(self.sent("/SECRET")), 2)

    def test_caused(self) -> None:
        """An alert that follows from another is not sent; when the other is over and it is not, it is."""
        table, clock = self.front.ops.alerts.table, self.front.env.clock
        details = {("broker-gone", "broker-x"): "Its messages can be read at slave 1."}
        table.observe(
            ClusterSnapshot(gone={"broker-x": 5.0}, masterless={"broker-x": 1.0}, details=details),
            clock.wall_ms(),
            clock.seconds(),
        )
        self.notifier.look()
        self.wait(6)
        [page] = self.sent("/page")
        self.assertEqual([(one["rule"], one["detail"]) for one in page["alerts"]], [("broker-gone", *details.values())])
        table.observe(ClusterSnapshot(gone={}, masterless={"broker-x": 1.0}), clock.wall_ms(), clock.seconds())
        self.notifier.look()
        self.wait(70)
        told = [(one["rule"], one["state"]) for page in self.sent("/page")[1:] for one in page["alerts"]]
        self.assertEqual(told, [("master-missing", "firing"), ("broker-gone", "resolved")])

    def test_silenced(self) -> None:
        """A silenced alert is not sent."""
        body = {"rule": "broker-down", "seconds": 3600}
        self.assertEqual(self.front.ask("POST", "/alerts/silences", body, token=self.token).status, 201)
        self.down("broker-x")
        self.wait(3)
        self.assertEqual((self.row("team")["pending"], self.server.requests), (0, []))

    def test_fails(self) -> None:
        """What a receiver does not take is tried again, and seen in REST and in metrics; nobody sees its address."""
        self.server.answers = [(503, b"later"), (503, b"later"), (503, b"later"), (503, b"later"), (200, b"ok")]
        self.down("broker-x")
        self.wait(6)
        row = self.row("team")
        self.assertEqual((row["state"], row["lastError"], row["failed"]), ("failed", "HTTP status 503: later", 1))
        self.assertGreater(row["nextMs"], self.front.env.clock.wall_ms())
        self.wait(30)
        self.assertEqual((self.row("team")["state"], self.row("team")["lastError"]), ("delivered", ""))
        registry = CollectorRegistry()
        registry.register(NoticeMetrics(self.notifier.queues))
        shown = generate_latest(registry).decode()
        self.assertIn('smartgo_alert_notifications_total{outcome="sent",receiver="team"} 1.0', shown)
        self.assertIn('smartgo_alert_notices_pending{receiver="page"} 0.0', shown)
        self.assertNotIn("SECRET", json.dumps(self.front.get("/alerts/receivers", token=self.token)))
        self.assertEqual(dict(show("ops", self.front.config))["alertReceivers"], "***")
        self.flushLoggedErrors()

    def test_restart(self) -> None:
        """What was not delivered is sent after a restart; what was is not sent again."""
        self.down("broker-x")
        self.wait(6)
        self.assertEqual(len(self.sent("/page")), 1)
        self.server.answers = [(503, b"")]
        self.down()
        self.wait(60)
        self.assertEqual(self.row("page")["state"], "failed")
        self.restart(30)
        self.assertEqual((self.row("page")["state"], self.row("page")["pending"]), ("failed", 1))
        self.server.answers, self.server.requests = [(200, b"ok")], []
        self.wait(10)
        (page,) = self.sent("/page")
        self.assertEqual([(one["subject"], one["state"]) for one in page["alerts"]], [("broker-x", "resolved")])
        self.restart(5)
        self.wait(120)
        self.assertEqual(len(self.sent("/page")), 1)

    def test_test(self) -> None:
        """A test message goes at once, and its answer is told."""
        answer = self.front.ask("POST", "/alerts/receivers/team/test", token=self.token)
        self.assertEqual(
            (answer.status, answer.json["delivered"], answer.json["answer"]), (200, True, "HTTP status 200: ok")
        )
        self.assertIn("This is a test", self.sent("/SECRET")[0]["text"])
        self.server.answers = [(404, b"no_team")]
        answer = self.front.ask("POST", "/alerts/receivers/team/test", token=self.token)
        self.assertEqual((answer.json["delivered"], answer.json["answer"]), (False, "HTTP status 404: no_team"))
        self.assertEqual(self.row("team")["state"], "unused")
        self.assertEqual(
            self.front.ask("POST", "/alerts/receivers/none/test", token=self.token).code, "receiver-not-found"
        )
        self.assertEqual(self.front.ask("POST", "/alerts/receivers/team/test").status, 401)

    def test_stop(self) -> None:
        """A stop in the middle of a message leaves nothing behind, and keeps the notice."""
        self.server.answers = [None]
        self.down("broker-x")
        self.wait(6)
        self.restart(1)
        self.assertEqual(self.row("page")["pending"], 1)


class FileTests(SynchronousTestCase):
    """The file, and settings at the start."""

    def test_strange(self) -> None:
        """Another file is refused."""
        self.assertRaises(BadBody, read_notices, b'{"firing": []}')

    def test_missing_secret(self) -> None:
        """A secret that is missing ends the start."""
        error = self.assertRaises(SettingError, Front, alertReceivers="t slack url=env:NO_SUCH_VARIABLE")
        self.assertIn("the variable NO_SUCH_VARIABLE (url of t) is not set", str(error))
