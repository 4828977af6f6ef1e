"""The memory budget of a process, as its settings want it."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.loading import Surroundings, load
from smartgo.errors import SettingError
from smartgo.net.memorybudget import Kind
from smartgo.node.process import memory_budget
from tests.fakes import FakeEnvironment

MIB = 1 << 20


class MemoryBudgetTests(SynchronousTestCase):
    """C{memoryBudget}."""

    def limit(self, **flags: str) -> int:
        """The limit under these settings, with so much memory as C{self.memory}."""
        env = FakeEnvironment()
        env.host.memory = self.memory
        found = load(Surroundings("testhost", "/home/test", lambda _: None), flags=flags)
        return memory_budget(env, found.limits).limit

    memory = 64 << 30

    def test_default(self) -> None:
        """512 MiB, on a small machine a quarter of its memory, but never less than four frames."""
        self.assertEqual(self.limit(), 512 * MIB)
        self.memory = 1 << 30
        self.assertEqual(self.limit(), 256 * MIB)
        self.memory = 128 * MIB
        self.assertEqual(self.limit(), 64 * MIB)
        self.assertEqual(self.limit(frameMaxLength=str(256 * MIB)), 1024 * MIB)

    def test_given(self) -> None:
        """What is set counts; less than four frames is refused in a sentence."""
        self.assertEqual(self.limit(memoryBudget="100MiB"), 100 * MIB)
        with self.assertRaisesRegex(SettingError, "memoryBudget is 33554432 B, which is less than four frames"):
            self.limit(memoryBudget="32MiB")
        self.assertEqual(self.limit(memoryBudget="32MiB", frameMaxLength="8MiB"), 32 * MIB)

    def test_returns_memory(self) -> None:
        """What was given back in large pieces goes back to the system, in a thread."""
        env = FakeEnvironment()
        budget = memory_budget(env, load(Surroundings("testhost", "/home/test", lambda _: None)).limits)
        for _ in range(64):
            budget.take(Kind.UNFINISHED_FRAMES, MIB)
            budget.give(Kind.UNFINISHED_FRAMES, MIB)
        env.clock.advance(1)
        self.assertEqual(env.host.returned_memory, 1)
