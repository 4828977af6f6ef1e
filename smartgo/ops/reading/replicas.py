"""Replication in a broker's runtime information: the slaves of a master, the state of a slave."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

_SLAVE = "haSlave_"


class SlaveRow(msgspec.Struct, rename="camel"):
    """
    One slave that follows a master.

    @ivar confirmed: physical offset up to which it has confirmed the log; -1 before the first confirmation.
    @ivar behind: bytes of the log that it does not have yet.
    @ivar connected_seconds: how long it has been connected.
    """

    address: str
    confirmed: int
    behind: int
    connected_seconds: int


class FollowingRow(msgspec.Struct, rename="camel"):
    """
    The replication state of a slave.

    @ivar state: C{NO_MASTER}, C{CONNECTING}, C{CATCHING_UP}, C{FOLLOWING}, C{STOPPED}; C{DIVERGED} needs a decision by
        an operator.
    @ivar reason: why it does not replicate; empty while it does.
    @ivar behind: bytes of the master's log that it does not have yet; null if unknown.
    @ivar master: the master's address for slaves; null while unknown.
    @ivar tables_ms: when topics, groups and offsets were last equal to the master's, wall clock; null for never.
    @ivar tables_reason: why they are not copied; empty while they are.
    """

    state: str
    reason: str
    behind: int | None
    master: str | None
    tables_ms: int | None
    tables_reason: str


def slaves_of(runtime: Mapping[str, str]) -> list[SlaveRow]:
    """Return the slaves that a broker reports."""
    found = []
    for name, value in sorted(runtime.items()):
        parts = value.rsplit(",", 3)
        if name.startswith(_SLAVE) and name.removeprefix(_SLAVE).isdecimal() and len(parts) == 4:
            found.append(SlaveRow(parts[0], *(_number(one) or 0 for one in parts[1:])))
    return found


def following_of(runtime: Mapping[str, str]) -> FollowingRow | None:
    """
    Return the replication state that a slave reports; C{None} for a master, and for RocketMQ's slaves, which report
    none.
    """
    state = runtime.get("haState")
    if state is None:
        return None
    return FollowingRow(
        state,
        runtime.get("haReason", ""),
        _known(runtime, "haBehindBytes"),
        runtime.get("haMasterAddress") or None,
        _known(runtime, "haTablesCopiedMs"),
        runtime.get("haTablesReason", ""),
    )


def _known(runtime: Mapping[str, str], name: str) -> int | None:
    number = _number(runtime.get(name, ""))
    return None if number is None or number < 0 else number


def _number(text: str) -> int | None:
    try:
        return int(text)
    except ValueError:
        return None
