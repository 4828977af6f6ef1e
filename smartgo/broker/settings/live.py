"""
The settings in force, and the few that can be changed while the broker runs.

Which these are is a list of allowed ones, each followed by whom it concerns (reliability X7): never an address, a port,
a path, a name, or what decides who may do what. A change lasts until the broker is started again, or for good where
that is asked for: then it wins over defaults, environment and file at the next start, and only a flag of the command
line wins over it. Every change is remembered, and can be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from smartgo.broker.settings.changes import Asked, Change, Changes, Kept, Who, read_changes, written
from smartgo.broker.settings.current import CurrentSettings
from smartgo.config.catalog import Setting, find, names_of_paths, show, unknown
from smartgo.config.loading import Configuration
from smartgo.config.sources import Origin
from smartgo.env.interfaces import IClock
from smartgo.errors import BadBody, NoPermission, RequestRefused, SettingError
from smartgo.observer import ObserverList
from smartgo.schema.bodies import DataVersion
from smartgo.tablefile import TableFile

SHOWN: Final = ("broker", "store", "ha", "tls")
"""The tables whose settings administrators are told (26)."""
_TABLES: Final = (*SHOWN, "limits")


class Planned(NamedTuple):
    """A change that could be made."""

    setting: Setting
    before: str
    """As in a file."""
    after: str
    value: Any
    """C{after} as the code works with it."""
    origin: Origin = Origin("request")
    """Where it would come from."""


class LiveSettings:
    """
    The settings of one broker, and changes of them while it runs.

    @ivar current: what is in force, for those who read it each time they need it; the same object for good.
    @ivar version: changes with every change.
    @ivar requested: told of whatever is asked for over remoting, done or declined.
    """

    _log = Logger()

    def __init__(
        self,
        clock: IClock,
        configuration: Configuration,
        settled: Mapping[str, str] | None = None,
        file: TableFile | None = None,
    ) -> None:
        """
        @param settled: what is shown of some settings instead of what was configured, and more than these.
        @param file: where changes are remembered; without one they are forgotten at the end.
        """
        self._clock = clock
        self._settled = dict(settled or {})
        self._file = file
        self._followers: dict[str, Callable[[Any], object] | None] = {}
        self.requested: ObserverList[[Asked]] = ObserverList("a request to change settings")
        self._given = configuration
        self._changes = Changes({}, [])
        self._durable: dict[str, Kept] = {}  # what the file has of what is kept
        self._restored: list[Planned] = []
        self.current = CurrentSettings(configuration)
        self.version = DataVersion(timestamp=clock.wall_ms(), counter=0)

    def allow(self, *names: str) -> None:
        """Allow changes of the settings that are read from L{current} at each use."""
        self._followers.update(dict.fromkeys(names))

    def follow(self, name: str, take: Callable[[Any], object]) -> None:
        """Allow changes of a setting: C{take} is called with its new value, and must not fail."""
        self._followers[name] = take

    def _tell_follower(self, planned: Planned) -> None:
        take = self._followers[planned.setting.name]
        if take is not None:
            take(planned.value)

    @property
    def configuration(self) -> Configuration:
        """The configuration in force, origins included; every change replaces the object."""
        return self.current.configuration

    @property
    def changeable(self) -> list[str]:
        """The names of the settings that can be changed, sorted."""
        return sorted(self._followers)

    @property
    def history(self) -> list[Change]:
        """The recorded changes, oldest first."""
        return list(self._changes.history)

    def shown(self, paths: bool = True) -> Iterator[tuple[str, str]]:
        """
        Yield every setting as (name, text), secrets hidden.

        @param paths: whether whoever asks may know paths; else these are hidden too.
        """
        more = dict(self._settled)
        for table in SHOWN:
            hidden = set() if paths else names_of_paths(table)
            for name, text in show(table, getattr(self.configuration, table)):
                text = more.pop(name, text)
                yield name, "***" if text and name in hidden else text
        yield from more.items()

    # -- the start ---------------------------------------------------------------------------------------------

    def load(self) -> None:
        """
        Read what was changed before, and let what is kept be in force; blocking. Who follows is told by L{begin}.

        @raise BrokenTable: the file cannot be read.
        """
        found = None if self._file is None else self._file.load(read_changes)
        self._changes = found or Changes({}, [])
        self._durable = dict(self._changes.kept)
        self._restored = []
        self.current.replace(self._given)
        for key, kept in self._changes.kept.items():
            planned = self._restorable(key, kept)
            if planned is not None:
                self._put(planned, Origin("kept"))
                self._restored.append(planned)

    def _restorable(self, key: str, kept: Kept) -> Planned | None:
        table, _, name = key.partition(".")
        said = f"which {kept.who} set at {written(kept.at_ms)}"
        try:
            planned = self._planned(name, kept.value)
        except RequestRefused as error:
            self._log.warn(
                "{name} is not {value}, {said}: {error}", name=name, value=kept.value, said=said, error=error
            )
            return None
        origin = self._given.origins.get((table, planned.setting.name))
        if origin is not None and origin.source == "flag":
            self._log.warn(
                "{name} is {value} by the command line; the value {kept}, {said}, has no effect",
                name=name,
                value=planned.before,
                kept=planned.after,
                said=said,
            )
            return None
        return planned

    def begin(self) -> None:
        """Apply the kept values to the followers; called once all followers are there."""
        for planned in self._restored:
            self._tell_follower(planned)
            self._log.info(
                "{name} is {after}, a change kept from before, instead of {before}",
                name=planned.setting.name,
                after=planned.after,
                before=planned.before,
            )

    # -- changes -----------------------------------------------------------------------------------------------

    def plan(self, changes: Iterable[tuple[str, str]], keep: bool = False) -> list[Planned]:
        """
        Return what changes would do.

        @param changes: names, and values as in a file.
        @param keep: over a restart, too.
        @raise NoPermission: a setting that cannot be changed while the broker runs; the message names those that can.
        @raise BadBody: an unknown setting, or a value that is not allowed.
        @raise RequestRefused: one that cannot be kept, as the command line names it.
        """
        found = [self._planned(name, text) for name, text in changes]
        for one in found:
            origin = self._given.origins.get((one.setting.table, one.setting.name))
            if keep and origin is not None and origin.source == "flag":
                raise RequestRefused(
                    f"{one.setting.name} cannot be kept: the command line sets it at every start;"
                    " change it there, or until the next start alone"
                )
        return [one._replace(origin=Origin("kept")) for one in found] if keep else found

    def change(self, changes: Iterable[tuple[str, str]], who: Who, keep: bool = False) -> Deferred[list[Change]]:
        """
        Change some settings, all or none.

        @param keep: over a restart, too.
        @return: fires when it is written, and is in force before; see L{Change}. Cancelling is not supported.
        @raise RequestRefused: at once, as L{plan}; through the Deferred where it could not be written that a change is
            kept: then it lasts until the next start.
        """
        planned = {_key(one.setting): one for one in self.plan(changes, keep)}
        now = self._clock.wall_ms()
        made = []
        for key, one in planned.items():
            kept_before = self._changes.kept.get(key)
            kept = Kept(one.after, who.name, who.address, now) if keep else kept_before
            same_kept = kept_before is kept or (kept_before is not None and kept_before.value == one.after)
            if one.before != one.after or not same_kept:
                made.append(self._make(one, who, kept_before, kept))
        return self._write(made)

    def undo(self, change: Change, who: Who) -> Deferred[list[Change]]:
        """
        Undo a change: put the value before it in force again, and keep what was kept before.

        @return: as L{change} does, the change that takes it back.
        @raise RequestRefused: it was changed again since, or cannot be changed any more.
        """
        planned = self.plan_undo(change)
        kept_before = self._changes.kept.get(_key(planned.setting))
        return self._write([self._make(planned, who, kept_before, self._kept_undone(change), change.id)])

    def undoable(self, change: Change) -> bool:
        """Tell whether a change can be undone: the setting can still be changed, and has the value of that change."""
        try:
            self.plan_undo(change)
        except RequestRefused:
            return False
        return True

    def plan_undo(self, change: Change) -> Planned:
        """Return what L{undo} would do. @raise RequestRefused: as there."""
        planned = self._planned(change.name, change.before)
        if planned.before != change.after:
            raise RequestRefused(self._not_undoable(change, planned.before))
        kept = self._kept_undone(change)
        return planned._replace(origin=self._origin(planned, kept, planned.origin))

    def _not_undoable(self, change: Change, now: str) -> str:
        """Return why a change cannot be undone: it was undone already, or the setting was changed since."""
        last = next((one for one in reversed(self._changes.history) if one.key == change.key), change)
        if last.undoes == change.id:
            return f"change {change.id} was undone already, by change {last.id}"
        first = f"; undo change {last.id} first" if last.id != change.id else ""
        return f"{change.name} is {now} by now, not {change.after}{first}"

    def _kept_undone(self, change: Change) -> Kept | None:
        """Return what is kept once a change is undone: what was kept before it, unless that was changed since."""
        kept = self._changes.kept.get(change.key)
        return change.kept_before if kept == change.kept_after else kept

    def _make(
        self, planned: Planned, who: Who, kept_before: Kept | None, kept: Kept | None, undoes: int | None = None
    ) -> Change:
        setting = planned.setting
        now = self._clock.wall_ms()
        change = Change(
            self._changes.next_id, now, who.name, who.address, setting.table, setting.name, planned.before,
            planned.after, kept_before, kept, undoes,
        )  # fmt: skip
        self._changes.add(change)
        self._put(planned, Origin("request", f"by {who} at {written(now)}"))
        self._tell_follower(planned)
        self._log.info(
            "{who} changed {name} from {old} to {new}",
            who=str(who),
            name=setting.name,
            old=planned.before,
            new=planned.after,
        )
        return change

    def _write(self, made: list[Change]) -> Deferred[list[Change]]:
        if made:
            self.version = DataVersion(timestamp=self._clock.wall_ms(), counter=self.version.counter + 1)
        return Deferred.fromCoroutine(self._written(made))

    async def _written(self, made: list[Change]) -> list[Change]:
        if self._file is None or not made:
            return made
        try:
            await self._file.save(self._changes)
        except OSError as error:
            self._log.warn("{path} was not written: {error}", path=self._file.path, error=str(error))
            lost = [one for one in made if one.kept_before != one.kept_after]
            if lost:
                self._forget(lost)
                raise RequestRefused(
                    f"{', '.join(one.name for one in lost)}: in effect only until the next start, because the file"
                    f" could not be written: {error}"
                ) from None
        else:
            for one in made:
                if one.kept_after is None:
                    self._durable.pop(one.key, None)
                else:
                    self._durable[one.key] = one.kept_after
        return made

    def _forget(self, lost: list[Change]) -> None:
        """Count values that could not be written as not kept; what the file holds stays kept."""
        left = []
        for one in lost:
            kept = self._durable.get(one.key)
            if self._changes.kept.get(one.key) == one.kept_after:
                self._changes.keep(one.key, kept)
                self._put_origin(one.table, one.name, Origin("request", f"by {one.who} at {written(one.at_ms)}"))
            left.append(msgspec.structs.replace(one, kept_before=kept, kept_after=kept))
        self._changes.replace(lost, left)

    # -- inside ------------------------------------------------------------------------------------------------

    def _planned(self, name: str, text: str) -> Planned:
        setting = find(name, _TABLES)
        if setting is None:
            raise BadBody(unknown(name, _TABLES))
        if setting.name not in self._followers:
            raise NoPermission(
                f"{setting.name} cannot be changed while the broker runs; {', '.join(self.changeable)} can"
            )
        try:
            value = setting.read(text, "request")
        except SettingError as error:
            raise BadBody(str(error)) from None
        now = getattr(getattr(self.configuration, setting.table), setting.attribute)
        return Planned(setting, setting.kind.show(now), setting.kind.show(value), value)

    def _put(self, planned: Planned, otherwise: Origin) -> None:
        """Put a value in force, with its origin."""
        setting = planned.setting
        table = getattr(self.configuration, setting.table)
        changed = {setting.table: msgspec.structs.replace(table, **{setting.attribute: planned.value})}
        self.current.replace(msgspec.structs.replace(self.configuration, **changed))
        self._put_origin(
            setting.table, setting.name, self._origin(planned, self._changes.kept.get(_key(setting)), otherwise)
        )

    def _origin(self, planned: Planned, kept: Kept | None, otherwise: Origin) -> Origin:
        """Return the origin of a value: kept over a restart, given at the start, or changed since."""
        setting = planned.setting
        if kept is not None and kept.value == planned.after:
            return Origin("kept", f"by {Who(kept.who, kept.address)} at {written(kept.at_ms)}")
        if getattr(getattr(self._given, setting.table), setting.attribute) == planned.value:
            return self._given.origins.get((setting.table, setting.name), Origin("default"))
        return otherwise

    def _put_origin(self, table: str, name: str, origin: Origin) -> None:
        origins = {**self.configuration.origins, (table, name): origin}
        self.current.replace(msgspec.structs.replace(self.configuration, origins=origins))


def _key(setting: Setting) -> str:
    return f"{setting.table}.{setting.name}"
