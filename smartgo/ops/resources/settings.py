"""Resources about the settings of the process: values, changes, the history of changes."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta
from twisted.internet.defer import Deferred

from smartgo.env.interfaces import IEnvironment
from smartgo.ops.interfaces import AskedSettings, ChangedSetting, ILocalNode, SettingChange, SettingValue
from smartgo.ops.problems import Problem, problem_of
from smartgo.ops.security.audit import AuditEntry, AuditLog, shown
from smartgo.ops.security.principals import REMOTING
from smartgo.ops.web.pagination import ListQuery, Page, page_of
from smartgo.ops.web.routes import ADMIN, RouteCall, route

SettingName = Annotated[str, Meta(min_length=1, max_length=64, pattern="^[A-Za-z0-9.]+$")]
SettingText = Annotated[str, Meta(max_length=1024)]


ChangesChanges = Annotated[dict[SettingName, SettingText], Meta(min_length=1, max_length=32)]


class SettingChanges(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """
    Settings to change.

    @ivar changes: values as in a file, by name.
    @ivar keep: keep the values across restarts: they override the settings file; only command-line flags override them.
    @ivar dry_run: only report what would be changed.
    """

    schema_name: ClassVar = "Changes"

    changes: ChangesChanges
    keep: bool = False
    dry_run: bool = False


class Undo(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """
    Options for undoing a change.

    @ivar dry_run: only report what would be changed.
    """

    dry_run: bool = False


ChangeId = Annotated[str, Meta(pattern="^[0-9]{1,15}$", description="The change's id.")]


class ChangePath(msgspec.Struct):
    """One change of a setting."""

    id: ChangeId


ChangesSetting = Annotated[str, Meta(max_length=64, description="Only those of one setting.")]


class ChangesQuery(ListQuery, kw_only=True):
    """Filters of changes; C{q} is searched in the setting's name and in the author's."""

    setting: ChangesSetting = ""


SettingsTable = Annotated[str, Meta(max_length=32, description="Only those of one table.")]
SettingsChanged = Annotated[
    bool | None, Meta(description="true: only settings that were set; false: only those that have their defaults.")
]
SettingsChangeable = Annotated[
    bool | None, Meta(description="true: only settings that can be changed at run time; false: only those that cannot.")
]


class SettingsQuery(ListQuery, kw_only=True):
    """Filters of settings."""

    table: SettingsTable = ""
    changed: SettingsChanged = None
    changeable: SettingsChangeable = None


_STARTING: Final = "The broker of this process has not started, or too many requests are in progress."


class SettingsApi:
    """Settings."""

    def __init__(self, node: ILocalNode | None) -> None:
        """@param node: the process around the API; C{None} where it fronts a cluster from outside."""
        self._node = node

    @route("GET", "/config", scope=ADMIN, query=SettingsQuery, answer=Page[SettingValue], remote=False, tag="process")
    def settings(self, call: RouteCall[None, SettingsQuery, None]) -> Page[SettingValue]:
        """List the settings of this process and where each comes from; sorted by name, table or origin."""
        rows = [] if self._node is None else list(self._node.settings())
        query = call.query
        if query.table:
            rows = [one for one in rows if one.table == query.table]
        if query.changed is not None:
            rows = [one for one in rows if (one.origin != "default") == query.changed]
        if query.changeable is not None:
            rows = [one for one in rows if one.changeable == query.changeable]
        sorts = {"name": lambda one: one.name, "table": lambda one: one.table, "origin": lambda one: one.origin}
        return page_of(rows, query, sorts, lambda one: f"{one.table}.{one.name}", "table")

    @route(
        "PATCH",
        "/config",
        scope=ADMIN,
        body=SettingChanges,
        answer=list[ChangedSetting],
        remote=False,
        tag="process",
        refuses={
            403: "A setting cannot be changed while the process runs, or the scope is missing.",
            409: "This process has no broker of its own; or a setting to keep is given by a flag; or it could not be"
            " written.",
            503: _STARTING,
        },
    )
    def change(
        self, call: RouteCall[None, None, SettingChanges]
    ) -> list[ChangedSetting] | Deferred[list[ChangedSetting]]:
        """
        Change settings of this process, all or none; returns the new values.

        Only C{changeable} settings: never addresses, paths, names or access rights. They take effect at once and last
        until the next restart, or beyond it with C{keep}. The audit log and C{GET /config/history} record the previous
        values.
        """
        node, body = self._local, call.body
        planned = node.plan(body.changes, body.keep)
        call.noted["before"] = {one.name: one.before for one in planned}
        if body.dry_run:
            return planned
        return node.change(body.changes, call.principal.name, call.address, body.keep)

    @property
    def _local(self) -> ILocalNode:
        if self._node is None:
            raise Problem(409, "this process has no broker", "not-local")
        return self._node

    # -- what was changed --------------------------------------------------------------------------------------

    @route(
        "GET",
        "/config/history",
        scope=ADMIN,
        query=ChangesQuery,
        answer=Page[SettingChange],
        remote=False,
        tag="process",
    )
    def history(self, call: RouteCall[None, ChangesQuery, None]) -> Page[SettingChange]:
        """
        List changes of settings, newest first; sorted by id, atMs, name or who.

        Changes made over the remoting protocol (request code 25) are included. The last 500 are kept, across restarts.
        """
        query = call.query
        rows = [] if self._node is None else self._node.history()
        if query.setting:
            rows = [one for one in rows if one.name == query.setting]
        return page_of(rows, query, _CHANGE_SORTS, lambda one: f"{one.name} {one.who}", "-id")

    @route(
        "POST",
        "/config/history/{id}/undo",
        scope=ADMIN,
        path_type=ChangePath,
        body=Undo,
        answer=list[ChangedSetting],
        remote=False,
        tag="process",
        refuses={
            403: "It cannot be changed while the process runs, or the scope is missing.",
            404: "There is no such change, or it is no longer kept.",
            409: "The setting was changed again since; or this process has no broker of its own.",
            503: _STARTING,
        },
    )
    def undo(self, call: RouteCall[ChangePath, None, Undo]) -> list[ChangedSetting] | Deferred[list[ChangedSetting]]:
        """
        Undo one change: restore the previous value, in force and kept across restarts.

        An undo is a change like any other and can itself be undone.
        """
        node, change = self._local, int(call.path.id)
        try:
            planned = node.plan_undo(change)
        except LookupError:
            raise Problem(404, f"there is no change {change}, or it is no longer kept", "change-not-found") from None
        call.noted["before"] = {one.name: one.before for one in planned}
        call.noted["after"] = {one.name: one.value for one in planned}
        return planned if call.body.dry_run else node.undo(change, call.principal.name, call.address)


def note_asked(env: IEnvironment, audit: AuditLog, asked: AskedSettings) -> None:
    """Record a change of settings that was requested over remoting in the audit log (reliability X7)."""
    problem = None if asked.error is None else problem_of(asked.error) or Problem(500, "an internal error")
    detail = {"changes": shown(dict(asked.changes))}
    if asked.before:
        detail["before"] = shown(dict(asked.before))
    entry = AuditEntry(
        env.clock.wall_ms(),
        env.random.token(8).hex(),
        REMOTING,
        asked.address,
        "UPDATE_BROKER_CONFIG",
        {},
        detail,
        200 if problem is None else problem.status,
        "" if problem is None else problem.code,
    )
    if problem is None:
        audit.add(entry)
    else:
        audit.add_common(entry)


_CHANGE_SORTS: Final = {
    "id": lambda one: one.id,
    "atMs": lambda one: (one.at_ms, one.id),
    "name": lambda one: (one.name, one.id),
    "who": lambda one: (one.who, one.id),
}
