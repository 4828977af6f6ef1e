"""The integrity of an open store: the table of damaged regions in its log, and what was checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smartgo.env.interfaces import IEnvironment
from smartgo.schema.logcheck import DamagedBytes
from smartgo.schema.regions import Region
from smartgo.store.backgroundtask import BackgroundTask
from smartgo.store.commitlog import CommitLog
from smartgo.store.damage import DamageFiles, DamageTable, is_unreadable_region
from smartgo.store.replicatedlog import FoundDamage
from smartgo.store.scrub import Scrub
from smartgo.store.verifiedlog import VerifiedLog

LANE: Final = "tables"


class LogIntegrity:
    """
    The damage of one open store.

    @ivar damage: the regions that are known.
    @ivar verified: what was checked.
    @ivar scrub: checks all of it from time to time.
    """

    def __init__(
        self,
        env: IEnvironment,
        root: str,
        log: CommitLog,
        recovered: tuple[int, list[Region]],
        flushed: Callable[[], int],
        scrub_rate: int,
    ) -> None:
        """
        @param recovered: physical offset from which on recovery checked every record; and the damaged regions that it
            found, or knew of.
        @param flushed: returns the physical offset below which the log is durable.
        @param scrub_rate: see L{Scrub}.
        """
        own_from, known = recovered
        self._commitlog = log
        self._threads = env.threads
        self._kept = DamageFiles(env, root)
        self._saving = BackgroundTask("the list of damaged regions")
        self._listeners: list[Callable[[], None]] = []
        self._running = self._again = False
        self.damage = DamageTable(known, self._changed)
        self.verified = VerifiedLog(log, own_from, self.damage, self._kept, env)
        self.scrub = Scrub(env, root, log, self.verified, flushed, scrub_rate)

    def follow(self, listener: Callable[[], None]) -> None:
        """Call C{listener} when the damaged regions have changed."""
        self._listeners.append(listener)

    def adopt(self, begin: int, end: int) -> None:
        """Enter a region that is damaged in the master's log, and keep a copy of the bytes, which are in ours now."""
        if self.damage.touches(begin, end):
            return  # they come once more
        found = DamagedBytes(begin, end - begin, "it is damaged in the master's log")
        region = self._kept.describe(found)
        self.damage.add([region])
        self.verified.clean_from = max(self.verified.clean_from, self.damage.end)
        work = self._threads.run(LANE, self._kept.keep, found, self._commitlog.files)
        self._saving.follow(work, self.damage.replace, region)

    async def find(self, begin: int, end: int) -> list[FoundDamage]:
        """See L{IReplicatedLog.find_damage<smartgo.store.replicatedlog.IReplicatedLog.find_damage>}."""
        at = begin
        while at < end:
            await self.verified.check(at)
            at = self.verified.region_end(at)
        return [
            FoundDamage(one.offset, one.length, is_unreadable_region(one)) for one in self.damage.between(begin, end)
        ]

    def _changed(self) -> None:
        for listener in self._listeners:
            listener()
        self._again = True
        if not self._running:
            self._save()

    def _save(self) -> None:
        self._running, self._again = True, False
        work = self._threads.run(LANE, self._kept.save, self.damage.listed)
        self._saving.follow(work, lambda _: None).addBoth(self._saved)

    def _saved(self, _: object) -> None:
        self._running = False
        if self._again and not self._saving.failed:
            self._save()

    async def close(self) -> None:
        """Interrupt the scrub; return when nothing is being saved."""
        await self.scrub.close()
        await self._saving.idle()
