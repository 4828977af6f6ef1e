"""
The cluster as lists see it: what brokers and registries say, kept for a moment, so that pages, sorting and many people
at the console do not ask brokers again and again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Final, Generic, TypeVar

from twisted.internet.defer import Deferred, DeferredSemaphore, gatherResults
from twisted.internet.defer import FirstError as _FirstError
from twisted.python.failure import Failure

from smartgo.client.admin import Admin
from smartgo.client.administration.brokers import BrokerPlace
from smartgo.client.administration.topics import kind_of
from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed
from smartgo.ops.problems import Problem
from smartgo.schema.bodies import SubscriptionGroupConfig, TopicConfig

FRESH: Final = 2.0
"""Seconds for which an answer of brokers is shown again."""
_REST: Final = 10
"""Times as long as a question took, its answer is shown again."""
AT_ONCE: Final = 16
"""Questions of one page that are asked at a time."""

T = TypeVar("T")
R = TypeVar("R")


class Cached(Generic[T]):
    """
    One answer, asked for by whoever comes first, and shared while it is fresh: the longer it took, the longer it is, so
    that no question keeps brokers busy for more than a tenth of the time.
    """

    def __init__(
        self, clock: IClock, ask: Callable[[], Coroutine[Deferred[Any], Any, T]], fresh: float = FRESH
    ) -> None:
        self._clock = clock
        self._ask = ask
        self._fresh = fresh
        self._value: T | None = None
        self._stale = 0.0
        self._waiting: list[Deferred[T]] | None = None

    def get(self) -> Deferred[T]:
        """Return the answer. A cancelled wait leaves the question going on for others."""
        waiter: Deferred[T] = Deferred()
        if self._value is not None and self._clock.seconds() < self._stale:
            waiter.callback(self._value)
        elif self._waiting is not None:
            self._waiting.append(waiter)
        else:
            self._waiting = waiting = [waiter]
            Deferred.fromCoroutine(self._ask()).addBoth(self._answered, waiting, self._clock.seconds())
        return waiter

    def forget(self) -> None:
        """Ask anew for the next one: something was changed. What is being asked is for those who wait already."""
        self._value = None
        self._waiting = None

    def _answered(self, result: T | Failure, waiting: list[Deferred[T]], asked: float) -> None:
        if waiting is self._waiting:
            self._waiting = None
            if not isinstance(result, Failure):
                self._value = result
                now = self._clock.seconds()
                self._stale = now + max(self._fresh, _REST * (now - asked))
        for waiter in waiting:
            if waiter.called:
                continue
            if isinstance(result, Failure):
                waiter.errback(result)
            else:
                waiter.callback(result)


class TopicEntry:
    """One topic at all brokers that have it."""

    __slots__ = ("configs", "kind", "name")

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.configs: dict[str, TopicConfig] = {}


class GroupEntry:
    """One consumer group at all brokers that have it."""

    __slots__ = ("configs", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.configs: dict[str, SubscriptionGroupConfig] = {}


class ClusterView:
    """
    What lists are made of.

    @ivar admin: asks brokers and registries.
    @ivar topics, groups, brokers, runtimes, members: each a L{Cached}.
    """

    def __init__(self, clock: IClock, admin: Admin) -> None:
        self.admin = admin
        self.topics = Cached(clock, self._topics)
        self.groups = Cached(clock, self._groups)
        self.brokers = Cached(clock, self._brokers, 1.0)
        self.runtimes = Cached(clock, self._runtimes, 1.0)
        self.members = Cached(clock, self._members, 5.0)

    def forget(self) -> None:
        """Ask anew for everything: something was changed."""
        for one in (self.topics, self.groups, self.brokers, self.runtimes, self.members):
            one.forget()

    # -- asking ------------------------------------------------------------------------------------------------

    async def _topics(self) -> dict[str, TopicEntry]:
        """All topics by name, in the order of names."""
        by_broker = await self.admin.topics.configs()
        system = await self.admin.topics.system_names()
        found: dict[str, TopicEntry] = {}
        for broker, table in by_broker.items():
            for name, config in table.items():
                entry = found.get(name)
                if entry is None:
                    entry = found[name] = TopicEntry(name, str(kind_of(name, system)))
                entry.configs[broker] = config
        return {name: found[name] for name in sorted(found)}

    async def _groups(self) -> dict[str, GroupEntry]:
        """All groups by name, in the order of names."""
        found: dict[str, GroupEntry] = {}
        for broker, table in (await self.admin.groups.configs()).items():
            for name, config in table.items():
                found.setdefault(name, GroupEntry(name)).configs[broker] = config
        return {name: found[name] for name in sorted(found)}

    async def _brokers(self) -> list[BrokerPlace]:
        return list(await self.admin.brokers.places())

    async def _runtimes(self) -> dict[str, dict[str, str] | str]:
        """By address what each broker process tells of itself, or why it does not."""
        places = await self.brokers.get()
        told = await each([one.address for one in places], self._runtime)
        return dict(zip([one.address for one in places], told, strict=True))

    async def _runtime(self, address: str) -> dict[str, str] | str:
        try:
            return dict(await self.admin.brokers.runtime(address))
        except CallFailed as error:
            return str(error)

    async def _members(self) -> list[Any]:
        return list(await self.admin.clients.all())

    # -- one of them -------------------------------------------------------------------------------------------

    async def topic(self, name: str) -> TopicEntry:
        """Return one topic. @raise Problem: 404."""
        found = (await self.topics.get()).get(name)
        if found is None:
            raise Problem(404, f"there is no topic {name}", "topic-not-found")
        return found

    async def group(self, name: str) -> GroupEntry:
        """Return one group. @raise Problem: 404."""
        found = (await self.groups.get()).get(name)
        if found is None:
            raise Problem(404, f"there is no group {name}", "group-not-found")
        return found

    async def broker(self, name: str) -> BrokerPlace:
        """Return a broker's master, or where there is none its first slave. @raise Problem: 404."""
        for one in await self.brokers.get():
            if one.name == name:
                return one
        raise Problem(404, f"there is no broker {name}", "broker-not-found")

    async def check_brokers(self, names: Iterable[str]) -> None:
        """Let names of brokers with a master pass. @raise Problem: 404."""
        masters = {one.name for one in await self.brokers.get() if one.id == 0}
        for name in names:
            if name not in masters:
                raise Problem(404, f"there is no broker {name} with a master", "broker-not-found")


async def each(items: Iterable[T], ask: Callable[[T], Awaitable[R]], at_once: int = AT_ONCE) -> list[R]:
    """
    Ask for each of some items, not all at once; return the answers in their order.

    @raise Exception: the first that was raised.
    """
    gate = DeferredSemaphore(at_once)

    async def one(item: T) -> R:
        return await ask(item)

    asked = [gate.run(one, item) for item in items]
    try:
        return list(await gatherResults(asked, consumeErrors=True))
    except _FirstError as error:
        error.subFailure.raiseException()
        raise
