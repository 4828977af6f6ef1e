"""The memory of members as the API uses it: the table, its file, and the state of the registries."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from smartgo.client.administration.brokers import BrokerPlace
from smartgo.env.interfaces import IEnvironment
from smartgo.ops.membership.effects import detail
from smartgo.ops.membership.grouplags import UnreachableLag
from smartgo.ops.membership.members import BrokerMember, MemberStatus, TopicContent, Unreachable, read_saved
from smartgo.ops.membership.table import NOBODY, MembershipTable
from smartgo.ops.problems import Problem, not_kept
from smartgo.tablefile import TableFile

SAVED: Final = 300.0
"""Seconds between two savings, while no member comes or goes."""
REGISTERS: Final = 60.0
"""Seconds within which a process that answers registers at a registry that was started anew; brokers do every 30 s."""


class RegistryStatus(NamedTuple):
    """
    One registry.

    @ivar up: whether it answered the last request; C{None} before the first one.
    @ivar last_seen_ms: when it answered for the last time since the start, wall clock; C{None}: never.
    """

    address: str
    up: bool | None
    last_seen_ms: int | None


class Forgotten(NamedTuple):
    """
    The members that were taken out of service, or would be.

    @ivar unreachable: what is no longer called unreachable; C{None} where a part of the broker stays.
    @ivar staying: the processes of the broker that stay in service.
    """

    members: list[BrokerMember]
    unreachable: Unreachable | None
    staying: list[MemberStatus]


class MemberMemory:
    """
    Remembers the broker processes and registries that were there. Called on the reactor thread.

    @ivar table: the broker processes.
    """

    _log = Logger()

    def __init__(self, env: IEnvironment, file: TableFile, registries: Iterable[str]) -> None:
        """
        @param file: where it is kept.
        @param registries: C{host:port} of each registry of the cluster.
        """
        self._env = env
        self._file = file
        self._registries = {one: RegistryStatus(one, None, None) for one in registries}
        self._save_due = 0.0
        self._absent: dict[tuple[str, int], float] = {}  # since when registered processes are in no registry's answer
        self.table = MembershipTable()

    def load(self) -> None:
        """Read what was saved; blocking. @raise BrokenTable: it cannot be read."""
        found = self._file.load(read_saved)
        if found is not None:
            self.table.restore(found)

    async def stop(self) -> None:
        """Save; fires once that is written, or was logged as failed."""
        if self.table.observed:
            await self.save()

    # -- observing ---------------------------------------------------------------------------------------------

    def absent(self, places: Collection[BrokerPlace]) -> list[BrokerPlace]:
        """
        Return the processes that were there and that a registry does not have: those that may register again.

        They are to be asked: a registry that was started anew has them only when they have registered again. One whose
        address another process has is not among them, nor one that has been absent for L{REGISTERS}.

        @param places: all that the registry has.
        """
        now = self._env.clock.seconds()
        known = {(one.name, one.id) for one in places}
        taken = {one.address for one in places}
        lost = [one for one in self.table.places() if (one.name, one.id) not in known and one.address not in taken]
        self._absent = {(one.name, one.id): self._absent.get((one.name, one.id), now) for one in lost}
        return [one for one in lost if now - self._absent[one.name, one.id] < REGISTERS]

    def observe(self, places: Iterable[BrokerPlace], stopped: Mapping[str, Mapping[int, int]] = NOBODY) -> None:
        """
        Take the broker processes that are there: those that the registries have, and those that will register.

        @param stopped: those that unregistered, as L{MembershipTable.observe} takes them.
        """
        before = {one.subject for one in self.table.missing()}
        changed = self.table.observe(places, self._env.clock.wall_ms(), stopped)
        if not changed:
            self._save_in_time()
            return
        missing = {one.subject: one for one in self.table.missing()}
        for subject in missing.keys() - before:
            self._log.warn(
                "broker {broker} at {address} is missing: {how}",
                broker=subject,
                address=missing[subject].address,
                how="it was stopped in order" if missing[subject].left == "stopped" else "it is no longer registered",
            )
        for subject in before - missing.keys():
            self._log.info("broker {broker} is registered again", broker=subject)
        self.save()

    def counted(self, name: str, topics: Mapping[str, TopicContent], normal: Iterable[str]) -> None:
        """Take what a broker has, as L{MembershipTable.counted}."""
        self.table.counted(name, topics, normal, self._env.clock.wall_ms())
        self._save_in_time()

    def groups_counted(self, lags: Mapping[str, Mapping[str, int] | None], told_all: Collection[str] = ()) -> None:
        """Take how many messages wait for each group at each broker, as L{GroupLags.counted} does."""
        self.table.lags.counted(lags, self._env.clock.wall_ms(), told_all)

    def unreachable_lag(self, group: str) -> list[UnreachableLag]:
        """Return what waits for a group at brokers of which no process answers, as it was counted last."""
        return self.table.lags.waiting(group, self.table.lost())

    def _save_in_time(self) -> None:
        if self._env.clock.seconds() >= self._save_due:
            self.save()

    def observe_registries(self, answers: Mapping[str, bool]) -> None:
        """Take by address whether each registry answers."""
        now_ms = self._env.clock.wall_ms()
        for address, up in answers.items():
            last = now_ms if up else self.registry(address).last_seen_ms
            self._registries[address] = RegistryStatus(address, up, last)

    # -- states ------------------------------------------------------------------------------------------------

    def registry(self, address: str) -> RegistryStatus:
        """Return the state of a registry."""
        return self._registries.get(address, RegistryStatus(address, None, None))

    def registries(self) -> list[RegistryStatus]:
        """Return all registries with their states."""
        return list(self._registries.values())

    def missing_seconds(self) -> dict[str, float]:
        """Return how many seconds ago each missing process was seen last, by L{BrokerMember.subject}."""
        now_ms = self._env.clock.wall_ms()
        return {one.subject: max(1, now_ms - one.last_seen_ms) / 1000 for one in self.table.missing()}

    def reasons(self) -> dict[str, str]:
        """Return by name the brokers of which no process is registered, each with a sentence about that."""
        return dict.fromkeys(self.table.gone(), "it is missing: no process of it is registered")

    def details(self) -> dict[str, str]:
        """Return how each missing process left and what works without it, by L{BrokerMember.subject}."""
        statuses = self.table.statuses()
        return {one.member.subject: detail(one, statuses) for one in statuses if one.state == "missing"}

    def statuses(self) -> list[MemberStatus]:
        """Return all broker processes with their states."""
        return self.table.statuses()

    # -- taking out of service ---------------------------------------------------------------------------------

    def missing_of(self, name: str, id: int | None) -> Forgotten:
        """
        Return the missing processes of a broker, and what is unreachable with them.

        @param id: only that process.
        @raise Problem: 404, there is no such broker; 409, it is registered.
        """
        known = self.table.members_of(name, id)
        what = f"broker {name}" if id is None else f"broker {name} with the id {id}"
        if not known:
            raise Problem(404, f"there is no {what}", "broker-not-found")
        missing = [one for one in self.table.missing() if one in known]
        if not missing:
            raise Problem(409, f"{what} is registered: stop it before it is taken out of service", "member-present")
        going = {one.subject for one in missing}
        staying = [one for one in self.statuses() if one.member.name == name and one.member.subject not in going]
        return Forgotten(missing, None if staying else self.table.lost().get(name), staying)

    async def forget(self, name: str, id: int | None) -> Forgotten:
        """
        Take the missing processes of a broker out of service: they are no longer remembered.

        @raise Problem: as L{missing_of}; 507, it could not be written, and they are still remembered.
        """
        found = self.missing_of(name, id)
        before = self.table.saved()
        self.table.forget(found.members)
        try:
            await self._file.save(self.table.saved())
        except OSError as error:
            self.table.put_back(found.members, before)
            raise not_kept(error, self._file.path) from None
        return found

    # -- keeping it --------------------------------------------------------------------------------------------

    def save(self) -> Deferred[None]:
        """Save; fires when it is written, or when the failure is logged."""
        self._save_due = self._env.clock.seconds() + SAVED
        return self._file.save(self.table.saved()).addErrback(self._unsaved)

    def _unsaved(self, failure: Any) -> None:
        failure.trap(OSError)
        self._log.warn("{path} was not written: {error}", path=self._file.path, error=failure.getErrorMessage())
