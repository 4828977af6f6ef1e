"""The assignment of queues to members: the same as in Java's client."""

from __future__ import annotations

import json
import os
from unittest.mock import Mock

from twisted.trial.unittest import SynchronousTestCase

from smartgo.client.internal.rebalance import (
    STRATEGIES,
    AllocateByCircle,
    AllocateByConfig,
    AllocateByMachineRoom,
    AllocateConsistentHash,
    AllocateMachineRoomNearby,
    AllocateStrategy,
    sorted_ids,
    sorted_queues,
)
from smartgo.errors import SettingError
from smartgo.schema.bodies import MessageQueue

GOLDEN = os.path.join(os.path.dirname(__file__), "..", "..", "golden", "client", "rebalance.json")
VECTORS = os.path.join(os.path.dirname(__file__), "..", "..", "golden", "client", "strategies.json")


def strategy_of(words: list[str]) -> AllocateStrategy:
    """
    Return the strategy of a vector: its name, and after MACHINE_ROOM its rooms.

    In MACHINE_ROOM_NEARBY the room is the text before the first C{@} of broker names, and of client ids.
    """
    name = words[0]
    if name == "MACHINE_ROOM":
        return AllocateByMachineRoom(words[1:])
    if name.startswith("MACHINE_ROOM_NEARBY-"):
        inner = STRATEGIES[name.removeprefix("MACHINE_ROOM_NEARBY-")]
        return AllocateMachineRoomNearby(
            inner, lambda queue: queue.broker_name.partition("@")[0], lambda client_id: client_id.partition("@")[0]
        )
    return STRATEGIES[name]


class GoldenTests(SynchronousTestCase):
    def test_as_java(self) -> None:
        """Each strategy gives each member what the strategies of RocketMQ 4.9.7 gave it."""
        with open(GOLDEN, encoding="utf-8") as file:
            cases = json.load(file)
        self.assertGreater(len(cases), 90)
        for name, count, ids, client_id, expected in cases:
            queues = sorted(MessageQueue("TopicTest", ("broker-a", "broker-b")[at % 2], at // 2) for at in range(count))
            members = ids.split("|")
            self.assertEqual(sorted_ids(reversed(members)), members)
            found = STRATEGIES[name].allocate("group", client_id, queues, members)
            self.assertEqual([queues.index(one) for one in found], expected, f"{name} {count} {client_id}")

    def test_vectors(self) -> None:
        """Each strategy gives each member what those of RocketMQ 4.9.7 gave it, machine rooms included."""
        with open(VECTORS, encoding="utf-8") as file:
            cases = json.load(file)
        self.assertEqual(len({case["strategy"][0] for case in cases}), 7)
        for case in cases:
            strategy = strategy_of(case["strategy"])
            self.assertEqual(strategy.name, case["name"])
            queues = sorted_queues(MessageQueue("T", broker, int(number)) for broker, number in case["queues"])
            self.assertEqual(sorted_ids(case["members"]), case["members"])
            for member, expected in zip(case["members"], case["shares"], strict=True):
                found = strategy.allocate("g", member, queues, case["members"])
                self.assertEqual([f"{one.broker_name} {one.queue_id}" for one in found], expected, f"{case} {member}")


class StrategyTests(SynchronousTestCase):
    def test_whole(self) -> None:
        """Whatever the numbers, every queue has exactly one owner."""
        for strategy in STRATEGIES.values():
            for count in range(12):
                queues = [MessageQueue("T", "b", number) for number in range(count)]
                for size in range(1, 8):
                    members = [f"10.0.0.{number}@x" for number in range(size)]
                    given = [queue for one in members for queue in strategy.allocate("g", one, queues, members)]
                    self.assertEqual(sorted(given), queues, f"{strategy.name} {count} {size}")

    def test_stranger(self) -> None:
        """Who is not among the members gets nothing."""
        for strategy in STRATEGIES.values():
            self.assertEqual(strategy.allocate("g", "me", [MessageQueue("T", "b", 0)], ["you"]), [])

    def test_config(self) -> None:
        """Configured queues are read whoever else is there, each with its own topic."""
        mine = [MessageQueue("T", "b", 3), MessageQueue("U", "b", 1)]
        found = AllocateByConfig(mine).allocate("g", "me", [MessageQueue("T", "b", 0)], [])
        self.assertEqual(found, mine[:1])

    def test_no_room(self) -> None:
        """A broker or a member without a machine room is a mistake of the settings."""
        queues = [MessageQueue("T", "b", 0)]
        for broker, client in (("", "x"), ("x", "")):
            strategy = AllocateMachineRoomNearby(
                AllocateByCircle(), Mock(return_value=broker), Mock(return_value=client)
            )
            self.assertRaises(SettingError, strategy.allocate, "g", "me", queues, ["me"])
            self.assertEqual(strategy.allocate("g", "stranger", queues, ["me"]), [])
        self.assertEqual(AllocateByMachineRoom(["x"]).allocate("g", "stranger", queues, ["me"]), [])

    def test_ring(self) -> None:
        """A ring needs a place for each member."""
        self.assertRaises(ValueError, AllocateConsistentHash, 0)

    def test_order(self) -> None:
        """Ids are sorted by UTF-16 code units: one beyond the basic plane comes before the last of it."""
        self.assertEqual(sorted_ids(["\uffee", "\U0001f600", "a", "a"]), ["a", "\U0001f600", "\uffee"])
