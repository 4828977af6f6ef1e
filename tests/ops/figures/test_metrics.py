"""The metrics for Prometheus."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from unittest import SkipTest

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from twisted.trial.unittest import SynchronousTestCase

from smartgo.auth.accounts import AccessRules
from smartgo.auth.connections import AccessControl
from smartgo.broker.broker import Broker
from smartgo.client.administration.brokers import BrokerPlace
from smartgo.config.receivers import AlertReceiver
from smartgo.net.memorybudget import Kind
from smartgo.ops.alerts.noticemetrics import DeadLetterMetrics, NoticeMetrics
from smartgo.ops.alerts.notices import NoticeQueue
from smartgo.ops.figures.accessmetrics import AccessMetrics
from smartgo.ops.figures.brokermetrics import BrokerMetrics
from smartgo.ops.figures.membershipmetrics import MembershipMetrics
from smartgo.ops.figures.metrics import Stalls, metrics_of
from smartgo.ops.membership.members import TopicContent
from smartgo.ops.membership.memory import MemberMemory
from smartgo.tablefile import TableFile
from tests.broker.cluster.test_replication import Pair
from tests.broker.fakecluster import Cluster
from tests.fakes import FakeEnvironment
from tests.remoting.doubles import sweeper_of

DOCS = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs")
PROMTOOL = os.environ.get("SMARTGO_PROMTOOL") or shutil.which("promtool")


class MetricsCase(SynchronousTestCase):
    """A cluster with a topic, a group that is connected, and one that was there once."""

    def setUp(self) -> None:
        self.cluster = Cluster()
        self.addCleanup(self.cluster.stop)
        self.stalls = Stalls(3, 0.75)
        self.registry = metrics_of(
            self.cluster.env,
            self.cluster.service,
            self.cluster.registry.routes,
            lambda: self.stalls,
            self.cluster.broker.memory_budget,
            self.cluster.broker.slow_turns,
        )

    def fill(self) -> None:
        """Three messages, two of them read and one of these committed; one dead letter."""
        cluster = self.cluster
        for number in range(3):
            self.assertEqual(cluster.send("T", b"%d" % number).code, 0)
        cluster.heartbeat("online", "T")
        for group, offset in (("online", 3), ("offline", 1)):
            cluster.pull("T", consumer_group=group, max_msg_nums=2, commit_offset=offset, sys_flag=5)
        cluster.broker.topics.create_for_group("%DLQ%online", 1)
        cluster.send("%DLQ%online")
        cluster.pump(0.1)

    def text(self) -> str:
        """The exposition."""
        return generate_latest(self.registry).decode()

    def values(self, name: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Every sample of that name by its labels, without those that all have."""
        found = {}
        for family in text_string_to_metric_families(self.text()):
            for sample in family.samples:
                if sample.name == name:
                    labels = {key: value for key, value in sample.labels.items() if key not in COMMON}
                    found[tuple(sorted(labels.items()))] = sample.value
                    for key in COMMON & sample.labels.keys():
                        self.assertEqual(sample.labels[key], COMMON_VALUES[key], name)
        return found

    def value(self, name: str, **labels: str) -> float:
        """One sample."""
        return self.values(name)[tuple(sorted(labels.items()))]


COMMON_VALUES = {
    "cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a", "broker": "broker-a",
    "brokerIP": "127.0.0.1:10911",
}  # fmt: skip
COMMON = frozenset(COMMON_VALUES)


class BrokerMetricsTests(MetricsCase):
    """A broker's figures."""

    def test_in(self) -> None:
        """What was stored is there by topic and in all, by the names of 5.x and of the exporter."""
        self.fill()
        self.assertEqual(self.value("rocketmq_messages_in_total", topic="T", message_type="normal"), 3)
        size = self.value("rocketmq_throughput_in_total", topic="T", message_type="normal")
        dead = self.value("rocketmq_throughput_in_total", topic="%DLQ%online", message_type="normal")
        self.assertEqual(size + dead, self.cluster.broker.store.log_bounds()[1])
        self.assertEqual(
            self.value("rocketmq_send_to_dlq_messages_total", topic="%DLQ%online", consumer_group="online"), 1
        )
        self.assertEqual(self.value("smartgo_messages_in_total"), 4)
        self.assertEqual(self.value("rocketmq_producer_offset", topic="T"), 3)
        self.assertGreater(self.value("rocketmq_producer_tps", topic="T"), 0)
        self.assertGreater(self.value("rocketmq_producer_message_size", topic="T"), 0)
        self.assertEqual(self.value("rocketmq_broker_tps"), 0.0)

    def test_out(self) -> None:
        """What was given out is there by topic and group, and in all."""
        self.fill()
        for group in ("online", "offline"):
            labels = {"topic": "T", "consumer_group": group, "is_retry": "false"}
            self.assertEqual(self.value("rocketmq_messages_out_total", **labels), 2)
            self.assertGreater(self.value("rocketmq_throughput_out_total", **labels), 0)
            self.assertGreater(self.value("rocketmq_consumer_tps", topic="T", group=group), 0)
        self.assertEqual(self.value("smartgo_messages_out_total"), 4)

    def test_lag(self) -> None:
        """What a group has not consumed is there in messages, and from the second time asked in milliseconds."""
        self.fill()
        behind = {"topic": "T", "consumer_group": "offline", "is_retry": "false"}
        done = {"topic": "T", "consumer_group": "online", "is_retry": "false"}
        self.assertEqual(self.value("rocketmq_consumer_lag_messages", **behind), 2)
        self.assertEqual(self.value("rocketmq_consumer_lag_messages", **done), 0)
        self.assertEqual(self.value("rocketmq_message_accumulation", topic="T", group="offline"), 2)
        self.assertEqual(self.value("rocketmq_consumer_offset", topic="T", group="offline"), 1)
        self.cluster.pump(20, step=1)
        waits = self.value("rocketmq_consumer_lag_latency", **behind)
        self.assertTrue(20_000 <= waits <= 21_000, waits)
        self.assertEqual(self.value("rocketmq_consumer_lag_latency", **done), 0)
        self.assertEqual(self.value("rocketmq_group_get_latency_by_storetime", topic="T", group="offline"), waits)

    def test_clients(self) -> None:
        """Connections are there by group, language and version, and as such."""
        self.fill()
        self.assertEqual(
            self.value(
                "rocketmq_consumer_connections",
                consumer_group="online", language="PYTHON", version="409", consume_mode="clustering",
            ),
            1,
        )  # fmt: skip
        self.assertEqual(self.value("smartgo_connections"), 1)
        self.assertEqual(self.value("smartgo_connections_accepted_total"), 1)

    def test_tables_and_store(self) -> None:
        """Numbers of topics and groups, the log's size, and whether the store takes messages."""
        self.fill()
        broker = self.cluster.broker
        self.assertEqual(self.value("rocketmq_topic_number"), len(broker.topics))
        self.assertEqual(self.value("rocketmq_consumer_group_number"), len(broker.groups))
        self.assertEqual(self.value("rocketmq_broker_permission"), 6)
        self.assertEqual(self.value("rocketmq_storage_size"), broker.store.log_bounds()[1])
        self.assertEqual(self.value("smartgo_store_refusing"), 0)
        self.cluster.pump(30, step=1)
        self.assertEqual(self.value("rocketmq_storage_flush_behind_bytes"), 0)
        self.assertGreaterEqual(self.value("rocketmq_storage_message_reserve_time"), 30_000)

    def test_bounded(self) -> None:
        """The first topics and groups keep their series; further ones are only counted."""
        metrics = BrokerMetrics(self.cluster.env, self.cluster.service, series=2)
        for topic in ("T", "U", "V"):
            self.cluster.send(topic)
            for group in ("g", "h"):
                self.cluster.pull(topic, consumer_group=group, commit_offset=0, sys_flag=5)
        families = {family.name: family for family in metrics.collect()}
        topics = [one.labels["topic"] for one in families["rocketmq_messages_in"].samples]
        self.assertEqual(topics, ["T", "U"])
        for name in ("rocketmq_messages_out", "rocketmq_consumer_lag_messages"):
            self.assertEqual(len(families[name].samples), 2, name)
        self.assertEqual(families["smartgo_metrics_dropped"].samples[0].value, 1 + 4 + 4)

    def test_before_the_start(self) -> None:
        """A broker that still reads its log says so and nothing else; one that has stopped has its figures still."""
        cluster = self.cluster
        broker = Broker(cluster.env, cluster.configure({"storePathRootDir": "/other"}), sweeper_of(cluster.env.clock))
        shown = generate_latest(metrics_of(cluster.env, broker)).decode()
        self.assertIn("smartgo_broker_opened{", shown)
        self.assertNotIn("rocketmq_storage_size", shown)
        other = Cluster()
        other.stop()
        self.assertIn(b"smartgo_connections{", generate_latest(metrics_of(other.env, other.service)))

    def test_asking_changes_nothing(self) -> None:
        """However often somebody asks, no timer and no table is left behind."""
        self.fill()
        before = len(self.cluster.env.clock.getDelayedCalls()), self.cluster.broker.topics.version
        for _ in range(3):
            self.text()
            self.cluster.pump()
        self.assertEqual((len(self.cluster.env.clock.getDelayedCalls()), self.cluster.broker.topics.version), before)


class ReplicationMetricsTests(SynchronousTestCase):
    """A master and its slave."""

    def test_pair(self) -> None:
        """A master tells how far its slave is, a slave in which of all states it is."""
        pair = Pair()
        self.addCleanup(pair.stop)
        pair.send("T")
        pair.pump(5.0)
        master, slave = (
            {(one.name, one.labels.get("state")): one.value for family in families for one in family.samples}
            for families in (
                text_string_to_metric_families(generate_latest(metrics_of(pair.env, broker, None, None)).decode())
                for broker in (pair.service, pair.slave)
            )
        )
        self.assertEqual(master["smartgo_replication_slaves", None], 1)
        self.assertEqual(master["smartgo_replication_confirmed_bytes", None], pair.broker.store.log_bounds()[1])
        self.assertEqual(master["smartgo_replication_behind_bytes", None], 0)
        self.assertNotIn(("smartgo_replication_state", "FOLLOWING"), master)
        self.assertEqual(slave["smartgo_replication_state", "FOLLOWING"], 1)
        self.assertEqual(slave["smartgo_replication_state", "DIVERGED"], 0)
        self.assertEqual(slave["smartgo_replication_behind_bytes", None], 0)
        self.assertLess(slave["smartgo_replication_tables_age_seconds", None], 10)
        pair.stop_master()
        lone = generate_latest(metrics_of(pair.env, pair.slave, None, None)).decode()
        self.assertIn('state="CONNECTING"} 1.0', lone)


class ProcessMetricsTests(MetricsCase):
    """A process and its registry."""

    def test_process(self) -> None:
        """The release, the time since the start, and when the reactor stood still."""
        self.cluster.pump(5)
        self.assertEqual(self.value("smartgo_info", version="V4_9_8"), 1)
        self.assertAlmostEqual(self.value("smartgo_up_seconds"), 5.0, 3)
        self.assertEqual(self.value("smartgo_reactor_stalls_total"), 3)
        self.assertEqual(self.value("smartgo_reactor_longest_stall_seconds"), 0.75)

    def test_registry(self) -> None:
        """Brokers by cluster and role, how long they are silent, and their topics."""
        self.assertEqual(self.value("smartgo_registry_brokers", role="master"), 1)
        self.cluster.pump(5)
        self.assertAlmostEqual(self.value("smartgo_registry_broker_silence_seconds"), 5.0, 1)
        self.assertEqual(self.value("smartgo_registry_topics"), len(self.cluster.registry.routes.topics()))

    def test_slow_turns(self) -> None:
        """What held the reactor up, by name."""
        self.cluster.broker.slow_turns.note("request 310", 0.25)
        self.cluster.broker.slow_turns.note("timer Broker.sweep", 0.5)
        counts = {
            dict(labels)["name"]: count for labels, count in self.values("smartgo_reactor_slow_turns_total").items()
        }
        self.assertEqual(counts, {"request 310": 1, "timer Broker.sweep": 1})
        self.assertEqual(self.value("smartgo_reactor_slow_turns_seconds_total"), 0.75)

    def test_memory(self) -> None:
        """The memory budget: how large it is, and what is used of it for what."""
        self.cluster.broker.memory_budget.take(Kind.LOCKS, 1234)
        self.assertEqual(self.value("smartgo_memory_budget_bytes"), 512 << 20)
        self.assertEqual(self.value("smartgo_memory_used_bytes", kind="locks"), 1234)
        self.assertEqual(len(self.values("smartgo_memory_used_bytes")), len(Kind))
        self.assertEqual(self.value("smartgo_memory_paused"), 0)


def remembered() -> MemberMemory:
    """Return a memory of two brokers and a registry: broker-a has lost its master, broker-b is gone."""
    env = FakeEnvironment()
    memory = MemberMemory(env, TableFile(env, "/members.json"), ["10.0.0.1:9876", "10.0.0.2:9876"])
    slave = BrokerPlace("C", "broker-a", 1, "10.0.0.1:10921")
    memory.observe([slave, BrokerPlace("C", "broker-a", 0, "a:1"), BrokerPlace("C", "broker-b", 0, "b:1")])
    memory.counted("broker-b", {"T": TopicContent(4, 1000)}, ["T"])
    env.clock.advance(90)
    memory.observe([slave])
    memory.observe_registries({"10.0.0.1:9876": False})
    return memory


class MembershipMetricsTests(SynchronousTestCase):
    """The members of the cluster."""

    def test_missing(self) -> None:
        """Each process that was there has a series, each broker what cannot be reached, each registry its state."""
        registry = CollectorRegistry()
        registry.register(MembershipMetrics(remembered()))

        def value(name: str, **labels: str) -> float | None:
            return registry.get_sample_value(name, {"cluster": "C", **labels})

        states = {
            (broker, number): (
                value("smartgo_member_up", broker=broker, id=number),
                value("smartgo_member_missing_seconds", broker=broker, id=number),
            )
            for broker, number in (("broker-a", "0"), ("broker-a", "1"), ("broker-b", "0"))
        }
        self.assertEqual(states, {("broker-a", "0"): (0, 90), ("broker-a", "1"): (1, None), ("broker-b", "0"): (0, 90)})
        for broker, headless, messages, queues in (("broker-a", 1, 0, 0), ("broker-b", 0, 1000, 4)):
            self.assertEqual(value("smartgo_broker_without_master", broker=broker), headless)
            self.assertEqual(value("smartgo_unreachable_messages", broker=broker), messages)
            self.assertEqual(value("smartgo_unreachable_queues", broker=broker), queues)
        self.assertEqual(registry.get_sample_value("smartgo_registry_up", {"address": "10.0.0.1:9876"}), 0)
        self.assertIsNone(registry.get_sample_value("smartgo_registry_up", {"address": "10.0.0.2:9876"}))


class DocumentTests(MetricsCase):
    """The dashboard, the alert rules and the page about them."""

    def setUp(self) -> None:
        super().setUp()
        self.fill()
        pair = Pair()
        self.addCleanup(pair.stop)
        pair.pump(4.0)
        slave = metrics_of(pair.env, pair.slave, None, lambda: self.stalls)
        members = CollectorRegistry()
        members.register(MembershipMetrics(remembered()))
        members.register(AccessMetrics(AccessControl(AccessRules())))
        members.register(DeadLetterMetrics(lambda: {"audit": 3, "unknown": None}))
        members.register(NoticeMetrics({"team": NoticeQueue(AlertReceiver(name="team", kind="slack"))}))
        text = self.text() + generate_latest(slave).decode() + generate_latest(members).decode()
        self.families = list(text_string_to_metric_families(text))

    def test_dashboard_and_rules(self) -> None:
        """Every figure that the dashboard and the alert rules ask for is one that we show."""
        shown = {one.name + "_total" * (one.type == "counter") for one in self.families}
        for name in ("smartgo.json", "alerts.yml"):
            with open(os.path.join(DOCS, "grafana", name), encoding="utf-8") as file:
                text = file.read()
            asked = set(re.findall(r"\b(?:smartgo|rocketmq)_[a-z_]+", text))
            self.assertGreater(len(asked), 10, name)
            self.assertEqual(asked - shown, set(), name)

    def test_dashboard(self) -> None:
        """The dashboard is one that Grafana can import: numbered panels that do not lie on each other."""
        with open(os.path.join(DOCS, "grafana", "smartgo.json"), encoding="utf-8") as file:
            board = json.load(file)
        panels = board["panels"]
        self.assertEqual(len({one["id"] for one in panels}), len(panels))
        cells: set[tuple[int, int]] = set()
        for one in panels:
            place = one["gridPos"]
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertNotIn((x, y), cells, one["title"])
                    cells.add((x, y))
            self.assertLessEqual(place["x"] + place["w"], 24)

    def test_page(self) -> None:
        """Every figure that we show is on the page."""
        with open(os.path.join(DOCS, "metrics.rst"), encoding="utf-8") as file:
            page = file.read()
        self.assertEqual([one.name for one in self.families if one.name not in page], [])


class PromtoolTests(MetricsCase):
    """Prometheus's own tool on what we show it."""

    def setUp(self) -> None:
        if PROMTOOL is None:
            raise SkipTest("promtool is not installed (Debian: the package prometheus)")
        super().setUp()

    def promtool(self, *arguments: str, given: str | None = None) -> str:
        """Run it and return what it said."""
        assert PROMTOOL is not None
        done = subprocess.run([PROMTOOL, *arguments], input=given, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        self.assertIn(done.returncode, (0, 3), said)  # 3: a name that is not as Prometheus would have it
        return said

    def test_metrics(self) -> None:
        """It reads the exposition, and finds nothing to say about the names that are ours."""
        self.fill()
        self.assertNotIn("smartgo_", self.promtool("check", "metrics", given=self.text()))

    def test_questions(self) -> None:
        """It can read every question that the dashboard asks."""
        with open(os.path.join(DOCS, "grafana", "smartgo.json"), encoding="utf-8") as file:
            panels = json.load(file)["panels"]
        asked = [re.sub(r"\$\w+", ".*", one["expr"]) for panel in panels for one in panel.get("targets", ())]
        self.assertGreater(len(asked), 25)
        rules = [{"record": f"asked:{number}", "expr": expression} for number, expression in enumerate(asked)]
        path: str = self.mktemp()
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
        self.assertIn(f"SUCCESS: {len(asked)} rules", self.promtool("check", "rules", path))

    def test_rules(self) -> None:
        """It finds the alert rules sound, and their tests pass."""
        self.assertIn("SUCCESS", self.promtool("check", "rules", os.path.join(DOCS, "grafana", "alerts.yml")))
        self.assertIn("SUCCESS", self.promtool("test", "rules", os.path.join(DOCS, "grafana", "alerts-test.yml")))
