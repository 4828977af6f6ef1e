"""The resource of backups: begin a backup of a broker's store, cancel it, and see how the last one went."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from smartgo.client.administration.asking import named
from smartgo.errors import CallFailed
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import BrokerPath, ProcessQuery
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route
from smartgo.schema.bodies import BackupReport

BackupName = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]

_REFUSES: Final = {404: "There is no such broker."}


class BackupOrder(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """
    A backup to be made.

    @ivar name: of the directory that it gets beside the store's.
    @ivar rate_bytes: bytes per second that it copies at most; 0 for no limit.
    @ivar keep: how many of the newest complete backups stay when it is complete, itself included; 0: all,
        unless C{keep_seconds} is given.
    @ivar keep_seconds: backups that are younger stay, too; 0: only those that C{keep} names. Where it is given and
        C{keep} is 0, all that are older go, but the newest.
    """

    name: BackupName
    rate_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)] = 0
    keep: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 0
    keep_seconds: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)] = 0


class BackupView(msgspec.Struct, rename="camel"):
    """
    The last backup of a broker's store since its start; the state is empty if there is none.

    @ivar directory: on the broker's machine.
    @ivar state: C{running}, C{done}, C{failed}, C{cancelled} (its directory was removed), or empty.
    @ivar begun: in milliseconds since the epoch; C{ended} 0 while it runs.
    @ivar files: so far; C{linked}: of them are hard links.
    @ivar copied: bytes that were copied.
    @ivar size: bytes of all that is to be copied, holes of files left out, 0 until that is known; C{done}: of them are.
    @ivar end: physical offset up to which the log is in the backup.
    @ivar removed: names of older backups that were removed after it was complete.
    @ivar error: the reason of a failure.
    """

    name: str
    directory: str
    state: str
    begun: int
    ended: int
    files: int
    linked: int
    copied: int
    end: int
    error: str
    size: int
    done: int
    removed: list[str]


class BackupsApi:
    """Backups of brokers' stores."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    @route(
        "POST",
        "/brokers/{name}/backup",
        scope=ADMIN,
        path_type=BrokerPath,
        query=ProcessQuery,
        body=BackupOrder,
        answer=BackupView,
        refuses=_REFUSES,
    )
    async def begin(self, call: RouteCall[BrokerPath, ProcessQuery, BackupOrder]) -> BackupView:
        """
        Begin a backup of a broker's store, on the broker's own disk.

        The backup goes on after the answer; ask for it to see its end. The broker goes on working.
        """
        place = await self._view.process(call.path.name, call.query.id)
        try:
            order = call.body
            brokers = self._view.admin.brokers
            return _view(
                await brokers.backup(place.address, order.name, order.rate_bytes, order.keep, order.keep_seconds)
            )
        except CallFailed as error:
            raise named(f"broker {place.name}", error) from None

    @route(
        "DELETE",
        "/brokers/{name}/backup",
        scope=ADMIN,
        path_type=BrokerPath,
        query=ProcessQuery,
        answer=BackupView,
        refuses=_REFUSES,
    )
    async def cancel(self, call: RouteCall[BrokerPath, ProcessQuery, None]) -> BackupView:
        """
        Cancel the backup of a broker's store that runs, if one does, and remove what there is of it.

        The answer may still say that it runs; ask again to see its end.
        """
        place = await self._view.process(call.path.name, call.query.id)
        try:
            return _view(await self._view.admin.brokers.cancel_backup(place.address))
        except CallFailed as error:
            raise named(f"broker {place.name}", error) from None

    @route(
        "GET",
        "/brokers/{name}/backup",
        scope=READ,
        path_type=BrokerPath,
        query=ProcessQuery,
        answer=BackupView,
        refuses=_REFUSES,
    )
    async def show(self, call: RouteCall[BrokerPath, ProcessQuery, None]) -> BackupView:
        """Show how the last backup of a broker's store goes, or went."""
        place = await self._view.process(call.path.name, call.query.id)
        try:
            return _view(await self._view.partial(call.missing).admin.brokers.backup(place.address))
        except CallFailed as error:
            raise named(f"broker {place.name}", error) from None


def _view(report: BackupReport) -> BackupView:
    return BackupView(**{name: getattr(report, name) for name in BackupView.__struct_fields__})
