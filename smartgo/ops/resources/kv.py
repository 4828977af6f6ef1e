"""The resource of the values that registries keep."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from smartgo.ops.problems import Problem
from smartgo.ops.reading.view import ClusterView
from smartgo.ops.resources.names import KvPath, NamespacePath
from smartgo.ops.security.principals import is_secret
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.routes import ADMIN, READ, RouteCall, route

_NO_VALUE: Final = {404: "There is no such value."}


class NameValue(msgspec.Struct, rename="camel"):
    """One value by its name."""

    name: str
    value: str


KvValue = Annotated[str, Meta(max_length=32_768)]


class KvBody(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """A value."""

    value: KvValue


class KvApi:
    """Values of registries, by namespace and key."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view

    @route("GET", "/kv/{namespace}", scope=READ, path_type=NamespacePath, query=ListQuery, answer=Page[NameValue])
    async def values(self, call: RouteCall[NamespacePath, ListQuery, None]) -> Page[NameValue]:
        """
        List the values of a namespace; empty if there is no such namespace.

        Values whose name or namespace looks like that of a secret are shown as `***` without the scope admin.
        """
        found = await self._view.admin.registries.values(call.path.namespace)
        rows = [NameValue(name, self._shown(call, name, value)) for name, value in found.items()]
        return page_of(rows, call.query, {"name": lambda one: one.name}, lambda one: one.name, "name")

    @route("GET", "/kv/{namespace}/{key}", scope=READ, path_type=KvPath, answer=NameValue, refuses=_NO_VALUE)
    async def value(self, call: RouteCall[KvPath, None, None]) -> NameValue:
        """Show one value, hidden as in the list."""
        return NameValue(call.path.key, self._shown(call, call.path.key, await self._value(call.path)))

    def _shown(self, call: RouteCall[Any, Any, Any], key: str, value: str) -> str:
        secret = is_secret(call.path.namespace) or is_secret(key)
        return "***" if value and secret and not call.principal.may(ADMIN) else value

    async def _value(self, path: KvPath) -> str:
        found = await self._view.admin.registries.value(path.namespace, path.key)
        if found is None:
            raise Problem(404, f"there is no value {path.key} in {path.namespace}", "value-not-found")
        return found

    @route("PUT", "/kv/{namespace}/{key}", scope=ADMIN, path_type=KvPath, body=KvBody, answer=NameValue)
    async def put(self, call: RouteCall[KvPath, None, KvBody]) -> NameValue:
        """Store a value at all registries."""
        path = call.path
        call.noted["before"] = await self._view.admin.registries.value(path.namespace, path.key)
        await self._view.admin.registries.put(path.namespace, path.key, call.body.value)
        return NameValue(path.key, call.body.value)

    @route("DELETE", "/kv/{namespace}/{key}", scope=ADMIN, path_type=KvPath, refuses=_NO_VALUE)
    async def delete(self, call: RouteCall[KvPath, None, None]) -> None:
        """Remove a value from all registries."""
        call.noted["before"] = await self._value(call.path)
        await self._view.admin.registries.delete(call.path.namespace, call.path.key)
