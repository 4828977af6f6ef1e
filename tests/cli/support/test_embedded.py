"""Tests of L{smartgo.cli.support.embedded}: what a node in this process takes of the process."""

from __future__ import annotations

import signal

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.trial.unittest import TestCase

from smartgo.cli.support.embedded import EmbeddedNode, configuration_of
from smartgo.env.real import RealEnvironment


def catches(number: int) -> bool:
    """Tell whether this process has a handler for a signal, of whatever language."""
    with open("/proc/self/status", encoding="ascii") as file:
        caught = next(line for line in file if line.startswith("SigCgt:")).split()[1]
    return bool(int(caught, 16) >> (number - 1) & 1)


class EmbeddedNodeTests(TestCase):
    """One registry and one broker."""

    def test_refused_writes(self) -> Deferred[None]:
        """A disk that dies under a mapped page does not end the process while the node runs."""
        return Deferred.fromCoroutine(self.run_node())

    async def run_node(self) -> None:
        """Start and stop a node, and look at the handlers of signals."""
        env = RealEnvironment(reactor)
        root = env.files.temporary_directory("smartgo-test-")
        ports = [env.network.free_port() for _ in range(3)]
        flags = {
            "registry.listenPort": str(ports[0]),
            "broker.listenPort": str(ports[1]),
            "haListenPort": str(ports[2]),
            "fastPort": "false",
            "storePathRootDir": f"{root}/store",
            "kvConfigPath": f"{root}/kv.json",
            "mappedFileSizeCommitLog": "1MiB",
        }
        node = EmbeddedNode(env, configuration_of(env, flags), self.fail, fill_disk=True)
        before = catches(signal.SIGBUS)
        await node.start()
        self.assertTrue(catches(signal.SIGBUS))
        await node.stop()
        self.assertEqual(catches(signal.SIGBUS), before)
        await env.threads.stop()
        env.files.remove_tree(root)
