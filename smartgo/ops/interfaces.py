"""The interface of the API to the process that it runs in, if that is a broker or a registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgspec
from twisted.internet.defer import Deferred
from zope.interface import Interface

from smartgo.health.readiness import PartState


class SettingValue(msgspec.Struct, rename="camel"):
    """
    One setting as it is in force.

    @ivar value: as in a file; secrets are C{***}.
    @ivar origin: C{default}, C{environment}, C{file}, C{kept} if it was changed at run time and survives restarts,
        C{flag}, or C{request} if it was changed at run time until the next restart.
    @ivar place: the variable, file or flag, or who changed it and when.
    @ivar allowed: allowed values; C{choices} lists them if there are only a few.
    @ivar changeable: whether it can be changed while the process runs.
    """

    table: str
    name: str
    value: str
    default: str
    origin: str
    place: str
    about: str
    allowed: str
    choices: list[str]
    changeable: bool


class ChangedSetting(SettingValue):
    """
    One setting that is changed, or would be.

    @ivar before: its value before.
    """

    before: str


class AskedSettings(NamedTuple):
    """
    A change of settings that was asked for over remoting (25).

    @ivar address: C{host:port} of the connection.
    @ivar changes: values as in a file, by name; C{before} what they were, empty where nothing was changed.
    @ivar error: why it was declined.
    """

    address: str
    changes: Mapping[str, str]
    before: Mapping[str, str]
    error: BaseException | None


class SettingChange(msgspec.Struct, rename="camel"):
    """
    One change of a setting.

    @ivar at_ms: wall clock; C{address} is from where.
    @ivar before: the value before, as in a file; C{after} since.
    @ivar kept: whether it survives restarts.
    @ivar undoes: the change that this one undid.
    @ivar undone_by: the change that undid this one.
    @ivar undoable: whether it can be undone: the setting was not changed since.
    """

    id: int
    at_ms: int
    who: str
    address: str
    table: str
    name: str
    before: str
    after: str
    kept: bool
    undoes: int | None
    undone_by: int | None
    undoable: bool


class ClosedConnection(msgspec.Struct, rename="camel"):
    """
    One connection that was closed.

    @ivar address: C{host:port} of the client.
    @ivar producer_groups: in which it was; C{consumer_groups} likewise.
    """

    broker: str
    address: str
    producer_groups: list[str]
    consumer_groups: list[str]


class DamagedRegion(msgspec.Struct, rename="camel"):
    """
    One damaged region of the log; nothing in it is delivered.

    @ivar offset: physical offset of its first byte; C{length} in bytes.
    @ivar reason: the check that failed.
    @ivar topic: what the damaged record says of itself; empty where that cannot be read, and then C{queue_id} and
        C{queue_offset} are -1.
    @ivar found_ms: when it was found.
    @ivar saved: file in C{quarantine/} with a copy of the bytes; empty where there is none.
    """

    offset: int
    length: int
    reason: str
    topic: str
    queue_id: int
    queue_offset: int
    found_ms: int
    saved: str


class ScrubReport(msgspec.Struct, rename="camel"):
    """
    Progress of the scrub, and the result of the last complete one. Times are wall clock in ms, 0 for none.

    @ivar checked_bytes: of C{total_bytes} that the present scrub has to check; both 0 where none runs.
    @ivar seconds_left: how long it will still take.
    @ivar records: how many messages it found right; C{damaged}: how many damaged regions it found.
    @ivar rate_bytes: bytes per second that a scrub reads.
    @ivar next_ms: when the next one begins by itself; 0 where none does, or one runs.
    """

    running: bool
    checked_bytes: int
    total_bytes: int
    seconds_left: float
    records: int
    damaged: int
    begun_ms: int
    last_ended_ms: int
    last_bytes: int
    last_records: int
    last_damaged: int
    rate_bytes: int = 0
    next_ms: int = 0


class IntegrityReport(msgspec.Struct, rename="camel"):
    """
    The known damage of this process's log.

    @ivar regions: how many damaged regions there are, of C{bytes}; C{found} of them were found since the start.
    @ivar newest: the last ones in the log, at most 100.
    @ivar repaired: how many were put right since the start.
    """

    regions: int
    bytes: int
    found: int
    newest: list[DamagedRegion]
    scrub: ScrubReport
    repaired: int = 0


class RecoveryReport(msgspec.Struct, rename="camel"):
    """
    Progress of the recovery of the broker's store.

    @ivar read_bytes: of at most C{total_bytes} of the log that are read; both begin anew where all of the log has to be
        read as well.
    @ivar percent: how much that is, 0 to 100.
    @ivar seconds_left: how long it will still take at most; null while that is not known.
    """

    read_bytes: int
    total_bytes: int
    percent: float
    seconds_left: float | None


class ILocalNode(Interface):
    """
    The process around the API. Called on the reactor thread; answers at once.
    """

    def settings() -> Iterable[SettingValue]:
        """Every setting with its value and where that came from."""

    def plan(changes: Mapping[str, str], keep: bool) -> list[ChangedSetting]:
        """
        Return what changes would do.

        @param changes: names, and values as in a file.
        @param keep: over a restart, too.
        @raise smartgo.errors.NoPermission: one cannot be changed while the process runs.
        @raise smartgo.errors.BadBody: an unknown one, or a value that is not allowed.
        @raise smartgo.errors.RequestRefused: it cannot be kept.
        @raise smartgo.errors.ServiceNotAvailable: the broker has not started.
        """

    def change(changes: Mapping[str, str], who: str, address: str, keep: bool) -> Deferred[list[ChangedSetting]]:
        """
        Change settings, all or none: at once; fires when that is written.

        @param who: asks for it, C{address} is from where.
        @raise smartgo.errors.SmartgoError: at once, as L{plan}; through the Deferred, where it could not be written
            that it is kept.
        """

    def history() -> list[SettingChange]:
        """Return the latest changes, newest first."""

    def plan_undo(id: int) -> list[ChangedSetting]:
        """
        Return what undoing a change would do.

        @raise LookupError: there is no such change.
        @raise smartgo.errors.RequestRefused: it was changed again since, or cannot be changed any more.
        @raise smartgo.errors.ServiceNotAvailable: the broker has not started.
        """

    def undo(id: int, who: str, address: str) -> Deferred[list[ChangedSetting]]:
        """Undo a change; fires and raises as L{change} and L{plan_undo}."""

    def hear(take: Callable[[AskedSettings], object]) -> None:
        """Have C{take} called with every change of settings that is asked for over remoting, done or declined."""

    def close_client(client_id: str, reason: str) -> list[ClosedConnection]:
        """
        Close the connections to this process's broker over which a client is in a group; nothing where there are none.

        @param reason: for the log.
        """

    def broker_process() -> tuple[str, int] | None:
        """Return name and id of the broker in this process; C{None} where there is none."""

    def checks() -> Iterable[PartState]:
        """Return the states of the parts that must be well for the process to serve; it is ready when all are."""

    def recovery() -> RecoveryReport | None:
        """Return how far the recovery of the broker's store is; C{None} where none reads the log."""

    def figures() -> Mapping[str, float]:
        """Figures that no request of the remoting protocol tells: reactor stalls, bytes that wait for the disk."""

    def integrity() -> IntegrityReport | None:
        """Return what is damaged in the broker's log; C{None} where no broker has started."""

    def scrub(running: bool) -> IntegrityReport | None:
        """Begin a scrub of the broker's log, or end it; return as L{integrity}."""
