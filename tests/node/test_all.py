"""Tests of L{smartgo.node.all}."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.config.loading import Surroundings, load
from smartgo.net.memorybudget import MemoryBudget
from smartgo.net.sweeper import Sweeper
from smartgo.node.all import assemble
from smartgo.node.assembly import NodeService, assemble_ops
from smartgo.node.options import AllOptions
from smartgo.node.process import process_sweeper
from smartgo.node.stalls import StallWatch
from tests.broker.fakecluster import SMALL
from tests.fakes import FakeEnvironment
from tests.remoting.doubles import settle


class StartedProcess:
    """Stands in for the process: nothing ends it."""

    def __init__(self) -> None:
        self.watched: list[Deferred[Any]] = []

    def watch(self, starting: Deferred[Any]) -> None:
        """Note a start that the process waits for."""
        self.watched.append(starting)

    def failed_store(self, reason: str) -> None:
        """Fail the test."""
        raise AssertionError(reason)


class SweeperTests(SynchronousTestCase):
    """Timers and memory budget of a process that is registry, broker and REST API at once."""

    def test_one(self) -> None:
        """Ports, connections between the parts, and the clients of the API share one sweeper and one memory budget."""
        made: list[object] = []
        for kind in (Sweeper, MemoryBudget):
            init: Any = kind.__init__

            def noting(self: object, *args: Any, init: Any = init, **more: Any) -> None:
                made.append(self)
                init(self, *args, **more)

            self.patch(kind, "__init__", noting)
        env = FakeEnvironment()
        around = Surroundings("testhost", "/home/test", lambda name: None)
        flags = {**SMALL, "storePathRootDir": "/store", "kvConfigPath": "/kv.json", "opsListen": "127.0.0.1:10913"}
        configuration = load(around, flags=flags)
        options, process, stalls = AllOptions(), StartedProcess(), StallWatch(env.clock, lambda seconds: None)
        sweeper = process_sweeper(env, configuration.limits)
        services: list[Any] = [*assemble(env, options, configuration, None, process, sweeper)]  # type: ignore[arg-type]
        services.append(assemble_ops(env, options, configuration, services, sweeper, stalls, process))  # type: ignore[arg-type]
        node = NodeService(env, configuration, lambda: 1000)
        for service in services:
            service.setServiceParent(node)
        node.startService()
        settle(env)
        for starting in process.watched:
            self.successResultOf(starting)
        self.assertEqual(len(process.watched), 3)
        asked = services[-1].view.brokers.get()
        settle(env)
        self.assertEqual([one.name for one in self.successResultOf(asked)], ["broker-a"])
        self.assertEqual(made, [sweeper.budget, sweeper])
        done = node.stopService()
        for _ in range(10):
            env.clock.advance(1)
            settle(env)
        self.successResultOf(done)
