"""
Every listing command of mqadmin, of either generation, against ours and against the real broker with the same content:
the same columns, the same facts.

What may differ is listed here, by command: addresses, times and rates everywhere, and what a 4.9 broker cannot answer.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from tests.interop.case import Cluster, InteropCase
from tests.interop.driver import Driver
from tests.interop.peers import ROCKETMQ, SMARTGO

T = TypeVar("T")
S = TypeVar("S", bound="Side")

ORDERS, EVENTS, LATER = "orders", "events", "later"
BILLING, AUDIT = "billing", "audit"
_FLUSHED = 60.0  # seconds
_PATIENCE = 240.0  # seconds; members say every 5 s how far they are

LISTINGS = (
    "topicList -n {n}",
    "topicList -n {n} -c",
    "topicClusterList -n {n} -t orders",
    "topicRoute -n {n} -t orders",
    "topicRoute -n {n} -t events -l",
    "topicStatus -n {n} -t orders",
    "topicStatus -n {n} -t nowhere",
    "allocateMQ -n {n} -t orders -i 192.0.2.1,192.0.2.2",
    "clusterList -n {n}",
    "clusterList -n {n} -m",
    "consumerProgress -n {n}",
    "consumerProgress -n {n} -g billing",
    "consumerProgress -n {n} -g audit",
    "consumerProgress -n {n} -g billing -s true",
    "consumerProgress -n {n} -g nobody",
    "consumerConnection -n {n} -g billing",
    "consumerConnection -n {n} -g nobody",
    "consumerStatus -n {n} -g billing",
    "producerConnection -n {n} -g interop-producer -t orders",
    "producerConnection -n {n} -g nobody -t orders",
    "producer -n {n} -b {b}",
    "brokerConsumeStats -n {n} -b {b}",
    "statsAll -n {n}",
    "statsAll -n {n} -a -t orders",
    "getConsumerConfig -n {n} -g billing",
    "queryCq -n {n} -b {b} -t orders -q 0 -i 1 -c 3",
    "queryCq -n {n} -b {b} -t orders -q 0 -i 1 -c 3 -g billing",
    "queryCq -n {n} -b {b} -t orders -q 0 -i 1 -c 3 -g nobody",
    "queryCq -n {n} -b {b} -t orders -q 7 -i 0 -c 1",
    "updateOrderConf -n {n} -t events -m get",
    "exportConfigs -n {n} -c DefaultCluster -f {home}",
    "exportMetadata -n {n} -c DefaultCluster -t -f {home}",
    "exportMetadata -n {n} -c DefaultCluster -g -f {home}",
)
"""What shows something and changes nothing. brokerConsumeStats runs once in a JVM: it never starts its client anew."""

ORDERS_GIVEN = (
    "cleanExpiredCQ -n {n} -b {b}",
    "deleteExpiredCommitLog -n {n} -b {b}",
    "cleanUnusedTopic -n {n} -b {b}",
    "cloneGroupOffset -n {n} -s audit -d copied -t orders",
    "resetOffsetByTime -n {n} -g billing -t orders -s 1 -f true",
    "resetOffsetByTime -n {n} -g audit -t orders -s 1",
    "skipAccumulatedMessage -n {n} -g audit -t orders",
    "deleteSubGroup -n {n} -b {b} -g copied",
    "updateSubGroup -n {n} -b {b} -g fresh",
    "getConsumerConfig -n {n} -g fresh",
    "updateKvConfig -n {n} -s ns -k key -v value",
    "deleteKvConfig -n {n} -s ns -k key",
    "updateOrderConf -n {n} -t events -m put -v broker-a:2",
    "updateOrderConf -n {n} -t events -m get",
    "updateOrderConf -n {n} -t events -m delete",
    "updateTopicPerm -n {n} -t events -b {b} -p 4",
    "wipeWritePerm -n {n} -b broker-a",
    "addWritePerm -n {n} -b broker-a",
    "deleteTopic -n {n} -c DefaultCluster -t events",
)
"""What changes something, run after the listings."""

STATISTICS = {
    ("TOPIC_PUT_NUMS", ORDERS): 18,
    ("GROUP_GET_NUMS", f"{ORDERS}@{AUDIT}"): 12,
    ("BROKER_PUT_NUMS", "DefaultCluster"): 23,
}
"""
Statistics items, and the messages of a day. Both have them; a 4.9 broker knows the sum of an hour after ten minutes and
of a day after an hour, so that theirs cannot be compared here.
"""

DAY_COUNTS = {
    f"{ORDERS} {AUDIT} 6 RATE RATE": ["18", "12"],
    f"{ORDERS} {BILLING} 0 RATE RATE": ["18", "18"],
    f"{EVENTS} {AUDIT} 0 RATE RATE": ["4", "4"],
    "SCHEDULE_TOPIC_XXXX 0 RATE NO_CONSUMER": ["1"],
}
"""The messages of a day that statsAll prints, by the rest of their rows; no other row has any."""

NEEDS_351 = frozenset({"topicStatus", "consumerProgress", "cloneGroupOffset", "statsAll"})
"""Commands of 5.3 that ask for one topic's settings (351), which no 4.9 broker knows: there they fail or show zeros."""

QUEUES = ["broker-a 0 0 18", "broker-a 1 0 0", "broker-a 2 0 0"]
"""Bounds of the first topic, to which all is sent in order."""

ONLY_OURS = frozenset({"DEFAULT_TOPIC"})
ONLY_THEIRS = frozenset({"RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"})
"""Built-in topics: our second template; theirs comes with the first look for transactions."""

RUNTIME_SAME = (
    "commitLogMaxOffset", "commitLogMinOffset", "msgGetTotalTodayMorning", "msgGetTotalTodayNow",
    "msgPutTotalTodayMorning", "msgPutTotalTodayNow", "putMessageAverageSize", "putMessageFailedTimes",
    "putMessageSizeTotal", "putMessageTimesTotal", "dispatchBehindBytes", "remainHowManyDataToFlush",
    "remainTransientStoreBufferNumbs", "sendThreadPoolQueueCapacity", "pullThreadPoolQueueCapacity",
    "queryThreadPoolQueueCapacity", "EndTransactionThreadPoolQueueCapacity", "sendThreadPoolQueueSize",
    "startAcceptSendRequestTimeStamp",
)  # fmt: skip
"""Runtime information that must be equal, not only there."""

WITHOUT_MEANING = re.compile(
    r"ThreadPool|PoolQueue|ThreadNums|Threads$|PoolNums|Socket|Semaphore|writeBuffer|commercial|useEpoll|Async|[Bb]itMap"
    r"|commitCommitLog|commitIntervalCommitLog|transientStorePool|WarmMapedFile|warmMapedFile|[Qq]ueueExt|Bloom|Lmq"
    r"|LeastPages|ThoroughInterval|DLeger|Dispatch|FilesInterval|FileInterval|filterDataClean|debugLock|diskFall"
    r"|duplication|expectConsumer|fastFail|AddressServer|CommitLogTimed|HistoryInterval|flushIntervalConsumeQueue"
    r"|highSpeed|isEnableBatchPush|isolateLog|maxDelayTime|messageIndexSafe|messageStorePlugIn|osPageCache"
    r"|putMsgIndexHightWater|ScheduleMessageStats|serverChannelMaxIdle|transferMsgByHeap|useReentrantLock"
    r"|adminBroker|autoDeleteUnusedStats|channelNotActive|cleanResource|clientChannel|clientClose|clientPooled"
    r"|connectTimeout|enableDetailStat|serverPooled"
)
"""Settings of RocketMQ that stand for parts which ours does not have."""

OTHER_DEFAULTS = {"flushDelayOffsetInterval": ("1000", "10000")}
"""Settings whose default is another on purpose, with ours and theirs: docs/decisions/delivered-again."""


class Side:
    """One of the two clusters, with its content, and one JVM that asks it."""

    def __init__(self, cluster: Cluster, java: Driver) -> None:
        self.cluster = cluster
        self.java = java
        self._where = {"namesrv": cluster.namesrv}

    def fill(self) -> None:
        """
        Bring about topics, messages, a connected group that has read all, and an absent one that has not.

        Messages are sent in order, so that both sides have the same ones in the same places.
        """
        ask, start, where = self.java.ask, self.java.start, self._where
        address = self.cluster.broker.address
        for topic, queues in ((ORDERS, 3), (EVENTS, 2), (LATER, 1)):
            ask("topic", topic=topic, queues=queues, address=address, **where)
        self._send(ORDERS, 12, keys="k", tags=["A", "B"])
        self._send(EVENTS, 4)
        self._send(LATER, 1, delayLevel=18)
        topics = {BILLING: {ORDERS: "*"}, AUDIT: {ORDERS: "A || B", EVENTS: "*"}}
        for group, wanted in topics.items():
            consumer = start("push", name=f"{group}-{address}", group=group, topics=wanted, fromFirst=True, **where)
            consumer.result()
            consumer.wait_for("message", 12 + 4 * (group == AUDIT), 60)
        assert self._has_read_all(AUDIT)[0]  # a consumer that is stopped at work commits less
        ask("push.stop", name=f"{AUDIT}-{address}")
        self._send(ORDERS, 6, keys="m", tags=["A"])
        consumer.wait_for("message", 12, 60)

    def _send(self, topic: str, count: int, **more: Any) -> None:
        self.java.start("send", topic=topic, count=count, how="ordered", **more, **self._where).all_of("sent")

    def settle(self, case: InteropCase) -> None:
        """Wait until the connected group has said that it has read all, as consumers do every 5 s."""
        done, shown = self._has_read_all(BILLING)
        if not done:
            case.fail(f"{self.cluster.peer.name}: not all is read and told:\n{shown}")

    def _has_read_all(self, group: str) -> tuple[bool, str]:
        """Wait until a group has committed all; return whether it did in time, and what mqadmin shows."""
        shown = ""
        patience = time.monotonic() + _PATIENCE
        while time.monotonic() < patience:
            shown = self.java.mqadmin(f"consumerProgress -n {self.cluster.namesrv}")[0]
            if any(line.split()[:1] == [group] and line.split()[-1] == "0" for line in shown.splitlines()):
                return True, shown
        return False, shown

    def ask(self, what: str, **more: Any) -> Any:
        """Ask by the tools' library."""
        address = self.cluster.broker.address
        return self.java.ask("ask", what=what, address=address, **more, **self._where)["answer"]

    def run(self, command: str, home: str) -> str:
        """Run one command and return what it printed, without what must differ."""
        cluster = self.cluster
        text = self.java.mqadmin(command.format(n=cluster.namesrv, b=cluster.broker.address, home=home))[0]
        return without_places(text.replace(cluster.namesrv, "NAMESRV").replace(cluster.broker.address, "BROKER"))


def both(sides: Sequence[S], call: Callable[[S], T]) -> tuple[T, T]:
    """Call something for both sides at once, as most commands of 5.3 wait for three seconds; return both results."""
    with ThreadPoolExecutor(2) as threads:
        ours, theirs = threads.map(call, sides)
    return ours, theirs


def without_places(text: str) -> str:
    """Replace addresses, ids of clients, versions of servers, times and rates by words."""
    for pattern, word in (
        (r"[ \t]+", " "),
        (r"\S+@(push|producer)\d+-\d+", "CLIENT"),
        (r"/?127\.0\.0\.1:\d+", "PEER"),
        (r"V4_9_\d", "VERSION"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d+)?", "TIME"),
        (r"\b\d{13}\b", "MS"),
        (r"\b\d+\.\d+\b", "RATE"),
        (r"(?m)^(.* RATE RATE) (true|false)\s*$", r"\1 ACTIVATED"),  # a 4.9 broker says neither, which counts as no
        (r"eval=\w+", "EVAL"),  # theirs says false of every unit where the filter is by tags
        (r"(?m)^(.*(?:OFFLINE|CLUSTERING)\s+)\d+(\s+\d+\s*)$", r"\1RATE\2"),
    ):
        text = re.sub(pattern, word, text)
    return text


def lines_of(text: str) -> list[str]:
    """
    The lines in an order that does not depend on hash tables, without what only one side has.

    A row of an empty retry queue is there once the consumer has said so, at a time of its own; so is what every client
    has for itself, the group CLIENT_INNER_PRODUCER.
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    passing = re.compile(r"%RETRY%\S+ broker-a 0 0 0 (\S+ )?0 |producer group \(CLIENT_INNER_PRODUCER\)")
    kept = (line for line in lines if not passing.match(line))
    return sorted(line for line in kept if not {*line.split()} & (ONLY_OURS | ONLY_THEIRS))


def day_counts(line: str) -> tuple[str, list[str]]:
    """Split a row of statsAll: what precedes and follows its messages of a day, and those."""
    begin, rate, counts = line.rpartition("RATE ")
    words = counts.split()
    rest = [word for word in words if not word.isdecimal()]
    return " ".join([begin + rate.strip(), *rest]), [word for word in words if word.isdecimal()] if rate else []


def pairs(text: str) -> dict[str, str]:
    """The C{name : value} or C{name = value} lines of a text."""
    return {found[1].strip(): found[2].strip() for found in re.finditer(r"^(\S+?) *[=:] +(.*)$", text, re.MULTILINE)}


def _shape(span: dict[str, Any]) -> tuple[Any, ...]:
    """One queue's ages, as far as they must be equal: which of them are known."""
    times = (span[name] for name in ("minTimeStamp", "maxTimeStamp", "consumeTimeStamp", "delayTime"))
    return (span["messageQueue"]["queueId"], *((time > 0) - (time < 0) for time in times))


class SideBySideTests(InteropCase):
    """One test a generation of the tools; each starts both clusters once."""

    def _sides(self, generation: str) -> list[Side]:
        home = self.home
        sides = []
        for peer in (SMARTGO, ROCKETMQ):
            cluster = Cluster(peer, f"{home}/{peer.name}")
            self.addCleanup(cluster.end)
            java = Driver(generation, f"{home}/java-{peer.name}")
            self.addCleanup(java.process.kill)
            sides.append(Side(cluster, java))
        both(sides, lambda side: side.cluster.start())
        both(sides, Side.fill)
        both(sides, lambda side: side.settle(self))
        return sides

    def _compare(self, generation: str) -> None:
        sides = self._sides(generation)
        home = self.home
        self._compare_printed(sides, generation, home, LISTINGS)
        # before anything changes: a member that is told to go back reads again ten seconds later
        self._compare_exports(home)
        self._compare_asked(sides)
        self._compare_runtime(sides)
        self._compare_settings(sides)
        self._compare_printed(sides, generation, home, ORDERS_GIVEN)

    def _compare_printed(self, sides: list[Side], generation: str, home: str, commands: Sequence[str]) -> None:
        """Commands print the same, but for what must differ."""
        for command in commands:

            def printed(side: Side, command: str = command) -> str:
                return side.run(command, f"{home}/{side.cluster.peer.name}")

            ours, theirs = both(sides, printed)
            ours, theirs = (re.sub(rf"{re.escape(home)}/\w+", "HOME", text) for text in (ours, theirs))
            if generation == "5.3" and command.split()[0] in NEEDS_351:
                self._check_more_than(command, ours, theirs)
            elif command.startswith("statsAll"):
                self._check_statistics(command, ours, theirs)
            else:
                self.assertEqual(lines_of(ours), lines_of(theirs), command)

    def _check_statistics(self, command: str, ours: str, theirs: str) -> None:
        """
        The same rows; ours has the exact messages of a day.

        A 4.9 broker that runs for less than ten minutes knows those of its last minute, from samples every 10 s: how
        many of them it counts depends on when it is asked. It never counts more than there were.
        """
        counted = [day_counts(line) for line in lines_of(ours)]
        known = {row: counts for row, counts in counted if any(map(int, counts))}
        expected = {row: counts for row, counts in DAY_COUNTS.items() if " -t " not in command or ORDERS in row}
        self.assertEqual(known, expected, command)
        other = [day_counts(line) for line in lines_of(theirs)]
        self.assertEqual([row for row, _ in counted], [row for row, _ in other], command)
        for (row, counts), (_, fewer) in zip(counted, other, strict=True):
            self.assertEqual(len(counts), len(fewer), row)
            self.assertTrue(all(int(one) <= int(all_) for one, all_ in zip(fewer, counts, strict=True)), (row, fewer))

    def _check_more_than(self, command: str, ours: str, theirs: str) -> None:
        """Where their 4.9 broker fails a tool of 5.3, ours answers; what is printed all the same has our columns."""
        if "nowhere" in command or "nobody" in command:
            self.assertEqual((ours, theirs), ("", ""))
            return
        self.assertNotEqual(ours, "", command)
        headers = [line for line in theirs.splitlines() if line.startswith("#")]
        self.assertEqual(headers, [line for line in ours.splitlines() if line.startswith("#")][: len(headers)], command)
        if command == "topicStatus -n {n} -t orders":
            self.assertEqual(re.findall(r"^broker-a \d \d+ \d+", ours, re.MULTILINE), QUEUES)
        elif command == "consumerProgress -n {n} -g audit":
            self.assertIn("Consume Diff Total: 6", ours)
            self.assertIn("Consume Inflight Total: 0", ours)
        elif command == "statsAll -n {n} -a -t orders":
            self.assertIn("orders audit 6 RATE RATE 18 12", ours)

    def _compare_exports(self, home: str) -> None:
        """exportConfigs and exportMetadata write the same files."""
        for name in ("configs.json", "topic.json", "subscriptionGroup.json"):
            found = []
            for peer in (SMARTGO, ROCKETMQ):
                with open(f"{home}/{peer.name}/{name}", encoding="utf-8") as file:
                    found.append(json.load(file))
                found[-1].pop("exportTime", None)
            self.assertEqual(found[0], found[1], name)

    def _compare_asked(self, sides: list[Side]) -> None:
        """What the tools' library asks and no command shows: members' offsets, ages of messages, statistics."""
        ours, theirs = (side.ask("status", topic=ORDERS, group=BILLING) for side in sides)
        self.assertEqual([next(iter(members.values())).keys() for members in (ours, theirs)], [{"0", "1", "2"}] * 2)
        ours, theirs = (sorted(map(_shape, side.ask("timeSpan", topic=ORDERS, group=AUDIT))) for side in sides)
        self.assertEqual(ours, theirs)
        for (name, key), total in STATISTICS.items():
            ours, theirs = (side.ask("statistics", name=name, key=key) for side in sides)
            self.assertEqual(ours["statsDay"]["sum"], total, (name, key))
            self.assertEqual(ours.keys(), theirs.keys())

    @staticmethod
    def _flushed_status(side: Side) -> dict[str, str]:
        """Return a broker's runtime information once all is flushed: RocketMQ leaves less than 16 KiB for 10 s."""
        patience = time.monotonic() + _FLUSHED
        while True:
            found = pairs(side.run("brokerStatus -n {n} -b {b}", ""))
            if found["remainHowManyDataToFlush"] == "0 B" or time.monotonic() > patience:
                return found

    def _compare_runtime(self, sides: list[Side]) -> None:
        """brokerStatus: every key of theirs is there, and the figures that both must have are equal."""
        ours, theirs = (self._flushed_status(side) for side in sides)
        missing = {key for key in theirs if key not in ours and not key.startswith("commitLogDiskRatio_")}
        self.assertEqual(missing, set())
        for key in RUNTIME_SAME:
            self.assertEqual(ours.get(key), theirs.get(key), key)
        raw = [side.java.mqadmin(f"brokerStatus -n {side.cluster.namesrv} -b {side.cluster.broker.address}")[0]
               for side in sides]  # fmt: skip
        for key in ("commitLogDiskRatio", "consumeQueueDiskRatio"):
            mine, other = (float(pairs(text)[key]) for text in raw)
            self.assertLess(abs(mine - other), 0.02, f"{key}: {mine}, theirs {other}")  # theirs is rounded up
        for key in ("putTps", "getTransferedTps", "getFoundTps", "getMissTps", "getTotalTps"):
            self.assertRegex(pairs(raw[0])[key], r"^\d+\.\d+ \d+\.\d+ \d+\.\d+$", key)

    def _compare_settings(self, sides: list[Side]) -> None:
        """getBrokerConfig and getNamesrvConfig: what both have is equal; what ours lacks has no meaning here."""
        for command in "getBrokerConfig -n {n} -b {b}", "getNamesrvConfig -n {n}":
            ours, theirs = (pairs(side.run(command, "")) for side in sides)
            for key in theirs.keys() & ours.keys():
                if key in OTHER_DEFAULTS:
                    self.assertEqual((ours[key], theirs[key]), OTHER_DEFAULTS[key], key)
                elif "Path" not in key and key not in ("rocketmqHome", "listenPort", "haListenPort"):
                    self.assertEqual(ours[key], theirs[key], key)
            lacking = {key for key in theirs.keys() - ours.keys() if not WITHOUT_MEANING.search(key)}
            self.assertLessEqual(lacking, {"clusterTest", "configStorePath", "productEnvName", "rocketmqHome"})

    def test_4_9(self) -> None:
        """Every listing and changing command of 4.9.7 prints the same of ours as of the real broker."""
        self._compare("4.9")

    def test_5_3(self) -> None:
        """So does every one of 5.3.3; where the real 4.9 broker fails them for want of 351, ours answers."""
        self._compare("5.3")
