"""Stores that one of the two brokers wrote and the other opens."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any, TypeAlias
from unittest import SkipTest

from tests import golden_store
from tests.interop.case import Cluster, InteropCase, driver, is_free
from tests.interop.driver import Event
from tests.interop.peers import ROCKETMQ, SMARTGO, Peer, chosen

GOLDEN_PORT = 21911
GOLDEN_SETTINGS = {
    "mappedFileSizeCommitLog": str(golden_store.LOG_SIZE),
    "mappedFileSizeConsumeQueue": str(golden_store.QUEUE_SIZE),
    "maxHashSlotNum": str(golden_store.INDEX_SLOTS),
    "maxIndexNum": str(golden_store.INDEX_ENTRIES),
    "transactionCheckInterval": "86400000",  # what is undecided stays as it is
}


def golden_port_is_free() -> None:
    """Skip the test unless it is. @raise SkipTest"""
    # the messages' ids name this port, and ours takes the two beside it as well
    if not all(map(is_free, (GOLDEN_PORT - 2, GOLDEN_PORT, GOLDEN_PORT + 1))):
        raise SkipTest(f"port {GOLDEN_PORT} or one beside it is taken")


Place: TypeAlias = tuple[str, int, int]  # topic, queue, offset


def _place(event: Event) -> Place:
    return str(event.get("readTopic", event["topic"])), event["queueId"], event["queueOffset"]


class GoldenStoreTests(InteropCase):
    """Stores of a real 4.9.7 broker, with the manifest of every message in them."""

    def _read(self, name: str) -> tuple[dict[str, Any], Cluster, dict[Place, Event]]:
        """Open a copy and read all its topics; returns the manifest, the running cluster and what was read."""
        golden_port_is_free()
        home = self.home
        manifest = golden_store.unpack(name, os.path.join(home, "store"))
        cluster = self.cluster(store=os.path.join(home, "store"), broker_port=GOLDEN_PORT, settings=GOLDEN_SETTINGS)
        cluster.start()
        topics = sorted({message["topic"] for message in manifest["messages"]})
        call = driver("4.9").start("read", topics=topics, namesrv=cluster.namesrv)
        read = {_place(event): event for event in call.all_of("message")}
        self.assertEqual(call.of("stuck"), [])
        # a real broker keeps no configuration of the op topic, so nobody can pull it: its messages are asked for by id
        unrouted = {event["readTopic"] for event in call.of("unrouted")}
        self.assertLessEqual(unrouted, {"RMQ_SYS_TRANS_OP_HALF_TOPIC"})
        for message in manifest["messages"]:
            if message["topic"] in unrouted:
                event = driver("4.9").ask(
                    "view", topic=message["topic"], offsetMsgId=message["msgId"], namesrv=cluster.namesrv
                )
                read[_place(event)] = event
        return manifest, cluster, read

    def _assert_whole(self, name: str) -> None:
        manifest, _, read = self._read(name)
        wanted = {_place(message): message for message in manifest["messages"]}
        self.assertEqual(sorted(wanted.keys() - read.keys()), [], "in the manifest and not read")
        for place, message in wanted.items():
            got = read[place]
            self.assertEqual(got["sha256"], message["bodySha256"], f"body at {place}")
            self.assertEqual(got["offsetMsgId"], message["msgId"], f"id at {place}")
            self.assertEqual(got["physicalOffset"], message["physicalOffset"], f"offset at {place}")
            self.assertEqual(got["storedMs"], message["storeTimestamp"], f"store time at {place}")
            self.assertEqual(got["reconsumeTimes"], message["reconsumeTimes"], f"retries at {place}")
            told = {key: value for key, value in got["properties"].items() if key not in ("MIN_OFFSET", "MAX_OFFSET")}
            self.assertEqual(told, message["properties"], f"properties at {place}")

        # what is there beyond the manifest came due since: delayed messages, each once, as they were scheduled
        scheduled = [message for message in manifest["messages"] if message["topic"] == "SCHEDULE_TOPIC_XXXX"]
        due = Counter((message["properties"]["REAL_TOPIC"], message["bodySha256"]) for message in scheduled)
        there = Counter((event["topic"], event["sha256"]) for event in read.values() if event["topic"] in dict(due))
        for place in read.keys() - wanted.keys():
            self.assertIn((place[0], read[place]["sha256"]), due, f"nobody sent what is at {place}")
            self.assertLessEqual(there[place[0], read[place]["sha256"]], due[place[0], read[place]["sha256"]])

    def test_clean(self) -> None:
        """Every message of a store closed by a real broker is pulled, with its body, ids and properties."""
        self._assert_whole("store-a")

    def test_crash(self) -> None:
        """Every message of a store copied under a running real broker is pulled, with its body, ids and properties."""
        self._assert_whole("store-a-crash")

    def test_lookup(self) -> None:
        """Messages of a real broker's store are found by their offset ids."""
        manifest, cluster, _ = self._read("store-a")
        for message in manifest["messages"][::50]:
            if message["topic"] == "Plain":
                seen = driver("5.3").ask("view", topic="Plain", offsetMsgId=message["msgId"], namesrv=cluster.namesrv)
                self.assertEqual(seen["sha256"], message["bodySha256"])

    def test_keys(self) -> None:
        """Messages of a real broker's store are found by their unique ids and by key."""
        manifest, cluster, _ = self._read("store-a")
        plain = [message for message in manifest["messages"] if message["topic"] == "Plain"]
        where = f"-n {cluster.namesrv} -t Plain"
        for message in (plain[0], plain[-1]):
            seen = driver("5.3").ask("view", topic="Plain", offsetMsgId=message["uniqKey"], namesrv=cluster.namesrv)
            self.assertEqual(seen["sha256"], message["bodySha256"])
        for key in ("key0", "shared3"):
            (found,) = driver("4.9").mqadmin(f"queryMsgByKey {where} -k {key}")
            wanted = [message["uniqKey"] for message in plain if key in (message["keys"] or "").split()]
            rows = [line.split()[0] for line in found.splitlines() if not line.startswith("#") and line.strip()]
            self.assertEqual(sorted(rows), sorted(wanted))

    def test_progress(self) -> None:
        """Groups of a real broker's store go on where they were: the offsets mqadmin shows are the stored ones."""
        _, cluster, _ = self._read("store-a")
        text = driver("4.9").mqadmin(f"consumerProgress -n {cluster.namesrv} -g PlainGroup")[0]
        rows = {(row[0], row[2]): row for row in map(str.split, text.splitlines()) if row[1:2] == ["broker-a"]}
        for queue in range(4):
            self.assertEqual(rows["Plain", str(queue)][3:6], ["110", "110", "0"])
        for queue, end in enumerate(("10", "16", "4")):
            self.assertEqual(rows["Batch", str(queue)][3:6], [end, end, "0"])


class BackTests(InteropCase):
    """The way back: what the broker under test wrote, the real one reads."""

    def test_back(self) -> None:
        """A store that our broker wrote and closed is read whole by a real 4.9.7 broker, and can be written on."""
        ours = self.cluster(chosen())
        ours.start()
        where, address = {"namesrv": ours.namesrv}, ours.broker.address
        driver("4.9").ask("topic", topic="delayed", queues=1, address=address, **where)
        topics = ["back", "delayed", "refused", "auto"]
        for generation, encoding in (("4.9", "JSON"), ("5.3", "ROCKETMQ")):
            client = driver(generation, encoding)
            base = {"label": f"{generation}-{encoding}", **where}
            client.ask("topic", topic="back", queues=3, address=address, **where)
            client.ask("send", topic="back", count=60, tags=["A", "标签"], keys="k", properties={"p": "ü"}, **base)
            client.ask("send", topic="back", count=10, first=100, size=100_000, compressible=True, **base)
            client.ask("send", topic="back", count=10, first=200, size=60_000, **base)
            client.ask("batch", topic="back", count=20, first=300, **base)
            client.ask("send", topic="auto", count=5, **base)
            client.ask("send", topic="delayed", count=3, delayLevel=1, **base)
            client.ask("send", topic="delayed", count=3, first=10, delayLevel=18, **base)
        client = driver("4.9")
        for topic in ("refused", "%RETRY%refusing"):
            client.ask("topic", topic=topic, queues=1, address=address, **where)
        client.ask("send", topic="refused", count=2, **where)
        consumer = client.start(
            "push", name="refusing", group="refusing", topics={"refused": "*"}, failTimes=1, delayLevel=1, **where
        )
        consumer.wait_for("message", 4, 60)
        client.ask("push.stop", name="refusing")
        client.ask("await", topic="delayed", offset=5, **where)
        topics += ["%RETRY%refusing", "SCHEDULE_TOPIC_XXXX"]
        for topic in ("shrunk", "gone"):
            client.ask("topic", topic=topic, queues=4, address=address, **where)
            client.ask("send", topic=topic, count=4, **where)
        client.ask("topic", topic="shrunk", queues=2, address=address, **where)
        client.mqadmin(f"deleteTopic -n {ours.namesrv} -c DefaultCluster -t gone")
        before = self._all(ours, topics)
        offsets = client.ask("offsets", topic="refused", group="refusing", **where)["offsets"]
        code = ours.broker.stop()
        if ours.peer is SMARTGO:
            self.assertEqual(code, 0)
        self.assertFalse(os.path.exists(os.path.join(ours.broker.plan.store, "abort")))
        ours.registry.stop()
        if ours.peer is SMARTGO:  # members that RocketMQ does not know
            with open(os.path.join(ours.broker.plan.store, "config", "topics.json"), "rb") as file:
                table = json.load(file)
            self.assertEqual(table["removedQueueTable"], {"shrunk": 4, "gone": 4})
            self.assertEqual(sorted(table["removedAtTable"]), ["gone", "shrunk"])
            self.assertIn("back", table["explicitTopicList"])

        real = self.cluster(ROCKETMQ, store=ours.broker.plan.store, broker_port=ours.broker.plan.port)
        real.start()
        after = self._all(real, topics)
        self.assertEqual(sorted(before.keys() ^ after.keys()), [])
        for place, event in before.items():
            for field in ("sha256", "offsetMsgId", "msgId", "storedMs", "bornMs", "sysFlag", "flag", "reconsumeTimes"):
                self.assertEqual(after[place].get(field), event.get(field), f"{field} at {place}")
            for field in ("MIN_OFFSET", "MAX_OFFSET"):
                del event["properties"][field], after[place]["properties"][field]
            self.assertEqual(after[place]["properties"], event["properties"], f"properties at {place}")
        where = {"namesrv": real.namesrv}
        self.assertNotIn("gone", client.mqadmin(f"topicList -n {real.namesrv}")[0].split())
        shrunk = client.mqadmin(f"topicStatus -n {real.namesrv} -t shrunk")[0]
        self.assertEqual(len([line for line in shrunk.splitlines() if line.startswith("broker")]), 2, shrunk)
        self.assertEqual(client.ask("offsets", topic="refused", group="refusing", **where)["offsets"], offsets)
        sent = client.start("send", topic="back", count=6, first=900, **where).all_of("sent")
        ends = Counter(queue for topic, queue, _ in before if topic == "back")
        self.assertEqual(
            {event["queueOffset"] for event in sent if event["queueId"] == 0}, set(range(ends[0], ends[0] + 2))
        )
        by_key = client.mqadmin(f"queryMsgByKey -n {real.namesrv} -t back -k k7")[0]
        with_key = [event["msgId"] for event in before.values() if event.get("keys") == "k7"]
        self.assertEqual(len(with_key), 2)
        for each in with_key:
            self.assertIn(each, by_key)

    def _taken_over(self, first: Peer, second: Peer) -> None:
        """Let one broker go on with what the other one left undecided."""
        topic, group = self.name("over"), self.name("over-producer")
        client = driver("4.9")
        left = self.cluster(first, settings={"transactionCheckInterval": "86400000"})
        left.start()
        client.ask("topic", topic=topic, queues=1, address=left.broker.address, namesrv=left.namesrv)
        verdicts = ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"]
        call = client.start("transaction", topic=topic, group=group, verdicts=verdicts, namesrv=left.namesrv)
        self.assertEqual({event["status"] for event in call.all_of("sent")}, {"SEND_OK"})
        client.ask("await", topic=topic, offset=0, namesrv=left.namesrv)
        left.broker.stop()
        left.registry.stop()
        self.assertEqual(call.of("checked"), [])

        taken = self.cluster(second, store=left.broker.plan.store, broker_port=left.broker.plan.port)
        taken.start()
        again = driver("5.3").start(
            "transaction", topic=topic, group=group, verdicts=["ROLLBACK_MESSAGE"], namesrv=taken.namesrv
        )
        again.wait_for("checked", 1, 90)
        client.ask("await", topic=topic, offset=1, namesrv=taken.namesrv)
        read = self._all(taken, [topic]).values()
        self.assertEqual(sorted(event["text"] for event in read), [f"{topic}-0", f"{topic}-2"])
        self.assertEqual({event["text"] for event in again.of("checked")}, {f"{topic}-2"})

    def test_transactions_back(self) -> None:
        """What our broker left undecided the real one checks back, and nothing else."""
        self._taken_over(SMARTGO, ROCKETMQ)

    def test_transactions_over(self) -> None:
        """What the real broker left undecided ours checks back, and nothing else."""
        self._taken_over(ROCKETMQ, SMARTGO)

    def _all(self, cluster: Cluster, topics: list[str]) -> dict[Place, Event]:
        call = driver("4.9").start("read", topics=topics, namesrv=cluster.namesrv)
        events = call.all_of("message")
        self.assertEqual(call.of("stuck"), [])
        self.assertEqual(len(events), len({_place(event) for event in events}))
        return {_place(event): event for event in events}
