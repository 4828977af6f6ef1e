"""The strategies that share out queues, beside those of the official clients over random groups."""

from __future__ import annotations

import json
import random
from typing import Any

from smartgo.client.internal.rebalance import sorted_ids, sorted_queues
from smartgo.schema.bodies import MessageQueue
from tests.client.internal.test_rebalance import VECTORS, strategy_of
from tests.interop.case import InteropCase, driver

NAMES = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "MACHINE_ROOM")
ROUNDS = 40


def random_case(chance: random.Random, name: str) -> dict[str, Any]:
    """Return a strategy, queues and members; rooms, broker names and ids with characters of all kinds."""
    rooms = chance.sample(["east", "west", "Süd", "北", "\U0001f600", "\uffee"], chance.randint(1, 4))
    brokers = [f"{chance.choice(rooms)}@broker-{number}" for number in range(chance.randint(1, 4))]
    if not name.startswith("MACHINE_ROOM_NEARBY"):
        brokers += chance.sample(["broker-a", "east@", "@x", "a@b@c", "west@@"], chance.randint(0, 3))
    queues = [[broker, str(number)] for broker in brokers for number in range(chance.randint(1, 9))]
    members = [f"{chance.choice(rooms)}@{chance.randint(1, 99)}#{at}" for at in range(chance.randint(1, 12))]
    words = [name, *chance.sample(rooms, chance.randint(1, len(rooms)))] if name == "MACHINE_ROOM" else [name]
    return {"strategy": words, "queues": queues, "members": members}


class StrategyTests(InteropCase):
    def _as(self, generation: str) -> None:
        java = driver(generation)
        chance = random.Random(16)
        for name in (*NAMES, *(f"MACHINE_ROOM_NEARBY-{inner}" for inner in NAMES[:3])):
            for _ in range(ROUNDS):
                case = random_case(chance, name)
                answer = java.ask("allocate", **case)
                strategy = strategy_of(case["strategy"])
                self.assertEqual(strategy.name, answer["name"])
                members = sorted_ids(case["members"])
                self.assertEqual(members, answer["members"])
                queues = sorted_queues(MessageQueue("T", broker, int(number)) for broker, number in case["queues"])
                shares = [
                    [f"{one.broker_name} {one.queue_id}" for one in strategy.allocate("g", member, queues, members)]
                    for member in members
                ]
                self.assertEqual(shares, answer["shares"], case)

    def test_4_9(self) -> None:
        """In random groups every member gets the queues that RocketMQ 4.9.7 gives it, in the same order."""
        self._as("4.9")

    def test_5_3(self) -> None:
        """In random groups every member gets the queues that RocketMQ 5.3.3 gives it, in the same order."""
        self._as("5.3")

    def test_vectors(self) -> None:
        """The vectors of the unit tests are what 4.9.7 answers."""
        with open(VECTORS, encoding="utf-8") as file:
            cases = json.load(file)
        for case in cases:
            asked = {part: case[part] for part in ("strategy", "queues", "members")}
            answer = driver("4.9").ask("allocate", **asked)
            self.assertEqual((answer["name"], answer["shares"]), (case["name"], case["shares"]))
