"""
Damage in the middle of the log, found when a store is opened: set apart, so that what follows it stays readable.

The damaged bytes stay in the log, and a copy of them goes to C{quarantine/}: docs/spec/reliability#S8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.schema.logcheck import DamagedBytes, LogCheck, ReadLog
from smartgo.schema.message import StoredMessage
from smartgo.schema.regions import Region
from smartgo.store.damage import DamageFiles, enter, log_damage
from smartgo.store.filequeue import FileQueue
from smartgo.store.mappedfile import MappedFile
from smartgo.store.recovery.logscan import record_after

_MOST_TRIED: Final = 1000  # regions of the list that are read when the store is opened; more would take long


class DamageFinder:
    """
    Finds the damaged regions of one log. All methods block.

    @ivar put_right: the records, without their bodies, of regions that are damaged no more.
    """

    _log = Logger()

    def __init__(self, env: IEnvironment, root: str, log_files: FileQueue, check_cancelled: Callable[[], None]) -> None:
        """
        @param check_cancelled: called between pieces of some MiB; may raise to end the work.
        """
        self._files = env.files
        self._log_files = log_files
        self._check_cancelled = check_cancelled
        self._kept = DamageFiles(env, root)
        self._listed = self._kept.load()
        self._regions: list[Region] = []
        self.put_right: list[StoredMessage] = []
        for region in self._listed[:_MOST_TRIED]:
            for part in self._still_damaged(region):
                enter(self._regions, part)
        if len(self._listed) > _MOST_TRIED:
            self._log.info(
                "of {count} damaged regions that were known, those from {offset} on are found again when they are read",
                count=len(self._listed),
                offset=self._listed[_MOST_TRIED].offset,
            )

    def known(self) -> list[Region]:
        """Return all regions that are known, in order."""
        return list(self._regions)

    def save(self) -> None:
        """Bring the list of regions up to date. @raise OSError: it is as it was."""
        if self.known() != self._listed:
            self._kept.save(self.known())

    def pass_over(self, position: int, end: int | None) -> int | None:
        """
        Set the damage at a physical offset apart, and return where the next valid record begins.

        @param end: where the log ends if nothing valid follows; C{None}: then nothing is set apart.
        @return: C{None} where nothing valid follows and the log's end is not known.
        """
        after = record_after(self._files, self._log_files, position, self._check_cancelled)
        if after is None or (end is not None and after > end):
            after = end
        if after is None:
            return None
        at = position
        while at < after and (file := self._log_files.find(at)) is not None:
            at = self._set_apart(file, at, min(after, file.end))
        return after

    def _set_apart(self, file: MappedFile, begin: int, end: int) -> int:
        """Set apart what is damaged in a range of one file that begins with damage; return where it ends."""
        check = LogCheck(self._reader(file), begin, end, end, file.end)
        for one in check:
            if isinstance(one, DamagedBytes):
                self.set_apart(one)
        if check.unwritten:
            self.set_apart(DamagedBytes(check.position, end - check.position, "nothing is written there"))
        return end

    def set_apart(self, damage: DamagedBytes) -> None:
        """Keep a copy of damaged bytes, and enter the region."""
        if not any(one.offset <= damage.offset and damage.end <= one.end for one in self._regions):
            region = self._kept.keep(damage, self._log_files)
            enter(self._regions, region)
            log_damage(self._log, region)

    def _still_damaged(self, region: Region) -> list[Region]:
        """Return the parts of a region of the list that are no valid record: somebody may have put it right."""
        file = self._log_files.find(region.offset)
        if file is None or region.end > file.end:
            return []
        check = LogCheck(self._reader(file), region.offset, region.end, file.end, file.end)
        parts: list[tuple[int, int]] = []
        right: list[StoredMessage] = []
        try:
            for one in check:
                if isinstance(one, DamagedBytes):
                    parts.append((one.offset, min(one.end, region.end)))
                else:
                    right.append(one._replace(body=b""))
        except OSError:
            return [region]
        self.put_right += right
        if check.unwritten:
            parts.append((check.position, region.end))
        if parts == [(region.offset, region.end)]:
            return [region]
        return [
            Region(begin, end - begin, region.reason, found_ms=region.found_ms, saved=region.saved)
            for begin, end in parts
        ]

    def _reader(self, file: MappedFile) -> ReadLog:
        return lambda offset, size: self._files.read_at(file.path, offset - file.base, size)
