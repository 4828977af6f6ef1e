"""Transactions, requests with replies, and SQL filters."""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from tests.interop.case import InteropCase, driver, ids, ids_of, texts
from tests.interop.driver import Call, CommandFailed
from tests.interop.jars import GENERATIONS, java_command
from tests.interop.peers import ROCKETMQ, SMARTGO, Peer
from tests.interop.test_ha import Pair


class TransactionTests(InteropCase):
    """Half messages and what becomes of them."""

    def _transactions(self, generation: str) -> None:
        where = {"namesrv": self.shared().namesrv}
        client = driver(generation)
        topic = self.name("tx")
        client.ask("topic", topic=topic, queues=1, address=self.shared().broker.address, **where)
        consumer = client.start("push", name=topic, group=topic, topics={topic: "*"}, **where)
        consumer.result()
        self.addCleanup(client.ask, "push.stop", name=topic)
        verdicts = ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW", "COMMIT_MESSAGE"]
        call = client.start("transaction", topic=topic, group=f"{topic}-producer", verdicts=verdicts, **where)
        sent = call.all_of("sent")
        self.assertEqual({event["status"] for event in sent}, {"SEND_OK"})
        consumer.wait_for("message", 3, 60)
        self.assertEqual(sorted(texts(consumer.of("message"))), [f"{topic}-{n}" for n in (0, 2, 3)])
        self.assertEqual({event["text"] for event in call.of("checked")}, {f"{topic}-2"})
        by_text = {event["text"]: event for event in consumer.of("message")}
        for event in sent:
            if event["verdict"] != "ROLLBACK_MESSAGE":
                self.assertEqual(by_text[f"{topic}-{event['n']}"]["sha256"], event["sha256"])

    def test_4_9(self) -> None:
        """Committed messages arrive, rolled back ones do not, undecided ones are asked for (4.9)."""
        self._transactions("4.9")

    def test_5_3(self) -> None:
        """Committed messages arrive, rolled back ones do not, undecided ones are asked for (5.3)."""
        self._transactions("5.3")


class SurvivingTests(InteropCase):
    """Transactions that are undecided when their broker is killed: the producer stays, and is asked by the next one."""

    settings: ClassVar[dict[str, str]] = {"transactionCheckInterval": "2000", "transactionTimeOut": "1000"}

    def _undecided(self, generation: str, namesrv: str, address: str) -> tuple[str, Call, Call]:
        """Send a committed, a rolled back and two undecided messages; return the topic, the calls of both clients."""
        where = {"namesrv": namesrv}
        client, topic = driver(generation), self.name("tx")
        client.ask("topic", topic=topic, queues=1, address=address, **where)
        consumer = client.start("push", name=topic, group=topic, topics={topic: "*"}, **where)
        consumer.result()
        self.addCleanup(client.ask, "push.stop", name=topic)
        verdicts = ["COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW", "UNKNOW"]
        call = client.start("transaction", topic=topic, group=f"{topic}-producer", verdicts=verdicts, **where)
        self.assertEqual({event["status"] for event in call.all_of("sent")}, {"SEND_OK"})
        return topic, call, consumer

    def _assert_committed(self, topic: str, call: Call, consumer: Call, timeout: float) -> None:
        """Fail unless what was undecided is asked for and arrives; what was rolled back never does."""
        consumer.wait(lambda: len(set(texts(consumer.of("message")))) >= 3, timeout, "three messages")
        self.assertEqual(sorted(set(texts(consumer.of("message")))), [f"{topic}-{n}" for n in (0, 2, 3)])
        self.assertEqual({event["text"] for event in call.of("checked")}, {f"{topic}-2", f"{topic}-3"})

    def _restart(self, generation: str) -> None:
        settings = {**self.settings, "transactionCheckInterval": "30000"}
        cluster = self.cluster(settings=settings)
        cluster.start()
        topic, call, consumer = self._undecided(generation, cluster.namesrv, cluster.broker.address)
        self.assertEqual(call.of("checked"), [])
        cluster.broker.kill()
        cluster.start_broker()
        self._assert_committed(topic, call, consumer, 180)

    def test_restart_4_9(self) -> None:
        """Killed before the first check-back, and started again, the broker asks for what is undecided (4.9)."""
        self._restart("4.9")

    def test_restart_5_3(self) -> None:
        """Killed before the first check-back, and started again, the broker asks for what is undecided (5.3)."""
        self._restart("5.3")

    def _failover(self, generation: str) -> None:
        pair = Pair(SMARTGO, SMARTGO, self.home)
        self.addCleanup(pair.end)
        self.addCleanup(self._forget, pair.namesrv)
        pair.master.plan = replace(
            pair.master.plan,
            settings={**pair.master.plan.settings, "brokerRole": "SYNC_MASTER", "transactionCheckInterval": "3600000"},
        )
        pair.start()
        pair.start_slave()
        topic, call, consumer = self._undecided(generation, pair.namesrv, pair.master.address)
        self.assertEqual(call.of("checked"), [])
        pair.master.kill()
        pair.slave.stop()
        promoted = replace(
            pair.slave.plan,
            settings={**pair.master.plan.settings, **self.settings, "brokerRole": "ASYNC_MASTER", "brokerId": "0"},
        )
        master = SMARTGO.broker(promoted)
        self.addCleanup(master.end)
        master.start()
        pair.registry.wait_registered(master)
        self._assert_committed(topic, call, consumer, 180)

    def test_failover_4_9(self) -> None:
        """With the master killed, and its slave started as the master, that one asks for what is undecided (4.9)."""
        self._failover("4.9")

    def test_failover_5_3(self) -> None:
        """With the master killed, and its slave started as the master, that one asks for what is undecided (5.3)."""
        self._failover("5.3")


class ResumeTests(InteropCase):
    """The request for it of the Java administration, to ours and to the real broker; mqadmin has no such command."""

    settings: ClassVar[dict[str, str]] = {
        "transactionCheckInterval": "1000",
        "transactionTimeOut": "6000",
        "transactionCheckMax": "2",
    }

    def _resumed(self, peer: Peer) -> bool:
        """Have a transaction given up, resume its check, and let a producer commit it; return the answer."""
        cluster = self.cluster(peer, settings=self.settings)
        cluster.start()
        where, client, topic = {"namesrv": cluster.namesrv}, driver("4.9"), self.name("tx")
        client.ask("topic", topic=topic, queues=1, address=cluster.broker.address, **where)
        group = f"{topic}-producer"
        (sent,) = client.start("transaction", topic=topic, group=group, verdicts=["UNKNOW"], **where).all_of("sent")
        client.ask("forget", **where)  # before the first check-back: nobody answers
        patience = time.monotonic() + 120
        status = f"topicStatus -n {cluster.namesrv} -t TRANS_CHECK_MAX_TIME_TOPIC"
        while not re.search(r"^broker-a +0 +0 +1 ", printed := client.mqadmin(status)[0], re.MULTILINE):
            self.assertLess(time.monotonic(), patience, printed)
        consumer = client.start("push", name=topic, group=topic, topics={topic: "*"}, **where)
        consumer.result()
        call = client.start("transaction", topic=topic, group=group, verdicts=["ROLLBACK_MESSAGE"], **where)
        call.all_of("sent")
        asked = {"what": "resumeCheck", "topic": "TRANS_CHECK_MAX_TIME_TOPIC", "message": sent["msgId"]}
        told: bool = client.ask("ask", **asked, **where)["answer"]
        consumer.wait_for("message", 1, 60)
        self.assertEqual(texts(consumer.of("message")), [f"{topic}-0"])
        self.assertEqual([event["msgId"] for event in call.of("checked")], [sent["msgId"]])
        return told

    def test_side_by_side(self) -> None:
        """Both put a message that was given up back, check it again and deliver it."""
        self.assertEqual([self._resumed(peer) for peer in (SMARTGO, ROCKETMQ)], [True, True])


class ExampleTests(InteropCase):
    """The program on the page on transactions."""

    def test_example(self) -> None:
        """The example commits its message, with the client of either generation."""
        source = Path(__file__).resolve().parents[2] / "docs" / "examples" / "TransactionExample.java"
        for name, generation in GENERATIONS.items():
            command = [*java_command("-cp", f"{generation.jars}/*"), str(source), self.shared().namesrv]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
            self.assertEqual(ran.returncode, 0, f"{name}: {ran.stderr}")
            self.assertIn("COMMIT_MESSAGE", ran.stdout.split(), name)


class RequestTests(InteropCase):
    """Request and reply; the synchronous request of 5.3.3 gives up by itself whatever the broker does."""

    def test_request(self) -> None:
        """A request is answered by the consumer that gets it, also when the two clients differ in generation."""
        where = {"namesrv": self.shared().namesrv}
        for generation in ("4.9", "5.3"):
            topic = self.name("rpc")
            driver("4.9").ask("topic", topic=topic, queues=1, address=self.shared().broker.address, **where)
            replier = driver(generation)
            consumer = replier.start("push", name=topic, group=topic, topics={topic: "*"}, reply=True, **where)
            consumer.result()
            self.addCleanup(replier.ask, "push.stop", name=topic)
            answer = driver("4.9").ask("request", topic=topic, **where)
            self.assertEqual(answer["text"], f"re: {topic}-0")

    def _asked_by_5_3(self, peer: Peer) -> str:
        """Return how a synchronous request of 5.3 fails although a member takes it and its broker has the reply."""
        cluster = self.cluster(peer)
        cluster.start()
        where, topic = {"namesrv": cluster.namesrv}, self.name("rpc")
        client = driver("5.3")
        client.ask("topic", topic=topic, queues=1, address=cluster.broker.address, **where)
        consumer = client.start("push", name=topic, group=topic, topics={topic: "*"}, reply=True, **where)
        consumer.result()
        self.addCleanup(client.ask, "push.stop", name=topic)
        error = str(self.assertRaises(CommandFailed, client.ask, "request", topic=topic, **where))
        consumer.wait_for("message", 1, 60)
        return error.partition("\n")[0].replace(topic, "TOPIC")

    def test_asked_by_5_3(self) -> None:
        """A synchronous request of 5.3.3 gives up long before its minute is over, at ours as at the real broker."""
        begin = time.monotonic()
        ours, theirs = (self._asked_by_5_3(peer) for peer in (SMARTGO, ROCKETMQ))
        self.assertLess(time.monotonic() - begin, 110)
        for error in (ours, theirs):
            self.assertIn("send request message to <TOPIC> OK, but wait reply message timeout, 60000 ms.", error)


class SqlTests(InteropCase):
    """SQL92 filters."""

    def _filtered(self, generation: str) -> None:
        where = {"namesrv": self.shared().namesrv}
        client = driver(generation)
        topic = self.name("sql")
        client.ask("topic", topic=topic, queues=2, address=self.shared().broker.address, **where)
        wanted = "colour = 'red' AND n BETWEEN 5 AND 7"
        consumer = client.start("push", name=topic, group=topic, topics={topic: wanted}, sql=True, **where)
        consumer.result()
        self.addCleanup(client.ask, "push.stop", name=topic)
        expected = set()
        for number in range(10):
            for colour in ("red", "blue"):
                properties = {"colour": colour, "n": str(number)}
                sent = client.start("send", topic=topic, first=number, properties=properties, **where).all_of("sent")
                if colour == "red" and 5 <= number <= 7:
                    expected |= ids_of(sent)
        consumer.wait(lambda: ids(consumer) >= expected, 60, "three messages")
        self.assertEqual(ids(consumer), expected)

    def test_4_9(self) -> None:
        """A consumer with an SQL filter has exactly the messages whose properties match (4.9)."""
        self._filtered("4.9")

    def test_5_3(self) -> None:
        """A consumer with an SQL filter has exactly the messages whose properties match (5.3)."""
        self._filtered("5.3")

    def _wrong(self, generation: str) -> None:
        where = {"namesrv": self.shared().namesrv}
        client = driver(generation)
        topic = self.name("sql-wrong")
        client.ask("topic", topic=topic, queues=1, address=self.shared().broker.address, **where)
        for number, (wrong, words) in enumerate(
            (
                ("n BETWEEN 7 AND 5", "left value(7) must less than or equal to right value(5)"),
                ("n > AND 5", 'Encountered " "AND" "AND "" at line 1, column 5.'),
            )
        ):
            name = f"{topic}-{number}"
            consumer = client.start("push", name=name, group=name, topics={topic: wrong}, sql=True, **where)
            error = str(self.assertRaises(CommandFailed, consumer.result))
            self.assertIn("CODE: 23", error)
            self.assertIn(words, error)

    def test_wrong_4_9(self) -> None:
        """A consumer with a wrong SQL filter does not start, and says what is wrong (4.9)."""
        self._wrong("4.9")

    def test_wrong_5_3(self) -> None:
        """A consumer with a wrong SQL filter does not start, and says what is wrong (5.3)."""
        self._wrong("5.3")

    def test_tags(self) -> None:
        """The filter of RocketMQ's own SqlFilterIT has the messages of two tags of three."""
        where = {"namesrv": self.shared().namesrv}
        client = driver("5.3")
        topic = self.name("sql-tags")
        client.ask("topic", topic=topic, queues=2, address=self.shared().broker.address, **where)
        wanted = "(TAGS is not null and TAGS in ('TagA', 'TagB'))"
        consumer = client.start("push", name=topic, group=topic, topics={topic: wanted}, sql=True, **where)
        consumer.result()
        self.addCleanup(client.ask, "push.stop", name=topic)
        expected = set()
        for tag in ("TagC", "TagA", "TagB"):
            sent = client.start("send", topic=topic, count=16, tags=[tag], **where).all_of("sent")
            self.assertEqual(len(sent), 16)
            if tag != "TagC":
                expected |= ids_of(sent)
        consumer.wait(lambda: ids(consumer) >= expected, 60, "the messages of two tags")
        self.assertEqual(ids(consumer), expected)
