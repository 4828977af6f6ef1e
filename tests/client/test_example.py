"""The examples of the manual run."""

from __future__ import annotations

import asyncio
import os
import runpy
import subprocess
import sys
from typing import Any

from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from smartgo.client.pullconsumer import PullConsumer
from tests.client.test_cluster import ClusterCase, coroutine

EXAMPLES = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs", "examples"
)


class ExampleTests(ClusterCase):
    def load(self, name: str) -> tuple[dict[str, Any], list[str]]:
        """Load an example; return its names, and the lines that it is going to print."""
        lines: list[str] = []
        said = {"print": lambda *words: lines.append(" ".join(map(str, words)))}
        return runpy.run_path(os.path.join(EXAMPLES, name), said, run_name="example"), lines

    @coroutine
    async def test_client(self) -> None:
        """The page's example sends ten messages and consumes all of them."""
        example, lines = self.load("client.py")
        await example["work"](self.reactor, self.node.registry)
        self.assertEqual(
            sorted(one for one in lines if one.startswith("consumed")), [f"consumed order {n}" for n in range(10)]
        )

    @coroutine
    async def test_asyncio(self) -> None:
        """The example for asyncio sends ten messages and consumes all of them."""
        example, lines = self.load("client_asyncio.py")
        await deferToThread(lambda: asyncio.run(example["work"](self.node.registry)))
        self.assertEqual(
            sorted(one for one in lines if one.startswith("consumed")), [f"consumed order {n}" for n in range(10)]
        )

    @coroutine
    async def test_logging(self) -> None:
        """The example of logging, as a program of its own, prints the failure of its listener through C{logging}."""
        command = [sys.executable, os.path.join(EXAMPLES, "client_logging.py"), self.node.registry]
        done = await deferToThread(
            subprocess.run,
            command,
            capture_output=True,
            text=True,
            timeout=60,
            cwd=os.path.dirname(os.path.dirname(EXAMPLES)),
        )
        lines = done.stderr.splitlines()
        self.assertTrue(lines[0].startswith("CRITICAL smartgo the listener failed for message "), done.stderr)
        self.assertEqual(lines[-2:], ["LookupError: no such order", "INFO example consumed"])
        self.assertEqual(done.stdout, "")

    @coroutine
    async def test_blocking(self) -> None:
        """The example that blocks sends ten messages and consumes all of them."""
        example, lines = self.load("client_blocking.py")
        await deferToThread(example["work"], self.node.registry)
        self.assertEqual(
            sorted(one for one in lines if one.startswith("consumed")), [f"consumed order {n}" for n in range(10)]
        )

    @coroutine
    async def test_hello(self) -> None:
        """The README's example sends one message, which is there to be read."""
        example, lines = self.load("hello.py")
        await deferToThread(lambda: asyncio.run(example["greet"](self.node.registry)))
        self.assertEqual([line.split()[0] for line in lines], ["sent"])

    @coroutine
    async def test_administration(self) -> None:
        """The example of administration finds no lag, all messages once the offsets are reset, and undoes that."""
        example, _ = self.load("client.py")
        await example["work"](self.reactor, self.node.registry)
        example, lines = self.load("administration.py")
        await example["administrate"](self.reactor, self.node.registry)
        self.assertEqual(lines, ["lag 0", "lag 10"])

    @coroutine
    async def test_tracing(self) -> None:
        """The example of tracing reads the traces of its own client: sent by one group, consumed by the other."""
        example, lines = self.load("tracing.py")
        await example["work"](self.reactor, self.node.registry)
        self.assertEqual(lines, ["produced by shop: stored", "consumed by billing: success"])

    @coroutine
    async def test_transactions(self) -> None:
        """The example of transactions takes one order and rolls back the other; there is one message."""
        example, lines = self.load("transactions.py")
        await example["work"](self.reactor, self.node.registry)
        self.assertEqual(lines, ["order of 7 apples: COMMIT", "order of -1 apples: ROLLBACK", "orders: 1"])
        puller = PullConsumer(self.client, "hand")

        async def count() -> int:
            return sum([await puller.max_offset(queue) for queue in await puller.queues("Orders")])

        while await count() < 1:  # the outcome is told without an answer
            await deferLater(self.reactor, 0.02, lambda: None)
        self.assertEqual(await count(), 1)

    @coroutine
    async def test_transactions_blocking(self) -> None:
        """The example of transactions that blocks takes one order and rolls back the other."""
        example, lines = self.load("transactions_blocking.py")
        await deferToThread(example["work"], self.node.registry)
        self.assertEqual(lines, ["order of 7 apples: COMMIT", "order of -1 apples: ROLLBACK", "orders: 1"])

    @coroutine
    async def test_request_reply(self) -> None:
        """The example of requests has an answer to each of its questions."""
        example, lines = self.load("request_reply.py")
        await example["work"](self.reactor, self.node.registry)
        self.assertEqual(lines, ["price of apples: 3", "price of pears: unknown"])

    @coroutine
    async def test_strategies(self) -> None:
        """The example of machine rooms consumes its message."""
        example, lines = self.load("strategies.py")
        await example["work"](self.reactor, self.node.registry)
        self.assertEqual(lines, ["consumed near by MACHINE_ROOM_NEARBY-AVG"])

    @coroutine
    async def test_lite_pull(self) -> None:
        """The example of the lite pull consumer polls ten messages, and reads them again after a seek."""
        example, lines = self.load("lite_pull.py")
        await example["work"](self.reactor, self.node.registry)
        self.assertEqual(lines, ["polled 10 messages", "first again: number 0"])

    @coroutine
    async def test_lite_pull_asyncio(self) -> None:
        """The example of the lite pull consumer on asyncio polls ten messages."""
        example, lines = self.load("lite_pull_asyncio.py")
        await deferToThread(lambda: asyncio.run(example["work"](self.node.registry)))
        self.assertEqual(lines, ["polled 10 messages"])
