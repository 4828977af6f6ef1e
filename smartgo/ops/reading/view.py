"""
The cluster as lists see it: what brokers and registries say, kept for a moment, so that pages, sorting and many people
at the console do not ask brokers again and again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from twisted.internet.defer import Deferred, DeferredSemaphore, gatherResults
from twisted.internet.defer import FirstError as _FirstError
from twisted.python.failure import Failure

from smartgo.client.admin import Admin
from smartgo.client.administration.brokers import BrokerPlace, places_of
from smartgo.client.administration.topics import kind_of
from smartgo.client.internal.deadletterjournal import DeadLetterJournal
from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed
from smartgo.ops.membership.memory import MemberMemory
from smartgo.ops.problems import Problem
from smartgo.ops.reading.boundedasking import VIEW_SECONDS
from smartgo.ops.reading.memberprobe import PROMPT, answers, unrouted
from smartgo.ops.web.partial import Missing
from smartgo.schema.bodies import SubscriptionGroupConfig, TopicConfig
from smartgo.schema.runtimeclock import wall_clock_ms

FRESH: Final = 2.0
"""Seconds for which an answer of brokers is shown again."""
_REST: Final = 10
"""Times as long as a question took, its answer is shown again."""
_PARTIAL_REST: Final = 2
"""The same of an answer that a broker is missing from: it was waited for, and may be well again."""
AT_ONCE: Final = 16
"""Questions of one page that are asked at a time."""

T = TypeVar("T")
R = TypeVar("R")


class Source(Protocol[T]):
    """A cached answer of the cluster."""

    def get(self, missing: Missing | None = None) -> Deferred[T]:
        """Return the answer. @param missing: notes the brokers that did not answer."""


class Cached(Generic[T]):
    """
    One answer, asked for by whoever comes first, and shared while it is fresh: the longer it took, the longer it is, so
    that no question keeps brokers busy for more than a tenth of the time.
    """

    def __init__(
        self, clock: IClock, ask: Callable[[Missing], Coroutine[Deferred[Any], Any, T]], fresh: float = FRESH
    ) -> None:
        """@param ask: makes the answer; it notes who is missing from it."""
        self._clock = clock
        self._ask = ask
        self._fresh = fresh
        self._value: T | None = None
        self._missing = Missing()
        self._stale = 0.0
        self._waiting: list[tuple[Deferred[T], Missing]] | None = None

    def get(self, missing: Missing | None = None) -> Deferred[T]:
        """
        Return the answer. A cancelled wait leaves the question going on for others.

        @param missing: takes who is missing from it.
        """
        waiter: Deferred[T] = Deferred()
        noted = Missing() if missing is None else missing
        if self._value is not None and self._clock.seconds() < self._stale:
            noted.add(self._missing)
            waiter.callback(self._value)
        elif self._waiting is not None:
            self._waiting.append((waiter, noted))
        else:
            self._waiting = waiting = [(waiter, noted)]
            fresh = Missing()
            Deferred.fromCoroutine(self._ask(fresh)).addBoth(self._answered, waiting, self._clock.seconds(), fresh)
        return waiter

    def forget(self) -> None:
        """Ask anew for the next one: something was changed. What is being asked is for those who wait already."""
        self._value = None
        self._waiting = None

    def _answered(
        self, result: T | Failure, waiting: list[tuple[Deferred[T], Missing]], asked: float, missing: Missing
    ) -> None:
        if waiting is self._waiting:
            self._waiting = None
            if not isinstance(result, Failure):
                self._value = result
                self._missing = missing
                now = self._clock.seconds()
                self._stale = now + max(self._fresh, (_PARTIAL_REST if missing else _REST) * (now - asked))
        for waiter, noted in waiting:
            if waiter.called:
                continue
            noted.add(missing)
            if isinstance(result, Failure):
                waiter.errback(result)
            else:
                waiter.callback(result)


class _Noting(Generic[T]):
    """An answer that one view asks for: who is missing from it is noted for the view."""

    def __init__(self, source: Source[T], noted: Missing) -> None:
        self._source = source
        self._noted = noted

    def get(self, missing: Missing | None = None) -> Deferred[T]:
        """Return the answer."""
        fresh = Missing()

        def note(result: T | Failure) -> T | Failure:
            self._noted.add(fresh)
            if missing is not None:
                missing.add(fresh)
            return result

        return self._source.get(fresh).addBoth(note)


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


class _View:
    """The lists that both views read."""

    topics: Source[dict[str, TopicEntry]]
    groups: Source[dict[str, GroupEntry]]
    brokers: Source[list[BrokerPlace]]

    async def topic(self, name: str) -> TopicEntry:
        """Return one topic. @raise Problem: 404; 502, where a broker that may have it does not answer."""
        missing = Missing()
        found = (await self.topics.get(missing)).get(name)
        if found is None:
            raise missing.absent(f"topic {name}", "topic-not-found")
        return found

    async def group(self, name: str) -> GroupEntry:
        """Return one group. @raise Problem: as L{topic}."""
        missing = Missing()
        found = (await self.groups.get(missing)).get(name)
        if found is None:
            raise missing.absent(f"group {name}", "group-not-found")
        return found

    async def broker(self, name: str) -> BrokerPlace:
        """Return a broker's master, or where there is none its first slave. @raise Problem: 404."""
        for one in await self.brokers.get():
            if one.name == name:
                return one
        raise Problem(404, f"there is no broker {name}", "broker-not-found")

    async def process(self, name: str, id: int | None) -> BrokerPlace:
        """Return the process of a broker that has an id; without an id as L{broker}. @raise Problem: 404."""
        for one in await self.brokers.get() if id is not None else ():
            if (one.name, one.id) == (name, id):
                return one
        if id is None:
            return await self.broker(name)
        raise Problem(404, f"there is no broker {name} with the id {id}", "broker-not-found")

    async def check_brokers(self, names: Iterable[str]) -> None:
        """Let names of brokers with a master pass. @raise Problem: 404."""
        masters = {one.name for one in await self.brokers.get() if one.id == 0}
        for name in names:
            if name not in masters:
                raise Problem(404, f"there is no broker {name} with a master", "broker-not-found")


class ClusterView(_View):
    """
    The brokers, topics, groups and clients of the cluster, cached briefly.

    @ivar admin: asks brokers and registries, without any limit of a view.
    @ivar membership: remembers the brokers that were there.
    @ivar contenders: broker name, the addresses of masters that claim it while another one has it.
    @ivar topics, groups, brokers, runtimes, members: each a L{Cached}.
    @ivar journal: what was done about dead letters, as it was read last.
    """

    def __init__(
        self,
        clock: IClock,
        admin: Admin,
        bounded: Callable[[Missing, float | None], Admin],
        membership: MemberMemory,
    ) -> None:
        """@param bounded: returns what asks for one view, within so many seconds: see L{BoundedAsking}."""
        self.admin = admin
        self.bounded = bounded
        self.membership = membership
        self.topics: Cached[dict[str, TopicEntry]] = Cached(clock, self._topics)
        self.groups: Cached[dict[str, GroupEntry]] = Cached(clock, self._groups)
        self.brokers: Cached[list[BrokerPlace]] = Cached(clock, self._brokers, 1.0)
        self.runtimes: Cached[dict[str, dict[str, str] | str]] = Cached(clock, self._runtimes, 1.0)
        self.members: Cached[list[Any]] = Cached(clock, self._members, 5.0)
        self.journal = DeadLetterJournal()
        self._clock = clock
        self.contenders: dict[str, list[str]] = {}
        self._clocks: dict[str, float] = {}  # seconds ahead of ours, by address

    def forget(self) -> None:
        """Drop all cached answers after a change."""
        for one in (self.topics, self.groups, self.brokers, self.runtimes, self.members):
            cast("Cached[Any]", one).forget()

    def note_gone(self, missing: Missing) -> None:
        """Note the brokers that were there and of which no process is registered any more."""
        for name, reason in self.membership.reasons().items():
            missing.note(name, reason)

    async def note_unreached(self, missing: Missing, brokers: Collection[str] | None = None) -> None:
        """
        Note the brokers that a change does not reach: they are missing, or have no master.

        @param brokers: the change is for these; C{None} for all.
        """
        await self.note_gone_now(unreached := Missing())
        for name in self.membership.table.masterless():
            unreached.note(name, "it has no master: nothing changes there")
        missing.add(unreached, brokers)

    def partial(self, missing: Missing, seconds: float | None = VIEW_SECONDS) -> PartialView:
        """
        Return the cluster as one view sees it; brokers that were there and are gone are noted as missing from it.

        @param missing: takes who is missing from the view.
        @param seconds: for all its questions; C{None} for work that takes as long as it takes.
        """
        return PartialView(self, missing, seconds)

    # -- asking ------------------------------------------------------------------------------------------------

    async def note_gone_now(self, missing: Missing) -> None:
        """Note as L{note_gone}, after the registries were asked."""
        await self.brokers.get()  # the memory takes who is registered now
        self.note_gone(missing)

    async def _topics(self, missing: Missing) -> dict[str, TopicEntry]:
        """All topics by name, in the order of names."""
        admin = self.bounded(missing, VIEW_SECONDS)
        by_broker = await admin.topics.configs()
        await self.note_gone_now(missing)
        system = await admin.topics.system_names()
        found: dict[str, TopicEntry] = {}
        for broker, table in by_broker.items():
            for name, config in table.items():
                entry = found.get(name)
                if entry is None:
                    entry = found[name] = TopicEntry(name, str(kind_of(name, system)))
                entry.configs[broker] = config
        return {name: found[name] for name in sorted(found)}

    async def _groups(self, missing: Missing) -> dict[str, GroupEntry]:
        """All groups by name, in the order of names."""
        found: dict[str, GroupEntry] = {}
        by_broker = await self.bounded(missing, VIEW_SECONDS).groups.configs()
        await self.note_gone_now(missing)
        for broker, table in by_broker.items():
            for name, config in table.items():
                found.setdefault(name, GroupEntry(name)).configs[broker] = config
        return {name: found[name] for name in sorted(found)}

    async def _brokers(self, missing: Missing) -> list[BrokerPlace]:
        """
        All registered broker processes, and those that answer and have not registered again at a registry that was
        started anew; while no registry answers those that were registered before.
        """
        try:
            info = await self.admin.brokers.cluster()
        except CallFailed:
            known = self.membership.table.places()
            if not known:
                raise
            self.membership.table.unobserved()
            return known
        self.contenders = info.contenders or {}
        places = places_of(info)
        absent = self.membership.absent(places)
        there = await each(absent, lambda one: answers(self.admin, one.address))
        places = sorted([*places, *(one for one, well in zip(absent, there, strict=True) if well)])
        self.membership.observe(places, info.unregistered or {})
        self.membership.table.routed(await unrouted(self.admin, places))
        return places

    async def _runtimes(self, missing: Missing) -> dict[str, dict[str, str] | str]:
        """By address what each broker process tells of itself, or why it does not."""
        admin = self.bounded(missing, VIEW_SECONDS)
        places = await self.brokers.get()
        told = await each(places, lambda one: self._runtime(admin, one, missing))
        self._clocks = {one.address: self._clocks[one.address] for one in places if one.address in self._clocks}
        self.membership.table.answered(
            {one.address: isinstance(words, dict) for one, words in zip(places, told, strict=True)},
            self._clock.wall_ms(),
        )
        return dict(zip([one.address for one in places], told, strict=True))

    async def _runtime(self, admin: Admin, place: BrokerPlace, missing: Missing) -> dict[str, str] | str:
        began, began_ms = self._clock.seconds(), self._clock.wall_ms()
        try:
            told = dict(await admin.brokers.runtime(place.address))
        except CallFailed as error:
            missing.note(place.name if place.id == 0 else f"{place.name} {place.id}", error)
            return str(error)
        took = self._clock.seconds() - began
        theirs_ms = wall_clock_ms(told)
        if theirs_ms is not None and took <= PROMPT:
            self._clocks[place.address] = round(theirs_ms / 1000 - began_ms / 1000 - took / 2, 3)
        return told

    def clock_offset(self, address: str) -> float | None:
        """
        Return the seconds by which the wall clock of a broker process was ahead of ours when it last answered promptly.

        @return: negative where it was behind; C{None} for unknown.
        """
        return self._clocks.get(address)

    async def _members(self, missing: Missing) -> list[Any]:
        return list(await self.bounded(missing, None).clients.all())


class PartialView(_View):
    """
    The cluster as one view sees it: it goes on without brokers that do not answer, and notes them.

    @ivar missing: who is missing.
    @ivar admin: asks brokers within the limits of a view.
    @ivar topics, groups, brokers, runtimes, members, journal: as those of L{ClusterView}.
    """

    def __init__(self, whole: ClusterView, missing: Missing, seconds: float | None) -> None:
        whole.note_gone(missing)
        self.missing = missing
        self.admin = whole.bounded(missing, seconds)
        self.topics = _Noting(whole.topics, missing)
        self.groups = _Noting(whole.groups, missing)
        self.brokers = _Noting(whole.brokers, missing)
        self.runtimes = _Noting(whole.runtimes, missing)
        self.members = _Noting(whole.members, missing)
        self.journal = whole.journal


async def each(items: Iterable[T], ask: Callable[[T], Awaitable[R]], at_once: int = AT_ONCE) -> list[R]:
    """
    Ask for each of some items, not all at once; return the answers in their order.

    @raise Exception: the first that was raised.
    """
    permits = DeferredSemaphore(at_once)

    async def one(item: T) -> R:
        return await ask(item)

    asked = [permits.run(one, item) for item in items]
    try:
        return list(await gatherResults(asked, consumeErrors=True))
    except _FirstError as error:
        error.subFailure.raiseException()
        raise
