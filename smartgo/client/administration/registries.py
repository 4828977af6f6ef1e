"""Registries: their settings, and the values they keep by namespace and key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from smartgo.client.administration.asking import Asking, body_of, deferred
from smartgo.client.administration.brokers import settings_body, settings_of
from smartgo.client.client import header_of
from smartgo.errors import PeerRefused
from smartgo.schema.bodies import KVTable
from smartgo.schema.codes import RequestCode, ResponseCode
from smartgo.schema.headers.registry import (
    DeleteKVConfigRequest,
    GetKVConfigRequest,
    GetKVConfigResponse,
    KVListRequest,
    PutKVConfigRequest,
)

ORDER_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"
"""Its keys are order topics, its values say C{broker:queues}, joined by semicolons."""


class Registries:
    """Queries and changes of registries. The methods fail as L{smartgo.client.admin.Admin} says."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    @property
    def addresses(self) -> tuple[str, ...]:
        """C{host:port} of each."""
        return tuple(self._asking.client.registries)

    @deferred
    async def values(self, namespace: str) -> dict[str, str]:
        """Return all values of a namespace by key; empty if there is no such namespace."""
        try:
            answer = await self._asking.registry(
                RequestCode.GET_KVLIST_BY_NAMESPACE, KVListRequest(namespace=namespace)
            )
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.QUERY_NOT_FOUND:
                return {}
            raise
        return body_of(KVTable, answer).table

    @deferred
    async def value(self, namespace: str, key: str) -> str | None:
        """Return one value; C{None} if there is none."""
        try:
            answer = await self._asking.registry(
                RequestCode.GET_KV_CONFIG, GetKVConfigRequest(namespace=namespace, key=key)
            )
        except PeerRefused as refusal:
            if refusal.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise
        return header_of(GetKVConfigResponse, answer).value

    @deferred
    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value at all registries."""
        await self._asking.registries(
            RequestCode.PUT_KV_CONFIG, PutKVConfigRequest(namespace=namespace, key=key, value=value)
        )

    @deferred
    async def delete(self, namespace: str, key: str) -> None:
        """Delete a value from all registries; a value that does not exist is no failure."""
        await self._asking.registries(RequestCode.DELETE_KV_CONFIG, DeleteKVConfigRequest(namespace=namespace, key=key))

    @deferred
    async def settings(self, address: str) -> dict[str, str]:
        """Return the settings of one registry by name."""
        return settings_of(await self._asking.broker(address, RequestCode.GET_NAMESRV_CONFIG))

    @deferred
    async def change_settings(self, changes: Mapping[str, str]) -> None:
        """Change settings of all registries that can be changed while they run."""
        await self._asking.registries(RequestCode.UPDATE_NAMESRV_CONFIG, body=settings_body(changes))
