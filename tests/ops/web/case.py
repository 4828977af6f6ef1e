"""A front with routes for tests of the framework."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from smartgo.ops.web.routes import PUBLISH_LIMIT, RouteCall, route
from tests.ops.front import Front


class Echo(msgspec.Struct, forbid_unknown_fields=True):
    """A body."""

    number: int
    text: str = ""


class HeldPath(msgspec.Struct):
    """A name in a path."""

    name: str


class Slow:
    """Routes for these tests alone."""

    def __init__(self) -> None:
        self.waiting: list[Deferred[dict[str, int]]] = []
        self.hold: Callable[[], object] = lambda: None

    @route("GET", "/slow", scope=None, answer=dict[str, int], remote=False)
    def slow(self, call: RouteCall[None, None, None]) -> Deferred[dict[str, int]]:
        """Wait for the test."""
        waiter: Deferred[dict[str, int]] = Deferred()
        self.waiting.append(waiter)
        return waiter

    @route("GET", "/held/{name}", scope=None, path_type=HeldPath, answer=dict[str, int], remote=False)
    async def held(self, call: RouteCall[HeldPath, None, None]) -> dict[str, int]:
        """Hold the reactor up, wait for the test, and hold it up again."""
        self.hold()
        answer = await self.slow(call)  # type: ignore[arg-type]
        self.hold()
        return answer

    @route("POST", "/slow", scope=None, answer=dict[str, int], remote=False)
    def change(self, call: RouteCall[None, None, None]) -> Deferred[dict[str, int]]:
        """Wait for the test."""
        return self.slow(call)

    @route("GET", "/broken", scope=None, answer=dict[str, int], remote=False)
    def broken(self, call: RouteCall[None, None, None]) -> dict[str, int]:
        """Fail."""
        raise RuntimeError("/etc/secret of version 7")

    @route("POST", "/echo", scope=None, body=Echo, answer=Echo, remote=False)
    def echo(self, call: RouteCall[None, None, Echo]) -> Echo:
        """Return the body."""
        return call.body

    @route("POST", "/long", scope=None, body=dict[str, str], remote=False, body_limit=PUBLISH_LIMIT)
    def long(self, call: RouteCall[None, None, dict[str, str]]) -> None:
        """Take a long body."""


class FrontCase(SynchronousTestCase):
    """A front with routes for these tests."""

    def setUp(self) -> None:
        self.slow = Slow()
        self.front = Front(resources=[self.slow])
        self.addCleanup(self.front.stop)
