"""The resource of the damaged messages in the queues that a consumer group reads."""

from __future__ import annotations

from typing import Final

import msgspec

from smartgo.errors import CallFailed, PeerRefused
from smartgo.ops.reading.progress import ProgressReader
from smartgo.ops.reading.view import ClusterView, each
from smartgo.ops.resources.names import GroupPath
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.routes import READ, RouteCall, route
from smartgo.schema.bodies import DamagedRange
from smartgo.schema.codes import ResponseCode

_GONE: Final = {404: "There is no such group."}


class DamagedMessage(msgspec.Struct, rename="camel"):
    """
    A damaged message in a queue that a group reads; it is not delivered.

    @ivar queue_offset: of the message; C{log_offset} the physical offset of its record.
    @ivar skipped: whether the group's offset has passed it: it was not delivered, unless that was before the damage was
        found. Otherwise the group will skip it.
    @ivar found_ms: when the damage was found, wall clock.
    @ivar saved: file in the broker's C{quarantine/} with a copy of the bytes; empty where there is none.
    """

    topic: str
    broker: str
    queue_id: int
    queue_offset: int
    log_offset: int
    reason: str
    skipped: bool
    found_ms: int
    saved: str


class GroupDamageApi:
    """Damage that consumer groups meet."""

    def __init__(self, view: ClusterView, progress: ProgressReader) -> None:
        self._view = view
        self._progress = progress

    @route(
        "GET",
        "/groups/{name}/damage",
        scope=READ,
        path_type=GroupPath,
        query=ListQuery,
        answer=Page[DamagedMessage],
        refuses=_GONE,
    )
    async def damage(self, call: RouteCall[GroupPath, ListQuery, None]) -> Page[DamagedMessage]:
        """
        List the damaged messages in the queues that a group has offsets in; sorted by queue or foundMs.

        Of each broker the last 100 damaged regions are looked at. Regions in which no message can be recognized are not
        listed: they are in `GET /brokers/{name}/store`.
        """
        view = self._view.partial(call.missing)
        entry = await view.group(call.path.name)
        stats = await self._progress.stats(entry.name, call.missing)
        offsets = {
            (one.topic, one.broker_name, one.queue_id): found.consumer_offset
            for one, found in stats.offset_table.items()
        }
        names = {broker for _, broker, _ in offsets}
        places = [one for one in await view.brokers.get() if one.id == 0 and one.name in names]

        async def ask(name: str, address: str) -> list[DamagedRange]:
            try:
                return list((await view.admin.brokers.store_state(address)).newest)
            except CallFailed as error:
                unknown = isinstance(error, PeerRefused) and error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
                if not unknown:  # a broker of RocketMQ finds no damage
                    call.missing.note(name, error)
                return []

        told = await each(places, lambda one: ask(one.name, one.address))
        rows = []
        for place, regions in zip(places, told, strict=True):
            for one in regions:
                offset = offsets.get((one.topic, place.name, one.queue_id))
                if offset is not None:
                    rows.append(_row(place.name, one, offset))
        return page_of(rows, call.query, _SORTS, lambda one: one.topic, "queue")


def _row(broker: str, one: DamagedRange, offset: int) -> DamagedMessage:
    return DamagedMessage(
        one.topic,
        broker,
        one.queue_id,
        one.queue_offset,
        one.offset,
        one.reason,
        one.queue_offset < offset,
        one.found,
        one.saved,
    )


_SORTS: Final = {
    "queue": lambda one: (one.topic, one.broker, one.queue_id, one.queue_offset),
    "foundMs": lambda one: one.found_ms,
}
