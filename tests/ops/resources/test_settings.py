"""Resources about settings: where each is from, changes of them, what is kept, the record, taking back."""

from __future__ import annotations

import contextlib
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from smartgo.broker.broker import Broker
from smartgo.broker.processors.brokeradmin import BrokerAdmin
from smartgo.errors import RequestRefused
from smartgo.node.ops import LocalNode
from smartgo.ops.security.audit import COMMON
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from tests.broker.doubles import FakePeer
from tests.broker.fakecluster import Cluster
from tests.ops.front import Front
from tests.remoting.doubles import sweeper_of

AUTO = "autoCreateTopicEnable"


class SettingsTests(SynchronousTestCase):
    """A front in the process of a broker."""

    def setUp(self) -> None:
        cluster = Cluster(maxHashSlotNum="100", maxIndexNum="400")
        self.node = LocalNode(cluster.configuration, [cluster.registry, cluster.service])
        self.front = Front(cluster, self.node)
        self.addCleanup(self.front.stop)
        self.token = self.front.admin()

    def change(self, changes: Any, **more: Any) -> Any:
        """Change settings as admin."""
        return self.front.ask("PATCH", "/config", {"changes": changes, **more}, token=self.token)

    def one(self, name: str) -> Any:
        """One setting."""
        return self.front.get(f"/config?q={name}", token=self.token)["items"][0]

    def history(self, query: str = "") -> Any:
        """Return the recorded changes."""
        return self.front.get(f"/config/history{query}", token=self.token)

    def undo(self, number: int, **more: Any) -> Any:
        """Take a change back."""
        return self.front.ask("POST", f"/config/history/{number}/undo", more, token=self.token)

    def test_settings(self) -> None:
        """Settings are listed by table, by name, by whether somebody set them, and by whether they can be changed."""
        page = self.front.get("/config?table=broker&changed=true&limit=200", token=self.token)
        self.assertIn("brokerName", [one["name"] for one in page["items"]])
        self.assertEqual({one["origin"] for one in page["items"]}, {"flag"})
        one = self.one("flushDiskType")
        self.assertEqual((one["value"], one["default"], one["origin"]), ("ASYNC_FLUSH", "ASYNC_FLUSH", "default"))
        page = self.front.get("/config?changeable=true&limit=200", token=self.token)
        self.assertIn("brokerPermission", [one["name"] for one in page["items"]])
        self.assertNotIn("listenPort", [one["name"] for one in page["items"]])

    def test_change(self) -> None:
        """A change is in force at once, and the audit log has what was there before (X7)."""
        answer = self.change({AUTO: "false"})
        self.assertEqual(answer.status, 200)
        (one,) = answer.json
        self.assertEqual((one["before"], one["value"], one["origin"]), ("true", "false", "request"))
        entry = self.front.get("/audit", token=self.token)["items"][0]
        self.assertEqual(entry["detail"]["before"], {AUTO: "true"})
        self.assertEqual(entry["who"], "boss")

    def test_permission(self) -> None:
        """The broker's permission is changed so, too; pulls are refused at once."""
        self.front.cluster.send("T")
        self.assertEqual(self.change({"brokerPermission": "2"}).status, 200)
        self.assertEqual(self.front.cluster.pull("T")[0].code, 16)

    def test_dry_run(self) -> None:
        """A dry run says what would be, checks as the change does, and changes nothing."""
        (one,) = self.change({"brokerPermission": "4"}, dryRun=True, keep=True).json
        self.assertEqual((one["before"], one["value"], one["origin"]), ("6", "4", "kept"))
        answer = self.change({"brokerPermission": "8"}, dryRun=True)
        self.assertEqual(answer.status, 400)
        self.assertIn("a whole number from 0 to 7", answer.json["detail"])
        self.assertEqual((self.one("brokerPermission")["value"], self.history()["total"]), ("6", 0))

    def test_keep(self) -> None:
        """What is kept says so, by whom; what the command line gives cannot be."""
        (one,) = self.change({AUTO: "false"}, keep=True).json
        self.assertEqual(one["origin"], "kept")
        self.assertIn("by boss, 127.0.0.1, at 20", self.one(AUTO)["place"])
        node = LocalNode(self.front.cluster.configuration, [self.front.cluster.registry])
        self.assertEqual(node.history(), [])

    def test_keep_under_flag(self) -> None:
        """What the command line gives can be changed, and not be kept."""
        cluster = Cluster(maxHashSlotNum="100", maxIndexNum="400", brokerPermission="6")
        front = Front(cluster, LocalNode(cluster.configuration, [cluster.registry, cluster.service]))
        self.addCleanup(front.stop)
        token = front.admin()
        body = {"changes": {"brokerPermission": "4"}, "keep": True}
        answer = front.ask("PATCH", "/config", body, token=token)
        self.assertEqual(answer.status, 409)
        self.assertIn("command line", answer.json["detail"])
        self.assertEqual(front.ask("PATCH", "/config", body | {"keep": False}, token=token).status, 200)

    def test_history(self) -> None:
        """Changes are listed by page, the newest first, who and from where, and found by setting and by text."""
        self.change({AUTO: "false"})
        self.change({"brokerPermission": "4"}, keep=True)
        page = self.history("?limit=1")
        self.assertEqual((page["total"], len(page["items"])), (2, 1))
        one = page["items"][0]
        self.assertEqual(
            (one["name"], one["before"], one["after"], one["who"], one["address"], one["kept"], one["undoable"]),
            ("brokerPermission", "6", "4", "boss", "127.0.0.1", True, True),
        )
        self.assertEqual([one["name"] for one in self.history(f"?setting={AUTO}")["items"]], [AUTO])
        self.assertEqual([one["name"] for one in self.history("?q=permission")["items"]], ["brokerPermission"])
        self.assertEqual([one["id"] for one in self.history("?sort=atMs")["items"]], [1, 2])

    def test_undo(self) -> None:
        """A change is taken back once, after those that came later; a dry run only says so. The audit log has it."""
        self.change({"brokerPermission": "4"})
        self.change({"brokerPermission": "2"})
        answer = self.undo(1)
        self.assertEqual(answer.status, 409)
        (one,) = self.undo(2, dryRun=True).json
        self.assertEqual((one["before"], one["value"], one["origin"]), ("2", "4", "request"))
        self.assertEqual(self.one("brokerPermission")["value"], "2")
        (one,) = self.undo(2).json
        self.assertEqual((one["before"], one["value"]), ("2", "4"))
        found = {one["id"]: one for one in self.history()["items"]}
        self.assertEqual((found[2]["undoneBy"], found[3]["undoes"], found[2]["undoable"]), (3, 2, False))
        (one,) = self.undo(1).json
        self.assertEqual((one["value"], one["origin"]), ("6", "default"))
        entry = self.front.get("/audit", token=self.token)["items"][0]
        self.assertEqual((entry["action"], entry["subject"]), ("POST /config/history/{id}/undo", {"id": "1"}))
        self.assertEqual((entry["detail"]["before"], entry["detail"]["after"]), (
            {"brokerPermission": "4"}, {"brokerPermission": "6"},
        ))  # fmt: skip
        self.assertEqual(self.undo(77).status, 404)

    def test_starting(self) -> None:
        """Until the broker has read what was kept nothing can be changed: that would be lost, or lose what was kept."""
        cluster = self.front.cluster
        self.change({"brokerPermission": "4"}, keep=True)
        cluster.service.stopService()
        cluster.pump(7.0)
        broker = cluster.service = Broker(cluster.env, cluster.configuration, sweeper_of(cluster.env.clock))
        node = LocalNode(cluster.configuration, [broker])
        for keep in (True, False):
            self.assertRaises(RequestRefused, node.plan, {AUTO: "false"}, keep)
            self.assertRaises(RequestRefused, node.change, {AUTO: "false"}, "boss", "127.0.0.1", keep)
        self.assertRaises(RequestRefused, node.plan_undo, 1)
        broker.startService()
        cluster.pump()
        self.assertEqual([(one.name, one.after, one.kept) for one in node.history()], [("brokerPermission", "4", True)])
        self.assertEqual(node.plan({AUTO: "false"}, True)[0].origin, "kept")
        self.assertEqual(broker.settings.configuration.broker.broker_permission, 4)

    def update(self, admin: BrokerAdmin, body: bytes) -> None:
        """Change settings as mqadmin does, as far as the broker allows it."""
        with contextlib.suppress(RequestRefused):
            admin.process(FakePeer("192.0.2.66:9"), Command.request(RequestCode.UPDATE_BROKER_CONFIG, None, body))
        self.front.cluster.pump()

    def test_remoting(self) -> None:
        """What is asked for over remoting (25), done or declined, is in the audit log, with the peer's address (X7)."""
        broker = self.front.cluster.broker
        any_: Any = None
        admin = BrokerAdmin(any_, broker.settings, any_, remote_config=True)
        self.update(admin, b"brokerPermission=4\nopsTokens=a:admin:b\n")
        self.update(admin, b"brokerPermission=4\n")
        done, declined = self.front.get("/audit", token=self.token)["items"][:2]
        self.assertEqual(
            (done["who"], done["address"], done["action"], done["status"]),
            ("remoting", "192.0.2.66:9", "UPDATE_BROKER_CONFIG", 200),
        )
        self.assertEqual(done["detail"], {"changes": {"brokerPermission": "4"}, "before": {"brokerPermission": "6"}})
        self.assertEqual((declined["status"], declined["error"]), (400, "bad-request"))
        self.assertEqual(declined["detail"], {"changes": {"brokerPermission": "4", "opsTokens": "***"}})
        line = self.front.env.files.read("/store/ops/audit.jsonl").splitlines()[-1]
        self.assertIn(b'"192.0.2.66:9"', line)
        self.assertEqual(self.history()["items"][0]["address"], "192.0.2.66:9")

    def test_remoting_declined(self) -> None:
        """A broker without access control declines them all; who tries that without end cannot push others out."""
        self.change({"brokerPermission": "4"})
        for _ in range(COMMON + 5):
            self.front.cluster.ask(Command.request(RequestCode.UPDATE_BROKER_CONFIG, None, b"traceOn=false"))
        rows = self.front.get("/audit?limit=200&q=remoting", token=self.token)
        self.assertEqual((rows["total"], {one["status"] for one in rows["items"]}), (COMMON, {403}))
        self.assertEqual(self.front.get("/audit?q=PATCH", token=self.token)["total"], 1)

    def test_scope(self) -> None:
        """Nobody but an admin sees or takes back changes."""
        self.change({AUTO: "false"})
        reader = self.front.ops.tokens.create("eyes", ["read"])[1]
        self.front.cluster.pump()
        self.assertEqual(self.front.ask("GET", "/config/history", token=reader).status, 403)
        self.assertEqual(self.front.ask("POST", "/config/history/1/undo", {}, token=reader).status, 403)

    def test_refused(self) -> None:
        """Addresses, paths and the like cannot be changed, nor anything to what is not allowed; all or none."""
        for changes, status in (
            ({"listenPort": "1"}, 403),
            ({"storePathRootDir": "/"}, 403),
            ({"opsTokens": "x"}, 400),
            ({"nothing": "1"}, 400),
            ({AUTO: "maybe"}, 400),
            ({}, 400),
            ({AUTO: "false", "listenPort": "1"}, 403),
        ):
            self.assertEqual(self.change(changes).status, status, changes)
        self.assertEqual(self.one(AUTO)["value"], "true")


class OutsideTests(SynchronousTestCase):
    """A front before a cluster, in a process of its own."""

    def test_nothing(self) -> None:
        """It has no settings to show or to change."""
        front = Front()
        self.addCleanup(front.stop)
        token = front.admin()
        self.assertEqual(front.get("/config", token=token)["items"], [])
        self.assertEqual(front.get("/config/history", token=token)["items"], [])
        for method, path, body in (
            ("PATCH", "/config", {"changes": {AUTO: "false"}}),
            ("POST", "/config/history/1/undo", {}),
        ):
            answer = front.ask(method, path, body, token=token)
            self.assertEqual((answer.status, answer.code), (409, "not-local"))
