"""The command that empties a broker."""

from __future__ import annotations

import json

from smartgo.client.client import Client
from smartgo.client.consumer import PushConsumer
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.offsets import UpdateOffsetRequest
from tests.broker.fakecluster import REGISTRY
from tests.cli.case import ClusterCase


class DrainTests(ClusterCase):
    """A broker with a topic of which group audit has three messages to read."""

    seconds = 120.0

    def setUp(self) -> None:
        super().setUp()
        self.out("topic", "create", "T", "-n", "1")
        self.out("group", "create", "audit")
        for _ in range(3):
            self.cluster.send("T")
        self.commit(0)
        self.begin = self.env.clock.seconds()

    def commit(self, offset: int) -> None:
        """Say where audit stands."""
        header = UpdateOffsetRequest(consumer_group="audit", topic="T", queue_id=0, commit_offset=offset)
        self.cluster.ask(Command.request(RequestCode.UPDATE_CONSUMER_OFFSET, header))

    @property
    def took(self) -> float:
        """Seconds since the test began."""
        return self.env.clock.seconds() - self.begin

    def perm(self, topic: str = "T") -> int:
        """Return the permission of a topic at the registry."""
        found = self.cluster.registry.routes.route(topic)
        assert found is not None
        return found.queue_datas[0].perm

    def at(self, **what: object) -> None:
        """Have things done while the command runs: C{s20=...} after 20 s."""
        waiting = {int(name[1:]): do for name, do in what.items()}

        def during() -> None:
            for second in [one for one in waiting if self.took >= one]:
                waiting.pop(second)()  # type: ignore[operator]

        self.during = during

    def test_empties(self) -> None:
        """It waits until everything is read, and for the 35 s that producers may take to go elsewhere."""
        self.at(s5=lambda: self.commit(1), s20=lambda: self.commit(3))
        result = self.invoke("cluster", "drain", "broker-a", "--yes", "-o", "json")
        told = json.loads(result.stdout)
        self.assertEqual((told["broker"], told["groups"], told["ignored"]), ("broker-a", 1, 0))
        self.assertTrue(35.0 <= told["seconds"] <= 40.0, told)
        self.assertEqual(self.perm(), 4)
        lines = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
        self.assertEqual((lines[0]["progress"], lines[0]["done"], lines[0]["total"]), ("messages consumed", 0, 3))
        self.assertEqual((lines[-1]["done"], lines[-1]["ended"]), (3, True))
        self.assertGreater(next(line["eta_seconds"] for line in lines if line["done"] == 1), 0)
        self.assertIn("no member", result.stderr)

    def test_waits(self) -> None:
        """It goes on while somebody is behind, and while messages come in."""
        self.at(s50=lambda: self.commit(3), s60=lambda: self.cluster.send("U", body=b"late"))
        told = self.json("cluster", "drain", "broker-a", "--yes")
        self.assertGreaterEqual(told["seconds"], 50.0)
        self.commit(3)
        self.at(**{f"s{self.took + 30:.0f}": lambda: self.cluster.send("U", body=b"late")})
        self.assertGreaterEqual(self.json("cluster", "drain", "broker-a", "--yes")["seconds"], 38.0)

    def test_registered_again(self) -> None:
        """A broker that registers a new topic meanwhile is left out again within seconds."""
        self.commit(3)

        def changed() -> None:
            self.cluster.broker.topics.create_for_group("%RETRY%new", 1)
            self.cluster.broker.registrar.register()

        seen: list[int] = []
        self.at(s10=changed, s11=lambda: seen.append(self.perm()), s15=lambda: seen.append(self.perm()))
        self.out("cluster", "drain", "broker-a", "--yes")
        self.assertEqual((seen[-1], self.perm()), (4, 4))

    def test_delayed(self) -> None:
        """Delayed messages are waited for."""
        self.commit(3)
        self.cluster.send("T", properties={"DELAY": "5"})
        self.at(s65=lambda: self.commit(4))
        self.assertGreaterEqual(self.json("cluster", "drain", "broker-a", "--yes")["seconds"], 60.0)

    def test_counting(self) -> None:
        """It goes on while the broker does not know how many timed messages it has."""
        self.commit(3)
        timers = self.cluster.broker.store.timers
        assert timers is not None
        self.patch(timers, "ready", False)
        why = self.invoke("cluster", "drain", "broker-a", "--yes", "--timeout", "50", status=75).stderr
        self.assertIn("its timed messages are being counted", why)
        begin = self.took
        self.at(**{f"s{begin + 50:.0f}": lambda: setattr(timers, "ready", True)})
        self.assertGreaterEqual(self.json("cluster", "drain", "broker-a", "--yes")["seconds"], 48.0)

    def test_nobody_reads(self) -> None:
        """A group without members is named once; it may be left aside, or the time limited."""
        result = self.invoke("cluster", "drain", "broker-a", "--yes", "--timeout", "20", status=75)
        lines = [line for line in result.stderr.splitlines() if line.startswith("smartgo")]
        self.assertEqual(len(lines), 3)
        self.assertIn(
            "group audit has 3 messages to consume and no members: start a consumer, or add --ignore audit", lines[0]
        )
        self.assertIn("--undo", lines[1])
        self.assertIn("is not drained after 20 s: group audit has 3 messages to consume", lines[2])
        told = self.json("cluster", "drain", "broker-a", "--yes", "--ignore", "audit")
        self.assertEqual((told["groups"], told["ignored"]), (0, 3))

    def test_members_read(self) -> None:
        """A group that has members is not complained about."""
        client = Client(self.env, REGISTRY, instance="member")
        self.addCleanup(self.cluster.pump, 2.0)
        self.addCleanup(client.stop)
        consumer = PushConsumer(client, "audit", lambda messages: None)
        consumer.subscribe("T")
        consumer.start()
        result = self.invoke("cluster", "drain", "broker-a", "--yes")
        self.assertNotIn("no member", result.stderr)
        self.assertIn("safe to stop", result.stdout)

    def test_undo(self) -> None:
        """With --undo producers use the broker again; a dry run changes nothing, here and there."""
        self.out("cluster", "drain", "broker-a", "--dry-run")
        self.assertEqual(self.perm(), 6)
        self.out("cluster", "drain", "broker-a", "--yes", "--ignore", "audit")
        self.out("cluster", "drain", "broker-a", "--undo", "--dry-run")
        self.assertEqual(self.perm(), 4)
        self.assertIn("allowed again", self.out("cluster", "drain", "broker-a", "--undo"))
        self.assertEqual(self.perm(), 6)

    def test_registry_down(self) -> None:
        """A registry that does not answer is named once, and the others are told."""
        result = self.invoke(
            "cluster", "drain", "broker-a", "--yes", "--ignore", "audit", "-r", f"{REGISTRY};127.0.0.1:1"
        )
        self.assertEqual(result.stderr.count("is skipped: "), 1)
        self.assertEqual(self.perm(), 4)

    def test_keep(self) -> None:
        """To keep it over restarts is declined where settings cannot be changed so."""
        result = self.invoke("cluster", "drain", "broker-a", "--yes", "--keep", status=77)
        self.assertIn("use the REST API or the console", result.stderr)
        self.assertEqual(self.perm(), 6)

    def test_refused(self) -> None:
        """An unknown broker, an address, and nobody to ask are told in one sentence."""
        self.refused("cluster", "drain", "nobody", status=1)
        self.refused("cluster", "drain", "127.0.0.1:10911", status=2)
        self.assertIn("--yes", self.refused("cluster", "drain", "broker-a", status=2))
