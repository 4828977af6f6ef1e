"""
Requests of administrators about the store as a whole: a backup of it (30003).

Rules: docs/spec/broker#statistics.
"""

from __future__ import annotations

from twisted.logger import Logger
from zope.interface import implementer

from smartgo.broker.interfaces import IBroker
from smartgo.broker.processors.requestcodes import answered_by
from smartgo.remoting.interfaces import Answer, IPeer, IRequestProcessor
from smartgo.remoting.processor import Processor
from smartgo.schema.bodies import BackupReport
from smartgo.schema.command import Command
from smartgo.schema.headers.admin import BackupStoreRequest


@implementer(IRequestProcessor)
class StoreAdmin(Processor):
    """Begin backups of the store, and tell how the last one went."""

    codes = answered_by("storeadmin")

    _log = Logger()

    def __init__(self, broker: IBroker) -> None:
        self._store = broker.store

    def process(self, peer: IPeer, request: Command) -> Answer:
        """
        Answer at once: a backup goes on afterwards.

        @raise RequestRefused: the backup cannot begin.
        """
        name = request.read(BackupStoreRequest).name
        backup = self._store.backup
        if name:
            self._log.info("{peer} asked for backup {name}", peer=peer.address, name=name[:100])
            backup.begin(name)
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
            error=status.error,
        )
        return request.answer(body=report.encode())
