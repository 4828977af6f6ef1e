"""
Damaged regions of a master's log, and how its slave goes on behind them (docs/spec/reliability#S8).

Damaged bytes are copied as they are. For what the master's disk cannot read no bytes come: zeros stand for them here.
Either way the same region is damaged in both logs, and none delivers anything of it. What the slave had copied before
stays as it is.
"""

from __future__ import annotations

from typing import Final

from twisted.internet.task import deferLater
from twisted.logger import Logger

from smartgo.env.interfaces import IClock
from smartgo.errors import CallFailed
from smartgo.ha.interfaces import IMasterTail
from smartgo.store.replicatedlog import FoundDamage, IReplicatedLog

_log = Logger()
_WRITTEN: Final = 1 << 20  # zeros that are written before others have their turn: a region may be a whole file


async def expect_damage(log: IReplicatedLog, tail: IMasterTail, master: str) -> None:
    """
    Ask a master whether its log is damaged where ours ends: its bytes are taken as they are then.

    @param master: C{host:port} of its main port.
    @raise CallFailed: it cannot be asked.
    """
    end = log.log_bounds()[1]
    found = await _damage_at(tail, master, end)
    if found is not None:
        log.expect_damage(end, found.end)
        _log.warn(
            "the log of {master} is damaged from {offset} to {end}: its bytes are copied as they are, and not"
            " delivered", master=master, offset=found.offset, end=found.end,
        )  # fmt: skip


async def pass_unreadable(clock: IClock, log: IReplicatedLog, tail: IMasterTail, master: str) -> None:
    """
    Ask a master that sent nothing whether its disk cannot read what comes next; go on behind it if so.

    A record of which only a part came is removed first: what stands for the region begins where a record does.

    @raise smartgo.errors.SmartgoError: as L{IReplicatedLog.append_raw}.
    """
    try:
        end = log.log_bounds()[1]
        found = await _damage_at(tail, master, end)
        if found is None or not found.is_unreadable:
            return
        begin = log.drop_torn()
        if begin < found.offset:
            found = await _damage_at(tail, master, begin)
    except CallFailed:
        return  # why there is no stream is known
    if found is None or not found.is_unreadable:
        return
    log.expect_damage(begin, found.end)
    for at in range(begin, found.end, _WRITTEN):
        log.append_raw(at, bytes(min(_WRITTEN, found.end - at)))
        await deferLater(clock, 0.0)
    _log.warn(
        "{master} cannot read its log from {offset} to {end}: it is not delivered here either, from {begin} on",
        master=master, offset=found.offset, end=found.end, begin=begin,
    )  # fmt: skip


async def _damage_at(tail: IMasterTail, master: str, offset: int) -> FoundDamage | None:
    """Return the damaged region of a master's log that a physical offset lies in; C{None} for none."""
    answer = await tail.ask(master, offset, offset + 1, check=True)
    found = () if answer is None else answer.damaged
    return next((one for one in found if one.offset <= offset < one.end), None)
