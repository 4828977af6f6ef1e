"""A registry, a broker and clients for test cases of trial, which leave a clean reactor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from smartgo.client.client import Client
from smartgo.env.real import RealEnvironment
from smartgo.testing.inprocess import InProcessBroker


class BrokerMixin:
    """
    A mixin for C{twisted.trial.unittest.TestCase} whose tests use a broker.

    A test, or C{setUp}, awaits L{start_broker}; what was started ends after the test, in its order, the threads too::

        class OrderTests(BrokerMixin, TestCase):
            async def test_order(self):
                broker = await self.start_broker()
                producer = Producer(self.make_client(), "orders")

    @cvar broker_settings: settings of the broker and the registry, by name, as in a configuration file.
    """

    broker_settings: ClassVar[Mapping[str, str]] = {}
    addCleanup: Callable[..., Any]

    _broker: InProcessBroker | None = None
    _env: RealEnvironment | None = None

    @property
    def env(self) -> RealEnvironment:
        """The environment of this test's reactor; made when it is first asked for, its threads end after the test."""
        if self._env is None:
            self._env = RealEnvironment(reactor)
            self.addCleanup(self._env.threads.stop)
        return self._env

    async def start_broker(self, **settings: str) -> InProcessBroker:
        """
        Start a broker of this test's own, and return it when clients can connect.

        @param settings: more settings, which override C{broker_settings}.
        @raise SmartgoError: it cannot start.
        """
        broker = self._broker = InProcessBroker(self.env, {**self.broker_settings, **settings})
        self.addCleanup(lambda: Deferred.fromCoroutine(broker.stop()))
        await broker.start()
        return broker

    def make_client(self, registries: str = "", **options: Any) -> Client:
        """
        Return a client of the broker that was started last; it ends after the test, before the broker.

        @param registries: of another cluster.
        @param options: as for L{Client}.
        @raise ValueError: no broker was started.
        """
        if not registries:
            if self._broker is None:
                raise ValueError("start a broker first: await self.start_broker()")
            registries = self._broker.registry
        client = Client(self.env, registries, **options)
        self.addCleanup(client.stop)
        return client
