"""
The commands of mqadmin that L{tests.interop.test_mqadmin_sidebyside} does not run, against ours and the real broker:
those that look at messages and send some, those of access control, and those for parts of 5.x that no broker of 4.9
has. None is left out: L{CompleteTests} reads from the tools which commands there are.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import yaml

from tests.interop.case import Cluster, InteropCase
from tests.interop.driver import CommandFailed, Driver, rocketmq_home
from tests.interop.jars import GENERATIONS, java_command
from tests.interop.mqadmincommands import (
    COMPARED_APART,
    DIFFERENT,
    ENDLESS,
    FOREIGN,
    MESSAGES,
    RULES_CHANGED,
    USERS_CHANGED,
)
from tests.interop.peers import ROCKETMQ, SMARTGO, Peer
from tests.interop.peers5 import ROCKETMQ5, access_settings, unavailable5
from tests.interop.process import Process
from tests.interop.test_access import ADMIN, RULES
from tests.interop.test_mqadmin_sidebyside import (
    BILLING,
    LISTINGS,
    ORDERS,
    ORDERS_GIVEN,
    Side,
    both,
    lines_of,
    without_places,
)

_TOOLS: Final = "org.apache.rocketmq.tools.command.MQAdminStartup"


class Told(NamedTuple):
    """What a command printed, in lines that can be compared, and how it failed: its code, or why; empty if well."""

    lines: list[str]
    failure: str


def failure_of(errors: str) -> str:
    """Return the code that a command's errors have, or else the last cause; empty where there are none."""
    code = re.search(r"CODE: (\d+) ", errors)
    if code:
        return f"code {code[1]}"
    causes = re.findall(r"^(?:Caused by: )?[\w.$]+(?:Exception|Error): (.*)$", errors, re.MULTILINE)
    return causes[-1] if causes else ""


class Looked(Side):
    """A side whose commands may fail, and whose messages have ids of their own."""

    def __init__(self, cluster: Cluster, java: Driver, home: str) -> None:
        super().__init__(cluster, java)
        self._values = {"n": cluster.namesrv, "b": cluster.broker.address, "home": home, "topic": ""}
        os.makedirs(home, exist_ok=True)

    def find(self) -> None:
        """Find the ids of a message by its key, for commands that name a message."""
        told = self.java.mqadmin(
            f"queryMsgByKey -n {self.cluster.namesrv} -t orders -k k5",
            f"queryMsgByOffset -n {self.cluster.namesrv} -t orders -b broker-a -i 0 -o 5",
        )
        unique, at = (re.findall(r"\b[0-9A-F]{32}\b", text)[0] for text in told)
        topic = "-t orders" if self.java.generation == "5.3" else ""
        self._values |= {"unique": unique, "id": at, "nowhere": at[:-4] + "FFF0", "topic": topic}
        _remove_bodies(told[1])

    def tell(self, command: str) -> Told:
        """Run a command; what must differ between two sides is replaced in what it printed."""
        try:
            ((text, errors),) = self.java.mqadmin_with_errors(command.format_map(self._values))
        except CommandFailed as error:
            return Told([], str(error))
        _remove_bodies(text)
        for key, word in (("n", "NAMESRV"), ("b", "BROKER"), ("home", "HOME")):
            text = text.replace(self._values[key], word)
        for pattern, word in (
            (r"\b[0-9A-F]{32}\b", "ID"),
            (r"\brt=\d+ms", "rt=MS"),
            (r"(?m)\b(true|false)[ \t]+\d+[ \t]*$", r"\1 MS"),
            (r"\S+/plain_acl\.yml", "plain_acl.yml"),
            (r"PlainAccessConfig@[0-9a-f]+", "ACCOUNT"),
            (r"\b(alice|bob|carol)-secret\b", "null"),  # ours shows no passwords
            (r"(?m)^.*\b(an-admin|MessageTrack)\b.*$", ""),  # theirs: a user of its own; what needs 351 in 5.3
        ):
            text = re.sub(pattern, word, text)
        return Told(lines_of(without_places(text)), failure_of(errors))


def _remove_bodies(text: str) -> None:
    for path in re.findall(r"Message Body Path: +(\S+)", text):
        if os.path.exists(path):
            os.remove(path)


def names_of(*tables: Iterable[str]) -> set[str]:
    """Return the names of the commands of some tables."""
    return {command.split()[0] for table in tables for command in table}


class EveryCase(InteropCase):
    """Two clusters, and a JVM for each."""

    def sides(
        self, generation: str, peers: Sequence[Peer] = (SMARTGO, ROCKETMQ), key: tuple[str, str] | None = None
    ) -> list[Looked]:
        """Start a cluster of each; with a key both have access control, whose administrator asks."""
        home = self.home
        sides = []
        for peer in peers:
            own = f"{home}/{peer.name}"
            settings, registry = self._settings(peer, own) if key else ({}, {})
            cluster = Cluster(peer, own, settings, registry, key=key)
            self.addCleanup(cluster.end)
            java = Driver(generation, f"{home}/java-{peer.name}", key=key)
            self.addCleanup(java.process.kill)
            sides.append(Looked(cluster, java, f"{own}/exported"))
        both(sides, lambda side: side.cluster.start())
        return sides

    def _settings(self, peer: Peer, home: str) -> tuple[dict[str, str], dict[str, str]]:
        if peer is ROCKETMQ5:
            return {**access_settings(ADMIN)}, {}
        folder = os.path.join(rocketmq_home(home), "conf")
        with open(os.path.join(folder, "plain_acl.yml"), "w", encoding="utf-8") as file:
            file.write(RULES)
        if peer is ROCKETMQ:
            return {"aclEnable": "true"}, {}
        settings = {"aclEnable": "true", "aclPath": folder, "accessKey": ADMIN[0], "secretKey": ADMIN[1]}
        return settings, settings

    def compare(self, sides: Sequence[Looked], commands: Iterable[str]) -> None:
        """Fail unless all commands print the same of both, and end in the same way, but for L{DIFFERENT}."""
        generation = sides[0].java.generation
        for command in commands:
            ours, theirs = both(sides, lambda side, command=command: side.tell(command))  # type: ignore[misc]
            expected = DIFFERENT.get((generation, command))
            if expected is None:
                self.assertEqual(ours, theirs, command)
            else:
                self.assertEqual((ours.failure, theirs.failure), expected, command)


class MessageTests(EveryCase):
    """Commands about messages."""

    def _compare(self, generation: str) -> list[Looked]:
        sides = self.sides(generation)
        both(sides, Looked.fill)
        both(sides, Looked.find)
        self.compare(sides, MESSAGES)
        return sides

    def test_4_9(self) -> None:
        """Those of 4.9.7 print the same, and exportMetrics exports the same figures."""
        sides = self._compare("4.9")
        ours, theirs = (self._exported(side) for side in sides)
        self.assertEqual(theirs - ours, {"runtimeEnv.cpuNum"})  # of a thread pool that ours does not have
        self.assertEqual(ours - theirs, set())

    def _exported(self, side: Looked) -> set[str]:
        """Return the names of all figures of a file of exportMetrics."""
        with open(f"{os.path.dirname(side.cluster.broker.plan.store)}/exported/metrics.json", encoding="utf-8") as file:
            return set(_paths(json.load(file)))

    def test_5_3(self) -> None:
        """Those of 5.3.3 print the same."""
        self._compare("5.3")

    def test_foreign(self) -> None:
        """5.3.3's commands for parts of 5.x fail in the same way, but for some that ours answers."""
        sides = self.sides("5.3")
        both(sides, Looked.fill)
        for side in sides:
            folder = f"{os.path.dirname(side.cluster.broker.plan.store)}/exported"
            topic = {"topicName": "listed", "readQueueNums": 3, "writeQueueNums": 2, "perm": 6}
            for name, rows in (("topics", topic), ("groups", {"groupName": "listed", "retryMaxTimes": 5})):
                with open(f"{folder}/{name}.json", "w", encoding="utf-8") as file:
                    json.dump([rows], file)
        self.compare(sides, FOREIGN)


def _paths(value: Any, *names: str) -> Iterable[str]:
    if isinstance(value, dict):
        for name, one in value.items():
            yield from _paths(one, *names, name)
    else:
        yield ".".join(names[-2:])


class AccessTests(EveryCase):
    """Commands about access control, of administrators."""

    def test_rules(self) -> None:
        """Those of 4.9.7 about accounts, and about settings, end in the same way; both files hold the same rules."""
        sides = self.sides("4.9", key=ADMIN)
        self.compare(sides, RULES_CHANGED)
        ours, theirs = (self._rules(side) for side in sides)
        self.assertEqual(ours, theirs)
        self.assertEqual(
            [one["accessKey"] for one in ours["accounts"]],
            ["an-admin", "a-producer", "a-consumer", "alice-one", "alice-two"],
        )

    def _rules(self, side: Looked) -> dict[str, Any]:
        """Return the rules that a side has in its file."""
        home = os.path.dirname(side.cluster.broker.plan.store)
        with open(os.path.join(home, "rocketmq-home", "conf", "plain_acl.yml"), encoding="utf-8") as file:
            rules: dict[str, Any] = yaml.safe_load(file)
        rules.pop("dataVersion")
        return rules

    def test_users(self) -> None:
        """Those of 5.3.3 about users and policies print the same as of RocketMQ 5, but for passwords."""
        reason = unavailable5()
        if reason is not None:
            self.skipTest(f"the servers of RocketMQ 5 cannot run: {reason}")
        self.compare(self.sides("5.3", (SMARTGO, ROCKETMQ5), ADMIN), USERS_CHANGED)


class EndlessTests(EveryCase):
    """Commands that go on until they are killed."""

    def _rows(self, generation: str, side: Looked) -> set[str]:
        """Return the rows of clusterRT, without times, once there are three."""
        home = f"{self.home}/clusterRT"
        flags = [f"-Drocketmq.home.dir={rocketmq_home(home)}", f"-Duser.home={home}", f"-DlogRoot={home}"]
        java = [*java_command(*flags, "-cp", f"{GENERATIONS[generation].jars}/*"), _TOOLS]
        command = ["clusterRT", "-n", side.cluster.namesrv, "-a", "2", "-i", "1"]
        process = Process("clusterRT", [*java, *command], home, {"ROCKETMQ_HOME": rocketmq_home(home)})
        try:
            process.wait_until(lambda: process.tail.count("\nDefaultCluster") >= 3, 120, "three rounds of clusterRT")
            lines = without_places(process.tail).splitlines()
        finally:
            process.kill()
        return {line.strip() for line in lines if line.startswith(("#", "DefaultCluster"))}

    def _undone(self, generation: str, side: Looked) -> list[str]:
        """Return what startMonitoring, in a JVM of its own, logs in its first round of the connected group."""
        home = f"{self.home}/monitor"
        java = Driver(generation, home, options=["-Drocketmq.client.logLevel=INFO"])
        self.addCleanup(java.process.kill)
        java.mqadmin(f"topicList -n {side.cluster.namesrv}", f"startMonitoring -n {side.cluster.namesrv}")
        logs = ("logs/rocketmq_client.log", "logs/rocketmqlogs/tools_default.log")  # 4.9, 5.3

        def logged() -> str:
            found = (os.path.join(home, name) for name in logs)
            return "".join(_text(path) for path in found if os.path.exists(path))

        java.process.wait_until(lambda: "Execute one round monitor work" in logged(), 180, "a round", recheck=0.5)
        found = re.findall(rf"reportUndoneMsgs: (.*consumerGroup={BILLING}, .*)", logged())
        return sorted(re.sub(r"(undoneMsgsDelayTimeMills)=\d+", r"\1=MS", one) for one in found)

    def _compare(self, generation: str) -> None:
        sides = self.sides(generation)
        both(sides, Looked.fill)
        ours, theirs = both(sides, lambda side: self._rows(generation, side))
        self.assertEqual(ours, theirs)
        self.assertEqual({row.split()[0] for row in ours}, {"#Cluster", "DefaultCluster"})
        mine, other = both(sides, lambda side: self._undone(generation, side))
        self.assertEqual(other, mine if generation == "4.9" else [])  # 5.3 asks for 351 first
        self.assertIn(f"consumerGroup={BILLING}, topic={ORDERS}, undoneMsgsTotal=0, ", "".join(mine))

    def test_4_9(self) -> None:
        """clusterRT and startMonitoring of 4.9.7 say the same of both."""
        self._compare("4.9")

    def test_5_3(self) -> None:
        """clusterRT of 5.3.3 says the same of both; startMonitoring says nothing of a 4.9 broker."""
        self._compare("5.3")


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


class CompleteTests(InteropCase):
    """The list of commands that the tools have."""

    def _assert_all(self, generation: str, *tables: Iterable[str]) -> None:
        java = Driver(generation, self.home)
        self.addCleanup(java.process.kill)
        printed = java.mqadmin("")[0]
        there = set(re.findall(r"^ {3}(\w+) ", printed, re.MULTILINE))
        self.assertIn("topicList", there)
        self.assertEqual(there - names_of(LISTINGS, ORDERS_GIVEN, MESSAGES, *tables) - ENDLESS - COMPARED_APART, set())

    def test_4_9(self) -> None:
        """All commands of 4.9.7 are run."""
        self._assert_all("4.9", RULES_CHANGED)

    def test_5_3(self) -> None:
        """All commands of 5.3.3 are run."""
        self._assert_all("5.3", FOREIGN, USERS_CHANGED, RULES_CHANGED)
