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
from smartgo.ha.interfaces import IMasterTail, Tail
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


async def pass_unreadable(clock: IClock, log: IReplicatedLog, tail: IMasterTail, master: str) -> str:
    """
    Ask a master that sent nothing whether its disk cannot read what comes next; go on behind it if so.

    A record of which only a part came is removed first: what stands for the region begins where a record does.

    @return: the reason to wait, where the master cannot read that part and does not count it as damaged yet; else
        empty.
    @raise smartgo.errors.SmartgoError: as L{IReplicatedLog.append_raw}.
    """
    try:
        end = log.log_bounds()[1]
        answer = await tail.ask(master, end, end + 1, check=True)
        found = _damage_in(answer, end)
        if found is None and _is_unread(answer, end):
            return (
                f"the disk of {master} cannot read its log at {end}: a minute after the first error it counts that part"
                " as damaged, and we go on behind it"
            )
        if found is None or not found.is_unreadable:
            return ""
        begin = log.drop_torn()
        if begin < found.offset:
            found = await _damage_at(tail, master, begin)
    except CallFailed:
        return ""  # why there is no stream is known
    if found is None or not found.is_unreadable:
        return ""
    log.expect_damage(begin, found.end)
    for at in range(begin, found.end, _WRITTEN):
        log.append_raw(at, bytes(min(_WRITTEN, found.end - at)))
        await deferLater(clock, 0.0)
    _log.warn(
        "{master} cannot read its log from {offset} to {end}: it is not delivered here either, from {begin} on",
        master=master, offset=found.offset, end=found.end, begin=begin,
    )  # fmt: skip
    return ""


async def explain_doubt(tail: IMasterTail, master: str, offset: int) -> str:
    """
    Return why the end of our log cannot be compared with a master's, and the way out; empty for another reason.

    Nothing but the master's bytes tells whether a record that was not known to be durable is whole: there is no going
    on without them.

    @param offset: physical offset up to which it was compared.
    """
    try:
        answer = await tail.ask(master, offset, offset + 1, check=True)
    except CallFailed:
        return ""  # why there is no stream is known
    found = _damage_in(answer, offset)
    if not _is_unread(answer, offset) and (found is None or not found.is_unreadable):
        return ""
    return (
        f"the disk of {master} cannot read its log at {offset}, and as we were not stopped in order, ours has to be"
        " compared with it there: restart the master if its disk reads again; else stop both, and put the master's"
        " store right with ours (smartgo store repair --from)"
    )


async def _damage_at(tail: IMasterTail, master: str, offset: int) -> FoundDamage | None:
    """Return the damaged region of a master's log that a physical offset lies in; C{None} for none."""
    return _damage_in(await tail.ask(master, offset, offset + 1, check=True), offset)


def _damage_in(answer: Tail | None, offset: int) -> FoundDamage | None:
    found = () if answer is None else answer.damaged
    return next((one for one in found if one.offset <= offset < one.end), None)


def _is_unread(answer: Tail | None, offset: int) -> bool:
    """Tell whether a master has a byte of its log, and cannot say what it is."""
    return answer is not None and answer.minimum <= offset < answer.end and answer.crc is None
