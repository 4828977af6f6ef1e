"""The newest messages of a topic, of all its queues together."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.ops.resources.test_messages import MessageCase


class NewestTests(MessageCase):
    """Messages of many queues in the order of their storage."""

    def fill(self, seed: int, queues: int, count: int) -> list[tuple[int, int]]:
        """Store messages in queues by chance; return queue and offset of each, the newest first."""
        random, topic = Random(seed), f"T{seed}"
        self.order("POST", "/topics", {"name": topic, "readQueues": queues, "writeQueues": queues})
        placed: list[tuple[int, int]] = []
        ends = dict.fromkeys(range(queues), 0)
        for _ in range(count):
            queue = min(random.randrange(queues), random.randrange(queues))  # some have more than others
            self.cluster.send(topic, b"x", queue)
            self.cluster.pump(random.choice((0.0, 0.1)))  # several have the same time
            placed.append((queue, ends[queue]))
            ends[queue] += 1
        return placed[::-1]

    def newest(self, topic: str, count: int) -> list[Any]:
        """Ask for them."""
        found: list[Any] = self.get(f"/messages/newest?topic={topic}&count={count}")["items"]
        return found

    def test_order(self) -> None:
        """The newest come first, exactly these, however they lie in the queues."""
        for seed, queues, total in ((1, 1, 9), (2, 4, 60), (3, 16, 40), (4, 40, 30)):
            wanted = self.fill(seed, queues, total)
            for count in (1, 7, 32, 64):
                found = [(one["queueId"], one["queueOffset"]) for one in self.newest(f"T{seed}", count)]
                self.assertEqual(found, wanted[:count], (seed, count))

    def test_decoded(self) -> None:
        """Rows have tag, keys and the beginning of the body."""
        one = self.newest("Orders", 1)[0]
        self.assertEqual((one["tag"], one["keys"], one["preview"]), ("odd", ["order-3", "all"], '{"order": 3}'))

    def test_empty(self) -> None:
        """A topic without messages has none; one that does not exist is not found."""
        self.order("POST", "/topics", {"name": "Empty"})
        self.assertEqual(self.newest("Empty", 5), [])
        status, problem = self.order("GET", "/messages/newest?topic=Nowhere")
        self.assertEqual((status, problem["code"]), (404, "topic-not-found"))

    def test_unreadable(self) -> None:
        """Of a topic that may not be read the refusal is said."""
        self.order("PUT", "/topics/Orders", {"readQueues": 2, "writeQueues": 2, "perm": "write"})
        self.assertEqual(self.order("GET", "/messages/newest?topic=Orders")[0], 403)
