"""A node on real sockets in this process, for tests that need them."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from twisted.internet.defer import Deferred

from smartgo.cli.support.embedded import EmbeddedNode, configuration_of
from smartgo.env.real import RealEnvironment
from tests.ops import fixedpages  # noqa: F401  # makes them once

TOKEN = "live-token"


class Live:
    """
    A registry, a broker and their API.

    @ivar url: of the API's root.
    """

    def __init__(self, folder: str, **settings: str) -> None:
        """@param folder: where everything is kept."""
        from twisted.internet import reactor

        self.env = RealEnvironment(reactor)
        self.registry_port, broker, slaves, ops = (self.env.network.free_port() for _ in range(4))
        flags = {
            "storePathRootDir": os.path.join(folder, "store"),
            "kvConfigPath": os.path.join(folder, "kvConfig.json"),
            "mappedFileSizeCommitLog": "4194304",
            "maxHashSlotNum": "1000",
            "maxIndexNum": "4000",
            "brokerName": "broker-a",
            "broker.listenPort": str(broker),
            "haListenPort": str(slaves),
            "fastPort": "false",
            "registry.listenPort": str(self.registry_port),
            "opsListen": f"127.0.0.1:{ops}",
            "opsTokens": f"live:admin:{hashlib.sha256(TOKEN.encode()).hexdigest()}",
            "opsRequestsPerSecond": "100000",
            **settings,
        }
        self.node = EmbeddedNode(self.env, configuration_of(self.env, flags), lambda reason: None, serve_ops=True)
        self.port = ops
        self.url = f"{'https' if 'tls.server.certPath' in settings else 'http'}://127.0.0.1:{ops}"

    def start(self) -> Deferred[None]:
        """Start it."""
        return Deferred.fromCoroutine(self.node.start())

    def stop(self) -> Deferred[Any]:
        """Stop it."""
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        await self.node.stop()
        await self.env.threads.stop()
