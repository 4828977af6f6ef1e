"""Messages searched for with the official tools: by key, unique key, id and offset, and consumed once more."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from tests import golden_store
from tests.interop.case import PORTS, Cluster, InteropCase, driver
from tests.interop.driver import Driver
from tests.interop.peers import ROCKETMQ
from tests.interop.process import Process
from tests.interop.test_stores import GOLDEN_PORT, GOLDEN_SETTINGS, golden_port_is_free

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

_ROLLBACK = 12
_LIMIT = 64
_NOT_PULLABLE = frozenset({"RMQ_SYS_TRANS_OP_HALF_TOPIC"})
"""A real broker keeps no settings of it, so that no tool finds a route to it; its messages have no keys either."""


def mqadmin(generation: str, home: str, *arguments: str) -> str:
    """
    Run mqadmin in a JVM of its own, as some commands work but once in one, and return all it printed.

    The JVM has asked for something before: the 3 s that mqadmin waits for an answer are over on a busy machine before
    a new one has loaded its classes.
    """
    java = Driver(generation, home)
    try:
        java.mqadmin(f"clusterList -n {arguments[arguments.index('-n') + 1]}")
        return java.mqadmin(" ".join(arguments))[0] + java.process.tail
    finally:
        java.process.kill()


def smartgo(*arguments: str, home: str) -> subprocess.CompletedProcess[str]:
    """Run our command as a process of its own."""
    os.makedirs(home, exist_ok=True)
    command = [sys.executable, "-m", "smartgo.cli.main", *arguments]
    environment = {**os.environ, "PYTHONPATH": ROOT, "HOME": home}
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)


class Ops:
    """Our REST API before a cluster, as a process of its own."""

    def __init__(self, namesrv: str, home: str) -> None:
        self._url = f"http://127.0.0.1:{PORTS.take(1)}/api/v1"
        word = "interop-word"
        digest = hashlib.sha256(word.encode()).hexdigest()
        self._headers = {"Authorization": f"Bearer {word}", "Content-Type": "application/json"}
        command = [
            sys.executable, "-m", "twisted", "smartgo-ops", "--registry", namesrv,
            "--listen", self._url.split("/")[2], "--set", f"opsTokens=interop:admin:{digest}",
            "--set", f"opsPath={home}/ops",
        ]  # fmt: skip
        self._process = Process("ops", command, home, {"PYTHONPATH": ROOT})
        deadline = time.monotonic() + 120
        while True:
            try:
                self.ask("GET", "/cluster")
                return
            except OSError:
                if time.monotonic() > deadline or self._process.returncode is not None:
                    raise AssertionError(self._process.tail) from None
                time.sleep(0.2)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the JSON of an answer, a problem's too."""
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(self._url + path, data, self._headers, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            return json.load(error)

    def members(self, group: str) -> Any:
        """Return who is connected for a group that is new: what the API knows of groups is up to 2 s old."""
        deadline = time.monotonic() + 90
        while True:
            told = self.ask("GET", f"/groups/{group}/clients")
            if told.get("items"):
                return told["items"]
            if time.monotonic() > deadline:
                raise AssertionError(told)
            time.sleep(0.5)

    def end(self) -> None:
        """Leave nothing running."""
        self._process.kill()


def told(text: str) -> dict[str, str]:
    """Return what mqadmin prints of one message, by field."""
    lines = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines if value}


class GoldenSearchTests(InteropCase):
    """Every key of a real broker's store."""

    def opened(self, name: str, index: bool = True) -> tuple[dict[str, Any], Cluster]:
        """Open a copy of a golden store, with its index or without; return the manifest and the running cluster."""
        golden_port_is_free()
        home = self.home
        store = os.path.join(home, "store")
        manifest = golden_store.unpack(name, store)
        if not index:
            for each in os.listdir(os.path.join(store, "index")):
                os.remove(os.path.join(store, "index", each))
        cluster = self.cluster(store=store, broker_port=GOLDEN_PORT, settings=GOLDEN_SETTINGS)
        cluster.start()
        return manifest, cluster

    def wanted(self, manifest: dict[str, Any], keys_of: Callable[[Any], Iterable[str]]) -> dict[tuple[str, str], Any]:
        """The ids of the messages that have each key, oldest first, by topic and key."""
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for message in manifest["messages"]:
            if message["sysFlag"] & _ROLLBACK != _ROLLBACK and message["topic"] not in _NOT_PULLABLE:
                for key in keys_of(message):
                    found[message["topic"], key].append(message["msgId"])
        return found

    def assert_all_found(self, name: str, index: bool) -> None:
        """Look for all keys and all unique keys with the calls that mqadmin of either generation makes."""
        manifest, cluster = self.opened(name, index)
        by_key = self.wanted(manifest, lambda message: (message["keys"] or "").split())
        by_unique = self.wanted(manifest, lambda message: [message["uniqKey"]] if message["uniqKey"] else [])
        self.assertGreater(len(by_key), 400)
        self.assertGreater(len(by_unique), 500)
        for generation in ("4.9", "5.3"):
            for wanted, unique in ((by_key, False), (by_unique, True)):
                call = driver(generation).start(
                    "search", namesrv=cluster.namesrv, rows=[list(one) for one in wanted], unique=unique
                )
                found = {(one["topic"], one["key"]): one["ids"] for one in call.all_of("found", 600)}
                self.assertEqual(call.of("missed"), [])
                for where, ids in wanted.items():
                    # Of several messages with one unique key clients keep the oldest. What came due since the store was
                    # copied has the keys of the message that was put off.
                    expected = set(ids[:1] if unique else ids[-_LIMIT:])
                    self.assertLessEqual(expected, set(found[where]), f"{where}, mqadmin {generation}")

    def test_clean(self) -> None:
        """Every key and unique key of a store that a real broker closed is found by mqadmin 4.9 and 5.3."""
        self.assert_all_found("store-a", True)

    def test_crash(self) -> None:
        """The same in a store that was copied while a real broker ran."""
        self.assert_all_found("store-a-crash", True)

    def test_index_deleted(self) -> None:
        """The same in a store whose index was deleted."""
        self.assert_all_found("store-a", False)

    def test_commands(self) -> None:
        """The commands themselves, a JVM each: by key, unique key, offset and id."""
        manifest, cluster = self.opened("store-a")
        plain = [message for message in manifest["messages"] if message["topic"] == "Plain"]
        for generation in ("4.9", "5.3"):
            home = os.path.join(self.home, generation)
            server = ("-n", cluster.namesrv)
            for message in (plain[3], plain[-1]):
                where = ("-t", "Plain", *server)
                key = message["keys"].split()[0]
                rows = [
                    line.split() for line in mqadmin(generation, home, "queryMsgByKey", *where, "-k", key).splitlines()
                ]
                self.assertIn([message["uniqKey"], str(message["queueId"]), str(message["queueOffset"])], rows)
                queue = ("-b", "broker-a", "-i", str(message["queueId"]), "-o", str(message["queueOffset"]))
                topic = ("-t", "Plain") if generation == "5.3" else ()
                for text in (
                    mqadmin(generation, home, "queryMsgByUniqueKey", *where, "-i", message["uniqKey"]),
                    mqadmin(generation, home, "queryMsgByOffset", *where, *queue),
                    mqadmin(generation, home, "queryMsgById", *server, *topic, "-i", message["msgId"]),
                ):
                    fields = told(text)
                    self.assertEqual(fields.get("Topic"), "Plain", text)
                    self.assertEqual(fields["Keys"], f"[{message['keys']}]")
                    self.assertEqual(fields["CommitLog Offset"], str(message["physicalOffset"]))
                    self.assertIn("consumerGroup=PlainGroup, trackType=NOT_ONLINE", text)


class LiveSearchTests(InteropCase):
    """Messages of a running broker."""

    def test_at_once(self) -> None:
        """A message is found by its keys and its unique key right after it was sent."""
        running = self.shared()
        topic = self.name("search")
        where = {"namesrv": running.namesrv}
        for generation in ("4.9", "5.3"):
            client = driver(generation)
            client.ask("topic", topic=topic, queues=2, address=running.broker.address, **where)
            sent = client.start("send", topic=topic, count=20, keys=f"k{generation}-", **where).all_of("sent")
            for unique in (False, True):
                rows = [[topic, one["msgId"] if unique else one["keys"]] for one in sent]
                call = client.start("search", rows=rows, unique=unique, **where)
                found = [one["ids"] for one in call.all_of("found")]
                self.assertEqual(found, [[one["offsetMsgId"]] for one in sent])
            missing = client.start("search", rows=[[topic, "no such key"]], **where)
            self.assertEqual((missing.all_of("found"), len(missing.of("missed"))), ([], 1))

    def test_print(self) -> None:
        """printMsg prints every message of a topic with its body."""
        running = self.shared()
        topic = self.name("print")
        where = {"namesrv": running.namesrv}
        for generation in ("4.9", "5.3"):
            client = driver(generation)
            client.ask("topic", topic=topic, queues=2, address=running.broker.address, **where)
            sent = client.start("send", topic=topic, count=10, keys="p", **where).all_of("sent")
            text = client.mqadmin(f"printMsg -n {running.namesrv} -t {topic} -d true")[0]
            for one in sent:
                self.assertIn(one["msgId"], text)
                self.assertIn(f"{topic}-{one['n']}", text)

    def test_consume_directly(self) -> None:
        """A found message is consumed once more by the client that is named, and its result is printed."""
        running = self.shared()
        where = {"namesrv": running.namesrv}
        for generation in ("4.9", "5.3"):
            client = driver(generation)
            topic, group = self.name("direct"), self.name("directly")
            client.ask("topic", topic=topic, queues=1, address=running.broker.address, **where)
            (one,) = client.start("send", topic=topic, count=1, keys="d", **where).all_of("sent")
            consumer = client.start("push", name=group, group=group, topics={topic: "*"}, **where)
            consumer.wait_for("message", 1, 60)
            listed = client.mqadmin(f"consumerConnection -n {running.namesrv} -g {group}")[0]
            (client_id,) = re.findall(r"^(\S+@\S+)\s", listed, re.MULTILINE)
            more = ("-t", topic) if generation == "5.3" else ()
            server = ("-n", running.namesrv)
            home = os.path.join(self.home, generation)
            text = mqadmin(
                generation, home, "queryMsgById", *server, *more, "-i", one["offsetMsgId"], "-g", group, "-d", client_id
            )
            self.assertIn("consumeResult=CR_SUCCESS", text)
            consumer.wait_for("message", 2, 60)
            text = mqadmin(
                generation, home, "queryMsgByUniqueKey", *server, "-t", topic, "-i", one["msgId"], "-g", group,
                "-d", client_id,
            )  # fmt: skip
            self.assertIn("consumeResult=CR_SUCCESS", text)
            consumer.wait_for("message", 3, 60)
            text = mqadmin(
                generation, home, "queryMsgById", *server, *more, "-i", one["offsetMsgId"], "-g", group, "-d", "nobody"
            )
            self.assertIn(f"The Consumer <{group}> <nobody> not online", text)
            client.ask("push.stop", name=group)

    def test_consume_directly_by_ours(self) -> None:
        """A member in Java consumes a message once more for our command line, and for our REST API."""
        running = self.shared()
        where = {"namesrv": running.namesrv}
        ops = Ops(running.namesrv, self.home)
        self.addCleanup(ops.end)
        for generation in ("4.9", "5.3"):
            client = driver(generation)
            topic, group = self.name("direct"), self.name("directly")
            client.ask("topic", topic=topic, queues=1, address=running.broker.address, **where)
            (one,) = client.start("send", topic=topic, count=1, keys="d", **where).all_of("sent")
            consumer = client.start("push", name=group, group=group, topics={topic: "*"}, **where)
            consumer.wait_for("message", 1, 60)
            (member,) = ops.members(group)
            done = smartgo(
                "msg", "push", one["offsetMsgId"], "--group", group, "--client", member["clientId"], "--yes",
                "--registry", running.namesrv, "-o", "json", home=self.home,
            )  # fmt: skip
            self.assertEqual(json.loads(done.stdout)["consumeResult"], "CR_SUCCESS", done)
            consumer.wait_for("message", 2, 60)
            order = {"group": group, "clientId": member["clientId"]}
            for message_id in (one["offsetMsgId"], one["msgId"]):
                told = ops.ask("POST", f"/messages/{message_id}/consume?topic={topic}", order)
                self.assertEqual((told["result"], told["well"]), ("CR_SUCCESS", True), told)
            consumer.wait_for("message", 4, 60)
            self.assertEqual({event["msgId"] for event in consumer.of("message")}, {one["msgId"]})
            refused = ops.ask(
                "POST", f"/messages/{one['msgId']}/consume?topic={topic}", {**order, "clientId": "nobody"}
            )
            self.assertEqual(refused["code"], "client-not-found")
            done = smartgo(
                "msg", "push", one["offsetMsgId"], "--group", group, "--client", "nobody", "--yes",
                "--registry", running.namesrv, home=self.home,
            )  # fmt: skip
            self.assertIn(f"The Consumer <{group}> <nobody> not online", done.stderr)
            self.assertNotEqual(done.returncode, 0)
            client.ask("push.stop", name=group)

    def test_track(self) -> None:
        """What is told of a message says whether each group has consumed it."""
        running = self.shared()
        where = {"namesrv": running.namesrv}
        # the newer tool asks what a 4.9 broker does not know, and prints UNKNOWN
        for generation in ("4.9",) if running.peer is ROCKETMQ else ("4.9", "5.3"):
            client = driver(generation)
            topic, name = self.name("track"), self.name("tracking")
            client.ask("topic", topic=topic, queues=1, address=running.broker.address, **where)
            (one,) = client.start("send", topic=topic, count=1, tags=["TagA"], **where).all_of("sent")
            more = f" -t {topic}" if generation == "5.3" else ""
            command = f"queryMsgById -n {running.namesrv} -i {one['offsetMsgId']}{more}"
            for group, tags, kind in (
                (f"{name}-a", "TagA", "CONSUMED"),
                (f"{name}-b", "TagB", "CONSUMED_BUT_FILTERED"),
            ):
                consumer = client.start("push", name=group, group=group, topics={topic: tags}, **where)
                if kind == "CONSUMED":
                    consumer.wait_for("message", 1, 60)
                deadline = time.monotonic() + 90
                text = ""
                while f"consumerGroup={group}, trackType={kind}," not in text and time.monotonic() < deadline:
                    time.sleep(1)
                    text = client.mqadmin(command)[0]
                self.assertIn(f"consumerGroup={group}, trackType={kind},", text)
                client.ask("push.stop", name=group)


class KilledSearchTests(InteropCase):
    """kill -9 of the broker under load."""

    def test_kill(self) -> None:
        """Whenever the broker is killed, every acknowledged message is found afterwards, by its unique key, once."""
        cluster = self.cluster(settings={"maxIndexNum": "2000", "maxHashSlotNum": "500"})
        cluster.start()
        where = {"namesrv": cluster.namesrv}
        client = driver("4.9")
        client.ask("topic", topic="killed", queues=2, address=cluster.broker.address, **where)
        load = client.start(
            "load", name="killed", topic="killed", group="load", size=200, retries=0, timeoutMs=2000, **where
        )
        self.addCleanup(client.ask, "load.stop", name="killed")
        for count in (300, 2500, 1000):
            load.wait_for("acked", load.count("acked") + count, 60)
            cluster.broker.kill()
            cluster.start_broker()
        client.ask("load.stop", name="killed")
        load.result()
        acked = load.of("acked")
        rows = [["killed", one["msgId"]] for one in acked]
        call = client.start("search", rows=rows, unique=True, **where)
        found = [one["ids"] for one in call.all_of("found", 600)]
        self.assertEqual(call.of("missed"), [])
        self.assertEqual(found, [[one["offsetMsgId"]] for one in acked])
        self.assertGreater(len(os.listdir(os.path.join(cluster.broker.plan.store, "index"))), 1)
