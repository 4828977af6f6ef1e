"""
Requests about the store as a whole: of administrators, its state (30004), a scrub (30005), a backup (30003); of slaves
of RocketMQ 5, the progress of its timed messages (60).

Rules: docs/spec/broker#statistics, docs/spec/broker#timer.
"""

from __future__ import annotations

from typing import Final

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from smartgo.broker.figures.storestate import state_of
from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.errors import RequestRefused
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies import BackupReport
from smartgo.schema.codes import RequestCode
from smartgo.schema.command import Command
from smartgo.schema.headers.admin import BackupStoreRequest, ScrubStoreRequest
from smartgo.schema.timers import peer_progress_struct
from smartgo.store.backuppruning import BackupOptions

SLOWEST: Final = 64 << 10
"""Bytes a second: a slower backup would be in the way of all others for months."""


@implementer(IRequestProcessor)
class StoreAdmin(Processor):
    """Tell the state of the store, and begin backups and scrubs of it."""

    codes = answered_by("storeadmin")

    _log = Logger()

    def __init__(self, broker: IBroker) -> None:
        self._broker = broker
        self._store = broker.store

    def process(self, peer: IPeer, request: Command) -> Answer | Deferred[Answer]:
        """
        Answer soon: a backup or a scrub goes on afterwards.

        @raise RequestRefused: the backup cannot begin; or the progress of timed messages is not known here.
        """
        if request.code == RequestCode.GET_TIMER_CHECK_POINT:
            return request.answer(body=self._timer_progress())
        if request.code == RequestCode.SCRUB_STORE:
            return Deferred.fromCoroutine(self._scrub(peer, request))
        if request.code == RequestCode.GET_STORE_STATE:
            return request.answer(body=state_of(self._broker).encode())
        return self._backup(peer, request)

    def _timer_progress(self) -> bytes:
        timers = self._store.timers
        if timers is None or not timers.ready:
            raise RequestRefused("The checkpoint is null")  # RocketMQ's words
        now_ms = self._broker.env.clock.wall_ms()
        due_ms, offset = timers.progress(now_ms)
        return peer_progress_struct.pack(due_ms, 0, offset, offset, 0, now_ms, offset)

    async def _scrub(self, peer: IPeer, request: Command) -> Answer:
        """Begin a scrub if none runs, of all that was stored before, or end the one that runs."""
        running = request.read(ScrubStoreRequest).running
        scrub = self._store.scrub
        if running and not scrub.running:
            await self._store.flush()  # a scrub checks what is durable
        if running != scrub.running:
            self._log.info("{peer} asked for a scrub to {what}", peer=peer.address, what="begin" if running else "end")
            if running:
                scrub.start()
            else:
                scrub.stop()
        return request.answer(body=state_of(self._broker).encode())

    def _backup(self, peer: IPeer, request: Command) -> Answer:
        header = request.read(BackupStoreRequest)
        name = header.name
        backup = self._store.backup
        if name:
            self._log.info("{peer} asked for backup {name}", peer=peer.address, name=name[:100])
            if 0 < header.rate < SLOWEST:
                raise RequestRefused(f"the rate of a backup is 0, for no limit, or at least {SLOWEST} B a second")
            options = max(0, header.rate), max(0, header.keep), max(0, header.keep_seconds)
            backup.begin(name, BackupOptions(*options))
        elif header.cancel:
            self._log.info("{peer} cancelled the backup", peer=peer.address)
            backup.cancel()
        status = backup.status
        if status is None:
            return request.answer(body=BackupReport().encode())
        report = BackupReport(
            name=status.name,
            directory=status.directory,
            state=status.state.value,
            begun=status.begun_ms,
            ended=status.ended_ms,
            files=status.files,
            linked=status.linked,
            copied=status.copied,
            end=status.end,
            size=status.size,
            done=status.done,
            removed=status.removed,
            error=status.error,
        )
        return request.answer(body=report.encode())
