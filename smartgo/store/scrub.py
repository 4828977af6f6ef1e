"""
The scrub: all of the log is read and checked once a week, at a bounded rate, so that damage is found while a slave or a
backup still has what it hit (docs/spec/reliability#S14).

One region of the log (L{smartgo.store.verifiedlog}) is checked at a time, in the reader thread, with a pause behind it
that keeps to the rate. Where the log is so long that a week is not enough, the rate is as high as it has to be. What
was checked before is read again: the point is to find what went bad since. Progress and the last result are kept in
C{smartgo.scrub}, a JSON file in the store's directory; a scrub that a stop interrupted goes on with the next start.
With rate 0 none begins by itself.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Final

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IDelayedCall
from twisted.logger import Logger

from smartgo.env.interfaces import IEnvironment
from smartgo.store.backgroundtask import BackgroundTask
from smartgo.store.commitlog import CommitLog
from smartgo.store.verifiedlog import REGION, VerifiedLog

LANE: Final = "tables"
WEEK: Final = 7 * 24 * 3600.0
"""Seconds between the begins of two scrubs."""
_MANUAL_RATE: Final = 1 << 20  # bytes per second of one that is asked for, where none begins by itself
_RETRY: Final = (
    15.0  # seconds after a read that failed; what fails for a minute is damage (L{smartgo.store.verifiedlog})
)


class ScrubState(msgspec.Struct, omit_defaults=True):
    """
    The content of C{smartgo.scrub}. Offsets are physical; times are wall clock, 0 where there is none.

    @ivar position: up to here the present scrub has checked; C{end}: where it ends. Equal where none runs.
    @ivar begin: where it began.
    @ivar records: how many records it found right; C{damaged}: how many damaged regions it found.
    @ivar begun_ms: when the last scrub began, or the store was first opened.
    @ivar ended_ms: when the last complete one ended; C{last_bytes}, C{last_records} and C{last_damaged} are its result.
    """

    position: int = 0
    end: int = 0
    begin: int = 0
    records: int = 0
    damaged: int = 0
    begun_ms: int = 0
    ended_ms: int = 0
    last_bytes: int = 0
    last_records: int = 0
    last_damaged: int = 0


class Scrub:
    """
    The scrub of one open store.

    @ivar state: progress and last result; for reading.
    @ivar rate: bytes per second; 0: none begins by itself.
    """

    _log = Logger()

    def __init__(
        self,
        env: IEnvironment,
        root: str,
        log: CommitLog,
        verified: VerifiedLog,
        flushed: Callable[[], int],
        rate: int,
    ) -> None:
        """@param flushed: returns the physical offset below which the log is durable."""
        self._clock = env.clock
        self._threads = env.threads
        self._files = env.files
        self._buggify = env.buggify
        self._path = posixpath.join(root, "smartgo.scrub")
        self._commitlog = log
        self._verified = verified
        self._flushed = flushed
        self._checking = BackgroundTask("the scrub")
        self._saving = BackgroundTask("the state of the scrub")
        self._timer: IDelayedCall | None = None
        self._stopped = False
        self.rate = rate
        self.state = self._load()

    def _load(self) -> ScrubState:
        try:
            return msgspec.json.decode(self._files.read(self._path), type=ScrubState)
        except FileNotFoundError:
            pass
        except (OSError, msgspec.DecodeError) as error:
            self._log.warn("{path} cannot be read, and is made anew: {error}", path=self._path, error=str(error))
        return ScrubState()

    # -- for the store -----------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """True while a scrub is under way."""
        return self.state.position < self.state.end

    @property
    def seconds_left(self) -> float:
        """Seconds that the present scrub will still take at its rate; 0 where none runs."""
        return (self.state.end - self.state.position) / self.bytes_per_second if self.running else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Bytes per second, enough for all of the log in a week."""
        log = self._commitlog
        return max(self.rate or _MANUAL_RATE, (log.whole - log.minimum) / WEEK)

    @property
    def next_ms(self) -> int:
        """The time at which the next scrub begins by itself, by the wall clock; 0 where none does, or one runs."""
        if not self.rate or self.running or not self.state.begun_ms:
            return 0
        return self.state.begun_ms + round(WEEK * 1000)

    def open(self) -> None:
        """Go on with an interrupted scrub, or schedule the next one."""
        if self.running and self.rate:
            self._later(1.0)
        else:
            self._schedule()

    def start(self) -> None:
        """Begin a scrub of all that is flushed now; one that runs goes on."""
        if self.running or self._stopped:
            if self._timer is None and not self._stopped:
                self._later(0.0)
            return
        log = self._commitlog
        state = self.state
        state.begin = state.position = log.minimum
        state.end = max(log.minimum, min(self._flushed(), log.whole))
        state.records = state.damaged = 0
        state.begun_ms = self._clock.wall_ms()
        self._log.info("scrubbing {size} B of the log", size=state.end - state.begin)
        self._save()
        if state.begin < state.end:
            self._later(0.0)
        else:
            self._schedule()

    def change_rate(self, rate: int) -> None:
        """Follow another rate from now on. A scrub that runs goes on with rate 0, too, but none begins by itself."""
        self.rate = rate
        if not self.running:
            self._schedule()
        elif self._timer is not None:
            self._later(0.0)  # the pause was for the rate before

    def stop(self) -> None:
        """End the present scrub; the next one begins at its time."""
        self.state.begin = self.state.end = self.state.position
        self._save()
        self._schedule()

    async def close(self) -> None:
        """Interrupt the scrub; the next start goes on with it."""
        self._stopped = True
        self._cancel()
        await self._checking.idle()
        if self.running:
            self._save()
        await self._saving.idle()

    # -- the work ----------------------------------------------------------------------------------------------

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _later(self, delay: float) -> None:
        self._cancel()
        self._timer = self._clock.callLater(delay, self._due)

    def _schedule(self) -> None:
        """Set the time of the next scrub."""
        self._cancel()
        if not self.rate or self._stopped:
            return
        now_ms = self._clock.wall_ms()
        if not 0 < self.state.begun_ms <= now_ms:  # the first start, or the clock was set back
            self.state.begun_ms = now_ms
            self._save()
        period = 10.0 if self._buggify("scrub.soon") else WEEK
        self._later(max(1.0, period - (now_ms - self.state.begun_ms) / 1000))

    def _due(self) -> None:
        self._timer = None
        if not self.running:
            self.start()
            return
        work = Deferred.fromCoroutine(self._step())
        self._checking.follow(work, self._stepped).addBoth(self._go_on)

    async def _step(self) -> int:
        """Check the next region; return how many bytes that were."""
        state = self.state
        position = max(state.position, self._commitlog.minimum)  # old files may have been removed
        file = self._commitlog.files.find(position)
        if file is None or position >= state.end:
            state.position = state.end
            return 0
        checked = await self._verified.check(position)
        begin = file.base + (position - file.base) // REGION * REGION
        end = min(begin + REGION, file.end, state.end)
        if checked is not None:
            state.records += checked.records
            state.damaged += sum(begin <= one.offset < end for one in checked.damage)
        state.position = min(end, state.end)
        return end - position

    def _stepped(self, size: int) -> None:
        if not self._stopped and self.running:
            self._later(size / self.bytes_per_second)

    def _go_on(self, _: None) -> None:
        if self._stopped or self._timer is not None:
            return
        if self.running:
            self._later(_RETRY)  # the disk could not read it: what it cannot read again is damage
        elif self.state.begin < self.state.end:
            self._finish()

    def _finish(self) -> None:
        state = self.state
        state.ended_ms = self._clock.wall_ms()
        state.last_bytes = state.end - state.begin
        state.last_records, state.last_damaged = state.records, state.damaged
        say = self._log.warn if state.damaged else self._log.info
        say(
            "the scrub of {size} B of the log found {records} messages right; damaged regions: {damaged}",
            size=state.last_bytes,
            records=state.records,
            damaged=state.damaged,
        )
        self._save()
        self._schedule()

    def _save(self) -> None:
        work = self._threads.run(LANE, self._files.replace, self._path, msgspec.json.encode(self.state), False)
        self._saving.follow(work, lambda _: None)
