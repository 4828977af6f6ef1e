"""The example of the manual runs."""

from __future__ import annotations

import os
import runpy

from tests.client.test_cluster import ClusterCase, coroutine

EXAMPLE = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs", "examples", "client.py"
)


class ExampleTests(ClusterCase):
    @coroutine
    async def test_runs(self) -> None:
        """It sends ten messages and consumes all of them."""
        lines: list[str] = []
        example = runpy.run_path(EXAMPLE, run_name="example")
        example["work"].__globals__["print"] = lambda *words: lines.append(" ".join(map(str, words)))
        await example["work"](self.reactor, self.node.registry)
        self.assertEqual(
            sorted(one for one in lines if one.startswith("consumed")), [f"consumed order {n}" for n in range(10)]
        )
