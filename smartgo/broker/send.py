"""One message on its way from a producer into the store, decoded once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from smartgo.remoting.interfaces import IPeer
from smartgo.schema.command import Command
from smartgo.schema.headers.send import SendRequest
from smartgo.schema.message import HOSTS_MASK, NewMessage
from smartgo.schema.properties import encode


@dataclass(frozen=True, slots=True)
class Send:
    """
    A message that was admitted and is not stored yet; a stage makes another with C{dataclasses.replace}.

    @ivar topic: where it will be stored; a stage may change it, as the next.
    @ivar properties: by name, with CLUSTER, and with WAIT as the producer set it: what a rewritten message carries.
    @ivar stored_properties: as they will be stored; L{with_properties} keeps them equal to C{properties}.
    @ivar answered_queue_id: the queue id that the producer is told.
    @ivar recall_handle: of a timed message: what the producer is told to recall it by.
    """

    peer: IPeer
    request: Command
    header: SendRequest
    topic: str
    queue_id: int
    answered_queue_id: int
    properties: Mapping[str, str]
    stored_properties: bytes
    tag_code: int
    recall_handle: str | None = None

    def with_properties(self, properties: Mapping[str, str]) -> Send:
        """Return the same message with other properties."""
        return replace(self, properties=properties, stored_properties=encode(properties))

    def message(self, store_host: bytes) -> NewMessage:
        """Return what the store appends."""
        header = self.header
        return NewMessage(
            self.topic,
            self.queue_id,
            self.request.body,
            self.stored_properties,
            header.flag,
            header.sys_flag & ~HOSTS_MASK,
            header.born_timestamp,
            self.peer.host,
            store_host,
            header.reconsume_times,
            0,
            self.tag_code,
        )
